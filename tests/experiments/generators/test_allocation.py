"""Generators of elastic operator allocation: what they state holds."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.generators import allocation, generate
from optim.errors import InvalidInput


def test_random_queries_have_the_use_and_the_fan_out_they_state() -> None:
    for seed in range(20):
        made = generate("eoa_random", seed=seed, nodes=8, operators=24, utilisation=0.7)
        assert (made.num_nodes, made.num_tasks, len(made.links.ids)) == (8, 24, 8)
        load = made.total_load[0] + made.nodes.background[:, 0].sum()
        assert load / made.nodes.capacity[:, 0].sum() == pytest.approx(0.7)
        out = np.bincount([s.source for s in made.streams], minlength=24)
        assert out[-1] == 0
        assert out[:-1].min() >= 1
        assert out.max() <= 3
        assert all(s.source < s.target for s in made.streams)


@pytest.mark.parametrize(("background", "utilisation"), [(0.55, 0.6), (0.7, 0.8), (0.5, 0.6)])
def test_much_background_stays_within_the_use_and_the_nodes(
    background: float, utilisation: float
) -> None:
    for seed in range(20):
        made = generate(
            "eoa_random", seed=seed, nodes=4, operators=6, background=background,
            utilisation=utilisation,
        )  # fmt: skip
        used = made.nodes.background[:, 0]
        assert (used <= made.nodes.capacity[:, 0]).all()
        use = (made.total_load[0] + used.sum()) / made.nodes.capacity[:, 0].sum()
        assert use == pytest.approx(utilisation)


def test_large_queries_are_drawn_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocation, "_WORK", 600)
    with pytest.raises(InvalidInput, match="in 30 draws"):
        generate("eoa_random", nodes=20, operators=20, utilisation=1.0)


def test_demand_is_derived_from_tuple_rates() -> None:
    made = generate("eoa_random", seed=1)
    table = made.operators
    assert made.input_rate == 1000
    assert table.cpu_per_tuple * table.tuple_rate == pytest.approx(made.tasks.load[:, 0])
    for stream in made.streams:
        sent = table.tuple_rate[stream.source] * stream.selectivity * stream.tuple_bytes
        assert stream.rate == pytest.approx(sent)


def test_racks_share_their_nodes_uplinks() -> None:
    made = generate("eoa_random", nodes=7, racks=3, oversubscription=2.0)
    links, sizes = made.links, np.diff(made.links.node_indptr)
    assert sorted(sizes[7:]) == [2, 2, 3]
    assert links.capacity[7:] == pytest.approx(links.capacity[0] * sizes[7:] / 2)
    assert sorted(links.node_indices[7:].tolist()) == list(range(7))


def test_the_testbed_is_the_papers() -> None:
    made = generate("eoa_testbed", workload=1200)
    assert made.num_nodes == 10
    assert (made.nodes.capacity[:, 0] == 400).all()
    assert (made.nodes.slots == 3).all()
    assert set(made.topologies.ids) == {"word-count", "join", "top-k"}
    running = made.tasks.restricted
    assert len(running) == 20
    assert len(np.unique(made.tasks.node[running])) == 6
    assert (made.tasks.slot[running] <= 1).all()
    placed = np.setdiff1d(np.arange(made.num_tasks), running)
    assert (made.tasks.node[placed] < 0).all()
    half = generate("eoa_testbed", workload=600)
    assert half.tasks.load[placed] == pytest.approx(made.tasks.load[placed] / 2)
    assert half.tasks.load[running] == pytest.approx(made.tasks.load[running])


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("eoa_random", {"racks": 11}),
        ("eoa_random", {"background": 0.6}),
        ("eoa_random", {"operators": 2, "nodes": 20, "utilisation": 0.9}),
        ("eoa_random", {"utilisation": 1.5}),
        ("eoa_testbed", {"busy_nodes": 11}),
        ("eoa_testbed", {"workload": 0}),
    ],
)
def test_what_makes_no_sense_is_refused(kind: str, wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidInput):
        generate(kind, **wrong)
