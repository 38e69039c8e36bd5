"""Classes of interchangeable tasks: found from groups, from single pairs, and never too coarse."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given

from optim.errors import InvalidInput
from optim.format.instance import Instance
from optim.kernels.classes import node_classes, task_groups
from tests.formulations.task_allocation.cases import places, random_instance, seeds
from tests.optim.make import document, instance, nodes


def classes_by_name(made: Instance) -> list[list[str]]:
    groups = task_groups(made)
    return [[made.tasks.ids[t] for t in groups.tasks_of(g)] for g in range(groups.num_groups)]


def interchangeable(made: Instance, t: int, u: int) -> bool:
    """Say by the definition whether two tasks are, from the full matrix."""
    rate = made.adjacency.toarray()
    others = np.ones(made.num_tasks, dtype=np.bool_)
    others[[t, u]] = False
    return bool(
        np.array_equal(made.tasks.load[t], made.tasks.load[u])
        and np.array_equal(places(made, t), places(made, u))
        and np.allclose(rate[t, others], rate[u, others], rtol=1e-9, atol=0)
    )


def test_an_operator_with_full_streams_is_one_class() -> None:
    made = instance()
    groups = task_groups(made)
    assert classes_by_name(made) == [["a/0", "a/1"], ["b/0", "b/1"]]
    assert groups.load.tolist() == [[2.0], [4.0]]
    assert groups.rates(made).tolist() == [[0.0, 3.0], [3.0, 0.0]]


def test_large_full_streams_are_not_expanded() -> None:
    made = instance(
        operators=[
            {"id": "a", "group": {"tasks": 8000, "load": {"cpu": 4}}},
            {"id": "b", "group": {"tasks": 8000, "load": {"cpu": 8}}},
        ]
    )
    groups = task_groups(made)
    assert groups.num_groups == 2
    assert groups.rates(made)[0, 1] == pytest.approx(12 / 8000**2)
    with pytest.raises(InvalidInput, match="task pairs are more than"):
        _ = made.pairs


def test_one_to_one_makes_singles() -> None:
    made = instance(streams=[{"from": "a", "to": "b", "rate": 12, "pattern": "one_to_one"}])
    assert task_groups(made).num_groups == 4


def test_rescale_keeps_twins_that_share_a_receiver() -> None:
    made = instance(
        operators=[
            {"id": "a", "group": {"tasks": 4, "load": {"cpu": 4}}},
            {"id": "b", "group": {"tasks": 2, "load": {"cpu": 8}}},
        ],
        streams=[{"from": "a", "to": "b", "rate": 12, "pattern": "rescale"}],
    )
    assert classes_by_name(made) == [["a/0", "a/1"], ["a/2", "a/3"], ["b/0"], ["b/1"]]


def test_explicit_pairs_with_the_same_partners_are_one_class() -> None:
    tasks = [{"id": f"t{i}", "load": {"cpu": 1}} for i in range(4)]
    made = instance(
        operators=[],
        streams=[],
        tasks=tasks,
        traffic=[["t0", "t3", 2], ["t3", "t1", 2], ["t2", "t3", 2.5]],
    )
    assert classes_by_name(made) == [["t0", "t1"], ["t2"], ["t3"]]


def test_both_directions_of_a_pair_count_together() -> None:
    tasks = [{"id": f"t{i}", "load": {"cpu": 1}} for i in range(3)]
    made = instance(
        operators=[],
        streams=[],
        tasks=tasks,
        traffic=[["t0", "t2", 1], ["t2", "t0", 2], ["t1", "t2", 3]],
    )
    assert classes_by_name(made) == [["t0", "t1"], ["t2"]]


def test_a_clique_of_equal_pairs_is_one_class_with_a_rate_of_its_own() -> None:
    tasks = [{"id": f"t{i}", "load": {"cpu": 1}} for i in range(4)]
    pairs = [[f"t{i}", f"t{j}", 5] for i, j in combinations(range(3), 2)]
    made = instance(
        operators=[],
        streams=[],
        tasks=tasks,
        traffic=[*pairs, ["t0", "t3", 1], ["t1", "t3", 1], ["t2", "t3", 1]],
    )
    groups = task_groups(made)
    assert classes_by_name(made) == [["t0", "t1", "t2"], ["t3"]]
    assert groups.rates(made).tolist() == [[5.0, 1.0], [1.0, 0.0]]


def test_rounding_noise_does_not_split_a_class() -> None:
    tasks = [{"id": "t0", "load": {"cpu": 0.3}}, {"id": "t1", "load": {"cpu": 0.1 + 0.2}}]
    made = instance(operators=[], streams=[], tasks=tasks)
    assert task_groups(made).num_groups == 1


@pytest.mark.parametrize(
    "entry", [{"load": {"cpu": 2.5}}, {"allowed": ["n1"]}], ids=["load", "allowed"]
)
def test_a_member_that_differs_is_a_class_of_its_own(entry: dict[str, object]) -> None:
    made = instance(tasks=[{"id": "a/1", **entry}])
    assert classes_by_name(made) == [["a/0"], ["a/1"], ["b/0", "b/1"]]


@given(seeds)
def test_classes_are_exactly_the_interchangeable_tasks(seed: int) -> None:
    made = random_instance(seed)
    groups = task_groups(made)
    for t, u in combinations(range(made.num_tasks), 2):
        same = groups.group[t] == groups.group[u]
        assert same == interchangeable(made, t, u), (made.tasks.ids[t], made.tasks.ids[u])


@given(seeds)
def test_class_rates_add_up_to_the_matrix(seed: int) -> None:
    made = random_instance(seed)
    groups = task_groups(made)
    spread = groups.rates(made)[np.ix_(groups.group, groups.group)]
    np.fill_diagonal(spread, 0.0)
    np.testing.assert_allclose(spread, made.adjacency.toarray(), rtol=1e-9, atol=1e-12)


@given(seeds)
def test_counts_of_a_placement(seed: int) -> None:
    made = random_instance(seed)
    groups = task_groups(made)
    node = np.random.default_rng(seed).integers(-1, made.num_nodes, made.num_tasks)
    counts = groups.counts(node.astype(np.int32), made.num_nodes)
    for n in range(made.num_nodes):
        for g in range(groups.num_groups):
            assert counts[n, g] == (node[groups.tasks_of(g)] == n).sum()


def test_identical_nodes_are_one_class() -> None:
    made = instance(nodes=nodes(3, capacity={"cpu": 10}))
    assert node_classes(made).node_class.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("field", "classes"),
    [
        ({"capacity": {"cpu": 11}}, [0, 1, 0]),
        ({"min_load": {"cpu": 1}}, [0, 1, 0]),
        ({"background": {"cpu": 1}}, [0, 1, 0]),
        ({"leaving": True}, [0, -1, 0]),
        ({"weight": 2.0}, [0, 0, 0]),
        ({"rack": "r"}, [0, 0, 0]),
    ],
)
def test_what_tells_nodes_apart(field: dict[str, object], classes: list[int]) -> None:
    value = nodes(3, capacity={"cpu": 10})
    value[1].update(field)
    assert node_classes(instance(nodes=value)).node_class.tolist() == classes


def test_background_that_leaves_the_same_room_tells_nothing_apart() -> None:
    value = nodes(2, capacity={"cpu": 10})
    value[1] = {"id": "n2", "capacity": {"cpu": 13}, "background": {"cpu": 3}}
    found = node_classes(instance(nodes=value))
    assert found.room[:, 0] == pytest.approx(10, abs=1e-5)


def test_nodes_differ_by_who_may_use_them() -> None:
    made = instance(nodes=nodes(3, capacity={"cpu": 10}), tasks=[{"id": "a/0", "allowed": ["n2"]}])
    assert node_classes(made).node_class.tolist() == [0, 1, 0]


def test_a_leaving_node_stays_usable_for_a_task_with_no_other() -> None:
    value = nodes(2, capacity={"cpu": 10})
    value[1]["leaving"] = True
    made = instance(nodes=value, tasks=[{"id": "a/0", "allowed": ["n2"]}])
    found = node_classes(made)
    groups = task_groups(made)
    assert found.node_class.tolist() == [0, 1]
    single, rest = groups.kind[groups.group[0]], groups.kind[groups.group[1]]
    assert found.target[single].tolist() == [False, True]
    assert found.target[rest].tolist() == [True, False]


def test_no_tasks_at_all() -> None:
    made = Instance.from_dict(document(operators=[], streams=[]))
    assert task_groups(made).num_groups == 0
