"""`throughput-search`: annealing of the fullest nodes and links, for any instance and any rules.

The fewest moves, or the fewest nodes, that carry a rate: capacities say how much is to be carried
(`optim.figures.load.carrying`), so that a plan carries it whose fullest place is not more than
full. For moves, the search for the rate is asked with budgets, by halves; then tasks go home where
that leaves room. For nodes, they are closed one after another.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from formulations.task_allocation.milp import find_plan
from formulations.throughput.problem import (
    FULL,
    KNOWN_FORMS,
    LOSS,
    MOVES,
    NODES,
    check_moves,
    counted,
    emptied_first,
    finished,
    least_load,
    load_of,
    places_of,
    rate_at,
    thread_load,
)
from heuristics.annealing import Annealing, placed_whole, warm_up_walk
from optim.figures.catalogue import find_objective
from optim.figures.load import without_measured
from optim.figures.measures import imc_gain_of, migrated_tasks, slack
from optim.kernels.first_fit import packings
from optim.kernels.place_rules import placing_masks, placing_room
from optim.kernels.repair import repair
from optim.methods.choose import is_suitable
from optim.methods.reduce import with_columns
from optim.methods.registry import Method, Option, Outcome, get_method
from optim.methods.run import one_start
from optim.referee import Termination, evaluate_indices
from optim.rules import moving_at_most
from optim.rules.base import Form
from optim.rules.budget import forced_moves
from optim.util.compiled import kernel
from optim.util.progress import ProgressRecorder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from optim.format.instance import Instance
    from optim.format.tables import Bools, Ints
    from optim.methods.registry import Request

# Where the search begins: what is known, even spreads, and what other families make of it.

_OTHERS = ("partition", "storm-even")
"""Methods of other families: traffic inside nodes, tasks spread evenly."""
_SPARE = 1.15  # Room over load that a method for capacities is given at least.
_SHARE = 0.1
_MANY, _MANY_PAIRS = 20_000, 1_000_000
"""Tasks, and pairs of them, beyond which other families are not asked: partitioners spread out all
pairs, and do not look at the clock."""


def starts_of(binding: Instance, instance: Instance, request: Request) -> list[Ints]:
    """Return placements of all tasks that keep all that binds.

    Where none comes of the constructions, a small model without an objective is asked for one: at
    best for one that carries the current input.
    """
    starts: list[Ints] = []
    least = np.inf
    for node in _candidates(binding, instance, request):
        at = _repaired(binding, node)
        if at is None:
            continue
        starts.append(at)
        if (load := load_of(instance, at)) < least:
            least = load
            request.offer(at)
    for problem in () if starts else (instance, binding):
        planned = find_plan(problem, request) if request.remaining() != 0.0 else None
        repaired = None if planned is None else _repaired(binding, planned)
        if repaired is not None:
            request.offer(repaired)
            return [repaired]
    return starts


def _repaired(binding: Instance, node: Ints) -> Ints | None:
    """Return a placement that keeps all that binds, by repair where it does not yet."""
    at = np.asarray(node, dtype=np.int32)
    for mend in (False, True):
        at = repair(binding, at).node.astype(np.int32) if mend else at
        if at.min(initial=0) >= 0 and evaluate_indices(binding, at).feasible:
            return at
    return None


def _candidates(binding: Instance, instance: Instance, request: Request) -> Iterator[Ints]:
    if request.warm_start is not None:
        yield np.asarray(request.warm_start)
    if binding.has_current:
        yield binding.tasks.node
    yield spread(binding, instance)
    roomy = eased(instance)
    if instance.num_tasks <= _MANY and instance.flows.num_pairs <= _MANY_PAIRS:
        for method in map(get_method, _OTHERS):
            start = None
            if is_suitable(method, roomy):
                start = one_start(method, roomy, request, _SHARE)
            if start is not None:
                yield start.node
    yield next(packings(roomy))
    yield next(packings(binding))


def spread(binding: Instance, instance: Instance) -> Ints:
    """Deal tasks out by decreasing load, each where the load over its room is least after it."""
    kind, _, target = placing_masks(binding)
    driven = [r for r in instance.rate_driven if instance.total_load[r] > 0] or [0]
    room = np.where(np.isfinite(instance.headroom), np.maximum(instance.headroom, 0.0), 1e300)
    room = np.maximum(room[:, driven], 1e-300)
    load = instance.tasks.load[:, driven]
    left = np.where(np.isfinite(binding.headroom), binding.headroom, np.inf)
    size = (load / room.max(axis=0)).max(axis=1)
    node = np.full(instance.num_tasks, -1, dtype=np.int32)
    order = np.argsort(-size, kind="stable")
    every = np.array(instance.tasks.load)
    _place_least_full(node, order, kind.astype(np.int64), target, load, room, every, left.copy())
    return node


@kernel
def _place_least_full(node, order, kind, target, load, room, every, left):  # type: ignore[no-untyped-def]
    """Put tasks where the fullest of some resources is least full and all have room."""
    used = np.zeros_like(room)
    for t in order:
        best, least = -1, np.inf
        for n in range(len(room)):
            if not target[kind[t], n]:
                continue
            full = 0.0
            for r in range(room.shape[1]):
                full = max(full, (used[n, r] + load[t, r]) / room[n, r])
            if full >= least:
                continue
            fits = True
            for r in range(left.shape[1]):
                fits = fits and every[t, r] <= left[n, r]
            if fits:
                best, least = n, full
        if best < 0:
            continue
        node[t] = best
        for r in range(room.shape[1]):
            used[best, r] += load[t, r]
        for r in range(left.shape[1]):
            left[best, r] -= every[t, r]


def eased(instance: Instance) -> Instance:
    """Return the instance without what costs traffic, with capacities that hold the load."""
    nodes, free = instance.nodes, without_measured(instance)
    room = np.maximum(instance.headroom, 0.0).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.where(room > 0, _SPARE * instance.total_load / room, 1.0)
    capacity = np.array(nodes.capacity)
    for r in instance.rate_driven:
        capacity[:, r] *= max(1.0, float(factor[r]))
    return replace(
        free,
        nodes=replace(nodes, capacity=capacity),
        crossing_cost=np.zeros_like(instance.crossing_cost),
    )


_EACH, _FEW, _MORE, _MOST = 1000, 60, 15, 1_000_000
"""Steps of a round for each of the first tasks, how many these are, for each further one, and at
most."""
_CYCLES = 2
_LOSSES, _WORK = 6_000, 1e9
"""The same where each step puts all tasks once: steps at most, and tasks put on nodes."""
_SAME = 1e-9


def run(instance: Instance, request: Request) -> Outcome:
    """Place the tasks of an instance; the method's entry point."""
    request, compiled = request.warmed(warm_up_walk)
    if request.objective in (MOVES, NODES):
        outcome = fewest(instance, request, _carrying)
        outcome.times["compile"] = compiled
        return outcome
    losing, low = request.objective == LOSS, least_load(instance)
    recorder = ProgressRecorder("max", request.progress, request.started)
    outcome = Outcome(Termination.ITERATION_LIMIT, times={"compile": compiled})
    ranked = _ranked(instance, request)
    outcome.times["build"] = request.elapsed()
    search = _annealing(instance, request, low, recorder)
    try:
        _anneal(search, ranked)
        if search.best is None:
            outcome.notes.append("found no plan that keeps the limits")
        elif not losing and load_of(instance, search.best) <= thread_load(instance) * (1 + _SAME):
            search.walk(search.best, 1, _steps(search))  # no placement carries more
        if losing and search.best is not None:
            low = least_after_loss(instance)
            search = _after_losses(instance, request, low, search.best)
    except KeyboardInterrupt:
        outcome.termination = Termination.INTERRUPTED
    else:
        if search.out_of_time:
            outcome.termination = Termination.TIME_LIMIT
    recorder.finish()
    outcome.node = search.best
    if losing:
        outcome.objective, outcome.bound = LOSS, rate_at(low) if low > 0 else None
        return outcome
    outcome.trace = recorder.trace
    return finished(instance, outcome, low)


def _annealing(
    instance: Instance, request: Request, low: float, recorder: ProgressRecorder | None = None
) -> Annealing:
    """Return a search for the rate, and for less traffic at that rate."""
    bounds = [rate_at(low)] if low > 0 else []
    if recorder is not None:
        recorder.note(bound=bounds[0] if bounds else None)
    note = (lambda _: None) if recorder is None else recorder.note
    return Annealing(instance, find_objective("sustainable_rate,imc_gain"), request, note, bounds)


def _anneal(search: Annealing, ranked: list[Ints]) -> None:
    """Look for the highest rate from the best of some placements."""
    for node in ranked:
        search.take(node)
    search.search(ranked, _steps(search), _CYCLES, _CYCLES, levels=1)


def _steps(search: Annealing) -> int:
    """Return the steps of a round."""
    effort, tasks = float(search.request.options["effort"]), search.instance.num_tasks
    steps = min(_MOST, _EACH * min(tasks, _FEW) + _MORE * tasks)
    return max(1, int(effort * steps))


def _after_losses(instance: Instance, request: Request, low: float, start: Ints) -> Annealing:
    """Go on from the plan of the best rate to what is left of it after a loss."""
    bounds = [rate_at(low)] if low > 0 else []
    search = Annealing(instance, find_objective(LOSS), request, bounds=bounds)
    search.take(start)
    if search.best is not None:
        each = max(1, instance.num_tasks * instance.num_nodes)
        search.walk(start, 0, max(1, int(min(_LOSSES, _WORK / each))))
    return search


def least_after_loss(instance: Instance) -> float:
    """Return a utilisation that every placement has at least after some loss, by counting."""
    places = places_of(instance)
    # nodes of equal room and links are missed alike: one of each is enough
    alike = np.column_stack([places.room, places.link[: instance.num_nodes], instance.headroom])
    _, first = np.unique(alike, axis=0, return_index=True)
    return max((least_load(instance, int(n)) for n in first), default=0.0)


def _ranked(instance: Instance, request: Request) -> list[Ints]:
    """Return starts, the best first; where none keeps all that binds, one that does not.

    The model that looks for a start leaves out what crossing traffic costs; the walk lowers the
    excess first.
    """
    binding = without_measured(instance)
    return sorted(
        starts_of(binding, instance, request) or [placed_whole(binding, next(packings(binding)))],
        key=lambda node: (load_of(instance, node), -imc_gain_of(instance, node)),
    )


def _carrying(instance: Instance, request: Request) -> Ints | None:
    """Look for a placement whose fullest place is full at most; ``None`` without any placement."""
    search = _annealing(instance, request, 1.0)
    _anneal(search, _ranked(instance, request))
    return search.best


_ROUNDING = 1e-9
_HOME = 200
"""Moved tasks up to which each is tried at home."""


def fewest(
    instance: Instance, request: Request, search: Callable[[Instance, Request], Ints | None]
) -> Outcome:
    """Find a plan that is nowhere more than full, of few moves or nodes.

    `search`: looks for the placement whose fullest place is least full, and stops where none is
        more than full; of an instance and a request.
    Raises `UnsuitableMethod`: moves are to be counted, and no task has a node.
    """
    objective = str(request.objective)
    check_moves(instance, objective, "throughput-search")
    outcome = Outcome(Termination.ITERATION_LIMIT, objective=objective)
    finder = _Finder(instance, request, search)
    try:
        if objective == NODES:
            low = least_nodes(instance)
            _close_nodes(finder, low)
        else:
            low = least_moves(instance)
            _halve(finder, low)
    except KeyboardInterrupt:
        outcome.termination = Termination.INTERRUPTED
    outcome.bound, outcome.node = float(low), finder.best
    if outcome.node is not None:
        outcome.claimed = counted(instance, outcome.node, objective)
    if outcome.termination is not Termination.INTERRUPTED and request.remaining() == 0:
        outcome.termination = Termination.TIME_LIMIT
    return outcome


class _Finder:
    """The best plan so far, and how more are looked for."""

    def __init__(
        self,
        instance: Instance,
        request: Request,
        search: Callable[[Instance, Request], Ints | None],
    ) -> None:
        self.instance, self.request, self.search = instance, request, search
        self.best: Ints | None = None

    def find(self, instance: Instance) -> bool:
        """Look for a plan of a narrower instance; take it if there is one."""
        left = self.request.remaining()
        if left == 0:
            return False
        request = replace(self.request, time_limit=left, warm_start=self.best).apart()
        return self.take(self.search(instance, request))

    def take(self, node: Ints | None) -> bool:
        """Take a plan if it keeps everything and is better."""
        if node is None or load_of(self.instance, node) > FULL:
            return False
        if not evaluate_indices(self.instance, node).feasible:
            return False
        if self.best is None or self.count(node) < self.count(self.best):
            self.best = node
            self.request.offer(node)
        return self.count(self.best) <= self.count(node)

    def count(self, node: Ints) -> float:
        """Return the moves or nodes of a plan."""
        return counted(self.instance, node, str(self.request.objective))


def _halve(finder: _Finder, low: int) -> None:
    """Look for plans of fewer and fewer moves."""
    instance = finder.instance
    if instance.has_current:
        finder.take(instance.tasks.node)
    if finder.best is None and not finder.find(instance):
        return
    while finder.best is not None and (high := int(finder.count(finder.best))) > low:
        _send_home(finder)
        high = int(finder.count(finder.best))
        if high <= low:
            return
        middle = (low + high) // 2
        if not finder.find(moving_at_most(instance, middle)):
            low = middle + 1


def _send_home(finder: _Finder) -> None:
    """Send moved tasks home, one by one, where nothing gets too full."""
    assert finder.best is not None
    home = finder.instance.tasks.node
    moved = migrated_tasks(finder.instance, finder.best)
    for t in moved[:_HOME].tolist():
        tried = finder.best.copy()
        tried[t] = home[t]
        finder.take(tried)


def _close_nodes(finder: _Finder, low: int) -> None:
    """Close a node in use, that of the fewest tasks first, as long as the rest carries all."""
    instance = finder.instance
    if not finder.find(instance):
        return
    closed = np.zeros(instance.num_nodes, dtype=np.bool_)
    while finder.best is not None and finder.count(finder.best) > low:
        num_tasks = np.bincount(finder.best, minlength=instance.num_nodes)
        used = np.flatnonzero(num_tasks)
        again = False
        for n in used[np.argsort(num_tasks[used], kind="stable")].tolist():
            tried = closed | (num_tasks == 0)
            tried[n] = True
            again = finder.find(_without(instance, tried))
            if again:
                closed = tried
                break
            if instance.num_nodes > 50 or finder.request.remaining() == 0:
                break
        if not again:
            return


def _without(instance: Instance, closed: Bools) -> Instance:
    """Return the instance with nodes that may hold no task: a resource which they have none of."""
    room = np.where(closed, 0.0, np.inf)[:, None]
    return with_columns(instance, ("closed",), np.ones((instance.num_tasks, 1)), room)


def least_nodes(instance: Instance) -> int:
    """Return a number of nodes below which the largest of them have no room for all load."""
    need, room = instance.total_load, np.sort(placing_room(instance), axis=0)[::-1]
    enough = np.cumsum(np.maximum(room, 0.0), axis=0) >= need * (1 - _ROUNDING)
    return int(np.argmax(enough, axis=0).max()) + 1


def least_moves(instance: Instance) -> int:
    """Return moves that every plan has: tasks that may not stay, and what overloads their nodes.

    Of a node that is too full by the loads alone, so many of its heaviest tasks go at least as
    leave the rest room; those with a copy elsewhere may go for nothing, and count for none.
    """
    home = instance.tasks.node
    # the tolerance twice: once the referee's own, once for sums over many tasks
    most = instance.nodes.capacity * instance.limits.max_utilisation
    room = instance.headroom + 2 * slack(most)
    free = np.isin(np.arange(instance.num_tasks), instance.tasks.copied)
    forced = np.bincount(home[forced_moves(instance)], minlength=instance.num_nodes)
    total = 0
    for n in np.flatnonzero(np.bincount(home[home >= 0], minlength=instance.num_nodes)).tolist():
        load = instance.tasks.load[(home == n) & ~free]
        lightest = np.cumsum(np.sort(load, axis=0), axis=0)
        left = np.vstack([np.zeros(load.shape[1]), lightest])[::-1]  # without the heaviest 0, 1, …
        fits = left <= room[n]
        here = np.where(fits.any(axis=0), np.argmax(fits, axis=0), len(load))
        total += max(int(here.max()), int(forced[n]))
    return total


METHOD = Method(
    name="throughput-search",
    family="throughput",
    kind="search",
    objective="sustainable_rate",
    objectives=(LOSS, MOVES, NODES),
    run=emptied_first(run),
    summary="Annealing that empties the fullest nodes and links, from starts of other families",
    needs=("tasks", "nodes", "bounded_rate"),
    forms=KNOWN_FORMS | {Form.SETS, Form.NODE_COUNT},
    options=(Option("effort", "float", 1.0, "times the usual number of steps", minimum=0.001),),
    takes_warm_start=True,
)
