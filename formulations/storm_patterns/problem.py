"""The placement of executors on nodes, interchangeable executors and nodes put into classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.grouping import node_classes, task_groups

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.storm_jobs import StormJobs
    from optim.instance import Instance

    Integers = NDArray[np.int64]
    Floats = NDArray[np.float64]

SCALED_TOTAL = 1000.0
"""Rates are scaled to this total, so that tolerances mean the same in every unit."""


@dataclass(frozen=True, eq=False)
class StormProblem:
    """C classes of executors, K classes of nodes, P topologies, R resources.

    Attributes
    ----------
    members
        Tasks of each class of executors.
    size, job
        (C,) executors of a class, and its topology.
    load, rate
        (C, R) of one executor; (C, C) scaled rate of one pair, symmetric, the diagonal for pairs
        within a class.
    nodes
        Nodes of each class of nodes.
    room, floor
        (K, R) load that may, and that must be placed on a node.
    slots
        (K,) of one node.
    may
        (K, C) where a class of executors may go.
    workers
        (P,) min(W, E).
    per_slot
        Most executors in a slot, ``None`` for any number.
    scale
        Rate unit per scaled unit.
    """

    members: tuple[Integers, ...]
    size: Integers
    job: Integers
    load: Floats
    rate: Floats
    nodes: tuple[Integers, ...]
    room: Floats
    floor: Floats
    slots: Integers
    may: NDArray[np.bool_]
    workers: Integers
    per_slot: int | None
    scale: float

    @property
    def num_classes(self) -> int:
        """C."""
        return len(self.size)

    @property
    def num_states(self) -> int:
        """Vectors of counts there are, feasible or not."""
        states = 1
        for size in self.size.tolist():
            states *= size + 1
        return states

    @property
    def num_nodes(self) -> Integers:
        """(K,) nodes of each class."""
        return np.array([len(nodes) for nodes in self.nodes], dtype=np.int64)


def make_problem(instance: Instance, jobs: StormJobs) -> StormProblem:
    """Find the classes of an instance.

    Executors are alike when they belong to one topology, load alike, may go to the same nodes and
    have the same traffic with every third one; nodes when they have the same room and slots.
    """
    groups = task_groups(instance)
    key = groups.group.astype(np.int64) * jobs.num_jobs + jobs.job
    _, first, of = np.unique(key, return_index=True, return_inverse=True)
    members = tuple(np.flatnonzero(of == c) for c in range(len(first)))
    group = groups.group[first]
    rate = groups.rates(instance)[np.ix_(group, group)]
    scale = max(instance.total_traffic, 1e-300) / SCALED_TOTAL
    limit = instance.limits.max_tasks_per_slot
    return StormProblem(
        members,
        np.array([len(m) for m in members], dtype=np.int64),
        jobs.job[first],
        groups.load[group],
        rate / scale,
        *_node_classes(instance, jobs, groups.kind[group]),
        workers=jobs.workers,
        per_slot=None if limit is None else int(limit),
        scale=scale,
    )


def _node_classes(
    instance: Instance, jobs: StormJobs, kind: Any
) -> tuple[tuple[Integers, ...], Floats, Floats, Integers, NDArray[np.bool_]]:
    """Split the classes of identical nodes by their slots."""
    classes = node_classes(instance)
    nodes, of, slots = [], [], []
    for k in range(classes.num_classes):
        inside = classes.nodes_of(k).astype(np.int64)
        for count in np.unique(jobs.slots[inside]):
            nodes.append(inside[jobs.slots[inside] == count])
            of.append(k)
            slots.append(int(count))
    may = classes.target[np.ix_(kind, of)].T if of else np.zeros((0, len(kind)), dtype=np.bool_)
    return (
        tuple(nodes),
        classes.room[of],
        classes.floor[of],
        np.array(slots, dtype=np.int64),
        np.ascontiguousarray(may),
    )
