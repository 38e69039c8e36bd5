"""Read ``[cluster]``, ``[limits]`` and ``[units]`` of a job description."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from experiments.traces.job import ClusterSpec
from optim.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from experiments.sweep.checking import Checker

MAX_NODES = 100_000

_KEYS = ("nodes", "capacity", "resource", "load_scale", "utilisation", "placement")


def read_cluster(check: Checker, top: Mapping[str, Any]) -> ClusterSpec | None:
    """Return the cluster; problems go to the checker."""
    if "cluster" not in top:
        if "limits" in top:
            check.add("limits", None, "is of no use without [cluster]")
        return None
    table = check.table(top["cluster"], "cluster")
    if table is None:
        return None
    check.keys(table, "cluster", _KEYS)
    resource = check.text(table.get("resource", "cpu"), "cluster.resource") or "cpu"
    capacity = None
    if "capacity" in table:
        capacity = check.number(table["capacity"], "cluster.capacity", above=0)
    nodes = _nodes(check, table.get("nodes"), resource, capacity)
    scale = utilisation = None
    if "load_scale" in table:
        scale = check.number(table["load_scale"], "cluster.load_scale", above=0)
    if "utilisation" in table:
        utilisation = check.number(table["utilisation"], "cluster.utilisation", above=0)
        if scale is not None:
            check.add("cluster.utilisation", utilisation, "stands beside load_scale", "give one")
        if any(resource not in node.get("capacity", {}) for node in nodes):
            check.add("cluster.utilisation", utilisation, "needs a capacity", "add capacity = 100")
    placement = check.text(table.get("placement", "round-robin"), "cluster.placement")
    limits = check.table(top.get("limits", {}), "limits") or {}
    if not check.problems:
        _check_as_instance(check, nodes, limits, resource)
    return ClusterSpec(
        tuple(nodes), resource, scale, utilisation, placement or "round-robin", limits
    )


def read_units(check: Checker, value: Any) -> dict[str, str]:
    """Return the units of instances."""
    table = check.table(value, "units") or {}
    return {key: text for key in table if (text := check.text(table[key], f"units.{key}"))}


def _nodes(
    check: Checker, value: Any, resource: str, capacity: float | None
) -> list[dict[str, Any]]:
    given = {} if capacity is None else {"capacity": {resource: capacity}}
    if isinstance(value, list) and value:
        entries = [check.table(item, f"cluster.nodes[{i}]") or {} for i, item in enumerate(value)]
        return [given | entry for entry in entries]
    if value is None:
        check.add("cluster.nodes", None, "is missing", "a number, or a list of tables")
        return []
    count = check.whole(value, "cluster.nodes", 1, MAX_NODES)
    width = len(str((count or 1) - 1))
    return [{"id": f"n{i:0{width}d}", **given} for i in range(count or 0)]


def _check_as_instance(
    check: Checker, nodes: list[dict[str, Any]], limits: Mapping[str, Any], resource: str
) -> None:
    """Let the instance format judge nodes and limits, so that both mean the same there."""
    from optim.instance import Instance

    document = {
        "format": "streamplace.instance/1",
        "name": "cluster",
        "resources": [resource],
        "nodes": nodes,
        "limits": limits,
        "tasks": [{"id": "t"}],
    }
    try:
        Instance.from_dict(document)
    except InvalidInput as error:
        for problem in error.problems:
            prefix = "cluster." if problem.path.startswith("nodes") else ""
            path = f"{prefix}{problem.path}"
            check.problems.append(Problem(path, problem.value, problem.reason, problem.remedy))
