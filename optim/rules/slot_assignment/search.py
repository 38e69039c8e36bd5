"""Least number of slots of each group: a lower bound, an upper bound and a packing.

Source: D. S. Johnson, "Near-optimal bin packing algorithms", MIT 1973; for several resources the
size of a task is its greatest share of a slot.

`Search` visits every way to divide the tasks of one node into slots, as far as the ways differ.

Sets that are to fill more slots than there are nodes with them (`ToSpread`): units move to other
slots of their node, or two change places, as long as fewer slots are missing then.

`part_mixed` tries all slot partitions of some nodes, and what these add up to: those where tasks
without topology may join slots of others, and those where sets stand that are to fill more slots
than there are nodes with them.
"""

from __future__ import annotations

from collections import Counter
from itertools import product
from math import prod
from operator import ge
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from optim.rules.base import violation
from optim.rules.slot_assignment.groups import ROUNDING, spread

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from optim.format.tables import Bools, Floats, Ints
    from optim.rules.base import Violation
    from optim.rules.slot_assignment.groups import Groups, Numbers


class ToSpread:
    """One such set.

    `units`: those that stand somewhere.
    `limit`: slots that it is to fill at least.
    `nodes`, `crowded`: where it stands, and where with several units.
    `most`: slots that it can fill at most.
    """

    def __init__(self, groups: Groups, i: int, units: Numbers) -> None:
        table = groups.instance.slot_sets
        self.units, self.limit, self._name = units, int(table.limit[i]), table.ids[i]
        self.nodes, count = np.unique(groups.units.node[units], return_counts=True)
        self.crowded = self.nodes[count > 1]
        # no more slots of a node than units there; no more of a topology than its workers
        self.most = int(np.minimum(count, groups.slots[self.nodes]).sum())
        kinds, number = np.unique(groups.units.topology[units], return_counts=True)
        wanted = groups.wanted[kinds]
        most = np.where(wanted < 0, number, np.minimum(wanted, number)).sum()
        self.most = min(self.most, int(most))

    def fills(self, groups: Groups, slot: Ints) -> bool:
        """Whether it fills enough slots in a slot assignment (U,)."""
        place = np.stack([groups.units.node[self.units], slot[self.units]])
        return np.unique(place, axis=1).shape[1] >= self.limit

    def short(self, reached: float) -> Violation:
        """Say how many slots it can fill."""
        return violation("slot_sets", f"{self._name} spread: slots", self.limit, reached)


def widened(groups: Groups, sets: list[ToSpread], slot: Ints, work: int) -> tuple[Ints, int]:
    """Change a slot assignment until the sets are spread, as far as that is found; return it and
    the steps.

    `slot`: (U,) slots that keep all other rules.
    """
    board = _Board(groups, sets, slot)
    better = True
    while better and board.missing() and board.steps < work:
        better = any(board.try_for(k) for k in range(len(sets)) if board.lacks(k))
    return board.slot, board.steps


class _Board:
    """A slot assignment that is changed: who is in each slot, and how many slots each set fills."""

    def __init__(self, groups: Groups, sets: list[ToSpread], slot: Ints) -> None:
        self.groups, self.sets, self.slot, self.steps = groups, sets, slot.copy(), 0
        self.group_of = np.full(len(groups.loads), -1)
        self.group_of[groups.order] = groups.group
        self.units_in: dict[tuple[int, int], list[int]] = {}
        self.of: list[list[int]] = [[] for _ in range(len(groups.loads))]
        for k, one in enumerate(sets):
            for unit in one.units.tolist():
                self.of[unit].append(k)
        for unit in groups.order.tolist():
            self.units_in.setdefault(self.place(unit), []).append(unit)
        self.stands: list[Counter[tuple[int, int]]] = [Counter() for _ in sets]
        for k, one in enumerate(sets):
            self.stands[k].update(self.place(unit) for unit in one.units.tolist())

    def place(self, unit: int) -> tuple[int, int]:
        """Node and slot of a unit."""
        return int(self.groups.units.node[unit]), int(self.slot[unit])

    def lacks(self, k: int) -> bool:
        """Whether a set fills too few slots."""
        return len(self.stands[k]) < self.sets[k].limit

    def missing(self) -> int:
        """Slots that sets fill too few."""
        return sum(
            max(0, one.limit - len(at)) for one, at in zip(self.sets, self.stands, strict=True)
        )

    def try_for(self, k: int) -> bool:
        """Make one change by which fewer slots are missing, of a unit of one set."""
        before = self.missing()
        for unit in self.sets[k].units.tolist():
            n, s = self.place(unit)
            # alone in its slot: to leave it gains nothing
            if self.stands[k][n, s] < 2:
                continue
            for t, other in self._changes(n, s, unit):
                self.steps += 1
                # topologies must fill as many slots as before, or their number of workers breaks
                filled = self._filled(n, s, t)
                self._put([(unit, t)] if other < 0 else [(unit, t), (other, s)])
                if self.missing() < before and self._filled(n, s, t) == filled:
                    return True
                self._put([(unit, s)] if other < 0 else [(unit, s), (other, t)])
        return False

    def _changes(self, n: int, s: int, unit: int) -> Iterator[tuple[int, int]]:
        """Other slots of the node, a new one included, and who comes back from there (-1: none)."""
        for t in range(int(self.groups.slots[n])):
            if t != s:
                yield t, -1
                for other in list(self.units_in.get((n, t), ())):
                    yield t, other

    def _put(self, changes: list[tuple[int, int]]) -> None:
        for unit, slot in changes:
            n, before = self.place(unit)
            self.units_in[n, before].remove(unit)
            self.units_in.setdefault((n, slot), []).append(unit)
            self.slot[unit] = slot
            for k in self.of[unit]:
                at = self.stands[k]
                at[n, before] -= 1
                at[n, slot] += 1
                if not at[n, before]:
                    del at[n, before]

    def _filled(self, n: int, *slots: int) -> list[int] | None:
        """Topologies with a number of workers in some slots; ``None`` where one holds too much."""
        groups, topologies = self.groups, []
        for s in slots:
            units = self.units_in.get((n, s), [])
            self.steps += len(units)
            kinds = groups.units.topology[units]
            kinds = np.unique(kinds[kinds >= 0])
            if len(kinds) > 1 or (groups.loads[units].sum(axis=0) > groups.limit[n]).any():
                return None
            topologies += [int(kind) for kind in kinds if groups.wanted[kind] >= 0]
        return sorted(topologies)


class SlotPartition(NamedTuple):
    """Units assigned to `size` slots of their node; `total` when parted further as is wanted."""

    size: int
    slot: list[int]
    total: int


class Search:
    """All slot partitions of units into slots that differ in more than the names of equal things.

    Equal units take slots in ascending order, and of equal slots only the first is tried: the
    lexicographically least of all equivalent slot partitions keeps both. `labels` are -1 for units
    that join any slot; the first labels have `ends`, least and greatest numbers of slots to fill.
    `sets` are to be spread: of each unit those that it is in. What is found is stored by the slots
    that these labels fill, and those that have a member of each of the sets.
    """

    def __init__(
        self,
        loads: Floats,
        labels: list[int],
        limit: Floats,
        most: int,
        ends: Sequence[tuple[int, int]] = (),
        sets: Sequence[tuple[int, ...]] = (),
    ) -> None:
        self.loads = [tuple(load) for load in loads.tolist()]
        self.labels, self.limit, self.most, self.ends = labels, tuple(limit.tolist()), most, ends
        backwards = loads[::-1]
        self.rest = np.cumsum(backwards, axis=0)[::-1].tolist()
        self.least = np.minimum.accumulate(backwards, axis=0)[::-1].tolist()
        self.partitions: dict[tuple[int, ...], SlotPartition] = {}
        self.complete = False
        self.room: list[tuple[float, ...]] = []
        self.owner: list[int] = []
        self.usage = [0] * len(ends)
        self.sets = [frozenset(unit_sets) for unit_sets in sets] or [frozenset()] * len(labels)
        self.stands = [0] * (1 + max((i for unit_sets in sets for i in unit_sets), default=-1))
        self.within: list[dict[int, int]] = []
        self.widest = False
        each = [sum(i in unit_sets for unit_sets in self.sets) for i in range(len(self.stands))]
        self._most_stands = [min(most, count) for count in each]

    def run(self, work: int) -> int:
        """Search until all is seen or the work is done; return the steps taken."""
        size, spent, t = len(self.loads), 0, 0
        slot, next_slot = [0] * size, [0] * (size + 1)
        before: list[tuple[tuple[float, ...], int] | None] = [None] * size
        # once each number of slots within the ends is found, nothing further is to be learned
        enough = np.inf if self.stands else prod(high - low + 1 for low, high in self.ends)
        while t >= 0 and len(self.partitions) < enough and not self.widest:
            if spent > work:
                return spent
            spent += 1 + len(self.room)
            s = None
            if t == size:
                self._record(slot)
            else:
                s = self._next(t, next_slot[t])
            if s is None:  # back to the task before
                t -= 1
                if t >= 0:
                    self._take(t, slot[t], before[t])
                continue
            before[t] = (self.room[s], self.owner[s]) if s < len(self.room) else None
            slot[t], next_slot[t] = s, s + 1
            self._put(t, s)
            t += 1
            if t < size:
                alike = self.loads[t] == self.loads[t - 1] and self.labels[t] == self.labels[t - 1]
                alike = alike and self.sets[t] == self.sets[t - 1]
                # equal units in ascending slots: another order is the same partition
                next_slot[t] = s if alike else 0
                if self._hopeless(t):
                    next_slot[t] = self.most
        self.complete = True
        return spent

    def _next(self, t: int, first: int) -> int | None:
        """Return the next slot that takes a task, a new one last."""
        label, load = self.labels[t], self.loads[t]
        for s in range(first, min(len(self.room) + 1, self.most)):
            new = s == len(self.room)
            room, owner = (self.limit, -1) if new else (self.room[s], self.owner[s])
            if label >= 0 and owner not in (-1, label):
                continue
            if owner < 0 <= label < len(self.ends) and self.usage[label] == self.ends[label][1]:
                continue
            if any(x < y for x, y in zip(room, load, strict=True)):
                continue
            if not new and any(self._equal(c, s) for c in range(s)):
                continue
            return s
        return None

    def _equal(self, a: int, b: int) -> bool:
        same = self.room[a] == self.room[b] and self.owner[a] == self.owner[b]
        return same and self.within[a].keys() == self.within[b].keys()

    def _put(self, t: int, s: int) -> None:
        if s == len(self.room):
            self.room.append(self.limit)
            self.owner.append(-1)
            self.within.append({})
        for i in self.sets[t]:
            count = self.within[s].get(i, 0)
            self.stands[i] += not count
            self.within[s][i] = count + 1
        label = self.labels[t]
        if self.owner[s] < 0 <= label < len(self.ends):
            self.usage[label] += 1
        self.owner[s] = max(self.owner[s], label)
        self.room[s] = tuple(x - y for x, y in zip(self.room[s], self.loads[t], strict=True))

    def _take(self, t: int, s: int, before: tuple[tuple[float, ...], int] | None) -> None:
        label, owner = self.labels[t], -1 if before is None else before[1]
        if owner < 0 <= label < len(self.ends):
            self.usage[label] -= 1
        for i in self.sets[t]:
            count = self.within[s].pop(i) - 1
            self.stands[i] -= not count
            if count:
                self.within[s][i] = count
        if before is None:
            self.room.pop()
            self.owner.pop()
            self.within.pop()
        else:
            self.room[s], self.owner[s] = before

    def _hopeless(self, t: int) -> bool:
        """Whether the tasks from t on exceed the room of slots that could take any of them."""
        new = self.most - len(self.room)
        for d, (rest, least) in enumerate(zip(self.rest[t], self.least[t], strict=True)):
            # slots with less room than the smallest unit to come are lost to all of them
            room = sum(r[d] for r in self.room if r[d] >= least)
            if room + (new * self.limit[d] if new else 0.0) < rest * (1 - ROUNDING):
                return True
        return False

    def _record(self, slot: list[int]) -> None:
        """Keep a slot partition for what it fills, and for what it fills when parted further."""
        if self.stands:  # what is parted further is tried by itself, as it spreads sets, too
            size, usage = len(self.room), (*self.usage, *self.stands)
            self.partitions.setdefault(usage, SlotPartition(size, list(slot), size))
            self.widest = not self.ends and self.stands == self._most_stands
            return
        partition, reached = list(slot), [(tuple(self.usage), len(self.room))]
        while reached:
            usage, size = reached.pop()
            recorded = self.partitions.get(usage)
            if any(used > high for used, (_, high) in zip(usage, self.ends, strict=True)):
                continue
            if size > self.most or (recorded is not None and recorded.total <= size):
                continue
            self.partitions[usage] = SlotPartition(len(self.room), partition, size)
            reached += [
                ((*usage[:i], used + 1, *usage[i + 1 :]), size + 1) for i, used in enumerate(usage)
            ]


class Least:
    """The least numbers of slots, as far as they are known.

    `groups`: whose they are; its `order` changes within groups.
    `low`, `high`: (G,) the least number of slots of a group lies between them.
    `most`: (G,) what the group's node and topology allow: a greater least number is as bad as
        another.
    `bins`: (M,) a packing of each group into `high` slots, ascending within the group.
    """

    def __init__(self, groups: Groups) -> None:
        self.groups = groups
        slots, wanted = groups.slots[groups.node], groups.wanted[groups.topology]
        self.most = np.where(groups.counted, np.minimum(slots, wanted), slots)
        if not groups.names:  # a slot holds anything, and whoever has no topology
            self.low = np.where(groups.joins, 0, 1)
            self.high = self.low.copy()
            self.bins = np.zeros(len(groups.order), dtype=np.int64)
            groups.joins = np.zeros_like(groups.joins)
            return
        self.high = groups.count.copy()
        self.bins = np.arange(len(groups.order)) - groups.start[groups.group]
        # elsewhere a slot for each task is no loss
        matters = groups.tight | groups.counted
        self.low = np.where(matters, _bound(groups), groups.count)
        chosen = np.flatnonzero(matters & (self.low <= self.most))
        if len(chosen):
            self.bins = first_fit(groups, chosen, self.most)
            self.high = np.maximum.reduceat(self.bins, groups.start[:-1]) + 1

    def pressed(self) -> Bools:
        """(G,) groups of nodes or topologies whose packings take more than there is."""
        groups = self.groups
        over = groups.on_nodes(self.high) > groups.slots
        many = np.append(groups.of_topologies(self.high), 0) > groups.wanted
        return np.asarray(over[groups.node] | groups.counted & many[groups.topology])

    def tighten(self, among: Bools, work: int) -> int:
        """Search the least numbers that are not known, of small groups first; return the steps."""
        groups = self.groups
        open_ = np.flatnonzero(among & (self.low < self.high) & (self.low <= self.most))
        open_ = open_[np.argsort(groups.count[open_], kind="stable")]
        spent = 0
        for i, g in enumerate(open_.tolist()):
            stop = spent + (work - spent) // (len(open_) - i)
            part, limit = slice(*groups.start[g : g + 2]), groups.limit[groups.node[g]]
            tasks = groups.order[part]
            size = sizes(groups.loads[tasks], limit)
            tasks = tasks[np.lexsort([*groups.loads[tasks].T, -size])]
            labels = [-1] * len(tasks)
            while self.low[g] < self.high[g] and self.low[g] <= self.most[g]:
                search = Search(groups.loads[tasks], labels, limit, int(self.low[g]))
                spent += search.run(stop - spent)
                if search.partitions:
                    slot = np.array(search.partitions[()].slot)
                    by_slot = np.argsort(slot, kind="stable")
                    groups.order[part], self.bins[part] = tasks[by_slot], slot[by_slot]
                    self.high[g] = self.low[g]
                elif search.complete:
                    self.low[g] += 1
                else:
                    break
        return spent

    def numbered(self, slots: Numbers, bins: Numbers) -> Ints:
        """(U,) slots: packings into `bins` (G,) parted further until they fill `slots` (G,)."""
        groups = self.groups
        # a unit that shares its slot may get one of its own, the first ones of a group first
        alike = (np.diff(self.bins, prepend=-1) == 0) & (np.diff(groups.group, prepend=-1) == 0)
        seen = np.append(0, np.cumsum(alike))
        rank = seen[1:] - seen[groups.start[groups.group]]
        parted = alike & (rank <= (slots - bins)[groups.group])
        inside = np.where(parted, bins[groups.group] + rank - 1, self.bins)
        before = np.cumsum(slots) - slots
        before -= before[np.searchsorted(groups.node, groups.node)]
        slot = np.full(len(groups.loads), -1, dtype=np.int32)
        slot[groups.order] = before[groups.group] + inside
        return slot


def _bound(groups: Groups) -> Numbers:
    """(G,) slots by load, by tasks that one takes at most, and by tasks that share none."""
    if not len(groups.order):
        return np.zeros(0, dtype=np.int64)
    loads, limit, first = groups.loads[groups.order], groups.limit[groups.node], groups.start[:-1]
    with np.errstate(
        divide="ignore", invalid="ignore"
    ):  # 0 of 0 says nothing, nor does anything of inf
        volume = np.ceil(np.add.reduceat(loads, first) / limit * (1 - ROUNDING))
        fit = np.floor(limit / np.minimum.reduceat(loads, first) * (1 + ROUNDING))
        tasks = np.ceil(groups.count[:, None] / fit)
    # two units above half a slot never share one
    alone = np.add.reduceat(loads > limit[groups.group] / 2 * (1 + ROUNDING), first, dtype=np.int64)
    bounds = np.nan_to_num(np.concatenate([volume, tasks, alone], axis=1))
    return np.maximum(bounds.max(axis=1), 1).astype(np.int64)


_CHUNK = 4_000_000


def sizes(loads: Floats, limit: Floats) -> Floats:
    """(…,) greatest share of a slot that loads (…, D) take."""
    return np.asarray((loads / np.where(limit > 0, limit, 1.0)).max(axis=-1, initial=0.0))


def first_fit(groups: Groups, chosen: Numbers, most: Numbers) -> Numbers:
    """Pack groups into at most `most` (G,) slots each; ``groups.order`` is sorted by slot.

    Each task of other groups, and of those that do not fit so, has a slot of its own.

    Returns (M,) slot within the group of each of ``groups.order``.
    """
    limit = groups.limit[groups.node[groups.group]]
    loads = groups.loads[groups.order]
    by_size = np.lexsort([*loads.T, -sizes(loads, limit), groups.group])
    groups.order, loads = groups.order[by_size], loads[by_size]
    change = (np.diff(loads, axis=0) != 0).any(axis=1) | (np.diff(groups.group) != 0)
    run = np.append(0, np.flatnonzero(change) + 1)  # where equal tasks begin
    length = np.diff(np.append(run, len(loads)))
    first = np.searchsorted(run, groups.start)
    runs = np.diff(first)
    bins = np.arange(len(loads)) - groups.start[groups.group]
    for part in _chunks(chosen, most, loads.shape[1]):
        part = part[np.argsort(-runs[part], kind="stable")]
        slots = np.arange(most[part].max()) < most[part][:, None]
        room = np.repeat(groups.limit[groups.node[part]][:, None, :], slots.shape[1], axis=1)
        fits = np.ones(len(part), dtype=np.bool_)
        assigned = []
        for k in range(int(runs[part[0]])):
            rows = int((runs[part] > k).sum())
            at = first[part[:rows]] + k
            load = loads[run[at]]
            fill = _fill(room[:rows], load, length[at], slots[:rows])
            room[:rows] -= fill[:, :, None] * load[:, None, :]
            done = fill.sum(axis=1) == length[at]
            fits[:rows] &= done
            row, slot = np.nonzero(fill * done[:, None])
            tasks = np.repeat(run[at[done]], length[at[done]]) + _counting(length[at[done]])
            assigned.append((tasks, np.repeat(slot, fill[row, slot])))
        packed = np.zeros(len(groups.count), dtype=np.bool_)
        packed[part[fits]] = True
        for tasks, slot in assigned:
            packed_tasks = packed[groups.group[tasks]]
            bins[tasks[packed_tasks]] = slot[packed_tasks]
    by_bin = np.lexsort([bins, groups.group])
    groups.order = groups.order[by_bin]
    return np.asarray(bins[by_bin])


def _chunks(chosen: Numbers, most: Numbers, width: int) -> Iterator[Numbers]:
    """Groups of about as many slots, so many that the room of all is not too large a table."""
    chosen = chosen[np.argsort(most[chosen], kind="stable")]
    while len(chosen):
        cells = most[chosen] * np.arange(1, len(chosen) + 1) * width
        cut = max(1, int(np.searchsorted(cells, _CHUNK)))
        yield chosen[:cut]
        chosen = chosen[cut:]


def _fill(room: Floats, load: Floats, count: Numbers, slots: Bools) -> Numbers:
    """(rows, slots) how many of `count` equal tasks each slot takes, the first ones first."""
    with np.errstate(divide="ignore", invalid="ignore"):
        # first fit of equal units: each slot takes as many as it has room for, until all are placed
        fits = np.where(load[:, None, :] > 0, np.floor(room / load[:, None, :]), np.inf).min(axis=2)
    fits = (np.clip(fits, 0, count[:, None]) * slots).astype(np.int64)
    before = np.cumsum(fits, axis=1) - fits
    return np.asarray(np.clip(count[:, None] - before, 0, fits))


def _counting(count: Numbers) -> Numbers:
    """0, 1, … for each of the counts, one after the other."""
    return np.asarray(np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count))


_FLOW = 200  # Steps of search that one flow is counted as.


class _NodePartitions(NamedTuple):
    """What slot partitions of a node were found, by the slots that topologies fill and sets stand
    in.
    """

    units: Numbers
    labels: list[int]
    topologies: Numbers
    partitions: dict[tuple[int, ...], SlotPartition]
    complete: bool
    spent: int

    def assigned(self, usage: tuple[int, ...]) -> list[int]:
        """Slots of the units: those found, parted further where more are to be filled."""
        size, slot = self.partitions[usage].size, list(self.partitions[usage].slot)
        for label, wanted in enumerate(usage[: len(self.topologies)]):
            members = [i for i, other in enumerate(self.labels) if other == label]
            filled, seen = len({slot[i] for i in members}), set()
            for i in members:
                if slot[i] in seen and filled < wanted:
                    slot[i], size, filled = size, size + 1, filled + 1
                seen.add(slot[i])
        return slot


def part_mixed(
    least: Least, work: int, sets: Sequence[ToSpread] = ()
) -> tuple[Ints | None, tuple[Violation, ...]]:
    """Search the slot partitions of nodes where tasks without topology may join others, or sets
    stand.

    Returns (U,) slots if a slot assignment was found, and else what is short if there is none; both
        are empty when it could not be determined.
    """
    groups = least.groups
    # elsewhere slots of their own do for the tasks without topology
    matters = (groups.on_nodes(least.high) > groups.slots) | (groups.on_nodes(groups.counted) > 0)
    chosen = [groups.node[groups.joins & matters[groups.node]], *(one.crowded for one in sets)]
    nodes = np.unique(np.concatenate(chosen)).tolist()
    by_node: list[_NodePartitions] = []
    for i, n in enumerate(nodes):
        partition = _partitions_of(least, n, work // (2 * (len(nodes) - i)), sets)
        if partition.complete and not partition.partitions:
            slots = groups.slots[n]
            return None, (violation("slots", groups.node_id(n), slots + 1, slots),)
        by_node.append(partition)
        work -= partition.spent
    elsewhere = tuple(len(set(one.nodes.tolist()) - set(nodes)) for one in sets)
    limits = [one.limit for one in sets]
    sums, complete = _sums(by_node, groups.wanted, elsewhere, limits, work // 2)
    stands = {total[len(groups.wanted) - 1 :] for total in sums}
    chains = [
        chain
        for total, chain in sums.items()
        if all(map(ge, total[len(groups.wanted) - 1 :], limits))
    ]
    tries = max(1, work // _FLOW)
    complete &= len(chains) <= tries
    others = ~np.isin(groups.node, nodes)
    low = np.where(others & ~groups.joins, least.low, 0)
    high, most = np.where(others, least.high, 0), np.where(others, groups.count, 0)
    slots = groups.slots.copy()
    slots[nodes] = 0
    shortages = []
    for chain in chains[:tries]:
        wanted = groups.wanted.copy()
        for at, usage in zip(by_node, chain, strict=True):
            counted = np.array(usage[: len(at.topologies)], dtype=np.int64)
            wanted[at.topologies] -= counted
        rest = spread(groups, high, most, slots, wanted).slots
        if rest is not None:
            slot = least.numbered(rest, high)
            for at, usage in zip(by_node, chain, strict=True):
                slot[at.units] = at.assigned(usage)
            return slot, ()
        # least numbers that cannot be spread either are a proof for this choice of partitions
        proof = spread(groups, low, most, slots, wanted)
        complete &= proof.slots is None
        shortages.append(sum(each.amount for each in proof.shortage))
    if not complete:
        return None, ()
    if not chains and stands:
        reached = [max(of) for of in zip(*stands, strict=True)]
        few = [one.short(m) for one, m in zip(sets, reached, strict=True) if m < one.limit]
        return None, tuple(few or [one.short(one.limit - 1) for one in sets])
    counted = np.flatnonzero(groups.wanted[:-1] >= 0)
    needed = groups.wanted[counted].sum()
    available = needed - min(shortages, default=1)
    return None, (violation("workers", groups.topology_ids(counted), needed, available),)


def _partitions_of(least: Least, n: int, work: int, sets: Sequence[ToSpread]) -> _NodePartitions:
    """Part the units of one node in every way that matters; labels of counted groups come first."""
    groups = least.groups
    here = np.flatnonzero(groups.node == n)
    here = here[np.argsort(~groups.counted[here], kind="stable")]
    label = np.where(groups.topology[here] < 0, -1, np.arange(len(here)))
    label = np.repeat(label, groups.count[here])
    units = np.concatenate([groups.order[groups.start[g] : groups.start[g + 1]] for g in here])
    loads, limit = groups.loads[units], groups.limit[n]
    member = np.array([np.isin(units, one.units) for one in sets], dtype=np.bool_)
    by_size = np.lexsort([*member, label, *loads.T, -sizes(loads, limit)])
    sets_of_units = (
        [tuple(np.flatnonzero(row).tolist()) for row in member.T[by_size]] if sets else []
    )
    labels = label[by_size].tolist()
    counted = here[groups.counted[here]]
    topologies = groups.topology[counted]
    greatest = np.minimum(groups.count[counted], groups.wanted[topologies])
    ends = list(zip(least.low[counted].tolist(), greatest.tolist(), strict=True))
    search = Search(loads[by_size], labels, limit, int(groups.slots[n]), ends, sets_of_units)
    spent = search.run(work)
    return _NodePartitions(
        units[by_size], labels, topologies, search.partitions, search.complete, spent
    )


def _sums(
    by_node: list[_NodePartitions],
    wanted: Numbers,
    elsewhere: tuple[int, ...],
    limits: list[int],
    work: int,
) -> tuple[dict[tuple[int, ...], tuple[tuple[int, ...], ...]], bool]:
    """One choice of a slot partition a node for each sum of slots filled, and whether these are
    all.

    The sums are of topologies, then of sets: these count up to their limits, from what they stand
    in `elsewhere`.
    """
    kinds = len(wanted) - 1
    sums: dict[tuple[int, ...], tuple[tuple[int, ...], ...]] = {(*(0,) * kinds, *elsewhere): ()}
    complete = all(partition.complete for partition in by_node)
    for partition in by_node:
        longer: dict[tuple[int, ...], tuple[tuple[int, ...], ...]] = {}
        for (total, chain), usage in product(sums.items(), partition.partitions):
            work -= 1
            if work < 0:
                complete = False
                break
            grown = list(total)
            counted = partition.topologies.tolist()
            for i, used in zip(counted, usage[: len(counted)], strict=True):
                grown[i] += used
            for i, used in enumerate(usage[len(counted) :]):
                grown[kinds + i] = min(limits[i], grown[kinds + i] + used)
            if all(grown[i] <= wanted[i] for i in counted):
                # dynamic programme over nodes: of each sum one choice is enough
                longer.setdefault(tuple(grown), (*chain, usage))
        sums = longer
    return sums, complete
