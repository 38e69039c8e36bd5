"""The first level by the engine of node patterns: traffic between nodes.

Where the patterns that may be of use are many, the placements are told apart by how many nodes they
leave empty: each part has a master of its own, which cuts bring nearer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from formulations.column_generation.bound import in_good_allocations
from formulations.column_generation.driver import from_columns
from formulations.column_generation.integer import pattern_model
from formulations.column_generation.master import Master
from formulations.column_generation.pricing import ListPricer
from formulations.column_generation.problem import Clock, TableRows, joined, of_nodes
from formulations.column_generation.prove import Incumbent, prove
from formulations.column_generation.search import improved
from formulations.storm.columns import StateListing, WorkerRows, list_states
from formulations.storm.search import FirstPlan
from formulations.storm.split import MOST_STEPS, Splitter, spread_workers
from optim.solvers import solve_linear

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from formulations.column_generation.integer import Backend
    from formulations.column_generation.problem import Pool
    from formulations.storm.columns import States
    from formulations.storm.problem import StormProblem

    Integers = NDArray[np.int64]
    from optim.methods.registry import Request
    from optim.solvers import LinearSolution

    Floats = NDArray[np.float64]


SAME = 1e-6
"""Scaled rates that differ by less are the same."""

PARTS_ABOVE = 4000
"""Patterns that may be of use above which placements are told apart by their empty nodes."""

CUT_ABOVE = 20_000
"""Patterns of such a part above which cuts are sought first."""

MOST_PATTERNS = 150_000

_CUT_ROUNDS = 12
_CUTS_PER_ROUND = 15


@dataclass(eq=False)
class Part:
    """Placements with a given number of empty nodes, or all of them: their master and its list."""

    problem: StormProblem
    listing: StateListing
    master: Master

    @property
    def bound(self) -> float:
        """Proven upper bound of the scaled traffic inside nodes."""
        return self.master.root.bound

    def within(self, gap: float, most: int) -> Pool | None:
        """Return the patterns that bring a placement below the bound by no more than `gap`.

        ``None`` when they are more than `most`.
        """
        root, pricer = self.master.root, self.master.pricer
        return pricer.enumerate(root.price, root.side, root.highest - gap, most)

    def needed(self, value: float) -> int:
        """How many patterns may be in something better than a value."""
        root = self.master.root
        if not np.isfinite(root.bound):  # no placement is in this part
            return 0
        values = self.listing.values(root.price, root.side, gainless=False)
        least = root.highest - (root.bound - value)
        return sum(int((v > t).sum()) for v, t in zip(values, least, strict=True))

    def narrow(self, pool: Pool, gap: float) -> Pool:
        """Leave out what is in no placement within a gap."""
        rows, inner = self.listing.rows, self.problem.inner
        loss = self.master.root.loss(pool, rows)
        return in_good_allocations(inner, pool, loss, gap + SAME, rows.empty)

    def tighten(self) -> None:
        """Add cuts as long as some are violated."""
        for _ in range(_CUT_ROUNDS):
            master = self.master
            used = master.uses > SAME
            counts, uses = master.pool.counts[: len(used)][used], master.uses[used]
            if not self.listing.rows.add_cuts(counts, uses, _CUTS_PER_ROUND):
                return
            if master.clock.over() or not master.run().finished:
                return


def part_of(problem: StormProblem, states: States, clock: Clock, empty: int | None = None) -> Part:
    """Set up a part, not solved yet."""
    rows = WorkerRows(problem, states)
    if empty is not None:
        rows.fix_empty(empty)
    listing = StateListing(states, rows)
    inner = problem.inner
    return Part(
        problem,
        listing,
        Master(inner.sizes, inner.nodes, ListPricer(listing), clock, rows),
    )


def solve_nodes(
    problem: StormProblem, incumbent: Incumbent, starts: Iterable[Integers], backend: Backend
) -> list[Part]:
    """Find and prove the placement with most traffic inside nodes, in place.

    Parameters
    ----------
    incumbent
        Its rows are set here.
    starts
        (N, C) placements to begin with; those that keep every rule count.

    Returns
    -------
    list of Part
        Together they hold every placement that is as good as the best.
    """
    clock = incumbent.clock
    states = list_states(problem)
    whole = part_of(problem, states, clock)
    incumbent.rows = whole.listing.rows
    # all traffic can be inside at most
    incumbent.take_bound(float(states.gain[states.number(problem.inner.sizes)]))
    for start in starts:
        incumbent.offer(start)
    plans = FirstPlan(problem, states, incumbent.rows)
    if incumbent.counts is None:
        incumbent.offer(plans.find([states.gain[fitting] for fitting in states.fitting]))
    known = incumbent.counts
    first = None if known is None else of_nodes(problem.inner, known)
    root = whole.master.run(first, incumbent.value)
    incumbent.take_bound(root.bound)
    if not incumbent.closed and not clock.over():
        incumbent.offer(plans.find(whole.listing.values(root.price, root.side, gainless=False)))
        if incumbent.counts is None:
            from_columns(incumbent, whole.master, backend)
        if incumbent.counts is not None:
            incumbent.offer(plans.better(incumbent.counts, backend.seed))
            if plans.skipped:
                incumbent.offer(improved(problem.inner, incumbent.counts, backend.seed))
    parts = [whole]
    if incumbent.closed or clock.over():
        return parts
    if np.isfinite(incumbent.value) and whole.needed(incumbent.value) > PARTS_ABOVE:
        parts = _by_empty_nodes(whole, states, incumbent) or parts
    if parts == [whole]:
        prove(incumbent, whole.master.pricer, root, backend, whole.narrow, MOST_PATTERNS)
    else:
        _close_parts(parts, incumbent, backend)
    return parts


def _by_empty_nodes(whole: Part, states: States, incumbent: Incumbent) -> list[Part]:
    """Return a solved and tightened part for each number of empty nodes that may do better.

    Nothing where the time is up.
    """
    problem, clock, found = whole.problem, incumbent.clock, incumbent.value
    nodes = problem.inner.num_nodes
    quiet = Clock(clock.deadline)  # a part's bound is no bound of the whole
    parts = []
    for empty in range(max(0, nodes - int(problem.workers.sum())), nodes):
        part = part_of(problem, states, quiet, empty)
        root = part.master.run()
        if root.finished and root.bound > found and part.needed(found) > CUT_ABOVE:
            part.tighten()
        if not root.finished or part.bound > found - SAME:
            parts.append(part)
        if clock.over():
            return []
    return sorted(parts, key=lambda part: -part.bound)


def _close_parts(parts: list[Part], incumbent: Incumbent, backend: Backend) -> None:
    """Close one part after the other, the one with the highest bound first."""
    left: list[float] = [part.bound for part in parts]
    for i, part in enumerate(parts):
        own = Incumbent(
            incumbent.problem, part.master.clock, incumbent.counts, incumbent.value,
            left[i], incumbent.gap, incumbent.whole, rows=part.listing.rows, found=incumbent.found,
        )  # fmt: skip
        own.take_bound(left[i])
        prove(own, part.master.pricer, part.master.root, backend, part.narrow, MOST_PATTERNS)
        incumbent.stages += own.stages
        incumbent.stopped, incumbent.solver = own.stopped, own.solver or incumbent.solver
        incumbent.offer(own.counts)
        left[i] = own.bound
        incumbent.take_bound(max(left))
        if incumbent.closed or incumbent.clock.over() or not own.closed:
            return


# The second level: of the placements that are best so far, the one with least between slots.
#
# Its columns carry their numbers of workers, and the gain of their best split into so many.


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
