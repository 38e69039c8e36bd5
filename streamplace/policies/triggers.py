"""Policies that ask a method for a plan once something calls for it.

``change-trigger`` plans anew when load has changed (Chatzistergiou and Viglas 2014, 7.4). The paper
plans again "when the rate changes" and does not say by how much: what is looked at is the load of
the first resource on all nodes together, against the one that the running plan was made for. Noise
below `change` percent sets nothing off, and a slow drift does once it adds up.

``rate-trigger`` plans for rate when there is little headroom, and only if it is worth it. A running
placement carries a multiple of the current input rate (`sustainable_rate`). Nothing is done while
that is at least `headroom`. Below it a fresh plan is made within the instance's budget, and
replaces the running one if it carries at least `gain` percent more, whether or not it carries the
input yet: partial relief counts. So load that swings around the threshold moves nothing to and fro.
`pause` periods pass between two plans that are made.

``storm-trigger`` reschedules when Storm's online scheduler does (Aniello et al. 2013, 3.2.1). A
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

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import InvalidInput, Problem
from optim.figures.load import SUSTAINABLE_RATE
from optim.figures.measures import node_loads
from optim.plugins import Option
from optim.referee import evaluate_indices
from optim.rules import worsened
from streamplace.policies.nodes import Deployment, collocated_traffic
from streamplace.policies.planners import Trigger
from streamplace.policies.policy import remembered
from streamplace.policies.registry import triggering

if TYPE_CHECKING:
    from optim.format.instance import Instance
    from optim.format.tables import Ints
    from streamplace.policies.planners import Memory
    from streamplace.policies.policy import Planned

PLANNED_LOAD = "planned_load"
SINCE_PLAN = "periods_since_plan"
"""What is remembered: the load that the running plan was made for; periods since one was made."""


@dataclass(frozen=True)
class ChangeTrigger(Trigger):
    """Plans when load is off the one last planned for, by more than `change` percent."""

    change: float = 10.0

    def plan(self, instance: Instance, memory: Memory, seed: int, now: float) -> Planned:
        """Compare the load with the one that was planned for; the first period is planned.

        A plan that is not to be had is asked for again in the next period.
        """
        load = float(instance.totals[0])
        before = remembered(memory, PLANNED_LOAD)
        still = before is not None and abs(load - before) <= self.change / 100.0 * before
        if still and not _is_part(instance.tasks.node):
            return self.keep(instance, memory)
        why = "first plan" if before is None else f"load {load:.4g}, planned for {before:.4g}"
        return self.replan(instance, seed, lambda _: (True, why), {PLANNED_LOAD: load}, memory)


@dataclass(frozen=True)
class RateTrigger(Trigger):
    """Plans for rate where headroom is short."""

    headroom: float = 1.2  # Multiple of the present rate that is enough.
    gain: float = 10.0  # Least gain in that multiple, percent.
    pause: int = 3  # Periods from one plan that is made to the next.

    def check(self, instance: Instance) -> None:
        """Refuse an instance that the method cannot plan, or that no node and no link limits."""
        super().check(instance)
        limited = np.isfinite(instance.nodes.capacity[:, list(instance.rate_driven)]).any()
        if not limited and not len(instance.links.ids):
            reason, remedy = "are given for no node, nor links", "rate-trigger needs one of them"
            raise InvalidInput(Problem("nodes[].capacity", None, reason, remedy))

    def plan(self, instance: Instance, memory: Memory, seed: int, now: float) -> Planned:
        """Look at the measured loads, and plan anew if they leave too little headroom."""
        since = remembered(memory, SINCE_PLAN)
        since = None if since is None else since + 1
        running = instance.tasks.node
        carried = _sustained(instance, running)
        memory = {} if since is None else {SINCE_PLAN: since}
        if carried >= self.headroom:
            return self.keep(instance, memory)
        short = f"carries {carried:.4g} times the rate"
        if since is not None and since <= self.pause and not _is_part(running):
            return self.keep(instance, memory, f"{short}; a plan was made {since:g} periods ago")

        def judge(fresh: Deployment) -> tuple[bool, str]:
            reached = _sustained(instance, fresh.placement)
            worth = reached >= carried * (1.0 + self.gain / 100.0) and reached > carried
            # limits beside those that the rate measures are violated no more than now
            binding, pair = SUSTAINABLE_RATE.binding(instance), (running, fresh.placement)
            broken = [evaluate_indices(binding, node).violations for node in pair]
            accepted = worth and not worsened(*broken)
            what = ", the plan" if accepted else "; the new plan carries"
            return accepted, f"{short}{what} {reached:.4g}"

        reset = {SINCE_PLAN: 0}
        return self.replan(instance, seed, judge, reset, reset)


def _is_part(node: Ints) -> bool:
    """Whether tasks have no node, as after its loss: no trigger waits then."""
    return bool((node < 0).any())


def _sustained(instance: Instance, node: Ints) -> float:
    """Return the multiple of the present rate that a placement carries; ``inf`` where any."""
    # a placement that leaves tasks without a node carries nothing
    if _is_part(node):
        return 0.0
    rate = evaluate_indices(instance, node).sustainable_rate
    return np.inf if rate is None else rate


CHANGE_TRIGGER = triggering(
    "change-trigger", "plans anew when load is off the one last planned for", ChangeTrigger,
    (
        Option("method", "str", "top-down", "what makes the fresh plan"),
        Option("change", "float", 10.0, "load must differ by more, percent", minimum=0.0),
    ),
)  # fmt: skip

RATE_TRIGGER = triggering(
    "rate-trigger", "plans for rate when headroom is short and the plan carries enough more",
    RateTrigger,
    (
        Option("method", "str", "throughput-search", "what makes the fresh plan"),
        Option("headroom", "float", 1.2, "multiple of the present rate that is enough", minimum=0),
        Option("gain", "float", 10.0, "least gain in that multiple, percent", minimum=0.0),
        Option("pause", "int", 3, "periods from one plan that is made to the next", minimum=0),
    ),
)  # fmt: skip


OVERLOADED, SINCE_SCHEDULE, LOOKED = "overloaded_for", "since_schedule", "looked"
"""What is remembered: seconds of overload without a break (of each node that is overloaded),
seconds since the last schedule was made, and when the last look was."""


@dataclass(frozen=True)
class StormTrigger(Trigger):
    """Reschedules on overload, or for less traffic between nodes."""

    #: X, R and P of the paper, and the seconds that a period lasts.
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
        last = remembered(memory, LOOKED, least=-math.inf)
        # a clock that went back counts as no time
        elapsed = self.period if last is None else max(0.0, now - last)
        overload = self._overloaded_for(instance, memory, elapsed)
        since = remembered(memory, SINCE_SCHEDULE)
        since = None if since is None else since + elapsed
        lasting = {
            name: seconds
            for name, seconds in zip(instance.nodes.ids, overload.tolist(), strict=True)
            if seconds
        }
        updated = {OVERLOADED: lasting, LOOKED: now}
        if since is not None and since < self.interval and not _is_part(instance.tasks.node):
            why = "overloaded, but " if (overload > self.window).any() else ""
            note = f"{why}{self.interval - since:g} s to wait for the next schedule"
            return self.keep(instance, {**updated, SINCE_SCHEDULE: since}, note)

        def judge(fresh: Deployment) -> tuple[bool, str]:
            reason = self._why(instance, fresh, overload)
            return reason is not None, reason or "the new schedule gains too little"

        otherwise = {**updated, SINCE_SCHEDULE: 0.0}
        return self.replan(instance, seed, judge, {**otherwise, OVERLOADED: {}}, otherwise)

    def _overloaded_for(self, instance: Instance, memory: Memory, elapsed: float) -> Any:
        """(N,) seconds for which each node has been at or above its capacity without a break."""
        loads = node_loads(instance, instance.tasks.node)[:, 0]
        seconds = memory.get(OVERLOADED, {})
        if not isinstance(seconds, dict):
            remedy = "begin a new state"
            raise InvalidInput(Problem(f"state.{OVERLOADED}", seconds, "is no object", remedy))
        where = f"state.{OVERLOADED}"
        before = np.array([remembered(seconds, n, 0.0, where) or 0.0 for n in instance.nodes.ids])
        # 1e-9: at capacity but for rounding
        full = (loads >= instance.nodes.capacity[:, 0] * (1 - 1e-9)) & (loads > 0)
        return np.where(full, before + elapsed, 0.0)

    def _why(self, instance: Instance, new: Deployment, overload: Any) -> str | None:
        """Say why the fresh schedule is taken; ``None`` when it is not."""
        if _is_part(instance.tasks.node):
            return "tasks without a node get one"
        old = Deployment.whole(instance.tasks.node)
        late = np.flatnonzero(overload > self.window)
        if len(late):
            before, after = (node_loads(instance, d.placement)[:, 0] for d in (old, new))
            lower = [n for n in late.tolist() if after[n] < before[n] * (1 - 1e-9)]
            highest = [_highest_utilisation(instance, loads) for loads in (before, after)]
            # nor is the overload moved elsewhere: the highest utilisation of all falls, too
            if lower and highest[1] < highest[0] * (1 - 1e-9):
                name = instance.nodes.ids[lower[0]]
                return f"{name} was overloaded for {overload[lower[0]]:g} s"
        total = instance.total_traffic
        old_flow, new_flow = (total - collocated_traffic(instance, d) for d in (old, new))
        if old_flow > 0 and old_flow - new_flow > (self.gain / 100.0 + 1e-9) * old_flow:
            return f"{100.0 * (old_flow - new_flow) / old_flow:.3g} % less traffic between nodes"
        return None


def _highest_utilisation(instance: Instance, loads: Any) -> float:
    """Return the highest of all nodes; a node without capacity has 0 without load, else ``inf``."""
    capacity = instance.nodes.capacity[:, 0]
    shares = np.where(loads > 0, np.inf, 0.0)
    np.divide(loads, capacity, out=shares, where=capacity > 0)
    return float(shares.max())


STORM_TRIGGER = triggering(
    "storm-trigger", "reschedules on overload, or for less traffic between nodes", StormTrigger,
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
