"""Where tasks are: from a plan, from an instance, or read back out of an exported file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import Problem, raise_any

if TYPE_CHECKING:
    from optim.format.instance import Instance
    from optim.format.plan import Plan
    from optim.format.tables import Ints


@dataclass(frozen=True, eq=False)
class Places:
    """(T,) node index of each task, and (T,) slot index or ``None`` where slots are not decided."""

    node: Ints
    slot: Ints | None = None


def places_of_plan(instance: Instance, plan: Plan) -> Places:
    """Return where a plan puts the tasks of an instance.

    Raises
    ------
    InvalidInput
        The plan is for another instance, or leaves tasks out.
    """
    problems = []
    told = plan.instance_sha256
    if told not in (None, instance.sha256):
        reason = f"is not the hash of this instance ({instance.sha256[:12]}…)"
        remedy = "export with the instance the plan was made for"
        problems.append(Problem("instance_sha256", told, reason, remedy))
    node = plan.node_indices(instance)
    for name in [instance.tasks.ids[t] for t in np.flatnonzero(node < 0)[:20]]:
        place = plan.assignment.get(name)
        problems.append(Problem(f"assignment.{name}", place, "is no node of the instance"))
    for name in sorted(set(plan.assignment) - set(instance.tasks.ids))[:20]:
        problems.append(Problem(f"assignment.{name}", None, "is no task of the instance"))
    raise_any(problems)
    return Places(node, plan.slot_indices(instance))


def moves_to(instance: Instance, places: Places) -> dict[str, str]:
    """Return the new node of each task that is elsewhere than now."""
    moved = np.flatnonzero((places.node != instance.tasks.node) & (places.node >= 0)).tolist()
    return {instance.tasks.ids[t]: instance.nodes.ids[places.node[t]] for t in moved}


def with_places(instance: Instance, places: Places) -> Instance:
    """Return the instance with these places as its current placement; -1 leaves a task without."""
    from optim.format.instance import Instance

    document = instance.to_dict()
    entries: dict[str, dict[str, Any]] = {e["id"]: dict(e) for e in document.get("tasks", [])}
    for t, name in enumerate(instance.tasks.ids):
        entry = entries.setdefault(name, {"id": name})
        entry.pop("node", None)
        entry.pop("slot", None)
        if places.node[t] >= 0:
            entry["node"] = instance.nodes.ids[places.node[t]]
            if places.slot is not None and places.slot[t] >= 0:
                entry["slot"] = int(places.slot[t])
    return Instance.from_dict({**document, "tasks": list(entries.values())})
