"""The one look of figures: colours, legends, ticks, and the same bytes for the same figure."""

from __future__ import annotations

import itertools

import pytest

from streamplace.present.plots import (
    COLORS,
    canvas,
    log_scale,
    styles,
    to_pdf,
    to_png,
    to_svg,
    zero_and_log_scale,
)


def test_a_method_has_one_colour_whatever_it_is_compared_with() -> None:
    alone = styles([("flux", "flux")])["flux"].color
    pairs = [(name, name) for name in ("mine", "imc-exact", "flux", "imc-milp", "top-down")]
    assert styles(pairs)["flux"].color == alone
    found = styles([*pairs, ("imc-milp [cbc]", "imc-milp")])
    assert len({found[name].color for name, _ in pairs}) == len(pairs)
    variants = found["imc-milp"], found["imc-milp [cbc]"]
    assert variants[0].color == variants[1].color
    assert variants[0].dashes != variants[1].dashes


def test_methods_of_one_colour_are_told_apart_where_they_meet() -> None:
    found = styles([("imc-exact", "imc-exact"), ("albic", "albic")])
    assert found["imc-exact"].color == COLORS[0] != found["albic"].color
    many = styles((f"m{k}", f"m{k}") for k in range(30))
    assert len({(s.color, s.marker) for s in many.values()}) == 30


@pytest.mark.parametrize("most", [1.0, 3.0, 50.0, 4e3, 1e7])
def test_written_ticks_of_logarithmic_axes_do_not_touch(most: float) -> None:
    with canvas() as (figure, axes):
        axes.plot([1.0, 10.0, most * 10], [0.0, 0.5, most])
        log_scale(axes, "x")
        zero_and_log_scale(axes, most)
        figure.draw_without_rendering()
        for labels, sides in (
            (axes.get_xticklabels(), ("x1", "x0")),
            (axes.get_yticklabels(), ("y1", "y0")),
        ):
            boxes = [t.get_window_extent() for t in labels if t.get_text()]
            pairs = itertools.pairwise(sorted(boxes, key=lambda box: box.x0 + box.y0))
            assert all(getattr(a, sides[0]) <= getattr(b, sides[1]) + 1 for a, b in pairs)


def test_the_same_figure_is_the_same_bytes() -> None:
    def made() -> tuple[str, bytes, bytes]:
        with canvas() as (figure, axes):
            axes.plot([2, 4, 6], [1.0, 2.0, 3.0], color=COLORS[0])
            return to_svg(figure, "a <title>"), to_pdf(figure), to_png(figure)

    svg, pdf, png = made()
    assert (svg, pdf, png) == made()
    assert "<title>a &lt;title&gt;</title>" in svg and COLORS[0] in svg
    assert pdf.startswith(b"%PDF") and png.startswith(b"\x89PNG")
