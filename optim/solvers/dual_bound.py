"""What the duals of an LP prove by themselves, whatever the tolerances that they were found with.

For any weights of its rows, what they leave of the cost, taken at the better end of each variable,
bounds the optimum (Neumaier, Shcherbina 2004, doi:10.1007/s10107-003-0433-3): nothing of the solver
is trusted, and where its duals are exact the bound is, up to the rounding of the sums here.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Rounding of one operation, with room for what is rounded twice.
_EPSILON = 2.0**-51


def dual_bound(
    cost: NDArray[np.float64],
    matrix: Any,
    row_lower: NDArray[np.float64],
    row_upper: NDArray[np.float64],
    lower: NDArray[np.float64],
    upper: NDArray[np.float64],
    row_duals: NDArray[np.float64],
) -> float:
    """Return a proven lower bound on ``cost @ x``; the arguments are those of `solve_lp`.

    Parameters
    ----------
    row_duals
        Any numbers, shape (rows,); the LP's duals make the bound tight.

    Returns
    -------
    float
        ``-inf`` where a variable without a bound on that side decides.
    """
    # a weight that leans on a bound which is not there proves nothing: without it
    side = np.where(row_duals > 0, row_lower, row_upper)
    weight = np.where(np.isfinite(side), row_duals, 0.0)
    rest = cost - matrix.T @ weight
    doubt = abs(matrix).T @ np.abs(weight) + np.abs(cost)  # what `rest` may be off by, in roundings
    steps = np.diff(matrix.tocsc().indptr) + 2
    off = _EPSILON * steps * doubt
    least = np.minimum(_times(rest - off, lower, upper), _times(rest + off, lower, upper))
    terms = np.concatenate([weight * np.where(weight == 0.0, 0.0, side), least])
    if not np.isfinite(terms).all():
        return -math.inf
    return math.fsum(terms) - _EPSILON * math.fsum(np.abs(terms))


def _times(
    rest: NDArray[np.float64], lower: NDArray[np.float64], upper: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the least ``rest * x`` of each variable within its bounds."""
    best = np.where(rest > 0, lower, upper)
    # nothing left of the cost: 0, where the variable is bounded at all
    return np.where(rest == 0.0, 0.0, rest * np.where(rest == 0.0, 0.0, best))
