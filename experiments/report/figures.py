"""The figures of the report: performance profiles, gaps over time and by size, spreads."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from experiments.report.database import FAILURES, Columns
from experiments.report.findings import Findings, MetricFindings, Record
from experiments.report.tables import (
    METHOD,
    MOST_OPEN_ROWS,
    OBJECTIVES,
    RUN_COLUMNS,
    WORDS,
    Drawing,
    Figure,
    Section,
    gap_words,
    mark,
    run_record,
    slug,
)
from experiments.statistics import bootstrap_interval, holm, sign_test, signed_rank_test
from optim.figures import catalogue
from optim.figures.figure import RELATIVE_GAP
from streamplace.present.plots import (
    INK,
    Style,
    canvas,
    legend,
    log_scale,
    markers,
    rows,
    styles,
    to_svg,
    zero_and_log_scale,
)
from streamplace.present.table import Column, Kind, Table, filled, row, with_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Line = Sequence[tuple[float, float | None]]

T = TypeVar("T")

_SAME = 1e-6  # Ratios this close to the best count as the best.


@dataclass(frozen=True)
class Profile:
    """The profile of one contestant: a step function, its value from each ratio on."""

    contestant: str
    ratios: tuple[float, ...]
    shares: tuple[float, ...]

    def at(self, ratio: float) -> float:
        """Return the share of cases within `ratio` of the best."""
        steps = bisect_right(self.ratios, ratio * (1 + _SAME) + _SAME)
        return self.shares[steps - 1] if steps else 0.0

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

    `ratios`: columns ``contestant``, ``ratio``, ``runs`` (how many have this ratio) and ``tries``
        (how many runs the contestant had on the case).
    `num_cases`: number of cases in the profile, the same for all contestants.
    `contestants`: whose profiles; all if not given.
    """
    if not num_cases:
        return []
    who, ratio, runs, tries = (ratios[n] for n in ("contestant", "ratio", "runs", "tries"))
    curves = []
    for number, name in enumerate(names):
        of_contestant = who == number
        if of_contestant.any() and (contestants is None or name in contestants):
            steps, place = np.unique(ratio[of_contestant], return_inverse=True)
            parts = np.bincount(place, weights=runs[of_contestant] / tries[of_contestant])
            shares = np.minimum(parts.cumsum() / num_cases, 1.0)
            curves.append(Profile(name, tuple(steps.tolist()), tuple(shares.tolist())))
    curves.sort(key=lambda profile: (-_area(profile), profile.contestant))
    return curves


def _area(profile: Profile) -> float:
    """Return a rank: cases solved, each counted the less the farther it is from the best."""
    steps = zip(profile.ratios, profile.shares, (0.0, *profile.shares), strict=False)
    return sum((share - before) / (1.0 + max(0.0, ratio)) for ratio, share, before in steps)


# -- drawings of plain numbers: values and styles by contestant ------------------------------------

_WIDTH = 10.0
_MOST_POINTS = 400
_NEAR = 1.3  # Ratios up to this are shown on a plain axis.
_WIDE = 5.0  # Axes that span more than this factor are logarithmic.


def _by_row(
    values: Mapping[str, T],
    style: Mapping[str, Style],
    label: str,
    draw: Callable[[Axes, int, str, T], object],
    what: str,
) -> Drawing:
    """Draw one row a contestant, from the top down."""
    with canvas(size=(_WIDTH, 1.0 + 0.34 * len(values))) as (figure, axes):
        for number, name in enumerate(values):
            draw(axes, number, style[name].color, values[name])
        rows(axes, [style[name].label for name in values])
        axes.set_xlabel(label)
        return Drawing(figure, to_svg(figure), f"{label}: {what}, for each method")


def spread_plot(
    values: Mapping[str, Sequence[float]], style: Mapping[str, Style], label: str
) -> Drawing:
    """Draw a dot a case, and their mean as a bar."""

    def draw(axes: Axes, number: int, color: str, points: Sequence[float]) -> None:
        dots = _thinned(points)
        axes.plot(
            dots, [number] * len(dots), linestyle="none", marker="o", markersize=7, color=color,
            alpha=0.45, markeredgewidth=0, clip_on=False,
        )  # fmt: skip
        mean, span = math.fsum(points) / len(points), [number - 0.34, number + 0.34]
        bar: Any = {"linewidth": 2.2, "solid_capstyle": "butt", "clip_on": False}
        axes.plot([mean, mean], span, color=INK, **bar)

    return _by_row(values, style, label, draw, "one dot a case")


def interval_plot(
    values: Mapping[str, tuple[float, float, float]], style: Mapping[str, Style], label: str
) -> Drawing:
    """Draw means with their intervals (mean, low, high), beside a line at 0."""

    def draw(axes: Axes, number: int, color: str, estimate: tuple[float, float, float]) -> None:
        if number == 0:
            axes.axvline(0.0, color=INK, linewidth=1.0)
        mean, *ends = estimate
        axes.plot(ends, [number, number], color=color, linewidth=3)
        axes.plot([mean], [number], color=color, marker="o", markersize=8)

    return _by_row(values, style, label, draw, "mean and 95 % interval")


def _in_lines(
    lines: Mapping[str, Sequence[tuple[float, float]]],
    style: Mapping[str, Style],
    labels: tuple[str, str],
    text: str,
    finish: Callable[[Axes], object],
    *,
    steps: bool,
    unmarked: int = 0,
) -> Drawing:
    """Draw one line a contestant; `unmarked` points at the end are no data."""
    with canvas(size=(_WIDTH, 4.4)) as (figure, axes):
        for name, line in lines.items():
            axes.plot(
                [x for x, _ in line],
                [y for _, y in line],
                drawstyle="steps-post" if steps else "default",
                label=style[name].label,
                markevery=markers(len(line) - unmarked),
                **style[name].line,
            )
        finish(axes)
        axes.set_xlabel(labels[0])
        axes.set_ylabel(labels[1])
        legend(figure, axes)
        return Drawing(figure, to_svg(figure), text)


def profile_plot(
    profiles: Sequence[Profile], style: Mapping[str, Style], label: str, start: float
) -> Drawing:
    """Draw performance profiles as steps from the best possible ratio `start`, 1 or 0, on."""
    most = max((max(p.ratios, default=start) for p in profiles), default=start)
    logarithmic = start > 0 and most > _NEAR
    end = most * 1.12 if logarithmic else most + 0.04 * max(most - start, 0.1)
    lines = {}
    for one in profiles:
        steps = [(r, s) for r, s in zip(one.ratios, one.shares, strict=True) if r > start]
        points = [*_thinned([(start, one.at(start)), *steps]), (end, one.total)]
        lines[one.contestant] = [(x, 100 * y) for x, y in points]

    def finish(axes: Axes) -> None:
        if logarithmic:
            log_scale(axes, "x")
        axes.set_xlim(start if logarithmic else start - 0.015 * (end - start), end)
        axes.set_ylim(-3, 103)

    labels = (label, "share of cases (%)")
    text = f"Performance profile: share of cases by {label}"
    return _in_lines(lines, style, labels, text, finish, steps=True, unmarked=1)


def line_plot(
    lines: Mapping[str, Line],
    style: Mapping[str, Style],
    labels: tuple[str, str],
    *,
    steps: bool = False,
    logarithmic: bool = False,
) -> Drawing:
    """Draw gaps by time (as steps) or by size; unknown gaps are left out.

    The upward axis is linear up to 1 and logarithmic beyond, so that both a closed gap and a wide
    one can be read; `logarithmic` is the axis to the right.
    """
    known_points = {
        name: [(x, y) for x, y in line if y is not None] for name, line in lines.items()
    }

    def finish(axes: Axes) -> None:
        zero_and_log_scale(
            axes, max([1.0, *(y for line in known_points.values() for _, y in line)])
        )
        if logarithmic:
            log_scale(axes, "x")

    text = f"{labels[1]} by {labels[0]}, one line a method"
    return _in_lines(known_points, style, labels, text, finish, steps=steps)


def _thinned(points: Sequence[T]) -> Sequence[T]:
    """Return as many points as can be distinguished, evenly chosen, the ends among them."""
    count = len(points)
    if count <= _MOST_POINTS:
        return points
    return [points[k * (count - 1) // (_MOST_POINTS - 1)] for k in range(_MOST_POINTS)]


# -- figures, each with the table of its numbers ---------------------------------------------------

MOST_LINES = 12  # More lines than these cannot be distinguished; the table holds them all.

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
            anytime_figure(findings, metric.name, style),
        ]
    others = {item["objective_name"] for item in findings.anytime}
    others -= {metric.name for metric in findings.metrics}
    figures += [anytime_figure(findings, objective, style) for objective in sorted(others)]
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
        gaps = gaps[~np.isnan(gaps)]
        if gaps.size:
            values[name] = np.sort(1 - gaps if words.relative else gaps).tolist()
    if not values:
        return None
    name = words.heading.lower()
    if words.relative:
        title, label = f"{words.heading} against the optimum", f"{name} (% of the optimum)"
    else:
        title, label = f"{words.heading} above the optimum", f"{name} above it (% {words.of_mean})"
    key = f"{words.slug}-spread"
    kind: Kind = "share" if words.relative else "gap"
    most = list(values.items())[: 2 * MOST_LINES]
    columns = (
        METHOD,
        Column("cases", "Cases", "count"),
        *(Column(k, label, kind) for k, label in _SPREAD.items()),
    )
    table = tuple(
        row(name, len(v), v[0], v[(len(v) - 1) // 2], math.fsum(v) / len(v), v[-1])
        for name, v in values.items()
    )
    return Figure(
        key,
        title,
        spread_plot({who: [100 * v for v in gaps_of] for who, gaps_of in most}, style, label),
        Table(key, NUMBERS, columns, table),
        "A dot is a case with an optimum (mean over its seeds); the bar is the mean.",
    )


_SPREAD = {"least": "Least", "median": "Median (lower)", "mean": "Mean", "most": "Most"}


def profile_figure(
    metric: MetricFindings, names: Sequence[str], rivals: Sequence[str], style: Mapping[str, Style]
) -> Figure | None:
    """Return the performance profile of the plans' quality."""
    words = WORDS[metric.name]
    curves = profiles(metric.ratios, names, metric.num_measured, rivals)
    if not curves:
        return None
    key, name = f"{words.slug}-profile", words.heading.lower()
    if words.relative:
        label, best = f"best known {name} / own", "within this ratio to"
        table = _profile_table(key, curves, _RATIOS)
    else:
        label = f"{name} above the best known (% {words.of_mean})"
        best = f"within this part {words.of_mean} of"
        curves = [replace(one, ratios=tuple(100 * r for r in one.ratios)) for one in curves]
        table = _profile_table(key, curves, _PERCENTS, "+{:g} %")
    return Figure(
        key,
        f"Performance profile: {name}",
        profile_plot(curves[:MOST_LINES], style, label, 1.0 if words.relative else 0.0),
        table,
        f"The share of the {metric.num_measured} cases on which a method comes {best} the best "
        "plan of any (Dolan and Moré 2002). Higher is better; where a line ends at the right is "
        f"the share of cases with a feasible plan.{_left_out(curves)}",
    )


def proof_figure(
    metric: MetricFindings, names: Sequence[str], style: Mapping[str, Style]
) -> Figure | None:
    """Return the performance profile of the times to a proof of optimality."""
    words = WORDS[metric.name]
    curves = profiles(metric.proof_ratios, names, metric.num_proved)
    if len(curves) < 2:
        return None
    key = f"{words.slug}-proof-profile"
    return Figure(
        key,
        f"Performance profile: time to the proof of the optimal {words.heading.lower()}",
        profile_plot(curves[:MOST_LINES], style, "time / time of the fastest proof", 1.0),
        _profile_table(key, curves, _TIME_RATIOS),
        f"The share of the {metric.num_proved} cases with an optimum that a method ended at "
        f"within this ratio to the fastest proof. Only exact methods.{_left_out(curves)}",
    )


def _left_out(drawn: Sequence[object]) -> str:
    if len(drawn) <= MOST_LINES:
        return ""
    return f" Drawn are the best {MOST_LINES} of {len(drawn)}; the table has all."


def _profile_table(
    key: str, curves: Sequence[Profile], steps: Sequence[float], label: str = "×{:g}"
) -> Table:
    within = (Column(f"within_{step:g}", label.format(step), "share") for step in steps)
    columns = (METHOD, *within, Column("any", "at all", "share"))
    rows = tuple(row(one.contestant, *map(one.at, steps), one.total) for one in curves)
    return Table(key, f"{NUMBERS}: share of cases within", columns, rows)


def anytime_figure(findings: Findings, objective: str, style: Mapping[str, Style]) -> Figure | None:
    """Return the gap to the best bound over time, on one objective."""
    gaps: dict[str, dict[float, float | None]] = {}
    for item in findings.anytime:
        if item["objective_name"] == objective:
            gaps.setdefault(item["contestant"], {})[item["moment"]] = item["gap"]
    gaps = {name: line for name, line in gaps.items() if set(line.values()) - {None}}
    if not gaps:
        return None
    moments = list(next(iter(gaps.values())))
    last = moments[-1]
    first = min(x for line in gaps.values() for x, gap in line.items() if gap is not None)

    def rank(name: str) -> tuple[float | None, float, str]:
        """By what is left at the end, then by who came there first."""
        line = gaps[name]
        return line[last], next(x for x, gap in line.items() if gap == line[last]), name

    order = sorted(gaps, key=rank)
    drawn = {
        name: [(x, None if gap is None else 100 * gap) for x, gap in gaps[name].items()
               if x >= first]
        for name in order[:MOST_LINES]
    }  # fmt: skip
    labels = ("time (s)", "gap to the best bound (%)")
    key = f"anytime-{slug(objective)}"
    shown = [x for x in moments if math.log10(x).is_integer()]
    columns = (METHOD, *(Column(f"after_{x:g}_s", with_unit(x, "duration"), "gap") for x in shown))
    table = tuple(row(name, *(gaps[name][x] for x in shown)) for name in order)
    return Figure(
        key,
        f"Gap over time: {OBJECTIVES.get(objective, objective)}",
        line_plot(drawn, style, labels, steps=True, logarithmic=True),
        Table(key, f"{NUMBERS}: gap after", columns, table),
        "The gap that at least half of a method's runs have reached after this time, among runs "
        "on cases with a bound; a line begins once half of the runs have a plan. Time is "
        f"building and solving. {gap_words(catalogue.OBJECTIVES.get(objective))}".rstrip(),
    )


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
    key, more = f"{words.slug}-by-size", "+" if metric.buckets else ""
    size_note = "sizes from one power of two to the next together; " if metric.buckets else ""
    columns = (METHOD, *(Column(f"tasks_{s}", f"{s}{more} tasks", "gap") for s in sizes))
    table = tuple(row(name, *map(gaps[name].get, sizes)) for name in order)
    unit = "%" if words.relative else f"% {words.of_mean}"
    labels = ("number of tasks", f"mean gap to the best bound ({unit})")
    wide = max(sizes) / min(sizes) > _WIDE
    return Figure(
        key,
        f"Gap by size: {words.heading.lower()}",
        line_plot(lines, style, labels, logarithmic=wide),
        Table(key, f"{NUMBERS}: mean gap to the best bound", columns, table),
        f"Mean over the runs with a plan on cases of this size ({size_note}only cases with a "
        f"bound).{_left_out(order)}",
    )


# -- methods in pairs on the same case and seed ----------------------------------------------------

LEAST_CASES = 6
"""The two-sided sign test on fewer units never comes below 5 %, however clear the case."""


@dataclass(frozen=True)
class Runs:
    """What contestants reached: a row a contestant, a column each case and seed.

    `case` has the number of the case of each column, `ran` whether there was a run, `value` that
    of its plan (``nan`` where it has none), `noise` by how much equal values may differ.
    """

    names: list[str]
    case: NDArray[np.int64]
    ran: NDArray[np.bool_]
    value: NDArray[np.float64]
    noise: NDArray[np.float64]


@dataclass(frozen=True)
class Pair:
    """Two contestants on what both ran."""

    #: Their names.
    first: str
    second: str
    pairs: int  # Runs of both on one case with one seed.
    #: Of these, where only one or none had a plan.
    only_first: int
    only_second: int
    neither: int
    unmatched: int  # Runs of either without one of the other.
    by_case: bool  # Whether a unit is a case; else it is a case and a seed.
    #: Units on which the first is better more often than worse, and so on; a plan is better than
    #: none.
    better: int
    equal: int
    worse: int
    #: Mean over units of what the first is better by, where both have plans, and its 95 % bootstrap
    #: interval.
    advantage: float | None
    low: float | None
    high: float | None
    #: Two-sided p of the sign test on `better` and `worse`, and of Wilcoxon's signed-rank test on
    #: the advantages.
    sign: float | None
    wilcoxon: float | None


def runs_of(rows: Columns, names: list[str], value: str) -> Runs:
    """Return the values of every contestant's runs; of runs that were repeated the first.

    `rows`: of ``runs`` in ``questions.sql``.
    """
    who, case = (rows[name].astype(np.int64) for name in ("contestant", "problem"))
    _, seed = np.unique(rows["seed"], return_inverse=True)
    seeds = seed.max(initial=0) + 1
    units, column = np.unique(case * seeds + seed, return_inverse=True)
    _, first = np.unique(who * len(units) + column, return_index=True)
    ran = np.zeros((len(names), len(units)), dtype=bool)
    values, noise = np.full(ran.shape, math.nan), np.full(ran.shape, RELATIVE_GAP)
    here = who[first], column[first]
    ran[here], values[here] = True, np.where(rows["has_plan"], rows[value], math.nan)[first]
    if value == "value":
        noise[here] = rows["noise"][first]
    return Runs(names, units // seeds, ran, values, noise)


def pairs_of(runs: Runs, order: Sequence[str], more: bool) -> list[Pair]:
    """Return every pair of contestants, ranked as in `order`; `more` is whether that is better."""
    present = [name for name in order if name in runs.names]
    return [_pair(a, b, runs, more) for a, b in itertools.combinations(present, 2)]


def units_of(
    case: NDArray[np.int64], *outcomes: NDArray[np.float64]
) -> tuple[bool, NDArray[np.int64]]:
    """Return whether units are cases, and the number of the unit of every run.

    Where all seeds of each case have the same outcomes, as those of methods without chance do, a
    unit is a case, however few there are.
    """
    _, first, unit = np.unique(case, return_index=True, return_inverse=True)
    by_case = len(first) >= LEAST_CASES or all(
        np.array_equal(outcome, outcome[first[unit]], equal_nan=True) for outcome in outcomes
    )
    return by_case, unit if by_case else np.arange(len(case))


def unit_means(unit: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean of the known values of every unit that has one."""
    has_value = ~np.isnan(values)
    count = np.bincount(unit[has_value])
    total = np.bincount(unit[has_value], weights=values[has_value])
    return total[count > 0] / count[count > 0]


def interval(values: NDArray[np.float64]) -> tuple[float | None, float | None, float | None]:
    """Return the mean and its interval; what is unknown is ``None``."""
    estimate = bootstrap_interval(values)[:3]
    mean, low, high = (None if math.isnan(value) else float(value) for value in estimate)
    return mean, low, high


def _pair(first: str, second: str, runs: Runs, more: bool) -> Pair:
    one, other = (runs.names.index(name) for name in (first, second))
    both = runs.ran[one] & runs.ran[other]
    a, b = runs.value[one, both], runs.value[other, both]
    noise = np.maximum(runs.noise[one, both], runs.noise[other, both])
    by_case, unit = units_of(runs.case[both], a, b)
    has_a, has_b = ~np.isnan(a), ~np.isnan(b)
    gain = a - b if more else b - a
    gain = np.where(np.abs(gain) <= noise, 0.0, gain)
    won = np.where(has_a & has_b, np.sign(gain), has_a.astype(float) - has_b)
    score = np.bincount(unit, weights=won)
    better, worse = int((score > 0).sum()), int((score < 0).sum())
    gains = unit_means(unit, gain)
    return Pair(
        first, second, int(both.sum()), int((has_a & ~has_b).sum()), int((has_b & ~has_a).sum()),
        int((~has_a & ~has_b).sum()), int((runs.ran[one] ^ runs.ran[other]).sum()), by_case,
        better, len(score) - better - worse, worse,
        *interval(gains), sign_test(better, worse), signed_rank_test(gains),
    )  # fmt: skip


# -- intervals over seeds and cases, and the tables of pairs ---------------------------------------

TEXT = (
    "A pair is two runs on the same case with the same seed. Means are over units: cases, each "
    f"with the mean of its seeds; where fewer than {LEAST_CASES} cases carry the statement, every "
    "run counts by itself, and it is one about these cases only; seeds that change nothing count "
    "once. Intervals are 95 % ones, by bootstrap; one without width says that all units are equal, "
    "not that nothing else can be. A run without a plan is never dropped: it loses against one "
    "with a plan, stands in the counts, and is named below."
)

_PAIRS_CAPTION = (
    "What the first method is better by (more is better for it, whatever the sense of the figure), "
    "mean over the units where both have plans. Better, equal, worse: units on which the first is "
    "so more often than not; a plan is better than none. Sign: exact two-sided test on better and "
    "worse. Wilcoxon: two-sided signed-rank test on the differences, without those of 0, ties with "
    "their mean rank. Holm: the sign test's p adjusted for all pairs of methods that have one."
)


def chance_section(findings: Findings) -> Section | None:
    """Return intervals, pairs and who had no plan, of every metric; None without anything random.

    A single run of every method on a single case has no spread to report.
    """
    tables: list[Table] = []
    figures: list[Figure] = []
    folded: list[Table] = []
    for metric in findings.metrics:
        words = WORDS[metric.name]
        runs = runs_of(metric.runs, findings.names, words.value)
        if runs.ran.sum(axis=1).max(initial=0) < 2:
            continue
        tables.append(_interval_table(metric, runs))
        if pairs := pairs_of(runs, competing(findings, metric), metric.sense == "max"):
            table = _pair_table(f"{words.slug}-pairs", metric, pairs)
            (tables if len(table.rows) <= MOST_OPEN_ROWS else folded).append(table)
            figures.append(_pair_figure(findings, metric, pairs, table))
    if not tables:
        return None
    lost = _without_plan(findings)
    folded += [lost] if lost.rows else []
    return Section("chance", "How sure that is", TEXT, tuple(tables), tuple(figures), tuple(folded))


def _interval_table(metric: MetricFindings, runs: Runs) -> Table:
    words = WORDS[metric.name]
    columns = (
        METHOD,
        Column("runs", "Runs", "count", "on cases that are not infeasible"),
        Column("plans", "Plans", "count", "runs with a feasible plan"),
        Column("cases", "Cases", "count"),
        Column("mean", f"{words.heading}, mean", words.kind),
        Column("low", "from", words.kind, "lower end of the 95 % interval"),
        Column("high", "to", words.kind, "upper end of the 95 % interval"),
        Column("seed_deviation", "Deviation over seeds", words.kind, "mean over the cases"),
    )
    records: list[Record] = []
    for name in metric.order:
        number = runs.names.index(name)
        ran = runs.ran[number]
        value, case = runs.value[number, ran], runs.case[ran]
        has_plan = ~np.isnan(value)
        _, unit = units_of(case, value)
        spread = _deviations(case[has_plan], value[has_plan])
        mean, low, high = interval(unit_means(unit, value))
        records.append({
            "method": name, "runs": len(value), "plans": int(has_plan.sum()),
            "cases": len(np.unique(case[has_plan])), "mean": mean, "low": low, "high": high,
            "seed_deviation": float(spread.mean()) if spread.size else None,
        })  # fmt: skip
    return Table(
        f"{words.slug}-intervals", f"{words.heading} with intervals", columns,
        filled(columns, records),
        "Over the runs with a plan. The deviation over seeds is the standard deviation within a "
        "case, blank where every case has one seed.",
    )  # fmt: skip


def _deviations(case: NDArray[np.int64], value: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the standard deviation within every case with several values."""
    _, place, count = np.unique(case, return_inverse=True, return_counts=True)
    mean = np.bincount(place, weights=value) / np.maximum(count, 1)
    squares = np.bincount(place, weights=(value - mean[place]) ** 2)
    several = count > 1
    return np.asarray(np.sqrt(squares[several] / (count[several] - 1)))


def _pair_table(key: str, metric: MetricFindings, pairs: Sequence[Pair]) -> Table:
    words = WORDS[metric.name]
    kind = words.kind
    columns = (
        Column("first", "First", "name"),
        Column("second", "Second", "name"),
        Column("pairs", "Pairs", "count", "runs of both on one case with one seed"),
        Column("only_first", "Only first", "count", "pairs where only the first has a plan"),
        Column("only_second", "Only second", "count", "pairs where only the second has a plan"),
        Column("neither", "Neither", "count", "pairs where neither has a plan"),
        Column("better", "Better", "count", "units on which the first is better"),
        Column("equal", "Equal", "count"),
        Column("worse", "Worse", "count"),
        Column("advantage", "By, mean", kind),
        Column("low", "from", kind, "lower end of the 95 % interval"),
        Column("high", "to", kind, "upper end of the 95 % interval"),
        Column("sign", "Sign, p", "chance"),
        Column("wilcoxon", "Wilcoxon, p", "chance"),
        Column("holm", "Holm, p", "chance"),
    )
    adjusted = holm([pair.sign for pair in pairs])
    records = (vars(pair) | {"holm": p} for pair, p in zip(pairs, adjusted, strict=True))
    parts = [_PAIRS_CAPTION]
    unit = "cases" if all(pair.by_case for pair in pairs) else "runs"
    if any(pair.by_case for pair in pairs) and unit == "runs":
        unit = f"cases where a pair has {LEAST_CASES} or seeds change nothing, else runs"
    parts.append(f"Units are {unit}.")
    if kind == "share":
        parts.append("Differences of shares are percentage points.")
    if lone := max(pair.unmatched for pair in pairs):
        parts.append(f"Without a partner stayed up to {lone} runs of a pair of methods.")
    title = f"{words.heading}: methods in pairs"
    return Table(key, title, columns, filled(columns, records), " ".join(parts), lead=2)


def _pair_figure(
    findings: Findings, metric: MetricFindings, pairs: Sequence[Pair], table: Table
) -> Figure:
    """Return what the best ranked method is ahead of each other by."""
    words = WORDS[metric.name]
    # its p are those of all pairs: adjusted for its own alone they would be too lenient
    best = pairs[0].first
    best_pairs = [pair for pair in pairs if pair.first == best]
    factor, unit = (100.0, "percentage points") if words.kind == "share" else (1.0, "points")
    values = {
        pair.second: (factor * pair.advantage, factor * pair.low, factor * pair.high)
        for pair in best_pairs[: 2 * MOST_LINES]
        if pair.advantage is not None and pair.low is not None and pair.high is not None
    }
    key = f"{words.slug}-ahead"
    label = f"{words.heading.lower()}: {best} better by ({unit})"
    rows = tuple(line for line in table.rows if line[0].value == best)
    return Figure(
        key,
        f"{words.heading}: {best} against each other method",
        interval_plot(values, contestant_styles(findings), label),
        Table(key, NUMBERS, table.columns, rows, table.caption, lead=2),
        "Mean paired difference with its 95 % interval, on cases and seeds where both have plans; "
        "an interval that holds 0 shows no difference.",
    )


def _without_plan(findings: Findings) -> Table:
    """Return every run that had no plan on a case that may have one."""

    def record(item: Record) -> Record:
        run = run_record(findings, item)
        reason = run["error"] if item["verdict"] in FAILURES else ""
        return run | {"outcome": f"{run['outcome']} {reason}".rstrip()}

    title = "Runs without a plan, which lost in their pairs"
    rows = filled(RUN_COLUMNS, map(record, findings.without_plan))
    return Table("without-plan", title, RUN_COLUMNS, rows)
