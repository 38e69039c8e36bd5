"""The second level: of the placements that are best so far, the one with least between slots.

Its columns carry their numbers of workers, and the gain of their best split into so many.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from formulations.patterns.integer import pattern_model
from formulations.patterns.pool import TableRows, joined
from formulations.storm.patterns.solve import MOST_PATTERNS, SAME
from formulations.storm.patterns.split import MOST_STEPS, Splitter
from optim.rules.dealing.groups import flow
from optim.solvers import solve_linear

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.patterns.pool import Pool
    from formulations.storm.patterns.problem import StormProblem
    from formulations.storm.patterns.solve import Part
    from optim.methods.registry import Request
    from optim.solvers import LinearSolution

    Integers = NDArray[np.int64]
    Floats = NDArray[np.float64]


class Dealt(NamedTuple):
    """A placement with its workers.

    Attributes
    ----------
    counts, workers
        (N, C) executors of each class and (N, P) workers, nodes listed class by class.
    bound
        Proven upper bound of the scaled traffic inside slots; ``None`` where nothing is proven.
    note
        Why the traffic between slots is not the least, empty where it is.
    """

    counts: Integers
    workers: Integers
    bound: float | None = None
    note: str = ""


def best_workers(
    problem: StormProblem, parts: list[Part], counts: Integers, request: Request
) -> Dealt:
    """Give the nodes their workers, by the second level where it can be solved.

    Parameters
    ----------
    parts
        What holds every placement as good as `counts`, a best one of the first level.
    """
    plain = Dealt(counts, spread_workers(problem, counts))
    pool = _as_good(parts, float(problem.inner.gain(counts).sum()))
    table = None if pool is None else _with_workers(problem, pool)
    if table is None or request.remaining() == 0.0:
        return plain._replace(note="best effort, too many patterns to prove it")
    pool, workers = table
    splitters = [Splitter(problem, p) for p in range(problem.num_jobs)]
    work = sum(s.steps(pool.counts, workers[:, p]) for p, s in enumerate(splitters))
    if work > MOST_STEPS:
        return plain._replace(note="best effort, too many splits to prove it")
    value = np.zeros(len(pool))
    for p, splitter in enumerate(splitters):
        splitter.prepare(pool.counts, workers[:, p])
        value += splitter.gain(pool.counts, workers[:, p])
    keep = np.isfinite(value)
    pool, workers, value = pool.only(keep), workers[keep], value[keep]
    least = float(problem.inner.gain(counts).sum()) - SAME
    solution = _solve(problem, request, pool, workers, value, least)
    ended = str(solution.termination)
    if solution.x is None:
        return plain._replace(note=f"best effort, {ended}")
    repeat = np.repeat(np.arange(len(pool)), np.round(solution.x).astype(np.int64))
    repeat = repeat[np.argsort(pool.node_class[repeat], kind="stable")]
    note = "" if ended == "optimal" else f"stopped by {ended}"
    return Dealt(pool.counts[repeat], workers[repeat], solution.bound, note)


def _as_good(parts: list[Part], value: float) -> Pool | None:
    """Return the patterns of all placements that are as good as the best; ``None`` if too many."""
    pools = []
    for part in parts:
        gap = part.bound - value + SAME
        near = part.within(gap, MOST_PATTERNS) if gap >= 0 else None
        if gap < 0:
            continue
        if near is None:
            return None
        pools.append(part.narrow(near, gap))
    if not pools:
        return None
    pool = joined(pools)
    key = np.column_stack([pool.node_class, pool.counts])
    return pool.only(np.sort(np.unique(key, axis=0, return_index=True)[1]))


def _with_workers(problem: StormProblem, pool: Pool) -> tuple[Pool, Integers] | None:
    """Return each pattern once for every choice of (P,) workers; ``None`` when too many."""
    jobs = range(problem.num_jobs)
    of_job = np.stack([pool.counts[:, problem.job == p].sum(axis=1) for p in jobs])
    slots = problem.slots[pool.node_class]
    low, high = problem.least_workers(of_job), np.minimum(of_job, slots)
    if problem.per_slot is None:  # two slots that may be one keep no more together
        free = problem.fewest < problem.workers
        high[free] = low[free]
    column, workers = np.arange(len(pool)), low
    for p in jobs:
        repeat = (high[p] - low[p])[column] + 1
        if repeat.sum() > 10 * MOST_PATTERNS:
            return None
        first = np.repeat(np.cumsum(repeat) - repeat, repeat)
        column, workers = np.repeat(column, repeat), np.repeat(workers, repeat, axis=1)
        workers[p] += np.arange(len(column)) - first
        valid = workers.sum(axis=0) <= slots[column]
        column, workers = column[valid], workers[:, valid]
    if len(column) > MOST_PATTERNS:
        return None
    return pool.only(column), workers.T


def _solve(
    problem: StormProblem,
    request: Request,
    pool: Pool,
    workers: Integers,
    value: Floats,
    least: float,
) -> LinearSolution:
    """Choose patterns with workers: no less traffic inside nodes, most of it inside slots."""
    rows = TableRows(
        np.append(problem.fewest, least),
        np.append(problem.workers, np.inf),
        table=np.vstack([workers.T, pool.gain]),
    )
    pool = replace(pool, gain=value, at=np.arange(len(pool)))
    model = pattern_model(problem.inner.sizes, problem.inner.nodes, pool, rows)
    return solve_linear(
        model,
        request.solver or "highs",
        time_limit=request.remaining(),
        gap=0.0,  # of traffic inside; what is told is a gap of traffic between
        abs_gap=SAME / 2,
        seed=request.seed,
        threads=request.threads,
    )


def spread_workers(problem: StormProblem, counts: Integers) -> Integers:
    """(N, P) workers of nodes with these counts: as many as each topology asks for."""
    jobs = range(problem.num_jobs)
    held = np.stack([counts[:, problem.job == p].sum(axis=1) for p in jobs])
    slots = problem.slots[problem.inner.class_of_node()]
    answer = transported(
        problem.least_workers(held), np.minimum(held, slots), problem.fewest, problem.workers, slots
    )
    if answer is None:
        raise ValueError("no whole workers for these counts")
    return answer.T


def transported(
    low: Integers, high: Integers, fewest: Integers, most: Integers, slots: Integers
) -> Integers | None:
    """Return (P, N) whole numbers between low and high, their sums within bounds; the least ones.

    Parameters
    ----------
    low, high
        (P, N) bounds of each.
    fewest, most
        (P,) bounds of each topology's sum.
    slots
        (N,) bound of each node's sum.
    """
    missing = np.maximum(fewest - low.sum(axis=1), 0)
    room = slots - low.sum(axis=0)
    if (low > high).any() or (low.sum(axis=1) > most).any() or (room < 0).any():
        return None
    job, node = np.nonzero((high > low) & (room > 0))
    given, short = flow(missing, job, node, (high - low)[job, node], room)
    answer = low.copy()
    answer[job, node] += given
    return None if len(short) else answer
