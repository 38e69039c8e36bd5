"""The counting bound and resources beside the balanced one: by hand, and below every optimum."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from formulations.rebalancing.bound import forced_moves_bound
from formulations.rebalancing.problem import BalanceProblem
from tests.formulations.rebalancing.balance.cases import (
    awkward_problem,
    brute_force,
    budgeted,
    varied_problem,
)
from tests.formulations.rebalancing.make import make_problem

if TYPE_CHECKING:
    from collections.abc import Callable


def bound_is_kept(make: Callable[..., BalanceProblem], seed: int) -> tuple[float, float] | None:
    """Check the bound on a problem of three resources; return the bound without them, and with."""
    problem = _with_resources(make(seed, num_tasks=5, num_nodes=4), seed)
    best = brute_force(problem)
    if best is None:
        return None
    bound = forced_moves_bound(problem)
    assert bound <= best[0].distance + 1e-9 * max(1.0, problem.mean), seed
    return forced_moves_bound(replace(problem, usage=np.zeros((5, 0)))), bound


def _with_resources(problem: BalanceProblem, seed: int) -> BalanceProblem:
    """Give a problem three resources, little room on some nodes, and usage in odd units."""
    rng = np.random.default_rng([seed, 13])
    unit = float(rng.choice([1e-6, 1.0, 1e6])) / float(rng.choice([1, 3, 10]))
    usage = (rng.integers(0, 5, (5, 3)) * unit).astype(np.float64)
    spare = rng.integers(-2, 8, (problem.num_nodes, 3)) * unit
    held = np.zeros((problem.num_nodes, 3))
    np.add.at(held, problem.home, usage)
    tight = rng.random((problem.num_nodes, 3)) < 0.6
    headroom = np.where(tight, np.maximum(0.0, held + spare), np.inf) * (1 + 1e-9)
    return replace(problem, usage=usage, headroom=headroom, floor=np.zeros_like(headroom))


@pytest.mark.parametrize("make", [varied_problem, awkward_problem])
def test_below_every_optimum(make: Callable[..., BalanceProblem]) -> None:
    told = [found for seed in range(12) if (found := bound_is_kept(make, seed)) is not None]
    assert told


@pytest.mark.slow
@pytest.mark.parametrize("make", [varied_problem, awkward_problem])
def test_below_thousands_of_optima_and_above_the_bound_that_reads_one_resource(
    make: Callable[..., BalanceProblem],
) -> None:
    told = [found for seed in range(2_000) if (found := bound_is_kept(make, seed)) is not None]
    assert all(with_all >= alone - 1e-4 * max(1.0, alone) for alone, with_all in told)
    assert sum(with_all > alone + 1e-3 for alone, with_all in told) > len(told) / 20


def test_full_memory_lets_no_load_in_by_hand() -> None:
    """Loads 6 and 0: node 1 has memory for one key group of load 1, so it ends 2 below its 3."""
    problem = make_problem(
        [1.0] * 6, [0] * 6, 2, usage=[[1.0]] * 6, headroom=[[9.0], [1.0]], max_moves=6
    )
    assert forced_moves_bound(problem) == pytest.approx(2.0, abs=1e-4)
    assert forced_moves_bound(budgeted(problem)) == pytest.approx(2.0, abs=1e-4)


def test_an_overfull_memory_spends_the_budget_by_hand() -> None:
    """Loads 4, 6, 2: node 0 must lose two for its memory, which leaves none for node 1."""
    usage = [[1.0]] * 4 + [[0.0]] * 8
    problem = make_problem(
        [1.0] * 12, [0] * 4 + [1] * 6 + [2] * 2, 3, usage=usage,
        headroom=[[2.0], [9.0], [9.0]], max_moves=2,
    )  # fmt: skip
    assert forced_moves_bound(problem) == pytest.approx(2.0, abs=1e-4)
    assert forced_moves_bound(replace(problem, usage=np.zeros((12, 0)))) < 0.1
