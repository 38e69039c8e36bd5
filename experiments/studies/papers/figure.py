"""What a figure (or a table) of a paper is to us: its words, its rows, its table, its plot.

To add one, write ``experiments/studies/papers/<paper>/<figure>.py``; its name is made of these two,
with ``-`` for ``_``::

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
        draw_lines(axes, table, x="instance.capacity")      # streamplace.present.drawing
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

`rows` may be any function of (folder, reduced): a replay, a measurement. What it leaves in the
folder is found there when the same command is given again, so that it can go on; a sweep's TOML
and `experiments.studies.papers.sweeps.run_rows` may be part of it. Import pandas, matplotlib and
Spark inside functions only: the list of figures imports every module.

Then ``python -m experiments.studies.papers.collecting <paper>`` puts all figures made in
``build/papers`` into ``docs/papers/<paper>.md``, with the docstring of the paper's package at the
top.

Figures that are made alike may stand in one module, as ``FIGURES``, a tuple.

Columns of the table are named as a reader is to see them, with units; numbers are rounded when
shown, never in ``table.csv``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

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
