"""Items in slots: first fit, slots dealt onto machines, placements of threads written and read."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from formulations.model_driven.performance_model import FULL, performance_models
from optim.errors import InvalidInput, Problem
from optim.format.plan import ThreadPlacement
from optim.kernels.place_rules import placing_slack
from optim.util.compiled import helper, kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formulations.model_driven.allocate import Allocation
    from formulations.model_driven.performance_model import Counts
    from optim.format.instance import Instance
    from optim.format.plan import AcquiredNode
    from optim.format.tables import Bools, Floats

# What `slots-milp` packs: bundles as an allocation formed them, or single threads.
#
# A *class* is a set of equal items of one task: its full bundles, its last bundle, or all of its
# threads. Sizes are percent of a slot. A single thread is booked as if it were measured alone,
# and never with less than its share of any measured thread count, so that a slot that keeps the
# booking keeps the model as well.
#
# Whether items go into a number of slots, decided by search; compiled.
#
# Items are placed one after the other, class by class, each in every open slot with the room or
# in the next empty one. Of equal items a later one stands in no earlier slot, of slots with the
# same room left only the first is tried.

NO, YES, UNKNOWN = 0, 1, 2


@helper
def _fits(free, size, slot, c):  # type: ignore[no-untyped-def]
    room = True
    for r in range(size.shape[1]):
        room = room and size[c, r] <= free[slot, r]
    return room


@helper
def _same_room_before(free, slot):  # type: ignore[no-untyped-def]
    """Whether an earlier slot has exactly the same room left."""
    for other in range(slot):
        same = True
        for r in range(free.shape[1]):
            if free[other, r] != free[slot, r]:
                same = False
        if same:
            return True
    return False


@helper
def _next_slot(free, size, c, begin, end):  # type: ignore[no-untyped-def]
    """First slot from `begin` on, before `end`, that takes an item of class c; -1 for none."""
    for slot in range(begin, end):
        if _fits(free, size, slot, c) and not _same_room_before(free, slot):
            return slot
    return -1


@kernel
def pack(content, size, room, slots, most_steps):  # type: ignore[no-untyped-def]
    """Place a content's items into slots.

    `content`: (C,) items of each class, the class of the largest items first.
    `size`, `room`: (C, R) size of an item; what a slot offers of each resource.
    `most_steps`: placements after which the search gives up.
    Returns whether they fit, and the slot of each item, class after class.
    """
    items = content.sum()
    klass = np.zeros(items, np.int64)
    i = 0
    for c in range(len(content)):
        for _ in range(content[c]):
            klass[i] = c
            i += 1
    at = np.full(items, -1, np.int64)
    if items == 0:
        return YES, at
    if slots <= 0:
        return NO, at
    free = np.full((slots, size.shape[1]), room)
    opened = np.zeros(items + 1, np.int64)
    depth, steps = 0, 0
    while True:
        c = klass[depth]
        if at[depth] >= 0:  # back here: take the item out again
            for r in range(size.shape[1]):
                free[at[depth], r] += size[c, r]
            begin = at[depth] + 1
        else:
            begin = at[depth - 1] if depth > 0 and klass[depth - 1] == c else 0
        at[depth] = _next_slot(free, size, c, begin, min(opened[depth] + 1, slots))
        if at[depth] < 0:
            depth -= 1
            if depth < 0:
                return NO, at
            continue
        for r in range(size.shape[1]):
            free[at[depth], r] -= size[c, r]
        opened[depth + 1] = max(opened[depth], at[depth] + 1)
        depth += 1
        if depth == items:
            return YES, at
        steps += 1
        if steps > most_steps:
            return UNKNOWN, at


@kernel(steps=lambda contents: 20 * len(contents))
def which_pack(contents, alone, size, room, slots, most_steps):  # type: ignore[no-untyped-def]
    """Answer for many contents; `alone` marks the classes whose items take a slot each.

    Returns (P,) NO, YES or UNKNOWN.
    """
    verdict = np.zeros(len(contents), np.int8)
    rest = np.zeros(contents.shape[1], np.int64)
    for p in range(len(contents)):
        left = slots
        for c in range(contents.shape[1]):
            rest[c] = 0 if alone[c] else contents[p, c]
            if alone[c]:
                left -= contents[p, c]
        verdict[p] = NO if left < 0 else pack(rest, size, room, left, most_steps)[0]
    return verdict


ROUNDING = float(placing_slack(FULL))  # By how much a sum of sizes may exceed a slot.
ROOM = FULL + ROUNDING  # What every slot offers of CPU and memory, rounding allowed for.


@dataclass(frozen=True, eq=False)
class Items:
    """C classes of equal items."""

    #: (C,) task, threads of one item, number of items.
    operator: Counts
    threads: Counts
    count: Counts
    #: (C,) size of one item, percent of a slot.
    cpu: Floats
    memory: Floats
    exclusive: Bools  # (C,) whether an item takes a slot of its own (a full bundle).

    @property
    def num_exclusive(self) -> int:
        """Items that take a slot of their own."""
        return int(self.count[self.exclusive].sum())

    def sizes(self, *, pooled: bool) -> Floats:
        """(C, R) what an item needs of a slot: CPU and memory, or memory where cores are pooled."""
        columns = (self.memory,) if pooled else (self.cpu, self.memory)
        return np.stack(columns, axis=1)

    def threads_of_tasks(self, num_tasks: int) -> Floats:
        """(O,) threads of all items of each task."""
        return np.bincount(self.operator, self.count * self.threads, num_tasks).astype(np.float64)

    def only(self, keep: Bools | Counts) -> Items:
        """Return the classes that a mask or an index array names."""
        return Items(**{name: part[keep] for name, part in vars(self).items()})

    def bound(self, *, pooled: bool = False) -> int:
        """Slots that CPU and memory need in sum; full bundles count as whole slots.

        With pooled cores CPU does not count: a machine may have more cores than slots in use.
        """
        shared = ~self.exclusive
        totals = (self.count[shared] @ self.sizes(pooled=pooled)[shared]).tolist()
        # every slot has the rounding, not all of them together
        rest = max(int(np.ceil(total / ROOM - 1e-9)) for total in totals)
        return max(1, self.num_exclusive + rest)


def make_items(instance: Instance, allocation: Allocation, kind: str) -> Items:
    """List the classes of an allocation; `kind` is ``bundles`` or ``threads``.

    Raises `InvalidInput`: an item needs more than a slot, or threads are asked for where one was
        not measured.
    """
    rows: list[tuple[int, int, int, float, float, bool]] = []
    if kind == "threads":
        cpu, memory = _single_sizes(instance)
        for o, count in enumerate(allocation.threads.tolist()):
            rows.append((o, 1, count, float(cpu[o]), float(memory[o]), False))
    else:
        for o, count in enumerate(allocation.full_bundles.tolist()):
            if count:
                rows.append((o, int(allocation.bundle_threads[o]), count, FULL, FULL, True))
            rest = int(allocation.rest_threads[o])
            if rest:
                size = float(allocation.rest_cpu[o]), float(allocation.rest_memory[o])
                rows.append((o, rest, 1, *size, False))
    items = Items(
        operator=np.array([row[0] for row in rows], dtype=np.int64),
        threads=np.array([row[1] for row in rows], dtype=np.int64),
        count=np.array([row[2] for row in rows], dtype=np.int64),
        cpu=np.array([row[3] for row in rows], dtype=np.float64),
        memory=np.array([row[4] for row in rows], dtype=np.float64),
        exclusive=np.array([row[5] for row in rows], dtype=np.bool_),
    )
    _check_fit(instance, items)
    return items


def _single_sizes(instance: Instance) -> tuple[Floats, Floats]:
    models = performance_models(instance)
    problems = [
        Problem(
            f"models.{model.name}",
            None,
            f"has no point for 1 thread, which {operator}'s threads are booked by",
            "measure 1 thread, or use --option items=bundles",
        )
        for operator, model in zip(instance.operators.ids, models, strict=True)
        if not model.has_single
    ]
    if problems:
        raise InvalidInput(problems)
    cpu = [float((model.cpus / model.threads).max()) for model in models]
    memory = [float((model.memories / model.threads).max()) for model in models]
    return np.array(cpu), np.array(memory)


def _check_fit(instance: Instance, items: Items) -> None:
    problems = []
    for c, o in enumerate(items.operator.tolist()):
        for name, size in (("CPU", items.cpu[c]), ("memory", items.memory[c])):
            if size > FULL + ROUNDING:
                threads = "a thread" if items.threads[c] == 1 else f"{items.threads[c]} threads"
                problems.append(
                    Problem(
                        f"operators[{o}]",
                        instance.operators.ids[o],
                        f"needs {size:.6g} % of a slot's {name} for {threads} that must share "
                        "a slot; a slot has 100 %",
                        "measure fewer threads, or use the other allocation",
                    )
                )
    if problems:
        raise InvalidInput(problems)


Slot = dict[int, int]  # Class to number of items.
Machines = list[list[Slot]]  # Slots in use of each machine.


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

    `nodes`, `cores`: machines to use, and the cores of each.
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

    `contents`: (S, K) items of each kind that a slot may hold, in all no fewer than there are.
    `classes`, `kind`: the classes that share slots, and the kind of each.
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
        for s, items_in_slot in enumerate(used):
            for c, count in sorted(items_in_slot.items()):
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
    threads_in: defaultdict[tuple[int, int], Counter[int]] = defaultdict(Counter)
    operator = np.repeat(np.arange(len(placed.threads)), placed.threads)
    for o, v, s in zip(operator.tolist(), placed.node.tolist(), placed.slot.tolist(), strict=True):
        threads_in[v, s][o] += 1
    left = items.count.copy()
    machines: Machines = [[] for _ in placed.nodes]
    # slots with one task last: what is left for them may be full bundles
    for (v, _), threads in sorted(threads_in.items(), key=lambda entry: (-len(entry[1]), entry[0])):
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
