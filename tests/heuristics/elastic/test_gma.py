"""``gma`` against a plain recount, by hand, and against the optimum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from heuristics.elastic.gma import Allocation, task_order
from optim import Instance, InvalidInput, solve
from optim.errors import UnsuitableMethod
from optim.figures.measures import node_loads
from optim.referee import evaluate_indices
from tests.formulations.elastic.cases import random_document
from tests.formulations.task_allocation.cases import seeds
from tests.optim.make import nodes


def made(**parts: object) -> Instance:
    return Instance.from_dict({"format": "streamplace.instance/1", "name": "g", **parts})


def random_instance(seed: int) -> Instance:
    """As for the exact models, without the limits that `gma` does not keep."""
    document = random_document(seed, most_tasks=9, most_nodes=5)
    document.pop("limits", None)
    for node in document["nodes"]:
        node.pop("min_load", None)
    return Instance.from_dict(document)


def crossing(instance: Instance, node: np.ndarray) -> list[float]:
    """Background + traffic between placed tasks of which one end lies behind each link."""
    links = instance.links
    loads = links.background.tolist()
    for i in range(len(loads)):
        behind = links.node_indices[links.node_indptr[i] : links.node_indptr[i + 1]].tolist()
        for u, v, rate in zip(*instance.pairs, strict=True):
            if node[u] >= 0 and node[v] >= 0:
                loads[i] += rate * ((node[u] in behind) != (node[v] in behind))
    return loads


def row(**parts: object) -> Instance:
    """Operators a → b → c → d of 3 each, 9, 2 and 9 between them."""
    base: dict[str, object] = {
        "nodes": nodes(3, capacity={"cpu": 10}),
        "operators": [{"id": o, "group": {"tasks": 1, "load": {"cpu": 3}}} for o in "abcd"],
        "streams": [
            {"from": "a", "to": "b", "rate": 9},
            {"from": "b", "to": "c", "rate": 2},
            {"from": "c", "to": "d", "rate": 9},
        ],
    }
    return made(**{**base, **parts})


@settings(max_examples=150, deadline=None)
@given(seeds)
def test_its_books_are_the_referees(seed: int) -> None:
    instance = random_instance(seed)
    for objective in (0, 1, 2):
        allocation = Allocation(instance, objective)
        figures = []
        for _ in range(100):
            changed = allocation.run_pass()
            node = allocation.state.node.astype(np.int32)
            assert allocation.state.load == pytest.approx(node_loads(instance, node), abs=1e-9)
            assert allocation.state.link_load == pytest.approx(crossing(instance, node), abs=1e-9)
            assert allocation.state.num_tasks.tolist() == [
                int((node == n).sum()) for n in range(instance.num_nodes)
            ]
            judged = evaluate_indices(instance, node)
            unplaced = int((node < 0).sum())
            both = judged.resource_deviation
            figures.append((unplaced, judged.used_capacity, judged.internode_traffic, both))
            if not changed:
                break
        assert not changed  # passes end by themselves
        if objective == 0:  # with all placed, every pass improves
            whole = [f[1:3] for f in figures if f[0] == 0]
            assert whole == sorted(whole, reverse=True)
        if objective == 2 and (instance.nodes.capacity[:, 0] > 0).all():
            spread = [f[3] for f in figures if f[0] == 0 and f[3] is not None]
            assert spread == pytest.approx(sorted(spread, reverse=True), abs=1e-6)


@settings(max_examples=100, deadline=None)
@given(seeds)
def test_what_is_not_best_effort_keeps_every_rule(seed: int) -> None:
    instance = random_instance(seed)
    result = solve(instance, "gma", start_broken="refuse")
    if result.termination == "infeasible":
        return
    assert result.plan is not None
    assert result.evaluation is not None
    tail = [note for note in result.notes if note.startswith("best effort")]
    running = bool((Allocation(instance, 0).fixed.fixed >= 0).any())
    links = instance.links
    background = (instance.headroom < 0).any() or (links.background > links.capacity).any()
    if not tail and not running and not background:
        assert result.feasible, result.evaluation.violations


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_never_beats_the_optimum(seed: int) -> None:
    instance = random_instance(seed % 10_000)
    for objective in ("utilisation", "deviation"):
        greedy = solve(instance, "gma", objective=objective)
        if not greedy.feasible:
            continue
        try:
            exact = solve(instance, "eoa-milp", objective=objective)
        except UnsuitableMethod:
            continue
        assert exact.objective is not None
        assert greedy.objective is not None
        assert exact.objective.name == greedy.objective.name
        assert exact.objective.value <= greedy.objective.value + 1e-6  # type: ignore[operator]


def test_by_hand() -> None:
    # a opens n1 (lowest index among the light); b, c follow it; d no longer fits and opens n2;
    # in the second pass c follows d: 9 gained against 2 lost
    result = solve(row(), "gma")
    assert result.plan is not None
    assert dict(result.plan.assignment) == {"a/0": "n1", "b/0": "n1", "c/0": "n2", "d/0": "n2"}
    assert result.notes[0] == "3 passes"


def test_one_pass_does_not_look_back() -> None:
    result = solve(row(), "gma", max_passes=1)
    assert result.plan is not None
    assert [n for _, n in sorted(result.plan.assignment.items())] == ["n1", "n1", "n1", "n2"]


def test_light_nodes_come_first_among_equals() -> None:
    busy = [
        {"id": "n1", "capacity": {"cpu": 10}, "background": {"cpu": 5}},
        {"id": "n2", "capacity": {"cpu": 10}, "background": {"cpu": 1}},
    ]
    result = solve(
        row(
            nodes=busy,
            operators=[{"id": "a", "group": {"tasks": 1, "load": {"cpu": 3}}}],
            streams=[],
        ),
        "gma",
    )
    assert result.plan is not None
    assert result.plan.assignment["a/0"] == "n2"


@pytest.mark.parametrize(("use", "wanted"), [(0.0, 0), (0.399, 0), (0.4, 1), (0.799, 1), (0.8, 2)])
def test_classes(use: float, wanted: int) -> None:
    busy = nodes(3, capacity={"cpu": 1000}, background={"cpu": 1000 * use})
    instance = row(nodes=busy)
    assert Allocation(instance, 0).classes().tolist() == [wanted] * 3


def test_bandwidth_makes_a_node_heavy_too() -> None:
    links = [
        {"id": f"up{i}", "nodes": [f"n{i}"], "capacity": 10, "background": 9 if i == 1 else 0}
        for i in (1, 2, 3)
    ]
    instance = row(links=links)
    allocation = Allocation(instance, 0)
    assert allocation.classes().tolist() == [2, 0, 0]


def test_deviation_spreads() -> None:
    result = solve(row(streams=[]), "gma", objective="deviation")
    assert result.objective is not None
    assert result.objective.name == "cpu_deviation"
    assert result.evaluation is not None
    assert result.evaluation.nodes_used == 3


def test_the_tail_goes_evenly_onto_light_nodes_and_is_told() -> None:
    # one task of 8 fits each node of 10; uplinks carry nothing, so partners find no node
    links = [{"id": f"up{i}", "nodes": [f"n{i}"], "capacity": 1} for i in (1, 2, 3)]
    operators = [{"id": o, "group": {"tasks": 1, "load": {"cpu": 6}}} for o in "abcd"]
    links += [{"id": f"up{i}", "nodes": [f"n{i}"], "capacity": 1} for i in (4, 5)]
    five = nodes(5, capacity={"cpu": 10})
    result = solve(row(nodes=five, links=links, operators=operators), "gma")
    assert any(
        n.startswith("best effort: no node held 2 of the tasks: b/0, d/0") for n in result.notes
    )
    assert result.plan is not None
    assert not result.feasible
    assert result.exit_code == 4
    assert len(set(result.plan.assignment.values())) == 4


def test_running_tasks_stand_first_and_stay() -> None:
    instance = row(tasks=[{"id": "d/0", "allowed": ["n3"], "node": "n3", "slot": 0}])
    result = solve(instance, "gma")
    assert result.plan is not None
    assert result.plan.assignment["d/0"] == "n3"
    # n3 is in use already: a and b join d there, c has no room left and opens n1
    assert [n for _, n in sorted(result.plan.assignment.items())] == ["n3", "n3", "n1", "n3"]


def test_order_is_topological_with_cycles_and_strays_last() -> None:
    instance = made(
        nodes=nodes(2, capacity={"cpu": 10}),
        operators=[{"id": o, "group": {"tasks": 1}} for o in "abcd"],
        tasks=[{"id": "stray"}],
        streams=[
            {"from": "d", "to": "c", "rate": 1},
            {"from": "a", "to": "b", "rate": 1},
            {"from": "b", "to": "a", "rate": 1},
        ],
    )
    names = [instance.tasks.ids[t] for t in task_order(instance)]
    assert names == ["d/0", "c/0", "a/0", "b/0", "stray"]


def test_overloaded_operators_are_named() -> None:
    result = solve(
        row(
            input_rate=100,
            operators=[
                {"id": "a", "group": {"tasks": 1}, "cpu_per_tuple": 0.01, "service_rate": 50},
                {"id": "b", "group": {"tasks": 1}, "cpu_per_tuple": 0.01, "service_rate": 500},
            ],
            streams=[{"from": "a", "to": "b", "selectivity": 2, "tuple_bytes": 1}],
        ),
        "gma",
    )
    told = [note for note in result.notes if "overloaded" in note]
    assert told == ["operator a is overloaded: it receives 100 tuples/s and serves 50"]


def test_bad_options_and_missing_capacity_are_refused() -> None:
    for options in ({"objective": "speed"}, {"max_passes": -1}, {"t_max": 3}):
        with pytest.raises(InvalidInput):
            solve(row(), "gma", **options)
    with pytest.raises(UnsuitableMethod, match=r"capacity of the first resource; n1 has none"):
        solve(row(nodes=nodes(2)), "gma")


def test_a_time_limit_still_makes_a_whole_plan() -> None:
    result = solve(row(), "gma", time_limit=1e-6)
    assert result.plan is not None
    assert result.notes[0] == "1 passes"


@pytest.mark.parametrize("seed", range(8))
def test_no_single_move_evens_out_nodes_and_links_further(seed: int) -> None:
    from experiments.generators import generate

    instance = generate("eoa_random", seed=seed, nodes=4, operators=7, racks=2)
    result = solve(instance, "gma", objective="resource_deviation")
    assert result.plan is not None
    assert result.evaluation is not None
    node = np.array(
        [instance.nodes.ids.index(result.plan.assignment[t]) for t in instance.tasks.ids]
    )
    reached = result.evaluation.resource_deviation
    for task in range(instance.num_tasks):
        for other in range(instance.num_nodes):
            moved = node.astype(np.int32)
            moved[task] = other
            judged = evaluate_indices(instance, moved)
            if not judged.violations:
                assert judged.resource_deviation >= reached - 1e-9


def test_what_may_go_nowhere_stays_without_a_node() -> None:
    """The only node is that of the job `j`: a task of no job has none left."""
    here = nodes(1, capacity={"cpu": 20})
    instance = made(
        nodes=here,
        topologies=[{"id": "j", "exclusive_nodes": 3}],
        operators=[{"id": "o", "topology": "j"}],
        tasks=[
            {"id": "a", "operator": "o", "node": here[0]["id"]},
            {"id": "b", "node": here[0]["id"]},
        ],
    )
    result = solve(instance, "gma")
    assert not result.feasible
    assert result.notes[0] == "gma found no plan: the plan of least excess replaces it"
