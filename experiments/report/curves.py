"""The figures of the report, each with the table of its numbers."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from experiments.report.document import Figure, Section, slug
from experiments.report.plots import is_wide, line_plot, profile_plot, spread_plot
from experiments.report.profile import Profile, profiles
from experiments.report.words import OBJECTIVES, WORDS, gap_words, mark
from optim.figures import catalogue
from streamplace.present.drawing import styles
from streamplace.present.table import Column, Kind, Table, row, with_unit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from experiments.report.findings import Findings, MetricFindings
    from experiments.report.words import MetricWords
    from streamplace.present.drawing import Style

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
