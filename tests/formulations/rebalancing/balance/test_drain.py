"""The start for ``drain=first``: feasible, emptied, balanced; against brute force."""

from __future__ import annotations

import numpy as np
import pytest

from formulations.rebalancing.balance.model import Settings
from formulations.rebalancing.balance.search import drained_start
from formulations.rebalancing.problem import confined_to_staying, ordered
from tests.formulations.rebalancing.balance.cases import brute_force, varied_problem
from tests.formulations.rebalancing.make import make_problem


def test_what_leaves_is_spread_and_not_dumped_on_one_node() -> None:
    home = [0, 0, 0, 0, 1, 2, 3, 4]
    load = [2.0] * 4 + [6.0] * 4
    problem = make_problem(load, home, 5, leaving=[True] + [False] * 4, max_moves=4)
    placement = drained_start(problem, Settings(), 40)
    assert placement is not None
    assert sorted(placement[:4].tolist()) == [1, 2, 3, 4]
    assert problem.levels(placement).distance == 0.0


@pytest.mark.slow
def test_is_nearly_always_the_optimum_of_small_problems() -> None:
    there, emptied, best = 0, 0, 0
    for seed in range(250):
        problem = varied_problem(seed, 6, 4)
        exact = brute_force(problem, drain_first=True) if problem.has_leaving else None
        if exact is None:
            continue
        there += 1
        placement = drained_start(problem, Settings(seed=seed), 40)
        if placement is None:
            continue
        assert problem.is_feasible(placement)
        found, least = ordered(problem.levels(placement), True), ordered(exact[0], True)
        assert found >= tuple(value - 1e-9 for value in least)
        emptied += found[0] <= least[0] + 1e-9
        best += found[0] <= least[0] + 1e-9 and found[1] <= least[1] + 1e-9
    assert there >= 60
    assert emptied >= 0.85 * there
    assert best >= 0.8 * there


def test_kept_off_keeps_the_other_allowed_sets() -> None:
    allowed = np.ones((4, 4), dtype=bool)
    allowed[0] = [True, False, True, False]
    allowed[3] = [True, True, False, True]
    problem = make_problem(
        [1.0] * 4, [0, 0, 1, 3], 4, leaving=[True, False, False, False], allowed=allowed
    )
    kept = confined_to_staying(problem, np.array([0, 1]))
    assert kept.may_be_rows(np.arange(4)).tolist() == [
        [False, False, True, False],
        [False, True, True, True],
        [False, True, True, True],
        [False, True, False, True],
    ]
    assert kept.must_move.tolist() == [True, True, False, False]
