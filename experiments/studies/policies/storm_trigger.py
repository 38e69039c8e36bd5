"""``storm-trigger`` reschedules when Storm's online scheduler does (Aniello et al. 2013, 3.2.1). A
running schedule is replaced

- when a node's load has been at or above its capacity for longer than `window` seconds, and the
  fresh schedule lowers the load of an overloaded node; or
- at most once in `interval` seconds, when a fresh schedule lowers the traffic between nodes by more
  than `gain` percent.

Periods last `period` seconds. Whatever keeps a node overloaded, `interval` also spaces the attempts
after an overload, so that a cluster without a better schedule is not scheduled anew every period.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.replay.deployment import collocated_traffic
from experiments.replay.policies import Trigger, triggering
from optim.errors import InvalidInput, Problem
from optim.figures.measures import node_loads
from optim.options import Option

if TYPE_CHECKING:
    from experiments.replay.deployment import Deployment
    from experiments.replay.policies import Planned
    from optim.format.instance import Instance

OVERLOADED, SINCE_SCHEDULE = "overloaded_for", "since_schedule"
"""What is remembered: seconds of overload without a break (of each node), and since the last
schedule was made."""

_LONGEST = 1e300


@dataclass(frozen=True)
class StormTrigger(Trigger):
    """Reschedules on overload, or for less traffic between nodes.

    Attributes
    ----------
    window, gain, interval, period
        X, R and P of the paper, and the seconds that a period lasts.
    """

    window: float = 60.0
    gain: float = 10.0
    interval: float = 180.0
    period: float = 60.0

    def check(self, instance: Instance) -> None:
        """Refuse an instance that the method cannot plan, or without any capacity."""
        super().check(instance)
        if not np.isfinite(instance.nodes.capacity[:, 0]).any():
            name = f"nodes[].capacity.{instance.resources[0]}"
            reason, remedy = "is given for no node", "storm-trigger needs it"
            raise InvalidInput(Problem(name, None, reason, remedy))

    def plan(self, instance: Instance, deployment: Deployment, seed: int) -> Planned:
        """Look at the measured loads, and schedule anew if they ask for it."""
        over = self._overloaded_for(instance, deployment)
        since = deployment.memory.get(SINCE_SCHEDULE, [np.inf])[0] + self.period
        memory = {OVERLOADED: over.tolist(), SINCE_SCHEDULE: [min(since, _LONGEST)]}
        if since < self.interval:
            why = "overloaded, but " if (over > self.window).any() else ""
            note = f"{why}{self.interval - since:g} s to wait for the next schedule"
            return self.keep(instance, replace(deployment, memory=memory), note)

        def judge(fresh: Deployment) -> tuple[bool, str]:
            reason = self._why(instance, deployment, fresh, over)
            return reason is not None, reason or "the fresh schedule is not worth it"

        memory = {**memory, SINCE_SCHEDULE: [0.0]}
        anew = {**memory, OVERLOADED: [0.0] * len(over)}
        return self.replan(instance, replace(deployment, memory=memory), seed, judge, anew)

    def _overloaded_for(self, instance: Instance, deployment: Deployment) -> Any:
        """(N,) seconds for which each node has been at or above its capacity without a break."""
        loads = node_loads(instance, deployment.placement)[:, 0]
        known = deployment.memory.get(OVERLOADED, [])
        before = np.array(known) if len(known) == len(loads) else np.zeros(len(loads))
        full = (loads >= instance.nodes.capacity[:, 0] * (1 - 1e-9)) & (loads > 0)
        return np.where(full, before + self.period, 0.0)

    def _why(self, instance: Instance, old: Deployment, new: Deployment, over: Any) -> str | None:
        """Say why the fresh schedule is taken; ``None`` when it is not."""
        late = np.flatnonzero(over > self.window)
        if len(late):
            before, after = (node_loads(instance, d.placement)[:, 0] for d in (old, new))
            lower = [n for n in late.tolist() if after[n] < before[n] * (1 - 1e-9)]
            highest = [_highest_utilisation(instance, loads) for loads in (before, after)]
            if lower and highest[1] < highest[0] * (1 - 1e-9):
                name = instance.nodes.ids[lower[0]]
                return f"{name} was overloaded for {over[lower[0]]:g} s"
        total = instance.total_traffic
        left, right = (total - collocated_traffic(instance, d) for d in (old, new))
        if left > 0 and left - right > (self.gain / 100.0 + 1e-9) * left:
            return f"{100.0 * (left - right) / left:.3g} % less traffic between nodes"
        return None


def _highest_utilisation(instance: Instance, loads: Any) -> float:
    """Return the highest of all nodes; a node without capacity has 0 without load, else ``inf``."""
    capacity = instance.nodes.capacity[:, 0]
    shares = np.where(loads > 0, np.inf, 0.0)
    np.divide(loads, capacity, out=shares, where=capacity > 0)
    return float(shares.max())


STORM_TRIGGER = triggering(
    "storm-trigger",
    "reschedules on overload, or for less traffic between nodes",
    StormTrigger,
    (
        Option("method", "str", "storm-online", "what makes the fresh schedule"),
        Option("window", "float", 60.0, "X: seconds of overload that are borne", minimum=0.0),
        Option(
            "gain", "float", 10.0, "R: traffic between nodes must fall by more, percent",
            minimum=0.0,
        ),
        Option("interval", "float", 180.0, "P: seconds between two schedules", minimum=0.0),
        Option("period", "float", 60.0, "seconds a period lasts", minimum=1e-9),
    ),
)  # fmt: skip
