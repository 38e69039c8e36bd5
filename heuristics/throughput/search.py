"""`throughput-search`: annealing of the fullest nodes and links, for any instance and any rules.

The fewest moves, or the fewest nodes, that carry a rate: capacities say how much is to be carried
(`optim.figures.rate.carrying`), so that a plan carries it whose fullest place is not more than
full. For moves, the search for the rate is asked with budgets, by halves; then tasks go home where
that leaves room. For nodes, they are closed one after another.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.throughput.bound import least_load
from formulations.throughput.common import (
    FULL,
    KNOWN_FORMS,
    LOSS,
    MOVES,
    NODES,
    check_moves,
    counted,
    emptied_first,
    finished,
    rate_at,
)
from formulations.throughput.problem import NEVER, load_of, thread_load
from heuristics.throughput.board import fixed_of, state_of
from heuristics.throughput.kernel import anneal, gather
from heuristics.throughput.loss import after_losses, least_after_loss, warm_up_losses
from heuristics.throughput.starts import spread, starts_of
from optim.figures.measures import imc_gain_of, migrated_tasks
from optim.figures.rate import without_measured
from optim.kernels.guard import make_guard
from optim.kernels.place_rules import place_rules
from optim.kernels.room import placing_room
from optim.kernels.warm import two_tasks, warm_up
from optim.methods.reduce import with_columns
from optim.methods.registry import Method, Option, Outcome
from optim.referee.evaluate import evaluate_indices
from optim.referee.result import Termination
from optim.rules import moving_at_most
from optim.rules.base import Form
from optim.rules.budget import forced_moves
from optim.util.compiled import warming
from optim.util.progress import ProgressRecorder
from optim.util.tolerance import slack

if TYPE_CHECKING:
    from collections.abc import Callable

    from optim.format.instance import Instance
    from optim.format.tables import Bools, Ints
    from optim.methods.registry import Request


_ROUNDS = ((3.0, 1e-2), (10.0, 0.1), (3.0, 1e-2), (0.3, 1e-3))
"""Temperatures at the beginning and the end of each round; the worst place counts 1."""
_EACH, _FEW, _MORE, _MOST = 1000, 60, 15, 1_000_000
"""Steps of a round for each of the first tasks, how many these are, for each further one, and at
most."""
_CHUNK = 50_000
_SAME = 1e-9
_ENOUGH = 1e-9


def run(instance: Instance, request: Request) -> Outcome:
    """Place the tasks of an instance; the method's entry point."""
    losing = (warm_up_losses,) if request.objective == LOSS else ()
    request, compiled = request.warmed(_warm_up, *losing)
    if request.objective in (MOVES, NODES):
        outcome = fewest(instance, request, _carrying)
        outcome.times["compile"] = compiled
        return outcome
    binding, low = without_measured(instance), least_load(instance)
    recorder = ProgressRecorder("max", request.progress, request.started)
    outcome = Outcome(Termination.ITERATION_LIMIT, times={"compile": compiled})
    ranked = _ranked(binding, instance, request)
    outcome.times["build"] = request.elapsed()
    if not ranked:
        outcome.notes.append("found no plan that keeps the limits")
        return finished(instance, outcome, low)
    search = _Search(instance, binding, request, recorder, low, ranked[0])
    request.offer(ranked[0])
    try:
        search.anneal(ranked)
        if request.objective != LOSS and search.high <= thread_load(instance) * (1 + _SAME):
            search.gather()
    except KeyboardInterrupt:
        outcome.termination = Termination.INTERRUPTED
    else:
        if search.stopped:
            outcome.termination = Termination.TIME_LIMIT
    recorder.finish()
    outcome.trace = recorder.trace
    outcome.node = search.best
    if request.objective == LOSS:
        return _after_losses(binding, instance, request, outcome)
    return finished(instance, outcome, low)


def _after_losses(
    binding: Instance, instance: Instance, request: Request, outcome: Outcome
) -> Outcome:
    """Go on from the plan of the best rate to what is left of it after a loss."""
    assert outcome.node is not None
    outcome.objective, outcome.trace = LOSS, []
    low = least_after_loss(instance)
    outcome.bound = rate_at(low) if low > 0 else None
    try:
        node = after_losses(binding, instance, request, outcome.node)
    except KeyboardInterrupt:
        outcome.termination = Termination.INTERRUPTED
        return outcome
    if evaluate_indices(binding, node).feasible:
        outcome.node = node
        request.offer(node)
    return outcome


def _ranked(binding: Instance, instance: Instance, request: Request) -> list[Ints]:
    return sorted(
        starts_of(binding, instance, request),
        key=lambda node: (load_of(instance, node), -imc_gain_of(instance, node)),
    )


def _carrying(instance: Instance, request: Request) -> Ints | None:
    """Look for a placement whose fullest place is full at most; ``None`` without any placement."""
    binding, recorder = without_measured(instance), ProgressRecorder("max", None, request.started)
    ranked = _ranked(binding, instance, request)
    if not ranked:
        return None
    search = _Search(instance, binding, request, recorder, 1 - _ENOUGH / 2, ranked[0])
    if not search.closed:
        search.anneal(ranked)
    return search.best


class _Search:
    """The best placement so far, and what to try next."""

    def __init__(
        self,
        instance: Instance,
        binding: Instance,
        request: Request,
        recorder: ProgressRecorder,
        low: float,
        start: Ints,
    ) -> None:
        self.instance, self.binding, self.request = instance, binding, request
        self.recorder, self.low = recorder, low
        self.best, self.high = start, load_of(instance, start)
        self.fixed, self.rules = fixed_of(binding, instance), place_rules(binding)
        self.stopped = False
        recorder.note(rate_at(self.high), rate_at(low) if low > 0 else None)

    @property
    def closed(self) -> bool:
        """Whether nothing better can be."""
        return self.high <= self.low * (1 + _ENOUGH)

    @property
    def _steps(self) -> int:
        """Steps of a round."""
        effort, tasks = float(self.request.options["effort"]), self.instance.num_tasks
        steps = min(_MOST, _EACH * min(tasks, _FEW) + _MORE * tasks)
        return max(1, int(effort * steps))

    def anneal(self, starts: list[Ints]) -> None:
        """Walk the rounds; the first from the second start, where there is one."""
        if self.closed:
            return
        steps = self._steps
        for i, (hot, cold) in enumerate(_ROUNDS):
            begin = starts[1] if i == 2 and len(starts) > 1 else self.best
            self._round(begin, hot, cold, steps, i)
            if self.stopped or self.closed:
                return

    def _round(self, begin: Ints, hot: float, cold: float, steps: int, number: int) -> None:
        state = state_of(self.fixed, self.binding, self.instance, begin)
        guard = make_guard(self.rules, state.node)
        found: Any = np.array(state.node)
        chunks = max(1, -(-steps // _CHUNK))
        for i in range(chunks):
            ends = [hot * (cold / hot) ** (k / chunks) for k in (i, i + 1)]
            seed = (self.request.seed * 1_000_003 + 101 * number + i) % 2**31
            reference = self.high if 0 < self.high < NEVER else 1.0
            anneal(self.fixed, state, guard, found, reference, *ends, -(-steps // chunks), seed)
            self._take(found)
            left = self.request.remaining()
            self.stopped = left is not None and left <= 0
            if self.stopped or self.closed:
                return

    def gather(self) -> None:
        """Walk towards less traffic, as no placement carries more: nothing gets fuller than now."""
        instance = self.instance
        hot = instance.total_traffic / max(1, instance.num_tasks)
        if not hot > 0:
            return
        steps, state = self._steps, state_of(self.fixed, self.binding, instance, self.best)
        guard, found = make_guard(self.rules, state.node), np.array(state.node)
        chunks = max(1, -(-steps // _CHUNK))
        for i in range(chunks):
            ends = [hot * 1e-3 ** (k / chunks) for k in (i, i + 1)]
            seed = (self.request.seed * 1_000_003 + 997 + i) % 2**31
            each = -(-steps // chunks)
            gather(self.fixed, state, guard, found, self.high * (1 + _SAME), *ends, each, seed)
            node = found.astype(np.int32)
            less = imc_gain_of(instance, node) > imc_gain_of(instance, self.best) * (1 + _SAME)
            kept = load_of(instance, node) <= self.high * (1 + _SAME)
            if less and kept and evaluate_indices(self.binding, node).feasible:
                self.best = node
                self.request.offer(node)
            left = self.request.remaining()
            self.stopped = left is not None and left <= 0
            if self.stopped:
                return

    def _take(self, found: Ints) -> None:
        """Take a placement that is less full at its fullest place, or has less traffic at that."""
        node = found.astype(np.int32)
        high = load_of(self.instance, node)
        if high >= self.high * (1 - _SAME):
            return
        if not evaluate_indices(self.binding, node).feasible:
            return  # at the edge of the tolerance
        self.best, self.high = node, high
        self.request.offer(node)
        self.recorder.note(rate_at(high))


@warming
def _warm_up() -> None:
    """Compile the kernel on two tasks, or load it from the cache."""
    warm_up()
    made = two_tasks()
    binding, node = without_measured(made), np.array([0, 1], dtype=np.int32)
    fixed = fixed_of(binding, made)
    state = state_of(fixed, binding, made, node)
    guard = make_guard(place_rules(binding), state.node)
    spread(binding, made)
    anneal(fixed, state, guard, np.array(state.node), 1.0, 0.1, 0.01, 4, 0)
    gather(fixed, state, guard, np.array(state.node), 1e9, 0.1, 0.01, 4, 0)


_ROUNDING = 1e-9
_HOME = 200
"""Moved tasks up to which each is tried at home."""


def fewest(
    instance: Instance, request: Request, search: Callable[[Instance, Request], Ints | None]
) -> Outcome:
    """Find a plan that is nowhere more than full, of few moves or nodes.

    Parameters
    ----------
    search
        Looks for the placement whose fullest place is least full, and stops where none is more than
        full; of an instance and a request.

    Raises
    ------
    UnsuitableMethod
        Moves are to be counted, and no task has a node.
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
    left = request.remaining()
    if outcome.termination is not Termination.INTERRUPTED and left is not None and left <= 0:
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
        if left is not None and left <= 0:
            return False
        asked = replace(self.request, time_limit=left, warm_start=self.best).apart()
        return self.take(self.search(instance, asked))

    def take(self, node: Ints | None) -> bool:
        """Take a plan if it keeps everything and is better."""
        if node is None or load_of(self.instance, node) > FULL:
            return False
        if not evaluate_indices(self.instance, node).feasible:
            return False
        objective = str(self.request.objective)
        if self.best is None or self.count(node) < self.count(self.best):
            self.best = node
            self.request.offer(node)
        return self.count(self.best) <= counted(self.instance, node, objective)

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
        held = np.bincount(finder.best, minlength=instance.num_nodes)
        used = np.flatnonzero(held)
        again = False
        for n in used[np.argsort(held[used], kind="stable")].tolist():
            tried = closed | (held == 0)
            tried[n] = True
            again = finder.find(_without(instance, tried))
            if again:
                closed = tried
                break
            left = finder.request.remaining()
            if instance.num_nodes > 50 or (left is not None and left <= 0):
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
