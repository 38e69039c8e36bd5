"""Gaps, tolerances and bounds of a figure."""

from __future__ import annotations

import math

import pytest

from optim.figures.catalogue import OBJECTIVES

LOAD, GAIN, BETWEEN = (OBJECTIVES[n] for n in ("load_distance", "imc_gain", "internode_traffic"))
UNITS = [1e-9, 1.0, 6.6e11]


@pytest.mark.parametrize("unit", UNITS)
def test_the_gap_of_load_distance_is_percent_of_the_mean_in_any_unit(unit: float) -> None:
    assert LOAD.gap(2.0 * unit, 1.5 * unit, 50.0 * unit) == pytest.approx(1.0)
    assert LOAD.gap(1.5 * unit, 2.0 * unit, 50.0 * unit) == 0.0
    assert LOAD.gap_to_difference(1.0, 50.0 * unit) == pytest.approx(0.5 * unit)


@pytest.mark.parametrize("unit", UNITS)
def test_a_bound_is_beaten_by_more_than_rounding_in_any_unit(unit: float) -> None:
    assert LOAD.beats_bound(1.0 * unit, 1.0011 * unit, 100.0 * unit)
    assert not LOAD.beats_bound(1.0 * unit, 1.0009 * unit, 100.0 * unit)
    # of all traffic, so that a bound of nothing has a scale too
    assert not BETWEEN.beats_bound(0.0, 9e-5 * unit, 100.0 * unit)
    assert BETWEEN.beats_bound(0.0, 1.1e-4 * unit, 100.0 * unit)
    assert GAIN.beats_bound(1.1e-4 * unit, 0.0, 100.0 * unit)


def test_a_relative_gap_needs_no_reference() -> None:
    assert GAIN.gap(9.0, 10.0, None) == pytest.approx(0.1)
    assert GAIN.gap(0.0, 0.0, None) == 0.0
    assert GAIN.gap(None, 10.0, 1.0) is None
    assert GAIN.gap_to_difference(0.1, 1e9) == 0.1


def test_percent_of_nothing_and_of_what_is_unknown() -> None:
    assert LOAD.gap(0.0, 0.0, 0.0) == 0.0
    assert LOAD.gap(1.0, 0.0, 0.0) == math.inf
    assert LOAD.gap(2.0, 1.5, None) == 0.5  # as rows of earlier versions tell it
    assert LOAD.gap_to_difference(0.5, None) == 0.5
