"""Drawing of papers' figures: legends, ticks, lines and bars."""

from __future__ import annotations

import itertools

import pandas as pd
import pytest

from experiments.studies.papers.charts import draw_bars, draw_lines, tidy
from streamplace.present.plots import canvas, to_svg

LINES = pd.DataFrame({"nodes": [2, 4, 6], "ALBIC": [1.0, 2.0, 3.0], "COLA": [3.0, None, 1.0]})


@pytest.mark.parametrize("inside", [True, False])
def test_legends_stand_beside_the_data(inside: bool) -> None:
    with canvas(2, "two panels") as (figure, panels):
        for panel in panels:
            draw_lines(panel, LINES, "nodes")
            if inside:
                panel.legend()
        tidy(figure)
        (legend,) = figure.legends
        assert not any(panel.get_legend() for panel in panels)
        assert [text.get_text() for text in legend.get_texts()] == ["ALBIC", "COLA"]
        figure.draw_without_rendering()
        right = max(panel.get_window_extent().x1 for panel in panels)
        assert legend.get_window_extent().x0 >= right
        assert all(float(tick).is_integer() for tick in panels[0].get_xticks())


def test_tick_labels_that_touch_are_turned() -> None:
    names = [f"a long name\n{k}" for k in range(20)]
    with canvas() as (figure, axes):
        axes.bar(range(20), range(20))
        axes.set_xticks(range(20), names)
        tidy(figure)
        figure.draw_without_rendering()
        boxes = [label.get_window_extent() for label in axes.get_xticklabels()]
        assert all(a.x1 <= b.x0 for a, b in itertools.pairwise(boxes))
        assert axes.get_xticklabels()[3].get_text() == "a long name 3"


def test_tick_labels_of_an_axis_to_the_left_are_not_turned() -> None:
    with canvas() as (figure, axes):
        axes.plot([2.0, 1.0], [1.0, 2.0])
        axes.invert_xaxis()
        tidy(figure)
        assert {label.get_rotation() for label in axes.get_xticklabels()} == {0}


def test_a_line_behind_others_is_seen() -> None:
    table = pd.DataFrame({"x": [0, 1, 2], "a": [1.0, 2, 3], "b": [1.0, 2, 3], "c": [1.0, 2, 9]})
    with canvas() as (_, axes):
        draw_lines(axes, table, "x")
        first, second, third = (line.get_linewidth() for line in axes.lines)
        assert first > second == third


def test_bars_carry_their_values() -> None:
    with canvas() as (drawing, axes):
        draw_bars(axes, pd.DataFrame({"m": ["TD", "TL"], "v": [93.1, 85.9]}), "m", "v")
        svg = to_svg(drawing)
    assert ">93.1<" in svg and ">TL<" in svg


def test_unknown_values_break_no_line() -> None:
    table = pd.DataFrame({"x": [1, 2, 3], "TD": [1.0, None, 3.0]})
    with canvas() as (_, axes):
        draw_lines(axes, table, "x")
        assert list(axes.lines[0].get_xdata()) == [1, 3]
