"""Links, crossing costs and what the rate drives, of generators and importers; kept by replays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.generators import generate
from optim import InvalidInput, solve
from streamplace.clusters.exchange.declarations import COSTS, IMPORTERS, add_network


@pytest.mark.slow
def test_generated_jobs_have_a_network() -> None:
    bare = generate("pipeline", nodes=4, tasks="3")
    made = generate("pipeline", nodes=4, tasks="3", link_share=0.2, crossing_cost="0.5,0.25")
    assert not bare.links.ids
    assert not bare.crossing_cost.any()
    assert len(made.links.ids) == 8
    assert made.links.capacity == pytest.approx([0.2 * made.total_traffic] * 8)
    assert made.crossing_cost.ravel().tolist() == [0.5, 0.25]
    assert solve(made).method == "throughput-exact"
    one = generate("pipeline", link_share=0.1, direction="in", rate_driven="cpu")
    assert len(one.links.ids) == one.num_nodes
    graph = generate("random_graphs", crossing_cost="1")
    assert graph.crossing_cost.ravel().tolist() == [1.0, 1.0]


@pytest.mark.parametrize("text", ["a", "1,2,3", "-1", "nan"])
def test_bad_costs_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="cost of crossing"):
        generate("pipeline", crossing_cost=text)


def test_importers_take_costs() -> None:
    for name in ("flink", "storm"):
        assert set(COSTS) <= set(IMPORTERS.get(name).options)
    document = add_network({"resources": ["cpu", "slot"]}, {"crossing_cost": "0.02,0.01"})
    assert document["crossing_cost"] == {"cpu": {"out": 0.02, "in": 0.01}}


def test_sources_say_the_same(tmp_path: Path) -> None:
    """What is generated is written and read back with its network."""
    made = generate("pipeline", nodes=40, link_share=0.1, crossing_cost="0.1", direction="both")
    path = tmp_path / "made.json"
    made.save(path)
    written = json.loads(path.read_text())
    assert written["crossing_cost"] == {"cpu": {"out": 0.1, "in": 0.1}}
    assert len(written["links"]) == 40
