"""The picture of a replay: one panel a quantity, one line a policy, as the paper draws it."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

PANELS = (
    ("load_distance_next", "load distance met"),
    ("collocation_factor", "collocation factor"),
    ("load_index", "load index"),
    ("migrations", "migrations"),
    ("nodes", "nodes"),
)

_LEGEND_WIDTH = 120
"""Characters beside one another above the panels."""

_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8c6d00", "#56b4e9", "#333333")
_DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))


def draw(rows: Mapping[str, Sequence[dict[str, Any]]], title: str) -> str:
    """Return the drawing as SVG, the same bytes for the same rows.

    Parameters
    ----------
    rows
        Of each policy, in order.
    title
        Above the panels.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    shown = [panel for panel in PANELS if any(r[panel[0]] is not None for r in _all(rows))]
    with mpl.rc_context():
        mpl.rcParams.update(mpl.rcParamsDefault)
        mpl.rcParams.update(
            {"svg.hashsalt": "replay", "svg.fonttype": "none", "text.parse_math": False}
        )
        columns = max(1, _LEGEND_WIDTH // (6 + max(map(len, rows), default=0)))
        lines = -(-len(rows) // columns)
        height = 1.0 + 0.2 * lines + 1.7 * len(shown)
        figure = Figure(figsize=(9.0, height), layout="constrained")
        FigureCanvasSVG(figure)
        grid = figure.subplots(len(shown), 1, sharex=True, squeeze=False)
        for place, (key, label) in enumerate(shown):
            _panel(grid[place][0], rows, key, label)
        grid[-1][0].set_xlabel("period")
        handles, labels = grid[0][0].get_legend_handles_labels()
        figure.legend(
            handles, labels, title=title, loc="outside upper center", ncols=columns, fontsize=9,
            frameon=False,
        )  # fmt: skip
        buffer = io.StringIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(buffer, format="svg", metadata=nothing)
    return buffer.getvalue()


def _panel(axes: Axes, rows: Mapping[str, Sequence[dict[str, Any]]], key: str, label: str) -> None:
    for number, (policy, mine) in enumerate(rows.items()):
        known = [(row["period"], row[key]) for row in mine if row[key] is not None]
        axes.plot(
            [x for x, _ in known],
            [y for _, y in known],
            color=_COLORS[number % len(_COLORS)],
            linestyle=_DASHES[number // len(_COLORS) % len(_DASHES)],
            marker="o" if len(known) < 30 else None,
            markersize=3,
            linewidth=1.4,
            label=policy,
        )
    axes.set_ylabel(label, fontsize=9)
    axes.set_ylim(bottom=0)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def _all(rows: Mapping[str, Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [row for mine in rows.values() for row in mine]
