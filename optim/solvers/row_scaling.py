"""Rows brought into the range of numbers that floating-point solvers keep tolerances in.

A solver lets a row be overstepped by some 1e-7, whatever its numbers. On loads of 1e9 that is less
than the rounding of a sum: optima and feasible plans get lost. Such rows are divided by a power of
two, which changes no digit, and rows of numbers that are all small, which are less than that
tolerance, multiplied by one; all other rows stay as they are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from optim.solvers.linear_model import BOUND_SCALE, SMALLEST, TOLERANCE

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import coo_array

    from optim.solvers.linear_model import LinearArrays

#: Largest number of a row after the division. A solver's tolerance on it, 1e-6 at most, is then the
#: billionth that our check and the referee allow.
LARGEST = 1e3

#: What a row excludes no longer counts for its tolerance, which may exclude more.
_ROUNDS = 2


def conditioned(arrays: LinearArrays) -> LinearArrays:
    """Return the model with its rows of large, or small, numbers times powers of two.

    Variables, objective and solutions are the same. Integers which alone would overstep such a row
    get tighter bounds, and do not count for its size: a load of 1e9 that fits nowhere near a room
    of 5 must not make the room a matter of tolerances.
    """
    size = arrays.row_sizes
    if not ((size > LARGEST) | ((size > 0) & (size < SMALLEST))).any():
        return arrays
    row = np.repeat(np.arange(arrays.num_rows), np.diff(arrays.matrix.indptr))
    asked = _without_idle(without_impossible(arrays))
    size = asked.row_sizes
    divided, small = size > LARGEST, (size > 0) & (size < SMALLEST)
    factor = np.ones(arrays.num_rows)
    factor[divided] = 2.0 ** -np.ceil(np.log2(size[divided] / LARGEST))
    factor[small] = 2.0 ** -np.floor(np.log2(size[small]))
    matrix = arrays.matrix.copy()
    matrix.data = matrix.data * factor[row]
    return replace(
        asked,
        matrix=matrix,
        row_lower=asked.row_lower * factor,
        row_upper=asked.row_upper * factor,
    )


def without_impossible(arrays: LinearArrays) -> LinearArrays:
    """Return the model with tighter bounds of integers that alone overstep a row of large numbers.

    Bounds that cross are left to the solver, which then finds the model infeasible.
    """
    for _ in range(_ROUNDS):
        lower, upper = _possible(arrays, arrays.row_sizes)
        arrays = replace(arrays, lower=lower, upper=upper)
    return arrays


def _without_idle(arrays: LinearArrays) -> LinearArrays:
    """Return the model without bounds of large rows that nothing oversteps by more than rounding.

    CBC calls models infeasible that have ``1.46e9 x + 0.0015 y <= 1.46e9``.
    """
    coo = arrays.matrix.tocoo()
    large = arrays.row_sizes > LARGEST
    least, most = _extremes(coo, arrays.lower, arrays.upper)
    bounds = []
    for sign, bound, part in ((1.0, arrays.row_upper, most), (-1.0, -arrays.row_lower, -least)):
        reach = np.bincount(coo.row, part, arrays.num_rows)
        grant = TOLERANCE * np.maximum(1.0, BOUND_SCALE * np.abs(bound))
        bounds.append(sign * np.where(large & (reach <= bound + grant / 2), np.inf, bound))
    return replace(arrays, row_upper=bounds[0], row_lower=bounds[1])


def _possible(
    arrays: LinearArrays, size: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the bounds without the integers that a large row, with its tolerance, excludes."""
    coo = arrays.matrix.tocoo()
    least, most = _extremes(coo, arrays.lower, arrays.upper)
    slack = TOLERANCE * np.maximum(1.0, BOUND_SCALE * size)
    above = (arrays.row_upper + slack)[coo.row] - _others(coo, least, arrays.num_rows)
    below = (arrays.row_lower - slack)[coo.row] + _others(coo, -most, arrays.num_rows)
    used = (size > LARGEST)[coo.row] & (coo.data != 0) & arrays.integrality[coo.col]
    with np.errstate(divide="ignore", invalid="ignore"):
        above, below = above / coo.data, below / coo.data
    high = np.where(coo.data > 0, above, below)
    low = np.where(coo.data > 0, below, above)
    lower, upper = arrays.lower.copy(), arrays.upper.copy()
    kept = used & np.isfinite(high)
    np.minimum.at(upper, coo.col[kept], np.floor(high[kept] + 1e-9))
    kept = used & np.isfinite(low)
    np.maximum.at(lower, coo.col[kept], np.ceil(low[kept] - 1e-9))
    crossed = lower > upper
    lower[crossed], upper[crossed] = arrays.lower[crossed], arrays.upper[crossed]
    return lower, upper


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
