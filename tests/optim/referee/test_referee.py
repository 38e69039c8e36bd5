"""The referee against figures worked out by hand and against a plain recount."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optim import InvalidInput, Plan, evaluate
from optim.format.instance import Instance
from optim.referee import evaluate_indices
from tests.optim.make import instance, nodes


def judge(made: Instance, node: list[int], slot: list[int] | None = None) -> Any:
    return evaluate(made, Plan.from_indices(made, node, slot))


def rules(evaluation: Any) -> list[str]:
    return [v.rule for v in evaluation.violations]


def test_figures_by_hand() -> None:
    made = instance(
        nodes=nodes(2, capacity={"cpu": 10}),
        tasks=[
            {"id": "a/0", "node": "n1"},
            {"id": "a/1", "node": "n2"},
            {"id": "b/0", "node": "n2"},
            {"id": "b/1", "node": "n2"},
        ],
    )
    found = judge(made, [0, 1, 0, 1])  # one a and one b on each node; b/0 moved, at 3
    assert found.feasible
    assert (found.imc_gain, found.internode_traffic, found.total_traffic) == (6, 6, 12)
    assert found.collocation_factor == 0.5
    assert found.load_distance == 0
    assert found.utilisation == {"n1": {"cpu": 0.6}, "n2": {"cpu": 0.6}}
    assert (found.max_utilisation, found.deviation) == (0.6, {"cpu": 0.0})
    assert (found.migrations, found.migration_cost, found.nodes_used) == (1, 3.0, 2)
    lopsided = judge(made, [0, 1, 1, 1])
    assert lopsided.load_distance == pytest.approx(4)  # 2 and 10 around 6
    assert lopsided.deviation["cpu"] == pytest.approx(np.sqrt(2 * 0.4**2))
    assert lopsided.mean_absolute_deviation == pytest.approx(0.4)


@pytest.mark.parametrize("nodes", [3, 6, 7])
def test_an_even_placement_has_no_deviation(nodes: int) -> None:
    """The mean of equal shares is rounded: 1e-17 for 0 would be a gap of 100 % from bound 0."""
    names = [f"n{i}" for i in range(nodes)]
    even = instance(
        nodes=[{"id": name, "capacity": {"cpu": 7.0}} for name in names],
        operators=[],
        tasks=[{"id": f"t{i}", "load": {"cpu": 0.1}} for i in range(nodes)],
        streams=[],
        traffic=[],
    )
    figures = evaluate(even, Plan(even.name, {f"t{i}": name for i, name in enumerate(names)}))
    assert (figures.deviation, figures.mean_absolute_deviation) == ({"cpu": 0.0}, 0.0)


def test_load_distance_counts_leaving_nodes_upwards_only() -> None:
    # loads 6 on the staying node of weight 2, 1 on the leaving one: mean = 7 / 2 = 3.5
    made = instance(
        nodes=[{"id": "n1", "weight": 2}, {"id": "n2", "leaving": True}],
        operators=[{"id": "a", "group": {"tasks": 7, "load": {"cpu": 7}}}],
        streams=[],
    )
    assert judge(made, [0] * 6 + [1]).load_distance == pytest.approx(1)  # |6 − 7| on the staying
    assert judge(made, [0] * 7).load_distance == pytest.approx(
        0
    )  # 0 − 3.5 on the leaving: no matter
    assert judge(made, [0] * 1 + [1] * 6).load_distance == pytest.approx(6)


def test_capacity_with_background_and_utilisation() -> None:
    made = instance(
        nodes=nodes(2, capacity={"cpu": 10}, background={"cpu": 1}),
        limits={"max_utilisation": {"cpu": 0.9}},
    )
    assert judge(made, [0, 1, 0, 1]).feasible  # 1 + 6 ≤ 9
    bad = judge(made, [0, 0, 0, 1])  # 1 + 8 = 9 ≤ 9 holds; then one more
    assert bad.feasible
    bad = judge(made, [0, 1, 0, 0])  # 1 + 10 = 11 > 9
    assert [(v.rule, v.where, v.needed, v.available, v.amount) for v in bad.violations] == [
        ("capacity", "n1.cpu", 11.0, 9.0, 2.0)
    ]
    assert evaluate(made, Plan.from_indices(made, [0, 1, 0, 0]), ignore=["capacity"]).feasible


def test_tolerance_is_rounding_only() -> None:
    for over, feasible in ((5e-9, True), (7e-9, False)):  # of 6: what all have does not count
        made = instance(nodes=nodes(2, capacity={"cpu": 6 - over}))
        assert judge(made, [0, 1, 0, 1]).feasible is feasible


def test_minimum_load_binds_staying_nodes_and_empty_ones() -> None:
    made = instance(
        nodes=[
            {"id": "n1"},
            {"id": "n2", "min_load": {"cpu": 2}},
            {"id": "n3", "leaving": True, "min_load": {"cpu": 2}},
        ]
    )
    assert rules(judge(made, [0, 0, 0, 0])) == ["min_load"]
    assert judge(made, [0, 1, 0, 0]).feasible


def test_allowed_and_budgets() -> None:
    made = instance(
        tasks=[
            {"id": "a/0", "node": "n1", "allowed": ["n1"]},
            {"id": "b/0", "node": "n1"},
            {"id": "b/1", "node": "n1"},
        ],
        limits={"max_migrations": 1, "max_migration_cost": 5},
        nodes=nodes(2),
    )
    assert rules(judge(made, [1, 0, 0, 0])) == ["allowed"]
    assert judge(made, [0, 1, 1, 0]).feasible  # a/1 has no current node: no move
    assert rules(judge(made, [0, 0, 1, 1])) == ["max_migrations", "max_migration_cost"]


def test_nothing_comes_onto_a_leaving_node() -> None:
    """Tasks a/0, b/0, b/1, a/1 on two leaving nodes, on one that stays, and without a node."""
    leaving = [{"id": "n1", "leaving": True}, {"id": "n2", "leaving": True}, {"id": "n3"}]
    tasks = [
        {"id": "a/0", "node": "n1"},
        {"id": "b/0", "node": "n3"},
        {"id": "b/1", "node": "n3", "allowed": ["n1", "n2"]},
    ]
    made = instance(nodes=leaving, tasks=tasks)
    ids = list(made.tasks.ids)
    place = dict(zip(ids, [2] * len(ids), strict=True)) | {"b/1": 0}

    def broken(**moved: int) -> list[str]:
        where = place | {task.replace("_", "/"): node for task, node in moved.items()}
        return [str(v.where) for v in judge(made, [where[i] for i in ids]).violations]

    assert broken() == []  # b/1 may be nowhere else
    assert broken(a_0=0) == broken(a_0=1) == []  # stays, or goes from one leaving node to another
    assert broken(b_0=0) == ["b/0 on n1"]
    assert broken(a_1=1) == ["a/1 on n2"]  # a task without a node is new there
    entered = [{**place, "b/0": 0}[i] for i in ids]
    assert evaluate(made, Plan.from_indices(made, entered, None), ignore=["leaving"]).feasible


def test_load_distance_limit() -> None:
    made = instance(limits={"max_load_distance": 3}, nodes=nodes(2))
    assert judge(made, [0, 1, 0, 1]).feasible
    assert rules(judge(made, [0, 0, 1, 0])) == []  # 8 and 4
    assert rules(judge(made, [0, 0, 0, 0])) == ["max_load_distance"]


def test_links_carry_what_they_separate() -> None:
    # a on n1, b on n2 and n3: 12 leaves n1; the rack link of n1+n2 carries the a–b/1 half
    made = instance(
        nodes=nodes(3),
        links=[
            {"id": "up1", "nodes": ["n1"], "capacity": 12, "background": 1},
            {"id": "rack", "nodes": ["n1", "n2"], "capacity": 10},
        ],
    )
    found = judge(made, [0, 0, 1, 2])
    assert [(v.where, v.needed, v.available) for v in found.violations] == [("up1", 13.0, 12.0)]
    assert found.link_utilisation == pytest.approx({"up1": 13 / 12, "rack": 0.6})
    assert judge(made, [0, 0, 0, 2]).feasible


def test_links_that_nest_and_overlap_are_counted_one_by_one() -> None:
    lists = [["n1", "n2"], ["n2", "n3"], ["n3", "n4"], ["n1", "n2", "n3"], ["n2"], ["n2", "n1"]]
    made = instance(
        nodes=nodes(5),
        operators=[{"id": o, "group": {"tasks": 20}} for o in "ab"],
        streams=[{"from": "a", "to": "b", "rate": 400}],  # one a pair, kept as a block
        traffic=[["a/0", "a/1", 0.5], ["b/7", "a/3", 0.25]],
        links=[{"id": f"l{i}", "nodes": n, "capacity": 1} for i, n in enumerate(lists)],
    )
    assert [layer.links.tolist() for layer in made.links.layers] == [[0, 2], [1], [3], [5]]
    node = [(7 * t) % 5 for t in range(40)]
    found = judge(made, node).link_utilisation
    for i, members in enumerate(lists):
        inside = {int(name[1]) - 1 for name in members}
        pairs = zip(*(column.tolist() for column in made.pairs), strict=True)
        cross = sum(rate for u, v, rate in pairs if (node[u] in inside) != (node[v] in inside))
        assert found[f"l{i}"] == pytest.approx(cross, rel=1e-12)


def test_a_little_traffic_over_a_link_is_not_lost_beside_much_that_stays() -> None:
    """As the difference of two sums the figure was 0.49976."""
    inside = [[f"t{i}", f"t{i + 1}", 1e10 / 3 + i / 7] for i in range(198)]
    made = instance(
        operators=[],
        streams=[],
        tasks=[{"id": f"t{i}"} for i in range(200)],
        traffic=[["t0", "t199", 1 / 3], *inside, ["t199", "t5", 1 / 6]],
        links=[{"id": "up", "nodes": ["n1"], "capacity": 0.4999}],
    )
    crossing = judge(made, [0] * 199 + [1]).link_utilisation["up"] * 0.4999
    assert crossing == pytest.approx(0.5, rel=1e-12)


def test_slots_topologies_and_interslot_traffic() -> None:
    made = instance(
        nodes=nodes(2, slots=2, slot_capacity={"cpu": 6}),
        topologies=[{"id": "t", "workers": 3}, {"id": "s", "workers": 1}],
        operators=[
            {"id": "a", "topology": "t", "group": {"tasks": 2, "load": {"cpu": 4}}},
            {"id": "b", "topology": "t", "group": {"tasks": 2, "load": {"cpu": 8}}},
            {"id": "c", "topology": "s", "group": {"tasks": 1}},
        ],
        limits={"max_tasks_per_slot": 2},
    )
    good = judge(made, [0, 0, 0, 1, 1], [0, 1, 0, 0, 1])
    assert good.feasible, good.violations
    assert good.interslot_traffic == 12 - 3  # a/0–b/0 share a slot
    assert good.internode_traffic == 12 - 6
    assert good.slots_used == 4
    assert good.slot_utilisation["n1#0"] == {"cpu": 1.0}
    mixed = judge(made, [0, 0, 0, 1, 1], [0, 1, 0, 0, 0])
    assert rules(mixed) == ["one_topology_a_slot"]
    crowded = judge(made, [0, 0, 0, 0, 1], [0, 0, 0, 1, 1])
    assert set(rules(crowded)) == {"slot_capacity", "max_tasks_per_slot", "workers"}
    assert rules(judge(made, [0, 0, 0, 1, 1], [0, 2, 0, 0, 1])) == ["slots"]
    assert rules(judge(made, [0, 0, 0, 1, 1])) == []  # no slots decided: there is a slot assignment
    assert rules(judge(made, [0, 0, 0, 0, 1])) == ["workers"]  # and here there is none


def test_plan_of_another_instance_is_refused() -> None:
    made = instance()
    plan = Plan.from_indices(made, [0, 1, 0, 1])
    other = instance(name="other")
    with pytest.raises(InvalidInput, match="is another instance's"):
        evaluate(other, plan)
    strange = Plan(instance_name="small", assignment={"a/0": "n1", "zz": "n7"})
    with pytest.raises(InvalidInput, match="zz is not a task"):
        evaluate(made, strange)


def modelled() -> Instance:
    return instance(
        nodes=[],
        operators=[{"id": "p", "model": "m"}],
        streams=[],
        models={"m": [{"threads": 1, "rate": 1, "cpu": 1, "memory": 1}]},
        vm_types=[{"id": "D", "slots": 2, "price": 1}],
    )


def test_a_plan_of_the_other_sort_is_refused() -> None:
    """It would place nothing, and be feasible for that."""
    head = {"format": "streamplace.plan/1", "instance": "small", "assignment": {}}
    with pytest.raises(InvalidInput, match=r"threads is missing: .* has operators with models"):
        evaluate(modelled(), Plan.from_dict(head))
    with pytest.raises(InvalidInput, match=r"threads is of no use: no operator of .* has a model"):
        evaluate(instance(), Plan.from_dict({**head, "threads": {}}))


def test_missing_threads_are_counted_beyond_the_first() -> None:
    plan = {
        "format": "streamplace.plan/1",
        "instance": "small",
        "assignment": {"p/7": "v"},
        "slots": {"p/7": 1},
        "threads": {"p": 1_000_000},
        "nodes": [{"id": "v", "vm_type": "D", "slots": 2}],
    }
    found = evaluate(modelled(), Plan.from_dict(plan)).violations
    assert len(found) == 21
    assert found[7].where == "p/8"
    assert (found[20].where, found[20].amount) == ("999979 more threads of p", 999979)


def test_task_left_out_of_a_plan_is_a_violation() -> None:
    made = instance()
    part = Plan(instance_name="small", assignment={"a/0": "n1", "b/0": "n1", "b/1": "n2"})
    found = evaluate(made, part)
    assert [(v.rule, v.where) for v in found.violations] == [("placed", "a/1")]
    assert found.node_tasks == {"n1": 2, "n2": 1}
    assert found.imc_gain is None  # of the whole job, and that is not there


def test_model_driven_plan_is_predicted_from_the_models() -> None:
    # one operator at 1:1; 3 threads, two on slot 0 (rate 15 for 2) and one on slot 1 (rate 10):
    # each thread hears a third, so slot 0 sustains 15 / (2/3) = 22.5 and slot 1 10 / (1/3) = 30
    made = instance(
        resources=["cpu", "memory"],
        nodes=[],
        operators=[{"id": "o", "model": "m"}],
        streams=[],
        models={
            "m": [
                {"threads": 1, "rate": 10, "cpu": 30, "memory": 5},
                {"threads": 3, "rate": 20, "cpu": 110, "memory": 15},
            ]
        },
        input_rate=100,
        vm_types=[
            {"id": "D1", "slots": 1, "price": 0.1},
            {"id": "D2", "slots": 2, "price": 0.2},
        ],
    )
    document = {
        "format": "streamplace.plan/1",
        "instance": "small",
        "assignment": {"o/0": "v", "o/1": "v", "o/2": "v"},
        "slots": {"o/0": 0, "o/1": 0, "o/2": 1},
        "threads": {"o": 3},
        "nodes": [{"id": "v", "vm_type": "D2", "slots": 2}],
        "planned_slots": 1,
    }
    found = evaluate(made, Plan.from_dict(document))
    assert found.feasible
    assert found.supported_rate == pytest.approx(22.5)
    assert found.slot_utilisation["v#0"] == pytest.approx({"cpu": 0.7, "memory": 0.1})
    assert (found.slots, found.extra_slots, found.price) == (2, 1, 0.2)
    crowded = {**document, "slots": {"o/0": 0, "o/1": 0, "o/2": 0}}
    assert evaluate(made, Plan.from_dict(crowded)).feasible  # 110 % of the machine's two cores
    crowded["nodes"] = [{"id": "v", "vm_type": "D2", "slots": 1}]
    assert evaluate(made, Plan.from_dict(crowded)).feasible  # the job has all of the machine
    crowded["nodes"] = [{"id": "v", "vm_type": "D1", "slots": 1}]
    assert rules(evaluate(made, Plan.from_dict(crowded))) == ["capacity"]
    torn = evaluate(made, Plan.from_dict({**document, "slots": {"o/0": 0, "o/1": 5}}))
    assert rules(torn) == ["slots", "placed"]


@st.composite
def placements(draw: st.DrawFn) -> tuple[Instance, list[int]]:
    sizes = draw(st.lists(st.integers(1, 12), min_size=1, max_size=4))
    count = len(sizes)
    streams = []
    for i in range(count):
        for j in range(i + 1, count):
            if draw(st.booleans()):
                pattern = draw(st.sampled_from(["full", "rescale", "merge"]))
                rate = draw(st.floats(0.5, 50))
                streams.append({"from": f"o{i}", "to": f"o{j}", "rate": rate, "pattern": pattern})
    made = instance(
        nodes=nodes(4, capacity={"cpu": 30}),
        operators=[
            {
                "id": f"o{i}",
                "group": {
                    "tasks": s,
                    "load": {"cpu": draw(st.floats(0, 40, allow_subnormal=False))},
                },
            }
            for i, s in enumerate(sizes)
        ],
        streams=streams,
        links=[
            {"id": "r", "nodes": ["n1", "n3"], "capacity": 20},
            {"id": "u", "nodes": ["n2"], "capacity": 20},
        ],
    )
    node = draw(st.lists(st.integers(0, 3), min_size=sum(sizes), max_size=sum(sizes)))
    return made, node


@given(placements())
def test_recount_pair_by_pair(case: tuple[Instance, list[int]]) -> None:
    made, node = case
    found = judge(made, node)
    pairs = list(zip(*(column.tolist() for column in made.pairs), strict=True))
    inside = sum(rate for u, v, rate in pairs if node[u] == node[v])
    assert found.imc_gain == pytest.approx(inside)
    assert found.imc_gain + found.internode_traffic == pytest.approx(found.total_traffic)
    for name, members in (("r", {0, 2}), ("u", {1})):
        cross = sum(rate for u, v, rate in pairs if (node[u] in members) != (node[v] in members))
        assert found.link_utilisation[name] == pytest.approx(cross / 20, abs=1e-9)
    loads = [0.0] * 4
    for task, place in enumerate(node):
        loads[place] += float(made.tasks.load[task, 0])
    over = {f"n{i + 1}.cpu" for i, load in enumerate(loads) if load > 30 + 3e-8}
    assert {v.where for v in found.violations if v.rule == "capacity"} == over
    mean = sum(loads) / 4
    assert found.load_distance == pytest.approx(max(abs(x - mean) for x in loads), abs=1e-9)


@given(placements(), st.randoms(use_true_random=False))
def test_names_do_not_matter(case: tuple[Instance, list[int]], random: Any) -> None:
    made, node = case
    order = list(range(4))
    random.shuffle(order)
    value = made.to_dict()
    shuffled = Instance.from_dict({**value, "nodes": [value["nodes"][i] for i in order]})
    place = {old: new for new, old in enumerate(order)}
    found = judge(made, node)
    again = evaluate_indices(shuffled, np.array([place[n] for n in node], dtype=np.int32))
    assert again.imc_gain == pytest.approx(found.imc_gain)
    assert again.load_distance == pytest.approx(found.load_distance)
    assert again.feasible is found.feasible
