"""The files of a report: a page, Markdown beside it, and a folder of CSV files, one a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.report.html import to_html
from experiments.report.text import to_csv, to_markdown
from optim.errors import InvalidInput, Problem
from optim.util.files import write_atomic

if TYPE_CHECKING:
    from experiments.report.document import Report, Table

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
