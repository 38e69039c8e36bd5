"""Instances written in Python, from and to tables, shown in notebooks; documents mixed up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from optim import Instance, InstanceBuilder, InvalidInput, Plan, solve, to_frames


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
    again = InstanceBuilder("c", resources=instance.resources)
    again.frame("nodes", frames["nodes"]).frame("tasks", frames["tasks"].drop(columns="planned"))
    copy = again.frame("traffic", frames["traffic"]).build()
    assert copy.tasks.load.tolist() == instance.tasks.load.tolist()
    assert copy.nodes.capacity.tolist() == instance.nodes.capacity.tolist()
    assert (copy.tasks.node.tolist(), copy.total_traffic) == (instance.tasks.node.tolist(), 4)
    with pytest.raises(InvalidInput, match="nodes, tasks, streams or traffic"):
        again.frame("limits", frames["nodes"])


def test_notebooks_show_tables_and_no_markup_of_the_file() -> None:
    result = solve(built())
    assert result.plan is not None
    for shown in (built(), result.plan, result):
        text = shown._repr_html_()
        assert "<table>" in text
        assert "n<1>" not in text
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
