"""The rebalancing generators: shape of the loads, of the traffic, and determinism."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from experiments.generators import KINDS, generate
from optim.errors import InvalidInput
from optim.format.instance import Instance


def made(kind: str, seed: int = 0, **given: Any) -> Instance:
    return KINDS.get(kind).make(seed, given)


def node_loads(instance: Instance) -> np.ndarray:
    return np.bincount(instance.tasks.node, instance.tasks.load[:, 0], instance.num_nodes)


def test_a_cluster_has_a_tenth_of_its_nodes_low_and_a_tenth_high() -> None:
    load = np.sort(node_loads(made("cluster", nodes=40, varies=40, noise=2)))
    assert load[:4] == pytest.approx([30.0] * 4, abs=1.0)
    assert load[4:36] == pytest.approx([50.0] * 32, abs=1.0)
    assert load[36:] == pytest.approx([70.0] * 4, abs=1.0)


def test_half_of_a_shifted_nodes_key_groups_change() -> None:
    instance = made("cluster", nodes=10, key_groups=10, noise=0, varies=40)
    high = int(node_loads(instance).argmax())
    load = np.sort(instance.tasks.load[instance.tasks.node == high, 0])
    assert load[:5].tolist() == [5.0] * 5
    assert load[5:].sum() == pytest.approx(25 + 20, abs=1e-3)
    assert (load[5:] > 5 + 20 / 5 / 3).all()


def test_no_key_group_falls_to_nothing() -> None:
    instance = made("cluster", varies=90)
    assert instance.tasks.load.min() == pytest.approx(0.05)


def test_noise_stays_within_its_bounds() -> None:
    load = made("cluster", varies=0, noise=5).tasks.load[:, 0]
    assert 2.5 * 0.95 <= load.min() < 2.4
    assert 2.6 < load.max() <= 2.5 * 1.05


@pytest.mark.parametrize("share", [25, 50, 100])
def test_a_cluster_with_pairs_has_the_loads_of_one_without(share: float) -> None:
    instance, bare = made("cluster", 2, one_to_one=share), made("cluster", 2)
    np.testing.assert_array_equal(instance.tasks.load, bare.tasks.load)
    assert bare.total_traffic == 0
    assert instance.total_traffic == pytest.approx(100.0, abs=0.01)
    table = instance.traffic
    ends = np.concatenate([table.source, table.target])
    assert len(np.unique(ends)) == len(ends) == 400 * share / 100
    assert set((table.source % 2).tolist()) == {0}
    assert set((table.target % 2).tolist()) == {1}


def test_scale_in_marks_and_overloads_other_nodes() -> None:
    instance = made("scale_in", nodes=12, leaving=3, overloaded=2)
    load, leaving = node_loads(instance), instance.nodes.leaving
    assert leaving.sum() == 3
    assert (np.abs(load - 100.0) < 0.01).sum() == 2
    assert not leaving[np.abs(load - 100.0) < 0.01].any()
    assert instance.limits.max_migrations == 20
    with pytest.raises(InvalidInput, match="leaving: 12"):
        made("scale_in", nodes=12, leaving=12)


@pytest.mark.parametrize("share", [0, 25, 50, 100])
def test_the_share_of_one_to_one_key_groups_bounds_the_collocation(share: float) -> None:
    instance = made("joint", nodes=10, operators=4, one_to_one=share)
    assert instance.total_traffic == pytest.approx(100.0, abs=0.01)
    table = instance.traffic
    receivers = np.bincount(table.source, minlength=200)
    senders = np.bincount(table.target, minlength=200)
    single = (receivers[table.source] == 1) & (senders[table.target] == 1)
    assert single.sum() == 2 * round(50 * share / 100)
    assert instance.operators.num_tasks.tolist() == [50] * 4
    assert (
        instance.tasks.operator[table.source] + 1 == instance.tasks.operator[table.target]
    ).all()
    # the others spread evenly over all that is left of the other operator
    assert set(receivers[table.source[~single]].tolist()) <= {50 - round(50 * share / 100)}


def test_periods_share_job_and_placement_and_differ_in_load() -> None:
    first, second, third = (
        generate("joint", seed=5, period=number, nodes=10, operators=4) for number in range(3)
    )
    for later in (second, third):
        assert later.tasks.ids == first.tasks.ids
        np.testing.assert_array_equal(later.tasks.node, first.tasks.node)
        np.testing.assert_array_equal(later.traffic.rate, first.traffic.rate)
    changed = np.unique(first.tasks.node[(first.tasks.load != second.tasks.load)[:, 0]])
    assert len(changed) == 2
    assert (second.tasks.load != third.tasks.load).any()
    change = np.abs(node_loads(second) - node_loads(first))
    assert 0 < change.max() <= 10.01


def test_operators_come_in_pairs() -> None:
    with pytest.raises(InvalidInput, match="must be even"):
        made("joint", operators=5)


@pytest.mark.parametrize(
    ("name", "kind", "given"),
    [
        ("cluster_20x400_v40_s0_m10", "cluster", {"varies": 40}),
        ("cluster_60x1200_v60_s0_m50", "cluster", {"nodes": 60, "varies": 60}),
    ],
)
def test_like_the_instances_handed_down(shared_data, name: str, kind: str, given: Any) -> None:  # type: ignore[no-untyped-def]
    theirs = Instance.load(shared_data / "albic" / f"{name}.json.gz")
    ours = made(kind, **given)
    assert ours.num_tasks == theirs.num_tasks
    np.testing.assert_allclose(np.sort(node_loads(ours)), np.sort(node_loads(theirs)), atol=2.0)
    assert ours.tasks.load.max() == pytest.approx(theirs.tasks.load.max(), rel=0.2)


def test_pairs_like_those_handed_down(shared_data) -> None:  # type: ignore[no-untyped-def]
    theirs = Instance.load(shared_data / "albic" / "joint_60x1200_v40_s0_m50.json.gz")
    ours = made("cluster", nodes=60, one_to_one=50)
    assert len(ours.traffic.rate) == len(theirs.traffic.rate) == 300
    quarters = np.arange(1, 4) / 4
    np.testing.assert_allclose(
        np.quantile(ours.traffic.rate, quarters), np.quantile(theirs.traffic.rate, quarters),
        rtol=0.15,
    )  # fmt: skip
