"""What is written of a report: the page, Markdown, a folder of CSV files, the terminal."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from experiments.report.tables import OTHER
from optim.errors import InvalidInput, Problem
from optim.util.files import write_atomic
from streamplace.present.plots import to_pdf
from streamplace.present.table import (
    STAR,
    escape,
    grid,
    printable,
    show,
    split,
    to_csv,
    to_latex,
    to_markdown,
    unit,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console

    from experiments.report.tables import Report
    from streamplace.present.table import Cell, Column, Table

_DARKEST = 0.5


def to_html(report: Report) -> str:
    """Return the page; every text from the rows is escaped."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "listed_rows": _rows,
        "shown": lambda cell, column: show(cell.value, column.kind),
        "unit": lambda cell, column: unit(cell.value, column.kind),
        "shade": _shade,
        "breakable": _breakable,
        "data": lambda svg: f"data:image/svg+xml;base64,{b64encode(svg.encode()).decode()}",
    }
    template, style = (
        files("experiments.report").joinpath(name).read_text("utf-8")
        for name in ("report.html.j2", "report.css")
    )
    return environment.from_string(template).render(report=report, style=style)


def _shade(cell: Cell) -> str:
    """Return how strongly a cell is shaded, between 0 and 1, the root making small gaps visible."""
    if cell.distance is None or cell.distance <= 0:
        return ""
    return f"{_DARKEST * min(1.0, cell.distance) ** 0.7:.3f}"


def _breakable(text: str) -> list[str]:
    """Return the parts of a heading between which a line may break."""
    head, bracket, tail = text.partition(" [")
    return [head, f"[{tail}"] if bracket else [text]


def _rows(table: Table) -> Iterator[tuple[tuple[Cell, ...], str]]:
    """Return the rows that are shown, each with its classes."""
    before = None
    for number, row in enumerate(table.rows):
        first = row[0].value
        classes = []
        if table.lead > 1 and before is not None and first != before:
            classes.append("next")
        if table.last_is_summary and number == len(table.rows) - 1:
            classes.append("summary")
        before = first
        yield row, " ".join(classes)


# -- the opening in a terminal ---------------------------------------------------------------------


def print_report(report: Report, console: Console) -> None:
    """Print the summary and the opening tables; those too wide are printed in parts."""
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
        [f"{STAR} not reported as optimal, or not by all runs: see the report"] * starred
        + [f"{OTHER} optimises something else"] * marked
    )
    columns = tuple(table.columns[i] for i in chosen)
    return replace(table, columns=columns, rows=rows, caption=caption)


def _brief(cell: Cell, column: Column) -> Cell:
    if column.numeric and cell.note:
        short = cell.note.split(" (")[0] if cell.value is None else STAR
        return cell._replace(note=short)
    return cell


# -- files -----------------------------------------------------------------------------------------

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

    page, markdown = to_html(report), report_markdown(report, csv_name)
    _made(folder, "--output", "choose another place")
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
    return _made(Path(text), "--figures", "choose another")


def _made(folder: Path, argument: str, remedy: str) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = f"cannot be made: {error.strerror}"
        raise InvalidInput(Problem(argument, str(folder), reason, remedy)) from None
    return folder


def write_drawings(report: Report, folder: Path) -> None:
    """Write every figure as SVG and as PDF, each whole or not at all."""
    for section in report.sections:
        for figure in section.figures:
            write_atomic(folder / f"{figure.key}.svg", figure.drawing.svg)
            write_atomic(folder / f"{figure.key}.pdf", to_pdf(figure.drawing.figure))


def write_latex(report: Report, folder: Path) -> None:
    """Write every table for LaTeX, each whole or not at all."""
    for table in report.tables:
        write_atomic(folder / f"{table.key}.tex", to_latex(table))


def report_markdown(report: Report, csv_name: Callable[[Table], str]) -> str:
    """Return the report as Markdown, with the tables of its figures; `csv_name` names CSV files."""
    parts = [f"# {escape(report.title)}", *(escape(sentence) for sentence in report.summary)]
    for section in report.sections:
        parts.append(f"## {escape(section.title)}")
        parts += [escape(section.text)] if section.text else []
        captions = {figure.table.key: figure for figure in section.figures}
        for table in section.all_tables:
            figure = captions.get(table.key)
            parts.append(f"### {escape(figure.title if figure else table.shown.heading)}")
            parts.append(to_markdown(table))
            caption = " ".join(filter(None, (figure.caption if figure else "", table.caption)))
            parts.append(f"{escape(caption)} ([CSV]({csv_name(table)}))".strip())
        for part in section.parts:
            parts.append(f"### {escape(part.title)}: {escape(part.note)}")
            parts += [escape(line) for line in part.lines]
            for table in part.tables:
                parts += [f"#### {escape(table.shown.heading)}", to_markdown(table)]
                parts += [escape(table.caption)] if table.caption else []
    parts.append("## How this was made")
    parts.append("\n".join(f"- {escape(name)}: {escape(value)}" for name, value in report.facts))
    return "\n\n".join(parts) + "\n"
