"""Limits of a random instance: budgets, links, slots, topologies."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tests.fuzz.reading import Document, Reading

if TYPE_CHECKING:
    from tests.fuzz.generate import Draw


def add_limits(draw: Draw, document: Document) -> None:
    """Add what the random choices bring."""
    limits: dict[str, Any] = {}
    _budgets(draw, document, limits)
    if draw.chance(0.14):
        document["links"] = _links(draw, document)
        if draw.chance(0.3):
            limits.setdefault("max_utilisation", {})["links"] = draw.choice([0.5, 0.9, 1.5])
    if draw.chance(0.3):
        _slots(draw, document)
    if document["operators"] and draw.chance(0.25):
        _topologies(draw, document)
    if draw.chance(0.05):
        limits["max_tasks_per_slot"] = draw.randint(1, 4)
    if limits:
        document["limits"] = limits


def _budgets(draw: Draw, document: Document, limits: dict[str, Any]) -> None:
    reading, nodes = Reading(document), document["nodes"]
    total, count = float(reading.totals[0]), len(reading.task_ids)
    if (reading.home >= 0).any():
        if draw.chance(0.35):
            limits["max_migrations"] = draw.randint(0, count)
        if draw.chance(0.25):
            budget = float(reading.cost.sum()) * draw.uniform(0, 0.8)
            limits["max_migration_cost"] = (
                float(math.floor(budget)) if draw.kind == "whole" else budget
            )
    if draw.chance(0.1):
        limits["max_load_distance"] = total / len(nodes) * draw.uniform(0.05, 1)
    if draw.chance(0.1):
        first = document["resources"][0]
        limits["max_utilisation"] = {first: draw.choice([0.5, 0.9, 1.2])}
    if draw.chance(0.12):
        name = draw.choice(document["resources"])
        part = float(reading.totals[document["resources"].index(name)]) / len(nodes)
        for node in nodes:
            if draw.chance(0.5):
                node["min_load"] = {name: part * draw.uniform(0.1, 0.9)}


def _links(draw: Draw, document: Document) -> list[dict[str, Any]]:
    ids = [x["id"] for x in document["nodes"]]
    traffic = Reading(document).total_traffic
    lists = [[n] for n in ids if draw.chance(0.8)]
    if len(ids) > 2 and draw.chance(0.4):
        lists.append(sorted(draw.sample(ids, draw.randint(2, len(ids)))))
    links: list[dict[str, Any]] = []
    for among in lists:
        capacity = traffic * draw.uniform(0.1, 1.2)
        link = {"id": f"l{len(links)}", "nodes": among, "capacity": capacity}
        if draw.chance(0.2):
            link["background"] = min(draw.figure(), capacity / 3)
        links.append(link)
    return links


def _slots(draw: Draw, document: Document) -> None:
    reading, nodes = Reading(document), document["nodes"]
    few = draw.chance(0.3)
    for node in nodes:
        if draw.chance(0.95):
            node["slots"] = draw.randint(0, 4) if few else 3
    dealt = [x for x in nodes if x.get("slots")]
    if dealt and draw.chance(0.35):
        biggest, lent = float(reading.load[:, 0].max(initial=0)), sum(x["slots"] for x in dealt)
        fair = float(reading.load[:, 0].sum()) / lent
        size = draw.up(max(biggest * draw.choice([0.9, 1, 1.5]), fair * draw.uniform(0.8, 2.5)))
        for node in dealt:
            if draw.chance(0.9):
                node["slot_capacity"] = {document["resources"][0]: size}
    most = min((x["slots"] for x in nodes if "slots" in x), default=1)
    if most and draw.chance(0.2):
        for task in document["tasks"]:
            if task.get("node"):
                task["slot"] = draw.randrange(most)


def _topologies(draw: Draw, document: Document) -> None:
    jobs: list[dict[str, Any]] = [{"id": f"job{i}"} for i in range(draw.randint(1, 2))]
    for job in jobs:
        if draw.chance(0.8):
            job["workers"] = draw.randint(1, 4)
    document["topologies"] = jobs
    for operator in document["operators"]:
        if draw.chance(0.97):
            operator["topology"] = draw.choice(jobs)["id"]
