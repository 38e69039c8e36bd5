"""A recording, replayed period after period: a policy decides, and what it decides is scored.

What runs then is scored on the period that it was decided on, and on the next one, which it meets.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import InvalidInput, Problem
from optim.figures.measures import distance_of_loads
from optim.referee.evaluate import evaluate_indices
from optim.rules import budgets
from streamplace.policies.deployment import (
    CostModel,
    Deployment,
    collocated_traffic,
    measured_load,
    node_loads,
)
from streamplace.policies.nodes import Cluster, on_cluster
from streamplace.policies.policy import decide

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optim.format.instance import Instance
    from optim.format.tables import Floats, Limits
    from streamplace.policies.policy import Decision, Policy
    from streamplace.policies.policy import State as Memory


@dataclass(frozen=True)
class Setting:
    """What is the same for every policy of a replay.

    Attributes
    ----------
    periods
        The recording.
    costs
        Of serialisation and migration.
    max_migrations, max_migration_cost
        Budgets of each period, in place of the recording's; ``None`` keeps those.
    """

    periods: Sequence[Instance]
    costs: CostModel = field(default_factory=CostModel)
    max_migrations: int | None = None
    max_migration_cost: float | None = None

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
    memory
        What the policy remembers.
    """

    cluster: Cluster
    deployment: Deployment
    start_load: float
    memory: Memory = field(default_factory=dict)


def first_state(setting: Setting, policy: Policy) -> State:
    """Return the state before the first period.

    The base of the load index is the recording's own placement, whatever the policy starts with.
    """
    period = setting.periods[0]
    cluster = Cluster.of(period)
    recorded = Deployment.whole(period.tasks.node)
    instance = _recorded(setting, 0, cluster, recorded)
    start_load = float(node_loads(instance, recorded, setting.costs).mean())
    return State(cluster, policy.meets(instance, recorded), start_load)


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
    """Let a policy decide on one period.

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

    Raises
    ------
    InvalidInput
        The policy changes numbers of tasks, of whose loads a recording knows nothing.
    """
    instance = _measured(setting, number, state.cluster, state.deployment)
    decision = decide(policy, state.memory, instance, number * policy.period)
    if decision.parallelism:
        changed = ", ".join(f"{name} to {n}" for name, n in decision.parallelism.items())
        remedy = "take a policy that keeps them"
        reason = f"sets parallelism ({changed}), and a recording has the loads of its own tasks"
        raise InvalidInput(Problem("--policy", None, reason, remedy))
    cluster, new_index = _without(state.cluster, decision.release)
    before = state.deployment.moved_to(new_index)
    met, _ = _met(setting, policy, number, cluster, before)
    grown = _scaled(cluster, decision)
    after = _deployed(decision, instance, grown, before)
    distance_next, collocated_next = _met(setting, policy, number + 1, grown, after)
    planned = decision.planned
    row = {
        "period": number,
        "name": setting.periods[number].name,
        "load_distance_before": met,
        **_scores(setting, number, grown, before, after, state.start_load),
        "load_distance_next": distance_next,
        "collocation_factor_next": collocated_next,
        "nodes": len(grown),
        "leaving": sum(grown.leaving),
        "added": len(decision.add),
        "marked": len(decision.mark),
        "recalled": len(decision.recall),
        "dropped": len(decision.release),
    }
    if planned is None:
        row |= {
            "planned": True, "termination": decision.kind(instance), "objective": None,
            "feasible": _keeps_limits(setting, number, grown, before, after), "bound": None,
            "note": decision.reason,
        }  # fmt: skip
    else:
        row |= {
            "planned": planned.deployment is not None, "termination": planned.termination,
            "feasible": planned.feasible, "objective": planned.objective, "bound": planned.bound,
            "note": planned.note,
        }  # fmt: skip
    return row, State(grown, after, state.start_load, decision.state)


def _without(cluster: Cluster, names: Sequence[str]) -> tuple[Cluster, Any]:
    return cluster.without(np.isin(cluster.ids, names))


def _scaled(cluster: Cluster, decision: Decision) -> Cluster:
    """Return the nodes after a decision, those that it releases being gone."""
    index = {name: n for n, name in enumerate(cluster.ids)}
    grown = cluster.marked([index[name] for name in decision.recall], leaving=False)
    grown = grown.marked([index[name] for name in decision.mark])
    for one in decision.add:
        grown = grown.grown([one.id], cluster.base[index[one.like]])
    return grown


def _deployed(
    decision: Decision, instance: Instance, cluster: Cluster, before: Deployment
) -> Deployment:
    """Return what runs after a decision, by the nodes of the replay."""
    if decision.plan is None and (decision.planned is None or decision.planned.deployment is None):
        return before
    names = (decision.instance or instance).nodes.ids
    after = decision.deployment(instance)
    if names == cluster.ids:
        return after
    index = {name: n for n, name in enumerate(cluster.ids)}
    return after.moved_to(np.array([index.get(name, -1) for name in names]))


def _keeps_limits(
    setting: Setting, number: int, cluster: Cluster, before: Deployment, after: Deployment
) -> bool | None:
    if not after.is_whole:
        return None
    instance = _measured(setting, number, cluster, before)
    return evaluate_indices(instance, after.placement).feasible


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
