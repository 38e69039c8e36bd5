"""Child process around HiGHS's C library (package ``highsbox``), reached through ctypes.

The library may not share a process with OR-Tools, which carries another copy of it. The C
interface is used rather than the executable: numbers pass exactly, without files of text, and
every improving solution is passed to the parent at once, so that a kill loses nothing.
"""

from __future__ import annotations

import ctypes
import math
import time
from typing import Any

from optim.solvers.worker_kit import Channel, Packed, StopFlag, die_with_parent, leave

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
            vector = (ctypes.c_double * self.columns).from_address(
                ctypes.addressof(out.mip_solution.contents)
            )
            head = ctypes.c_double(out.objective_function_value)
            self.channel.send(b"X", bytes(head) + bytes(vector))

    def _send_bound(self, out: Any) -> None:
        if time.monotonic() >= self._next_bound:
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


def main(path: str) -> None:
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
