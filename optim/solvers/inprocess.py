"""Small LPs and MILPs inside this process, through scipy's HiGHS.

A process start costs some tens of milliseconds, too much for thousands of small models. scipy's
copy of HiGHS hides its symbols, so it lives beside OR-Tools in one process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.linear_arrays import TOLERANCE, LinearArrays
from optim.linear_model import LinearModel
from optim.silence import c_stdout_silenced
from optim.solvers.conditioning import conditioned
from optim.solvers.interface import LinearTermination

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: ``scipy.optimize.linprog`` and ``milp`` share these codes; 1 is any limit, 4 is trouble.
STATUS = {
    0: LinearTermination.OPTIMAL,
    1: LinearTermination.TIME_LIMIT,
    2: LinearTermination.INFEASIBLE,
    3: LinearTermination.UNBOUNDED,
    4: LinearTermination.ERROR,
}


@dataclass(frozen=True)
class LpSolution:
    """Answer of `solve_lp`.

    Attributes
    ----------
    termination
        ``optimal``, ``infeasible``, ``unbounded``, ``time_limit`` or ``error``.
    x
        Optimal point, ``None`` unless optimal.
    objective
        ``cost @ x``.
    row_duals
        Change of the optimum per unit of each row's binding bound, shape (rows,).
    reduced_costs
        The same for the bounds of the variables, shape (variables,).
    """

    termination: LinearTermination
    x: NDArray[np.float64] | None
    objective: float | None
    row_duals: NDArray[np.float64] | None
    reduced_costs: NDArray[np.float64] | None


@dataclass(frozen=True)
class SmallMilpSolution:
    """Answer of `solve_small_milp`; `x` is verified, `bound` proven, both in the model's sense."""

    termination: LinearTermination
    x: NDArray[np.float64] | None
    objective: float | None
    bound: float | None


def solve_lp(
    cost: NDArray[np.float64],
    matrix: Any,
    row_lower: NDArray[np.float64],
    row_upper: NDArray[np.float64],
    lower: NDArray[np.float64],
    upper: NDArray[np.float64],
    time_limit: float | None = None,
) -> LpSolution:
    """Minimise ``cost @ x`` s.t. ``row_lower <= matrix @ x <= row_upper``, ``lower <= x <= upper``.

    Parameters
    ----------
    cost
        Objective, shape (variables,).
    matrix
        Sparse or dense, shape (rows, variables).
    row_lower, row_upper
        Row bounds, ±inf for none.
    lower, upper
        Variable bounds, ±inf for none.
    time_limit
        Seconds.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, vstack

    rows = csr_array(matrix)
    equal = row_lower == row_upper
    above, below = ~equal & np.isfinite(row_upper), ~equal & np.isfinite(row_lower)
    one_sided: Any = vstack([rows[above], -rows[below]], format="csr")
    solve: Any = linprog  # its stubs know no sparse matrices
    answer = solve(
        cost, A_ub=one_sided, b_ub=np.concatenate([row_upper[above], -row_lower[below]]),
        A_eq=rows[equal], b_eq=row_lower[equal], bounds=np.column_stack([lower, upper]),
        method="highs", options={} if time_limit is None else {"time_limit": float(time_limit)},
    )  # fmt: skip
    termination = STATUS.get(answer.status, LinearTermination.ERROR)
    if answer.x is None or termination is not LinearTermination.OPTIMAL:
        return LpSolution(termination, None, None, None, None)
    duals = np.zeros(len(row_lower))
    marginals, split = answer.ineqlin.marginals, int(above.sum())
    duals[above] += marginals[:split]
    duals[below] -= marginals[split:]
    duals[equal] = answer.eqlin.marginals
    reduced = answer.lower.marginals + answer.upper.marginals
    return LpSolution(termination, answer.x, float(answer.fun), duals, reduced)


def solve_small_milp(
    model: LinearModel | LinearArrays, time_limit: float | None = None, gap: float = 1e-6
) -> SmallMilpSolution:
    """Solve a small model in this process; no warm start, no progress, no interruption.

    Parameters
    ----------
    model
        A model or its arrays.
    time_limit
        Seconds; HiGHS looks at the clock, nothing kills it.
    gap
        Relative gap at which to stop.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    arrays = model.freeze() if isinstance(model, LinearModel) else model
    sign = 1.0 if arrays.sense == "min" else -1.0
    options: Any = {"mip_rel_gap": gap}
    if time_limit is not None:
        options["time_limit"] = float(time_limit)
    asked = conditioned(arrays)
    rows: Any = LinearConstraint(asked.matrix, asked.row_lower, asked.row_upper)
    with c_stdout_silenced():
        answer = milp(
            sign * arrays.cost, integrality=arrays.integrality.astype(np.int64),
            bounds=Bounds(asked.lower, asked.upper), constraints=rows if arrays.num_rows else (),
            options=options,
        )  # fmt: skip
    termination = STATUS.get(answer.status, LinearTermination.ERROR)
    x = None if answer.x is None else np.where(arrays.integrality, np.round(answer.x), answer.x)
    if x is None or max(part.max(initial=0.0) for part in arrays.violations(x)) > TOLERANCE:
        lost = termination is LinearTermination.OPTIMAL
        return SmallMilpSolution(LinearTermination.ERROR if lost else termination, None, None, None)
    proven = getattr(answer, "mip_dual_bound", None) if arrays.has_integers else answer.fun
    bound = None if proven is None or not np.isfinite(proven) else sign * proven + arrays.offset
    return SmallMilpSolution(termination, x, arrays.objective_of(x), bound)
