"""Adaptation policies: what changes a running placement, step by step.

One object is a policy: ``decide(state, instance, now) -> Decision``. `replay` asks it on recorded
load, `decide` for one step, `watch` on a running system.
"""

from streamplace.policies.policy import Added, Decision, Policy, PolicyFactory, judged

__all__ = ["Added", "Decision", "Policy", "PolicyFactory", "judged"]
