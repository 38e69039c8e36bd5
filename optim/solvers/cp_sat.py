"""Back end ``cp-sat``: OR-Tools' CP-SAT on a model scaled to integers (see `scaling`).

OR-Tools' own ways of giving CP-SAT a linear model (model_builder, MathOpt) round continuous
variables to integers without a word; they are not used.
"""

from __future__ import annotations

import marshal
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import InvalidInput, Problem, SolverError
from optim.solvers.interface import Answer, LinearTermination, SolverCapabilities
from optim.solvers.ortools_version import ortools_version
from optim.solvers.process import (
    Exit,
    Frames,
    ask_by_stdin,
    pack,
    python_child,
    run_child,
    scratch_folder,
)
from optim.solvers.scaling import ScaledModel, scale

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from optim.solvers.interface import SolveTask

#: ``CpSolverStatus`` → termination; ``FEASIBLE`` and ``UNKNOWN`` mean that a limit was reached.
STATUS: dict[str, LinearTermination] = {
    "OPTIMAL": LinearTermination.OPTIMAL,
    "FEASIBLE": LinearTermination.TIME_LIMIT,
    "UNKNOWN": LinearTermination.TIME_LIMIT,
    "INFEASIBLE": LinearTermination.INFEASIBLE,
    "MODEL_INVALID": LinearTermination.ERROR,
}


#: Steps of continuous variables below this make a grid a fine one.
_FINE = 1e-5


@dataclass
class _Heard:
    """What the child has said so far."""

    task: SolveTask
    scaled: ScaledModel
    k: NDArray[np.int64] | None = None
    bound: float | None = None
    accepted: bool | None = None
    handed_over: float | None = None
    final: dict[str, Any] = field(default_factory=dict)

    def on_fields(self, payload: bytes) -> None:
        """Take a bound, a failure or the final status."""
        said = marshal.loads(payload)
        if "handed_over" in said:
            self.handed_over = time.perf_counter()
        elif "bound" in said:
            self.bound = self.in_model_sense(said["bound"])
            self.task.recorder.note(bound=self.bound)
        else:
            self.final.update(said)

    def on_vector(self, payload: bytes) -> None:
        """Take an incumbent; the last one is the best."""
        self.k = np.frombuffer(payload, dtype=np.int64)
        x = self.scaled.vector(self.k)
        self.task.recorder.note(incumbent=self.task.arrays.objective_of(x))

    def on_log(self, payload: bytes) -> None:
        """Read what became of the hint."""
        text = payload.decode(errors="replace")
        if "hint is complete and is feasible" in text:
            self.accepted = True
        elif "hint" in text and ("infeasible" in text or "incomplete" in text):
            self.accepted = False

    def in_model_sense(self, scaled_bound: float) -> float | None:
        """Bound of the model from one of the scaled model: its error is taken off."""
        if not np.isfinite(scaled_bound) or abs(scaled_bound) >= 2**62:
            return None
        arrays = self.task.arrays
        lowest = scaled_bound / self.scaled.cost_factor - self.scaled.error
        return (lowest if arrays.sense == "min" else -lowest) + arrays.offset


class CpSatBackend:
    """OR-Tools' CP-SAT in its own process."""

    capabilities = SolverCapabilities("cp-sat", "CP-SAT (OR-Tools)", "ortools", integer_only=True)

    def version(self) -> str:
        """Version of OR-Tools."""
        return ortools_version()

    def solve(self, task: SolveTask) -> Answer:
        """Scale the model and run CP-SAT on it."""
        before = time.perf_counter()
        expected = None
        if task.warm_start is not None and task.warm_start_feasible:
            expected = task.arrays.objective_of(task.warm_start)
        scaled = scale(task.model, task.arrays, expected)
        empty = np.flatnonzero(scaled.row_lower > scaled.row_upper)
        if empty.size:
            name = task.model.row_name(int(empty[0]))
            message = f"{name}: no whole number lies between its bounds"
            return Answer(LinearTermination.INFEASIBLE, "empty row", message=message)
        heard = _Heard(task, scaled)
        with scratch_folder() as folder:
            path = folder / "model"
            _write(task, scaled, path)
            frames = Frames({b"J": heard.on_fields, b"X": heard.on_vector, b"L": heard.on_log})
            answer = run_child(
                python_child("optim.solvers.cp_sat_worker", "main", str(path)),
                frames, lambda end: _answer(heard, end),
                deadline=task.deadline(), folder=folder, ask=ask_by_stdin,
            )  # fmt: skip
        answer.handover_seconds = (heard.handed_over or time.perf_counter()) - before
        return answer


def common_options(task: SolveTask, fine_grid: bool) -> dict[str, Any]:
    """CP-SAT's parameters for the common ones."""
    return {
        "random_seed": task.seed,
        "num_workers": task.threads,
        # the rest of the gap is left to the scaling error
        "relative_gap_limit": 0.5 * task.gap if fine_grid else task.gap,
        "log_search_progress": True,  # tells what became of the hint
        "log_to_stdout": False,
        # OR-Tools 9.15 loses solutions where it rewrites linear rows by the at-most-one rows in
        # them (google/or-tools issue 5293): about 3 in 100 small balance models came out wrong
        "presolve_inclusion_work_limit": 0,
        # on fine grids one strategy alone often proves nothing: let them take turns
        "interleave_search": fine_grid and task.threads == 1,
    }


def _write(task: SolveTask, scaled: ScaledModel, path: Path) -> None:
    table: dict[str, NDArray[Any]] = {
        "lower": scaled.lower, "upper": scaled.upper, "indptr": scaled.indptr,
        "indices": scaled.indices, "data": scaled.data, "row_lower": scaled.row_lower,
        "row_upper": scaled.row_upper, "cost": scaled.cost,
    }  # fmt: skip
    if task.warm_start is not None:
        table["warm_start"] = scaled.integers(task.warm_start)
    # the objective is minimised as plain integers: gaps are given in its units
    gap = {"absolute_gap_limit": task.abs_gap * scaled.cost_factor}
    fine_grid = bool((scaled.step < _FINE).any())
    options = {**common_options(task, fine_grid), **gap, **task.options}
    pack(path, {"options": options, "deadline": task.deadline()}, table)


def _answer(heard: _Heard, end: Exit) -> Answer:
    task, final = heard.task, heard.final
    if "refused_option" in final:
        name = final["refused_option"]
        remedy = "see the fields of sat_parameters.proto"
        raise InvalidInput(
            Problem(f"options.{name}", task.options.get(name), "is refused by CP-SAT", remedy)
        )
    if final.get("status") == "MODEL_INVALID":
        raise SolverError(f"cp-sat: refuses {task.model.name!r}: {final['invalid']}")
    if "status" not in final:
        end.check_crash("cp-sat", task.model.name)
    native = final.get("status", "killed")
    termination = STATUS.get(native, LinearTermination.TIME_LIMIT)
    if termination is LinearTermination.TIME_LIMIT:
        termination = _limit(task, end)
    answer = Answer(termination, native, bound=heard.bound, warm_start_accepted=heard.accepted)
    # where it found nothing, it may have had no time to begin: its final bound is then 0, unproven
    if native in ("OPTIMAL", "FEASIBLE"):
        answer.bound = _better(task, heard.in_model_sense(final["final_bound"]), heard.bound)
    if heard.k is not None:
        answer.x = heard.scaled.vector(heard.k)
        answer.claimed = task.arrays.objective_of(answer.x)
        answer.scaling_error = heard.scaled.error / max(abs(answer.claimed), 1e-12)
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
    known = [value for value in (one, other) if value is not None]
    if not known:
        return None
    return max(known) if task.arrays.sense == "min" else min(known)


BACKEND = CpSatBackend()
