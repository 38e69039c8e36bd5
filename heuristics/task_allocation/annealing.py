"""Rounds of annealing for ``imc-search``: one from the best start, more as long as there is time.

Source of the method: Kirkpatrick, Gelatt, Vecchi 1983 (`heuristics.task_allocation.anneal`). Later
rounds anneal anew, reheat the best placement less, or anneal only what two good placements place
differently, each longer than the one before. The rounds of a call without a time limit are one.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from heuristics.task_allocation.anneal import anneal, matrix_of
from optim.moves.board import board_of
from optim.moves.warm import two_tasks
from optim.util.compiled import warming

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from heuristics.task_allocation.incumbent import Incumbent
    from optim.format.instance import Instance
    from optim.format.tables import Floats, Ints

PROPOSALS = 400
"""Proposals a task at effort 1, within `FEWEST` (for small graphs `MOST_A_TASK`) and `MOST`."""

MOST_A_TASK = 10_000
FEWEST, MOST = 1_000_000, 20_000_000
FEWEST_BY_TABLE = 4_000_000

LONGEST = 40_000
"""Proposals a task in the longest of several rounds."""

CHUNK = 250_000
"""Proposals between two looks at the clock."""

MOST_BY_TABLE = 3000
"""No table for more tasks: the matrix of their traffic is held."""

SHARE_BY_TABLE = 1 / 16
"""Least share of all tasks that a task talks to, on average, for work by table."""

ROWS, TABLE = (0.45, 0.12), (0.5, 0.01)
"""First and last temperature: by rows in units of the rates' weighted mean, tuned on random,
community and geometric graphs of 10,000 tasks; by table in those of a swap's mean change, tuned on
complete graphs."""

REHEATED = 0.4
"""First temperature of what starts from good placements, of that of the first round."""

ELITE = 6
"""Placements kept to be recombined."""

PATIENCE = 2500
"""With a time limit: proposals without a better placement, times tasks squared, before it ends."""

_SAFETY = 0.8


class Heat(NamedTuple):
    """What the annealing of an instance works with.

    Attributes
    ----------
    matrix
        (T, T) traffic of task pairs, or (0, 0) for work by rows.
    hot, cold
        First and last temperature.
    """

    matrix: Floats
    hot: float
    cold: float


def by_table(instance: Instance) -> bool:
    """Whether tasks talk to so many others that a table is cheaper than rows."""
    flows, count = instance.flows, instance.num_tasks
    pairs = len(flows.rate) + sum(len(b.sources) * len(b.targets) for b in flows.blocks)
    return count <= MOST_BY_TABLE and 2 * pairs >= SHARE_BY_TABLE * count**2


def anneal_in_rounds(instance: Instance, incumbent: Incumbent) -> None:
    """Anneal from the incumbent's placement until the iteration limit or the time limit."""
    heat = _heat(instance, incumbent)
    size, effort = instance.num_tasks, incumbent.request.options["effort"]
    fewest = FEWEST_BY_TABLE if len(heat.matrix) else FEWEST
    least = min(fewest, MOST_A_TASK * size)
    planned = round(effort * min(max(PROPOSALS * size, least), MOST))
    if planned == 0 or heat.hot <= 0.0:
        return
    timed = incumbent.request.remaining() is not None
    rng = np.random.default_rng(incumbent.request.seed)
    if timed and len(heat.matrix):
        planned = min(planned, LONGEST // 10 * size)
    assert incumbent.node is not None
    everything = np.arange(size)
    elite = [(incumbent.gain, incumbent.node)]
    start, tasks, hot, waited, rounds = incumbent.node, everything, heat.hot, 0, 0
    while not incumbent.out_of_time:
        before = incumbent.gain
        node = _round(instance, incumbent, heat._replace(hot=hot), start, tasks, planned)
        rounds += 1
        waited = 0 if incumbent.gain > before * (1 + 1e-12) else waited + planned
        if not timed or waited > PATIENCE * size**2 * effort:
            return
        elite = _elite(instance, elite, node)
        planned = min(2 * planned, max(planned, round(LONGEST * size * effort)))
        start, tasks, hot = incumbent.node, everything, REHEATED * heat.hot
        if rounds < 3 or rounds % 3 == 0:
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
    board = board_of(instance, start)
    done = 0
    cooling = np.log(heat.cold / heat.hot)
    seed = incumbent.request.seed + incumbent.annealed
    while done < planned:
        size = min(CHUNK, planned - done)
        hot = heat.hot * np.exp(cooling * done / planned)
        cold = heat.hot * np.exp(cooling * (done + size) / planned)
        began = time.perf_counter()
        anneal(board, heat.matrix, tasks, size, hot, cold, (seed + done // CHUNK) % 2**32)
        done += size
        remaining = incumbent.request.remaining()
        if remaining is not None:  # cool down in the time there is
            speed = size / max(time.perf_counter() - began, 1e-9)
            planned = min(planned, done + round(_SAFETY * remaining * speed))
            incumbent.offer(board.placement())
        incumbent.recorder.note(phase="anneal")
    incumbent.annealed += done // CHUNK + 1
    node = board.placement()
    if not len(heat.matrix):
        return incumbent.descended(node)
    incumbent.offer(node)
    return node


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
        return Heat(matrix, unit * TABLE[0], unit * TABLE[1])
    unit = _mean_rate(instance)
    return Heat(np.zeros((0, 0)), unit * ROWS[0], unit * ROWS[1])


def _change_of_swaps(matrix: Floats, node: Ints, num_nodes: int) -> float:
    """Mean size of the change of traffic by a swap of two tasks, of a sample."""
    rng = np.random.default_rng(0)
    table = np.zeros((num_nodes, len(node)))
    np.add.at(table, node, matrix)
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
def warm_up() -> None:
    """Compile the kernel on two tasks, or load it from the cache."""
    board = board_of(two_tasks(), np.zeros(2, dtype=np.int32))
    anneal(board, np.zeros((0, 0)), np.arange(2), 1, 1.0, 0.5, 0)
