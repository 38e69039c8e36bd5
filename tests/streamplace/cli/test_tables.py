"""Tables: units, large clusters, overloads."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from optim import Instance
from optim.referee import evaluate_indices
from streamplace.present.tables import (
    SHOWN_NODES,
    carries_line,
    figure,
    node_table,
    size_line,
    unit_of,
)


def text_of(renderable: Any, colours: bool = False) -> str:
    console = Console(
        file=io.StringIO(),
        width=200,
        force_terminal=colours,
        color_system="standard" if colours else None,
    )
    console.print(renderable)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_units_stand_behind_figures_and_explanations_do_not(document: dict[str, Any]) -> None:
    document["units"]["state"] = "as measured (bytes-like)"
    instance = Instance.from_dict(document)
    assert figure(instance, "rate", 1250.0) == "1,250 MB/s"
    assert figure(instance, "resource", 2.0) == "2 percent"
    assert figure(instance, "share", 0.125) == "12.5 %"
    assert figure(instance, "rate", None) == "–"
    assert unit_of(instance, "state") == ""


def test_size_line_of_what_there_is(document: dict[str, Any]) -> None:
    document["nodes"][0]["leaving"] = True
    document["links"] = [{"id": "up", "nodes": ["n1"], "capacity": 5}]
    line = size_line(Instance.from_dict(document))
    assert line == (
        "pairs: 4 tasks of 4 operators on 2 nodes, cpu, traffic 12 MB/s, 1 link, "
        "current placement known, 1 node leaving"
    )


def test_of_a_large_cluster_the_fullest_nodes_are_shown() -> None:
    n = SHOWN_NODES + 5
    document = {
        "format": "streamplace.instance/1",
        "name": "large",
        "nodes": [{"id": f"n{i}", "capacity": {"cpu": 100}} for i in range(n)],
        "tasks": [{"id": f"t{i}", "load": {"cpu": i}} for i in range(n)],
    }
    instance = Instance.from_dict(document)
    evaluation = evaluate_indices(instance, np.arange(n, dtype=np.int32))
    table = node_table(instance, evaluation)
    assert table is not None
    assert table.row_count == SHOWN_NODES
    shown = [line.split()[0] for line in text_of(table).splitlines()[1:]]
    assert shown == [f"n{i}" for i in range(5, n)]


def test_an_overload_is_drawn_as_one(document: dict[str, Any]) -> None:
    instance = Instance.from_dict(document)
    evaluation = evaluate_indices(instance, np.zeros(4, dtype=np.int32))
    row = text_of(node_table(instance, evaluation)).splitlines()[1]
    assert "▶ 160 / 100  160 %" in row
    assert "\x1b[31m" in text_of(node_table(instance, evaluation), colours=True)


def test_bytes_are_told_with_a_prefix_and_not_digit_by_digit() -> None:
    document = {
        "format": "streamplace.instance/1", "name": "bytes", "resources": ["memory", "cpu"],
        "units": {"memory": "bytes", "cpu": "cores"},
        "nodes": [{"id": "n", "capacity": {"memory": 64e9, "cpu": 4}}],
        "tasks": [{"id": "t", "load": {"memory": 12_345_678_901, "cpu": 1}}],
    }  # fmt: skip
    instance = Instance.from_dict(document)
    evaluation = evaluate_indices(instance, np.array([0]))
    shown = text_of(node_table(instance, evaluation))
    assert "12.35 GB / 64 GB" in shown
    assert "1 / 4" in shown and "12,345" not in shown


def test_what_exceeds_by_rounding_is_drawn_as_full() -> None:
    """The tolerance is of all there is of a resource: a small node may hold more than its room."""
    document = {
        "format": "streamplace.instance/1",
        "name": "rounding",
        "nodes": [{"id": "n0", "capacity": {"cpu": 10}}, {"id": "n1", "capacity": {"cpu": 1e6}}],
        "tasks": [
            {"id": "t0", "load": {"cpu": 10.000000005}, "node": "n0"},
            {"id": "t1", "load": {"cpu": 9e5}, "node": "n1"},
        ],
    }
    instance = Instance.from_dict(document)
    evaluation = evaluate_indices(instance, np.array([0, 1], dtype=np.int32))
    assert evaluation.feasible
    text = text_of(node_table(instance, evaluation), colours=True)
    assert "▶" not in text
    assert "\x1b[31m" not in text


@pytest.mark.parametrize(("resources", "cell"), [(2, "█ "), (3, "1 / 10  10 %"), (5, "10 %")])
def test_many_resources_stay_on_one_line(resources: int, cell: str) -> None:
    names = [f"resource_{r}" for r in range(resources)]
    document = {
        "format": "streamplace.instance/1",
        "name": "wide",
        "resources": names,
        "nodes": [{"id": "n0", "capacity": dict.fromkeys(names, 10)}],
        "tasks": [{"id": "t0", "load": dict.fromkeys(names, 1)}],
    }
    instance = Instance.from_dict(document)
    evaluation = evaluate_indices(instance, np.zeros(1, dtype=np.int32))
    lines = text_of(node_table(instance, evaluation)).splitlines()
    assert len(lines) == 2
    assert cell in lines[1]
    assert ("/" in lines[1]) == (resources < 5)


@pytest.mark.parametrize("width", [80, 100, 120, 160])
@pytest.mark.parametrize("resources", [1, 2, 4, 7])
def test_no_cell_of_a_node_is_broken(width: int, resources: int) -> None:
    names = [f"slot of operator {r}" for r in range(resources)]
    nodes = [
        {"id": f"broker-{n}", "capacity": {r: (k + 1) * 1e6 for k, r in enumerate(names)}}
        for n in range(3)
    ]
    document = {
        "format": "streamplace.instance/1",
        "name": "wide",
        "resources": names,
        "nodes": nodes,
        "tasks": [{"id": "t0", "load": dict.fromkeys(names, 654_321.5)}],
    }
    instance = Instance.from_dict(document)
    evaluation = evaluate_indices(instance, np.zeros(1, dtype=np.int32))
    console = Console(file=io.StringIO(), width=width)
    console.print(node_table(instance, evaluation, console))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert len(lines) == 4, "a line a node, and the headings on one"
    assert "65 %" in lines[1], "the fullest resource is told in every layout"


def test_the_fullest_resource_of_a_node_is_the_fullest() -> None:
    names = ["a resource with a long name", "another resource with one", "and one more of them"]
    document = {
        "format": "streamplace.instance/1",
        "name": "narrow",
        "resources": names,
        "nodes": [{"id": "n0", "capacity": dict(zip(names, [9, 3], strict=False))}],
        "tasks": [{"id": "t0", "load": dict.fromkeys(names, 6)}],
    }
    instance = Instance.from_dict(document)
    evaluation = evaluate_indices(instance, np.zeros(1, dtype=np.int32))
    console = Console(file=io.StringIO(), width=60)
    console.print(node_table(instance, evaluation, console))
    row = console.file.getvalue().splitlines()[1]  # type: ignore[attr-defined]
    assert row.split() == [
        "n0",
        "6",
        "/",
        "3",
        "200",
        "%",
        "another",
        "resource",
        "with",
        "one",
        "1",
    ]


@pytest.mark.parametrize(
    ("operator", "told"), [("agg", "threads of agg (cpu) at 2 ×"), (None, "thread a/0 (cpu) at")]
)
def test_threads_that_are_full_first_are_named(operator: str | None, told: str) -> None:
    task = {"id": "a/0", "load": {"cpu": 0.5}, "max_load": {"cpu": 1}, "node": "n"}
    instance = Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "one thread",
            "resources": ["cpu"],
            "nodes": [{"id": "n", "capacity": {"cpu": 8}}],
            "operators": [{"id": "agg"}],
            "tasks": [task if operator is None else {**task, "operator": operator}],
        }
    )
    line = carries_line(evaluate_indices(instance, np.zeros(1, dtype=np.int32)))
    assert line is not None
    assert told in line.plain
