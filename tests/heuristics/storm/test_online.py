"""``storm-online``: by hand, against a literal version, and what it does at its limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.generators import generate
from heuristics.storm.even import most_executors, nodes_to_use
from heuristics.storm.online import Pairs, directed_pairs, executors_into_slots
from heuristics.storm.online import _between as between_workers
from optim.format.instance import Instance
from optim.methods.registry import get_method
from optim.methods.solve import solve
from tests.heuristics.storm.clusters import chain
from tests.heuristics.storm.literal import Pair, phase_1


def slots(load: list[float], pairs: list[Pair], num: int, most: int, gamma: float) -> list[int]:
    """Run the compiled first phase."""
    ordered = sorted(pairs, key=lambda p: (-p[2], p[0], p[1]))
    columns = Pairs(
        np.array([p[0] for p in ordered], dtype=np.int64),
        np.array([p[1] for p in ordered], dtype=np.int64),
        np.array([p[2] for p in ordered], dtype=np.float64),
    )
    loads = np.array(load, dtype=np.float64)[:, None]
    place, _ = executors_into_slots(loads, columns, num, most, gamma, np.full(1, np.inf))
    return place.tolist()


def test_pairs_that_talk_most_share_a_slot() -> None:
    found = slots([1] * 4, [(0, 1, 10), (2, 3, 8), (1, 2, 5)], 2, 2, 2.0)
    assert found == [0, 0, 1, 1]


def test_a_later_pair_moves_an_executor() -> None:
    # 1-2 with 8 does not pay (0-1 with 10 and 2-3 with 9 stand); 0-2 with 7 more does: 9 is lost
    pairs: list[Pair] = [(0, 1, 10), (2, 3, 9), (1, 2, 8)]
    assert slots([1] * 4, pairs, 2, 3, 3.0) == [0, 0, 1, 1]
    assert slots([1] * 4, [*pairs, (0, 2, 7)], 2, 3, 3.0) == [0, 0, 0, 1]


def test_gamma_bounds_the_load_of_a_slot() -> None:
    # mean load 5: at gamma 1 the two heavy ones cannot share, at 2 they do
    pairs: list[Pair] = [(0, 1, 10), (2, 3, 1)]
    assert slots([4, 4, 1, 1], pairs, 2, 3, 2.0)[:2] == [0, 0]
    assert slots([4, 4, 1, 1], pairs, 2, 3, 1.0)[:2] == [0, 1]


def test_an_empty_slot_gets_whose_move_costs_least() -> None:
    found = slots([1] * 5, [(0, 1, 10), (1, 2, 9), (3, 4, 1)], 3, 3, 5.0)
    assert found == [0, 0, 0, 2, 1]


def test_executors_without_traffic_are_dealt_evenly() -> None:
    # 0 and 1 share slot 0; the empty slot gets 0, the first of equals; the others fill up evenly
    assert slots([1] * 6, [(0, 1, 5)], 2, 4, 3.0) == [1, 0, 0, 1, 0, 1]


def test_where_gamma_cannot_be_kept_it_gives_way() -> None:
    result = solve(chain([1, 2], workers=2, rates=[4.0]).replace(
        operators=[
            {"id": "c0", "topology": "t", "group": {"tasks": 1, "load": {"cpu": 9}}},
            {"id": "c1", "topology": "t", "group": {"tasks": 2, "load": {"cpu": 2}}},
        ]
    ), "storm-online", gamma=1.0)  # fmt: skip
    assert result.feasible
    assert any("gamma times the mean load" in note for note in result.notes)


@st.composite
def jobs(draw: st.DrawFn) -> tuple[list[float], list[Pair], int, float, float]:
    """Whole numbers, so that sums do not depend on their order."""
    count = draw(st.integers(2, 9))
    load = [float(x) for x in draw(st.lists(st.integers(0, 6), min_size=count, max_size=count))]
    ends = [(u, v) for u in range(count) for v in range(count) if u != v]
    chosen = draw(st.lists(st.sampled_from(ends), max_size=20, unique=True))
    pairs = [(u, v, float(draw(st.integers(1, 9)))) for u, v in chosen]
    alpha = draw(st.sampled_from([0.0, 0.25, 0.5, 1.0]))
    gamma = draw(st.sampled_from([1.0, 1.25, 2.0, 9.0]))
    return load, pairs, draw(st.integers(1, count)), alpha, gamma


@given(jobs())
def test_the_compiled_phase_is_the_literal_one(
    job: tuple[list[float], list[Pair], int, float, float],
) -> None:
    load, pairs, num, alpha, gamma = job
    most = most_executors(len(load), num, alpha)
    found = slots(load, pairs, num, most, gamma)
    assert found == phase_1(load, pairs, num, most, gamma)
    held = np.bincount(found, minlength=num)
    assert held.min() >= 1
    assert held.max() <= most


def four_workers(**node: Any) -> Instance:
    """Return a chain of four executors of load 5, a worker each, on two nodes."""
    made = chain([1, 1, 1, 1], workers=4, rates=[9.0, 8.0, 7.0])
    return made.replace(
        nodes=[{"id": f"n{i}", "slots": 4, **node} for i in range(2)],
        operators=[
            {"id": f"c{i}", "topology": "t", "group": {"tasks": 1, "load": {"cpu": 5}}}
            for i in range(4)
        ],
    )


def test_slots_that_talk_most_share_a_node() -> None:
    result = solve(four_workers(capacity={"cpu": 10}), "storm-online")
    assert result.feasible
    assert result.plan is not None
    nodes = [result.plan.assignment[f"c{i}/0"] for i in range(4)]
    assert nodes == ["n0", "n0", "n1", "n1"]
    assert result.objective is not None
    assert result.objective.value == 8.0
    assert result.evaluation is not None
    assert result.evaluation.interslot_traffic == 24.0


def test_the_published_slip_overloads_a_node() -> None:
    made = four_workers(capacity={"cpu": 10})
    meant = solve(made, "storm-online", node_spread=0.0)
    assert meant.feasible
    assert meant.evaluation is not None
    assert meant.evaluation.nodes_used == 2  # a node suffices for the slots, not for their load
    slip = solve(made, "storm-online", node_spread=0.0, forget_node_load=True)
    assert not slip.feasible
    assert slip.exit_code == 4
    assert slip.evaluation is not None
    assert slip.evaluation.nodes_used == 1


@pytest.mark.parametrize("spread", [0.0, 0.3, 0.7, 1.0])
def test_a_topology_is_on_at_least_as_many_nodes_as_the_spread_says(spread: float) -> None:
    for seed in range(5):
        made = generate("storm_reference", stages=3, replication="3", workers=4, seed=seed)
        result = solve(made, "storm-online", node_spread=spread, delta=1.0, alpha=0.5)
        assert result.evaluation is not None
        assert result.evaluation.nodes_used >= nodes_to_use(made.nodes.slots, 4, spread)


def test_delta_lets_a_topology_have_more_slots_on_a_node() -> None:
    made = four_workers(capacity={"cpu": 15})
    even = solve(made, "storm-online")
    uneven = solve(made, "storm-online", delta=1.0)
    assert even.evaluation is not None
    assert uneven.evaluation is not None
    assert sorted(even.evaluation.node_tasks.values()) == [2, 2]
    assert sorted(uneven.evaluation.node_tasks.values()) == [1, 3]
    assert uneven.evaluation.internode_traffic < even.evaluation.internode_traffic


def test_background_counts() -> None:
    made = four_workers(capacity={"cpu": 100})
    busy = [{**n, "background": {"cpu": 95}} for n in made.to_dict()["nodes"][:1]]
    result = solve(made.replace(nodes=[*busy, made.to_dict()["nodes"][1]]), "storm-online")
    assert result.feasible
    assert result.evaluation is not None
    assert result.evaluation.node_tasks == {"n0": 1, "n1": 3}
    assert any("delta and node_spread" in note for note in result.notes)


def test_a_cluster_that_is_too_small_is_overloaded_and_told() -> None:
    made = four_workers(capacity={"cpu": 11}, slots=2).replace(
        operators=[
            {"id": f"c{i}", "topology": "t", "group": {"tasks": 1, "load": {"cpu": load}}}
            for i, load in enumerate((7, 5, 5, 5))
        ]
    )
    result = solve(made, "storm-online")
    assert result.plan is not None
    assert not result.feasible
    assert result.exit_code == 4
    assert any("capacity for them" in note for note in result.notes)


def test_topologies_are_served_together() -> None:
    made = four_workers(capacity={"cpu": 100}).replace(
        topologies=[{"id": "t", "workers": 2}, {"id": "u", "workers": 2}],
        operators=[
            {"id": f"c{i}", "topology": "tu"[i // 2], "group": {"tasks": 1, "load": {"cpu": 5}}}
            for i in range(4)
        ],
        streams=[{"from": "c0", "to": "c1", "rate": 3}, {"from": "c2", "to": "c3", "rate": 4}],
    )
    spread, packed = (solve(made, "storm-online", node_spread=s) for s in (1.0, 0.0))
    assert spread.feasible
    assert packed.feasible
    assert spread.objective is not None
    assert packed.objective is not None
    assert spread.objective.value == 7.0  # two nodes each, whatever they say
    assert packed.objective.value == 0.0


def test_streams_both_ways_are_two_directed_pairs() -> None:
    made = chain([1, 1]).replace(
        streams=[{"from": "c0", "to": "c1", "rate": 2}, {"from": "c1", "to": "c0", "rate": 3}]
    )
    pairs = directed_pairs(made)
    assert list(zip(*(column.tolist() for column in pairs), strict=True)) == [
        (1, 0, 3.0),
        (0, 1, 2.0),
    ]


def test_pairs_of_large_streams_are_spread_out() -> None:
    made = chain([30, 40], workers=3)
    pairs = directed_pairs(made)
    assert len(pairs.rate) == 1200
    assert pairs.rate == pytest.approx(0.01)
    assert solve(made, "storm-online").feasible


def test_without_topologies_one_worker_a_node() -> None:
    made = chain([2, 2]).replace(
        topologies=[], operators=[{"id": f"c{i}", "group": {"tasks": 2}} for i in range(2)]
    )
    result = solve(made, "storm-online")
    assert result.feasible
    assert result.evaluation is not None
    assert result.evaluation.slots_used == 2


def test_the_same_plan_twice_and_in_other_units() -> None:
    from experiments.generators import generate

    made = generate("storm_cluster", 3, topologies=2, executors=12)
    first, second = (solve(made, "storm-online", alpha=0.2) for _ in range(2))
    assert first.plan is not None
    assert second.plan is not None
    assert first.plan.to_json() == second.plan.to_json()
    document = made.to_dict()
    for pair in document["traffic"]:
        pair[2] *= 4
    for stream in document["streams"]:
        stream["rate"] *= 4
    scaled = solve(Instance.from_dict(document), "storm-online", alpha=0.2).plan
    assert scaled is not None
    assert dict(scaled.assignment) == dict(first.plan.assignment)


def test_sums_that_differ_by_rounding_are_ties() -> None:
    # 0.1 + 0.2 from worker 1 to 2 is more than 0.3 from 0 to 1 by the last bit
    pairs = Pairs(np.array([0, 1, 1]), np.array([1, 2, 3]), np.array([0.3, 0.2, 0.1]))
    found = between_workers(pairs, np.array([0, 1, 2, 2]), 3)
    assert list(zip(found.source.tolist(), found.target.tolist(), strict=True)) == [(0, 1), (1, 2)]


def test_declaration() -> None:
    method = get_method("storm-online")
    assert {o.name for o in method.options} == {
        "alpha",
        "gamma",
        "delta",
        "node_spread",
        "forget_node_load",
    }
    assert method.read_options({})["forget_node_load"] is False


def test_less_gamma_is_tried_before_a_capacity_gives_way() -> None:
    loads = zip("sabc", (30, 30, 10, 10), strict=True)
    made = Instance.from_dict(
        {
            "format": "streamplace.instance/1", "name": "heavy", "resources": ["cpu"],
            "nodes": [{"id": n, "capacity": {"cpu": 50}, "slots": 1} for n in "xy"],
            "topologies": [{"id": "t", "workers": 2}],
            "operators": [{"id": o, "topology": "t"} for o in "sabc"],
            "tasks": [{"id": f"{o}0", "operator": o, "load": {"cpu": load}} for o, load in loads],
            "traffic": [["s0", "a0", 9], ["a0", "b0", 2], ["b0", "c0", 1]],
        }
    )  # fmt: skip
    result = solve(made, "storm-online")
    assert result.feasible
    assert "gamma 1.375: with 1.5 slots found no node with the capacity" in result.notes
    tight = made.replace(nodes=[{"id": n, "capacity": {"cpu": 39}, "slots": 1} for n in "xy"])
    lost = solve(tight, "storm-online")
    assert not lost.feasible
    assert not any(note.startswith("gamma") for note in lost.notes)
