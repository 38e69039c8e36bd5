"""``imc-search`` on counts: constructions, settled and kicked; then the patterns met, by MILP.

With a time limit an integer program over node contents says which of the patterns met so far make
the best whole placement (`formulations.column_generation.integer`).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from formulations.column_generation.integer import Backend, choose
from formulations.column_generation.problem import Clock, Pool, joined, make_problem, problem_of
from formulations.column_generation.search import SHARES, searched
from heuristics.task_allocation.groups import grouped_job, tiny_job
from heuristics.task_allocation.top_down import place_groups
from optim.kernels.classes import counts_of, deal
from optim.util.compiled import warming

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formulations.column_generation.problem import Counts, PatternProblem
    from heuristics.task_allocation.incumbent import Incumbent
    from optim.format.instance import Instance
    from optim.format.tables import Ints
    from optim.kernels.classes import NodeClasses, TaskGroups

ROUNDS = 200  # Kicks at effort 1.
CHUNK = 50  # Kicks between two looks at the clock.

_POOL = 20_000


def search_groups(
    instance: Instance, groups: TaskGroups, classes: NodeClasses, incumbent: Incumbent
) -> None:
    """Search on counts until the iteration limit or the time limit; results go to the incumbent."""
    incumbent.warm(warm_up)
    problem = problem_of(instance, groups, classes)
    near = instance.tasks.node
    if incumbent.request.warm_start is not None:
        near = np.asarray(incumbent.request.warm_start, dtype=np.int32)

    def offer(counts: Counts) -> bool:
        return incumbent.offer(deal(groups, classes, counts, near))

    starts = [
        counts_of(groups, classes, node, instance.num_nodes)
        for node in _starts(instance, incumbent)
    ]
    pool: list[Counts] = []
    shares: Sequence[float] = SHARES
    rounds = round(ROUNDS * incumbent.request.options["effort"])
    for chunk in range(max(1, -(-rounds // CHUNK))):
        kicks = min(CHUNK, rounds - chunk * CHUNK)
        best, patterns = _search(problem, shares, starts, kicks, incumbent.request.seed + chunk)
        if best is None:  # no plan exists yet: repair a partial plan, and start from that
            repaired = _repaired(instance, incumbent)
            if repaired is None:
                return
            starts = [counts_of(groups, classes, repaired, instance.num_nodes)]
            best, patterns = _search(problem, shares, starts, kicks, incumbent.request.seed)
        if best is not None:
            pool.append(patterns)
            starts, shares = [best], ()
            if not offer(best) and incumbent.node is None:
                break
        if incumbent.out_of_time:
            return
    remaining = incumbent.request.remaining()
    if remaining is None or remaining < 0.05 or not pool:
        return
    counts = best_combination(problem, np.unique(np.concatenate(pool), axis=0), 0.5 * remaining)
    if counts is not None and offer(counts):
        best, _ = _search(problem, (), [counts], CHUNK, incumbent.request.seed)
        if best is not None:
            offer(best)


def _search(
    problem: PatternProblem, shares: Sequence[float], starts: list[Counts], rounds: int, seed: int
) -> tuple[Counts | None, Counts]:
    """Return the best counts, ``None`` if no construction was complete, and the contents met."""
    pool = np.full((_POOL, problem.num_classes), -1, dtype=np.int64)
    best = searched(problem, starts, max(0, rounds), seed, shares, pool)
    return best, np.unique(pool[pool[:, 0] >= 0], axis=0)


def _starts(instance: Instance, incumbent: Incumbent) -> list[Ints]:
    """Return the feasible ones of: what was given, staying, topDown by both priorities."""
    job = grouped_job(instance)
    placed = [place_groups(job, priority) for priority in ("significance", "imc")]
    incumbent.partial = placed[0]
    feasible = []
    for node in [*incumbent.given_starts(), *placed]:
        if incumbent.acceptable(node) is not None:
            incumbent.offer(node)
            feasible.append(node)
    return feasible


def _repaired(instance: Instance, incumbent: Incumbent) -> Ints | None:
    """Repair what was given or topDown's partial plan; ``None`` when that fails."""
    from optim.kernels.repair import repair
    from optim.kernels.repair import warm_up as warm_up_repair

    incumbent.warm(warm_up_repair)
    candidates = [*incumbent.given_starts()]
    if incumbent.partial is not None:
        candidates.append(incumbent.partial)
    for node in candidates:
        repaired = repair(instance, node)
        if repaired.restored:
            incumbent.offer(repaired.node)
            return repaired.node
        incumbent.partial = repaired.node
        incumbent.notes += repaired.notes
    return None


@warming
def warm_up() -> None:
    """Compile the kernels, or load them from the cache."""
    place_groups(tiny_job())
    rate = [[0.0, 1.0], [1.0, 0.0]]
    _search(make_problem([1, 1], [[1.0], [1.0]], rate, [2], [[2.0]]), SHARES, [], 1, 0)


MOST_PATTERNS = 4000  # Patterns in the model; those with most gain a unit of load stay.


def best_combination(problem: PatternProblem, patterns: Counts, seconds: float) -> Counts | None:
    """Return (N, G) counts of the best combination found in the time; ``None`` for none.

    `patterns`: (P, G) different node contents.
    """
    gain = problem.gain(patterns)
    gain_per_load = gain / np.maximum(patterns @ problem.load[:, 0], 1e-300)
    best = np.sort(np.argsort(-gain_per_load, kind="stable")[:MOST_PATTERNS])
    # a node may also stay empty
    empty = np.zeros((1, problem.num_classes), dtype=np.int64)
    patterns, gain = np.concatenate([patterns[best], empty]), np.append(gain[best], 0.0)
    pools = []
    for k in range(problem.num_node_classes):
        fits = problem.fits(k, patterns)
        of = np.full(int(fits.sum()), k, dtype=np.int64)
        pools.append(Pool(patterns[fits], of, gain[fits]))
    clock = Clock(time.perf_counter() + seconds)
    return choose(problem, joined(pools), clock, Backend()).counts if pools else None
