"""The opening of the report in a terminal: what came out, by method and by case."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rich.text import Text

from experiments.report.words import OTHER
from streamplace.present.table import STAR, grid, printable, split

if TYPE_CHECKING:
    from rich.console import Console

    from experiments.report.document import Report
    from streamplace.present.table import Cell, Column, Table


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
            console.print(grid(part, units=not short.unit))
        if short.caption:
            console.print(Text(printable(short.caption), style="dim"))


def brief(table: Table) -> Table:
    """Return a table without details: columns left out, remarks behind numbers as a star."""
    table = table.shown
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
        return cell._replace(note=short)
    return cell
