"""Rebalancing problems from a few arrays."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from formulations.rebalancing.problem import BalanceProblem, check, compressed
from optim.kernels.place_rules import placing_slack
from optim.rules.budget import Budget

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from formulations.rebalancing.problem import Floats
    from optim.kernels.place_rules import PlaceRules


def make_problem(
    load: ArrayLike,
    home: ArrayLike,
    num_nodes: int,
    *,
    cost: ArrayLike | None = None,
    weight: ArrayLike | None = None,
    leaving: ArrayLike | None = None,
    background: ArrayLike | None = None,
    usage: ArrayLike | None = None,
    headroom: ArrayLike | None = None,
    floor: ArrayLike | None = None,
    allowed: ArrayLike | None = None,
    max_moves: int | None = None,
    max_cost: float | None = None,
    max_distance: float | None = None,
    into_leaving: bool = False,
    counted: PlaceRules | None = None,
) -> BalanceProblem:
    """Build a problem from what is given, the rest by default.

    `load`, `home`, `num_nodes`: key groups and how many nodes there are.
    `cost`, `weight`: 1 each by default.
    `leaving`, `background`: None and 0 by default.
    `usage`, `headroom`, `floor`: (T, E), (N, E), (N, E); no resource binds by default. The
        tolerance is added here.
    `allowed`: (T, N) bool, all true by default.
    `max_moves`, `max_cost`: budgets of moves and of their cost; ``None`` for none.
    Raises `InvalidInput`: every node is leaving, or a key group has no home.
    """
    loads = np.asarray(load, dtype=np.float64)
    homes = np.asarray(home, dtype=np.int64)
    t, n = len(loads), num_nodes
    uses = np.zeros((t, 0)) if usage is None else np.asarray(usage, np.float64).reshape(t, -1)
    e = uses.shape[1]
    most, least = _filled(headroom, math.inf, (n, e)), _filled(floor, 0.0, (n, e))
    mask = np.ones((t, 0), np.bool_) if allowed is None else np.asarray(allowed, dtype=np.bool_)
    rows = np.flatnonzero(~mask.all(axis=1)).tolist()
    restricted, indptr, nodes = compressed({task: np.flatnonzero(mask[task]) for task in rows})
    costs = _filled(cost, 1.0, (t,))
    problem = BalanceProblem(
        load=loads,
        cost=costs,
        home=homes,
        weight=_filled(weight, 1.0, (n,)),
        leaving=np.zeros(n, np.bool_) if leaving is None else np.asarray(leaving, np.bool_),
        background=_filled(background, 0.0, (n,)),
        budgets=budgets_of(costs, max_moves, max_cost),
        max_distance=max_distance,
        usage=uses,
        headroom=most + placing_slack(most),
        floor=np.maximum(0.0, least - placing_slack(least)),
        restricted=restricted,
        allowed_indptr=indptr,
        allowed_nodes=nodes,
        into_leaving=into_leaving,
        counted=counted,
    )
    check(problem)
    return problem


def budgets_of(cost: Floats, max_moves: int | None, max_cost: float | None) -> tuple[Budget, ...]:
    """Return the budgets of moves, and of a cost of them, that are not ``None``."""
    found = []
    if max_moves is not None:
        found.append(Budget("moves", np.ones(len(cost)), max_moves, integral=True))
    if max_cost is not None:
        found.append(Budget("cost", cost, max_cost))
    return tuple(found)


def _filled(value: ArrayLike | None, default: float, shape: tuple[int, ...]) -> Floats:
    if value is None:
        return np.full(shape, default)
    return np.broadcast_to(np.asarray(value, np.float64), shape).copy()
