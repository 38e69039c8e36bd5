"""Annealing of placements for any objective made of figures: rounds, levels, and when they end.

One walk for all objectives (`optim.kernels.plan_walk`): it moves tasks, exchanges them, in chains
and in groups, and reckons anew what that changes of the figures. Levels are gone through one after
another: while a later one is improved, what the earlier ones are worse than their best is dear.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optim.figures.catalogue import find_objective
from optim.kernels.place_rules import placing_masks
from optim.kernels.plan_state import LEFT, LEVELS, NODE, TASKS, state_of
from optim.kernels.plan_walk import (
    AIM,
    BLEND,
    COLD,
    HOT,
    LEVEL,
    NUM_PARAMETERS,
    PRICE_OF_BROKEN,
    STEPS,
    STILL,
    STOPS,
    walk,
)
from optim.kernels.repair import repair, two_tasks, warm_up
from optim.methods.reduce import without_slots
from optim.referee import evaluate_indices
from optim.rules import rules_of
from optim.rules.base import LOADS, OF_MOVES, Form
from optim.rules.placement import Placement
from optim.util.compiled import seeded, warming

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from optim.figures.figure import Figure
    from optim.format.instance import Instance
    from optim.format.tables import Ints
    from optim.kernels.plan_state import PlanState
    from optim.methods.registry import Request

FORMS = (
    LOADS
    | OF_MOVES
    | {Form.TASK_COUNT, Form.NODE_FLOOR, Form.CROSSING, Form.LINK_CAPACITY, Form.DISTANCE}
    | {Form.SETS, Form.NODE_COUNT, Form.SLOTS, Form.SLOT_COUNT, Form.SLOT_SETS, Form.LOCAL_FIRST}
)
"""Forms of limits that are supported."""
_ROUNDS = ((1.0, 1e-3, 0.5), (0.1, 1e-5, 0.5), (0.02, 1e-6, 0.0))
"""Temperatures at the beginning and the end of each round, a usual change of the objective counts
1; and the share of the smooth figures in what leads the walk."""
_A_PLACEMENT = 20  # Steps of a round for each placement that there is, where these are few.
_CHUNK, _WORK = 25_000, 100_000_000
"""Steps between two looks at the clock; and tasks put on nodes, where each step puts all."""
_PROBES = 400
_WORSE = 3.0
"""Usual changes of a later level that the smallest loss of an earlier one costs."""
_ENOUGH = 1e-9
_JUDGED_BYTES = 1 << 26
"""Of placements that the referee has judged and is not asked about again."""


class Annealing:
    """The best placement so far, and how better ones are looked for.

    `instance`, `objective`, `request`: what is searched, what for, and what was asked.
    `note`: called with the objective's value at each better placement.
    `bounds`: of the first levels, the best values that any placement can have: a level whose bound
        is reached is not walked.
    """

    def __init__(
        self,
        instance: Instance,
        objective: Figure,
        request: Request,
        note: Callable[[float | None], object] = lambda _: None,
        bounds: Sequence[float] = (),
    ) -> None:
        self.instance, self.objective, self.request = instance, objective, request
        self.binding, self.note, self.bounds = objective.binding(instance), note, bounds
        self.best: Ints | None = None
        self.values: tuple[float, ...] = ()
        levels = len(objective.levels)
        self._narrowed, self._exact = without_slots(self.binding, rules_of(FORMS))
        self._record, self._sure = np.full(levels + 1, 1e300), np.full(levels + 1, 1e300)
        self._noise = np.full(levels, 1e-300)
        self._keep, self._price = np.ones((2, levels)), 1.0
        self._judged: set[bytes] = set()
        self._random = seeded(request.seed)
        self._chunk, each = max(_CHUNK, instance.num_tasks), instance.num_tasks * instance.num_nodes
        if objective.costly:
            self._chunk = max(1, min(_CHUNK, _WORK // max(1, each)))

    @property
    def out_of_time(self) -> bool:
        """Whether the time limit is reached."""
        return self.request.remaining() == 0.0

    def closed(self, level: int) -> bool:
        """Whether the best placement has all that any can have of a level."""
        if self.best is None or level >= len(self.bounds) or self.values[0] > 0:
            return False
        sign = -1.0 if self.objective.levels[level].sense == "max" else 1.0
        bound = sign * self.bounds[level]
        return self.values[1 + level] <= bound + _ENOUGH * abs(bound)

    def search(
        self, starts: Sequence[Ints], steps: int, cycles: int, patience: int, levels: int = 0
    ) -> None:
        """Walk from each start, then again and again from the best and from others.

        `cycles`, `patience`: times that the rounds are walked at most, and without any gain before
            the search ends.
        `levels`: how many levels are walked; 0 for all.
        """
        steps, idle = min(steps, _A_PLACEMENT * self._placements()), 0
        for cycle in range(cycles):
            before = self.best
            begin = starts[cycle // 2 % len(starts)] if cycle % 2 == 0 else self.best
            at = starts[cycle % len(starts)] if begin is None else begin
            for level in range(levels or len(self.objective.levels)):
                at = self.walk(at, level, steps, onward=cycle % 2 == 1)
            idle = 0 if self.best is not before else idle + 1
            if self.out_of_time or (self.best is not None and idle >= patience):
                return
            if all(map(self.closed, range(levels or len(self.objective.levels)))):
                return

    def _placements(self) -> int:
        """Return how many placements the masks allow, at most a million."""
        kind, allowed, _ = placing_masks(self.binding)
        choices = np.maximum(1, allowed.sum(axis=1))[kind]
        return int(min(1e6, np.exp(min(14.0, float(np.log(choices).sum())))))

    def walk(self, begin: Ints, level: int, steps: int, *, onward: bool = False) -> Ints:
        """Walk the rounds of a level, `onward` each from the best; return where they end."""
        at = begin
        for hot, cold, blend in _ROUNDS:
            if self.closed(level) or self.out_of_time:
                return at
            at = self._round(at, level, hot, cold, blend, steps)
            at = self.best if self.best is not None and onward else at
        return at

    def _round(
        self, begin: Ints, level: int, hot: float, cold: float, blend: float, steps: int
    ) -> Ints:
        """Walk while it cools; return where the walk ends."""
        instance = self.instance
        state = state_of(instance, self._narrowed, self.objective, begin)
        reached = np.array(begin, dtype=np.int64)
        params, change = np.zeros(NUM_PARAMETERS), np.zeros(5 + len(self._noise))
        params[LEVEL], params[AIM], params[BLEND] = level, 1.0, blend
        params[HOT] = params[COLD] = 1.0
        params[STEPS], params[STILL] = min(_PROBES, self._chunk), 1.0
        self._walk(state, params, reached, change)
        each = change[5:] / max(1.0, change[3])
        usual = change[2] / max(1.0, change[3])
        usual = usual if usual > 0.0 else 1.0
        self._keep[0] = _WORSE * usual
        self._keep[1] = 10.0 * _WORSE * usual / np.where(each > 0.0, each, 1.0)
        params[STILL] = 0.0
        chunks = max(1, -(-steps // self._chunk))
        params[STEPS] = -(-steps // chunks)
        for k in range(chunks):
            params[HOT], params[COLD] = (
                usual * hot * (cold / hot) ** (x / chunks) for x in (k, k + 1)
            )
            # without a feasible placement limits lead, and the objective hardly counts
            params[AIM] = 1.0 if self.best is not None else 0.05
            params[PRICE_OF_BROKEN] = usual * self._price * (1.0 + 9.0 * k / chunks)
            change[:] = 0.0
            self._walk(state, params, reached, change)
            # the price keeps the share of placements that break nothing between 0.2 and 0.8
            whole = change[0] / max(1.0, change[1])
            if whole < 0.2:
                self._price = min(1e4, self._price * 2.0)
            elif whole > 0.8:
                self._price = max(0.1, self._price / 1.5)
            if self.out_of_time:
                break
        return state.ints[state.ints[NODE] : state.ints[NODE] + instance.num_tasks].astype(np.int32)

    def _walk(self, state: Any, params: Any, reached: Any, change: Any) -> None:
        """Walk; where only the referee knows whether a placement keeps all, it is asked of each."""
        params[STOPS] = not self._exact
        left, hot, cold = float(params[STEPS]), params[HOT], params[COLD]
        while left > 0:
            done = change[4]
            bookkeeping = self._record, self._noise, self._keep
            if walk(*state, self._random, params, reached, *bookkeeping, change):
                self.take(reached)
                self._record[:] = self._sure
            if self._exact or self.out_of_time:
                return
            left -= change[4] - done
            params[HOT] = hot * (cold / hot) ** (1.0 - left / float(params[STEPS]))
            params[STEPS] = left
            hot = params[HOT]

    def take(self, placement: Ints) -> None:
        """Take a placement that is better by the referee's own figures and keeps all that binds."""
        node = placement.astype(np.int32)
        seen = node.tobytes()
        if seen in self._judged:  # refused before, or no better than the best, which only improves
            return
        if len(self._judged) * len(seen) > _JUDGED_BYTES:
            self._judged.clear()
        self._judged.add(seen)
        if not evaluate_indices(self.binding, node).feasible:
            return
        values = self._values(node)
        if values is None or (self.best is not None and not values < self.values):
            return
        self.best, self.values = node, values
        self._sure[:] = self._levels(node)
        self.request.offer(node)
        first = self.objective.value
        value = None if first is None else first(Placement(self.instance, node))
        self.note(value)

    def _values(self, node: Ints) -> tuple[float, ...] | None:
        """Tasks left on leaving nodes, and the levels, each rounded, less is better."""
        placement = Placement(self.instance, node)
        kind, _, target = placing_masks(self.binding)
        values = [float((~target[kind, node]).sum())]
        for level in self.objective.levels:
            assert level.value is not None
            value = level.value(placement)
            if value is None:
                return None
            values.append(float(f"{-value if level.sense == 'max' else value:.9e}"))
        return tuple(values)

    def _levels(self, node: Ints) -> Any:
        """Levels and tasks left of a placement, as the walk has them."""
        state = state_of(self.instance, self._narrowed, self.objective, node)
        return np.append(levels_of(state), state.reals[LEFT])


def placed_whole(instance: Instance, node: Ints) -> Ints:
    """Repair a placement; put what finds no node there on the first that it may use."""
    at = repair(instance, np.asarray(node, dtype=np.int32)).node
    kind, _, target = placing_masks(instance)
    return np.where(at < 0, target[kind].argmax(axis=1), at).astype(np.int32)


def levels_of(state: PlanState) -> Any:
    """Add up a state; return its levels, less is better."""
    count = int(state.ints[LEVELS])
    params, change = np.zeros(NUM_PARAMETERS), np.zeros(5 + count)
    params[HOT] = params[COLD] = 1.0
    nobody, record = np.zeros(int(state.ints[TASKS]), dtype=np.int64), np.full(count + 1, -1e300)
    walk(*state, seeded(0), params, nobody, record, np.ones(count), np.ones((2, count)), change)
    return change[5:]


@warming
def warm_up_walk() -> None:
    """Compile the kernels on two tasks, or load them from the cache."""
    warm_up()
    instance = two_tasks()
    state = state_of(
        instance, instance, find_objective("imc_gain"), np.array([0, 1], dtype=np.int32)
    )
    levels_of(state)
