"""Parts of a solver's child process: reading the model, sending frames, stopping.

Only small modules of the standard library are imported: a child is to start in 20 ms.
A frame is one byte of kind, eight bytes of length, and the payload: ``J`` a marshalled dictionary,
``X`` an incumbent as float64 (objective, then the vector), ``L`` a piece of the solver's log.
Both ends run the same interpreter, so `marshal` is safe and needs no import of json.
"""

from __future__ import annotations

import ctypes
import marshal
import math
import mmap
import os
import select
import signal
import struct
import sys
import threading
import time
from array import array
from typing import Any

HEADER = struct.Struct("<cQ")
_SIZES = {"d": 8, "i": 4, "q": 8, "b": 1}
_KINDS: dict[str, Any] = {
    "d": ctypes.c_double,
    "i": ctypes.c_int32,
    "q": ctypes.c_int64,
    "b": ctypes.c_int8,
}
_PR_SET_PDEATHSIG = 1
_SIGKILL = 9


class Channel:
    """Frames to the parent over what was stdout; the solver's own prints go to stderr."""

    def __init__(self) -> None:
        # solvers print to descriptor 1 as they like: frames get a descriptor of their own
        self._fd = os.dup(1)
        os.dup2(2, 1)
        self._lock = threading.Lock()

    def send(self, kind: bytes, payload: bytes) -> None:
        """Write one frame whole."""
        data = memoryview(HEADER.pack(kind, len(payload)) + payload)
        with self._lock:
            while data:
                data = data[os.write(self._fd, data) :]

    def tell(self, **fields: Any) -> None:
        """Send a dictionary."""
        self.send(b"J", marshal.dumps(fields))

    def send_log(self, text: str) -> None:
        """Send a piece of the log."""
        self.send(b"L", text.encode(errors="replace"))


class Packed:
    """A file of named arrays after a header (written by `optim.solvers.process.pack`)."""

    def __init__(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY)
        self._map = mmap.mmap(fd, 0, access=mmap.ACCESS_COPY)
        os.close(fd)
        (length,) = struct.unpack_from("<Q", self._map, 0)
        self.header: dict[str, Any] = marshal.loads(self._map[8 : 8 + length])

    def ctypes_array(self, name: str) -> Any:
        """Return the array as a ctypes array over the mapped file."""
        code, offset, count = self.header["arrays"][name]
        if not count:
            return (_KINDS[code] * 1)()
        return (_KINDS[code] * count).from_buffer(self._map, offset)

    def view(self, name: str) -> memoryview:
        """Return the array as a typed memory view."""
        code, offset, count = self.header["arrays"][name]
        return memoryview(self._map)[offset : offset + count * _SIZES[code]].cast(code)

    def __contains__(self, name: str) -> bool:
        return name in self.header["arrays"]


class StopFlag:
    """Set when the parent writes to our stdin; the process ends when the parent is gone."""

    def __init__(self, on_stop: Any = None) -> None:
        self.is_set = False
        self._on_stop = on_stop
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        if os.read(0, 1):
            self.is_set = True
            if self._on_stop is not None:
                self._on_stop()
        else:  # end of file: the parent died
            os._exit(1)


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent ends (Linux; elsewhere a no-op)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)
        stdin = select.poll()
        stdin.register(0, 0)
        if stdin.poll(0):  # hung up: the parent ended before it could be noticed
            os._exit(1)


def become(*argv: str) -> None:
    """Run a program in place of this process; it dies with the parent."""
    die_with_parent()
    os.execv(argv[0], argv)


def leave() -> None:
    """End the process without tearing down a hundred megabytes of libraries."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def write_file(path: str, content: bytes) -> None:
    """Write a file and give it its name only when it is whole."""
    part = f"{path}.part"
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]
    os.close(fd)
    os.rename(part, path)  # noqa: PTH104 - pathlib would double the start-up time


_LOGGING, _SIMPLEX, _IPM, _SOLUTION, _MIP_LOG, _MIP_STOP = 0, 1, 2, 4, 5, 6


class _Out(ctypes.Structure):
    """``HighsCallbackDataOut`` of HiGHS 1.15, up to the fields that are read."""

    _fields_ = [
        ("cbdata", ctypes.c_void_p),
        ("log_type", ctypes.c_int),
        ("running_time", ctypes.c_double),
        ("simplex_iteration_count", ctypes.c_int),
        ("ipm_iteration_count", ctypes.c_int),
        ("pdlp_iteration_count", ctypes.c_int),
        ("objective_function_value", ctypes.c_double),
        ("mip_node_count", ctypes.c_int64),
        ("mip_total_lp_iterations", ctypes.c_int64),
        ("mip_primal_bound", ctypes.c_double),
        ("mip_dual_bound", ctypes.c_double),
        ("mip_gap", ctypes.c_double),
        ("mip_solution", ctypes.POINTER(ctypes.c_double)),
        ("mip_solution_size", ctypes.c_int),
    ]


class _In(ctypes.Structure):
    """``HighsCallbackDataIn`` of HiGHS 1.15, up to the field that is written."""

    _fields_ = [("user_interrupt", ctypes.c_int)]


_CALLBACK = ctypes.CFUNCTYPE(
    None, ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(_Out), ctypes.POINTER(_In), ctypes.c_void_p
)


class _Solver:
    """One HiGHS object and the channel to the parent."""

    def __init__(self, lib: Any, channel: Channel, packed: Packed) -> None:
        self.lib, self.channel, self.packed = lib, channel, packed
        self.columns = int(packed.header["num_variables"])
        self.highs = ctypes.c_void_p(lib.Highs_create())
        self.stop = StopFlag()
        self._callback = _CALLBACK(self._called)  # kept alive here
        self._next_bound = 0.0
        self._enough = False

    def pass_model(self) -> int:
        """Hand the mapped arrays over; returns HiGHS's status (-1 error)."""
        header, data = self.packed.header, self.packed.ctypes_array
        integrality = data("integrality") if header["has_integers"] else None
        return self.lib.Highs_passMip(
            self.highs, self.columns, header["num_rows"], header["num_nonzeros"], 2,
            -1 if header["sense"] == "max" else 1, ctypes.c_double(header["offset"]),
            data("cost"), data("lower"), data("upper"), data("row_lower"), data("row_upper"),
            data("indptr"), data("indices"), data("data"), integrality,
        )  # fmt: skip

    def set_option(self, name: str, value: Any) -> bool:
        """Set one option by its own type; False where HiGHS refuses name or value."""
        try:
            return self._set_typed(name.encode(), value)
        except (TypeError, ValueError):  # "abc" for a number
            return False

    def _set_typed(self, key: bytes, value: Any) -> bool:
        kind = ctypes.c_int()
        if self.lib.Highs_getOptionType(self.highs, key, ctypes.byref(kind)) != 0:
            return False
        if kind.value == 0:
            flag = str(value).lower() in ("1", "true", "on")
            return self.lib.Highs_setBoolOptionValue(self.highs, key, int(flag)) == 0
        if kind.value == 1:
            return self.lib.Highs_setIntOptionValue(self.highs, key, int(value)) == 0
        if kind.value == 2:
            number = ctypes.c_double(float(value))
            return self.lib.Highs_setDoubleOptionValue(self.highs, key, number) == 0
        return self.lib.Highs_setStringOptionValue(self.highs, key, str(value).encode()) == 0

    def listen(self) -> None:
        """Switch the callbacks on."""
        self.lib.Highs_setCallback(self.highs, self._callback, None)
        for kind in (_LOGGING, _SIMPLEX, _IPM, _SOLUTION, _MIP_LOG, _MIP_STOP):
            self.lib.Highs_startCallback(self.highs, kind)

    def _called(self, kind: int, text: bytes, out: Any, into: Any, _: Any) -> None:
        if kind == _LOGGING:
            self.channel.send_log((text or b"").decode(errors="replace"))
        elif kind == _SOLUTION:
            self._send_solution(out.contents)
        elif kind == _MIP_LOG:
            self._send_bound(out.contents)
        if kind in (_MIP_LOG, _MIP_STOP):
            self._enough = self._enough or self._suffices(out.contents.mip_dual_bound)
        if (self.stop.is_set or self._enough) and into:
            into.contents.user_interrupt = 1

    def _suffices(self, bound: float) -> bool:
        """Whether the bound is all that was asked for."""
        wanted = self.packed.header["stop_bound"]
        if wanted is None or not math.isfinite(bound):
            return False
        return bool(bound <= wanted if self.packed.header["sense"] == "max" else bound >= wanted)

    def _send_solution(self, out: Any) -> None:
        if out.mip_solution_size == self.columns and out.mip_solution:
            # HiGHS owns the memory and reuses it after the callback: copied at once
            vector = (ctypes.c_double * self.columns).from_address(
                ctypes.addressof(out.mip_solution.contents)
            )
            head = ctypes.c_double(out.objective_function_value)
            self.channel.send(b"X", bytes(head) + bytes(vector))

    def _send_bound(self, out: Any) -> None:
        if time.monotonic() >= self._next_bound:
            # HiGHS reports after each node: 20 frames a second are enough for progress
            self._next_bound = time.monotonic() + 0.05
            self.channel.tell(bound=out.mip_dual_bound, incumbent=out.mip_primal_bound)

    def info(self, name: str) -> float:
        """Return a double of HiGHS's information record, NaN where it is not valid."""
        value = ctypes.c_double(float("nan"))
        self.lib.Highs_getDoubleInfoValue(self.highs, name.encode(), ctypes.byref(value))
        return value.value

    def int_info(self, name: str) -> int:
        """Return an integer of the information record, -1 where it is not valid."""
        value = ctypes.c_int(-1)
        self.lib.Highs_getIntInfoValue(self.highs, name.encode(), ctypes.byref(value))
        return value.value

    def send_result(self) -> None:
        """Send status, figures and, where there is a feasible point, the vector."""
        status = self.lib.Highs_getModelStatus(self.highs)
        objective = self.lib.Highs_getObjectiveValue(self.highs)
        feasible = self.int_info("primal_solution_status") == 2
        if feasible:
            x = (ctypes.c_double * self.columns)()
            self.lib.Highs_getSolution(self.highs, x, None, None, None)
            self.channel.send(b"X", bytes(ctypes.c_double(objective)) + bytes(x))
        if self._enough and not self.stop.is_set:
            self.channel.tell(bound_suffices=True)
        self.channel.tell(
            status=status, objective=objective, has_solution=feasible,
            final_bound=self.info("mip_dual_bound"),
        )  # fmt: skip


def highs(path: str) -> None:
    """Solve the packed model at `path`."""
    die_with_parent()
    channel = Channel()
    packed = Packed(path)
    header = packed.header
    lib = ctypes.CDLL(header["library"])
    lib.Highs_create.restype = ctypes.c_void_p
    lib.Highs_getObjectiveValue.restype = ctypes.c_double
    lib.Highs_version.restype = ctypes.c_char_p
    solver = _Solver(lib, channel, packed)
    for name, value in header["options"].items():
        if not solver.set_option(name, value):
            channel.tell(refused_option=name)
            return
    if solver.pass_model() == -1:
        channel.tell(failure="HiGHS did not take the model")
        return
    if "warm_start" in packed:
        lib.Highs_setSolution(solver.highs, packed.ctypes_array("warm_start"), None, None, None)
    if header["deadline"] is not None and "time_limit" not in header["native"]:
        solver.set_option("time_limit", max(0.0, header["deadline"] - time.monotonic()))
    channel.tell(handed_over=True)
    solver.listen()
    lib.Highs_run(solver.highs)
    solver.send_result()
    leave()


def cp_sat(path: str) -> None:
    """Solve the packed integer model at `path`."""
    die_with_parent()
    channel = Channel()
    packed = Packed(path)
    from ortools.sat.python import cp_model_helper as helper

    wrapper = helper.SolveWrapper()
    parameters = helper.SatParameters()
    for name, value in packed.header["options"].items():
        if not _set(parameters, name, value):
            channel.tell(refused_option=name)
            return
    proto = _proto(helper, packed)
    deadline = packed.header["deadline"]
    if deadline is not None and "max_time_in_seconds" not in packed.header["options"]:
        parameters.max_time_in_seconds = max(0.0, deadline - time.monotonic())
    # the time left is read last, as late as can be: reading the model counts too
    wrapper.set_parameters(parameters)
    callback = _callback_class(helper)(channel)
    wrapper.add_solution_callback(callback)
    wrapper.add_best_bound_callback(lambda bound: channel.tell(bound=bound))
    wrapper.add_log_callback(channel.send_log)
    StopFlag(wrapper.stop_search)
    channel.tell(handed_over=True)
    response = wrapper.solve(proto)
    if len(response.solution):
        channel.send(b"X", array("q", response.solution).tobytes())
    channel.tell(
        status=response.status.name,
        final_bound=response.best_objective_bound,
        message=response.solution_info,
        invalid=helper.CpSatHelper.validate_model(proto)
        if response.status.name == "MODEL_INVALID"
        else "",
    )
    leave()


def _set(parameters: Any, name: str, value: Any) -> bool:
    """Set one parameter through its text form; False if CP-SAT refuses it."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return hasattr(parameters, name) and bool(parameters.merge_text_format(f"{name}: {text}"))


def _proto(helper: Any, packed: Packed) -> Any:
    proto = helper.CpModelProto()
    for low, high in zip(packed.view("lower"), packed.view("upper"), strict=True):
        proto.variables.add().domain.extend((low, high))
    indptr, indices, data = packed.view("indptr"), packed.view("indices"), packed.view("data")
    bounds = zip(packed.view("row_lower"), packed.view("row_upper"), strict=True)
    for i, (low, high) in enumerate(bounds):
        here = slice(indptr[i], indptr[i + 1])
        row = proto.constraints.add().linear
        row.vars.extend(indices[here].tolist())
        row.coeffs.extend(data[here].tolist())
        row.domain.extend((low, high))
    cost = packed.view("cost")
    priced = [j for j, value in enumerate(cost) if value]
    proto.objective.vars.extend(priced)
    proto.objective.coeffs.extend([cost[j] for j in priced])
    if "warm_start" in packed:
        proto.solution_hint.vars.extend(range(len(cost)))
        proto.solution_hint.values.extend(packed.view("warm_start").tolist())
    return proto


def _callback_class(helper: Any) -> Any:
    class Sender(helper.SolutionCallback):
        """Sends every improving solution."""

        def __init__(self, channel: Channel) -> None:
            super().__init__()
            self.channel = channel

        def OnSolutionCallback(self) -> None:
            self.channel.send(b"X", array("q", self.Response().solution).tobytes())

    return Sender


_LINE_BUFFERED = 1


def scip(folder: str, deadline: str, parameters: str) -> None:
    """Solve ``model.pb`` in `folder`, write ``result`` there: marshalled status, value, vector.

    `deadline`: on the clock of `time.monotonic`, ``None`` for none.
    `parameters`: SCIP parameters, one ``name = value`` a line.
    """
    die_with_parent()
    # before SCIP listens there is nothing to hand over
    signal.signal(signal.SIGINT, lambda *_: os._exit(3))
    libc = ctypes.CDLL(None)
    libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, _LINE_BUFFERED, 0)
    from ortools.linear_solver.python import model_builder_helper as helper

    model = helper.ModelBuilderHelper()
    if not model.read_model_from_proto_file(f"{folder}/model.pb"):
        raise SystemExit("OR-Tools could not read the model")
    solver = helper.ModelSolverHelper("scip")
    solver.enable_output(True)
    solver.set_solver_specific_parameters(parameters)
    if deadline != "None":
        solver.set_time_limit_in_seconds(max(0.0, float(deadline) - time.monotonic()))
    print("incumbent passed", flush=True)
    # SCIP listens by itself while it solves; afterwards the result must get out
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    solver.solve(model)
    write_file(f"{folder}/result", marshal.dumps(_result(solver, model.num_variables())))
    leave()


def _result(solver: Any, count: int) -> dict[str, Any]:
    has_solution = bool(solver.has_solution())
    return {
        "status": solver.status().name,
        "message": solver.status_string(),
        "objective": solver.objective_value() if has_solution else None,
        # one by one: as an array they would need an import of numpy
        "x": array("d", map(solver.variable_value, range(count))).tobytes()
        if has_solution
        else None,
    }
