"""The state's arithmetic against the referee's, after every kind of step."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from optim.figures.measures import imc_gain_of, moved_tasks, node_loads
from optim.format.instance import Instance
from optim.kernels.place_rules import placing_floor, placing_room
from optim.kernels.state import State, connection, connections, pair_rate, put, state_of, take
from tests.optim.kernels.cases import placements, problems


def put_or_take(state, task, node):  # type: ignore[no-untyped-def]
    if state.node[task] >= 0:
        take(state, task)
    if node >= 0:
        put(state, task, node)


def traffic_of(state, task, node):  # type: ignore[no-untyped-def]
    return connection(state, task, node)


def rate_of(state, task, other):  # type: ignore[no-untyped-def]
    return pair_rate(state, task, other)


def check(instance: Instance, state: State) -> None:
    """Every derived figure of the state equals what the placement says."""
    loads = node_loads(instance, state.node) - instance.nodes.background
    np.testing.assert_allclose(state.room, placing_room(instance) - loads, atol=1e-9)
    np.testing.assert_allclose(state.spare, loads - placing_floor(instance), atol=1e-9)
    for node in range(instance.num_nodes):
        chain, task = [], state.first[node]
        while task >= 0:
            chain.append(int(task))
            task = state.after[task]
        assert sorted(chain) == np.flatnonzero(state.node == node).tolist()
        for group in range(len(state.tally)):
            assert state.tally[group, node] == ((state.group == group) & (state.node == node)).sum()
    limit = instance.limits.max_migrations
    if limit is not None:
        assert round(limit - state.budget[0]) == len(moved_tasks(instance, state.node))


@given(st.data())
def test_steps_keep_the_figures(data: st.DataObject) -> None:
    instance = data.draw(problems(groups=data.draw(st.booleans())))
    state = state_of(instance, data.draw(placements(instance)))
    check(instance, state)
    for _ in range(data.draw(st.integers(1, 6))):
        task = data.draw(st.integers(0, instance.num_tasks - 1))
        put_or_take(state, task, data.draw(st.integers(-1, instance.num_nodes - 1)))
        check(instance, state)


@given(st.data())
def test_connection_is_what_a_task_adds(data: st.DataObject) -> None:
    instance = data.draw(problems(groups=data.draw(st.booleans()), limits=False))
    node = data.draw(placements(instance))
    task = data.draw(st.integers(0, instance.num_tasks - 1))
    node[task] = -1
    state, without = state_of(instance, node), imc_gain_of(instance, node)
    for target in range(instance.num_nodes):
        there = node.copy()
        there[task] = target
        added = imc_gain_of(instance, there) - without
        assert abs(traffic_of(state, task, target) - added) < 1e-9


def test_full_streams_stay_blocks() -> None:
    operators = [
        {"id": name, "group": {"tasks": 40, "load": {"cpu": 40}}} for name in ("a", "b", "c")
    ]
    instance = Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "blocks",
            "nodes": [{"id": "n", "capacity": {"cpu": 60}}, {"id": "m", "capacity": {"cpu": 60}}],
            "operators": operators,
            "streams": [
                {"from": "a", "to": "b", "rate": 1600},
                {"from": "b", "to": "c", "rate": 40, "pattern": "one_to_one"},
            ],
        }
    )
    state = state_of(instance, (np.arange(120) % 2).astype(np.int32))
    assert len(state.block_rate) == 2  # a → b in both directions
    assert len(state.rate) == 80  # b → c
    assert rate_of(state, 0, 79) == 1.0  # a/0, b/39
    assert rate_of(state, 40, 80) == 1.0  # b/0, c/0
    assert rate_of(state, 40, 81) == 0.0
    assert traffic_of(state, 0, 1) == 20.0
    assert traffic_of(state, 40, 0) == 21.0


def test_pairs_without_traffic_are_no_rows() -> None:
    """A node is met when it gets its first weight; a weight of 0 would meet it again and again."""
    tasks = [{"id": f"t{i}", "load": {"cpu": 1.0}, "node": "n0"} for i in range(5)]
    instance = Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "silent",
            "resources": ["cpu"],
            "nodes": [{"id": f"n{i}", "capacity": {"cpu": 9.0}} for i in range(2)],
            "tasks": tasks,
            "traffic": [["t0", f"t{i}", 0.0] for i in range(1, 4)] + [["t0", "t4", 2.0]],
        }
    )
    state = state_of(instance, np.zeros(5, dtype=np.int32))
    weight, touched = np.zeros(2), np.zeros(2, dtype=np.int32)
    assert connections(state, 0, weight, touched) == 1
    assert weight.tolist() == [2.0, 0.0]
