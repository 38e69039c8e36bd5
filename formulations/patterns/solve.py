"""The whole method on counts: start, column generation, closing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.patterns import count_table
from formulations.patterns.close import close
from formulations.patterns.integer import choose
from formulations.patterns.master import Master
from formulations.patterns.pool import of_nodes
from formulations.patterns.pricing import TreePricer
from formulations.patterns.start import constructed, improved

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from formulations.patterns.close import Standing
    from formulations.patterns.integer import Backend
    from formulations.patterns.problem import Counts, PatternProblem

NODE_BUDGET = 40_000_000
"""Search nodes of one pricing; beyond it the bound is weaker, and still valid."""

FEW_PATTERNS = 5000
"""Patterns up to which all of them are listed at once."""

_FEW_COLUMNS = 2000
_QUICK = 20.0


def solve_counts(
    standing: Standing,
    backend: Backend,
    starts: Sequence[Counts] = (),
    node_budget: int = NODE_BUDGET,
    otherwise: Callable[[], Counts | None] = lambda: None,
    pricer: TreePricer | None = None,
) -> None:
    """Find and prove the best allocation in counts, in place.

    Parameters
    ----------
    standing
        Holds the best allocation and bound at any moment; ``bound`` is ``-inf`` when the problem
        is proven infeasible.
    starts
        (N, G) allocations to begin with; those that are feasible count.
    node_budget
        Of each pricing.
    otherwise
        Asked for an allocation where there is no start and first fit fails.
    pricer
        Of problems whose patterns must keep more than sums.
    """
    problem, clock = standing.problem, standing.clock
    standing.prove(trivial_bound(problem))
    if (problem.limit < 0).any():
        standing.prove(-np.inf)
        return
    clock.note(phase="start")
    for start in starts:
        standing.offer(start)
    _begin(standing, backend.seed, otherwise)
    pricer = pricer or TreePricer(problem, clock, node_budget)
    if not standing.closed:
        _by_table(standing, pricer)
    if standing.closed:
        return
    clock.note(phase="bound")
    master = Master(problem.sizes, problem.nodes, pricer, clock)
    known = None if standing.counts is None else of_nodes(problem, standing.counts)
    root = master.run(known, standing.value)
    standing.unplaced = root.unplaced
    standing.prove(root.bound)
    clock.note(phase="close")
    if not standing.closed and not clock.over():
        if standing.counts is None:
            from_columns(standing, master, backend)
        close(standing, pricer, root, backend)


def _begin(standing: Standing, seed: int, otherwise: Callable[[], Counts | None]) -> None:
    """First fit, unless there is a start, then local search."""
    counts = standing.counts if standing.counts is not None else constructed(standing.problem)
    if counts is None:
        counts = otherwise()
    if counts is not None:
        standing.offer(counts)
        standing.offer(improved(standing.problem, counts, seed))


def _by_table(standing: Standing, pricer: TreePricer) -> None:
    """Solve small problems outright: all patterns, all vectors of counts."""
    problem = standing.problem
    if float(np.prod(problem.sizes + 1.0)) * problem.num_nodes > count_table.MOST_CELLS:
        return
    free, everything = np.zeros(problem.num_classes), np.full(problem.num_node_classes, -np.inf)
    pool = pricer.enumerate(free, np.zeros(0), everything, FEW_PATTERNS)
    if pool is None or not count_table.affordable(problem, pool):
        return
    value, counts = count_table.best_choice(problem, pool)
    standing.offer(counts)
    standing.prove(value)


def from_columns(standing: Standing, master: Master, backend: Backend) -> None:
    """Look for a better allocation among the generated patterns, when they are few."""
    if len(master.pool) > _FEW_COLUMNS:
        return
    answer = choose(
        standing.problem, master.pool, standing.clock, backend, standing.counts,
        rows=standing.rows, time_limit=_QUICK,
    )  # fmt: skip
    if standing.offer(answer.counts) and standing.counts is not None:
        standing.offer(improved(standing.problem, standing.counts, backend.seed))


def trivial_bound(problem: PatternProblem) -> float:
    """Return all traffic: what any allocation can collocate at most."""
    pairs = np.outer(problem.sizes, problem.sizes) - np.diag(problem.sizes)
    return 0.5 * float((problem.rate * pairs).sum())


def search_order(problem: PatternProblem) -> Counts:
    """Order of the classes in the search tree: small ones first, the largest last.

    The last class costs nothing, as the value is convex in its count.
    """
    traffic = problem.rate @ problem.sizes
    return np.asarray(np.lexsort((-traffic, problem.sizes)))
