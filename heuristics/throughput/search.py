"""`throughput-search`: annealing of the fullest nodes and links, for any instance and any rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.throughput.bound import least_load
from formulations.throughput.common import (
    HONOURS,
    LOSS,
    MOVES,
    NODES,
    emptied_first,
    finished,
    rate_at,
)
from formulations.throughput.problem import NEVER, load_of, thread_load
from heuristics.throughput.board import fixed_of, state_of
from heuristics.throughput.fewest import fewest
from heuristics.throughput.kernel import anneal, gather
from heuristics.throughput.loss import after_losses, least_after_loss, warm_up_losses
from heuristics.throughput.starts import spread, starts_of
from optim.figures.measures import imc_gain_of
from optim.figures.rate import without_measured
from optim.kernels.guard import make_guard
from optim.kernels.place_rules import place_rules
from optim.kernels.warm import two_tasks, warm_up
from optim.methods.registry import Method, Option, Outcome
from optim.referee.evaluate import evaluate_indices
from optim.referee.result import Termination
from optim.util.ahead import at_once
from optim.util.compiled import warming
from optim.util.progress import ProgressRecorder

if TYPE_CHECKING:
    from optim.format.instance import Instance
    from optim.format.tables import Ints
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
        at_once(anneal, steps * len(_ROUNDS))
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
        at_once(gather, steps)
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


METHOD = Method(
    name="throughput-search",
    family="throughput",
    kind="search",
    objective="sustainable_rate",
    objectives=(LOSS, MOVES, NODES),
    run=emptied_first(run),
    summary="Annealing that empties the fullest nodes and links, from starts of other families",
    needs=("bounded_rate",),
    honours=HONOURS | {"sets"},
    options=(Option("effort", "float", 1.0, "times the usual number of steps", minimum=0.001),),
    takes_warm_start=True,
)
