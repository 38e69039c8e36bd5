"""Nodes where tasks without topology may join slots of others: all partings, and their sums."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from optim.rules.dealing.groups import short, spread
from optim.rules.dealing.least import sizes
from optim.rules.dealing.partings import Search

if TYPE_CHECKING:
    from optim.format.tables import Ints
    from optim.rules.dealing.groups import Numbers
    from optim.rules.dealing.least import Least
    from optim.rules.dealing.partings import Parting
    from optim.rules.violation import Violation

_FLOW = 200
"""Steps of search that one flow is counted as."""


class _Partings(NamedTuple):
    """What partings of a node were found, by the slots that its counted topologies fill."""

    tasks: Numbers
    labels: list[int]
    topologies: Numbers
    found: dict[tuple[int, ...], Parting]
    complete: bool
    spent: int

    def dealt(self, usage: tuple[int, ...]) -> list[int]:
        """Slots of the tasks: those found, parted further where more are to be filled."""
        size, slot = self.found[usage].size, list(self.found[usage].slot)
        for label, wanted in enumerate(usage):
            members = [i for i, own in enumerate(self.labels) if own == label]
            filled, seen = len({slot[i] for i in members}), set()
            for i in members:
                if slot[i] in seen and filled < wanted:
                    slot[i], size, filled = size, size + 1, filled + 1
                seen.add(slot[i])
        return slot


def part_mixed(least: Least, work: int) -> tuple[Ints | None, tuple[Violation, ...]]:
    """Search the partings of nodes where tasks without topology may join others.

    Returns
    -------
    tuple
        (T,) slots if a dealing was found, and else what is short if there is none; both are empty
        when it could not be told.
    """
    groups = least.groups
    # elsewhere slots of their own do for the tasks without topology
    matters = (groups.on_nodes(least.high) > groups.slots) | (groups.on_nodes(groups.counted) > 0)
    nodes = np.unique(groups.node[groups.joins & matters[groups.node]]).tolist()
    partings: list[_Partings] = []
    for i, n in enumerate(nodes):
        found = _partings(least, n, work // (2 * (len(nodes) - i)))
        if found.complete and not found.found:
            slots = groups.slots[n]
            return None, (short("slots", groups.node_id(n), slots + 1, slots),)
        partings.append(found)
        work -= found.spent
    chains, complete = _sums(partings, groups.wanted, work // 2)
    tries = max(1, work // _FLOW)
    complete &= len(chains) <= tries
    others = ~np.isin(groups.node, nodes)
    low = np.where(others & ~groups.joins, least.low, 0)
    high, most = np.where(others, least.high, 0), np.where(others, groups.count, 0)
    slots = groups.slots.copy()
    slots[nodes] = 0
    lack = []
    for chain in chains[:tries]:
        wanted = groups.wanted.copy()
        for at, usage in zip(partings, chain, strict=True):
            wanted[at.topologies] -= np.array(usage, dtype=np.int64)
        rest = spread(groups, high, most, slots, wanted).slots
        if rest is not None:
            slot = least.numbered(rest, high)
            for at, usage in zip(partings, chain, strict=True):
                slot[at.tasks] = at.dealt(usage)
            return slot, ()
        proof = spread(groups, low, most, slots, wanted)
        complete &= proof.slots is None
        lack.append(sum(violation.amount for violation in proof.shortage))
    if not complete:
        return None, ()
    counted = np.flatnonzero(groups.wanted[:-1] >= 0)
    needed = groups.wanted[counted].sum()
    available = needed - min(lack, default=1)
    return None, (short("workers", groups.topology_ids(counted), needed, available),)


def _partings(least: Least, n: int, work: int) -> _Partings:
    """Part the tasks of one node in every way that matters; labels of counted groups come first."""
    groups = least.groups
    here = np.flatnonzero(groups.node == n)
    here = here[np.argsort(~groups.counted[here], kind="stable")]
    label = np.where(groups.topology[here] < 0, -1, np.arange(len(here)))
    label = np.repeat(label, groups.count[here])
    tasks = np.concatenate([groups.order[groups.start[g] : groups.start[g + 1]] for g in here])
    loads, limit = groups.loads[tasks], groups.limit[n]
    by_size = np.lexsort([label, *loads.T, -sizes(loads, limit)])
    labels = label[by_size].tolist()
    counted = here[groups.counted[here]]
    topologies = groups.topology[counted]
    greatest = np.minimum(groups.count[counted], groups.wanted[topologies])
    ends = list(zip(least.low[counted].tolist(), greatest.tolist(), strict=True))
    search = Search(loads[by_size], labels, limit, int(groups.slots[n]), ends)
    spent = search.run(work)
    return _Partings(tasks[by_size], labels, topologies, search.found, search.complete, spent)


def _sums(
    partings: list[_Partings], wanted: Numbers, work: int
) -> tuple[list[tuple[tuple[int, ...], ...]], bool]:
    """One choice of a parting a node for each sum of slots filled, and whether these are all."""
    sums: dict[tuple[int, ...], tuple[tuple[int, ...], ...]] = {(0,) * (len(wanted) - 1): ()}
    complete = all(parting.complete for parting in partings)
    for parting in partings:
        longer: dict[tuple[int, ...], tuple[tuple[int, ...], ...]] = {}
        for (total, chain), usage in product(sums.items(), parting.found):
            work -= 1
            if work < 0:
                complete = False
                break
            grown = list(total)
            for i, used in zip(parting.topologies.tolist(), usage, strict=True):
                grown[i] += used
            if all(grown[i] <= wanted[i] for i in parting.topologies.tolist()):
                longer.setdefault(tuple(grown), (*chain, usage))
        sums = longer
    return list(sums.values()), complete
