"""Whether items go into a number of slots, decided by search; compiled.

Items are placed one after the other, class by class, each in every open slot with the room or in
the next empty one. Of equal items a later one stands in no earlier slot, of slots with the same
room left only the first is tried.
"""

from __future__ import annotations

import numpy as np

from optim.util.compiled import helper, kernel

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

    Parameters
    ----------
    content
        (C,) items of each class, the class of the largest items first.
    size, room
        (C, R) size of an item; what a slot offers of each resource.
    slots
        How many there are.
    most_steps
        Placements after which the search gives up.

    Returns
    -------
    tuple
        Whether they fit, and the slot of each item, class after class.
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

    Returns
    -------
    ndarray
        (P,) NO, YES or UNKNOWN.
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
