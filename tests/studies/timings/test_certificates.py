"""Claimed against certified bounds: gaps of all objectives are shares of the value."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from experiments.studies.timings.instances import gap_of_value


@pytest.mark.parametrize(
    ("objective", "value", "bound", "told", "shown"),
    [
        ("load_distance", 4.0, 3.0, 0.01, 0.25),  # a point of the mean load, a quarter of the value
        ("load_distance", 0.0, 0.0, 0.0, 0.0),
        ("load_distance", 4.0, None, None, None),
        ("imc_gain", 4.0, 5.0, 0.2, 0.2),  # a part of the larger of the two, as it is told
    ],
)
def test_a_gap_is_of_the_value(
    objective: str, value: float, bound: float | None, told: float | None, shown: float | None
) -> None:
    result = Mock(certified_bound=bound, certified_gap=told)
    result.objective.configure_mock(name=objective, value=value)
    assert gap_of_value(result) == shown
    assert gap_of_value(Mock(objective=None, certified_gap=told)) == told
