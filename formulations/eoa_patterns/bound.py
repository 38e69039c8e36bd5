"""A bound from the duals of the pattern form's relaxation, counted anew, and what it excludes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from formulations.eoa_patterns.columns import Columns
    from optim.linear_arrays import LinearArrays
    from optim.tables import Floats


def lagrangian_bound(arrays: LinearArrays, columns: Columns, duals: Floats) -> tuple[float, Floats]:
    """Bound the whole model by any duals, and tell what a column costs above it.

    Every node of a class takes exactly one column, so for any duals y of the right sign
    Σ_p c_p λ_p ≥ y·b + Σ_k n_k · min_(p of k) (c_p − y·a_p) + Σ_w min(0, −y·a_w); a solver's
    tolerance in the duals cannot make this wrong.

    Returns
    -------
    tuple
        The bound, offset included; (P,) by how much any solution that uses a column exceeds it.
    """
    y = np.where((duals > 0) & ~np.isfinite(arrays.row_lower), 0.0, duals)
    y = np.where((y < 0) & ~np.isfinite(arrays.row_upper), 0.0, y)
    sides = np.where(y > 0, arrays.row_lower, np.where(y < 0, arrays.row_upper, 0.0))
    reduced = arrays.cost - arrays.matrix.T @ y
    own, others = reduced[: columns.num], reduced[columns.num :]
    least = np.full(len(columns.size), np.inf)
    np.minimum.at(least, columns.of, own)
    bound = float(y @ sides) + float(columns.size @ least) + float(np.minimum(0.0, others).sum())
    return bound + arrays.offset, own - least[columns.of]
