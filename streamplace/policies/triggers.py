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
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from optim.errors import InvalidInput, Problem
from optim.figures.rate import SUSTAINABLE_RATE
from optim.options import Option
from optim.referee.evaluate import evaluate_indices
from optim.rules.excess import worsened
from streamplace.policies.planners import Trigger
from streamplace.policies.policy import remembered
from streamplace.policies.registry import triggering

if TYPE_CHECKING:
    from optim.format.instance import Instance
    from optim.format.tables import Ints
    from streamplace.policies.deployment import Deployment
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
        if before is not None and abs(load - before) <= self.change / 100.0 * before:
            return self.keep(instance, memory)
        why = "first plan" if before is None else f"load {load:.4g}, planned for {before:.4g}"
        return self.replan(instance, seed, lambda _: (True, why), {PLANNED_LOAD: load}, memory)


@dataclass(frozen=True)
class RateTrigger(Trigger):
    """Plans for rate where headroom is short.

    Attributes
    ----------
    headroom
        Multiple of the present rate that is enough.
    gain
        Least gain in that multiple, percent.
    pause
        Periods from one plan that is made to the next.
    """

    headroom: float = 1.2
    gain: float = 10.0
    pause: int = 3

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
        if since is not None and since <= self.pause:
            return self.keep(instance, memory, f"{short}; a plan was made {since:g} periods ago")

        def judge(fresh: Deployment) -> tuple[bool, str]:
            then = _sustained(instance, fresh.placement)
            worth = then >= carried * (1.0 + self.gain / 100.0) and then > carried
            taken = worth and _is_no_worse(instance, running, fresh.placement)
            what = ", the plan" if taken else "; the fresh plan carries"
            return taken, f"{short}{what} {then:.4g}"

        made = {SINCE_PLAN: 0}
        return self.replan(instance, seed, judge, made, made)


def _sustained(instance: Instance, node: Ints) -> float:
    """Return the multiple of the present rate that a placement carries; ``inf`` where any."""
    rate = evaluate_indices(instance, node).sustainable_rate
    return np.inf if rate is None else rate


def _is_no_worse(instance: Instance, old: Ints, new: Ints) -> bool:
    """Whether a placement breaks no limit, beside those that the rate measures, more than now."""
    binding = SUSTAINABLE_RATE.binding(instance)
    now, then = (evaluate_indices(binding, each).violations for each in (old, new))
    return not worsened(now, then)


CHANGE_TRIGGER = triggering(
    "change-trigger",
    "plans anew when load is off the one last planned for",
    ChangeTrigger,
    (
        Option("method", "str", "top-down", "what makes the fresh plan"),
        Option("change", "float", 10.0, "load must differ by more, percent", minimum=0.0),
    ),
)

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
