"""Descent: what it says it gained is what the referee finds, and no limit breaks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optim.figures.measures import imc_gain_of
from optim.format.instance import Instance
from optim.kernels.descent import descend
from optim.kernels.state import state_of
from optim.referee import evaluate_indices
from tests.optim.kernels.cases import placements, problems
from tests.optim.kernels.test_state import check
from tests.optim.make import instance as small
from tests.optim.make import nodes


@given(st.data())
def test_gain_is_the_referees_after_every_step(data: st.DataObject) -> None:
    instance = data.draw(problems(groups=data.draw(st.booleans())))
    state = state_of(instance, data.draw(placements(instance)))
    order = np.arange(instance.num_tasks)
    for task in np.tile(order, 2):
        before, broken = imc_gain_of(instance, state.node), rules(instance, state.node)
        gained = descend(state, np.array([task]), 1, 1e-9)  # one task, one pass: one step
        assert imc_gain_of(instance, state.node) - before == pytest.approx(gained, abs=1e-9)
        assert gained >= 0
        assert rules(instance, state.node) <= broken
        check(instance, state)


def rules(instance: Instance, node: np.ndarray) -> set[tuple[str, str]]:  # type: ignore[type-arg]
    """Return which rules a placement breaks, and where."""
    return {(v.rule, v.where) for v in evaluate_indices(instance, node).violations}


def test_swaps_where_nothing_can_move() -> None:
    made = small(
        nodes=nodes(2, capacity={"cpu": 2}),
        operators=[],
        streams=[],
        tasks=[{"id": t, "load": {"cpu": 1}} for t in "abcd"],
        traffic=[["a", "b", 5], ["c", "d", 3]],
    )
    state = state_of(made, np.array([0, 1, 0, 1], dtype=np.int32))
    assert descend(state, np.arange(4), 9, 1e-9) == pytest.approx(8)
    assert state.node[0] == state.node[1] != state.node[2] == state.node[3]


def test_keeps_the_migration_budget() -> None:
    made = small(
        nodes=nodes(2, capacity={"cpu": 9}),
        operators=[],
        streams=[],
        tasks=[{"id": t, "load": {"cpu": 1}, "node": f"n{n}"} for t, n in ("a1", "b2", "c1", "d2")],
        traffic=[["a", "b", 5], ["c", "d", 3]],
        limits={"max_migrations": 1},
    )
    state = state_of(made, made.tasks.node)
    assert descend(state, np.arange(4), 9, 1e-9) == pytest.approx(5)
    assert evaluate_indices(made, state.node).feasible


def test_does_not_empty_a_node_below_its_bound() -> None:
    made = small(
        nodes=[{"id": "n1", "min_load": {"cpu": 1}}, {"id": "n2"}],
        operators=[],
        streams=[],
        tasks=[{"id": t, "load": {"cpu": 1}} for t in "ab"],
        traffic=[["a", "b", 5]],
    )
    state = state_of(made, np.array([0, 1], dtype=np.int32))
    descend(state, np.arange(2), 9, 1e-9)
    assert state.node.tolist() == [0, 0]
