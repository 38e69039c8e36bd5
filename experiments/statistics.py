"""Intervals of means and medians, and tests of paired differences: one place for all tables."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamplace.present.numbers import plural

RESAMPLES = 9_999
MOST_RESAMPLED = 1_000
"""Means of more values are normally distributed: their interval is Student's."""

_DECIMALS = 9  # Of the largest difference, to which differences are ranked: closer ones are ties.
_CHUNK = 50_000  # Values drawn at once; they stay in the processor's cache.


class Estimate(NamedTuple):
    """A value and its 95 % interval; the bounds are ``nan`` where there are too few values."""

    value: float
    low: float
    high: float
    seeds: int

    def __str__(self) -> str:
        if math.isnan(self.low):
            return f"{self.value:.4g} ({plural(self.seeds, 'seed')})"
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}]"


def mean_interval(values: ArrayLike) -> Estimate:
    """Return the mean with its interval by Student's t.

    >>> print(mean_interval([1.0, 2.0, 3.0, 4.0]))
    2.5 [0.4457, 4.554]
    """
    from scipy.special import stdtrit

    present = _without_nan(values)
    mean = float(present.mean()) if present.size else math.nan
    if present.size < 2:
        return Estimate(mean, math.nan, math.nan, present.size)
    half = float(stdtrit(present.size - 1, 0.975) * present.std(ddof=1) / math.sqrt(present.size))
    return Estimate(mean, mean - half, mean + half, present.size)


def median_interval(values: ArrayLike) -> Estimate:
    """Return the median with its interval by order statistics: no shape is assumed.

    >>> print(median_interval(range(1, 31)))
    15.5 [10, 21]
    """
    from scipy.special import bdtr

    ordered = np.sort(_without_nan(values))
    middle = float(np.median(ordered)) if ordered.size else math.nan
    # the k-th smallest and largest hold the median with 1 - 2 P(B < k), B binomial
    k = int(np.searchsorted(bdtr(np.arange(ordered.size + 1.0), ordered.size, 0.5), 0.025))
    if k < 1:
        return Estimate(middle, math.nan, math.nan, ordered.size)
    return Estimate(middle, float(ordered[k - 1]), float(ordered[ordered.size - k]), ordered.size)


def bootstrap_interval(values: ArrayLike) -> Estimate:
    """Return the mean and its interval by bootstrap, of many values by Student's t.

    Percentiles of the means of resamples, further out the fewer values there are, as Student's t
    is further out than the normal distribution: the plain percentiles of six values hold the mean
    in 86 % of draws only (Hesterberg 2015, *What Teachers Should Know About the Bootstrap*, 5.3).
    Means of resamples are within the values, so that an interval of shares stays between 0 and 1.

    >>> print(bootstrap_interval([1.0, 1.0, 1.0]))
    1 [1, 1]
    >>> print(bootstrap_interval([0.0, 0.0, 1.0]))
    0.3333 [0, 1]
    """
    from scipy.special import ndtr, stdtrit

    ordered = np.sort(_without_nan(values))
    size = ordered.size
    if size < 2 or size > MOST_RESAMPLED:
        mean = mean_interval(ordered)
        ends = ordered[[0, -1]].tolist() if size > 1 else (math.nan, math.nan)
        return mean._replace(low=max(mean.low, ends[0]), high=min(mean.high, ends[1]))
    means = np.concatenate([ordered.take(drawn).mean(axis=1) for drawn in _resamples(size)])
    tail = float(ndtr(-math.sqrt(size / (size - 1)) * stdtrit(size - 1, 0.975)))
    low, high = np.quantile(means, (tail, 1 - tail))
    return Estimate(float(ordered.mean()), float(low), float(high), size)


@functools.lru_cache(2)
def _resamples(size: int) -> list[NDArray[np.int16]]:
    """Return which of so many values each resample draws (20 MB at most), the same for all."""
    rng = np.random.default_rng(0)
    step = max(1, _CHUNK // size)
    return [
        rng.integers(0, size, (min(step, RESAMPLES - at), size)).astype(np.int16)
        for at in range(0, RESAMPLES, step)
    ]


def sign_test(above: int, below: int) -> float | None:
    """Return the two-sided p of the exact sign test; unknown where all are equal.

    >>> sign_test(6, 0)
    0.03125
    """
    from scipy.special import bdtr

    if not above + below:
        return None
    return min(1.0, 2 * float(bdtr(min(above, below), above + below, 0.5)))


def paired_sign_test(first: ArrayLike, second: ArrayLike) -> float:
    """Return the two-sided p of the sign test on pairs; ties do not count, ties alone give 1.

    >>> paired_sign_test([2, 3, 4, 5, 6, 7], [1, 1, 1, 1, 1, 1])
    0.03125
    """
    difference = np.asarray(first, dtype=float) - np.asarray(second, dtype=float)
    p = sign_test(int((difference > 0).sum()), int((difference < 0).sum()))
    return 1.0 if p is None else p


def signed_rank_test(differences: ArrayLike) -> float | None:
    """Return the two-sided p of Wilcoxon's signed-rank test; unknown where all are 0.

    Zeros are left out (Wilcoxon's own way), ties share their mean rank. The p is exact up to 13
    values, and up to 50 without ties; beyond it is the normal approximation with the variance
    that the ties leave.

    >>> signed_rank_test([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    0.03125
    >>> signed_rank_test([0.3 - 0.2, 0.2 - 0.1, -0.1]) == signed_rank_test([1.0, 1.0, -1.0])
    True
    """
    from scipy.stats import wilcoxon

    values = np.asarray(differences, dtype=float)
    # differences of equal figures differ in their last digits, which would give them ranks
    values = np.round(values / (np.abs(values).max(initial=0.0) or 1.0), _DECIMALS)
    nonzero = values[values != 0]
    return float(wilcoxon(nonzero).pvalue) if nonzero.size else None


def holm(values: Sequence[float | None]) -> list[float | None]:
    """Return p values adjusted for that many comparisons (Holm 1979); unknown stays so.

    Unknown ones are no comparisons: where all units are equal no test can reject.

    >>> holm([0.01, None, 0.03, 0.02])
    [0.03, None, 0.04, 0.04]
    """
    ordered = sorted((value, at) for at, value in enumerate(values) if value is not None)
    adjusted: list[float | None] = [None] * len(values)
    least = 0.0
    for rank, (value, at) in enumerate(ordered):
        least = max(least, min(1.0, value * (len(ordered) - rank)))
        adjusted[at] = least
    return adjusted


def _without_nan(values: ArrayLike) -> NDArray[np.float64]:
    numbers = np.asarray(values, dtype=float)
    return numbers[~np.isnan(numbers)]
