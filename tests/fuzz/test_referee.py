"""The fuzzer's own referee and brute force, on instances that can be solved by hand."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fuzz.brute import Space
from tests.fuzz.figures import measure
from tests.fuzz.generate import generate
from tests.fuzz.newer import PROBES
from tests.fuzz.reading import Reading, shares
from tests.fuzz.rules import LOOSE, TIGHT, broken
from tests.fuzz.variants import in_units, permuted


def instance(nodes: list[dict[str, Any]], loads: list[float], **more: Any) -> dict[str, Any]:
    """Tasks t0, t1, … of one resource on nodes n0, n1, …; `homes` are where they run now."""
    homes = more.pop("homes", None)
    tasks = [{"id": f"t{i}", "load": {"cpu": v}} for i, v in enumerate(loads)]
    for task, home in zip(tasks, homes or [], strict=bool(homes)):
        task["node"] = home
    nodes = [{"id": f"n{i}", **node} for i, node in enumerate(nodes)]
    return {"resources": ["cpu"], "nodes": nodes, "tasks": tasks, **more}


def value(document: dict[str, Any], node: list[int], name: str) -> float | None:
    """Return a figure of one placement."""
    return measure(Reading(document), np.array([node])).value(name)


@pytest.mark.parametrize(
    ("load", "slack", "kept"),
    [(10.0, TIGHT, True), (10.0 + 5e-9, LOOSE, True), (10.0 + 5e-9, TIGHT, False),
     (10.0 + 2e-8, LOOSE, False)],
)  # fmt: skip
def test_capacity_is_kept_within_1e_9_of_it(load: float, slack: float, kept: bool) -> None:
    document = instance([{"capacity": {"cpu": 10}}], [load])
    assert (broken(Reading(document), [0], None, slack) == set()) is kept


def test_tolerance_is_relative_whatever_the_unit() -> None:
    document = instance([{"capacity": {"cpu": 1e-7}}], [1.1e-7])
    assert broken(Reading(document), [0], None, LOOSE) == {"capacity"}


def test_max_utilisation_and_background_count_in_capacity() -> None:
    nodes = [{"capacity": {"cpu": 10}, "background": {"cpu": 1}}]
    limits = {"max_utilisation": {"cpu": 0.5}}
    assert broken(Reading(instance(nodes, [4], limits=limits)), [0], None, LOOSE) == set()
    assert broken(Reading(instance(nodes, [5], limits=limits)), [0], None, LOOSE) == {"capacity"}


def test_load_distance_weighs_nodes_and_counts_leaving_ones_upwards() -> None:
    nodes: list[dict[str, Any]] = [{"weight": 2}, {}, {"leaving": True}]
    document = instance(nodes, [6, 3, 3])
    # mean 12 / 3 = 4: shares 8, 4 and 4 of the one that leaves
    assert value(document, [0, 0, 1], "load_distance") == pytest.approx(1.0)
    assert value(document, [0, 1, 2], "load_distance") == pytest.approx(2.0)
    assert value(document, [2, 1, 0], "load_distance") == pytest.approx(5.0)


def test_nothing_comes_onto_a_leaving_node_but_from_another() -> None:
    nodes = [{}, {"leaving": True}, {"leaving": True}]
    reading = Reading(instance(nodes, [1, 1], homes=["n0", "n1"]))
    assert broken(reading, [0, 2], None, LOOSE) == set()
    assert broken(reading, [1, 1], None, LOOSE) == {"leaving"}
    assert broken(Reading(reading.document, frozenset({"leaving"})), [1, 1], None, LOOSE) == set()


@pytest.mark.parametrize(("direction", "load"), [("both", 7.0), ("out", 5.0), ("in", 2.0)])
def test_a_link_counts_what_crosses_it_in_its_direction(direction: str, load: float) -> None:
    links = [{"id": "l", "nodes": ["n0"], "capacity": load, "direction": direction}]
    document = instance([{}, {}], [1, 1], traffic=[["t0", "t1", 5], ["t1", "t0", 2]], links=links)
    assert broken(Reading(document), [0, 1], None, LOOSE) == set()
    links[0]["capacity"] = load - 0.1
    assert broken(Reading(document), [0, 1], None, LOOSE) == {"links"}
    assert broken(Reading(document), [0, 0], None, LOOSE) == set()


@pytest.mark.parametrize(
    ("rule", "over", "more", "good", "bad"),
    [
        ("apart", "node", {}, [0, 1, 2], [0, 0, 1]),
        ("apart", "rack", {"at_most": 2}, [0, 1, 2], [0, 1, 1]),
        ("together", "rack", {}, [0, 1, 1], [0, 1, 2]),
        ("together", "node", {}, [2, 2, 2], [0, 0, 1]),
        ("spread", "rack", {"at_least": 2}, [0, 0, 2], [0, 1, 0]),
        ("spread", "node", {"at_least": 3}, [0, 2, 1], [0, 2, 2]),
    ],
)
def test_sets(rule: str, over: str, more: dict, good: list[int], bad: list[int]) -> None:
    nodes = [{"rack": "a"}, {"rack": "a"}, {"rack": "b"}]
    one = {"id": "s", "rule": rule, "over": over, "tasks": ["t0", "t1", "t2"], **more}
    reading = Reading(instance(nodes, [1, 1, 1], sets=[one]))
    assert broken(reading, good, None, LOOSE) == set()
    assert broken(reading, bad, None, LOOSE) == {"sets"}


def test_a_copy_makes_a_move_free_of_budget_and_inflow() -> None:
    document = instance([{}, {"max_inflow": 1}, {}], [1, 1, 1], homes=["n0", "n0", "n0"])
    document["limits"] = {"max_migrations": 1, "max_inflow": 2}
    assert broken(Reading(document), [1, 1, 0], None, LOOSE) == {"max_inflow", "max_migrations"}
    document["tasks"][0]["copies"] = ["n1"]
    assert broken(Reading(document), [1, 1, 0], None, LOOSE) == set()
    assert value(document, [1, 1, 0], "migrations") == 1


def test_moving_costs_what_is_told_else_the_state_else_one() -> None:
    document = instance([{}, {}], [1, 1, 1], homes=["n0"] * 3)
    document["tasks"][0] |= {"migration_cost": 3, "state": 9}
    document["tasks"][1] |= {"state": 5}
    assert value(document, [1, 1, 1], "migration_cost") == 9


def test_max_tasks() -> None:
    reading = Reading(instance([{"max_tasks": 1}, {}], [1, 1]))
    assert broken(reading, [0, 0], None, LOOSE) == {"max_tasks"}
    assert broken(reading, [0, 1], None, LOOSE) == set()


@pytest.mark.parametrize(
    ("loads", "slots", "fits"),
    [([2, 2, 2], 2, False), ([2, 2, 2], 3, True), ([3, 2, 1], 2, True), ([3, 2, 2], 2, False)],
)
def test_tasks_without_slots_must_fit_slots_of_3(loads: list, slots: int, fits: bool) -> None:
    document = instance([{"slots": slots, "slot_capacity": {"cpu": 3}}], loads)
    assert (broken(Reading(document), [0] * len(loads), None, LOOSE) == set()) is fits


def _jobs(workers: int, slots: int) -> dict[str, Any]:
    """Job a of two tasks with workers, job b of one task without."""
    document = instance([{"slots": slots}, {"slots": slots}], [1, 1, 1])
    document["topologies"] = [{"id": "a", "workers": workers}, {"id": "b"}]
    document["operators"] = [{"id": "x", "topology": "a"}, {"id": "y", "topology": "b"}]
    for task, operator in zip(document["tasks"], "xxy", strict=True):
        task["operator"] = operator
    return document


@pytest.mark.parametrize(
    ("workers", "slots", "node", "fits"),
    [
        (1, 1, [0, 0, 1], True),
        (1, 1, [0, 1, 1], False),  # two nodes are two workers
        (2, 1, [0, 0, 1], False),  # one slot is one worker
        (2, 2, [0, 0, 1], True),
        (2, 2, [0, 0, 0], False),  # two workers, and the other job needs a slot of its own
        (5, 3, [0, 0, 0], True),  # no more workers than tasks
    ],
)
def test_workers_tie_the_nodes(workers: int, slots: int, node: list[int], fits: bool) -> None:
    reading = Reading(_jobs(workers, slots))
    assert (broken(reading, node, None, LOOSE) == set()) is fits


def test_slots_that_a_plan_decides_are_judged_as_they_are() -> None:
    reading = Reading(_jobs(2, 2))
    assert broken(reading, [0, 0, 1], [0, 1, 0], LOOSE) == set()
    assert broken(reading, [0, 0, 1], [0, 0, 0], LOOSE) == {"workers"}
    assert broken(reading, [0, 0, 0], [0, 1, 1], LOOSE) == {"one_topology_a_slot"}
    assert broken(reading, [0, 0, 1], [0, 1, 2], LOOSE) == {"slots"}


def test_members_share_evenly_and_own_entries_win() -> None:
    group = {"tasks": 4, "load": {"cpu": 8}, "state": 4, "allowed": ["n0"]}
    document = instance([{}, {}], [], operators=[{"id": "g", "group": group}])
    document["tasks"] = [{"id": "g/1", "load": {"cpu": 5}, "allowed": ["n1"]}]
    reading = Reading(document)
    assert reading.load[:, 0].tolist() == [2, 5, 2, 2]
    assert reading.cost.tolist() == [1, 1, 1, 1]
    assert reading.allowed.argmax(axis=1).tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize(
    ("senders", "receivers", "pairs"),
    [
        (2, 4, [(0, 0), (0, 1), (1, 2), (1, 3)]),
        (4, 2, [(0, 0), (1, 0), (2, 1), (3, 1)]),
        (3, 2, [(0, 0), (1, 1), (2, 1)]),
        (2, 3, [(0, 0), (0, 1), (1, 2)]),
    ],
)
def test_rescale_is_in_blocks(senders: int, receivers: int, pairs: list) -> None:
    found = shares("rescale", senders, receivers)
    assert [(i, j) for i, j, _ in found] == pairs
    assert sum(share for *_, share in found) == pytest.approx(1)


def test_demand_follows_from_the_input_rate() -> None:
    group = {"tasks": 2}
    operators = [{"id": "a", "group": group, "cpu_per_tuple": 2},
                 {"id": "b", "group": group, "cpu_per_tuple": 1}]  # fmt: skip
    streams = [{"from": "a", "to": "b", "selectivity": 0.5, "tuple_bytes": 10}]
    document = instance([{}], [], operators=operators, streams=streams, input_rate=4)
    reading = Reading(document)
    assert reading.load[:, 0].tolist() == [4, 4, 1, 1]
    assert reading.total_traffic == pytest.approx(20)


def test_crossing_costs_load_the_nodes_and_lower_the_rate() -> None:
    nodes = [{"capacity": {"cpu": 10}}, {"capacity": {"cpu": 10}}]
    document = instance(nodes, [4, 4], traffic=[["t0", "t1", 10]])
    document["crossing_cost"] = {"cpu": {"out": 0.1, "in": 0.4}}
    found = measure(Reading(document), np.array([[0, 1], [0, 0]]))
    assert found.loads[:, :, 0].tolist() == [[5, 8], [8, 0]]
    assert found.by_name["sustainable_rate"].tolist() == [10 / 8, 10 / 8]
    assert found.by_name["load_distance"].tolist() == [1.5, 4]


def test_all_placements_and_the_best_of_them() -> None:
    document = instance(
        [{"capacity": {"cpu": 5}}, {"capacity": {"cpu": 5}}], [3, 2, 2], traffic=[["t0", "t2", 7]]
    )
    space = Space(Reading(document))
    assert (space.size, int(space.tight.sum())) == (8, 6)  # of 3 + 2 + 2, 5 is the most a node has
    assert space.best("imc_gain", "max", space.tight) == 7
    assert space.best("load_distance", "min", space.tight) == 0.5


@pytest.mark.parametrize("seed", range(40))
def test_other_ids_and_units_change_no_optimum(seed: int) -> None:
    document = generate(seed, frozenset(PROBES), modelled=0)
    space = Space(Reading(document))
    other = Space(Reading(permuted(document, seed)))
    scaled = Space(Reading(in_units(document, 2, -3, 4)))
    assert space.tight.sum() == other.tight.sum() == scaled.tight.sum()
    for name, sense, by in (("imc_gain", "max", 1e-3), ("load_distance", "min", 1e2)):
        best = space.best(name, sense, space.tight)
        if best is not None:
            assert other.best(name, sense, other.tight) == pytest.approx(best)
            assert scaled.best(name, sense, scaled.tight) == pytest.approx(best * by)


def test_a_seed_gives_the_same_instance() -> None:
    assert [generate(s) for s in range(20)] == [generate(s) for s in range(20)]


PRODUCT = {"optim", "formulations", "heuristics", "experiments", "streamplace"}


def test_the_product_is_used_in_one_module_only() -> None:
    users = {}
    for path in sorted(Path(__file__).parent.glob("*.py")):
        if path.name in ("certificates.py", "mended.py"):  # runners, neither judge nor generator
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        named = [(n.module, [a.name for a in n.names]) for n in ast.walk(tree)
                 if isinstance(n, ast.ImportFrom) and n.module]  # fmt: skip
        plain = [(a.name, [a.name]) for n in ast.walk(tree) if isinstance(n, ast.Import)
                 for a in n.names]  # fmt: skip
        found = [names for module, names in named + plain if module.split(".")[0] in PRODUCT]
        if found:
            users[path.name] = set().union(*found)
    known = {"Instance", "InvalidInput", "Plan", "StreamplaceError", "all_methods"}
    known |= {"evaluate", "solve"}
    assert users == {"product.py": known}
