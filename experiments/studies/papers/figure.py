"""A figure (or a table) of a paper: its words, its rows, its table, its plot, and how it is made.

To add one, write ``experiments/studies/papers/<paper>/<module>.py``::

    from __future__ import annotations

    from pathlib import Path
    from typing import TYPE_CHECKING

    from experiments.studies.papers.figure import Figure
    from experiments.studies.papers.sweeps import sweep_rows

    if TYPE_CHECKING:
        import pandas as pd
        from matplotlib.axes import Axes


    def table(rows: pd.DataFrame) -> pd.DataFrame:
        return rows.pivot_table(index="instance.capacity", columns="method_label",
                                values="imc_gain").reset_index()


    def plot(table: pd.DataFrame, axes: Axes) -> None:
        draw_lines(axes, table, x="instance.capacity")      # streamplace.present.plots
        axes.set_xlabel("capacity of a node (% of a core)")
        axes.set_ylabel("IMC gain (MB/s)")


    FIGURE = Figure(
        name="task-allocation/fig-6",
        title="Twitter trending topics, capacity swept",
        source="Chatzistergiou and Viglas, CIKM 2014, Figure 6",
        words="TD is up to 91 % better than Storm's default …",   # the paper's, paraphrased
        rows=sweep_rows(Path(__file__).with_name("fig_6.toml"),
                        reduced={"instances.generate.0.capacity": [100, 200, 400]}),
        table=table,
        plot=plot,
        measured=lambda table: [f"TD is up to {…:.0f} % better than Storm's default."],
        readings=("The figure's costs are lost: chosen so that they sum to 143 MB/s.",),
    )
    FIGURES = (FIGURE,)

`rows` may be any function of (folder, reduced): a replay, a measurement. What it leaves in the
folder is found there when the same command is given again, so that it can go on; a sweep's TOML
and `experiments.studies.papers.sweeps.run_rows` may be part of it. Import pandas, matplotlib and
Spark inside functions only: the list of figures imports every module.

Then ``python -m experiments.studies.papers.pages <paper>`` puts all figures made in
``build/papers`` into ``docs/papers/<paper>.md``, with the docstring of the paper's package at the
top.

Columns of the table are named as a reader is to see them, with units; numbers are rounded when
shown, never in ``table.csv``.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from experiments.studies.papers.texts import REDUCED, page, to_csv, to_markdown
from optim.errors import InvalidInput, Problem
from optim.util.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pandas as pd


class Rows(Protocol):
    """Makes the rows of a figure; goes on with what an earlier call left in the folder."""

    def __call__(self, folder: Path, reduced: bool) -> pd.DataFrame:
        """Return one row a run, or what else the figure's table is made of."""


def _nothing(table: pd.DataFrame) -> Sequence[str]:
    return ()


@dataclass(frozen=True)
class Figure:
    """A figure, table or stated result of a paper, and how to make it again.

    Attributes
    ----------
    name
        ``paper/figure``, as the command line takes it.
    title, source
        One line; paper, year and number of the figure or section.
    words
        What the paper says comes out, in our words.
    rows
        Called with a folder of its own and whether the run is reduced; gives a frame.
    table
        From that frame to the one that is shown.
    plot
        Draws the table on matplotlib axes; on a list of them where `panels` is above 1.
    measured
        From the table to sentences that set our figures beside the paper's words.
    readings
        What we chose where the paper is silent, and other differences.
    size
        What full size means, and what `reduced` does to it.
    keeps_sentences
        Whether `measured` looks at more than the columns of the table (its ``attrs``), so that its
        sentences are stored with the table.
    panels
        Number of axes, one below the other, with one x-axis.
    """

    name: str
    title: str
    source: str
    words: str
    rows: Rows
    table: Callable[[pd.DataFrame], pd.DataFrame]
    plot: Callable[[pd.DataFrame, Any], None]
    measured: Callable[[pd.DataFrame], Sequence[str]] = _nothing
    readings: Sequence[str] = ()
    size: str = ""
    keeps_sentences: bool = False
    panels: int = 1

    @property
    def paper(self) -> str:
        """The part of the name before the slash."""
        return self.name.partition("/")[0]

    def to_dict(self) -> dict[str, Any]:
        """Return what ``streamplace paper --json`` lists."""
        return {
            "name": self.name,
            "title": self.title,
            "source": self.source,
            "words": self.words,
            "readings": list(self.readings),
            "size": self.size,
        }


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
    write_atomic(folder / "page.md", page(figure, table, measured, reduced, made=made))
    return Made(figure, folder, table, measured, reduced, time.monotonic() - began)


def folder_of(figure: Figure, output: str | Path, reduced: bool) -> Path:
    """Return where a figure's files go; a reduced run never mixes with a full one."""
    paper, _, name = figure.name.partition("/")
    return Path(output) / paper / (f"{name}-reduced" if reduced else name)


def draw(figure: Figure, table: pd.DataFrame, path: Path, *, reduced: bool) -> None:
    """Draw a table as an SVG file, and in a folder of figures as PNG too."""
    from streamplace.present.plots import canvas, tidy, to_png, to_svg

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
