"""Search for the placement that carries most after the loss of any one node, compiled.

The definition is that of `optim.figures.loss`; here the tasks of a lost node are put and taken back
on the arrays of the search for the rate.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.throughput.bound import least_load
from formulations.throughput.problem import NEVER, places_of
from heuristics.throughput.board import fixed_of, state_of
from heuristics.throughput.kernel import holds, may_change, put
from optim.figures.loss import heaviest_first, spare_room
from optim.figures.rate import without_measured
from optim.kernels.guard import NOBODY, make_guard
from optim.kernels.place_rules import place_rules
from optim.kernels.warm import two_tasks
from optim.util.compiled import helper, kernel, warming

if TYPE_CHECKING:
    from optim.format.instance import Instance
    from optim.format.tables import Ints
    from optim.methods.registry import Request

_STEPS, _WORK, _CHUNK = 20_000, 4e9, 1e8
"""Changes that are tried at most; tasks put on nodes in all, and between two looks at the clock."""


@helper
def _target(state, load, may, room, driven, most, lost, task):
    """Return the node on which a task of a lost node starts again; -1 for none."""
    best, least = -1, np.inf
    for n in range(len(room)):
        if n == lost or not may[n] or state.held[n] >= most[n]:
            continue
        full, fits = 0.0, True
        for r in range(room.shape[1]):
            need = state.used[n, r] + load[task, r]
            if not driven[r]:
                fits = fits and need <= room[n, r]
            elif need > 0.0:
                full = max(full, need / room[n, r] if room[n, r] > 0.0 else np.inf)
        full = np.round(full * 1e9)
        if fits and (best < 0 or full < least):
            best, least = n, full
    return best


@helper
def _highest(fixed, state, guard, order, goal, room, driven, most, reference):
    """Return how full the fullest place is after each loss: the worst, and a sum of powers."""
    worst, total = 0.0, 0.0
    gone = np.zeros(len(order), dtype=np.int64)
    for lost in range(len(fixed.room)):
        count, found = 0, True
        if state.held[lost] > 0:
            for task in order:
                if state.node[task] != lost:
                    continue
                n = _target(
                    state, fixed.load, goal[fixed.kind[task]], room, driven, most, lost, task
                )
                if n < 0:
                    found = False
                    break
                put(fixed, state, guard, task, n)
                gone[count] = task
                count += 1
        high = state.full.max() if found else NEVER
        for i in range(count - 1, -1, -1):
            put(fixed, state, guard, gone[i], lost)
        worst = max(worst, high)
        total += min(high / reference, 1e6) ** 8
    return worst, total


@kernel(steps=lambda order, steps: 100 * len(order) * steps)
def anneal_losses(
    fixed,
    state,
    guard,
    best,
    order,
    goal,
    room,
    driven,
    most,
    record,
    reference,
    hot,
    cold,
    steps,
    seed,
):
    """Walk a number of steps while it cools; the best placement is written to `best`.

    Returns
    -------
    float
        How full its fullest place is after the worst loss.
    """
    np.random.seed(seed)  # noqa: NPY002
    tasks, nodes = len(state.node), len(fixed.room)
    _, value = _highest(fixed, state, guard, order, goal, room, driven, most, reference)
    for step in range(steps):
        heat = hot * (cold / hot) ** (step / steps)
        task, other = np.random.randint(tasks), NOBODY  # noqa: NPY002
        source, target = state.node[task], np.random.randint(nodes)  # noqa: NPY002
        if np.random.random() < 0.5:  # noqa: NPY002
            other = np.random.randint(tasks)  # noqa: NPY002
            target = state.node[other]
        if not may_change(fixed, state, guard, task, target, other):
            continue
        put(fixed, state, guard, task, target)
        if other != NOBODY:
            put(fixed, state, guard, other, source)
        kept = holds(fixed, state, source) and holds(fixed, state, target)
        if kept:
            worst, found = _highest(fixed, state, guard, order, goal, room, driven, most, reference)
            grown = (found - value) / nodes
            kept = grown <= 0.0 or np.random.random() < np.exp(-grown / heat)  # noqa: NPY002
        if not kept:
            if other != NOBODY:
                put(fixed, state, guard, other, target)
            put(fixed, state, guard, task, source)
            continue
        value = found
        if worst < record * (1 - 1e-9):
            record = worst
            best[:] = state.node
    return record


@warming
def warm_up_losses() -> None:
    """Compile the kernel on two tasks, or load it from the cache."""
    from optim.methods.registry import Request

    made = two_tasks()
    after_losses(without_measured(made), made, Request(), np.array([0, 1], dtype=np.int32))


def after_losses(binding: Instance, instance: Instance, request: Request, start: Ints) -> Ints:
    """Return the best placement that a walk from a start passes; it may be at the tolerance's edge.

    Parameters
    ----------
    binding
        The instance without the limits that the rate measures.
    """
    fixed = fixed_of(binding, instance)
    state = state_of(fixed, binding, instance, start)
    guard: Any = make_guard(place_rules(binding), state.node)
    most = np.where(instance.nodes.max_tasks >= 0, instance.nodes.max_tasks, instance.num_tasks)
    driven = np.isin(np.arange(instance.num_resources), instance.rate_driven)
    goal = fixed.may & instance.open_nodes
    order, best = heaviest_first(instance), np.array(state.node)
    each = float(instance.num_tasks * instance.num_nodes)
    steps = int(min(_STEPS, _WORK / each))
    chunk, record = max(1, int(_CHUNK / each)), NEVER
    scales = fixed, state, guard, best, order, goal, spare_room(instance), driven, most
    record = anneal_losses(*scales, NEVER, 1.0, 1.0, 1.0, 0, 0)
    for i, done in enumerate(range(0, steps, chunk)):
        left = request.remaining()
        if left is not None and left <= 0:
            break
        heats = [0.3 * 0.003 ** (k / steps) for k in (done, min(steps, done + chunk))]
        count = min(chunk, steps - done)
        reference = record if record < NEVER else 1.0
        record = anneal_losses(*scales, record, reference, *heats, count, request.seed + i)
    return best.astype(np.int32)


def least_after_loss(instance: Instance) -> float:
    """Return a utilisation that every placement has at least after some loss, by counting."""
    _, first = np.unique(_node_keys(instance), axis=0, return_index=True)
    return max((least_load(instance, int(n)) for n in first), default=0.0)


def _node_keys(instance: Instance) -> Any:
    """(N, k) numbers in which nodes are alike that are missed alike."""
    places = places_of(instance)
    link = places.link[: instance.num_nodes]
    return np.column_stack([places.room, link, instance.headroom])
