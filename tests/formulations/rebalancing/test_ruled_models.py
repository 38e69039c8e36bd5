"""Models and bounds of both problems under every mix of rules, against all placements."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from formulations.rebalancing.balance.model import build_full, build_moves
from formulations.rebalancing.bound import forced_moves_bound
from formulations.rebalancing.joint.problem import (
    all_places,
    build_joint,
    collocation_bound,
    columns_of,
    joint_problem,
)
from formulations.rebalancing.problem import balance_problem
from optim.solvers.inprocess import solve_small_milp
from optim.solvers.linear_model import LinearModel
from tests.formulations.rebalancing.ruled_cases import ruled_case


def check_models(seed: int) -> None:
    """Compare optima of the three models, and two bounds, with brute force."""
    instance = ruled_case(seed)
    problem, joint = balance_problem(instance), joint_problem(instance)
    every = itertools.product(range(problem.num_nodes), repeat=problem.num_tasks)
    plans = [p for p in map(np.array, every) if problem.is_feasible(p)]
    least = min((problem.levels(p).distance for p in plans), default=None)
    most = max((joint.collocated(p) for p in plans), default=None)
    for build in (build_moves, build_full):
        _check(build(problem).model, least)
    _check(build_joint(joint, columns_of(joint, all_places(problem))).model, most)
    if least is not None:
        assert forced_moves_bound(problem) <= least + 1e-9
    if most is not None:
        assert collocation_bound(joint) >= most - 1e-9


def _check(model: LinearModel, best: float | None) -> None:
    answer = solve_small_milp(model)
    if answer.termination == "error":  # HiGHS gives up now and then, which proves nothing
        return
    if best is None:
        assert answer.termination == "infeasible"
    else:
        assert answer.objective == pytest.approx(best, abs=1e-5)


@pytest.mark.parametrize("part", range(6))
def test_models_and_bounds_equal_brute_force(part: int) -> None:
    for seed in range(1000 + 15 * part, 1015 + 15 * part):
        check_models(seed)
