"""A good allocation to begin with: constructions, re-optimised node pairs, kicks; compiled.

`imc-search` and the driver of column generation search alike: with (N, G) tasks of each class on
each node. The gain of a node that holds ``y`` is ``Σ_{g<h} rate_gh y_g y_h + Σ_g rate_gg y_g
(y_g − 1) / 2``.

Two nodes are re-optimised by the best way to split what both hold, a bounded depth-first search:
splitting ``c`` into ``x`` and ``c − x`` cuts ``Σ_{g<h} rate_gh (x_g (c_h − x_h) + x_h (c_g − x_g))
+ Σ_g rate_gg x_g (c_g − x_g)``. Every class that is fixed adds a part that is not negative, so a
branch ends when its cut reaches the best known one.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from optim.util.compiled import helper, kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from formulations.column_generation.problem import Counts, PatternProblem

SHARES = (0.0, 0.25)
"""Scores of the pattern constructions: plain traffic, and traffic that stays with its tasks."""

STRENGTH = 2  # Tasks that the smallest kick moves.
STEPS = 5000  # Branches tried at most when two nodes are re-optimised or a pattern is built.
ROUNDS = 24  # Kicks of the search ahead of a proof; fixed, so that runs repeat.

_PAIRS, _WORK = 40_000.0, 4e8
"""Pairs of nodes looked at ahead of a proof, fewer when nodes hold many classes; counts and no
times, so that runs repeat."""

_MOST_NODES = 5000
"""More nodes than this, and there is no search ahead of a proof: it has a table of their pairs."""

TINY = 1e-12


class Placed(NamedTuple):
    """A complete or partial allocation; `room`, `spare`, `num_tasks`, `drawn`, `left` change."""

    #: (G, R) load of one task; (G, G) symmetric traffic of one task pair.
    load: NDArray[np.float64]
    rate: NDArray[np.float64]
    allowed: NDArray[np.bool_]  # (G, N) where each class may go.
    #: (N, R) what may still come, and what may go before a lower bound breaks.
    room: NDArray[np.float64]
    spare: NDArray[np.float64]
    num_tasks: NDArray[np.int64]  # (N, G) tasks of each class on each node.
    #: (N, G) traffic of one task of a class with all that stands on a node.
    drawn: NDArray[np.float64]
    left: NDArray[np.int64]  # (G,) tasks not placed.


def nothing_placed(problem: PatternProblem) -> Placed:
    """Return the empty allocation, nodes listed class by class."""
    owner = problem.class_of_node()
    shape = len(owner), problem.num_classes
    return Placed(
        problem.load, problem.rate, np.ascontiguousarray(problem.most[owner].T > 0),
        problem.limit[owner], -problem.least[owner], np.zeros(shape, np.int64), np.zeros(shape),
        problem.sizes.copy(),
    )  # fmt: skip


def searched(
    problem: PatternProblem,
    starts: Sequence[Counts],
    rounds: int,
    seed: int,
    shares: Sequence[float] = (),
    pool: Counts | None = None,
    pairs: float = np.inf,
) -> Counts | None:
    """Return the best (N, G) counts found; ``None`` if there is no start and none was constructed.

    `starts`: complete placements that keep all bounds.
    `rounds`, `seed`: kicks to try, and of these.
    `shares`: scores of patterns by which further placements are constructed (`fill_by_patterns`).
    `pool`: (P, G) filled with contents of nodes that were met; of free rows the first entry is −1.
    `pairs`: pairs of nodes to look at in all.
    """
    if pool is None:
        pool = np.full((0, problem.num_classes), -1, dtype=np.int64)
    table = np.array(starts, dtype=np.int64).reshape(-1, problem.num_nodes, problem.num_classes)
    total = 0.5 * float(problem.sizes @ problem.rate @ problem.sizes)
    _, best, index = search_counts(
        nothing_placed(problem), np.array(shares, dtype=np.float64), table, rounds, STRENGTH, STEPS,
        1e-10 * total + 1e-300, seed, pool, float(pairs),
    )  # fmt: skip
    return np.asarray(best) if index >= 0 else None


def improved(
    problem: PatternProblem, starts: Sequence[Counts], seed: int, rounds: int = ROUNDS
) -> Counts | None:
    """Return an allocation after a search of bounded work from some; else from constructed ones."""
    if problem.num_nodes > _MOST_NODES:
        return None
    classes = min(problem.num_classes, 2.0 * float(problem.sizes.sum()) / problem.num_nodes)
    pairs = min(_PAIRS, max(problem.num_nodes, _WORK / max(1.0, classes) ** 4))
    shares = () if len(starts) else SHARES
    return searched(problem, starts, rounds, seed, shares, pairs=pairs)


@kernel(steps=lambda rounds, placed: 57 * (rounds + 1) * placed.num_tasks.size)
def search_counts(
    placed, shares, starts, rounds, strength, most_steps, least_gain, seed, pool, pairs
):
    """Construct, re-optimise and kick.

    Every construction (patterns by each of `shares`, and each of `starts`) is settled: its node
    pairs are re-optimised. The best is then kicked.

    `placed`: nothing; changed in place.
    `shares`: (S,) as `share` of `fill_by_patterns`.
    `starts`: (M, N, G) complete placements to start from; they keep all bounds.
    `rounds`: kicks to try.
    `strength`: a kick moves this many tasks, the next ones two, three and four times as many, and
        so on.
    `most_steps`: branches tried when two nodes are re-optimised, or a pattern is built.
    `pool`: (P, G) filled with the contents of nodes of settled placements, as many as there is room
        for; a row of which the first entry is negative is free.
    `pairs`: pairs of nodes to look at in all.
    Returns gain, (N, G) counts of the best complete placement, and index of the construction it
        came from; index -1 and gain -1 when no construction was complete.
    """
    np.random.seed(seed)  # noqa: NPY002  the generator that compiled code has
    num_nodes = placed.room.shape[0]
    scratch = new_scratch(placed.load.shape[0], placed.load.shape[1])
    changed = np.zeros(num_nodes, np.int64)  # when a node last changed
    checked = np.zeros((num_nodes, num_nodes), np.int32)  # and a pair was last looked at
    size = placed.left.copy()
    traffic_of_one = _traffic_of_one(size, placed.rate)
    best = placed.num_tasks.copy()
    budget = np.full(1, pairs)
    best_gain, best_index, clock, pooled = -1.0, -1, 0, 0
    built = len(shares) + len(starts)
    for step in range(built + rounds):
        clock += 1
        since = clock
        if step < len(shares):
            clear(placed, size)
            fill_by_patterns(placed, traffic_of_one, shares[step], most_steps)
        elif step < built:
            put(placed, starts[step - len(shares)], size)
        else:
            if best_index < 0 or budget[0] <= 0.0:
                break
            if step == built:
                put(placed, best, size)
                checked[:] = clock - 1
            kick(placed, changed, clock, strength * (1 + (step - built) % 4))
        if step < built:
            if placed.left.sum() > 0 or not _meets_floors(placed):
                continue
            changed[:] = clock
        clock = settle(placed, scratch, changed, checked, clock, most_steps, least_gain, budget)
        pooled = _collect(placed, changed, since, pool, pooled)
        gain = gain_of(placed)
        if gain > best_gain + least_gain:
            best_gain = gain
            best_index = step if step < built else best_index
            best[:] = placed.num_tasks
        elif step >= built and gain < best_gain - least_gain:
            clock += 1
            _restore(placed, best, changed, clock)
    return best_gain, best, best_index


@helper
def _collect(placed, changed, since, pool, pooled):
    """Copy the contents of nodes that changed since a time into the pool; return its size."""
    for node in range(len(changed)):
        if changed[node] >= since and pooled < len(pool) and placed.num_tasks[node].sum() > 0:
            pool[pooled] = placed.num_tasks[node]
            pooled += 1
    return pooled


@helper
def _restore(placed, table, changed, clock):
    """Go back to a placement, noting which nodes change."""
    for node in range(len(changed)):
        for g in range(table.shape[1]):
            number = table[node, g] - placed.num_tasks[node, g]
            if number != 0:
                shift(placed, g, node, number)
                changed[node] = clock


@helper
def _meets_floors(placed):
    """Whether every node meets its lower bounds."""
    meets = True
    for node in range(placed.spare.shape[0]):
        meets = meets and _may_lose(placed, node)
    return meets


@helper
def _traffic_of_one(size, rate):
    """(G,) all traffic of one task of each class."""
    traffic = np.zeros(len(size))
    for g in range(len(size)):
        for h in range(len(size)):
            traffic[g] += rate[g, h] * size[h]
        traffic[g] -= rate[g, g]
    return traffic


@helper
def settle(placed, scratch, changed, checked, clock, most_steps, least_gain, budget):
    """Re-optimise pairs of nodes until none can be bettered, or the budget ends."""
    num_nodes = placed.num_tasks.shape[0]
    improved = True
    while improved:
        improved = False
        for first in range(num_nodes):
            for second in range(first + 1, num_nodes):
                # a pair is looked at again only if one of its nodes has changed since
                if max(changed[first], changed[second]) <= checked[first, second]:
                    continue
                if budget[0] <= 0.0:
                    return clock
                budget[0] -= 1.0
                checked[first, second] = clock
                if split_pair(placed, first, second, scratch, most_steps, least_gain) > 0.0:
                    clock += 1
                    changed[first] = clock
                    changed[second] = clock
                    checked[first, second] = clock
                    improved = True
    return clock


@helper
def kick(placed, changed, clock, strength):
    """Move random tasks to random nodes, in exchange for a random task where they do not fit."""
    num_nodes = placed.num_tasks.shape[0]
    done = 0
    for _ in range(20 * strength):
        if done == strength:
            return
        source, target = np.random.randint(num_nodes), np.random.randint(num_nodes)  # noqa: NPY002
        g = _random_task(placed, source)
        if source == target or g < 0 or not placed.allowed[g, target]:
            continue
        other = _random_task(placed, target)
        shift(placed, g, source, -1)
        if room_for(placed, g, target, 1) == 1 and _may_lose(placed, source):
            shift(placed, g, target, 1)
        elif other < 0 or other == g or not _swapped(placed, g, other, source, target):
            shift(placed, g, source, 1)
            continue
        changed[source] = clock
        changed[target] = clock
        done += 1


@helper
def _random_task(placed, node):
    """Return the class of a random task on a node; -1 if it is empty."""
    total = 0
    for g in range(placed.num_tasks.shape[1]):
        total += placed.num_tasks[node, g]
    if total == 0:
        return -1
    pick = np.random.randint(total)  # noqa: NPY002
    for g in range(placed.num_tasks.shape[1]):
        pick -= placed.num_tasks[node, g]
        if pick < 0:
            return g
    return -1


@helper
def _may_lose(placed, node):
    """Whether a node still meets its lower bounds."""
    meets = True
    for r in range(placed.spare.shape[1]):
        meets = meets and placed.spare[node, r] >= 0.0
    return meets


@helper
def _swapped(placed, g, other, source, target):
    """Put a task of `g`, taken off `source`, on `target` for one of `other`, if that fits."""
    if not placed.allowed[other, source]:
        return False
    shift(placed, other, target, -1)
    if room_for(placed, g, target, 1) == 1:
        shift(placed, g, target, 1)
        if room_for(placed, other, source, 1) == 1:
            shift(placed, other, source, 1)
            if _may_lose(placed, source) and _may_lose(placed, target):
                return True
            shift(placed, other, source, -1)
        shift(placed, g, target, -1)
    shift(placed, other, target, 1)
    return False


@helper
def fill_by_patterns(placed, traffic_of_one, share, most_steps):
    """Give every node, most room first, the pattern of the best score; return whether all fit.

    `placed`: nothing; changed in place.
    `traffic_of_one`: (G,) all traffic of one task of each class.
    `share`: the score of a pattern is the traffic within it minus this share of what its tasks have
        in all: 0 prefers much traffic, 1/2 prefers tasks that bring all their traffic along.
    `most_steps`: patterns looked at a node at most.
    """
    num_nodes, num_classes = placed.num_tasks.shape
    best = np.zeros(num_classes, np.int64)
    taken = np.zeros(num_nodes, np.bool_)
    for _ in range(num_nodes):
        node = -1
        for other in range(num_nodes):
            if not taken[other] and (node < 0 or placed.room[other, 0] > placed.room[node, 0]):
                node = other
        taken[node] = True
        if _best_pattern(placed, traffic_of_one, share, node, most_steps, best):
            for g in range(num_classes):
                if best[g] > 0:
                    shift(placed, g, node, best[g])
    return place_left(placed)


@helper
def _best_pattern(placed, traffic_of_one, share, node, most_steps, best):
    """Find the pattern of best score that fits a node, depth-first; return whether one gains."""
    num_classes, num_resources = placed.load.shape
    picked = np.zeros(num_classes, np.int64)
    value = np.zeros(num_classes + 1)
    inside = np.zeros(num_classes + 1)
    used = np.zeros((num_classes + 1, num_resources))
    following = np.zeros(num_classes + 1, np.int64)
    level, steps = 0, 0
    any_gains, best_value = False, -np.inf
    following[0] = _most(placed, 0, node, used[0])
    while level >= 0:
        if following[level] < 0 or steps >= most_steps:
            level -= 1
            continue
        steps += 1
        number = following[level]
        following[level] -= 1
        # ½ r_gg y_g (y_g − 1) within the class, r_gh y_g y_h with the classes above
        gain = 0.5 * placed.rate[level, level] * number * (number - 1)
        for above in range(level):
            gain += placed.rate[level, above] * number * picked[above]
        picked[level] = number
        inside[level + 1] = inside[level] + gain
        value[level + 1] = value[level] + gain - share * number * traffic_of_one[level]
        for r in range(num_resources):
            used[level + 1, r] = used[level, r] + number * placed.load[level, r]
        if level == num_classes - 1:
            if inside[num_classes] > 0.0 and value[num_classes] > best_value:
                best_value, any_gains = value[num_classes], True
                for g in range(num_classes):
                    best[g] = picked[g]
        else:
            level += 1
            following[level] = _most(placed, level, node, used[level])
    return any_gains


@helper
def _most(placed, g, node, used):
    """How many tasks of a class are left and still fit beside what the pattern holds."""
    number = placed.left[g] if placed.allowed[g, node] else 0
    for r in range(placed.load.shape[1]):
        load = placed.load[g, r]
        if load > 0.0:
            free = placed.room[node, r] - used[r]
            if number * load > free:
                number = max(0, np.int64(np.floor(free / load)))
    return number


@helper
def place_left(placed):
    """Place what is left, costliest class first, where each task gains most; whether all fit.

    Ties go to the node with least room.
    """
    complete = True
    done = np.zeros(len(placed.left), np.bool_)
    for _ in range(len(done)):
        g = -1
        for other in range(len(done)):
            costlier = g < 0 or placed.load[other, 0] > placed.load[g, 0]
            if costlier and not done[other]:
                g = other
        done[g] = True
        while placed.left[g] > 0:
            best = -1
            for node in range(placed.num_tasks.shape[0]):
                if room_for(placed, g, node, 1) == 1 and (
                    best < 0
                    or placed.drawn[node, g] > placed.drawn[best, g]
                    or (
                        placed.drawn[node, g] == placed.drawn[best, g]
                        and placed.room[node, 0] < placed.room[best, 0]
                    )
                ):
                    best = node
            if best < 0:
                complete = False
                break
            shift(placed, g, best, 1)
    return complete


# Elementary steps, and the best split of two nodes.


@helper
def shift(placed, g, node, number):
    """Put `number` tasks of a class on a node; a negative number takes them off."""
    placed.num_tasks[node, g] += number
    placed.left[g] -= number
    for h in range(placed.rate.shape[0]):
        placed.drawn[node, h] += number * placed.rate[g, h]
    for r in range(placed.load.shape[1]):
        placed.room[node, r] -= number * placed.load[g, r]
        placed.spare[node, r] += number * placed.load[g, r]


@helper
def gain_of(placed):
    """Traffic within the nodes."""
    total = 0.0
    for node in range(placed.num_tasks.shape[0]):
        for g in range(placed.num_tasks.shape[1]):
            number = placed.num_tasks[node, g]
            if number > 0:
                total += number * (placed.drawn[node, g] - placed.rate[g, g])
    return 0.5 * total


@helper
def room_for(placed, g, node, most):
    """How many tasks of a class fit a node, at most `most`."""
    number = most if placed.allowed[g, node] else 0
    for r in range(placed.load.shape[1]):
        load = placed.load[g, r]
        if load > 0.0 and number * load > placed.room[node, r]:
            number = max(0, np.int64(np.floor(placed.room[node, r] / load)))
    return number


@helper
def clear(placed, size):
    """Take everything off."""
    for node in range(placed.num_tasks.shape[0]):
        for g in range(placed.num_tasks.shape[1]):
            if placed.num_tasks[node, g] != 0:
                shift(placed, g, node, -placed.num_tasks[node, g])
        placed.drawn[node] = 0.0  # exactly, whatever rounding has left
    placed.left[:] = size


@helper
def put(placed, table, size):
    """Set the placement to a (N, G) table; what it does not cover is left."""
    clear(placed, size)
    for node in range(placed.num_tasks.shape[0]):
        for g in range(placed.num_tasks.shape[1]):
            if table[node, g] != 0:
                shift(placed, g, node, table[node, g])


class Scratch(NamedTuple):
    """Arrays of the search, made once: one entry a depth (class)."""

    classes: np.ndarray
    total: np.ndarray
    split: np.ndarray
    best: np.ndarray
    turn: np.ndarray
    cut: np.ndarray
    used: np.ndarray
    rest: np.ndarray


@helper
def new_scratch(num_classes, num_resources):
    """Make the arrays."""
    return Scratch(
        np.zeros(num_classes, np.int64),
        np.zeros(num_classes, np.int64),
        np.zeros(num_classes, np.int64),
        np.zeros(num_classes, np.int64),
        np.zeros(num_classes, np.int64),
        np.zeros(num_classes + 1),
        np.zeros((num_classes + 1, num_resources)),
        np.zeros((num_classes + 1, num_resources)),
    )


@helper
def split_pair(placed, first, second, scratch, most_steps, least_gain):
    """Split what two nodes hold as well as the search finds; return the traffic gained.

    `placed`: changed in place.
    `scratch`: from `new_scratch`.
    `most_steps`: branches tried at most; when they run out the best split so far is taken.
    """
    current = 0.0  # traffic between the two
    for g in range(placed.num_tasks.shape[1]):
        current += placed.num_tasks[first, g] * placed.drawn[second, g]
    if current <= least_gain:
        return 0.0
    depth = _prepare(placed, first, second, scratch)
    best = _best_split(placed, first, second, depth, scratch, current - least_gain, most_steps)
    if best < 0.0:
        return 0.0
    for level in range(depth):
        g = scratch.classes[level]
        change = scratch.best[level] - placed.num_tasks[first, g]
        if change != 0:
            shift(placed, g, first, change)
            shift(placed, g, second, -change)
    return current - best


@helper
def _prepare(placed, first, second, scratch):
    """List the classes both nodes hold, those with most tasks first; sum up their loads."""
    depth = 0
    for g in range(placed.num_tasks.shape[1]):
        total = placed.num_tasks[first, g] + placed.num_tasks[second, g]
        if total > 0:
            level = depth
            # insertion sort: classes are few, and large ones first cut the tree early
            while level > 0 and scratch.total[level - 1] < total:
                scratch.total[level] = scratch.total[level - 1]
                scratch.classes[level] = scratch.classes[level - 1]
                level -= 1
            scratch.total[level] = total
            scratch.classes[level] = g
            depth += 1
    num_resources = placed.load.shape[1]
    for r in range(num_resources):
        scratch.rest[depth, r] = 0.0
    for level in range(depth - 1, -1, -1):
        for r in range(num_resources):
            load = scratch.total[level] * placed.load[scratch.classes[level], r]
            scratch.rest[level, r] = scratch.rest[level + 1, r] + load
    return depth


@helper
def _best_split(placed, first, second, depth, scratch, limit, most_steps):
    """Return the least cut found below `limit`, its split in `scratch.best`; -1 for none."""
    # by name: what is read in the loop costs more as a part of a tuple
    load, rate, allowed = placed.load, placed.rate, placed.allowed
    room, spare, num_tasks = placed.room, placed.spare, placed.num_tasks
    classes, total, split, turn = scratch.classes, scratch.total, scratch.split, scratch.turn
    cut, used, rest = scratch.cut, scratch.used, scratch.rest
    num_resources = load.shape[1]
    most, least = np.empty(num_resources), np.empty(num_resources)
    for r in range(num_resources):
        on_it = 0.0
        for g in range(load.shape[0]):
            on_it += num_tasks[first, g] * load[g, r]
        # what the first node may hold, and what it must so that the second is not overloaded
        most[r] = on_it + min(room[first, r], spare[second, r])
        least[r] = on_it - min(spare[first, r], room[second, r])
        # each bound has a slack of its own: that of an unbounded node would lift the other's bound
        most[r] += TINY * (abs(most[r]) + rest[0, r])
        least[r] -= TINY * (abs(least[r]) + rest[0, r])
        used[0, r] = 0.0  # at a depth: what the splits above it put on the first node
    best = -1.0
    level = 0
    cut[0] = 0.0
    turn[0] = 0
    steps = 0
    while level >= 0:
        g = classes[level]
        if turn[level] > total[level] or steps >= most_steps:
            level -= 1
            continue
        # both ends first: splits that keep a class whole cut least
        number = turn[level] // 2 if turn[level] % 2 == 0 else total[level] - turn[level] // 2
        turn[level] += 1
        steps += 1
        if number > 0 and not allowed[g, first]:
            continue
        if number < total[level] and not allowed[g, second]:
            continue
        possible = True
        for r in range(num_resources):
            on_first = used[level, r] + number * load[g, r]
            used[level + 1, r] = on_first
            if on_first > most[r] or on_first + rest[level + 1, r] < least[r]:
                possible = False
        if not possible:
            continue
        added = rate[g, g] * number * (total[level] - number)
        for above in range(level):
            added += rate[g, classes[above]] * (
                number * (total[above] - split[above]) + split[above] * (total[level] - number)
            )
        # no part of the cut is negative, so the subtree cuts at least this much
        if cut[level] + added >= limit:
            continue
        split[level] = number
        if level == depth - 1:
            limit = cut[level] + added
            best = limit
            for k in range(depth):
                scratch.best[k] = split[k]
        else:
            level += 1
            cut[level] = cut[level - 1] + added
            turn[level] = 0
    return best


def feasible(problem: PatternProblem, counts: Counts) -> bool:
    """Whether (N, G) counts, nodes listed class by class, place everything within bounds."""
    if (counts.sum(axis=0) != problem.sizes).any():
        return False
    owner = problem.class_of_node()
    return all(
        bool(problem.fits(k, counts[owner == k]).all()) for k in range(problem.num_node_classes)
    )
