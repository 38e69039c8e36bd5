"""Back end ``cp-sat``: OR-Tools' CP-SAT on models whose variables are all integers.

CP-SAT knows whole numbers only. Every row is multiplied by a factor and its coefficients are
rounded; where they have few decimals nothing is lost. Otherwise the row is widened by the most that
rounding can take away, which stays within the tolerance of `LinearModel.violation`: no solution is
lost, and what CP-SAT accepts, our check accepts.

OR-Tools' own ways of giving CP-SAT a linear model (model_builder, MathOpt) round continuous
variables silently; here a model that has any is refused.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import Problem, SolverError, SolverUnavailable
from optim.solvers.interface import Answer, LinearTermination, SolverCapabilities, ortools_version
from optim.solvers.linear_model import BOUND_SCALE, SMALLEST, TOLERANCE
from optim.solvers.process import Exit, WorkerReport, pack

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from optim.solvers.interface import SolveTask
    from optim.solvers.linear_model import LinearArrays, LinearModel

#: ``CpSolverStatus`` → termination; ``FEASIBLE`` and ``UNKNOWN`` mean that a limit was reached.
STATUS: dict[str, LinearTermination] = {
    "OPTIMAL": LinearTermination.OPTIMAL,
    "FEASIBLE": LinearTermination.TIME_LIMIT,
    "UNKNOWN": LinearTermination.TIME_LIMIT,
    "INFEASIBLE": LinearTermination.INFEASIBLE,
    "MODEL_INVALID": LinearTermination.ERROR,
}

#: Sums of |coefficient · variable| stay below this in every row and the objective.
MAX_ACTIVITY = 2.0**59
MAX_COEFFICIENT = 2.0**50
MAX_DOMAIN = 2.0**50

INFINITE = 2**62  # A bound that is none.

#: Rounding below this share of the tolerance counts as none; all rounding of a row stays below the
#: other share of it.
_EXACT, _SHARE = 1e-4, 0.9

_OTHERS = "use highs, scip or cbc"


@dataclass(frozen=True)
class WholeModel:
    """Minimise ``cost @ x`` s.t. ``row_lower <= matrix @ x <= row_upper``, all int64."""

    #: Bounds of the variables.
    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    #: The rows (CSR).
    indptr: NDArray[np.int32]
    indices: NDArray[np.int32]
    data: NDArray[np.int64]
    #: Bounds of the rows; ``-INFINITE`` and ``INFINITE`` for none.
    row_lower: NDArray[np.int64]
    row_upper: NDArray[np.int64]
    cost: NDArray[np.int64]  # Objective, to be minimised whatever the model's sense.
    #: ``objective = (cost @ x) / cost_factor + offset`` (negated for a maximisation).
    cost_factor: float
    error: float  # The most by which rounded costs change an objective, in units of the objective.


def whole_model(model: LinearModel, arrays: LinearArrays) -> WholeModel:
    """Write a model of integer variables with whole numbers.

    `model`, `arrays`: the model (for names) and its arrays.
    Raises `SolverUnavailable`: a variable is continuous or has no bounds, or the numbers span too
        much.
    """
    lower, upper = arrays.lower, arrays.upper
    most = np.maximum(np.abs(lower), np.abs(upper))
    for refused, reason, remedy in (
        (~arrays.integrality, "is continuous, and cp-sat takes integers only", _OTHERS),
        (~np.isfinite(most), "has no finite bounds, which cp-sat needs",
         f"give it bounds, or {_OTHERS}"),
        (most > MAX_DOMAIN, "has bounds beyond the integers of cp-sat", _OTHERS),
    ):  # fmt: skip
        if refused.any():
            name = model.variable_name(int(np.flatnonzero(refused)[0]))
            raise SolverUnavailable(Problem(f"{model.name}: {name}", None, reason, remedy))
    data, row_lower, row_upper = _rows(model, arrays, most)
    cost, factor, error = _objective(arrays, most)
    return WholeModel(
        lower.astype(np.int64), upper.astype(np.int64), arrays.matrix.indptr.astype(np.int32),
        arrays.matrix.indices.astype(np.int32), data, row_lower, row_upper, cost, factor, error,
    )  # fmt: skip


def _rows(
    model: LinearModel, arrays: LinearArrays, most: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Multiply every row by the first factor that loses nothing, else by the one that loses least.

    Its bounds are widened by that.
    """
    matrix, num = arrays.matrix, arrays.num_rows
    row = np.repeat(np.arange(num), np.diff(matrix.indptr))
    values, reach = matrix.data, most[matrix.indices]
    size = np.abs(values)
    activity = np.bincount(row, size * reach, num)
    largest, smallest = np.zeros(num), np.full(num, np.inf)
    np.maximum.at(largest, row, size)
    np.minimum.at(smallest, row[size > 0], size[size > 0])
    tolerance = _tolerance(arrays)
    # of the factors the first that loses less than 1e-4 of the tolerance stays, else the best one
    factor, rounding_error = np.ones(num), np.full(num, np.inf)
    for candidate in _factors(np.where(np.isfinite(smallest), smallest, 1.0)):
        scaled = values * candidate[row]
        error = np.bincount(row, np.abs(scaled - np.round(scaled)) * reach, num) / candidate
        fits = (candidate * activity <= MAX_ACTIVITY) & (candidate * largest <= MAX_COEFFICIENT)
        better = fits & (rounding_error > _EXACT * tolerance) & (error < rounding_error)
        factor[better], rounding_error[better] = candidate[better], error[better]
    refused = np.flatnonzero(~(2 * rounding_error <= _SHARE * tolerance))
    if refused.size:
        i = int(refused[0])
        reason = (
            f"takes whole numbers only, and the row {model.row_name(i)} cannot be written with "
            f"them within {tolerance[i]:.1g} (from {smallest[i]:.6g} to {largest[i]:.6g})"
        )
        remedy = f"{_OTHERS}, or round the loads to a few decimals"
        raise SolverUnavailable(Problem("--solver", "cp-sat", reason, remedy))
    # the last term takes up floating-point noise of the product
    room = factor * (rounding_error + _EXACT * tolerance)
    low = _whole_bound(np.ceil(arrays.row_lower * factor - room), -INFINITE)
    high = _whole_bound(np.floor(arrays.row_upper * factor + room), INFINITE)
    return np.round(values * factor[row]).astype(np.int64), low, high


def _tolerance(arrays: LinearArrays) -> NDArray[np.float64]:
    """By how much our check lets a row be overstepped on its tighter side."""
    sides = [
        np.where(np.isfinite(b), np.abs(b), np.inf) for b in (arrays.row_lower, arrays.row_upper)
    ]
    least = np.minimum(*sides)
    size = np.maximum(1.0, BOUND_SCALE * np.where(np.isfinite(least), least, 0.0))
    small = (arrays.row_sizes > 0) & (arrays.row_sizes < SMALLEST)
    return TOLERANCE * np.where(small, arrays.row_sizes, size)


def _factors(smallest: NDArray[np.float64]) -> Iterator[NDArray[np.float64]]:
    """Yield factors to try, from small to large: powers of ten, and the smallest entry as 1."""
    ones = np.ones_like(smallest)
    for k in range(19):
        yield 10.0**k * ones
        if k < 4:
            yield 10.0**k / smallest


def _whole_bound(bound: NDArray[np.float64], infinite: int) -> NDArray[np.int64]:
    # beyond twice the activity a finite bound always or never binds; it must not become "none"
    clipped = np.clip(np.where(np.isfinite(bound), bound, 0.0), -2 * MAX_ACTIVITY, 2 * MAX_ACTIVITY)
    return np.where(np.isfinite(bound), clipped.astype(np.int64), infinite).astype(np.int64)


def _objective(
    arrays: LinearArrays, most: NDArray[np.float64]
) -> tuple[NDArray[np.int64], float, float]:
    """Whole costs of a minimisation, their factor, and the error of the rounding."""
    values = arrays.cost if arrays.sense == "min" else -arrays.cost
    activity = float(np.abs(values) @ most)
    if activity == 0.0:
        return np.zeros(len(values), dtype=np.int64), 1.0, 0.0
    best, least_error = 1.0, np.inf
    for candidate in _factors(np.array([np.abs(values[values != 0]).min()])):
        factor = float(candidate[0])
        if factor * activity > MAX_ACTIVITY or least_error <= 1e-10:
            continue
        error = float(np.abs(values * factor - np.round(values * factor)) @ most) / factor
        if error < least_error:
            best, least_error = factor, error
    if not least_error <= 1e-6 * activity:
        reason = (
            "takes whole numbers only, and the objective cannot be written with them: it would be "
            f"off by {least_error:.3g}"
        )
        raise SolverUnavailable(Problem("--solver", "cp-sat", reason, _OTHERS))
    return (
        np.round(values * best).astype(np.int64),
        best,
        least_error if least_error > 1e-12 * activity else 0.0,
    )


@dataclass(kw_only=True)
class _Report(WorkerReport):
    whole: WholeModel
    accepted: bool | None = None

    def bound_of(self, reported: Any) -> float | None:
        """Bound of the model from one of its whole numbers: the error of these is taken off."""
        if not np.isfinite(reported) or abs(reported) >= INFINITE:
            return None
        arrays = self.task.arrays
        # objective >= (whole cost) / factor - rounding of the costs
        lowest = reported / self.whole.cost_factor - self.whole.error
        return (lowest if arrays.sense == "min" else -lowest) + arrays.offset

    def on_vector(self, payload: bytes) -> None:
        self.x = np.frombuffer(payload, dtype=np.int64).astype(np.float64)
        self.task.recorder.note(incumbent=self.task.arrays.objective_of(self.x))

    def on_log(self, payload: bytes) -> None:
        """Read what became of the hint."""
        text = payload.decode(errors="replace")
        if "hint is complete and is feasible" in text:
            self.accepted = True
        elif "hint" in text and ("infeasible" in text or "incomplete" in text):
            self.accepted = False


class CpSatBackend:
    """OR-Tools' CP-SAT in its own process."""

    capabilities = SolverCapabilities("cp-sat", "CP-SAT (OR-Tools)", "ortools", integer_only=True)

    def version(self) -> str:
        """Version of OR-Tools."""
        return ortools_version()

    def solve(self, task: SolveTask) -> Answer:
        """Write the model with whole numbers and run CP-SAT on it."""
        before = time.perf_counter()
        whole = whole_model(task.model, task.arrays)
        scaled = time.perf_counter() - before
        empty = np.flatnonzero(whole.row_lower > whole.row_upper)
        if empty.size:
            name = task.model.row_name(int(empty[0]))
            message = f"{name}: no whole number lies between its bounds"
            return Answer(LinearTermination.INFEASIBLE, "empty row", message=message)
        report = _Report(task, whole=whole)
        answer = report.run(
            "cp_sat", lambda path: _write(task, whole, path), lambda end: _answer(report, end)
        )
        answer.handover_seconds += scaled
        return answer


def common_options(task: SolveTask) -> dict[str, Any]:
    """CP-SAT's parameters for the common ones."""
    return {
        "random_seed": task.seed,
        "num_workers": task.threads,
        "relative_gap_limit": task.gap,
        "log_search_progress": True,  # says what became of the hint
        "log_to_stdout": False,
        # OR-Tools 9.15 loses solutions where it rewrites linear rows by the at-most-one rows in
        # them (google/or-tools issue 5293): about 3 in 100 small balance models came out wrong
        "presolve_inclusion_work_limit": 0,
    }


def _write(task: SolveTask, whole: WholeModel, path: Path) -> None:
    table: dict[str, NDArray[Any]] = {
        "lower": whole.lower, "upper": whole.upper, "indptr": whole.indptr,
        "indices": whole.indices, "data": whole.data, "row_lower": whole.row_lower,
        "row_upper": whole.row_upper, "cost": whole.cost,
    }  # fmt: skip
    if task.warm_start is not None:
        start = np.round(task.warm_start).astype(np.int64)
        table["warm_start"] = np.clip(start, whole.lower, whole.upper)
    # the objective is minimised as plain integers: gaps are given in its units
    gap = {"absolute_gap_limit": task.abs_gap * whole.cost_factor}
    options = {**common_options(task), **gap, **task.options}
    pack(path, {"options": options, "deadline": task.deadline()}, table)


def _answer(report: _Report, end: Exit) -> Answer:
    task, final = report.task, report.final
    report.check_options("CP-SAT", "see the fields of sat_parameters.proto")
    if final.get("status") == "MODEL_INVALID":
        raise SolverError(f"cp-sat: refuses {task.model.name!r}: {final['invalid']}")
    if "status" not in final:
        end.check_crash("cp-sat", task.model.name)
    native = final.get("status", "killed")
    termination = STATUS.get(native, LinearTermination.TIME_LIMIT)
    if termination is LinearTermination.TIME_LIMIT:
        termination = _limit(task, end)
    answer = Answer(termination, native, bound=report.bound, warm_start_accepted=report.accepted)
    # where it found nothing, it may have had no time to begin: its final bound is then 0, unproven
    if native in ("OPTIMAL", "FEASIBLE"):
        answer.bound = _better(task, report.bound_of(final["final_bound"]), report.bound)
    if report.x is not None:
        answer.x = report.x
        answer.claimed = task.arrays.objective_of(answer.x)
    return answer


def _limit(task: SolveTask, end: Exit) -> LinearTermination:
    """Which limit stopped it; without a time limit it can only be a native one."""
    if end.interrupted or end.killed:
        return end.reason(LinearTermination.TIME_LIMIT)
    remaining = task.remaining()
    if remaining is None or remaining > 0.5:
        return LinearTermination.ITERATION_LIMIT
    return LinearTermination.TIME_LIMIT


def _better(task: SolveTask, one: float | None, other: float | None) -> float | None:
    values = [value for value in (one, other) if value is not None]
    if not values:
        return None
    return max(values) if task.arrays.sense == "min" else min(values)


BACKEND = CpSatBackend()
