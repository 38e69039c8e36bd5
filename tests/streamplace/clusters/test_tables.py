"""CSV and moves: what stands in them, and that they come back."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optim import Instance
from optim.errors import InvalidInput
from optim.format.plan import Plan
from streamplace.clusters.exchange.declarations import with_places
from streamplace.clusters.exchange.sources import export_plan, read_placement
from streamplace.clusters.files import read_moves, read_table

ODD = ["plain", "with,comma", 'with "quotes"', "line\nbreak", "=1+1", "ünïcode"]


def made(now: list[int] | None = None) -> Instance:
    return Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "odd",
            "nodes": [{"id": "a"}, {"id": "b, c"}],
            "operators": [{"id": "op", "group": {"tasks": 2, "state": 3}}],
            "tasks": [
                {"id": name, "migration_cost": i} | ({"node": ["a", "b, c"][now[i]]} if now else {})
                for i, name in enumerate(ODD)
            ]
            + (
                [{"id": f"op/{k}", "node": ["a", "b, c"][now[6 + k]]} for k in range(2)]
                if now
                else []
            ),
        }
    )


SIDES = st.lists(st.integers(0, 1), min_size=8, max_size=8)


@given(SIDES, SIDES)
def test_tables_come_back(now: list[int], then: list[int]) -> None:
    instance = made(now)
    order = [instance.tasks.index[t] for t in [*ODD, "op/0", "op/1"]]
    node = np.empty(8, dtype=int)
    node[order] = then
    plan = Plan.from_indices(instance, node)
    table = export_plan("csv", instance, plan).texts[""]
    moves = export_plan("moves", instance, plan).texts[""]
    assert read_table(table, instance).node.tolist() == node.tolist()
    assert read_moves(moves, instance).node.tolist() == node.tolist()
    listed = list(csv.DictReader(io.StringIO(moves, newline="")))
    assert len(listed) == int((node != instance.tasks.node).sum())
    assert all(row["from"] != row["to"] for row in listed)
    replaced = with_places(instance, read_table(table, instance))
    assert replaced.tasks.node.tolist() == node.tolist()
    assert replaced.replace(tasks=instance.to_dict()["tasks"]).sha256 == instance.sha256


def test_the_rows() -> None:
    instance = made([0, 0, 0, 0, 0, 0, 1, 1])
    plan = Plan.from_indices(instance, [1] * 8)
    rows = list(csv.reader(io.StringIO(export_plan("csv", instance, plan).texts[""], newline="")))
    assert rows[0] == ["task", "operator", "node", "slot", "current_node", "moves"]
    assert ["op/0", "op", "b, c", "", "b, c", "no"] in rows
    assert ["with,comma", "", "b, c", "", "a", "yes"] in rows
    moves = export_plan("moves", instance, plan).texts[""]
    assert 'plain,a,"b, c",0\n' in moves
    assert "op/0" not in moves


def test_slots_come_back() -> None:
    instance = made()
    plan = Plan.from_indices(instance, [0] * 8, [3] * 8)
    back = read_table(export_plan("csv", instance, plan).texts[""], instance)
    assert back.slot is not None
    assert back.slot.tolist() == [3] * 8


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("task,from,to\nnope,a,a\n", "line 2: 'nope' is no task"),
        ("task,from,to\nplain,a,z\n", "line 2: 'z' is no node"),
        ("task,from,to\nplain,a,a\nplain,a,a\n", "line 3: 'plain' stands twice"),
        ("task,node\nplain,a\n", "and 6 more tasks are not in the table"),
        ("task,node\nplain\n", "line 2 is no node"),
        ("task,from,to,slot\nplain,a,a,²\n", "line 2: '²' is no slot"),
        ("task,from,to,slot\nplain,a,a,x\n", "line 2: 'x' is no slot"),
        ("task,place\nplain,a\n", "lacks"),
        ("task,from,to\nplain,a,a\nplain," + "x" * 131_073, r"p: line 3 field larger than .* open"),
        ("task,from," + "x" * 131_073, "p: line 1 field larger than"),
        ("task,from,to\nplain,a,a\rodd", "p: line 2 new-line character seen"),
        ("²\n", "is no placement"),
        ("hello\n", "is no placement"),
        ("", "is no placement"),
        ("{", "is not JSON"),
        ('{"format": "streamplace.plan/1"}', "instance is missing"),
    ],
)
def test_placements_that_do_not_fit(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "p"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=told):
        read_placement(str(path), made())


def test_tables_as_a_spreadsheet_saves_them(tmp_path: Path) -> None:
    instance = made([0, 0, 0, 0, 0, 0, 1, 1])
    plan = Plan.from_indices(instance, [1] * 8)
    for name in ("csv", "moves"):
        text = export_plan(name, instance, plan).texts[""]
        path = tmp_path / name
        ended = text.replace("\n", "\r\n").replace("line\r\nbreak", "line\nbreak")
        path.write_bytes(b"\xef\xbb\xbf" + ended.encode())
        assert read_placement(str(path), instance).node.tolist() == [1] * 8


def test_a_plan_is_a_placement(tmp_path: Path) -> None:
    instance = made()
    plan = Plan.from_indices(instance, [1] * 8)
    plan.save(tmp_path / "p.json")
    assert read_placement(str(tmp_path / "p.json"), instance).node.tolist() == [1] * 8


def test_ids_that_a_spreadsheet_would_run_come_back() -> None:
    ids = ["=1+1", "'=1+1", "-2", "'x"]
    document = {
        "format": "streamplace.instance/1", "name": "x", "resources": ["cpu"],
        "nodes": [{"id": "@a", "capacity": {"cpu": 9}}, {"id": "+b", "capacity": {"cpu": 9}}],
        "operators": [{"id": "o"}],
        "tasks": [{"id": i, "operator": "o", "node": "@a", "load": {"cpu": 1}} for i in ids],
        "streams": [],
    }  # fmt: skip
    instance = Instance.from_dict(document)
    plan = Plan.from_indices(instance, np.array([1, 0, 1, 1]))
    for name, read in (("csv", read_table), ("moves", read_moves)):
        text = export_plan(name, instance, plan).texts[""]
        cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
        assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@"))]
        assert read(text, instance).node.tolist() == [1, 0, 1, 1]
