"""Back end ``highs``: HiGHS of package ``highsbox`` in a child process (see `workers`)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import SolverError
from optim.solvers.interface import Answer, LinearTermination, SolverCapabilities
from optim.solvers.process import Exit, WorkerReport, pack

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optim.solvers.interface import SolveTask

#: ``HighsModelStatus`` → termination. Iteration and solution limits come from native options only.
STATUS: dict[int, tuple[str, LinearTermination]] = {
    0: ("Not Set", LinearTermination.ERROR),
    1: ("Load error", LinearTermination.ERROR),
    2: ("Model error", LinearTermination.ERROR),
    3: ("Presolve error", LinearTermination.ERROR),
    4: ("Solve error", LinearTermination.ERROR),
    5: ("Postsolve error", LinearTermination.ERROR),
    6: ("Empty", LinearTermination.OPTIMAL),
    7: ("Optimal", LinearTermination.OPTIMAL),
    8: ("Infeasible", LinearTermination.INFEASIBLE),
    9: ("Primal infeasible or unbounded", LinearTermination.INFEASIBLE_OR_UNBOUNDED),
    10: ("Unbounded", LinearTermination.UNBOUNDED),
    11: ("Bound on objective reached", LinearTermination.ITERATION_LIMIT),
    12: ("Target for objective reached", LinearTermination.ITERATION_LIMIT),
    13: ("Time limit reached", LinearTermination.TIME_LIMIT),
    14: ("Iteration limit reached", LinearTermination.ITERATION_LIMIT),
    15: ("Unknown", LinearTermination.ERROR),
    16: ("Solution limit reached", LinearTermination.ITERATION_LIMIT),
    17: ("Interrupted by user", LinearTermination.INTERRUPTED),
    18: ("Memory limit reached", LinearTermination.ITERATION_LIMIT),
    19: ("Interrupted by HiGHS", LinearTermination.ERROR),
}


#: Bits of rules of HiGHS 1.15.1's presolve that may change the optimum. Enumeration (16), after
#: sparsify (14), drops the best of 22 columns of a model of eight rows, whose optimum is then
#: reported twice as dear, or infeasible; sparsify may also go on for ever. Parallel rows and
#: columns (13) compares costs absolutely, after dividing them by the ratio of the columns.
PRESOLVE_RULES_OFF = 1 << 13 | 1 << 14 | 1 << 16

_TOLERANCE = 2e-8
"""Tolerance of integers and rows in branch and bound (``mip_feasibility_tolerance``).

Below the slack that scaled rows have beside whole numbers (1e-7): at a tolerance of the same size
HiGHS 1.15.1 called a second-best value optimal under some seeds (`tolerance-of-scaled-rows` of the
tests), at a fifth and a tenth of it under none.
"""


@dataclass
class _Report(WorkerReport):
    objective: float | None = None
    log: list[str] = field(default_factory=list)

    def bound_of(self, reported: Any) -> float | None:
        return _finite(reported, self.bound)

    def on_vector(self, payload: bytes) -> None:
        numbers = np.frombuffer(payload)
        self.objective, self.x = float(numbers[0]), numbers[1:]
        self.task.recorder.note(incumbent=self.objective)

    def on_log(self, payload: bytes) -> None:
        """Keep the lines about the start."""
        text = payload.decode(errors="replace")
        if "start solution" in text or "yield feasible" in text:
            self.log.append(text.strip())


class HighsBackend:
    """HiGHS in its own process."""

    capabilities = SolverCapabilities("highs", "HiGHS", "highsbox", second_attempt=True)

    def version(self) -> str:
        """Version of the installed package."""
        return _package_version()

    def solve(self, task: SolveTask) -> Answer:
        """Run HiGHS on the task."""
        report = _Report(task)
        return report.run(
            "highs", lambda path: write_model(task, path), lambda end: _answer(task, report, end)
        )


@cache
def _package_version() -> str:
    from importlib.metadata import version

    library_path()
    return version("highsbox")


def library_path() -> Path:
    """Path of HiGHS's shared library; `ImportError` or `OSError` where it is missing."""
    import highsbox

    folder = Path(highsbox.highs_lib_dir())
    for name in ("libhighs.so", "libhighs.dylib"):
        if (folder / name).is_file():
            return folder / name
    raise OSError(f"no HiGHS library in {folder}")


def common_options(task: SolveTask) -> dict[str, Any]:
    """HiGHS's options for the common parameters.

    HiGHS 1.15.1 ends now and then, after its presolve, with a right optimum and a wrong bound or
    none, or with an error; a second attempt goes without presolve.
    """
    return {
        "presolve": "off" if task.second_attempt else "choose",
        "log_to_console": False,
        "mip_rel_gap": task.gap,
        "mip_abs_gap": task.abs_gap,
        "random_seed": task.seed,
        "threads": task.threads,
        "mip_feasibility_tolerance": _TOLERANCE,
        "presolve_rule_off": PRESOLVE_RULES_OFF,
        "allow_unbounded_or_infeasible": False,
    }


def write_model(task: SolveTask, path: Path) -> None:
    """Write the arrays where the child maps them."""
    arrays = task.arrays
    table: dict[str, NDArray[Any]] = {
        "cost": arrays.cost, "lower": arrays.lower, "upper": arrays.upper,
        "row_lower": arrays.row_lower, "row_upper": arrays.row_upper,
        "indptr": arrays.matrix.indptr.astype(np.int32, copy=False),
        "indices": arrays.matrix.indices.astype(np.int32, copy=False),
        "data": arrays.matrix.data, "integrality": arrays.integrality.astype(np.int32),
    }  # fmt: skip
    if task.warm_start is not None:
        table["warm_start"] = task.warm_start
    header = {
        "num_variables": arrays.num_variables, "num_rows": arrays.num_rows,
        "num_nonzeros": int(arrays.matrix.nnz), "sense": arrays.sense, "offset": arrays.offset,
        "has_integers": arrays.has_integers, "library": str(library_path()),
        "options": {**common_options(task), **task.options}, "native": list(task.options),
        "deadline": task.deadline(), "stop_bound": task.stop_bound,
    }  # fmt: skip
    pack(path, header, table)


def _raise_failures(task: SolveTask, report: _Report, end: Exit) -> None:
    report.check_options("HiGHS", "see the list of HiGHS options")
    if "failure" in report.final:
        raise SolverError(f"highs: {report.final['failure']} {task.model.name!r}: {end.stderr}")
    if "status" not in report.final:
        end.check_crash("highs", task.model.name)


def _answer(task: SolveTask, report: _Report, end: Exit) -> Answer:
    _raise_failures(task, report, end)
    final = report.final
    if "status" not in final:  # killed: what was streamed stands
        answer = Answer(LinearTermination.TIME_LIMIT, "killed", bound=report.bound)
    else:
        native, termination = STATUS.get(final["status"], ("?", LinearTermination.ERROR))
        # of an LP mip_dual_bound is not set: its optimum is the bound
        bound = _finite(final["final_bound"], report.bound) if task.arrays.has_integers else None
        if not task.arrays.has_integers and termination is LinearTermination.OPTIMAL:
            bound = final["objective"]
        if "bound_suffices" in final and termination is LinearTermination.INTERRUPTED:
            native, termination = "Bound suffices", LinearTermination.ITERATION_LIMIT
        answer = Answer(termination, native, bound=bound)
    answer.termination = end.reason(answer.termination)
    answer.x, answer.claimed = report.x, report.objective
    answer.warm_start_accepted = _acceptance(report.log)
    return answer


def _acceptance(log: list[str]) -> bool | None:
    """Read from the log whether the start was taken; it says nothing if presolve drops it."""
    for line in log:
        if "start solution is feasible" in line:
            return True
        if "start solution is" in line or "cannot yield feasible" in line:
            return False
    return None


def _finite(value: Any, otherwise: float | None) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else otherwise


BACKEND = HighsBackend()
