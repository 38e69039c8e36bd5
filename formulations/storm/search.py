"""Starts of the exact model: placements whose nodes can be split into the right workers."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.column_generation.problem import of_nodes
from formulations.storm.problem import slot_keys
from formulations.storm.split import in_order, split_all, transported
from formulations.task_allocation.common import relabelled
from optim.figures.measures import imc_gain_of
from optim.kernels.classes import node_classes
from optim.kernels.place_rules import at_the_edge
from optim.referee import evaluate_indices
from optim.rules import most_restarts
from optim.rules.slot_assignment import assign_slots

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.column_generation.problem import Rows
    from formulations.storm.problem import States, StormJobs, StormProblem
    from optim.format.instance import Instance
    from optim.methods.registry import Request

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Start:
    """(T,) node and slot indices that keep every rule, and whether the warm start keeps them."""

    node: Integers
    slot: Integers
    given: bool


def feasible_start(
    instance: Instance, jobs: StormJobs, request: Request, *, heuristics: bool = False
) -> Start | None:
    """Return the best start that keeps every rule: the warm start, the current placement.

    Slots are made anew where a start says nodes only. Nothing starts on a leaving node.

    `heuristics`: run those of the family, too.
    """
    candidates: list[tuple[Any, Any, bool]] = []
    if request.warm_start is not None:
        candidates.append((request.warm_start, None, True))
    if instance.has_current and not request.cold:
        candidates.append((instance.tasks.node, None, False))
    family_start = request.start() if heuristics else None
    if family_start is not None:
        candidates.append((family_start.node, family_start.slot, False))
    best: Start | None = None
    warm_taken = False
    for node, slot, is_warm in candidates:
        start = _with_slots(instance, jobs, np.asarray(node, dtype=np.int64), slot)
        if start is not None and (best is None or _gain(instance, start) > _gain(instance, best)):
            best = start
        warm_taken |= start is not None and is_warm
    return None if best is None else Start(best.node, best.slot, warm_taken)


def _gain(instance: Instance, start: Start) -> float:
    return imc_gain_of(instance, start.node.astype(np.int32))


def _with_slots(instance: Instance, jobs: StormJobs, node: Integers, slot: Any) -> Start | None:
    if node.min(initial=0) < 0 or not instance.open_nodes[node].all():
        return None
    # the linearised form numbers identical nodes
    classes = node_classes(instance, slot_keys(instance, jobs))
    node = relabelled(node.astype(np.int32), classes).astype(np.int64)
    for assigned in (
        slot,
        _split(instance, jobs, node),
        assign_slots(instance, node.astype(np.int32)).slot,
    ):
        if assigned is None:
            continue
        used = np.asarray(assigned, dtype=np.int64)
        if most_restarts(instance) is None:
            used = in_order(node, used)
        judged = evaluate_indices(instance, node.astype(np.int32), used.astype(np.int32))
        if judged.feasible and not at_the_edge(instance, node.astype(np.int32)):
            return Start(node, used, False)
    return None


def _split(instance: Instance, jobs: StormJobs, node: Integers) -> Integers | None:
    """Split the executors of each node into workers, those that talk most together."""
    workers = workers_of(instance, jobs, node)
    return None if workers is None else split_all(instance, jobs, node, workers)


def workers_of(instance: Instance, jobs: StormJobs, node: Integers) -> Integers | None:
    """(P, N) workers that nodes need for their executors: exact and within slots, if that is."""
    p, n = jobs.num_jobs, instance.num_nodes
    executors = np.zeros((p, n), dtype=np.int64)
    np.add.at(executors, (jobs.job, node), 1)
    limit = instance.limits.max_tasks_per_slot
    low = (executors > 0).astype(np.int64) if limit is None else -(-executors // limit)
    return transported(
        low, np.minimum(executors, jobs.slots), jobs.fewest, jobs.workers, jobs.slots
    )


# A first placement from the listed patterns, and its improvement two nodes at a time.
#
# A beam of partial placements takes one node after the other, each time the patterns that lose
# least under the prices known and leave what the other nodes can hold. Then the executors of
# every two nodes are assigned anew in the best of all ways, until no two nodes gain by it. A good
# incumbent before the proof begins leaves few patterns that may do better.

_BEAM = 12
_LOOKED_AT = 30_000
_MOST_NODES = 64
_MOST_DEALS = 300_000
_GAINS = 1e-9
_KICKS = 20
_MOVES = 4
_WORK = 4_000_000
"""Deals of two nodes that are looked at, all together: some tenths of a second."""
_OVERHEAD = 500  # Deals that one look costs as much as, however few there are.


class FirstPlan:
    """Looks for a placement among the states that nodes can hold.

    `skipped`: whether two nodes held too much to look at every way of assigning it.
    """

    def __init__(self, problem: StormProblem, states: States, rows: Rows) -> None:
        self.problem, self.states, self.rows = problem, states, rows
        self.of_node = problem.inner.class_of_node()
        self.skipped = False
        self._left = _WORK
        self._fits = np.zeros((problem.inner.num_node_classes, len(states.gain)), dtype=np.bool_)
        for k, fitting in enumerate(states.fitting):
            self._fits[k, fitting] = True

    def find(self, values: list[Floats]) -> Integers | None:
        """Return an improved placement; ``None`` where the beam ends before the nodes do.

        `values`: for each class of nodes the worth of the states that fit it, in their order.
        Returns (N, C) array: executors of each class on the nodes, listed class by class.
        """
        if not 0 < len(self.of_node) <= _MOST_NODES:
            return None
        state = self._beam(values)
        return None if state is None else self.states.counts(self._improved(state))

    def better(self, counts: Integers, seed: int) -> Integers:
        """Return a placement at least as good as the one given: pairs assigned anew, with kicks.

        `counts`: (N, C), nodes listed class by class.
        """
        rng = np.random.default_rng(seed)
        best = self._improved(self.states.number(counts))
        for _ in range(_KICKS):
            if self._left <= 0:
                break
            trial = best.copy()
            for _ in range(_MOVES):
                self._kick(trial, rng)
            if self._hold(trial):
                trial = self._improved(trial)
                if self._gain(trial) > self._gain(best) + _GAINS:
                    best = trial
        return self.states.counts(best)

    def _gain(self, state: Integers) -> float:
        return float(self.states.gain[state].sum())

    def _kick(self, state: Integers, rng: np.random.Generator) -> None:
        """Move an executor from one node to another where both may hold what they get."""
        a, b = rng.integers(0, len(state), 2)
        classes = np.flatnonzero(self.states.counts(state[a]))
        if a != b and len(classes):
            one = self.states.stride[rng.choice(classes)]
            after = state[a] - one, state[b] + one
            if all(self._fits[self.of_node[n], s] for n, s in zip((a, b), after, strict=True)):
                state[a], state[b] = after

    def _beam(self, values: list[Floats]) -> Integers | None:
        """Return (N,) states of the nodes that place everything and keep the rows."""
        states = self.states
        near = []
        for k, node_values in enumerate(values):
            at = _best(node_values, _LOOKED_AT)
            full = np.full(len(states.gain), -np.inf)
            full[states.fitting[k]] = node_values
            number = states.fitting[k][at]
            near.append((full, number, states.counts(number)))
        whole = int(states.number(self.problem.inner.sizes))
        beam: list[tuple[float, int, tuple[int, ...]]] = [(0.0, whole, ())]
        last = len(self.of_node) - 1
        for row, k in enumerate(self.of_node.tolist()):
            longer = []
            node_values, number, counts = near[k]
            for loss, left, taken in beam:
                chosen = [left, 0] if row < last else [left]
                if row < last:
                    fits = np.flatnonzero((counts <= states.counts(np.array(left))).all(axis=1))
                    chosen += number[fits[:_BEAM]].tolist()
                longer += [
                    (loss - float(node_values[state]), left - state, (*taken, state))
                    for state in sorted(set(chosen))
                    if self._fits[k, state]
                ]
            beam = sorted(longer)[: _BEAM if row < last else None]
        done = (np.array(taken, dtype=np.int64) for _, _, taken in beam)
        return next((state for state in done if self._hold(state)), None)

    def _hold(self, state: Integers) -> bool:
        return self.rows.hold(of_nodes(self.problem.inner, self.states.counts(state)))

    def _improved(self, state: Integers) -> Integers:
        """Deal the executors of two nodes anew as long as some pair gains by it."""
        state = state.copy()
        better = True
        while better and self._left > 0:
            better = False
            for a, b in combinations(range(len(state)), 2):
                better |= self._redistribute(state, a, b)
        return state

    def _redistribute(self, state: Integers, a: int, b: int) -> bool:
        """Deal the executors of two nodes in the best way; whether that gained anything."""
        states = self.states
        counts = states.counts(state[a]) + states.counts(state[b])
        deals = float(np.prod(counts + 1.0))
        if deals > _MOST_DEALS:
            self.skipped = True
        if deals > min(_MOST_DEALS, self._left):
            return False
        self._left -= int(deals) + _OVERHEAD
        first = np.zeros(1, dtype=np.int64)
        for count, stride in zip(counts.tolist(), states.stride.tolist(), strict=True):
            if count:
                first = (first[None, :] + stride * np.arange(count + 1)[:, None]).ravel()
        second = int(state[a] + state[b]) - first
        fits = self._fits[self.of_node[a], first] & self._fits[self.of_node[b], second]
        value = np.where(fits, states.gain[first] + states.gain[second], -np.inf)
        old = states.gain[state[a]] + states.gain[state[b]]
        # the best that keeps the rows; few need to be looked at
        for i in _best(value, 20).tolist():
            if value[i] <= old + _GAINS:
                return False
            changed = state.copy()
            changed[a], changed[b] = first[i], second[i]
            if self._hold(changed):
                state[:] = changed
                return True
        return False


def _best(value: Floats, most: int) -> Integers:
    """Return where the largest values stand, the largest first."""
    if len(value) <= most:
        return np.argsort(-value, kind="stable")
    at = np.sort(np.argpartition(-value, most - 1)[:most])
    return np.asarray(at[np.argsort(-value[at], kind="stable")])
