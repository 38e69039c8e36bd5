"""When a decision is carried out: if it is worth it, not too often, and not at the first sign.

A plan is worth its moves if it breaks no rule more than what runs now, and makes the objective
better by at least `gain` of what it is, or what is broken now less by as much: partial relief
counts, whether or not the plan keeps every rule yet. Between two changes `cool_down` seconds pass,
and a change is made once `confirm` looks in a row have wanted one.

What it, and its policy, remember outlives the process in a file; one writer at a time.
"""

from __future__ import annotations

import contextlib
import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optim.errors import InvalidInput, Problem
from optim.figures.catalogue import find_objective
from optim.format.document import parse_json
from optim.rules import excess_of, rounding_of, worsened
from optim.util.files import read_bytes, write_atomic
from optim.util.store import Lock
from streamplace.policies.policy import Decision, Policy, judged, remembered

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim.format.instance import Instance
    from optim.referee import Evaluation
    from streamplace.policies.nodes import Deployment
    from streamplace.policies.policy import State


@dataclass(frozen=True)
class Guarded(Policy):
    """A policy whose changes have to be worth it."""

    policy: Policy  # That decides.
    gain: float = 0.1  # Least improvement, as a share of what is.
    cool_down: float = 3600.0  # Seconds from one change to the next.
    confirm: int = 1  # Looks in a row that want a change before one is made.

    @property
    def period(self) -> float:  # type: ignore[override]
        """Seconds that a period of a recording stands for."""
        return self.policy.period

    def check(self, instance: Instance) -> None:
        """Refuse an instance that the policy cannot decide on."""
        self.policy.check(instance)

    def meets(self, instance: Instance, deployment: Deployment) -> Deployment:
        """Return the deployment as it stands under other loads."""
        return self.policy.meets(instance, deployment)

    def decide(self, state: State, instance: Instance, now: float) -> Decision:
        """Ask the policy, and hold back what is not worth it, or too early."""
        inner, streak = state.get("policy", {}), remembered(state, "wanted", 0, whole=True)
        changed = remembered(state, "changed", least=-math.inf)
        if not isinstance(inner, dict):
            raise InvalidInput(Problem("state.policy", inner, "is no object", "begin a new state"))
        decision = self.policy.decide(inner, instance, now)
        after = {"policy": decision.state, "wanted": 0, "changed": changed}
        scales = decision.add or decision.mark or decision.recall or decision.parallelism
        if not scales and not decision.moved(instance):
            return replace(decision, state=after, otherwise=None)
        otherwise = inner if decision.otherwise is None else decision.otherwise
        # what the policy believes if its change is not carried out
        waiting = {"policy": otherwise, "wanted": streak + 1, "changed": changed}
        why_not, figures = self._worth(decision, instance)
        reason = "; ".join(filter(None, (decision.reason, figures)))
        if why_not is not None:
            waiting["wanted"] = 0
        elif streak + 1 < self.confirm:
            why_not = f"wanted at {streak + 1} of {self.confirm} looks in a row"
        # a clock that was set back must not make it wait for years
        elif changed is not None and 0 <= now - changed < self.cool_down:
            why_not = f"cooling down, {self.cool_down - (now - changed):.0f} s more"
        if why_not is not None:
            return Decision(waiting, f"{reason}; {why_not}", release=decision.release)
        return replace(decision, state={**after, "changed": now}, reason=reason, otherwise=waiting)

    def _worth(self, decision: Decision, instance: Instance) -> tuple[str | None, str]:
        """Return why a change is not worth it, or ``None``, and its figures in words."""
        if decision.plan is None or decision.parallelism:
            return None, ""  # nothing that could be compared
        target = decision.instance or instance
        planned, current = judged(target, decision.plan), judged(target)
        assert planned is not None
        if current is None:
            return None, "tasks without a node get one"
        if worse := worsened(current.violations, planned.violations):
            return f"the plan violates {worse[0]}", ""
        figures, best = [], 0.0
        excess = [excess_of(target, e.violations) for e in (current, planned)]
        if excess[0] > 0:
            figures.append(f"excess {excess[0]:.4g} now, {excess[1]:.4g} planned")
            # relief beyond rounding counts even if the objective gets no better
            less = excess[0] - excess[1]
            if less > rounding_of(target, current.violations):
                best = less / excess[0]
        gain = gain_of(decision.objective, current, planned)
        if gain is not None:
            before, value, share = gain
            figures.append(
                f"{decision.objective} {before:.6g} now, {value:.6g} planned ({share:+.1%})"
            )
            # the larger of both: less excess, or a better objective
            best = max(best, share)
        elif not figures:
            return None, ""
        scales = decision.add or decision.mark or decision.recall
        enough = scales or (best > 0 and best >= self.gain)
        why_not = None if enough else "not worth the moves"
        return why_not, ", ".join(figures)


def gain_of(
    name: str | None, current: Evaluation, planned: Evaluation
) -> tuple[float, float, float] | None:
    """Return an objective's value now and then, and by which share of itself it gets better.

    That is 0 where it does not, and 1 where it was 0; ``None`` where there is no objective, or it
    is unknown.
    """
    if name is None:
        return None
    before, after = current.objective(name), planned.objective(name)
    if before is None or after is None:
        return None
    better = after - before if str(find_objective(name).sense) == "max" else before - after
    if better <= 0:
        return before, after, 0.0
    return before, after, better / abs(before) if before else 1.0


STATE_FORMAT = "streamplace.policy_state/1"
_MOST = 64 << 20


class StateFile:
    """The state of a policy.

    `path`: the file; it is made by the first `save`.
    `policy`: as ``--policy`` has it, with what else decides on the meaning of the state.
    """

    def __init__(self, path: str | Path, policy: str) -> None:
        self.path, self.policy = Path(path), policy

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep every other controller from the state.

        Raises `InvalidInput`: one has it.
        """
        if self.path.is_dir():
            raise InvalidInput(Problem("--state", str(self.path), "is a folder", "name a file"))
        if not self.path.parent.is_dir():
            raise InvalidInput(Problem("--state", str(self.path.parent), "is no folder", "make it"))
        reason = "is in use by another controller"
        remedy = "wait for it, or end it: one controller decides at a time"
        lock = Lock(self.path.with_name(f"{self.path.name}.lock"))
        with lock.alone(Problem("--state", str(self.path), reason, remedy)):
            yield

    def load(self) -> State:
        """Return the state; ``{}`` where there is no file.

        Raises `InvalidInput`: the file is no state, or that of another policy.
        """
        if not self.path.exists():
            return {}
        try:
            content = parse_json(read_bytes(self.path, _MOST))
            self._check(content)
        except InvalidInput as error:
            remedy = "name another file, or remove it to begin anew"
            problems = [Problem(p.path, p.value, p.reason, remedy) for p in error.problems]
            raise InvalidInput(problems, str(self.path)) from None
        state: State = content["state"]
        return state

    def _check(self, content: Any) -> None:
        stated = content.get("format") if isinstance(content, dict) else None
        if stated != STATE_FORMAT:
            raise InvalidInput(Problem("format", stated, f"is not {STATE_FORMAT}"))
        if content.get("policy") != self.policy:
            reason = f"is not the policy {self.policy}"
            raise InvalidInput(Problem("policy", content.get("policy"), reason))
        if not isinstance(content.get("state"), dict):
            raise InvalidInput(Problem("state", content.get("state"), "is no object"))
        if unknown := sorted(set(content) - {"format", "policy", "state"}):
            raise InvalidInput(Problem(unknown[0], content[unknown[0]], "is no key of a state"))

    def save(self, state: State) -> None:
        """Write the state, as a whole."""
        content = {"format": STATE_FORMAT, "policy": self.policy, "state": state}
        write_atomic(self.path, json.dumps(content, ensure_ascii=False, allow_nan=False) + "\n")
