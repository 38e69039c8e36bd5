"""Reading fields of foreign objects: numbers in strings, other spellings, counts, paths."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optim.errors import InvalidInput
from streamplace.clusters.exchange.declarations import Ledger
from streamplace.clusters.exchange.pages import (
    Many,
    MaybeNumber,
    MaybeText,
    MaybeWhole,
    Number,
    Page,
    Percent,
    Text,
    Whole,
    as_number,
    as_whole,
    read_page,
)

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


@pytest.mark.parametrize(("value", "number"), [(3, 3), ("4", 4), (5.0, 5), (1.5, None), (-1, None)])
def test_whole_numbers(value: Any, number: int | None) -> None:
    assert as_whole(value) == number


class Inner(Page):
    unused = frozenset({"known"})
    a: Number


class Outer(Page):
    unused = frozenset({"known"})
    text: Text
    n: Whole
    share: Percent = 0.0
    maybe: MaybeNumber = None
    count: MaybeWhole = None
    name: MaybeText = None
    inner: Inner | None = None
    entries: Many[Inner] = ()


def test_unknown_fields_are_counted_wherever_they_stand() -> None:
    ledger = Ledger()
    page = {"text": 7, "n": "2", "share": "12.5 %", "known": 1, "new": 3, "x" * 200: 1}
    page |= {"entries": [{"a": "1", "new": 1}, {"a": 0.5, "known": 2}], "inner": {"a": 1, "old": 2}}
    found = read_page(Outer, page, "p", ledger)
    ledger.check()
    assert (found.text, found.n, found.share) == ("7", 2, 12.5)
    assert [entry.a for entry in found.entries] == [1.0, 0.5]
    assert ledger.ignored == {"new": 2, "old": 1, "x" * 80: 1}


def test_what_is_of_use_but_wrong_is_as_if_absent() -> None:
    page = {"text": "t", "n": 1, "maybe": "-", "count": 1.5, "name": "", "entries": None}
    found = read_page(Outer, page, "p", Ledger())
    assert (found.maybe, found.count, found.name, found.entries) == (None, None, None, ())


def test_all_problems_are_told_with_their_paths() -> None:
    ledger = Ledger()
    entries = [{"a": 1}, 5, {"a": "x"}, {}, {"a": None}]
    page = {"text": "", "n": 1.5, "share": "x", "inner": [], "entries": entries}
    assert read_page(Outer, page, "page", ledger) is None
    assert read_page(Outer, 5, "other", ledger) is None
    with pytest.raises(InvalidInput) as caught:
        ledger.check()
    assert [str(problem) for problem in caught.value.problems] == [
        "page.text: '' is not a text of 1 to 1000 characters",
        "page.n: 1.5 is not a whole number of at least 0",
        "page.share: 'x' is not a percentage of at least 0",
        "page.inner: [] must be an object, not a list",
        "page.entries[1]: 5 must be an object, not a number",
        "page.entries[2].a: 'x' is not a number of at least 0",
        "page.entries[3].a is missing (it is needed here)",
        "page.entries[4].a is missing (it is needed here)",
        "other: 5 must be an object, not a number",
    ]


@given(JSON, JSON, JSON)
def test_nothing_is_trusted(value: Any, first: Any, second: Any) -> None:
    for page in (value, {"text": "t", "n": 1, "maybe": first, "name": second, "entries": [value]}):
        ledger = Ledger()
        found = read_page(Outer, page, "$", ledger)
        if found is None:
            with pytest.raises(InvalidInput):
                ledger.check()
        else:
            ledger.check()
