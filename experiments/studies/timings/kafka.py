"""Bytes that a rebalancing of Kafka copies, beside Cruise Control's goals worked through greedily.

Paired: each cluster is balanced by Cruise Control's goals (`cruise_control`), and what that reached
is then asked of our plan at least: the load distance of disk, and the highest utilisation of every
other resource and number of replicas. Clusters are those of the open benchmark (`cluster_of`).
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from experiments.statistics import median_interval
from experiments.studies.bench.cases import cluster_of
from experiments.studies.timings.cruise_control import (
    DISK_ALONE,
    PUBLISHED,
    RESOURCES,
    State,
    optimise,
)
from formulations.rebalancing.balance.search import warm_up
from optim import solve
from optim.format.instance import Instance
from streamplace.clusters.exchange.declarations import Ledger
from streamplace.clusters.kafka.cluster import COUNT, Operation
from streamplace.clusters.kafka.model import document_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from experiments.studies.timings.registry import Rows
    from streamplace.clusters.kafka.cluster import Cluster


@dataclass(frozen=True)
class Pair:
    """What both copied, for the same balance."""

    seed: int
    replicas: int
    before: float
    distance: float
    theirs: float
    ours: float | None
    bound: float
    seconds: float

    @property
    def saving(self) -> float:
        """Percent fewer bytes; 0 where nothing was found that is as even."""
        ours = self.theirs if self.ours is None else min(self.ours, self.theirs)
        return 100.0 * (1.0 - ours / self.theirs)


def as_even(cluster: Cluster, state: State, whole: bool) -> Instance:
    """Return the instance in which no broker may be used more than Cruise Control left it."""
    document = document_of(cluster, Operation(), "disk", Ledger())
    used = {r: state.utilisation(k) for k, r in enumerate(RESOURCES)}
    counts = state.load[:, state.column[COUNT]]
    limit = {r: float(u.max()) * (1 + 1e-9) for r, u in used.items()}
    for node in document["nodes"]:
        if whole:
            node["max_tasks"] = int(counts.max())
        for r in RESOURCES:
            most = limit[r] if whole and r != "disk" else 0.8
            node["capacity"][r] *= most
    return Instance.from_dict(document)


def pair(seed: int, goals: tuple[str, ...]) -> Pair | None:
    """Return what both copy; ``None`` where Cruise Control finds nothing to do."""
    cluster = cluster_of(seed)
    state = optimise(cluster, goals)
    theirs = state.copied()
    if not theirs:
        return None
    instance = as_even(cluster, state, goals == PUBLISHED)
    load = instance.tasks.load[:, 0]
    weight, mean = instance.nodes.weight, instance.mean_load or 0.0
    reached = float(np.abs(state.load[:, 0] - weight * mean).max())
    now = np.bincount(instance.tasks.node, load, instance.num_nodes)
    before = float(np.abs(now - weight * mean).max())
    limited = replace(instance, limits=replace(instance.limits, max_load_distance=reached))
    started = time.perf_counter()
    ours, bound = fewest_bytes(limited, seed)
    seconds = time.perf_counter() - started
    percent = 100.0 / mean
    return Pair(
        seed, instance.num_tasks, before * percent, reached * percent, theirs, ours, bound, seconds
    )


def fewest_bytes(instance: Instance, seed: int) -> tuple[float | None, float]:
    """Return the bytes of our cheapest plan and the proven bound on them."""
    result = solve(instance, "balance-search", objective="migration_cost", seed=seed)
    value = result.objective.value if result.feasible and result.objective else None
    return value, float(result.bound or 0.0)


def bytes_copied(clusters: int = 36) -> Rows:
    """Balance clusters both ways; single clusters are reported on standard error."""
    warm_up()
    for label, goals in (("the published order", PUBLISHED), ("disk alone", DISK_ALONE)):
        found: dict[int, list[Pair]] = {0: [], 1: []}
        for seed in range(clusters):
            made = pair(seed, goals)
            if made is not None:
                print(label, made, file=sys.stderr, flush=True)
                found[seed % 2].append(made)
        for which, pairs in (
            ("all", found[0] + found[1]), ("uneven", found[0]), ("some with new brokers", found[1])
        ):  # fmt: skip
            if pairs:
                yield label, which, *summary(pairs)


def summary(pairs: Sequence[Pair]) -> list[object]:
    """Return the cells of a row over clusters."""
    saved = [p.saving for p in pairs]
    found = median_interval(saved)
    possible = [100.0 * (1.0 - p.bound / p.theirs) for p in pairs]
    as_good = sum(p.ours is not None and p.ours <= p.theirs for p in pairs)
    return [
        len(pairs), f"{as_good} of {len(pairs)}", f"{found.value:.1f}",
        f"{found.low:.1f} … {found.high:.1f}",
        f"{min(saved):.1f} … {max(saved):.1f}", f"{median(possible):.1f}",
        median(p.seconds for p in pairs),
    ]  # fmt: skip
