"""The first level by the engine of node patterns: traffic between nodes.

Where the patterns that may be of use are many, the placements are told apart by how many nodes they
leave empty: each part has a master of its own, which cuts bring nearer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from formulations.patterns.clock import Clock
from formulations.patterns.close import Standing, close
from formulations.patterns.cover import covering
from formulations.patterns.listing import ListPricer
from formulations.patterns.master import Master
from formulations.patterns.pool import of_nodes
from formulations.patterns.solve import from_columns
from formulations.patterns.start import improved
from formulations.storm.patterns.first_plan import FirstPlan
from formulations.storm.patterns.rows import WorkerRows
from formulations.storm.patterns.states import StateListing, list_states

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from formulations.patterns.integer import Backend
    from formulations.patterns.pool import Pool
    from formulations.storm.patterns.problem import StormProblem
    from formulations.storm.patterns.states import States

    Integers = NDArray[np.int64]

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
        return covering(inner, pool, loss, gap + SAME, rows.empty)

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
    problem: StormProblem, standing: Standing, starts: Iterable[Integers], backend: Backend
) -> list[Part]:
    """Find and prove the placement with most traffic inside nodes, in place.

    Parameters
    ----------
    standing
        Its rows are set here.
    starts
        (N, C) placements to begin with; those that keep every rule count.

    Returns
    -------
    list of Part
        Together they hold every placement that is as good as the best.
    """
    clock = standing.clock
    states = list_states(problem)
    whole = part_of(problem, states, clock)
    standing.rows = whole.listing.rows
    # all traffic can be inside at most
    standing.prove(float(states.gain[states.number(problem.inner.sizes)]))
    for start in starts:
        standing.offer(start)
    plans = FirstPlan(problem, states, standing.rows)
    if standing.counts is None:
        standing.offer(plans.find([states.gain[fitting] for fitting in states.fitting]))
    known = standing.counts
    first = None if known is None else of_nodes(problem.inner, known)
    root = whole.master.run(first, standing.value)
    standing.prove(root.bound)
    if not standing.closed and not clock.over():
        standing.offer(plans.find(whole.listing.values(root.price, root.side, gainless=False)))
        if standing.counts is None:
            from_columns(standing, whole.master, backend)
        if standing.counts is not None:
            standing.offer(plans.better(standing.counts, backend.seed))
            if plans.skipped:
                standing.offer(improved(problem.inner, standing.counts, backend.seed))
    parts = [whole]
    if standing.closed or clock.over():
        return parts
    if np.isfinite(standing.value) and whole.needed(standing.value) > PARTS_ABOVE:
        parts = _by_empty_nodes(whole, states, standing) or parts
    if parts == [whole]:
        close(standing, whole.master.pricer, root, backend, whole.narrow, MOST_PATTERNS)
    else:
        _close_parts(parts, standing, backend)
    return parts


def _by_empty_nodes(whole: Part, states: States, standing: Standing) -> list[Part]:
    """Return a solved and tightened part for each number of empty nodes that may do better.

    Nothing where the time is up.
    """
    problem, clock, found = whole.problem, standing.clock, standing.value
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


def _close_parts(parts: list[Part], standing: Standing, backend: Backend) -> None:
    """Close one part after the other, the one with the highest bound first."""
    left: list[float] = [part.bound for part in parts]
    for i, part in enumerate(parts):
        own = Standing(
            standing.problem, part.master.clock, standing.counts, standing.value,
            left[i], standing.gap, standing.whole, rows=part.listing.rows, found=standing.found,
        )  # fmt: skip
        own.prove(left[i])
        close(own, part.master.pricer, part.master.root, backend, part.narrow, MOST_PATTERNS)
        standing.stages += own.stages
        standing.stopped, standing.solver = own.stopped, own.solver or standing.solver
        standing.offer(own.counts)
        left[i] = own.bound
        standing.prove(max(left))
        if standing.closed or standing.clock.over() or not own.closed:
            return
