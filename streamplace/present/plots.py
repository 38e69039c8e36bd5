"""Drawing figures: one look for reports, replays, papers and curves; as SVG, PDF and PNG.

Each colour belongs to a method in all figures; none is distinguished by colour alone. The legend
stands outside the data, ticks of logarithmic axes are written out as far as there is room, and the
same figure gives the same bytes: nothing depends on the clock, on chance or on a ``matplotlibrc``.
"""

from __future__ import annotations

import contextlib
import io
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from streamplace.present.table import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, _GRID = "#1d2329", "#e6e9ed"
COLORS = (
    "#0072b2", "#d55e00", "#00875f", "#b8568f", "#a87400", "#3f97d1", "#6b7280", "#1d2329",
    "#6a4bb0",
)  # fmt: skip
"""Distinguished by most colour-blind readers, too (after Okabe and Ito), and on white."""

_METHODS = (
    ("imc-exact", "albic", "eoa-milp", "storm-milp", "throughput-exact", "slots-milp"),
    ("imc-milp", "cola", "gma", "storm-offline", "throughput-milp", "mba+sam"),
    ("top-down", "balance-search", "even", "storm-online", "throughput-search", "lsa+rsm"),
    ("partition", "joint-search", "lsa+dsm"),
    ("storm-even", "scale-in-first", "random", "mba+rsm"),
    ("imc-search", "joint-milp", "lsa+sam"),
    ("imc-brute", "static"),
    ("balance-milp", "naive", "mba+dsm"),
    ("flux", "task-level"),
)
"""The methods of each colour: those that are compared have different ones."""
_COLOR_OF = {name: place for place, names in enumerate(_METHODS) for name in names}

MARKERS = "osD^vPX<>hdp*8H"
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))
_SHOWN_NAME = 34
_MOST_MARKERS = 10
_NARROW, _WIDE = 8, 150
"""Spans of a logarithmic axis with more ticks than 1, 2, 5, and with powers of ten alone."""

_STYLE: dict[str, Any] = {
    "svg.fonttype": "none", "pdf.fonttype": 42, "text.parse_math": False,
    "font.family": "DejaVu Sans", "font.size": 10.0, "axes.titlesize": 10.0,
    "axes.edgecolor": INK, "axes.labelcolor": INK, "axes.linewidth": 0.8,
    "axes.spines.top": False, "axes.spines.right": False,
    "axes.grid": True, "axes.axisbelow": True, "grid.color": _GRID, "grid.linewidth": 0.7,
    "text.color": INK, "xtick.color": INK, "ytick.color": INK,
    "legend.frameon": False, "legend.handlelength": 3.2, "legend.labelspacing": 0.55,
    "lines.linewidth": 1.8, "lines.markersize": 5.5,
}  # fmt: skip


@dataclass(frozen=True)
class Style:
    """How one contestant is drawn in every figure."""

    color: str
    marker: str
    dashes: Any
    label: str

    @property
    def line(self) -> dict[str, Any]:
        """Keywords for a line."""
        return {"color": self.color, "marker": self.marker, "linestyle": self.dashes}


def styles(contestants: Iterable[tuple[str, str]]) -> dict[str, Style]:
    """Give every contestant a style: the colour of its method, dashes and a marker a variant.

    `contestants`: pairs of contestant and method; of methods without a colour of their own, and of
        those whose colour another one has, the first get what is left.
    """
    pairs = list(contestants)
    methods = list(dict.fromkeys(method for _, method in pairs))
    colors: dict[str, int] = {}
    for method in methods:
        place = _COLOR_OF.get(method)
        if place is not None and place not in colors.values():
            colors[method] = place
    # no second method gets a colour that is taken, as long as there are others
    free = [place for place in range(len(COLORS)) if place not in colors.values()]
    for k, method in enumerate(m for m in methods if m not in colors):
        colors[method] = free[k] if k < len(free) else k % len(COLORS)
    style_of: dict[str, Style] = {}
    variants = dict.fromkeys(methods, 0)
    for k, (name, method) in enumerate(pairs):
        dashes = DASHES[variants[method] % len(DASHES)]
        variants[method] += 1
        marker = MARKERS[k % len(MARKERS)]
        style_of[name] = Style(COLORS[colors[method]], marker, dashes, legend_name(name))
    return style_of


def legend_name(text: str) -> str:
    """Return a name as a legend takes it: short, and not hidden by a leading underscore."""
    name = printable(text)
    name = name if len(name) <= _SHOWN_NAME else name[: _SHOWN_NAME - 1].rstrip() + "…"
    return f"\u200b{name}" if name.startswith("_") else name


@contextlib.contextmanager
def canvas(
    panels: int = 1, title: str = "", size: tuple[float, float] | None = None
) -> Iterator[tuple[Figure, Any]]:
    """Give a figure with axes one below the other; a list of them where there are several.

    `title`: above them.
    `size`: width and height in inches of 72 px; if not given, what so many panels need.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.style import context

    with context(["default", _STYLE]):
        figure = Figure(size or (9.0, 1.6 + 2.6 * panels), layout="constrained", facecolor="white")
        FigureCanvasAgg(figure)
        grid = figure.subplots(panels, 1, sharex=True, squeeze=False)[:, 0]
        if title:
            grid[0].set_title(title, loc="left")
        yield figure, grid[0] if panels == 1 else list(grid)


def legend(figure: Figure, axes: Axes, title: str = "") -> None:
    """Put the legend beside the axes, where it hides nothing."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, title=title or None, loc="outside right upper")


def to_svg(figure: Figure, title: str = "") -> str:
    """Return a figure as SVG that needs nothing else."""
    return _saved(figure, "svg", title).decode() + "\n"


def to_pdf(figure: Figure) -> bytes:
    """Return a figure as PDF, with its text as text."""
    return _saved(figure, "pdf")


def to_png(figure: Figure) -> bytes:
    """Return a figure as PNG, 150 dots an inch."""
    return _saved(figure, "png")


_ABOUT = {
    "svg": ("Creator", "Date", "Format", "Type"),
    "pdf": ("Creator", "Producer", "CreationDate"),
    "png": ("Software",),
}


def _saved(figure: Figure, kind: str, title: str = "") -> bytes:
    from matplotlib.style import context

    about: dict[str, Any] = dict.fromkeys(_ABOUT[kind])
    if title:
        about["Title"] = title
    buffer = io.BytesIO()
    with context(["default", {**_STYLE, "svg.hashsalt": "streamplace"}]):
        if kind == "svg":  # `savefig` would draw twice, for the layout first
            from matplotlib.backends.backend_svg import FigureCanvasSVG

            FigureCanvasSVG(figure).print_svg(buffer, metadata=about)
        else:
            figure.savefig(buffer, format=kind, dpi=150 if kind == "png" else 72, metadata=about)
    data = buffer.getvalue()
    return b"\n".join(line.rstrip() for line in data.splitlines()) if kind == "svg" else data


def markers(count: int) -> slice:
    """Return which of so many points get a marker."""
    return slice(0, None, max(1, math.ceil(count / _MOST_MARKERS)))


def rows(axes: Axes, names: Sequence[str]) -> None:
    """Name rows from the top down at the upward axis."""
    axes.set_yticks(range(len(names)), [legend_name(name) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)


def log_scale(axes: Axes, which: str) -> None:
    """Make the axis ``x`` or ``y`` logarithmic, with ticks written out as far as there is room."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axes.set(**{f"{which}scale": "log"})
    axis = axes.xaxis if which == "x" else axes.yaxis
    low, high = axis.get_view_interval()
    span = high / low
    # a short axis needs more than 1, 2, 5; a long one powers of ten alone
    subs = [1.0, 2.0, 5.0] if span > _NARROW else [1.0, 1.2, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0]
    axis.set_major_locator(
        LogLocator(subs=[1.0] if span > _WIDE else subs, numticks=12 if span < 1e5 else 6)
    )
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.12g}"))
    axis.set_minor_locator(NullLocator())


def zero_and_log_scale(axes: Axes, most: float) -> None:
    """Make the upward axis linear up to 1 and logarithmic beyond, from 0 to about `most`."""
    from matplotlib.ticker import NullLocator

    axes.set_yscale("symlog", linthresh=1.0, linscale=0.6)
    ticks = [0.0, 0.5, 1.0] if most <= _WIDE else [0.0, 1.0]
    steps = (1, 2, 5) if most <= _WIDE else (1,)
    powers = math.ceil(math.log10(max(most, 1.0))) + 1
    for power in range(0, powers, 1 + powers // 8):
        ticks += [s * 10.0**power for s in steps if s * 10**power > 1]
    ticks = [tick for tick in ticks if tick <= most * 1.3]
    axes.set_yticks(ticks, [f"{tick:,g}" for tick in ticks])
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylim(-0.08, most * 1.25)
