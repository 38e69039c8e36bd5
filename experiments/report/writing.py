"""The files of a report: a page, Markdown beside it, and a folder of CSV files, one a table."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.report.document import MOST_ROWS
from experiments.report.formats import printable, show, unit
from experiments.report.html import to_html
from experiments.report.latex import to_latex
from optim.errors import InvalidInput, Problem
from optim.util.files import write_atomic
from streamplace.present.spreadsheet import to_cell

if TYPE_CHECKING:
    from collections.abc import Callable

    from experiments.report.document import Cell, Column, Report, Table

_SUFFIXES = (".html", ".htm")


def check_output(output: str | Path) -> Path:
    """Return where the page goes, before any work is done for it.

    Raises
    ------
    InvalidInput
        It does not end in ``.html``, is a folder, or lies in none.
    """
    path = Path(output)
    if path.is_dir():
        raise _refused(path, "is a folder", f"name a file, such as {path / 'report.html'}")
    if path.suffix.lower() not in _SUFFIXES:
        reason = "does not end in .html (Markdown and CSV are written beside it)"
        raise _refused(path, reason, f"write {path.with_suffix('.html')}")
    if not path.absolute().parent.is_dir():
        raise _refused(path, "lies in a folder that does not exist", "make it first")
    tables = tables_folder(path)
    if tables.exists() and not tables.is_dir():
        reason = f"needs {tables.name} beside it for the CSV files, which is no folder"
        raise _refused(path, reason, "choose another name")
    return path


def _refused(path: Path, reason: str, remedy: str) -> InvalidInput:
    return InvalidInput(Problem("--output", str(path), reason, remedy))


def tables_folder(output: Path) -> Path:
    """Return the folder of the CSV files: ``report.html`` has ``report-tables``."""
    return output.with_name(f"{output.stem}-tables")


def write_report(report: Report, output: Path) -> list[Path]:
    """Write all files, each whole or not at all; the page comes last.

    Returns
    -------
    list of Path
        The page, the Markdown file and the folder of CSV files.

    Raises
    ------
    InvalidInput
        A file cannot be written.
    """
    folder = tables_folder(output)

    def csv_name(table: Table) -> str:
        return f"{folder.name}/{table.key}.csv".replace(" ", "%20")

    page, markdown = to_html(report), to_markdown(report, csv_name)
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise _refused(
            folder, f"cannot be made: {error.strerror}", "choose another place"
        ) from None
    for table in report.tables:
        write_atomic(folder / f"{table.key}.csv", to_csv(table))
    write_atomic(output.with_suffix(".md"), markdown)
    write_atomic(output, page)
    return [output, output.with_suffix(".md"), folder]


def figures_folder(text: str | Path) -> Path:
    """Return the folder of figure files, before any work is done for it.

    Raises
    ------
    InvalidInput
        It cannot be made.
    """
    path = Path(text)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = f"cannot be made: {error.strerror}"
        raise InvalidInput(Problem("--figures", str(path), reason, "choose another")) from None
    return path


def write_drawings(report: Report, folder: Path) -> None:
    """Write every figure as SVG and as PDF, each whole or not at all."""
    for section in report.sections:
        for figure in section.figures:
            write_atomic(folder / f"{figure.key}.svg", figure.drawing.file())
            write_atomic(folder / f"{figure.key}.pdf", figure.drawing.pdf())


def write_latex(report: Report, folder: Path) -> None:
    """Write every table for LaTeX, each whole or not at all."""
    for table in report.tables:
        write_atomic(folder / f"{table.key}.tex", to_latex(table))


_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~&$])")


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
        for part in section.parts:
            parts.append(f"### {escape(part.title)}: {escape(part.note)}")
            parts += [escape(line) for line in part.lines]
            for table in part.tables:
                parts += [f"#### {escape(table.heading)}", markdown_table(table)]
                parts += [escape(table.caption)] if table.caption else []
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
        text = f"{text} {unit(cell.value, column.kind)}".strip()
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
    return to_cell(printable(text))
