"""Pricing and enumeration by the search tree, with a budget of search nodes."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from formulations.column_generation.problem import Pool, Priced, joined
from optim.util.compiled import helper, inlined, kernel

if TYPE_CHECKING:
    from formulations.column_generation.problem import (
        Clock,
        CountRows,
        Counts,
        Floats,
        PatternProblem,
        Rows,
    )


NODE_BUDGET = 40_000_000
"""Search nodes of one pricing; beyond it the bound is weaker, and still valid."""

RING = 64  # Improving patterns stored of one pricing.

NODES_PER_SECOND = 50_000.0
"""A cautious guess at first, for budgets under a deadline; measured later."""

_SHARE = 0.5
_ENOUGH = 1000


class OfClass(NamedTuple):
    """Improving patterns of one node class, and what no pattern of it can exceed."""

    counts: Counts
    highest: float
    proven: bool


class TreePricer:
    """Searches the patterns of a problem for changing prices; for problems without side rows.

    `clock`: with a deadline, budgets shrink with the time left.
    `node_budget`: inner search nodes of one call; beyond it only a bound is given for the rest.
    `spent`: inner search nodes of all calls.
    """

    weights: tuple[float, ...] = (0.0,)

    def __init__(self, problem: PatternProblem, clock: Clock, node_budget: int) -> None:
        self.problem = problem
        weighed = problem.rate @ problem.sizes - np.diag(problem.rate)
        self.largest_gain = float(weighed.max(initial=0.0))  # the most traffic that one task has
        self.clock = clock
        self.node_budget = node_budget
        self.spent = 0
        self._speed = NODES_PER_SECOND
        self._allowed = node_budget
        self._knapsacks: dict[tuple[int, bool], Knapsack] = {}
        self._free = np.zeros_like(problem.rate)

    def _budget(self) -> int:
        left = self.clock.left()
        if left is None:
            self._allowed = self.node_budget
            return self._allowed
        # at most half of the time left, at the speed measured so far
        affordable = max(1.0, _SHARE * left * self._speed)
        self._allowed = int(min(self.node_budget, affordable))
        return self._allowed

    def _measure(self, nodes: int, seconds: float) -> None:
        self.spent += nodes
        self.clock.hurried |= self._allowed < min(nodes, self.node_budget)
        if nodes > _ENOUGH and seconds > 0:
            self._speed = nodes / seconds

    def _knapsack(self, node_class: int, gainless: bool) -> Knapsack:
        problem, key = self.problem, (node_class, gainless)
        if key not in self._knapsacks:
            rate = self._free if gainless else problem.rate
            most = problem.most[node_class].astype(np.float64)
            limit, least = problem.limit[node_class], problem.least[node_class]
            planes = upper_planes(rate, problem.load, most, limit)
            self._knapsacks[key] = Knapsack(rate, problem.load, most, limit, least, planes)
        return self._knapsacks[key]

    def first(self) -> Pool:
        """Return the empty patterns, where they fit."""
        problem = self.problem
        nothing = np.zeros((1, problem.num_classes), dtype=np.int64)
        fits = [k for k in range(problem.num_node_classes) if problem.fits(k, nothing)[0]]
        kinds = np.array(fits, dtype=np.int64)
        return Pool(np.repeat(nothing, len(kinds), axis=0), kinds, np.zeros(len(kinds)))

    def price(self, price: Floats, side: Floats, threshold: Floats, *, gainless: bool) -> Priced:
        """Find the best patterns of all classes; `side` is empty."""
        of_classes = [
            self.price_class(k, price, float(threshold[k]), gainless=gainless)
            for k in range(self.problem.num_node_classes)
        ]
        counts = np.concatenate([answer.counts for answer in of_classes])
        kinds = np.repeat(np.arange(len(of_classes)), [len(answer.counts) for answer in of_classes])
        highest = np.array([answer.highest for answer in of_classes])
        return Priced(Pool(counts, kinds, self.problem.gain(counts)), highest)

    def price_class(
        self, node_class: int, price: Floats, threshold: float, *, gainless: bool = False
    ) -> OfClass:
        """Find the pattern of greatest value (gain minus prices) above a threshold.

        ``highest`` bounds the value of every pattern from above: it is exact, or the threshold when
        nothing lies above it, or, when the budget ran out, what the open subtrees could hold.
        """
        problem = self.problem
        knapsack = self._knapsack(node_class, gainless)
        rows = np.zeros((RING, problem.num_classes), dtype=np.int32)
        values = np.zeros(RING)
        began = time.perf_counter()
        num_found, open_bound, nodes = search(
            knapsack, price, threshold, False, self._budget(), rows, values
        )
        self._measure(nodes, time.perf_counter() - began)
        num_stored = min(num_found, RING)
        highest = max(threshold, open_bound, values[:num_stored].max(initial=-np.inf))
        return OfClass(rows[:num_stored].astype(np.int64), float(highest), open_bound == -np.inf)

    def enumerate(self, price: Floats, side: Floats, threshold: Floats, room: int) -> Pool | None:
        """Return all patterns whose value exceeds their class's threshold; `side` is empty.

        ``None`` when there are more than ``room``, or the budget does not suffice to find them.
        """
        parts: list[Pool] = []
        for k in range(self.problem.num_node_classes):
            part = self._enumerate_class(k, price, float(threshold[k]), room)
            if part is None:
                return None
            room -= len(part)
            parts.append(part)
        return joined(parts)

    def _enumerate_class(
        self, node_class: int, price: Floats, threshold: float, room: int
    ) -> Pool | None:
        problem = self.problem
        knapsack = self._knapsack(node_class, False)
        # a small table first; where it overflows the search is repeated with eight times as many
        # rows
        size = min(4096, room)
        while True:
            rows = np.zeros((size, problem.num_classes), dtype=np.int32)
            values = np.zeros(size)
            began = time.perf_counter()
            num_found, open_bound, nodes = search(
                knapsack, price, threshold, True, self._budget(), rows, values
            )
            self._measure(nodes, time.perf_counter() - began)
            if num_found <= size:
                break
            if size >= room:
                return None
            size = min(8 * size, room)
        if open_bound > -np.inf:
            return None
        counts = rows[:num_found].astype(np.int64)
        return Pool(counts, np.full(num_found, node_class), problem.gain(counts))


MOST_KINDS = 12  # Kinds of tasks, all sets of which are looked through.


class CellPricer:
    """Searches the patterns of a problem whose side rows count nodes.

    A *cell* is a set of kinds (`CountRows.kind`): contents of these alone have a price by
    themselves, less what their nodes count for, which is no more than if every kind of the cell
    were there. So the best of all cells, each searched with that cost on top of its threshold, is
    the best pattern: in the cell of its own kinds the cost is what it counts for.
    """

    weights: tuple[float, ...] = (0.0,)

    def __init__(
        self, problem: PatternProblem, clock: Clock, node_budget: int, rows: CountRows
    ) -> None:
        self.cells = []
        for kinds, hits in cells_of(rows):
            part = replace(problem, most=np.where(kinds, problem.most, 0))
            self.cells.append((TreePricer(part, clock, node_budget), hits))
        self.largest_gain = TreePricer(problem, clock, node_budget).largest_gain

    def first(self) -> Pool:
        """Return the empty patterns, where they fit."""
        return self.cells[0][0].first()

    def price(self, price: Floats, side: Floats, threshold: Floats, *, gainless: bool) -> Priced:
        """Find the best patterns of all classes and cells."""
        pools, highest = [], np.full(len(threshold), -np.inf)
        for pricer, hits in self.cells:
            cost = float(side @ hits)
            priced = pricer.price(price, side[:0], threshold + cost, gainless=gainless)
            pools.append(priced.pool)
            highest = np.maximum(highest, priced.highest - cost)
        return Priced(joined(pools), highest)

    def enumerate(self, price: Floats, side: Floats, threshold: Floats, room: int) -> Pool | None:
        """Return all patterns above the thresholds, once each; ``None`` where they are too many."""
        parts = []
        for pricer, hits in self.cells:
            cost = float(side @ hits) if len(side) else 0.0
            pool_of_cell = pricer.enumerate(price, side[:0], threshold + cost, room)
            if pool_of_cell is None:
                return None
            parts.append(pool_of_cell)
        pool = joined(parts).distinct()
        return pool if len(pool) <= room else None


def cells_of(rows: CountRows) -> list[tuple[Any, Floats]]:
    """Return (G,) classes of tasks that a cell has and (M,) rows it counts in; the empty one first.

    Of cells that count alike only the largest, and none that a limit of 0 forbids.
    """
    kind = rows.kind
    cells: list[tuple[Any, Floats]] = []
    for number in range(2**rows.num_kinds - 1, 0, -1):
        inside = (number >> kind) & 1 == 1
        hits = rows.by_contents(inside[None, :].astype(np.int64))[:, 0]
        if (hits > rows.upper).any():
            continue
        if not any((hits == other).all() and not (inside & ~more).any() for more, other in cells):
            cells.append((inside, hits))
    return [(np.zeros(len(kind), dtype=np.bool_), np.zeros(len(rows))), *cells]


# Compiled depth-first search over the patterns of one node class.
#
# One search serves two questions about the bounded integer quadratic knapsack
# ``max Σ_{g<h} r_gh y_g y_h + Σ_g r_gg y_g (y_g - 1)/2 - Σ_g π_g y_g`` over the patterns that fit:
# which pattern is best (*pricing*), and which patterns reach a threshold (*enumeration*).
# Subtrees are cut by upper planes in the manner of Gallo, Hammer and Simeone (1980): half of what a
# task could exchange with the others still open, the others chosen by a fractional knapsack, is
# credited to the task itself, and a second fractional knapsack over these credits bounds the rest.

LEVELS = 16
DEPTHS = 32
"""Steps of residual capacity, and depths, for which the upper planes are tabulated at most."""


@helper
def _stride(num_classes):  # type: ignore[no-untyped-def]
    """Every so many depths have a table; those between use the one before, which holds for more."""
    return (num_classes + DEPTHS - 1) // DEPTHS


@helper
def _fractional_knapsack(profit, weight, most, room, taken):  # type: ignore[no-untyped-def]
    """Upper bound on ``Σ profit_i x_i`` with ``Σ weight_i x_i <= room``, ``0 <= x_i <= most_i``."""
    # items with no profit are left out.  ``taken`` is scratch of the same length
    total = 0.0
    num_items = profit.shape[0]
    for i in range(num_items):
        taken[i] = profit[i] <= 0.0 or most[i] <= 0.0
        if not taken[i] and weight[i] <= 0.0:
            total += profit[i] * most[i]
            taken[i] = True
    while room > 0.0:
        best = -1
        best_density = 0.0
        for i in range(num_items):
            if not taken[i]:
                density = profit[i] / weight[i]
                if density > best_density:
                    best_density = density
                    best = i
        if best < 0:
            break
        taken[best] = True
        amount = most[best]
        if amount * weight[best] > room:
            amount = room / weight[best]
        room -= amount * weight[best]
        total += amount * profit[best]
    return total


@kernel(steps=lambda load: 6 * load.shape[1] * len(load) ** 3)
def upper_planes(rate, load, most, limit):  # type: ignore[no-untyped-def]
    """What one task of a class can exchange with the classes still open, by residual capacity.

    Returns `planes`, (R, D, G, LEVELS + 1) float64: ``planes[r, i, h, q]``: bound for class ``h``
        when classes ``d..G-1`` are open, ``d`` the i-th tabulated depth, and at most ``q / LEVELS``
        of resource ``r`` is left; half of the exchange (each pair is credited to both its ends).
    """
    num_classes, num_resources = load.shape
    stride = _stride(num_classes)
    num_depths = (num_classes + stride - 1) // stride
    planes = np.zeros((num_resources, num_depths, num_classes, LEVELS + 1))
    scratch = np.zeros(num_classes, dtype=np.bool_)
    profit = np.zeros(num_classes)
    for r in range(num_resources):
        weight = np.ascontiguousarray(load[:, r])
        for i in range(num_depths):
            d = i * stride
            for h in range(d, num_classes):
                for g in range(num_classes):
                    profit[g] = rate[h, g] if g >= d and g != h else 0.0
                within_class = rate[h, h] * max(most[h] - 1.0, 0.0)
                for q in range(LEVELS + 1):
                    room = limit[r] * q / LEVELS
                    if np.isinf(limit[r]):
                        room = np.inf
                    cross = _fractional_knapsack(profit, weight, most, room, scratch)
                    planes[r, i, h, q] = 0.5 * (cross + within_class)
    return planes


class Knapsack(NamedTuple):
    """What the patterns of one node class are made of.

    `rate`: (G, G) float64: traffic of one pair of tasks, symmetric, non-negative.
    `load`, `most`, `limit`, `least`: ``(G, R)`` load of a task, ``(G,)`` most tasks of a class,
        ``(R,)`` largest and smallest load of the node.
    `planes`: from `upper_planes` for the same ``rate, load, most, limit``.
    """

    rate: Floats
    load: Floats
    most: Floats
    limit: Floats
    least: Floats
    planes: Floats


@inlined
def _set_range(depth, load, most, limit, least, used, reach, count, lowest):  # type: ignore[no-untyped-def]
    """Set a class's count to what still fits, its lowest to what the rest can no longer supply."""
    high = most[depth]
    low = 0.0
    for r in range(limit.shape[0]):
        shortfall = least[r] - used[depth, r] - reach[depth + 1, r]
        if load[depth, r] > 0.0:
            fits = np.floor((limit[r] - used[depth, r]) / load[depth, r] + 1e-9)
            while fits >= 0 and used[depth, r] + fits * load[depth, r] > limit[r]:
                fits -= 1.0
            high = min(high, fits)
            if shortfall > 0.0:
                low = max(low, np.ceil(shortfall / load[depth, r] - 1e-9))
        elif shortfall > 0.0:
            high = -1.0
    count[depth] = int(high)
    lowest[depth] = int(low)


@inlined
def _value_of(depth, c, rate, value, margin):  # type: ignore[no-untyped-def]
    """Return the value of a partial pattern with `c` tasks of the next class."""
    return value[depth] + c * margin[depth, depth] + rate[depth, depth] * (c * (c - 1) * 0.5)


@inlined
def _descend(depth, c, rate, load, value, used, margin):  # type: ignore[no-untyped-def]
    """Add a class's count to the partial pattern."""
    value[depth + 1] = _value_of(depth, c, rate, value, margin)
    for r in range(load.shape[1]):
        used[depth + 1, r] = used[depth, r] + c * load[depth, r]
    for h in range(depth + 1, load.shape[0]):
        margin[depth + 1, h] = margin[depth, h] + c * rate[depth, h]


@inlined
def _first_enough(depth, low, high, load, least, used):  # type: ignore[no-untyped-def]
    """Return the lowest count of the last class that fills the node to its least load."""
    for r in range(load.shape[1]):
        while low <= high and used[depth, r] + low * load[depth, r] < least[r]:
            low += 1
    return low


@inlined
def _store(slot, count, c, value, rows, values):  # type: ignore[no-untyped-def]
    """Store a pattern and its value."""
    last = count.shape[0] - 1
    for g in range(last):
        rows[slot, g] = count[g]
    rows[slot, last] = c
    values[slot] = value


@helper
def _open_bound(depth, margin, used, load, most, limit, planes, work):  # type: ignore[no-untyped-def]
    """Upper bound on what classes ``depth..G-1`` can add to a partial pattern."""
    num_classes, num_resources = load.shape
    count = num_classes - depth
    stride = _stride(num_classes)
    profit = work[0]
    weight = work[1]
    amount = work[2]
    for i in range(count):
        h = depth + i
        credit = np.inf
        fits = most[h]
        for r in range(num_resources):
            room = limit[r] - used[r]
            if np.isinf(limit[r]):
                q = LEVELS
            else:
                q = int(np.ceil(room / limit[r] * LEVELS)) if limit[r] > 0.0 else 0
                q = min(max(q, 0), LEVELS)
                if load[h, r] > 0.0:
                    fits = min(fits, np.floor(room / load[h, r] + 1e-9))
            credit = min(credit, planes[r, depth // stride, h, q])
        profit[i] = margin[h] + credit
        amount[i] = fits
    best = np.inf
    scratch = np.zeros(count, dtype=np.bool_)
    for r in range(num_resources):
        for i in range(count):
            weight[i] = load[depth + i, r]
        value = _fractional_knapsack(
            profit[:count], weight[:count], amount[:count], limit[r] - used[r], scratch
        )
        best = min(best, value)
    return best


@kernel(steps=lambda knapsack, node_budget: 10 * min(node_budget, np.prod(knapsack.most[:-1] + 1)))
def search(knapsack, dual, threshold, keep_all, node_budget, rows, values):  # type: ignore[no-untyped-def]
    """Walk the patterns of one node class.

    `dual`: (G,) float64: price of one task of each class.
    `threshold`: patterns of value (gain minus prices) at or below it are of no interest.
    `keep_all`: True: store every pattern above the threshold; False: the threshold follows the best
        one found, and improving patterns are stored in a ring.
    `node_budget`: inner nodes to open before the search stops and only bounds what is left.
    `rows`, `values`: output, ``(M, G)`` int32 and ``(M,)`` float64 (gain minus prices).
    Returns:
        `num_found`: patterns found (with ``keep_all`` possibly more than ``M``: the search stops at
            overflow).
        `bound`: proven upper bound on the value of any pattern that was not found; ``-inf`` if the
            search was complete and nothing lies above the threshold.
        `nodes`: inner nodes opened.
    """
    rate, load, most, limit, least, planes = knapsack
    num_classes, num_resources = load.shape
    capacity = len(values)
    # row d is of the partial pattern of the counts of classes 0..d-1: its value and load, what the
    # first task of each class would add, and the most load that the other classes can add
    value = np.zeros(num_classes + 1)
    used = np.zeros((num_classes + 1, num_resources))
    margin = np.zeros((num_classes + 1, num_classes))
    reach = np.zeros((num_classes + 1, num_resources))
    for d in range(num_classes - 1, -1, -1):
        margin[0, d] = -dual[d]
        for r in range(num_resources):
            reach[d, r] = reach[d + 1, r] + most[d] * load[d, r]
    count = np.zeros(num_classes, dtype=np.int64)
    lowest = np.zeros(num_classes, dtype=np.int64)
    work = np.zeros((3, num_classes))
    num_found = 0
    nodes = 0
    bound = -np.inf
    depth = 0
    entering = True
    while depth >= 0:
        if entering:
            _set_range(depth, load, most, limit, least, used, reach, count, lowest)
            entering = False
            if depth == num_classes - 1:
                low = _first_enough(depth, lowest[depth], count[depth], load, least, used)
                c = count[depth]
                while c >= low:
                    total = _value_of(depth, c, rate, value, margin)
                    if total > threshold:
                        slot = num_found if keep_all else num_found % capacity
                        if slot < capacity:
                            _store(slot, count, c, total, rows, values)
                        num_found += 1
                        if not keep_all:
                            threshold = total
                    # The value is convex in the last count: only its two ends can be best.
                    c = c - 1 if keep_all or c == low else low
                if keep_all and num_found > capacity:
                    return num_found, np.inf, nodes
                count[depth] = lowest[depth] - 1
        if count[depth] < lowest[depth]:
            depth -= 1
            if depth >= 0:
                count[depth] -= 1
            continue
        _descend(depth, count[depth], rate, load, value, used, margin)
        nodes += 1
        exhausted = nodes > node_budget
        if exhausted or (depth + 3 < num_classes and threshold > -np.inf):
            rest = _open_bound(
                depth + 1, margin[depth + 1], used[depth + 1], load, most, limit, planes, work
            )
            highest = value[depth + 1] + rest
            if exhausted and highest > threshold:
                bound = max(bound, highest)
            if exhausted or highest <= threshold:
                count[depth] -= 1
                continue
        depth += 1
        entering = True
    return num_found, bound, nodes


class Listing(Protocol):
    """A list of patterns for each node class."""

    largest_gain: float  # A large gain, as for a pricer.
    lengths: list[int]  # (K,) patterns of each class.

    def values(self, price: Floats, side: Floats, *, gainless: bool) -> list[Floats]:
        """Return for each node class the gain less the prices of all its patterns."""
        ...

    def pool(self, node_class: int, at: Counts) -> Pool:
        """Return the patterns at some places in the list of a node class."""
        ...


class TableListing:
    """Patterns in one table, of any order, with their rows."""

    def __init__(self, pool: Pool, kinds: int, rows: Rows) -> None:
        self._pool, self._table = pool, rows.of(pool)
        self._lists = [np.flatnonzero(pool.node_class == k) for k in range(kinds)]
        self.lengths = [len(some) for some in self._lists]
        self.largest_gain = float(np.abs(pool.gain).max(initial=0.0))

    @cached_property
    def _counts(self) -> Floats:
        return self._pool.counts.astype(np.float64)

    def values(self, price: Floats, side: Floats, *, gainless: bool) -> list[Floats]:
        """Return for each node class the gain less the prices of all its patterns."""
        value = -np.einsum("pg,g->p", self._counts, price)
        if len(side):
            value -= side @ self._table
        if not gainless:
            value += self._pool.gain
        return [value[some] for some in self._lists]

    def pool(self, node_class: int, at: Counts) -> Pool:
        """Return the patterns at some places in the list of a node class."""
        return self._pool.only(self._lists[node_class][at])


class ListPricer:
    """Looks through a list.

    `per_round`, `begin`: most patterns of a class that one pricing returns; how many to begin with,
        spread evenly.
    """

    weights: tuple[float, ...] = (0.7, 0.0)

    def __init__(self, listing: Listing, per_round: int = 40, begin: int = 0) -> None:
        self.listing, self.per_round, self.begin = listing, per_round, begin
        self.largest_gain = listing.largest_gain

    def first(self) -> Pool:
        """Return some patterns; with none, the first prices are those of what is missing."""
        lengths = self.listing.lengths
        spread = [np.linspace(0, n - 1, min(n, self.begin)).astype(np.int64) for n in lengths]
        return joined([self.listing.pool(k, np.unique(at)) for k, at in enumerate(spread)])

    def price(self, price: Floats, side: Floats, threshold: Floats, *, gainless: bool) -> Priced:
        """Return the patterns that are worth most, of those above the thresholds."""
        parts, highest = [], []
        for k, values in enumerate(self.listing.values(price, side, gainless=gainless)):
            count = min(self.per_round, len(values))
            top = np.argpartition(-values, count - 1)[:count] if count else np.zeros(0, np.int64)
            parts.append(self.listing.pool(k, top[np.lexsort((top, -values[top]))]))
            highest.append(values.max(initial=-np.inf))
        return Priced(joined(parts), np.array(highest))

    def enumerate(self, price: Floats, side: Floats, threshold: Floats, room: int) -> Pool | None:
        """Return all patterns above the thresholds; ``None`` where they are too many."""
        values = self.listing.values(price, side, gainless=False)
        near = [np.flatnonzero(v > t) for v, t in zip(values, threshold, strict=True)]
        if sum(map(len, near)) > room:
            return None
        return joined([self.listing.pool(k, at) for k, at in enumerate(near)])
