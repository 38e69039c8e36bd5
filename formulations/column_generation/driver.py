"""The driver of column generation: relax, list, integer, prove.

1. *Relax*: the linear relaxation over all patterns by column generation gives prices and with them
   a bound UB (`master`).
2. *List*: the patterns of every better allocation, by their reduced cost (`prove`).
3. *Integer*: the best allocation of some of them (`integer`).
4. *Prove*: what is left out cannot be better; filters and larger programs to the end (`prove`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from formulations.column_generation.bound import Functional
from formulations.column_generation.client import Incumbent
from formulations.column_generation.integer import best_choice, choose
from formulations.column_generation.master import Master
from formulations.column_generation.pricing import ListPricer, TableListing, TreePricer
from formulations.column_generation.problem import Clock, make_problem
from formulations.column_generation.prove import prove
from formulations.column_generation.search import improved
from optim.util.compiled import warming

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from formulations.column_generation.client import Client
    from formulations.column_generation.integer import Backend, Chosen
    from formulations.column_generation.problem import (
        Counts,
        Floats,
        PatternProblem,
        Pool,
        TableRows,
    )


def solve(
    client: Client, incumbent: Incumbent, backend: Backend, starts: Sequence[Counts] = ()
) -> Sequence[Client]:
    """Find and prove the best allocation of a client, in place.

    Parameters
    ----------
    incumbent
        Holds the best allocation and bound at any moment; ``bound`` is ``-inf`` when the problem
        is proven infeasible.
    starts
        (N, G) allocations to begin with; those that are feasible count.

    Returns
    -------
    sequence of Client
        Together they hold every allocation that is as good as the best.
    """
    clock = incumbent.clock
    incumbent.rows = client.rows
    incumbent.take_bound(client.most_gain())
    if (client.problem.limit < 0).any():  # not even an empty node keeps its limits
        incumbent.take_bound(-np.inf)
        return (client,)
    clock.note(phase="start")
    for start in starts:
        incumbent.offer(start)
    client.begin(incumbent, backend)
    if incumbent.closed and not client.relaxed:
        return (client,)
    clock.note(phase="bound")
    root = client.relax(incumbent)
    incumbent.unplaced = root.unplaced
    incumbent.take_bound(root.bound)
    clock.note(phase="close")
    if not incumbent.closed and not clock.over():
        client.improve(incumbent, backend)
    if incumbent.closed or clock.over():
        return (client,)
    branches = client.branches(incumbent) or (client,)
    if len(branches) == 1 and branches[0] is client:
        prove(incumbent, client, backend)
    else:
        _prove_each(branches, incumbent, backend)
    return branches


def _prove_each(branches: Sequence[Client], incumbent: Incumbent, backend: Backend) -> None:
    """Prove one branch after the other, the one with the highest bound first."""
    left: list[float] = [branch.bound for branch in branches]
    for i, branch in enumerate(branches):
        own = Incumbent(
            incumbent.problem, branch.clock, incumbent.counts, incumbent.value,
            left[i], incumbent.gap, incumbent.whole, rows=branch.rows,
            found=incumbent.found,
        )  # fmt: skip
        own.take_bound(left[i])
        prove(own, branch, backend)
        incumbent.stages += own.stages
        incumbent.stopped, incumbent.solver = own.stopped, own.solver or incumbent.solver
        incumbent.offer(own.counts)
        left[i] = own.bound
        incumbent.take_bound(max(left))
        if incumbent.closed or incumbent.clock.over() or not own.closed:
            return


SAME = 1e-9
"""Relative difference of values of patterns that counts as none."""

MOST_WHOLE = 20_000
"""Patterns up to which integer programs are asked about all of them."""

_EACH = 30
"""Patterns of a node class that one pricing brings in."""


class Bottleneck:
    """The driver where the greatest value of a pattern in use is to be least, and no sum.

        min max {value_p : λ_p > 0}   s.t.  the rows of `master`,   λ whole

    The least threshold up to which patterns use up all tasks and nodes is the optimum; that none
    below it does is its proof. The threshold is found by halves: by the relaxation (`relax`), then
    by integer programs (`close`).

    Parameters
    ----------
    problem, pool, value
        The problem in counts; its patterns, and (P,) their values in ascending order.
    rows, clock, backend
        Side rows of the patterns; when to stop; who solves integer programs.
    measure
        Greatest value of an allocation, from (N, G) counts.
    low
        A value that every allocation has at least.

    Attributes
    ----------
    high, counts
        That of the best allocation, and its (N, G) counts; ``inf`` and ``None`` without one.
    used
        Patterns that the relaxations generated.
    """

    def __init__(
        self,
        problem: PatternProblem,
        pool: Pool,
        value: Floats,
        rows: TableRows,
        clock: Clock,
        backend: Backend,
        measure: Callable[[Counts], float],
        low: float = 0.0,
    ) -> None:
        self.problem, self.pool, self.value, self.rows = problem, pool, value, rows
        self.clock, self.backend, self.measure, self.low = clock, backend, measure, low
        self.high = np.inf
        self.counts: Counts | None = None
        self.used: Counts = np.zeros(0, dtype=np.int64)

    @property
    def closed(self) -> bool:
        """Whether bound and incumbent meet."""
        return self.high <= self.low * (1 + SAME)

    def within(self, limit: float) -> int:
        """Return how many patterns have at most a value, rounding allowed for."""
        return int(np.searchsorted(self.value, limit * (1 + SAME), side="right"))

    def offer(self, counts: Counts) -> None:
        """Take an allocation if it is better than the incumbent."""
        high = self.measure(counts)
        if high < self.high:
            self.high, self.counts = high, counts

    def relax(self) -> None:
        """Raise the bound to the least threshold that the relaxation keeps."""
        steps = _distinct(self.value[self.value <= self.high * (1 + SAME)])
        first, last = int(np.searchsorted(steps, self.low * (1 - SAME))), len(steps)
        while first < last and not self.clock.over():
            middle = (first + last) // 2
            covers = self.covers(self.within(steps[middle]))
            if covers is False:
                first = middle + 1
            else:
                last = middle  # where it is not known, nothing is claimed of what is below
                if covers is None:
                    break
        if not len(steps) and self.high == np.inf:
            self.low = np.inf  # no node may hold anything, nor be empty
        if first > 0:
            self._raise(steps, first)

    def _raise(self, steps: Floats, first: int) -> None:
        """Steps below `first` are refuted: every allocation has a pattern of the next one."""
        bound = steps[first] if first < len(steps) else np.inf
        self.low = max(self.low, min(bound, self.high))

    def covers(self, count: int) -> bool | None:
        """Whether fractions of the first patterns use up all tasks and nodes within the rows.

        ``False`` is a proof; ``None``: neither is certain.
        """
        problem, pool = self.problem, self.pool.only(np.arange(count))
        listing = TableListing(pool, problem.num_node_classes, self.rows)
        if 0 in listing.lengths:
            return False
        pricer = ListPricer(listing, per_round=_EACH)
        master = Master(problem.sizes, problem.nodes, pricer, self.clock, self.rows)
        master.add(pool.only(self.used[self.used < count]))
        covers = master.covers()
        assert master.pool.at is not None
        self.used = np.sort(master.pool.at)
        return covers

    def close(self) -> None:
        """Close the rest by integer programs: the lowest threshold first, then by halves."""
        value = self.value
        inside = (value >= self.low * (1 - SAME)) & (value <= self.high * (1 + SAME))
        steps = _distinct(value[inside])
        first, last, middle = 0, len(steps), 0
        while first < last and not self.closed and not self.clock.over():
            count = self.within(steps[middle])
            whole = count <= MOST_WHOLE
            # of too many patterns, those of the relaxations
            answer = self.choose(np.arange(count) if whole else self.used[self.used < count])
            if answer.counts is not None:
                self.offer(answer.counts)
                last = min(middle, int(np.searchsorted(steps, self.high * (1 - SAME))))
            elif whole and not answer.stopped and answer.bound == -np.inf:
                first = middle + 1
                self._raise(steps, first)
            else:
                break
            middle = (first + last) // 2

    def choose(
        self, at: Counts, gain: Floats | None = None, time_limit: float | None = None
    ) -> Chosen:
        """Choose whole patterns among some; of greatest gain where there are gains."""
        part = self.pool.only(at)
        part = replace(part, gain=np.zeros(len(at)) if gain is None else gain)
        rows = self.rows if len(self.rows) else None
        return choose(
            self.problem, part, self.clock, self.backend, rows=rows, time_limit=time_limit
        )


def _distinct(values: Floats) -> Floats:
    """Return ascending values, of those that differ by rounding only the largest."""
    if not len(values):
        return values
    return values[np.append(np.diff(values) > SAME * np.abs(values[1:]), True)]


_BUDGET = 1000


@warming
def warm_up() -> None:
    """Compile, or load from disk, every kernel."""
    problem = make_problem(
        sizes=[1, 2], load=[[1.0], [1.0]], rate=[[0.0, 1.0], [1.0, 0.0]],
        nodes=[1, 1], limit=[[2.0], [3.0]],
    )  # fmt: skip
    pricer = TreePricer(problem, Clock(), _BUDGET)
    price = np.zeros(2)
    pricer.price_class(0, price, -1.0)
    pool = pricer.enumerate(price, np.zeros(0), np.full(2, -np.inf), _BUDGET)
    assert pool is not None
    improved(problem, [], 0, rounds=1)
    best_choice(problem, pool)
    Functional(problem, pool, np.array([[0, 0], [1, 1]])).evaluate(price)
