"""Undoing moves of a plan: its value without each, the moves without gain, the best few."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from optim.figures.measures import (
    migrated_tasks,
    moved_tasks,
    node_loads,
    slot_places,
    workers_restarted,
)
from optim.format.tables import APART
from optim.kernels.classes import brought_home, node_classes, nodes_brought_home
from optim.rules import BUDGET_NAMES, broken, most_restarts, rules_of, without_limits
from optim.rules.base import Form
from optim.rules.placement import Placement
from optim.rules.slot_assignment.groups import renumbered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from optim.figures.figure import Figure, ObjectiveValue
    from optim.format.instance import Instance
    from optim.format.tables import Floats, Ints

    Tasks = NDArray[np.int64]

_TRIALS = 4_000  # Undoings tried at most: work that repeats, where seconds do not.
_MOST_TASKS = 200_000  # Tasks up to which equal plans are looked for.
_FEWEST_TRIALS, _WORK = 40, 4_000_000
"""Exchanges tried at least, and tasks that are judged in all of these trials."""
_CHUNK = 2_000_000
_LOOKED_AT = 8


class Point(NamedTuple):
    """A plan with some of the moves."""

    #: Tasks that migrate, and those that switch to a copy of their state; what that costs, and the
    #: objective.
    moves: int
    switches: int
    cost: float
    value: ObjectiveValue
    node: Ints  # (T,) nodes.
    keeps: bool  # Whether it keeps every rule.


def values_undone(instance: Instance, node: Ints, tasks: Tasks, objective: Figure) -> Floats:
    """(M,) the objective after each of some moves is undone alone; ``nan`` where it has none.

    Load distance and collocated traffic by what changes, up to rounding; others by the referee.
    """
    if objective.name == "load_distance" and not instance.crossing_cost[:, 0].any():
        return _distances(instance, node, tasks)
    local = bool(instance.flows.local)
    if objective.name == "imc_gain" and instance.total_traffic > 0 and not local:
        return _gains(instance, node, tasks)
    if objective.name == "migration_cost" and not instance.copy_nodes:
        # a move undone costs nothing: all cost less its own
        cost = instance.tasks.migration_cost
        return np.asarray(cost[moved_tasks(instance, node)].sum() - cost[tasks])
    assert objective.value is not None
    values, trial = np.full(len(tasks), np.nan), np.array(node, np.int32)
    for k, task in enumerate(tasks.tolist()):
        trial[task] = instance.tasks.node[task]
        value = objective.value(Placement(instance, trial.copy()))
        trial[task] = node[task]
        values[k] = np.nan if value is None else value
    return values


class Kept:
    """The best plan so far: others take its place that are no worse and break no more."""

    def __init__(
        self, instance: Instance, node: Ints, objectives: Sequence[Figure], slot: Ints | None = None
    ) -> None:
        self.instance, self.objectives = instance, objectives
        #: With the limits that bind plans for the first objective.
        self.rules = objectives[0].binding(instance) if objectives else instance
        self.node, self.slot = np.array(node, np.int32), slot
        self.ranks = _ranks(instance, self.node, objectives, slot)
        self.broken = len(broken(Placement(self.rules, self.node, slot)))

    def takes(self, node: Ints, slot: Ints | None = None) -> bool:
        """Take a plan in place of the best; whether it was taken."""
        ranks = _ranks(self.instance, node, self.objectives, slot)
        if any(a > b for a, b in zip(ranks, self.ranks, strict=True)):
            return False
        if len(broken(Placement(self.rules, node, slot))) > self.broken:
            return False
        self.node, self.slot, self.ranks = node, slot, ranks
        return True


def _distances(instance: Instance, node: Ints, tasks: Tasks) -> Floats:
    stay = instance.open_nodes
    if not stay.any():
        return np.full(len(tasks), np.nan)
    loads = Placement(instance, node).loads[:, 0]
    # load_distance: max |load - weight · mean| of staying nodes, the excess alone of leaving ones
    share = instance.nodes.weight * (loads.sum() / instance.nodes.weight[stay].sum())
    load, home, at = instance.tasks.load[tasks, 0], instance.tasks.node[tasks], node[tasks]
    distances = np.empty(len(tasks))
    step = max(1, _CHUNK // len(loads))
    for start in range(0, len(tasks), step):
        part = slice(start, start + step)
        off = np.tile(loads - share, (len(load[part]), 1))
        rows = np.arange(len(off))
        # a move undone brings its load home and takes it off where it is; the mean stays
        off[rows, home[part]] += load[part]
        off[rows, at[part]] -= load[part]
        distances[part] = np.where(stay, np.abs(off), off).max(axis=1)
    return distances


def _gains(instance: Instance, node: Ints, tasks: Tasks) -> Floats:
    home, position = instance.tasks.node, np.full(instance.num_tasks, -1)
    position[tasks] = np.arange(len(tasks))
    gains = np.full(len(tasks), Placement(instance, node).gain)
    u, v, rate = instance.pairs
    for end, other in ((u, v), (v, u)):
        touched = position[end] >= 0
        task, other_node, worth = end[touched], node[other[touched]], rate[touched]
        # a pair counts where both are on one node: with the task at home less with it where it is.
        # Two moved tasks are not undone together, so the other end counts where the plan has it
        change = worth * ((other_node == home[task]).astype(float) - (other_node == node[task]))
        gains += np.bincount(position[task], change, len(tasks))
    return gains


def without_needless(instance: Instance, node: Ints, objectives: Sequence[Figure]) -> Ints:
    """Undo every move without which the plan is as good by all objectives, and violates no further
    limit.

    `objectives`: the first one, with the limits that bind plans for it, and those that must not
        get worse with it. Nor do more tasks stay on leaving nodes.
    Returns the plan itself where every move brings something. What is left are moves each of which,
        undone alone, costs something.
    """
    moved = moved_tasks(instance, node)
    if not len(moved) or any(figure.value is None for figure in objectives):
        return node
    best, trials = Kept(instance, node, objectives), 0
    for _ in range(len(moved)):
        moved = moved_tasks(instance, best.node)
        moved = moved[
            ~(instance.nodes.leaving[instance.tasks.node[moved]] & instance.has_open_node[moved])
        ]
        values, before = values_undone(instance, best.node, moved, objectives[0]), best.ranks[0]
        sign = -1.0 if objectives[0].sense == "max" else 1.0
        # differences that the order of adding makes are none
        noise = 1e-9 * max(abs(before), 1e-300) + _rounding(instance, objectives[0])
        # the dearest first: where two would do, that one stays which costs less
        order = np.argsort(-instance.tasks.migration_cost[moved], kind="stable")
        changed = False
        for k in order[(sign * values <= before + noise)[order]].tolist():
            task = int(moved[k])
            trials += 1
            if trials > _TRIALS:
                return best.node
            trial = best.node.copy()
            trial[task] = instance.tasks.node[task]
            changed |= best.takes(trial)
        if not changed:
            break
    return best.node


def exchanged_back(
    instance: Instance, node: Ints, objectives: Sequence[Figure], *, same_loads: bool = False
) -> Ints:
    """Undo exchanges among replicas (tasks that are apart and hold copies of each other).

    A leader that changed place with a follower for nothing changes back; of a chain only the end
    is left. None can be undone as a single move, for the place is another replica's.

    `same_loads`: whether each node's load of the balanced resource is to stay what it is.
    """
    groups = _replica_groups(instance, node)
    if not groups or any(figure.value is None for figure in objectives):
        return node
    best = Kept(instance, node, objectives)
    loads, cost = node_loads(instance, best.node)[:, 0], _changed(instance, best.node)
    left = min(_TRIALS, max(_FEWEST_TRIALS, _WORK // instance.num_tasks))
    refused: set[tuple[int, ...]] = set()

    def take(exchanges: list[_Exchange]) -> bool:
        """Make all of them, or of both halves what can be."""
        nonlocal cost, left
        if not exchanges or left <= 0:
            return False
        left -= 1
        trial = best.node.copy()
        for exchange in exchanges:
            trial[list(exchange.tasks)] = exchange.nodes
        less = _changed(instance, trial)
        same = not same_loads or np.allclose(node_loads(instance, trial)[:, 0], loads, 1e-12, 0.0)
        if same and less[0] < cost[0] and less[1] <= cost[1] and best.takes(trial):
            cost = less
            return True
        if len(exchanges) == 1:
            refused.add((*exchanges[0].tasks, *exchanges[0].nodes))
            return False
        # of many that do not fit together each half is tried, so one that fits none costs log
        # trials
        half = len(exchanges) // 2
        first = take(exchanges[:half])
        return take(exchanges[half:]) or first

    while left > 0:
        undoable = [e for g in groups if (e := _exchange_back(instance, best.node, g, refused))]
        equal = [e for e in undoable if e.is_equal]
        if not (take(equal) | take([e for e in undoable if not e.is_equal])) and not undoable:
            break
    return best.node if (best.node != node).any() else node


def _changed(instance: Instance, node: Ints) -> tuple[int, float]:
    """Return how many tasks change their node, and what is copied."""
    paid = migrated_tasks(instance, node)
    return len(moved_tasks(instance, node)), float(instance.tasks.migration_cost[paid].sum())


class _Exchange(NamedTuple):
    """Tasks and the nodes they go to; whether those that change place load alike."""

    tasks: tuple[int, ...]
    nodes: tuple[int, ...]
    is_equal: bool


def _replica_groups(instance: Instance, node: Ints) -> list[list[int]]:
    """Return the sets of replicas of which at least one has moved."""
    table, copies = instance.sets, instance.copy_nodes
    if not copies:
        return []
    moved = set(moved_tasks(instance, node).tolist())
    groups: dict[tuple[int, ...], None] = {}
    for i in np.flatnonzero(table.rule == APART).tolist():
        members = table.tasks_of(i).tolist()
        if not moved.isdisjoint(members) and not copies.keys().isdisjoint(members):
            groups[tuple(members)] = None
    return [list(members) for members in groups]


def _exchange_back(
    instance: Instance, node: Ints, group: list[int], refused: set[tuple[int, ...]]
) -> _Exchange | None:
    """Return an exchange that was not refused: all of a group home, or two tasks, one of them."""
    home, load = instance.tasks.node, instance.tasks.load
    leaving = instance.nodes.leaving
    back = [t for t in group if home[t] >= 0 and node[t] != home[t] and not leaving[home[t]]]
    at = {int(node[t]): t for t in group}
    for t in back:
        s = at.get(int(home[t]))
        if s is None or node[s] == home[s]:
            continue
        there = int(node[t])
        if instance.allowed_mask(t)[home[t]] and instance.allowed_mask(s)[there]:
            equal = bool((load[t] == load[s]).all())
            exchange = _Exchange((t, s), (int(home[t]), there), equal)
            if (*exchange.tasks, *exchange.nodes) not in refused:
                return exchange
    whole = _Exchange(tuple(back), tuple(int(home[t]) for t in back), False)
    if len(back) > 1 and (*whole.tasks, *whole.nodes) not in refused:
        return whole
    return None


def staying_if_as_good(instance: Instance, node: Ints, objectives: Sequence[Figure]) -> Ints:
    """Return the current placement where all moves of a plan together bring nothing.

    Its arguments are those of `without_needless`.
    """
    home = instance.tasks.node.astype(node.dtype)
    settled = home.min(initial=0) >= 0 and not instance.nodes.leaving[home].any()
    if not settled or any(figure.value is None for figure in objectives):
        return node
    return home if _as_good(instance, home, node, objectives) else node


def nearer_home(instance: Instance, node: Ints, objectives: Sequence[Figure]) -> Ints:
    """Return the plan that identical nodes and tasks make of this one, where it moves less.

    Its arguments are those of `without_needless`.
    """
    if instance.num_tasks > _MOST_TASKS or any(figure.value is None for figure in objectives):
        return node
    # to who moves less, no budget makes a difference
    other = brought_home(without_limits(instance, BUDGET_NAMES), node)
    return other if _as_good(instance, other, node, objectives) else node


def _as_good(instance: Instance, other: Ints, node: Ints, objectives: Sequence[Figure]) -> bool:
    """Whether the other plan changes less, and is no worse by any objective or rule."""
    less, more = _changed(instance, other), _changed(instance, node)
    if less == more or less[0] > more[0] or less[1] > more[1]:
        return False
    return Kept(instance, node, objectives).takes(other)


def _rounding(instance: Instance, objective: Figure) -> float:
    total = instance.total_traffic if objective.unit == "rate" else float(instance.totals[0])
    return 1e-12 * total if objective.unit in ("rate", "resource") else 1e-12


def _ranks(
    instance: Instance, node: Ints, objectives: Sequence[Figure], slot: Ints | None = None
) -> list[float]:
    """What is to be as small as it was, rounded so that the order of adding is no difference."""
    placement = Placement(instance, node, slot)
    ranks = []
    for figure in objectives:
        assert figure.value is not None
        value = figure.value(placement)
        signed = np.nan if value is None else (-value if figure.sense == "max" else value)
        ranks.append(float(f"{signed:.9e}"))
    return ranks


def fewer_moves(instance: Instance, node: Ints, objective: Figure) -> list[Point]:
    """Return plans with ever fewer of the moves: that one undone each time which costs least.

    Of the few that cost least, one without which every rule holds comes first.

    Returns from all moves to none; each plan is complete.
    """
    sign = -1.0 if objective.sense == "max" else 1.0
    current = np.array(node, np.int32)
    price = instance.tasks.migration_cost
    points = [point_of(instance, current, objective)]
    left = moved_tasks(instance, current)
    while len(left):
        values = sign * values_undone(instance, current, left, objective)
        # the move undone is the one that costs least, of equal ones the dearest, up to nine digits
        scale = max(float(np.nanmax(np.abs(values), initial=0.0)), 1e-300)
        order = np.lexsort((-price[left], np.round(values / scale, 9)))
        undone = None
        for k in order[:_LOOKED_AT].tolist():
            trial = current.copy()
            trial[left[k]] = instance.tasks.node[left[k]]
            point = point_of(instance, trial, objective)
            if undone is None or point.keeps:
                undone = (k, point)
            if point.keeps:
                break
        assert undone is not None
        current, left = undone[1].node, np.delete(left, undone[0])
        points.append(undone[1])
    return points


def point_of(instance: Instance, node: Ints, objective: Figure) -> Point:
    """Judge a plan: its moves, what they cost, the objective, and whether it keeps every rule."""
    placement = Placement(instance, node)
    moves = len(placement.migrated)
    cost = float(instance.tasks.migration_cost[placement.migrated].sum())
    value, switches = objective.measured(placement), len(placement.moved) - moves
    return Point(moves, switches, cost, value, node, not broken(placement))


def enough_for(points: Sequence[Point], share: float) -> int | None:
    """Return the fewest moves of the plans that keep all rules and bring a share of all gain."""
    best, none = points[0].value, points[-1].value
    gain = best.gain_over(none)
    if gain is None or not gain > 0:
        return None
    enough = [p for p in points if (p.value.gain_over(none) or 0.0) >= share * gain]
    return min((p.moves for p in enough if p.keeps), default=None)


# Slots: workers that need not restart, and plans that restart no more than a limit allows.

_SLOT_TRIALS = 300


def restarting_less(
    instance: Instance, node: Ints, slot: Ints, objectives: Sequence[Figure]
) -> tuple[Ints, Ints]:
    """Return the plan by which fewer workers restart, where it is as good and breaks no more.

    Identical nodes change places and slots of a node take the numbers of those that run now; then
    the moves of connected workers, of each worker and of each task are undone. Nothing comes back
    on to a leaving node.
    """
    tasks = instance.tasks
    if workers_restarted(instance, node, slot) is None:
        return node, slot
    node, slot = np.array(node, np.int32), renumbered(instance, node, slot).astype(np.int32)
    may_stay = (tasks.node >= 0) & ~(instance.nodes.leaving[tasks.node] & instance.has_open_node)
    if any(figure.value is None for figure in objectives):
        return node, slot
    left = min(_SLOT_TRIALS, max(_FEWEST_TRIALS, _WORK // max(1, instance.num_tasks)))
    best, cost = Kept(instance, node, objectives, slot), _restarts(instance, node, slot)
    free = without_limits(instance, [*BUDGET_NAMES, *rules_of({Form.RESTARTS})])
    near = nodes_brought_home(free, node, node_classes(free))
    # first whole nodes change places: that costs one trial and often saves most restarts
    number = renumbered(instance, near, slot).astype(np.int32)
    less = _restarts(instance, near, number)
    if less < cost and best.takes(near, number):
        cost = less
    again = True
    while again:
        again = False
        node, slot = best.node, np.asarray(best.slot)
        for some in _moved_together(instance, node, slot, may_stay):
            if left == 0:
                return node, slot
            left -= 1
            at, number = node.copy(), slot.copy()
            at[some], number[some] = tasks.node[some], tasks.slot[some]
            less = _restarts(instance, at, number)
            if less < cost and best.takes(at, number):
                cost, again = less, True
                break
    return best.node, np.asarray(best.slot)


def _restarts(instance: Instance, node: Ints, slot: Ints) -> tuple[int, int, float]:
    """Return how many workers restart, how many tasks change their node, and what is copied."""
    return (workers_restarted(instance, node, slot) or 0, *_changed(instance, node))


def _moved_together(
    instance: Instance, node: Ints, slot: Ints, may_stay: NDArray[np.bool_]
) -> list[Tasks]:
    """Return tasks that run elsewhere than now: of connected workers, of each worker, each."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    now, then, count = _places(instance, node, slot)
    moved = np.flatnonzero((now != then) & (now >= 0) & (then >= 0))
    ends = now[moved], then[moved]
    graph = coo_array((np.ones(len(moved)), ends), shape=(count, count))
    part = connected_components(graph, directed=False)[1][now[moved]]
    groups = [moved[part == k] for k in np.unique(part).tolist()]
    groups += [moved[(ends[0] == p) | (ends[1] == p)] for p in np.unique(ends[0]).tolist()]
    groups += [moved[k : k + 1] for k in range(len(moved))]
    return [some for some in groups if may_stay[some].all()]


def _places(instance: Instance, node: Ints, slot: Ints) -> tuple[Tasks, Tasks, int]:
    """(T,) numbers of the slots that tasks run in now and then, -1 for none, and how many."""
    count = len(node)
    both = slot_places(
        np.concatenate([instance.tasks.node, node]), np.concatenate([instance.tasks.slot, slot])
    )
    kinds, index = np.unique(both, return_inverse=True)
    index = index.reshape(-1) - (1 if len(kinds) and kinds[0] < 0 else 0)
    return index[:count], index[count:], len(kinds)


def within_restarts(
    instance: Instance, node: Ints, slot: Ints | None, objective: Figure
) -> tuple[Ints, Ints] | None:
    """Return a plan that restarts no more workers than may: the current one, and part of a plan.

    Pairs of workers exchange the tasks that they exchange by the plan, that pair first by which the
    plan breaks fewest rules and then is best, as long as one improves it.

    `node`, `slot`: the plan; slots that keep all other rules are found where it has none.
    Returns (T,) nodes and slots, or None: ``None`` where no plan was found that keeps every rule.
    """
    tasks = instance.tasks
    if slot is None:
        free = without_limits(instance, rules_of({Form.RESTARTS}))
        slot = Placement(free, node).slot_assignment.slot
    if slot is None or node.min(initial=0) < 0 or objective.value is None:
        return None
    if workers_restarted(instance, node, slot) is None:
        return None
    node, slot = np.array(node, np.int32), renumbered(instance, node, slot).astype(np.int32)
    now, then, _ = _places(instance, node, slot)
    open_now = now >= 0
    most, chosen = most_restarts(instance), set(then[~open_now].tolist())

    def partial_plan(places: set[int]) -> tuple[Ints, Ints]:
        # a task follows the plan where both its worker now and its worker then are chosen
        both = np.isin(then, list(places)) & (~open_now | np.isin(now, list(places)))
        return (
            np.where(both, node, tasks.node).astype(np.int32),
            np.where(both, slot, tasks.slot).astype(np.int32),
        )

    def rank(at: Ints, number: Ints) -> tuple[float, ...]:
        wrong = broken(Placement(instance, at, number))
        # shares of what is available, so that loads and counts can be added
        amount = float(f"{sum(v.amount / max(1.0, v.available) for v in wrong):.9e}")
        return len(wrong), amount, *_ranks(instance, at, [objective], number)

    best = partial_plan(chosen)
    value, left = rank(*best), _SLOT_TRIALS
    moved = np.flatnonzero(open_now & (now != then))
    pairs, counts = np.unique(
        np.sort(np.column_stack([now[moved], then[moved]]), axis=1), axis=0, return_counts=True
    )
    ordered = [{int(a), int(b)} for a, b in pairs[np.argsort(-counts, kind="stable")]]
    while left > 0:
        improvement: tuple[tuple[float, ...], set[int], tuple[Ints, Ints]] | None = None
        for pair in ordered:
            if pair <= chosen or left == 0:
                continue
            left -= 1
            plan = partial_plan(chosen | pair)
            if (workers_restarted(instance, *plan) or 0) > (most or 0):
                continue
            worth = rank(*plan)
            if worth < (value if improvement is None else improvement[0]):
                improvement = worth, chosen | pair, plan
        if improvement is None:
            break
        value, chosen, best = improvement
    return None if value[0] else best
