"""Bound by exchanges: what it costs at least that each node ends within a load distance.

What leaves and enters a node is its *exchange*. Each key group that leaves a node enters another
one, so with any price for each class of loads, paid by who takes a key group to who gives it, the
spending of a plan is the sum of what the exchanges of its nodes cost. The cheapest exchange of each
node by itself is found by a dynamic programme over load; the sum of these is a bound on what every
plan spends, and the best prices are those of a small LP (``docs/proofs/forced-moves-bound.md``,
step 9). Beside `bound`, which knows sorted sums only, this knows which sums there are.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from formulations.rebalancing.loads import common_unit, load_allowance, movable_key_groups
from optim.solvers.inprocess import solve_lp
from optim.util.compiled import SMALL, helper, inlined, kernel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from formulations.rebalancing.problem import BalanceProblem, Floats, Ints, Watch

#: Classes of loads that have a price, and rounds of prices for one load distance.
CLASSES, ROUNDS = 4, 20

#: Bisection: its first step, as a part of the bound or of what is between bound and plan, and the
#: width at which it stops, relative to the load distance.
FIRST, WIDTH = 0.01, 2e-4

#: Cells of a coarse and a fine grid of loads, the fewest that are worth it, and the most steps for
#: all key groups at one set of prices.
GRIDS, COARSE, STEPS = (2_048, 16_384), 256, 2e7

LARGE = 10_000_000  # Key groups times nodes beyond which it is not asked for.

SAME = 1e-9  # Loads this near to a cell, in cells, are on it.
SPARE = 1e-3  # What windows are widened by, in cells, beside what sums may err by.
MARGIN = 1e-9  # What is spent has to be beyond a budget by more than this, relative.


def exchange_bound(
    problem: BalanceProblem,
    taken: Floats,
    budget: float,
    low: float,
    high: float,
    watch: Watch,
) -> float:
    """Return the greatest load distance found refuted between two, at least `low`.

    `taken`, `budget`: (T,) what leaving home takes at least, and how much there is.
    """
    if np.isinf(budget) or not SMALL < problem.num_tasks * problem.num_nodes <= LARGE:
        return low
    prices = None
    for cells in sorted({most_cells(problem, cells) for cells in GRIDS}):
        exchanges = Exchanges(problem, taken, budget, cells)
        if not exchanges.is_exact and cells < COARSE:
            continue
        exchanges.price = exchanges.price if prices is None else prices
        low = exchanges.bisect(low, high, watch)
        prices = exchanges.price
        if exchanges.is_exact:
            break
    return low


def most_cells(problem: BalanceProblem, cells: int) -> int:
    """Return how many cells of a grid are worth it."""
    return int(min(cells, STEPS / problem.num_tasks))


class Items(NamedTuple):
    """Key groups in cells: how many of them lie below a load, and how many reach it."""

    begin: Ints  # (N + 1,) where those of each node begin.
    #: (M,) a key group's load in whole cells, rounded down and up; what leaving takes; class of its
    #: load, the last one for what leaves for nothing; whether it may not stay.
    down: Ints
    up: Ints
    taken: Floats
    kind: Ints
    forced: Ints
    #: (A,) loads, of at least a cell, and classes of what may arrive.
    size: Ints
    size_kind: Ints


@dataclass
class Exchanges:
    """One budget: what leaving takes of it, how much there is, and the best prices so far."""

    problem: BalanceProblem
    taken: Floats
    budget: float
    most_cells: int

    def __post_init__(self) -> None:
        self.price = 0.5 * self.most

    def bisect(self, low: float, high: float, watch: Watch) -> float:
        """Return the greatest distance found refuted between two, at least `low`."""
        # the nearest distances first: where nothing is gained, one look decides
        step = FIRST * (low or high)
        begun = False
        while high - low > WIDTH * max(high, self.cell) and not watch.over():
            middle = min(low + step, 0.5 * (low + high))
            if self.refutes(middle):
                low, step, begun = middle, 2.0 * step, True
            elif not begun:
                return low
            else:
                high, step = middle, 0.5 * (middle - low)
        return low

    def refutes(self, distance: float) -> bool:
        """Whether no plan within the budget has a load distance of at most `distance`."""
        enough = self.budget * (1.0 + MARGIN) + MARGIN * float(self.most.max())
        return any(spent.sum() > enough for _, spent in self.priced(distance, enough))

    def priced(self, distance: float, enough: float = 0.0) -> Iterator[tuple[Floats, Floats]]:
        """Yield (C + 1,) prices, and (N,) what each node spends at them at least.

        The sum of the latter grows, if not in each step, until no prices are better or none make
        it more than `enough`. Prices begin with the best ones of the last load distance.
        """
        first, last = self._window(distance)
        # nodes that lie within the distance and from which nothing has to go spend nothing
        nodes = np.flatnonzero((first > 0) | (last < 0) | self._forces)
        slopes, values = list[Any](), list[Any]()
        price, most = self.price, -1.0
        for _ in range(ROUNDS):
            each = np.append(price, 0.0)
            part, slope = cheapest_exchanges(
                self.items, nodes, first, last, self.problem.leaving, each, self.cells
            )
            if part.sum() > most:
                most, self.price = float(part.sum()), price
            spent = np.zeros(self.problem.num_nodes)
            spent[nodes] = part
            yield each, spent
            slopes.append(slope)
            values.append(part - slope @ price)
            best, price = self._best_prices(np.array(slopes), np.array(values))
            if best <= max(enough, most * (1.0 + MARGIN)):
                return

    def _best_prices(self, slopes: Floats, values: Floats) -> tuple[float, Floats]:
        """Return the most that prices might make all nodes spend, as far as is known, and these.

        `slopes`, `values`: (R, N', C), (R, N') of each round: nodes spend at most value + slope ·
            price.
        """
        from scipy.sparse import csr_array, eye_array, hstack, vstack

        rounds, n, c = slopes.shape
        # max Σ_i θ_i  s.t.  θ_i − slope_ri · price ≤ value_ri,  0 ≤ price ≤ most
        theta = vstack([eye_array(n)] * rounds)
        matrix = hstack([theta, csr_array(-slopes.reshape(rounds * n, c))])
        cost = np.concatenate([np.full(n, -1.0), np.zeros(c)])
        upper = np.concatenate([np.full(n, np.inf), self.most])
        free = np.full(rounds * n, -np.inf)
        answer = solve_lp(cost, matrix, free, values.ravel(), np.zeros(n + c), upper)
        if answer.x is None or answer.objective is None:
            return -np.inf, self.price
        return -answer.objective, np.clip(answer.x[n:], 0.0, self.most)

    def _window(self, distance: float) -> tuple[Ints, Ints]:
        """(N,) the least and the greatest load that a node may gain, in cells."""
        problem = self.problem
        deviation = problem.base_load - problem.share
        spare = SPARE + self.allowance / self.cell
        last = np.floor((distance - deviation) / self.cell + spare)
        first = (-distance - deviation) / self.cell - spare
        # sums of loads that are whole cells are whole; others are rounded down
        first = np.ceil(first) if self.is_exact else np.floor(first)
        first[problem.leaving] = -self.cells
        limit = 4.0 * self.cells
        return _whole(first, limit), _whole(last, limit)

    @cached_property
    def _forces(self) -> Any:
        """(N,) nodes with a key group that may not stay."""
        problem = self.problem
        gone = np.bincount(problem.home[problem.must_move], minlength=problem.num_nodes)
        return gone > 0

    @cached_property
    def _leaves(self) -> Any:
        """(T,) key groups that may leave their home."""
        return movable_key_groups(self.problem) | self.problem.must_move

    @cached_property
    def allowance(self) -> float:
        """What sums of loads can err by."""
        return load_allowance(self.problem)

    @cached_property
    def reach(self) -> float:
        """The most load that exchanges distinguish: what nodes are off, and two key groups more."""
        problem = self.problem
        off = np.abs(problem.base_load - problem.share)
        return float(off.max() + 2.0 * problem.load.max())

    @cached_property
    def unit(self) -> float | None:
        """What all loads are multiples of, if anything."""
        return common_unit(self.problem.load)

    @cached_property
    def is_exact(self) -> bool:
        """Whether all loads are whole cells."""
        return self.unit is not None and self.reach < self.most_cells * self.unit

    @cached_property
    def cell(self) -> float:
        """Load of a cell."""
        if self.is_exact:
            assert self.unit is not None
            return self.unit
        return max(self.reach / self.most_cells, 1e-300)

    @cached_property
    def cells(self) -> int:
        """Cells that are distinguished; loads of so many or more are one cell."""
        return min(self.most_cells, int(self.reach / self.cell) + 1)

    @cached_property
    def kinds(self) -> Ints:
        """(T,) class of each key group's load; the last one is of those that leave for nothing."""
        load = self.problem.load
        kind = (load * (CLASSES / max(float(load.max()), 1e-300))).astype(np.int64)
        return np.where(self.taken > 0.0, np.minimum(kind, CLASSES - 1), CLASSES)

    @cached_property
    def most(self) -> Floats:
        """(C,) prices up to which leaving pays nothing back: the least that it takes in a class."""
        most = np.full(CLASSES + 1, np.inf)
        np.minimum.at(most, self.kinds[self._leaves], self.taken[self._leaves])
        return np.where(np.isfinite(most), most, 0.0)[:CLASSES]

    @cached_property
    def items(self) -> Items:
        """Key groups in cells."""
        problem, kinds = self.problem, self.kinds
        order = problem.by_home(problem.load)
        order = order[self._leaves[order]]
        begin = np.searchsorted(problem.home[order], np.arange(problem.num_nodes + 1))
        cells = np.minimum(problem.load / self.cell, 4.0 * self.cells)
        down = np.floor(cells + SAME).astype(np.int64)
        up = np.ceil(cells - SAME).astype(np.int64)
        arriving = np.unique(
            np.concatenate([np.column_stack([size[order], kinds[order]]) for size in (down, up)]),
            axis=0,
        )
        arriving = arriving[arriving[:, 0] > 0]
        return Items(
            begin.astype(np.int64), down[order], up[order], self.taken[order], kinds[order],
            problem.must_move[order].astype(np.int64), *np.ascontiguousarray(arriving.T),
        )  # fmt: skip


def _whole(numbers: Floats, most: float) -> Ints:
    return np.clip(numbers, -most, most).astype(np.int64)


@kernel(steps=lambda items, cells: (len(items.down) + len(items.size)) * cells)
def cheapest_exchanges(items, nodes, first, last, leaving, price, cells):
    """Find the cheapest exchange of some nodes.

    `items`, `nodes`: the key groups in cells, and the (N',) nodes that are looked at.
    `first`, `last`: (N,) least and greatest gain of load, in cells.
    `price`: (C + 1,) of a class of loads, paid by who takes to who gives; 0 for the last one.
    `cells`: loads of so many cells or more are one cell.
    Returns (N',) what each spends, ``inf`` where it cannot be within, and (N', C) by how much that
        grows with each price: how many arrive less how many leave.
    """
    kinds = len(price) - 1
    cheapest = arrivals(items.size, items.size_kind, price, cells)
    # the cheapest to arrive in each window of the least width, and beyond each load
    width = 4 * cells
    for i in nodes:
        if not leaving[i]:
            width = min(width, last[i] - first[i])
    spent, slope = np.full(len(nodes), np.inf), np.zeros((len(nodes), kinds))
    if width < 0:
        return spent, slope
    within, beyond = least_within(cheapest, width)
    most = 0
    for i in nodes:
        most = max(most, items.begin[i + 1] - items.begin[i])
    gone = np.empty((most + 1, cells + 1))
    for at in range(len(nodes)):
        i = nodes[at]
        start, end = items.begin[i], items.begin[i + 1]
        departures(items, start, end, price, cells, gone)
        best, leave, arrive = np.inf, -1, -1
        for y in range(cells + 1):
            paid = gone[end - start, y]
            if paid >= best:
                continue
            # what arrives lies in [y + first, y + last]; at `cells` or more of y it is any above
            source = -1
            if y == cells:
                source = 0 if leaving[i] or y + first[i] <= 0 else beyond[min(y + first[i], cells)]
            elif y + last[i] >= 0:
                if leaving[i] or y + first[i] <= 0:
                    source = 0
                else:
                    source = within[min(y + first[i], cells)]
                    other = within[min(y + last[i] - width, cells)]
                    if cheapest[other] < cheapest[source]:
                        source = other
            if source >= 0 and paid + cheapest[source] < best:
                best, leave, arrive = paid + cheapest[source], y, source
        spent[at] = best
        if leave < 0:
            continue
        while arrive > 0:
            item, arrive = last_arrival(items, cheapest, arrive, price)
            if items.size_kind[item] < kinds:
                slope[at, items.size_kind[item]] += 1.0
        for k in range(end - start - 1, -1, -1):
            here = items.kind[start + k]
            came = left_before(items, start + k, gone[k], gone[k + 1], leave, price, cells)
            if came >= 0:
                leave = came
                if here < kinds:
                    slope[at, here] -= 1.0
    return spent, slope


@inlined
def lower(target, source, paid):
    """Take into each entry what the one of a source costs and is paid beside, where it is less."""
    for j in range(len(target)):
        value = source[j] + paid
        target[j] = value if value < target[j] else target[j]


@helper
def arrivals(size, kind, price, cells):
    """Return (cells + 1,) the least price of arrivals of each load, in which an item may be any
    number of times; the last entry is that of all greater loads."""
    cheapest = np.full(cells + 1, np.inf)
    cheapest[0] = 0.0
    for item in range(len(size)):
        step, paid = size[item], price[kind[item]]
        for begin in range(step, cells, step):
            end = min(begin + step, cells)
            lower(cheapest[begin:end], cheapest[begin - step : end - step], paid)
    for item in range(len(size)):
        least = cheapest[max(0, cells - size[item]) : cells].min()
        cheapest[cells] = min(cheapest[cells], least + price[kind[item]])
    return cheapest


@helper
def last_arrival(items, cheapest, x, price):
    """Return an item that arrivals of load x end with, and the load of the others."""
    for item in range(len(items.size)):
        size, paid = items.size[item], price[items.size_kind[item]]
        begin = x - size if x < len(cheapest) - 1 else max(0, x - size)
        for rest in range(max(0, begin), x - size + 1 if x < len(cheapest) - 1 else x):
            if cheapest[rest] + paid == cheapest[x]:
                return item, rest
    return -1, 0


@helper
def least_within(cheapest, width):
    """Return (cells + 1,) where the least entry of each window lies, and of all from there on."""
    count = len(cheapest)
    within, beyond = np.empty(count, np.int64), np.empty(count, np.int64)
    # candidates of the window, each less than those before it
    queue, head, tail = np.empty(count, np.int64), 0, 0
    at = 0
    for s in range(count):
        while at <= min(count - 1, s + width):
            while tail > head and cheapest[queue[tail - 1]] >= cheapest[at]:
                tail -= 1
            queue[tail] = at
            tail += 1
            at += 1
        while queue[head] < s:
            head += 1
        within[s] = queue[head]
    beyond[count - 1] = count - 1
    for s in range(count - 2, -1, -1):
        beyond[s] = s if cheapest[s] <= cheapest[beyond[s + 1]] else beyond[s + 1]
    return within, beyond


@helper
def departures(items, start, end, price, cells, gone):
    """Fill (end − start + 1, cells + 1) the least that departures of each load take, of the first
    0, 1, 2, … key groups of a node; the last entry of a row is that of all greater loads."""
    gone[0, :] = np.inf
    gone[0, 0] = 0.0
    for k in range(end - start):
        item, last, now = start + k, gone[k], gone[k + 1]
        down, up = min(items.down[item], cells), min(items.up[item], cells)
        paid = items.taken[item] - price[items.kind[item]]
        now[:] = np.inf
        if not items.forced[item]:
            now[:] = last
        lower(now[down:cells], last[: cells - down], paid)
        if up > down:
            lower(now[up:cells], last[: cells - up], paid)
        now[cells] = min(now[cells], last[cells - up :].min() + paid)


@helper
def left_before(items, item, last, now, y, price, cells):
    """Return the load that left before a key group did; -1 if it stays."""
    if not items.forced[item] and now[y] == last[y]:
        return -1
    down, up = items.down[item], items.up[item]
    paid = items.taken[item] - price[items.kind[item]]
    if y < cells:
        return y - down if y >= down and last[y - down] + paid == now[y] else y - up
    for rest in range(max(0, cells - up), cells + 1):
        if last[rest] + paid == now[y]:
            return rest
    return -1
