"""Instances written in Python, from and to tables, shown in notebooks; documents mixed up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from formulations.schedule.steps import steps
from optim import Instance, InstanceBuilder, InvalidInput, Plan, solve, to_frames
from streamplace.explain.explanation import why_infeasible, why_plan


def built() -> Instance:
    builder = InstanceBuilder("b", resources=["cpu", "memory"], units={"rate": "MB/s"})
    builder.node("n<1>", capacity={"cpu": 10, "memory": 8}, rack="r1").node("n2", capacity=10)
    builder.operator("a", tasks=2, load=4).operator("b").task("b/0", operator="b", load=2)
    builder.task("a/0", node="n2").stream("a", "b", rate=3).limits(max_migrations=1)
    return builder.link("up", ["n2"], 5).apart("s", operator="a").traffic("a/0", "a/1", 1).build()


def test_a_builder_writes_the_document() -> None:
    instance = built()
    assert Instance.from_json(instance.to_json()).sha256 == instance.sha256
    assert instance.tasks.load[:, 0].tolist() == [2, 2, 2]
    assert instance.limits.max_migrations == 1
    assert (instance.links.ids, instance.sets.ids) == (("up",), ("s",))
    assert instance.total_traffic == 4
    with pytest.raises(InvalidInput, match=r"nodes\[0\].capactiy.*did you mean capacity"):
        InstanceBuilder("b").node("n", capactiy=1).build()


def test_tables_in_and_out() -> None:
    pytest.importorskip("pandas")
    instance = built()
    plan = Plan.from_indices(instance, [0, 1, 1], method="by hand")
    frames = to_frames(instance, plan)
    assert frames["tasks"]["planned"].tolist() == ["n<1>", "n2", "n2"]
    assert frames["nodes"]["rack"].tolist() == ["r1", None]
    again = InstanceBuilder("c", resources=instance.resources)
    again.frame("nodes", frames["nodes"]).frame("tasks", frames["tasks"].drop(columns="planned"))
    copy = again.frame("traffic", frames["traffic"]).build()
    assert copy.tasks.load.tolist() == instance.tasks.load.tolist()
    assert copy.nodes.capacity.tolist() == instance.nodes.capacity.tolist()
    assert (copy.tasks.node.tolist(), copy.total_traffic) == (instance.tasks.node.tolist(), 4)
    with pytest.raises(InvalidInput, match="nodes, tasks, streams or traffic"):
        again.frame("limits", frames["nodes"])


@pytest.mark.parametrize(
    ("part", "columns", "words"),
    [
        ("tasks", ["id", "cpuu"], ["tasks column cpuu is no field of tasks", "did you mean cpu?"]),
        ("tasks", ["name"], ["tasks column id is missing", "tasks column name is no field"]),
        ("nodes", ["id", "id"], ["nodes column id stands 2 times"]),
        ("nodes", ["id", 7], ["nodes column 7 is no field of nodes"]),
        ("streams", ["source", "to"], ["streams column from is missing", "column source is no"]),
        ("traffic", ["from", "too", "rate"], ["traffic column to is missing", "did you mean to?"]),
        ("traffic", ["sender", "receiver"], ["column rate is missing", "column receiver is no"]),
        ("traffic", ["from", "to", "rate", "cpu"], ["traffic column cpu is no field of traffic"]),
    ],
)
def test_a_table_with_wrong_columns_is_refused_by_their_names(
    part: str, columns: list[Any], words: list[str]
) -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame([[1] * len(columns)], columns=columns)
    with pytest.raises(InvalidInput) as caught:
        InstanceBuilder("b").frame(part, table)
    for some in words:
        assert some in str(caught.value)


def test_a_result_as_tables() -> None:
    pytest.importorskip("pandas")
    instance = built()
    result = solve(instance)
    frames, found = to_frames(result), result.evaluation
    assert result.plan is not None and found is not None
    tasks = frames["tasks"]
    assert dict(zip(tasks.id, tasks.node, strict=True)) == dict(result.plan.assignment)
    nodes = frames["nodes"].set_index("id")
    assert nodes.tasks.to_dict() == found.node_tasks
    assert nodes["cpu"].to_dict() == {
        n: load["cpu"] for n, load in (found.node_loads or {}).items()
    }
    assert nodes["cpu utilisation"]["n2"] == (found.utilisation or {})["n2"]["cpu"]
    figures = frames["figures"].set_index("figure").value
    assert figures["migrations"] == len(frames["moves"]) == len(result.moves)
    none = to_frames(solve(InstanceBuilder("b").node("n", capacity=1).task("t", load=2).build()))
    assert [len(frame) for frame in none.values()] == [0, 0, 0, 0, 0, len(none["trace"])]
    with pytest.raises(InvalidInput, match="an Instance, or a Result of solve"):
        to_frames(result.plan)  # type: ignore[arg-type]


def test_notebooks_show_tables_and_no_markup_of_the_file() -> None:
    result = solve(built())
    assert result.plan is not None
    nowhere = InstanceBuilder("<b>").node("n<1>", capacity=1).task("t", load=2).build()
    told = (
        built(), result.plan, result, result.evaluation, steps(built(), result.plan),
        why_infeasible(nowhere, 5.0),
        why_plan(built(), result.method, result.plan.node_indices(built())),
    )  # fmt: skip
    for shown in told:
        assert shown is not None
        text = shown._repr_html_()
        assert "<table>" in text
        assert "n<1>" not in text and "<b>:" not in text
        assert text.count("<td>") == text.count("</td>")
    assert "<td>load distance</td>" in told[3]._repr_html_()
    assert "<td>nowhere</td>" in told[4]._repr_html_()
    assert "<td>conflict 1</td>" in told[5]._repr_html_()
    assert "<td>move</td>" in told[6]._repr_html_() or "<td>binds</td>" in told[6]._repr_html_()
    assert "n&lt;1&gt;" in built()._repr_html_()
    assert "optimal; used_capacity 1" in result._repr_html_()


@pytest.mark.parametrize(
    ("read", "given", "words"),
    [
        (Instance.load, {"format": "streamplace.plan/1"}, "is a plan, and an instance is wanted"),
        (Plan.load, {"format": "streamplace.instance/1"}, "is an instance, and a plan is wanted"),
        (Plan.load, {"format": "streamplace.result/1"}, "a result holds it under `plan`"),
    ],
)
def test_one_document_for_another(tmp_path: Path, read: Any, given: Any, words: str) -> None:
    import json

    path = tmp_path / "x.json"
    path.write_text(json.dumps({**given, "more": 1}))
    with pytest.raises(InvalidInput) as caught:
        read(path)
    assert words in str(caught.value)
    assert len(caught.value.problems) == 1
