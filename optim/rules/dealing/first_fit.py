"""First-fit decreasing into slots, all nodes and topologies abreast.

Source: D. S. Johnson, "Near-optimal bin packing algorithms", MIT 1973; for several resources the
size of a task is its greatest share of a slot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim.format.tables import Bools, Floats
    from optim.rules.dealing.groups import Groups, Numbers

_CHUNK = 4_000_000


def sizes(loads: Floats, limit: Floats) -> Floats:
    """(…,) greatest share of a slot that loads (…, D) take."""
    return np.asarray((loads / np.where(limit > 0, limit, 1.0)).max(axis=-1))


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
