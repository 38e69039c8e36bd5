"""A linear model as one of integers only, with the error of that bounded.

CP-SAT knows integers only. A continuous variable becomes ``step * k`` with an integer ``k``, every
row is multiplied by a factor and its coefficients are rounded. The rounding follows two rules:

* no solution of the model is lost: a row is widened by the most its rounding can take away, so that
  a bound of the scaled model, widened by `ScaledModel.error`, is a bound of the model. Rounding
  capacities down without more would exclude three loads of 1/3 on a capacity of 1;
* what the scaled model accepts, our check accepts: the widening stays within the tolerance of
  `LinearModel.violation` (and so of the referee). That is the safe side capacities are rounded to.

A model whose numbers have a few decimals is scaled without any rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import Problem, SolverUnavailable
from optim.solvers.grids import exact_steps
from optim.solvers.linear_arrays import BOUND_SCALE, TOLERANCE
from optim.solvers.tighten import tightened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from optim.solvers.linear_arrays import LinearArrays
    from optim.solvers.linear_model import LinearModel

#: Sums of |coefficient · variable| stay below this in every row and the objective.
MAX_ACTIVITY = 2.0**59
MAX_COEFFICIENT = 2.0**50
MAX_DOMAIN = 2.0**50

#: Rounding below this share of the tolerance counts as none.
_EXACT = 1e-4

#: Share of the tolerance that all roundings of a row may use.
_SHARE = 0.9

#: Aimed-at error of the objective, relative to its expected size.
_OBJECTIVE_ERROR = 1e-7

REMEDY = "use highs, scip or cbc, or round the loads to a few decimals"


@dataclass(frozen=True)
class ScaledModel:
    """Minimise ``cost @ k`` s.t. ``row_lower <= matrix @ k <= row_upper``, all int64.

    Attributes
    ----------
    lower, upper
        Bounds of the integers `k`.
    step
        ``x = step * k``; 1 for integer variables.
    indptr, indices, data
        The rows (CSR).
    row_lower, row_upper
        Bounds of the rows; ``-INFINITE`` and ``INFINITE`` for none.
    cost
        Objective, to be minimised whatever the model's sense.
    cost_factor
        ``objective = (cost @ k) / cost_factor + offset`` (negated for a maximisation).
    error
        The optimum of the scaled model is at most this much worse than the model's, in units of
        the objective.
    """

    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    step: NDArray[np.float64]
    indptr: NDArray[np.int32]
    indices: NDArray[np.int32]
    data: NDArray[np.int64]
    row_lower: NDArray[np.int64]
    row_upper: NDArray[np.int64]
    cost: NDArray[np.int64]
    cost_factor: float
    error: float

    def vector(self, k: NDArray[np.int64]) -> NDArray[np.float64]:
        """Values of the model's variables."""
        return k * self.step

    def integers(self, x: NDArray[np.float64]) -> NDArray[np.int64]:
        """Nearest integers of a vector of the model, within bounds."""
        return np.clip(np.round(x / self.step).astype(np.int64), self.lower, self.upper)


INFINITE = 2**62


def scale(model: LinearModel, arrays: LinearArrays, expected: float | None = None) -> ScaledModel:
    """Scale a model to integers.

    Parameters
    ----------
    model, arrays
        The model (for names) and its arrays.
    expected
        Size of the objective that is expected, for the error aimed at; 1 if not given.

    Raises
    ------
    SolverUnavailable
        A variable has no bounds, or the numbers span too much to be scaled within tolerance.
    """
    lower, upper = tightened(arrays)
    _check_bounds(model, lower, upper)
    exact = exact_steps(arrays)
    _check_domains(model, lower, upper, exact)
    rounded = np.isnan(exact)
    step = np.where(rounded, _fine_steps(arrays, rounded, expected), exact)
    low, high = np.floor(lower / step + 1e-9), np.ceil(upper / step - 1e-9)
    _check_domains(model, low, high, np.ones_like(step))
    most = np.maximum(np.abs(low), np.abs(high))
    data, row_lower, row_upper = _rows(model, arrays, step, most, rounded)
    cost, factor, error = _objective(model, arrays, step, most, rounded)
    return ScaledModel(
        low.astype(np.int64), high.astype(np.int64), step,
        arrays.matrix.indptr.astype(np.int32), arrays.matrix.indices.astype(np.int32), data,
        row_lower, row_upper, cost, factor, error,
    )  # fmt: skip


def _fine_steps(
    arrays: LinearArrays, rounded: NDArray[np.bool_], expected: float | None
) -> NDArray[np.float64]:
    """Steps so small that moving every such variable by half a step stays within tolerance."""
    step = np.ones(arrays.num_variables)
    if not rounded.any():
        return step
    coo = arrays.matrix.tocoo()
    hit = rounded[coo.col] & (coo.data != 0)
    count = np.bincount(coo.row[hit], minlength=arrays.num_rows)
    room = 0.05 * _tolerance(arrays.row_lower, arrays.row_upper)
    size = np.full(arrays.num_variables, 1e-3)
    allowed = room[coo.row[hit]] / (count[coo.row[hit]] * np.abs(coo.data[hit]))
    np.minimum.at(size, coo.col[hit], allowed)
    aim = _OBJECTIVE_ERROR * max(abs(expected or 1.0), 1e-3)
    costly = rounded & (arrays.cost != 0)
    size[costly] = np.minimum(size[costly], 2 * aim / (costly.sum() * np.abs(arrays.cost[costly])))
    step[rounded] = 10.0 ** np.floor(np.log10(size[rounded]))
    return step


def _tolerance(
    row_lower: NDArray[np.float64], row_upper: NDArray[np.float64]
) -> NDArray[np.float64]:
    """By how much our check lets a row be overstepped on its tighter side."""
    sides = [np.where(np.isfinite(b), np.abs(b), np.inf) for b in (row_lower, row_upper)]
    least = np.minimum(sides[0], sides[1])
    return TOLERANCE * np.maximum(1.0, BOUND_SCALE * np.where(np.isfinite(least), least, 0.0))


def _factors(smallest: NDArray[np.float64]) -> Iterator[NDArray[np.float64]]:
    """Yield row factors to try, from small to large: powers of ten, and the smallest entry as 1."""
    ones = np.ones_like(smallest)
    unit = 1.0 / np.where(smallest > 0, smallest, 1.0)
    for k in range(19):
        yield 10.0**k * ones
        if k < 4:
            yield 10.0**k * unit


def _rows(
    model: LinearModel,
    arrays: LinearArrays,
    step: NDArray[np.float64],
    most: NDArray[np.float64],
    rounded: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Factor, round and widen every row; see the module's rules."""
    matrix, num = arrays.matrix, arrays.num_rows
    row = np.repeat(np.arange(num), np.diff(matrix.indptr))
    values = matrix.data * step[matrix.indices]
    reach = most[matrix.indices]
    activity = np.bincount(row, np.abs(values) * reach, num)
    tolerance = _tolerance(arrays.row_lower, arrays.row_upper)
    shift = 0.5 * np.bincount(row, np.abs(values) * rounded[matrix.indices], num)
    smallest = np.full(num, np.inf)
    used = values != 0
    np.minimum.at(smallest, row[used], np.abs(values[used]))
    smallest[~np.isfinite(smallest)] = 1.0
    largest = np.zeros(num)
    np.maximum.at(largest, row, np.abs(values))
    factor, lost = np.ones(num), np.full(num, np.inf)
    for candidate in _factors(smallest):
        error = _lost(candidate, values, reach, row, num)
        fits = (candidate * activity <= MAX_ACTIVITY) & (candidate * largest <= MAX_COEFFICIENT)
        better = fits & (lost > _EXACT * tolerance) & (error < lost)
        factor[better], lost[better] = candidate[better], error[better]
    widening = lost + shift
    bad = np.flatnonzero(~(2 * widening <= _SHARE * tolerance))
    if bad.size:
        i = int(bad[0])
        entries = np.abs(matrix.data[matrix.indptr[i] : matrix.indptr[i + 1]])
        spread = f"coefficients from {entries.min():.6g} to {entries.max():.6g}"
        reason = f"cannot be scaled to integers for cp-sat within {tolerance[i]:.1g} ({spread})"
        raise SolverUnavailable(Problem(model.row_name(i), None, reason, REMEDY))
    data = np.round(values * factor[row]).astype(np.int64)
    # the last term takes up floating-point noise of the product
    room = factor * (widening + _EXACT * tolerance)
    low = _integer_bound(np.ceil(arrays.row_lower * factor - room), -INFINITE)
    high = _integer_bound(np.floor(arrays.row_upper * factor + room), INFINITE)
    return data, low, high


def _lost(
    factor: NDArray[np.float64],
    values: NDArray[np.float64],
    reach: NDArray[np.float64],
    row: NDArray[np.intp],
    num: int,
) -> NDArray[np.float64]:
    """Most that rounding the coefficients can change each row, in the row's own units."""
    scaled = values * factor[row]
    lost = np.bincount(row, np.abs(scaled - np.round(scaled)) * reach, num) / factor
    return np.asarray(lost, dtype=np.float64)


def _integer_bound(bound: NDArray[np.float64], infinite: int) -> NDArray[np.int64]:
    # beyond twice the activity a finite bound always or never binds; it must not become "none"
    clipped = np.clip(np.where(np.isfinite(bound), bound, 0.0), -2 * MAX_ACTIVITY, 2 * MAX_ACTIVITY)
    return np.where(np.isfinite(bound), clipped.astype(np.int64), infinite).astype(np.int64)


def _objective(
    model: LinearModel,
    arrays: LinearArrays,
    step: NDArray[np.float64],
    most: NDArray[np.float64],
    rounded: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], float, float]:
    """Integer costs of a minimisation, their factor, and the error of the whole scaling."""
    values = (arrays.cost if arrays.sense == "min" else -arrays.cost) * step
    activity = float(np.abs(values) @ most)
    moved = 0.5 * float(np.abs(values[rounded]).sum())
    if activity == 0.0:
        return np.zeros(len(values), dtype=np.int64), 1.0, moved
    smallest = np.array([np.abs(values[values != 0]).min()])
    best, lost = 1.0, np.inf
    for candidate in _factors(smallest):
        factor = float(candidate[0])
        if factor * activity > MAX_ACTIVITY or lost <= 1e-10:
            continue
        error = float(np.abs(values * factor - np.round(values * factor)) @ most) / factor
        if error < lost:
            best, lost = factor, error
    total = moved + (0.0 if lost <= 1e-12 * activity else lost)
    if not np.isfinite(total) or total > 1e-6 * activity:
        reason = f"cannot be scaled to integers for cp-sat: its error would be {total:.3g}"
        raise SolverUnavailable(Problem(f"{model.name}: objective", None, reason, REMEDY))
    return np.round(values * best).astype(np.int64), best, total


def _check_bounds(
    model: LinearModel, lower: NDArray[np.float64], upper: NDArray[np.float64]
) -> None:
    bad = np.flatnonzero(~(np.isfinite(lower) & np.isfinite(upper)))
    if not bad.size:
        return
    problems = [
        Problem(
            model.variable_name(int(j)), None,
            "has no finite bounds, which cp-sat needs, and none follow from its rows",
            "give it bounds, or use highs, scip or cbc",
        )
        for j in bad[:20]
    ]  # fmt: skip
    raise SolverUnavailable(problems)


def _check_domains(
    model: LinearModel,
    lower: NDArray[np.float64],
    upper: NDArray[np.float64],
    step: NDArray[np.float64],
) -> None:
    with np.errstate(invalid="ignore"):
        wide = np.maximum(np.abs(lower), np.abs(upper)) / step > MAX_DOMAIN
    bad = np.flatnonzero(wide)
    if bad.size:
        j = int(bad[0])
        shown: Any = [float(lower[j]), float(upper[j])]
        reason = "has bounds too wide to be scaled to integers for cp-sat"
        raise SolverUnavailable(Problem(model.variable_name(j), shown, reason, REMEDY))
