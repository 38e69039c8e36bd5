"""Nodes that come and go, and a period's instance on them."""

from __future__ import annotations

import numpy as np

from optim.format.instance import Instance
from streamplace.policies.nodes import Cluster, on_cluster
from tests.heuristics.rebalancing.cases import case


def test_nodes_come_and_go() -> None:
    cluster = Cluster.of(case("01")).grown(["a", "b"], 0)
    assert cluster.ids == ("n0", "n1", "a", "b")
    smaller, new = cluster.without(np.array([False, True, False, True]))
    assert smaller.ids == ("n0", "a")
    assert new.tolist() == [0, -1, 1, -1]
    assert smaller.grown(["c"], 1).ids == ("n0", "a", "c")
    assert smaller.grown(["c"], 1).base == (0, 0, 1)


def test_marking_and_recalling() -> None:
    cluster = Cluster.of(case("012", leaving=(2,))).marked([0])
    assert cluster.leaving == (True, False, True)
    assert cluster.marked([2], leaving=False).leaving == (True, False, False)


def test_added_nodes_are_like_their_template() -> None:
    value = case("0112", allowed={0: [0, 1], 3: [2]}).to_dict()
    value["nodes"][1] |= {"capacity": {"cpu": 7.0}, "background": {"cpu": 2.0}, "weight": 3.0}
    value["links"] = [{"id": "up", "nodes": ["n0", "n1"], "capacity": 5.0}]
    period = Instance.from_dict(value)
    cluster, _ = (
        Cluster.of(period).grown(["added-1"], 1).without(np.array([True, False, False, False]))
    )
    made = on_cluster(period, cluster, period.tasks.load * 2, np.array([2, 0, 0, 1]), period.limits)
    assert made.nodes.ids == ("n1", "n2", "added-1")
    assert made.nodes.capacity[:, 0].tolist() == [7.0, np.inf, 7.0]
    assert made.nodes.weight.tolist() == [3.0, 1.0, 3.0]
    assert made.tasks.load[:, 0].tolist() == [2.0] * 4
    # k0 was allowed on n0 and n1: now on n1 and its copy
    assert made.allowed_mask(0).tolist() == [True, False, True]
    assert made.allowed_mask(3).tolist() == [False, True, False]
    assert made.links.node_indices.tolist() == [0]
    # what is derived from the tables is derived anew, and can be written and read
    assert Instance.from_json(made.to_json()).sha256 == made.sha256
