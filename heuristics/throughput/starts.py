"""Where the search begins: what is known, even spreads, and what other families make of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from formulations.task_allocation.milp import find_plan
from formulations.throughput.problem import load_of
from optim.figures.rate import without_measured
from optim.kernels.first_fit import packings
from optim.kernels.repair import repair
from optim.kernels.room import placing_masks
from optim.methods.choose import is_suitable
from optim.methods.registry import get_method
from optim.methods.run import one_start
from optim.referee.evaluate import evaluate_indices
from optim.util.compiled import kernel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim.format.instance import Instance
    from optim.format.tables import Ints
    from optim.methods.registry import Request

_OTHERS = ("partition", "storm-even")
"""Methods of other families: traffic inside nodes, tasks spread evenly."""
_SPARE = 1.15
"""Room over load that a method for capacities is given at least."""
_SHARE = 0.1
_MANY, _MANY_PAIRS = 20_000, 1_000_000
"""Tasks, and pairs of them, beyond which other families are not asked: partitioners spread out all
pairs, and do not look at the clock."""


def starts_of(binding: Instance, instance: Instance, request: Request) -> list[Ints]:
    """Return placements of all tasks that keep all that binds.

    Where none comes of the constructions, a small model without an objective is asked for one: at
    best for one that carries the current input.
    """
    found: list[Ints] = []
    least = np.inf
    for node in _candidates(binding, instance, request):
        at = _mended(binding, node)
        if at is None:
            continue
        found.append(at)
        if (load := load_of(instance, at)) < least:
            least = load
            request.offer(at)
    for problem in () if found else (instance, binding):
        made = find_plan(problem, request) if request.remaining() != 0.0 else None
        kept = None if made is None else _mended(binding, made)
        if kept is not None:
            request.offer(kept)
            return [kept]
    return found


def _mended(binding: Instance, node: Ints) -> Ints | None:
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
    flows = instance.flows
    pairs = len(flows.rate) + sum(len(b.sources) * len(b.targets) for b in flows.blocks)
    if instance.num_tasks <= _MANY and pairs <= _MANY_PAIRS:
        for name in _OTHERS:
            method = get_method(name)
            found = (
                one_start(method, roomy, request, _SHARE) if is_suitable(method, roomy) else None
            )
            if found is not None:
                yield found.node
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
    _deal(node, order, kind.astype(np.int64), target, load, room, every, left.copy())
    return node


@kernel
def _deal(node, order, kind, target, load, room, every, left):  # type: ignore[no-untyped-def]
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
