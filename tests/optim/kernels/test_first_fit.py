"""First-fit decreasing and its relatives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optim.format.instance import Instance
from optim.kernels.first_fit import packings, task_sizes
from optim.referee import evaluate_indices
from tests.optim.kernels.cases import problems
from tests.optim.make import instance as small
from tests.optim.make import nodes


def listed(loads: list[float], capacities: list[float], **task_parts: object) -> Instance:
    return small(
        nodes=[{"id": f"n{i}", "capacity": {"cpu": c}} for i, c in enumerate(capacities)],
        operators=[],
        streams=[],
        tasks=[
            {"id": f"t{i}", "load": {"cpu": v}, **task_parts.get(f"t{i}", {})}  # type: ignore[dict-item]
            for i, v in enumerate(loads)
        ],
    )


def naive(instance: Instance) -> list[int]:
    """Do first-fit decreasing as a textbook says it, one resource."""
    room = instance.headroom[:, 0].copy()
    placed = [-1] * instance.num_tasks
    for task in sorted(range(instance.num_tasks), key=lambda t: (-instance.tasks.load[t, 0], t)):
        for node in range(instance.num_nodes):
            if instance.tasks.load[task, 0] <= room[node] + 1e-9:
                placed[task] = node
                room[node] -= instance.tasks.load[task, 0]
                break
    return placed


@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=20),
    st.lists(st.integers(3, 12), min_size=1, max_size=6),
)
def test_equals_the_textbook(loads: list[int], capacities: list[int]) -> None:
    instance = listed([float(v) for v in loads], [float(c) for c in capacities])
    assert next(packings(instance)).tolist() == naive(instance)


def test_rules() -> None:
    instance = listed([3, 2], [9, 4, 3])
    first, _, best, _, worst, _ = packings(instance)  # each by size and by load
    assert (first.tolist(), best.tolist(), worst.tolist()) == ([0, 0], [2, 1], [0, 0])
    *_, spread, _ = packings(listed([3, 2], [5, 4]))
    assert spread.tolist() == [0, 1]


def test_tasks_with_few_choices_go_first() -> None:
    instance = listed([3, 3], [3, 3], t1={"allowed": ["n0"]})
    restricted_first, by_size, *_ = packings(instance)
    assert (restricted_first.tolist(), by_size.tolist()) == ([1, 0], [0, -1])


def test_size_is_the_greatest_share() -> None:
    made = small(
        resources=["cpu", "memory"],
        nodes=nodes(2, capacity={"cpu": 10, "memory": 100}),
        operators=[],
        streams=[],
        tasks=[{"id": "a", "load": {"cpu": 5, "memory": 1}}, {"id": "b", "load": {"memory": 80}}],
    )
    assert task_sizes(made).tolist() == pytest.approx([0.5, 0.8])


def test_without_capacities_sizes_are_loads() -> None:
    made = small(nodes=[{"id": "n"}])
    assert task_sizes(made).tolist() == [2, 2, 4, 4]
    assert next(packings(made)).tolist() == [0, 0, 0, 0]


@given(problems())
def test_never_breaks_capacity_or_allowed(instance: Instance) -> None:
    for packed in packings(instance):
        rules = {v.rule for v in evaluate_indices(instance, packed).violations}
        assert not rules & {"allowed"}
        assert "capacity" not in rules or (instance.headroom < 0).any()
        on_leaving = instance.nodes.leaving[packed] & (packed >= 0)
        for task in np.flatnonzero(on_leaving):
            assert not (instance.allowed_mask(int(task)) & instance.open_nodes).any()


def test_permuted_tasks_give_the_same_packing() -> None:
    rng = np.random.default_rng(0)
    loads = rng.permutation(np.arange(1.0, 30.0))
    instance = listed(loads.tolist(), [60.0] * 10)
    order = rng.permutation(29)
    other = listed(loads[order].tolist(), [60.0] * 10)
    first, second = next(packings(instance)), next(packings(other))
    assert first[order].tolist() == second.tolist()


@pytest.mark.filterwarnings("error")
def test_a_resource_without_room_warns_of_nothing() -> None:
    made = small(
        resources=["cpu", "memory"],
        nodes=nodes(2, capacity={"cpu": 0, "memory": 1}),
        operators=[{"id": "a", "group": {"tasks": 2, "load": {"cpu": 1e9, "memory": 1}}}],
        streams=[],
    )
    assert all((placed == -1).all() for placed in packings(made))
