"""Rules of where tasks may be as plain arrays: room, masks, sets, inflow, moves onto copies.

Models write them as rows (`formulations.model_rows`), compiled searches ask a `Guard` of them, and
both have a placement checked here.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from optim.figures.measures import distance_of_loads, link_loads, migrated_tasks, node_loads, slack
from optim.format.tables import APART, TOGETHER
from optim.rules import budgets, inflow_limits, node_counts
from optim.rules.sets import are_broken, crowds
from optim.util.compiled import helper, inlined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats, Ints
    from optim.rules.budget import Budget, NodeCount

    Indices = NDArray[np.int64]

# What a method may place where: room with the referee's tolerance, and the tasks' masks.

_USED = 0.999
"""Part of the referee's tolerance that a placement may use.

The rest, 1e-12 of the bound, is for adding up loads in another order than the referee: sums of
several thousand loads at worst, and of many millions as rounding usually falls.
"""


LARGE_SUMS = 0.5
"""Part of that for bounds on differences of sums that are much larger: links, load distance."""


def placing_slack(bound: Any) -> Any:
    """By how much a placement may exceed bounds on sums, background included."""
    return _USED * slack(bound)


def distance_room(limit: float, due: Floats) -> float:
    """Return a bound on the load distance with the tolerance that may be used.

    `due`: (N,) of each node, its share of the mean load. The rows of a node are load ≤ due + limit
        and due ≤ load + limit: what stands in them is at least as large as the larger of the two.
    """
    # the tolerance is of the larger of what stands in a row: the smallest row is the safe one
    least = max(limit, float(due.min(initial=np.inf))) if len(due) else limit
    return limit + LARGE_SUMS * float(placing_slack(least))


def placing_room(instance: Instance) -> Floats:
    """(N, R) headroom with the tolerance that a placement may use."""
    bound = instance.nodes.capacity * instance.limits.max_utilisation
    return np.asarray(instance.headroom + placing_slack(bound))


def counted_loads(instance: Instance) -> tuple[Floats, Floats]:
    """(T, R') loads and (N, R') room; where nodes bound their number of tasks, one load is 1."""
    load, room, most = (
        np.array(instance.tasks.load),
        placing_room(instance),
        instance.nodes.max_tasks,
    )
    if not (most >= 0).any():
        return load, room
    # a number of tasks as a load of 1 each; half a task more, so that no rounding takes one away
    count = np.where(most >= 0, most + 0.5, np.inf)
    return np.hstack([load, np.ones((len(load), 1))]), np.column_stack([room, count])


def counted_floor(instance: Instance, width: int) -> Floats:
    """(N, R') load to place for `min_load`; nothing of a count of tasks."""
    floor = placing_floor(instance)
    more = np.full((len(floor), width - floor.shape[1]), -np.inf)
    return np.hstack([floor, more])


def slot_room(instance: Instance) -> Floats:
    """(N, R) load that one slot takes, tolerance included; ``inf`` for any."""
    bound = instance.nodes.slot_capacity
    return np.asarray(bound + placing_slack(bound))


def placing_floor(instance: Instance) -> Floats:
    """(N, R) load to place for `min_load`, the tolerance off; ``-inf`` for none."""
    least = instance.nodes.min_load
    bound = least - instance.nodes.background - placing_slack(least)
    return np.where((least > 0) & instance.open_nodes[:, None], bound, -np.inf)


def link_room(instance: Instance) -> Floats:
    """(L,) traffic with background that each link takes, tolerance included; ``inf`` for any."""
    bound = instance.links.capacity * instance.limits.max_link_utilisation
    return np.asarray(bound + LARGE_SUMS * placing_slack(bound))


def most_of(budget: Budget) -> float:
    """Return what migrations may take of a budget, with the tolerance that may be used."""
    return budget.limit + (0.0 if budget.integral else float(placing_slack(budget.limit)))


def move_budgets(instance: Instance) -> tuple[Floats, Floats]:
    """(T, K) what a migration of each task takes of each budget set; (K,) the most (`most_of`)."""
    all_budgets = budgets(instance)
    price = np.column_stack([np.zeros((instance.num_tasks, 0)), *(b.weight for b in all_budgets)])
    return np.ascontiguousarray(price), np.array([most_of(budget) for budget in all_budgets])


def at_the_edge(instance: Instance, node: Ints) -> bool:
    """Whether a feasible placement of all tasks uses more of the tolerance than methods may."""
    loads = node_loads(instance, node)
    placed = loads - instance.nodes.background
    if (placed > placing_room(instance)).any() or (placed < placing_floor(instance)).any():
        return True
    moved = migrated_tasks(instance, node)
    for budget in budgets(instance):
        spent = float(budget.weight[moved].sum())
        if spent > budget.limit + LARGE_SUMS * placing_slack(budget.limit):
            return True
    limits = instance.limits
    far, distance = limits.max_load_distance, distance_of_loads(instance, loads[:, 0])
    if far is not None and distance is not None and distance > distance_room(far, instance.due):
        return True
    return bool((link_loads(instance, node) > link_room(instance)).any())


def restriction_kinds(instance: Instance) -> tuple[Ints, list[NDArray[np.int32]]]:
    """Number the different sets of allowed nodes.

    Returns (T,) kind of each task, 0 for "everywhere"; and the nodes of kinds 1, 2, ….
    """
    kinds = np.zeros(instance.num_tasks, dtype=np.int32)
    kind_of: dict[bytes, int] = {}
    sets: list[NDArray[np.int32]] = []
    table = instance.tasks
    for k, task in enumerate(table.restricted):
        places = np.sort(
            table.allowed_indices[table.allowed_indptr[k] : table.allowed_indptr[k + 1]]
        )
        key = places.tobytes()
        if key not in kind_of:
            kind_of[key] = len(sets) + 1
            sets.append(places)
        kinds[task] = kind_of[key]
    return kinds, sets


def placing_masks(instance: Instance) -> tuple[Ints, Bools, Bools]:
    """Return where tasks may be put, by kind.

    Returns (T,) kind of each task; (K, N) allowed by kind; (K, N) where new tasks go: the allowed
        nodes that stay, or all allowed ones when none of them stays.
    """
    kinds, sets = restriction_kinds(instance)
    allowed = np.ones((len(sets) + 1, instance.num_nodes), dtype=np.bool_)
    for kind, places in enumerate(sets, start=1):
        allowed[kind] = False
        allowed[kind, places] = True
    target = allowed & instance.open_nodes
    # a task that may only be on leaving nodes stays on these
    without_target = ~target.any(axis=1)
    target[without_target] = allowed[without_target]
    return kinds, allowed, target


@dataclass(frozen=True, eq=False)
class PlaceRules:
    """What an instance demands of where tasks are beside loads, allowed nodes and budgets."""

    home: Indices  # (T,) current node, -1 for none.
    #: (S,) `APART`, `TOGETHER` or `SPREAD`; most members on a place, or least number of places.
    rule: Indices
    limit: Indices
    place: Indices  # (S, N) number of the place that each node is, or is in, for a set.
    #: Tasks of each set in CSR form.
    indptr: Indices
    members: Indices
    #: (N,) most tasks whose state may move onto a node; T or more where none is set.
    most_in: Indices
    #: (T + 1,) and CSR of the nodes that hold a task's state already.
    copies_indptr: Indices
    copies: Indices
    #: Bounds on numbers of nodes that hold tasks of one group or two.
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

    def reordered(self, order: Indices) -> PlaceRules:
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

    def tasks_of(self, i: int) -> Indices:
        """Members of one set."""
        return self.members[self.indptr[i] : self.indptr[i + 1]]

    @cached_property
    def _copy_keys(self) -> Indices:
        """Task × N + node of every copy, ascending."""
        tasks = np.repeat(np.arange(len(self.home)), np.diff(self.copies_indptr))
        return np.sort(tasks * len(self.most_in) + self.copies)

    def pays(self, task: NDArray[Any], node: NDArray[Any]) -> Bools:
        """Whether each of these tasks migrates when it is on that node: not at home, no copy."""
        away: Bools = (self.home[task] >= 0) & (self.home[task] != node)
        if not self.has_copies:
            return away
        # (task, node) as one sorted number, so that membership is a binary search
        key = np.asarray(task, np.int64) * len(self.most_in) + node
        at = np.minimum(np.searchsorted(self._copy_keys, key), len(self._copy_keys) - 1)
        return away & (self._copy_keys[at] != key)

    def migrates(self, placement: Indices) -> Bools:
        """(T,) whether each task migrates under a placement."""
        return self.pays(np.arange(len(self.home)), placement)

    def are_kept(self, placement: Indices) -> bool:
        """Whether a placement of all tasks keeps sets, inflow and counts of nodes."""
        # in each row of nodes, 1 where a node counts
        if any(c.nodes(placement, len(self.most_in)).sum() > c.limit for c in self.counts):
            return False
        if self.bounds_inflow:
            moved = placement[self.migrates(placement)]
            if (np.bincount(moved, minlength=len(self.most_in)) > self.most_in).any():
                return False
        most, used = crowds(self.owner, self.places(placement), self.num_sets, len(self.most_in))
        return not are_broken(self.rule, self.limit, most, used).any()

    @cached_property
    def owner(self) -> Indices:
        """(M,) set of each member."""
        return np.repeat(np.arange(self.num_sets), np.diff(self.indptr))

    def places(self, placement: Indices) -> Indices:
        """(M,) place of each member."""
        return self.place[self.owner, placement[self.members]]

    def surplus(self, placement: Indices) -> Indices:
        """Members of sets `apart` beyond what their place may hold, the first ones left there."""
        key = self.owner * len(self.most_in) + self.places(placement)
        beyond = (self.rule[self.owner] == APART) & (ranks(key) >= self.limit[self.owner])
        return np.unique(self.members[beyond])


def ranks(keys: NDArray[Any]) -> Indices:
    """Number the entries of each key 0, 1, … in their order."""
    order = np.argsort(keys, kind="stable")
    rank = np.empty(len(keys), dtype=np.int64)
    rank[order] = np.arange(len(keys)) - np.searchsorted(keys[order], keys[order])
    return rank


def place_rules(instance: Instance) -> PlaceRules:
    """Return the place rules of an instance."""
    t, n = instance.num_tasks, instance.num_nodes
    sets, tasks = instance.sets, instance.tasks
    # a place of a set is its node, or its rack by number
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


def no_rules(home: Indices, num_nodes: int) -> PlaceRules:
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


_MOST = 20_000_000  # Tasks × nodes up to which lists of allowed nodes are written down.


def on_chosen_nodes(instance: Instance, near: NDArray[Any] | None = None) -> Instance:
    """Return the instance whose tasks may only use the nodes chosen for their part.

    The same one where nothing counts nodes, or lists would be too long.

    `near`: (T,) nodes that are chosen before others, -1 for none; the current ones if left out.
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

    `counts`: bounds on numbers of nodes, one at least.
    `load`, `room`: (T, R) and (N, R).
    `home`: (T,) current nodes; -1 for none.
    `kind`, `may`: (T,) kind of each task and (K, N) where tasks of a kind may be.
    Returns (T,) part of each task, and (P, N) nodes of each part; a node is of one part at most.
    """
    # tasks of the same groups are alike; those that may share no node with the same ones are a part
    masks = np.array([tasks for count in counts for tasks in count.groups])
    example, alike = np.unique(masks, axis=1, return_index=True, return_inverse=True)[1:]
    apart = np.zeros((len(example), len(example)), dtype=np.bool_)
    for first, second in (count.groups for count in counts if len(count.groups) > 1):
        pair = np.outer(first[example], second[example])
        apart |= pair | pair.T
    part = np.unique(apart, axis=0, return_inverse=True)[1].reshape(-1)[alike.reshape(-1)]
    parts, n = int(part.max()) + 1, len(room)
    # counts of one group limit the nodes of all parts that have tasks of it
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
    # tasks of this part that are there now, less those of other parts
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
        # 1 once the chosen nodes have room for all the load of the part
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
        part_share = np.maximum(room[None, :, r], 0.0) / needed[some, r, None]
        share[some] = np.minimum(share[some], part_share)
    return share


# Guard of the rules that count tasks on places, or nodes, for compiled searches.
#
# A search asks `may_enter` where it asks whether a task fits, and reports every change by
# `enter`; a guard of no rules costs one comparison (`guard.active`). What is broken to begin with
# may stay so: a change is refused where it breaks a set or the inflow of a node, or breaks it
# more, so a placement that keeps all goes on doing so, and `relief_of` says which changes mend.

NOBODY = np.int64(-1)

#: Where the first entries of `Guard.ints` say that each part of it begins; see `Guard`.
NODES, SETS, STARTS, LISTED, RULE, LIMIT, SIZE, PLACE, HOME = 0, 1, 2, 3, 4, 5, 6, 7, 8
MOST_IN, COPY_STARTS, COPIES, TALLY, USED, PLACED, INFLOW = 9, 10, 11, 12, 13, 14, 15
COUNTS, BOUNDS, GROUPS, HELD, COUNTED, PARTS = 16, 17, 18, 19, 20, 21


class Guard(NamedTuple):
    """Rules and the counts under a placement.

    All numbers are in one array: every call that is not inlined counts references to each array
    that it is given, which in a search takes longer than all else.
    """

    #: Whether anything but copies is set: `may_enter` and `enter` are of use only then.
    active: bool
    free: bool  # Whether there are copies.
    #: First the numbers of nodes and sets and where each part begins (`STARTS` to `INFLOW`), then
    #: the parts. Fixed: sets of each task in CSR form; of each set its rule, its limit, its
    #: members, and the place of each node; the home of each task (-1 for none); the most tasks that
    #: may migrate onto each node; the copies of each task in CSR form. Changed in place: members of
    #: each set on each place; places with a member; members that stand somewhere; tasks that
    #: migrate onto each node. Of counts of nodes: how many there are and of how many groups; the
    #: bound and the two groups of each (the second -1 where there is one); which group each task is
    #: in; tasks of each group on each node; nodes that count.
    ints: NDArray[np.int64]


def make_guard(rules: PlaceRules, placement: Indices) -> Guard:
    """Return the guard of a placement; -1 is nowhere."""
    t, n, s = len(rules.home), len(rules.most_in), rules.num_sets
    size = np.diff(rules.indptr)
    owner = np.repeat(np.arange(s), size)
    per_task = np.bincount(rules.members, minlength=t)
    standing = placement[rules.members] >= 0
    tally = np.zeros((s, n), np.int64)
    place = rules.place[owner[standing], placement[rules.members[standing]]]
    np.add.at(tally, (owner[standing], place), 1)
    paying = rules.migrates(placement) & (placement >= 0)
    groups = [tasks for count in rules.counts for tasks in count.groups]
    bounds, first = [], 0
    for count in rules.counts:
        second = first + 1 if len(count.groups) > 1 else -1
        bounds.append((count.limit, first, second))
        first += len(count.groups)
    members_there = np.zeros((len(groups), n), np.int64)
    for tasks, row in zip(groups, members_there, strict=True):
        np.add.at(row, placement[tasks & (placement >= 0)], 1)
    parts = (
        np.concatenate([[0], np.cumsum(per_task)]),
        owner[np.argsort(rules.members, kind="stable")],
        rules.rule,
        rules.limit,
        size,
        rules.place.ravel(),
        rules.home,
        rules.most_in,
        rules.copies_indptr,
        rules.copies,
        tally.ravel(),
        np.count_nonzero(tally, axis=1),
        tally.sum(axis=1),
        np.bincount(placement[paying], minlength=n),
        np.array([len(rules.counts), len(groups)]),
        np.array(bounds, np.int64).ravel(),
        np.array(groups, np.int64).ravel(),
        members_there.ravel(),
        np.array([count.nodes(placement, n).sum() for count in rules.counts], np.int64),
    )
    begins = PARTS + np.concatenate([[0], np.cumsum([len(part) for part in parts])[:-1]])
    ints = np.concatenate([[n, s], begins, *parts]).astype(np.int64)
    return Guard(rules.restrict, rules.has_copies, ints)


@helper
def pays(guard, task, node):
    """Return 1 where being on a node is a migration of a task: not its home, and no copy there."""
    g = guard.ints
    home = g[g[HOME] + task]
    if home < 0 or node < 0 or node == home:
        return 0
    if not guard.free:
        return 1
    for at in range(g[g[COPY_STARTS] + task], g[g[COPY_STARTS] + task + 1]):
        if g[g[COPIES] + at] == node:
            return 0
    return 1


@inlined
def affords(price, budget, task, paid, other, back):
    """Whether all budgets of moves allow a change of one task or two.

    `price`, `budget`: (T, K) what a migration of each task takes of each budget; (K,) what is left
        of it.
    `task`, `paid`: 1 where the task comes to migrate, -1 where it ceases to, else 0.
    `other`, `back`: the same of another task; -1 for none.
    """
    enough = True
    for b in range(budget.shape[0]):
        spent = paid * price[task, b]
        if other >= 0:
            spent += back * price[other, b]
        enough = enough and (spent <= 0.0 or spent <= budget[b])
    return enough


@inlined
def overdrawn(budget):
    """Whether more than there is was taken of any budget."""
    some = False
    for b in range(budget.shape[0]):
        some = some or budget[b] < 0.0
    return some


@helper
def is_member(g, task, s):
    """Whether a task is in a set."""
    listed = False
    for at in range(g[g[STARTS] + task], g[g[STARTS] + task + 1]):
        listed = listed or g[g[LISTED] + at] == s
    return listed


@helper
def recounted(guard, c, task, node, leaver, sign):
    """Return by how much a count of nodes changes at one node that a task comes to, or leaves (-1).

    The leaver goes the other way; -1 for none.
    """
    g = guard.ints
    before, after = True, True
    for k in range(1, 3):
        group = g[g[BOUNDS] + 3 * c + k]
        if group >= 0:
            row = g[GROUPS] + group * (g[MOST_IN] - g[HOME])
            members_there = g[g[HELD] + group * g[NODES] + node]
            moved = g[row + task]
            if leaver != NOBODY:
                moved -= g[row + leaver]
            before = before and members_there > 0
            after = after and members_there + sign * moved > 0
    return (1 if after else 0) - (1 if before else 0)


@helper
def may_enter(guard, task, source, target, leaver):
    """Whether a task may go from one node to another without breaking a set or an inflow more.

    `guard`: under the placement before the change.
    `task`, `source`, `target`: the task, its node (-1 where it is nowhere), and another node.
    `leaver`: the task that goes from `target` to `source` in exchange; -1 for none.
    """
    g = guard.ints
    for c in range(g[g[COUNTS]]):
        # a count of nodes may rise where it stays within its limit, or where it does not rise
        before = g[g[COUNTED] + c]
        after = before + recounted(guard, c, task, target, leaver, 1)
        if source >= 0:
            after += recounted(guard, c, task, source, leaver, -1)
        if after > before and after > g[g[BOUNDS] + 3 * c]:
            return False
    if pays(guard, task, target) > 0:
        # who leaves the node in exchange makes room in its inflow
        freed = 0 if leaver == NOBODY else pays(guard, leaver, target)
        if g[g[INFLOW] + target] + 1 - freed > g[g[MOST_IN] + target]:
            return False
    for at in range(g[g[STARTS] + task], g[g[STARTS] + task + 1]):
        s = g[g[LISTED] + at]
        row = s * g[NODES]
        to = g[g[PLACE] + row + target]
        of = -1 if source < 0 else g[g[PLACE] + row + source]
        # the same rack, or both of the set: no count changes
        if of == to or (leaver != NOBODY and is_member(g, leaver, s)):
            continue  # the set's counts stay as they are
        there = g[g[TALLY] + row + to]
        here = 0 if of < 0 else g[g[TALLY] + row + of]
        limit, used = g[g[LIMIT] + s], g[g[USED] + s]
        if g[g[RULE] + s] == APART:
            # at most `limit` members on one place
            if there + 1 > limit:
                return False
        elif g[g[RULE] + s] == TOGETHER:
            # together: only towards the place that has at least as many, so that members gather
            if g[g[SIZE] + s] > 1 and (there < here or (there == 0 and used > 0)):
                return False
        else:
            # spread: places in use after the change and members not placed yet must still reach
            # `limit`
            later = used + (1 if there == 0 else 0) - (1 if here == 1 else 0)
            waiting = g[g[SIZE] + s] - g[g[PLACED] + s]
            still = waiting - (1 if of < 0 else 0)
            if later + still < min(limit, used + waiting):
                return False
    return True


@helper
def may_exchange(guard, k, other, a, b):
    """Whether one task may go from a to b and the other from b to a; -1 stands for nobody."""
    if k != NOBODY and not may_enter(guard, k, a, b, other):
        return False
    return other == NOBODY or may_enter(guard, other, b, a, k)


@helper
def enter(guard, task, source, target):
    """Enter a change into the counts; -1 is nowhere."""
    g = guard.ints
    if source != target and g[g[COUNTS]] > 0:
        for c in range(g[g[COUNTS]]):
            if source >= 0:
                g[g[COUNTED] + c] += recounted(guard, c, task, source, NOBODY, -1)
            if target >= 0:
                g[g[COUNTED] + c] += recounted(guard, c, task, target, NOBODY, 1)
        # counts first, for `recounted` reads the tallies before the change
        for group in range(g[g[COUNTS] + 1]):
            inside = g[g[GROUPS] + group * (g[MOST_IN] - g[HOME]) + task]
            row = g[HELD] + group * g[NODES]
            if source >= 0:
                g[row + source] -= inside
            if target >= 0:
                g[row + target] += inside
    if source >= 0:
        g[g[INFLOW] + source] -= pays(guard, task, source)
    if target >= 0:
        g[g[INFLOW] + target] += pays(guard, task, target)
    for at in range(g[g[STARTS] + task], g[g[STARTS] + task + 1]):
        s = g[g[LISTED] + at]
        row = s * g[NODES]
        if source >= 0:
            place = g[TALLY] + row + g[g[PLACE] + row + source]
            g[place] -= 1
            g[g[PLACED] + s] -= 1
            if g[place] == 0:
                g[g[USED] + s] -= 1
        if target >= 0:
            place = g[TALLY] + row + g[g[PLACE] + row + target]
            if g[place] == 0:
                g[g[USED] + s] += 1
            g[place] += 1
            g[g[PLACED] + s] += 1


@helper
def flooded(guard, node):
    """Return by how many tasks the inflow of a node is broken."""
    g = guard.ints
    return max(0, g[g[INFLOW] + node] - g[g[MOST_IN] + node])


@helper
def crowded(guard):
    """Return by how many nodes all bounds on numbers of nodes are broken."""
    g = guard.ints
    total = 0
    for c in range(g[g[COUNTS]]):
        total += max(0, g[g[COUNTED] + c] - g[g[BOUNDS] + 3 * c])
    return total


@helper
def is_listed(guard, task):
    """Whether a task is in any set."""
    g = guard.ints
    return g[g[STARTS] + task + 1] > g[g[STARTS] + task]


@helper
def broken(guard):
    """Return by how many tasks sets and inflow are broken in all; of a whole placement."""
    total = crowded(guard)
    for node in range(guard.ints[NODES]):
        total += flooded(guard, node)
    for s in range(guard.ints[SETS]):
        total += broken_set(guard, s)
    return total


@helper
def broken_set(guard, s):
    """Return by how many tasks a set is broken."""
    g = guard.ints
    if g[g[RULE] + s] != APART and g[g[RULE] + s] != TOGETHER:
        return max(0, g[g[LIMIT] + s] - g[g[USED] + s])
    begin = g[TALLY] + s * g[NODES]
    above, most = 0, 0
    for at in range(begin, begin + g[NODES]):
        above += max(0, g[at] - g[g[LIMIT] + s])
        most = max(most, g[at])
    return above if g[g[RULE] + s] == APART else g[g[PLACED] + s] - most


@helper
def relief_of(guard, task, source, target):
    """Return by how many tasks less the rules are broken once a task goes; negative if by more."""
    # tried on the tallies themselves and taken back: they are whole numbers, nothing is lost
    before = relevant(guard, task, source, target)
    enter(guard, task, source, target)
    after = relevant(guard, task, source, target)
    enter(guard, task, target, source)
    return before - after


@helper
def relevant(guard, task, source, target):
    """Return by how many tasks what a change touches is broken."""
    g = guard.ints
    total = crowded(guard)
    for node in (source, target):
        if node >= 0:
            total += flooded(guard, node)
    for at in range(g[g[STARTS] + task], g[g[STARTS] + task + 1]):
        total += broken_set(guard, g[g[LISTED] + at])
    return total
