"""Random jobs and placements through export, read by what Flink makes of quotas and groups."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from optim import Instance, Plan, evaluate
from optim.format.parallelism import at_parallelism
from streamplace.clusters.exchange.sources import export_plan
from streamplace.clusters.flink.exporter import OVERRIDES
from tests.streamplace.clusters.yamls import settings_in

NAMES = ("in", "in", "map: x, y", 'say "hé"', "a\nb", "# no comment", "x: y", "w" * 200, "{0}")


def jobs(rng: random.Random, *, placed: bool) -> Instance:
    """Return jobs as the import makes them, some of one name, on task managers of odd names."""
    managers = rng.sample(["tm-1", "10.0.0.7:6122-a3f", "tm 2", "[::1]:6122", "é#1", "7"], 3)
    names = rng.sample(["orders", "orders (b7)", "a: b", "#1", "two words"], rng.randint(1, 2))
    operators: list[dict[str, Any]] = []
    for j, name in enumerate(names):
        for k in range(rng.randint(1, 3)):
            vertices = {f"vertex {j}{k}{v}": rng.choice(NAMES) for v in range(rng.randint(1, 2))}
            tasks = rng.randint(1, 4)
            operators.append({
                "id": f"{j} {k}", "topology": name, "labels": vertices,
                "group": {"tasks": tasks, "load": {"cpu": tasks}},
            })  # fmt: skip
    rows = [f"{o['id']}/{i}" for o in operators for i in range(o["group"]["tasks"])]
    return Instance.from_dict({
        "format": "streamplace.instance/1", "name": "jobs", "operators": operators,
        "labels": {f"job {name}": f"{j}" * 32 for j, name in enumerate(names)},
        "nodes": [{"id": m, "capacity": {"cpu": 6}} for m in managers],
        "topologies": [{"id": name} for name in names],
        "tasks": [
            {"id": row, **({"node": rng.choice(managers)} if placed or rng.random() < 0.5 else {})}
            for row in rows
        ],
    })  # fmt: skip


def managers_run(sheet: dict[str, Any], blocks: str) -> dict[str, Counter[str]]:
    """Return how many subtasks of each vertex each task manager runs.

    A slot of a group takes one unit of its resource, so that a task manager has as many of the
    group's slots as units, and all offer as many as the group takes, which leaves Flink no choice.
    """
    found: dict[str, Counter[str]] = {}
    offered: Counter[str] = Counter()
    for block in settings_in(blocks):
        runs = found.setdefault(block.pop("taskmanager.resource-id"), Counter())
        names = block.pop("external-resources")
        assert block.keys() == {f"external-resource.{name}.amount" for name in names}
        for name in names:
            amount = block[f"external-resource.{name}.amount"]
            offered[name] += amount
            for vertex in sheet["groups"][sheet["resources"].index(name)]["vertices"]:
                runs[vertex] += amount
    slots = [group["parallelism"] for group in sheet["groups"]]
    assert [offered[name] for name in sheet["resources"]] == slots
    return found


@given(st.randoms(use_true_random=False))
@settings(deadline=None)
def test_task_managers_run_the_plan_and_nothing_else(rng: random.Random) -> None:
    instance = jobs(rng, placed=rng.random() < 0.5)
    assignment = {task: rng.choice(instance.nodes.ids) for task in instance.tasks.ids}
    plan = Plan(instance.name, assignment)
    if not evaluate(instance, plan).feasible:
        return
    texts = export_plan("flink", instance, plan).texts
    wanted: dict[str, Counter[str]] = {}
    for t, task in enumerate(instance.tasks.ids):
        for label in instance.operators.labels[int(instance.tasks.operator[t])]:
            wanted.setdefault(assignment[task], Counter())[label.removeprefix("vertex ")] += 1
    assert managers_run(json.loads(texts[""]), texts[".taskmanagers.yaml"]) == wanted


@given(st.randoms(use_true_random=False))
@settings(deadline=None)
def test_a_rescale_gives_the_parallelism_and_nothing_else(rng: random.Random) -> None:
    instance = jobs(rng, placed=True)
    now = dict(zip(instance.operators.ids, instance.operators.num_tasks.tolist(), strict=True))
    wanted = {name: rng.choice((n, rng.randint(1, 5))) for name, n in now.items()}
    tasks = at_parallelism(instance, wanted).tasks.ids
    assignment = dict.fromkeys(tasks, instance.nodes.ids[0])
    plan = Plan(instance.name, assignment, parallelism=wanted)
    texts = export_plan("flink", instance, plan).texts
    expected: dict[str, dict[str, int]] = {}
    changed = set()
    for o, name in enumerate(instance.operators.ids):
        job = instance.topologies.ids[int(instance.operators.topology[o])]
        vertices = [label.removeprefix("vertex ") for label in instance.operators.labels[o]]
        expected.setdefault(job, {}).update(dict.fromkeys(vertices, wanted[name]))
        changed |= {job} if wanted[name] != now[name] else set()
    bodies = [json.loads(text) for ending, text in texts.items() if ending != ".yaml"]
    bounds = [{v: tuple(e["parallelism"].values()) for v, e in b.items()} for b in bodies if b]
    numbers = [per for job, per in expected.items() if job in changed]
    assert bounds == [{v: (1, n) for v, n in per.items()} for per in numbers]
    told = [block[OVERRIDES].split(",") for block in settings_in(texts[".yaml"]) if block]
    assert [{v: int(n) for v, n in (p.split(":") for p in t)} for t in told] == numbers
