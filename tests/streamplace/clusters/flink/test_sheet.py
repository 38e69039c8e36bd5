"""What Flink needs of a plan: quotas, groups, names, and what is refused."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from optim.errors import InvalidInput
from optim.format.instance import Instance
from optim.format.plan import Plan
from streamplace.cli.main import main
from streamplace.clusters.exchange.declarations import places_of_plan
from streamplace.clusters.exchange.sources import export_plan, import_instance
from streamplace.clusters.flink.exporter import Sheet, sheet_of
from tests.streamplace.clusters import systems
from tests.streamplace.clusters.systems import JOB, MAP, SINK, SOURCE

ONE, TWO = "tm-1-container", "tm-2-container"


def planned(instance: Instance, *nodes: str) -> Sheet:
    plan = Plan(instance.name, dict(zip(instance.tasks.ids, nodes, strict=True)))
    return sheet_of(instance, places_of_plan(instance, plan))


@pytest.fixture
def instance(saved: Callable[..., str]) -> Instance:
    """Source (2) and the chain of map and sink (4)."""
    return import_instance("flink", [saved(systems.flink())]).instance


def test_quotas_add_up_to_the_parallelism(instance: Instance) -> None:
    sheet = planned(instance, ONE, ONE, ONE, TWO, TWO, TWO)
    source, chain = sheet.groups
    assert list(source.vertices) == [SOURCE]
    assert list(chain.vertices) == [MAP, SINK]
    assert (source.counts, chain.counts) == ({ONE: 2}, {ONE: 1, TWO: 3})
    assert sheet.jobs == {"orders": JOB}
    key = sheet.key
    assert sheet.configuration(ONE) == {
        "taskmanager.resource-id": ONE,
        "external-resources": [f"p{key}-0", f"p{key}-1"],
        f"external-resource.p{key}-0.amount": 2,
        f"external-resource.p{key}-1.amount": 1,
    }
    assert sheet.configuration(TWO)["external-resources"] == [f"p{key}-1"]


def test_names_tell_plans_apart_and_equal_ones_not(instance: Instance) -> None:
    one = planned(instance, ONE, ONE, ONE, TWO, TWO, TWO)
    swapped = planned(instance, ONE, ONE, TWO, ONE, TWO, TWO)  # the same counts
    other = planned(instance, ONE, TWO, ONE, TWO, TWO, TWO)
    assert one.key == swapped.key != other.key


def test_a_sheet_is_read_as_it_was_written(instance: Instance) -> None:
    sheet = planned(instance, ONE, ONE, ONE, TWO, TWO, TWO)
    document = json.loads(json.dumps(sheet.to_dict()))
    assert Sheet.from_dict(document) == sheet
    for change, told in (
        (lambda d: d["groups"][0]["counts"].update({ONE: 3}), "were changed"),
        (lambda d: d.update(key="000000"), "were changed"),
        (lambda d: d.update(format="streamplace.plan/1"), "format"),
        (lambda d: d["groups"][0].update(vertices={}), "vertices"),
        (lambda d: d["groups"][0].update(colour="red"), "colour"),
        (lambda d: d["groups"][0].update(parallelism=7), "are not the parallelism of 7"),
    ):
        broken: dict[str, Any] = copy.deepcopy(document)
        change(broken)
        with pytest.raises(InvalidInput, match=told):
            Sheet.from_dict(broken)


def test_an_instance_that_names_no_vertices_is_refused(instance: Instance) -> None:
    document = instance.to_dict()
    for operator in document["operators"]:
        del operator["labels"]
    bare = Instance.from_dict(document)
    with pytest.raises(InvalidInput, match="has no label that names a vertex"):
        planned(bare, ONE, ONE, ONE, TWO, TWO, TWO)


def test_slots_of_a_group_are_exported_as_one(saved: Callable[..., str]) -> None:
    options = [("place", "slots")]
    instance = import_instance("flink", [saved(systems.flink())], options).instance
    sheet = planned(instance, ONE, TWO, TWO, TWO)
    assert [list(group.vertices) for group in sheet.groups] == [[SOURCE, MAP, SINK]]
    assert sheet.groups[0].counts == {ONE: 1, TWO: 3}


def test_the_export_writes_three_files(
    instance: Instance, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = Plan.from_indices(instance, [0, 0, 0, 1, 1, 1])
    texts = export_plan("flink", instance, plan).texts
    assert list(texts) == ["", ".taskmanagers.yaml", ".md"]
    key = json.loads(texts[""])["key"]
    blocks = texts[".taskmanagers.yaml"].split("---\n")
    assert f'external-resources: ["p{key}-0", "p{key}-1"]' in blocks[0].splitlines()
    assert f"external-resource.p{key}-1.amount: 3" in blocks[1].splitlines()
    row = f"| `p{key}-1` | 4 | Map (`{MAP}`) + Sink (`{SINK}`) | {ONE}: 1, {TWO}: 3 |"
    assert row in texts[".md"].splitlines()
    instance.save(tmp_path / "i.json")
    plan.save(tmp_path / "p.json")
    files = [str(tmp_path / name) for name in ("i.json", "p.json", "s.json")]
    assert main(["export", "flink", *files[:2], "-o", files[2]]) == 0
    assert (tmp_path / "s.taskmanagers.yaml").is_file()
    assert "streamplace submit flink" in capsys.readouterr().err
