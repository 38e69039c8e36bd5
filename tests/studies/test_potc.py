"""PoTC: hashing, settling, merging."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.replay.run import Setting
from experiments.studies.potc import Potc, candidates, deploy, merge_loads, split_loads
from optim.format.instance import Instance
from streamplace.policies.parallelism import ScalingDecision
from tests.experiments.replay.cases import recording
from tests.experiments.replay.test_framework import ToldRule, play
from tests.heuristics.rebalancing.cases import case


def many(nodes: int = 6, leaving: tuple[int, ...] = ()) -> Instance:
    return case("0" * 300, nodes=nodes, leaving=leaving)


def test_every_key_group_has_two_candidates_spread_evenly() -> None:
    two, _ = candidates(many(), 0)
    assert (two[:, 0] != two[:, 1]).all()
    counts = np.bincount(two.ravel(), minlength=6)
    assert counts.min() > 60
    assert counts.max() < 140
    other, _ = candidates(many(), 1)
    assert (two != other).any()


def test_a_leaving_node_moves_only_its_own_key_groups() -> None:
    before, merge = candidates(many(), 0)
    after, merged = candidates(many(leaving=(2,)), 0)
    assert not (after == 2).any()
    untouched = (before != 2).all(axis=1)
    np.testing.assert_array_equal(before[untouched], after[untouched])
    np.testing.assert_array_equal(merge[merge != 2], merged[merge != 2])


def test_allowed_nodes_are_the_only_candidates() -> None:
    made = case("00", nodes=4, allowed={0: [1, 3], 1: [2]})
    two, _ = candidates(made, 0)
    assert sorted(two[0].tolist()) == [1, 3]
    assert two[1].tolist() == [2, 2]


def test_a_leaving_node_only_where_there_is_no_other() -> None:
    made = case("012", nodes=4, leaving=(2, 3), allowed={0: [2], 1: [2, 3], 2: [1, 2]})
    two, _ = candidates(made, 0)
    assert two[0].tolist() == [2, 2]
    assert sorted(two[1].tolist()) == [2, 3]
    assert two[2].tolist() == [1, 1]


def test_one_key_group_evens_out_its_two_nodes() -> None:
    made = case("0", loads=[4], nodes=2)
    share = split_loads(made, np.array([[0, 1]]), np.array([0.0, 2.0]))
    assert share.tolist() == [0.75]
    # as far as it can: against a node that is higher than it could ever reach
    share = split_loads(made, np.array([[0, 1]]), np.array([0.0, 9.0]))
    assert share.tolist() == [1.0]


def test_nobody_gains_by_another_split() -> None:
    made = case("0" * 40, loads=[float(1 + i % 7) for i in range(40)], nodes=5)
    places, _ = candidates(made, 0)
    share = split_loads(made, places, np.zeros(5))
    load = made.tasks.load[:, 0]
    height = np.bincount(
        places.ravel(), np.column_stack([share * load, (1 - share) * load]).ravel(), 5
    )
    a, b = height[places[:, 0]], height[places[:, 1]]
    inside = (share > 1e-6) & (share < 1 - 1e-6)
    np.testing.assert_allclose(a[inside], b[inside], atol=0.05)
    assert (a[share >= 1 - 1e-6] <= b[share >= 1 - 1e-6] + 0.05).all()


def test_merging_costs_a_share_of_the_load_where_there_is_state() -> None:
    made = case("000", loads=[4, 2, 8], nodes=3, state=[1.0, 0.0, 1.0])
    places = np.array([[0, 1], [0, 1], [2, 2]])
    merge = np.array([2, 2, 0])
    assert merge_loads(made, places, merge, 0.5).tolist() == [0.0, 0.0, 2.0]


def test_repeats() -> None:
    made = case("0123" * 10)
    one, two = deploy(made, 3, 0.1), deploy(made, 3, 0.1)
    np.testing.assert_array_equal(one.places, two.places)
    np.testing.assert_array_equal(one.share, two.share)
    assert one.merge is not None
    assert one.merge.sum() == pytest.approx(4.0)


def test_potc_follows_the_loads_at_once() -> None:
    periods = recording("0" * 60, [[1.0] * 60, [3.0] * 30 + [1.0] * 30], nodes=4)
    rows, state = play(Setting(periods), Potc(merge=0.0))
    assert max(r["load_distance"] for r in rows) < 0.5
    assert rows[0]["load_distance_next"] == pytest.approx(rows[1]["load_distance"])
    assert [r["migrations"] for r in rows] == [0, 0]
    assert not state.deployment.is_whole


def test_potc_rehashes_when_nodes_change() -> None:
    periods = recording("0123" * 10, [[1.0] * 40] * 3)
    rule = ToldRule([ScalingDecision(mark=(1,)), ScalingDecision(add=1), ScalingDecision()])
    rows, state = play(Setting(periods), Potc(), rule)
    assert [r["nodes"] for r in rows] == [4, 4, 4]
    assert rows[0]["migrations"] > 0
    assert rows[1]["dropped"] == 1
    assert "added-1" in state.cluster.ids


def test_feasibility_is_open_for_what_is_split() -> None:
    periods = recording("001", [[3, 1, 2], [1, 5, 2]])
    rows, _ = play(Setting(periods), Potc())
    assert [row["feasible"] for row in rows] == [None, None]
