"""Kafka clusters drawn from a seed: racks and capacities hold, loads are uneven.

Replicas are dealt out as Kafka does, sizes and rates are log-normal, by topic and by partition;
in every other cluster some brokers are new and empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from streamplace.clusters.kafka.cluster import Broker, Cluster, Partition, follower_cpu
from streamplace.clusters.kafka.importer import UNITS

if TYPE_CHECKING:
    from collections.abc import Sequence

RESOURCES = ("disk", "nw_in", "nw_out", "cpu")
SIZES = ((6, 3), (9, 3), (12, 4), (18, 6), (24, 4))
"""Brokers and racks."""
EACH = (15, 40)
"""Partitions a broker."""


def cluster_of(seed: int) -> Cluster:
    """Return a cluster whose racks and capacities hold, and whose loads are uneven."""
    rng = np.random.default_rng(seed)
    count, racks = SIZES[seed % len(SIZES)]
    new = int(rng.integers(0, 3)) * (seed % 2)  # empty brokers in every other cluster
    larger = rng.random(count) < (0.3 if rng.random() < 0.3 else 0.0)
    full = list(range(count - new))
    partitions = _partitions(rng, full, racks, int(rng.integers(*EACH)) * count)
    capacity = _capacities(partitions, count - new)
    brokers = {
        b: Broker(
            b,
            f"r{b % racks}",
            capacity={r: c * (2 if larger[b] else 1) for r, c in capacity.items()},
        )
        for b in range(count)
    }
    return Cluster(f"cluster-{seed}", brokers, partitions, RESOURCES, UNITS)


def _partitions(
    rng: np.random.Generator, brokers: Sequence[int], racks: int, count: int
) -> list[Partition]:
    found: list[Partition] = []
    ordered = sorted(brokers, key=lambda b: (b // racks, b % racks))  # racks by turns
    while len(found) < count:
        topic, factor = f"t{len(found)}", int(rng.choice((2, 3, 3)))
        size, rate, fan = rng.lognormal(23, 1), rng.lognormal(13, 1), rng.choice((0.5, 1, 2, 4))
        first = int(rng.integers(len(brokers)))
        for number in range(int(rng.choice((4, 8, 16, 32)))):
            held = _dealt(ordered, racks, first + number, factor, number // len(brokers))
            disk, into = size * rng.lognormal(0, 0.5), rate * rng.lognormal(0, 0.5)
            out = into * (fan + factor - 1)
            cpu = 1e-6 * (into + 0.2 * out)
            leading = {"disk": disk, "nw_in": into, "nw_out": out, "cpu": cpu}
            follows = follower_cpu(cpu, into, out)
            following = {"disk": disk, "nw_in": into, "nw_out": 0.0, "cpu": follows}
            found.append(
                Partition(topic, number, held, held[0], held, leading, following, size=disk)
            )
    return found


def _dealt(ordered: Sequence[int], racks: int, at: int, factor: int, turn: int) -> list[int]:
    """Return brokers of distinct racks, round robin, as Kafka deals them out."""
    held = [ordered[at % len(ordered)]]
    step = at + 1 + turn
    while len(held) < factor:
        b = ordered[step % len(ordered)]
        if b % racks not in {h % racks for h in held}:
            held.append(b)
        step += 1
    return held


def _capacities(partitions: Sequence[Partition], full: int) -> dict[str, float]:
    """Return capacities that are enough everywhere: twice the most that a broker has now."""
    held: dict[str, dict[int, float]] = {r: dict.fromkeys(range(full), 0.0) for r in RESOURCES}
    for partition in partitions:
        for broker in partition.replicas:
            for r in RESOURCES:
                held[r][broker] += partition.load(r, broker == partition.leader)
    return {r: 2.0 * max(loads.values()) for r, loads in held.items()}
