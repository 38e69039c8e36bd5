"""The steps of repair by themselves, without the descent that follows them."""

from __future__ import annotations

import numpy as np
import pytest

from optim.format.instance import Instance
from optim.kernels.repair import (
    CROWD,
    fill_floors,
    go_home,
    homing_loss,
    place_rest,
    relieve,
)
from optim.kernels.state import state_of
from tests.optim.make import instance as small
from tests.optim.make import nodes

ONE = np.ones(1)


def chain(rates: list[int], capacity: float, count: int = 3, **parts: object) -> Instance:
    """Tasks of load 1 in a row with these rates between neighbours, on equal nodes."""
    ids = [f"t{i}" for i in range(len(rates) + 1)]
    return small(
        nodes=nodes(count, capacity={"cpu": capacity}),
        operators=[],
        streams=[],
        tasks=[{"id": t, "load": {"cpu": 1}} for t in ids],
        traffic=[[ids[i], ids[i + 1], rate] for i, rate in enumerate(rates)],
        **parts,
    )


def test_relieve_moves_what_loses_least() -> None:
    made = chain([9, 9, 1, 2], 3)
    state = state_of(made, np.array([0, 0, 0, 0, 1], dtype=np.int32))
    relieve(state, ONE, False)
    assert state.node.tolist() == [0, 0, 0, 1, 1]


def test_relieve_counts_loss_against_load() -> None:
    made = small(
        nodes=nodes(2, capacity={"cpu": 6}),
        operators=[],
        streams=[],
        tasks=[
            {"id": "a", "load": {"cpu": 4}},
            {"id": "b", "load": {"cpu": 1}},
            {"id": "c", "load": {"cpu": 5}},
        ],
        traffic=[["a", "c", 5], ["b", "c", 4]],
    )
    state = state_of(made, np.zeros(3, dtype=np.int32))
    relieve(state, ONE, False)  # a loses 5 for 4 of excess, b loses 4 for 1
    assert state.node.tolist() == [1, 0, 0]


def test_relieve_evicts_only_when_told() -> None:
    made = chain([5, 1], 1, count=1)
    state = state_of(made, np.zeros(3, dtype=np.int32))
    relieve(state, ONE, False)
    assert state.node.tolist() == [0, 0, 0]
    relieve(state, ONE, True)
    assert sorted(state.node.tolist()) == [-1, -1, 0]


def test_a_crowd_is_relieved_in_batches() -> None:
    made = chain([1] * (2 * CROWD - 1), 20, count=40)
    state = state_of(made, np.zeros(2 * CROWD, dtype=np.int32))
    relieve(state, ONE, False)
    assert np.bincount(state.node).max() <= 20


@pytest.mark.parametrize(("thorough", "missing"), [(False, 1), (True, 0)])
def test_place_rest_makes_room_when_thorough(thorough: bool, missing: int) -> None:
    made = small(
        nodes=[{"id": "n1", "capacity": {"cpu": 5}}, {"id": "n2", "capacity": {"cpu": 2}}],
        operators=[],
        streams=[],
        tasks=[{"id": t, "load": {"cpu": v}} for t, v in (("a", 2), ("b", 1), ("c", 4))],
    )
    state = state_of(made, np.array([0, 0, -1], dtype=np.int32))
    assert place_rest(state, np.arange(3), ONE, thorough) == missing


def test_homing_loss_and_going_home() -> None:
    made = small(
        nodes=nodes(2, capacity={"cpu": 9}),
        operators=[],
        streams=[],
        tasks=[
            {"id": "a", "node": "n1"},
            {"id": "b", "node": "n1"},
            {"id": "c", "node": "n2"},
        ],
        traffic=[["a", "c", 3], ["b", "c", 1], ["a", "b", 1]],
        limits={"max_migrations": 1},
    )
    state = state_of(made, np.ones(3, dtype=np.int32))
    assert homing_loss(state).tolist() == [4, 2, np.inf]
    assert go_home(state, np.array([1, 0])) == 1
    assert state.node.tolist() == [1, 0, 1]
    assert state.budget[0] == pytest.approx(0, abs=1e-5)


def test_fill_floors_swaps_a_larger_task_in() -> None:
    made = small(
        nodes=[
            {"id": "n1", "capacity": {"cpu": 4}},
            {"id": "n2", "capacity": {"cpu": 4}, "min_load": {"cpu": 3}},
        ],
        operators=[],
        streams=[],
        tasks=[{"id": "a", "load": {"cpu": 3}}, {"id": "b", "load": {"cpu": 2}}],
    )
    state = state_of(made, np.array([0, 1], dtype=np.int32))
    assert fill_floors(state, ONE) == 0
    assert state.node.tolist() == [1, 0]
