"""Rules that count tasks on places, as plain arrays: sets, inflow, moves onto copies, nodes.

Models write them as rows (`formulations.model_rows`), searches guard them (`optim.kernels.guard`),
and both have a placement checked here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.format.tables import APART
from optim.kernels.room import placing_masks, placing_room
from optim.rules import inflow_limits, node_counts
from optim.rules.sets import are_broken, crowds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats
    from optim.rules.node_count import NodeCount

    Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PlaceRules:
    """What an instance demands of where tasks are beside loads, allowed nodes and budgets.

    Attributes
    ----------
    home
        (T,) current node, -1 for none.
    rule, limit
        (S,) `APART`, `TOGETHER` or `SPREAD`; most members on a place, or least number of places.
    place
        (S, N) number of the place that each node is, or is in, for a set.
    indptr, members
        Tasks of each set in CSR form.
    most_in
        (N,) most tasks whose state may move onto a node; T or more where none is set.
    copies_indptr, copies
        (T + 1,) and CSR of the nodes that hold a task's state already.
    counts
        Bounds on numbers of nodes that hold tasks of one group or two.
    """

    home: Ints
    rule: Ints
    limit: Ints
    place: Ints
    indptr: Ints
    members: Ints
    most_in: Ints
    copies_indptr: Ints
    copies: Ints
    counts: tuple[NodeCount, ...] = ()

    @property
    def num_sets(self) -> int:
        """S."""
        return len(self.rule)

    @property
    def bounds_inflow(self) -> bool:
        """Whether inflow is bounded anywhere."""
        return bool((self.most_in < len(self.home)).any())

    @property
    def has_copies(self) -> bool:
        """Whether any move is free."""
        return len(self.copies) > 0

    @property
    def restrict(self) -> bool:
        """Whether a placement within all else may break any of these rules."""
        return self.num_sets > 0 or self.bounds_inflow or len(self.counts) > 0

    def reordered(self, order: Ints) -> PlaceRules:
        """Return the rules of the same tasks in another order."""
        counts = np.diff(self.copies_indptr)[order]
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        within = np.arange(starts[-1]) - np.repeat(starts[:-1], counts)
        rows = np.repeat(self.copies_indptr[:-1][order], counts) + within
        number = np.empty(len(order), np.int64)
        number[order] = np.arange(len(order))
        return replace(
            self,
            home=self.home[order],
            members=number[self.members],
            copies_indptr=starts,
            copies=self.copies[rows],
            counts=tuple(
                count._replace(groups=tuple(tasks[order] for tasks in count.groups))
                for count in self.counts
            ),
        )

    def tasks_of(self, i: int) -> Ints:
        """Members of one set."""
        return self.members[self.indptr[i] : self.indptr[i + 1]]

    @cached_property
    def _copy_keys(self) -> Ints:
        """Task × N + node of every copy, ascending."""
        tasks = np.repeat(np.arange(len(self.home)), np.diff(self.copies_indptr))
        return np.sort(tasks * len(self.most_in) + self.copies)

    def pays(self, task: NDArray[Any], node: NDArray[Any]) -> Bools:
        """Whether each of these tasks migrates when it is on that node: not at home, no copy."""
        away: Bools = (self.home[task] >= 0) & (self.home[task] != node)
        if not self.has_copies:
            return away
        key = np.asarray(task, np.int64) * len(self.most_in) + node
        at = np.minimum(np.searchsorted(self._copy_keys, key), len(self._copy_keys) - 1)
        return away & (self._copy_keys[at] != key)

    def migrates(self, placement: Ints) -> Bools:
        """(T,) whether each task migrates under a placement."""
        return self.pays(np.arange(len(self.home)), placement)

    def are_kept(self, placement: Ints) -> bool:
        """Whether a placement of all tasks keeps sets, inflow and counts of nodes."""
        if any(c.nodes(placement, len(self.most_in)).sum() > c.limit for c in self.counts):
            return False
        if self.bounds_inflow:
            moved = placement[self.migrates(placement)]
            if (np.bincount(moved, minlength=len(self.most_in)) > self.most_in).any():
                return False
        most, used = crowds(self.owner, self.places(placement), self.num_sets, len(self.most_in))
        return not are_broken(self.rule, self.limit, most, used).any()

    @cached_property
    def owner(self) -> Ints:
        """(M,) set of each member."""
        return np.repeat(np.arange(self.num_sets), np.diff(self.indptr))

    def places(self, placement: Ints) -> Ints:
        """(M,) place of each member."""
        return self.place[self.owner, placement[self.members]]

    def surplus(self, placement: Ints) -> Ints:
        """Members of sets `apart` beyond what their place may hold, the first ones left there."""
        key = self.owner * len(self.most_in) + self.places(placement)
        order = np.argsort(key, kind="stable")
        sorted_key = key[order]
        rank = np.arange(len(key)) - np.searchsorted(sorted_key, sorted_key)
        owner = self.owner[order]
        beyond = (self.rule[owner] == APART) & (rank >= self.limit[owner])
        return np.unique(self.members[order[beyond]])


def place_rules(instance: Instance) -> PlaceRules:
    """Return the place rules of an instance."""
    t, n = instance.num_tasks, instance.num_nodes
    sets, tasks = instance.sets, instance.tasks
    kinds = (np.arange(n), np.unique(instance.nodes.rack, return_inverse=True)[1])
    place = np.stack(kinds).astype(np.int64)[sets.by_rack.astype(np.int64)]
    copied = np.repeat(tasks.copied, np.diff(tasks.copies_indptr)).astype(np.int64)
    elsewhere = tasks.copies_indices != tasks.node[copied]  # nobody moves to where it is
    limits = inflow_limits(instance)
    most = np.full(n, t) if limits is None else limits
    return PlaceRules(
        home=tasks.node.astype(np.int64),
        rule=sets.rule.astype(np.int64),
        limit=sets.limit.astype(np.int64),
        place=place,
        indptr=sets.indptr.astype(np.int64),
        members=sets.members.astype(np.int64),
        most_in=most.astype(np.int64),
        copies_indptr=np.searchsorted(copied[elsewhere], np.arange(t + 1)).astype(np.int64),
        copies=tasks.copies_indices[elsewhere].astype(np.int64),
        counts=tuple(node_counts(instance)),
    )


def slot_rules(instance: Instance, places: int) -> PlaceRules:
    """Return what sets over slots demand of slots, numbered through all nodes."""
    table = instance.slot_sets
    return replace(
        no_rules(np.full(instance.num_tasks, -1), places),
        rule=table.rule.astype(np.int64),
        limit=table.limit.astype(np.int64),
        place=np.tile(np.arange(places), (len(table.ids), 1)),
        indptr=table.indptr.astype(np.int64),
        members=table.members.astype(np.int64),
    )


def no_rules(home: Ints, num_nodes: int) -> PlaceRules:
    """Return rules that demand nothing."""
    none, t = np.zeros(0, np.int64), len(home)
    starts = np.zeros(1, np.int64)
    return PlaceRules(
        home=np.asarray(home, np.int64),
        rule=none,
        limit=none,
        place=np.zeros((0, num_nodes), np.int64),
        indptr=starts,
        members=none,
        most_in=np.full(num_nodes, t, np.int64),
        copies_indptr=np.zeros(t + 1, np.int64),
        copies=none,
    )


_MOST = 20_000_000
"""Tasks × nodes up to which lists of allowed nodes are written down."""


def on_chosen_nodes(instance: Instance, near: NDArray[Any] | None = None) -> Instance:
    """Return the instance whose tasks may only use the nodes chosen for their part.

    The same one where nothing counts nodes, or lists would be too long.

    Parameters
    ----------
    near
        (T,) nodes that are chosen before others, -1 for none; the current ones if left out.
    """
    t = instance.num_tasks
    if not node_counts(instance) or not 0 < t * instance.num_nodes <= _MOST:
        return instance
    kind, _, target = placing_masks(instance)
    part, chosen = chosen_nodes(instance, near)
    both, which = np.unique(np.stack([part, kind]), axis=1, return_inverse=True)
    masks = chosen[both[0]] & target[both[1]]
    rows = [np.flatnonzero(mask) for mask in masks]
    return instance.with_allowed(range(t), [rows[row] for row in which.reshape(-1).tolist()])


def chosen_nodes(
    instance: Instance, near: NDArray[Any] | None = None
) -> tuple[NDArray[np.int64], Bools]:
    """(T,) part of each task, and (P, N) nodes of each part; one of all nodes without counts."""
    counts, tasks = node_counts(instance), instance.tasks
    if not counts or not instance.num_tasks:
        return np.zeros(len(tasks.node), np.int64), np.ones((1, instance.num_nodes), dtype=np.bool_)
    kind, _, target = placing_masks(instance)
    home = tasks.node if near is None or (near < 0).all() else near
    return nodes_of_parts(counts, tasks.load, placing_room(instance), home, kind, target)


def nodes_of_parts(
    counts: Sequence[NodeCount],
    load: Floats,
    room: Floats,
    home: NDArray[Any],
    kind: NDArray[Any],
    may: Bools,
) -> tuple[NDArray[np.int64], Bools]:
    """Choose nodes for each part: the part with least room for its load is given the next one.

    That is a node on which most of its tasks that have none yet may be, then on which most of its
    tasks are now, others not counted, then the largest.

    Parameters
    ----------
    counts
        Bounds on numbers of nodes, one at least.
    load, room
        (T, R) and (N, R).
    home
        (T,) current nodes; -1 for none.
    kind, may
        (T,) kind of each task and (K, N) where tasks of a kind may be.

    Returns
    -------
    tuple
        (T,) part of each task, and (P, N) nodes of each part; a node is of one part at most.
    """
    masks = np.array([tasks for count in counts for tasks in count.groups])
    example, alike = np.unique(masks, axis=1, return_index=True, return_inverse=True)[1:]
    apart = np.zeros((len(example), len(example)), dtype=np.bool_)
    for first, second in (count.groups for count in counts if len(count.groups) > 1):
        pair = np.outer(first[example], second[example])
        apart |= pair | pair.T
    part = np.unique(apart, axis=0, return_inverse=True)[1].reshape(-1)[alike.reshape(-1)]
    parts, n = int(part.max()) + 1, len(room)
    single = [count for count in counts if len(count.groups) == 1]
    of = np.zeros((len(single), parts), dtype=np.bool_)
    for row, count in zip(of, single, strict=True):
        row[part[count.groups[0]]] = True
    left = np.array([count.limit for count in single], dtype=np.int64)
    share = _shares(part, parts, load, room)
    waiting = np.zeros((parts, len(may)), dtype=np.int64)
    np.add.at(waiting, (part, kind), 1)
    usable = (waiting > 0).astype(np.int64) @ may > 0
    there = np.zeros((parts, n), dtype=np.int64)
    np.add.at(there, (part[home >= 0], home[home >= 0]), 1)
    drawn = 2 * there - there.sum(axis=0)
    chosen, reached = np.zeros((parts, n), dtype=np.bool_), np.zeros(parts)
    free = np.ones(n, dtype=np.bool_)
    while True:
        able = (usable & free).any(axis=1) & ~of[left <= 0].any(axis=0)
        if not able.any():
            return part, chosen
        p = int(np.where(able, reached, np.inf).argmin())
        nodes = np.flatnonzero(usable[p] & free)
        best = np.lexsort((-share[p, nodes], -drawn[p, nodes], -(waiting[p] @ may[:, nodes])))[0]
        node = int(nodes[best])
        chosen[p, node], free[node] = True, False
        reached[p] += share[p, node]
        waiting[p, may[:, node]] = 0
        left -= of[:, p]


def _shares(part: NDArray[np.int64], parts: int, load: Floats, room: Floats) -> Floats:
    """(P, N) of the load of a part, how much a node has room for; 1 where it needs none."""
    needed = np.zeros((parts, load.shape[1]))
    np.add.at(needed, part, load)
    share = np.ones((parts, len(room)))
    for r in range(load.shape[1]):
        some = needed[:, r] > 0
        own = np.maximum(room[None, :, r], 0.0) / needed[some, r, None]
        share[some] = np.minimum(share[some], own)
    return share
