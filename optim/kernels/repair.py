"""Repair: finish a placement and bring it within the limits, at little loss, without a search.

What it mends: tasks without a node or on one they may not use, nodes overloaded or with too many
tasks, nodes below `min_load`, sets, and too many or too costly migrations, in all or onto one node.
Links, slots and load distance it leaves as they come out. A feasible placement is returned as it
is; and where no sets and no migration budgets forbid, repair never fails on capacities when
first-fit decreasing (any variant of `optim.kernels.first_fit`) fits.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from optim.figures.measures import entered_leaving
from optim.format.tables import APART, TOGETHER
from optim.kernels.first_fit import packings, task_sizes
from optim.kernels.node_choice import on_chosen_nodes
from optim.kernels.place_rules import PlaceRules, place_rules
from optim.kernels.room import placing_masks
from optim.referee.evaluate import evaluate_indices
from optim.rules import MENDED, budgets, inflow_limits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Floats, Ints
    from optim.kernels.state import State

_THOROUGH = 50_000_000
"""Tasks × nodes up to which one task may be moved to make room for another."""
_PASSES = 20


@dataclass(frozen=True, eq=False)
class RepairOutcome:
    """What repair made of a placement.

    Attributes
    ----------
    node
        (T,) node of each task; -1 where even repair found none.
    changes
        Number of tasks whose node differs from what was given.
    complete
        Whether the result keeps every rule of the instance (slots apart, which repair does not
        decide).
    restored
        Whether it keeps every rule that repair restores (`optim.rules.MENDED`).
    notes
        What was done, and what is still broken.
    """

    node: Ints
    changes: int
    complete: bool
    restored: bool
    notes: list[str]


def repair(instance: Instance, node_idx: Ints, until: float | None = None) -> RepairOutcome:
    """Mend a placement.

    Parameters
    ----------
    instance
        Whose limits must hold.
    node_idx
        (T,) node of each task; -1 for a task without one.
    until
        ``time.perf_counter()`` value after which no further attempt is begun; ``None`` for never.

    Returns
    -------
    RepairOutcome
        The placement as given if it is feasible; else the first complete one among: the given one
        mended; packings by first, best and worst fit, mended. If none is complete, the one that
        breaks fewest rules for the tasks it places, then the one that places most.
    """
    given = np.asarray(node_idx, dtype=np.int32)
    best: tuple[tuple[int, int], Ints, str] | None = None
    for note, node in _attempts(instance, given):
        broken = evaluate_indices(instance, node).violations
        rules = sorted({violation.rule for violation in broken})
        if not MENDED.intersection(rules):
            return _outcome(given, node, note, rules)
        unplaced = int((node < 0).sum())
        key = (len(broken) - unplaced, unplaced)
        if best is None or key < best[0]:
            best = (key, node, note)
        if until is not None and time.perf_counter() >= until:
            break
    assert best is not None
    _, node, note = best
    rules = sorted({violation.rule for violation in evaluate_indices(instance, node).violations})
    return _outcome(given, node, note, rules)


def _outcome(given: Ints, node: Ints, note: str, broken: list[str]) -> RepairOutcome:
    changes = int((given != node).sum())
    notes = [f"repair: {note}, {changes} tasks placed or moved"] if changes else []
    if broken:
        notes.append(f"repair could not restore: {', '.join(broken)}")
    return RepairOutcome(node, changes, not broken, not MENDED.intersection(broken), notes)


def _attempts(instance: Instance, given: Ints) -> Iterator[tuple[str, Ints]]:
    """Yield placements to judge, the least change first."""
    yield "nothing to mend", given
    if not instance.num_nodes or not instance.num_tasks:
        return
    instance = on_chosen_nodes(instance, given)
    yield "mended", _mended(instance, given)
    if _has_budget(instance) or _bounds_inflow(instance):
        yield "mended from the current placement", _from_current(instance, given)
    for packed in packings(instance):
        if (packed >= 0).all():
            yield "packed anew", _mended(instance, packed, polish=True)


def _has_budget(instance: Instance) -> bool:
    return bool(budgets(instance)) and bool((instance.tasks.node >= 0).any())


def _bounds_inflow(instance: Instance) -> bool:
    return inflow_limits(instance) is not None and bool((instance.tasks.node >= 0).any())


def _mended(instance: Instance, node: Ints, *, polish: bool = False) -> Ints:
    """Relieve, place what is left, fill lower bounds, and go home as far as the budget asks."""
    from optim.kernels.repair_kernel import fill_floors
    from optim.kernels.state import state_of

    state = state_of(instance, _usable(instance, node))
    state.budget[:] = np.inf  # spent freely first, and restored by going home
    _relieve_and_place(instance, state)
    if (instance.nodes.min_load > 0).any():
        fill_floors(state, _scale(state))
    if not _has_budget(instance):
        touched = np.flatnonzero(state.node != node)
        _polish(instance, state, np.arange(instance.num_tasks) if polish else touched)
    else:
        state = state_of(instance, state.placement())
        _keep_budget(state)
        _relieve_and_place(instance, state)
    return state.placement()


def _from_current(instance: Instance, wished: Ints) -> Ints:
    """Mend the current placement within the budget, then adopt the best of the wished one."""
    from optim.kernels.repair_kernel import adopt, fill_floors
    from optim.kernels.state import state_of

    here = np.where(instance.tasks.node >= 0, instance.tasks.node, wished).astype(np.int32)
    state = state_of(instance, _usable(instance, here))
    _relieve_and_place(instance, state)
    if (instance.nodes.min_load > 0).any():
        fill_floors(state, _scale(state))
    adopt(state, wished, _least_gain(instance))
    return state.placement()


def _usable(instance: Instance, node: Ints) -> Ints:
    """Take tasks off nodes they may not use or not come onto, and what breaks sets or inflow."""
    kind, allowed, _ = placing_masks(instance)
    placed = node >= 0
    wrong = placed & ~allowed[kind, np.where(placed, node, 0)]
    wrong |= entered_leaving(instance, node)
    usable = np.where(wrong, -1, node).astype(np.int32)
    rules = place_rules(instance)
    if rules.restrict:
        for i in range(rules.num_sets):
            usable[_too_many_of(rules, i, usable)] = -1
        if rules.bounds_inflow:
            moved = np.flatnonzero(rules.migrates(usable.astype(np.int64)) & (usable >= 0))
            usable[moved[_rank(usable[moved]) >= rules.most_in[usable[moved]]]] = -1
    return usable


def _too_many_of(rules: PlaceRules, i: int, node: Ints) -> NDArray[np.int64]:
    """Return members of a set that have to go from where they are, so that the set can hold."""
    tasks = rules.tasks_of(i)
    tasks = tasks[node[tasks] >= 0]
    place = rules.place[i, node[tasks]]
    if rules.rule[i] == APART:
        return tasks[_rank(place) >= rules.limit[i]]
    counts = np.bincount(place)
    if rules.rule[i] == TOGETHER:
        return tasks[place != counts.argmax()] if len(tasks) else tasks
    rank = _rank(place)
    missing = int(rules.limit[i]) - np.count_nonzero(counts) - (len(rules.tasks_of(i)) - len(tasks))
    return tasks[np.argsort(-rank, kind="stable")[: max(0, missing)]]


def _rank(place: Ints) -> NDArray[np.int64]:
    """Number the entries of each place 0, 1, … in their order."""
    order = np.argsort(place, kind="stable")
    first = np.searchsorted(place[order], place[order])
    rank = np.empty(len(place), dtype=np.int64)
    rank[order] = np.arange(len(place)) - first
    return rank


def _relieve_and_place(instance: Instance, state: State) -> None:
    from optim.kernels.repair_kernel import place_rest, relieve

    scale = _scale(state)
    relieve(state, scale, True)
    waiting = np.flatnonzero(state.node < 0)
    if not len(waiting):
        return
    sizes = task_sizes(instance)
    choices = state.target.sum(axis=1)[state.kind[waiting]]
    order = waiting[np.lexsort((waiting, -sizes[waiting], choices))]
    thorough = instance.num_tasks * instance.num_nodes <= _THOROUGH
    place_rest(state, order, scale, thorough)


def _keep_budget(state: State) -> None:
    """Send the migrants home whose return costs least, until the budget holds or none can go."""
    from optim.kernels.repair_kernel import go_home, homing_loss

    for _ in range(_PASSES):
        if (state.budget >= 0).all():
            return
        loss = homing_loss(state)
        # where tasks take unlike amounts of what is overdrawn, those first that give back most
        over = state.price[:, state.budget < 0]
        if (over.max(axis=0, initial=0.0) > over.min(axis=0, initial=np.inf)).all():
            loss = loss / np.maximum(over.sum(axis=1), 1e-12)
        migrants = np.flatnonzero(np.isfinite(loss))
        order = migrants[np.argsort(loss[migrants], kind="stable")]
        if not go_home(state, order):
            return


def _polish(instance: Instance, state: State, order: NDArray[np.int64]) -> None:
    """Better what repair itself placed; of the other tasks only partners of a swap may move."""
    from optim.kernels.descent import descend

    if instance.has_traffic and len(order):
        descend(state, order, _PASSES, _least_gain(instance))


def _least_gain(instance: Instance) -> float:
    return 1e-9 * instance.total_traffic / max(1, instance.num_tasks) + 1e-300


def _scale(state: State) -> Floats:
    """(R',) one over the total load: excesses of several resources are added in shares of that."""
    total = state.load.sum(axis=0)
    scale: NDArray[np.float64] = np.where(total > 0, 1.0 / np.where(total > 0, total, 1.0), 0.0)
    return scale
