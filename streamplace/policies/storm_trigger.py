"""``storm-trigger`` reschedules when Storm's online scheduler does (Aniello et al. 2013, 3.2.1). A
running schedule is replaced

- when a node's load has been at or above its capacity for longer than `window` seconds, and the
  fresh schedule lowers the load of an overloaded node; or
- at most once in `interval` seconds, when a fresh schedule lowers the traffic between nodes by more
  than `gain` percent.

A load is taken to have lasted since the look before; at the first look, for `period` seconds, the
length of a period of a recording. Whatever keeps a node overloaded, `interval` also spaces the
attempts after an overload, so that a cluster without a better schedule is not scheduled anew at
every look.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import InvalidInput, Problem
from optim.figures.measures import node_loads
from optim.options import Option
from streamplace.policies.deployment import Deployment, collocated_traffic
from streamplace.policies.planners import Trigger
from streamplace.policies.policy import remembered
from streamplace.policies.registry import triggering

if TYPE_CHECKING:
    from optim.format.instance import Instance
    from streamplace.policies.planners import Memory
    from streamplace.policies.policy import Planned

OVERLOADED, SINCE_SCHEDULE, LOOKED = "overloaded_for", "since_schedule", "looked"
"""What is remembered: seconds of overload without a break (of each node that is overloaded),
seconds since the last schedule was made, and when the last look was."""


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

    def plan(self, instance: Instance, memory: Memory, seed: int, now: float) -> Planned:
        """Look at the measured loads, and schedule anew if they ask for it."""
        last = remembered(memory, LOOKED)
        elapsed = self.period if last is None else max(0.0, now - last)
        over = self._overloaded_for(instance, memory, elapsed)
        since = remembered(memory, SINCE_SCHEDULE)
        since = None if since is None else since + elapsed
        lasting = {
            name: seconds
            for name, seconds in zip(instance.nodes.ids, over.tolist(), strict=True)
            if seconds
        }
        seen = {OVERLOADED: lasting, LOOKED: now}
        if since is not None and since < self.interval:
            why = "overloaded, but " if (over > self.window).any() else ""
            note = f"{why}{self.interval - since:g} s to wait for the next schedule"
            return self.keep(instance, {**seen, SINCE_SCHEDULE: since}, note)

        def judge(fresh: Deployment) -> tuple[bool, str]:
            reason = self._why(instance, fresh, over)
            return reason is not None, reason or "the fresh schedule is not worth it"

        otherwise = {**seen, SINCE_SCHEDULE: 0.0}
        return self.replan(instance, seed, judge, {**otherwise, OVERLOADED: {}}, otherwise)

    def _overloaded_for(self, instance: Instance, memory: Memory, elapsed: float) -> Any:
        """(N,) seconds for which each node has been at or above its capacity without a break."""
        loads = node_loads(instance, instance.tasks.node)[:, 0]
        known = memory.get(OVERLOADED, {})
        if not isinstance(known, dict):
            remedy = "begin a new state"
            raise InvalidInput(Problem(f"state.{OVERLOADED}", known, "is no object", remedy))
        where = f"state.{OVERLOADED}"
        before = np.array([remembered(known, n, 0.0, where) or 0.0 for n in instance.nodes.ids])
        full = (loads >= instance.nodes.capacity[:, 0] * (1 - 1e-9)) & (loads > 0)
        return np.where(full, before + elapsed, 0.0)

    def _why(self, instance: Instance, new: Deployment, over: Any) -> str | None:
        """Say why the fresh schedule is taken; ``None`` when it is not."""
        old = Deployment.whole(instance.tasks.node)
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
        Option("period", "float", 60.0, "seconds of a period, and of a first look", minimum=1e-9),
    ),
)  # fmt: skip
