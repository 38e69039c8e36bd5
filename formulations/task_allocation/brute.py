"""`imc-brute`: every assignment tried, the judge of the others on small instances.

There is no bounding, only symmetry: identical nodes are opened in order of their numbers, and tasks
of one class of interchangeable tasks take nodes in ascending order. Both can be had at once: give
the freshly opened nodes of a class of tasks the lowest free numbers, then sort its tasks. Rules
that partial assignments can break cut branches off; the others are checked by the referee.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from formulations.task_allocation.common import KNOWN_FORMS, LINEAR_FORMS, STARTS, UNDECIDED
from optim.errors import Problem, UnsuitableMethod
from optim.figures.catalogue import OBJECTIVES, find_objective
from optim.figures.figure import in_units
from optim.kernels.classes import TaskGroups, node_classes, task_groups
from optim.kernels.place_rules import (
    NOBODY,
    broken,
    enter,
    make_guard,
    may_enter,
    move_budgets,
    no_rules,
    pays,
    place_rules,
)
from optim.kernels.state import NOWHERE
from optim.methods.reduce import emptied_or_any, lowered
from optim.methods.registry import Method, Outcome
from optim.referee import Level, Termination
from optim.rules import RULES, is_feasible, rules_of
from optim.rules.base import MEASURED, Form
from optim.rules.placement import Placement
from optim.util.compiled import CALL, helper, kernel, warming
from optim.util.progress import ProgressRecorder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optim.figures.figure import Figure
    from optim.format.instance import Instance
    from optim.kernels.classes import NodeClasses
    from optim.kernels.place_rules import Guard
    from optim.methods.registry import Request


MOST_TASKS = 64

MOST_ASSIGNMENTS = 50_000_000  # Partial assignments that fit, beyond which the method refuses.
_CHUNK = 5_000_000  # Partial assignments between two looks at the clock.
_FEW = 5_000  # Partial assignments that Python tries in less time than numba takes to load.

_JUDGED = {
    Form.LINK_CAPACITY, Form.DISTANCE, Form.SLOTS, Form.SLOT_COUNT, Form.SLOT_SETS, Form.RESTARTS,
}  # fmt: skip
_AT_LAST = tuple(rule for rule in RULES if rule.form in _JUDGED)
"""Rules that the referee checks, for every assignment that satisfies the others."""


class Walk(NamedTuple):
    """Where the enumeration stands; all arrays change in place, so that it goes on where it was."""

    place: NDArray[np.int64]  # (T,) node of each task of the order, -1 where none is tried yet.
    #: (N, R) load and (N,) tasks on each node.
    used: NDArray[np.float64]
    num_tasks: NDArray[np.int64]
    #: (T + 1,) traffic that the tasks before have collected; (T + 1, K) what their migrations took
    #: of each budget of moves.
    gain: NDArray[np.float64]
    spent: NDArray[np.float64]
    #: (2,) position in the order (-1 at the end), and partial assignments looked at.
    at: NDArray[np.int64]


class Ordered(NamedTuple):
    """The problem, tasks in their order."""

    rate: NDArray[np.float64]  # (T, T) symmetric traffic of pairs.
    #: (T, R), (N, R), (N, R).
    load: NDArray[np.float64]
    room: NDArray[np.float64]
    floor: NDArray[np.float64]
    may: NDArray[np.bool_]  # (T, N) where tasks may go.
    #: (T, 2) task, and class of interchangeable tasks (contiguous; -1 distinguishes a task from all
    #: others).
    label: NDArray[np.int64]
    node_class: NDArray[np.int64]  # (N,) class of identical nodes, -1 for unusable ones.
    #: (T, K) what a migration of each task takes of each budget; (K,) what there is of it.
    price: NDArray[np.float64]
    budget: NDArray[np.float64]


@kernel(steps=lambda most: CALL if most <= _FEW else np.inf)
def next_better(walk, guard, problem, best, most):  # type: ignore[no-untyped-def]
    """Go on to the next assignment that keeps these rules and collocates more than `best`.

    `walk`: where to go on.
    `guard`: sets, inflow and copies, under the tasks that stand.
    `best`: gain to beat.
    `most`: partial assignments at which to stop.
    Returns whether one was found; else all are seen, or `most` is reached.
    """
    rate, load, room, floor, may, label, node_class, price, budget = problem
    num_tasks, num_nodes = may.shape
    num_resources = load.shape[1]
    place, used, num_tasks_on, gain = walk.place, walk.used, walk.num_tasks, walk.gain
    t = walk.at[0]
    while t >= 0 and walk.at[1] < most:
        if t == num_tasks:
            t -= 1
            walk.at[0] = t
            better = gain[num_tasks] - best > 1e-12 * abs(gain[num_tasks])
            if better and _whole(walk, guard, floor, node_class):
                return True
            continue
        task = label[t, 0]
        n = place[t]
        if n >= 0:
            num_tasks_on[n] -= 1
            enter(guard, task, n, NOWHERE)
            for r in range(num_resources):
                used[n, r] -= load[t, r]
        elif t > 0 and label[t, 1] >= 0 and label[t, 1] == label[t - 1, 1]:
            n = place[t - 1] - 1  # not before the one that is its equal
        n += 1
        while n < num_nodes:
            fits = may[t, n] and node_class[n] >= 0 and _is_first(n, node_class, num_tasks_on)
            if fits:
                for r in range(num_resources):
                    if used[n, r] + load[t, r] > room[n, r]:
                        fits = False
            if fits:
                moved = pays(guard, task, n)
                for b in range(len(budget)):
                    walk.spent[t + 1, b] = walk.spent[t, b] + moved * price[t, b]
                    fits = fits and walk.spent[t + 1, b] <= budget[b]
            if fits and guard.active:
                fits = may_enter(guard, task, NOWHERE, n, NOBODY)
            if fits:
                break
            n += 1
        if n == num_nodes:
            place[t] = NOWHERE
            t -= 1
            walk.at[0] = t
            continue
        walk.at[1] += 1
        place[t] = n
        num_tasks_on[n] += 1
        enter(guard, task, NOWHERE, n)
        total = gain[t]
        for r in range(num_resources):
            used[n, r] += load[t, r]
        for s in range(t):
            if place[s] == n:
                total += rate[s, t]
        t += 1
        walk.at[0] = t
        gain[t] = total
        if t < num_tasks:
            place[t] = NOWHERE
    return False


@helper
def _is_first(n, node_class, num_tasks):  # type: ignore[no-untyped-def]
    """Whether a node holds tasks, or is the first empty one of its class."""
    first = True
    if num_tasks[n] == 0:
        for m in range(n):
            first = first and (node_class[m] != node_class[n] or num_tasks[m] > 0)
    return first


@helper
def _whole(walk, guard, floor, node_class):  # type: ignore[no-untyped-def]
    """Whether a complete assignment keeps what is known only at the end."""
    for n in range(floor.shape[0]):
        for r in range(floor.shape[1]):
            if node_class[n] >= 0 and walk.used[n, r] < floor[n, r]:
                return False
    return broken(guard) == 0


def run(instance: Instance, request: Request) -> Outcome:
    """Try all assignments of an instance.

    Raises `UnsuitableMethod`: there are more than `MOST_ASSIGNMENTS`.
    """
    objective = request.objective or METHOD.objective
    by_pairs = objective == METHOD.objective and not instance.flows.local
    if not by_pairs or instance.crossing_cost.any():
        return best_by_figure(instance, request, objective)
    instance = lowered(instance, METHOD.honours - rules_of({Form.TASK_COUNT}))
    request, compiled = request.warmed(_warm_up)
    groups, classes = task_groups(instance), node_classes(instance)
    most = MOST_ASSIGNMENTS
    _check_size(instance, groups, classes)
    outcome = Outcome(Termination.OPTIMAL, times={"compile": compiled})
    last = [rule for rule in _AT_LAST if rule.present(instance) is not None]
    walk, guard, problem = _problem(instance, groups, classes)
    order = groups.members.astype(np.int64)
    recorder = ProgressRecorder("max", request.progress, request.started)
    best = bound = -np.inf
    while walk.at[0] >= 0:
        seen = int(walk.at[1])
        upto = _FEW if seen < _FEW else seen + _CHUNK
        found = next_better(walk, guard, problem, best, min(most + 1, upto))
        if found:
            node = np.full(instance.num_tasks, NOWHERE, dtype=np.int32)
            node[order] = walk.place
            fits = is_feasible(Placement(instance, node), last)
            if fits is None:
                bound = max(bound, float(walk.gain[-1]))
            elif fits:
                best, outcome.node = float(walk.gain[-1]), node
                request.offer(node)
                recorder.note(incumbent=best)
        elif walk.at[1] > most:
            raise _too_many(f"more than {most:,}")
        if request.remaining() == 0.0:
            break
    seen = int(walk.at[1])
    outcome.notes.append(f"{seen:,} partial assignments")
    recorder.finish()
    outcome.trace = recorder.trace
    outcome.claimed = None if outcome.node is None else best
    if walk.at[0] >= 0:
        outcome.termination = Termination.TIME_LIMIT
    elif outcome.node is None and bound == -np.inf:
        outcome.termination = Termination.INFEASIBLE
    else:
        outcome.bound = max(best, bound)
        _withdraw(outcome, unknown=bound > best)
    return outcome


def _withdraw(outcome: Outcome, *, unknown: bool) -> None:
    """Claim nothing where it is unknown whether a better assignment fits the slots."""
    if unknown:
        outcome.termination = Termination.ITERATION_LIMIT
        outcome.notes.append(UNDECIDED)


def _problem(
    instance: Instance, groups: TaskGroups, classes: NodeClasses
) -> tuple[Walk, Guard, Ordered]:
    """Return the walk at its start, the guard, and the problem."""
    count, order = instance.num_tasks, groups.members.astype(np.int64)
    price, budget = move_budgets(instance)
    shape = (instance.num_nodes, instance.num_resources)
    room, floor = np.full(shape, np.inf), np.full(shape, -np.inf)
    of = classes.node_class[classes.members]
    room[classes.members], floor[classes.members] = classes.room[of], classes.floor[of]
    usable = classes.node_class >= 0
    may = np.zeros((count, instance.num_nodes), dtype=np.bool_)
    may[:, usable] = classes.target[groups.kind[groups.group]][:, classes.node_class[usable]]
    label = np.column_stack([order, groups.group[order]])
    walk = Walk(
        np.full(count, NOWHERE, dtype=np.int64), np.zeros(shape),
        np.zeros(instance.num_nodes, dtype=np.int64), np.zeros(count + 1),
        np.zeros((count + 1, len(budget))), np.zeros(2, dtype=np.int64),
    )  # fmt: skip
    guard = make_guard(place_rules(instance), np.full(count, NOWHERE, dtype=np.int64))
    rate, (u, v, between) = np.zeros((count, count)), instance.pairs
    rate[u, v] = rate[v, u] = between
    rate = np.ascontiguousarray(rate[np.ix_(order, order)])
    load = np.ascontiguousarray(instance.tasks.load[order])
    problem = Ordered(
        rate, load, room, floor, may[order], label.astype(np.int64),
        classes.node_class.astype(np.int64), np.ascontiguousarray(price[order]), budget,
    )  # fmt: skip
    return walk, guard, problem


def least_assignments(groups: TaskGroups, classes: NodeClasses) -> float:
    """Return log10 of a number of assignments that there are at least, symmetry broken.

    All assignments, over the number of ways to rename nodes and tasks within their classes.
    Capacities are not looked at.
    """
    open_nodes = [
        max(1, int(classes.sizes[classes.target[kind]].sum())) for kind in groups.kind[groups.group]
    ]
    total = sum(math.log10(count) for count in open_nodes)
    total -= sum(math.lgamma(int(n) + 1) / math.log(10) for n in classes.sizes)
    total -= sum(math.lgamma(int(n) + 1) / math.log(10) for n in groups.sizes)
    return max(0.0, total)


def _check_size(instance: Instance, groups: TaskGroups, classes: NodeClasses) -> None:
    least = least_assignments(groups, classes)
    if instance.num_tasks > MOST_TASKS or least > math.log10(MOST_ASSIGNMENTS):
        raise _too_many(f"at least 10^{least:.1f} ({instance.num_tasks} tasks)")


def _too_many(count: str) -> UnsuitableMethod:
    reason = f"would try {count} assignments"
    return UnsuitableMethod(Problem("imc-brute", None, reason, "use imc-exact"))


@warming
def _warm_up() -> None:
    one, number = np.ones((1, 1)), np.zeros(1, dtype=np.int64)
    walk = Walk(
        number - 1, one - 1, number.copy(), np.zeros(2), np.zeros((2, 1)),
        np.zeros(2, dtype=np.int64),
    )  # fmt: skip
    guard = make_guard(no_rules(number - 1, 1), number - 1)
    problem = Ordered(
        one, one, one, one, one > 0, np.zeros((1, 2), dtype=np.int64), number, one, np.zeros(1)
    )
    next_better(walk, guard, problem, -np.inf, 10)


# `imc-brute` for any figure but traffic inside nodes: every assignment judged by itself.

_ROUNDING = 1e-9
MOST = 500_000
"""Assignments, each judged in some 50 µs."""

JUDGED = tuple(name for name, figure in OBJECTIVES.items() if figure.value is not None)
"""Objectives that every placement has a value of, or says that it has none."""


def best_by_figure(instance: Instance, request: Request, objective: str) -> Outcome:
    """Try all assignments to allowed nodes, of those that stay where a task has one.

    Raises `UnsuitableMethod`: there are more than `MOST`, or the figure has no value for plans of
        this instance.
    """
    places = [_places(instance, task) for task in range(instance.num_tasks)]
    count = math.prod(map(len, places))
    if count > MOST:
        reason = f"would evaluate {count:.3g} assignments by {objective}, more than {MOST:,}"
        raise UnsuitableMethod(Problem("imc-brute", None, reason, "use plan-search"))
    return _best_of(instance, request, objective, places)


def best_of_all(instance: Instance, request: Request) -> Outcome | None:
    """Try all assignments, those to leaving nodes included; ``None`` where there are too many."""
    allowed = [np.flatnonzero(instance.allowed_mask(t)) for t in range(instance.num_tasks)]
    if math.prod(map(len, allowed)) > MOST:
        return None
    return _best_of(instance, request, str(request.objective), [x.tolist() for x in allowed])


def _best_of(
    instance: Instance, request: Request, objective: str, places: list[list[int]]
) -> Outcome:
    figure = in_units(find_objective(objective), request.scale.of)
    count = math.prod(map(len, places))
    best: list[Any] | None = None
    unknown: list[Any] | None = None  # the best of which it is not known whether it fits the slots
    binding = figure.binding(instance)
    outcome = Outcome(Termination.OPTIMAL, notes=[f"{count:,} assignments"])
    for nodes in itertools.product(*places):
        placement = Placement(instance, np.array(nodes, dtype=np.int32))
        if request.remaining() == 0.0:
            outcome.termination = Termination.TIME_LIMIT
            return outcome
        values = [None if f.value is None else f.value(placement) for f in figure.levels]
        # figures are cheap beside the rules
        if best is not None and None not in values and not _better(figure, values, best):
            continue
        judged = placement if figure.hard is None else Placement(binding, placement.node)
        fits = is_feasible(judged)
        if fits is False:
            continue
        if None in values:
            reason = "has no value for plans of this instance, or for plans without slots"
            raise UnsuitableMethod(Problem("--objective", objective, reason, "use another figure"))
        if fits is None:
            if unknown is None or _better(figure, values, unknown):
                unknown = values
            continue
        outcome.node, best = placement.node, values
        request.offer(placement.node)
    if unknown is not None and best is not None and not _better(figure, unknown, best):
        unknown = None
    if best is not None:
        outcome.claimed = outcome.bound = float(best[0])
        outcome.levels = tuple(
            Level(f.name, str(f.sense), value, value if unknown is None else None, f.unit)
            for f, value in zip(figure.further, best[1:], strict=True)
        )
    if unknown is not None:
        outcome.bound = float(unknown[0])
        _withdraw(outcome, unknown=True)
    elif best is None:
        outcome.termination = Termination.INFEASIBLE
    return outcome


def _better(figure: Figure, values: list[Any], best: list[Any]) -> bool:
    """Whether a plan is better by the first level that is not equal up to rounding."""
    for level, value, best_value in zip(figure.levels, values, best, strict=True):
        if len(values) == 1 or abs(value - best_value) > _ROUNDING * max(
            abs(value), abs(best_value)
        ):
            return level.better(value, best_value)
    return False


def _places(instance: Instance, task: int) -> list[int]:
    allowed = instance.allowed_mask(task)
    staying = allowed & instance.open_nodes
    return [int(node) for node in np.flatnonzero(staying if staying.any() else allowed)]


METHOD = Method(
    name="imc-brute",
    family="task allocation",
    kind="exact",
    objective="imc_gain",
    objectives=JUDGED,
    combines=True,
    run=emptied_or_any(run, best_of_all),
    summary="All assignments, identical nodes and tasks counted once; a judge for small instances",
    source="",
    forms=KNOWN_FORMS
    | LINEAR_FORMS
    | {Form.DISTANCE, Form.SLOTS, Form.SLOT_COUNT, Form.SLOT_SETS, Form.RESTARTS}
    | {Form.TASK_COUNT}
    | MEASURED,
    starts=STARTS,
)
