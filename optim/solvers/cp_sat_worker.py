"""Child process around OR-Tools' CP-SAT, through its native protocol buffer.

Every solution is passed to the parent at once, so that a kill loses nothing.
"""

from __future__ import annotations

import time
from array import array
from typing import Any

from optim.solvers.worker_kit import Channel, Packed, StopFlag, die_with_parent, leave


def main(path: str) -> None:
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
