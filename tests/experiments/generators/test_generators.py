"""Generators: repeatable, within what they state, refusing what makes no sense."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments.generators import KINDS, generate
from experiments.sweep.instances import content_hash
from optim.errors import InvalidInput
from optim.format.instance import Instance
from optim.kernels.first_fit import packings

SMALL = {
    "sparse_random": {"tasks": 60, "nodes": 5},
    "community": {"tasks": 60, "nodes": 5},
    "geometric": {"tasks": 60, "nodes": 5},
    "dense": {"tasks": 30, "nodes": 5},
    "clustered": {"tasks": 30, "nodes": 5},
}

FIXED = ("pipeline", "figure2", "twitter", "bargain", "micro_dag", "application_dag")
"""Kinds in which nothing is random."""


@pytest.mark.parametrize("kind", KINDS.names())
def test_same_seed_same_bytes(kind: str) -> None:
    parameters, seed = SMALL.get(kind, {}), 0 if kind in FIXED else 3
    first, again = (generate(kind, seed=seed, **parameters) for _ in range(2))
    assert first.to_json() == again.to_json()
    assert first.name
    assert first.origin
    assert Instance.from_json(first.to_json()).sha256 == first.sha256
    assert KINDS.get(kind).random == (kind not in FIXED)
    if kind not in FIXED:
        assert content_hash(generate(kind, seed=4, **parameters)) != content_hash(first)


@pytest.mark.parametrize("kind", FIXED)
def test_a_seed_that_would_change_nothing_is_refused(kind: str) -> None:
    with pytest.raises(InvalidInput, match=r"draws nothing.*leave the seed out; what may"):
        generate(kind, seed=1)


@pytest.mark.parametrize("kind", KINDS.names())
def test_texts_are_read_as_the_parameters_types(kind: str) -> None:
    parameters = {k: str(v) for k, v in SMALL.get(kind, {}).items()}
    assert generate(kind, **parameters).to_json() == generate(kind, **SMALL.get(kind, {})).to_json()


def test_random_graphs_are_as_the_paper_says() -> None:
    groups, fan_outs = [], []
    for seed in range(300):
        made = generate("random_graphs", seed=seed)
        groups.append(made.num_operators)
        assert made.num_tasks == 17
        assert made.num_nodes == 8
        assert made.total_load[0] == pytest.approx(500)
        share = made.operators.group_load[:, 0] / made.operators.num_tasks
        assert share == pytest.approx(500 / 17)
        for stream in made.streams:
            assert stream.source < stream.target
            assert 5 <= stream.rate <= 20
        out = np.bincount([s.source for s in made.streams], minlength=made.num_operators)
        assert out[:-1].min() >= 1
        fan_outs += out[: made.num_operators - 3].tolist()  # enough later groups to choose from
    assert np.bincount(groups)[3:].min() > 30
    assert max(groups) == 7
    shares = np.bincount(fan_outs, minlength=4)[1:] / len(fan_outs)
    assert shares == pytest.approx([0.70, 0.25, 0.05], abs=0.05)


@pytest.mark.parametrize("costs", ["noisy", "ranked"])
def test_unequal_costs_are_redrawn_until_they_fit(costs: str) -> None:
    for seed in range(20):
        made = generate("random_graphs", seed=seed, costs=costs, capacity=80)
        assert made.total_load[0] == pytest.approx(500)
        assert any((packed >= 0).all() for packed in packings(made))
        if costs == "ranked":
            order = np.argsort(made.operators.num_tasks, kind="stable")
            assert (np.diff(made.operators.group_load[order, 0]) >= 0).all()


def test_a_job_that_never_fits_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"capacity.*1000 draws"):
        generate("random_graphs", capacity=62.5, costs="noisy")  # no room to spare


def test_pipeline() -> None:
    made = generate("pipeline", groups=3, tasks="4,5,6", costs="8,10,12", rates="1,2", nodes=3)
    assert made.operators.num_tasks.tolist() == [4, 5, 6]
    assert made.operators.group_load[:, 0].tolist() == [8, 10, 12]
    assert [s.rate for s in made.streams] == [1, 2]
    assert made.nodes.capacity[:, 0] == pytest.approx(11)
    assert generate("pipeline", capacity=7).nodes.capacity[0, 0] == 7


def test_task_graphs_have_the_stated_shape() -> None:
    for kind in ("sparse_random", "community", "geometric"):
        made = generate(kind, seed=1, tasks=3000, nodes=30, resources=2, unequal=0.5)
        degree = 2 * made.pairs.num_pairs / made.num_tasks
        assert degree == pytest.approx(8, rel=0.1)
        assert (made.traffic.source < made.traffic.target).all()
        room = made.nodes.capacity.sum(axis=0) / made.total_load
        assert room == pytest.approx(1.05, rel=1e-3)
        assert made.nodes.capacity[:, 0].max() > 1.5 * made.nodes.capacity[:, 0].min()


def test_dense_graphs_are_complete_and_bounded_on_both_sides() -> None:
    for kind in ("dense", "clustered"):
        made = generate(kind, tasks=40, nodes=4, unequal=0.2)
        assert made.pairs.num_pairs == 40 * 39 // 2
        room, least = made.nodes.capacity, made.nodes.min_load
        assert room.sum() / made.total_load[0] == pytest.approx(1.25, rel=1e-3)
        assert least / room == pytest.approx(0.75 / 1.25, rel=1e-3)
    within = generate("clustered", tasks=40, nodes=4, hidden=2).total_traffic
    assert within > 1.5 * generate("dense", tasks=40, nodes=4).total_traffic


def test_communities_attract() -> None:
    from heuristics.task_allocation.partition import METHOD
    from optim.figures.measures import imc_gain_of
    from optim.methods.registry import Request

    gain = {}
    for kind in ("community", "sparse_random"):
        made = generate(kind, tasks=800, nodes=16, slack=1.3)
        node = METHOD.run(made, Request(options=METHOD.read_options({}))).node
        assert node is not None
        gain[kind] = imc_gain_of(made, node) / made.total_traffic
    assert gain["community"] > gain["sparse_random"] + 0.15


@pytest.mark.parametrize(
    ("kind", "parameters", "message"),
    [
        ("pipelin", {}, "did you mean pipeline"),
        ("pipeline", {"nodez": 3}, "nodez is no parameter of pipeline"),
        ("pipeline", {"nodes": "x"}, "nodes: 'x' is no whole number"),
        ("pipeline", {"tasks": "1,2"}, "has 2 numbers, not 4"),
        ("pipeline", {"costs": "a"}, "is not a list of numbers"),
        ("pipeline", {"costs": "-1"}, "above 0"),
        ("pipeline", {"tasks": "1.5"}, "whole numbers"),
        ("random_graphs", {"least_groups": 9}, "above most_groups"),
        ("random_graphs", {"most_groups": 18}, "above tasks"),
        ("random_graphs", {"fan_out_1": 0.9}, "exceed 1"),
        ("community", {"least_load": 11}, "above most_load"),
        ("dense", {"slack": 0.7}, "more load than there is"),
        ("geometric", {"tasks": 10**12}, "out of range"),
        ("sparse_random", {"tasks": 10**6, "degree": 1000}, "40 million"),
        ("sparse_random", {"most_rate": float("inf")}, "most_rate: inf is no number"),
        ("geometric", {"most_load": 1e150}, "most_load: 1e[+]150 is above"),
        ("cluster", {"mean": "inf"}, "mean: 'inf' is no number"),
        ("cluster", {"nodes": 100_000, "key_groups": 10_000}, "1,000,000,000 tasks"),
        ("joint", {"nodes": 1000, "key_groups": 1000, "operators": 2}, "one_to_one.*pairs"),
        ("random_graphs", {"capacity": 10, "tasks": 100_000}, "cost: 500.0 is above"),
        ("storm_cluster", {"executors": 3}, "executors: 3 is below components = 6"),
        ("storm_cluster", {"executors": 10**5, "topologies": 1000}, "100,000,000 tasks"),
        ("storm_reference", {"replication": "1e9"}, "5,000,000,000 tasks"),
    ],
)
def test_what_is_refused(kind: str, parameters: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        generate(kind, **parameters)


def test_shares_of_fan_out_may_sum_to_one() -> None:
    """1 - 0.9 - 0.1 is below 0 by the last bit."""
    made = generate("random_graphs", fan_out_1=0.9, fan_out_2=0.1)
    assert np.bincount([s.source for s in made.streams]).max() <= 2


def test_bad_seeds_are_refused() -> None:
    for seed in (-1, True, 2**31):
        with pytest.raises(InvalidInput, match="seed"):
            generate("pipeline", seed=seed)


def test_kinds_describe_themselves() -> None:
    for name in KINDS.names():
        kind = KINDS.get(name)
        assert kind.name == name
        assert kind.summary
        assert len({option.name for option in kind.parameters}) == len(kind.parameters)


@pytest.mark.slow
def test_a_million_tasks(tmp_path: Path) -> None:
    made = generate("geometric", tasks=1_000_000, nodes=1000)
    assert made.num_tasks == 1_000_000
    assert made.headroom.min() > 0
