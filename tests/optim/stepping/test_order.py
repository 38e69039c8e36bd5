"""Orders of moves against the referee, subset by subset, and against all orders there are."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from optim import Instance, InvalidInput, Plan
from optim.rules import broken, without_limits
from optim.rules.placement import Placement
from optim.stepping.steps import Steps, steps
from tests.fuzz.generate import generate
from tests.fuzz.product import known_fields

COUNT = 100
ENDS = ("max_migrations", "max_migration_cost", "max_inflow")


def cases(count: int, first: int = 0, fields: frozenset[str] | None = None) -> Any:
    """Yield instances of the fuzzer with a present placement for most tasks, and a random plan."""
    made, fields = 0, known_fields() if fields is None else fields
    for seed in itertools.count(first):
        document = generate(seed, fields)
        draw = random.Random(seed)
        if not document.get("tasks") and not document.get("operators"):
            continue
        try:
            instance = Instance.from_dict(document)
        except InvalidInput:
            continue
        nodes, tasks = instance.num_nodes, instance.num_tasks
        if nodes < 2 or not 1 < tasks <= 7:
            continue
        tries = [[draw.randrange(nodes) for _ in range(tasks)] for _ in range(24)]
        if seed % 4:  # ends that break little, so that more binds between them
            relaxed = without_limits(instance, ENDS)
            tries.sort(key=lambda node: len(_broken(relaxed, np.array(node, dtype=np.int32))))
            homes = replace(instance.tasks, node=np.array(tries[1], dtype=np.int32))
            instance = replace(instance, tasks=homes)
        yield seed, instance, Plan.from_indices(instance, tries[0], method="by hand")
        made += 1
        if made == count:
            return


def worse_than_the_ends(instance: Instance, goal: np.ndarray) -> Any:
    """Return the definition of docs/steps.md over again: what is broken beyond the ends."""
    relaxed = without_limits(instance, ENDS)
    ends = [_broken(relaxed, node) for node in (instance.tasks.node, goal)]

    @cache
    def judge(node: tuple[int, ...]) -> tuple[str, ...]:
        found = _broken(relaxed, np.array(node, dtype=np.int32))
        return tuple(
            key
            for key, (amount, scale) in found.items()
            if "together" not in key
            and not any(key in e and amount <= e[key][0] + 2e-9 * scale for e in ends)
        )

    return judge


def _broken(instance: Instance, node: np.ndarray) -> dict[str, tuple[float, float]]:
    found = broken(Placement(instance, node))
    return {f"{v.rule} {v.where}": (v.amount, max(v.needed, v.available)) for v in found}


def every_subset_holds(instance: Instance, found: Steps) -> int:
    """Apply every subset of every batch on what came before it; return the number judged."""
    judge = worse_than_the_ends(instance, found.plan.node_indices(instance))
    node, judged = instance.tasks.node.tolist(), 0
    for batch in found.batches:
        for size in range(len(batch) + 1):
            for some in itertools.combinations(batch, size):
                state = list(node)
                for move in some:
                    assert state[move.task] == move.source
                    state[move.task] = move.target
                assert judge(tuple(state)) == (), (batch, some)
                judged += 1
        for move in batch:
            node[move.task] = move.target
    assert node == found.plan.node_indices(instance).tolist()
    return judged


def some_order(instance: Instance, goal: np.ndarray) -> bool:
    """Whether any order of single moves keeps the rules: all of them are tried."""
    judge = worse_than_the_ends(instance, goal)

    @cache
    def reach(node: tuple[int, ...]) -> bool:
        if node == tuple(goal.tolist()):
            return True
        return any(
            not judge(after) and reach(after)
            for t in range(len(node))
            if node[t] != goal[t]
            for after in [(*node[:t], int(goal[t]), *node[t + 1 :])]
        )

    return reach(tuple(instance.tasks.node.tolist()))


def test_moves_that_fit_and_lead_nowhere_are_no_order() -> None:
    # every task could move first, and no order goes on from there
    [(_, instance, plan)] = cases(1, 51_200, frozenset())
    found = steps(instance, plan, parking=False)
    assert (found.found, found.proven, found.batches) == (False, True, ())
    assert {blocked.rule for blocked in found.blocked} == {"workers"}


@pytest.mark.parametrize("part", range(4))
def test_every_prefix_keeps_the_rules_and_no_order_means_none(part: int) -> None:
    orders = proofs = parked = 0
    for seed, instance, plan in cases(COUNT // 4, part * 10_000):
        plain = steps(instance, plan, parking=False, per_node=1 + seed % 3)
        possible = some_order(instance, plan.node_indices(instance))
        assert plain.found == possible, seed
        if plain.found:
            every_subset_holds(instance, plain)
            orders += 1
            continue
        assert plain.proven
        assert plain.blocked, seed
        proofs += 1
        third = steps(instance, plan, per_node=2)
        if third.found:
            every_subset_holds(instance, third)
            parked += 1
    assert min(orders, proofs) > COUNT / 50
