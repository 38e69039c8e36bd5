"""The two forms: same optimum, reading and writing placements, the lemmas on the LP relaxation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

from formulations.rebalancing.balance.model import (
    Aim,
    BalanceModel,
    build_full,
    build_moves,
    candidate_moves,
)
from optim.errors import InvalidInput
from tests.formulations.rebalancing.balance.cases import random_problem, varied_problem
from tests.formulations.rebalancing.make import make_problem


def relaxed(built: BalanceModel) -> float:
    """Return the optimum of the LP relaxation, inf when it is infeasible."""
    arrays = built.model.freeze()
    result = milp(
        arrays.cost,
        constraints=LinearConstraint(arrays.matrix, arrays.row_lower, arrays.row_upper),
        bounds=Bounds(arrays.lower, arrays.upper),
    )
    return float(result.fun) + arrays.offset if result.success else np.inf


@given(st.integers(0, 100_000))
def test_forms_have_the_same_relaxation(seed: int) -> None:
    problem = varied_problem(seed)
    assert relaxed(build_moves(problem)) == pytest.approx(relaxed(build_full(problem)), abs=1e-6)


@given(st.integers(0, 100_000))
def test_no_move_into_leaving_nodes_pays_when_load_is_divisible(seed: int) -> None:
    """Lemma 1: the LP optimum is the same with and without moves from A to B."""
    rng = np.random.default_rng(seed)
    problem = random_problem(seed, 8, 5, leaving=np.arange(5) < rng.integers(1, 4))
    literal = replace(problem, into_leaving=True)
    assert relaxed(build_moves(literal)) == pytest.approx(relaxed(build_moves(problem)), abs=1e-6)


@given(st.integers(0, 100_000))
def test_least_distance_only_with_empty_leaving_nodes_when_load_is_divisible(seed: int) -> None:
    """Lemma 2, without a budget: d is least with B empty, and at that d nothing is left on B."""
    rng = np.random.default_rng(seed)
    leaving = np.arange(5) < rng.integers(1, 4)
    problem = random_problem(seed, 8, 5, leaving=leaving, max_moves=None, into_leaving=True)
    least = relaxed(build_full(problem))
    assert relaxed(build_full(problem, Aim(max_left=0.0))) == pytest.approx(least, abs=1e-6)
    left = relaxed(build_full(problem, Aim("left", max_distance=least + 1e-9)))
    assert left == pytest.approx(0.0, abs=1e-5)


@given(st.integers(0, 100_000))
def test_writes_and_reads_placements(seed: int) -> None:
    problem = varied_problem(seed)
    rng = np.random.default_rng(seed)
    placement = rng.integers(0, problem.num_nodes, problem.num_tasks)
    for build in (build_moves, build_full):
        built = build(problem)
        x = built.write(placement)
        if x is None:
            assert not problem.is_feasible(placement)
            continue
        np.testing.assert_array_equal(built.read(x), placement)
        assert built.model.objective_of(x) == pytest.approx(problem.levels(placement).distance)
        if problem.is_feasible(placement):
            assert built.model.violation(x) <= 1.1e-6


def test_moves_form_has_no_variable_for_staying_nor_for_what_is_not_allowed() -> None:
    allowed = [[True, True, False], [True, True, True]]
    problem = make_problem([1, 2], [0, 1], 3, allowed=allowed, leaving=[False, False, True])
    task, node = candidate_moves(problem)
    assert list(zip(task.tolist(), node.tolist(), strict=True)) == [(0, 1), (1, 0)]
    assert build_moves(problem).model.num_variables == 2 + 3
    assert build_full(problem).model.num_variables == 6 + 3


def test_refuses_absurd_sizes() -> None:
    problem = make_problem(np.ones(100_000), np.zeros(100_000, int), 1_000)
    with pytest.raises(InvalidInput, match="100000000 binaries"):
        build_full(problem)


def test_a_key_group_that_may_go_nowhere_makes_both_forms_infeasible() -> None:
    problem = make_problem([1, 2], [0, 1], 2, allowed=[[False, False], [True, True]])
    assert relaxed(build_moves(problem)) == np.inf
    assert relaxed(build_full(problem)) == np.inf
