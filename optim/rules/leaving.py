"""``leaving``: nothing comes onto a leaving node but from another, or what may only go there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from optim.figures.measures import entered_leaving
from optim.rules.base import Form, Rule
from optim.rules.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim.format.instance import Instance
    from optim.rules.placement import Placement


def _present(instance: Instance) -> str | None:
    leaving = np.flatnonzero(instance.nodes.leaving)
    if not len(leaving) or instance.limits.into_leaving:
        return None
    return f"nodes[].leaving (of {instance.nodes.ids[leaving[0]]})"


def _dropped(instance: Instance) -> Instance:
    return replace(instance, limits=replace(instance.limits, into_leaving=True))


def _violations(placement: Placement) -> Iterator[Violation]:
    instance, node = placement.instance, placement.node
    for t in np.flatnonzero(entered_leaving(instance, node)):
        where = f"{instance.tasks.ids[t]} on {instance.nodes.ids[node[t]]}"
        yield Violation("leaving", where, 1.0, 1.0, 0.0)


LEAVING = Rule(
    name="leaving",
    field="nodes[].leaving",
    form=Form.LEAVING,
    present=_present,
    dropped=_dropped,
    violations=_violations,
    mended=True,
)
