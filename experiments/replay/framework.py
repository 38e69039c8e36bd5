"""The adaptation framework (Madsen, Zhou, Cao 2016, Algorithm 1), period after period.

Each period: drop marked nodes that are empty; plan on the measured loads; decide on scaling by the
planned loads; plan again if that changed the nodes; deploy. The deployment is scored on the period
it was planned on and on the next one, which it meets.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.replay.cluster import Cluster, on_cluster
from experiments.replay.deployment import (
    CostModel,
    Deployment,
    collocated_traffic,
    measured_load,
    node_loads,
)
from experiments.replay.scaling import ScalingDecision, ScalingView
from optim.figures.measures import distance_of_loads
from optim.rules import budgets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from experiments.replay.policies import Policy
    from experiments.replay.scaling import ScalingRule
    from optim.format.instance import Instance
    from optim.format.tables import Floats, Limits

_NEVER = 1_000_000


@dataclass(frozen=True)
class Setting:
    """What is the same for every policy of a replay.

    Attributes
    ----------
    periods
        The recording.
    costs
        Of serialisation and migration.
    rule
        Scaling decisions.
    seed
        Period p plans with seed + p.
    max_migrations, max_migration_cost
        Budgets of each period, in place of the recording's; ``None`` keeps those.
    plan_first
        Whether scaling is decided on the planned loads, as Algorithm 1 does, or on what runs.
    """

    periods: Sequence[Instance]
    costs: CostModel
    rule: ScalingRule
    seed: int = 0
    max_migrations: int | None = None
    max_migration_cost: float | None = None
    plan_first: bool = True

    def limits(self, period: Instance) -> Limits:
        """Return a period's limits with the budgets of the replay."""
        limits = period.limits
        if self.max_migrations is not None:
            limits = replace(limits, max_migrations=self.max_migrations)
        if self.max_migration_cost is not None:
            limits = replace(limits, max_migration_cost=self.max_migration_cost)
        return limits


@dataclass(frozen=True, eq=False)
class State:
    """Where a policy stands between two periods.

    Attributes
    ----------
    cluster, deployment
        Nodes and what runs on them.
    start_load
        Mean load of a node right after start-up: the base of the load index.
    changed
        Period in which nodes were last added, marked or recalled.
    """

    cluster: Cluster
    deployment: Deployment
    start_load: float
    changed: int = -_NEVER


def first_state(setting: Setting, policy: Policy) -> State:
    """Return the state before the first period.

    The base of the load index is the recording's own placement, whatever the policy starts with.
    """
    period = setting.periods[0]
    cluster = Cluster.of(period)
    recorded = Deployment.whole(period.tasks.node)
    instance = _recorded(setting, 0, cluster, recorded)
    start_load = float(node_loads(instance, recorded, setting.costs).mean())
    return State(cluster, policy.start(instance, recorded), start_load)


def check_policy(setting: Setting, policy: Policy) -> None:
    """Refuse a policy that cannot plan the first period.

    Raises
    ------
    InvalidInput
        See the policy's `check`.
    """
    period = setting.periods[0]
    deployment = Deployment.whole(period.tasks.node)
    policy.check(_measured(setting, 0, Cluster.of(period), deployment))


def step(
    setting: Setting, policy: Policy, number: int, state: State
) -> tuple[dict[str, Any], State]:
    """Run one period of Algorithm 1.

    Parameters
    ----------
    setting, policy
        What is replayed, and by whom.
    number
        Of the period.
    state
        After the period before.

    Returns
    -------
    tuple
        The period's row, and the state after it.
    """
    cluster, before, dropped = _drop_empty(state)
    met, _ = _met(setting, policy, number, cluster, before)
    instance = _measured(setting, number, cluster, before)
    planned = policy.plan(instance, before, setting.seed + number)
    decision = ScalingDecision()
    grown = cluster
    if policy.scales:
        target = (planned.deployment or before) if setting.plan_first else before
        decision = setting.rule(_view(setting, number, cluster, target, state.changed))
    if decision:
        grown = cluster.marked(decision.recall, leaving=False).marked(decision.mark)
        grown = grown.grown(decision.add, _template(setting))
        instance = _measured(setting, number, grown, before)
        planned = policy.plan(instance, before, setting.seed + number)
    after = planned.deployment or before
    distance_next, collocated_next = _met(setting, policy, number + 1, grown, after)
    row = {
        "period": number,
        "name": setting.periods[number].name,
        "load_distance_before": met,
        **_scores(setting, number, grown, before, after, state.start_load),
        "load_distance_next": distance_next,
        "collocation_factor_next": collocated_next,
        "nodes": len(grown),
        "leaving": sum(grown.leaving),
        "added": decision.add,
        "marked": len(decision.mark),
        "recalled": len(decision.recall),
        "dropped": dropped,
        "planned": planned.deployment is not None,
        "termination": planned.termination,
        "feasible": planned.feasible,
        "objective": planned.objective,
        "bound": planned.bound,
        "note": planned.note,
    }
    changed = number if decision else state.changed
    return row, State(grown, after, state.start_load, changed)


def _drop_empty(state: State) -> tuple[Cluster, Deployment, int]:
    """Lines 1 to 3 of Algorithm 1: marked nodes that carry nothing are removed."""
    empty = np.array(state.cluster.leaving, dtype=np.bool_)
    empty[np.unique(state.deployment.places)] = False
    if not empty.any():
        return state.cluster, state.deployment, 0
    cluster, new_index = state.cluster.without(empty)
    return cluster, state.deployment.moved_to(new_index), int(empty.sum())


def _recorded(setting: Setting, number: int, cluster: Cluster, deployment: Deployment) -> Instance:
    """Return a period on the cluster with its loads as recorded, without serialisation."""
    period = setting.periods[number]
    limits = setting.limits(period)
    return on_cluster(period, cluster, period.tasks.load, deployment.node, limits)


def _measured(setting: Setting, number: int, cluster: Cluster, deployment: Deployment) -> Instance:
    """Return a period as its statistics show it: each key group with its serialisation."""
    instance = _recorded(setting, number, cluster, deployment)
    if deployment.is_whole:
        load = measured_load(instance, deployment, setting.costs)
        instance = on_cluster(
            setting.periods[number], cluster, load, deployment.node, instance.limits
        )
    return instance


def _view(
    setting: Setting, number: int, cluster: Cluster, planned: Deployment, changed: int
) -> ScalingView:
    """Show a rule the planned loads, serialisation counted anew."""
    instance = _recorded(setting, number, cluster, planned)
    loads = node_loads(instance, planned, setting.costs)
    return ScalingView(
        period=number,
        since_change=number - changed,
        load=loads,
        capacity=instance.nodes.capacity[:, 0],
        leaving=instance.nodes.leaving,
        may_leave=_may_leave(instance),
        load_distance=distance_of_loads(instance, loads) or 0.0,
        template_capacity=float(setting.periods[0].nodes.capacity[_template(setting), 0]),
    )


def _may_leave(instance: Instance) -> Any:
    """(N,) nodes that may leave together: each key group keeps a staying node that it may be on.

    Of those that restricted key groups may be on, the fewest stay that a greedy search finds.
    """
    table, stay = instance.tasks, instance.open_nodes
    sets = {
        tuple(nodes[stay[nodes]].tolist())
        for nodes in np.split(table.allowed_indices, table.allowed_indptr[1:-1])
    } - {()}
    free = np.ones(instance.num_nodes, dtype=np.bool_)
    while sets:
        uses = np.bincount([n for nodes in sets for n in nodes], minlength=instance.num_nodes)
        kept = int(uses.argmax())
        free[kept] = False
        sets = {nodes for nodes in sets if kept not in nodes}
    return free


def _template(setting: Setting) -> int:
    """Added nodes are copies of the first node of the recording that stays and has a capacity."""
    nodes = setting.periods[0].nodes
    return int((~nodes.leaving * (1 + (nodes.capacity[:, 0] > 0))).argmax())


def _met(
    setting: Setting, policy: Policy, number: int, cluster: Cluster, deployment: Deployment
) -> tuple[float | None, float | None]:
    """Return load distance and collocation of what runs in a period it was not planned on."""
    if number >= len(setting.periods):
        return None, None
    instance = _recorded(setting, number, cluster, deployment)
    met = policy.meets(instance, deployment)
    loads = node_loads(instance, met, setting.costs)
    return distance_of_loads(instance, loads), _collocation(instance, met)


def _collocation(instance: Instance, deployment: Deployment) -> float | None:
    total = instance.total_traffic
    return collocated_traffic(instance, deployment) / total if total > 0 else None


def _scores(
    setting: Setting,
    number: int,
    cluster: Cluster,
    before: Deployment,
    after: Deployment,
    start_load: float,
) -> dict[str, Any]:
    """Score a deployment on the period it was planned on."""
    instance = _recorded(setting, number, cluster, before)
    moved = np.sort(before.places, axis=1) != np.sort(after.places, axis=1)
    moving = np.flatnonzero(moved.any(axis=1))
    loads = node_loads(instance, after, setting.costs)
    loads += _moving_load(instance, setting.costs, before, after, moving)
    spent = [(float(b.weight[moving].sum()), b.limit) for b in budgets(instance)]
    return {
        "load_distance": distance_of_loads(instance, loads),
        "collocation_factor": _collocation(instance, after),
        "load_index": float(loads.mean()) / start_load if start_load > 0 else None,
        "mean_load": float(loads.mean()),
        "total_load": float(loads.sum()),
        "migrations": len(moving),
        "migration_cost": float(instance.tasks.migration_cost[moving].sum()),
        "over_budget": any(amount > most * (1 + 1e-9) for amount, most in spent),
    }


def _moving_load(
    instance: Instance, costs: CostModel, before: Deployment, after: Deployment, moving: Any
) -> Floats:
    """(N,) load of the moves on the nodes they leave and reach."""
    counted = np.zeros(instance.num_nodes)
    if costs.migration == 0 or not len(moving):
        return counted
    amount = costs.migration * instance.tasks.migration_cost[moving]
    old, new = before.places[moving], after.places[moving]
    for mine, others in ((old, new), (new, old)):
        changed = (mine[:, :, None] != others[:, None, :]).all(axis=2)
        changed[:, 1] &= mine[:, 1] != mine[:, 0]  # a whole key group has its node twice
        for place in (0, 1):
            counted += np.bincount(mine[:, place], amount * changed[:, place], instance.num_nodes)
    return counted
