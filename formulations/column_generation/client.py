"""What the driver works on: a client's patterns and rows; the best allocation and bound so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from formulations.column_generation import integer
from formulations.column_generation.integer import affordable, best_choice, choose
from formulations.column_generation.master import Master
from formulations.column_generation.problem import ROUNDING, Rows, of_nodes
from formulations.column_generation.search import feasible, improved
from optim.referee import Termination

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from formulations.column_generation.integer import Backend, Chosen
    from formulations.column_generation.master import Root
    from formulations.column_generation.problem import Clock, Counts, PatternProblem, Pool, Pricer

OPTIMAL = 1e-7  # Relative gap that counts as closed; `optim.figures.figure` asks for 1e-6.
NEGATIVE = 1e-3  # A bound further below 0 than this proves that there is no allocation.


@dataclass(eq=False)
class Incumbent:
    """The best allocation and the best bound so far, scaled."""

    problem: PatternProblem
    clock: Clock
    #: (N, G), nodes listed class by class; ``None`` while there is none.
    counts: Counts | None = None
    #: Its gain (``-inf`` for none), and the proven bound (``-inf`` when proven infeasible).
    value: float = -np.inf
    bound: float = np.inf
    #: Relative gap at which to stop, in figures that are `whole` less the gain.
    gap: float = 0.0
    whole: float = 0.0
    #: Least number of tasks that find no place, where the relaxation proves infeasibility.
    unplaced: float = 0.0
    stages: list[str] = field(default_factory=list)  # How it was closed, in words.
    rows: Rows = field(default_factory=Rows)  # Side rows that allocations keep.
    #: Called with the counts of each allocation that is better than those before.
    found: Callable[[Counts], None] | None = None
    #: Why the last integer program ended before a proof, if it did; who solved it; whether that
    #: took a start.
    stopped: str = ""
    solver: str | None = None
    accepted: bool | None = None

    @property
    def rounding(self) -> float:
        """Gains that differ by less are the same."""
        return ROUNDING

    def record(self, answer: Chosen) -> None:
        """Take down what an integer program says beside its counts and its bound."""
        self.stopped = answer.stopped
        self.solver = answer.solver or self.solver
        self.accepted = answer.accepted if self.accepted is None else self.accepted

    def offer(self, counts: Counts | None) -> bool:
        """Take an allocation if it is feasible and better."""
        if counts is None or not feasible(self.problem, counts):
            return False
        pool = of_nodes(self.problem, counts)
        value = float(pool.gain.sum())
        if value <= self.value or not self.rows.hold(pool):
            return False
        self.counts, self.value = counts, value
        self.clock.note(value=value)
        self.take_bound(self.bound)
        if self.found is not None:
            self.found(counts)
        return True

    def take_bound(self, bound: float) -> None:
        """Take a bound if it is better; it never falls below the incumbent's value."""
        if bound < -NEGATIVE:  # no allocation gains less than nothing: there is none
            bound = -np.inf
        if bound <= self.value + ROUNDING:
            bound = self.value
        self.bound = max(min(self.bound, bound), self.value)
        if np.isfinite(self.bound):
            self.clock.note(bound=self.bound)

    def ended(self, *, interrupted: bool = False) -> Termination:
        """Say why the run is over."""
        if self.bound == -np.inf:
            return Termination.INFEASIBLE
        if interrupted or self.stopped == "interrupted":
            return Termination.INTERRUPTED
        if self.closed:
            wide = OPTIMAL * max(1.0, abs(self.whole - self.bound))
            near = self.bound - self.value <= wide
            return Termination.OPTIMAL if near else Termination.GAP_REACHED
        late = self.clock.over() or self.clock.hurried
        return Termination.TIME_LIMIT if late else Termination.ITERATION_LIMIT

    @property
    def closed(self) -> bool:
        """Whether the gap is small enough, or nothing remains to be found."""
        if self.bound == -np.inf:
            return True
        if not np.isfinite(self.value):
            return False
        figures = abs(self.whole - self.value), abs(self.whole - self.bound)
        room = max(ROUNDING, self.gap * max(figures))
        return self.bound - self.value <= room


FEW_PATTERNS = 5000  # Patterns up to which all of them are listed at once.

FEW_COLUMNS = 2000
QUICK = 20.0
"""Generated patterns up to which an allocation is looked for among them, and seconds for that."""


class Client:
    """What a family gives the driver: patterns with their pricing, and rows; here without rows.

        max Σ_p gain_p λ_p   s.t.  `master`'s rows,   λ whole

    Families override what they know better; the defaults are those of task allocation.

    `problem`, `pricer`, `clock`, `rows`: the problem in counts; what finds its patterns; when to
        stop; side rows.
    `otherwise`: asked for an allocation where there is no start and none is constructed.
    `filtered`: whether functionals filter patterns: they know of no side rows, and need gains.
    `close`: distance of bound and relaxation at which it is solved.
    `relaxed`: whether the relaxation is asked for where a start closes the gap already.
    `stages`, `ties`: sizes of the integer programs tried in turn; whether they take patterns of the
        same reach as the first one left out, as many as fit.
    """

    most: int | None = None  # Patterns held at once; ``None`` for as many as memory takes.
    close = ROUNDING
    relaxed = False
    ties = False
    stages: tuple[int, ...] = (500, 2_000, 8_000, 32_000, 128_000)

    def __init__(
        self,
        problem: PatternProblem,
        pricer: Pricer,
        clock: Clock,
        rows: Rows | None = None,
        otherwise: Callable[[], Counts | None] = lambda: None,
    ) -> None:
        self.problem, self.pricer, self.clock = problem, pricer, clock
        self.otherwise, self.filtered = otherwise, rows is None
        self.rows = Rows() if rows is None else rows

    @cached_property
    def master(self) -> Master:
        """The relaxation over the patterns that were generated so far."""
        problem = self.problem
        return Master(problem.sizes, problem.nodes, self.pricer, self.clock, self.rows, self.close)

    @property
    def bound(self) -> float:
        """Proven upper bound of the scaled gain, by the relaxation."""
        return self.master.root.bound

    def most_gain(self) -> float:
        """Return all traffic: ``Σ_(g<h) rate_gh |g||h| + Σ_g rate_gg |g|(|g| − 1)/2``."""
        problem = self.problem
        pairs = np.outer(problem.sizes, problem.sizes) - np.diag(problem.sizes)
        return 0.5 * float((problem.rate * pairs).sum())

    def begin(self, incumbent: Incumbent, backend: Backend) -> None:
        """Before the relaxation: construction, local search, and small problems outright."""
        starts = [] if incumbent.counts is None else [incumbent.counts]
        counts_improved = improved(self.problem, starts, backend.seed)
        if counts_improved is None and not starts:
            counts = self.otherwise()
            if counts is not None and incumbent.offer(counts):
                counts_improved = improved(self.problem, [counts], backend.seed)
        incumbent.offer(counts_improved)
        if not incumbent.closed:
            self._solve_by_table(incumbent)

    def _solve_by_table(self, incumbent: Incumbent) -> None:
        """Solve small problems outright: all patterns, all vectors of counts."""
        problem = self.problem
        if float(np.prod(problem.sizes + 1.0)) * problem.num_nodes > integer.MOST_CELLS:
            return
        # at prices of 0 and no threshold every pattern is listed, so the table's best is the
        # optimum
        free, everything = np.zeros(problem.num_classes), np.full(len(problem.nodes), -np.inf)
        pool = self.pricer.enumerate(free, np.zeros(0), everything, FEW_PATTERNS)
        if pool is None or not affordable(problem, pool):
            return
        value, counts = best_choice(problem, pool)
        incumbent.offer(counts)
        incumbent.take_bound(value)

    def improve(self, incumbent: Incumbent, backend: Backend) -> None:
        """After the relaxation: an allocation of generated patterns, where there is none yet."""
        if incumbent.counts is None:
            self.from_columns(incumbent, backend)

    def from_columns(self, incumbent: Incumbent, backend: Backend) -> None:
        """Look for a better allocation among the generated patterns, when they are few."""
        pool = self.master.pool
        if len(pool) > FEW_COLUMNS:
            return
        answer = choose(
            self.problem, pool, incumbent.clock, backend, incumbent.counts,
            rows=incumbent.rows, time_limit=QUICK,
        )  # fmt: skip
        if incumbent.offer(answer.counts) and incumbent.counts is not None:
            incumbent.offer(improved(self.problem, [incumbent.counts], backend.seed))

    def branches(self, incumbent: Incumbent) -> Sequence[Client]:
        """Return relaxed clients that together hold every better allocation."""
        return (self,)

    def incumbent_pool(self, incumbent: Incumbent) -> Pool | None:
        """Return the patterns of the incumbent."""
        return None if incumbent.counts is None else of_nodes(self.problem, incumbent.counts)

    def relax(self, incumbent: Incumbent) -> Root:
        """Relax: generate patterns until the bound is that of all patterns, or the incumbent's."""
        return self.master.run(self.incumbent_pool(incumbent), incumbent.value)

    def integer(
        self, part: Pool, incumbent: Incumbent, backend: Backend, node_limit: int | None = None
    ) -> Chosen:
        """Solve the integer program over some patterns."""
        return choose(
            self.problem, part, incumbent.clock, backend, incumbent.counts, rows=self.rows,
            node_limit=node_limit,
        )  # fmt: skip

    def within(self, gap: float, most: int) -> Pool | None:
        """List the patterns that bring an allocation below the bound by less than a gap.

        ``None`` when they are more than `most`.
        """
        root = self.master.root
        # an allocation with pattern p gains at most bound − (highest_k − value_p)
        return self.pricer.enumerate(root.price, root.side, root.highest - gap, most)

    def complete(self, incumbent: Incumbent) -> None:
        """Take note that the program over everything better came to its end.

        That closes nothing here: it may be of patterns that are not surely contents of a node.
        """

    def narrow(self, pool: Pool, gap: float) -> Pool:
        """Leave out patterns that are in no allocation within a gap below the bound."""
        return pool
