"""Place rules and their guard say what the referee says."""

from __future__ import annotations

import numpy as np
import pytest

from optim.figures.measures import migrated_tasks
from optim.kernels.place_rules import broken, enter, make_guard, may_enter, place_rules, relief_of
from optim.rules import EXCLUSIVE_NODES, MAX_INFLOW, SETS
from optim.rules.placement import Placement
from tests.optim.kernels.rule_cases import ruled_instance


@pytest.mark.parametrize("seed", range(30))
def test_a_placement_keeps_the_rules_where_the_referee_finds_none_broken(seed: int) -> None:
    instance = ruled_instance(seed)
    rules, rng = place_rules(instance), np.random.default_rng(seed)
    for _ in range(60):
        node = rng.integers(0, instance.num_nodes, instance.num_tasks)
        placed = Placement(instance, node.astype(np.int32))
        rules_here = (SETS, MAX_INFLOW, EXCLUSIVE_NODES)
        found = [v for rule in rules_here for v in rule.violations(placed)]
        assert rules.are_kept(node) == (not found)
        assert (
            np.flatnonzero(rules.migrates(node)).tolist() == migrated_tasks(instance, node).tolist()
        )
        assert (broken(make_guard(rules, node)) == 0) == (not found)


@pytest.mark.parametrize("seed", range(30))
def test_a_guard_lets_no_change_break_what_is_kept(seed: int) -> None:
    rules = place_rules(ruled_instance(seed))
    rng = np.random.default_rng(seed)
    count, nodes = len(rules.home), len(rules.most_in)
    node = rng.integers(0, nodes, count)
    guard = make_guard(rules, node)
    for _ in range(80):
        task, target = int(rng.integers(count)), int(rng.integers(nodes))
        source = int(node[task])
        if source == target:
            continue
        moved = node.copy()
        moved[task] = target
        less = broken(guard) - broken(make_guard(rules, moved))
        assert relief_of(guard, task, source, target) == less
        if not may_enter(guard, task, source, target, -1):
            assert not (rules.are_kept(node) and rules.are_kept(moved))
            continue
        assert less >= 0
        enter(guard, task, source, target)
        node = moved
        for name, mine, fresh in zip(guard._fields, guard, make_guard(rules, node), strict=True):
            assert np.array_equal(mine, fresh), name


@pytest.mark.parametrize("seed", range(30))
def test_a_guard_knows_exchanges(seed: int) -> None:
    rules = place_rules(ruled_instance(seed))
    rng = np.random.default_rng(seed)
    for _ in range(80):
        node = rng.integers(0, len(rules.most_in), len(rules.home))
        if not rules.are_kept(node):
            continue
        one, two = rng.choice(len(rules.home), 2, replace=False).tolist()
        a, b = int(node[one]), int(node[two])
        if a == b:
            continue
        swapped = node.copy()
        swapped[[one, two]] = b, a
        guard = make_guard(rules, node)
        if may_enter(guard, one, a, b, two) and may_enter(guard, two, b, a, one):
            assert rules.are_kept(swapped)


def test_tasks_that_stand_nowhere_leave_room_to_be_spread() -> None:
    from dataclasses import replace

    rules = place_rules(ruled_instance(0, 3, 3))
    all_three = np.arange(3)
    rules = replace(
        rules, rule=np.array([2]), limit=np.array([3]), place=np.arange(3)[None, :],
        indptr=np.array([0, 3]), members=all_three, most_in=np.full(3, 3),
    )  # fmt: skip
    guard = make_guard(rules, np.array([0, -1, -1]))
    assert not may_enter(guard, 1, -1, 0, -1)
    assert may_enter(guard, 1, -1, 1, -1)
