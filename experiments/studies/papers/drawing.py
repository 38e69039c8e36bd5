"""Drawing figures: a canvas of one look, lines told apart by more than colour, SVG and PNG."""

from __future__ import annotations

import contextlib
import io
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8c6d00", "#56b4e9", "#333333")
"""Told apart by most colour-blind readers, too (after Okabe and Ito)."""
MARKERS = "osD^vPX"
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))

_MOST_MARKERS = 25
_STYLE: dict[str, Any] = {
    "svg.hashsalt": "paper",
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.size": 11.0,
    "axes.titlesize": 11.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 5.0,
}


@contextlib.contextmanager
def canvas(panels: int = 1, title: str = "") -> Iterator[tuple[Drawing, Any]]:
    """Give a drawing with axes one below the other; a list of them where there are several.

    Nobody's matplotlibrc has a say in it, so that it looks alike everywhere.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Drawing

    with mpl.rc_context():
        mpl.rcParams.update(mpl.rcParamsDefault)
        mpl.rcParams.update(cast("Any", _STYLE))
        drawing = Drawing(figsize=(7.6, 1.6 + 2.6 * panels), layout="constrained")
        FigureCanvasAgg(drawing)
        grid = drawing.subplots(panels, 1, sharex=True, squeeze=False)[:, 0]
        if title:
            drawing.suptitle(title, fontsize=11)
        yield drawing, grid[0] if panels == 1 else list(grid)


def to_svg(drawing: Drawing, title: str = "") -> str:
    """Return the drawing as SVG that needs nothing else; the same bytes for the same drawing."""
    buffer = io.StringIO()
    about: dict[str, Any] = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    if title:
        about["Title"] = title
    drawing.savefig(buffer, format="svg", metadata=about, facecolor="white")
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def to_png(drawing: Drawing) -> bytes:
    """Return the drawing as PNG, 150 dots an inch."""
    buffer = io.BytesIO()
    drawing.savefig(buffer, format="png", dpi=150, metadata={"Software": None}, facecolor="white")
    return buffer.getvalue()


def draw_lines(
    axes: Axes, table: pd.DataFrame, x: str, columns: Sequence[str] | None = None
) -> None:
    """Draw one line a column over the column `x`, with a legend; unknown values are left out.

    Parameters
    ----------
    columns
        Which ones; all others than `x` if not given.
    """
    for number, name in enumerate(columns or [c for c in table.columns if c != x]):
        known = table[[x, name]].dropna()
        axes.plot(
            known[x],
            known[name],
            label=str(name),
            color=COLORS[number % len(COLORS)],
            marker=MARKERS[number % len(MARKERS)] if len(known) <= _MOST_MARKERS else None,
            linestyle=DASHES[number % len(DASHES)],
        )
    axes.legend()


def draw_bars(axes: Axes, table: pd.DataFrame, names: str, values: str) -> None:
    """Draw one lying bar a row, from the top down, each with its value.

    Parameters
    ----------
    names, values
        Columns that hold them.
    """
    from streamplace.present.numbers import number

    places = range(len(table))
    axes.barh(places, table[values], color=COLORS[0], height=0.62)
    axes.set_yticks(places, [str(name) for name in table[names]])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    for place, value in zip(places, table[values], strict=True):
        axes.annotate(number(value), (value, place), (10, 0), textcoords="offset points",
                      va="center")  # fmt: skip
    axes.margins(x=0.12)


def log_scale(axes: Axes, which: str) -> None:
    """Make the axis ``x`` or ``y`` logarithmic, with ticks at 1, 2, 5, 10, … written out."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set(**{f"{which}scale": "log"})
    axis = axes.xaxis if which == "x" else axes.yaxis
    low, high = axis.get_view_interval()
    near = high / low < 1000
    axis.set_major_locator(LogLocator(subs=[1.0, 2.0, 5.0] if near else [1.0]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.12g}"))
    axis.set_minor_formatter(NullFormatter())
