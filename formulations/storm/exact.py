"""Storm on the driver of column generation: traffic between nodes, then between slots.

Where the patterns that may be of use are many, the placements are distinguished by how many nodes
they leave empty: each part has a master of its own, which cuts bring nearer.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from formulations.column_generation.bound import in_good_allocations
from formulations.column_generation.client import Client
from formulations.column_generation.integer import pattern_model
from formulations.column_generation.pricing import ListPricer
from formulations.column_generation.problem import Clock, TableRows, joined
from formulations.column_generation.search import improved
from formulations.storm.problem import StateListing, WorkerRows
from formulations.storm.search import FirstPlan
from formulations.storm.split import MOST_STEPS, Splitter, spread_workers
from optim.solvers import solve_linear

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from formulations.column_generation.client import Incumbent
    from formulations.column_generation.integer import Backend
    from formulations.column_generation.problem import Pool
    from formulations.storm.problem import States, StormProblem

    Integers = NDArray[np.int64]
    from optim.methods.registry import Request
    from optim.solvers import LinearSolution

    Floats = NDArray[np.float64]


SAME = 1e-6  # Scaled rates that differ by less are the same.

PARTS_ABOVE = 4000
"""Patterns that may be of use above which placements are distinguished by their empty nodes."""

CUT_ABOVE = 20_000  # Patterns of such a part above which cuts are sought first.

MOST_PATTERNS = 150_000

_CUT_ROUNDS = 12
_CUTS_PER_ROUND = 15


class StormClient(Client):
    """Placements with a given number of empty nodes, or all of them.

    `empty`: how many nodes hold nothing; ``None`` for any number.
    """

    most = MOST_PATTERNS
    relaxed = True  # the second level needs the relaxation
    rows: WorkerRows

    def __init__(
        self, problem: StormProblem, states: States, clock: Clock, empty: int | None = None
    ) -> None:
        self.storm, self.states, self.rows = problem, states, WorkerRows(problem, states)
        if empty is not None:
            self.rows.fix_empty(empty)
        self.listing = StateListing(states, self.rows)
        super().__init__(problem.inner, ListPricer(self.listing), clock, self.rows)

    @cached_property
    def _plans(self) -> FirstPlan:
        return FirstPlan(self.storm, self.states, self.rows)

    def most_gain(self) -> float:
        """Return the traffic inside one node that holds all executors."""
        return float(self.states.gain[self.states.number(self.problem.sizes)])

    def begin(self, incumbent: Incumbent, backend: Backend) -> None:
        """Before the relaxation: a beam search by traffic inside, where there is no start."""
        if incumbent.counts is None:
            gain = [self.states.gain[fitting] for fitting in self.states.fitting]
            incumbent.offer(self._plans.find(gain))

    def improve(self, incumbent: Incumbent, backend: Backend) -> None:
        """After the relaxation: a beam search at its prices, then exchange between pairs."""
        root = self.master.root
        values = self.listing.values(root.price, root.side, gainless=False)
        incumbent.offer(self._plans.find(values))
        if incumbent.counts is None:
            self.from_columns(incumbent, backend)
        if incumbent.counts is not None:
            incumbent.offer(self._plans.better(incumbent.counts, backend.seed))
            if self._plans.skipped:
                incumbent.offer(improved(self.problem, [incumbent.counts], backend.seed))

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
        loss = self.master.root.loss(pool, self.rows)
        return in_good_allocations(self.problem, pool, loss, gap + SAME, self.rows.empty)

    def tighten(self) -> None:
        """Add cuts as long as some are violated."""
        for _ in range(_CUT_ROUNDS):
            master = self.master
            used = master.uses > SAME
            counts, uses = master.pool.counts[: len(used)][used], master.uses[used]
            if not self.rows.add_cuts(counts, uses, _CUTS_PER_ROUND):
                return
            if master.clock.over() or not master.run().finished:
                return

    def branches(self, incumbent: Incumbent) -> Sequence[Client]:
        """Return a relaxed and tightened part for each number of empty nodes that may do better.

        Itself where the patterns that may be of use are few; nothing where the time is up.
        """
        best_value, clock = incumbent.value, incumbent.clock
        if not np.isfinite(best_value) or self.needed(best_value) <= PARTS_ABOVE:
            return (self,)
        nodes = self.problem.num_nodes
        quiet = Clock(clock.deadline)  # a part's bound is no bound of the whole
        parts = []
        for empty in range(max(0, nodes - int(self.storm.workers.sum())), nodes):
            part = StormClient(self.storm, self.states, quiet, empty)
            root = part.master.run()
            if root.finished and root.bound > best_value and part.needed(best_value) > CUT_ABOVE:
                part.tighten()
            if not root.finished or part.bound > best_value - SAME:
                parts.append(part)
            if clock.over():
                return ()
        return sorted(parts, key=lambda part: -part.bound)


# The second level: of the placements that are best so far, the one with least between slots.
#
# Its columns carry their numbers of workers, and the gain of their best split into so many.


class Dealt(NamedTuple):
    """A placement with its workers."""

    #: (N, C) executors of each class and (N, P) workers, nodes listed class by class.
    counts: Integers
    workers: Integers
    #: Proven upper bound of the scaled traffic inside slots; ``None`` where nothing is proven.
    bound: float | None = None
    note: str = ""  # Why the traffic between slots is not the least, empty where it is.
    interrupted: bool = False  # Whether Ctrl-C ended it.


def best_workers(
    problem: StormProblem, parts: Sequence[Client], counts: Integers, request: Request
) -> Dealt:
    """Give the nodes their workers, by the second level where it can be solved.

    `parts`: what holds every placement as good as `counts`, a best one of the first level.
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
    interrupted = ended == "interrupted"
    if solution.x is None:
        return plain._replace(note=f"best effort, {ended}", interrupted=interrupted)
    repeat = np.repeat(np.arange(len(pool)), np.round(solution.x).astype(np.int64))
    repeat = repeat[np.argsort(pool.node_class[repeat], kind="stable")]
    note = "" if ended == "optimal" else f"stopped by {ended}"
    return Dealt(pool.counts[repeat], workers[repeat], solution.bound, note, interrupted)


def _as_good(parts: Sequence[Client], value: float) -> Pool | None:
    """Return the patterns of all placements that are as good as the best; ``None`` if too many."""
    pools = []
    for part in parts:
        gap = part.bound - value + SAME
        if gap < 0:
            continue
        if gap == np.inf:  # its relaxation was stopped before it had a bound
            return None
        near = part.within(gap, MOST_PATTERNS)
        if near is None:
            return None
        pools.append(part.narrow(near, gap))
    if not pools:
        return None
    return joined(pools).distinct()


def _with_workers(problem: StormProblem, pool: Pool) -> tuple[Pool, Integers] | None:
    """Return each pattern once for every choice of (P,) workers; ``None`` when too many."""
    of_job = problem.of_jobs(pool.counts)
    slots = problem.slots[pool.node_class]
    low, high = problem.least_workers(of_job), np.minimum(of_job, slots)
    if problem.per_slot is None:  # two slots that may be one keep no more together
        free = problem.fewest < problem.workers
        high[free] = low[free]
    column, workers = np.arange(len(pool)), low
    for p in range(problem.num_jobs):
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
    # a gap of traffic inside; what is reported is one of traffic between
    settings = {**request.solving(), "gap": 0.0}
    return solve_linear(model, request.solver or "highs", abs_gap=SAME / 2, **settings)
