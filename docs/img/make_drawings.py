"""Draw what a placement, a drain, the format and the referee are: ``docs/img/drawing-*.svg``.

Run as ``python docs/img/make_drawings.py [FOLDER]``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from streamplace.present.plots import COLORS, INK, canvas, to_svg

BLUE, ORANGE, GREEN, GREY = COLORS[0], COLORS[1], COLORS[2], COLORS[6]
PALE = "#f3f5f8"


class Sheet:
    """A drawing on a grid of 100 units an inch and a half, the origin at the top left."""

    def __init__(self, axes: Any, width: float, height: float) -> None:
        self.axes = axes
        axes.set(xlim=(0, width), ylim=(height, 0), aspect="equal")
        axes.axis("off")

    def box(
        self, x: float, y: float, width: float, height: float, text: str = "", **look: Any
    ) -> None:
        """Draw a box with a title (`at` its top) or a text in its middle."""
        edge, fill = look.get("edge", INK), look.get("fill", "white")
        style = FancyBboxPatch(
            (x, y), width, height, boxstyle="round,pad=0,rounding_size=6",
            ec=edge, fc=fill, lw=1.2, ls=look.get("dashes", "-"),
        )  # fmt: skip
        self.axes.add_patch(style)
        top = look.get("at") == "top"
        self.text(x + width / 2, y + (14 if top else height / 2), text, color=look.get("ink", INK))

    def text(self, x: float, y: float, text: str, **look: Any) -> None:
        """Write a text in the middle of a point, or from it on (`ha="left"`)."""
        self.axes.text(x, y, text, **{"ha": "center", "va": "center", "size": 9.5, **look})

    def arrow(
        self, start: tuple[float, float], end: tuple[float, float], color: str = INK, **look: Any
    ) -> None:
        """Draw an arrow, bent by `bend`."""
        self.axes.add_patch(
            FancyArrowPatch(
                start, end, arrowstyle=look.get("head", "-|>"), mutation_scale=11, color=color,
                lw=look.get("width", 1.4), ls=look.get("dashes", "-"), shrinkA=0, shrinkB=0,
                connectionstyle=f"arc3,rad={look.get('bend', 0)}",
            )
        )  # fmt: skip

    def task(self, x: float, y: float, name: str, color: str = BLUE, dashes: str = "-") -> None:
        """Draw a task."""
        fill = "white" if dashes != "-" else color
        ink = color if dashes != "-" else "white"
        self.box(x, y, 64, 26, name, edge=color, fill=fill, ink=ink, dashes=dashes)


def placement(sheet: Sheet) -> None:
    """Tasks on nodes; traffic inside a node is free, between nodes it takes links."""
    for k, (name, load) in enumerate((("n1", "cpu 90 / 100"), ("n2", "cpu 70 / 100"))):
        x = 20 + 300 * k
        sheet.box(x, 20, 220, 150, f"node {name}", fill=PALE, at="top")
        sheet.box(x + 16, 148, 188, 9, edge=GREY)
        share = 0.9 if k == 0 else 0.7
        sheet.box(x + 16, 148, 188 * share, 9, edge=GREY, fill=GREY)
        sheet.text(x + 110, 136, load, color=GREY, size=8.5)
    sheet.task(40, 50, "map/0")
    sheet.task(155, 50, "sink/0", GREEN)
    sheet.task(40, 95, "map/1")
    sheet.task(360, 72, "sink/1", GREEN)
    sheet.arrow((104, 63), (155, 63), GREEN, width=2.2)
    sheet.text(130, 54, "8 MB/s", size=8, color=GREEN)
    sheet.arrow((104, 108), (360, 88), ORANGE, width=2.2)
    sheet.text(280, 108, "3 MB/s", size=8, color=ORANGE)
    sheet.text(130, 190, "inside a node: collocated", color=GREEN)
    sheet.text(400, 190, "between nodes: crosses the network", color=ORANGE)


def drain(sheet: Sheet) -> None:
    """A leaving node is emptied; every step on the way keeps all rules."""
    names = ("n1", "n2", "n3 leaving")
    for k, name in enumerate(names):
        leaving = k == 2
        sheet.box(
            20 + 180 * k, 20, 150, 130, f"node {name}", fill=PALE, at="top",
            edge=ORANGE if leaving else INK, dashes="--" if leaving else "-",
        )  # fmt: skip
    sheet.task(63, 42, "a")
    sheet.task(243, 42, "b")
    sheet.task(63, 76, "c", GREEN)
    sheet.task(243, 110, "d", GREEN)
    sheet.task(423, 76, "c", GREEN, "--")
    sheet.task(423, 110, "d", GREEN, "--")
    sheet.arrow((423, 89), (127, 89), GREEN)
    sheet.arrow((423, 123), (307, 123), GREEN)
    sheet.text(329, 82, "batch 1", size=8, color=GREEN)
    sheet.text(329, 116, "batch 2", size=8, color=GREEN)
    sheet.text(
        275,
        172,
        "2 moves of a budget of 2; batches are ordered so that no rule is violated on the way",
    )


def format_(sheet: Sheet) -> None:
    """What an instance file holds, and what comes out."""
    sheet.box(20, 20, 250, 200, "instance (JSON)", fill=PALE, at="top")
    lines = (
        ("nodes", "capacity, slots, rack, leaving"),
        ("operators, tasks", "load, state, node now"),
        ("streams, traffic", "rate from task to task"),
        ("sets", "apart, together, spread"),
        ("links", "shared lines, capacity"),
        ("limits", "budgets of moves, utilisation"),
    )
    for k, (name, what) in enumerate(lines):
        sheet.text(34, 48 + 28 * k, name, ha="left", weight="bold", size=9)
        sheet.text(34, 60 + 28 * k, what, ha="left", size=8, color=GREY)
    sheet.arrow((270, 120), (340, 120))
    sheet.text(305, 110, "solve", size=8.5)
    sheet.box(340, 75, 190, 90, "plan (JSON)", fill=PALE, at="top")
    sheet.text(354, 108, "assignment", ha="left", weight="bold", size=9)
    sheet.text(354, 122, "task → node (and slot)", ha="left", size=8, color=GREY)
    sheet.text(354, 142, "sha256 of the instance", ha="left", size=8, color=GREY)


def referee(sheet: Sheet) -> None:
    """Whatever makes a plan, the referee recomputes it from instance and plan alone."""
    for k, name in enumerate(
        ("exact models on four solvers", "published heuristics", "searches, your own method")
    ):
        sheet.box(20, 20 + 50 * k, 200, 34, name, fill=PALE)
        sheet.arrow((220, 37 + 50 * k), (280, 87))
    sheet.text(250, 40, "plan", size=8.5)
    sheet.box(280, 50, 150, 74, "referee", edge=BLUE, fill="white", at="top")
    sheet.text(355, 86, "instance + plan alone", size=8, color=GREY)
    sheet.text(355, 102, "rules and figures", size=8, color=GREY)
    sheet.arrow((430, 70), (490, 50), GREEN)
    sheet.arrow((430, 104), (490, 124), ORANGE)
    sheet.box(490, 30, 170, 40, "evaluation\nevery figure", edge=GREEN)
    sheet.box(490, 104, 170, 40, "refused\nrule, place, amount", edge=ORANGE)
    sheet.text(
        340,
        186,
        "bounds are separate: a solver's claim, or a certificate that anyone can check",
        color=GREY,
    )


DRAWINGS = {
    "placement": (placement, 560, 205),
    "drain": (drain, 550, 185),
    "format": (format_, 550, 235),
    "referee": (referee, 680, 200),
}


def main() -> None:
    """Write all drawings into a folder, this one if not given."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    for name, (draw, width, height) in DRAWINGS.items():
        with canvas(size=(width / 75, height / 75)) as (figure, axes):
            draw(Sheet(axes, width, height))
            path = folder / f"drawing-{name}.svg"
            path.write_text(to_svg(figure, name), encoding="utf-8")


if __name__ == "__main__":
    main()
