"""The whole method on counts: start, column generation, closing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.node_patterns import count_table
from formulations.node_patterns.closing import close
from formulations.node_patterns.integer import choose
from formulations.node_patterns.master import generate
from formulations.node_patterns.pricing import Pool, Pricer
from formulations.node_patterns.start import constructed, improved

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from formulations.node_patterns.closing import Standing
    from formulations.node_patterns.integer import Backend
    from formulations.node_patterns.master import Root
    from formulations.node_patterns.problem import Counts, PatternProblem

NODE_BUDGET = 40_000_000
"""Search nodes of one pricing; beyond it the bound is weaker, and still valid."""

FEW_PATTERNS = 5000
"""Patterns up to which all of them are listed at once."""

_QUICK = 20.0


def solve_counts(
    standing: Standing,
    backend: Backend,
    starts: Sequence[Counts] = (),
    node_budget: int = NODE_BUDGET,
    otherwise: Callable[[], Counts | None] = lambda: None,
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
    pricer = Pricer(problem, clock, node_budget)
    if not standing.closed:
        _by_table(standing, pricer)
    if standing.closed:
        return
    clock.note(phase="bound")
    root = generate(problem, pricer, clock, standing.counts, standing.value)
    standing.unplaced = root.unplaced
    standing.prove(root.bound)
    clock.note(phase="close")
    if not standing.closed and not clock.over():
        _from_columns(standing, root, backend)
        close(standing, pricer, root, backend)


def _begin(standing: Standing, seed: int, otherwise: Callable[[], Counts | None]) -> None:
    """First fit, unless there is a start, then local search."""
    counts = standing.counts if standing.counts is not None else constructed(standing.problem)
    if counts is None:
        counts = otherwise()
    if counts is not None:
        standing.offer(counts)
        standing.offer(improved(standing.problem, counts, seed))


def _by_table(standing: Standing, pricer: Pricer) -> None:
    """Solve small problems outright: all patterns, all vectors of counts."""
    problem = standing.problem
    if float(np.prod(problem.sizes + 1.0)) * problem.num_nodes > count_table.MOST_CELLS:
        return
    nothing = np.zeros(problem.num_classes)
    pool = pricer.enumerate(nothing, np.full(problem.num_node_classes, -np.inf), FEW_PATTERNS)
    if pool is None or not count_table.affordable(problem, pool):
        return
    value, counts = count_table.best_choice(problem, pool)
    standing.offer(counts)
    standing.prove(value)


def _from_columns(standing: Standing, root: Root, backend: Backend) -> None:
    """Look for a better allocation among the generated patterns, when they are few."""
    problem = standing.problem
    if standing.counts is not None or len(root.counts) > 2000:
        return
    pool = Pool(root.counts, root.node_class, problem.gain(root.counts))
    answer = choose(problem, pool, standing.clock, backend, time_limit=_QUICK)
    if standing.offer(answer.counts) and standing.counts is not None:
        standing.offer(improved(problem, standing.counts, backend.seed))


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
