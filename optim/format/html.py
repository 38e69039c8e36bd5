"""What a notebook shows of an instance and a plan: small tables, all text escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optim.format.instance import Instance
    from optim.format.plan import Plan

ROWS = 12


def instance_html(instance: Instance) -> str:
    """Return what an instance holds."""
    nodes, load = instance.nodes, instance.total_load
    head = ["node", "tasks", *instance.resources, "rack"]
    now = [0] * instance.num_nodes
    for n in instance.tasks.node.tolist():
        if n >= 0:
            now[n] += 1
    rows = [
        [nodes.ids[n], now[n], *map(figure, nodes.capacity[n]), _rack(instance, n)]
        for n in range(instance.num_nodes)
    ]
    loads = ", ".join(f"{r} {figure(a)}" for r, a in zip(instance.resources, load, strict=True))
    summary = (
        f"{instance.num_tasks} tasks of {instance.num_operators} operators on "
        f"{instance.num_nodes} nodes; load: {loads}; traffic {figure(instance.total_traffic)}"
    )
    return page(f"instance {instance.name}", summary, head, rows)


def plan_html(plan: Plan) -> str:
    """Return where a plan puts tasks, by node."""
    by_node: dict[str, list[str]] = {}
    for task, node in plan.assignment.items():
        by_node.setdefault(node, []).append(task)
    rows = [
        [node, len(tasks), ", ".join(tasks[:8]) + (" …" if len(tasks) > 8 else "")]
        for node, tasks in sorted(by_node.items())
    ]
    summary = f"of {plan.method or 'no method'}, sha256 {plan.sha256[:12]}…"
    title = f"plan for {plan.instance_name}"
    return page(title, summary, ["node", "tasks", ""], rows)


def _rack(instance: Instance, n: int) -> str:
    ids, rack = instance.nodes.rack_ids, int(instance.nodes.rack[n])
    return ids[rack] if 0 <= rack < len(ids) else ""


def figure(value: Any) -> str:
    """Write a number to four digits; ``None`` is unknown."""
    return "unknown" if value is None else f"{float(value):.4g}"


def page(
    title: str, summary: str, head: Sequence[str], rows: Sequence[Sequence[Any]], most: int = ROWS
) -> str:
    """Return a title, a line and a table of the first rows; all text is escaped."""
    cells = "".join(f"<th>{escape(text)}</th>" for text in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>"
        for row in rows[:most]
    )
    more = f"<p>and {len(rows) - most} more</p>" if len(rows) > most else ""
    return (
        f"<div><b>{escape(title)}</b><p>{escape(summary)}</p>"
        f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>{more}</div>"
    )
