"""The columns of the pattern form: classes of equal nodes, and the sets each can hold."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from optim.grouping import task_groups

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.eoa_problem import EoaProblem
    from optim.tables import Floats, Ints

MOST_FREE = 64
"""Free tasks that a bit set can hold."""

_STEPS_A_PATTERN = 50


@dataclass(frozen=True, eq=False)
class Columns:
    """Every set of tasks that a node of a class can hold; P of them, K classes.

    Attributes
    ----------
    node_class
        (N,) class of each node.
    size, first
        (K,) nodes of a class; its first node.
    group
        (F,) which free tasks are alike, so that only their number on a node matters.
    of
        (P,) class of a column.
    counts
        (P, G) tasks of each group that it holds.
    load, inside, incident
        (P,) load of the first resource that it adds; traffic inside the node and of all its tasks,
        running ones included.
    """

    node_class: Ints
    size: NDArray[np.int64]
    first: NDArray[np.int64]
    group: NDArray[np.int64]
    of: Ints
    counts: NDArray[np.int16]
    load: Floats
    inside: Floats
    incident: Floats

    @property
    def num(self) -> int:
        """P."""
        return len(self.of)

    def of_placement(self, place: Ints) -> NDArray[np.int64] | None:
        """(P,) how often a placement of the free tasks uses each column; ``None`` if it cannot."""
        uses = np.zeros(self.num, dtype=np.int64)
        for n, k in enumerate(self.node_class):
            held = np.bincount(self.group[place == n], minlength=self.counts.shape[1])
            at = np.flatnonzero((self.of == k) & (self.counts == held).all(axis=1))
            if not len(at):
                return None
            uses[at[0]] += 1
        return uses

    @cached_property
    def group_size(self) -> NDArray[np.int64]:
        """(G,) tasks of each group."""
        return np.bincount(self.group, minlength=self.counts.shape[1])

    def place(self, uses: NDArray[np.int64]) -> Ints:
        """(F,) nodes of the free tasks; nodes of a class and tasks of a group in their order."""
        place = np.full(len(self.group), -1, dtype=np.int32)
        waiting = [
            np.flatnonzero(self.group == g).tolist()[::-1] for g in range(len(self.group_size))
        ]
        for k in range(len(self.size)):
            nodes = iter(np.flatnonzero(self.node_class == k).tolist())
            for p in np.flatnonzero((self.of == k) & (uses > 0)):
                for _ in range(int(uses[p])):
                    node = next(nodes)
                    for g in np.flatnonzero(self.counts[p]):
                        for _ in range(int(self.counts[p, g])):
                            place[waiting[g].pop()] = node
        return place


def columns_of(problem: EoaProblem, most: int) -> Columns | None:
    """List all columns; ``None`` when there are more than `most`, or too many tasks."""
    from formulations.eoa_patterns.enumerate_kernel import node_patterns

    if problem.num_free > MOST_FREE:
        return None
    node_class, first = node_classes(problem)
    size = np.bincount(node_class, minlength=len(first))
    group = alike(problem)
    parts, of = [], []
    left = most
    for k, n in enumerate(first):
        bits, figures, found = node_patterns(
            np.ascontiguousarray(problem.load),
            problem.traffic,
            problem.degree,
            np.ascontiguousarray(problem.beside[:, n]),
            np.flatnonzero(problem.may[:, n]),
            _before(group),
            problem.room[n].copy(),
            problem.floor[n].copy(),
            float(problem.incident[n]),
            float(problem.inside[n]),
            float(problem.uplink[n]),
            left,
            _STEPS_A_PATTERN * most,
        )
        if found < 0:
            return None
        left -= found
        parts.append((bits, figures))
        of.append(np.full(found, k, dtype=np.int32))
    bits = np.concatenate([b for b, _ in parts])
    figures = np.concatenate([f for _, f in parts])
    places = np.arange(problem.num_free, dtype=np.uint64)
    holds = ((bits[:, None] >> places) & np.uint64(1)).astype(np.int16)
    member = np.zeros((problem.num_free, int(group.max(initial=-1)) + 1), dtype=np.int16)
    member[np.arange(problem.num_free), group] = 1
    return Columns(
        node_class=node_class.astype(np.int32),
        size=size,
        first=first,
        group=group,
        of=np.concatenate(of),
        counts=holds @ member,
        load=figures[:, 0],
        inside=figures[:, 1],
        incident=figures[:, 2],
    )


def alike(problem: EoaProblem) -> NDArray[np.int64]:
    """(F,) group of each free task: its tasks can be exchanged and nothing changes.

    Products of shared links are of single tasks: then every task is a group of its own. While moves
    are limited, tasks are alike only if they are at home on the same node.
    """
    if problem.shared:
        return np.arange(problem.num_free, dtype=np.int64)
    kinds = task_groups(problem.instance).group[problem.free].astype(np.int64)
    if problem.budgets:
        kinds = np.column_stack([kinds, problem.home, problem.prices])
    return np.unique(kinds, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _before(group: NDArray[np.int64]) -> NDArray[np.int64]:
    """(F,) the task of the same group before each, -1 for the first."""
    order = np.argsort(group, kind="stable")
    before = np.full(len(group), -1, dtype=np.int64)
    same = group[order][1:] == group[order][:-1]
    before[order[1:][same]] = order[:-1][same]
    return before


def node_classes(problem: EoaProblem) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(N,) class of each node and the first node of each: alike in all that a set can feel.

    A node with a task's current place is like no other while moves are limited.
    """
    n = problem.num_nodes
    behind = np.zeros((n, len(problem.shared)))
    for i, link in enumerate(problem.shared):
        behind[link.nodes, i] = 1.0
    homes = np.full((n, 1), -1.0)
    if problem.budgets:
        homes[np.unique(problem.home[problem.home >= 0]), 0] = np.unique(
            problem.home[problem.home >= 0]
        )
    table = np.column_stack(
        [
            problem.room,
            problem.floor,
            problem.base,
            problem.instance.nodes.capacity[:, 0],
            problem.occupied,
            problem.instance.open_nodes,
            problem.incident,
            problem.inside,
            problem.uplink,
            problem.may.T,
            problem.beside.T,
            behind,
            homes,
        ]
    )
    _, first, where = np.unique(table, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(first), dtype=np.int64)
    rank[order] = np.arange(len(first))
    return rank[where.reshape(-1)], first[order]
