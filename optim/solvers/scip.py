"""Back end ``scip``: OR-Tools' SCIP in a child process (see `scip_worker`)."""

from __future__ import annotations

import marshal
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import InvalidInput, Problem, SolverError
from optim.solvers.interface import Answer, LinearTermination, SolverCapabilities
from optim.solvers.linear_arrays import BOUND_SCALE, TOLERANCE
from optim.solvers.ortools_version import ortools_version
from optim.solvers.printed import outward
from optim.solvers.process import Lines, ask_by_signal, python_child, run_child, scratch_folder
from optim.solvers.wire import mp_model

if TYPE_CHECKING:
    from pathlib import Path

    from optim.solvers.interface import SolveTask
    from optim.solvers.process import Exit

#: SCIP's status as its log prints it → termination. OR-Tools itself says ``OPTIMAL`` at a gap limit
#: and ``FEASIBLE`` at any other one, so its status is not used.
STATUS: dict[str, LinearTermination] = {
    "optimal solution found": LinearTermination.OPTIMAL,
    "gap limit reached": LinearTermination.GAP_REACHED,
    "infeasible": LinearTermination.INFEASIBLE,
    "unbounded": LinearTermination.UNBOUNDED,
    "infeasible or unbounded": LinearTermination.INFEASIBLE_OR_UNBOUNDED,
    "time limit reached": LinearTermination.TIME_LIMIT,
    "user interrupt": LinearTermination.INTERRUPTED,
    "termination signal received": LinearTermination.INTERRUPTED,
    "node limit reached": LinearTermination.ITERATION_LIMIT,
    "total node limit reached": LinearTermination.ITERATION_LIMIT,
    "stall node limit reached": LinearTermination.ITERATION_LIMIT,
    "solution limit reached": LinearTermination.ITERATION_LIMIT,
    "solution improvement limit reached": LinearTermination.ITERATION_LIMIT,
    "restart limit reached": LinearTermination.ITERATION_LIMIT,
    "memory limit reached": LinearTermination.ITERATION_LIMIT,
    "objective limit reached": LinearTermination.ITERATION_LIMIT,
    "primal limit reached": LinearTermination.ITERATION_LIMIT,
    "dual limit reached": LinearTermination.ITERATION_LIMIT,
    "unknown": LinearTermination.ERROR,
}

_REFUSALS = ("INVALID_SOLVER_PARAMETERS", "MODEL_INVALID", "NOT_SOLVED")

_STATUS_LINE = re.compile(r"^SCIP Status +: .*\[(.+)\]")
_DUAL = re.compile(r"^Dual Bound +: ([-+0-9.einf]+)")
_ROW = re.compile(r"\| *([-+0-9.e]+|--) *\| *([-+0-9.e]+|--) *\|[^|]*\|[^|]*$")
_INFINITE = 1e19


@dataclass
class _Log:
    """What SCIP's log has told so far, in the model's sense with the constant."""

    task: SolveTask
    status: str | None = None
    bound: float | None = None
    accepted: bool | None = None
    handed_over: float | None = None
    tail: list[str] = field(default_factory=list)

    def line(self, line: str) -> None:
        """Take one line."""
        self.tail = [*self.tail[-9:], line]
        if line.startswith("handed over"):
            self.handed_over = time.perf_counter()
        elif "given by solution candidate storage" in line:
            self.accepted = "are infeasible" not in line
        elif found := _STATUS_LINE.match(line):
            self.status = found.group(1)
        elif found := _DUAL.match(line):
            self.bound = _finite(float(found.group(1)), self.bound)
        elif found := _ROW.search(line):
            self._row(found.group(1), found.group(2))

    def _row(self, dual: str, primal: str) -> None:
        proven = None
        if dual != "--":
            proven = _finite(outward(dual, self.task.arrays.sense), None)
            self.bound = self.bound if proven is None else proven
        incumbent = None if primal == "--" else _finite(float(primal), None)
        self.task.recorder.note(incumbent, proven)


class ScipBackend:
    """OR-Tools' SCIP in its own process."""

    capabilities = SolverCapabilities("scip", "SCIP (OR-Tools)", "ortools")

    def version(self) -> str:
        """Version of OR-Tools, which SCIP came with."""
        return ortools_version()

    def solve(self, task: SolveTask) -> Answer:
        """Run SCIP on the task."""
        before = time.perf_counter()
        log = _Log(task)
        with scratch_folder() as folder:
            (folder / "model.pb").write_bytes(mp_model(task.arrays, task.warm_start))
            argv = python_child(
                "optim.solvers.scip_worker", "main", str(folder),
                repr(None if "limits/time" in task.options else task.deadline()), parameters(task),
            )  # fmt: skip
            answer = run_child(
                argv, Lines(log.line), lambda end: _answer(task, log, folder, end),
                deadline=task.deadline(), folder=folder, ask=ask_by_signal,
            )  # fmt: skip
        answer.handover_seconds = (log.handed_over or time.perf_counter()) - before
        return answer


def parameters(task: SolveTask) -> str:
    """SCIP's parameters for the task, one a line; native options come last and win."""
    common: dict[str, Any] = {
        "limits/gap": task.gap,
        "limits/absgap": task.abs_gap,
        "randomization/randomseedshift": task.seed,
        "numerics/feastol": _feasibility_tolerance(task),
        "misc/catchctrlc": "TRUE",
    }
    merged = {**common, **task.options}
    return "\n".join(f"{name} = {_text(value)}" for name, value in merged.items())


def _feasibility_tolerance(task: SolveTask) -> float:
    """SCIP's tolerance, relative to each row's bound, such that it keeps ours, which is absolute.

    At most 1e-7, so that a plan stays within the referee's tolerance, of which rows use nearly all.
    Not tighter than needed: below 1e-7 SCIP tightens open-ended integers step by step for minutes.
    """
    bounds = np.concatenate([task.arrays.row_lower, task.arrays.row_upper])
    largest = np.abs(bounds[np.isfinite(bounds)]).max(initial=1.0)
    return float(TOLERANCE / np.clip(largest, 10.0, 1.0 / BOUND_SCALE))


def _text(value: Any) -> str:
    return str(value).upper() if isinstance(value, bool) else str(value)


def _answer(task: SolveTask, log: _Log, folder: Path, end: Exit) -> Answer:
    path = folder / "result"
    if not path.is_file():
        return _without_result(task, log, end)
    result = marshal.loads(path.read_bytes())
    # "NOT_SOLVED" is also what OR-Tools calls a limit that came before any solution
    if log.status is None and result["status"] in _REFUSALS:
        _raise_refusal(task, result, end)
    native = log.status or result["status"]
    termination = end.reason(STATUS.get(native, LinearTermination.ERROR))
    x = None if result["x"] is None else np.frombuffer(result["x"])
    bound = log.bound
    if bound is None and termination is LinearTermination.GAP_REACHED:
        bound = _implied_bound(task, result["objective"])
    return Answer(
        termination, native, x, result["objective"], bound, warm_start_accepted=log.accepted
    )


def _implied_bound(task: SolveTask, objective: float | None) -> float | None:
    """Return the weakest bound with which the gap limit is reached.

    SCIP prints no dual bound where presolving alone reaches the limit.
    """
    if objective is None:
        return None
    limits = {"limits/gap": task.gap, "limits/absgap": task.abs_gap, **task.options}
    gap = max(float(limits["limits/absgap"]), float(limits["limits/gap"]) * abs(objective))
    return objective - gap if task.arrays.sense == "min" else objective + gap


def _without_result(task: SolveTask, log: _Log, end: Exit) -> Answer:
    """SCIP left no result: it was stopped, or it crashed."""
    end.check_crash("scip", task.model.name, "\n".join(log.tail[-5:]))
    stop = end.reason(LinearTermination.TIME_LIMIT)
    return Answer(stop, "killed", bound=log.bound, warm_start_accepted=log.accepted)


def _raise_refusal(task: SolveTask, result: dict[str, Any], end: Exit) -> None:
    if task.options:
        reason = f"are refused by SCIP ({result['message'] or end.stderr.strip()[-200:]})"
        remedy = "see SCIP's list of parameters, for example limits/nodes = 1000"
        raise InvalidInput(Problem("options", dict(task.options), reason, remedy))
    raise SolverError(f"scip: {result['status']} on {task.model.name!r}: {result['message']}")


def _finite(value: float, otherwise: float | None) -> float | None:
    return value if abs(value) < _INFINITE else otherwise


BACKEND = ScipBackend()
