"""What `explain` reports is what it checked, and is the same in every unit."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from formulations.conflicts.excess import raised
from formulations.conflicts.rule_instances import atoms_of
from optim import Instance
from optim.format.changes import Change, altered
from optim.rules import broken, inflow_limits
from optim.rules.placement import Placement
from streamplace.explain.explanation import why_infeasible
from tests.formulations.conflicts.test_brute_force import small
from tests.slowly import slowly

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from formulations.conflicts.remedies import Remedy
    from streamplace.explain.explanation import Explanation

_SECONDS = 20.0
_AMPLE = 200.0  # so that no remedy is left out where other processes take the cores


def document(nodes: Any, tasks: Any, **more: Any) -> Instance:
    head = {"format": "streamplace.instance/1", "name": "x", "resources": ["cpu"]}
    return Instance.from_dict({**head, "nodes": nodes, "tasks": tasks, **more})


def told(found: Explanation, unit: float) -> list[Any]:
    """Conflicts and remedies with loads as multiples of a unit."""

    def amount(rule: str, value: float | None) -> float | None:
        loads = rule in ("capacity", "min_load", "max_load_distance")
        return value if value is None or not loads else float(f"{value / unit:.6g}")

    clashes = [
        [(c.rule, c.where, amount(c.rule, c.needed), amount(c.rule, c.available)) for c in rules]
        for rules in found.conflicts
    ]
    helps = (*found.relaxation, *found.remedies)
    return [
        found.feasible,
        clashes,
        [(r.rule, r.where.partition(" (")[0], amount(r.rule, r.by)) for r in helps],
    ]


def test_a_limit_in_whole_numbers_is_raised_by_a_whole_number() -> None:
    nodes = [{"id": "n0", "capacity": {"cpu": 1}}, {"id": "n1", "capacity": {"cpu": 1}}]
    tasks = [
        {"id": "a", "load": {"cpu": 1}, "node": "n0", "allowed": ["n1"]},
        {"id": "b", "load": {"cpu": 1}, "node": "n1"},
    ]
    found = why_infeasible(document(nodes, tasks, limits={"max_migrations": 0}), _SECONDS)
    helps = {r.rule: r for r in (*found.relaxation, *found.remedies)}
    assert (helps["max_migrations"].by, helps["max_migrations"].to) == (2, 2)
    assert helps["max_migrations"].share is None  # of nothing


def test_a_limit_is_raised_by_what_all_rules_need_not_the_conflict_alone() -> None:
    chain = [
        {"id": "a", "load": {"cpu": 1}, "node": "n0", "allowed": ["n1"], "state": 2.5},
        {"id": "b", "load": {"cpu": 1}, "node": "n1", "allowed": ["n1", "n2"], "state": 4},
        {"id": "c", "load": {"cpu": 1}, "node": "n2", "state": 8},
    ]
    nodes = [{"id": f"n{i}", "capacity": {"cpu": 1}} for i in range(3)]
    for limit, least in (("max_migrations", 3), ("max_migration_state", 14.5)):
        found = why_infeasible(document(nodes, chain, limits={limit: 0}), _SECONDS)
        helps = {r.rule: r for r in (*found.relaxation, *found.remedies)}
        assert helps[limit].to == least
    # one node for all that is to be together, not a share of the gap on each node
    nodes = [{"id": f"n{i}", "capacity": {"cpu": 10}} for i in range(3)]
    tasks = [{"id": name, "load": {"cpu": 4}} for name in "abc"]
    sets = [{"id": "s", "tasks": ["a", "b", "c"], "rule": "together"}]
    found = why_infeasible(document(nodes, tasks, sets=sets), _SECONDS)
    (first,) = found.relaxation
    assert (first.rule, first.by, first.to) == ("capacity", 2, 12)
    # whole tasks: 2 of 3 on one node
    tasks = [{"id": name, "load": {"cpu": 6}} for name in "abc"]
    found = why_infeasible(document(nodes[:2], tasks), _SECONDS)
    assert (found.relaxation[0].rule, found.relaxation[0].by) == ("capacity", 2)


def test_a_limit_of_all_nodes_that_is_raised_on_one_holds_on_the_others() -> None:
    tasks: list[Any] = [{"id": name, "node": "n0"} for name in "abc"]
    case = document([{"id": f"n{i}"} for i in range(3)], tasks, limits={"max_inflow": 0})
    atoms = atoms_of(case)
    (second,) = [a for a in atoms.of("max_inflow").tolist() if atoms.index[a] == 1]
    assert inflow_limits(raised(atoms, {second: 2.0})).tolist() == [0, 2, 0]


@pytest.mark.parametrize(("loads", "rooms", "why"), [
    ([6, 6, 6], [10, 10], "3 tasks, at most 1 a node"),
    ([6, 1, 6, 6], [10, 10], "the 3 largest tasks, at most 1 a node"),
    ([4, 4, 4, 4], [10, 7], "4 tasks, at most 3 on these nodes"),
    ([7, 5, 4, 4], [10, 10], "all load is no more than that, but whole tasks leave room unused"),
    ([7, 7, 7], [10, 10], ""),  # more than there is
])  # fmt: skip
@pytest.mark.parametrize("unit", [1e9, 1.0, 1e-7])
def test_tasks_that_would_fit_but_for_their_sizes(
    loads: list[int], rooms: list[int], why: str, unit: float
) -> None:
    nodes = [{"id": f"n{i}", "capacity": {"cpu": c * unit}} for i, c in enumerate(rooms)]
    tasks = [{"id": f"t{i}", "load": {"cpu": load * unit}} for i, load in enumerate(loads)]
    ((clash,),) = why_infeasible(document(nodes, tasks), _SECONDS).conflicts
    assert (clash.where, clash.remark) == ("all nodes.cpu", why)


@pytest.mark.parametrize(("every", "own", "where"), [
    (0, 1, "limits"), (0, None, "limits"), (0, 0, "limits, n1"), (None, 0, "n1"), (2, 0, "n1"),
])  # fmt: skip
def test_the_limit_of_moves_onto_a_node_that_is_named_is_the_one_that_binds(
    every: int | None, own: int | None, where: str
) -> None:
    """Written where the remedy says, and nowhere else, the change gives a plan."""

    def case(to: float | None = None, place: str = "") -> Instance:
        numbers = {"limits": every, "n1": own}
        numbers |= {} if to is None else dict.fromkeys(place.split(", "), to)
        most = {k: {"max_inflow": v} for k, v in numbers.items() if v is not None}
        nodes = [{"id": "n0"}, {"id": "n1", **most.get("n1", {})}]
        tasks = [{"id": "a", "node": "n0", "allowed": ["n1"]}]
        return document(nodes, tasks, limits=most.get("limits", {}))

    found = why_infeasible(case(), _SECONDS)
    (first,) = [r for r in (*found.relaxation, *found.remedies) if r.rule == "max_inflow"]
    assert (first.where, first.by, first.to) == (where, 1, 1)
    assert not broken(Placement(case(first.to, first.where), np.ones(1, np.int32)))


@pytest.mark.parametrize(("more", "remedy", "words"), [
    # 3 tasks: one of them has 3 of 8 key groups, 2.25
    ({"key_groups": 8}, ("parallelism", "a", 4), "a has 2 tasks; needs at least 4"),
    ({"key_groups": 2}, ("max_load", "a/0.cpu", 3), "a has too few key_groups for any number"),
    ({"max_parallelism": 2}, ("parallelism", "a (above its max_parallelism of 2)", 3),
     "a has 2 tasks; needs at least 3, above its max_parallelism of 2"),
    ({"max_load": {"memory": 0.5}}, ("max_load", "a/0.memory", 1), "the input does not drive it"),
])  # fmt: skip
def test_a_parallelism_that_helps(more: Any, remedy: Any, words: str) -> None:
    operator = {"id": "a", "group": {"tasks": 2, "load": {"cpu": 6, "memory": 2}}}
    operator |= {"max_load": {"cpu": 2}, **more}
    case = document([{"id": "n0"}], [], operators=[operator], resources=["cpu", "memory"])
    (first,) = why_infeasible(case, _SECONDS).relaxation
    assert (first.rule, first.where, first.to) == remedy
    assert words in broken(Placement(case, np.zeros(2, np.int32)))[0].remark


@pytest.mark.parametrize("unit", [1e9, 1e3, 1.0, 1e-3])
def test_a_least_load_that_nothing_may_bring(unit: float) -> None:
    first = {"capacity": {"cpu": 6.52 * unit}, "background": {"cpu": 1.63 * unit}}
    first |= {"min_load": {"cpu": 5.433333333 * unit}, "max_inflow": 0}
    nodes = [{"id": "n0", **first}, {"id": "n1"}, {"id": "n2"}]
    tasks = [
        {"id": f"t{i}", "load": {"cpu": load * unit}, "node": node}
        for i, (load, node) in enumerate([(1, "n2"), (5, "n1"), (1, "n2")])
    ]
    found = told(why_infeasible(document(nodes, tasks), _SECONDS), unit)
    assert found == [
        False,
        [[("min_load", "n0.cpu", 5.43333, 1.63), ("max_inflow", "n0", 1.0, 0.0)]],
        [("min_load", "n0.cpu", -3.81)],
    ]


@pytest.mark.parametrize("unit", [1e9, 1e3, 1.0, 1e-3])
def test_the_node_that_is_too_small_is_named(unit: float) -> None:
    nodes = [{"id": f"n{i}", "capacity": {"cpu": 64 * unit}} for i in range(3)]
    tasks: list[Any] = [{"id": f"t{i}", "load": {"cpu": 10 * unit}} for i in range(3)]
    tasks.append({"id": "big", "load": {"cpu": 70 * unit}, "allowed": ["n1"]})
    found = told(why_infeasible(document(nodes, tasks), _SECONDS), unit)
    rules = [("capacity", "n1.cpu", 70.0, 64.0), ("allowed", "big on n1", 1.0, 0.0)]
    assert found[:2] == [False, [rules]]
    assert found[2] == [("capacity", "n1.cpu", 6.0)]


def test_a_raised_capacity_is_that_of_the_file_though_a_part_of_it_may_be_used() -> None:
    nodes = [{"id": "n0", "capacity": {"cpu": 100}}]
    limits = {"max_utilisation": {"cpu": 0.8}}
    found = why_infeasible(
        document(nodes, [{"id": "a", "load": {"cpu": 96}}], limits=limits), _SECONDS
    )
    ((clash,),) = found.conflicts
    assert (clash.needed, clash.available) == (96, 80)
    assert (found.relaxation[0].by, found.relaxation[0].to) == (20, 120)


def test_sets_that_do_not_fit_say_how_many_of_their_members_do() -> None:
    nodes = [{"id": f"n{i}", "rack": f"r{i % 2}"} for i in range(4)]
    tasks = [{"id": f"t{i}"} for i in range(5)]
    sets = [{"id": "s", "tasks": [t["id"] for t in tasks], "rule": "apart", "over": "rack"}]
    found = why_infeasible(document(nodes, tasks, sets=sets), _SECONDS)
    ((clash,),) = found.conflicts
    assert (clash.rule, clash.needed, clash.available) == ("sets", 5, 2)
    assert (found.relaxation[0].by, found.relaxation[0].to) == (2, 3)


def test_conflicts_and_remedies_do_not_depend_on_the_unit() -> None:
    seen = 0
    for seed in range(120, 200):
        instance = small(seed)
        if instance is None or seen >= 5:
            continue
        before = told(why_infeasible(instance, _AMPLE), 1.0)
        if before[0] is not False:
            continue
        seen += 1
        other = told(why_infeasible(in_unit(instance, 1e6), _AMPLE), 1e6)
        assert other == before, seed
    assert seen == 5


def in_unit(instance: Instance, factor: float) -> Instance:
    """The same instance with all loads in another unit."""
    text = instance.to_dict()
    for node in text["nodes"]:
        for name in ("capacity", "min_load", "background", "slot_capacity"):
            if name in node:
                node[name] = {r: value * factor for r, value in node[name].items()}
    operators = text.get("operators", ())
    for some in (*text.get("tasks", ()), *operators, *(o.get("group", {}) for o in operators)):
        for name in ("load", "max_load"):
            if name in some:
                some[name] = {r: value * factor for r, value in some[name].items()}
    for operator in operators:
        if "cpu_per_tuple" in operator:
            operator["cpu_per_tuple"] *= factor
    for cost in text.get("crossing_cost", {}).values():
        for way in cost:
            cost[way] *= factor
    if (far := text.get("limits", {}).get("max_load_distance")) is not None:
        text["limits"]["max_load_distance"] = far * factor
    return Instance.from_dict(text)


def test_where_a_few_nodes_are_excluded_these_are_named() -> None:
    nodes = [{"id": f"n{i}", "capacity": {"cpu": 9}} for i in range(3)]
    tasks = [{"id": f"t{i}", "load": {"cpu": 1}, "node": "n0"} for i in range(2)]
    limits = {"max_migrations": 1}
    changed = altered(document(nodes, tasks, limits=limits), [Change("drop-node", "n0")])
    found = why_infeasible(changed, _SECONDS)
    assert {rule.where for rule in found.conflicts[0]} == {
        "limits",
        "t0, t1 on all nodes but n0 (leaving)",
    }


_WITH_ENOUGH = (212, 220, 250, 256, 261, 366)
"""Seeds of small instances of which one remedy or more is enough."""


@pytest.mark.parametrize("drawn", [_WITH_ENOUGH, *slowly(range(300, 600))], ids=["few", "many"])
def test_every_remedy_that_is_enough_is_so_by_brute_force(drawn: Iterable[int]) -> None:
    tried = 0
    for seed in drawn:
        instance = small(seed)
        found = None if instance is None else why_infeasible(instance, _SECONDS)
        for remedy in (*found.relaxation, *found.remedies) if instance and found else ():
            for changed in applied(instance, remedy) if remedy.enough else ():
                assert exists(changed), (seed, remedy)
                tried += 1
    assert tried >= len(_WITH_ENOUGH)


def applied(instance: Instance, remedy: Remedy) -> Iterator[Instance]:
    """Write a remedy of one place into the file, as a user would."""
    text = instance.to_dict()
    if remedy.rule in text.get("limits", {}) and remedy.where == "limits":
        text["limits"][remedy.rule] = remedy.to
        yield Instance.from_dict(text)
    name, _, resource = remedy.where.rpartition(".")
    for node in text["nodes"]:
        if remedy.rule in ("capacity", "min_load") and node["id"] == name:
            node[remedy.rule][resource] = remedy.to
            yield Instance.from_dict(text)
        if remedy.rule in ("max_tasks", "slots") and node["id"] == remedy.where:
            node[remedy.rule] = int(remedy.to or 0)
            yield Instance.from_dict(text)


def exists(instance: Instance) -> bool:
    every = itertools.product(range(instance.num_nodes), repeat=instance.num_tasks)
    return any(not broken(Placement(instance, np.array(p, np.int32))) for p in every)
