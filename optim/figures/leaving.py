"""Whether the leaving nodes are empty; if not, what stays on them and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optim.figures.figure import Figure
from optim.util.tolerance import over

if TYPE_CHECKING:
    from collections.abc import Callable

    from optim.figures.placement import Placement

_NAMED = 20
REASONS: list[Callable[[Any, int], str | None]] = []
"""What says whether a rule keeps a task where it is; the rules, which lie above, add theirs."""


def _staying_tasks(placement: Placement) -> Any:
    """Tasks on leaving nodes."""
    node, leaving = placement.node, placement.instance.nodes.leaving
    if not leaving.any():
        return np.zeros(0, dtype=np.int64)
    return np.flatnonzero((node >= 0) & leaving[node])


def _drained(placement: Placement) -> bool | None:
    if not placement.instance.nodes.leaving.any():
        return None
    return not len(_staying_tasks(placement))


def _undrained(placement: Placement) -> dict[str, Any] | None:
    """What stays on leaving nodes: the number, the reasons with theirs, and the first tasks."""
    instance, tasks = placement.instance, _staying_tasks(placement)
    if not len(tasks):
        return None
    reasons = [_why(placement, int(task)) for task in tasks]
    why = dict.fromkeys(reasons, 0)
    for reason in reasons:
        why[reason] += 1
    return {
        "count": len(tasks),
        "nodes": [instance.nodes.ids[n] for n in np.unique(placement.node[tasks])],
        "why": why,
        "tasks": [
            {
                "task": instance.tasks.ids[task],
                "node": instance.nodes.ids[placement.node[task]],
                "why": reason,
            }
            for task, reason in zip(tasks[:_NAMED], reasons, strict=False)
        ],
    }


def _why(placement: Placement, task: int) -> str:
    """Say what keeps a task where it is, as far as the instance and the plan alone show it."""
    instance, limits = placement.instance, placement.instance.limits
    if not instance.has_open_node[task]:
        return "allowed only there"
    used_up = next(filter(None, (reason(placement, task) for reason in REASONS)), None)
    if used_up is not None:
        return used_up
    open_nodes = instance.open_nodes & instance.allowed_mask(task)
    most = instance.nodes.capacity[open_nodes] * limits.max_utilisation
    needed = placement.loads[open_nodes] + instance.tasks.load[task]
    if over(needed, most).any(axis=1).all():
        return "no staying node has the capacity left"
    return "not proven necessary"


DRAINED = Figure(
    "drained",
    "leaving nodes empty",
    "whether the leaving nodes hold no task; unknown where no node leaves",
    "flag",
    _drained,
    quiet=True,
    whole=False,
)
UNDRAINED = Figure(
    "undrained",
    "not drained",
    "what stays on leaving nodes: `count`, `nodes`, `why` (reason to number of tasks) and the "
    f"first {_NAMED} `tasks`, each with `node` and `why`",
    "table",
    _undrained,
    whole=False,
)
