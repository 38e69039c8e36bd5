"""What is known of the cases, as a table: best values, claimed and certified bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamplace.present.table import markdown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from experiments.studies.bench.cases import Case

HEADS = (
    "case", "tasks × nodes", "objective", "best known", "by", "claimed bound", "by",
    "certified bound", "gap",
)  # fmt: skip
_LEFT = (0, 2, 4, 6)
"""Columns of words."""


def cells(case: Case) -> tuple[str, ...]:
    """Return a case's line, a text a column; the gap is that of the best known value."""
    return (
        case.name, f"{case.tasks:,} × {case.nodes:,}", case.objective,
        _number(case.best), case.best_by or "", _number(case.stated), case.claimed_by or "",
        _number(case.proven), _gap(case.best, case.proven),
    )  # fmt: skip


def text(cases: Iterable[Case]) -> str:
    """Return the table for a terminal, columns as wide as they need be."""
    lines = [HEADS, *map(cells, cases)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "".join("  ".join(_padded(line, widths)).rstrip() + "\n" for line in lines)


def page_table(cases: Iterable[Case]) -> str:
    """Return the table for a page: a claimed bound only where it differs from the certified one."""
    heads = (*HEADS[:5], "certified bound, claimed bound (by)", "gap")
    lines = []
    for case in cases:
        *first, claimed, by, certified, gap = cells(case)
        others = [f"{claimed} ({by})"] if claimed not in ("", certified) else []
        lines.append([*first, ", ".join([certified] * bool(certified) + others), gap])
    return markdown(heads, lines, [heads[1], heads[3], *heads[5:]])


def _padded(line: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [
        cell.ljust(width) if k in _LEFT else cell.rjust(width)
        for k, (cell, width) in enumerate(zip(line, widths, strict=True))
    ]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.7g}"


def _gap(best: float | None, bound: float | None) -> str:
    """Return how far a bound is from a value, of the larger, in percent."""
    if best is None or bound is None:
        return ""
    gap = abs(best - bound) / (max(abs(best), abs(bound)) or 1.0)
    return "0" if gap <= 1e-6 else f"{100 * gap:.3g} %"
