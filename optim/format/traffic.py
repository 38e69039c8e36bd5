"""Streams and task pairs: how a stream's rate spreads, and what a placement collocates.

A `full` stream between two groups of a and b tasks has a·b equal pairs. Those are stored as a block
and counted per node, so that the referee costs O(tasks + nodes) and not O(a·b). A `local_first`
stream has no pairs: who receives depends on the placement.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from optim.errors import InvalidInput, Problem
from optim.format.document import MAX_NUMBER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from optim.format.document import InstanceDocument, StreamDocument
    from optim.format.tables import Floats, Ints, PatternName, Stream, TrafficTable

    Refuse = Callable[..., Any]

MAX_PAIRS = 50_000_000
_ALWAYS_EXPANDED = 64


class TaskPairs(NamedTuple):
    """Undirected task pairs, u < v, each once with both directions added; sorted by (u, v)."""

    u: Ints
    v: Ints
    rate: Floats

    @property
    def num_pairs(self) -> int:
        """Number of pairs."""
        return len(self.u)


class FullBlock(NamedTuple):
    """A `full` stream: every pair of `sources` × `targets` carries `pair_rate`."""

    sources: Ints
    targets: Ints
    pair_rate: float


class LocalBlock(NamedTuple):
    """A `local_first` stream, or the part of it whose senders send alike.

    Each of `sources` sends `rate` to those of `targets` that are nearest to it.
    """

    sources: Ints
    targets: Ints
    rate: float


def point_pairs(pattern: PatternName, a: int, b: int) -> tuple[Ints, Ints, Floats]:
    """Return sender, receiver and share of the stream's rate of a non-full pattern.

    `pattern`: ``one_to_one``: a = b, pair i–i. ``rescale``: contiguous blocks as Flink's pointwise
        distribution forms them. ``merge``: sender i to receiver i mod b.
    `a`, `b`: numbers of senders and receivers.
    """
    if pattern == "one_to_one":
        members = np.arange(a, dtype=np.int32)
        return members, members, np.full(a, 1.0 / a)
    if pattern == "merge":
        senders = np.arange(a, dtype=np.int32)
        return senders, senders % b, np.full(a, 1.0 / a)
    if a >= b:  # receiver j takes senders [j·a // b, (j+1)·a // b)
        bounds = np.arange(b + 1, dtype=np.int64) * a // b
        receivers = np.repeat(np.arange(b, dtype=np.int32), np.diff(bounds))
        return np.arange(a, dtype=np.int32), receivers, np.full(a, 1.0 / a)
    bounds = -(-np.arange(a + 1, dtype=np.int64) * b // a)  # sender i feeds [ceil(i·b/a), …)
    width = np.diff(bounds)
    senders = np.repeat(np.arange(a, dtype=np.int32), width)
    return senders, np.arange(b, dtype=np.int32), np.repeat(1.0 / (a * width), width)


@dataclass(frozen=True, eq=False)
class Traffic:
    """All traffic of an instance: single directed pairs, full blocks, and `local_first` streams.

    Of the latter nothing is in `directed` and `pairs`: methods that know pairs only refuse them
    (`optim.rules.capacity`). `rack` is (N,) the rack of each node, -1 for none.
    """

    num_tasks: int
    source: Ints
    target: Ints
    rate: Floats
    blocks: tuple[FullBlock, ...]
    local: tuple[LocalBlock, ...]
    rack: Ints

    @classmethod
    def of(
        cls,
        num_tasks: int,
        streams: Sequence[Stream],
        explicit: TrafficTable,
        tasks_of: Callable[[int], Ints],
        rack: Ints,
    ) -> Traffic:
        """Spread the streams over the tasks of their operators and add the explicit pairs."""
        parts: list[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]] = [
            (explicit.source, explicit.target, explicit.rate)
        ]
        blocks, local = [], []
        for stream in streams:
            if stream.replaced or not stream.rate > 0:
                continue
            senders, receivers = tasks_of(stream.source), tasks_of(stream.target)
            a, b = len(senders), len(receivers)
            if a == 0 or b == 0:
                continue
            if stream.pattern == "local_first":
                sent = stream.rate * _shares(stream.sender_weights, a)
                if b == 1:
                    parts.append((senders, np.repeat(receivers, a), sent))
                    continue
                for rate in np.unique(sent[sent > 0]):
                    local.append(LocalBlock(senders[sent == rate], receivers, float(rate)))
            elif stream.pattern != "full":
                i, j, share = point_pairs(stream.pattern, a, b)
                parts.append((senders[i], receivers[j], stream.rate * share))
            # few pairs: as single ones they take less than the counts of a block
            elif a * b <= max(_ALWAYS_EXPANDED, 4 * (a + b)):
                parts.append(_expand(FullBlock(senders, receivers, stream.rate / (a * b))))
            else:
                blocks.append(FullBlock(senders, receivers, stream.rate / (a * b)))
        u, v, rate = (np.concatenate(column) for column in zip(*parts, strict=True))
        return cls(num_tasks, u, v, rate, tuple(blocks), tuple(local), rack)

    def total(self) -> float:
        """Sum of all rates."""
        full = sum(b.pair_rate * len(b.sources) * len(b.targets) for b in self.blocks)
        return float(self.rate.sum() + full + sum(b.rate * len(b.sources) for b in self.local))

    def collocated(self, place: Ints, num_places: int) -> float:
        """Traffic between tasks at the same place; `parted` says what places are."""
        return self.parted(place, num_places, others=False)[0]

    def apart(self, place: Ints, num_places: int) -> float:
        """Traffic between tasks that are not at the same place."""
        return self.parted(place, num_places)[1]

    def parted(self, place: Ints, num_places: int, *, others: bool = True) -> tuple[float, float]:
        """Traffic between tasks at the same place, and, where asked for, that between others.

        The latter is added up, not what the former leaves of all, which of much traffic is off by
        more than a little that crosses.

        `place`: (T,) place of each task; -1 means nowhere, and such a task meets nobody.
        `num_places`: places are numbered below this.
        `others`: whether the second figure is needed; 0 if not.
        """
        at_source = place[self.source]
        together = (at_source == place[self.target]) & (at_source >= 0)
        gain = float(self.rate[together].sum())
        rest = float(self.rate.sum(where=~together)) if others else 0.0
        for block in self.blocks:
            senders = _counts(place[block.sources], num_places)
            pairs_together = float(senders @ _counts(place[block.targets], num_places))
            gain += block.pair_rate * pairs_together
            if others:
                rest += block.pair_rate * (len(block.sources) * len(block.targets) - pairs_together)
        for near in self.local:  # all of it where a receiver is at the same place, else nothing
            senders = _counts(place[near.sources], num_places)
            here = float(senders @ (_counts(place[near.targets], num_places) > 0))
            gain += near.rate * here
            if others:
                rest += near.rate * (len(near.sources) - here)
        return gain, rest

    def crossing(
        self, node: Ints, num_nodes: int, side: Ints | None = None, num_sides: int = 0
    ) -> tuple[Floats, Floats]:
        """Traffic that leaves the tasks at each place for others, and that enters from others.

        Only what crosses is added up: no difference of two large sums is taken, which would lose a
        little traffic beside much. A task that is nowhere (-1) neither sends nor receives.

        `node`, `num_nodes`: (T,) node of each task, -1 for none; how many there are.
        `side`, `num_sides`: (N,) the place that each node is part of, and how many places there
            are; nodes are places of their own if left out.
        """
        num_places = num_nodes if side is None else num_sides
        place = node if side is None else np.where(node >= 0, side[node], -1)
        at_source, at_target = place[self.source], place[self.target]
        apart = (at_source != at_target) & (at_source >= 0) & (at_target >= 0)
        rate = self.rate[apart]
        out = np.bincount(at_source[apart], rate, num_places).astype(np.float64)
        into = np.bincount(at_target[apart], rate, num_places).astype(np.float64)
        for block in self.blocks:
            senders = _counts(place[block.sources], num_places)
            receivers = _counts(place[block.targets], num_places)
            out += block.pair_rate * senders * (receivers.sum() - receivers)
            into += block.pair_rate * receivers * (senders.sum() - senders)
        if self.local:
            out_also, into_also = self.local_crossing(node, num_nodes, side, num_sides)
            out, into = out + out_also, into + into_also
        return out, into

    def local_crossing(
        self, node: Ints, num_nodes: int, side: Ints | None = None, num_sides: int = 0
    ) -> tuple[Floats, Floats]:
        """Of `crossing`, what `local_first` streams are of it."""
        num_places = num_nodes if side is None else num_sides
        of = np.arange(num_nodes, dtype=np.int32) if side is None else side
        out, into = np.zeros(num_places), np.zeros(num_places)
        for near in self.local:
            for sent, received in self._abroad(near, node, num_nodes):
                at = np.bincount(of, sent, num_places)
                share = np.bincount(of, received, num_places)
                out += at * (1.0 - share)
                into += share * (at.sum() - at)
        return out, into

    def _abroad(
        self, near: LocalBlock, node: Ints, num_nodes: int
    ) -> Iterator[tuple[Floats, Floats]]:
        """Yield what leaves each node for receivers that are the nearest, and their shares of it.

        That is what tasks send that have no receiver on their node: to those of their rack, where
        there is one, else to all alike.
        """
        senders = near.rate * _counts(node[near.sources], num_nodes)
        receivers = _counts(node[near.targets], num_nodes)
        senders[receivers > 0] = 0.0
        for rack in np.unique(self.rack[self.rack >= 0]).tolist():
            inside = self.rack == rack
            num_receivers = receivers[inside].sum()
            if num_receivers and senders[inside].any():
                yield (
                    np.where(inside, senders, 0.0),
                    np.where(inside, receivers / num_receivers, 0.0),
                )
                senders[inside] = 0.0
        if senders.any():
            yield senders, receivers / len(near.targets)

    def directed(self) -> tuple[Ints, Ints, Floats]:
        """Return all that is between pairs as directed ones: senders, receivers, rates."""
        parts = [(self.source, self.target, self.rate), *(_expand(b) for b in self.blocks)]
        source, target, rate = (np.concatenate(column) for column in zip(*parts, strict=True))
        return source, target, rate

    @property
    def num_pairs(self) -> int:
        """Pairs that `directed` returns; a block's are not spread out for it."""
        return len(self.rate) + sum(len(b.sources) * len(b.targets) for b in self.blocks)

    def pairs(self) -> TaskPairs:
        """Expand all that is between pairs into undirected ones.

        Raises `InvalidInput`: more than `MAX_PAIRS` pairs.
        """
        if (count := self.num_pairs) > MAX_PAIRS:
            raise InvalidInput(
                Problem(
                    "streams",
                    count,
                    f"task pairs are more than the {MAX_PAIRS} that are spread out",
                    "use a method that works on groups",
                )
            )
        return _undirected(*self.directed(), self.num_tasks)

    def single_pairs(self) -> TaskPairs:
        """Undirected pairs outside of full blocks."""
        return _undirected(self.source, self.target, self.rate, self.num_tasks)


def _undirected(source: Ints, target: Ints, rate: Floats, num_tasks: int) -> TaskPairs:
    """Add both directions of each pair up; pairs without traffic are left out."""
    low, high = np.minimum(source, target).astype(np.int64), np.maximum(source, target)
    # both directions of a pair have one key
    key, where = np.unique(low * max(1, num_tasks) + high, return_inverse=True)
    merged = np.bincount(where, rate, len(key)).astype(np.float64)
    u, v = np.divmod(key, max(1, num_tasks))
    keep = merged > 0
    return TaskPairs(u[keep].astype(np.int32), v[keep].astype(np.int32), merged[keep])


def _shares(weights: tuple[float, ...] | None, count: int) -> Floats:
    """(count,) parts of a whole that are in proportion to weights; equal ones without any."""
    if weights is None:
        return np.full(count, 1.0 / count)
    parts = np.array(weights) / max(weights)  # a sum of the largest numbers would be infinite
    return np.asarray(parts / parts.sum())


def _expand(block: FullBlock) -> tuple[Ints, Ints, Floats]:
    a, b = len(block.sources), len(block.targets)
    return (
        np.repeat(block.sources, b),
        np.tile(block.targets, a),
        np.full(a * b, block.pair_rate),
    )


def _counts(place: Ints, num_places: int) -> Floats:
    return np.bincount(place[place >= 0], minlength=num_places).astype(np.float64)


# Demand derived from tuple rates: input rate → operator rates → CPU and stream rates.
#
# Source: the model-driven scheduling paper (rates through the DAG with selectivities) and the
# elastic allocator's demand model (CPU = cost per tuple × tuple rate).

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
    # of several the first in the file, so that the cycle reported repeats
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
            source = f"{name} {rates[operator]:.9g} tuples/s"
            refuse("input_rate", document.input_rate, f"gives {source}{_BEYOND}", "check the unit")
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
        declared = entry.group.load.get(document.resources[0])
        if declared is not None and not same(declared, derived):
            path = f"operators[{operator}].group.load.{document.resources[0]}"
            reason = f"differs from cpu_per_tuple × tuple rate = {derived:.9g}"
            refuse(path, declared, reason, "give one of the two")
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
