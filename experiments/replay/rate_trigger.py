"""``rate-trigger``: plan for rate when there is little headroom, and only if it is worth it.

A running placement carries a multiple of the present input rate (`sustainable_rate`). Nothing is
done while that is at least `headroom`. Below it a fresh plan is made within the instance's budget,
and replaces the running one if it carries at least `gain` percent more, whether or not it carries
the input yet: partial relief counts. So load that swings around
the threshold moves nothing to and fro. `pause` periods pass between two plans that are made.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from experiments.replay.policies import Planned, Trigger, keeps_limits, triggering
from optim.errors import InvalidInput, Problem
from optim.figures.rate import SUSTAINABLE_RATE
from optim.options import Option
from optim.referee.evaluate import evaluate_indices
from optim.rules.excess import worsened

if TYPE_CHECKING:
    from experiments.replay.deployment import Deployment
    from optim.format.instance import Instance

OPTIONS = (
    Option("method", "str", "throughput-search", "what makes the fresh plan"),
    Option("headroom", "float", 1.2, "multiple of the present rate that is enough", minimum=0.0),
    Option("gain", "float", 10.0, "least gain in that multiple, percent", minimum=0.0),
    Option("pause", "int", 3, "periods from one plan that is made to the next", minimum=0),
)

SINCE = "periods_since_plan"
"""What is remembered: periods since a plan was made."""


@dataclass(frozen=True)
class RateTrigger(Trigger):
    """Plans for rate where headroom is short.

    Attributes
    ----------
    headroom, gain, pause
        As `OPTIONS`.
    """

    headroom: float = 1.2
    gain: float = 10.0
    pause: int = 3

    def check(self, instance: Instance) -> None:
        """Refuse an instance that the method cannot plan, or that nothing limits.

        Raises
        ------
        UnsuitableMethod
            The method lacks a part of the instance.
        InvalidInput
            No node and no link has a capacity.
        """
        super().check(instance)
        limited = np.isfinite(instance.nodes.capacity[:, list(instance.rate_driven)]).any()
        if not limited and not len(instance.links.ids):
            reason, remedy = "are given for no node, nor links", "rate-trigger needs one of them"
            raise InvalidInput(Problem("nodes[].capacity", None, reason, remedy))

    def plan(self, instance: Instance, deployment: Deployment, seed: int) -> Planned:
        """Look at the measured loads, and plan anew if they leave too little headroom."""
        since = deployment.memory.get(SINCE, [np.inf])[0] + 1
        kept = replace(deployment, memory={SINCE: [min(since, 1e300)]})
        fits = keeps_limits(instance, deployment)
        now = sustained(instance, deployment)
        if now >= self.headroom:
            return Planned(kept, "kept", fits)
        short = f"carries {now:.4g} times the rate"
        if since <= self.pause:
            return Planned(kept, "kept", fits, f"{short}; a plan was made {since:g} periods ago")
        fresh = self.planner.plan(instance, deployment, seed)
        remembered = {SINCE: [0.0]}
        kept = replace(deployment, memory=remembered)
        if fresh.deployment is None:
            return Planned(kept, fresh.termination, False, fresh.note)
        then = sustained(instance, fresh.deployment)
        worth = then >= now * (1.0 + self.gain / 100.0) and then > now
        if not worth or not _is_no_worse(instance, deployment, fresh.deployment):
            return Planned(kept, "kept", fits, f"{short}; the fresh plan carries {then:.4g}")
        note = "; ".join(filter(None, (f"{short}, the plan {then:.4g}", fresh.note)))
        after = replace(fresh.deployment, memory=remembered)
        return Planned(after, fresh.termination, fresh.feasible, note)


def sustained(instance: Instance, deployment: Deployment) -> float:
    """Return the multiple of the present rate that a deployment carries; ``inf`` where any."""
    rate = evaluate_indices(instance, deployment.node.astype(np.int32)).sustainable_rate
    return np.inf if rate is None else rate


def _is_no_worse(instance: Instance, old: Deployment, new: Deployment) -> bool:
    """Whether a deployment breaks no limit, beside those that the rate measures, more than now."""
    binding = SUSTAINABLE_RATE.binding(instance)
    now, then = (
        evaluate_indices(binding, each.node.astype(np.int32)).violations for each in (old, new)
    )
    return not worsened(now, then)


RATE_TRIGGER = triggering(
    "rate-trigger",
    "plans for rate when headroom is short and the plan carries enough more",
    RateTrigger,
    OPTIONS,
)
