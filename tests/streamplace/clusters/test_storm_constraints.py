"""Constraints of a topology's configuration as sets, and as nodes for itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from optim import Instance, solve
from streamplace.clusters.exchange.sources import Imported, import_instance
from tests.streamplace.clusters import systems
from tests.streamplace.clusters.nimbus import Fake, Served

BASE = "topology/wordcount-1-1700000000"
CONSTRAINTS, SPREAD = "topology.ras.constraints", "topology.spread.components"


@pytest.fixture
def read(saved: Callable[..., str]) -> Callable[..., Imported]:
    def made(**configuration: Any) -> Imported:
        documents = systems.storm()
        documents[BASE]["configuration"] = configuration
        return import_instance("storm", [saved(documents)])

    return made


def sets(made: Imported) -> list[dict[str, Any]]:
    return [
        {
            name: sorted(value) if name == "tasks" else value
            for name, value in one.items()
            if name != "id"
        }
        for one in made.instance.to_dict().get("sets", [])
    ]


def test_most_executors_of_a_component_on_a_node(read: Any) -> None:
    made = read(**{CONSTRAINTS: {"split": {"maxNodeCoLocationCnt": 1}}})
    assert sets(made) == [{"operator": "split", "rule": "apart"}]
    made = read(**{CONSTRAINTS: {"count": {"maxNodeCoLocationCnt": "2"}}})  # Storm parses texts
    assert sets(made) == [{"operator": "count", "rule": "apart", "at_most": 2}]
    assert any("count at most 2 on a node" in note for note in made.ledger.readings)


def test_incompatible_components_share_no_worker(read: Any) -> None:
    wanted = [
        {"tasks": sorted([f"report{r}", f"split{s}"]), "rule": "apart", "over": "slot"}
        for r in ("[3-3]", "[4-4]")
        for s in ("[5-5]", "[6-6]")
    ]
    new = {CONSTRAINTS: {"split": {"incompatibleComponents": ["report"]}}}
    for told in (
        new,
        {CONSTRAINTS: {"report": {"incompatibleComponents": "split"}}},  # both directions
        {CONSTRAINTS: [["split", "report"], ["report", "split"]]},  # before 2.0
    ):
        assert sets(read(**told)) == wanted
    # two executors of one component may share a worker, of itself not
    itself = {CONSTRAINTS: [["split", "split"]]}
    assert sets(read(**itself)) == [{"operator": "split", "rule": "apart", "over": "slot"}]
    plan = solve(read(**new).instance, "storm-milp", time_limit=20.0, start_broken="refuse").plan
    assert plan is not None
    assert plan.slots is not None
    at = {task: (node, plan.slots[task]) for task, node in plan.assignment.items()}
    assert not {at["report[3-3]"], at["report[4-4]"]} & {at["split[5-5]"], at["split[6-6]"]}


def test_spread_components_where_constraints_say_nothing(read: Any) -> None:
    constraints = {"count": {"maxNodeCoLocationCnt": 2}}
    made = read(**{CONSTRAINTS: constraints, SPREAD: ["count", "split"]})
    assert sets(made) == [
        {"operator": "count", "rule": "apart", "at_most": 2},
        {"operator": "split", "rule": "apart"},
    ]


@pytest.mark.parametrize(
    ("told", "warning"),
    [
        ({CONSTRAINTS: {"nobody": {"maxNodeCoLocationCnt": 1}}}, "'nobody' is no component"),
        ({CONSTRAINTS: {"split": {"maxNodeCoLocationCnt": 0}}}, "0 is no number from 1"),
        ({CONSTRAINTS: {"split": {"maxNodeCoLocationCnt": True}}}, "True is no number from 1"),
        ({CONSTRAINTS: {"split": {"incompatibleComponents": 3}}}, "not known to Storm"),
        ({CONSTRAINTS: {"split": {"colour": 3}}}, "split.colour is not known to Storm"),
        ({CONSTRAINTS: {"split": 3}}, "split is no object"),
        ({CONSTRAINTS: [["split"], ["split", "nobody"]]}, "['split'] is no pair"),
        ({CONSTRAINTS: "split"}, "is neither list nor object"),
        ({SPREAD: "split"}, "is no list"),
        ({SPREAD: [["split"]]}, "is no component"),
        ({"isolation.scheduler.machines": {"wordcount": 0}}, "0 is no number from 1"),
    ],
)
def test_what_storm_leaves_out_is_left_out_with_a_warning(
    read: Any, told: dict[str, Any], warning: str
) -> None:
    made = read(**told)
    assert sets(made) == []
    assert any(warning in note for note in made.ledger.warnings), made.ledger.warnings


def test_too_many_pairs_are_warned_of(read: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamplace.clusters.storm.model.MOST_SETS", 3)
    made = read(**{CONSTRAINTS: [["split", "report"]]})
    assert sets(made) == []
    assert any("which is not counted: 4 pairs" in note for note in made.ledger.warnings)


def test_isolated_topologies_have_nodes_for_themselves(read: Any) -> None:
    machines = {"isolation.scheduler.machines": {"wordcount": 2, "another": 1}}
    made = read(**machines)
    assert made.instance.topologies.exclusive_nodes.tolist() == [2]
    assert any("up to 2 nodes for itself" in note for note in made.ledger.readings)
    other = read(**machines, **{"storm.scheduler": "org.apache.storm.scheduler.EvenScheduler"})
    assert any("EvenScheduler, which does not keep" in note for note in other.ledger.readings)
    assert read().instance.topologies.exclusive_nodes.tolist() == [-1]


def test_nimbus_reports_them_too() -> None:
    fake = Fake(settings={
        CONSTRAINTS: {"split": {"maxNodeCoLocationCnt": 1}},
        "isolation.scheduler.machines": {"words": 2},
    })  # fmt: skip
    with Served(fake) as url:
        made = import_instance("storm", [url], [("interval", "0.01")])
    assert sets(made) == [{"operator": "split", "rule": "apart"}]
    assert made.instance.topologies.exclusive_nodes.tolist() == [2]
    assert isinstance(made.instance, Instance)
