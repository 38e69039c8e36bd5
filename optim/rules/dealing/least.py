"""How many slots each group needs: two ends of the least number, and a packing.

Source: D. S. Johnson, "Near-optimal bin packing algorithms", MIT 1973; for several resources the
size of a task is its greatest share of a slot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optim.rules.dealing.groups import ROUNDING
from optim.rules.dealing.partings import Search

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim.format.tables import Bools, Floats, Ints
    from optim.rules.dealing.groups import Groups, Numbers


class Least:
    """The least numbers of slots, as far as they are known.

    Attributes
    ----------
    groups
        Whose they are; its `order` changes within groups.
    low, high
        (G,) the least number of slots of a group lies between them.
    most
        (G,) what the group's node and topology allow: a greater least number is as bad as another.
    bins
        (M,) a packing of each group into `high` slots, ascending within the group.
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
                if search.found:
                    slot = np.array(search.found[()].slot)
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

    Returns
    -------
    ndarray of int64
        (M,) slot within the group of each of ``groups.order``.
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
        found = []
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
            found.append((tasks, np.repeat(slot, fill[row, slot])))
        packed = np.zeros(len(groups.count), dtype=np.bool_)
        packed[part[fits]] = True
        for tasks, slot in found:
            kept = packed[groups.group[tasks]]
            bins[tasks[kept]] = slot[kept]
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
        fits = np.where(load[:, None, :] > 0, np.floor(room / load[:, None, :]), np.inf).min(axis=2)
    fits = (np.clip(fits, 0, count[:, None]) * slots).astype(np.int64)
    before = np.cumsum(fits, axis=1) - fits
    return np.asarray(np.clip(count[:, None] - before, 0, fits))


def _counting(count: Numbers) -> Numbers:
    """0, 1, … for each of the counts, one after the other."""
    return np.asarray(np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count))
