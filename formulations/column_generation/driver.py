"""The whole method on counts: start, column generation, closing."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from formulations.column_generation import integer
from formulations.column_generation.bound import Functional
from formulations.column_generation.integer import best_choice, choose
from formulations.column_generation.master import Master
from formulations.column_generation.pricing import TreePricer
from formulations.column_generation.problem import Clock, make_problem, of_nodes
from formulations.column_generation.prove import prove
from formulations.column_generation.search import constructed, improved
from optim.util.compiled import warming

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from formulations.column_generation.integer import Backend
    from formulations.column_generation.problem import Counts, PatternProblem
    from formulations.column_generation.prove import Incumbent


NODE_BUDGET = 40_000_000
"""Search nodes of one pricing; beyond it the bound is weaker, and still valid."""

FEW_PATTERNS = 5000
"""Patterns up to which all of them are listed at once."""

_FEW_COLUMNS = 2000
_QUICK = 20.0


def solve_counts(
    incumbent: Incumbent,
    backend: Backend,
    starts: Sequence[Counts] = (),
    node_budget: int = NODE_BUDGET,
    otherwise: Callable[[], Counts | None] = lambda: None,
    pricer: TreePricer | None = None,
) -> None:
    """Find and prove the best allocation in counts, in place.

    Parameters
    ----------
    incumbent
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
    problem, clock = incumbent.problem, incumbent.clock
    incumbent.take_bound(trivial_bound(problem))
    if (problem.limit < 0).any():
        incumbent.take_bound(-np.inf)
        return
    clock.note(phase="start")
    for start in starts:
        incumbent.offer(start)
    _begin(incumbent, backend.seed, otherwise)
    pricer = pricer or TreePricer(problem, clock, node_budget)
    if not incumbent.closed:
        _by_table(incumbent, pricer)
    if incumbent.closed:
        return
    clock.note(phase="bound")
    master = Master(problem.sizes, problem.nodes, pricer, clock)
    known = None if incumbent.counts is None else of_nodes(problem, incumbent.counts)
    root = master.run(known, incumbent.value)
    incumbent.unplaced = root.unplaced
    incumbent.take_bound(root.bound)
    clock.note(phase="close")
    if not incumbent.closed and not clock.over():
        if incumbent.counts is None:
            from_columns(incumbent, master, backend)
        prove(incumbent, pricer, root, backend)


def _begin(incumbent: Incumbent, seed: int, otherwise: Callable[[], Counts | None]) -> None:
    """First fit, unless there is a start, then local search."""
    counts = incumbent.counts if incumbent.counts is not None else constructed(incumbent.problem)
    if counts is None:
        counts = otherwise()
    if counts is not None:
        incumbent.offer(counts)
        incumbent.offer(improved(incumbent.problem, counts, seed))


def _by_table(incumbent: Incumbent, pricer: TreePricer) -> None:
    """Solve small problems outright: all patterns, all vectors of counts."""
    problem = incumbent.problem
    if float(np.prod(problem.sizes + 1.0)) * problem.num_nodes > integer.MOST_CELLS:
        return
    free, everything = np.zeros(problem.num_classes), np.full(problem.num_node_classes, -np.inf)
    pool = pricer.enumerate(free, np.zeros(0), everything, FEW_PATTERNS)
    if pool is None or not integer.affordable(problem, pool):
        return
    value, counts = integer.best_choice(problem, pool)
    incumbent.offer(counts)
    incumbent.take_bound(value)


def from_columns(incumbent: Incumbent, master: Master, backend: Backend) -> None:
    """Look for a better allocation among the generated patterns, when they are few."""
    if len(master.pool) > _FEW_COLUMNS:
        return
    answer = choose(
        incumbent.problem, master.pool, incumbent.clock, backend, incumbent.counts,
        rows=incumbent.rows, time_limit=_QUICK,
    )  # fmt: skip
    if incumbent.offer(answer.counts) and incumbent.counts is not None:
        incumbent.offer(improved(incumbent.problem, incumbent.counts, backend.seed))


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


_BUDGET = 1000


def warm_up() -> float:
    """Compile, or load from disk, every kernel; return the seconds that took (0 the next time)."""
    began = time.perf_counter()
    _compile()
    return time.perf_counter() - began


@warming
def _compile() -> None:
    problem = make_problem(
        sizes=[1, 2], load=[[1.0], [1.0]], rate=[[0.0, 1.0], [1.0, 0.0]],
        nodes=[1, 1], limit=[[2.0], [3.0]],
    )  # fmt: skip
    pricer = TreePricer(problem, Clock(), _BUDGET)
    price = np.zeros(2)
    pricer.price_class(0, price, -1.0)
    pool = pricer.enumerate(price, np.zeros(0), np.full(2, -np.inf), _BUDGET)
    counts = constructed(problem)
    assert pool is not None
    assert counts is not None
    improved(problem, counts, 0, rounds=1)
    best_choice(problem, pool)
    Functional(problem, pool, np.array([[0, 0], [1, 1]])).evaluate(price)
