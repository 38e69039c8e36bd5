"""Loads and collocation of whole and split deployments, serialisation included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optim.figures.measures import imc_gain_of
from optim.format.instance import Instance
from streamplace.policies.nodes import (
    CostModel,
    Deployment,
    collocated_traffic,
    crossing_load,
    measured_load,
    node_loads,
)
from tests.heuristics.rebalancing.cases import case, random_case

COSTS = CostModel(serialise=0.5, deserialise=0.25)


def test_crossing_traffic_costs_both_sides() -> None:
    made = case("001", [(0, 1, 8.0), (0, 2, 4.0)], [1, 2, 3])
    deployment = Deployment.whole(made.tasks.node)
    assert crossing_load(made, deployment, COSTS).sum(axis=1).tolist() == [2.0, 0.0, 1.0]
    assert node_loads(made, deployment, COSTS).tolist() == [5.0, 4.0]
    assert measured_load(made, deployment, COSTS)[:, 0].tolist() == [3.0, 2.0, 4.0]
    assert collocated_traffic(made, deployment) == 8.0


def test_collocation_lowers_the_whole_load() -> None:
    made = case("01", [(0, 1, 8.0)], [1, 1])
    apart, together = Deployment.whole([0, 1]), Deployment.whole([0, 0])
    assert node_loads(made, apart, COSTS).sum() == pytest.approx(2 + 6)
    assert node_loads(made, together, COSTS).sum() == 2.0


def test_a_split_key_group_meets_its_partner_in_part() -> None:
    # k0 three quarters on n0, a quarter on n1; k1 on n0
    made = case("00", [(0, 1, 8.0)], [4, 1], nodes=2)
    deployment = Deployment(np.array([[0, 1], [0, 0]]), np.array([0.75, 1.0]))
    assert collocated_traffic(made, deployment) == 6.0
    assert crossing_load(made, deployment, COSTS).tolist() == [[0.0, 1.0], [0.5, 0.0]]
    assert node_loads(made, deployment, COSTS).tolist() == [3 + 1 + 0.5, 1 + 1]


def _streams(full: bool) -> Instance:
    size = 12
    value: dict[str, Any] = {
        "format": "streamplace.instance/1",
        "name": "blocks",
        "nodes": [{"id": f"n{i}"} for i in range(3)],
        "operators": [{"id": o, "group": {"tasks": size, "load": {"cpu": 12}}} for o in "ab"],
        "tasks": [{"id": f"{o}/{i}", "node": f"n{i % 3}"} for o in "ab" for i in range(size)],
    }
    if full:
        value["streams"] = [{"from": "a", "to": "b", "rate": 144}]
    else:
        value["traffic"] = [[f"a/{i}", f"b/{j}", 1] for i in range(size) for j in range(size)]
    return Instance.from_dict(value)


@given(st.integers(0, 10_000))
def test_full_streams_count_as_their_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    block, pairs = _streams(True), _streams(False)
    assert block.flows.blocks and not pairs.flows.blocks
    deployment = Deployment(rng.integers(0, 3, (24, 2)), rng.random(24))
    np.testing.assert_allclose(
        crossing_load(block, deployment, COSTS).sum(axis=1),
        crossing_load(pairs, deployment, COSTS).sum(axis=1),
    )
    assert collocated_traffic(block, deployment) == pytest.approx(
        collocated_traffic(pairs, deployment)
    )
    np.testing.assert_allclose(
        node_loads(block, deployment, COSTS), node_loads(pairs, deployment, COSTS)
    )


@given(st.integers(0, 10_000))
def test_split_in_name_only_is_whole(seed: int) -> None:
    made = random_case(seed)
    rng = np.random.default_rng(seed)
    node = rng.integers(0, made.num_nodes, made.num_tasks)
    whole = Deployment.whole(node)
    other = rng.integers(0, made.num_nodes, made.num_tasks)
    named = Deployment(np.column_stack([node, other]), np.ones(made.num_tasks))
    gain = imc_gain_of(made, node.astype(np.int32))
    assert collocated_traffic(made, whole) == pytest.approx(gain)
    assert collocated_traffic(made, named) == pytest.approx(gain)
    np.testing.assert_allclose(node_loads(made, whole, COSTS), node_loads(made, named, COSTS))
    crossing = made.total_traffic - gain
    extra = float(crossing_load(made, whole, COSTS).sum())
    assert extra == pytest.approx(0.75 * crossing)
