"""Traffic of components split over pairs of executors by grouping.

Storm tells how many tuples a bolt executed by sender and stream, and how many each executor sent
and executed; no interface tells executor to executor. A sender's share is its share of what its
component sent. What a receiver gets of each sender follows the grouping:

=================================  ==============================================================
shuffle, none, local_or_shuffle    every executor the same
all                                every executor the same: what was executed holds the copies
global                             all to the executor with the lowest task
fields, direct, partial key,       in proportion to what each executor executed: keys are skewed
custom, unknown
=================================  ==============================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from experiments.interchange.importers.storm_reading import Component, Topology
    from experiments.interchange.ledger import Ledger
    from optim.format.tables import Floats

_EVEN = {"shuffle", "none", "localorshuffle", "all"}
_GLOBAL = {"global"}


class Edge:
    """Traffic between two components: (a, b) rates of executor pairs, or one even rate."""

    def __init__(self, source: str, target: str) -> None:
        self.source, self.target = source, target
        self.rate = 0.0
        self.even = True
        self.pairs: Floats | None = None

    def add(self, rate: float, senders: Floats, receivers: Floats) -> None:
        """Add a subscription's rate, spread over senders' and receivers' shares."""
        part = rate * np.outer(senders, receivers)
        self.pairs = part if self.pairs is None else self.pairs + part
        self.rate += rate
        self.even = self.even and _is_even(senders) and _is_even(receivers)


def edges_of(topology: Topology, seconds: float, ledger: Ledger, most_pairs: int) -> list[Edge]:
    """Split all subscriptions of a topology; rates are tuples/s.

    Parameters
    ----------
    seconds
        What the counts stand for.
    most_pairs
        Edges that would give more pairs than this in all are spread evenly, which needs no list.
    """
    left = most_pairs
    found: dict[tuple[str, str], Edge] = {}
    for target, sender, stream, count in _subscriptions(topology, ledger):
        source = topology.components.get(sender)
        if source is None or sender == target.name:
            ledger.warn(f"{target.name} reads {sender}, which is left out: no pair of components")
            continue
        grouping = topology.groupings.get((sender, stream, target.name))
        if grouping is None:
            ledger.reading("groupings that no document names are split as measured")
        edge = found.setdefault((sender, target.name), Edge(sender, target.name))
        senders, receivers = sender_shares(source), receiver_shares(target, grouping)
        if len(senders) * len(receivers) > left:
            ledger.reading("edges with very many pairs of executors are spread evenly")
            edge.rate += count / seconds
        elif len(senders) and len(receivers):
            left -= len(senders) * len(receivers) if edge.pairs is None else 0
            edge.add(count / seconds, senders, receivers)
    return list(found.values())


def _subscriptions(topology: Topology, ledger: Ledger) -> list[tuple[Component, str, str, float]]:
    """Return (receiver, sender, stream, tuples): what bolts executed, else what spouts sent."""
    measured = [
        (part, sender, stream, executed)
        for part in topology.components.values()
        for (sender, stream), executed in part.inputs.items()
    ]
    known = {(sender, part.name) for part, sender, _, _ in measured}
    readers: dict[str, list[tuple[str, str]]] = {}
    for sender, stream, receiver in topology.groupings:
        readers.setdefault(sender, []).append((stream, receiver))
    for sender, subscriptions in readers.items():
        source = topology.components.get(sender)
        for stream, receiver in subscriptions:
            target = topology.components.get(receiver)
            if target is None or source is None or (sender, receiver) in known:
                continue
            if source.sent is None:
                continue
            ledger.reading(
                "where a bolt tells no inputs, what its sender transferred is shared evenly "
                "by those who read it"
            )
            measured.append((target, sender, stream, source.sent / len(subscriptions)))
    return measured


def sender_shares(part: Component) -> Floats:
    """(a,) share of each executor in what its component sends."""
    return _shares([e.sent for e in part.executors], _count(part))


def receiver_shares(part: Component, grouping: str | None) -> Floats:
    """(b,) share of each executor in what its component receives under a grouping."""
    count = _count(part)
    plain = (grouping or "").lower().replace("_", "").replace(" ", "").replace("-", "")
    plain = plain.removesuffix("grouping")
    if plain in _GLOBAL:
        only = np.zeros(count)
        only[:1] = 1.0
        return only
    if plain in _EVEN:
        return np.full(count, 1.0 / max(1, count))
    return _shares([e.done for e in part.executors], count)


def _count(part: Component) -> int:
    return len(part.executors)


def _shares(values: Sequence[float | None], count: int) -> Floats:
    known = np.array([0.0 if v is None else v for v in values], dtype=np.float64)
    total = known.sum()
    if len(known) != count or total <= 0 or any(v is None for v in values):
        return np.full(count, 1.0 / max(1, count))
    return np.asarray(known / total, dtype=np.float64)


def _is_even(shares: Floats) -> bool:
    return bool(len(shares)) and bool(np.allclose(shares, shares[0], rtol=1e-9, atol=0.0))
