"""What a slot holds, against the list of all vectors of counts."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from formulations.model_driven.fewest import SlotContents

# whole 64ths add up without rounding, which is the caller's to allow for
SIZES = st.integers(0, 6400).map(lambda parts: parts / 64)
ROWS = st.lists(
    st.tuples(st.integers(1, 4), SIZES, SIZES, st.integers(0, 9)), min_size=1, max_size=4
)

STEPS = 100_000


def contents_of(rows: list[tuple[int, float, float, int]]) -> SlotContents:
    size = np.array([row[1:3] for row in rows])
    return SlotContents(size, np.array([row[0] for row in rows]), 100.0)


def every_content(rows: list[tuple[int, float, float, int]]) -> set[tuple[int, ...]]:
    def within(counts: tuple[int, ...]) -> bool:
        return all(
            sum(n * row[r] for n, row in zip(counts, rows, strict=True)) <= 100 for r in (1, 2)
        )

    return set(filter(within, itertools.product(*(range(row[0] + 1) for row in rows))))


@settings(max_examples=80, deadline=None)
@given(ROWS)
def test_all_maximal_contents_are_listed(rows: list[tuple[int, float, float, int]]) -> None:
    every = every_content(rows)
    maximal = {
        counts
        for counts in every
        if not any(
            (*counts[:k], counts[k] + 1, *counts[k + 1 :]) in every for k in range(len(rows))
        )
    }
    found = contents_of(rows).listed(np.zeros(len(rows)), -1.0, 10_000, STEPS)
    assert found is not None
    assert sorted(map(tuple, found.tolist())) == sorted(maximal)


@settings(max_examples=80, deadline=None)
@given(ROWS)
def test_the_dearest_content(rows: list[tuple[int, float, float, int]]) -> None:
    price = np.array([row[3] / 8 for row in rows])
    best = max(float(price @ np.array(counts)) for counts in every_content(rows))
    priced = contents_of(rows).most_valuable(price, -1.0, STEPS)
    assert priced.highest == best
    assert max(float(price @ row) for row in priced.contents) == best


def test_too_few_steps_bound_what_is_left() -> None:
    rows = [(9, 3.0 + k / 8, 2.0, k) for k in range(8)]
    price = np.array([row[3] / 8 for row in rows])
    whole = contents_of(rows).most_valuable(price, 0.0, STEPS)
    cut = contents_of(rows).most_valuable(price, 0.0, 2)
    assert cut.highest >= whole.highest
    assert contents_of(rows).listed(price, 0.0, 3, STEPS) is None
    assert contents_of(rows).listed(price, 0.0, 10**6, 2) is None
