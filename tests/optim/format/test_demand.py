"""Demand derived from tuple rates."""

from __future__ import annotations

import numpy as np
import pytest

from optim import Instance
from optim.format.traffic import find_cycle, topological_order
from tests.optim.make import instance


def test_rates_follow_the_selectivities() -> None:
    # source 100/s → split ×3 → count ×0.5; count also hears the source directly ×1
    made = instance(
        input_rate=100,
        operators=[
            {"id": "source", "group": {"tasks": 1}},
            {"id": "split", "cpu_per_tuple": 0.2, "group": {"tasks": 4}},
            {"id": "count", "cpu_per_tuple": 0.1, "group": {"tasks": 5}},
        ],
        streams=[
            {"from": "source", "to": "split", "selectivity": 3, "tuple_bytes": 10},
            {"from": "split", "to": "count", "selectivity": 0.5, "tuple_bytes": 4},
            {"from": "source", "to": "count", "selectivity": 1, "tuple_bytes": 1},
        ],
    )
    assert made.operators.tuple_rate.tolist() == [100, 300, 250]
    assert made.tasks.load[:, 0] == pytest.approx([0] + [60 / 4] * 4 + [25 / 5] * 5)
    assert [s.rate for s in made.streams] == [3000, 600, 100]
    assert made.total_traffic == pytest.approx(3700)


def test_given_values_win_where_a_member_overrides() -> None:
    made = instance(
        input_rate=10,
        operators=[{"id": "a", "cpu_per_tuple": 1, "group": {"tasks": 2}}],
        tasks=[{"id": "a/1", "load": {"cpu": 9}}],
        streams=[],
    )
    assert made.tasks.load[:, 0].tolist() == [5, 9]


def test_derived_loads_of_listed_tasks_are_derived_again() -> None:
    made = instance(
        input_rate=10,
        operators=[{"id": "a", "cpu_per_tuple": 1}],
        tasks=[{"id": "x", "operator": "a", "load": {"cpu": 9}}, {"id": "y", "operator": "a"}],
        streams=[],
    )
    assert made.tasks.load[:, 0].tolist() == [9, 5]
    again = Instance.from_json(made.to_json())
    assert again.tasks.load[:, 0].tolist() == [9, 5]
    assert again.sha256 == made.sha256
    assert made.replace(input_rate=20).tasks.load[:, 0].tolist() == [9, 10]


def test_without_an_input_rate_nothing_is_derived() -> None:
    made = instance(operators=[{"id": "a", "cpu_per_tuple": 1, "group": {"tasks": 2}}], streams=[])
    assert np.isnan(made.operators.tuple_rate).all()
    assert made.tasks.load.sum() == 0


def test_order_and_cycle() -> None:
    assert topological_order(4, [(2, 0), (0, 1), (3, 1)]) == [2, 3, 0, 1]
    assert find_cycle(4, [(2, 0), (0, 1), (3, 1)]) == []
    cycle = find_cycle(5, [(0, 1), (1, 2), (2, 3), (3, 1), (3, 4)])
    at = cycle.index(1)
    assert cycle[at:] + cycle[:at] == [1, 2, 3]  # 4 hangs behind the cycle, 0 before it
