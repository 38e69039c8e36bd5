"""A plan of another parallelism as what Flink and Storm take; no order of moves carries it out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from optim import Instance, InvalidInput, Plan
from optim.format.parallelism import at_parallelism
from streamplace.cli.main import main
from streamplace.clusters.exchange.sources import export_plan
from streamplace.clusters.flink.exporter import OVERRIDES
from tests.streamplace.clusters.yamls import settings_in


def made(jobs: int = 1) -> tuple[Instance, Plan]:
    """Jobs of a source and a count; the count of each is to have three tasks."""
    operators: list[dict[str, Any]] = []
    for j in range(jobs):
        for name, tasks in (("in", 1), ("count", 2)):
            identity = f"job{j}:{name}" if jobs > 1 else name
            operators.append({
                "id": identity, "topology": f"job{j}",
                "group": {"tasks": tasks, "load": {"cpu": tasks}},
                "labels": {f"vertex {name}{j}": name},
            })  # fmt: skip
    instance = Instance.from_dict({
        "format": "streamplace.instance/1",
        "name": "jobs",
        "labels": {f"job job{j}": f"id{j}" for j in range(jobs)},
        "nodes": [{"id": "n1", "capacity": {"cpu": 99}}],
        "topologies": [{"id": f"job{j}"} for j in range(jobs)],
        "operators": operators,
        "tasks": [{"id": f"{o['id']}/0", "node": "n1"} for o in operators],
    })  # fmt: skip
    wanted = {o["id"]: 3 if "count" in o["id"] else 1 for o in operators}
    names = at_parallelism(instance, wanted).tasks.ids
    plan = Plan(
        instance.name, dict.fromkeys(names, "n1"), parallelism=wanted,
        claimed_instance_sha256=instance.sha256,
    )  # fmt: skip
    return instance, plan


def test_flink_bodies_and_overrides() -> None:
    done = export_plan("flink", *made())
    # Flink: "the request is incomplete" where a vertex of the job lacks
    bounds = {"in0": 1, "count0": 3}
    wanted = {v: {"parallelism": {"lowerBound": 1, "upperBound": n}} for v, n in bounds.items()}
    assert json.loads(done.texts[""]) == wanted
    assert settings_in(done.texts[".yaml"]) == [{OVERRIDES: "in0:1,count0:3"}]
    assert any("PUT /jobs/id0/resource-requirements" in text for text in done.ledger.readings)
    assert any("restart or a rescale" in text for text in done.ledger.readings)
    two = export_plan("flink", *made(2)).texts
    assert json.loads(two[".2.json"]).keys() == {"in1", "count1"}
    each = [{OVERRIDES: f"in{j}:1,count{j}:3"} for j in range(2)]
    assert settings_in(two[".yaml"]) == each


def test_storm_rebalance() -> None:
    assert export_plan("storm", *made()).texts[""] == "storm rebalance job0 -e count=3\n"
    both = export_plan("storm", *made(2)).texts[""].splitlines()
    assert both == ["storm rebalance job0 -e count=3", "storm rebalance job1 -e count=3"]


def test_what_knows_no_parallelism_refuses() -> None:
    with pytest.raises(InvalidInput, match="export flink or storm"):
        export_plan("moves", *made())
    instance, plan = made()
    bare = instance.replace(operators=[
        {k: v for k, v in o.items() if k != "labels"} for o in instance.to_dict()["operators"]
    ])  # fmt: skip
    with pytest.raises(InvalidInput, match="names a vertex"):
        export_plan("flink", bare, Plan(plan.instance_name, plan.assignment,
                                        parallelism=plan.parallelism))  # fmt: skip


@pytest.mark.parametrize("command", ["steps", "diff", "explain"])
def test_no_moves_carry_it_out(command: str, tmp_path: Path, capsys: Any) -> None:
    instance, plan = made()
    file, chosen = str(tmp_path / "jobs.json"), str(tmp_path / "plan.json")
    tasks = [{"id": t, "node": "n1"} for t in instance.tasks.ids]
    instance = instance.replace(tasks=tasks)
    instance.save(file)
    Plan(plan.instance_name, plan.assignment, parallelism=plan.parallelism).save(chosen)
    assert main([command, file, chosen]) == 2
    told = capsys.readouterr()
    assert "count 2 → 3" in told.err
    assert "restart or a rescale" in told.err
