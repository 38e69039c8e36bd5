"""Back end ``cbc``: the CBC executable that PuLP ships, fed with arrays.

PuLP's model objects are not built: on ALBIC's model of 60 nodes and 1,200 key groups they cost some
26 times the arrays. PuLP gives the executable; model, start and solution pass through files.
The solution is read from CBC's binary file, since its text file keeps eight digits only.
"""

from __future__ import annotations

import re
import struct
import time
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import InvalidInput, Problem, SolverError
from optim.solvers.interface import Answer, LinearTermination, SolverCapabilities
from optim.solvers.mps import column_order, mps_text
from optim.solvers.process import (
    Exit,
    Lines,
    ask_by_signal,
    guarded_command,
    run_child,
    scratch_folder,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optim.solvers.interface import SolveTask

#: First words of the solution file → termination. After a time-out CBC may still write
#: ``Optimal`` or, after an interrupt, ``Stopped on iterations``: the log decides
#: (`_LOG_STATUS`).
STATUS: tuple[tuple[str, LinearTermination], ...] = (
    ("Optimal", LinearTermination.OPTIMAL),
    ("Optimal (within gap", LinearTermination.GAP_REACHED),
    ("Infeasible", LinearTermination.INFEASIBLE),
    ("Integer infeasible", LinearTermination.INFEASIBLE),
    ("Unbounded", LinearTermination.UNBOUNDED),
    ("Stopped on time", LinearTermination.TIME_LIMIT),
    ("Stopped on nodes", LinearTermination.ITERATION_LIMIT),
    ("Stopped on solutions", LinearTermination.ITERATION_LIMIT),
    ("Stopped on iterations", LinearTermination.ITERATION_LIMIT),
    ("Stopped on gap", LinearTermination.GAP_REACHED),
    ("Stopped on difficulties", LinearTermination.ERROR),
    ("Stopped on ctrl-c", LinearTermination.INTERRUPTED),
    ("Stopped by event", LinearTermination.INTERRUPTED),
)

_LOG_STATUS: tuple[tuple[str, LinearTermination], ...] = (
    ("Exiting on maximum time", LinearTermination.TIME_LIMIT),
    ("Stopped on time limit", LinearTermination.TIME_LIMIT),
    ("User ctrl-c", LinearTermination.INTERRUPTED),
    ("Stopped on node limit", LinearTermination.ITERATION_LIMIT),
    ("Stopped on solution limit", LinearTermination.ITERATION_LIMIT),
    # said before the search; CBC 2.10 may then crash instead of writing its files
    ("Problem is infeasible", LinearTermination.INFEASIBLE),
    ("Problem proven infeasible", LinearTermination.INFEASIBLE),
    ("Linear relaxation infeasible", LinearTermination.INFEASIBLE),
    ("Linear relaxation unbounded", LinearTermination.UNBOUNDED),
)

_CLOSED = (LinearTermination.OPTIMAL, LinearTermination.GAP_REACHED)

_NUMBER = r"([-+]?[0-9.]+(?:e[-+]?[0-9]+)?)"
_BEST_POSSIBLE = re.compile(rf"^Cbc00(?:10|05)I .*best possible {_NUMBER}")
_RELAXATION = re.compile(rf"^Continuous objective value is {_NUMBER}")
_INCUMBENT = re.compile(rf"^Cbc00\d\dI Integer solution of {_NUMBER}")
_EXIT_GAP = re.compile(rf"Exiting as integer gap of {_NUMBER}")
_UNKNOWN = re.compile(r"No match for (\S+)")
_HUGE = 1e45

#: CBC looks only for solutions better by this much; its default of 1e-5 is coarser than our gap.
_INCREMENT = 1e-9

#: By default CBC takes 0.99999999 for 1, and drops the node if the 1 then oversteps a row: sums
#: that just fit were called infeasible, or lost as optima. So next to nothing is taken for whole.
_INTEGER_TOLERANCE = 1e-12
_ROW_TOLERANCE = 1e-10

#: CBC looks at the clock seldom and returns nothing when it is killed, so it gets a little less
#: time: at most this many seconds, or 3 %.
_MARGIN = 0.5


@dataclass
class _Log:
    """What CBC's log has reported so far; values are those of the minimisation."""

    task: SolveTask
    sign: float
    tail: list[str] = field(default_factory=list)
    bound: float | None = None
    exit_gap: float | None = None
    incumbent: bool = False
    status: LinearTermination | None = None
    accepted: bool | None = None
    refused: str | None = None
    model_read: float | None = None

    def line(self, line: str) -> None:
        """Take one line."""
        self.tail = [*self.tail[-19:], line]
        if "model read with" in line:
            self.model_read = time.perf_counter()
        for phrase, termination in _LOG_STATUS:
            if phrase in line:
                self.status = termination
        if "MIPStart provided solution" in line:
            self.accepted = True
        elif "mipstart values could not be used" in line:
            self.accepted = False
        elif refusal := _UNKNOWN.search(line):
            self.refused = refusal.group(1)
        self._numbers(line)

    def _numbers(self, line: str) -> None:
        for pattern, digits in ((_BEST_POSSIBLE, 8), (_RELAXATION, 6)):
            match = pattern.search(line)
            proven = outward_trimmed(match.group(1), "min", digits) if match else -_HUGE
            if abs(proven) < _HUGE and (self.bound is None or proven > self.bound):
                self.bound = proven
                self.task.recorder.note(bound=self.sign * proven)
        if match := _INCUMBENT.search(line):
            self.incumbent = True
            self.task.recorder.note(incumbent=self.sign * float(match.group(1)))
        if match := _EXIT_GAP.search(line):
            self.exit_gap = float(match.group(1))


class CbcBackend:
    """PuLP's CBC in its own process."""

    capabilities = SolverCapabilities("cbc", "CBC (PuLP)", "pulp")

    def version(self) -> str:
        """Version of CBC and of the PuLP it came with."""
        from importlib.metadata import version

        return f"{_banner_version()} (PuLP {version('pulp')})"

    def solve(self, task: SolveTask) -> Answer:
        """Run CBC on the task."""
        before = time.perf_counter()
        log = _Log(task, 1.0 if task.arrays.sense == "min" else -1.0)
        with scratch_folder() as folder:
            (folder / "model.mps").write_text(mps_text(task.arrays))
            if task.warm_start is not None and task.arrays.has_integers:
                (folder / "start.mst").write_text(_start_text(task))
            answer = run_child(
                guarded_command([str(executable()), *arguments(task)]), Lines(log.line),
                lambda end: _answer(task, log, folder, end),
                deadline=task.deadline(), folder=folder, ask=ask_by_signal, terminal=True,
            )  # fmt: skip
        answer.handover_seconds = (log.model_read or time.perf_counter()) - before
        return answer


@cache
def executable() -> Path:
    """Path of PuLP's CBC; `ImportError` or `OSError` where it is missing."""
    from pulp.apis.coin_api import PULP_CBC_CMD

    path = Path(PULP_CBC_CMD.pulp_cbc_path).resolve()
    if not path.is_file():
        raise OSError(f"PuLP has no CBC at {path}")
    return path


@cache
def _banner_version() -> str:
    """Version that the executable reports of itself."""
    import subprocess

    output = subprocess.run([executable(), "-quit"], capture_output=True, text=True, timeout=60)
    match = re.search(r"Version: (\S+)", output.stdout)
    return match.group(1) if match else "?"


def arguments(task: SolveTask) -> list[str]:
    """CBC's command line for the task."""
    argv = ["model.mps"]
    remaining = task.remaining()
    # seed 0 means the time of day to CBC
    common: dict[str, Any] = {
        "timeMode": "elapsed", "randomSeed": task.seed + 1, "randomCbcSeed": task.seed + 1,
        "ratioGap": task.stop_gap, "allowableGap": task.abs_gap, "increment": _INCREMENT,
        "integerTolerance": _INTEGER_TOLERANCE, "primalTolerance": _ROW_TOLERANCE,
        # its complete search of small subtrees does not look at the clock
        "depthMiniBab": -1000,
        # both rest on CBC 2.10's probing, which cuts off optima: with preprocessing 1 in 100 small
        # random models came out wrong or infeasible, with probing alone 1 in 2,000
        "preprocess": "off",
        "probing": "off",
    }  # fmt: skip
    if remaining is not None:
        common["seconds"] = f"{max(0.01, remaining - min(_MARGIN, 0.03 * remaining)):.3f}"
    if task.warm_start is not None and task.arrays.has_integers:
        common["mipstart"] = "start.mst"
    for name, value in {**common, **task.options}.items():
        argv += [f"-{name}"] if value is None else [f"-{name}", str(value)]
    return [*argv, "-solve", "-saveSolution", "solution.bin", "-solution", "solution.txt"]


def _start_text(task: SolveTask) -> str:
    """CBC's start file: the integers; it sets the continuous variables itself."""
    assert task.warm_start is not None
    columns = np.flatnonzero(task.arrays.integrality)
    values = np.round(task.warm_start[columns]).astype(np.int64).tolist()
    head = "Stopped on time - objective value 0\n"
    pairs = zip(columns.tolist(), values, strict=True)
    return head + "".join(f"{j} C{j} {value} 0\n" for j, value in pairs)


def _answer(task: SolveTask, log: _Log, folder: Path, end: Exit) -> Answer:
    if log.refused is not None:
        name = log.refused.lstrip("-")
        remedy = "see the options that CBC lists for '?'"
        raise InvalidInput(Problem(f"options.{name}", None, "is not an option of CBC", remedy))
    text = folder / "solution.txt"
    # the log is believed before the file: after a proof CBC 2.10 may crash, or write another status
    if log.status is LinearTermination.INFEASIBLE:
        return Answer(log.status, "infeasible", warm_start_accepted=log.accepted)
    if not text.is_file():
        return _without_files(task, log, end)
    with text.open() as file:
        native = file.readline().partition(" - objective")[0].strip()
    termination = _termination(native, log, end)
    x = None
    if termination not in (LinearTermination.INFEASIBLE, LinearTermination.UNBOUNDED):
        x = _vector(task, folder / "solution.bin", native)
    answer = Answer(termination, native, x, warm_start_accepted=log.accepted)
    answer.claimed = None if x is None else task.arrays.objective_of(x)
    answer.bound = _bound(log, answer)
    return answer


def _without_files(task: SolveTask, log: _Log, end: Exit) -> Answer:
    """CBC wrote nothing: it was stopped, or it crashed."""
    end.check_crash("cbc", task.model.name, "\n".join(log.tail[-5:]))
    stop = end.reason(LinearTermination.TIME_LIMIT)
    answer = Answer(stop, "killed", warm_start_accepted=log.accepted)
    if log.accepted or log.incumbent:
        answer.add("CBC had to be killed, which loses its incumbent")
    answer.bound = _bound(log, answer)
    return answer


def _termination(native: str, log: _Log, end: Exit) -> LinearTermination:
    written = LinearTermination.ERROR
    for phrase, termination in STATUS:
        if native.startswith(phrase):
            written = termination
    return end.reason(written if log.status is None else log.status)


def _vector(task: SolveTask, path: Path, native: str) -> NDArray[np.float64] | None:
    """Read the binary solution: two counts, the objective, row values and duals, columns."""
    if "no integer solution" in native or not path.is_file():
        return None
    data = path.read_bytes()
    rows, columns, _ = struct.unpack_from("<iid", data)
    expected = task.arrays.num_variables
    # one column more where the objective has a constant (`ONE`)
    if columns - expected not in (0, 1) or len(data) < 16 + 8 * (2 * rows + columns):
        raise SolverError(f"cbc: solution file of {columns} columns, {len(data)} bytes")
    values = np.frombuffer(data, count=expected, offset=16 + 16 * rows)
    x = np.empty(expected)
    x[column_order(task.arrays)] = values
    return x


def _bound(log: _Log, answer: Answer) -> float | None:
    """Bound in the model's sense: the objective itself when the search was completed."""
    proven = log.bound
    if answer.termination in _CLOSED and answer.claimed is not None:
        if log.exit_gap is None:
            return answer.claimed
        # the gap is printed with six digits
        lowest = log.sign * answer.claimed - log.exit_gap * (1 + 1e-4)
        proven = lowest if proven is None else max(lowest, proven)
    return None if proven is None else log.sign * proven


def outward_trimmed(text: str, sense: str, digits: int) -> float:
    """Return the weakest bound that prints as `text` where trailing zeros are not printed.

    `text`, `sense`: as printed, with or without exponent; ``"min"``: the bound is a lower one and
        is lowered; ``"max"``: it is raised.
    `digits`: significant digits the solver prints at most; a shorter number is exact to that digit.

    Examples
    --------
    >>> outward_trimmed("-646.5", "min", 8)
    -646.500005
    """
    value = float(text)
    magnitude = len(f"{abs(value):.0f}") if abs(value) >= 1 else 0
    # half a unit of the last digit that is printed at most
    half = 0.5 * 10.0 ** (magnitude - digits)
    if 0 < abs(value) < 1:
        leading = f"{abs(value):.1e}".partition("e")[2]
        half = 0.5 * 10.0 ** (int(leading) + 1 - digits)
    return value - half if sense == "min" else value + half


BACKEND = CbcBackend()
