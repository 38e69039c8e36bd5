"""The score of a trajectory, by hand."""

from __future__ import annotations

import pytest

from experiments.studies.bench.scores import (
    Point,
    mean,
    median,
    primal_gap,
    primal_integral,
    reported_trajectory,
)


@pytest.mark.parametrize(
    ("points", "sense", "integral"),
    [
        ([], "max", 1.0),  # no plan at all
        ([(2.0, 10.0)], "max", 0.2),  # the best one, after a fifth of the time
        ([(0.0, 5.0)], "max", 0.5),
        ([(0.0, 20.0)], "min", 0.5),
        ([(0.0, 5.0), (4.0, 8.0), (6.0, 2.0)], "max", 0.4 * 0.5 + 0.6 * 0.2),  # worse later
        ([(4.0, 8.0), (0.0, 5.0)], "max", 0.4 * 0.5 + 0.6 * 0.2),  # in any order
        ([(5.0, 12.0)], "max", 0.5),  # beyond the best known: no gap
        ([(5.0, -3.0)], "max", 1.0),  # of the other sign
        ([(10.0, 10.0)], "max", 1.0),
        ([(11.0, 10.0)], "max", 1.0),  # too late
        ([(1.0, 5.0), (11.0, 10.0)], "max", 0.1 + 0.9 * 0.5),
    ],
)
def test_primal_integral(points: list[tuple[float, float]], sense: str, integral: float) -> None:
    found = primal_integral([Point(*point) for point in points], 10.0, sense, 10.0)
    assert found == pytest.approx(integral, abs=1e-12)


def test_a_best_value_of_nothing_is_met_or_missed() -> None:
    assert primal_gap(0.0, 0.0, "min") == 0.0
    assert primal_gap(1e-9, 0.0, "min") == 1.0
    assert primal_gap(float("nan"), 1.0, "min") == 1.0


def test_a_method_s_own_words_count_up_to_what_it_hands_over() -> None:
    said = [Point(1.0, 3.0), Point(2.0, 99.0), Point(7.0, 99.0)]
    points = reported_trajectory(said, Point(5.0, 8.0), "max")
    assert points == [Point(1.0, 3.0), Point(2.0, 8.0), Point(5.0, 8.0)]
    assert reported_trajectory([Point(1.0, 1.0)], Point(5.0, 8.0), "min") == [
        Point(1.0, 8.0),
        Point(5.0, 8.0),
    ]


def test_a_missing_plan_weighs_in_the_median() -> None:
    assert median([0.0, float("inf"), float("inf")]) == float("inf")
    assert median([]) is None and mean([]) is None
