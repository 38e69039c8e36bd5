"""What a policy is, and what it decides.

A policy holds no state of its own: what it remembers is a small object of JSON values that it is
given and gives back, so that a decision can be repeated, stored, and made by another process.
"""

from __future__ import annotations

import copy
import json
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import InvalidInput, Problem, StreamplaceError
from optim.figures.catalogue import FIGURES
from optim.format.parallelism import spoken_of
from optim.format.plan import Plan
from optim.referee import evaluate
from streamplace.policies.nodes import Deployment

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from optim.format.instance import Instance
    from optim.plugins import Option
    from optim.referee import Evaluation

State = dict[str, Any]
"""What a policy remembers: JSON values; ``{}`` before the first decision."""

_MOST_LOOKS = 1_000_000_000


@dataclass(frozen=True)
class Added:
    """A node to add: its name in the plan, and the node that it is like."""

    id: str
    like: str


@dataclass(frozen=True, eq=False)
class Planned:
    """What a planner wants deployed."""

    deployment: Deployment | None  # ``None`` when there is no plan; what runs then goes on.
    #: As in the result of a method; ``None`` where split key groups leave no placement to judge.
    termination: str
    feasible: bool | None
    note: str = ""  # Why there is no plan, or what was ignored.
    #: What the method's objective comes to on what it planned with, and a proven bound on it;
    #: ``None`` where unknown.
    objective: float | None = None
    bound: float | None = None
    plan: Plan | None = None  # The method's own, where it made one: with slots, if it decides them.
    aim: str | None = None  # Name of the objective.
    #: What the planner remembers where this is carried out, and where it is not; ``None``: what it
    #: was given.
    memory: Mapping[str, Any] = field(default_factory=dict)
    otherwise: Mapping[str, Any] | None = None


@dataclass(frozen=True, eq=False)
class Decision:
    """What is to change now, and why; nothing, where only `state` and `reason` are given."""

    state: State  # What the policy is to be given the next time.
    reason: str = ""  # In words.
    #: Where everything goes, all tasks of `instance`; ``None``: what runs goes on.
    plan: Plan | None = None
    #: What the plan is for: the instance that was decided on, with its changes of nodes and of
    #: parallelism; ``None`` for the very instance, and for a plan that states the parallelism,
    #: which makes an instance of its own.
    instance: Instance | None = None
    add: tuple[Added, ...] = ()  # Nodes to add.
    #: Names of nodes to empty, to go on using, and to turn off, as they are empty.
    mark: tuple[str, ...] = ()
    recall: tuple[str, ...] = ()
    release: tuple[str, ...] = ()
    #: Operator to its new number of tasks; operators that keep theirs may be left out.
    parallelism: Mapping[str, int] = field(default_factory=dict)
    objective: str | None = None  # Name of the figure that was optimised; ``None`` where none was.
    planned: Planned | None = None  # What the planner said of it, where one planned.
    #: What the policy is to be given in place of `state` where the change is not carried out;
    #: ``None``: the state of before.
    otherwise: State | None = None

    @property
    def scales(self) -> bool:
        """Whether nodes or numbers of tasks change."""
        nodes = self.add or self.mark or self.recall or self.release
        return bool(nodes or self.parallelism)

    def there(self, instance: Instance) -> Instance:
        """Return what the plan is for."""
        if self.instance is None and self.plan is not None and self.plan.parallelism is not None:
            return spoken_of(instance, self.plan)[0]
        return self.instance or instance

    def moved(self, instance: Instance) -> list[int]:
        """Return the tasks of the plan's instance that run elsewhere now, or nowhere."""
        if self.plan is None:
            return []
        target = self.there(instance)
        node = self.plan.node_indices(target)
        names = instance.nodes.ids
        current = {
            task: names[n] if n >= 0 else None
            for task, n in zip(instance.tasks.ids, instance.tasks.node.tolist(), strict=True)
        }
        return [
            t
            for t, (task, n) in enumerate(zip(target.tasks.ids, node.tolist(), strict=True))
            if current.get(task) != target.nodes.ids[n]
        ]

    def kind(self, instance: Instance) -> str:
        """Return ``scale``, ``move`` or ``keep``."""
        if self.scales:
            return "scale"
        return "move" if self.moved(instance) else "keep"

    def plan_on(self, instance: Instance) -> Plan | None:
        """Return the plan as one of the instance that was decided on, where that has all of it."""
        plan, target = self.plan, self.instance
        if plan is None or target is None or target is instance or plan.parallelism is not None:
            return plan
        # nodes that the policy has added or dropped change the numbers
        index = {name: n for n, name in enumerate(instance.nodes.ids)}
        node = [index.get(target.nodes.ids[n], -1) for n in plan.node_indices(target).tolist()]
        if target.tasks.ids != instance.tasks.ids or -1 in node:
            return plan
        return Plan.from_indices(
            instance, node, plan.slot_indices(target), plan.method, plan.versions
        )

    def deployment(self, instance: Instance) -> Deployment:
        """Return what runs then, by nodes of the plan's instance."""
        if self.planned is not None and self.planned.deployment is not None:
            return self.planned.deployment
        if self.plan is not None:
            return Deployment.whole(self.plan.node_indices(self.there(instance)))
        return Deployment.whole(self.there(instance).tasks.node)


def judged(instance: Instance, plan: Plan | None = None) -> Evaluation | None:
    """Return the referee's verdict on a plan, or on what runs; ``None`` where a task has no node.

    Raises `InvalidInput`: the plan is of another instance.
    """
    if plan is None:
        if (instance.tasks.node < 0).any():
            return None
        plan = Plan.from_indices(instance, instance.tasks.node)
    return evaluate(instance, plan)


def figures_of(evaluation: Evaluation | None) -> dict[str, Any] | None:
    """Return feasibility and the figures that are one number each."""
    if evaluation is None:
        return None
    by_name = {figure.name: getattr(evaluation, figure.name) for figure in FIGURES}
    numbers = {
        name: value
        for name, value in by_name.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    return {"feasible": evaluation.feasible, **numbers}


class Registered(ABC):
    """What an entry point of ``streamplace.policies``, or a file, holds: a policy, or its maker."""

    #: Its name and one line.
    name: str
    summary: str
    options: tuple[Option, ...]  # Typed, with defaults.
    #: Whether options it does not declare go on to a method that it plans with, as texts.
    passes_on: bool

    @abstractmethod
    def make(self, options: Mapping[str, Any], seed: int, time_limit: float | None) -> Any:
        """Return a `Policy`, or a planner that `Algorithm1` asks.

        `time_limit`: seconds of a plan.
        """


@dataclass(frozen=True)
class PolicyFactory(Registered):
    """Makes a policy from options; see `Registered`."""

    name: str
    summary: str
    maker: Callable[[Mapping[str, Any], int, float | None], Any]
    options: tuple[Option, ...] = ()
    passes_on: bool = False

    def make(self, options: Mapping[str, Any], seed: int, time_limit: float | None) -> Any:
        """Return what the maker makes."""
        return self.maker(options, seed, time_limit)


class Policy(Registered):
    """Decides what to change.

    A policy of one's own derives from it: its `decide` is all that it needs, and a `name` where it
    is registered. `check` refuses instances that it cannot decide on.
    """

    name = ""
    summary = ""
    options = ()
    passes_on = False
    period: float = 60.0
    """Seconds that a period of a recording stands for."""

    def make(self, options: Mapping[str, Any], seed: int, time_limit: float | None) -> Any:
        """Return the policy itself."""
        return self

    def check(self, instance: Instance) -> None:
        """Refuse an instance that the policy cannot decide on, before anything starts.

        Raises `UnsuitableMethod, InvalidInput`: it lacks what the policy, or a method that plans,
            cannot do without.
        """
        return

    def meets(self, instance: Instance, deployment: Deployment) -> Deployment:
        """Return the deployment as it stands under other loads: routing may follow at once."""
        return deployment

    @abstractmethod
    def decide(self, state: State, instance: Instance, now: float) -> Decision:
        """Decide.

        `state`: what the last decision left; ``{}`` at first. It is not to be changed.
        `instance`: what runs, with its measured loads: the current placement is
            `instance.tasks.node`.
        `now`: seconds, from any beginning.
        Raises `InvalidInput`: the state is none of this policy, by path.
        """


def remembered(
    memory: Mapping[str, Any],
    name: str,
    default: float | None = None,
    where: str = "state",
    *,
    least: float = 0.0,
    whole: bool = False,
) -> Any:
    """Return a number of a policy's memory; the default for none, and for null.

    `least`: the smallest that it may be; moments, from any origin, have none.
    `whole`: whether it counts something.
    Raises `InvalidInput`: what stands there is no such number.
    """
    value = memory.get(name)
    if value is None:
        return default
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not abs(value) <= sys.float_info.max:
        reason = "is no number"
    elif whole and (value != int(value) or value > _MOST_LOOKS):
        reason = f"is no whole number up to {_MOST_LOOKS}"
    elif value < least:
        reason = f"is less than {least:g}"
    else:
        return int(value) if whole else value
    raise InvalidInput(Problem(f"{where}.{name}", value, reason, "begin a new state"))


def decide(policy: Policy, state: State, instance: Instance, now: float) -> Decision:
    """Ask a policy, and check what it says: whoever wrote it, nothing else is carried out.

    Raises `InvalidInput`: it fails, or decides what cannot be: by name, with the reason.
    """
    try:
        decision = policy.decide(copy.deepcopy(state), instance, now)
        fault = _fault(decision, instance)
    except (StreamplaceError, KeyboardInterrupt):
        raise
    except Exception as error:
        # a fault of our own keeps its traceback
        if type(policy).__module__.partition(".")[0] in ("streamplace", "optim"):
            raise
        fault = f"fails: {type(error).__name__}: {error}"
    if fault is None:
        return decision
    name = policy.name or type(policy).__name__
    raise InvalidInput(
        Problem(f"policy {name}", None, fault, "correct the policy; nothing was changed")
    )


def _fault(decision: Any, instance: Instance) -> str | None:
    """Say what is wrong with a decision; ``None`` where nothing is."""
    if not isinstance(decision, Decision):
        return f"returns {type(decision).__name__}, not a Decision"
    for state in (decision.state, decision.otherwise or {}):
        try:
            json.dumps(state, allow_nan=False)
        except (TypeError, ValueError) as error:
            return f"returns a state that is not JSON: {error}"
    unknown = {*decision.mark, *decision.recall, *decision.release} - {*instance.nodes.ids}
    unknown |= {one.like for one in decision.add} - {*instance.nodes.ids}
    unknown |= {*decision.parallelism} - {*instance.operators.ids}
    if unknown:
        return f"names {', '.join(sorted(map(str, unknown))[:5])}, which the instance does not have"
    if decision.plan is not None:
        target = decision.there(instance)
        node = decision.plan.node_indices(target)
        missing = [target.tasks.ids[t] for t in np.flatnonzero(node < 0)[:5].tolist()]
        if missing:
            return f"leaves {', '.join(missing)} without a node of the instance"
    return None
