"""Workers that restart: the figure, the limit with and without slots of a plan, who keeps it."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from optim import Instance, UnsuitableMethod, solve
from optim.errors import InvalidInput
from optim.figures.measures import workers_restarted
from optim.referee import evaluate_indices
from optim.rules import broken, hopeless
from optim.rules.placement import Placement
from optim.rules.slot_assignment import assign_slots
from optim.rules.slot_assignment.groups import renumbered
from streamplace.explain.explanation import binding_rules, why_infeasible

OF_SLOTS = {
    "slots", "slot_capacity", "one_topology_a_slot", "workers", "max_tasks_per_slot", "slot_sets",
}  # fmt: skip


def at(*indices: int) -> Any:
    return np.array(indices, dtype=np.int32)


def document(home: list[tuple[str, int]] = [("n", 0), ("n", 0), ("n", 3), ("m", 0)]) -> Any:  # noqa: B006
    return {
        "format": "streamplace.instance/1",
        "name": "workers",
        "nodes": [{"id": "n", "slots": 4}, {"id": "m", "slots": 2}],
        "topologies": [{"id": "t"}],
        "operators": [{"id": "o", "topology": "t"}],
        "tasks": [
            {"id": "abcd"[i], "operator": "o", "load": {"cpu": 1}, "node": n, "slot": s}
            for i, (n, s) in enumerate(home)
        ],
        "traffic": [["a", "d", 5], ["c", "b", 2]],
    }


@pytest.mark.parametrize(
    ("node", "slot", "restarted"),
    [
        ((0, 0, 0, 1), (0, 0, 3, 0), 0),
        ((0, 0, 0, 1), (0, 0, 1, 0), 2),  # a slot emptied, a new one
        ((0, 0, 0, 1), (0, 0, 0, 0), 2),  # a slot emptied, another changed
        ((0, 0, 0, 1), (3, 3, 0, 0), 2),  # numbers tell slots apart
        ((1, 0, 0, 1), (0, 0, 3, 0), 2),
        ((1, 1, 1, 0), (0, 0, 1, 0), 4),
    ],
)
def test_slots_whose_tasks_change_are_counted(node: Any, slot: Any, restarted: int) -> None:
    instance = Instance.from_dict(document())
    judged = evaluate_indices(instance, at(*node), at(*slot))
    assert judged.workers_restarted == restarted
    limited = replace(instance, limits=replace(instance.limits, max_workers_restarted=1))
    rules = {v.rule for v in evaluate_indices(limited, at(*node), at(*slot)).violations}
    assert ("max_workers_restarted" in rules) == (restarted > 1)


def test_a_task_of_no_topology_joins_none_of_the_workers_that_are_kept() -> None:
    """Worker a is kept only where c, of no topology, joins b, which may not join a."""
    case = document([("n", 0), ("m", 0), ("m", 0)])
    del case["tasks"][2]["operator"]
    case |= {"traffic": [], "limits": {"max_workers_restarted": 2}, "resources": ["cpu", "mem"]}
    case["tasks"][0]["max_load"] = {"cpu": 2}
    case["sets"] = [{"id": "s", "rule": "apart", "over": "slot", "tasks": ["a", "b"]}]
    found = assign_slots(Instance.from_dict(case), at(0, 0, 0))
    assert found.proven
    assert found.slot is not None
    assert found.slot.tolist() == [0, 1, 1]


def test_without_slots_the_figure_is_unknown() -> None:
    instance = Instance.from_dict(document())
    assert evaluate_indices(instance, at(0, 0, 0, 1)).workers_restarted is None
    unknown = document()
    del unknown["tasks"][1]["slot"]
    judged = evaluate_indices(Instance.from_dict(unknown), at(0, 0, 0, 1), at(0, 0, 3, 0))
    assert judged.workers_restarted is None
    for task in unknown["tasks"]:
        task.pop("slot", None)
        task.pop("node")
    judged = evaluate_indices(Instance.from_dict(unknown), at(0, 0, 0, 1), at(0, 0, 3, 0))
    assert judged.workers_restarted is None


def test_the_limit_is_refused_where_current_slots_are_unknown() -> None:
    unknown = {**document(), "limits": {"max_workers_restarted": 1}}
    del unknown["tasks"][2]["slot"]
    with pytest.raises(InvalidInput, match=r"needs the slot of each task .*; c has none") as error:
        Instance.from_dict(unknown)
    (problem,) = error.value.problems
    assert problem.path == "limits.max_workers_restarted"
    assert "tasks[].slot" in str(problem.remedy)


def test_numbers_of_running_slots_are_taken_over() -> None:
    instance = Instance.from_dict(document())
    found = renumbered(instance, at(0, 0, 0, 1), at(1, 1, 2, 1))
    assert found.tolist() == [0, 0, 3, 0]
    found = renumbered(instance, at(0, 0, 0, 0), at(1, 1, 2, 0))  # d is new on n
    assert workers_restarted(instance, at(0, 0, 0, 0), found) == 2


def test_a_task_that_may_not_stay_or_is_nowhere_restarts_a_worker() -> None:
    case = {**document(), "limits": {"max_workers_restarted": 1}}
    case["tasks"][0]["allowed"] = ["m"]
    case["tasks"][3]["allowed"] = ["n"]
    (reason,) = hopeless(Instance.from_dict(case))
    assert (reason.rule, reason.needed, reason.available) == ("max_workers_restarted", 2.0, 1.0)
    case = {**document(), "limits": {"max_workers_restarted": 0}}
    del case["tasks"][3]["node"], case["tasks"][3]["slot"]
    assert [v.rule for v in hopeless(Instance.from_dict(case))] == ["max_workers_restarted"]


def drawn(rng: random.Random) -> dict[str, Any]:
    nodes: list[dict[str, Any]] = [
        {"id": f"n{i}", "capacity": {"cpu": 100}, "slots": rng.randint(1, 3)}
        for i in range(rng.randint(1, 3))
    ]
    if rng.random() < 0.4:
        for node in nodes:
            node["slot_capacity"] = {"cpu": rng.randint(4, 9)}
    two = rng.random() < 0.4
    operators = [{"id": f"o{k}", "topology": f"t{k if two else 0}"} for k in range(2)]
    topologies: list[dict[str, Any]] = [{"id": "t0"}, {"id": "t1"}][: 1 + two]
    for topology in topologies:
        if rng.random() < 0.5:
            topology["workers"] = rng.randint(1, 3)
    tasks: list[dict[str, Any]] = []
    for i in range(rng.randint(2, 5)):
        task: dict[str, Any] = {"id": f"x{i}", "operator": f"o{rng.randint(0, 1)}"}
        task["load"] = {"cpu": rng.randint(1, 4)}
        if rng.random() < 0.9 or not i:
            n = rng.randrange(len(nodes))
            task |= {"node": f"n{n}", "slot": rng.randrange(nodes[n]["slots"])}
        tasks.append(task)
    ids = [task["id"] for task in tasks]
    made: dict[str, Any] = {
        "format": "streamplace.instance/1", "name": "drawn", "nodes": nodes,
        "topologies": topologies, "operators": operators, "tasks": tasks,
        "traffic": [[a, b, rng.randint(1, 9)] for a, b in itertools.combinations(ids, 2)
                    if rng.random() < 0.7] or [[*ids[:2], 1]],
        "limits": {"max_workers_restarted": rng.randint(0, 4)},
    }  # fmt: skip
    if rng.random() < 0.3:
        made["limits"]["max_tasks_per_slot"] = rng.randint(1, 3)
    if rng.random() < 0.3:
        rule = rng.choice(["apart", "together"])
        made["sets"] = [{"id": "s", "tasks": rng.sample(ids, 2), "rule": rule, "over": "slot"}]
    return made


def least_restarts(instance: Instance, node: Any) -> int | None:
    """Fewest workers that restart by any slots of the tasks on these nodes; ``None`` for none."""
    free = replace(instance, limits=replace(instance.limits, max_workers_restarted=None))
    best: int | None = None
    for slot in itertools.product(*(range(int(instance.nodes.slots[n])) for n in node)):
        count = workers_restarted(instance, node, at(*slot))
        assert count is not None
        if best is None or count < best:
            found = broken(Placement(free, node, at(*slot)))
            if not any(v.rule in OF_SLOTS for v in found):
                best = count
    return best


@pytest.mark.parametrize("seed", range(40))
def test_an_assignment_is_found_where_any_restarts_few_enough(seed: int) -> None:
    rng = random.Random(seed)
    instance = Instance.from_dict(drawn(rng))
    places = range(instance.num_nodes)
    node = at(*(
        n if n >= 0 and rng.random() < 0.6 else rng.choice(places)
        for n in instance.tasks.node.tolist()
    ))  # fmt: skip
    best = least_restarts(instance, node)
    for most in range(7):
        limited = replace(instance, limits=replace(instance.limits, max_workers_restarted=most))
        found = assign_slots(limited, node)
        if found.proven:
            assert (found.slot is not None) == (best is not None and best <= most)
        if found.slot is not None:
            rules = {v.rule for v in broken(Placement(limited, node, found.slot))}
            assert not rules & (OF_SLOTS | {"max_workers_restarted"})


@pytest.mark.parametrize("seed", range(8))
def test_storms_methods_agree_with_brute_force(seed: int) -> None:
    instance = Instance.from_dict(drawn(random.Random(1000 + seed)))
    judge = solve(instance, "imc-brute", start_broken="refuse")
    exact = solve(instance, "storm-milp", time_limit=30.0, start_broken="refuse")
    assert exact.feasible == judge.feasible
    if judge.feasible:
        least = judge.evaluation.total_traffic - judge.evaluation.imc_gain
        assert exact.evaluation.internode_traffic == pytest.approx(least, abs=1e-6)
        assert exact.bound == pytest.approx(least, abs=1e-6)
    online = solve(instance, "storm-online", start_broken="refuse")
    assert judge.feasible or not online.feasible


def running(most: int | None, *, slots: int = 3) -> Instance:
    """Eight executors of two components in two topologies as `storm-even` spreads them."""
    made: dict[str, Any] = {
        "format": "streamplace.instance/1", "name": "running",
        "nodes": [{"id": f"n{i}", "slots": slots, "capacity": {"cpu": 60}} for i in range(4)],
        "topologies": [{"id": "t", "workers": 4}],
        "operators": [{"id": o, "topology": "t", "group": {"tasks": 4, "load": {"cpu": 40}}}
                      for o in "ab"],
        "streams": [{"from": "a", "to": "b", "rate": 40, "pattern": "one_to_one"}],
    }  # fmt: skip
    plan = solve(Instance.from_dict(made), "storm-even").plan
    assert plan is not None
    assert plan.slots is not None
    # the tasks of b one worker further on, so that nobody is beside its partner
    spots = {t: (n, plan.slots[t]) for t, n in plan.assignment.items()}
    for i in range(4):
        spots[f"b/{i}"] = (plan.assignment[f"a/{(i + 1) % 4}"], plan.slots[f"a/{(i + 1) % 4}"])
    made["tasks"] = [{"id": t, "node": n, "slot": s} for t, (n, s) in spots.items()]
    return Instance.from_dict({**made, "limits": {"max_workers_restarted": most}})


@pytest.mark.parametrize("name", ["storm-offline", "storm-online", "storm-even"])
def test_a_scheduler_takes_over_what_may_restart(name: str) -> None:
    free, limited = solve(running(None), name), solve(running(3), name)
    assert limited.feasible
    assert limited.evaluation.workers_restarted <= 3
    assert limited.evaluation.internode_traffic >= free.evaluation.internode_traffic
    if name == "storm-online":
        now = evaluate_indices(running(3), running(3).tasks.node).internode_traffic
        assert free.evaluation.internode_traffic < limited.evaluation.internode_traffic < now


def test_new_slots_beside_more_running_ones_than_the_topology_has_workers() -> None:
    """Three slots run on n and two are wanted: the method's start has a fourth."""
    told = document([("n", 1), ("n", 2), ("n", 3), ("n", 3)])
    told["topologies"] = [{"id": "t", "workers": 2}]
    told["limits"] = {"max_workers_restarted": 6}
    result = solve(Instance.from_dict(told), "storm-milp")
    assert str(result.termination) == "optimal", result.notes


def test_repair_keeps_it_where_a_method_does_not_know_it() -> None:
    with pytest.raises(UnsuitableMethod, match="max_workers_restarted"):
        solve(running(2), "top-down")
    result = solve(running(2), "top-down", repair=True)
    assert result.feasible
    assert result.repaired
    assert result.evaluation.imc_gain > 0.0  # staying would keep it too
    node = result.plan.node_indices(running(2))
    assert workers_restarted(running(2), node, assign_slots(running(2), node).slot) == 2


def test_of_equal_plans_the_one_that_restarts_fewest_is_taken() -> None:
    instance = running(None, slots=1)
    result = solve(instance, "storm-milp", time_limit=20.0)
    assert result.evaluation.internode_traffic == 0
    # each worker gives one executor and takes another: the tasks of a stay, those of b move
    assert result.evaluation.workers_restarted == 4
    assert result.evaluation.migrations == 4
    spots = [(t, n) for t, n in result.plan.assignment.items()]
    settled = {"tasks": [{"id": t, "node": n, "slot": 2} for t, n in spots]}
    nodes = [{**node, "slots": 3} for node in instance.to_dict()["nodes"]]
    again = solve(
        Instance.from_dict({**instance.to_dict(), **settled, "nodes": nodes}), "storm-milp",
        time_limit=20.0,
    )  # fmt: skip
    assert again.evaluation.internode_traffic == 0
    assert again.evaluation.workers_restarted == 0


def test_explain_names_the_limit_and_what_it_would_have_to_be() -> None:
    # d comes to n: its own worker ends, and one of n changes
    case = {**document(), "limits": {"max_workers_restarted": 1}}
    case["tasks"][3]["allowed"] = ["n"]
    found = why_infeasible(Instance.from_dict(case), 100.0)
    clashes = {c.rule: (c.needed, c.available) for rules in found.conflicts for c in rules}
    assert clashes["max_workers_restarted"] == (2.0, 1.0)


def test_explain_reports_a_limit_that_binds() -> None:
    instance = running(2)
    result = solve(instance, "storm-milp", time_limit=10.0)
    node, slot = result.plan.node_indices(instance), result.plan.slot_indices(instance)
    bound = {b.rule: b for b in binding_rules(instance, node, slot)}["max_workers_restarted"]
    assert (bound.where, bound.used, bound.available) == ("limits", 2.0, 2.0)
