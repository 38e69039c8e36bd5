"""Rounds of annealing for ``imc-search``: one from the best start, more as long as there is time.

Source of the method: Kirkpatrick, Gelatt, Vecchi 1983 (`heuristics.task_allocation.anneal`). Later
rounds anneal anew, reheat the best placement less, or anneal only what two good placements place
differently, each longer than the one before. The rounds of a call without a time limit are one.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from heuristics.task_allocation.anneal import anneal
from heuristics.task_allocation.anneal_table import (
    CHANCES,
    anneal_by_table,
    matrix_of,
    table_of,
)
from optim.kernels.draws import seeded
from optim.kernels.state import state_of
from optim.kernels.warm import two_tasks
from optim.util.compiled import warming

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from heuristics.task_allocation.incumbent import Incumbent
    from optim.format.instance import Instance
    from optim.format.tables import Floats, Ints
    from optim.kernels.state import State

    Advance = Callable[[int, float, float], float]

MOST = 20_000_000
"""Proposals of a round at effort 1, at most."""


class Pace(NamedTuple):
    """How much is proposed.

    Attributes
    ----------
    a_task, most_a_task, fewest
        Proposals a task at effort 1; but `fewest` in all, where these are no more than
        `most_a_task`.
    first, longest, growth
        With a time limit: proposals a task in the first and in the longest of several rounds, and
        how many times as long as the one before a round is.
    anew
        Rounds until the first that starts from what was found.
    patience
        With a time limit: proposals without a better placement, times tasks squared, before it
        ends.
    chunk
        Proposals between two looks at the clock.
    """

    a_task: int
    most_a_task: int
    fewest: int
    first: int
    longest: int
    growth: int
    anew: int
    patience: int
    chunk: int


BY_ROWS = Pace(400, 10_000, 1_000_000, MOST, 40_000, 2, 3, 2500, 250_000)
BY_TABLE = Pace(400, 50_000, 20_000_000, 20_000, 1_000_000, 50, 2, 50_000, 1_000_000)
"""A proposal by table costs a fraction; one long annealing ends higher than several short ones."""

MOST_BY_TABLE = 3000
"""No table for more tasks: the matrix of their traffic is held."""

SHARE_BY_TABLE = 1 / 16
"""Least share of all tasks that a task talks to, on average, for work by table."""

ROWS, TABLE = (0.45, 0.12), (0.7, 0.04)
"""First and last temperature: by rows in units of the rates' weighted mean, tuned on random,
community and geometric graphs of 10,000 tasks; by table in those of a swap's mean change, tuned on
complete graphs."""

_COOLER = (0.7, 0.3)
"""With fewer proposals a task than `Pace.a_task`, by which powers of their share the first and the
last temperature are lower: a hot start takes more proposals to make up for than there are."""

REHEATED = 0.4
"""First temperature of what starts from good placements, of that of the first round."""

ELITE = 6
"""Placements stored to be recombined."""

_SHARE = 0.9
"""Of the time that remains, what a round may take."""

_SHORTEST = 0.1
"""Seconds that a further round has at least."""


class Heat(NamedTuple):
    """What the annealing of an instance works with.

    Attributes
    ----------
    matrix
        (T, T) traffic of task pairs, or (0, 0) for work by rows.
    hot, cold
        First and last temperature.
    pace
        How much is proposed.
    """

    matrix: Floats
    hot: float
    cold: float
    pace: Pace


def by_table(instance: Instance) -> bool:
    """Whether tasks talk to so many others that a table is cheaper than rows."""
    flows, count = instance.flows, instance.num_tasks
    pairs = len(flows.rate) + sum(len(b.sources) * len(b.targets) for b in flows.blocks)
    return count <= MOST_BY_TABLE and 2 * pairs >= SHARE_BY_TABLE * count**2


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
    go_on = _advance(state, heat.matrix, tasks, seed)
    cooling, cooled, done, left = np.log(heat.cold / heat.hot), 0.0, 0, planned
    began, remaining = time.perf_counter(), incumbent.request.remaining()
    end = np.inf if remaining is None else began + _SHARE * remaining
    while left > 0:
        size = min(heat.pace.chunk, left)
        after = cooled + (1.0 - cooled) * size / left
        hot, cold = heat.hot * np.exp(cooling * cooled), heat.hot * np.exp(cooling * after)
        gain += go_on(size, hot, cold)
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
    incumbent.offer(node)
    return node


def _advance(state: State, matrix: Floats, tasks: NDArray[np.int64], seed: int) -> Advance:
    """Return what makes the next proposals: by table where there is a matrix, else by rows."""
    random = seeded(seed)
    if not len(matrix):
        return lambda *heats: float(anneal(state, tasks, *heats, random))
    scales = matrix, table_of(matrix, state.node, len(state.room)), CHANCES, tasks
    return lambda *heats: float(anneal_by_table(state, *scales, *heats, random))


def _fresh(instance: Instance, incumbent: Incumbent, rounds: int, heat: Heat) -> Ints:
    """Return another start: by rows, where a cold annealing keeps most of it, another cut."""
    from dataclasses import replace

    from heuristics.task_allocation.partition import cuts

    assert incumbent.node is not None
    engine = incumbent.request.options["start"]
    if len(heat.matrix) or engine != "metis":
        return incumbent.node
    request = replace(incumbent.request, seed=(incumbent.request.seed + 7 * rounds) % 2**31)
    found = incumbent.take(next(cuts(instance, request)))
    return incumbent.node if found is None else found


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
        unit = _change_of_swaps(matrix, incumbent.node, instance.num_nodes)
        return Heat(matrix, unit * TABLE[0], unit * TABLE[1], BY_TABLE)
    unit = _mean_rate(instance)
    return Heat(np.zeros((0, 0)), unit * ROWS[0], unit * ROWS[1], BY_ROWS)


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
    state = state_of(two_tasks(), np.zeros(2, dtype=np.int32))
    _advance(state, np.zeros((0, 0)), np.arange(2), 0)(1, 1.0, 0.5)


@warming
def warm_up_table() -> None:
    """Compile the kernel of work by table on two tasks, or load it from the cache."""
    state = state_of(two_tasks(), np.zeros(2, dtype=np.int32))
    _advance(state, np.zeros((2, 2)), np.arange(2), 0)(1, 1.0, 0.5)
