"""Nodes of which all slot partitions are tried, and what these add up to.

Those where tasks without topology may join slots of others, and those where sets stand that are to
fill more slots than there are nodes with them.
"""

from __future__ import annotations

from itertools import product
from operator import ge
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from optim.rules.base import violation
from optim.rules.dealing.groups import spread
from optim.rules.dealing.least import sizes
from optim.rules.dealing.partings import Search

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optim.format.tables import Ints
    from optim.rules.dealing.groups import Numbers
    from optim.rules.dealing.least import Least
    from optim.rules.dealing.partings import Parting
    from optim.rules.dealing.spreading import ToSpread
    from optim.rules.violation import Violation

_FLOW = 200
"""Steps of search that one flow is counted as."""


class _Partings(NamedTuple):
    """What slot partitions of a node were found, by the slots that topologies fill and sets stand
    in.
    """

    units: Numbers
    labels: list[int]
    topologies: Numbers
    found: dict[tuple[int, ...], Parting]
    complete: bool
    spent: int

    def dealt(self, usage: tuple[int, ...]) -> list[int]:
        """Slots of the units: those found, parted further where more are to be filled."""
        size, slot = self.found[usage].size, list(self.found[usage].slot)
        for label, wanted in enumerate(usage[: len(self.topologies)]):
            members = [i for i, own in enumerate(self.labels) if own == label]
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

    Returns
    -------
    tuple
        (U,) slots if a dealing was found, and else what is short if there is none; both are empty
        when it could not be determined.
    """
    groups = least.groups
    # elsewhere slots of their own do for the tasks without topology
    matters = (groups.on_nodes(least.high) > groups.slots) | (groups.on_nodes(groups.counted) > 0)
    chosen = [groups.node[groups.joins & matters[groups.node]], *(one.crowded for one in sets)]
    nodes = np.unique(np.concatenate(chosen)).tolist()
    partings: list[_Partings] = []
    for i, n in enumerate(nodes):
        found = _partings(least, n, work // (2 * (len(nodes) - i)), sets)
        if found.complete and not found.found:
            slots = groups.slots[n]
            return None, (violation("slots", groups.node_id(n), slots + 1, slots),)
        partings.append(found)
        work -= found.spent
    elsewhere = tuple(len(set(one.nodes.tolist()) - set(nodes)) for one in sets)
    limits = [one.limit for one in sets]
    sums, complete = _sums(partings, groups.wanted, elsewhere, limits, work // 2)
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
    lack = []
    for chain in chains[:tries]:
        wanted = groups.wanted.copy()
        for at, usage in zip(partings, chain, strict=True):
            counted = np.array(usage[: len(at.topologies)], dtype=np.int64)
            wanted[at.topologies] -= counted
        rest = spread(groups, high, most, slots, wanted).slots
        if rest is not None:
            slot = least.numbered(rest, high)
            for at, usage in zip(partings, chain, strict=True):
                slot[at.units] = at.dealt(usage)
            return slot, ()
        proof = spread(groups, low, most, slots, wanted)
        complete &= proof.slots is None
        lack.append(sum(each.amount for each in proof.shortage))
    if not complete:
        return None, ()
    if not chains and stands:
        reached = [max(of) for of in zip(*stands, strict=True)]
        few = [one.short(m) for one, m in zip(sets, reached, strict=True) if m < one.limit]
        return None, tuple(few or [one.short(one.limit - 1) for one in sets])
    counted = np.flatnonzero(groups.wanted[:-1] >= 0)
    needed = groups.wanted[counted].sum()
    available = needed - min(lack, default=1)
    return None, (violation("workers", groups.topology_ids(counted), needed, available),)


def _partings(least: Least, n: int, work: int, sets: Sequence[ToSpread]) -> _Partings:
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
    own = [tuple(np.flatnonzero(row).tolist()) for row in member.T[by_size]] if sets else []
    labels = label[by_size].tolist()
    counted = here[groups.counted[here]]
    topologies = groups.topology[counted]
    greatest = np.minimum(groups.count[counted], groups.wanted[topologies])
    ends = list(zip(least.low[counted].tolist(), greatest.tolist(), strict=True))
    search = Search(loads[by_size], labels, limit, int(groups.slots[n]), ends, own)
    spent = search.run(work)
    return _Partings(units[by_size], labels, topologies, search.found, search.complete, spent)


def _sums(
    partings: list[_Partings],
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
    complete = all(parting.complete for parting in partings)
    for parting in partings:
        longer: dict[tuple[int, ...], tuple[tuple[int, ...], ...]] = {}
        for (total, chain), usage in product(sums.items(), parting.found):
            work -= 1
            if work < 0:
                complete = False
                break
            grown = list(total)
            counted = parting.topologies.tolist()
            for i, used in zip(counted, usage[: len(counted)], strict=True):
                grown[i] += used
            for i, used in enumerate(usage[len(counted) :]):
                grown[kinds + i] = min(limits[i], grown[kinds + i] + used)
            if all(grown[i] <= wanted[i] for i in counted):
                longer.setdefault(tuple(grown), (*chain, usage))
        sums = longer
    return sums, complete
