"""``imc-search`` on counts: constructions, settled and kicked; then the patterns met, by MILP."""

from __future__ import annotations

import time
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from formulations.patterns.deal import counts_of, deal
from formulations.patterns.problem import make_problem, problem_of
from heuristics.task_allocation.groups import grouped_job

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formulations.patterns.classes import NodeClasses, TaskGroups
    from formulations.patterns.pool import Pool
    from formulations.patterns.problem import Counts, PatternProblem
    from heuristics.task_allocation.incumbent import Incumbent
    from optim.format.instance import Instance
    from optim.format.tables import Ints

ROUNDS = 200
"""Kicks at effort 1."""

CHUNK = 50
"""Kicks between two looks at the clock."""

SHARES = (0.0, 0.25)
"""Scores of the pattern constructions: plain traffic, and traffic that stays with its tasks."""

_POOL = 20_000

MOST_PATTERNS = 4000
"""Contents among which the best whole placement is chosen."""


def search_groups(
    instance: Instance, groups: TaskGroups, classes: NodeClasses, incumbent: Incumbent
) -> None:
    """Search on counts until the iteration limit or the time limit; results go to the incumbent."""
    incumbent.compiled(warm_up())
    problem = problem_of(instance, groups, classes)
    near = instance.tasks.node
    if incumbent.request.warm_start is not None:
        near = np.asarray(incumbent.request.warm_start, dtype=np.int32)
    starts = [
        counts_of(groups, classes, node, instance.num_nodes)
        for node in _starts(instance, incumbent)
    ]
    pool: list[Counts] = []
    shares: Sequence[float] = SHARES
    rounds = round(ROUNDS * incumbent.request.options["effort"])
    for chunk in range(max(1, -(-rounds // CHUNK))):
        kicks = min(CHUNK, rounds - chunk * CHUNK)
        best, met = _search(problem, shares, starts, kicks, incumbent.request.seed + chunk)
        if best is None:  # nothing fits yet: repair a partial plan, and start from that
            repaired = _repaired(instance, incumbent)
            if repaired is None:
                return
            starts = [counts_of(groups, classes, repaired, instance.num_nodes)]
            best, met = _search(problem, shares, starts, kicks, incumbent.request.seed)
        if best is not None:
            pool.append(met)
            starts, shares = [best], ()
            if not incumbent.offer(deal(groups, classes, best, near)) and incumbent.node is None:
                break
        if incumbent.out_of_time:
            return
    _combine(problem, pool, groups, classes, near, incumbent)


def _search(
    problem: PatternProblem, shares: Sequence[float], starts: list[Counts], rounds: int, seed: int
) -> tuple[Counts | None, Counts]:
    """Return the best counts, ``None`` if no construction was complete, and the contents met."""
    from formulations.patterns.start import searched

    return searched(problem, starts, max(0, rounds), seed, shares=shares, pool=_POOL)


def _starts(instance: Instance, incumbent: Incumbent) -> list[Ints]:
    """Return the feasible ones of: what was given, staying, topDown by both priorities."""
    from heuristics.task_allocation.top_down import place_groups

    job = grouped_job(instance)
    placed = [place_groups(job, priority) for priority in ("significance", "imc")]
    incumbent.partial = placed[0]
    found = []
    for node in [*incumbent.given_starts(), *placed]:
        if incumbent.acceptable(node) is not None:
            incumbent.offer(node)
            found.append(node)
    return found


def _repaired(instance: Instance, incumbent: Incumbent) -> Ints | None:
    """Repair what was given or topDown's partial plan; ``None`` when that fails."""
    from optim.moves.repair import repair
    from optim.moves.warm import warm_up as warm_up_repair

    began = time.perf_counter()
    warm_up_repair()
    incumbent.compiled(time.perf_counter() - began)
    candidates = [*incumbent.given_starts()]
    if incumbent.partial is not None:
        candidates.append(incumbent.partial)
    for node in candidates:
        mended = repair(instance, node)
        if mended.restored:
            incumbent.offer(mended.node)
            return mended.node
        incumbent.partial = mended.node
        incumbent.notes += mended.notes
    return None


def _combine(
    problem: PatternProblem,
    pool: list[Counts],
    groups: TaskGroups,
    classes: NodeClasses,
    near: Ints,
    incumbent: Incumbent,
) -> None:
    """With a time limit: choose the best set of node contents out of all that were met."""
    remaining = incumbent.request.remaining()
    if remaining is None or remaining < 0.05 or not pool:
        return
    from formulations.patterns.clock import Clock
    from formulations.patterns.integer import Backend, choose

    patterns = _thinned(problem, np.unique(np.concatenate(pool), axis=0))
    backend = Backend(seed=incumbent.request.seed)
    counts = choose(
        problem, of_contents(problem, patterns), Clock(), backend, time_limit=0.25 * remaining
    ).counts
    if counts is None or not incumbent.offer(deal(groups, classes, counts, near)):
        return
    best, _ = _search(problem, (), [counts], CHUNK, incumbent.request.seed)
    if best is not None:
        incumbent.offer(deal(groups, classes, best, near))


def _thinned(problem: PatternProblem, patterns: Counts) -> Counts:
    """Keep the contents of most gain a unit of load, at most `MOST_PATTERNS`, and the empty one."""
    worth = problem.gain(patterns) / np.maximum(patterns @ problem.load[:, 0], 1e-300)
    best = patterns[np.sort(np.argsort(-worth, kind="stable")[:MOST_PATTERNS])]
    return np.vstack([best, np.zeros_like(best[:1])])


def of_contents(problem: PatternProblem, patterns: Counts) -> Pool:
    """Return, for each class of nodes, the contents that fit them."""
    from formulations.patterns.pool import Pool

    fits = np.array([problem.fits(k, patterns) for k in range(problem.num_node_classes)])
    node_class, which = np.nonzero(fits)
    return Pool(patterns[which], node_class, problem.gain(patterns[which]))


def warm_up() -> float:
    """Compile the kernels, or load them from the cache; return the seconds it took."""
    began = time.perf_counter()
    _warm_up_once()
    return time.perf_counter() - began


@cache
def _warm_up_once() -> None:
    from heuristics.task_allocation.groups import tiny_job
    from heuristics.task_allocation.top_down import place_groups

    place_groups(tiny_job())
    problem = make_problem([1, 1], np.ones((2, 1)), 1 - np.eye(2), [2], np.full((1, 1), 2.0))
    _search(problem, SHARES, [], 1, 0)
