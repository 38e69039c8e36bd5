"""Reading fields of foreign objects: numbers in strings, other spellings, counts, paths."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.interchange.ledger import Ledger
from experiments.interchange.record import Record, as_number
from optim.errors import InvalidInput

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (3, 3.0),
        ("0.003", 0.003),
        (" 12 ", 12.0),
        (True, None),
        ("", None),
        ("NaN", None),
        ("inf", None),
        (-1, None),
        (1e300, None),
        (10**400, None),
        ("1" * 100, None),
        ([1], None),
        (None, None),
    ],
)
def test_numbers(value: Any, number: float | None) -> None:
    assert as_number(value) == number


@given(JSON)
def test_any_value_is_a_number_or_none(value: Any) -> None:
    number = as_number(value)
    assert number is None or (number >= 0 and math.isfinite(number))


def test_other_spellings_and_counts() -> None:
    ledger = Ledger()
    record = Record(
        {"usedCPU": "7", "old": 1, "known": 2, "new": 3}, "p", ledger, frozenset({"known"})
    )
    assert record.number("usedCpu", "usedCPU") == 7.0
    record.close()
    assert ledger.ignored == {"old": 1, "new": 1}
    ledger.check()


def test_all_problems_are_told_with_their_paths() -> None:
    ledger = Ledger()
    page = Record(
        {"list": [{"a": 1}, 5, {"a": "x"}], "text": "", "object": [], "n": 1.5}, "page", ledger
    )
    for entry in page.records("list"):
        entry.number("a")
    page.text("text")
    page.record("object")
    page.whole("n")
    page.number("absent")
    list(page.records("none", needed=True))
    with pytest.raises(InvalidInput) as caught:
        ledger.check()
    assert [problem.path for problem in caught.value.problems] == [
        "page.list[1]",
        "page.list[1].a",
        "page.list[2].a",
        "page.text",
        "page.object",
        "page.n",
        "page.absent",
        "page.none",
    ]


@given(JSON)
def test_nothing_is_trusted(value: Any) -> None:
    ledger = Ledger()
    record = Record(value, "$", ledger)
    for name in ("", "a", *record.keys()):
        record.maybe_number(name)
        record.maybe_text(name)
        record.maybe_whole(name)
        for inner in record.records(name):
            inner.text("id")
        found = record.record(name)
        if found is not None:
            found.close()
    record.close()
