"""Charts as data: panels of layers, each a kind, a query and the columns that it draws.

A panel of ``figures.toml`` has ``xlabel`` and ``ylabel`` (texts of `query`), ``bottom`` and ``top``
(numbers or expressions), ``xticks`` with ``left`` and ``right`` (numbers), ``log`` (``"x"``,
``"y"`` or ``"xy"``), ``invert`` for an axis that runs to the left, ``sql`` (``FROM shown``, the
table of the figure), and its ``layers``; one that has a ``kind`` is its only layer.
Layers may have ``sql`` of their own, ``label``, and ``color``, the number of a colour.
Kinds are the functions in `KINDS`, which say what columns they take.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from streamplace.present import numbers, plots
from streamplace.present.plots import (
    COLORS,
    DASHES,
    INK,
    MARKERS,
    legend,
    log_scale,
    markers,
    styles,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from experiments.studies.papers.query import Tables

Panel = dict[str, Any]
GREY = "#999999"


def draw_panels(tables: Tables, panels: Sequence[Panel], axes: Any) -> None:
    """Draw panels on matplotlib axes: on a list of them where there are several."""
    for place, panel in zip([axes] if len(panels) == 1 else axes, panels, strict=True):
        draw_panel(tables, panel, place)


def draw_panel(tables: Tables, panel: Panel, axes: Axes) -> None:
    """Draw a panel; one without rows stays empty but for its label."""
    sql = panel.get("sql", "FROM shown")
    data = tables.table(sql)
    if data.empty:
        axes.set_xlabel(panel.get("xlabel", ""))
        return
    for layer in panel.get("layers", [panel]):
        rows = tables.table(layer["sql"]) if "sql" in layer else data
        KINDS[layer["kind"]](axes, rows, layer)
    # limits are expressions: a reduced run has other values
    limit_texts = {key: str(panel[key]) for key in ("bottom", "top") if key in panel}
    values = tables.values(sql, limit_texts.values())[0]
    if limit_texts:
        limits: dict[str, Any] = {key: float(values[text]) for key, text in limit_texts.items()}
        axes.set_ylim(**limits)
    if "xticks" in panel:
        axes.set_xlim(panel["left"], panel["right"])
        axes.set_xticks(panel["xticks"])
    for which in panel.get("log", ""):
        log_scale(axes, which)
    if panel.get("invert"):
        axes.invert_xaxis()
    for key in ("xlabel", "ylabel"):
        if key in panel:
            axes.set(**{key: tables.texts(sql, panel[key])[0]})


def _lines(axes: Axes, data: pd.DataFrame, layer: Panel) -> None:
    """One line a column of `y` over `x`, by default all others, or those with an `end`."""
    if end := layer.get("end"):
        named = {name: name.removesuffix(end) for name in map(str, data) if name.endswith(end)}
        data = data[[layer["x"], *named]].rename(columns=named)
    draw_lines(axes, data, layer["x"], layer.get("y"))


def _series(axes: Axes, data: pd.DataFrame, layer: Panel) -> None:
    """One line without marks a `group`: `y` over `x`."""
    for number, (name, rows) in enumerate(_groups(data, layer)):
        look = {"color": COLORS[number % len(COLORS)], "linestyle": DASHES[number % len(DASHES)]}
        axes.plot(rows[layer["x"]], rows[layer["y"]], label=name, **look)
    axes.legend()


def _steps(axes: Axes, data: pd.DataFrame, layer: Panel) -> None:
    """`y` over `x`, constant up to the next one."""
    axes.plot(data[layer["x"]], data[layer["y"]], color=INK, drawstyle="steps-post")


def _band(axes: Axes, data: pd.DataFrame, layer: Panel) -> None:
    """The area from `low` to `high` over `x`, in the colour of the line `label`."""
    (color,) = {line.get_color() for line in axes.lines if line.get_label() == layer["label"]}
    low, high = data[layer["low"]], data[layer["high"]]
    axes.fill_between(data[layer["x"]], low, high, color=color, alpha=0.15)


def _groups(data: pd.DataFrame, layer: Panel) -> list[tuple[str, pd.DataFrame]]:
    """Return the rows of each group with its name; all, with the layer's label, without groups."""
    if "group" not in layer:
        return [(layer.get("label", "_"), data)]
    return [(str(name), rows) for name, rows in data.groupby(layer["group"], sort=False)]


def _bars(axes: Axes, data: pd.DataFrame, layer: Panel) -> None:
    """Upright bars of `y` by `x`, side by side where there is a `group`.

    `low` and `high` are ends of an interval, `extra` stands on top, `least` is a line across.
    """
    names = dict.fromkeys(data[layer["x"]])
    places: dict[Any, int] = {name: place for place, name in enumerate(names)}
    groups = _groups(data, layer)
    width = 0.8 / len(groups)
    for number, (name, rows) in enumerate(groups):
        # all bars of an x together are 0.8 wide, with its tick in the middle
        shift = width * (number + 0.5) - 0.4
        at = [places[x] + shift for x in rows[layer["x"]]]
        y, color = rows[layer["y"]], COLORS[layer.get("color", number)]
        ends = [y - rows[layer["low"]], rows[layer["high"]] - y] if "low" in layer else None
        look: Panel = {"color": color, "yerr": ends, "capsize": 3}
        axes.bar(at, y, 0.9 * width, label=name, **look)
        if "extra" in layer:
            label = f"{name}: {layer['extra']}"
            axes.bar(at, rows[layer["extra"]], 0.9 * width, bottom=y, color=color, alpha=0.45,
                     hatch="//", label=label)  # fmt: skip
        if "least" in layer:
            first, last = [a - width / 2 for a in at], [a + width / 2 for a in at]
            label = "_" if number else layer["least"]
            axes.hlines(rows[layer["least"]], first, last, color="black", label=label)
    axes.set_xticks(range(len(places)), [str(name) for name in places])
    axes.grid(visible=False, axis="x")
    if groups[0][0] != "_":
        axes.legend()


def _rows(axes: Axes, data: pd.DataFrame, layer: Panel) -> None:
    """Lying bars of `x` with their values, named by `y`, from the top down."""
    draw_bars(axes, data, layer["y"], layer["x"])


def _marks(axes: Axes, data: pd.DataFrame, layer: Panel) -> None:
    """Marks at `x` and `y`, one look a `group`; open ones if `hollow`."""
    for number, (name, rows) in enumerate(_groups(data, layer)):
        look: Panel = {"color": COLORS[layer.get("color", number)], "linestyle": "none"}
        look |= {"marker": layer.get("marker", MARKERS[number]), "markersize": layer.get("size", 5)}
        if layer.get("hollow"):
            look["fillstyle"] = "none"
        # of open and filled marks of the same groups the legend has the filled ones
        label = "_" if "group" in layer and layer.get("hollow") else name
        axes.plot(rows[layer["x"]], rows[layer["y"]], label=label, **look)
    axes.legend()


def _spans(axes: Axes, data: pd.DataFrame, layer: Panel) -> None:
    """Upright lines at `x` from `low` to `high`."""
    axes.vlines(data[layer["x"]], data[layer["low"]], data[layer["high"]], color=GREY, linewidth=1)


def _level(axes: Axes, data: pd.DataFrame, layer: Panel) -> None:
    """A lying line at the number `y`."""
    axes.axhline(layer["y"], color=GREY, linewidth=1)


def _diagonal(axes: Axes, data: pd.DataFrame, layer: Panel) -> None:
    """The line on which both axes have the same value, up to the largest one of `y`."""
    most = 1.05 * float(data[[layer["y"]]].to_numpy().max())
    axes.plot([0.0, most], [0.0, most], color=GREY, linewidth=1)


def draw_lines(
    axes: Axes, table: pd.DataFrame, x: str, columns: Sequence[str] | None = None
) -> None:
    """Draw one line a column (all others if not given) over the column `x`, with a legend.

    Unknown values are left out. A line that others cover from end to end is drawn broader, so that
    it is seen behind them.
    """
    from matplotlib.ticker import MaxNLocator

    names = [str(name) for name in columns or [c for c in table.columns if c != x]]
    style = styles((name, name.lower()) for name in names)
    for place, name in enumerate(names):
        points = table[[x, name]].dropna()
        # later lines are drawn over earlier ones: one a step broader for each that hides it
        covers = sum(_same(table[name], table[other]) for other in names[place + 1 :])
        line = {**style[name].line, "markevery": markers(len(points))}
        if covers:
            line |= {"linewidth": 1.8 + 2.0 * covers, "markersize": 5.5 + 2.5 * covers}
        axes.plot(points[x], points[name], label=style[name].label, **line)
    locator = axes.xaxis.get_major_locator()
    if isinstance(locator, MaxNLocator) and all(float(place).is_integer() for place in table[x]):
        locator.set_params(integer=True)
    figure = axes.get_figure(root=True)
    if figure is not None and not figure.legends:
        legend(figure, axes)


def _same(one: pd.Series, other: pd.Series) -> bool:
    """Return whether one line is covered by another all along."""
    has_value = one.notna()
    away = (one[has_value] - other[has_value]).abs()
    most = float(one[has_value].abs().max()) if has_value.any() else 0.0
    return bool(has_value.any() and away.notna().all() and (away <= 5e-3 * most).all())


def draw_bars(axes: Axes, table: pd.DataFrame, names: str, values: str) -> None:
    """Draw one lying bar a row, from the top down, each with its value, of two columns."""
    places = range(len(table))
    axes.barh(places, table[values], color=COLORS[0], height=0.62)
    plots.rows(axes, [str(name) for name in table[names]])
    for place, value in zip(places, table[values], strict=True):
        axes.annotate(numbers.number(value), (value, place), (10, 0), textcoords="offset points",
                      va="center")  # fmt: skip
    axes.margins(x=0.12)


def tidy(figure: Figure) -> None:
    """Put legends that stand within axes beside them, once, and turn tick labels that touch."""
    handle_of: dict[str, Any] = {}
    for axes in figure.axes:
        if (inside := axes.get_legend()) is not None:
            handles, labels = axes.get_legend_handles_labels()
            handle_of = dict(zip(labels, handles, strict=True)) | handle_of
            inside.remove()
    if handle_of and not figure.legends:
        figure.legend(list(handle_of.values()), list(handle_of), loc="outside right upper")
    figure.draw_without_rendering()
    for axes in figure.axes:
        boxes = [t.get_window_extent() for t in axes.get_xticklabels() if t.get_text()]
        boxes.sort(key=lambda box: box.x0)  # an axis may run to the left
        if any(a.x1 + 2 > b.x0 for a, b in itertools.pairwise(boxes)):
            names = [t.get_text().replace("\n", " ") for t in axes.get_xticklabels()]
            limits = axes.get_xlim()
            axes.set_xticks(axes.get_xticks(), names)
            axes.set_xlim(limits)
            axes.tick_params(axis="x", rotation=90)


KINDS: Mapping[str, Callable[[Axes, pd.DataFrame, Panel], None]] = {
    "lines": _lines, "series": _series, "steps": _steps, "band": _band, "bars": _bars,
    "rows": _rows, "marks": _marks, "spans": _spans, "level": _level, "diagonal": _diagonal,
}  # fmt: skip
