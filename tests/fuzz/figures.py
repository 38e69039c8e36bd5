"""The quantities of many placements at once, each as the design defines it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tests.fuzz.reading import INF, Link, Reading

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass
class Figures:
    """Figures of (M, T) placements; -1 is nowhere.

    Attributes
    ----------
    loads
        (M, N, R) background + load, what crossing costs included.
    counts, inflow
        (M, N) tasks, and moves onto a node.
    links
        One (M,) background + crossing traffic a link.
    by_name
        (M,) each: what methods optimise and limits bound, by its name.
    """

    loads: np.ndarray
    counts: np.ndarray
    inflow: np.ndarray
    links: list[np.ndarray]
    switches: np.ndarray
    by_name: dict[str, np.ndarray] = field(default_factory=dict)

    def value(self, name: str, which: int = 0) -> float | None:
        """Return a figure of one placement; ``None`` where it does not apply."""
        found = self.by_name.get(name)
        return None if found is None else float(found[which])


def measure(reading: Reading, at: np.ndarray) -> Figures:
    """Return the figures of (M, T) placements."""
    here = at[:, :, None] == np.arange(len(reading.node_ids))
    loads, gain, apart = _loads(reading, at, here)
    known = reading.home >= 0
    moved = known & (at != reading.home) & (at >= 0)
    rows = np.arange(at.shape[1])
    switched = moved & reading.copies[rows, at] if reading.copies.any() else np.zeros_like(moved)
    moved &= ~switched
    counts = here.sum(axis=1)
    inflow = (here & moved[:, :, None]).sum(axis=1)
    links = [_crossing(reading, at, link) for link in reading.links]
    found = Figures(loads, counts, inflow, links, switched.sum(axis=1))
    by = found.by_name
    by["imc_gain"] = gain
    by["internode_traffic"] = apart
    by["nodes_used"] = (counts > 0).sum(axis=1).astype(float)
    by["migrations"] = moved.sum(axis=1).astype(float)
    by["migration_cost"] = moved @ reading.cost
    by["migration_state"] = moved @ reading.state
    first = loads[:, :, 0] - reading.background[:, 0]
    by["load_on_leaving_nodes"] = first[:, reading.leaving].sum(axis=1)
    _distance(reading, loads, by)
    _capacities(reading, loads, counts > 0, by)
    threads = _thread_rate(reading, at)
    by["sustainable_rate"] = np.minimum(threads, _rate(reading, loads, counts, links))
    return found


def _loads(
    reading: Reading, at: np.ndarray, here: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(M, N, R) loads, and (M,) traffic that stays on a node, and that does not."""
    loads = reading.background + np.einsum("mtn,tr->mnr", here.astype(float), reading.load)
    gain, apart = np.zeros(len(at)), np.zeros(len(at))
    for u, v, rate in sent(reading, at):
        placed = (at[:, u] >= 0) & (at[:, v] >= 0)
        same = at[:, u] == at[:, v]
        gain += rate * (placed & same)
        apart += rate * ~(placed & same)
        for task, side in ((u, "out"), (v, "in")):
            cost = reading.crossing[side]
            if cost.any():
                across = (placed & ~same)[:, None] & here[:, task]
                loads += np.multiply(rate, across.T).T[:, :, None] * cost
    return loads, gain, apart


def sent(reading: Reading, at: np.ndarray) -> Iterator[tuple[int, int, np.ndarray | float]]:
    """Yield who sends how much to whom under (M, T) placements, nodes or places within them.

    Of streams that go to the nearest that is (M,): to those at the same place, else in the same
    rack, else to all.
    """
    for (u, v), rate in reading.pairs.items():
        yield u, v, rate
    racks = np.append(reading.rack, -1)
    for u, rate, receivers in reading.near:
        there, here = at[:, receivers], at[:, [u]]
        same, rack = (there == here) & (here >= 0), racks[here]
        near = (racks[there] == rack) & (rack >= 0)
        chosen = np.ones_like(same)
        for scope in (near, same):
            chosen = np.where(scope.any(axis=1, keepdims=True), scope, chosen)
        part = rate * chosen / chosen.sum(axis=1, keepdims=True)
        for k, v in enumerate(receivers):
            yield u, v, part[:, k]


def _crossing(reading: Reading, at: np.ndarray, link: Link) -> np.ndarray:
    """(M,) background + traffic between a listed node and one that is not."""
    side = np.append(link.inside, False)[at]
    total = np.full(len(at), float(link.background))
    for u, v, rate in sent(reading, at):
        leaves, enters = side[:, u] & ~side[:, v], ~side[:, u] & side[:, v]
        counted = {"out": leaves, "in": enters, "both": leaves | enters}[link.direction]
        total += rate * (counted & (at[:, u] >= 0) & (at[:, v] >= 0))
    return total


def _distance(reading: Reading, loads: np.ndarray, by: dict[str, np.ndarray]) -> None:
    stay = ~reading.leaving
    if not stay.any():
        return
    first = loads[:, :, 0]
    mean = first.sum(axis=1) / reading.weight[stay].sum()
    off = first - reading.weight * mean[:, None]
    over = np.maximum(0.0, off.max(axis=1))
    under = np.maximum(0.0, -off[:, stay].min(axis=1))
    by["load_distance"] = np.maximum(over, under)
    by["sum_of_sides"] = over + under


def _capacities(
    reading: Reading, loads: np.ndarray, used: np.ndarray, by: dict[str, np.ndarray]
) -> None:
    capacity = reading.capacity[:, 0]
    if len(capacity) and np.isfinite(capacity).all() and capacity.sum() > 0:
        by["used_capacity"] = (used * capacity).sum(axis=1) / capacity.sum()
    stay = ~reading.leaving
    if (stay & (capacity == 0)).any():
        return  # the design leaves open what a node of capacity 0 counts
    known = stay & np.isfinite(capacity)
    if known.any():
        share = loads[:, known, 0] / capacity[known]
        off = share - share.mean(axis=1, keepdims=True)
        by["cpu_deviation"] = np.sqrt((off**2).sum(axis=1))
        by["mean_absolute_deviation"] = np.abs(off).mean(axis=1)


def _thread_rate(reading: Reading, at: np.ndarray) -> np.ndarray:
    """(M,) the multiple at which the first placed task uses all that it can."""
    least = np.full(at.shape, INF)
    for t, loads in enumerate(reading.load):
        for r in np.flatnonzero(reading.rate_driven & (loads > 0)):
            most = reading.max_load[t, r] / loads[r]
            least[:, t] = np.where(at[:, t] >= 0, np.minimum(least[:, t], most), least[:, t])
    return least.min(axis=1, initial=INF)


def _rate(
    reading: Reading, loads: np.ndarray, counts: np.ndarray, links: list[np.ndarray]
) -> np.ndarray:
    """(M,) the multiple of the current input that a placement carries."""
    least = np.full(len(loads), INF)
    for r in np.flatnonzero(reading.rate_driven):
        for n in range(len(reading.node_ids)):
            room, base = reading.room[n, r], reading.background[n, r]
            left = room - base
            own = loads[:, n, r] - reading.background[n, r]
            used = counts[:, n] > 0
            if base > room * (1 + 1e-9):
                least[used] = 0.0
            busy = (own > 0) & used
            least[busy] = np.minimum(least[busy], max(0.0, left) / own[busy])
    for link, load in zip(reading.links, links, strict=True):
        own = load - link.background
        busy = own > 0
        left = max(0.0, link.room - link.background)
        least[busy] = np.minimum(least[busy], left / own[busy])
    return least
