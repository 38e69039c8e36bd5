"""Which rules leave a plan no room: what each uses, and what it has."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.conflicts.excess import raised
from formulations.conflicts.rule_instances import atoms_of
from optim import solve
from optim.figures.measures import slot_places, workers_restarted
from optim.format.tables import APART, SPREAD
from optim.rules import (
    BUDGETS,
    Form,
    budgets,
    inflow_limits,
    most_restarts,
    node_counts,
    rules_of,
)
from optim.rules.placement import Placement
from optim.rules.sets import places_of
from optim.util.tolerance import slack

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim.format.instance import Instance
    from optim.format.tables import Ints, SetTable
    from optim.referee.result import Result
    from streamplace.explain.explanation import Explanation


(_OF_INFLOW,) = rules_of({Form.INFLOW})


@dataclass(frozen=True)
class Bound:
    """A rule that leaves no room for one unit, or one task, more.

    Attributes
    ----------
    rule, where
        Which.
    used, available
        What the plan uses of what there is; of a least one, what it has and what it needs.
    more, buys
        By how much the limit was raised to solve again, and by how much the objective of the plan
        found then is better; ``None`` where that was not tried.
    slack
        The room between the two.
    """

    rule: str
    where: str
    used: float
    available: float
    more: float | None = None
    buys: float | None = None

    @property
    def slack(self) -> float:
        """Room that is left."""
        return abs(self.available - self.used)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {**vars(self), "slack": self.slack}


def binding_rules(instance: Instance, node: Ints, slot: Ints | None = None) -> Iterator[Bound]:
    """Yield the rules that bind: not even the least task, or one unit of a count, fits in."""
    placement = Placement(instance, node, slot)
    yield from _limits(placement)
    yield from _nodes(placement)
    yield from _sets(placement)


def _limits(placement: Placement) -> Iterator[Bound]:
    limits = placement.instance.limits
    for budget in budgets(placement.instance):
        spent = float(budget.weight[placement.migrated].sum())
        if budget.limit - spent < budget.weight[budget.weight > 0].min(initial=np.inf):
            yield Bound(budget.name, "limits", spent, float(budget.limit))
    far, distance = limits.max_load_distance, placement.distance
    if far is not None and distance is not None and distance >= 0.99 * far:
        yield Bound("max_load_distance", "limits", distance, far)


def _nodes(placement: Placement) -> Iterator[Bound]:
    instance, loads = placement.instance, placement.loads
    nodes, ids, task = instance.nodes, instance.nodes.ids, instance.tasks.load
    bound = nodes.capacity * instance.limits.max_utilisation
    for r, name in enumerate(instance.resources):
        least = task[:, r][task[:, r] > 0].min(initial=np.inf)
        noise = slack(bound[:, r])
        full = np.isfinite(bound[:, r]) & (bound[:, r] - loads[:, r] < least - noise)
        for n in np.flatnonzero(full & placement.used):
            where = f"{ids[n]}.{name}"
            yield Bound("capacity", where, float(loads[n, r]), float(bound[n, r]))
        floor = np.where(instance.open_nodes, nodes.min_load[:, r], 0.0)
        low = (floor > 0) & (loads[:, r] - floor < least - noise)
        for n in np.flatnonzero(low):
            yield Bound("min_load", f"{ids[n]}.{name}", float(loads[n, r]), float(floor[n]))
    for n in np.flatnonzero((nodes.max_tasks >= 0) & (placement.counts >= nodes.max_tasks)):
        yield Bound("max_tasks", ids[n], float(placement.counts[n]), float(nodes.max_tasks[n]))
    most = inflow_limits(instance)
    if most is not None:
        inflow = np.bincount(placement.node[placement.migrated], minlength=instance.num_nodes)
        for n in np.flatnonzero((inflow >= most) & (most < instance.num_tasks)):
            yield Bound(_OF_INFLOW, ids[n], float(inflow[n]), float(most[n]))
    links = instance.links.capacity * instance.limits.max_link_utilisation
    for i in np.flatnonzero(np.isfinite(links) & (placement.crossing >= 0.99 * links)):
        yield Bound("links", instance.links.ids[i], float(placement.crossing[i]), float(links[i]))


def _sets(placement: Placement) -> Iterator[Bound]:
    instance, table = placement.instance, placement.instance.sets
    for i in range(len(table.ids)):
        node = placement.node[table.tasks_of(i)]
        yield from _set(table, i, "sets", places_of(instance, i)[node[node >= 0]])
    table = instance.slot_sets
    if placement.slot is not None:
        place = slot_places(placement.node, placement.slot)
        for i in range(len(table.ids)):
            at = place[table.tasks_of(i)]
            yield from _set(table, i, "slot_sets", at[at >= 0])
        most = most_restarts(instance)
        restarted = workers_restarted(instance, placement.node, placement.slot)
        if most is not None and restarted is not None and restarted >= most:
            (name,) = rules_of({Form.RESTARTS})
            yield Bound(name, "limits", float(restarted), float(most))
    for count in node_counts(instance):
        used = int(count.nodes(placement.node, instance.num_nodes).sum())
        if used >= count.limit > 0:
            yield Bound(count.rule, count.name, float(used), float(count.limit))


def _set(table: SetTable, i: int, rule: str, places: Ints) -> Iterator[Bound]:
    """Whether one more member on a place, or one place less, would break a set."""
    _, counts = np.unique(places, return_counts=True)
    most, limit, name = int(counts.max(initial=0)), float(table.limit[i]), table.ids[i]
    if table.rule[i] == APART and most >= limit and len(places) > 1:
        yield Bound(rule, f"{name} apart", float(most), limit)
    elif table.rule[i] == SPREAD and len(counts) <= limit:
        yield Bound(rule, f"{name} spread", float(len(counts)), limit)


_ASKED = 3
_ONE = frozenset(
    {"max_tasks", _OF_INFLOW}
    | {rule.name for rule in BUDGETS if not rule.column}
    | rules_of({Form.RESTARTS})
)


def priced(
    instance: Instance, found: Explanation, result: Result, seconds: float
) -> tuple[Bound, ...]:
    """Return the rules that bind, the first few with what a unit more of their limit buys.

    What it buys is the objective of a plan that was found, and judged by the referee, with that
    limit raised, against the plan's; 0 where none better was found, which proves nothing.

    Parameters
    ----------
    result
        Of the plan: solved again is by the same method and seed.
    seconds
        For all of it.
    """
    assert found.objective is not None
    assert found.evaluation is not None
    name, told = found.objective.name, list(found.binding)
    value = found.objective.of(found.evaluation.objective(name))
    ends = time.perf_counter() + seconds
    asked = [i for i, bound in enumerate(told) if _unit(instance, bound)][:_ASKED]
    for number, i in enumerate(asked):
        part = (ends - time.perf_counter()) / (len(asked) - number)
        atom, more = _unit(instance, told[i]) or (0, 0.0)
        if value.value is None or result.gap == 0 or part <= 0:
            break
        changed = raised(atoms_of(instance), {atom: more})
        again = solve(changed, result.method, objective=name, time_limit=part, seed=result.seed)
        if again.evaluation is None or not again.evaluation.feasible:
            continue
        assert again.objective is not None
        gain = again.objective.gain_over(value)
        buys = None if gain is None else max(0.0, gain)
        told[i] = replace(told[i], more=more, buys=buys)
    return tuple(told)


def _unit(instance: Instance, bound: Bound) -> tuple[int, float] | None:
    """Return the rule instance of a limit, and by how much it is raised; ``None`` for others.

    That is one of what is counted, and of a sum what the least task needs beyond the room.
    """
    atoms, nodes = atoms_of(instance), instance.nodes.index
    weights = {budget.name: budget.weight for budget in budgets(instance)}
    if bound.rule in _ONE or bound.rule in weights:
        some = atoms.of(bound.rule)
        index = nodes.get(bound.where, 0)
        loads = weights.get(bound.rule, np.ones(1))
    elif bound.rule == "capacity":
        node, _, resource = bound.where.rpartition(".")
        r = instance.resources.index(resource)
        some, index, loads = atoms.of(bound.rule, r), nodes[node], instance.tasks.load[:, r]
    else:
        return None
    atom = some[atoms.index[some] == index]
    if not len(atom):
        return None
    least = float(loads[loads > 0].min(initial=np.inf))
    more = 1.0 if bound.rule in _ONE else least - bound.slack
    return (int(atom[0]), more) if np.isfinite(more) and more > 0 else None
