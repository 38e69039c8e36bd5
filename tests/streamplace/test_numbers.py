"""Numbers as they are shown: the same everywhere, and nothing is rounded into a false claim."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamplace.present.numbers import (
    Kind,
    duration,
    in_column,
    in_line,
    number,
    percent,
    quantity,
)
from streamplace.present.table import show, with_unit

KINDS: tuple[Kind, ...] = ("count", "number", "share", "gap", "points", "duration")


@pytest.mark.parametrize("kind", KINDS)
@given(value=st.floats(0, 1e12))
def test_report_and_terminal_show_the_same(kind: Kind, value: float) -> None:
    column, line = show(value, kind), in_line(value, kind)
    assert with_unit(value, kind).replace("\u00a0", " ") == line
    told = line.split(" ")[0]
    zeros = column.removeprefix(told)
    assert column.startswith(told)
    assert set(zeros) <= set(".0")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1250.8125, "1,251"), (123456.7, "123,457"), (0.00012344, "0.0001234"), (-12.0, "-12"),
        (1.5e-12, "1.5e-12"), (6.6e11, "660,000,000,000"), (2e17, "2e+17"),
        (math.inf, "∞"), (-math.inf, "-∞"), (math.nan, "–"), (None, "–"), (0.0, "0"),
    ],
)  # fmt: skip
def test_numbers(value: float | None, text: str) -> None:
    assert number(value) == text


def test_shares_and_times() -> None:
    assert [percent(v) for v in (0.8, 0.9996, 1.0, 12.5, 1e-9)] == [
        "80 %", "99.9 %", "100 %", "1,250 %", "<0.1 %",
    ]  # fmt: skip
    assert [percent(v, 0) for v in (0.004, 0.996, 1.5)] == ["<1 %", "99 %", "150 %"]
    assert [percent(v) for v in (math.inf, math.nan, None)] == ["∞ %", "–", "–"]
    assert [duration(v) for v in (None, 0.0, 0.0004)] == ["–", "0 s", "0.40 ms"]


@given(st.floats(1e-6, 1, exclude_min=True, exclude_max=True))
def test_a_gap_is_never_shown_as_none(gap: float) -> None:
    assert in_line(gap, "gap") != "0 %"


@given(st.floats(0, 1 - 1e-5))
def test_what_is_not_all_is_never_shown_as_all(share: float) -> None:
    assert in_line(share, "share") != "100 %"


@given(st.floats(1e-9, 1e6))
def test_durations_keep_two_digits(seconds: float) -> None:
    text, unit = in_column(seconds, "duration")
    size = {"µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0}[unit]
    assert float(text.replace(",", "")) * size == pytest.approx(seconds, rel=5.1e-2, abs=5.1e-9)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (64e9, "B", "64 GB"), (123456789012.0, "bytes", "123.5 GB"), (5e15, "bytes", "5 PB"),
        (2.5e6, "KB", "2.5 GB"), (2.5e6, "kB/s", "2.5 GB/s"), (99_999.0, "B", "99,999 B"),
        (-3e9, "B", "-3 GB"), (0.0, "B", "0 B"), (3e9, "MiB", "3 billion MiB"),
        (123456789012.0, "", "123.5 billion"), (9.9e8, "tuples/s", "990,000,000 tuples/s"),
        (2e12, "tuples/s", "2 trillion tuples/s"), (1e18, "", "1e+18"), (math.inf, "B", "∞"),
    ],
)  # fmt: skip
def test_quantities_are_no_rows_of_digits(value: float, unit: str, text: str) -> None:
    assert quantity(value, unit) == text
    assert len(text.replace(",", "")) <= 24
