"""Policies that choose numbers of tasks: ``ds2`` alone, ``scale`` with nodes and their placement.

``ds2`` gives every operator as many tasks as its threads need to carry `headroom` times the input,
operator by operator (V. Kalavri et al., *Three steps is all you need*, OSDI 2018, section 3.2), and
places them on the nodes that are there for the highest rate.

``scale`` leaves alone what carries between `least` and `most` times the input. Else it takes the
plan of `formulations.throughput.scale`: the fewest nodes that carry `headroom` times the input, on
these the fewest tasks. Nodes that the plan empties are marked, and released at the next look.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.throughput.scale import ranges_of, scale
from optim.errors import InvalidInput, Problem
from optim.format.parallelism import at_parallelism
from optim.format.plan import Plan
from optim.methods.solve import solve
from optim.plugins import Option, loaded, read_options
from streamplace.policies.policy import Added, Decision, Policy, PolicyFactory, judged

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats
    from streamplace.policies.policy import State

_SECONDS = 10.0


@dataclass(frozen=True)
class _Parallelism(Policy):
    """What both share."""

    headroom: float = 1.2  # Multiple of the current input that is to be carried after a change.
    #: Of the search.
    seed: int = 0
    time_limit: float | None = None

    def check(self, instance: Instance) -> None:
        """Refuse an instance without tasks."""
        if not instance.num_tasks:
            reason = "has no tasks, of which a policy could choose the number"
            raise InvalidInput(Problem("tasks", None, reason, "name another instance"))


def _changed(instance: Instance, parallelism: Mapping[str, int]) -> dict[str, int]:
    """Return the numbers of tasks that are not what they are."""
    index = instance.operators.index
    return {o: n for o, n in parallelism.items() if n != len(instance.tasks_of(index[o]))}


def _in_words(instance: Instance, changed: Mapping[str, int]) -> str:
    index = instance.operators.index
    return ", ".join(f"{o} {len(instance.tasks_of(index[o]))} → {n}" for o, n in changed.items())


@dataclass(frozen=True)
class DS2(_Parallelism):
    """Numbers of tasks by what their threads need, whatever the nodes."""

    def check(self, instance: Instance) -> None:
        """Refuse an instance that does not say what a task of an operator with load can use."""
        super().check(instance)
        driven, tasks = list(instance.rate_driven), instance.tasks
        endless = np.isinf(tasks.max_load[:, driven]) | (tasks.load[:, driven] == 0)
        unknown = endless.all(axis=1) & (tasks.load[:, driven] > 0).any(axis=1)
        operators = np.unique(tasks.operator[unknown & (tasks.operator >= 0)]).tolist()
        if operators:
            names = ", ".join(instance.operators.ids[o] for o in operators[:5])
            more = f" and {len(operators) - 5} more" if len(operators) > 5 else ""
            reason = f"is not given for {names}{more}: ds2 counts tasks by what one can use"
            what = instance.resources[driven[0]]
            remedy = f"give it, such as {{{what!r}: 1}} for one thread, or take the policy scale"
            raise InvalidInput(Problem("operators[].max_load", None, reason, remedy))

    def decide(self, state: State, instance: Instance, now: float) -> Decision:
        """Compare the numbers of tasks with the least that carry the rate."""
        ranges, reasons = ranges_of(instance, self.headroom)
        if reasons:
            return Decision(state, f"no parallelism carries {self.headroom:g} × the input: "
                            f"{'; '.join(reasons)}")  # fmt: skip
        changed = _changed(instance, {instance.operators.ids[o]: n for o, (n, _) in ranges.items()})
        if not changed:
            return Decision(
                state, f"threads carry {self.headroom:g} × the input with as many tasks"
            )
        words = _in_words(instance, changed)
        running = judged(instance)
        if running is not None and running.sustainable_rate is None:
            return Decision(state, "nothing grows with the input")
        scaled = at_parallelism(instance, changed)
        result = solve(
            scaled, objective="sustainable_rate", seed=self.seed,
            time_limit=_SECONDS if self.time_limit is None else self.time_limit,
        )  # fmt: skip
        if result.plan is None or not result.feasible:
            return Decision(state, f"{words}: no placement on the nodes there are")
        plan = Plan(
            instance.name, dict(result.plan.assignment), parallelism=changed, method="ds2",
            claimed_instance_sha256=instance.sha256,
        )  # fmt: skip
        return Decision(state, words, plan, parallelism=changed, objective="sustainable_rate")


@dataclass(frozen=True)
class ScalePolicy(_Parallelism):
    """Numbers of tasks, nodes and placement together."""

    #: Multiples of the current input between which nothing is done.
    least: float = 1.0
    most: float = 2.0

    def decide(self, state: State, instance: Instance, now: float) -> Decision:
        """Scale where what runs carries too little, or far more than is needed."""
        in_use = np.bincount(instance.tasks.node[instance.tasks.node >= 0],
                           minlength=instance.num_nodes) > 0  # fmt: skip
        marked = [name for name in _marked(state) if name in instance.nodes.ids]
        free = tuple(name for name in marked if not in_use[instance.nodes.ids.index(name)])
        state = {**state, "marked": [name for name in marked if name not in free]}
        evaluation = judged(instance)
        carried = 0.0 if evaluation is None else evaluation.sustainable_rate
        if carried is None:
            return Decision(state, "nothing grows with the input", release=free)
        reason = f"carries {carried:.4g} × the input" if evaluation else "tasks without a node"
        if self.least <= carried <= self.most:
            return Decision(state, reason, release=free)
        scaled = scale(instance, self.headroom, seed=self.seed)
        if scaled.plan is None:
            why = "proven that no plan" if scaled.infeasible else "no plan was found that"
            return Decision(state, f"{reason}; {why} carries {self.headroom:g} ×", release=free)
        changed = _changed(instance, scaled.parallelism)
        nodes = {*scaled.plan.assignment.values()}
        # fewer nodes, or as many with fewer tasks: else a change brings nothing
        fewer = (len(nodes), len(scaled.plan.assignment)) < (int(in_use.sum()), instance.num_tasks)
        if carried >= self.least and not fewer:
            return Decision(state, f"{reason}; no fewer nodes or tasks do", release=free)
        mark = tuple(
            name for n, name in enumerate(instance.nodes.ids) if in_use[n] and name not in nodes
        )
        add = tuple(Added(name, like) for name, like in scaled.plan.added_nodes.items())
        parts = [
            reason,
            f"{len(nodes)} nodes carry {self.headroom:g} ×",
            _in_words(instance, changed),
        ]
        return Decision(
            {**state, "marked": sorted({*state["marked"], *mark})},
            "; ".join(filter(None, parts)), scaled.plan, None, add, mark, (), free,
            parallelism=changed, objective="sustainable_rate", otherwise=state,
        )  # fmt: skip


def _marked(state: State) -> list[str]:
    """Return the nodes that a plan before empties."""
    marked = state.get("marked", [])
    if not isinstance(marked, list) or not all(isinstance(name, str) for name in marked):
        raise InvalidInput(
            Problem("state.marked", marked, "is no list of nodes", "begin a new state")
        )
    return marked


_HEADROOM = Option(
    "headroom", "float", 1.2, "multiple of the input that is to be carried", minimum=1e-3
)
_BETWEEN = (
    Option("least", "float", 1.0, "below this multiple of the input more is added", minimum=0.0),
    Option("most", "float", 2.0, "above this one less is looked for", minimum=0.0),
)


def _scaling(given: Mapping[str, Any], seed: int, time_limit: float | None) -> Policy:
    if not given["least"] <= given["headroom"] <= given["most"]:
        reason = "is not between least and most"
        remedy = "give one between them: otherwise every look changes something"
        raise InvalidInput(Problem("--policy scale:headroom", given["headroom"], reason, remedy))
    return ScalePolicy(given["headroom"], seed, time_limit, given["least"], given["most"])


DS2_RULE = PolicyFactory(
    "ds2", "numbers of tasks by what their threads need (DS2), on the nodes there are",
    lambda given, seed, limit: DS2(given["headroom"], seed, limit), (_HEADROOM,),
)  # fmt: skip
SCALE = PolicyFactory(
    "scale", "numbers of tasks, nodes and placement together, as `streamplace scale`",
    _scaling, (_HEADROOM, *_BETWEEN),
)  # fmt: skip


# Scaling decisions on planned loads: how many nodes to add, which to let go.


@dataclass(frozen=True, eq=False)
class ScalingView:
    """What a rule decides on: the plan that would be deployed, not what runs."""

    period: int  # Number of the period.
    #: Periods since nodes were last added or marked; a large number when they never were.
    since_change: int
    load: Floats  # (N,) load of each node under the plan, first resource.
    capacity: Floats  # (N,) its capacity; ``inf`` where not given.
    #: (N,) marked already; may be marked (no key group is bound to it).
    leaving: Bools
    may_leave: Bools
    load_distance: float  # Of the plan.
    template_capacity: float  # Capacity of a node that would be added.


@dataclass(frozen=True)
class ScalingDecision:
    """What to change: nodes to add, to mark for removal, to recall from it (indices)."""

    add: int = 0
    mark: tuple[int, ...] = ()
    recall: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.add or self.mark or self.recall)


ScalingRule = Callable[[ScalingView], ScalingDecision]
"""Decides on scaling; an empty decision for nothing."""


@dataclass(frozen=True)
class NoScaling:
    """Leaves the nodes as they are."""

    def __call__(self, view: ScalingView) -> ScalingDecision:
        """Decide nothing."""
        return ScalingDecision()


@dataclass(frozen=True)
class UtilisationThreshold:
    """Keeps the utilisation of the staying nodes between two thresholds.

    Above `upper`, marked nodes are recalled (largest first), then nodes are added, until the load
    is at most `target` of the capacity. Below `lower`, the nodes with least planned load are marked
    as long as the others stay at or below `target`.
    """

    #: Utilisation of all staying nodes together.
    upper: float = 0.8
    lower: float = 0.5
    target: float = 0.65
    #: Fewest and most staying nodes; ``None`` for any number.
    min_nodes: int = 1
    max_nodes: int | None = None
    cooldown: int = 2  # Periods after a change before nodes are marked.
    #: Nodes are not marked while the plan is less balanced than this; ``None`` to do so anyway.
    max_load_distance: float | None = None
    full_load: float | None = None  # Capacity of a node of weight 1 where it is not the instance's.

    def __call__(self, view: ScalingView) -> ScalingDecision:
        """Compare the utilisation with the thresholds; every node needs a capacity."""
        capacity, template = self._capacity(view)
        stay = ~view.leaving
        total, offered = float(view.load.sum()), float(capacity[stay].sum())
        if total > self.upper * offered:
            return self._more(view, capacity, template, total, offered)
        balanced = self.max_load_distance is None or view.load_distance <= self.max_load_distance
        if total < self.lower * offered and view.since_change > self.cooldown and balanced:
            return self._fewer(view, capacity, total, offered)
        return ScalingDecision()

    def _capacity(self, view: ScalingView) -> tuple[Floats, float]:
        if self.full_load is not None:
            return np.full(len(view.load), self.full_load), self.full_load
        if not np.isfinite(view.capacity).all() or not math.isfinite(view.template_capacity):
            reason, what = "needs nodes[].capacity of the first resource", "it"
            value = None
        elif view.template_capacity <= 0:
            reason = "is the capacity of the staying nodes, of which none can be added"
            value, what = view.template_capacity, "one a capacity"
        else:
            return view.capacity, view.template_capacity
        remedy = f"give {what}, or --scaling-option full_load=100, or --scaling none"
        raise InvalidInput(Problem("--scaling utilisation", value, reason, remedy))

    def _more(
        self, view: ScalingView, capacity: Floats, template: float, total: float, offered: float
    ) -> ScalingDecision:
        # capacity for which the load is `target` of it
        needed, staying = total / self.target, int((~view.leaving).sum())
        most = math.inf if self.max_nodes is None else self.max_nodes
        recall = []
        for node in sorted(np.flatnonzero(view.leaving).tolist(), key=lambda i: -capacity[i]):
            if offered < needed and staying < most:
                recall.append(node)
                offered, staying = offered + float(capacity[node]), staying + 1
        add = max(0, math.ceil((needed - offered) / template - 1e-9))
        return ScalingDecision(int(min(add, max(0, most - staying))), recall=tuple(recall))

    def _fewer(
        self, view: ScalingView, capacity: Floats, total: float, offered: float
    ) -> ScalingDecision:
        mark: list[int] = []
        staying = int((~view.leaving).sum())
        # least loaded first: fewest key groups to move
        for node in np.argsort(view.load, kind="stable").tolist():
            if view.leaving[node] or not view.may_leave[node]:
                continue
            rest = offered - float(capacity[node])
            if staying <= max(1, self.min_nodes) or total > self.target * rest:
                continue
            mark.append(node)
            offered, staying = rest, staying - 1
        return ScalingDecision(mark=tuple(mark))


def _share(name: str, default: float, help: str) -> Option:
    return Option(name, "float", default, help, minimum=1e-6, maximum=10.0)


OPTIONS: tuple[Option, ...] = (
    _share("upper", 0.8, "utilisation above which nodes are added"),
    _share("lower", 0.5, "utilisation below which nodes are marked"),
    _share("target", 0.65, "utilisation aimed at"),
    Option("min_nodes", "int", 1, "fewest staying nodes", minimum=1),
    Option("max_nodes", "int", None, "most staying nodes", minimum=1),
    Option("cooldown", "int", 2, "periods after a change before nodes are marked", minimum=0),
    Option("max_load_distance", "float", None, "mark nodes only when as balanced", minimum=0),
    Option("full_load", "float", None, "capacity of a node, in place of its own", minimum=1e-9),
)
"""Parameters of `UtilisationThreshold` as `--scaling-option` takes them."""


@dataclass(frozen=True)
class ScalingChoice:
    """A rule by name with its parameters, as a replay's record holds it."""

    name: str = "none"
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def make(self) -> ScalingRule:
        """Return the rule.

        Raises `InvalidInput`: there is none of that name, or it does not take the parameters.
        """
        if self.name not in ("none", "utilisation"):
            return _own_rule(self.name, self.parameters)
        where, options = "--scaling-option {}", OPTIONS if self.name == "utilisation" else ()
        values = read_options(self.name, options, self.parameters, where=where, noun="parameter")
        if not options:
            return NoScaling()
        if not values["lower"] < values["target"] <= values["upper"]:
            reason = "must lie above lower and not above upper"
            remedy = (
                f"give a target from {values['lower']:g} to {values['upper']:g}, or other bounds"
            )
            raise InvalidInput(Problem("--scaling-option target", values["target"], reason, remedy))
        return UtilisationThreshold(**values)


def _own_rule(name: str, parameters: Mapping[str, Any]) -> ScalingRule:
    """Load ``module:factory`` and call it with the parameters; it returns the rule."""
    factory = loaded(name, "--scaling", "none, utilisation, or module:factory of your own")
    try:
        inspect.signature(factory).bind(**parameters)
    except TypeError as error:
        remedy = f"give the parameters that it has: {inspect.signature(factory)}"
        raise InvalidInput(Problem("--scaling-option", None, f"{name}: {error}", remedy)) from None
    rule: ScalingRule = factory(**parameters)
    return rule
