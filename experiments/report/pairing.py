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

from optim.figures.figure import RELATIVE_GAP

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from experiments.report.queries import Rows

Unit = tuple[str, ...]
Runs = dict[tuple[str, int], tuple[float, float] | None]
"""By case and seed the value of a contestant's plan, and by how much equal values may differ;
``None`` where it has none."""

LEAST_CASES = 6
"""The two-sided sign test on fewer units never comes below 5 %, however clear the case."""

RESAMPLES = 9_999
_EXACT = 13
"""Most values whose signs are all gone through."""

_DECIMALS = 9
"""Of the largest difference, to which differences are ranked: closer ones are ties."""

_CHUNK = 2_000_000


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


def runs_of(rows: Rows, value: str) -> dict[str, Runs]:
    """Return the values of every contestant's runs; of runs that were repeated the first.

    Parameters
    ----------
    rows
        From `experiments.report.queries.METRIC_RUNS`.
    value
        Column of the value.
    """
    found: dict[str, Runs] = {}
    for row in rows:
        runs = found.setdefault(row["contestant"], {})
        noise = row["noise"] if value == "value" else RELATIVE_GAP
        known = row["has_plan"] and row[value] is not None
        runs.setdefault((row["problem"], row["seed"]), (row[value], noise) if known else None)
    return found


def pairs_of(runs: Mapping[str, Runs], order: Sequence[str], more: bool) -> list[Pair]:
    """Return every pair of contestants, the better ranked first.

    Parameters
    ----------
    runs
        By contestant.
    order
        Contestants, the best first.
    more
        Whether more is better.
    """
    known = [name for name in order if name in runs]
    return [_pair(a, b, runs, more) for a, b in itertools.combinations(known, 2)]


def units_of(
    found: Mapping[tuple[str, int], object],
) -> tuple[bool, dict[Unit, list[tuple[str, int]]]]:
    """Return whether units are cases, and the runs of every unit, by case and seed.

    Parameters
    ----------
    found
        What came out by case and seed. Where all seeds of each case give the same, as those of
        methods without chance do, a unit is a case, however few there are.
    """
    cases = {case for case, _ in found}
    outcomes = {(case, outcome) for (case, _), outcome in found.items()}
    by_case = len(cases) >= LEAST_CASES or len(outcomes) == len(cases)
    units: dict[Unit, list[tuple[str, int]]] = {}
    for case, seed in sorted(found):
        units.setdefault((case,) if by_case else (case, str(seed)), []).append((case, seed))
    return by_case, units


def _pair(first: str, second: str, runs: Mapping[str, Runs], more: bool) -> Pair:
    one, other = runs[first], runs[second]
    both = {key: (one[key], other[key]) for key in one.keys() & other.keys()}
    by_case, units = units_of(both)
    scores: list[int] = []
    gains: list[float] = []
    lacking = [0, 0, 0]
    for keys in units.values():
        score = 0
        gained: list[float] = []
        for key in keys:
            a, b = both[key]
            if a is None or b is None:
                score += (a is not None) - (b is not None)
                lacking[2 if a is b else 0 if b is None else 1] += 1
                continue
            gain = a[0] - b[0] if more else b[0] - a[0]
            gain = 0.0 if abs(gain) <= max(a[1], b[1]) else gain
            score += (gain > 0) - (gain < 0)
            gained.append(gain)
        scores.append(score)
        gains += [math.fsum(gained) / len(gained)] if gained else []
    better, worse = (sum(sign * score > 0 for score in scores) for sign in (1, -1))
    return Pair(
        first, second, len(both), lacking[0], lacking[1], lacking[2],
        len(one.keys() ^ other.keys()), by_case,
        better, len(scores) - better - worse, worse,
        *interval(gains), sign_p(better, worse), wilcoxon_p(gains),
    )  # fmt: skip


def interval(values: Sequence[float]) -> tuple[float | None, float | None, float | None]:
    """Return the mean and its 95 % interval by bootstrap; unknown below two values.

    Percentiles of the means of resamples, further out the fewer values there are, as Student's t
    is further out than the normal distribution: the plain percentiles of six values hold the mean
    in 86 % of draws only (Hesterberg 2015, *What Teachers Should Know About the Bootstrap*, 5.3).
    Means of resamples are within the values, so that an interval of shares stays between 0 and 1.

    >>> interval([1.0, 1.0, 1.0])
    (1.0, 1.0, 1.0)
    >>> interval([0.0, 0.0, 1.0])[1:]
    (0.0, 1.0)
    """
    import numpy as np
    from scipy import stats

    if not values:
        return None, None, None
    found = np.sort(np.asarray(values, dtype=float))
    if found.size < 2:
        return float(found[0]), None, None
    rng = np.random.default_rng(0)  # the same report from the same rows
    step = max(1, _CHUNK // found.size)
    means = np.concatenate(
        [
            found[rng.integers(0, found.size, (min(step, RESAMPLES - at), found.size))].mean(axis=1)
            for at in range(0, RESAMPLES, step)
        ]
    )
    size = found.size
    tail = float(stats.norm.sf(math.sqrt(size / (size - 1)) * stats.t.ppf(0.975, size - 1)))
    low, high = np.quantile(means, (tail, 1 - tail))
    return float(found.mean()), float(low), float(high)


def sign_p(better: int, worse: int) -> float | None:
    """Return the two-sided p of the exact sign test; unknown where all are equal.

    >>> sign_p(6, 0)
    0.03125
    """
    from scipy import stats

    if not better + worse:
        return None
    return float(stats.binomtest(better, better + worse).pvalue)


def wilcoxon_p(gains: Sequence[float]) -> float | None:
    """Return the two-sided p of Wilcoxon's signed-rank test; unknown where all are 0.

    Zeros are left out (Wilcoxon's own way), ties share their mean rank. The p is exact up to 13
    values, and up to 50 without ties; beyond it is the normal approximation with the variance
    that the ties leave.

    >>> wilcoxon_p([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    0.03125
    >>> wilcoxon_p([0.3 - 0.2, 0.2 - 0.1, -0.1]) == wilcoxon_p([1.0, 1.0, -1.0])
    True
    """
    import numpy as np
    from scipy import stats

    values = np.asarray(gains, dtype=float)
    # differences of equal figures differ in their last digits, which would give them ranks
    values = np.round(values / (np.abs(values).max(initial=0.0) or 1.0), _DECIMALS)
    known = values[values != 0]
    if known.size > _EXACT:
        return float(stats.wilcoxon(known).pvalue)
    return _signed_rank_p(known) if known.size else None


def _signed_rank_p(known: NDArray[np.float64]) -> float:
    """Return the exact p, from how many of all signs of the ranks give each sum of positive ones.

    `scipy.stats.wilcoxon` goes through all signs one by one where there are ties.
    """
    import numpy as np
    from scipy import stats

    doubled = np.rint(2 * stats.rankdata(np.abs(known))).astype(int)  # mean ranks may be halves
    ways = np.ones(1, dtype=np.int64)
    for rank in doubled:
        ways = np.pad(ways, (0, rank)) + np.pad(ways, (rank, 0))
    found = int(doubled[known > 0].sum())
    least = min(ways[: found + 1].sum(), ways[found:].sum())
    return min(1.0, 2 * float(least) / 2.0**known.size)


def holm(values: Sequence[float | None]) -> list[float | None]:
    """Return p values adjusted for that many comparisons (Holm 1979); unknown stays so.

    Unknown ones are no comparisons: where all units are equal no test can reject.

    >>> holm([0.01, None, 0.03, 0.02])
    [0.03, None, 0.04, 0.04]
    """
    known = sorted((value, at) for at, value in enumerate(values) if value is not None)
    adjusted: list[float | None] = [None] * len(values)
    least = 0.0
    for rank, (value, at) in enumerate(known):
        least = max(least, min(1.0, value * (len(known) - rank)))
        adjusted[at] = least
    return adjusted
