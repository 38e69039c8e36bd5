"""Packing items into slots, against every way to place them."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from formulations.model_driven.slots import NO, UNKNOWN, YES, pack, which_pack

SIZES = st.integers(0, 70)
ROWS = st.lists(st.tuples(st.integers(0, 3), SIZES, SIZES), min_size=1, max_size=3)


def packs(rows: list[tuple[int, float, float]], slots: int) -> bool:
    items = [row[1:] for row in rows for _ in range(row[0])]
    for chosen in itertools.product(range(slots), repeat=len(items)):
        used = np.zeros((slots, 2))
        for item, slot in zip(items, chosen, strict=True):
            used[slot] += item
        if (used <= 100).all():
            return True
    return not items


@settings(max_examples=150, deadline=None)
@given(ROWS, st.integers(1, 3))
def test_whether_items_go_into_slots(rows: list[tuple[int, float, float]], slots: int) -> None:
    rows = sorted(rows, key=lambda row: -max(row[1:]))
    content = np.array([row[0] for row in rows], dtype=np.int64)
    size = np.array([row[1:] for row in rows], dtype=np.float64)
    verdict, at = pack(content, size, 100.0, slots, 10**6)
    assert verdict == (YES if packs(rows, slots) else NO)
    if verdict == YES and len(at):
        used = np.zeros((slots, 2))
        np.add.at(used, at, np.repeat(size, content, axis=0))
        assert (used <= 100).all()


def test_items_that_stand_alone_take_a_slot_each() -> None:
    size = np.array([[100.0, 100.0], [60.0, 10.0]])
    contents = np.array([[1, 1], [2, 1], [3, 0], [0, 2]])
    alone = np.array([True, False])
    assert which_pack(contents, alone, size, 100.0, 2, 100).tolist() == [YES, NO, NO, YES]


def test_a_search_that_is_cut_short_says_so() -> None:
    size = np.array([[40.0], [35.0], [26.0]])
    content = np.array([4, 4, 4], dtype=np.int64)  # 404 in four slots of 100
    assert pack(content, size, 100.0, 4, 10**6)[0] == NO
    assert pack(content, size, 100.0, 4, 20)[0] == UNKNOWN
