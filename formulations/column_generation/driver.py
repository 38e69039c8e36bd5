"""The driver of column generation: relax, list, integer, prove.

1. *Relax*: the linear relaxation over all patterns by column generation gives prices and with them
   a bound UB (`master`).
2. *List*: the patterns of every better allocation, by their reduced cost.
3. *Integer*: the best allocation of some of them (`integer`).
4. *Prove*: what is left out cannot be better; filters and larger programs to the end.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.column_generation.bound import (
    Functional,
    FunctionalBound,
    sharpened,
    whole_weights,
)
from formulations.column_generation.client import Incumbent
from formulations.column_generation.integer import IN_PROCESS, Chosen, best_choice, choose
from formulations.column_generation.master import Master
from formulations.column_generation.pricing import ListPricer, TableListing, TreePricer
from formulations.column_generation.problem import Clock, make_problem
from formulations.column_generation.search import improved
from optim.util.compiled import warming

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from formulations.column_generation.client import Client
    from formulations.column_generation.integer import Backend
    from formulations.column_generation.problem import (
        Counts,
        Floats,
        PatternProblem,
        Pool,
        TableRows,
    )

# From the root bound to the proof: fixing by reduced cost, functional bounds, integer programs.
#
# Everything turns on one figure a pattern, its *reach*: an upper bound on every allocation that
# uses it. Column generation gives `UB + (value − highest)`, each functional bound another; the
# least counts. For any target, an allocation better than the target consists of patterns whose
# reach exceeds it. So the integer program over these patterns either finds the best such
# allocation or proves `UB ≤ target`; targets fall from the bound to the best value known, each
# stage a proof.

MOST_COUNTS = 40_000_000  # Counts (patterns × classes) held in memory at once.

SHORT_TRY = 300
SHORT_PATTERNS = 800
SHRUNK = 0.8
MANY_CLASSES = 10
"""Branch-and-bound nodes and patterns of a short try of the integer program between the passes of
the filter; how far the pool must have shrunk since the last; with many classes the program is
tight, and takes more patterns."""


def prove(incumbent: Incumbent, client: Client, backend: Backend) -> None:
    """List, integer, prove: close the gap as far as the clock and the memory allow."""
    root = client.master.root
    if not np.isfinite(root.bound):  # the LP solver may have failed before there was a bound
        return
    previous = np.inf
    most = client.most or max(1, MOST_COUNTS // incumbent.problem.num_classes)
    while not incumbent.closed and not incumbent.clock.over():
        pool, target = _largest_pool(incumbent, client, most)
        if pool is None or target >= previous:
            return  # what is left does not fit into memory
        whole = _close_pool(incumbent, client, pool, target, backend)
        if target <= incumbent.value:  # the pool held everything better than the incumbent
            if whole:
                client.complete(incumbent)
            return
        previous = target


def _largest_pool(incumbent: Incumbent, client: Client, most: int) -> tuple[Pool | None, float]:
    """List what can beat the incumbent, or a higher target if that is too much."""
    # in an allocation better than a target every pattern p has ``value_p > highest - (UB -
    # target)`` at the prices of the bound UB: fixing by reduced cost
    root, target = client.master.root, incumbent.value
    for _ in range(40):
        pool = client.within(root.bound - target + incumbent.rounding, most)
        if pool is not None:
            return pool, target
        if incumbent.clock.over():
            break
        # halfway to the bound: fewer patterns reach a higher target
        low = target if np.isfinite(target) else root.bound - 2.0 * (1.0 + abs(root.bound))
        target = 0.5 * (low + root.bound)
    return None, target


def _close_pool(
    incumbent: Incumbent, client: Client, pool: Pool, target: float, backend: Backend
) -> bool:
    """Prove the best allocation above a target, from patterns that contain all better ones."""
    # returns whether the program over all of them came to its end
    root = client.master.root
    reach = root.bound - root.loss(pool, client.rows)
    survivors = Survivors(incumbent, pool, reach, target)
    if len(survivors.pool) > client.stages[0] and client.filtered:
        _filter(survivors, client, backend)
    for size in (*client.stages, len(pool)):
        if incumbent.closed or incumbent.clock.over():
            break
        done, whole = _stage(survivors, client, backend, size)
        if whole or not done:
            return whole and done
    return False


def _stage(
    survivors: Survivors, client: Client, backend: Backend, size: int, node_limit: int | None = None
) -> tuple[bool, bool]:
    """Solve the integer program over the patterns of greatest reach."""
    # returns whether it came to its end, and whether those were all patterns
    incumbent = survivors.incumbent
    survivors.cut()
    part, reach, goal = survivors.pool, survivors.reach, survivors.goal
    whole = len(part) <= size
    if not whole:  # what is better than `goal` consists of what reaches further
        if client.ties:
            order = np.argsort(-reach, kind="stable")
            goal, keep = float(reach[order[size]]), np.sort(order[:size])
        else:
            goal = float(np.partition(reach, -size - 1)[-size - 1])
            keep = np.flatnonzero(reach > goal + incumbent.rounding)
        part = part.only(keep)
    if node_limit is None and np.isfinite(goal):
        part = client.narrow(part, client.bound - goal)
    answer = Chosen(None, -np.inf, "")
    if len(part):
        answer = client.integer(part, incumbent, backend, node_limit)
    kind = "integer program" if node_limit is None else "short try"
    incumbent.stages.append(f"{kind} over {len(part)} patterns")
    incumbent.offer(answer.counts)
    incumbent.take_bound(max(goal, answer.bound))
    incumbent.record(answer)
    survivors.cut()
    return not answer.stopped, whole


def _filter(survivors: Survivors, client: Client, backend: Backend) -> None:
    """Filter pass by pass, with a short try of the integer program where that may do."""
    incumbent = survivors.incumbent
    many = incumbent.problem.num_classes >= MANY_CLASSES
    most = IN_PROCESS if many else SHORT_PATTERNS
    tried = np.inf
    for passed in chain((False,), filter_passes(survivors, client.master.root.price)):
        if passed:
            incumbent.take_bound(max(survivors.bound, survivors.target))
            incumbent.stages.append(f"filtered to {len(survivors.pool)} patterns")
        if incumbent.closed or survivors.few:
            return
        if len(survivors.pool) <= min(10 * most, SHRUNK * tried):
            tried = len(survivors.pool)
            _stage(survivors, client, backend, most, node_limit=SHORT_TRY)


FEW = 200  # Patterns that an integer program takes without further filter_passes.

MOST_CELLS = 2e7
LIGHT_WORK, HEAVY_WORK = 3e7, 1.5e9
"""Inner steps of one evaluation of a functional: some milliseconds, some seconds."""

MOST_STATES = 4000
HALVING = ((1000, 1), (12, 5), (3, 25))
"""Functionals stored and subgradient steps of each round."""

_SPLITS = 16


class Survivors:
    """A pool with the reach of each pattern, cut down by one bound after another.

    `pool`, `reach`: patterns that contain every allocation better than the target, and their reach.
    `target`: what is to be beaten, beside the incumbent's value.
    `bound`: bound on every allocation better than the target (the target when nothing survives).
    """

    def __init__(self, incumbent: Incumbent, pool: Pool, reach: Floats, target: float) -> None:
        self.incumbent, self.pool, self.reach, self.target = incumbent, pool, reach, target
        self.bound = float(reach.max(initial=-np.inf))
        self.cut()

    @property
    def goal(self) -> float:
        """The larger of the target and the incumbent's value."""
        return max(self.target, self.incumbent.value)

    @property
    def few(self) -> bool:
        """Whether there is no need to filter, or no time."""
        return len(self.pool) <= FEW or self.incumbent.closed or self.incumbent.clock.over()

    def cut(self) -> None:
        """Drop the patterns that cannot beat the goal any more."""
        keep = self.reach > self.goal + self.incumbent.rounding
        self.pool, self.reach = self.pool.only(keep), self.reach[keep]
        if len(self.pool) == 0:
            self.bound = self.goal

    def functional(self, weights: Counts, most_work: float) -> Functional | None:
        """Set up a functional on the survivors, or ``None`` if its table would be too large."""
        problem = self.incumbent.problem
        totals = weights @ problem.sizes + 1
        if float(problem.num_nodes + 1) * float(totals[0]) * float(totals[1]) > MOST_CELLS:
            return None
        functional = Functional(problem, self.pool, weights)
        return functional if functional.work <= most_work else None

    def take(self, functional_bound: FunctionalBound) -> None:
        """Let a bound on the survivors count."""
        self.bound = min(self.bound, max(functional_bound.bound, self.goal))
        self.reach = np.minimum(self.reach, functional_bound.reach)
        self.cut()


def filter_passes(survivors: Survivors, price: Floats) -> Iterator[bool]:
    """Filter in passes: one functional, cheap pairs of two, dear pairs; yields after each.

    `survivors`: changed in place.
    `price`: (G,) prices to begin with.
    """
    problem = survivors.incumbent.problem
    weights = whole_weights(problem, MOST_STATES)
    singles = [np.stack([np.zeros_like(w), w]) for w in weights]
    price, best = _pass(survivors, singles, price, HEAVY_WORK)
    yield True
    splits = list(_splits(problem, best))
    for most_work in (LIGHT_WORK, HEAVY_WORK):
        price, _ = _pass(survivors, splits, price, most_work)
        yield True


def _pass(
    survivors: Survivors, candidates: list[Counts], price: Floats, most_work: float
) -> tuple[Floats, list[Counts]]:
    """Sharpen the bounds of many functionals a little, of the best few more."""
    # returns the prices of the best bound, and the weights, best first
    clock = survivors.incumbent.clock
    merit = [(0.0, i, price) for i in range(len(candidates))]
    for num_kept, steps in HALVING:
        tried = []
        for _, i, at in merit[:num_kept]:
            functional = None
            if not survivors.few:
                functional = survivors.functional(candidates[i], most_work)
            if functional is not None:
                functional_bound = sharpened(functional, at, survivors.goal, steps, clock)
                survivors.take(functional_bound)
                tried.append((functional_bound.bound, i, functional_bound.price))
        if not tried:
            break
        merit = sorted(tried, key=lambda entry: entry[:2])
    return merit[0][2] if merit else price, [candidates[i] for _, i, _ in merit]


def _splits(problem: PatternProblem, singles: list[Counts]) -> Iterator[Counts]:
    """Split good one-dimensional weights into two: some classes in the one, the rest in the other.

    Splits along weak ties come first: classes that talk much stay together.
    """
    # the number of tasks is always among what is split
    chosen = singles[:2]
    ones = np.ones(problem.num_classes, dtype=np.int64)
    if not any((w[1] == ones).all() for w in chosen):
        chosen.append(np.stack([np.zeros_like(ones), ones]))
    sides = sorted(_sides(problem), key=lambda side: (_cut(problem, side), side.tolist()))
    for weights in chosen:
        for side in sides[:_SPLITS]:
            yield np.stack([weights[1] * ~side, weights[1] * side])


def _sides(problem: PatternProblem) -> Iterator[NDArray[Any]]:
    """Halves of the classes, without their complements; all of them while they are few."""
    count = problem.num_classes
    largest = count // 2 if count <= 8 else 2
    seen: set[bytes] = set()
    for size in range(1, largest + 1):
        for pick in combinations(range(count), size):
            side = np.zeros(count, dtype=np.bool_)
            side[list(pick)] = True
            if (~side).tobytes() not in seen:
                seen.add(side.tobytes())
                yield side


def _cut(problem: PatternProblem, side: NDArray[Any]) -> float:
    weighed = problem.rate * np.outer(problem.sizes, problem.sizes)
    return float(weighed[np.ix_(side, ~side)].sum())


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
        branch_incumbent = Incumbent(
            incumbent.problem, branch.clock, incumbent.counts, incumbent.value,
            left[i], incumbent.gap, incumbent.whole, rows=branch.rows,
            found=incumbent.found,
        )  # fmt: skip
        branch_incumbent.take_bound(left[i])
        prove(branch_incumbent, branch, backend)
        incumbent.stages += branch_incumbent.stages
        incumbent.stopped, incumbent.solver = (
            branch_incumbent.stopped,
            branch_incumbent.solver or incumbent.solver,
        )
        incumbent.offer(branch_incumbent.counts)
        left[i] = branch_incumbent.bound
        incumbent.take_bound(max(left))
        if incumbent.closed or incumbent.clock.over() or not branch_incumbent.closed:
            return


SAME = 1e-9  # Relative difference of values of patterns that counts as none.
MOST_WHOLE = 20_000  # Patterns up to which integer programs are asked about all of them.
_EACH = 30  # Patterns of a node class that one pricing brings in.


class Bottleneck:
    """The driver where the greatest value of a pattern in use is to be least, and no sum.

        min max {value_p : λ_p > 0}   s.t.  the rows of `master`,   λ whole

    The least threshold up to which patterns use up all tasks and nodes is the optimum; that none
    below it does is its proof. The threshold is found by halves: by the relaxation (`relax`), then
    by integer programs (`close`).

    `problem`, `pool`, `value`: the problem in counts; its patterns, and (P,) their values in
        ascending order.
    `rows`, `clock`, `backend`: side rows of the patterns; when to stop; who solves integer
        programs.
    `measure`: greatest value of an allocation, from (N, G) counts.
    `low`: a value that every allocation has at least.
    `high`, `counts`: that of the best allocation, and its (N, G) counts; ``inf`` and ``None``
        without one.
    `used`: patterns that the relaxations generated.
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
            # more patterns cover no less, so bisection finds the least threshold
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
