"""Figures of the papers' pages: texts lie beside each other, and beside the data."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pytest
from matplotlib.text import Annotation, Text

from experiments.studies.papers import all_figures
from experiments.studies.papers.charts import tidy
from experiments.studies.papers.tables import load_table
from streamplace.present.plots import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing
    from matplotlib.lines import Line2D
    from matplotlib.transforms import Bbox

    from experiments.studies.papers.figure import Figure

SLACK = 1.0
"""Pixels by which boxes may touch: they are higher than what is written in them."""

DRAWN = [figure for figure in all_figures() if not figure.keeps_sentences]
"""Those that are drawn from their stored table."""


def texts_of(drawing: Drawing) -> list[tuple[Text, Bbox]]:
    """Return every text that is seen, with its box."""
    drawing.draw_without_rendering()
    ticks = {
        label
        for axes in drawing.axes
        for axis in (axes.xaxis, axes.yaxis)
        for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks())
        for label in (tick.label1, tick.label2)
    }
    shown = {
        label
        for axes in drawing.axes
        for axis in (axes.xaxis, axes.yaxis)
        for label in (*axis.get_ticklabels(), *axis.get_ticklabels(minor=True))
        if axis.get_view_interval()[0] - 1e-9
        <= label.get_position()["xy".index(axis.axis_name)]
        <= axis.get_view_interval()[1] + 1e-9
    }
    found = drawing.findobj(Text)
    return [
        (text, text.get_window_extent())
        for text in dict.fromkeys(found)
        if text.get_visible() and text.get_text().strip() and (text not in ticks or text in shown)
    ]


def hits(a: Bbox, b: Bbox) -> bool:
    """Return whether boxes have more than their edges in common."""
    return min(a.x1, b.x1) - max(a.x0, b.x0) > SLACK and min(a.y1, b.y1) - max(a.y0, b.y0) > SLACK


def overlaps(drawing: Drawing) -> list[str]:
    """Return what lies on something else: texts on texts, and texts beside the data on the data."""
    texts = texts_of(drawing)
    found = [
        f"{a.get_text()!r} on {b.get_text()!r}"
        for (a, first), (b, second) in combinations(texts, 2)
        if hits(first, second)
    ]
    for text, box in texts:
        inside = [axes for axes in drawing.axes if text in axes.texts]
        found += [
            f"{text.get_text()!r} on the data"
            for axes in drawing.axes
            if axes not in inside and hits(box, axes.get_window_extent())
        ]
        found += [f"{text.get_text()!r} on a bar" for axes in inside if _on_a_bar(text, box, axes)]
        page = drawing.bbox
        if box.x0 < page.x0 or box.x1 > page.x1 or box.y0 < page.y0 or box.y1 > page.y1:
            found.append(f"{text.get_text()!r} outside the figure")
    return found


def _on_a_bar(text: Text, box: Bbox, axes: Axes) -> bool:
    return isinstance(text, Annotation) and any(
        hits(box, bar.get_window_extent()) for bar in axes.patches
    )


def turns(line: Line2D) -> bool:
    """Return whether a line goes to the right and to the left: its points are in no order."""
    steps = np.diff(line.get_xdata(orig=False))
    return line.get_linestyle() != "None" and bool((steps > 0).any() and (steps < 0).any())


@pytest.mark.parametrize("figure", DRAWN, ids=lambda figure: figure.name)
def test_texts_lie_beside_each_other_and_beside_the_data_and_lines_do_not_turn(
    figure: Figure,
) -> None:
    paper, _, name = figure.name.partition("/")
    with canvas(len(figure.panels), figure.title) as (drawing, axes):
        figure.plot(load_table(paper.replace("-", "_"), name), axes)
        tidy(drawing)
        assert overlaps(drawing) == []
        lines = [line for one in drawing.axes for line in one.get_lines()]
        assert [line.get_label() for line in lines if turns(line)] == []


@pytest.mark.parametrize(
    "figure",
    [figure for figure in all_figures() if figure.stored],
    ids=lambda figure: figure.name,
)
def test_figures_of_stored_tables_are_what_their_queries_say(figure: Figure) -> None:
    paper, _, name = figure.name.partition("/")
    paper = paper.replace("-", "_")
    made = figure.table({table: load_table(paper, table) for table in figure.stored})
    stored = load_table(paper, name)
    assert list(made.columns) == list(stored.columns)
    for column in made:
        if str(column).endswith("(s)"):  # another run has other times
            continue
        if stored[column].dtype.kind in "iuf":
            assert made[column].tolist() == pytest.approx(stored[column].tolist(), nan_ok=True)
        else:
            assert made[column].tolist() == stored[column].tolist()


def test_what_overlaps_is_found() -> None:
    with canvas(1, "Title") as (drawing, axes):
        axes.bar([0, 1], [1, 2])
        axes.set_xlabel("label")
        assert overlaps(drawing) == []
        drawing.set_layout_engine("none")
        drawing.text(0.5, 0.5, "in the data")
        drawing.text(0.99, 0.5, "too far to the right")
        axes.annotate("value", (0, 0.5), ha="center")
        axes.text(0.5, 1.5, "one")
        axes.text(0.5, 1.5, "two")
        assert overlaps(drawing) == [
            "'one' on 'two'",
            "'value' on a bar",
            "'in the data' on the data",
            "'too far to the right' on the data",
            "'too far to the right' outside the figure",
        ]
