"""Items in slots: first fit, slots dealt onto machines, placements of threads written and read."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import numpy as np

from formulations.model_driven.items import ROOM, ROUNDING
from formulations.model_driven.performance_model import FULL
from optim.format.plan import ThreadPlacement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formulations.model_driven.allocate import Allocation
    from formulations.model_driven.items import Items
    from formulations.model_driven.performance_model import Counts
    from optim.format.plan import AcquiredNode

Slot = dict[int, int]
"""Class to number of items."""

Machines = list[list[Slot]]
"""Slots in use of each machine."""


def first_fit(items: Items) -> list[Slot]:
    """Pack the largest classes first, each item into the first slot with the room."""
    slots: list[Slot] = []
    free: list[list[float]] = []
    for c in _largest_first(items):
        left, at = int(items.count[c]), items.num_exclusive
        if items.exclusive[c]:
            slots += [{c: 1} for _ in range(left)]
            free += [[0.0, 0.0] for _ in range(left)]
            continue
        needed = (float(items.cpu[c]), float(items.memory[c]))
        while left:
            if at == len(slots):
                slots.append({})
                free.append([ROOM, ROOM])
            fit = left
            for room, need in zip(free[at], needed, strict=True):
                fit = _how_many(fit, need, room)
            if fit > 0:
                slots[at][c] = fit
                free[at] = [f - fit * n for f, n in zip(free[at], needed, strict=True)]
                left -= fit
            at += 1
    return slots


def first_fit_on_machines(
    items: Items, nodes: Sequence[AcquiredNode], cores: Sequence[int]
) -> Machines | None:
    """First fit where a slot binds memory and a machine's cores its CPU; ``None`` where it fails.

    Parameters
    ----------
    nodes, cores
        Machines to use, and the cores of each.
    """
    machines: Machines = [[] for _ in nodes]
    memory: list[list[float]] = [[] for _ in nodes]
    cpu = [FULL * count + ROUNDING for count in cores]
    for c in _largest_first(items):
        left = int(items.count[c])
        for v, node in enumerate(nodes):
            at = 0
            while left and at < node.slots:
                if at == len(machines[v]):
                    machines[v].append({})
                    memory[v].append(ROOM)
                alone = bool(items.exclusive[c])
                most = min(left, 1) if alone else left
                usable = not (alone and machines[v][at]) and memory[v][at] > 0
                fit = _how_many(most, float(items.memory[c]), memory[v][at]) if usable else 0
                fit = _how_many(fit, float(items.cpu[c]), cpu[v])
                if fit > 0:
                    machines[v][at][c] = machines[v][at].get(c, 0) + fit
                    memory[v][at] -= ROOM if alone else fit * float(items.memory[c])
                    cpu[v] -= fit * float(items.cpu[c])
                    left -= fit
                at += 1
        if left:
            return None
    return [[slot for slot in slots if slot] for slots in machines]


def _how_many(most: int, need: float, room: float) -> int:
    """How many items of a size fit, at most so many."""
    if need * most > room:  # else a tiny size would overflow the quotient
        most = min(most, int(room / need + 1e-12))
    return max(most, 0)


def _largest_first(items: Items) -> list[int]:
    """Classes, full bundles first, then by what they need most of."""
    size = np.maximum(items.cpu, items.memory)
    return sorted(range(len(size)), key=lambda c: (not items.exclusive[c], -size[c], c))


def slots_alone(items: Items) -> list[Slot]:
    """Return a slot for every full bundle."""
    classes = np.flatnonzero(items.exclusive).tolist()
    return [{c: 1} for c in classes for _ in range(int(items.count[c]))]


def slots_holding(items: Items, contents: Counts, classes: Counts, kind: Counts) -> list[Slot]:
    """Fill slots with the items there are; full bundles have a slot each.

    Parameters
    ----------
    contents
        (S, K) items of each kind that a slot may hold, in all no fewer than there are.
    classes, kind
        The classes that share slots, and the kind of each.
    """
    slots = slots_alone(items)
    left = items.count.copy()
    for row in contents:
        room, slot = row.copy(), Slot()
        for c, k in zip(classes.tolist(), kind.tolist(), strict=True):
            take = min(int(room[k]), int(left[c]))
            if take:
                slot[c] = take
                room[k] -= take
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


def items_of(items: Items, placed: ThreadPlacement) -> Machines | None:
    """Read the items off a placement of their threads; ``None`` where it splits or mixes bundles.

    Whether sizes fit is not looked at.
    """
    held: defaultdict[tuple[int, int], Counter[int]] = defaultdict(Counter)
    operator = np.repeat(np.arange(len(placed.threads)), placed.threads)
    for o, v, s in zip(operator.tolist(), placed.node.tolist(), placed.slot.tolist(), strict=True):
        held[v, s][o] += 1
    left = items.count.copy()
    machines: Machines = [[] for _ in placed.nodes]
    # slots with one task last: what is left for them may be full bundles
    for (v, _), threads in sorted(held.items(), key=lambda entry: (-len(entry[1]), entry[0])):
        slot = _items_in(items, threads, left)
        if slot is None:
            return None
        machines[v].append(slot)
    return None if left.any() else machines


def _items_in(items: Items, threads: Counter[int], left: Counts) -> Slot | None:
    """Items that one slot's threads come from, taken from those left."""
    slot = Slot()
    for o, count in threads.items():
        classes = np.flatnonzero((items.operator == o) & (left > 0)).tolist()
        whole = [c for c in classes if items.exclusive[c] and len(threads) == 1]
        shares = [c for c in classes if not items.exclusive[c]]
        for c in (*whole, *shares):
            number, odd = divmod(count, int(items.threads[c]))
            if not odd and number <= (1 if items.exclusive[c] else left[c]):
                slot[c] = number
                left[c] -= number
                break
        else:
            return None
    return slot


def fits(items: Items, machines: Machines, cores: Sequence[int] | None) -> bool:
    """Whether every slot has the room; with cores given, CPU is that of the machine."""
    for v, slots in enumerate(machines):
        cpu = 0.0
        for slot in slots:
            used = [sum(float(size[c]) * n for c, n in slot.items())
                    for size in (items.cpu, items.memory)]  # fmt: skip
            cpu += used[0]
            if used[1] > ROOM or (cores is None and used[0] > ROOM):
                return False
        if cores is not None and cpu > FULL * cores[v] + ROUNDING:
            return False
    return True
