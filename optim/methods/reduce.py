"""An instance rewritten for a method: rules as capacities, bounded numbers, scaled units.

*Counts as capacities.* ``max_tasks``, sets that are to be apart on nodes, and slots that only
count tasks say that at most so many of some tasks are on a node. That is a capacity of a resource
of which these tasks need one each. ``max_load_distance`` says how much and how little of the first
resource may be on a node, as its mean is the same in every plan: a capacity and a lower bound.
Written so, the rule holds in every engine that keeps capacities, and tasks that it makes unequal
are distinguished by their loads.

*Outliers.* Solvers and running sums keep tolerances of the size of the numbers that they see. A
load of 9e11 beside a node of 500, or a cost of 1e12 beside a budget of 1, would make that row a
matter of rounding. So a task that is by orders of magnitude too large for a node is not allowed
there, and a cost far above the budget, which can never be paid, is written as twice the budget.

*One scale.* The unit of a file (cores, millicores, bytes) must change neither a plan nor what is
called optimal, while kernels and solvers have tolerances of their own. So loads, rates and costs
are divided by powers of ten until the mean load of a node lies in [10, 100), the mean traffic of a
task and the mean cost of a move in [1, 10), outliers left out; and all are rounded to 14 digits,
so that a file times a power of ten gives the same numbers to the bit.

The referee judges by the file's own rules and numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.figures.catalogue import find_objective
from optim.figures.measures import slack
from optim.format.tables import APART, SPREAD, TOGETHER
from optim.referee import Termination
from optim.rules import (
    BUDGETS,
    MAX_LOAD_DISTANCE,
    MAX_TASKS,
    MAX_TASKS_PER_SLOT,
    RULES,
    SETS,
    SLOT_SETS,
    SLOTS,
    without_limits,
)
from optim.rules.capacity import proof_slack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from optim.figures.figure import Figure
    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats, Ints
    from optim.methods.registry import Outcome, Request
    from optim.referee import Evaluation
    from optim.rules.base import Rule

    Run = Callable[[Instance, Request], Outcome]
    Every = Callable[[Instance, Request], Outcome | None]

MAX_COLUMNS = 32  # Sets that become columns at most; more would make every engine slow.


def lowered(instance: Instance, honours: frozenset[str]) -> Instance:
    """Return an equal problem without the rules that a method does not know and capacities say.

    Made once an instance: whether a method suits and what it sees are asked of the same problem.

    `instance`: returned itself where nothing is written anew.
    `honours`: the rules that the method knows: they stay as they are.
    """
    cache: dict[frozenset[str], Instance | None] = vars(instance).setdefault("_lowered", {})
    if honours not in cache:
        changed = _lowered(instance, honours)
        cache[honours] = None if changed is instance else changed  # no circle
    return cache[honours] or instance


def _lowered(instance: Instance, honours: frozenset[str]) -> Instance:
    columns, changed = [], instance
    if "max_tasks" not in honours and MAX_TASKS.present(instance) is not None:
        columns.append(_tasks_column(instance))
        changed = MAX_TASKS.dropped(changed)
    if not honours.intersection({"slots", "max_tasks_per_slot"}) and slots_count_tasks(instance):
        columns += _slots_column(instance)
        changed = MAX_TASKS_PER_SLOT.dropped(SLOTS.dropped(changed))
    if not honours.intersection({"slots", "slot_sets"}) and slot_sets_count_tasks(
        instance, honours
    ):
        columns += _slot_set_columns(instance)
        table = instance.slot_sets
        joined = np.flatnonzero((table.rule == TOGETHER) & (np.diff(table.indptr) > 1))
        some = instance.sets.joined(table.only(joined))
        changed = replace(SLOT_SETS.dropped(changed), sets=some)
    if "sets" not in honours and SETS.present(instance) is not None:
        columns += _set_columns(instance, _as_columns(instance))
        changed = _without_sets(changed, _as_columns(instance))
    if columns:
        names, loads, rooms = zip(*columns, strict=True)
        changed = with_columns(changed, names, np.stack(loads, axis=1), np.stack(rooms, axis=1))
    distance = MAX_LOAD_DISTANCE.present(instance) is not None and instance.mean_load is not None
    distance = distance and not instance.crossing_cost[:, 0].any()  # the mean would not be fixed
    if distance and "max_load_distance" not in honours and "min_load" in honours:
        changed = _with_distance(MAX_LOAD_DISTANCE.dropped(changed), instance)
    return changed


def kept_lowered(honours: frozenset[str]) -> dict[str, str]:
    """Return the limits that a method keeps though it does not know them, each with when.

    `honours`: the rules that the method knows.
    """
    if "capacity" not in honours:
        return {}
    lowered_limits = {"max_tasks": "", "sets": "that are apart on nodes"}
    lowered_limits |= dict.fromkeys(("slots", "max_tasks_per_slot"), "that only count tasks")
    if not honours.intersection({"slots", "slot_sets"}):
        lowered_limits["slot_sets"] = "that only count tasks on nodes"
    if "min_load" in honours:
        lowered_limits["max_load_distance"] = "without crossing costs"
    if honours.intersection({"slots", "max_tasks_per_slot"}):
        honours |= {"slots", "max_tasks_per_slot"}
    return {name: when for name, when in lowered_limits.items() if name not in honours}


def _tasks_column(instance: Instance) -> tuple[str, Floats, Floats]:
    most = instance.nodes.max_tasks
    return "max_tasks", np.ones(instance.num_tasks), np.where(most >= 0, most, np.inf)


def _with_distance(changed: Instance, instance: Instance) -> Instance:
    """Bound each node's load from both sides, leaving nodes from above only.

    The rule allows due ≤ (load + limit) · (1 + 10⁻⁹), a least load least ≤ load · (1 + 10⁻⁹): they
    are one for least = due − limit · (1 + 10⁻⁹).
    """
    nodes, limit, due = instance.nodes, instance.limits.max_load_distance, instance.due
    assert limit is not None
    most = due + limit
    least = np.where(instance.open_nodes, np.maximum(due - limit - slack(limit), 0.0), 0.0)
    load = instance.tasks.load[:, :1]
    background, floor = nodes.background[:, :1], least[:, None]
    return with_columns(changed, ("load distance",), load, most[:, None], background, floor)


_OF_SLOTS = (SLOTS, MAX_TASKS_PER_SLOT, SLOT_SETS)
_PLENTY = 1e200


def without_slots(instance: Instance, honours: frozenset[str]) -> tuple[Instance, bool]:
    """Return the instance lowered to some rules and without slots; whether it allows the same.

    What the slots of a node hold in all is a capacity; whether its tasks can be dealt to them, only
    the referee knows then.

    `honours`: rules that may stay; those of slots do not.
    """
    honours -= {rule.name for rule in _OF_SLOTS}
    counted = lowered(instance, honours)
    if all(rule.present(counted) is None for rule in _OF_SLOTS):
        return counted, True
    nodes, most = instance.nodes, instance.limits.max_tasks_per_slot
    slots = np.where(nodes.slots < 0, np.inf, nodes.slots)[:, None]
    each = np.where(np.isfinite(nodes.slot_capacity), nodes.slot_capacity, _PLENTY)
    room = np.hstack([slots * each, slots * (_PLENTY if most is None else most)])
    load = np.hstack([instance.tasks.load, np.ones((instance.num_tasks, 1))])
    columns = tuple(f"slots {k}" for k in range(load.shape[1]))
    # products of two finite bounds stay below `_PLENTY`: what is above had no bound on one side
    room = np.where(room < _PLENTY, room, np.inf)
    for rule in _OF_SLOTS:
        instance = rule.dropped(instance)
    return with_columns(lowered(instance, honours), columns, load, room), False


def slots_count_tasks(instance: Instance) -> bool:
    """Whether slots only bound the number of tasks: no capacity or worker of theirs is set."""
    nodes, topologies = instance.nodes, instance.topologies
    if SLOTS.present(instance) is None and MAX_TASKS_PER_SLOT.present(instance) is None:
        return False
    plain = not np.isfinite(nodes.slot_capacity).any() and not (topologies.workers >= 0).any()
    lent = nodes.slots[nodes.slots > 0]  # where each topology has a slot, none is in another's way
    enough = len(_topologies_of(instance)) <= (lent.min() if len(lent) else np.inf)
    whole = instance.limits.max_tasks_per_slot is None
    return plain and (len(_topologies_of(instance)) <= 1 or (whole and bool(enough)))


def _slots_column(instance: Instance) -> Iterator[tuple[str, Floats, Floats]]:
    most, slots = instance.limits.max_tasks_per_slot, instance.nodes.slots
    each = np.inf if most is None else float(most)
    room = np.where(slots > 0, np.maximum(slots, 1) * each, np.where(slots == 0, 0.0, np.inf))
    if np.isfinite(room).any():
        yield "slots", np.ones(instance.num_tasks), room


def slot_sets_count_tasks(instance: Instance, honours: frozenset[str]) -> bool:
    """Whether sets over slots only bound how many of some tasks are on a node, or join them there.

    Without a bound on slots a task may have its own. Where slots only count tasks, and all are of
    one topology, tasks dealt in turn, set after set, share out sets that have no task in common.
    """
    table, most = instance.slot_sets, instance.limits.max_tasks_per_slot
    bounded = SLOTS.present(instance) is not None or most is not None
    if not table.ids or len(np.unique(table.members)) < len(table.members):
        return False
    if bounded and (not slots_count_tasks(instance) or len(_topologies_of(instance)) > 1):
        return False
    together, size = table.rule == TOGETHER, np.diff(table.indptr)
    if (together & (size > 1)).any():
        kinds = (
            _topologies_of(instance, table.tasks_of(i)) for i in np.flatnonzero(together).tolist()
        )
        if "sets" not in honours or most is not None or max(map(len, kinds)) > 1:
            return False
    spread = table.rule == SPREAD
    if (spread & (table.limit > (1 if bounded else size))).any():
        return False
    return not bounded or int((table.rule == APART).sum()) <= MAX_COLUMNS


def _topologies_of(instance: Instance, tasks: Any = slice(None)) -> set[int]:
    return set(instance.task_topology[tasks].tolist()) - {-1}


def _slot_set_columns(instance: Instance) -> Iterator[tuple[str, Floats, Floats]]:
    table, slots = instance.slot_sets, instance.nodes.slots
    room = np.where(slots < 0, np.inf, slots.astype(np.float64))
    for i in np.flatnonzero(table.rule == APART).tolist() if np.isfinite(room).any() else ():
        load = np.zeros(instance.num_tasks)
        load[table.tasks_of(i)] = 1.0
        yield f"set {table.ids[i]}", load, room * float(table.limit[i])


def _as_columns(instance: Instance) -> Bools:
    """(S,) sets that become columns: apart on nodes, or of one task, which is always together."""
    table = instance.sets
    size = np.diff(table.indptr)
    apart = (table.rule == APART) & ~table.by_rack
    if (apart & (size > table.limit)).sum() > MAX_COLUMNS:
        apart = apart & (size <= table.limit)
    return np.asarray(apart | ((table.rule == TOGETHER) & (size <= 1)))


def with_set_columns(instance: Instance, some: Bools) -> Instance:
    """Write (S,) sets that are to be apart on nodes as capacities of resources."""
    columns = list(_set_columns(instance, some))
    if not columns:
        return instance
    names, loads, rooms = zip(*columns, strict=True)
    changed = _without_sets(instance, some)
    return with_columns(changed, names, np.stack(loads, axis=1), np.stack(rooms, axis=1))


def _set_columns(instance: Instance, some: Bools) -> Iterator[tuple[str, Floats, Floats]]:
    table = instance.sets
    binding = some & (np.diff(table.indptr) > table.limit)
    for i in np.flatnonzero(binding).tolist():
        load = np.zeros(instance.num_tasks)
        load[table.tasks_of(i)] = 1.0
        yield f"set {table.ids[i]}", load, np.full(instance.num_nodes, float(table.limit[i]))


def _without_sets(instance: Instance, dropped: Bools) -> Instance:
    if not dropped.any():
        return instance
    return replace(instance, sets=instance.sets.only(np.flatnonzero(~dropped)))


def _unlimited(max_load: Floats, more: int) -> Floats:
    """Add resources of which a task can use any amount."""
    return np.hstack([max_load, np.full((len(max_load), more), np.inf)])


def with_columns(
    instance: Instance,
    names: tuple[str, ...],
    load: Floats,
    room: Floats,
    background: Floats | float = 0.0,
    floor: Floats | float = 0.0,
) -> Instance:
    """Add resources: what tasks need of them, and what nodes have, hold already, and hold least."""
    nodes, tasks, operators = instance.nodes, instance.tasks, instance.operators
    more = len(names)
    on_nodes, on_operators = (instance.num_nodes, more), (instance.num_operators, more)
    return replace(
        instance,
        resources=(*instance.resources, *names),
        nodes=replace(
            nodes,
            capacity=np.hstack([nodes.capacity, room]),
            min_load=np.hstack([nodes.min_load, np.broadcast_to(floor, on_nodes)]),
            background=np.hstack([nodes.background, np.broadcast_to(background, on_nodes)]),
            slot_capacity=np.hstack([nodes.slot_capacity, np.full(on_nodes, np.inf)]),
        ),
        tasks=replace(
            tasks,
            load=np.hstack([tasks.load, load]),
            max_load=_unlimited(tasks.max_load, more) if tasks.limited else np.full((1, 1), np.inf),
        ),
        operators=replace(
            operators,
            group_load=np.hstack([operators.group_load, np.zeros(on_operators)]),
            group_load_given=np.hstack(
                [operators.group_load_given, np.zeros(on_operators, dtype=np.bool_)]
            ),
            max_load=_unlimited(operators.max_load, more),
            group_max_load=_unlimited(operators.group_max_load, more),
        ),
        crossing_cost=np.hstack([instance.crossing_cost, np.zeros((2, more))]),
        limits=replace(
            instance.limits,
            max_utilisation=np.concatenate([instance.limits.max_utilisation, np.ones(more)]),
        ),
    )


_FAR = 1e3  # Times what a row has available, from which a number is an outlier.
_TINY = 1e-2
"""What is available below this, beside a mean load of 10 to 100, is a matter of tolerances."""
_MOST = 20_000_000  # Tasks × rows that are looked at; beyond, the instance is taken as it is.


def with_bounded_costs(instance: Instance) -> Instance:
    """Return the instance with costs that cannot be paid, or need not be, no longer outliers."""
    for rule in BUDGETS:
        if rule.weight_column is not None:
            instance = _bounded(instance, rule)
    return instance


def _bounded(instance: Instance, rule: Rule) -> Instance:
    """Bound the column of the table of tasks that a budget is of."""
    tasks, bounds = instance.tasks, list(rule.budgets(instance))
    if len(bounds) > 1:  # each is of tasks of its own
        return instance
    budget = bounds[0] if bounds else None
    limit = None if budget is None else budget.limit
    cost = tasks.migration_cost if budget is None else budget.weight
    placed = tasks.node >= 0
    if not placed.any() or (budget is None and rule.weight_column != "given_cost"):
        return instance
    payable = placed if limit is None else placed & (cost <= max(_FAR * limit, 0.0))
    most = float(cost[payable].max(initial=0.0))
    if limit is None:
        changed = np.where(placed, cost, np.minimum(cost, most))
    else:
        # no plan can pay twice the budget, and 2 · limit is of the budget's own size
        beyond = 2 * limit if limit > 0 else 1.0
        far = placed & (cost > _FAR * limit)
        changed = np.where(far, beyond, np.where(placed, cost, np.minimum(cost, most)))
    if np.array_equal(changed, cost):
        return instance
    columns: dict[str, Any] = {"given_cost": tasks.migration_cost, str(rule.weight_column): changed}
    return instance.with_values("tasks", **columns)


def without_misfits(instance: Instance, binding: Instance) -> Instance:
    """Return the instance where outliers of load are not allowed on the nodes that they exceed.

    `instance`: in units in which the mean load of a node is in [10, 100).
    `binding`: the same with only the limits that bind.
    """
    room, load = _rooms(binding), instance.tasks.load
    with np.errstate(invalid="ignore"):
        # a row is looked at where a load is far above its room, or the room is next to nothing
        wide = (load.max(axis=0, initial=0.0) > _FAR * room) | (room < _TINY)
    rows = np.argwhere(wide & np.isfinite(room))
    if not len(rows) or len(rows) * instance.num_tasks > _MOST:
        return instance
    excluded: dict[int, list[int]] = {}
    for n, r in rows.tolist():
        loads, most = load[:, r], room[n, r]
        # what exceeds the room by less is left to the row: the referee may take it as rounding
        misfit = (loads > most) & ((loads < _TINY) | ((most > 0) & (loads > _FAR * most)))
        for task in np.flatnonzero(misfit).tolist():
            excluded.setdefault(task, []).append(n)
    return _narrowed(instance, excluded)


def _rooms(instance: Instance) -> Floats:
    """(N, R) the most that a single task may bring to each node."""
    nodes, limit = instance.nodes, instance.limits.max_load_distance
    bound = nodes.capacity * instance.limits.max_utilisation
    room = instance.headroom + proof_slack(bound)
    room = np.minimum(room, nodes.slot_capacity + proof_slack(nodes.slot_capacity))
    if limit is not None and instance.mean_load is not None and not instance.crossing_cost.any():
        far = instance.due + limit
        room[:, 0] = np.minimum(room[:, 0], far + proof_slack(far) - nodes.background[:, 0])
    return np.asarray(room)


def _narrowed(instance: Instance, excluded: dict[int, list[int]]) -> Instance:
    """Take nodes off the lists of tasks; a task that would have none to go to keeps its list."""
    tasks, indptr = instance.tasks, instance.tasks.allowed_indptr
    lists = {
        task: tasks.allowed_indices[indptr[row] : indptr[row + 1]]
        for row, task in enumerate(tasks.restricted.tolist())
    }
    changed = False
    for task, nodes in excluded.items():
        mask = instance.allowed_mask(task)
        mask[nodes] = False
        if (mask & instance.open_nodes).any():
            lists[task] = np.flatnonzero(mask).astype(np.int32)
            changed = True
    if not changed:
        return instance
    order = sorted(lists)
    return instance.with_allowed(order, [lists[task] for task in order])


_DIGITS = 14
_NUMBERS = tuple(
    limit for rule in RULES for limit in rule.limits if limit.table == "limits" and limit.unit
)
"""Numbers under ``limits`` that are in a unit."""
_OUTLIER = 1e3  # times what is usual: a total beyond is that of a few numbers
_FARTHEST = 1e100  # units that a number may have: it and its square are below the end of doubles
_LITTLE = 1e-5  # Share of a capacity beside its background that rounding to 14 digits changes.
_EDGE = 1e-9  # a mean of exactly a power of ten, added up in another unit, is still that power


@dataclass(frozen=True, eq=False)
class Scale:
    """What one unit that methods see is in the file's units."""

    load: Floats = field(default_factory=lambda: np.ones(1))  # (R,) of each resource.
    #: Of traffic; of migration costs.
    rate: float = 1.0
    cost: float = 1.0

    def of(self, unit: str) -> float:
        """Return the factor of a figure's or an option's unit; 1 for shares and counts."""
        if unit == "resource":
            return float(self.load[0])
        if unit == "per_resource":
            return 1.0 / float(self.load[0])
        turned = {"rate": self.rate, "cost": self.cost, "state": self.cost}
        return turned.get(unit, 1.0 / self.rate if unit == "per_rate" else 1.0)


def scale_of(instance: Instance) -> Scale:
    """Choose the scale of an instance."""
    nodes, tasks = max(1, instance.num_nodes), max(1, instance.num_tasks)
    flows, cost = instance.flows, instance.tasks.migration_cost
    several = [*(b.pair_rate for b in flows.blocks), *(near.rate for near in flows.local)]
    rates = np.concatenate([flows.rate, several])
    loads = zip(instance.totals.tolist(), instance.tasks.load.T, strict=True)
    load, rate, cost_unit = _least_units(instance)
    load = np.maximum([_power(_typical(total, each) / nodes) / 10.0 for total, each in loads], load)
    rate = max(_power(_typical(instance.total_traffic, rates) / tasks), rate)
    of_nodes, of_links = _cancelled(instance)
    return Scale(
        load=np.where(of_nodes.any(axis=0), _power_of_two(load), load),
        rate=float(_power_of_two(rate)) if of_links.any() else rate,
        cost=max(_power(_typical(float(cost.sum()), cost) / tasks), cost_unit),
    )


def _cancelled(instance: Instance) -> tuple[Bools, Bools]:
    """(N, R) and (L,): whether what may be used beside the background loses digits by rounding.

    Capacity and background are then divided by a power of two and not rounded: their difference,
    which the sustainable rate is of, stays what it is in the file.
    """
    links, limits = instance.links, instance.limits
    most = instance.nodes.capacity * limits.max_utilisation
    on_links = links.capacity * limits.max_link_utilisation
    left, on_links_left = instance.headroom, on_links - links.background
    return (
        (left > 0) & (left < _LITTLE * most),
        (on_links_left > 0) & (on_links_left < _LITTLE * on_links),
    )


def _power_of_two(unit: Any) -> Any:
    """Return the power of two next to a unit, by which numbers divide without rounding."""
    return 2.0 ** np.rint(np.log2(unit))


def _least_units(instance: Instance) -> tuple[Floats, float, float]:
    """Return the least unit of each resource, of traffic and of costs that no number is inf in.

    What is available may become inf: where it is so far beyond what is needed, that is no limit.
    """
    nodes, tasks = instance.nodes, instance.tasks
    traffic = instance.total_traffic
    loads = np.vstack([instance.totals, nodes.min_load, instance.crossing_cost * traffic])
    rates = [traffic, *(s.rate for s in instance.streams), instance.links.background.max(initial=0)]
    costs = np.concatenate([tasks.state, tasks.migration_cost])
    return (
        np.array([_least_unit(most) for most in loads.max(axis=0)]),
        _least_unit(max(rates)),
        _least_unit(float(costs.max(initial=0.0))),
    )


def _least_unit(most: float) -> float:
    return _power(most) / _FARTHEST


def _typical(total: float, values: Floats) -> float:
    """Return a total, or what it would be if all values were as their median: without outliers.

    Scaled by a mean that is one large number alone, all others would lose their digits.
    """
    # median · count stands for the total without outliers
    some = values[values > 0]
    usual = float(np.median(some)) * len(some) if len(some) else 0.0
    return usual if 0 < usual * _OUTLIER < total else total


def in_solver_units(instance: Instance) -> tuple[Instance, Scale]:
    """Return an instance in units of its own, and what these are in the file's; made once."""
    cache: dict[str, Any] = vars(instance)
    if "_in_own_units" not in cache:
        scale = scale_of(instance)
        changed = scaled(instance, scale)
        cache["_in_own_units"] = None if changed is instance else changed, scale  # no circle
    changed, scale = cache["_in_own_units"]
    return (instance if changed is None else changed), scale


def scaled(instance: Instance, scale: Scale) -> Instance:
    """Return the instance in units of the scale; the same one where nothing changes."""
    load, limits = scale.load, instance.limits
    rates = canonical(np.array([s.rate for s in instance.streams]), scale.rate).tolist()
    of_limits: Any = {
        limit.name: _one(getattr(limits, limit.name), scale.of(limit.unit)) for limit in _NUMBERS
    }
    of_tasks: Any = {
        "load": canonical(instance.tasks.load, load),
        "state": canonical(instance.tasks.state, scale.cost),
        "given_cost": canonical(instance.tasks.migration_cost, scale.cost),
    }
    if instance.tasks.limited:
        of_tasks["max_load"] = canonical(instance.tasks.max_load, load)
    of_nodes, of_links = _cancelled(instance)
    changed = replace(
        instance,
        nodes=_with_scaled(instance.nodes, _OF_NODES, load, of_nodes),
        tasks=replace(instance.tasks, **of_tasks),
        links=_with_scaled(instance.links, _OF_LINKS, scale.rate, of_links),
        crossing_cost=canonical(instance.crossing_cost, load / scale.rate),
        streams=tuple(
            stream._replace(rate=rate) for stream, rate in zip(instance.streams, rates, strict=True)
        ),
        traffic=_with_scaled(instance.traffic, ("rate",), scale.rate),
        limits=replace(limits, **of_limits),
    )
    return instance if _same(instance, changed) else changed


_OF_NODES, _OF_LINKS = (
    ("capacity", "min_load", "background", "slot_capacity"), ("capacity", "background")
)  # fmt: skip


def _with_scaled(table: Any, names: tuple[str, ...], unit: Any, exact: Any = False) -> Any:
    """Scale columns; what is to be `exact` is divided and not rounded."""
    old = {name: getattr(table, name) for name in names}
    new = {name: canonical(values, unit) for name, values in old.items()}
    if np.any(exact):
        new = {name: np.where(exact, old[name] / unit, new[name]) for name in names}
    return replace(table, **new)


def canonical(values: Any, unit: Any) -> Any:
    """Divide by units and round to 14 digits.

    `values`: numbers of any shape, not negative; ``inf`` and ``nan`` stay.
    `unit`: a power of ten (of two: `_cancelled`), or one for each column.
    """
    with np.errstate(over="ignore"):  # what becomes inf is no limit
        some = np.asarray(values, dtype=np.float64) / unit
    plain = np.isfinite(some) & (some > 0)
    digits = np.zeros_like(some)
    np.log10(some, out=digits, where=plain)
    # powers up to 22 are exact; where a number is smaller than that, so is its last digit
    power = 10.0 ** np.clip(_DIGITS - 1 - np.floor(digits), -22, 22)
    # an integer of 14 digits and an exact power of ten: the quotient is rounded once, in any unit
    whole = np.rint(np.where(plain, some, 0.0) * power)
    return np.where(whole > 0, whole / power, some)  # what is a little stays more than nothing


def _one(value: float | None, unit: float) -> float | None:
    """Scale one limit; none is left where it is so far beyond all there is that it becomes inf."""
    scaled_limit = math.inf if value is None else float(canonical(np.array(value), unit))
    return scaled_limit if math.isfinite(scaled_limit) else None


def _power(mean: float) -> float:
    """Return the power of ten below a number, 1 for 0."""
    if not 0 < mean < math.inf:
        return 1.0
    return float(10.0 ** math.floor(math.log10(mean) + _EDGE))


def _same(left: Instance, right: Instance) -> bool:
    """Whether all numbers that scales change are equal."""

    def numbers(of: Instance) -> list[Any]:
        tasks = of.tasks
        limits = [getattr(of.limits, limit.name) for limit in _NUMBERS]
        return [
            *(getattr(of.nodes, name) for name in _OF_NODES),
            *(getattr(of.links, name) for name in _OF_LINKS),
            *(tasks.load, tasks.max_load, tasks.migration_cost, np.nan_to_num(tasks.state)),
            *(of.traffic.rate, of.crossing_cost, [s.rate for s in of.streams], limits),
        ]

    return all(np.array_equal(a, b) for a, b in zip(numbers(left), numbers(right), strict=True))


_ABOUT = "leaving nodes"  # In the words of everything that is assumed of them.
_MOST_PLACES = 2_000_000  # Tasks × nodes up to which lists of allowed nodes are written down.


def may_stay(instance: Instance) -> int:
    """Return how many tasks some plan has on leaving nodes, and another elsewhere.

    They are on such a node now, and may be there; where the rule is dropped, any that may.
    """
    home, leaving = instance.tasks.node, instance.nodes.leaving
    if not leaving.any():
        return 0
    open_to = instance.has_open_node.copy()
    if not instance.limits.into_leaving:
        open_to &= (home >= 0) & leaving[home]
    tasks = np.flatnonzero(open_to).tolist()
    return sum(bool((instance.allowed_mask(task) & leaving).any()) for task in tasks)


def emptied(instance: Instance) -> tuple[str, ...]:
    """Return what is assumed where leaving nodes are emptied of all that may go elsewhere."""
    count = may_stay(instance)
    condition = f"that take the {count} tasks on leaving nodes off them, though these may stay"
    return (condition,) if count else ()


def needed(instance: Instance, assumes: tuple[str, ...]) -> tuple[str, ...]:
    """Return what is assumed, but for what every plan does: no task may be on leaving nodes."""
    if not any(_ABOUT in assumption for assumption in assumes) or may_stay(instance):
        return assumes
    return tuple(assumption for assumption in assumes if _ABOUT not in assumption)


def emptied_or_any(run: Run, every: Every | None = None) -> Run:
    """Make of a method that empties leaving nodes one that looks for all plans where none does.

    `run`: knows lists of allowed nodes alone: asked again about an instance without the mark, which
        is the same question unless the objective is of the staying nodes.
    `every`: looks for all plans of the instance itself, for those objectives and where a limit is
        of the staying nodes; ``None`` where it cannot.
    """

    @wraps(run)
    def both(instance: Instance, request: Request) -> Outcome:
        outcome, assumed = run(instance, request), emptied(instance)
        if outcome.termination is Termination.INFEASIBLE and assumed:
            result = None
            figure = None if request.objective is None else find_objective(request.objective)
            of_staying = figure is not None and figure.of_staying
            if of_staying or not may_be_rewritten(instance):
                result = every(instance, request) if every else None
            else:
                change = partial(without_leaving, may_stay=True)
                request.rewritten(change)
                result = run(change(instance), request)
            if result is not None:
                result.notes.append("no plan empties the leaving nodes: all plans were considered")
                result.rank = partial(_by_value, figure) if figure else None
                return result
        outcome.assumes += assumed
        return outcome

    return both


AS_FULL = "local_first streams are treated as full ones: the method reads the traffic of pairs"


def shuffled_evenly(run: Run) -> Run:
    """Make of a heuristic of task pairs one that takes `local_first` streams for full ones.

    What the plan is worth the referee says, of the streams as they are.
    """

    @wraps(run)
    def even(instance: Instance, request: Request) -> Outcome:
        if not instance.flows.local:
            return run(instance, request)
        outcome = run(without_limits(instance, ["local_first"]), request)
        outcome.claimed, outcome.levels = None, ()
        outcome.trace = []
        outcome.notes.append(AS_FULL)
        return outcome

    return even


def _by_value(figure: Figure, _: Ints, evaluation: Evaluation) -> tuple[float, ...] | None:
    """Rank plans by an objective alone, whatever they leave on leaving nodes."""
    return figure.ranks(evaluation)


def may_be_rewritten(instance: Instance) -> bool:
    """Whether `without_leaving` asks the same, in lists that are not too long."""
    # the mean load of the staying nodes is not that of all
    small = instance.num_tasks * instance.num_nodes <= _MOST_PLACES
    return small and instance.limits.max_load_distance is None


def without_leaving(instance: Instance, *, may_stay: bool) -> Instance:
    """Return the instance whose leaving nodes are as others, but open to few tasks or to none.

    `may_stay`: whether they are open to the tasks of such nodes, and not only to those that may go
        nowhere else.
    """
    nodes, tasks = instance.nodes, instance.tasks
    bound = ~instance.has_open_node
    if may_stay:
        bound |= (tasks.node >= 0) & nodes.leaving[tasks.node]
    masks = [instance.allowed_mask(task) for task in range(instance.num_tasks)]
    rows = [
        np.flatnonzero(mask if free else mask & instance.open_nodes)
        for mask, free in zip(masks, bound.tolist(), strict=True)
    ]
    least = np.where(nodes.leaving[:, None], 0.0, nodes.min_load)
    changed = instance.with_allowed(range(instance.num_tasks), rows)
    return changed.with_values("nodes", leaving=np.zeros_like(nodes.leaving), min_load=least)
