"""Pruned moves and added rows take no placement away that is better than the known one."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from formulations.rebalancing.balance.model import Aim, build_moves, candidate_moves, prune_moves
from formulations.rebalancing.problem import BalanceProblem
from tests.formulations.rebalancing.balance.cases import random_problem, varied_problem


def placements_within(problem: BalanceProblem, distance: float) -> list[np.ndarray]:
    """Return every feasible placement with at most that load distance."""
    nodes = range(problem.num_nodes)
    choices = [[i for i in nodes if problem.may_be(k, i)] for k in range(problem.num_tasks)]
    found = []
    for combination in itertools.product(*choices):
        placement = np.array(combination, dtype=np.int64)
        if problem.levels(placement).distance <= distance and problem.is_feasible(placement):
            found.append(placement)
    return found


@given(st.integers(0, 100_000), st.floats(0.05, 1.0))
def test_no_placement_within_the_target_is_lost(seed: int, part: float) -> None:
    problem = varied_problem(seed, num_tasks=5, num_nodes=4)
    target = part * problem.levels(problem.home).distance
    pruned = prune_moves(problem, target, problem.home)
    if pruned is None:
        return
    left = set(zip(pruned.task.tolist(), pruned.node.tolist(), strict=True))
    for placement in placements_within(problem, target):
        assert not pruned.refuted
        moved = np.flatnonzero(placement != problem.home)
        assert {(int(k), int(placement[k])) for k in moved} <= left


@given(st.integers(0, 100_000), st.floats(0.05, 1.0))
def test_rows_hold_for_every_placement_within_the_cap(seed: int, part: float) -> None:
    problem = varied_problem(seed, num_tasks=5, num_nodes=4)
    cap = part * problem.levels(problem.home).distance
    built = build_moves(problem, Aim(max_distance=cap))
    for placement in placements_within(problem, cap):
        x = built.write(placement)
        assert x is not None
        assert built.model.violation(x) <= 1.1e-6


def test_a_tight_budget_leaves_few_moves() -> None:
    rng = np.random.default_rng(0)
    problem = random_problem(
        0, 60, 6, load=rng.uniform(1, 2, 60), home=np.repeat([0, 0, 1, 2, 3, 4], 10), max_moves=4
    )
    every = len(candidate_moves(problem)[0])
    pruned = prune_moves(problem, 8.0, problem.home)
    assert pruned is not None
    assert pruned.refuted or len(pruned.task) < every / 2
