"""Numbers as they are shown: unknown stays blank, and nothing is rounded into a false claim."""

from __future__ import annotations

import pytest

from experiments.report.tables import first_line, listed, shortened
from streamplace.present.table import Kind, printable, show, unit, with_unit

KINDS: tuple[Kind, ...] = ("count", "share", "gap", "points", "number", "duration", "text")


@pytest.mark.parametrize("kind", KINDS)
def test_unknown_is_blank(kind: Kind) -> None:
    assert show(None, kind) == ""
    assert with_unit(None, kind) == ""


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (12345, "count", "12,345"),
        (0, "count", "0"),
        (0.929, "share", "92.9\u00a0%"),
        (1.0, "share", "100\u00a0%"),
        (0.99999, "share", "99.9\u00a0%"),
        (0.0689, "gap", "6.89\u00a0%"),
        (0.0, "gap", "0\u00a0%"),
        (1e-7, "gap", "0\u00a0%"),
        (2e-5, "gap", "<0.01\u00a0%"),
        (2.5, "points", "2.5"),
        (0.0005, "points", "0"),
        (0.004, "points", "<0.01"),
        (0.0004, "duration", "0.40\u00a0ms"),
        (4e-6, "duration", "4.00\u00a0µs"),
        (6.14e-5, "duration", "61.4\u00a0µs"),
        (0.0, "duration", "0\u00a0s"),
        (0.99996, "duration", "1.00\u00a0s"),
        (30.04, "duration", "30.0\u00a0s"),
        (599.0, "duration", "599\u00a0s"),
        (3600.0, "duration", "60.0\u00a0min"),
        (123456.0, "number", "123,456"),
        (0.00012344, "number", "0.0001234"),
        (0.0, "number", "0"),
    ],
)
def test_shown(value: float, kind: Kind, text: str) -> None:
    assert with_unit(value, kind) == text


def test_a_column_keeps_the_decimals_of_its_kind() -> None:
    assert [show(v, "share") for v in (1.0, 0.995, 0.0)] == ["100.0", "99.5", "0.0"]
    assert [(show(v, "gap"), unit(v, "gap")) for v in (0.0, 0.1)] == [("0.00", "%"), ("10.00", "%")]


def test_texts() -> None:
    assert printable("a\x1b[31m\n\u202e") == "a\ufffd[31m\ufffd\ufffd"
    assert printable("12\u00a0%") == "12\u00a0%"
    assert shortened("x" * 50, 10) == "x" * 9 + "…"
    assert first_line("\n  \n second \nthird") == "second"
    assert first_line(None) == ""
    assert listed([]) == ""
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
