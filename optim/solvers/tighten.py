"""Finite bounds for variables that have none, from the rows they stand in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optim.solvers.inprocess import solve_lp

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import coo_array

    from optim.linear_arrays import LinearArrays

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


def _others(coo: coo_array, least: NDArray[np.float64], num_rows: int) -> NDArray[np.float64]:
    """For every entry: the sum of its row's `least` contributions without its own."""
    finite = np.isfinite(least)
    total = np.bincount(coo.row, np.where(finite, least, 0.0), num_rows)
    missing = np.bincount(coo.row, ~finite, num_rows)
    rest = total[coo.row] - np.where(finite, least, 0.0)
    return np.where(missing[coo.row] - ~finite > 0, -np.inf, rest)


def _extremes(
    coo: coo_array, lower: NDArray[np.float64], upper: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Least and greatest contribution of every entry to its row."""
    with np.errstate(invalid="ignore"):
        at_lower, at_upper = coo.data * lower[coo.col], coo.data * upper[coo.col]
    at_lower, at_upper = (
        np.nan_to_num(at_lower, nan=0.0, posinf=np.inf, neginf=-np.inf),
        (np.nan_to_num(at_upper, nan=0.0, posinf=np.inf, neginf=-np.inf)),
    )
    positive = coo.data > 0
    return np.where(positive, at_lower, at_upper), np.where(positive, at_upper, at_lower)


def _by_rows(
    arrays: LinearArrays,
    coo: coo_array,
    lower: NDArray[np.float64],
    upper: NDArray[np.float64],
) -> None:
    """Give infinite bounds the value their rows imply."""
    least, most = _extremes(coo, lower, upper)
    room_above = arrays.row_upper[coo.row] - _others(coo, least, arrays.num_rows)
    room_below = arrays.row_lower[coo.row] + _others(coo, -most, arrays.num_rows)
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
    """Bound variables that cost something in one direction and only help rows in it."""
    cost = arrays.cost if arrays.sense == "min" else -arrays.cost
    least, most = _extremes(coo, lower, upper)
    has_upper = np.isfinite(arrays.row_upper)[coo.row]
    has_lower = np.isfinite(arrays.row_lower)[coo.row]
    positive, negative = coo.data > 0, coo.data < 0
    hurt_by_up = _any(coo, (positive & has_upper) | (negative & has_lower), len(cost))
    hurt_by_down = _any(coo, (positive & has_lower) | (negative & has_upper), len(cost))
    # the value at which a row is satisfied whatever its other variables do
    most_others = -_others(coo, -most, arrays.num_rows)
    least_others = _others(coo, least, arrays.num_rows)
    with np.errstate(divide="ignore", invalid="ignore"):
        satisfied = np.where(
            has_lower,
            (arrays.row_lower[coo.row] - least_others) / coo.data,
            (arrays.row_upper[coo.row] - most_others) / coo.data,
        )
    satisfied = np.where(np.isnan(satisfied), np.inf, satisfied)
    need_up = np.full(len(cost), -np.inf)
    np.maximum.at(need_up, coo.col, np.where(coo.data != 0, satisfied, -np.inf))
    upward = ~hurt_by_up & (cost >= 0) & np.isposinf(upper) & np.isfinite(lower)
    found = upward & (need_up < np.inf)
    upper[found] = np.maximum(lower[found], _wider(need_up[found], +1.0))
    need_down = np.full(len(cost), np.inf)
    np.minimum.at(need_down, coo.col, np.where(coo.data != 0, _negated(satisfied), np.inf))
    downward = ~hurt_by_down & (cost <= 0) & np.isneginf(lower) & np.isfinite(upper)
    found = downward & (need_down > -np.inf)
    lower[found] = np.minimum(upper[found], _wider(need_down[found], -1.0))


def _negated(satisfied: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(np.isposinf(satisfied), -np.inf, satisfied)


def _any(coo: coo_array, flags: NDArray[np.bool_], num: int) -> NDArray[np.bool_]:
    return np.bincount(coo.col, flags, num) > 0


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
