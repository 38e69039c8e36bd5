"""Undoing moves: values by what changes, and no move without gain."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.generators import generate
from optim import Instance
from optim.figures.catalogue import OBJECTIVES
from optim.kernels.undo import (
    enough_for,
    fewer_moves,
    nearer_home,
    staying_if_as_good,
    values_undone,
    without_needless,
)
from optim.rules import broken
from optim.rules.placement import Placement
from tests.optim.make import instance


@pytest.fixture(scope="module")
def cluster() -> Instance:
    return generate("cluster", seed=3, nodes=6, key_groups=5, varies=40, one_to_one=50)


def shuffled(instance: Instance, seed: int) -> np.ndarray:
    """Return the current placement with some tasks elsewhere."""
    draw = np.random.default_rng(seed)
    node = instance.tasks.node.copy()
    some = draw.choice(instance.num_tasks, 12, replace=False)
    node[some] = draw.integers(0, instance.num_nodes, 12)
    return node


@pytest.mark.parametrize("name", ["load_distance", "imc_gain", "max_utilisation"])
@pytest.mark.parametrize("seed", range(5))
def test_values_are_those_of_the_referee(cluster: Instance, name: str, seed: int) -> None:
    node, objective = shuffled(cluster, seed), OBJECTIVES[name]
    moved = np.flatnonzero(node != cluster.tasks.node)
    found = values_undone(cluster, node, moved, objective)
    assert objective.value is not None
    for task, value in zip(moved, found, strict=True):
        undone = node.copy()
        undone[task] = cluster.tasks.node[task]
        true = objective.value(Placement(cluster, undone))
        assert value == pytest.approx(np.nan if true is None else true, nan_ok=True)


@pytest.mark.parametrize("name", ["load_distance", "imc_gain"])
@pytest.mark.parametrize("seed", range(5))
def test_every_move_that_is_left_brings_something(cluster: Instance, name: str, seed: int) -> None:
    node, objective = shuffled(cluster, seed), OBJECTIVES[name]
    assert objective.value is not None
    sign = -1.0 if objective.sense == "max" else 1.0
    fewer = without_needless(cluster, node, [objective])
    before = sign * objective.value(Placement(cluster, node))
    after = sign * objective.value(Placement(cluster, fewer))
    assert after <= before + 1e-9 * abs(before)
    moved = np.flatnonzero(fewer != cluster.tasks.node)
    assert set(moved) <= set(np.flatnonzero(node != cluster.tasks.node))
    assert (sign * values_undone(cluster, fewer, moved, objective) > after).all()
    assert len(broken(Placement(cluster, fewer))) <= len(broken(Placement(cluster, node)))


def test_ever_fewer_moves_end_in_none_and_most_of_the_gain_needs_no_more(
    cluster: Instance,
) -> None:
    node, objective = shuffled(cluster, 1), OBJECTIVES["imc_gain"]
    points = fewer_moves(cluster, node, objective)
    assert [p.moves for p in points] == list(range(points[0].moves, -1, -1))
    assert np.array_equal(points[-1].node, cluster.tasks.node)
    enough = enough_for(points, 0.95)
    gain = points[0].value.gain_over(points[-1].value)
    assert gain is not None
    if gain > 0:
        assert enough is not None
        kept = points[points[0].moves - enough].value.gain_over(points[-1].value)
        assert kept is not None
        assert kept >= 0.95 * gain
    else:
        assert enough is None


@pytest.mark.parametrize("seed", range(5))
def test_equal_nodes_and_tasks_change_places_where_fewer_move(seed: int) -> None:
    made = generate("cluster", seed=seed, nodes=6, key_groups=5, varies=0, one_to_one=50)
    home, rng = made.tasks.node, np.random.default_rng(seed)
    objectives = [OBJECTIVES["imc_gain"], OBJECTIVES["load_distance"]]
    turned = rng.permutation(6).astype(np.int32)[home]
    assert (nearer_home(made, turned, objectives) == home).all()
    turned[:8] = rng.integers(0, 6, 8)
    found = nearer_home(made, turned, objectives)
    assert (found != home).sum() < (turned != home).sum()
    for objective in objectives:
        assert objective.value is not None
        values = [objective.value(Placement(made, plan)) for plan in (turned, found)]
        assert values[0] == pytest.approx(values[1], rel=1e-8)


def test_moves_that_bring_nothing_together_are_none() -> None:
    """Two nodes that hand their tasks to each other: no move alone can be undone."""
    made = instance(
        nodes=[{"id": "n1", "capacity": {"cpu": 4.5}}, {"id": "n2", "capacity": {"cpu": 6.1}}],
        tasks=[
            {"id": "b", "load": {"cpu": 2.0}, "node": "n1"},
            {"id": "c", "load": {"cpu": 1.0}, "node": "n1"},
            {"id": "d", "load": {"cpu": 3.5}, "node": "n2"},
        ],
        operators=[],
        streams=[],
        traffic=[["b", "c", 2.0], ["c", "d", 1.5]],
    )
    turned, gain = np.array([1, 1, 0], dtype=np.int32), [OBJECTIVES["imc_gain"]]
    assert staying_if_as_good(made, turned, gain).tolist() == [0, 0, 1]
    apart = np.array([1, 0, 0], dtype=np.int32)
    assert staying_if_as_good(made, apart, [OBJECTIVES["max_utilisation"]]).tolist() == [0, 0, 1]
    assert staying_if_as_good(made, made.tasks.node, gain) is made.tasks.node


def test_unlike_nodes_keep_their_tasks() -> None:
    made = generate("cluster", seed=1, nodes=6, key_groups=5)
    nodes = [{"id": n, "capacity": {"cpu": 1e4 + i}} for i, n in enumerate(made.nodes.ids)]
    unlike = made.replace(nodes=nodes)
    turned = np.roll(np.arange(6, dtype=np.int32), 1)[unlike.tasks.node]
    assert nearer_home(unlike, turned, [OBJECTIVES["imc_gain"]]) is turned
