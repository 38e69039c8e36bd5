"""``change-trigger``: plan anew when load has changed (Chatzistergiou and Viglas 2014, 7.4).

The paper plans again "when the rate changes" and does not say by how much: what is looked at is the
load of the first resource on all nodes together, against the one that the running plan was made
for. Noise below `change` percent sets nothing off, and a slow drift does once it adds up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from experiments.replay.policies import Planned, Trigger, keeps_limits, triggering
from optim.options import Option

if TYPE_CHECKING:
    from experiments.replay.deployment import Deployment
    from optim.format.instance import Instance

OPTIONS = (
    Option("method", "str", "top-down", "what makes the fresh plan"),
    Option("change", "float", 10.0, "load must differ by more, percent", minimum=0.0),
)

PLANNED = "planned_load"
"""What is remembered: the load that the running plan was made for."""


@dataclass(frozen=True)
class ChangeTrigger(Trigger):
    """Plans when load is off the one last planned for.

    Attributes
    ----------
    change
        As `OPTIONS`.
    """

    change: float = 10.0

    def plan(self, instance: Instance, deployment: Deployment, seed: int) -> Planned:
        """Compare the load with the one that was planned for; the first period is planned.

        A plan that is not to be had is asked for again in the next period.
        """
        load = float(instance.totals[0])
        before = deployment.memory.get(PLANNED, [None])[0]
        if before is not None and abs(load - before) <= self.change / 100.0 * before:
            return Planned(deployment, "kept", keeps_limits(instance, deployment))
        fresh = self.planner.plan(instance, deployment, seed)
        if fresh.deployment is None:
            return Planned(deployment, fresh.termination, False, fresh.note)
        known = "first plan" if before is None else f"load {load:.4g}, planned for {before:.4g}"
        after = replace(fresh.deployment, memory={PLANNED: [load]})
        note = "; ".join(filter(None, (known, fresh.note)))
        return Planned(after, fresh.termination, fresh.feasible, note)


CHANGE_TRIGGER = triggering(
    "change-trigger",
    "plans anew when load is off the one last planned for",
    ChangeTrigger,
    OPTIONS,
)
