"""Methods in pairs on the same case and seed: who is better, by how much, and how sure that is."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from experiments.report.figures import (
    MOST_LINES,
    NUMBERS,
    competing,
    contestant_styles,
    interval_plot,
)
from experiments.report.queries import FAILURES
from experiments.report.tables import (
    METHOD,
    MOST_OPEN_ROWS,
    RUN_COLUMNS,
    WORDS,
    Figure,
    Section,
    run_record,
)
from experiments.statistics import bootstrap_interval, holm, sign_test, signed_rank_test
from optim.figures.figure import RELATIVE_GAP
from streamplace.present.table import Column, Table, filled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from experiments.report.database import Columns
    from experiments.report.findings import Findings, MetricFindings, Record

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
    """Two contestants on what both ran.

    Attributes
    ----------
    first, second
        Their names.
    pairs
        Runs of both on one case with one seed.
    only_first, only_second, neither
        Of these, where only one or none had a plan.
    unmatched
        Runs of either without one of the other.
    by_case
        Whether a unit is a case; else it is a case and a seed.
    better, equal, worse
        Units on which the first is better more often than worse, and so on; a plan is better than
        none.
    advantage, low, high
        Mean over units of what the first is better by, where both have plans, and its 95 %
        bootstrap interval.
    sign, wilcoxon
        Two-sided p of the sign test on `better` and `worse`, and of Wilcoxon's signed-rank test
        on the advantages.
    """

    first: str
    second: str
    pairs: int
    only_first: int
    only_second: int
    neither: int
    unmatched: int
    by_case: bool
    better: int
    equal: int
    worse: int
    advantage: float | None
    low: float | None
    high: float | None
    sign: float | None
    wilcoxon: float | None


def runs_of(rows: Columns, names: list[str], value: str) -> Runs:
    """Return the values of every contestant's runs; of runs that were repeated the first.

    Parameters
    ----------
    rows
        From ``runs`` of `experiments.report.queries.OF_METRIC`.
    names
        The contestants.
    value
        Column of the value.
    """
    who, case = (rows[name].astype(np.int64) for name in ("contestant", "problem"))
    _, seed = np.unique(rows["seed"], return_inverse=True)
    seeds = seed.max(initial=0) + 1
    found, column = np.unique(case * seeds + seed, return_inverse=True)
    _, first = np.unique(who * len(found) + column, return_index=True)
    ran = np.zeros((len(names), len(found)), dtype=bool)
    values, noise = np.full(ran.shape, math.nan), np.full(ran.shape, RELATIVE_GAP)
    here = who[first], column[first]
    ran[here], values[here] = True, np.where(rows["has_plan"], rows[value], math.nan)[first]
    if value == "value":
        noise[here] = rows["noise"][first]
    return Runs(names, found // seeds, ran, values, noise)


def pairs_of(runs: Runs, order: Sequence[str], more: bool) -> list[Pair]:
    """Return every pair of contestants, ranked as in `order`; `more` is whether that is better."""
    known = [name for name in order if name in runs.names]
    return [_pair(a, b, runs, more) for a, b in itertools.combinations(known, 2)]


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
    known = ~np.isnan(values)
    count = np.bincount(unit[known])
    total = np.bincount(unit[known], weights=values[known])
    return total[count > 0] / count[count > 0]


def interval(values: NDArray[np.float64]) -> tuple[float | None, float | None, float | None]:
    """Return the mean and its interval; what is unknown is ``None``."""
    found = bootstrap_interval(values)[:3]
    mean, low, high = (None if math.isnan(value) else float(value) for value in found)
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
        mine = runs.ran[number]
        value, case = runs.value[number, mine], runs.case[mine]
        known = ~np.isnan(value)
        _, unit = units_of(case, value)
        spread = _deviations(case[known], value[known])
        mean, low, high = interval(unit_means(unit, value))
        records.append({
            "method": name, "runs": len(value), "plans": int(known.sum()),
            "cases": len(np.unique(case[known])), "mean": mean, "low": low, "high": high,
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
    """Return what the best ranked method is ahead of each other by; its p are those of the table.

    The best was chosen by the same runs: an adjustment for its pairs alone would be too lenient.
    """
    words = WORDS[metric.name]
    best = pairs[0].first
    mine = [pair for pair in pairs if pair.first == best]
    factor, unit = (100.0, "percentage points") if words.kind == "share" else (1.0, "points")
    values = {
        pair.second: (factor * pair.advantage, factor * pair.low, factor * pair.high)
        for pair in mine[: 2 * MOST_LINES]
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
        found = run_record(findings, item)
        reason = found["error"] if item["verdict"] in FAILURES else ""
        return found | {"outcome": f"{found['outcome']} {reason}".rstrip()}

    title = "Runs without a plan, which lost in their pairs"
    rows = filled(RUN_COLUMNS, map(record, findings.without_plan))
    return Table("without-plan", title, RUN_COLUMNS, rows)
