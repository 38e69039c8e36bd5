"""Assigning tasks to slots: equal to trying every slot assignment, and what is found keeps
the rules.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

from optim.format.instance import Instance
from optim.format.tables import Ints
from optim.rules import broken
from optim.rules.placement import Placement
from optim.rules.slot_assignment import SlotAssignment, assign_slots
from optim.rules.slot_assignment.search import Search
from tests.optim.make import instance

RULES = {
    "slots", "slot_capacity", "max_tasks_per_slot", "one_topology_a_slot", "workers", "slot_sets",
}  # fmt: skip


def made(
    nodes: list[dict[str, Any]],
    tasks: list[tuple[str | None, float]],
    workers: dict[str, int | None] | None = None,
    **limits: Any,
) -> Instance:
    """Tasks are (topology or None, cpu)."""
    topologies = [
        {"id": name} | ({} if count is None else {"workers": count})
        for name, count in (workers or {}).items()
    ]
    operators = [{"id": f"of-{name}", "topology": name} for name in workers or {}]
    rows = [
        {"id": f"t{i}", "load": {"cpu": cpu}}
        | ({} if topology is None else {"operator": f"of-{topology}"})
        for i, (topology, cpu) in enumerate(tasks)
    ]
    return instance(
        nodes=nodes,
        topologies=topologies,
        operators=operators,
        tasks=rows,
        streams=[],
        resources=["cpu"],
        limits=limits,
    )


def at(*nodes: int) -> Ints:
    return np.array(nodes, dtype=np.int32)


def kept(case: Instance, node: Ints, assigned: SlotAssignment) -> bool:
    """Whether the rules of decided slots accept what was found."""
    assert assigned.slot is not None and assigned.proven and not assigned.shortage
    assert ((assigned.slot >= 0) == (node >= 0)).all()
    found = broken(Placement(case, node, assigned.slot))
    return not [v for v in found if v.rule in RULES]


def short(assigned: SlotAssignment) -> list[tuple[str, str, float, float]]:
    assert assigned.slot is None
    return [(v.rule, v.where, v.needed, v.available) for v in assigned.shortage]


# -- by hand -------------------------------------------------------------------------------------


def test_two_tasks_fit_two_slots_and_four_do_not() -> None:
    nodes = [{"id": n, "slots": 2, "slot_capacity": {"cpu": 50}} for n in ("n1", "n2")]
    case = made(nodes, [(None, 50)] * 4)
    assert kept(case, at(0, 0, 1, 1), assign_slots(case, at(0, 0, 1, 1)))
    none = assign_slots(case, at(0, 0, 0, 0))
    assert none.proven
    assert short(none) == [("slot_capacity", "n1.cpu", 200, 100)]


def test_three_workers_need_three_slots() -> None:
    nodes = [{"id": n, "slots": 1} for n in ("s1", "s2")]
    tasks = [("wordcount", load) for load in (20.0, 35, 25, 80, 20, 1, 0)]
    case, node = made(nodes, tasks, {"wordcount": 3}), at(0, 0, 1, 0, 1, 1, 0)
    none = assign_slots(case, node)
    assert none.proven
    assert short(none) == [("workers", "wordcount", 3, 2)]
    case = made(nodes, tasks, {"wordcount": 2})
    assert kept(case, node, assign_slots(case, node))


def test_one_slot_a_node_holds_what_has_no_number_of_workers() -> None:
    case = made([{"id": "n1", "slots": 1}, {"id": "n2", "slots": 1}], [(None, 50)] * 4)
    assert kept(case, at(0, 0, 0, 0), assign_slots(case, at(0, 0, 0, 0)))


def test_a_node_without_slots_has_as_many_as_it_likes() -> None:
    case = made([{"id": "n1"}], [("a", 1)] * 5, {"a": 5}, max_tasks_per_slot=1)
    assert kept(case, at(0, 0, 0, 0, 0), assign_slots(case, at(0, 0, 0, 0, 0)))


def test_unplaced_tasks_are_left_out_but_their_workers_are_wanted() -> None:
    case = made([{"id": "n1", "slots": 4}], [("a", 1)] * 3, {"a": 3})
    assert short(assign_slots(case, at(0, -1, 0))) == [("workers", "a", 3, 2)]
    assert short(assign_slots(case, at(-1, -1, -1))) == [("workers", "a", 3, 0)]


def test_topologies_that_want_one_slot_together() -> None:
    nodes = [{"id": "n1", "slots": 2}, {"id": "n2", "slots": 1}]
    tasks: list[tuple[str | None, float]] = [("a", 1), ("a", 1), ("b", 1), ("b", 1)]
    case = made(nodes, tasks, {"a": 2, "b": 2})
    assert short(assign_slots(case, at(0, 0, 0, 1))) == [("workers", "a", 2, 1)]
    assert short(assign_slots(case, at(0, 0, 0, 0))) == [("workers", "a, b", 4, 2)]


MOST = {"max_tasks_per_slot": 2}
SLOT = {"id": "n1", "slots": 2, "slot_capacity": {"cpu": 10}}


@pytest.mark.parametrize(
    ("nodes", "tasks", "workers", "limits", "expected"),
    [
        ([{"id": "n1", "slots": 0}], [(None, 1)], {}, {}, ("slots", "n1", 1, 0)),
        ([SLOT], [(None, 11)], {}, {}, ("slot_capacity", "t0 on n1.cpu", 11, 10)),
        ([SLOT], [(None, 6)] * 3, {}, {}, ("slots", "n1", 3, 2)),
        ([SLOT], [(None, 7)] * 3, {}, {}, ("slot_capacity", "n1.cpu", 21, 20)),
        (
            [SLOT],
            [(None, 1)] * 5,
            {},
            {"max_tasks_per_slot": 2},
            ("max_tasks_per_slot", "n1", 5, 4),
        ),
        (
            [SLOT],
            [("a", 1), ("b", 1), ("c", 1)],
            {"a": None, "b": None, "c": None},
            {},
            ("one_topology_a_slot", "n1", 3, 2),
        ),
        ([SLOT], [("a", 6)] * 2, {"a": 1}, {}, ("workers", "a", 2, 1)),
        ([SLOT], [("a", 6), ("a", 1), (None, 6), (None, 5)], {"a": 1}, {}, ("slots", "n1", 3, 2)),
    ],
)
def test_what_is_short_comes_with_its_figures(
    nodes: list[dict[str, Any]],
    tasks: list[tuple[str | None, float]],
    workers: dict[str, int | None],
    limits: dict[str, int],
    expected: tuple[str, str, float, float],
) -> None:
    none = assign_slots(made(nodes, tasks, workers, **limits), at(*[0] * len(tasks)))
    assert none.proven
    assert short(none) == [expected]


def test_a_task_without_topology_uses_what_a_worker_leaves() -> None:
    nodes = [{"id": "n1", "slots": 2, "slot_capacity": {"cpu": 5}}]
    tasks: list[tuple[str | None, float]] = [("a", 2), ("a", 2), (None, 3), (None, 3)]
    node = at(0, 0, 0, 0)
    case = made(nodes, tasks, {"a": 2})
    assert kept(case, node, assign_slots(case, node))
    assert short(assign_slots(made(nodes, tasks, {"a": 1}), node)) == [("slots", "n1", 3, 2)]


# first-fit decreasing takes three slots of 12 for these, two do
HARD = [6.0, 5, 4, 3, 3, 3]


def test_a_search_finds_what_first_fit_does_not_and_says_so_without_work() -> None:
    case = made([{**SLOT, "slot_capacity": {"cpu": 12}}], [(None, load) for load in HARD])
    node = at(*[0] * len(HARD))
    assert kept(case, node, assign_slots(case, node))
    untold = assign_slots(case, node, work=0)
    assert (untold.slot, untold.proven) == (None, False)
    [violation] = untold.shortage
    assert violation.rule == "slots"
    assert violation.place.startswith("n1 (not known within the work limit")
    assert violation.needed > violation.available == 2


def test_loads_that_just_fit_in_decimals() -> None:
    case = made([{"id": "n1", "slots": 1, "slot_capacity": {"cpu": 0.3}}], [(None, 0.1)] * 3)
    assert kept(case, at(0, 0, 0), assign_slots(case, at(0, 0, 0)))


def test_many_nodes_and_tasks_of_several_topologies_with_workers() -> None:
    rng, count, jobs = np.random.default_rng(0), 2_000, 40
    nodes = [{"id": f"n{n}", "slots": 30, "slot_capacity": {"cpu": 4}} for n in range(count)]
    case = instance(
        nodes=nodes,
        topologies=[{"id": f"j{j}", "workers": 1_400} for j in range(jobs - 1)] + [{"id": "free"}],
        operators=[
            {"id": f"o{j}", "group": {"tasks": 2_500, "load": {"cpu": 2_500}}, "topology": topology}
            for j, topology in enumerate([*(f"j{j}" for j in range(jobs - 1)), "free"])
        ],
        streams=[],
    )
    node = (case.tasks.operator * 50 + rng.integers(0, 50, case.num_tasks)).astype(np.int32)
    assigned = assign_slots(case, node)
    assert kept(case, node, assigned)
    assert assigned.slot is not None
    again = assign_slots(case, node).slot
    assert again is not None and (again == assigned.slot).all()
    all_at_once = assign_slots(case, np.zeros(case.num_tasks, dtype=np.int32))
    assert all_at_once.proven and all_at_once.slot is None


@pytest.mark.parametrize("workers", [4, 5])
def test_two_sets_to_be_spread_want_a_slot_more_than_there_are_workers(workers: int) -> None:
    tasks = [{"id": f"t{i}", "operator": "o"} for i in range(5)]
    spread = {"rule": "spread", "over": "slot", "at_least": 3}
    case = instance(
        nodes=[{"id": "n1", "slots": 2}, {"id": "n2", "slots": 3}],
        topologies=[{"id": "a", "workers": workers}],
        operators=[{"id": "o", "topology": "a"}],
        tasks=tasks,
        sets=[{"id": "s", "tasks": ["t0", "t1", "t4"], **spread},
              {"id": "u", "tasks": ["t2", "t3", "t4"], **spread}],
        streams=[],
    )  # fmt: skip
    assigned = assign_slots(case, at(1, 1, 0, 0, 1))
    assert assigned.proven
    if workers == 5:
        assert kept(case, at(1, 1, 0, 0, 1), assigned)
    else:
        assert assigned.slot is None
        assert {v.rule for v in assigned.shortage} == {"slot_sets"}


# -- against every slot assignment
# -----------------------------------------------------------------------


def drawn(rng: random.Random, most_sets: int = 0) -> tuple[Instance, Ints, dict[str, Any]]:
    """Draw a tiny instance in whole numbers, written in the file divided by ten."""
    kinds = rng.randint(1, 2)
    resources = ["cpu", "memory"][:kinds]
    tasks = rng.randint(0, 7)
    loads = [[rng.choice([0, 1, 2, 3, 3, 4, 5, 6, 7]) for _ in resources] for _ in range(tasks)]
    if rng.random() < 0.3 and tasks:
        loads = [loads[0]] * tasks
    jobs = rng.randint(0, 3)
    workers = [rng.choice([None, 1, 2, 3, 4]) for _ in range(jobs)]
    topology = [rng.choice([-1, *range(jobs), *range(jobs)]) for _ in range(tasks)]
    if rng.random() < 0.4:
        topology = [0 if jobs else -1] * tasks
    count = rng.randint(1, 3)
    node = [rng.randrange(count) if rng.random() < 0.98 else -1 for _ in range(tasks)]
    slots = [rng.choice([None, 0, 1, 2, 2, 3, 3, 4]) for _ in range(count)]
    capacity = [[rng.choice([None, 4, 6, 7, 8, 9, 10, 12]) for _ in resources] for _ in slots]
    most = rng.choice([None, None, 1, 2, 3])
    if most_sets and rng.random() < 0.2:  # slots that hold anything
        capacity, most = [[None] * kinds for _ in slots], None
    sets: list[dict[str, Any]] = []
    for i in range(rng.randint(1, most_sets) if most_sets and tasks else 0):
        members = rng.sample(range(tasks), rng.randint(1, tasks))
        rule = rng.choice(["apart", "apart", "together", "spread", "spread"])
        if rule == "together":
            members = [t for t in members if node[t] == node[members[0]]][: rng.randint(1, 4)]
        more = {"apart": {"at_most": rng.randint(1, 2)}, "spread": {"at_least": rng.randint(1, 4)}}
        own = {"tasks": [f"t{t}" for t in sorted(members)], **more.get(rule, {})}
        sets.append({"id": f"s{i}", "rule": rule, "over": "slot", **own})
    nodes = [
        {"id": f"n{n}"}
        | ({} if slots[n] is None else {"slots": slots[n]})
        | {
            "slot_capacity": {
                name: value / 10
                for name, value in zip(resources, capacity[n], strict=True)
                if value is not None
            }
        }
        for n in range(count)
    ]
    case = instance(
        resources=resources,
        nodes=nodes,
        topologies=[
            {"id": f"j{i}"} | ({} if w is None else {"workers": w}) for i, w in enumerate(workers)
        ],
        operators=[{"id": f"o{i}", "topology": f"j{i}"} for i in range(jobs)],
        tasks=[
            {"id": f"t{t}", "load": {n: x / 10 for n, x in zip(resources, loads[t], strict=True)}}
            | ({} if topology[t] < 0 else {"operator": f"o{topology[t]}"})
            for t in range(tasks)
        ],
        streams=[],
        sets=sets,
        limits={} if most is None else {"max_tasks_per_slot": most},
    )
    facts = {"loads": loads, "topology": topology, "workers": workers, "slots": slots}
    return case, at(*node), facts | {"capacity": capacity, "most": most, "sets": sets}


def partings(tasks: list[int]) -> Iterator[list[list[int]]]:
    if not tasks:
        yield []
        return
    for rest in partings(tasks[1:]):
        yield [[tasks[0]], *rest]
        for i in range(len(rest)):
            yield [*rest[:i], [tasks[0], *rest[i]], *rest[i + 1 :]]


def can_be_dealt(node: Ints, facts: dict[str, Any]) -> bool:
    """Try every slot assignment: rules as the format's page has them, in whole numbers."""

    def fits(slot: list[int], n: int) -> bool:
        for r, most in enumerate(facts["capacity"][n]):
            if most is not None and sum(facts["loads"][t][r] for t in slot) > most:
                return False
        if facts["most"] is not None and len(slot) > facts["most"]:
            return False
        if any(len(sets[i] & set(slot)) > one.get("at_most", 99) for i, one in rules):
            return False
        return len({facts["topology"][t] for t in slot} - {-1}) <= 1

    rules = list(enumerate(facts["sets"]))
    sets = [{int(t[1:]) for t in one["tasks"]} for _, one in rules]
    filled = []
    for n, slots in enumerate(facts["slots"]):
        found = set()
        for parting in partings(np.flatnonzero(node == n).tolist()):
            if (slots is None or len(parting) <= slots) and all(fits(s, n) for s in parting):
                of = [{facts["topology"][t] for t in slot} for slot in parting]
                kinds = tuple(sum(i in own for own in of) for i in range(len(facts["workers"])))
                found.add((*kinds, *(sum(bool(own & set(s)) for s in parting) for own in sets)))
        filled.append(found)
    for chosen in product(*filled):
        every = [sum(one) for one in zip(*chosen, strict=True)]
        total, stands = every[: len(facts["workers"])], every[len(facts["workers"]) :]
        if any(
            k > 1 if one["rule"] == "together" else k < one.get("at_least", 0)
            for k, (_, one) in zip(stands, rules, strict=True)
        ):
            continue
        if all(
            workers is None or executors == 0 or used == min(workers, executors)
            for workers, executors, used in zip(
                facts["workers"],
                [facts["topology"].count(i) for i in range(len(total))],
                total,
                strict=True,
            )
        ):
            return True
    return False


@pytest.mark.parametrize("most_sets", [0, 1, 3])
@pytest.mark.parametrize("seed", range(10))
def test_equal_to_trying_every_dealing(seed: int, most_sets: int) -> None:
    rng = random.Random(seed)
    told = {True: 0, False: 0}
    for _ in range(300 if not most_sets else 150):
        case, node, facts = drawn(rng, most_sets)
        assigned = assign_slots(case, node)
        possible = can_be_dealt(node, facts)
        assert assigned.proven, facts
        assert (assigned.slot is not None) == possible, (node, facts)
        if possible:
            assert kept(case, node, assigned), (node, facts)
        else:
            assert {v.rule for v in assigned.shortage} <= RULES
            assert all(v.amount > 0 and v.needed > v.available for v in assigned.shortage), facts
        told[possible] += 1
    assert min(told.values()) > 30


@pytest.mark.parametrize("seed", range(3))
def test_little_work_is_never_wrong(seed: int) -> None:
    rng = random.Random(1000 + seed)
    for k in range(300):
        case, node, facts = drawn(rng, k % 3)
        assigned = assign_slots(case, node, work=rng.choice([0, 5, 20, 60]))
        if assigned.proven:
            assert (assigned.slot is not None) == can_be_dealt(node, facts)
        if assigned.slot is not None:
            assert kept(case, node, assigned)
        else:
            assert assigned.shortage


def test_slots_with_equal_room_differ_by_the_sets_that_have_a_member_there() -> None:
    """A member, another that does not fit beside it, a member: apart only beside the second."""
    loads = np.array([[2.0], [2.0], [1.0]])
    search = Search(loads, [-1, -1, -1], np.array([3.0]), 2, sets=[(0,), (), (0,)])
    search.run(1_000)
    assert search.complete
    assert sorted(search.partitions) == [(1,), (2,)]
