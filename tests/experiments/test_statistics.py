"""Intervals and tests against SciPy's own, which are slower to load, and against draws."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy

from experiments.statistics import (
    MOST_RESAMPLED,
    bootstrap_interval,
    mean_interval,
    median_interval,
    sign_test,
    signed_rank_test,
)


@pytest.mark.parametrize("seed", range(3))
def test_signs_are_those_of_the_binomial_test(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for above, below in rng.integers(0, 200, (50, 2)).tolist():
        expected = scipy.stats.binomtest(above, above + below).pvalue if above + below else None
        assert sign_test(above, below) == (expected and pytest.approx(expected, rel=1e-9))


def test_ties_of_figures_are_ties_of_their_differences() -> None:
    gains = [0.1 * step - 0.1 * (step - 1) for step in range(1, 9)]
    signs = [-1, 1, 1, 1, 1, -1, 1, 1]
    found = signed_rank_test([gain * sign for gain, sign in zip(gains, signs, strict=True)])
    assert len(set(gains)) > 1
    assert found == signed_rank_test(signs) == scipy.stats.wilcoxon(signs).pvalue
    assert signed_rank_test([0.0, 0.0]) is signed_rank_test([]) is None


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 13, 14, 20, 49, 50, 51, 200])
@pytest.mark.parametrize("tied", [True, False])
def test_signed_ranks_are_those_of_all_signs_or_of_the_normal_distribution(
    size: int, tied: bool
) -> None:
    rng = np.random.default_rng(size)
    values = rng.integers(1, 4, size) if tied else rng.permutation(size) + 1
    values = values * rng.choice([-1.0, 1.0, 1.0], size)
    if tied and 8 < size <= 13:
        pytest.skip("SciPy goes through all signs one by one")
    assert signed_rank_test(values) == pytest.approx(scipy.stats.wilcoxon(values).pvalue, rel=1e-9)


@pytest.mark.parametrize("size", [6, 30, MOST_RESAMPLED + 1])
def test_the_interval_holds_the_mean_as_often_as_it_says(size: int) -> None:
    rng = np.random.default_rng(4)
    held = 0
    for _ in range(200):
        _, low, high, _ = bootstrap_interval(rng.normal(3.0, 1.0, size))
        held += low <= 3.0 <= high
    assert 0.91 <= held / 200 <= 0.98
    values = rng.normal(3.0, 1.0, size)
    assert bootstrap_interval(values) == bootstrap_interval(values[::-1])
    shares = [1.0] * (size - 1) + [0.0]
    assert bootstrap_interval(shares).high <= 1.0


def test_the_way_of_many_values_meets_that_of_few() -> None:
    values = np.random.default_rng(5).exponential(1.0, MOST_RESAMPLED + 1)
    drawn, normal = bootstrap_interval(values[:-1]), bootstrap_interval(values)
    assert drawn.low == pytest.approx(normal.low, rel=0.01)
    assert drawn.high == pytest.approx(normal.high, rel=0.01)


@pytest.mark.parametrize("size", [2, 3, 6, 30])
def test_intervals_of_means_and_medians_are_those_of_their_distributions(size: int) -> None:
    values = np.random.default_rng(size).normal(3.0, 1.0, size)
    low, high = scipy.stats.t.interval(0.95, size - 1, values.mean(), scipy.stats.sem(values))
    assert mean_interval([*values, math.nan]) == pytest.approx((values.mean(), low, high, size))
    rank = int(scipy.stats.binom.ppf(0.025, size, 0.5))
    ordered = np.sort(values)
    median = median_interval(values)
    if rank < 1:
        assert math.isnan(median.low)
    else:
        assert (median.low, median.high) == (ordered[rank - 1], ordered[size - rank])


def test_unknown_where_there_are_too_few() -> None:
    assert math.isnan(bootstrap_interval([1.0]).low)
    assert math.isnan(bootstrap_interval([]).value)
    assert math.isnan(mean_interval([]).value)
