"""Edges of a job's graph with their rates, and the streams between units that come of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from streamplace.clusters.flink.units import POINTWISE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamplace.clusters.exchange.ledger import Ledger
    from streamplace.clusters.flink.contents import Contents
    from streamplace.clusters.flink.pages import Job
    from streamplace.clusters.flink.units import Unit

MB = 1e6
_MOST_PAIRS = 1_000_000
"""Pairs of tasks between which traffic is written."""


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
        running = [s for s in senders if job.vertices[s].running]
        written = {s: job.vertices[s].total("written") for s in running}
        read = vertex.total("read")
        if len(running) > 1:
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
            rate = _rate(read, written, sender) if sender in written else 0.0
            yield Edge(job.id, sender, vertex.id, rate, strategies <= POINTWISE)


def _rate(read: float | None, written: dict[str, float | None], sender: str) -> float:
    """Return a sender's part of what a vertex reads: in proportion to what each sender writes.

    Senders of which that is unknown share what the others leave.
    """
    own = written[sender]
    if read is None:
        return own or 0.0
    known = sum(value for value in written.values() if value is not None)
    unknown = sum(1 for value in written.values() if value is None)
    if own is None:
        return max(0.0, read - known) / unknown
    if known <= 0:
        return 0.0 if unknown else read / len(written)
    return own * (read / known if known > read or not unknown else 1.0)


def stays_inside(edge: Edge, unit: Unit) -> bool:
    """Whether an edge between two vertices of a unit goes from a subtask to one in its own slot."""
    vertices = unit.job.vertices
    alike = vertices[edge.sender].parallelism == vertices[edge.receiver].parallelism
    return edge.pointwise and alike


def traffic_of(
    edges: list[Edge], units: list[Unit], contents: Contents, ledger: Ledger
) -> tuple[list[dict[str, Any]], list[tuple[str, str, float]]]:
    """Return streams between units, and pairs of tasks where a stream would not say who talks.

    Flink gives subtasks to slots as it likes, so that what is left between units is an even spread
    in the mean, whatever its pattern: one to one is only had within a unit. Pairs stand for what
    flows among the slots of one unit, and between units where a task holds no running subtask of
    the sender or the receiver.
    """
    unit_of = {(unit.job.id, v.id): unit for unit in units for v in unit.vertices}
    between: dict[tuple[str, str], list[Edge]] = {}
    for edge in edges:
        sender, receiver = unit_of[edge.job, edge.sender], unit_of[edge.job, edge.receiver]
        if sender is receiver and stays_inside(edge, sender):
            ledger.reading("what a subtask forwards within its slot is no traffic")
            continue
        between.setdefault((sender.name, receiver.name), []).append(edge)
        if sender is not receiver and edge.pointwise:
            ledger.reading(
                "FORWARD and RESCALE between units are an even spread: Flink decides which "
                "index goes where"
            )
    width = {unit.name: unit.width for unit in units}
    streams, pairs = [], []
    left = _MOST_PAIRS
    for (a, b), parts in between.items():
        if a != b:
            streams.append({"from": a, "to": b, "rate": sum(e.rate for e in parts) / MB})
        whole = a != b and all(contents.is_whole(e.job, v) for e in parts for v in e[1:3])
        parts = [edge for edge in parts if edge.rate > 0]
        if whole or not parts:
            continue
        left -= width[a] * width[b]
        if left >= 0:
            pairs += _pairs(a, b, (width[a], width[b]), parts, contents)
        elif a == b:
            reason = "slots are too many to write who talks to whom"
            ledger.problem(a, width[a], reason, "--option place=subtasks")
        else:
            ledger.reading("streams of very many pairs of subtasks are spread over all of them")
    return streams, pairs


def _pairs(
    a: str, b: str, widths: tuple[int, int], edges: list[Edge], contents: Contents
) -> list[tuple[str, str, float]]:
    """Return who talks to whom: each running sender to each running receiver the same."""
    rates = np.zeros(widths)
    for edge in edges:
        senders = contents.per_task(edge.job, edge.sender)
        receivers = contents.per_task(edge.job, edge.receiver)
        number = senders.sum() * receivers.sum()
        if number:
            rates += edge.rate / MB / number * np.outer(senders, receivers)
    if a == b:
        np.fill_diagonal(rates, 0.0)
    return [
        (f"{a}/{i}", f"{b}/{j}", float(rates[i, j])) for i, j in np.argwhere(rates > 0).tolist()
    ]
