"""The report as Markdown, and its tables as CSV: the same numbers, without the page."""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING

from experiments.report.document import MOST_ROWS
from experiments.report.formats import printable, show
from experiments.report.formats import unit as measure

if TYPE_CHECKING:
    from collections.abc import Callable

    from experiments.report.document import Cell, Column, Report, Table

_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~&$])")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def to_markdown(report: Report, csv_name: Callable[[Table], str]) -> str:
    """Return the report as Markdown; figures are given by their tables.

    Parameters
    ----------
    report
        What to write.
    csv_name
        Gives the place of a table's CSV file, relative to the Markdown file.
    """
    parts = [f"# {escape(report.title)}", *(escape(sentence) for sentence in report.summary)]
    for section in report.sections:
        parts.append(f"## {escape(section.title)}")
        parts += [escape(section.text)] if section.text else []
        captions = {figure.table.key: figure for figure in section.figures}
        for table in section.all_tables:
            figure = captions.get(table.key)
            parts.append(f"### {escape(figure.title if figure else table.heading)}")
            parts.append(markdown_table(table))
            caption = " ".join(filter(None, (figure.caption if figure else "", table.caption)))
            parts.append(f"{escape(caption)} ([CSV]({csv_name(table)}))".strip())
    parts.append("## How this was made")
    parts.append("\n".join(f"- {escape(name)}: {escape(value)}" for name, value in report.facts))
    return "\n\n".join(parts) + "\n"


def escape(text: str) -> str:
    """Return a text that Markdown shows as it is, in one line."""
    return _MARKDOWN.sub(r"\\\1", printable(" ".join(text.splitlines())))


def markdown_table(table: Table) -> str:
    """Return a table in the form of GitHub's Markdown."""
    heads = [escape(_heading(column, table)) for column in table.columns]
    rules = ["---:" if column.numeric else "---" for column in table.columns]
    lines = [heads, rules]
    for row in table.rows[:MOST_ROWS]:
        lines.append(
            [_markdown_cell(cell, column) for cell, column in zip(row, table.columns, strict=True)]
        )
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    if len(table.rows) <= MOST_ROWS:
        return text
    return f"{text}\n\nThe first {MOST_ROWS} of {len(table.rows)} rows; the CSV file has all."


def _heading(column: Column, table: Table) -> str:
    unit = table.column_unit(column)
    return f"{column.label} ({unit})" if unit else column.label


def _markdown_cell(cell: Cell, column: Column) -> str:
    text = show(cell.value, column.kind)
    if column.kind == "duration":
        text = f"{text} {measure(cell.value, column.kind)}".strip()
    if not cell.note:
        return escape(text)
    return escape(
        f"{text} ({cell.note})" if column.numeric and text else f"{text} {cell.note}".strip()
    )


def to_csv(table: Table) -> str:
    """Return a table as CSV with full numbers: shares and gaps as parts of 1, times in s.

    A text that a spreadsheet would take for a formula gets an apostrophe before it.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([_plain(column.key) for column in table.columns])
    for row in table.rows:
        writer.writerow([_csv_value(cell) for cell in row])
    return buffer.getvalue()


def _csv_value(cell: Cell) -> str:
    value = cell.value
    if value is None:
        return ""
    if isinstance(value, float):
        return repr(round(value, 12)) if abs(value) < 1e15 else repr(value)
    return _plain(value) if isinstance(value, str) else str(value)


def _plain(text: str) -> str:
    text = printable(text)
    return f"'{text}" if text.startswith(_FORMULA) else text
