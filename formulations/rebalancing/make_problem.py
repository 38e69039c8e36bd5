"""Build a `BalanceProblem` from loose arrays, the rest by default."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from formulations.rebalancing.problem import BalanceProblem
from optim.errors import InvalidInput, Problem
from optim.kernels.room import placing_slack

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from formulations.rebalancing.problem import Floats, Ints
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

    Parameters
    ----------
    load, home, num_nodes
        Key groups and how many nodes there are.
    cost, weight
        1 each by default.
    leaving, background
        None and 0 by default.
    usage, headroom, floor
        (T, E), (N, E), (N, E); no resource binds by default. The tolerance is added here.
    allowed
        (T, N) bool, all true by default.
    max_moves, max_cost, max_distance, into_leaving, counted
        As in `BalanceProblem`.

    Raises
    ------
    InvalidInput
        Every node is leaving, or a key group has no home.
    """
    loads = np.asarray(load, dtype=np.float64)
    homes = np.asarray(home, dtype=np.int64)
    t, n = len(loads), num_nodes
    uses = np.zeros((t, 0)) if usage is None else np.asarray(usage, np.float64).reshape(t, -1)
    e = uses.shape[1]
    most, least = _filled(headroom, math.inf, (n, e)), _filled(floor, 0.0, (n, e))
    restricted, indptr, nodes = _compressed(allowed, t)
    problem = BalanceProblem(
        load=loads,
        cost=_filled(cost, 1.0, (t,)),
        home=homes,
        weight=_filled(weight, 1.0, (n,)),
        leaving=np.zeros(n, np.bool_) if leaving is None else np.asarray(leaving, np.bool_),
        background=_filled(background, 0.0, (n,)),
        max_moves=max_moves,
        max_cost=max_cost,
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


def check(problem: BalanceProblem) -> None:
    """Refuse what no rebalancing is defined for.

    Raises
    ------
    InvalidInput
        Every node is leaving, or a key group has no home.
    """
    if not len(problem.staying):
        raise InvalidInput(
            Problem("nodes", None, "are all leaving", "keep at least one node: the mean needs it")
        )
    homeless = np.flatnonzero((problem.home < 0) | (problem.home >= problem.num_nodes))
    if len(homeless):
        task = int(homeless[0])
        raise InvalidInput(Problem(f"tasks[{task}].node", None, "is missing", "give its node"))


def _filled(value: ArrayLike | None, default: float, shape: tuple[int, ...]) -> Floats:
    if value is None:
        return np.full(shape, default)
    return np.broadcast_to(np.asarray(value, np.float64), shape).copy()


def _compressed(allowed: ArrayLike | None, num_tasks: int) -> tuple[Ints, Ints, Ints]:
    """Return the rows of a bool matrix that forbid something, compressed."""
    if allowed is None or num_tasks == 0:
        return np.zeros(0, np.int64), np.zeros(1, np.int64), np.zeros(0, np.int64)
    mask = np.asarray(allowed, dtype=np.bool_)
    restricted = np.flatnonzero(~mask.all(axis=1))
    counts = mask[restricted].sum(axis=1)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return restricted, indptr, np.nonzero(mask[restricted])[1].astype(np.int64)
