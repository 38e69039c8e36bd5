"""Repair: feasible plans stay, broken ones are mended; never worse than first-fit decreasing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optim.figures.measures import imc_gain_of, moved_tasks
from optim.format.instance import Instance
from optim.kernels.first_fit import packings
from optim.kernels.repair import _from_current, adopt, repair
from optim.referee import evaluate_indices
from optim.rules import REPAIRABLE
from tests.optim.kernels.cases import best_by_brute_force, placements, problems
from tests.optim.kernels.rule_cases import ruled_instance
from tests.optim.make import instance as small
from tests.optim.make import nodes


def tasks(**entries: dict[str, object]) -> list[dict[str, object]]:
    return [{"id": name, **entry} for name, entry in entries.items()]


def free(**parts: object) -> Instance:
    return small(operators=[], streams=[], **parts)


@given(st.data())
@settings(max_examples=200)
def test_mends_and_tells_the_truth(data: st.DataObject) -> None:
    instance = data.draw(problems(groups=data.draw(st.booleans())))
    given_node = data.draw(placements(instance))
    mended = repair(instance, given_node)
    judged = evaluate_indices(instance, mended.node)
    assert mended.complete == judged.feasible
    assert mended.changes == (mended.node != given_node).sum()
    if evaluate_indices(instance, given_node).feasible:
        assert mended.changes == 0
        assert not mended.notes
    if not mended.complete:
        assert mended.notes
    assert np.array_equal(repair(instance, given_node).node, mended.node)


@given(st.data())
@settings(max_examples=200)
def test_never_fails_where_first_fit_fits(data: st.DataObject) -> None:
    instance = data.draw(problems())
    node = data.draw(placements(instance))
    for packed in packings(instance):
        if evaluate_indices(instance, packed).feasible:
            assert repair(instance, node).complete


@given(st.data())
@settings(max_examples=60)
def test_mostly_finds_what_brute_force_finds(data: st.DataObject) -> None:
    instance = data.draw(problems(most_tasks=5, most_nodes=3))
    if best_by_brute_force(instance) is None:
        assert not repair(instance, data.draw(placements(instance))).complete


def test_overload_goes_where_it_costs_least() -> None:
    made = free(
        nodes=nodes(3, capacity={"cpu": 3}),
        tasks=tasks(**{t: {"load": {"cpu": 1}} for t in "abcde"}),
        traffic=[["a", "b", 9], ["b", "c", 9], ["c", "d", 1], ["d", "e", 2]],
    )
    mended = repair(made, np.array([0, 0, 0, 0, 1], dtype=np.int32))
    assert mended.complete
    assert mended.node.tolist() == [0, 0, 0, 1, 1]
    assert mended.changes == 1
    assert "1 tasks placed or moved" in mended.notes[0]


def test_swaps_where_no_move_helps() -> None:
    made = free(
        nodes=nodes(2, capacity={"cpu": 6}),
        tasks=tasks(
            a={"load": {"cpu": 4}},
            b={"load": {"cpu": 3}},
            c={"load": {"cpu": 3}},
            d={"load": {"cpu": 2}},
        ),
    )
    mended = repair(made, np.array([0, 0, 1, 1], dtype=np.int32))
    assert mended.complete
    assert mended.node[0] == mended.node[3] != mended.node[1] == mended.node[2]


def test_unplaced_tasks_go_to_their_partners() -> None:
    made = free(
        nodes=nodes(3, capacity={"cpu": 9}),
        tasks=tasks(a={"load": {"cpu": 1}}, b={"load": {"cpu": 1}}),
        traffic=[["a", "b", 1]],
    )
    assert repair(made, np.array([2, -1], dtype=np.int32)).node.tolist() == [2, 2]


def test_room_is_made_by_moving_one_task_on() -> None:
    made = free(
        nodes=[{"id": "n1", "capacity": {"cpu": 5}}, {"id": "n2", "capacity": {"cpu": 2}}],
        tasks=tasks(a={"load": {"cpu": 2}}, b={"load": {"cpu": 1}}, c={"load": {"cpu": 4}}),
    )
    mended = repair(made, np.array([0, 0, -1], dtype=np.int32))
    assert mended.complete
    assert mended.node.tolist() == [1, 0, 0]


def test_packs_anew_when_mending_gets_stuck() -> None:
    loads = [6, 5, 5, 4, 4, 3, 3]
    made = free(
        nodes=nodes(3, capacity={"cpu": 10}),
        tasks=tasks(**{f"t{i}": {"load": {"cpu": v}} for i, v in enumerate(loads)}),
    )
    stuck = np.array([0, 1, 2, 1, 2, 0, -1], dtype=np.int32)
    mended = repair(made, stuck)
    assert mended.complete


def test_lower_bounds_are_filled_at_least_loss() -> None:
    made = free(
        nodes=[{"id": "n1"}, {"id": "n2", "min_load": {"cpu": 2}}],
        tasks=tasks(**{t: {"load": {"cpu": 2}} for t in "abc"}),
        traffic=[["a", "b", 5], ["b", "c", 1]],
    )
    assert repair(made, np.zeros(3, dtype=np.int32)).node.tolist() == [0, 0, 1]


def test_migrations_least_worth_are_undone() -> None:
    made = free(
        nodes=nodes(2, capacity={"cpu": 9}),
        tasks=tasks(**{t: {"load": {"cpu": 1}, "node": "n1"} for t in "abc"}, d={"node": "n2"}),
        traffic=[["a", "d", 3], ["b", "d", 1], ["c", "d", 2]],
        limits={"max_migrations": 2},
    )
    mended = repair(made, np.ones(4, dtype=np.int32))
    assert mended.complete
    assert mended.node.tolist() == [1, 0, 1, 1]


def test_expensive_migrations_are_undone() -> None:
    made = free(
        nodes=nodes(2, capacity={"cpu": 9}),
        tasks=tasks(
            a={"node": "n1", "state": 8},
            b={"node": "n1", "state": 2},
            c={"node": "n2"},
        ),
        traffic=[["a", "c", 3], ["b", "c", 2]],
        limits={"max_migration_cost": 5},
    )
    mended = repair(made, np.ones(3, dtype=np.int32))
    assert mended.complete
    assert mended.node.tolist() == [0, 1, 1]


def test_going_home_swaps_where_the_place_is_taken() -> None:
    made = free(
        nodes=nodes(2, capacity={"cpu": 2}),
        tasks=tasks(a={"load": {"cpu": 2}, "node": "n1"}, b={"load": {"cpu": 2}, "node": "n2"}),
        limits={"max_migrations": 0},
    )
    assert repair(made, np.array([1, 0], dtype=np.int32)).node.tolist() == [0, 1]


def test_an_overloaded_current_placement_is_mended_within_the_budget() -> None:
    made = free(
        nodes=nodes(2, capacity={"cpu": 4}),
        tasks=tasks(
            **{t: {"load": {"cpu": 2}, "node": "n1"} for t in "abc"},
            d={"load": {"cpu": 2}, "node": "n2"},
        ),
        limits={"max_migrations": 1},
    )
    wished = np.array([1, 1, 0, 0], dtype=np.int32)
    mended = repair(made, wished)
    assert mended.complete
    assert len(moved_tasks(made, mended.node)) == 1
    # a placement that may not be written is of another type to the compiler
    first = _from_current(made, wished)
    wished.flags.writeable = False
    assert _from_current(made, wished).tolist() == first.tolist()
    assert len(adopt.compiled.signatures) == 1


def test_what_cannot_be_mended_is_named() -> None:
    made = free(
        nodes=nodes(1, capacity={"cpu": 3}),
        tasks=tasks(a={"load": {"cpu": 2}}, b={"load": {"cpu": 2}}),
    )
    mended = repair(made, np.zeros(2, dtype=np.int32))
    assert not mended.complete
    assert "placed" in mended.notes[-1]
    assert sorted(mended.node.tolist()) == [-1, 0]


def test_packing_anew_still_minds_the_traffic() -> None:
    rng = np.random.default_rng(1)
    pairs = [[f"t{2 * i}", f"t{2 * i + 1}", 5] for i in range(20)]
    made = free(
        nodes=nodes(8, capacity={"cpu": 10}),
        tasks=tasks(**{f"t{i}": {"load": {"cpu": int(rng.integers(1, 4))}} for i in range(40)}),
        traffic=pairs,
    )
    mended = repair(made, np.full(40, -1, dtype=np.int32))
    assert mended.complete
    assert imc_gain_of(made, mended.node) > 80


@pytest.mark.parametrize("seed", range(60))
def test_sets_inflow_and_counts_are_restored(seed: int) -> None:
    """What repair says it restored is so; where no rule is broken nothing changes."""
    made = ruled_instance(seed)
    rng = np.random.default_rng(seed)
    node = rng.integers(0, made.num_nodes, made.num_tasks).astype(np.int32)
    found = repair(made, node)
    broken = {v.rule for v in evaluate_indices(made, found.node).violations}
    assert found.restored == (not broken & REPAIRABLE)
    if evaluate_indices(made, node).feasible:
        assert found.changes == 0


def test_a_set_together_follows_its_larger_part() -> None:
    made = free(
        nodes=[{"id": n, "capacity": {"cpu": 9}} for n in "abc"],
        tasks=[{"id": f"t{i}", "load": {"cpu": 2}} for i in range(4)],
        sets=[{"id": "s", "tasks": ["t0", "t1", "t2"], "rule": "together"}],
    )
    found = repair(made, np.array([0, 1, 1, 2], dtype=np.int32))
    assert found.complete
    assert found.node.tolist() == [1, 1, 1, 2]


def test_nodes_of_too_many_tasks_are_relieved() -> None:
    made = free(
        nodes=[{"id": n, "capacity": {"cpu": 90}, "max_tasks": 2} for n in "ab"],
        tasks=[{"id": f"t{i}", "load": {"cpu": 2}} for i in range(4)],
    )
    found = repair(made, np.zeros(4, dtype=np.int32))
    assert found.complete
    assert sorted(found.node.tolist()) == [0, 0, 1, 1]
