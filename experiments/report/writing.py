"""The files of a report: a page, Markdown beside it, and a folder of CSV files, one a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.report.html import to_html
from optim.errors import InvalidInput, Problem
from optim.util.files import write_atomic
from streamplace.present.drawing import to_pdf
from streamplace.present.table import escape, to_csv, to_latex, to_markdown

if TYPE_CHECKING:
    from collections.abc import Callable

    from experiments.report.document import Report
    from streamplace.present.table import Table

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
            write_atomic(folder / f"{figure.key}.svg", figure.drawing.svg)
            write_atomic(folder / f"{figure.key}.pdf", to_pdf(figure.drawing.figure))


def write_latex(report: Report, folder: Path) -> None:
    """Write every table for LaTeX, each whole or not at all."""
    for table in report.tables:
        write_atomic(folder / f"{table.key}.tex", to_latex(table))


def report_markdown(report: Report, csv_name: Callable[[Table], str]) -> str:
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
