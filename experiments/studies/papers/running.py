"""Make a figure: its rows, table, plots and page, in a folder of its own."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.studies.papers.texts import REDUCED, page, to_csv, to_markdown
from optim.errors import InvalidInput, Problem
from optim.util.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    from experiments.studies.papers.figure import Figure

FILES = ("table.csv", "table.md", "measured.json", "plot.svg", "plot.png", "page.md")
"""What a finished figure leaves, `page.md` last; ``rows`` beside them is what it was made from."""

ROWS = "rows"


@dataclass(frozen=True)
class Made:
    """A finished figure.

    Attributes
    ----------
    figure
        Which one.
    folder
        Where its files are.
    table
        What is shown.
    measured
        Our figures as sentences.
    reduced
        Whether it is smaller than the paper's.
    seconds
        This call took.
    """

    figure: Figure
    folder: Path
    table: pd.DataFrame
    measured: tuple[str, ...]
    reduced: bool
    seconds: float


def run_figure(
    figure: Figure, output: str | Path, *, reduced: bool = False, quiet: bool = False
) -> Made:
    """Make a figure; one that was interrupted is gone on with.

    Parameters
    ----------
    output
        Folder for all figures; this one's is in it, under its name. A reduced run has another.
    quiet
        Show no progress on standard error.

    Raises
    ------
    InvalidInput
        The folder cannot be used.
    StreamplaceError
        A run failed, or Spark did.
    """
    began = time.monotonic()
    folder = folder_of(figure, output, reduced)
    rows_folder = folder / ROWS
    try:
        rows_folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = f"cannot be made: {error.strerror}"
        raise InvalidInput(
            Problem("--output", str(folder), reason, "choose another folder")
        ) from None
    with _silence() if quiet else contextlib.nullcontext():
        rows = figure.rows(rows_folder, reduced)
    table = figure.table(rows)
    measured = tuple(figure.measured(table))
    write_atomic(folder / "table.csv", to_csv(table))
    write_atomic(folder / "measured.json", json.dumps(measured, ensure_ascii=False))
    label = f"*This is a {REDUCED}.*\n\n" if reduced else ""
    write_atomic(folder / "table.md", label + to_markdown(table))
    draw(figure, table, folder / "plot.svg", reduced=reduced)
    made = _made(figure, rows, reduced)
    write_atomic(folder / "page.md", page(figure, table, measured, made, reduced))
    return Made(figure, folder, table, measured, reduced, time.monotonic() - began)


def folder_of(figure: Figure, output: str | Path, reduced: bool) -> Path:
    """Return where a figure's files go; a reduced run never mixes with a full one."""
    paper, _, name = figure.name.partition("/")
    return Path(output) / paper / (f"{name}-reduced" if reduced else name)


def draw(figure: Figure, table: pd.DataFrame, path: Path, *, reduced: bool) -> None:
    """Draw a table as an SVG file, and in a folder of figures as PNG too."""
    from streamplace.present.drawing import canvas, tidy, to_png, to_svg

    title = f"{figure.title} (reduced)" if reduced else figure.title
    with canvas(figure.panels, title) as (drawing, axes):
        figure.plot(table, axes)
        tidy(drawing)
        write_atomic(path, to_svg(drawing, title))
        if path.name == "plot.svg":
            write_atomic(path.with_suffix(".png"), to_png(drawing))


def _made(figure: Figure, rows: pd.DataFrame, reduced: bool) -> str:
    from optim.methods.registry import package_version

    command = f"streamplace paper {figure.name}" + (" --reduced" if reduced else "")
    cores = len(os.sched_getaffinity(0))
    return (
        f"`{command}`: {len(rows):,} rows, streamplace {package_version('streamplace')}, "
        f"Python {platform.python_version()}, {cores} cores."
    )


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Keep progress, which sweeps and replays write to standard error, off it."""
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        before, sys.stderr = sys.stderr, nowhere
        try:
            yield
        finally:
            sys.stderr = before
