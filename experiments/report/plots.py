"""The drawings of the report; each takes plain numbers and returns a `Drawing`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from experiments.report.document import Drawing
from streamplace.present.drawing import (
    INK,
    canvas,
    legend,
    log_scale,
    markers,
    rows,
    to_svg,
    zero_and_log_scale,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from experiments.report.profile import Profile
    from streamplace.present.drawing import Style

    Line = Sequence[tuple[float, float | None]]

_WIDTH = 10.0
_MOST_POINTS = 400
_NEAR = 1.3
"""Ratios up to this are shown on a plain axis."""
_WIDE = 5.0
"""Axes that span more than this factor are logarithmic."""


def spread_plot(
    values: Mapping[str, Sequence[float]], style: Mapping[str, Style], label: str
) -> Drawing:
    """Draw one row of dots a contestant, a dot a case, and their mean as a bar.

    Parameters
    ----------
    values
        By contestant, from the top down.
    style
        By contestant.
    label
        Label of the axis, with unit.
    """
    names = list(values)
    with canvas(size=(_WIDTH, 1.0 + 0.34 * len(names))) as (figure, axes):
        for number, name in enumerate(names):
            found = _thinned(values[name])
            axes.plot(
                found,
                [number] * len(found),
                linestyle="none",
                marker="o",
                markersize=7,
                color=style[name].color,
                alpha=0.45,
                markeredgewidth=0,
                clip_on=False,
            )
            mean = math.fsum(values[name]) / len(values[name])
            axes.plot(
                [mean, mean],
                [number - 0.34, number + 0.34],
                color=INK,
                linewidth=2.2,
                solid_capstyle="butt",
                clip_on=False,
            )
        rows(axes, [style[name].label for name in names])
        axes.set_xlabel(label)
        return Drawing(figure, to_svg(figure), f"{label}: one dot a case, for each method")


def interval_plot(
    values: Mapping[str, tuple[float, float, float]],
    style: Mapping[str, Style],
    label: str,
) -> Drawing:
    """Draw a mean with its interval, one row a contestant, beside a line at 0.

    Parameters
    ----------
    style, label
        As in `spread_plot`.
    values
        By contestant, from the top down: mean, low, high.
    """
    names = list(values)
    with canvas(size=(_WIDTH, 1.0 + 0.34 * len(names))) as (figure, axes):
        axes.axvline(0.0, color=INK, linewidth=1.0)
        for number, name in enumerate(names):
            mean, low, high = values[name]
            axes.plot([low, high], [number, number], color=style[name].color, linewidth=3)
            axes.plot([mean], [number], color=style[name].color, marker="o", markersize=8)
        rows(axes, [style[name].label for name in names])
        axes.set_xlabel(label)
        return Drawing(figure, to_svg(figure), f"{label}: mean and 95 % interval, for each method")


def profile_plot(
    profiles: Sequence[Profile], style: Mapping[str, Style], label: str, start: float
) -> Drawing:
    """Draw performance profiles as steps.

    Parameters
    ----------
    style, label
        As in `spread_plot`.
    profiles
        What to draw.
    start
        The best possible ratio, at the left: 1, or 0 for differences.
    """
    most = max((max(p.ratios, default=start) for p in profiles), default=start)
    logarithmic = start > 0 and most > _NEAR
    end = most * 1.12 if logarithmic else most + 0.04 * max(most - start, 0.1)
    with canvas(size=(_WIDTH, 4.4)) as (figure, axes):
        for profile in profiles:
            steps = [(start, profile.at(start))]
            steps += [
                (r, s) for r, s in zip(profile.ratios, profile.shares, strict=True) if r > start
            ]
            steps = [*_thinned(steps), (end, profile.total)]
            axes.plot(
                [x for x, _ in steps],
                [100 * y for _, y in steps],
                drawstyle="steps-post",
                label=style[profile.contestant].label,
                **style[profile.contestant].line,
                markevery=markers(len(steps) - 1),
            )
        if logarithmic:
            log_scale(axes, "x")
        axes.set_xlim(start if logarithmic else start - 0.015 * (end - start), end)
        axes.set_ylim(-3, 103)
        axes.set_xlabel(label)
        axes.set_ylabel("share of cases (%)")
        legend(figure, axes)
        return Drawing(figure, to_svg(figure), f"Performance profile: share of cases by {label}")


def line_plot(
    lines: Mapping[str, Line],
    style: Mapping[str, Style],
    labels: tuple[str, str],
    *,
    steps: bool = False,
    logarithmic: bool = False,
) -> Drawing:
    """Draw gaps as lines: by time (as steps) or by size.

    The upward axis is linear up to 1 and logarithmic beyond, so that both a closed gap and a wide
    one can be read.

    Parameters
    ----------
    style
        As in `spread_plot`.
    lines
        By contestant, pairs of place and gap; unknown gaps are left out.
    labels
        Labels of the two axes, with units.
    steps
        Whether a value holds until the next one.
    logarithmic
        Whether the axis to the right is.
    """
    with canvas(size=(_WIDTH, 4.4)) as (figure, axes):
        most = 1.0
        for name, line in lines.items():
            known = [(x, y) for x, y in line if y is not None]
            most = max([most, *(y for _, y in known)])
            axes.plot(
                [x for x, _ in known],
                [y for _, y in known],
                drawstyle="steps-post" if steps else "default",
                label=style[name].label,
                markevery=markers(len(known)),
                **style[name].line,
            )
        zero_and_log_scale(axes, most)
        if logarithmic:
            log_scale(axes, "x")
        axes.set_xlabel(labels[0])
        axes.set_ylabel(labels[1])
        legend(figure, axes)
        return Drawing(figure, to_svg(figure), f"{labels[1]} by {labels[0]}, one line a method")


def is_wide(values: Sequence[float]) -> bool:
    """Whether positive values span so much that an axis should be logarithmic."""
    return bool(values) and min(values) > 0 and max(values) / min(values) > _WIDE


def _thinned(points: Sequence[Any]) -> Sequence[Any]:
    """Return as many points as can be told apart, evenly chosen, the ends among them."""
    count = len(points)
    if count <= _MOST_POINTS:
        return points
    return [points[k * (count - 1) // (_MOST_POINTS - 1)] for k in range(_MOST_POINTS)]
