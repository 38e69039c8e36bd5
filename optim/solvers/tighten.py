"""Finite bounds for variables that have none, from the rows they stand in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optim.solvers.inprocess import solve_lp
from optim.solvers.row_reach import extremes, others

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import coo_array

    from optim.solvers.linear_arrays import LinearArrays

_ROUNDS = 4
_MAX_PROGRAMS = 50
_ROOM = 1e-6  # derived bounds are kept a little wide: they come from floating-point sums


def tightened(arrays: LinearArrays) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return bounds that some optimal solution keeps, finite wherever that can be shown.

    Three arguments are used: a row bounds a variable when all its other variables are bounded
    (every feasible solution keeps this), a variable that only costs needs to go no further than the
    most demanding of its rows (some optimal solution keeps this), and the linear relaxation bounds
    a variable (asked for a few variables only).
    """
    lower, upper = arrays.lower.copy(), arrays.upper.copy()
    if np.isfinite(lower).all() and np.isfinite(upper).all():
        return lower, upper
    coo = arrays.matrix.tocoo()
    for _ in range(_ROUNDS):
        before = int(np.isfinite(lower).sum() + np.isfinite(upper).sum())
        _by_rows(arrays, coo, lower, upper)
        _by_need(arrays, coo, lower, upper)
        if int(np.isfinite(lower).sum() + np.isfinite(upper).sum()) == before:
            break
    _by_linear_program(arrays, lower, upper)
    whole = arrays.integrality
    lower[whole], upper[whole] = np.ceil(lower[whole]), np.floor(upper[whole])
    return lower, upper


def _by_linear_program(
    arrays: LinearArrays, lower: NDArray[np.float64], upper: NDArray[np.float64]
) -> None:
    """Minimise and maximise the few variables still without bounds over the relaxation."""
    missing = np.flatnonzero(~(np.isfinite(lower) & np.isfinite(upper)))
    if missing.size > _MAX_PROGRAMS:
        return
    for j in missing.tolist():
        for bounds, sign in ((lower, 1.0), (upper, -1.0)):
            if np.isfinite(bounds[j]):
                continue
            cost = np.zeros(arrays.num_variables)
            cost[j] = sign
            answer = solve_lp(cost, arrays.matrix, arrays.row_lower, arrays.row_upper, lower, upper)
            if answer.objective is not None:
                bounds[j] = sign * answer.objective - sign * _ROOM * max(1.0, abs(answer.objective))


def _by_rows(
    arrays: LinearArrays,
    coo: coo_array,
    lower: NDArray[np.float64],
    upper: NDArray[np.float64],
) -> None:
    """Give infinite bounds the value their rows imply."""
    least, most = extremes(coo, lower, upper)
    room_above = arrays.row_upper[coo.row] - others(coo, least, arrays.num_rows)
    room_below = arrays.row_lower[coo.row] + others(coo, -most, arrays.num_rows)
    used = coo.data != 0
    with np.errstate(divide="ignore", invalid="ignore"):
        from_above, from_below = room_above / coo.data, room_below / coo.data
    high = np.where(coo.data > 0, from_above, from_below)
    low = np.where(coo.data > 0, from_below, from_above)
    _lower_uppers(coo, upper, np.where(used & np.isfinite(high), high, np.inf))
    _raise_lowers(coo, lower, np.where(used & np.isfinite(low), low, -np.inf))


def _by_need(
    arrays: LinearArrays,
    coo: coo_array,
    lower: NDArray[np.float64],
    upper: NDArray[np.float64],
) -> None:
    """Bound variables that gain nothing by going further than their rows can ever need.

    If growing does not pay, a value above the need of all rows that growing helps can be lowered
    to that need: these rows stay satisfied whatever their other variables do, the other rows and
    the objective do not get worse. The same downwards.
    """
    cost = arrays.cost if arrays.sense == "min" else -arrays.cost
    least, most = extremes(coo, lower, upper)
    with np.errstate(divide="ignore", invalid="ignore"):
        above_lower = (arrays.row_lower[coo.row] - others(coo, least, arrays.num_rows)) / coo.data
        below_upper = (arrays.row_upper[coo.row] + others(coo, -most, arrays.num_rows)) / coo.data
    has_lower = np.isfinite(arrays.row_lower)[coo.row]
    has_upper = np.isfinite(arrays.row_upper)[coo.row]
    for sign, bounds, start in ((1.0, upper, lower), (-1.0, lower, upper)):
        along = sign * coo.data
        need = np.full(len(cost), -np.inf)
        helped = (along > 0) & has_lower
        np.maximum.at(need, coo.col[helped], sign * above_lower[helped])
        helped = (along < 0) & has_upper
        np.maximum.at(need, coo.col[helped], sign * below_upper[helped])
        found = (sign * cost >= 0) & np.isinf(bounds) & np.isfinite(start) & (need < np.inf)
        far = np.maximum(sign * start[found], need[found])
        far = np.where(arrays.integrality[found], np.ceil(far - 1e-9), far)
        bounds[found] = _wider(sign * far, sign)


def _wider(value: NDArray[np.float64], sign: float) -> NDArray[np.float64]:
    return value + sign * _ROOM * np.maximum(1.0, np.abs(value))


def _lower_uppers(coo: coo_array, upper: NDArray[np.float64], implied: NDArray[np.float64]) -> None:
    best = np.full(len(upper), np.inf)
    np.minimum.at(best, coo.col, implied)
    found = np.isposinf(upper) & (best < np.inf)
    upper[found] = _wider(best[found], +1.0)


def _raise_lowers(coo: coo_array, lower: NDArray[np.float64], implied: NDArray[np.float64]) -> None:
    best = np.full(len(lower), -np.inf)
    np.maximum.at(best, coo.col, implied)
    found = np.isneginf(lower) & (best > -np.inf)
    lower[found] = _wider(best[found], -1.0)
