"""How far the variables of a row can take it: what bounds can be read off rows with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import coo_array


def others(coo: coo_array, least: NDArray[np.float64], num_rows: int) -> NDArray[np.float64]:
    """For every entry: the sum of its row's `least` contributions without its own."""
    finite = np.isfinite(least)
    total = np.bincount(coo.row, np.where(finite, least, 0.0), num_rows)
    missing = np.bincount(coo.row, ~finite, num_rows)
    rest = total[coo.row] - np.where(finite, least, 0.0)
    return np.where(missing[coo.row] - ~finite > 0, -np.inf, rest)


def extremes(
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
