"""Edges of a job's graph with their rates, and the streams between units that come of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from experiments.interchange.importers.flink_units import POINTWISE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from experiments.interchange.importers.flink_reading import Job, Vertex
    from experiments.interchange.importers.flink_units import Unit
    from experiments.interchange.ledger import Ledger

MB = 1e6
_MOST_PAIRS = 1_000_000
"""Pairs of slots of one group between which traffic is written."""


class Edge(NamedTuple):
    """What one vertex sends to another, in bytes/s, and whether index by index (or block)."""

    job: str
    sender: str
    receiver: str
    rate: float
    pointwise: bool


def edges_of(job: Job, ledger: Ledger) -> Iterator[Edge]:
    """Give each edge of the plan its rate: what the receiver reads, shared by its senders."""
    for vertex in job.vertices.values():
        senders = list(dict.fromkeys(sender for sender, _ in vertex.inputs))
        written = {s: _total(job.vertices[s], "written") for s in senders}
        read = _total(vertex, "read")
        if len(senders) > 1:
            ledger.reading(
                "what a vertex of several inputs reads is shared by what its senders write"
            )
        for sender in senders:
            if sender == vertex.id:
                ledger.warn(f"{vertex.name or vertex.id} reads itself: left out")
                continue
            strategies = {s for source, s in vertex.inputs if source == sender}
            if strategies & {"GLOBAL", "CUSTOM"}:
                ledger.reading("custom partitioning is taken as an even spread over all pairs")
            rate = _rate(read, written, sender)
            yield Edge(job.id, sender, vertex.id, rate, strategies <= POINTWISE)


def _rate(read: float | None, written: dict[str, float | None], sender: str) -> float:
    known = sum(value or 0.0 for value in written.values())
    own = written[sender]
    if read is None:
        return own or 0.0
    if len(written) == 1:
        return read
    return read * (own or 0.0) / known if known > 0 else read / len(written)


def _total(vertex: Vertex, what: str) -> float | None:
    values = [getattr(s, what) for s in vertex.subtasks.values()]
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def stays_inside(edge: Edge, unit: Unit) -> bool:
    """Whether an edge between two vertices of a unit goes from a subtask to one in its own slot."""
    vertices = unit.job.vertices
    alike = vertices[edge.sender].parallelism == vertices[edge.receiver].parallelism
    return edge.pointwise and alike


def traffic_of(
    edges: list[Edge], units: list[Unit], ledger: Ledger
) -> tuple[list[dict[str, Any]], list[tuple[str, str, float]]]:
    """Return streams between units, and pairs of tasks for what flows among those of one unit.

    Flink gives subtasks to slots as it likes, so that what is left between units is an even spread
    in the mean, whatever its pattern: one to one is only had within a unit.
    """
    unit_of = {(unit.job.id, v.id): unit for unit in units for v in unit.vertices}
    between: dict[tuple[str, str], float] = {}
    among: dict[str, float] = {}
    for edge in edges:
        sender, receiver = unit_of[edge.job, edge.sender], unit_of[edge.job, edge.receiver]
        if sender is not receiver:
            key = sender.name, receiver.name
            between[key] = between.get(key, 0.0) + edge.rate / MB
            if edge.pointwise:
                ledger.reading(
                    "FORWARD and RESCALE between units are an even spread: Flink decides which "
                    "index goes where"
                )
        elif not stays_inside(edge, sender):
            among[sender.name] = among.get(sender.name, 0.0) + edge.rate / MB
        else:
            ledger.reading("what a subtask forwards within its slot is no traffic")
    streams = [{"from": a, "to": b, "rate": rate} for (a, b), rate in between.items()]
    return streams, _pairs(among, units, ledger)


def _pairs(
    among: dict[str, float], units: list[Unit], ledger: Ledger
) -> list[tuple[str, str, float]]:
    width = {unit.name: unit.width for unit in units}
    if sum(width[name] ** 2 for name in among) > _MOST_PAIRS:
        widest = max(among, key=lambda name: width[name])
        reason = "slots are too many to write who talks to whom"
        ledger.problem(widest, width[widest], reason, "--option place=subtasks")
        return []
    return [
        (f"{name}/{i}", f"{name}/{j}", rate / width[name] ** 2)
        for name, rate in among.items()
        for i in range(width[name])
        for j in range(width[name])
        if i != j and rate > 0
    ]
