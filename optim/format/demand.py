"""Demand derived from tuple rates: input rate → operator rates → CPU and stream rates.

Source: the model-driven scheduling paper (rates through the DAG with selectivities) and the elastic
allocator's demand model (CPU = cost per tuple × tuple rate).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optim.format.document import MAX_NUMBER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from optim.format.document import InstanceDocument, StreamDocument
    from optim.format.tables import Floats

    Refuse = Callable[..., Any]  # of path, value, reason, remedy

_SAME = 1e-9
_BEYOND = f", which is beyond {MAX_NUMBER:g}"
"""What is wrong with a derived figure that would be refused if it were given."""


def topological_order(num_operators: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return operators so that every edge points forward; those on or behind a cycle are left out.

    Ties go by index, so that the order repeats.
    """
    outgoing: list[list[int]] = [[] for _ in range(num_operators)]
    missing = [0] * num_operators
    for source, target in edges:
        outgoing[source].append(target)
        missing[target] += 1
    order = [o for o in range(num_operators) if missing[o] == 0]
    for operator in order:  # grows while it is walked
        for target in outgoing[operator]:
            missing[target] -= 1
            if missing[target] == 0:
                order.append(target)
    return order


def find_cycle(num_operators: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return the operators of one cycle in order, or an empty list."""
    acyclic = set(topological_order(num_operators, edges))
    rest = [edge for edge in edges if edge[0] not in acyclic and edge[1] not in acyclic]
    # walking against the edges from anywhere behind a cycle must end in one
    feeder = {target: source for source, target in reversed(rest)}
    if not feeder:
        return []
    seen: dict[int, int] = {}
    here = min(feeder)
    while here not in seen:
        seen[here] = len(seen)
        here = feeder[here]
    walk = list(seen)
    return walk[seen[here] :][::-1]


def tuple_rates(document: InstanceDocument, index: dict[str, int], refuse: Refuse) -> Floats:
    """Derive (O,) tuples/s received by each operator; ``nan`` where it cannot be derived.

    Sources receive ``input_rate``; any other operator the sum over its input streams of the
    sender's rate times the selectivity.
    """
    rates = np.full(len(document.operators), np.nan)
    if document.input_rate is None:
        return rates
    usable = [s for s in document.streams if s.source in index and s.target in index]
    edges = [(index[s.source], index[s.target]) for s in usable]
    order = topological_order(len(rates), edges)
    if len(order) < len(rates):
        names = [document.operators[o].id for o in find_cycle(len(rates), edges)]
        cycle = " → ".join([*names, *names[:1]])
        reason = "is a cycle, and tuple rates can only be derived on an acyclic graph"
        remedy = "remove input_rate and give load and rate, or break the cycle"
        refuse("streams", cycle, reason, remedy)
        return rates
    incoming: list[list[StreamDocument]] = [[] for _ in rates]
    for stream in usable:
        incoming[index[stream.target]].append(stream)
    for operator in order:
        streams = incoming[operator]
        if not streams:
            rates[operator] = document.input_rate
        elif all(s.selectivity is not None for s in streams):
            rates[operator] = sum(
                rates[index[s.source]] * s.selectivity for s in streams if s.selectivity is not None
            )
        if rates[operator] > MAX_NUMBER:
            name = document.operators[operator].id
            told = f"{name} {rates[operator]:.9g} tuples/s"
            refuse("input_rate", document.input_rate, f"gives {told}{_BEYOND}", "check the unit")
            rates[operator] = np.nan
    return rates


def derived_load(
    document: InstanceDocument, operator: int, rates: Floats, refuse: Refuse
) -> float | None:
    """Return the operator's CPU as ``cpu_per_tuple`` × tuple rate, or ``None`` without these.

    A group load that is given and differs is a problem.
    """
    entry = document.operators[operator]
    if entry.cpu_per_tuple is None or np.isnan(rates[operator]):
        return None
    derived = float(entry.cpu_per_tuple * rates[operator])
    if derived > MAX_NUMBER:
        path = f"operators[{operator}].cpu_per_tuple"
        refuse(path, entry.cpu_per_tuple, f"gives {derived:.9g}{_BEYOND}", "check the unit")
        return None
    if entry.group is not None:
        given = entry.group.load.get(document.resources[0])
        if given is not None and not same(given, derived):
            path = f"operators[{operator}].group.load.{document.resources[0]}"
            reason = f"differs from cpu_per_tuple × tuple rate = {derived:.9g}"
            refuse(path, given, reason, "give one of the two")
    return derived


def stream_rate(
    document: InstanceDocument,
    position: int,
    index: dict[str, int],
    rates: Floats,
    refuse: Refuse,
) -> float:
    """Return a stream's rate: as given, else sender's tuple rate × selectivity × ``tuple_bytes``.

    0 where neither is to be had and the stream only describes selectivity.
    """
    stream = document.streams[position]
    derived = None
    if stream.tuple_bytes is not None and stream.source in index:
        sent = rates[index[stream.source]]
        if stream.selectivity is not None and not np.isnan(sent):
            derived = float(sent * stream.selectivity * stream.tuple_bytes)
            if derived > MAX_NUMBER:
                path = f"streams[{position}].tuple_bytes"
                reason = f"gives {derived:.9g}{_BEYOND}"
                refuse(path, stream.tuple_bytes, reason, "check the unit")
                return 0.0
    if stream.rate is None:
        if derived is None and stream.selectivity is None:
            remedy = "give rate, or input_rate, selectivity and tuple_bytes"
            path = f"streams[{position}].rate"
            refuse(path, None, "is missing and cannot be derived", remedy)
        return derived or 0.0
    if derived is not None and not same(stream.rate, derived):
        reason = f"differs from tuple rate × selectivity × tuple_bytes = {derived:.9g}"
        refuse(f"streams[{position}].rate", stream.rate, reason, "give one of the two")
    return stream.rate


def same(left: float, right: float) -> bool:
    """Whether two figures are the same up to rounding (1e-9 relative)."""
    return abs(left - right) <= _SAME * max(1.0, abs(left), abs(right))
