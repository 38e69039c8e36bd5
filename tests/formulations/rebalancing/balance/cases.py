"""Small rebalancing problems, and brute force as their judge."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.rebalancing.problem import lexicographically_less, ordered
from tests.formulations.rebalancing.make import budgets_of, make_problem

if TYPE_CHECKING:
    from formulations.rebalancing.problem import BalanceProblem, Levels


def budgeted(
    problem: BalanceProblem, moves: int | None = None, cost: float | None = None
) -> BalanceProblem:
    """Return the problem with these budgets and no others."""
    return replace(problem, budgets=budgets_of(problem.cost, moves, cost))


def random_problem(seed: int, num_tasks: int = 6, num_nodes: int = 5, **given: Any) -> Any:
    """Return a random problem; what is given replaces the drawn defaults."""
    rng = np.random.default_rng(seed)
    fields: dict[str, Any] = {
        "load": rng.integers(1, 20, num_tasks) / 2,
        "home": rng.integers(0, num_nodes, num_tasks),
        "num_nodes": num_nodes,
        "max_moves": int(rng.integers(0, num_tasks + 1)),
    }
    return make_problem(**{**fields, **given})


def varied_problem(seed: int, num_tasks: int = 6, num_nodes: int = 5) -> BalanceProblem:
    """Return a random problem with a random choice of every feature at once."""
    rng = np.random.default_rng([seed, 7])
    t, n = num_tasks, num_nodes
    fields: dict[str, Any] = {}
    if rng.random() < 0.5:
        fields["weight"] = rng.choice([0.5, 1.0, 1.5, 2.0], n)
    if rng.random() < 0.5:
        fields["leaving"] = np.arange(n) < rng.integers(1, n - 1)
    if rng.random() < 0.5:
        fields["background"] = rng.integers(0, 6, n).astype(float)
    if rng.random() < 0.5:
        fields["cost"] = rng.integers(1, 9, t) / 2
        fields["max_cost"] = float(rng.integers(0, 12))
    if rng.random() < 0.5:
        fields["usage"] = rng.integers(0, 6, (t, 2)).astype(float)
        fields["headroom"] = np.where(rng.random((n, 2)) < 0.7, rng.integers(4, 12, (n, 2)), np.inf)
        if rng.random() < 0.3:
            fields["floor"] = np.where(rng.random((n, 2)) < 0.2, 1.0, 0.0)
    if rng.random() < 0.4:
        fields["allowed"] = rng.random((t, n)) < 0.7
    if rng.random() < 0.2:
        fields["max_moves"] = None
    if rng.random() < 0.2:
        fields["max_distance"] = float(rng.integers(2, 9))
    if rng.random() < 0.3:
        fields["into_leaving"] = True
    return random_problem(seed, t, n, **fields)


def awkward_problem(seed: int, num_tasks: int = 6, num_nodes: int = 5) -> BalanceProblem:
    """Return a varied problem whose sums of loads depend on their order, in large or small units.

    Halves, which `varied_problem` draws, add up exactly; thirds, tenths and the like do not.
    """
    rng = np.random.default_rng([seed, 11])
    problem = varied_problem(seed, num_tasks, num_nodes)
    unit = float(rng.choice([1e-3, 1.0, 1e6]))
    load = [
        rng.random(num_tasks) * 5,
        np.round(rng.random(num_tasks) * 3, 1),
        rng.choice([0.1, 0.3, 0.7], num_tasks),
        rng.integers(1, 9, num_tasks) / 3,
    ][rng.integers(4)]
    many = rng.random() < 0.5
    return replace(
        problem,
        load=load * unit,
        background=problem.background * unit,
        max_distance=None if problem.max_distance is None else problem.max_distance * unit,
        budgets=tuple(
            b._replace(limit=num_tasks) if many and b.integral else b for b in problem.budgets
        ),
    )


def brute_force(
    problem: BalanceProblem, drain_first: bool = False
) -> tuple[Levels, np.ndarray] | None:
    """Return the lexicographic optimum over all placements; ``None`` when none is feasible."""
    nodes = range(problem.num_nodes)
    choices = [[i for i in nodes if problem.may_be(k, i)] for k in range(problem.num_tasks)]
    best: tuple[Levels, np.ndarray] | None = None
    for combination in itertools.product(*choices):
        placement = np.array(combination, dtype=np.int64)
        if (problem.spent(placement) > problem.budget).any():
            continue
        levels = problem.levels(placement)
        if best is not None and not lexicographically_less(
            ordered(levels, drain_first), ordered(best[0], drain_first), problem.same
        ):
            continue
        if problem.is_feasible(placement):
            best = (levels, placement)
    return best
