"""A packing of item classes: slots with counts, dealt onto machines, read back as threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.slots_items import ROUNDING
from optim.performance import FULL
from optim.threads import ThreadPlacement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formulations.slots_items import Items
    from optim.allocation import Allocation
    from optim.performance import Counts
    from optim.plan import AcquiredNode

Slot = dict[int, int]
"""Class to number of items."""

Machines = list[list[Slot]]
"""Slots in use of each machine."""


def first_fit(items: Items) -> list[Slot]:
    """Pack the largest classes first, each item into the first slot with the room."""
    slots: list[Slot] = []
    free: list[list[float]] = []
    size = np.maximum(items.cpu, items.memory)
    order = sorted(range(len(size)), key=lambda c: (not items.exclusive[c], -size[c], c))
    for c in order:
        left, at = int(items.count[c]), items.num_exclusive
        if items.exclusive[c]:
            slots += [{c: 1} for _ in range(left)]
            free += [[0.0, 0.0] for _ in range(left)]
            continue
        needed = (float(items.cpu[c]), float(items.memory[c]))
        while left:
            if at == len(slots):
                slots.append({})
                free.append([FULL + ROUNDING, FULL + ROUNDING])
            fit = left
            for room, need in zip(free[at], needed, strict=True):
                if need * fit > room:
                    fit = int(room / need + 1e-12)
            if fit > 0:
                slots[at][c] = fit
                free[at] = [f - fit * n for f, n in zip(free[at], needed, strict=True)]
                left -= fit
            at += 1
    return slots


def slots_of_patterns(items: Items, patterns: Counts, times: Counts, shared: Counts) -> list[Slot]:
    """Turn counts of maximal patterns into slots, without the items they hold too many of."""
    left = items.count.copy()
    slots: list[Slot] = []
    for c in np.flatnonzero(items.exclusive).tolist():
        slots += [{c: 1} for _ in range(int(items.count[c]))]
    for p in np.flatnonzero(times > 0).tolist():
        for _ in range(int(times[p])):
            slot: Slot = {}
            for c, most in zip(shared.tolist(), patterns[p].tolist(), strict=True):
                take = min(most, int(left[c]))
                if take:
                    slot[c] = take
                    left[c] -= take
            if slot:
                slots.append(slot)
    return slots


def deal(items: Items, slots: list[Slot], nodes: Sequence[AcquiredNode]) -> Machines:
    """Deal slots onto machines in the order of the tasks they hold, most neighbours together."""

    def place(slot: Slot) -> tuple[float, int]:
        operators = [int(items.operator[c]) for c in slot]
        return sum(operators) / len(operators), min(operators)

    ordered = sorted(slots, key=place)
    machines: Machines = []
    for node in nodes:
        machines.append(ordered[: node.slots])
        ordered = ordered[node.slots :]
    return machines


def placement(
    items: Items, machines: Machines, nodes: tuple[AcquiredNode, ...], allocation: Allocation
) -> ThreadPlacement:
    """Number the threads of each task in order of machines and slots."""
    first = np.cumsum(allocation.threads) - allocation.threads
    node = np.full(int(allocation.threads.sum()), -1, dtype=np.int64)
    slot = node.copy()
    for v, used in enumerate(machines):
        for s, held in enumerate(used):
            for c, count in sorted(held.items()):
                o = int(items.operator[c])
                threads = int(items.threads[c]) * count
                node[first[o] : first[o] + threads] = v
                slot[first[o] : first[o] + threads] = s
                first[o] += threads
    return ThreadPlacement(allocation.threads, nodes, node, slot, allocation.slots)
