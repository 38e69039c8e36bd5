"""Parallelism and placement chosen together, against all parallelisms and placements."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from formulations.throughput.scale import Scaling, scale
from formulations.throughput.scale_bound import BoxSearch, Offer, PartsBound
from formulations.throughput.scale_counts import counts_of
from optim import Instance, Plan, evaluate
from optim.figures.load import carrying
from optim.figures.measures import imc_gain_of
from optim.format.changes import Change, altered
from optim.format.parallelism import at_parallelism, bounds_of
from optim.rules import broken
from optim.rules.placement import Placement
from streamplace.cli.main import main
from tests.slowly import slowly


def small(seed: int) -> Instance:
    """Two or three operators of at most three tasks, on nodes that are alike."""
    draw = random.Random(seed)
    operators, names = [], ["a", "b", "c"][: draw.choice([2, 2, 3])]
    most = 3 if len(names) == 2 else 2
    for name in names:
        entry: dict[str, Any] = {
            "id": name,
            "group": {
                "tasks": draw.randint(1, most),
                "load": {"cpu": draw.choice([0.5, 1.0, 2.0, 3.0]), "slot": 1.0},
            },
            "max_parallelism": draw.randint(1, most),
        }
        entry["group"]["load"]["slot"] = float(entry["group"]["tasks"])
        if draw.random() < 0.4:
            entry["key_groups"] = draw.randint(most, 4)
        if draw.random() < 0.3:
            entry["min_parallelism"] = draw.randint(1, entry["max_parallelism"])
        if draw.random() < 0.6:
            entry["max_load"] = {"cpu": draw.choice([1.0, 1.5, 2.5, 4.0])}
        operators.append(entry)
    nodes = [
        {"id": f"n{i}", "capacity": {"cpu": 3.0, "slot": draw.choice([3, 4])}} for i in range(2)
    ]
    nodes[1]["capacity"] = nodes[0]["capacity"]
    links = [
        {"id": f"{way}{i}", "nodes": [f"n{i}"], "direction": way, "capacity": capacity}
        for way, capacity in (("out", draw.choice([2.0, 4.0])), ("in", draw.choice([2.0, 4.0])))
        for i in range(2)
    ]
    document: dict[str, Any] = {
        "format": "streamplace.instance/1",
        "name": f"small-{seed}",
        "resources": ["cpu", "slot"],
        "nodes": nodes,
        "links": links if draw.random() < 0.7 else [],
        "operators": operators,
        "streams": [
            {"from": u, "to": v, "rate": draw.choice([1.0, 2.0, 3.0])}
            for u, v in itertools.pairwise(names)
        ],
    }
    if draw.random() < 0.3:
        document["crossing_cost"] = {"cpu": {"out": 0.2, "in": 0.1}}
    if draw.random() < 0.5:
        document["tasks"] = [{"id": "a/0", "node": "n1"}]
    return Instance.from_dict(document)


def partitions(tasks: int) -> Iterator[list[int]]:
    """Yield all placements on nodes that are alike, each once."""
    at = [0] * tasks
    while True:
        yield at
        i = tasks - 1
        while i > 0 and at[i] > max(at[:i]):
            i -= 1
        if i <= 0:
            return
        at = [*at[:i], at[i] + 1, *[0] * (tasks - 1 - i)]


def best(instance: Instance, rate: float) -> tuple[float, float, float] | None:
    """Try every parallelism and placement: fewest nodes, fewest tasks, most traffic inside."""
    found = None
    ranges = [bounds_of(instance, o) for o in range(instance.num_operators)]
    for n in itertools.product(*(range(low, (high or 3) + 1) for low, high in ranges)):
        wide = altered(instance, [Change("add-node", "n0", sum(n))])
        made = at_parallelism(wide, dict(zip(instance.operators.ids, n, strict=True)))
        binding = carrying(made, rate)
        for places in partitions(sum(n)):
            node = np.array(places, dtype=np.int32)
            key = (max(places) + 1, sum(n), -imc_gain_of(made, node))
            if (found is None or key < (*found[:2], found[2] - 1e-9)) and not broken(
                Placement(binding, node)
            ):
                found = key
    return found


def priced(seed: int) -> Instance:
    """The same on machines of two types: the second has more of something, at another price."""
    document, draw = small(seed).to_dict(), random.Random(seed)
    document["vm_types"] = [
        {"id": "s", "slots": 1, "price": 1.0},
        {"id": "l", "slots": 1, "price": draw.choice([0.8, 1.0, 1.4, 1.9, 2.5])},
    ]
    small_one, large_one = document["nodes"]
    small_one["vm_type"], large_one["vm_type"] = "s", "l"
    large_one["capacity"] = {
        "cpu": draw.choice([2.0, 4.0, 6.0]), "slot": draw.choice([2.0, 4.0, 6.0])
    }  # fmt: skip
    for link in document.get("links", []):
        if link["nodes"] == ["n1"]:
            link["capacity"] *= draw.choice([0.5, 1.0, 2.0])
    if draw.random() < 0.2:
        document["limits"] = {"max_nodes_used": draw.randint(1, 3)}
    return Instance.from_dict(document)


def best_priced(instance: Instance, rate: float) -> tuple[float, float, float] | None:
    """Try every parallelism and placement: least price, fewest tasks, most traffic inside."""
    found: tuple[float, float, float] | None = None
    price = [vm.price for vm in instance.vm_types]
    ranges = [bounds_of(instance, o) for o in range(instance.num_operators)]
    for n in itertools.product(*(range(low, (high or 3) + 1) for low, high in ranges)):
        tasks = sum(n)
        wide = altered(instance, [Change("add-node", name, tasks) for name in ("n0", "n1")])
        made = at_parallelism(wide, dict(zip(instance.operators.ids, n, strict=True)))
        binding = carrying(made, rate)
        small_ones, large_ones = [0, *range(2, tasks + 2)], [1, *range(tasks + 2, 2 * tasks + 2)]
        for places in partitions(tasks):
            blocks = max(places) + 1
            for kinds in itertools.product((0, 1), repeat=blocks):
                cost = sum(price[k] for k in kinds)
                if found is not None and (cost, tasks) > (found[0] + 1e-9, found[1]):
                    continue
                at = [large_ones[b] if kind else small_ones[b] for b, kind in enumerate(kinds)]
                node = np.array([at[b] for b in places], dtype=np.int32)
                key = (cost, tasks, -imc_gain_of(made, node))
                better = (
                    found is None
                    or key < (found[0] - 1e-9, *found[1:])
                    or (abs(key[0] - found[0]) < 1e-9 and key[1:] < (found[1], found[2] - 1e-9))
                )
                if better and not broken(Placement(binding, node)):
                    found = key
    return found


def check(seed: int, *, proven: bool = True, prices: bool = False) -> None:
    """Compare; where not all is proven, what is claimed must be right, and a plan be there."""
    instance, rate = (priced if prices else small)(seed), [0.5, 0.8, 1.0, 1.3, 2.0][seed % 5]
    least, found = (best_priced if prices else best)(instance, rate), scale(instance, rate)
    if least is None:
        assert found.plan is None
        assert found.infeasible or not proven
        return
    assert found.plan is not None
    for k, level in enumerate(found.levels[:3]):
        assert level.proven or not proven
        if not level.proven:
            break
        assert level.value == pytest.approx(abs(least[k]))
    again = Plan.from_json(found.plan.to_json())
    assert evaluate(instance, again).feasible
    assert (evaluate(instance, again).sustainable_rate or 9) >= rate * (1 - 1e-6)


@pytest.mark.parametrize("part", [*range(4), *slowly(*range(4, 12))])
def test_against_all_parallelisms_and_placements(part: int) -> None:
    for seed in range(10 * part, 10 * part + 10):
        check(seed)


@pytest.mark.parametrize("part", [0, 1, *slowly(*range(2, 50))])
def test_prices_against_all_parallelisms_and_placements(part: int) -> None:
    for seed in range(20 * part, 20 * part + 20):
        check(seed, prices=True)


@pytest.mark.parametrize("part", [1, *slowly(0, *range(2, 20))])
def test_prices_where_not_all_parallelisms_are_tried(
    part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("formulations.throughput.scale._FEW", 0)
    monkeypatch.setattr("formulations.throughput.scale._TRIES", 40)
    for seed in range(20 * part, 20 * part + 20):
        check(seed, proven=False, prices=True)


@pytest.mark.parametrize("seed", [138, 149, 293, 353, 354, 454, 468, 517, 613])
def test_uneven_key_groups_are_one_operator(seed: int) -> None:
    check(seed)


@pytest.mark.parametrize("part", [0, *slowly(*range(1, 50))])
def test_boxes_of_numbers_of_tasks(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("formulations.throughput.scale._FEW", 0)
    for seed in range(20 * part, 20 * part + 20):
        check(seed, proven=False)


@pytest.mark.parametrize(
    ("query", "rate", "nodes", "tasks"), [(4, 1.5, 9, 27), (1, 2, 12, 60), (6, 3, 19, 49)]
)
def test_fewest_of_capsys(query: int, rate: float, nodes: int, tasks: int) -> None:
    found = scale(Instance.load(f"examples/capsys-rate-q{query}.json"), rate)
    assert values(found)[:2] == [nodes, tasks]
    assert all(level.proven for level in found.levels)


@pytest.mark.parametrize(
    ("tasks", "nodes"), [([1, 1, 2, 2, 1], None), ([3, 3, 9, 18, 2], 12)], ids=["ds2", "capsys"]
)
def test_nodes_at_numbers_of_tasks_of_other_rules(tasks: list[int], nodes: int | None) -> None:
    instance = Instance.load("examples/capsys-rate-q4.json")
    wide = altered(instance, [Change("add-node", "w1", 20)])
    counts, n = counts_of(wide, 1.5, np.ones(wide.num_nodes)), np.array(tasks)
    carry = [
        k for k in range(1, 14)
        if BoxSearch(counts.only(np.arange(k)), n, n, 1e8).search(99).tasks is not None
    ]  # fmt: skip
    assert (carry[0] if carry else None) == nodes


def pipe(**more: Any) -> dict[str, Any]:
    """A source of 8 key groups and a count, on one node of 4 cpu."""
    return {
        "format": "streamplace.instance/1",
        "name": "pipe",
        "nodes": [{"id": "n1", "capacity": {"cpu": 4}}],
        "operators": [
            {"id": "in", "group": {"tasks": 1, "load": {"cpu": 1}}, "max_load": {"cpu": 1}},
            {"id": "count", "group": {"tasks": 2, "load": {"cpu": 2}}, "max_load": {"cpu": 1}},
        ],
        "streams": [{"from": "in", "to": "count", "rate": 1}],
        **more,
    }


def made(**more: Any) -> Instance:
    return Instance.from_dict(pipe(**more))


def values(found: Scaling) -> list[float]:
    return [level.value for level in found.levels]


def test_by_hand() -> None:
    # 9 cpu at 3 ×: three nodes, and a task for each cpu
    found = scale(made(), 3)
    assert dict(found.parallelism) == {"in": 3, "count": 6}
    assert values(found)[:2] == [3, 9]
    assert dict(found.least) == {"in": 3, "count": 6}
    assert found.plan is not None
    assert dict(found.plan.added_nodes) == {"n1-new1": "n1", "n1-new2": "n1"}


def test_key_groups_need_more_tasks_and_bind() -> None:
    operators = pipe()["operators"]
    operators[1]["key_groups"] = 8
    # 6 cpu of 8 key groups at one a task: two on a task are 1.5
    assert scale(made(operators=operators), 3).least["count"] == 8
    none = scale(made(operators=operators), 5)
    assert (none.plan, none.infeasible) == (None, True)
    assert "count needs at least 10 tasks" in none.notes[0]


def one_operator(**more: Any) -> Instance:
    """Two tasks of 3 cpu and 1 memory each, on a node with room for all."""
    operator = {"id": "a", "group": {"tasks": 2, "load": {"cpu": 6, "memory": 2}}, **more}
    document = {"format": "streamplace.instance/1", "name": "x", "resources": ["cpu", "memory"]}
    nodes = [{"id": "n0", "capacity": {"cpu": 80, "memory": 80}}]
    return Instance.from_dict({**document, "nodes": nodes, "operators": [operator]})


def test_what_no_number_of_tasks_lessens_is_infeasible() -> None:
    found = scale(one_operator(max_load={"memory": 0.5}), 1.0)
    assert (found.plan, found.infeasible) == (None, True)
    assert found.notes[0].startswith("a task of a needs 1 memory, where its max_load is 0.5")
    found = scale(one_operator(max_load={"cpu": 0}), 1.0)
    assert found.notes == (
        "a needs more than any number of tasks by its max_load, and one can use none",
    )


def test_no_node_is_added_while_one_like_it_is_empty() -> None:
    found = scale(one_operator(max_load={"cpu": 2}, key_groups=8), 1.0)
    assert found.plan is not None
    assert (dict(found.parallelism), dict(found.plan.added_nodes)) == ({"a": 4}, {})


def test_what_background_fills_alone_carries_nothing() -> None:
    document = small(2).to_dict()
    document["nodes"][0]["background"] = {"cpu": 2.0, "slot": 0.0}
    document["limits"] = {"max_utilisation": {"cpu": 0.5}}
    found = scale(Instance.from_dict(document), 1.0)
    assert (found.infeasible, found.plan) == (True, None)
    assert found.notes == ("n0.cpu has a background of 2, above the 1.5 that may be used",)


@pytest.mark.parametrize("rate", [0.8, 1.3])
def test_fewer_nodes_may_be_used_than_are_tried(rate: float) -> None:
    document = small(63).to_dict()
    document["limits"] = {"max_nodes_used": 3}
    instance = Instance.from_dict(document)
    least, found = best(instance, rate), scale(instance, rate)
    assert least is not None
    assert [level.value for level in found.levels[:3]] == pytest.approx([*least[:2], -least[2]])
    assert all(level.proven for level in found.levels[:3])


def test_prices_of_machine_types() -> None:
    types = [{"id": "s", "slots": 1, "price": 1.0}, {"id": "l", "slots": 1, "price": 1.7}]
    nodes = [
        {"id": "s1", "capacity": {"cpu": 4}, "vm_type": "s"},
        {"id": "l1", "capacity": {"cpu": 8}, "vm_type": "l"},
    ]
    found = scale(made(nodes=nodes, vm_types=types), 4)  # 12 cpu: a large and a small one
    assert found.levels[0].name == "price"
    assert values(found)[0] == pytest.approx(2.7)
    assert found.levels[0].proven


def unlike(**nodes: dict[str, Any]) -> Instance:
    """Two operators of any number of tasks, and nodes of one sort each; a type is its price."""
    return Instance.from_dict({
        "format": "streamplace.instance/1", "name": "unlike", "resources": ["cpu", "mem"],
        "nodes": [
            {"id": name, "capacity": {"cpu": node["cpu"], "mem": node["mem"]}}
            | ({"vm_type": f"{name}-type"} if "price" in node else {})
            for name, node in nodes.items()
        ],
        "vm_types": [
            {"id": f"{name}-type", "slots": 1, "price": node["price"]}
            for name, node in nodes.items() if "price" in node
        ],
        "operators": [
            {"id": name, "group": {"tasks": 1, "load": {"cpu": 1, "mem": 0.75}}} for name in "ab"
        ],
        "streams": [{"from": "a", "to": "b", "rate": 1}],
    })  # fmt: skip


def test_too_little_of_one_node_refutes_no_other_of_its_cost() -> None:
    """One `high` carries all: one `wide` has too little memory, and was told to refute a node."""
    wide, high = {"cpu": 10, "mem": 1}, {"cpu": 9, "mem": 10}
    assert scale(unlike(wide=wide, high=high), 1).levels[0].bound == 1
    found = scale(unlike(wide={**wide, "price": 1}, high={**high, "price": 1}), 1)
    assert (found.levels[0].value, found.levels[0].bound) == (1, 1)


def test_a_node_without_a_price_may_do() -> None:
    priced, free = {"cpu": 8, "mem": 8, "price": 1}, {"cpu": 8, "mem": 8}
    found = scale(unlike(priced=priced, free=free), 1)
    assert (found.levels[0].value, found.levels[0].bound) == (0, 0)
    found = scale(unlike(priced=priced, free={"cpu": 1, "mem": 1}), 9)
    assert (found.levels[0].value, found.levels[0].bound) == (3, 3)


def test_nodes_of_other_prices_are_not_exchanged() -> None:
    document = unlike(
        cheap={"cpu": 8, "mem": 8, "price": 1}, dear={"cpu": 8, "mem": 8, "price": 2}
    ).to_dict()
    document["tasks"] = [{"id": f"{o}/0", "node": "dear"} for o in "ab"]
    for operator in document["operators"]:
        operator["max_parallelism"] = 1
    found = scale(Instance.from_dict(document), 1)
    assert (found.levels[0].value, found.levels[0].bound) == (1, 1)


@pytest.mark.parametrize("slots", [None, 1])
def test_a_number_of_nodes_is_no_bound_of_a_price(slots: int | None) -> None:
    """One node carries it, and the cheaper one is another; slots need both, or further ones."""
    types = [{"id": "s", "slots": 1, "price": 1.0}, {"id": "l", "slots": 1, "price": 0.8}]
    nodes: list[dict[str, Any]] = [
        {"id": f"{v}1", "capacity": {"cpu": 8}, "vm_type": v} for v in "sl"
    ]
    limits: dict[str, Any] = {"max_migrations": 9}
    if slots:
        limits["max_tasks_per_slot"] = 1
        nodes = [{**node, "slots": slots} for node in nodes]
    operators = pipe()["operators"]
    for operator in operators:
        tasks = operator["group"]["tasks"]
        operator |= {"min_parallelism": tasks, "max_parallelism": tasks}
    found = scale(made(nodes=nodes, vm_types=types, limits=limits, operators=operators), 1)
    assert found.plan is not None
    assert not found.infeasible
    price, tasks = found.levels[:2]
    assert price.name == "price"
    assert price.bound is None
    assert (tasks.value, tasks.bound) == (3, 3)


def test_moves_are_few() -> None:
    tasks = [
        {"id": "in/0", "node": "n1"},
        {"id": "count/0", "node": "n1"},
        {"id": "count/1", "node": "n1"},
    ]
    found = scale(made(tasks=tasks), 1.3)
    assert found.evaluation is not None
    assert found.evaluation.migrations == 0


def test_other_rules_are_solved_parallelism_by_parallelism() -> None:
    nodes = [{"id": f"n{i}", "capacity": {"cpu": 4}} for i in range(3)]
    sets = [{"id": "far", "operator": "in", "rule": "apart"}]
    found = scale(made(nodes=nodes, sets=sets), 2)
    assert found.evaluation is not None
    assert found.evaluation.feasible
    assert values(found)[:2] == [2, 6]
    assert "sets sets" in found.notes[0]


def test_slots_that_share_all_vertices() -> None:
    """As `import flink --option place=slots` has them: their traffic is within one operator."""
    job = {
        "format": "streamplace.instance/1",
        "name": "slots",
        "resources": ["cpu", "slot"],
        "nodes": [{"id": n, "capacity": {"cpu": 0.25, "slot": 1}} for n in "abcde"],
        "operators": [{"id": "slots"}],
        "tasks": [
            {"id": f"slots/{i}", "operator": "slots", "load": {"cpu": 0.2, "slot": 1}, "node": n}
            for i, n in enumerate("ab")
        ],
        "traffic": [["slots/0", "slots/1", 1.0], ["slots/1", "slots/0", 1.0]],
    }
    found = scale(Instance.from_dict(job), 3)
    assert found.parallelism == {"slots": 5}
    assert found.evaluation is not None
    assert found.evaluation.nodes_used == 5
    assert found.evaluation.total_traffic == pytest.approx(4 * 4 / 5)


def test_models_are_scaled_by_their_methods() -> None:
    model = [{"threads": 1, "rate": 310, "cpu": 84.69, "memory": 35.63}]
    instance = Instance.from_dict({
        "format": "streamplace.instance/1",
        "name": "xml",
        "resources": ["cpu", "memory"],
        "operators": [{"id": "parse", "model": "xml"}],
        "models": {"xml": model},
        "input_rate": 300,
        "vm_types": [{"id": "D2", "slots": 2, "price": 0.2}],
    })  # fmt: skip
    found = scale(instance, 2)
    assert dict(found.parallelism) == {"parse": 2}
    assert found.evaluation is not None
    assert (found.evaluation.supported_rate or 0) >= 600


@pytest.mark.parametrize("seed", range(0, 40, 2))
def test_nodes_that_are_refuted_carry_nothing(seed: int) -> None:
    instance = small(seed)
    least = best(instance, 1.0)
    wide = altered(instance, [Change("add-node", "n0", 8)])
    counts = counts_of(wide, 1.0, np.ones(wide.num_nodes))
    bound = PartsBound(counts, [Offer(counts.room[0], counts.link[0], 1.0, np.inf)], 300)
    for number in range(1, 7):
        if bound.refutes(number):
            assert least is None or least[0] > number


def test_on_the_command_line(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    file, plan = str(tmp_path / "pipe.json"), str(tmp_path / "plan.json")
    made().save(file)
    assert main(["scale", file, "--target-rate", "3", "-o", plan]) == 0
    assert "3 proven" in capsys.readouterr().out
    assert main(["evaluate", file, plan]) == 0
    capsys.readouterr()
    assert main(["scale", file, "--target-rate", "1", "2", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["parallelism"]["count"] for one in told] == [2, 4]
    assert [one["nodes_used"] for one in told] == [1, 2]
    assert told[1]["levels"][0] == {"name": "nodes_used", "value": 2, "bound": 2, "proven": True}


@pytest.mark.parametrize(
    ("change", "words", "code", "reason"),
    [
        ({}, ["--target-rate", "0"], 2, "not more than 0"),
        ({}, ["--target-rate", "nan"], 2, "not finite"),
        ({}, ["--target-rate", "2", "--like", "n7"], 2, "n7"),
        ({}, ["--target-rate", "1", "2", "-o", "x"], 2, "one rate"),
        ({"operators": [{"id": "in", "group": {"tasks": 1}}], "streams": []},
         ["--target-rate", "2"], 2, "nothing grows"),
        ({"operators": [], "streams": []}, ["--target-rate", "2"], 2, "nothing grows"),
        ({"operators": [{"id": "in", "max_load": {"cpu": 1}, "max_parallelism": 1,
                         "group": {"tasks": 1, "load": {"cpu": 1}}}], "streams": []},
         ["--target-rate", "2"], 3, "needs at least 2 tasks"),
        ({"operators": [{"id": "in", "max_parallelism": 1, "min_parallelism": 2}], "streams": []},
         ["--target-rate", "2"], 2, "min_parallelism"),
        ({"streams": [{"from": "in", "to": "cuont", "rate": 1}]},
         ["--target-rate", "2"], 2, "cuont"),
    ],
)  # fmt: skip
def test_bad_input(
    change: dict[str, Any], words: list[str], code: int, reason: str, tmp_path: Any, capsys: Any
) -> None:
    file = tmp_path / "pipe.json"
    file.write_text(json.dumps(pipe(**change)))
    try:
        found = main(["scale", str(file), *words])
    except SystemExit as error:
        found = int(error.code or 0)
    assert found == code
    assert reason in "".join(capsys.readouterr())
