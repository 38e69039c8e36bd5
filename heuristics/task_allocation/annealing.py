"""Annealing for ``imc-search``: its kernels, and rounds of them from the best start.

Source: S. Kirkpatrick, C. D. Gelatt, M. P. Vecchi, "Optimization by simulated annealing", Science
220 (1983), doi:10.1126/science.220.4598.671. Later rounds anneal anew, reheat the best placement
less, or anneal only what two good placements place differently, each longer than the one before.
The rounds of a call without a time limit are one.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from optim.kernels.descent import drawn
from optim.kernels.place_rules import NOBODY, affords, enter, may_enter, pays
from optim.kernels.repair import two_tasks
from optim.kernels.state import NOWHERE, fits, fits_instead, pair_rate, state_of
from optim.util.compiled import accepts, draw, helper, inlined, kernel, seeded, warming

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from heuristics.task_allocation.incumbent import Incumbent
    from optim.format.instance import Instance
    from optim.format.tables import Floats, Ints
    from optim.kernels.state import State

    Advance = Callable[[int, float, float, float], float]

# Simulated annealing on the traffic between nodes, by moves and swaps, compiled.
#
# For tasks that talk to few: the few are looked at; for those that talk to many there is
# `anneal_by_table`. What runs for every proposal stands in the kernel itself: a call counts
# references to every array it is given. Tasks are proposed in turn, not drawn: their rows are read
# in order, which the cache serves, and each is tried as often as the others.

TRIES = 4  # Partners asked for a swap before a proposal is given up.


@kernel(steps=lambda proposals: 20 * proposals)
def anneal(state, tasks, proposals, hot, cold, random):
    """Propose moves and swaps, worsening ones with a chance that falls.

    limits hold as by `optim.kernels.descent.descend`.

    `state`: `node`, `room`, `spare`, `tally`, `budget` and `guard` change in place; the chains of
        tasks do not, so a new state is to be made for what needs these.
    `tasks`: the tasks that are proposed, in turn from a random one; others move by swaps only.
    `hot`, `cold`: first and last temperature, in units of traffic.
    `random`: of the proposals (`optim.util.compiled.seeded`); changes in place.
    Returns traffic gained, which may be negative.
    """
    at, room, load, target, kind = state.node, state.room, state.load, state.target, state.kind
    spare, price, budget, guard = state.spare, state.price, state.budget, state.guard
    group, tally, indptr, partner = state.group, state.tally, state.indptr, state.other
    ruled = guard.active or budget.shape[0] > 0
    members, size, place = _member_lists(at, len(room))
    gained = 0.0
    temperature = hot
    turn = draw(random, len(tasks))
    step = (cold / hot) ** (1024.0 / max(proposals, 1024))
    for proposal in range(proposals):
        if proposal % 1024 == 1023:
            temperature *= step
        task = tasks[turn]
        turn = turn + 1 if turn + 1 < len(tasks) else 0
        source = at[task]
        start, stop = indptr[task], indptr[task + 1]
        if stop == start:
            node = at[draw(random, len(at))]
        else:
            node = at[partner[start + draw(random, stop - start)]]
        if node == source or min(node, source) == NOWHERE or not target[kind[task], node]:
            continue
        change = drawn(state, task, node, source)
        other = NOBODY
        if not fits(load, room, task, node) or size[node] == members.shape[1]:
            for _ in range(TRIES if size[node] > 0 else 0):
                candidate = members[node, draw(random, size[node])]
                if (
                    target[kind[candidate], source]
                    and fits_instead(load, room, task, candidate, node)
                    and fits_instead(load, room, candidate, task, source)
                ):
                    other = candidate
                    break
            if other == NOBODY:
                continue
            change += drawn(state, other, source, node) - 2.0 * pair_rate(state, task, other)
        if not accepts(random, -change, temperature):
            continue
        if not leaves_enough(load, spare, task, other, source, node):
            continue
        if ruled and not may_go(price, budget, guard, task, other, source, node):
            continue
        gained += change
        carry(at, load, room, spare, group, tally, task, other, source, node)
        if ruled:
            pay(price, budget, guard, task, other, source, node)
        if other == NOBODY:
            size[source] -= 1
            last = members[source, size[source]]
            members[source, place[task]] = last
            place[last] = place[task]
            members[node, size[node]] = task
            place[task] = size[node]
            size[node] += 1
        else:
            members[source, place[task]] = other
            members[node, place[other]] = task
            place[task], place[other] = place[other], place[task]
    return gained


@inlined
def leaves_enough(load, spare, task, other, source, node):
    """Whether lower bounds let a task go, and `other` (or nobody) come for it."""
    enough = True
    for resource in range(load.shape[1]):
        growth = load[task, resource]
        if other != NOBODY:
            growth -= load[other, resource]
        enough = enough and (growth <= 0.0 or growth <= spare[source, resource])
        enough = enough and (growth >= 0.0 or -growth <= spare[node, resource])
    return enough


class Excess(NamedTuple):
    """(R,) load by which a node may be above or below its bounds, and what a unit of that costs."""

    most: Floats
    price: Floats


@inlined
def cost_of(load, room, spare, excess, task, other, source, node):
    """What exceeded bounds cost more once a task goes, and `other` (or nobody) comes for it.

    Infinite where it exceeds more than it may: nothing that is out of bounds already gets worse.
    """
    cost = 0.0
    for resource in range(load.shape[1]):
        growth = load[task, resource]
        if other != NOBODY:
            growth -= load[other, resource]
        fuller, emptier = (node, source) if growth > 0.0 else (source, node)
        growth, price = abs(growth), excess.price[resource]
        for worse in (growth - room[fuller, resource], growth - spare[emptier, resource]):
            if growth > 0.0 and worse > 0.0:
                cost += price * min(growth, worse) if worse <= excess.most[resource] else np.inf
        for better in (-spare[fuller, resource], -room[emptier, resource]):
            cost -= price * max(0.0, min(growth, better))
    return cost


@inlined
def carry(at, load, room, spare, group, tally, task, other, source, node):
    """Let a task go, and `other` (or nobody) come for it, in all but the chains and `pay`."""
    for resource in range(load.shape[1]):
        growth = load[task, resource]
        if other != NOBODY:
            growth -= load[other, resource]
        room[source, resource] += growth
        room[node, resource] -= growth
        spare[source, resource] -= growth
        spare[node, resource] += growth
    at[task] = node
    if group[task] >= 0:
        tally[group[task], source] -= 1
        tally[group[task], node] += 1
    if other != NOBODY:
        at[other] = source
        if group[other] >= 0:
            tally[group[other], node] -= 1
            tally[group[other], source] += 1


@helper
def may_go(price, budget, guard, task, other, source, node):
    """Whether budget, sets and inflow let a task go, and `other` (or nobody) come for it."""
    if budget.shape[0] > 0:
        paid, back = pays(guard, task, node) - pays(guard, task, source), 0
        if other != NOBODY:
            back = pays(guard, other, source) - pays(guard, other, node)
        if not affords(price, budget, task, paid, other, back):
            return False
    if not guard.active:
        return True
    if not may_enter(guard, task, source, node, other):
        return False
    return other == NOBODY or may_enter(guard, other, node, source, task)


@helper
def pay(price, budget, guard, task, other, source, node):
    """Note in budget, sets and inflow that a task went, and `other` (or nobody) came for it."""
    for k in range(1 if other == NOBODY else 2):
        mover, leaves, comes = (task, source, node) if k == 0 else (other, node, source)
        paid = pays(guard, mover, comes) - pays(guard, mover, leaves)
        for b in range(budget.shape[0]):
            budget[b] -= paid * price[mover, b]
        if guard.active:
            enter(guard, mover, leaves, comes)


@helper
def _member_lists(at, num_nodes):
    """(N, M) tasks of each node, (N,) how many, (T,) position in its node's list."""
    size = np.zeros(num_nodes, np.int64)
    for node in at:
        if node != NOWHERE:
            size[node] += 1
    members = np.empty((num_nodes, 2 * size.max() + 8), np.int32)
    place = np.zeros(len(at), np.int64)
    size[:] = 0
    for task in range(len(at)):
        node = at[task]
        if node != NOWHERE:
            members[node, size[node]] = task
            place[task] = size[node]
            size[node] += 1
    return members, size, place


# Simulated annealing where tasks talk to many: moves and swaps looked up in a table, compiled.
#
# The table of node × task holds the traffic of each task with what stands on each node, and
# accepted moves keep it up. A proposal costs one random number and at most five looks, and most
# are refused by one comparison, before limits are asked.

MOVES = np.uint64(77)  # Proposals of 256 that move one task; the others swap two.

ANYWHERE = np.uint64(13)
"""Of these, to any node, so that empty ones are found; the others to that of some task."""

_CHANCES = 4096
CHANCES = np.log((np.arange(_CHANCES) + 0.5) / _CHANCES)
"""Logarithms of what acceptance is drawn from: a loss of traffic is accepted up to minus one of
these times the temperature, as often as its exponential asks."""

# of 64 bits 22 choose the task, 22 the other, 12 the chance, 8 which of move and swap
_TASK, _OTHER, _CHANCE = np.uint64(42), np.uint64(20), np.uint64(8)
_BITS, _BELOW = np.uint64(22), np.uint64((1 << 22) - 1)
_CHANCE_BITS, _WHICH_BITS = np.uint64(_CHANCES - 1), np.uint64(255)

# the shifts of G. Marsaglia, "Xorshift RNGs", J. Stat. Softw. 8 (2003), doi:10.18637/jss.v008.i14
_LEFT, _RIGHT, _AGAIN = np.uint64(13), np.uint64(7), np.uint64(17)


def matrix_of(instance: Instance) -> Floats:
    """(T, T) traffic of the task pairs, both directions added."""
    flows, count = instance.flows, instance.num_tasks
    matrix = np.zeros((count, count))
    np.add.at(matrix, (flows.source, flows.target), flows.rate)
    for block in flows.blocks:
        matrix[np.ix_(block.sources, block.targets)] += block.pair_rate
    return matrix + matrix.T


_LARGEST = 2**28  # Units of a task's traffic: changes, of up to four such sums, fit 32 bits.
_FINE = 2**8  # Least units of the median rate, so that rounding takes little of most.


def in_whole_units(matrix: Floats) -> tuple[NDArray[Any], float]:
    """Return `matrix_of` an instance in whole numbers of 32 bits, and how many units 1 is.

    Half the memory of fractions, and sums without rounding. Where the rates are too unlike for
    that, the matrix as it is.
    """
    most = matrix.sum(axis=1).max(initial=0.0)
    # a power of two, so that other units of traffic give the same whole numbers
    unit = 2.0 ** np.floor(np.log2(_LARGEST / most)) if most > 0 else np.inf
    if not np.isfinite(unit) or np.median(matrix[matrix > 0]) * unit < _FINE:
        return matrix, 1.0
    return np.rint(matrix * unit).astype(np.int32), float(unit)


def table_of(matrix: NDArray[Any], node: NDArray[Any], num_nodes: int) -> NDArray[Any]:
    """(N, T) traffic of each task with what stands on each node; -1 is nowhere."""
    table = np.zeros((num_nodes, len(node)), matrix.dtype)
    np.add.at(table, node[node >= 0], matrix[node >= 0])
    return table


@kernel(steps=lambda proposals: 5 * proposals)
def anneal_by_table(state, matrix, table, chances, excess, tasks, proposals, hot, cold, random):
    """Propose moves and swaps, worsening ones with a chance that falls.

    Limits hold as by `optim.kernels.descent.descend`, but for the `excess` of loads.

    `state`: changes as by `heuristics.task_allocation.annealing.anneal`.
    `matrix`, `table`: `matrix_of` the instance, in fractions or whole units, and `table_of` the
        placement, which changes in place.
    `chances`: `CHANCES`.
    `excess`: what loads may exceed, and what that costs.
    `tasks`: the tasks that are proposed; others move by swaps only.
    `hot`, `cold`: first and last temperature, in units of traffic.
    `random`: (1,) of its generator (`optim.util.compiled.seeded`); changes in place.
    Returns traffic gained, which may be negative.
    """
    at, room, load, target, kind = state.node, state.room, state.load, state.target, state.kind
    spare, price, budget, guard = state.spare, state.price, state.budget, state.guard
    group, tally, ruled = state.group, state.tally, guard.active or budget.shape[0] > 0
    num_chosen, num_tasks = np.uint64(len(tasks)), np.uint64(len(at))
    num_nodes = np.uint64(len(room))
    x = random[0]
    most, price_of_load = excess.most, excess.price
    regained = 2.0 * (most * price_of_load).sum()
    gained = 0.0
    temperature = hot
    step = (cold / hot) ** (1024.0 / max(proposals, 1024))
    for proposal in range(proposals):
        if proposal % 1024 == 1023:
            temperature *= step
        x ^= x << _LEFT
        x ^= x >> _RIGHT
        x ^= x << _AGAIN
        drawn = (x >> _OTHER) & _BELOW
        task = tasks[np.int64(((x >> _TASK) * num_chosen) >> _BITS)]
        other = np.int64((drawn * num_tasks) >> _BITS)
        least = chances[np.int64((x >> _CHANCE) & _CHANCE_BITS)] * temperature
        source, node = at[task], at[other]
        moving = (x & _WHICH_BITS) < MOVES
        if (x & _WHICH_BITS) < ANYWHERE:
            node = np.int64((drawn * num_nodes) >> _BITS)
        if node == source or min(node, source) == NOWHERE:
            continue
        change = table[node, task] - table[source, task]
        if not moving:
            change += table[source, other] - table[node, other] - 2 * matrix[task, other]
        if change + regained < least or not target[kind[task], node]:
            continue
        if moving:
            other = NOBODY
        elif not target[kind[other], source]:
            continue
        if change - cost_of(load, room, spare, excess, task, other, source, node) < least:
            continue
        if ruled and not may_go(price, budget, guard, task, other, source, node):
            continue
        gained += change
        carry(at, load, room, spare, group, tally, task, other, source, node)
        if ruled:
            pay(price, budget, guard, task, other, source, node)
        comes, leaves, row = table[node], table[source], matrix[task]
        if moving:
            for t in range(len(row)):
                comes[t] += row[t]
                leaves[t] -= row[t]
        else:
            back = matrix[other]
            for t in range(len(row)):
                amount = row[t] - back[t]
                comes[t] += amount
                leaves[t] -= amount
    random[0] = x
    return gained


MOST = 20_000_000  # Proposals of a round at effort 1, at most.


class Pace(NamedTuple):
    """How much is proposed."""

    #: Proposals a task at effort 1; but `fewest` in all, where these are no more than
    #: `most_a_task`.
    a_task: int
    most_a_task: int
    fewest: int
    #: With a time limit: proposals a task in the first and in the longest of several rounds, and
    #: how many times as long as the one before a round is.
    first: int
    longest: int
    growth: int
    anew: int  # Rounds until the first that starts from what was found.
    #: With a time limit: proposals without a better placement, times tasks squared, before it ends.
    patience: int
    #: Proposals between two looks at the clock, at most; and parts of a round, at least.
    chunk: int
    parts: int


BY_ROWS = Pace(400, 10_000, 1_000_000, MOST, 40_000, 2, 3, 2500, 250_000, 1)
BY_TABLE = Pace(400, 50_000, 20_000_000, 20_000, 1_000_000, 50, 2, 50_000, 1_000_000, 32)
"""A proposal by table costs a fraction; one long annealing ends higher than several short ones."""

MOST_BY_TABLE = 3000  # No table for more tasks: the matrix of their traffic is held.

SHARE_BY_TABLE = 1 / 16
"""Least share of all tasks that a task talks to, on average, for work by table."""

ROWS, TABLE = (0.45, 0.12), (0.5, 0.03)
"""First and last temperature: by rows in units of the rates' weighted mean, tuned on random,
community and geometric graphs of 10,000 tasks; by table in those of a swap's mean change, tuned on
complete graphs."""

PRICE, MOST_EXCESS, BOUND_AGAIN, MANY = (3.0, 300.0), 1.0, 0.8, 20
"""By table, first and last price of a mean load beyond a node's bounds, in units of a swap's mean
change; by how many mean loads a node may exceed them at first, which falls to none at this share of
the cooling; tasks a node from which on they may: without, what many such hold hardly changes."""

_COOLER = (0.7, 0.3)
"""With fewer proposals a task than `Pace.a_task`, by which powers of their share the first and the
last temperature are lower: a hot start takes more proposals to make up for than there are."""

REHEATED = 0.4  # First temperature of what starts from good placements, of that of the first round.
ELITE = 6  # Placements stored to be recombined.
_SHARE = 0.9  # Of the time that remains, what a round may take.
_SHORTEST = 0.1  # Seconds that a further round has at least.


class Heat(NamedTuple):
    """What the annealing of an instance works with."""

    matrix: NDArray[Any]  # (T, T) traffic of task pairs, or (0, 0) for work by rows.
    unit: float  # What one is in the matrix (`in_whole_units`).
    #: First and last temperature.
    hot: float
    cold: float
    pace: Pace  # How much is proposed.
    swap: float = 0.0  # By table, mean change of traffic by a swap.


def by_table(instance: Instance) -> bool:
    """Whether tasks talk to so many others that a table is cheaper than rows."""
    count = instance.num_tasks
    return count <= MOST_BY_TABLE and 2 * instance.flows.num_pairs >= SHARE_BY_TABLE * count**2


def anneal_in_rounds(instance: Instance, incumbent: Incumbent) -> None:
    """Anneal from the incumbent's placement until the iteration limit or the time limit."""
    heat = _heat(instance, incumbent)
    size, effort = instance.num_tasks, incumbent.request.options["effort"]
    pace = heat.pace
    least = min(pace.fewest, pace.most_a_task * size)
    planned = round(effort * min(max(pace.a_task * size, least), MOST))
    if planned == 0 or heat.hot <= 0.0:
        return
    timed = incumbent.request.remaining() is not None
    rng = np.random.default_rng(incumbent.request.seed)
    if timed:
        planned = min(planned, pace.first * size)
    assert incumbent.node is not None
    everything = np.arange(size)
    elite = [(incumbent.gain, incumbent.node)]
    start, tasks, hot, waited, rounds = incumbent.node, everything, heat.hot, 0, 0
    while not incumbent.out_of_time:
        if rounds and (incumbent.request.remaining() or _SHORTEST) < _SHORTEST:
            incumbent.stopped = True
            return
        before = incumbent.gain
        share = min(1.0, planned / (pace.a_task * len(tasks)))
        round_heat = heat._replace(
            hot=min(hot, heat.hot * share ** _COOLER[0]), cold=heat.cold * share ** _COOLER[1]
        )
        node = _round(instance, incumbent, round_heat, start, tasks, planned)
        rounds += 1
        waited = 0 if incumbent.gain > before * (1 + 1e-12) else waited + planned
        if not timed or waited > pace.patience * size**2 * effort:
            return
        elite = _elite(instance, elite, node)
        planned = min(pace.growth * planned, max(planned, round(pace.longest * size * effort)))
        start, tasks, hot = incumbent.node, everything, REHEATED * heat.hot
        if rounds < heat.pace.anew or rounds % 3 == 0:
            start, hot = _fresh(instance, incumbent, rounds, heat), heat.hot
        elif rounds % 3 == 1 and len(elite) > 1:
            first, second = rng.choice(len(elite), 2, replace=False)
            start = elite[min(first, second)][1]
            tasks = _differing(instance, start, elite[max(first, second)][1])


def _round(
    instance: Instance,
    incumbent: Incumbent,
    heat: Heat,
    start: Ints,
    tasks: NDArray[np.int64],
    planned: int,
) -> Ints:
    """Anneal once, in chunks, so that clock and keyboard are heard; and offer the end."""
    # with a time limit it cools down in what there is of it, at the speed it has had so far
    from optim.figures.measures import imc_gain_of

    state, gain = state_of(instance, start), imc_gain_of(instance, start)
    seed = incumbent.request.seed + incumbent.annealed
    go_on = _advance(state, heat, tasks, seed)
    chunk = min(heat.pace.chunk, -(-planned // heat.pace.parts))
    cooling, cooled, done, left = np.log(heat.cold / heat.hot), 0.0, 0, planned
    began, remaining = time.perf_counter(), incumbent.request.remaining()
    end = np.inf if remaining is None else began + _SHARE * remaining
    while left > 0:
        size = min(chunk, left)
        after = cooled + (1.0 - cooled) * size / left
        hot, cold = heat.hot * np.exp(cooling * cooled), heat.hot * np.exp(cooling * after)
        gain += go_on(size, hot, cold, after)
        cooled, done = after, done + size
        left = planned - done
        if remaining is not None:
            now = time.perf_counter()
            left = max(0, min(left, round((end - now) * done / max(now - began, 1e-9))))
            if gain > incumbent.gain:
                incumbent.offer(state.placement())
        incumbent.recorder.note(phase="anneal")
    incumbent.annealed += done // heat.pace.chunk + 1
    node = state.placement()
    if not len(heat.matrix):
        return incumbent.descended(node)
    taken = incumbent.take(node, descend=False)
    return start if taken is None else taken


def _advance(state: State, heat: Heat, tasks: NDArray[np.int64], seed: int) -> Advance:
    """Return what makes the next proposals: by table where there is a matrix, else by rows."""
    random, unit = seeded(seed), heat.unit
    if not len(heat.matrix):
        return lambda size, hot, cold, _: float(anneal(state, tasks, size, hot, cold, random))
    scales = heat.matrix, table_of(heat.matrix, state.node, len(state.room)), CHANCES
    mean = state.load.mean(axis=0)
    price = heat.swap * unit / np.where(mean > 0, mean, np.inf)
    (low, high), many = PRICE, len(state.node) >= MANY * len(state.room)

    def advance(proposals: int, hot: float, cold: float, cooled: float) -> float:
        most = many * MOST_EXCESS * mean * max(0.0, 1.0 - cooled / BOUND_AGAIN)
        excess = Excess(most, price * low * (high / low) ** cooled)
        heats = excess, tasks, proposals, hot * unit, cold * unit
        return float(anneal_by_table(state, *scales, *heats, random)) / unit

    return advance


def _fresh(instance: Instance, incumbent: Incumbent, rounds: int, heat: Heat) -> Ints:
    """Return another start: by rows, where a cold annealing keeps most of it, another cut."""
    from dataclasses import replace

    from heuristics.task_allocation.partition import cuts

    assert incumbent.node is not None
    engine = incumbent.request.options["start"]
    if len(heat.matrix) or engine != "metis":
        return incumbent.node
    request = replace(incumbent.request, seed=(incumbent.request.seed + 7 * rounds) % 2**31)
    placement = incumbent.take(next(cuts(instance, request)))
    return incumbent.node if placement is None else placement


def _elite(
    instance: Instance, elite: list[tuple[float, Ints]], node: Ints
) -> list[tuple[float, Ints]]:
    """Return the best placements of different value."""
    from optim.figures.measures import imc_gain_of

    gain = imc_gain_of(instance, node)
    if any(abs(gain - other) <= 1e-9 * abs(gain) for other, _ in elite):
        return elite
    return sorted([*elite, (gain, node)], key=lambda pair: -pair[0])[:ELITE]


def _differing(instance: Instance, first: Ints, second: Ints) -> NDArray[np.int64]:
    """Return the tasks placed differently once nodes are matched by what they have in common."""
    from scipy.optimize import linear_sum_assignment

    common = np.zeros((instance.num_nodes, instance.num_nodes))
    np.add.at(common, (first, second), 1.0)
    match = np.empty(instance.num_nodes, dtype=np.int64)
    rows, columns = linear_sum_assignment(-common)
    match[columns] = rows
    differing = np.flatnonzero(match[second] != first)
    return differing if len(differing) else np.arange(len(first))


def _heat(instance: Instance, incumbent: Incumbent) -> Heat:
    """Choose between table and rows, and the temperatures."""
    if by_table(instance):
        matrix = matrix_of(instance)
        assert incumbent.node is not None
        size = _change_of_swaps(matrix, incumbent.node, instance.num_nodes)
        matrix, unit = in_whole_units(matrix)
        incumbent.warm(warm_up_table if matrix.dtype == np.int32 else warm_up_fractions)
        return Heat(matrix, unit, size * TABLE[0], size * TABLE[1], BY_TABLE, size)
    size = _mean_rate(instance)
    return Heat(np.zeros((0, 0)), 1.0, size * ROWS[0], size * ROWS[1], BY_ROWS)


def _change_of_swaps(matrix: Floats, node: Ints, num_nodes: int) -> float:
    """Mean size of the change of traffic by a swap of two tasks, of a sample."""
    rng = np.random.default_rng(0)
    table = table_of(matrix, node, num_nodes)
    one, other = rng.integers(0, len(node), (2, 4000))
    a, b = node[one], node[other]
    change = table[b, one] - table[a, one] + table[a, other] - table[b, other]
    change -= 2.0 * matrix[one, other]
    return float(np.abs(change[a != b]).mean()) if (a != b).any() else float(matrix.max())


def _mean_rate(instance: Instance) -> float:
    """Mean rate of a task pair, weighted by rate."""
    flows = instance.flows
    squares = float((flows.rate**2).sum())
    total = float(flows.rate.sum())
    for block in flows.blocks:
        pairs = len(block.sources) * len(block.targets)
        squares += pairs * block.pair_rate**2
        total += pairs * block.pair_rate
    return squares / total if total > 0 else 0.0


@warming
def warm_up_rows() -> None:
    """Compile the kernel of work by rows on two tasks, or load it from the cache."""
    _two_annealed(Heat(np.zeros((0, 0)), 1.0, 1.0, 0.5, BY_ROWS))


@warming
def warm_up_table() -> None:
    """Compile the kernel of work by table on two tasks, or load it from the cache."""
    _two_annealed(Heat(np.zeros((2, 2), np.int32), 1.0, 1.0, 0.5, BY_TABLE))


@warming
def warm_up_fractions() -> None:
    """The same for rates so unlike that whole units do not hold them."""
    _two_annealed(Heat(np.zeros((2, 2)), 1.0, 1.0, 0.5, BY_TABLE))


def _two_annealed(heat: Heat) -> None:
    state = state_of(two_tasks(), np.zeros(2, dtype=np.int32))
    _advance(state, heat, np.arange(2), 0)(1, 1.0, 0.5, 1.0)
