"""Whether patterns up to some utilisation can use up all tasks and nodes: relaxed, and in whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.patterns.integer import choose
from formulations.patterns.listing import ListPricer, TableListing
from formulations.patterns.master import Master
from formulations.patterns.pool import Pool, TableRows

if TYPE_CHECKING:
    from formulations.patterns.clock import Clock
    from formulations.patterns.integer import Backend, Chosen
    from formulations.patterns.problem import Counts
    from formulations.throughput.groups import Grouped, Listed
    from optim.format.tables import Floats

_EACH = 30
"""Patterns of a node class that one pricing brings in."""


def rows_of(grouped: Grouped, listed: Listed, least_gain: float | None = None) -> TableRows:
    """Write the budgets of moves as rows, and the least traffic inside nodes where one is asked."""
    paying = grouped.paying(listed.counts, listed.node_class)
    rows = np.stack([paying.sum(axis=1), paying @ grouped.cost]).astype(np.float64)
    bound = np.isfinite(grouped.budget)
    rows, upper = rows[bound], grouped.budget[bound]
    lower = np.full(len(upper), -np.inf)
    if least_gain is not None:
        rows = np.vstack([rows, grouped.problem.gain(listed.counts)])
        lower = np.append(lower, least_gain / grouped.problem.scale)
        upper = np.append(upper, np.inf)
    return TableRows(lower, upper, table=rows)


class Cover:
    """Covers of all tasks and nodes by the first patterns of a list.

    Parameters
    ----------
    grouped, listed
        The problem, and its patterns by utilisation.
    clock, backend
        When to stop; who solves integer programs.
    least_gain
        Least traffic inside nodes, where one is asked for.
    """

    def __init__(
        self,
        grouped: Grouped,
        listed: Listed,
        clock: Clock,
        backend: Backend,
        least_gain: float | None = None,
    ) -> None:
        self.grouped, self.listed, self.clock, self.backend = grouped, listed, clock, backend
        self.rows = rows_of(grouped, listed, least_gain)
        self.used: Counts = np.zeros(0, dtype=np.int64)

    def pool(self, at: Counts, gain: Floats | None = None) -> Pool:
        """Return patterns of the list; without gains, all are worth nothing."""
        worth = np.zeros(len(at)) if gain is None else gain
        return Pool(self.listed.counts[at], self.listed.node_class[at], worth, at)

    def whole(
        self, at: Counts, gain: Floats | None = None, time_limit: float | None = None
    ) -> Chosen:
        """Choose whole patterns among some; of greatest gain where there is one."""
        rows = self.rows if len(self.rows) else None
        return choose(
            self.grouped.problem, self.pool(at, gain), self.clock, self.backend,
            rows=rows, time_limit=time_limit,
        )  # fmt: skip

    def relaxed(self, count: int) -> bool | None:
        """Whether fractions of the first patterns cover all; ``None`` where that is not known.

        ``False`` is a proof.
        """
        problem = self.grouped.problem
        pool = self.pool(np.arange(count))
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
