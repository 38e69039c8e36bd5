"""``crossing_cost``: what crosses nodes loads them; no limit of its own, but a part of all loads.

Capacity, least loads and load distance are of loads that depend on who is with whom. Engines that
add up the loads of tasks alone do not see that, and refuse.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from optim.rules.base import Form, Rule

if TYPE_CHECKING:
    from optim.format.instance import Instance
    from optim.rules.placement import Placement
    from optim.rules.violation import Violation


def _present(instance: Instance) -> str | None:
    if not instance.crossing_cost.any():
        return None
    resource = int(np.flatnonzero(instance.crossing_cost.any(axis=0))[0])
    return f"crossing_cost (of {instance.resources[resource]})"


def _dropped(instance: Instance) -> Instance:
    return replace(instance, crossing_cost=np.zeros_like(instance.crossing_cost))


def _violations(placement: Placement) -> tuple[Violation, ...]:
    return ()


CROSSING_COST = Rule(
    name="crossing_cost",
    field="crossing_cost",
    form=Form.CROSSING,
    present=_present,
    dropped=_dropped,
    violations=_violations,
)
