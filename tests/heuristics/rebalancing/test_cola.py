"""COLA: splitting, the list schedule, and where it stops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulations.rebalancing.problem import ListScheduler
from heuristics.rebalancing.cola import METHOD, run
from optim.errors import InvalidInput
from optim.format.instance import Instance
from optim.methods.registry import Request
from optim.referee import evaluate_indices
from optim.rules import without_limits
from tests.heuristics.rebalancing.cases import case, random_case
from tests.optim.make import instance as small
from tests.optim.make import nodes


def placed(made: Instance, seed: int = 0, **given: Any) -> Any:
    return run(made, Request(seed=seed, options=METHOD.read_options(given)))


def test_list_schedule_puts_the_longest_first_on_the_least_loaded() -> None:
    made = case("00000", nodes=2, loads=[7, 7, 6, 5, 4])
    parts = [np.array([i]) for i in range(5)]
    node = ListScheduler(made).place(parts, made.tasks.load)
    assert node.tolist() == [0, 1, 0, 1, 1]  # 7 7 | 13 7 | 13 12 | 13 16: the known miss of LPT


def test_list_schedule_heeds_capacity_allowed_nodes_weight_and_leaving_ones() -> None:
    value = case("0000", nodes=3, loads=[6, 3, 3, 1], allowed={1: [2]}, leaving=(0,)).to_dict()
    value["nodes"][1] |= {"weight": 2.0, "capacity": {"cpu": 9.0}}
    made = Instance.from_dict(value)
    parts = [np.array([i]) for i in range(4)]
    # 6 to n1 (6/2 < 6); k1 only on n2; k2: (6+3)/2 = 4.5 < 6 on n1, which is then full
    assert ListScheduler(made).place(parts, made.tasks.load).tolist() == [1, 2, 1, 2]
    one = [np.array([0, 1, 2, 3])]
    assert ListScheduler(made).place(one, made.tasks.load.sum(axis=0)[None]).tolist() == [2]


def test_stops_at_the_first_balanced_schedule() -> None:
    # two clusters of 4; two parts balance, so nothing inside a cluster is cut
    inside = [(a, b, 9.0) for k in (0, 4) for a in range(k, k + 4) for b in range(a + 1, k + 4)]
    made = case("00112233", [*inside, (3, 4, 1.0)])
    halves = placed(
        made.replace(nodes=[{"id": "n0"}, {"id": "n1"}], tasks=_without_nodes(made)),
        max_load_distance=1,
    )
    assert sorted(np.bincount(halves.node).tolist()) == [4, 4]
    assert halves.claimed == 108.0
    assert halves.notes == ["2 parts; load distance 0, target 1"]


def _without_nodes(made: Instance) -> list[dict[str, Any]]:
    return [{k: v for k, v in task.items() if k != "node"} for task in made.to_dict()["tasks"]]


def test_goes_on_until_the_target_holds() -> None:
    made = case("0000", [(0, 1, 9.0), (1, 2, 9.0), (2, 3, 9.0)], [3, 1, 1, 1], nodes=2)
    assert evaluate_indices(made, placed(made, max_load_distance=3.0).node).load_distance == 3.0
    assert evaluate_indices(made, placed(made, max_load_distance=0.0).node).load_distance == 0.0


def test_single_key_groups_are_the_end() -> None:
    made = case("00", [(0, 1, 9.0)], [3, 1], nodes=2)
    outcome = placed(made, max_load_distance=0.5)
    assert outcome.notes[0] == "2 parts; load distance 1, target 0.5"
    assert outcome.notes[1] == "the target is not met by any schedule tried"
    own = case("00", [(0, 1, 9.0)], [3, 1], nodes=2, max_load_distance=1.0)
    assert placed(own).notes == ["2 parts; load distance 1, target 1"]


def test_names_what_fits_nowhere() -> None:
    outcome = placed(case("000", [(0, 1, 1.0)], [4, 4, 4], nodes=2, capacity=5.0))
    assert (outcome.node < 0).sum() == 1
    assert outcome.claimed is None


def test_does_not_care_where_things_run() -> None:
    one = case("0123", [(0, 1, 5.0), (2, 3, 5.0)])
    other = case("3210", [(0, 1, 5.0), (2, 3, 5.0)])
    np.testing.assert_array_equal(placed(one).node, placed(other).node)


@given(st.integers(0, 10_000))
def test_repeats_and_keeps_off_what_is_not_allowed(seed: int) -> None:
    made = without_limits(random_case(seed), ["max_migrations", "max_migration_cost"])
    outcome = placed(made, seed % 5, max_load_distance=seed % 4)
    np.testing.assert_array_equal(
        outcome.node, placed(made, seed % 5, max_load_distance=seed % 4).node
    )
    rules = {violation.rule for violation in evaluate_indices(made, outcome.node).violations}
    assert rules <= {"unplaced", "placed"}, rules
    assert not made.nodes.leaving[outcome.node[outcome.node >= 0]].any()


def test_published_instance_reaches_nearly_all_collocation(shared_data) -> None:  # type: ignore[no-untyped-def]
    instance = Instance.load(shared_data / "albic" / "joint_20x400_v40_s0_m20.json.gz")
    found = evaluate_indices(instance, placed(instance).node)
    assert found.load_distance <= 1.0
    assert found.collocation_factor == pytest.approx(1.0)
    assert found.migrations > 350


def test_a_node_has_to_stay() -> None:
    with pytest.raises(InvalidInput, match="nodes are all leaving"):
        run(small(nodes=nodes(2, leaving=True)), Request(options=METHOD.read_options({})))
