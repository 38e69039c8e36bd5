"""Utilisations that no placement stays below, by counting alone.

What one task can use; all load of a resource over all room for it, the heaviest task on the best
node; and, since no node
holds much of two operators, how much of the full stream between them crosses at least, which the
links and the crossing costs have to take (docs/proofs/forced-crossing.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from formulations.throughput.problem import BOTH, INTO, NEVER, OUT, places_of, thread_load
from optim.kernels.room import placing_room

if TYPE_CHECKING:
    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats


_ROUNDING = 1e-9
_HALVINGS = 60
_TOP = 1e12


def least_load(instance: Instance, lost: int | None = None) -> float:
    """Return a utilisation that every placement has at least somewhere.

    Parameters
    ----------
    lost
        A node that takes no part.
    """
    left = np.arange(instance.num_nodes) != lost
    places = places_of(instance)
    room, link = places.room[left], places.link[: instance.num_nodes][left]
    least = thread_load(instance)
    for r in instance.rate_driven:
        whole, best = float(room[:, r].sum()), float(room[:, r].max(initial=0.0))
        if np.isfinite(whole) and instance.total_load[r] > 0:
            heaviest = float(instance.tasks.load[:, r].max())
            for need, most in ((float(instance.total_load[r]), whole), (heaviest, best)):
                least = max(least, min(NEVER, need / most) if most > 0 else NEVER)
    streams = _streams(instance, room, left)
    return least if least >= NEVER else _raised(instance, streams, room, link, least)


class _Streams(NamedTuple):
    """S full streams between two operators each.

    Attributes
    ----------
    rate
        (S,) rates.
    load, each
        (S, 2, R) least load of all tasks of its two operators, and of one of them.
    most
        (R,) the largest room of a node; of rate-driven resources at a utilisation of 1.
    driven
        (R,) which these are.
    """

    rate: Floats
    load: Floats
    each: Floats
    most: Floats
    driven: Bools

    def crossing(self, full: float) -> float:
        """Return traffic that crosses at least where nothing is fuller than that."""
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(self.driven & np.isfinite(self.most), self.most * full, self.most)
            both = np.where(self.load.sum(axis=1) > 0, room / self.load.sum(axis=1), np.inf)
            count = np.floor(room / self.each + _ROUNDING)
            one = np.where(self.each > 0, count * self.each / self.load, np.inf)
        inside = np.minimum(both.min(axis=1), one.min(axis=(1, 2)))
        return float(self.rate @ (1.0 - np.clip(inside * (1 + _ROUNDING), 0.0, 1.0)))


def _streams(instance: Instance, room: Floats, left: Bools) -> _Streams:
    driven = np.isin(np.arange(instance.num_resources), instance.rate_driven)
    hard = np.maximum(placing_room(instance)[left], 0.0)
    most = np.where(driven, room.max(axis=0, initial=0.0), hard.max(axis=0, initial=0.0))
    rates: list[float] = []
    loads: list[Any] = []
    each: list[Any] = []
    for stream in instance.streams:
        ends = [instance.tasks_of(o) for o in (stream.source, stream.target)]
        spread = stream.pattern == "full" and not stream.replaced and stream.rate > 0
        if spread and stream.source != stream.target and all(map(len, ends)):
            least = np.array([instance.tasks.load[end].min(axis=0) for end in ends])
            rates.append(stream.rate)
            each.append(least)
            loads.append(least * np.array([[len(end)] for end in ends]))
    shape = (len(rates), 2, instance.num_resources)
    return _Streams(
        np.array(rates), np.array(loads).reshape(shape), np.array(each).reshape(shape), most, driven
    )


def _raised(
    instance: Instance, streams: _Streams, room: Floats, link: Floats, least: float
) -> float:
    """Raise a bound to where links and nodes take what has to cross."""
    if not len(streams.rate):
        return least
    ways = [
        (1.0, float(np.minimum(link[:, OUT], link[:, BOTH]).sum())),
        (1.0, float(np.minimum(link[:, INTO], link[:, BOTH]).sum())),
        (2.0, float(np.minimum(link[:, BOTH], link[:, OUT] + link[:, INTO]).sum())),
    ]
    rooms = [(r, float(room[:, r].sum())) for r in instance.rate_driven]
    price = instance.crossing_cost.sum(axis=0)

    def taken(full: float) -> bool:
        crossing, most = streams.crossing(full), full * (1 + _ROUNDING)
        if any(times * crossing > most * cap for times, cap in ways if np.isfinite(cap)):
            return False
        needs = ((instance.total_load[r] + price[r] * crossing, cap) for r, cap in rooms)
        return not any(need > most * cap for need, cap in needs if np.isfinite(cap))

    low, high = least, max(1.0, 2 * least)
    if taken(low):
        return least
    while not taken(high):
        low, high = high, 4 * high
        if low > _TOP:
            return low
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if taken(middle) else (middle, high)
    return low
