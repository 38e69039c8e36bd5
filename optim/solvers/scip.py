"""Back end ``scip``: OR-Tools' SCIP in a child process (see `workers`)."""

from __future__ import annotations

import marshal
import re
import struct
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import InvalidInput, Problem, SolverError
from optim.solvers.interface import Answer, LinearTermination, SolverCapabilities, ortools_version
from optim.solvers.linear_model import BOUND_SCALE, TOLERANCE
from optim.solvers.process import Lines, ask_by_signal, python_child, run_child, scratch_folder

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from optim.solvers.interface import SolveTask
    from optim.solvers.linear_model import LinearArrays
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
    "unknown": LinearTermination.ERROR,
    **{
        f"{what} limit reached": LinearTermination.ITERATION_LIMIT
        for what in (
            "node",
            "total node",
            "stall node",
            "solution",
            "solution improvement",
            "restart",
            "memory",
            "objective",
            "primal",
            "dual",
        )
    },
}

_REFUSALS = ("INVALID_SOLVER_PARAMETERS", "MODEL_INVALID", "NOT_SOLVED")

_STATUS_LINE = re.compile(r"^SCIP Status +: .*\[(.+)\]")
_DUAL = re.compile(r"^Dual Bound +: ([-+0-9.einf]+)")
_ROW = re.compile(r"\| *([-+0-9.e]+|--) *\| *([-+0-9.e]+|--) *\|[^|]*\|[^|]*$")
_INFINITE = 1e19


@dataclass
class _Log:
    """What SCIP's log has reported so far, in the model's sense with the constant."""

    task: SolveTask
    status: str | None = None
    bound: float | None = None
    accepted: bool | None = None
    handed_over: float | None = None
    tail: list[str] = field(default_factory=list)

    def line(self, line: str) -> None:
        """Take one line."""
        self.tail = [*self.tail[-9:], line]
        if line.startswith("incumbent passed"):
            self.handed_over = time.perf_counter()
        elif "given by solution candidate storage" in line:
            self.accepted = "are infeasible" not in line
        elif match := _STATUS_LINE.match(line):
            self.status = match.group(1)
        elif match := _DUAL.match(line):
            self.bound = _finite(float(match.group(1)), self.bound)
        elif match := _ROW.search(line):
            self._row(match.group(1), match.group(2))

    def _row(self, dual: str, primal: str) -> None:
        proven = None
        if dual != "--":
            proven = _finite(outward(dual, self.task.arrays.sense), None)
            self.bound = self.bound if proven is None else proven
        incumbent = None if primal == "--" else _finite(float(primal), None)
        self.task.recorder.note(incumbent, proven)


MOST_SHIFT = 2**30
"""Seeds from here on are passed without their highest bit: SCIP adds to a shift for models inside a
model, and one beyond 2**31 - 1 ends the whole solve."""


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
                "optim.solvers.workers", "scip", str(folder),
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
        "limits/gap": task.stop_gap,
        "limits/absgap": task.abs_gap,
        "randomization/randomseedshift": task.seed % MOST_SHIFT,
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
    limits = {"limits/gap": task.stop_gap, "limits/absgap": task.abs_gap, **task.options}
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


def outward(text: str, sense: str) -> float:
    """Return the weakest bound that prints as `text`.

    `text`: as printed, with or without exponent.
    `sense`: ``"min"``: the bound is a lower one and is lowered; ``"max"``: it is raised.

    Examples
    --------
    >>> round(outward("5.19", "min"), 6)
    5.185
    >>> round(outward("2.712833e+03", "max"), 6)
    2712.8335
    """
    mantissa, _, exponent = text.partition("e")
    decimals = len(mantissa.partition(".")[2])
    # half a unit of the last printed digit
    half = 0.5 * 10.0 ** (int(exponent or 0) - decimals)
    return float(text) - half if sense == "min" else float(text) + half


# OR-Tools' ``MPModelProto`` written straight from arrays, in bulk.
#
# Building the message through its Python class costs a call a coefficient, and OR-Tools' own bulk
# call (``fill_model_from_sparse_data``) still one a variable for integrality and start: 6.6 s for
# 200 nodes × 10,000 tasks where this takes 2.0. The wire format is simple enough to lay out with
# numpy: variables are records of fixed size, and indices are written as varints padded to four
# bytes (28 bits), which every parser of Protocol Buffers takes.

# field numbers of linear_solver.proto, shifted by three and joined with the wire type
_VARIABLE, _CONSTRAINT, _MAXIMIZE, _OFFSET, _HINT = 0x1A, 0x22, 0x08, 0x11, 0x32
_RECORD = np.dtype(
    [
        ("message", "u1"), ("length", "u1"),
        ("lower_tag", "u1"), ("lower", "<f8"),
        ("upper_tag", "u1"), ("upper", "<f8"),
        ("cost_tag", "u1"), ("cost", "<f8"),
        ("integer_tag", "u1"), ("integer", "u1"),
    ]
)  # fmt: skip


def varint(value: int) -> bytes:
    """Encode a number ≥ 0 as a varint.

    Examples
    --------
    >>> varint(300).hex()
    'ac02'
    """
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def padded_indices(indices: NDArray[np.integer[Any]]) -> bytes:
    """Encode indices as varints of four bytes each."""
    wide = indices.astype("<u4")
    out = np.empty((len(wide), 4), dtype=np.uint8)
    for k in range(4):
        out[:, k] = (wide >> (7 * k)) & 0x7F
    out[:, :3] |= 0x80
    return out.tobytes()


def mp_model(arrays: LinearArrays, hint: NDArray[np.float64] | None = None) -> bytes:
    """Serialise the model, with a full solution hint if one is given.

    `hint`: one value a variable.
    """
    parts = [bytes([_MAXIMIZE, int(arrays.sense == "max")])]
    parts.append(struct.pack("<Bd", _OFFSET, arrays.offset))
    parts.append(_variables(arrays))
    parts += _constraints(arrays)
    if hint is not None:
        ids = padded_indices(np.arange(len(hint)))
        values = hint.astype("<f8").tobytes()
        body = b"\x0a" + varint(len(ids)) + ids + b"\x12" + varint(len(values)) + values
        parts.append(bytes([_HINT]) + varint(len(body)) + body)
    return b"".join(parts)


def _variables(arrays: LinearArrays) -> bytes:
    records = np.zeros(arrays.num_variables, dtype=_RECORD)
    records["message"], records["length"] = _VARIABLE, _RECORD.itemsize - 2
    records["lower_tag"], records["lower"] = 0x09, arrays.lower
    records["upper_tag"], records["upper"] = 0x11, arrays.upper
    records["cost_tag"], records["cost"] = 0x19, arrays.cost
    records["integer_tag"], records["integer"] = 0x20, arrays.integrality
    return records.tobytes()


def _constraints(arrays: LinearArrays) -> list[bytes]:
    ids = padded_indices(arrays.matrix.indices)
    values = arrays.matrix.data.astype("<f8", copy=False).tobytes()
    starts = arrays.matrix.indptr.tolist()
    bounds = zip(arrays.row_lower.tolist(), arrays.row_upper.tolist(), strict=True)
    pack = struct.Struct("<BdBd").pack
    parts: list[bytes] = []
    for i, (low, high) in enumerate(bounds):
        start, stop = starts[i], starts[i + 1]
        head = pack(0x11, low, 0x19, high)
        id_head = b"\x32" + varint(4 * (stop - start))
        value_head = b"\x3a" + varint(8 * (stop - start))
        # each entry: four bytes of index, eight of value
        length = len(head) + len(id_head) + len(value_head) + 12 * (stop - start)
        parts += (
            bytes([_CONSTRAINT]) + varint(length) + head + id_head, ids[4 * start : 4 * stop],
            value_head, values[8 * start : 8 * stop],
        )  # fmt: skip
    return parts


BACKEND = ScipBackend()
