"""What bounds of a rebalancing ask of its loads: their unit, what sums err by, what may move."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from formulations.rebalancing.problem import BalanceProblem, Bools, Floats

FINEST = 1e-7  # Units finer than this share of the mean are no lattice worth the name.

#: Least relative allowance with which sums are compared, always in favour of the plan.
ROUNDING = 1e-11

EPSILON = float(np.finfo(np.float64).eps)


def load_allowance(problem: BalanceProblem) -> float:
    """Return more than any sum or difference of sums of loads can err by, in whatever order.

    Adding T numbers errs by at most T times half the distance of 1 to the next number, relative
    to the sum of all; what is compared is made of a few such sums.
    """
    total = float(problem.load.sum() + problem.background.sum())
    return rounding(problem) * max(1.0, total)


def rounding(problem: BalanceProblem) -> float:
    """Return what sums over key groups and nodes can err by, relative to the sum of all."""
    return ROUNDING + 4.0 * (problem.num_tasks + problem.num_nodes) * EPSILON


def movable_key_groups(problem: BalanceProblem) -> Bools:
    """(T,) whether a key group may leave its home at all."""
    movable = np.ones(problem.num_tasks, dtype=np.bool_)
    for task, nodes in problem.allowed.items():
        movable[task] = bool((nodes != problem.home[task]).any())
    return movable


def common_unit(load: Floats, decimals: int = 9) -> float | None:
    """Return the greatest number all loads are multiples of; ``None`` where it is too fine to help.

    Loads with more than `decimals` decimals have none.
    """
    if not len(load) or not np.isfinite(load).all():
        return None
    top = float(load.max())
    # the fewest decimals with which all loads are whole numbers; their greatest common divisor
    for power in range(decimals + 1):
        scaled = load * 10.0**power
        whole = np.round(scaled)
        if top * 10.0**power > 2.0**50:
            return None
        if np.all(np.abs(scaled - whole) <= 1e-9 * np.maximum(1.0, whole) * 1e-3 + 1e-12):
            divisor = int(np.gcd.reduce(whole.astype(np.int64)))
            unit = divisor / 10.0**power
            return unit if divisor > 0 and unit >= FINEST * top else None
    return None
