"""The opening of the report in a terminal: what came out, by method and by case."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rich.table import Table as Grid
from rich.text import Text

from experiments.report.formats import printable, show
from experiments.report.formats import unit as measure
from experiments.report.words import OTHER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console

    from experiments.report.document import Cell, Column, Report, Table

STAR = "*"
"""Stands for a remark that is only in the report."""

_NARROWEST = 40
_GAP = 2


def print_report(report: Report, console: Console) -> None:
    """Print the summary and the opening tables; those too wide are printed in parts.

    Parameters
    ----------
    report
        What to print.
    console
        Where to.
    """
    console.print(Text(printable(report.title), style="bold"))
    for sentence in report.summary:
        console.print(Text(printable(sentence)))
    for table in report.sections[0].tables[:2] if report.sections else ():
        short = brief(table)
        for number, part in enumerate(split(short, console.width)):
            console.print()
            more = ", continued" if number else ""
            console.print(Text(printable(short.heading + more), style="bold"))
            console.print(grid(part, unit=not short.unit))
        if short.caption:
            console.print(Text(printable(short.caption), style="dim"))


def brief(table: Table) -> Table:
    """Return a table without details: columns left out, remarks behind numbers as a star."""
    chosen = [number for number, column in enumerate(table.columns) if not column.detail]
    rows = tuple(tuple(_brief(row[i], table.columns[i]) for i in chosen) for row in table.rows)
    starred = any(cell.note == STAR for row in rows for cell in row)
    marked = any(OTHER in column.label for column in table.columns) or any(
        cell.note == OTHER for row in rows for cell in row
    )
    caption = " · ".join(
        [f"{STAR} not told as optimal, or not by all runs: see the report"] * starred
        + [f"{OTHER} optimises something else"] * marked
    )
    columns = tuple(table.columns[i] for i in chosen)
    return replace(table, columns=columns, rows=rows, caption=caption)


def _brief(cell: Cell, column: Column) -> Cell:
    if column.numeric and cell.note:
        short = cell.note.split(" (")[0] if cell.value is None else STAR
        return replace(cell, note=short)
    return cell


def split(table: Table, width: int) -> Iterator[Table]:
    """Cut a table into parts that fit, each with the columns that name the rows."""
    widths = [_width(table, number) for number in range(len(table.columns))]
    lead = sum(widths[: table.lead])
    start = table.lead
    while start < len(table.columns):
        end, used = start + 1, lead + widths[start]
        while end < len(table.columns) and used + widths[end] <= max(width, _NARROWEST):
            used += widths[end]
            end += 1
        chosen = [*range(table.lead), *range(start, end)]
        yield replace(
            table,
            columns=tuple(table.columns[i] for i in chosen),
            rows=tuple(tuple(row[i] for i in chosen) for row in table.rows),
        )
        start = end


def grid(table: Table, *, unit: bool = True) -> Grid:
    """Return a table as rich draws it.

    Parameters
    ----------
    table
        What to draw.
    unit
        Whether headings name the unit of their numbers.
    """
    drawn = Grid(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="bold")
    for column in table.columns:
        drawn.add_column(
            Text("\n".join(_heading(column, unit=unit))),
            vertical="bottom",
            overflow="fold",
            justify="right" if column.numeric else "left",
        )
    for number, row in enumerate(table.rows):
        last = table.last_is_summary and number == len(table.rows) - 1
        cells = [_text(cell, column) for cell, column in zip(row, table.columns, strict=True)]
        drawn.add_row(*cells, style="italic" if last else "")
    return drawn


def _heading(column: Column, *, unit: bool = True) -> list[str]:
    """Return a heading in short lines."""
    label = printable(column.label)
    if unit and column.kind in ("share", "gap"):
        label += " %"
    lines: list[str] = []
    for word in label.split():
        if lines and len(lines[-1]) + 1 + len(word) <= 9:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines or [""]


def _text(cell: Cell, column: Column) -> Text:
    text = show(cell.value, column.kind)
    if column.kind == "duration" and text:
        text = f"{text} {measure(cell.value, column.kind):<3}"
    style = "bold" if cell.best else "dim" if cell.value is None else ""
    found = Text(text, style=style)
    if cell.note:
        space = " " if text and cell.note != STAR else ""
        found.append(f"{space}{printable(cell.note)}", style="dim")
    return found


def _width(table: Table, number: int) -> int:
    column = table.columns[number]
    shown: Sequence[int] = [len(_text(row[number], column)) for row in table.rows]
    return max([*shown, *(len(line) for line in _heading(column))], default=0) + _GAP
