"""The opening: by every metric that all plans can be measured by, who reaches what, and when.

A method may be measured by what it does not optimise; it is then marked, since it was never
asked to be good at it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.report.cases import case_table, gap_table, pair_table, time_table
from experiments.report.document import Section
from experiments.report.formats import listed
from experiments.report.words import KINDS, OBJECTIVES, OTHER, WORDS, MetricWords, mark, shift_text
from streamplace.present.table import Cell, Column, Table, Value, row

if TYPE_CHECKING:
    from experiments.report.findings import Findings, MetricFindings, Record

MOST_OPEN_CASES = 60
"""A table of more cases than these is folded."""

VIRTUAL_BEST = "virtual best"


def metric_section(findings: Findings, metric: MetricFindings) -> Section:
    """Return the tables of one metric: by method, by case, and every pair of them."""
    words, cases = WORDS[metric.name], case_table(findings, metric)
    few = len(cases.rows) <= MOST_OPEN_CASES
    folded = [
        gap_table(findings, metric),
        time_table(findings, metric),
        pair_table(findings, metric),
    ]
    return Section(
        key=words.slug,
        title=words.title,
        text=words.text,
        tables=(method_table(findings, metric), *([cases] if few else [])),
        folded=tuple(folded if few else [cases, *folded]),
    )


def method_table(findings: Findings, metric: MetricFindings) -> Table:
    """Return one row a contestant: how much, how far from the optimum, in what time."""
    words = WORDS[metric.name]
    columns = (
        Column("method", "Method", "name"),
        Column("kind", "Kind", detail=True),
        Column("optimises", "Optimises"),
        Column("plans", "Plans", "count", "runs with a feasible plan"),
        Column("of_runs", "of runs", "count", "runs on cases that are not infeasible"),
        Column("proved", "Optimal", "count", "runs that ended so, by their solver's word"),
        Column("certified", "Certified", "count", "of these, by a checked certificate"),
        Column("mean", f"{words.heading}, mean", words.kind),
        *_reference_columns(words),
        Column(
            "optimum_cases",
            "on cases",
            "count",
            "cases with an optimum and a plan",
            detail=True,
        ),
        Column("seconds", "Time, mean", "duration"),
        Column("most_seconds", "Time, longest", "duration", detail=True),
    )
    rows = [_method_row(findings, metric, name) for name in metric.order]
    best = metric.best
    rows.append(
        row(
            VIRTUAL_BEST,
            "",
            "",
            best["plans"],
            best["runs"],
            best["proved"],
            None,
            best[words.value],
            *_references(words, best),
            best["proved"],
            best["seconds"],
            None,
        )
    )
    return Table(
        f"{words.slug}-by-method",
        f"{words.heading} by method",
        columns,
        tuple(rows),
        caption=_method_caption(findings, metric),
        last_is_summary=True,
    )


def _reference_columns(words: MetricWords) -> tuple[Column, Column]:
    if words.relative:
        return (
            Column("of_optimum", "Of optimum, mean", "share"),
            Column("worst_of_optimum", "worst", "share"),
        )
    return (
        Column("above_optimum", "Above optimum, mean", "gap"),
        Column("worst_above_optimum", "worst", "gap"),
    )


def _references(words: MetricWords, found: Record) -> tuple[Value, Value]:
    name = "of_optimum" if words.relative else "gap_optimum"
    return found[name], found[f"worst_{name}"]


def _method_row(findings: Findings, metric: MetricFindings, name: str) -> tuple[Cell, ...]:
    words, found = WORDS[metric.name], metric.contestants[name]
    tally = findings.contestants[name]
    own = tally["objective_name"] == metric.name
    return row(
        Cell(name, mark(findings, metric, name)),
        KINDS.get(tally["kind"], tally["kind"]),
        OBJECTIVES.get(tally["objective_name"], tally["objective_name"] or ""),
        tally["plans"],
        tally["solvable"],
        tally["proved"] if own else None,
        tally["certified"] if own else None,
        found[words.value],
        *_references(words, found),
        found["num_gap_optimum"],
        tally["seconds"],
        tally["most_seconds"],
    )


def _method_caption(findings: Findings, metric: MetricFindings) -> str:
    parts = [
        "Means are over the cases where the method has a feasible plan; a method that fails on "
        "hard cases is not compared on them, so read them with the column Plans.",
        f"Time is building and solving, without reading the file and the referee; its mean is "
        f"{shift_text(findings.shift)}.",
        "The virtual best takes on each case the best plan of any method, and the least time "
        "in which one came to it.",
    ]
    if any(mark(findings, metric, name) for name in metric.order):
        parts.append(f"{OTHER} optimises something else, or nothing, and is only measured by this.")
    absent = [name for name in findings.contestants if name not in metric.order]
    if absent:
        parts.append(f"Without any plan: {listed(sorted(absent))}.")
    return " ".join(parts)
