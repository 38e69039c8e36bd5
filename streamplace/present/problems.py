"""Errors as a person reads them: path, value, reason, remedy, aligned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim.errors import InvalidInput, shorten

if TYPE_CHECKING:
    from optim.errors import Problem, StreamplaceError

SHOWN = 20
_WIDEST_PATH = 48
_WIDEST_VALUE = 24


def printable(text: str) -> str:
    """Escape control characters: ids come from files, and a terminal obeys what it is shown."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def describe(error: StreamplaceError) -> str:
    """Return the text for standard error, without a line end."""
    if not isinstance(error, InvalidInput):
        return "\n".join(printable(line) for line in str(error).splitlines())
    source = printable(error.source)
    if len(error.problems) == 1:
        line = printable(str(error.problems[0]))
        return f"{source}: {line}" if source else line
    head = f"{source}: " if source else ""
    return "\n".join([f"{head}{len(error.problems)} problems", *problem_lines(error.problems)])


def problem_lines(problems: list[Problem], shown: int = SHOWN) -> list[str]:
    """Lay problems out in columns; after `shown` of them only their number is reported."""
    rows = []
    for told in problems[:shown]:
        value = "" if told.value is None else shorten(told.value)
        rows.append([*map(printable, (told.path, value, told.reason, told.remedy))])
    path_width = min(_WIDEST_PATH, max((len(row[0]) for row in rows), default=0))
    value_width = min(_WIDEST_VALUE, max((len(row[1]) for row in rows), default=0))
    lines = []
    for path, value, reason, remedy in rows:
        middle = f"  {value:<{value_width}}" if value_width else ""
        tail = f" → {remedy}" if remedy else ""
        lines.append(f"  {path:<{path_width}}{middle}  {reason}{tail}")
    if len(problems) > shown:
        lines.append(f"  … and {len(problems) - shown} more problems")
    return lines
