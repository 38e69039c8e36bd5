"""Repair: finish a placement and bring it within the limits, at little loss, without a search.

What it mends: tasks without a node or on one they may not use, nodes overloaded or with too many
tasks, nodes below `min_load`, sets, and too many or too costly migrations, in all or onto one node.
Links, slots and load distance it leaves as they come out. A feasible placement is returned as it
is; and where no sets and no migration budgets forbid, repair never fails on capacities when
first-fit decreasing (any variant of `optim.kernels.first_fit`) fits.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from optim.figures.measures import entered_leaving
from optim.format.instance import Instance
from optim.format.tables import APART, TOGETHER
from optim.kernels.descent import descend, exchange, may_come, may_exchange, may_leave
from optim.kernels.first_fit import packings, task_sizes
from optim.kernels.place_rules import (
    PlaceRules,
    on_chosen_nodes,
    overdrawn,
    place_rules,
    placing_masks,
    ranks,
)
from optim.kernels.state import (
    NOWHERE,
    clear,
    connection,
    connections,
    fits,
    fits_instead,
    put,
    state_of,
    take,
)
from optim.referee import evaluate_indices
from optim.rules import REPAIRABLE, budgets, inflow_limits
from optim.util.compiled import helper, kernel, warming

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from optim.format.tables import Floats, Ints
    from optim.kernels.state import State

TINY = 1e-12

CROWD = 256  # A node with more tasks is relieved in batches, with fewer move by move.


@kernel
def relieve(state, scale, may_evict):
    """Bring every overloaded node back to capacity, at least traffic lost per load moved away.

    For each overloaded node in turn: move a task to another node; where no move is possible swap
    two tasks; where no swap is, and `may_evict`, take a task off (it then stands nowhere).

    `state`: changed in place.
    `scale`: (R,) weight of one unit of each resource in what counts as load moved away.
    `may_evict`: whether tasks may be taken off.
    """
    weight = np.zeros(state.room.shape[0])
    touched = np.empty(state.room.shape[0], np.int64)
    for node in range(state.room.shape[0]):
        while _excess(state.room, node, scale) > 0.0:
            # in this order: a move costs least, a task without a node most
            if _move_out(state, node, scale, weight, touched) > 0:
                continue
            task, partner = _best_swap_out(state, node, scale)
            if task != NOWHERE:
                exchange(state, task, partner)
                continue
            task = _least_connected(state, node, scale) if may_evict else NOWHERE
            if task == NOWHERE:
                break
            take(state, task)


@helper
def _excess(room, node, scale):
    """Load above capacity, scaled and summed over the resources."""
    total = 0.0
    for resource in range(room.shape[1]):
        if room[node, resource] < 0.0:
            total -= room[node, resource] * scale[resource]
    return total


@helper
def _relief(state, node, task, scale):
    """How much of a node's excess goes with a task."""
    total = 0.0
    for resource in range(state.load.shape[1]):
        over = -state.room[node, resource]
        if over > 0.0:
            total += min(over, state.load[task, resource]) * scale[resource]
    return total


@helper
def _best_way_out(state, node, task, scale, weight, touched):
    """Return where a task should go from an overloaded node, and traffic lost per load moved."""
    relief = _relief(state, node, task, scale)
    if relief <= 0.0:
        return NOWHERE, np.inf
    # of nodes with room, the one with most traffic; score = traffic lost / excess relieved
    num_touched = connections(state, task, weight, touched)
    best = NOWHERE
    for target in range(state.room.shape[0]):
        if (
            target != node
            and (best == NOWHERE or weight[target] > weight[best])
            and state.target[state.kind[task], target]
            and fits(state.load, state.room, task, target)
            and may_leave(state, task, target)
        ):
            best = target
    score = np.inf
    if best != NOWHERE:
        score = (weight[node] - weight[best]) / relief
    clear(weight, touched, num_touched)
    return best, score


@helper
def _move_out(state, node, scale, weight, touched):
    """Move the cheapest task off a node, of a crowd the cheapest sixteenth; return how many."""
    count = 0
    task = state.first[node]
    while task != NOWHERE:
        count += 1
        task = state.after[task]
    # a crowd is scored once for many moves: the scores of the others hardly change
    batch = count // 16 if count > CROWD else 1
    tasks = np.empty(count, np.int64)
    scores = np.empty(count)
    task = state.first[node]
    for k in range(count):
        tasks[k] = task
        scores[k] = _best_way_out(state, node, task, scale, weight, touched)[1]
        task = state.after[task]
    moved = 0
    # the target is chosen anew, as the moves before took room
    for _ in range(min(batch, count)):
        k = np.argmin(scores)
        if scores[k] == np.inf or _excess(state.room, node, scale) <= 0.0:
            break
        scores[k] = np.inf
        target, _ = _best_way_out(state, node, tasks[k], scale, weight, touched)
        if target != NOWHERE:
            take(state, tasks[k])
            put(state, tasks[k], target)
            moved += 1
    return moved


@helper
def _best_swap_out(state, node, scale):
    """Return the pair whose swap relieves a node at least cost of traffic; -1 for none."""
    best_task, best_partner, best_score = NOWHERE, NOWHERE, np.inf
    task = state.first[node]
    while task != NOWHERE:
        if _relief(state, node, task, scale) > 0.0:
            # traffic lost: what the two had where they were, less what they have where they come to
            here = connection(state, task, node)
            for target in range(state.room.shape[0]):
                if target == node or not state.target[state.kind[task], target]:
                    continue
                there = connection(state, task, target)
                partner = state.first[target]
                while partner != NOWHERE:
                    relief = _relief_of_swap(state, node, task, partner, scale)
                    if (
                        relief > TINY
                        and state.target[state.kind[partner], node]
                        and fits_instead(state.load, state.room, task, partner, target)
                        and may_exchange(state, task, partner)
                    ):
                        # traffic between the two is left out: rare, and repair is rough
                        loss = here - there + connection(state, partner, target)
                        score = (loss - connection(state, partner, node)) / relief
                        if score < best_score:
                            best_task, best_partner, best_score = task, partner, score
                    partner = state.after[partner]
        task = state.after[task]
    return best_task, best_partner


@helper
def _relief_of_swap(state, node, task, partner, scale):
    """How much of a node's excess goes with a swap; 0 if another resource is overloaded more."""
    total = 0.0
    for resource in range(state.load.shape[1]):
        room = state.room[node, resource]
        after = room + state.load[task, resource] - state.load[partner, resource]
        if after < min(room, 0.0):
            return 0.0
        total += (min(after, 0.0) - min(room, 0.0)) * scale[resource]
    return total


@helper
def _least_connected(state, node, scale):
    """Return the task on a node with least traffic there for the excess it takes along."""
    best, best_score = NOWHERE, np.inf
    task = state.first[node]
    while task != NOWHERE:
        relief = _relief(state, node, task, scale)
        if relief > 0.0:
            score = connection(state, task, node) / relief
            if score < best_score or (score == best_score and task < best):
                best, best_score = task, score
        task = state.after[task]
    return best


@kernel
def place_rest(state, order, scale, thorough):
    """Place the tasks that stand nowhere, each where it has most traffic among the nodes it fits.

    `state`: changed in place.
    `order`: the tasks to look at, in this order.
    `scale`: (R,) as for `relieve`.
    `thorough`: whether another task may be moved on to make room.
    Returns how many still stand nowhere.
    """
    weight = np.zeros(state.room.shape[0])
    touched = np.empty(state.room.shape[0], np.int64)
    missing = 0
    for task in order:
        if state.node[task] != NOWHERE:
            continue
        num_touched = connections(state, task, weight, touched)
        node = _best_free(state, task, weight, scale)
        clear(weight, touched, num_touched)
        # nowhere fits as it is: one other task may move on
        if node == NOWHERE and thorough:
            node = _make_room(state, task, weight, touched)
        if node == NOWHERE:
            missing += 1
        else:
            put(state, task, node)
    return missing


@helper
def _best_free(state, task, weight, scale):
    """Return the node with most traffic among those where a task fits; ties by least room left."""
    best, best_room = NOWHERE, 0.0
    for node in range(state.room.shape[0]):
        if (
            state.target[state.kind[task], node]
            and fits(state.load, state.room, task, node)
            and may_come(state, task, node)
        ):
            room = 0.0
            for resource in range(state.room.shape[1]):
                if scale[resource] > 0.0:
                    room += state.room[node, resource] * scale[resource]
            if (
                best == NOWHERE
                or weight[node] > weight[best]
                or (weight[node] == weight[best] and room < best_room)
            ):
                best, best_room = node, room
    return best


@helper
def _make_room(state, task, weight, touched):
    """Move one task on so that `task` fits where that one stood; return that node, or -1."""
    best_node, best_mover, best_target, best_score = NOWHERE, NOWHERE, NOWHERE, -np.inf
    for node in range(state.room.shape[0]):
        if not state.target[state.kind[task], node]:
            continue
        if not may_come(state, task, node):
            continue
        drawn = connection(state, task, node)
        mover = state.first[node]
        while mover != NOWHERE:
            if fits_instead(state.load, state.room, task, mover, node):
                target, change = _best_exit(state, mover, weight, touched)
                if target != NOWHERE and drawn + change > best_score:
                    best_node, best_mover = node, mover
                    best_target, best_score = target, drawn + change
            mover = state.after[mover]
    if best_node != NOWHERE:
        take(state, best_mover)
        put(state, best_mover, best_target)
    return best_node


@helper
def _best_exit(state, task, weight, touched):
    """Return where else a task fits best by its traffic, and the change; -1 for nowhere."""
    source = state.node[task]
    num_touched = connections(state, task, weight, touched)
    best, best_change = NOWHERE, -np.inf
    for node in range(state.room.shape[0]):
        if (
            node != source
            and weight[node] - weight[source] > best_change
            and state.target[state.kind[task], node]
            and fits(state.load, state.room, task, node)
            and may_leave(state, task, node)
        ):
            best, best_change = node, weight[node] - weight[source]
    clear(weight, touched, num_touched)
    return best, best_change


THOROUGH_TASKS = 20_000  # Up to this many tasks every move of `fill_floors` is the best of all.


@kernel
def fill_floors(state, scale):
    """Bring nodes below their lower load bound up to it, from the nodes that can spare most.

    Returns number of nodes that stay below.
    """
    below = 0
    thorough = len(state.node) <= THOROUGH_TASKS
    for node in range(state.room.shape[0]):
        while _deficit(state, node, scale) > 0.0:
            if not _fill_once(state, node, scale, thorough):
                below += 1
                break
    return below


@helper
def _deficit(state, node, scale):
    total = 0.0
    for resource in range(state.spare.shape[1]):
        if state.spare[node, resource] < 0.0:
            total -= state.spare[node, resource] * scale[resource]
    return total


@helper
def _fill_once(state, node, scale, thorough):
    """Move one task in, or swap a larger one in, at least traffic lost per deficit filled.

    All other nodes are asked when `thorough`, else only until one can give.
    """
    best_task, best_partner, best_score = NOWHERE, NOWHERE, np.inf
    for donor in range(state.room.shape[0]):
        if not thorough and best_task != NOWHERE:
            break
        task = NOWHERE if donor == node else state.first[donor]
        while task != NOWHERE:
            filled = _filled(state, node, task, NOWHERE, scale)
            if filled > TINY and state.target[state.kind[task], node]:
                loss = connection(state, task, donor) - connection(state, task, node)
                # a move in where it fits; a swap only as long as no move was found
                if fits(state.load, state.room, task, node):
                    if may_leave(state, task, node) and loss / filled < best_score:
                        best_task, best_partner, best_score = task, NOWHERE, loss / filled
                elif best_task == NOWHERE or best_partner != NOWHERE:
                    partner, score = _swap_in(state, node, task, loss, scale, best_score)
                    if partner != NOWHERE:
                        best_task, best_partner, best_score = task, partner, score
            task = state.after[task]
    if best_task == NOWHERE:
        return False
    if best_partner != NOWHERE:
        exchange(state, best_task, best_partner)
    else:
        take(state, best_task)
        put(state, best_task, node)
    return True


@helper
def _swap_in(state, node, task, loss, scale, best_score):
    """Return the partner on `node` to swap `task` with, and the better of the two scores."""
    best = NOWHERE
    donor = state.node[task]
    partner = state.first[node]
    while partner != NOWHERE:
        filled = _filled(state, node, task, partner, scale)
        if (
            filled > TINY
            and state.target[state.kind[partner], donor]
            and fits_instead(state.load, state.room, task, partner, node)
            and fits_instead(state.load, state.room, partner, task, donor)
            and may_exchange(state, task, partner)
        ):
            change = connection(state, partner, node) - connection(state, partner, donor)
            if (loss + change) / filled < best_score:
                best, best_score = partner, (loss + change) / filled
        partner = state.after[partner]
    return best, best_score


@helper
def _filled(state, node, task, partner, scale):
    """How much of a node's deficit a task fills, coming in for `partner` or for nobody."""
    total = 0.0
    for resource in range(state.load.shape[1]):
        spare = state.spare[node, resource]
        change = state.load[task, resource]
        if partner != NOWHERE:
            change -= state.load[partner, resource]
        # no worse than now on any resource: a swap must not open a deficit elsewhere
        after = spare + change
        if after < min(spare, 0.0):
            return 0.0
        if spare < 0.0:
            total += (min(after, 0.0) - spare) * scale[resource]
    return total


@kernel
def homing_loss(state):
    """(T,) traffic lost if a migrant went back to its current node; ``inf`` for all other tasks."""
    loss = np.full(len(state.node), np.inf)
    for task in range(len(state.node)):
        home, node = state.home[task], state.node[task]
        if home >= 0 and node != NOWHERE and node != home:
            loss[task] = connection(state, task, node) - connection(state, task, home)
    return loss


@kernel
def go_home(state, order):
    """Send migrants home in the given order, where they fit, until the migration budget holds.

    A migrant whose place is taken changes with a task that came there, when that saves a migration
    too.

    Returns how many went home.
    """
    num_home = 0
    for task in order:
        if not overdrawn(state.budget):
            break
        home, node = state.home[task], state.node[task]
        if min(home, node) < 0 or node == home:
            continue
        if fits(state.load, state.room, task, home):
            if may_leave(state, task, home):
                take(state, task)
                put(state, task, home)
                num_home += 1
            continue
        partner = state.first[home]
        while partner != NOWHERE:
            if (
                state.home[partner] != home
                and state.target[state.kind[partner], node]
                and fits_instead(state.load, state.room, task, partner, home)
                and fits_instead(state.load, state.room, partner, task, node)
                and may_exchange(state, task, partner)
            ):
                exchange(state, task, partner)
                num_home += 1
                break
            partner = state.after[partner]
    return num_home


@kernel
def adopt(state, preferred, least_gain):
    """Make the moves of a wished placement that gain traffic, the best first, within limits.

    Returns number of moves made.
    """
    num_moves = 0
    while True:
        # each round looks at all again, for a move changes what others gain and fit
        best, best_gain = NOWHERE, least_gain
        for task in range(len(preferred)):
            node = preferred[task]
            if (
                node == NOWHERE
                or state.node[task] == NOWHERE
                or node == state.node[task]
                or not state.target[state.kind[task], node]
                or not fits(state.load, state.room, task, node)
                or not may_leave(state, task, node)
            ):
                continue
            gain = connection(state, task, node) - connection(state, task, state.node[task])
            if gain > best_gain:
                best, best_gain = task, gain
        if best == NOWHERE:
            return num_moves
        take(state, best)
        put(state, best, preferred[best])
        num_moves += 1


_THOROUGH = 50_000_000  # Tasks × nodes up to which one task may be moved to make room for another.
_PASSES = 20


@dataclass(frozen=True, eq=False)
class RepairOutcome:
    """What repair made of a placement."""

    node: Ints  # (T,) node of each task; -1 where even repair found none.
    changes: int  # Number of tasks whose node differs from what was given.
    #: Whether the result keeps every rule of the instance (slots apart, which repair does not
    #: decide).
    complete: bool
    restored: bool  # Whether it keeps every rule that repair restores (`optim.rules.REPAIRABLE`).
    notes: list[str]  # What was done, and what is still broken.


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
    before = np.asarray(node_idx, dtype=np.int32)
    best: tuple[tuple[int, int], Ints, str] | None = None
    for note, node in _attempts(instance, before):
        broken = evaluate_indices(instance, node).violations
        rules = sorted({violation.rule for violation in broken})
        # all that repair can restore holds: what else is broken is not for it
        if not REPAIRABLE.intersection(rules):
            return _outcome(before, node, note, rules)
        unplaced = int((node < 0).sum())
        # each unplaced task is a violation of its own
        key = (len(broken) - unplaced, unplaced)
        if best is None or key < best[0]:
            best = (key, node, note)
        if until is not None and time.perf_counter() >= until:
            break
    assert best is not None
    _, node, note = best
    rules = sorted({violation.rule for violation in evaluate_indices(instance, node).violations})
    return _outcome(before, node, note, rules)


def _outcome(before: Ints, node: Ints, note: str, broken: list[str]) -> RepairOutcome:
    changes = int((before != node).sum())
    notes = [f"repair: {note}, {changes} tasks placed or moved"] if changes else []
    if broken:
        notes.append(f"repair could not restore: {', '.join(broken)}")
    return RepairOutcome(node, changes, not broken, not REPAIRABLE.intersection(broken), notes)


def _attempts(instance: Instance, before: Ints) -> Iterator[tuple[str, Ints]]:
    """Yield placements to judge, the least change first."""
    yield "nothing to mend", before
    if not instance.num_nodes or not instance.num_tasks:
        return
    instance = on_chosen_nodes(instance, before)
    yield "mended", _relieved_and_filled(instance, before)
    placed = bool((instance.tasks.node >= 0).any())
    if placed and (budgets(instance) or inflow_limits(instance) is not None):
        yield "mended from the current placement", _from_current(instance, before)
    for packed in packings(instance):
        if (packed >= 0).all():
            yield "packed anew", _relieved_and_filled(instance, packed, polish=True)


def _has_budget(instance: Instance) -> bool:
    return bool(budgets(instance)) and bool((instance.tasks.node >= 0).any())


def _relieved_and_filled(instance: Instance, node: Ints, *, polish: bool = False) -> Ints:
    """Relieve, place what is left, fill lower bounds, and go home as far as the budget asks."""
    state = state_of(instance, _usable(instance, node))
    state.budget[:] = np.inf  # spent freely first, and restored by going home
    _relieve_and_place(instance, state)
    if (instance.nodes.min_load > 0).any():
        fill_floors(state, _scale(state))
    if not _has_budget(instance):
        touched = np.flatnonzero(state.node != node)
        _polish(instance, state, np.arange(instance.num_tasks) if polish else touched)
    else:
        # anew, with the budget as it is
        state = state_of(instance, state.placement())
        _keep_budget(state)
        _relieve_and_place(instance, state)
    return state.placement()


def _from_current(instance: Instance, preferred: Ints) -> Ints:
    """Mend the current placement within the budget, then adopt the best of the wished one."""
    here = np.where(instance.tasks.node >= 0, instance.tasks.node, preferred).astype(np.int32)
    state = state_of(instance, _usable(instance, here))
    _relieve_and_place(instance, state)
    if (instance.nodes.min_load > 0).any():
        fill_floors(state, _scale(state))
    # a copy of one type, as `NOWHERE` says: read-only arrays would have it compiled anew
    adopt(state, preferred.astype(np.int64), _least_gain(instance))
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
            usable[moved[ranks(usable[moved]) >= rules.most_in[usable[moved]]]] = -1
    return usable


def _too_many_of(rules: PlaceRules, i: int, node: Ints) -> NDArray[np.int64]:
    """Return members of a set that have to go from where they are, so that the set can hold."""
    tasks = rules.tasks_of(i)
    tasks = tasks[node[tasks] >= 0]
    place = rules.place[i, node[tasks]]
    if rules.rule[i] == APART:
        return tasks[ranks(place) >= rules.limit[i]]
    counts = np.bincount(place)
    if rules.rule[i] == TOGETHER:
        # together: all go to the place that has most of them
        return tasks[place != counts.argmax()] if len(tasks) else tasks
    # spread: as many as places are missing, beyond those not placed yet, from where most stand
    rank = ranks(place)
    missing = int(rules.limit[i]) - np.count_nonzero(counts) - (len(rules.tasks_of(i)) - len(tasks))
    return tasks[np.argsort(-rank, kind="stable")[: max(0, missing)]]


def _relieve_and_place(instance: Instance, state: State) -> None:
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
    if instance.has_traffic and len(order):
        descend(state, order, _PASSES, _least_gain(instance))


def _least_gain(instance: Instance) -> float:
    return 1e-9 * instance.total_traffic / max(1, instance.num_tasks) + 1e-300


def _scale(state: State) -> Floats:
    """(R',) one over the total load: excesses of several resources are added in shares of that."""
    total = state.load.sum(axis=0)
    scale: NDArray[np.float64] = np.where(total > 0, 1.0 / np.where(total > 0, total, 1.0), 0.0)
    return scale


# Compiling the kernels ahead of the clock.


def two_tasks() -> Instance:
    """Return an instance that is quickly done."""
    return Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "warm-up",
            "resources": ["cpu"],
            "nodes": [{"id": name, "capacity": {"cpu": 1}} for name in "ab"],
            "tasks": [{"id": name, "load": {"cpu": 1}} for name in "ab"],
            "traffic": [["a", "b", 1]],
        }
    )


@warming
def warm_up() -> None:
    """Compile the kernels of repair and descent on two tasks, or load them from the cache."""
    instance = two_tasks()
    everything_on_one = np.zeros(2, dtype=np.int32)
    repair(instance, everything_on_one)
    state = state_of(instance, everything_on_one)
    relieve(state, np.ones(1), True)
    place_rest(state, np.arange(2), np.ones(1), True)
    descend(state, np.arange(2), 1, 1e-9)
