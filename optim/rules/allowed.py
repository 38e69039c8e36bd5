"""Where a task may be. ``allowed``: one with a list of allowed nodes is on one of these."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optim.figures.measures import entered_leaving
from optim.rules.base import Form, Rule, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim.format.instance import Instance
    from optim.rules.placement import Placement


def _present(instance: Instance) -> str | None:
    restricted = instance.tasks.restricted
    return f"tasks[].allowed (of {instance.tasks.ids[restricted[0]]})" if len(restricted) else None


def _dropped(instance: Instance) -> Instance:
    everywhere = (None,) * len(instance.operators.ids)
    return instance.with_allowed((), ()).with_values("operators", group_allowed=everywhere)


def _violations(placement: Placement) -> Iterator[Violation]:
    instance, node = placement.instance, placement.node
    table = instance.tasks
    at = node[table.restricted]
    there = table.allowed_indices == np.repeat(at, np.diff(table.allowed_indptr))
    for t in table.restricted[~table.any_allowed(there) & (at >= 0)]:
        where = f"{table.ids[t]} on {instance.nodes.ids[node[t]]}"
        yield Violation("allowed", where, 1.0, 1.0, 0.0)


ALLOWED = Rule(
    name="allowed",
    field="tasks[].allowed",
    form=Form.MASK,
    present=_present,
    dropped=_dropped,
    violations=_violations,
    mended=True,
)


# ``leaving``: nothing comes onto a leaving node but from another, or what may only go there.


def _leaving_present(instance: Instance) -> str | None:
    leaving = np.flatnonzero(instance.nodes.leaving)
    if not len(leaving) or instance.limits.into_leaving:
        return None
    return f"nodes[].leaving (of {instance.nodes.ids[leaving[0]]})"


def _leaving_violations(placement: Placement) -> Iterator[Violation]:
    instance, node = placement.instance, placement.node
    for t in np.flatnonzero(entered_leaving(instance, node)):
        where = f"{instance.tasks.ids[t]} on {instance.nodes.ids[node[t]]}"
        yield Violation("leaving", where, 1.0, 1.0, 0.0)


LEAVING = Rule(
    name="leaving",
    field="nodes[].leaving",
    form=Form.LEAVING,
    present=_leaving_present,
    dropped=lambda instance: instance.with_values("limits", into_leaving=True),
    violations=_leaving_violations,
    mended=True,
)
