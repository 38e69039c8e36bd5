"""Models that need no solver: crossed bounds, no variables, no coefficients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optim.solvers.interface import Answer, LinearTermination
from optim.solvers.linear_arrays import TOLERANCE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optim.solvers.interface import SolveTask
    from optim.solvers.linear_arrays import LinearArrays


def solve_trivial(task: SolveTask) -> Answer | None:
    """Answer a model without coefficients, or with crossed bounds; ``None`` for all others.

    Solvers differ in how they take such models (some call them errors), so none is asked.
    """
    arrays = task.arrays
    crossed = _crossed(task)
    if crossed:
        return Answer(LinearTermination.INFEASIBLE, "crossed bounds", message=crossed)
    if arrays.matrix.nnz and np.any(arrays.matrix.data):
        return None
    wanting = np.flatnonzero((arrays.row_lower > TOLERANCE) | (arrays.row_upper < -TOLERANCE))
    if wanting.size:
        where = task.model.row_name(int(wanting[0]))
        message = f"{where} has no coefficients and excludes 0"
        return Answer(LinearTermination.INFEASIBLE, "empty row", message=message)
    x = _cheapest_corner(arrays)
    if not np.isfinite(x).all():
        return Answer(LinearTermination.UNBOUNDED, "unbounded column")
    value = arrays.objective_of(x)
    message = "no coefficients in any row: solved without a solver"
    return Answer(LinearTermination.OPTIMAL, "trivial", x, value, value, message=message)


def _crossed(task: SolveTask) -> str:
    """Name the first variable or row whose lower bound lies above its upper bound."""
    arrays = task.arrays
    for lower, upper, name in (
        (arrays.lower, arrays.upper, task.model.variable_name),
        (arrays.row_lower, arrays.row_upper, task.model.row_name),
    ):
        bad = np.flatnonzero(lower > upper + 1e-9 * np.maximum(1.0, np.abs(upper)))
        if bad.size:
            i = int(bad[0])
            return f"{name(i)}: lower bound {lower[i]:g} is above upper bound {upper[i]:g}"
    return ""


def _cheapest_corner(arrays: LinearArrays) -> NDArray[np.float64]:
    """Put every variable at its better bound; one without cost goes next to 0."""
    cost = arrays.cost if arrays.sense == "min" else -arrays.cost
    at_rest = np.clip(0.0, arrays.lower, arrays.upper)
    return np.where(cost > 0, arrays.lower, np.where(cost < 0, arrays.upper, at_rest))
