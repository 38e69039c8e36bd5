"""The newer fields of the format: each is used where the product's reader knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tests.fuzz.reading import Document, Reading

if TYPE_CHECKING:
    from tests.fuzz.generate import Draw

SHARE = 0.15
_TWO = {
    "format": "streamplace.instance/1", "name": "probe", "resources": ["cpu"],
    "nodes": [{"id": "n", "rack": "r"}, {"id": "m", "rack": "r"}],
    "operators": [{"id": "g", "group": {"tasks": 2, "load": {"cpu": 1}}}],
    "tasks": [{"id": "t", "node": "n"}], "traffic": [["t", "g/0", 1]],
}  # fmt: skip
#: smallest instances that use a field: a reader that does not know it refuses; a new one is the
#: last, so that seeds keep the fields they draw
PROBES: dict[str, Document] = {
    "sets": {**_TWO, "sets": [{"id": "s", "rule": "apart", "over": "node", "tasks": ["t"]}]},
    "nodes.max_tasks": {**_TWO, "nodes": [{"id": "n", "max_tasks": 3}, {"id": "m"}]},
    "nodes.max_inflow": {**_TWO, "nodes": [{"id": "n", "max_inflow": 3}, {"id": "m"}]},
    "limits.max_inflow": {**_TWO, "limits": {"max_inflow": 1}},
    "copies": {**_TWO, "tasks": [{"id": "t", "node": "n", "copies": ["m"]}]},
    "group.allowed": {
        **_TWO,
        "operators": [{"id": "g", "group": {"tasks": 2, "load": {"cpu": 1}, "allowed": ["n"]}}],
    },
    "direction": {
        **_TWO,
        "links": [{"id": "l", "nodes": ["n"], "capacity": 1, "direction": "out"}],
    },
    "rate_driven": {**_TWO, "rate_driven": ["cpu"]},
    "crossing_cost": {**_TWO, "crossing_cost": {"cpu": {"out": 1, "in": 1}}},
    "limits.max_migration_state": {**_TWO, "limits": {"max_migration_state": 1}},
    "limits.max_nodes_used": {**_TWO, "limits": {"max_nodes_used": 1}},
    "limits.max_workers_restarted": {
        **_TWO,
        "tasks": [{"id": "t", "node": "n", "slot": 0}],
        "limits": {"max_workers_restarted": 1},
    },
    "max_load": {**_TWO, "tasks": [{"id": "t", "node": "n", "max_load": {"cpu": 1}}]},
    "slot_sets": {**_TWO, "sets": [{"id": "s", "rule": "apart", "over": "slot", "tasks": ["t"]}]},
    "exclusive_nodes": {**_TWO, "topologies": [{"id": "j", "exclusive_nodes": 1}]},
    "local_first": {
        **_TWO,
        "operators": [{"id": x, "group": {"tasks": 2, "load": {"cpu": 1}}} for x in "gh"],
        "streams": [{"from": "g", "to": "h", "rate": 1, "pattern": "local_first"}],
    },
}


def add_newer(
    draw: Draw, document: Document, fields: frozenset[str], sure: frozenset[str] = frozenset()
) -> None:
    """Add each of the known newer fields with a chance of its own, those of `sure` always.

    The random choices are the same whatever is known, so that a seed keeps its instance as long as
    possible.
    """
    reading, nodes = Reading(document), document["nodes"]
    ids, racked = [x["id"] for x in nodes], draw.chance(0.3)
    for node in nodes:
        rack = f"r{draw.randint(0, 2)}"
        if racked or "sets" in fields:
            node["rack"] = rack
    for name in PROBES:
        own = type(draw)(draw.getrandbits(48))
        own.kind = draw.kind
        if name in fields and (own.chance(0.5 if name == "direction" else SHARE) or name in sure):
            _ADD[name](own, document, reading, ids)


def _add_sets(draw: Draw, document: Document, reading: Reading, _ids: list[str]) -> None:
    document["sets"] = []
    for k in range(draw.among({1: 2, 2: 1})):
        rule, over = draw.choice(["apart", "together", "spread"]), draw.choice(["node", "rack"])
        new: dict[str, Any] = {"id": f"p{k}", "rule": rule, "over": over}
        operators = [name for name, tasks in reading.members.items() if tasks]
        if operators and draw.chance(0.4):
            new["operator"] = draw.choice(operators)
            size = len(reading.members[new["operator"]])
        else:
            size = draw.randint(1, min(4, len(reading.task_ids)))
            new["tasks"] = sorted(draw.sample(reading.task_ids, size))
        if rule == "apart" and (size > 3 or draw.chance(0.5)):
            new["at_most"] = draw.randint(1, max(1, size - 1))
        if rule == "spread":
            new["at_least"] = draw.randint(1, min(3, size))
        document["sets"].append(new)


def _add_slot_sets(draw: Draw, document: Document, reading: Reading, _ids: list[str]) -> None:
    count = len(reading.task_ids)
    operators = [name for name, tasks in reading.members.items() if tasks]
    for k in range(draw.among({1: 2, 2: 1, 3: 1})):
        rule = draw.choice(["apart", "apart", "together", "spread"])
        new: dict[str, Any] = {"id": f"w{k}", "rule": rule, "over": "slot"}
        if operators and rule != "together" and draw.chance(0.5):
            new["operator"] = draw.choice(operators)
            size = len(reading.members[new["operator"]])
        else:
            size = draw.randint(1, min(3 if rule == "together" else 5, count))
            new["tasks"] = sorted(draw.sample(reading.task_ids, size))
        if rule == "apart" and draw.chance(0.5):
            new["at_most"] = draw.randint(1, max(1, size - 1))
        if rule == "spread":
            new["at_least"] = draw.randint(1, min(4, size))
        document.setdefault("sets", []).append(new)


def _add_exclusive(draw: Draw, document: Document, _reading: Reading, ids: list[str]) -> None:
    if not document["operators"]:
        return
    for job in document.setdefault("topologies", [{"id": "job0"}]):
        if draw.chance(0.7):
            job["exclusive_nodes"] = draw.randint(1, len(ids))
    for operator in document["operators"]:
        if draw.chance(0.3):
            operator["topology"] = draw.choice(document["topologies"])["id"]


def _add_max_migration_state(
    draw: Draw, document: Document, reading: Reading, _ids: list[str]
) -> None:
    if (reading.home >= 0).any():
        most = float(reading.state.sum()) * draw.uniform(0, 0.8)
        whole = draw.kind == "whole"
        document.setdefault("limits", {})["max_migration_state"] = (
            float(int(most)) if whole else most
        )


def _add_max_nodes_used(draw: Draw, document: Document, _reading: Reading, ids: list[str]) -> None:
    document.setdefault("limits", {})["max_nodes_used"] = draw.randint(1, len(ids))


def _add_max_workers_restarted(
    draw: Draw, document: Document, _reading: Reading, _ids: list[str]
) -> None:
    slots = {node["id"]: node.get("slots") for node in document["nodes"]}
    placed = [task for task in document["tasks"] if task.get("node") is not None]
    if any(slots[task["node"]] == 0 for task in placed):
        return
    for task in placed:
        most = slots[task["node"]]
        task["slot"] = draw.randint(0, (3 if most is None else most) - 1)
    document.setdefault("limits", {})["max_workers_restarted"] = draw.randint(0, 6)


def _add_max_tasks(draw: Draw, document: Document, reading: Reading, ids: list[str]) -> None:
    count = len(reading.task_ids)
    for node in document["nodes"]:
        if draw.chance(0.6):
            node["max_tasks"] = draw.randint(count // len(ids), count)


def _add_node_inflow(draw: Draw, document: Document, reading: Reading, _ids: list[str]) -> None:
    if (reading.home >= 0).any():
        most = document.get("limits", {}).get("max_inflow", 3)
        for node in document["nodes"]:
            if draw.chance(0.5):
                node["max_inflow"] = draw.randint(0, most)


def _add_inflow(draw: Draw, document: Document, reading: Reading, _ids: list[str]) -> None:
    if (reading.home >= 0).any():
        told = [x["max_inflow"] for x in document["nodes"] if "max_inflow" in x]
        document.setdefault("limits", {})["max_inflow"] = max(draw.randint(0, 3), *told, 0)


def _add_copies(draw: Draw, document: Document, _reading: Reading, ids: list[str]) -> None:
    for task in document["tasks"]:
        if task.get("node") and draw.chance(0.5):
            task["copies"] = draw.some(ids)


def _add_allowed(draw: Draw, document: Document, _reading: Reading, ids: list[str]) -> None:
    for operator in document["operators"]:
        if "group" in operator and draw.chance(0.6):
            operator["group"]["allowed"] = draw.some(ids)


def _add_direction(draw: Draw, document: Document, _reading: Reading, _ids: list[str]) -> None:
    for link in document.get("links", []):
        if draw.chance(0.8):
            link["direction"] = draw.choice(["both", "out", "in"])


def _add_driven(draw: Draw, document: Document, _reading: Reading, _ids: list[str]) -> None:
    document["rate_driven"] = draw.some(document["resources"])


def _add_crossing(draw: Draw, document: Document, reading: Reading, _ids: list[str]) -> None:
    if reading.total_traffic > 0:
        dear = float(reading.load.sum()) / reading.total_traffic
        names = draw.some(document["resources"])
        sides = ("out", "in")
        document["crossing_cost"] = {
            r: {side: draw.uniform(0, 0.3) * dear for side in sides} for r in names
        }


def _add_local_first(draw: Draw, document: Document, reading: Reading, _ids: list[str]) -> None:
    for stream in document.get("streams", []):
        if draw.chance(0.7):
            stream["pattern"] = "local_first"
            count = len(reading.members[stream["from"]])
            weights = [draw.choice([0, 1, 1, 2.5]) for _ in range(count)]
            if draw.chance(0.5) and any(weights):
                stream["sender_weights"] = weights


def add_max_load(draw: Draw, document: Document, _reading: Reading, _ids: list[str]) -> None:
    """Above the load as a rule, below it now and then; on operators, groups and tasks."""
    reading = Reading(document)  # what was added before may have changed groups
    load = dict(zip(reading.task_ids, reading.load, strict=True))

    def limits(names: list[str]) -> dict[str, float]:
        most = np.max([load[name] for name in names], axis=0)
        factor = draw.uniform(0.7, 1.0) if draw.chance(0.15) else draw.uniform(1.0, 2.5)
        return {
            r: factor * float(most[reading.resources.index(r)])
            for r in draw.some(reading.resources)
        }

    for operator in document.get("operators", []):
        names = [reading.task_ids[t] for t in reading.members[operator["id"]]]
        if names and draw.chance(0.4):
            operator["max_load"] = limits(names)
        if "group" in operator and draw.chance(0.4):
            operator["group"]["max_load"] = limits(names)
    for task in document.get("tasks", []):
        if draw.chance(0.3):
            task["max_load"] = limits([task["id"]])


_ADD = {
    "sets": _add_sets,
    "nodes.max_tasks": _add_max_tasks,
    "nodes.max_inflow": _add_node_inflow,
    "limits.max_inflow": _add_inflow,
    "limits.max_migration_state": _add_max_migration_state,
    "limits.max_nodes_used": _add_max_nodes_used,
    "limits.max_workers_restarted": _add_max_workers_restarted,
    "copies": _add_copies,
    "group.allowed": _add_allowed,
    "direction": _add_direction,
    "rate_driven": _add_driven,
    "crossing_cost": _add_crossing,
    "max_load": add_max_load,
    "slot_sets": _add_slot_sets,
    "exclusive_nodes": _add_exclusive,
    "local_first": _add_local_first,
}
