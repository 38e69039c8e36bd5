"""From a matplotlib figure to SVG that stands inside a page: colours, names and bytes.

Colours are drawn as placeholders and come out as CSS variables, so that the page decides on them
in light and in dark; text stays text; nothing depends on the clock or on chance.
"""

from __future__ import annotations

import contextlib
import io
import re
from dataclasses import dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING, Any, cast

from experiments.report.formats import shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# what is drawn → the CSS variable it becomes; the values only need to be unlike each other, and no
# greys, which PDF writes as one number
INK, _GRID = "#010102", "#020203"
_SERIES = tuple(f"#0304{number:02x}" for number in range(1, 10))
_VARIABLES = {INK: "--ink", _GRID: "--grid"} | {
    color: f"--series-{number}" for number, color in enumerate(_SERIES)
}

_MARKERS = "osD^vPX<>hdp*8H"
_DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))
_SHOWN_NAME = 34

_STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.family": "DejaVu Sans",
    "font.size": 10.0,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "grid.color": _GRID,
    "grid.linewidth": 0.7,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "legend.handlelength": 3.2,
    "legend.labelspacing": 0.55,
    "lines.linewidth": 1.8,
    "lines.markersize": 5.5,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
}


@dataclass(frozen=True)
class Style:
    """How one contestant is drawn in every figure: never told apart by colour alone."""

    color: str
    marker: str
    dashes: Any
    label: str

    @property
    def line(self) -> dict[str, Any]:
        """Keywords for a line."""
        return {"color": self.color, "marker": self.marker, "linestyle": self.dashes}


def styles(contestants: Iterable[tuple[str, str]]) -> dict[str, Style]:
    """Give every contestant a style: a colour a method, dashes and a marker a variant.

    Parameters
    ----------
    contestants
        Pairs of contestant and method; the first get the clearest colours.
    """
    found: dict[str, Style] = {}
    variants: dict[str, list[str]] = {}
    for number, (name, method) in enumerate(contestants):
        variants.setdefault(method, []).append(name)
        color = _SERIES[list(variants).index(method) % len(_SERIES)]
        dashes = _DASHES[(len(variants[method]) - 1) % len(_DASHES)]
        found[name] = Style(color, _MARKERS[number % len(_MARKERS)], dashes, legend_name(name))
    return found


@contextlib.contextmanager
def canvas(width: float = 10.0, height: float = 4.4) -> Iterator[tuple[Figure, Axes]]:
    """Give a figure with one pair of axes in the style of the report.

    Parameters
    ----------
    width, height
        In inches of 72 px; the page scales them to its own width.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with mpl.rc_context():
        mpl.rcParams.update(mpl.rcParamsDefault)  # nobody's matplotlibrc
        mpl.rcParams.update(cast("Any", _STYLE))
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasSVG(figure)
        yield figure, figure.subplots()


def legend(figure: Figure, axes: Axes) -> None:
    """Put the legend beside the axes, where it hides nothing."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside right upper")


def legend_name(text: str) -> str:
    """Return a name as a legend takes it: short, and not hidden by a leading underscore."""
    name = shortened(text, _SHOWN_NAME)
    return f"\u200b{name}" if name.startswith("_") else name


@dataclass(frozen=True)
class Drawing:
    """A finished figure: an element of the page, and files for a paper.

    Attributes
    ----------
    svg
        The text of an SVG element, whose colours are those of the page it stands in.
    figure
        What it was made from.
    """

    svg: str
    figure: Figure = field(compare=False, repr=False)

    def file(self) -> str:
        """Return an SVG file with the colours of the light page."""
        text = self.svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
        for variable, color in light_colors().items():
            text = text.replace(f"var({variable})", color)
        return text

    def pdf(self) -> bytes:
        """Return the same as PDF, with its text as text."""
        import matplotlib as mpl
        from matplotlib.colors import to_rgb

        buffer = io.BytesIO()
        nothing = dict.fromkeys(("Creator", "Producer", "CreationDate"))
        # uncompressed, a colour is a text of three numbers: what stands for it is as long
        with mpl.rc_context({"pdf.fonttype": 42, "pdf.compression": 0}):
            self.figure.savefig(buffer, format="pdf", metadata=nothing)
        found, light = buffer.getvalue(), light_colors()
        for color, variable in _VARIABLES.items():
            before = r"\s".join(f"{part:.10f}".rstrip("0") for part in to_rgb(color))
            after = " ".join(f"{part:.4f}" for part in to_rgb(light[variable])).encode()
            for wrapped in set(re.findall(before.encode(), found)):
                found = found.replace(wrapped, after.ljust(len(wrapped)))
        return found


def light_colors() -> dict[str, str]:
    """Return the page's colours in light: by CSS variable."""
    style = files("experiments.report").joinpath("report.css").read_text("utf-8")
    return dict(re.findall(r"(--[a-z0-9-]+): (#[0-9a-f]{6})", style[: style.index("@media")]))


def drawn(figure: Figure, key: str, description: str) -> Drawing:
    """Return the figure with its SVG element, the same bytes for the same figure.

    Parameters
    ----------
    figure
        Drawn within `canvas`.
    key
        Put before every id, so that figures on one page do not share any.
    description
        What a person who does not see the figure is told.
    """
    import matplotlib as mpl
    from markupsafe import escape

    buffer = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": key, "svg.fonttype": "none"}):
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(buffer, format="svg", metadata=nothing)
    drawing = buffer.getvalue()
    drawing = drawing[drawing.index("<svg") :]
    view = re.search(r'viewBox="[^"]*"', drawing)
    inside = drawing[drawing.index(">") + 1 :]
    for noise in _NOISE:
        inside = noise.sub("", inside)
    # only tags are rewritten: what stands between them are names and numbers of the report
    inside = re.sub(r"<[^>]*>", lambda tag: _rewritten(tag.group(), key), inside)
    inside = re.sub(r"\n\s*", "\n", inside)
    label = f'role="img" aria-label="{escape(description)}"'
    return Drawing(f"<svg {view.group() if view else ''} {label}>{inside.strip()}\n", figure)


_NOISE = (
    re.compile(r"<metadata>.*?</metadata>", re.DOTALL),
    re.compile(r"<!--.*?-->\n?", re.DOTALL),
    # its style element would hold for the whole page
    re.compile(r"<defs>\s*<style.*?</style>\s*</defs>", re.DOTALL),
)


def _rewritten(tag: str, key: str) -> str:
    """Return a tag with names of this figure only, colours of the page, and short numbers."""
    if tag.startswith("<g "):
        tag = re.sub(r' id="[^"]*"', "", tag)
    tag = re.sub(r'\bid="', f'id="{key}-', tag).replace("xlink:href=", "href=")
    tag = tag.replace('href="#', f'href="#{key}-').replace("url(#", f"url(#{key}-")
    tag = re.sub(r' transform="rotate\(-0 [^)]*\)"', "", tag)
    tag = re.sub(r"-?\d+\.\d{3,}", lambda number: f"{float(number.group()):.2f}", tag)
    for color, variable in _VARIABLES.items():
        tag = tag.replace(color, f"var({variable})")
    return tag
