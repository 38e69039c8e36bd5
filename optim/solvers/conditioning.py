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

from optim.solvers.linear_arrays import BOUND_SCALE, SMALLEST, TOLERANCE
from optim.solvers.row_reach import extremes, others

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optim.solvers.linear_arrays import LinearArrays

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
    row = np.repeat(np.arange(arrays.num_rows), np.diff(arrays.matrix.indptr))
    size = arrays.row_sizes
    if not ((size > LARGEST) | ((size > 0) & (size < SMALLEST))).any():
        return arrays
    asked = arrays
    for _ in range(_ROUNDS):
        lower, upper = _without_impossible(asked, size)
        asked = replace(asked, lower=lower, upper=upper)
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
        row_lower=arrays.row_lower * factor,
        row_upper=arrays.row_upper * factor,
    )


def _without_impossible(
    arrays: LinearArrays, size: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the bounds without the integers that a large row, with its tolerance, excludes.

    Bounds that cross are left to the solver, which then finds the model infeasible.
    """
    coo = arrays.matrix.tocoo()
    least, most = extremes(coo, arrays.lower, arrays.upper)
    slack = TOLERANCE * np.maximum(1.0, BOUND_SCALE * size)
    above = (arrays.row_upper + slack)[coo.row] - others(coo, least, arrays.num_rows)
    below = (arrays.row_lower - slack)[coo.row] + others(coo, -most, arrays.num_rows)
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
