"""The figures of the report: performance profiles, gaps over time and by size, spreads."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.report.document import Drawing, Figure, Section, slug
from experiments.report.tables import OBJECTIVES, WORDS, gap_words, mark
from optim.figures import catalogue
from streamplace.present.drawing import (
    INK,
    canvas,
    legend,
    log_scale,
    markers,
    rows,
    styles,
    to_svg,
    zero_and_log_scale,
)
from streamplace.present.table import Column, Kind, Table, row, with_unit

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from experiments.report.database import Columns
    from experiments.report.findings import Findings, MetricFindings
    from experiments.report.tables import MetricWords
    from streamplace.present.drawing import Style

    Line = Sequence[tuple[float, float | None]]

_SAME = 1e-6
"""Ratios this close to the best count as the best."""


@dataclass(frozen=True)
class Profile:
    """The profile of one contestant, a step function.

    Attributes
    ----------
    contestant
        Whose it is.
    ratios
        Where it steps, ascending.
    shares
        Its value from each step on.
    """

    contestant: str
    ratios: tuple[float, ...]
    shares: tuple[float, ...]

    def at(self, ratio: float) -> float:
        """Return the share of cases within `ratio` of the best."""
        reached = 0.0
        for step, share in zip(self.ratios, self.shares, strict=True):
            if step > ratio * (1 + _SAME) + _SAME:
                break
            reached = share
        return reached

    @property
    def total(self) -> float:
        """The share of cases solved at all."""
        return self.shares[-1] if self.shares else 0.0


def profiles(
    ratios: Columns, names: Sequence[str], num_cases: int, contestants: Container[str] | None = None
) -> list[Profile]:
    """Return the profiles of all contestants that solve a case, the best at the left first.

    ρ(τ) is the share of cases with r ≤ τ, where r is the ratio (or difference) of a run to the
    best known on its case. A run among several on one case (its seeds) counts as its part of it,
    and a case without a ratio counts as not solved.

    Parameters
    ----------
    ratios
        Columns ``contestant``, ``ratio``, ``runs`` (how many have this ratio) and ``tries`` (how
        many runs the contestant had on the case).
    names
        The contestants.
    num_cases
        Number of cases in the profile, the same for all contestants.
    contestants
        Whose profiles; all if not given.
    """
    if not num_cases:
        return []
    who, ratio, runs, tries = (ratios[n] for n in ("contestant", "ratio", "runs", "tries"))
    found = []
    for number, name in enumerate(names):
        mine = who == number
        if mine.any() and (contestants is None or name in contestants):
            steps, place = np.unique(ratio[mine], return_inverse=True)
            parts = np.bincount(place, weights=runs[mine] / tries[mine])
            shares = np.minimum(parts.cumsum() / num_cases, 1.0)
            found.append(Profile(name, tuple(steps.tolist()), tuple(shares.tolist())))
    found.sort(key=lambda profile: (-_area(profile), profile.contestant))
    return found


def _area(profile: Profile) -> float:
    """Return a rank: cases solved, each counted the less the farther it is from the best."""
    before, area = 0.0, 0.0
    for ratio, share in zip(profile.ratios, profile.shares, strict=True):
        area += (share - before) / (1.0 + max(0.0, ratio))
        before = share
    return area


# -- drawings of plain numbers ---------------------------------------------------------------------

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


# -- figures, each with the table of its numbers ---------------------------------------------------

MOST_LINES = 12
"""More lines than these cannot be told apart; the table holds them all."""

NUMBERS = "The numbers"

_RATIOS = (1.0, 1.01, 1.05, 1.1, 1.25, 1.5, 2.0)
_TIME_RATIOS = (1.0, 2.0, 5.0, 10.0, 100.0, 1000.0)
_PERCENTS = (0.0, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0)


def figure_section(findings: Findings) -> Section:
    """Return the figures: spread, profiles, gap over time, gap by size."""
    style = contestant_styles(findings)
    figures: list[Figure | None] = []
    for metric in findings.metrics:
        marked = {
            name: replace(style[name], label=f"{style[name].label} {mark(findings, metric, name)}")
            for name in metric.order
        }
        rivals = competing(findings, metric)
        figures += [
            spread_figure(metric, marked),
            profile_figure(metric, findings.names, rivals, marked),
            proof_figure(metric, findings.names, marked),
            size_figure(metric, rivals, marked),
        ]
        figures.append(anytime_figure(findings, metric.name, style))
    shown = {metric.name for metric in findings.metrics}
    for objective in sorted({item["objective_name"] for item in findings.anytime} - shown):
        figures.append(anytime_figure(findings, objective, style))
    return Section(
        "figures",
        "Figures",
        "Every figure has its numbers below it. A method is drawn alike in all of them; † marks "
        "one that does not optimise what is drawn.",
        figures=tuple(figure for figure in figures if figure is not None),
    )


def contestant_styles(findings: Findings) -> dict[str, Style]:
    """Return how contestants are drawn; those that open the report get the first colours."""
    order = list(dict.fromkeys(name for metric in findings.metrics for name in metric.order))
    order += [name for name in findings.contestants if name not in order]
    return styles((name, findings.contestants[name]["method"]) for name in order)


def competing(findings: Findings, metric: MetricFindings) -> list[str]:
    """Return who is compared on a metric: methods that optimise it, and those that do nothing.

    A method that optimises something else would only fill the figure with what it was never
    asked for; one without an objective is what a cluster does by itself.
    """
    same = WORDS[metric.name].same
    objectives = {name: findings.contestants[name]["objective_name"] for name in metric.order}
    return [name for name in metric.order if objectives[name] is None or objectives[name] in same]


def spread_figure(metric: MetricFindings, style: Mapping[str, Style]) -> Figure | None:
    """Return how far each method's plans lie from the optimum, a dot a case."""
    words = WORDS[metric.name]
    values: dict[str, list[float]] = {}
    for name in metric.order:
        gaps = metric.cells.values(name, "gap_optimum")
        known = [gap for gap in gaps if gap is not None]
        if known:
            values[name] = sorted(1 - gap if words.relative else gap for gap in known)
    if not values:
        return None
    name = words.heading.lower()
    if words.relative:
        title, label = f"{words.heading} against the optimum", f"{name} (% of the optimum)"
    else:
        title, label = (
            f"{words.heading} above the optimum",
            f"{name} above it (% {words.of_mean})",
        )
    key = f"{words.slug}-spread"
    shown = {
        who: [100 * value for value in found]
        for who, found in list(values.items())[: 2 * MOST_LINES]
    }
    return Figure(
        key,
        title,
        spread_plot(shown, style, label),
        _spread_table(key, words, values),
        "A dot is a case with an optimum (mean over its seeds); the bar is the mean.",
    )


def _spread_table(key: str, words: MetricWords, values: Mapping[str, Sequence[float]]) -> Table:
    kind: Kind = "share" if words.relative else "gap"
    columns = (
        Column("method", "Method", "name"),
        Column("cases", "Cases", "count"),
        Column("least", "Least", kind),
        Column("median", "Median (lower)", kind),
        Column("mean", "Mean", kind),
        Column("most", "Most", kind),
    )
    rows = [
        row(
            name,
            len(found),
            found[0],
            found[(len(found) - 1) // 2],
            math.fsum(found) / len(found),
            found[-1],
        )
        for name, found in values.items()
    ]
    return Table(key, NUMBERS, columns, tuple(rows))


def profile_figure(
    metric: MetricFindings,
    names: Sequence[str],
    rivals: Sequence[str],
    style: Mapping[str, Style],
) -> Figure | None:
    """Return the performance profile of the plans' quality."""
    words = WORDS[metric.name]
    found = profiles(metric.ratios, names, metric.num_measured, rivals)
    if not found:
        return None
    key, name = f"{words.slug}-profile", words.heading.lower()
    if words.relative:
        label, best = f"best known {name} / own", "within this ratio to"
    else:
        label = f"{name} above the best known (% {words.of_mean})"
        best = f"within this part {words.of_mean} of"
        found = [replace(one, ratios=tuple(100 * r for r in one.ratios)) for one in found]
    table = _profile_table(key, found, words.relative)
    return Figure(
        key,
        f"Performance profile: {name}",
        profile_plot(found[:MOST_LINES], style, label, 1.0 if words.relative else 0.0),
        table,
        f"The share of the {metric.num_measured} cases on which a method comes {best} the best "
        "plan of any (Dolan and Moré 2002). Higher is better; where a line ends at the right is "
        f"the share of cases with a feasible plan.{_left_out(found)}",
    )


def proof_figure(
    metric: MetricFindings, names: Sequence[str], style: Mapping[str, Style]
) -> Figure | None:
    """Return the performance profile of the times to a proof of optimality."""
    words = WORDS[metric.name]
    found = profiles(metric.proof_ratios, names, metric.num_proved)
    if len(found) < 2:
        return None
    key = f"{words.slug}-proof-profile"
    return Figure(
        key,
        f"Performance profile: time to the proof of the optimal {words.heading.lower()}",
        profile_plot(found[:MOST_LINES], style, "time / time of the fastest proof", 1.0),
        _profile_table(key, found, steps=_TIME_RATIOS),
        f"The share of the {metric.num_proved} cases with an optimum that a method ended at "
        f"within this ratio to the fastest proof. Only exact methods.{_left_out(found)}",
    )


def _left_out(found: Sequence[object]) -> str:
    if len(found) <= MOST_LINES:
        return ""
    return f" Drawn are the best {MOST_LINES} of {len(found)}; the table has all."


def _profile_table(
    key: str, found: Sequence[Profile], relative: bool = True, steps: Sequence[float] = ()
) -> Table:
    steps = steps or (_RATIOS if relative else _PERCENTS)
    columns = (
        Column("method", "Method", "name"),
        *(
            Column(f"within_{step:g}", f"×{step:g}" if relative else f"+{step:g} %", "share")
            for step in steps
        ),
        Column("any", "at all", "share"),
    )
    rows = [
        row(profile.contestant, *(profile.at(step) for step in steps), profile.total)
        for profile in found
    ]
    return Table(key, f"{NUMBERS}: share of cases within", columns, tuple(rows))


def anytime_figure(findings: Findings, objective: str, style: Mapping[str, Style]) -> Figure | None:
    """Return the gap to the best bound over time, on one objective."""
    lines: dict[str, list[tuple[float, float | None]]] = {}
    for item in findings.anytime:
        if item["objective_name"] == objective:
            gap = item["gap"]
            shown = None if gap is None else 100 * gap
            lines.setdefault(item["contestant"], []).append((item["moment"], shown))
    lines = {name: line for name, line in lines.items() if any(gap is not None for _, gap in line)}
    if not lines:
        return None
    first = min(x for line in lines.values() for x, gap in line if gap is not None)
    # ranked by what is left at the end, then by who came there first
    order = sorted(lines, key=lambda name: (lines[name][-1][1], _settled(lines[name]), name))
    drawn = {name: [(x, y) for x, y in lines[name] if x >= first] for name in order[:MOST_LINES]}
    name = OBJECTIVES.get(objective, objective)
    key = f"anytime-{slug(objective)}"
    found = catalogue.OBJECTIVES.get(objective)
    told = gap_words(found) if found else ""
    return Figure(
        key,
        f"Gap over time: {name}",
        line_plot(
            drawn,
            style,
            ("time (s)", "gap to the best bound (%)"),
            steps=True,
            logarithmic=True,
        ),
        _anytime_table(key, {n: lines[n] for n in order}),
        "The gap that at least half of a method's runs have reached after this time, among runs "
        "on cases with a bound; a line begins once half of the runs have a plan. Time is "
        f"building and solving. {told}".rstrip(),
    )


def _settled(line: Sequence[tuple[float, float | None]]) -> float:
    return next(x for x, gap in line if gap == line[-1][1])


def _anytime_table(key: str, lines: dict[str, list[tuple[float, float | None]]]) -> Table:
    moments = [x for x, _ in next(iter(lines.values())) if math.log10(x).is_integer()]
    columns = (
        Column("method", "Method", "name"),
        *(Column(f"after_{x:g}_s", with_unit(x, "duration"), "gap") for x in moments),
    )
    rows = []
    for name, line in lines.items():
        at = dict(line)
        gaps = (at[x] for x in moments)
        rows.append(row(name, *(None if gap is None else gap / 100 for gap in gaps)))
    return Table(key, f"{NUMBERS}: gap after", columns, tuple(rows))


def size_figure(
    metric: MetricFindings, rivals: Sequence[str], style: Mapping[str, Style]
) -> Figure | None:
    """Return the gap to the best bound by the number of tasks."""
    words = WORDS[metric.name]
    sizes = sorted({item["size"] for item in metric.sizes})
    if len(sizes) < 2:
        return None
    gaps: dict[str, dict[int, float]] = {}
    for item in metric.sizes:
        gaps.setdefault(item["contestant"], {})[item["size"]] = item["gap_bound"]
    order = [name for name in rivals if name in gaps]
    lines = {
        name: [(float(s), 100 * gaps[name][s] if s in gaps[name] else None) for s in sizes]
        for name in order[:MOST_LINES]
    }
    key = f"{words.slug}-by-size"
    kind: Kind = "gap"
    told = "sizes from one power of two to the next together; " if metric.buckets else ""
    columns = (
        Column("method", "Method", "name"),
        *(
            Column(f"tasks_{s}", f"{s}+ tasks" if metric.buckets else f"{s} tasks", kind)
            for s in sizes
        ),
    )
    rows = [row(name, *(gaps[name].get(s) for s in sizes)) for name in order]
    unit = "%" if words.relative else f"% {words.of_mean}"
    return Figure(
        key,
        f"Gap by size: {words.heading.lower()}",
        line_plot(
            lines,
            style,
            ("number of tasks", f"mean gap to the best bound ({unit})"),
            logarithmic=is_wide(sizes),
        ),
        Table(key, f"{NUMBERS}: mean gap to the best bound", columns, tuple(rows)),
        f"Mean over the runs with a plan on cases of this size ({told}only cases with a "
        f"bound).{_left_out(order)}",
    )
