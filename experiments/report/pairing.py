"""Methods in pairs on the same case and seed: who is better, by how much, and how sure that is.

What is drawn at random is a unit: a case, with the mean over its seeds, or, where fewer than
`LEAST_CASES` cases would carry the statement, every case and seed by itself. Seeds that change
nothing are no draws: the same figures once more would make any difference look sure.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from experiments.statistics import bootstrap_interval, sign_test, signed_rank_test
from optim.figures.figure import RELATIVE_GAP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from experiments.report.database import Columns

LEAST_CASES = 6
"""The two-sided sign test on fewer units never comes below 5 %, however clear the case."""


@dataclass(frozen=True)
class Runs:
    """What contestants reached: a row a contestant, a column each case and seed.

    Attributes
    ----------
    names
        The contestants.
    case
        Number of the case of each column.
    ran
        Whether there was a run.
    value
        Of its plan; ``nan`` where it has none.
    noise
        By how much equal values may differ.
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
        From `experiments.report.queries.METRIC_RUNS`.
    names
        The contestants.
    value
        Column of the value.
    """
    who, case = (rows[name].astype(np.int64) for name in ("contestant", "problem"))
    _, seed = np.unique(rows["seed"], return_inverse=True)
    key = case * (seed.max(initial=0) + 1) + seed
    found, column = np.unique(key, return_inverse=True)
    _, first = np.unique(who * len(found) + column, return_index=True)
    ran = np.zeros((len(names), len(found)), dtype=bool)
    values, noise = np.full(ran.shape, math.nan), np.full(ran.shape, RELATIVE_GAP)
    known = np.where(rows["has_plan"], rows[value], math.nan)
    here = who[first], column[first]
    ran[here], values[here] = True, known[first]
    if value == "value":
        noise[here] = rows["noise"][first]
    cases = found // (seed.max(initial=0) + 1)
    return Runs(names, cases, ran, values, noise)


def pairs_of(runs: Runs, order: Sequence[str], more: bool) -> list[Pair]:
    """Return every pair of contestants, the better ranked first.

    Parameters
    ----------
    runs
        Of all contestants.
    order
        Contestants, the best first.
    more
        Whether more is better.
    """
    known = [name for name in order if name in runs.names]
    return [_pair(a, b, runs, more) for a, b in itertools.combinations(known, 2)]


def units_of(
    case: NDArray[np.int64], *outcomes: NDArray[np.float64]
) -> tuple[bool, NDArray[np.int64]]:
    """Return whether units are cases, and the number of the unit of every run.

    Parameters
    ----------
    case
        Number of the case of each run.
    outcomes
        What came out. Where all seeds of each case give the same, as those of methods without
        chance do, a unit is a case, however few there are.
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
