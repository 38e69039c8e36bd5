"""Orders of moves against the referee, subset by subset, and against all orders there are."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

from formulations.schedule.capacity import AT_ONCE, Between
from formulations.schedule.steps import Steps, steps
from optim import Instance, InvalidInput, Plan
from optim.format.tables import APART, TOGETHER
from optim.rules import broken, slot_assignment, without_limits
from optim.rules.placement import Placement
from tests.fuzz.generate import generate
from tests.fuzz.product import known_fields

COUNT = 100
ENDS = (
    "max_migrations", "max_migration_cost", "max_migration_state", "max_inflow", "max_nodes_used",
    "exclusive_nodes", "max_workers_restarted",
)  # fmt: skip


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
    relaxed, table = without_limits(instance, ENDS), instance.slot_sets
    parted = table.only(np.flatnonzero(table.rule != TOGETHER))  # deals each member by itself
    relaxed = replace(relaxed, slot_sets=parted)
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
    exchanged = {step[0]: step for step in found.exchanged}
    assert len(set(itertools.chain(*exchanged.values()))) == sum(map(len, exchanged.values()))
    for batch in found.batches:
        inner = {move for step in exchanged.values() for move in step[1:]}
        steps_of = [exchanged.get(move, (move,)) for move in batch if move not in inner]
        for size in range(len(steps_of) + 1):
            for some in itertools.combinations(steps_of, size):
                state = list(node)
                for move in itertools.chain(*some):
                    assert state[move.task] == move.source
                    state[move.task] = move.target
                assert judge(tuple(state)) == (), (batch, some)
                judged += 1
        for move in batch:
            node[move.task] = move.target
    assert node == found.plan.node_indices(instance).tolist()
    return judged


def one_step(instance: Instance, goal: np.ndarray) -> list[set[int]]:
    """Return the tasks that move, those together that take over each other's copies."""
    home = instance.tasks.node
    moving = [t for t in range(instance.num_tasks) if home[t] != goal[t]]
    parts = [{t} for t in moving]
    apart = [
        set(instance.sets.tasks_of(i).tolist())
        for i in range(len(instance.sets.ids))
        if instance.sets.rule[i] == APART
    ]
    for t, other in itertools.permutations(moving, 2):
        takes = goal[t] in instance.copy_nodes.get(t, ()) and goal[t] == home[other]
        if takes and any({t, other} <= members for members in apart):
            whole = set[int]().union(*(part for part in parts if part & {t, other}))
            parts = [part for part in parts if not part & whole] + [whole]
    return parts


def some_order(instance: Instance, goal: np.ndarray) -> bool:
    """Whether any order keeps the rules, by exchanges or by single moves: all are tried."""
    judge = worse_than_the_ends(instance, goal)

    def reach(node: tuple[int, ...], steps_left: frozenset[frozenset[int]]) -> bool:
        if not steps_left:
            return True
        if (node, steps_left) in seen:
            return False
        seen.add((node, steps_left))
        for step in steps_left:
            after = tuple(int(goal[t]) if t in step else n for t, n in enumerate(node))
            if not judge(after) and reach(after, steps_left - {step}):
                return True
        return False

    whole = one_step(instance, goal)
    for parts in (whole, [{t} for part in whole for t in part]):
        seen: set[tuple[tuple[int, ...], frozenset[frozenset[int]]]] = set()
        if reach(tuple(instance.tasks.node.tolist()), frozenset(map(frozenset, parts))):
            return True
    return False


def partitions(orders: list[tuple[int, ...]], capacity: float) -> Instance:
    """Return partitions on brokers 0 to 3, in the order of each; leaders bear more."""
    tasks = [
        {
            "id": f"p{p}#{i}", "load": {"net": 3.0 if i == 0 else 1.0}, "node": f"b{broker}",
            "copies": [f"b{b}" for b in order], "state": 5.0,
        }
        for p, order in enumerate(orders)
        for i, broker in enumerate(order)
    ]  # fmt: skip
    sets = [
        {"id": f"p{p}", "tasks": [f"p{p}#{i}" for i in range(len(order))], "rule": "apart"}
        for p, order in enumerate(orders)
    ]
    nodes = [{"id": f"b{n}", "capacity": {"net": capacity}} for n in range(4)]
    return Instance.from_dict({
        "format": "streamplace.instance/1", "name": "replicas", "resources": ["net"],
        "nodes": nodes, "tasks": tasks, "sets": sets,
    })  # fmt: skip


def test_replicas_that_change_places_are_one_step_and_copy_nothing() -> None:
    home = [(0, 1, 2), (1, 2)]
    lists = [list(itertools.permutations(range(4), len(order))) for order in home]
    permuted = 0
    every = list(itertools.product(*lists))
    for capacity, (first, second) in [(9.0, p) for p in every[::2]] + [
        (5.0, p) for p in every[1::3]
    ]:
        instance = partitions(home, capacity)
        plan = Plan.from_indices(instance, [*first, *second], method="by hand")
        found = steps(instance, plan, copy_rate=5.0, parking=False)
        assert found.found == some_order(instance, plan.node_indices(instance)), (first, second)
        if found.found:
            every_subset_holds(instance, found)
        if set(first) == {0, 1, 2} and set(second) == {1, 2} and capacity == 9.0:
            assert found.found
            assert sum(s or 0.0 for s in found.seconds) == 0.0
            permuted += 1
    assert permuted > 5


def test_a_first_placement_fills_every_node_a_task_a_batch() -> None:
    """More steps, and more nodes, than are looked at together: none is passed over."""
    count, nodes = 3 * AT_ONCE + 1, AT_ONCE + 7
    document = {
        "format": "streamplace.instance/1",
        "name": "first",
        "nodes": [{"id": f"n{n}", "capacity": {"cpu": count}} for n in range(nodes)],
        "tasks": [{"id": f"t{t}", "load": {"cpu": 1}} for t in range(count)],
    }
    instance = Instance.from_dict(document)
    plan = Plan.from_indices(instance, [t % nodes for t in range(count)], method="by hand")
    found = steps(instance, plan)
    tasks = [[move.task for move in batch] for batch in found.batches]
    assert tasks == [list(range(t, min(t + nodes, count))) for t in range(0, count, nodes)]


def test_what_is_placed_at_both_ends_is_not_lost_between() -> None:
    document = {
        "format": "streamplace.instance/1",
        "name": "lost",
        "nodes": [{"id": "a"}, {"id": "b"}],
        "tasks": [{"id": "old", "node": "a"}, {"id": "new"}],
    }
    instance = Instance.from_dict(document)
    start, goal = instance.tasks.node, np.array([1, 1], dtype=np.int32)
    between = Between(instance, start, goal)
    assert not between.worse(np.array([1, -1], dtype=np.int32))
    (lost,) = between.worse(np.array([-1, 1], dtype=np.int32))
    assert (lost.rule, lost.where) == ("placed", "old")


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
    assert min(orders, proofs) >= COUNT / 50


@pytest.mark.parametrize("work", [0, 200_000])
def test_what_may_fit_the_slots_refutes_no_order(
    work: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Task a has to join b to f first: two slots of 12 do, where first-fit finds three."""
    little = partial(slot_assignment.assign_slots, work=work)
    monkeypatch.setattr(slot_assignment, "assign_slots", little)
    loads = dict(zip("abcdef", [6, 5, 4, 3, 3, 3], strict=True))
    tasks = [
        {"id": task, "load": {"cpu": load}, "node": "n2" if task == "a" else "n1"}
        for task, load in loads.items()
    ]
    slots = {"slots": 2, "slot_capacity": {"cpu": 12}}
    nodes = [{"id": "n1", **slots}, {"id": "n2", "capacity": {"cpu": 6}}]
    document = {"format": "streamplace.instance/1", "name": "slots", "nodes": nodes, "tasks": tasks}
    instance = Instance.from_dict(document)
    plan = Plan.from_indices(instance, [0, 1, 0, 0, 0, 0], method="by hand")
    found = steps(instance, plan, parking=False)
    assert (found.found, found.proven) == (work > 0, False)
