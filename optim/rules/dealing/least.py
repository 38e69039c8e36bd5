"""How many slots each group needs: two ends of the least number, and a packing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optim.rules.dealing.first_fit import first_fit, sizes
from optim.rules.dealing.groups import ROUNDING
from optim.rules.dealing.partings import Search

if TYPE_CHECKING:
    from optim.format.tables import Bools, Ints
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
        """(T,) slots: packings into `bins` (G,) parted further until they fill `slots` (G,)."""
        groups = self.groups
        alike = (np.diff(self.bins, prepend=-1) == 0) & (np.diff(groups.group, prepend=-1) == 0)
        seen = np.append(0, np.cumsum(alike))
        rank = seen[1:] - seen[groups.start[groups.group]]
        parted = alike & (rank <= (slots - bins)[groups.group])
        inside = np.where(parted, bins[groups.group] + rank - 1, self.bins)
        before = np.cumsum(slots) - slots
        before -= before[np.searchsorted(groups.node, groups.node)]
        slot = np.full(groups.instance.num_tasks, -1, dtype=np.int32)
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
