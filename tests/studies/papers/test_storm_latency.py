"""Simulated latencies of Storm's tuples, where they are known by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from experiments.studies.papers.storm.runs import NEAR, simulated
from optim.format.instance import Instance
from tests.studies.papers.test_claim import judge_claim


def _chain(load: float) -> Instance:
    return Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "chain",
            "nodes": [{"id": f"n{i}", "capacity": {"cpu": 100}} for i in range(2)],
            "tasks": [{"id": f"t{i}", "load": {"cpu": load}} for i in range(2)],
            "traffic": [["t0", "t1", 10.0]],
        }
    )


def _latency(load: float, nodes: tuple[int, int], slots: tuple[int, int], hop: float) -> float:
    places = (np.array(nodes, dtype=np.int32), np.array(slots, dtype=np.int32))
    return simulated(_chain(load), *places, hop, np.random.default_rng(1))


@pytest.mark.parametrize(
    ("nodes", "slots", "far"),
    [((0, 0), (0, 0), 0.0), ((0, 0), (0, 1), NEAR), ((0, 1), (0, 0), 1.0)],
)
def test_an_idle_cluster_takes_work_and_hops(
    nodes: tuple[int, int], slots: tuple[int, int], far: float
) -> None:
    # two executors at a thousandth of a node: hardly a tuple waits for another
    assert _latency(0.1, nodes, slots, 8.0) == pytest.approx(2.0 + 8.0 * far, rel=0.1)


def test_queues_are_those_of_the_theory() -> None:
    # one M/M/1 queue a node, at 50 %: a tuple takes twice its work in each
    assert _latency(50.0, (0, 1), (0, 0), 0.0) == pytest.approx(4.0, rel=0.15)


def _told(default: float, online: float) -> pd.DataFrame:
    lines = [("default", default, 80.0), ("online", online, 40.0)]
    return pd.DataFrame(
        [
            {
                "seed": seed,
                "scheduler": name,
                "hop": 8.0,
                "nodes_traffic": share,
                "fullest": 1.0 + share,
                "latency": latency + 0.01 * seed,
            }
            for seed in range(30)
            for name, latency, share in lines
        ]
    )


def test_simulated_latency_is_never_the_whole_claim() -> None:
    quicker, slower = _told(20.0, 15.0), _told(15.0, 20.0)
    assert {judge_claim("storm", "STORM-A2", table).verdict for table in (quicker, slower)} == {
        "not shown"
    }
    assert judge_claim("storm", "STORM-L1", quicker).verdict == "in part"
    assert judge_claim("storm", "STORM-L1", slower).verdict == "different"
    assert "with 8 of those swept" in (judge_claim("storm", "STORM-A2", quicker).cause or "")
    assert "with none of those" in (judge_claim("storm", "STORM-A2", slower).cause or "")
