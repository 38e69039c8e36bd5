"""The adaptation framework (Madsen, Zhou, Cao 2016, Algorithm 1) as a policy.

At each look: release marked nodes that are empty; plan on the measured loads; decide on nodes by
the planned loads; plan again if that changed the nodes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import InvalidInput, Problem
from optim.figures.measures import distance_of_loads
from optim.rules import hopeless, rules_of, without_limits
from optim.rules.base import OF_MOVES
from streamplace.policies.nodes import (
    Cluster,
    CostModel,
    Deployment,
    crossing_load,
    node_loads,
    on_cluster,
)
from streamplace.policies.parallelism import NoScaling, ScalingDecision, ScalingView
from streamplace.policies.policy import Added, Decision, Policy, remembered

if TYPE_CHECKING:
    from collections.abc import Iterable

    from optim.format.instance import Instance
    from optim.format.tables import Bools
    from streamplace.policies.parallelism import ScalingRule
    from streamplace.policies.planners import Planner
    from streamplace.policies.policy import Planned, State

_NEVER = 1_000_000
_LISTS = ("marked", "recalled", "released")


@dataclass(frozen=True)
class Algorithm1(Policy):
    """Plans with a planner, and adds and removes nodes by a rule."""

    planner: Planner  # Says what is to run on the nodes there are.
    #: Of nodes; a planner with which that makes no sense goes without.
    rule: ScalingRule = field(default_factory=NoScaling)
    #: Of serialisation, which the loads that are planned with do not have where nothing crosses.
    costs: CostModel = field(default_factory=CostModel)
    seed: int = 0  # Look n plans with seed + n, modulo 2³¹.
    #: Whether the rule sees the planned loads, as in the paper, or those that run.
    plan_first: bool = True

    @property
    def period(self) -> float:  # type: ignore[override]
        """Seconds that a period of a recording stands for."""
        return self.planner.period

    def check(self, instance: Instance) -> None:
        """Refuse an instance that cannot be planned."""
        self.planner.check(instance)

    def meets(self, instance: Instance, deployment: Deployment) -> Deployment:
        """Return the deployment as it stands under other loads."""
        return self.planner.meets(instance, deployment)

    def decide(self, state: State, instance: Instance, now: float) -> Decision:
        """Take one step of Algorithm 1."""
        looks = remembered(state, "looks", 0, whole=True)
        lists = {name: _names(state, name, instance) for name in _LISTS}
        memory = state.get("planner", {})
        if not isinstance(memory, dict):
            raise InvalidInput(
                Problem("state.planner", memory, "is no object", "begin a new state")
            )
        state = {**state, **lists, "looks": looks + 1}
        target, release = _released(_flagged(instance, lists["marked"], lists["recalled"]))
        names = target.nodes.ids
        state["template"] = names[_template(target, state.get("template"))]
        seed = (self.seed + looks) % 2**31  # of what methods take
        planned = self.planner.plan(target, memory, seed, now)
        scaling = self._scaling(target, planned, state, looks) if self.planner.scales else None
        otherwise = {**state, "planner": _after(planned, memory, carried_out=False)}
        add: tuple[Added, ...] = ()
        mark: tuple[str, ...] = ()
        recall: tuple[str, ...] = ()
        if scaling:
            mark = tuple(names[n] for n in scaling.mark)
            recall = tuple(names[n] for n in scaling.recall)
            add = self._added(state, scaling.add, names)
            target = _grown(_flagged(target, mark, recall), add)
            planned = self.planner.plan(target, memory, seed, now)
            marked = sorted({*lists["marked"], *mark} - {*recall})
            recalled = sorted({*lists["recalled"], *recall} - {*mark})
            added = remembered(state, "added", 0, whole=True)
            state |= {"marked": marked, "recalled": recalled, "changed": looks}
            state["added"] = added + len(add)
        fresh = tuple(name for name in release if name not in lists["released"])
        state |= {"planner": _after(planned, memory, carried_out=True)}
        state["released"] = otherwise["released"] = sorted(release)
        changed = target if target is not instance else None
        return Decision(
            state, _reason(planned, add, mark, recall, fresh), planned.plan, changed, add, mark,
            recall, fresh, objective=planned.aim, planned=planned, otherwise=otherwise,
        )  # fmt: skip

    def _scaling(
        self, instance: Instance, planned: Planned, state: State, looks: int
    ) -> ScalingDecision:
        """Show the rule the planned loads, serialisation counted anew."""
        before = Deployment.whole(instance.tasks.node)
        target = (planned.deployment or before) if self.plan_first else before
        # the rule sees what the plan would load, and not what serialisation costs now
        recorded = instance
        if target.is_whole and (self.costs.serialise or self.costs.deserialise):
            load = instance.tasks.load.copy()
            # measured loads hold serialisation where tasks are now: off, to be added where they go
            load[:, 0] -= crossing_load(instance, before, self.costs).sum(axis=1)
            recorded = replace(instance, tasks=replace(instance.tasks, load=load))
        loads = node_loads(recorded, target, self.costs)
        changed = remembered(state, "changed", -_NEVER, whole=True)
        template, capacity = _template(instance, state["template"]), instance.nodes.capacity[:, 0]
        decision = self.rule(
            ScalingView(
                period=looks, since_change=looks - changed, load=loads, capacity=capacity,
                leaving=instance.nodes.leaving, may_leave=may_leave(instance),
                load_distance=distance_of_loads(recorded, loads) or 0.0,
                template_capacity=float(capacity[template]),
            )
        )  # fmt: skip
        return (
            replace(decision, mark=_spared(instance, decision.mark)) if decision.mark else decision
        )

    def _added(self, state: State, count: int, names: tuple[str, ...]) -> tuple[Added, ...]:
        """Return nodes to add; names are never used twice."""
        number = remembered(state, "added", 0, whole=True)
        added: list[Added] = []
        while len(added) < count:
            number += 1
            if f"added-{number}" not in names:
                added.append(Added(f"added-{number}", state["template"]))
        return tuple(added)


def _after(planned: Planned, memory: dict[str, Any], carried_out: bool) -> dict[str, Any]:
    """Return what the planner remembers."""
    if carried_out or planned.plan is None:
        return dict(planned.memory)
    return dict(memory if planned.otherwise is None else planned.otherwise)


def _names(state: State, name: str, instance: Instance) -> list[str]:
    """Return a list of nodes of the state, those that are still there."""
    value = state.get(name, [])
    if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
        remedy = "begin a new state"
        raise InvalidInput(Problem(f"state.{name}", value, "is no list of nodes", remedy))
    return [entry for entry in value if entry in instance.nodes.ids]


def _flagged(instance: Instance, marked: Iterable[str], recalled: Iterable[str]) -> Instance:
    """Return the instance with nodes leaving that are marked, and staying that were recalled."""
    nodes, flags = instance.nodes, instance.nodes.leaving.copy()
    for names, leaving in ((marked, True), (recalled, False)):
        flags[[nodes.ids.index(name) for name in names]] = leaving
    same = (flags == nodes.leaving).all()
    return instance if same else replace(instance, nodes=replace(nodes, leaving=flags))


def _released(instance: Instance) -> tuple[Instance, tuple[str, ...]]:
    """Lines 1 to 3 of Algorithm 1: marked nodes that carry nothing are let go."""
    empty = instance.nodes.leaving.copy()
    node = instance.tasks.node
    empty[np.unique(node[node >= 0])] = False
    if not empty.any():
        return instance, ()
    cluster, new_index = Cluster.of(instance).without(empty)
    table = instance.tasks
    moved = np.where(node >= 0, new_index[node], -1)
    smaller = on_cluster(instance, cluster, table.load, moved, instance.limits, table.slot)
    return smaller, tuple(instance.nodes.ids[n] for n in np.flatnonzero(empty).tolist())


def _grown(instance: Instance, add: tuple[Added, ...]) -> Instance:
    if not add:
        return instance
    like, table = instance.nodes.ids.index(add[0].like), instance.tasks
    cluster = Cluster.of(instance).grown([one.id for one in add], like)
    return on_cluster(
        instance, cluster, table.load, table.node.astype(np.int64), instance.limits, table.slot
    )


def _template(instance: Instance, name: Any) -> int:
    """Added nodes are like the first one there was that stays and has a capacity."""
    nodes = instance.nodes
    if name in nodes.ids:
        return nodes.ids.index(name)
    # 2: stays and has a capacity, 1: stays, 0: leaves
    return int((~nodes.leaving * (1 + (nodes.capacity[:, 0] > 0))).argmax())


def _spared(instance: Instance, mark: tuple[int, ...]) -> tuple[int, ...]:
    """Return the nodes to mark without which a plan may exist: the rule sees one resource alone."""
    # budgets only delay the moves off a node
    free, table = without_limits(instance, rules_of(OF_MOVES)), instance.tasks

    def possible(leaving: Bools) -> bool:
        cluster, new_index = Cluster.of(free).without(leaving)
        moved = np.where(table.node >= 0, new_index[table.node], -1)
        return not hopeless(on_cluster(free, cluster, table.load, moved, free.limits, table.slot))

    # those that leave already count as gone, but where a task may be on these alone
    flags = instance.nodes.leaving & instance.has_open_node.all()
    flags[list(mark)] = True
    if possible(flags):
        return mark
    flags[list(mark)] = False
    spared = []
    for node in mark:
        flags[node] = possible(np.where(np.arange(len(flags)) == node, True, flags))
        spared += [node] if flags[node] else []
    return tuple(spared)


def may_leave(instance: Instance) -> Bools:
    """(N,) nodes that may leave together: each task keeps a staying node that it may be on.

    Of those that restricted tasks may be on, the fewest stay that a greedy search finds.
    """
    table, stay = instance.tasks, instance.open_nodes
    sets = {
        tuple(nodes[stay[nodes]].tolist())
        for nodes in np.split(table.allowed_indices, table.allowed_indptr[1:-1])
    } - {()}
    free = np.ones(instance.num_nodes, dtype=np.bool_)
    while sets:
        # greedy hitting set: the node that most tasks need stays
        uses = np.bincount([n for nodes in sets for n in nodes], minlength=instance.num_nodes)
        staying = int(uses.argmax())
        free[staying] = False
        sets = {nodes for nodes in sets if staying not in nodes}
    return free


def _reason(
    planned: Planned,
    add: tuple[Added, ...],
    mark: tuple[str, ...],
    recall: tuple[str, ...],
    release: tuple[str, ...],
) -> str:
    names = {"add": [one.id for one in add], "mark": mark, "recall": recall, "release": release}
    parts = [f"{what} {', '.join(some)}" for what, some in names.items() if some]
    return "; ".join([*parts, planned.note or planned.termination])
