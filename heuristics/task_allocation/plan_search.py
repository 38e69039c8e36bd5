"""``plan-search``: annealing of any objective made of figures, under every rule.

One walk for all objectives (`optim.kernels.plan_walk`): it moves tasks, exchanges them, in chains
and in groups, and reckons anew what that changes of the figures. Levels are gone through one after
another: while a later one is improved, what the earlier ones are worse than their best is dear.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.task_allocation.common import check_known
from optim.figures.catalogue import find_objective
from optim.figures.expression import in_units
from optim.kernels.first_fit import packings
from optim.kernels.plan_state import (
    BY_GREATEST,
    EACH,
    FIGURE_KINDS,
    FIGURES,
    LEFT,
    NODE,
    PARAMETERS,
    REFERENCE,
    SEARCHED,
    VALUES,
    WIDTH,
    state_of,
)
from optim.kernels.plan_walk import (
    AIM,
    BLEND,
    COLD,
    HOT,
    LEVEL,
    PRICE_OF_BROKEN,
    SEED,
    STEPS,
    STILL,
    STOPS,
    TOLD,
    fill,
    levels_of,
    walk,
)
from optim.kernels.repair import repair
from optim.kernels.room import placing_masks
from optim.kernels.warm import two_tasks, warm_up
from optim.methods.choose import is_suitable
from optim.methods.reduce import without_slots
from optim.methods.registry import Method, Option, Outcome, get_method
from optim.methods.run import run_method, starting
from optim.referee.evaluate import evaluate_indices
from optim.referee.result import Termination
from optim.rules.base import LOADS, OF_MOVES, Form
from optim.rules.placement import Placement
from optim.util.compiled import warming
from optim.util.progress import ProgressRecorder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim.figures.figure import Figure
    from optim.format.instance import Instance
    from optim.format.tables import Ints
    from optim.methods.registry import Request

_ROUNDS = ((1.0, 1e-3, 0.5), (0.1, 1e-5, 0.5), (0.02, 1e-6, 0.0))
"""Temperatures at the beginning and the end of each round, a usual change of the objective counts
1; and the share of the smooth figures in what leads the walk."""
_FIRST, _EACH, _MOST = 10_000, 300, 400_000
"""Steps of a round: for any instance, for each task, and at most."""
_A_PLACEMENT = 20
"""Steps of a round for each placement that there is, where these are few."""
_CHUNK = 25_000
_CYCLES, _PATIENCE = 12, 3
"""Times that the rounds are walked at most, and without any gain before the search ends."""
_PROBES = 400
_WORSE = 3.0
"""Usual changes of a later level that the smallest loss of an earlier one costs."""
_OTHERS = ("partition", "storm-even")
"""Methods whose plans are walked from, too: traffic kept inside, tasks spread evenly."""
_MANY = 20_000
_JUDGED_BYTES = 1 << 26
"""Of placements that the referee has judged and is not asked about again."""


def run(instance: Instance, request: Request) -> Outcome:
    """Search; the method's entry point."""
    request, compiled = request.warmed(_warm_up)
    asked = find_objective(request.objective or METHOD.objective)
    objective = in_units(asked, request.scale.of)
    recorder = ProgressRecorder(str(objective.sense), request.progress, request.started)
    search = _Search(instance, objective, request, recorder)
    outcome = Outcome(Termination.ITERATION_LIMIT, times={"compile": compiled})
    try:
        search.run()
    except KeyboardInterrupt:
        outcome.termination = Termination.INTERRUPTED
    else:
        if search.out_of_time:
            outcome.termination = Termination.TIME_LIMIT
    recorder.finish()
    outcome.trace, outcome.node = recorder.trace, search.best
    if search.best is None:
        outcome.notes.append("found no plan that keeps the limits")
    return outcome


class _Search:
    """The best placement so far, and what is tried next."""

    def __init__(
        self, instance: Instance, objective: Figure, request: Request, recorder: ProgressRecorder
    ) -> None:
        self.instance, self.objective, self.request = instance, objective, request
        self.binding, self.recorder = objective.binding(instance), recorder
        self.best: Ints | None = None
        self.values: tuple[float, ...] = ()
        levels = len(objective.levels)
        self.narrowed, self.exact = without_slots(self.binding, METHOD.honours)
        self.record, self.sure = np.full(levels + 1, 1e300), np.full(levels + 1, 1e300)
        self.noise = np.full(levels, 1e-300)
        self.keep, self.price, self.usual = np.ones((2, levels)), 1.0, np.ones(levels)
        self.walks = 0
        self.judged: set[bytes] = set()

    @property
    def out_of_time(self) -> bool:
        """Whether the time limit is reached."""
        return self.request.remaining() == 0.0

    def run(self) -> None:
        """Walk from each start, then again and again from the best and from others."""
        starts = list(self._starts())
        check_known(self.instance, self.objective, starts[0])
        effort = float(self.request.options["effort"])
        tasks = self.instance.num_tasks
        steps = min(_MOST, _FIRST + _EACH * tasks, _A_PLACEMENT * self._placements())
        cycles, idle = max(1, round(_CYCLES * effort)), 0
        for cycle in range(cycles):
            before = self.best
            begin = starts[cycle % len(starts)] if cycle % 2 == 0 else self.best
            if begin is None:
                begin = starts[cycle % len(starts)]
            self._cycle(begin, steps, cycle)
            idle = 0 if self.best is not before else idle + 1
            stuck = self.best is not None and idle >= max(1, round(_PATIENCE * effort))
            if stuck or self.out_of_time:
                return

    def _placements(self) -> int:
        """Return how many placements the masks allow, at most a million."""
        kind, allowed, _ = placing_masks(self.binding)
        choices = np.maximum(1, allowed.sum(axis=1))[kind]
        return int(min(1e6, np.exp(min(14.0, float(np.log(choices).sum())))))

    def _cycle(self, begin: Ints, steps: int, cycle: int) -> None:
        """Walk the rounds of every level."""
        at = begin
        for level in range(len(self.objective.levels)):
            for hot, cold, blend in _ROUNDS:
                at = self._round(at, level, hot, cold, blend, steps)
                if self.out_of_time:
                    return
                if self.best is not None and cycle % 2 == 1:
                    at = self.best

    def _round(
        self, begin: Ints, level: int, hot: float, cold: float, blend: float, steps: int
    ) -> Ints:
        """Walk while it cools; return where the walk ends."""
        instance = self.instance
        state = state_of(instance, self.narrowed, self.objective, begin)
        fill(*state)
        self._refer(state)
        found = np.array(begin, dtype=np.int64)
        told, change = np.zeros(TOLD), np.zeros(5 + len(self.noise))
        told[LEVEL], told[AIM], told[BLEND] = level, 1.0, blend
        told[HOT] = told[COLD] = 1.0
        told[STEPS], told[STILL], told[SEED] = _PROBES, 1.0, self._seed()
        self._walk(state, told, found, change)
        self.usual = change[5:] / max(1.0, change[3])
        usual = change[2] / max(1.0, change[3])
        usual = usual if usual > 0.0 else 1.0
        self.keep[0] = _WORSE * usual
        self.keep[1] = 10.0 * _WORSE * usual / np.where(self.usual > 0.0, self.usual, 1.0)
        told[STILL] = 0.0
        chunks = max(1, -(-steps // _CHUNK))
        told[STEPS] = -(-steps // chunks)
        for k in range(chunks):
            told[HOT], told[COLD] = (usual * hot * (cold / hot) ** (x / chunks) for x in (k, k + 1))
            told[AIM] = 1.0 if self.best is not None else 0.05
            told[PRICE_OF_BROKEN] = usual * self.price * (1.0 + 9.0 * k / chunks)
            told[SEED] = self._seed()
            change[:] = 0.0
            self._walk(state, told, found, change)
            whole = change[0] / max(1.0, change[1])
            if whole < 0.2:
                self.price = min(1e4, self.price * 2.0)
            elif whole > 0.8:
                self.price = max(0.1, self.price / 1.5)
            if self.out_of_time:
                break
            fill(*state)
            self._refer(state)
        return state.ints[state.ints[NODE] : state.ints[NODE] + instance.num_tasks].astype(np.int32)

    def _walk(self, state: Any, told: Any, found: Any, change: Any) -> None:
        """Walk; where only the referee knows whether a placement keeps all, it is asked of each."""
        told[STOPS] = not self.exact
        left, hot, cold = float(told[STEPS]), told[HOT], told[COLD]
        while left > 0:
            done = change[4]
            if walk(*state, told, found, self.record, self.noise, self.keep, change):
                self._take(found)
                self.record[:] = self.sure
            if self.exact or self.out_of_time:
                return
            left -= change[4] - done
            told[HOT] = hot * (cold / hot) ** (1.0 - left / float(told[STEPS]))
            told[SEED] = self._seed()
            told[STEPS] = left
            hot = told[HOT]

    def _refer(self, state: Any) -> None:
        """Tell powers of values by the best that is known, or the greatest now."""
        ints, reals = state.ints, state.reals
        changed = False
        for k in range(int(ints[FIGURES])):
            if ints[ints[FIGURE_KINDS] + k] in BY_GREATEST:
                greatest = float(reals[ints[VALUES] + 2 * k * ints[WIDTH] + 1])
                at = ints[PARAMETERS] + EACH * k + REFERENCE
                if 0 < greatest < 1e29 and reals[at] != greatest:
                    reals[at], changed = greatest, True
        if changed:
            fill(*state)

    def _seed(self) -> int:
        self.walks += 1
        return int((self.request.seed * 1_000_003 + 101 * self.walks) % 2**31)

    def _take(self, found: Any) -> None:
        """Take a placement that is better by the referee's own figures and keeps all that binds."""
        node = found.astype(np.int32)
        seen = node.tobytes()
        if seen in self.judged:  # refused before, or no better than the best, which only improves
            return
        if len(self.judged) * len(seen) > _JUDGED_BYTES:
            self.judged.clear()
        self.judged.add(seen)
        if not evaluate_indices(self.binding, node).feasible:
            return
        values = self._values(node)
        if values is None or (self.best is not None and not values < self.values):
            return
        self.best, self.values = node, values
        self.sure[:] = self._levels(node)
        self.request.offer(node)
        first = self.objective.value
        value = None if first is None else first(Placement(self.instance, node))
        self.recorder.note(value)

    def _values(self, node: Ints) -> tuple[float, ...] | None:
        """Tasks left on leaving nodes, and the levels, each rounded, less is better."""
        placement = Placement(self.instance, node)
        kind, _, target = placing_masks(self.binding)
        found = [float((~target[kind, node]).sum())]
        for level in self.objective.levels:
            assert level.value is not None
            value = level.value(placement)
            if value is None:
                return None
            found.append(float(f"{-value if level.sense == 'max' else value:.9e}"))
        return tuple(found)

    def _levels(self, node: Ints) -> Any:
        """Levels and tasks left of a placement, as the walk has them."""
        state = state_of(self.instance, self.narrowed, self.objective, node)
        fill(*state)
        levels = np.zeros(len(self.noise))
        levels_of(*state, levels)
        return np.append(levels, state.reals[LEFT])

    def _starts(self) -> Iterator[Ints]:
        """Yield placements of all tasks, feasible or not."""
        instance, request = self.instance, self.request
        given = [] if request.warm_start is None else [np.asarray(request.warm_start)]
        if instance.has_current:
            given.append(instance.tasks.node)
        for node in given:
            at = np.asarray(node, dtype=np.int32)
            if evaluate_indices(self.binding, at).feasible:
                self._take(at)
                yield at
        for node in [*given, next(packings(self.binding))]:
            mended = repair(self.binding, np.asarray(node, dtype=np.int32)).node
            at = self._complete(mended)
            self._take(at)
            yield at
        if instance.has_traffic and instance.num_tasks <= _MANY:
            for name in _OTHERS:
                found = self._by_method(name)
                if found is not None:
                    self._take(found)
                    yield found

    def _complete(self, node: Ints) -> Ints:
        """Put tasks that repair found no node for on the first that they may use."""
        kind, _, target = placing_masks(self.binding)
        at = np.asarray(node, dtype=np.int32)
        return np.where(at < 0, target[kind].argmax(axis=1), at).astype(np.int32)

    def _by_method(self, name: str) -> Ints | None:
        method = get_method(name)
        if not is_suitable(method, self.binding, repair=True):
            return None
        left = self.request.remaining()
        asked = replace(
            starting(method, self.request),
            objective=None,
            time_limit=None if left is None else max(1e-3, 0.1 * left),
        )
        try:
            outcome = run_method(method, self.binding, asked)
        except Exception:  # a start is a help: whatever fails in it must cost no plan
            return None
        if outcome.termination is Termination.INTERRUPTED:  # it is the whole search that ends
            raise KeyboardInterrupt
        if outcome.node is None:
            return None
        return self._complete(repair(self.binding, outcome.node).node)


@warming
def _warm_up() -> None:
    """Compile the kernels on two tasks, or load them from the cache."""
    warm_up()
    made = two_tasks()
    state = state_of(made, made, find_objective("imc_gain"), np.array([0, 1], dtype=np.int32))
    fill(*state)
    told, one = np.ones(TOLD), np.ones(1)
    told[LEVEL] = 0.0
    levels_of(*state, one.copy())
    walk(*state, told, np.zeros(2, dtype=np.int64), np.ones(2), one, np.ones((2, 1)), np.zeros(6))


METHOD = Method(
    name="plan-search",
    family="task allocation",
    kind="search",
    objective="imc_gain",
    objectives=SEARCHED,
    combines=True,
    run=run,
    summary="Annealing of any figure, weighted sum or list of levels, under every rule",
    needs=("tasks", "nodes", "bounded_rate"),
    forms=LOADS
    | OF_MOVES
    | {Form.TASK_COUNT, Form.NODE_FLOOR, Form.CROSSING, Form.LINK_CAPACITY, Form.DISTANCE}
    | {Form.SETS, Form.NODE_COUNT, Form.SLOTS, Form.SLOT_COUNT, Form.SLOT_SETS},
    options=(
        Option(
            "effort", "float", 1.0, "times the usual number of rounds", minimum=0.01, maximum=1e6
        ),
    ),
    takes_warm_start=True,
)
