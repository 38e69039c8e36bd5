"""Errors as text: aligned, capped, and harmless to a terminal."""

from __future__ import annotations

from optim.errors import InvalidInput, Problem, StreamplaceError
from streamplace.present.streams import SHOWN, describe, printable, problem_lines


def test_one_problem_is_one_line() -> None:
    error = InvalidInput(Problem("nodes[3].capacity.cpu", -2, "must be > 0", "check the unit"), "f")
    assert describe(error) == "f: nodes[3].capacity.cpu: -2 must be > 0 (check the unit)"


def test_several_are_aligned_in_columns() -> None:
    error = InvalidInput(
        [Problem("a.long.path", 1, "is wrong"), Problem("b", None, "is missing", "add it")],
        "f.json",
    )
    assert describe(error).splitlines() == [
        "f.json: 2 problems",
        "  a.long.path  1  is wrong",
        "  b               is missing → add it",
    ]


def test_many_are_counted() -> None:
    lines = problem_lines([Problem(f"x[{i}]", i, "is wrong") for i in range(SHOWN + 5)])
    assert len(lines) == SHOWN + 1
    assert lines[-1].strip() == "… and 5 more problems"


def test_control_characters_of_a_file_do_not_reach_the_terminal() -> None:
    text = describe(InvalidInput(Problem("key\x1b[2J", "v\x07", "bad\r", "")))
    assert text.isprintable()
    assert printable("plain – ü") == "plain – ü"
    assert "\\x1b[2J" in text


def test_other_errors_keep_their_lines() -> None:
    assert describe(StreamplaceError("one\ntwo\x1b")) == "one\ntwo\\x1b"
