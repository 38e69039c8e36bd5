"""Random small placement problems for property tests, and brute force to judge by."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from hypothesis import strategies as st

from optim.figures.measures import imc_gain_of
from optim.format.instance import Instance
from optim.referee import evaluate_indices


@st.composite
def problems(
    draw: st.DrawFn,
    *,
    most_tasks: int = 8,
    most_nodes: int = 4,
    limits: bool = True,
    groups: bool = False,
) -> Instance:
    """Draw one or two resources, unequal nodes, pairs or groups of tasks, and limits at times."""
    num_nodes = draw(st.integers(1, most_nodes))
    resources = draw(st.sampled_from([["cpu"], ["cpu", "memory"]]))
    nodes = [_node(draw, i, resources, limits) for i in range(num_nodes)]
    names = [node["id"] for node in nodes]
    value: dict[str, Any] = {
        "format": "streamplace.instance/1",
        "name": "drawn",
        "resources": resources,
        "nodes": nodes,
    }
    if groups:
        ids = _groups(draw, value, resources, most_tasks)
    else:
        ids = _tasks(draw, value, resources, most_tasks)
    _restrict(draw, value, ids, names, limits)
    return Instance.from_dict(value)


def _node(draw: st.DrawFn, i: int, resources: list[str], limits: bool) -> dict[str, Any]:
    node: dict[str, Any] = {
        "id": f"n{i}",
        "capacity": {r: draw(st.integers(4, 14)) for r in resources},
    }
    if limits and draw(st.integers(0, 4)) == 0:
        node["background"] = {"cpu": draw(st.integers(0, 4))}
    if limits and draw(st.integers(0, 5)) == 0:
        node["min_load"] = {"cpu": draw(st.integers(1, 3))}
    if limits and i and draw(st.integers(0, 5)) == 0:
        node["leaving"] = True
    return node


def _load(draw: st.DrawFn, resources: list[str], factor: int = 1) -> dict[str, float]:
    return {r: factor * draw(st.sampled_from([0.1, 1, 1.5, 2, 3, 5])) for r in resources}


def _tasks(
    draw: st.DrawFn, value: dict[str, Any], resources: list[str], most_tasks: int
) -> list[str]:
    ids = [f"t{i}" for i in range(draw(st.integers(1, most_tasks)))]
    value["tasks"] = [{"id": t, "load": _load(draw, resources)} for t in ids]
    pairs = list(itertools.combinations(ids, 2))
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=12)) if pairs else []
    value["traffic"] = [[a, b, draw(st.integers(0, 9))] for a, b in chosen]
    return ids


def _groups(
    draw: st.DrawFn, value: dict[str, Any], resources: list[str], most_tasks: int
) -> list[str]:
    sizes = draw(st.lists(st.integers(1, most_tasks // 2), min_size=2, max_size=4))
    value["operators"] = [
        {"id": f"g{i}", "group": {"tasks": k, "load": _load(draw, resources, k)}}
        for i, k in enumerate(sizes)
    ]
    ids = [f"g{i}/{j}" for i, k in enumerate(sizes) for j in range(k)]
    pairs = list(itertools.combinations(range(len(sizes)), 2))
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, min_size=1))
    value["streams"] = [
        {"from": f"g{a}", "to": f"g{b}", "rate": draw(st.integers(1, 20))} for a, b in chosen
    ]
    return ids


def _restrict(
    draw: st.DrawFn, value: dict[str, Any], ids: list[str], names: list[str], limits: bool
) -> None:
    if not limits:
        return
    entries = {task["id"]: task for task in value.get("tasks", [])}
    current = draw(st.booleans())
    for task in ids:
        entry = entries.setdefault(task, {"id": task})
        if current:
            entry["node"] = draw(st.sampled_from(names))
        if draw(st.integers(0, 5)) == 0:
            entry["allowed"] = sorted(draw(st.sets(st.sampled_from(names), min_size=1)))
    value["tasks"] = list(entries.values())
    if current and draw(st.integers(0, 2)) == 0:
        value["limits"] = {"max_migrations": draw(st.integers(0, len(ids)))}


def placements(instance: Instance) -> st.SearchStrategy[np.ndarray[Any, Any]]:
    """Draw any placement of an instance, unplaced tasks included."""
    node = st.integers(-1, instance.num_nodes - 1)
    size = instance.num_tasks
    return st.lists(node, min_size=size, max_size=size).map(lambda x: np.array(x, dtype=np.int32))


def best_by_brute_force(instance: Instance) -> tuple[float, np.ndarray[Any, Any]] | None:
    """Return the best gain of a feasible placement and the placement; ``None`` if there is none."""
    best: tuple[float, np.ndarray[Any, Any]] | None = None
    for choice in itertools.product(range(instance.num_nodes), repeat=instance.num_tasks):
        node = np.array(choice, dtype=np.int32)
        if evaluate_indices(instance, node).feasible:
            gain = imc_gain_of(instance, node)
            if best is None or gain > best[0]:
                best = gain, node
    return best
