"""Means and medians over seeds with 95 % intervals, and tests of paired differences."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from streamplace.present.numbers import plural

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


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
    import numpy as np
    from scipy import stats

    known = np.asarray(values, dtype=float)
    known = known[~np.isnan(known)]
    mean = float(known.mean()) if known.size else math.nan
    if known.size < 2:
        return Estimate(mean, math.nan, math.nan, known.size)
    half = float(stats.t.ppf(0.975, known.size - 1) * known.std(ddof=1) / math.sqrt(known.size))
    return Estimate(mean, mean - half, mean + half, known.size)


def median_interval(values: ArrayLike) -> Estimate:
    """Return the median with its interval by order statistics: no shape is assumed.

    >>> print(median_interval(range(1, 31)))
    15.5 [10, 21]
    """
    import numpy as np
    from scipy import stats

    known = np.sort(np.asarray(values, dtype=float))
    known = known[~np.isnan(known)]
    middle = float(np.median(known)) if known.size else math.nan
    # the k-th smallest and largest hold the median with 1 - 2 P(B < k), B binomial
    k = int(stats.binom.ppf(0.025, known.size, 0.5))
    if k < 1:
        return Estimate(middle, math.nan, math.nan, known.size)
    return Estimate(middle, float(known[k - 1]), float(known[known.size - k]), known.size)


def sign_test(first: ArrayLike, second: ArrayLike) -> float:
    """Return the two-sided p of the sign test on pairs; ties do not count.

    >>> sign_test([2, 3, 4, 5, 6, 7], [1, 1, 1, 1, 1, 1])
    0.03125
    """
    import numpy as np
    from scipy import stats

    difference = np.asarray(first, dtype=float) - np.asarray(second, dtype=float)
    above, below = int((difference > 0).sum()), int((difference < 0).sum())
    if above + below == 0:
        return 1.0
    return float(stats.binomtest(above, above + below).pvalue)
