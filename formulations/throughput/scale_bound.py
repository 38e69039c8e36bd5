"""The fewest tasks on given nodes, over all parallelisms: branch and bound on boxes of numbers.

A box has a least and a greatest number of tasks of each operator. What a node may hold at any
numbers in it contains what it may hold at those of a plan. Prices of the operators refute a box if
all nodes together, each holding what is worth most, are worth less than all operators. Prices come
from linear programs over the contents of nodes at single numbers. See docs/scale.md.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from optim.format.parallelism import largest_share, smallest_share
from optim.solvers.inprocess import LpSolution, solve_lp, solve_small_milp
from optim.solvers.interface import LinearTermination
from optim.solvers.linear_model import LinearModel
from optim.util.compiled import helper, kernel

if TYPE_CHECKING:
    from formulations.throughput.scale_counts import Counts, Counts64
    from optim.format.tables import Floats

_SAFE = 1e-9
_PRICES, _CONTENTS, _PLACED = 120, 20_000, 40_000_000
_NODES = 2_000
_PROGRAM, _BOX = 20_000, 200
"""Work of a linear program, and of a box, in contents that are looked at."""


@dataclass
class Boxes:
    """What `search` found."""

    #: Numbers of tasks, (V, O) or by kind of task (`Counts.exact`), and traffic inside; of none
    #: that was found ``None``.
    tasks: Any = None
    counts: Any = None
    gain: float = -np.inf
    #: Fewest tasks that are not refuted; infinite where no parallelism carries the rate.
    least: float = np.inf
    whole: bool = True  # Whether of no parallelism of as few tasks more traffic is inside.


class BoxSearch:
    """Branch and bound over numbers of tasks on fixed nodes.

    `low`, `high`: (O,) least and greatest numbers.
    `work`: contents of nodes after which the rest is left open.
    """

    def __init__(self, counts: Counts, low: Counts64, high: Counts64, work: float) -> None:
        self.counts, self.low, self.high, self.work = counts, low, high, work
        keys = counts.keys()
        self.first = [keys.index(key) for key in dict.fromkeys(keys)]
        self.kind = np.array([list(dict.fromkeys(keys)).index(key) for key in keys])
        self.number = np.bincount(self.kind)
        self.prices: list[Floats] = list(np.eye(len(low)))

    def search(self, most: int) -> Boxes:
        """Find the fewest tasks, no more than `most`, and of those the most traffic inside."""
        boxes = Boxes()
        heap = [(int(self.low.sum()), 0, self.low, self.high)]
        number = 0
        while heap:
            total, _, low, high = heapq.heappop(heap)
            if total > most or (boxes.tasks is not None and total > boxes.least):
                return boxes
            if self.work <= 0:
                boxes.least, boxes.whole = min(boxes.least, total), False
                return boxes
            # no operator has more tasks than the others leave
            high = np.minimum(high, most - total + low)
            if self._refuted(low, high):
                continue
            if (low == high).all():
                self._at(low, boxes)
                continue
            ratio = np.where(high > low, high / low, 0.0)
            # the operator whose share varies most within the box, at the geometric mean
            o = int(ratio.argmax())
            middle = min(int(np.sqrt(low[o] * float(high[o]))), int(high[o]) - 1)
            for side in (0, 1):
                below, above = low.copy(), high.copy()
                if side == 0:
                    above[o] = middle
                else:
                    below[o] = middle + 1
                number += 1
                heapq.heappush(heap, (int(below.sum()), number, below, above))
        return boxes

    def _refuted(self, low: Counts64, high: Counts64) -> bool:
        """Whether known prices refute all numbers of a box."""
        counts, prices = self.counts, np.array(self.prices)
        groups = [int(k) or None for k in counts.key_groups]
        least = np.array([smallest_share(int(n), k) for n, k in zip(high, groups, strict=True)])
        most = np.array([largest_share(int(n), k) for n, k in zip(low, groups, strict=True)])
        total = np.zeros(len(prices))
        for v, number in zip(self.first, self.number.tolist(), strict=True):
            node_values = np.zeros(len(prices))
            seen = value_contents(
                counts.load, counts.each, counts.rate, counts.price, counts.room[v],
                counts.link[v], least, most, high, prices, _CONTENTS, node_values,
            )  # fmt: skip
            self.work -= seen + _BOX
            if seen > _CONTENTS:
                return False
            total += number * node_values
        # Σ π_o is what all operators together are worth; if all nodes hold less, something is
        # missing
        margin = prices.sum(axis=1) - total - _SAFE * np.abs(prices).sum(axis=1)
        best = int(margin.argmax())
        if margin[best] <= 0:
            return False
        self.prices.insert(0, self.prices.pop(best))  # those that refute come first, and stay
        return True

    def _at(self, tasks: Counts64, boxes: Boxes) -> None:
        """Look at single numbers: refute them, or place the tasks."""
        kinds, sizes = self.counts.exact(tasks)
        listed = [kinds.contents(sizes, v, _CONTENTS) for v in self.first]
        self.work -= _PROGRAM
        if any(rows is None for rows in listed):
            self._open(tasks, boxes)
            return
        rows = [np.asarray(x) for x in listed]
        if (sum(n * x.max(axis=0) for n, x in zip(self.number, rows, strict=True)) < sizes).any():
            return
        if self._refuted_alone(tasks, sizes, rows):
            return
        placed = self._placed(kinds, sizes, rows)
        if placed is False:
            self._open(tasks, boxes)
        elif placed is not None and placed[0] > boxes.gain:
            boxes.gain, boxes.tasks, boxes.counts = placed[0], tasks, placed[1]
            boxes.least = min(boxes.least, int(tasks.sum()))

    def _open(self, tasks: Counts64, boxes: Boxes) -> None:
        boxes.whole = False
        boxes.least = min(boxes.least, int(tasks.sum()))

    def _refuted_alone(self, tasks: Counts64, sizes: Counts64, rows: list[Counts64]) -> bool:
        """Whether prices of a linear program refute numbers of tasks; they are remembered."""
        # the nodes of each class are as many times as are there; how often at least?
        of = np.repeat(np.arange(len(rows)), [len(x) for x in rows])
        columns = np.vstack(rows)
        matrix = np.zeros((len(sizes) + len(rows), len(columns) + 1))
        matrix[: len(sizes), :-1] = columns.T
        matrix[len(sizes) + of, np.arange(len(columns))] = 1.0
        matrix[len(sizes) :, -1] = -self.number
        low = np.append(sizes, np.full(len(rows), -np.inf)).astype(float)
        high = np.append(sizes, np.zeros(len(rows))).astype(float)
        cost = np.append(np.zeros(len(columns)), 1.0)
        free = np.full(len(cost), np.inf)
        solved = solve_lp(cost, matrix, low, high, np.zeros(len(cost)), free)
        if solved.termination is not LinearTermination.OPTIMAL or solved.row_duals is None:
            return False
        dual = solved.row_duals[: len(sizes)]
        paid = sum(
            int(n) * max(0.0, float((x @ dual).max()))
            for n, x in zip(self.number, rows, strict=True)
        )
        task_value = float(dual @ sizes)
        if task_value <= paid + _SAFE * float(np.abs(dual) @ sizes):
            return False
        price, start = np.zeros(len(tasks)), 0
        for o, n in enumerate(tasks.tolist()):  # of uneven shares the kinds follow each other
            end = start
            while n:
                n -= int(sizes[end])
                end += 1
            price[o] = float(dual[start:end] @ sizes[start:end])
            start = end
        self.prices = [price, *self.prices[: _PRICES - 1]]
        return True

    def _placed(self, kinds: Counts, sizes: Counts64, rows: list[Counts64]) -> Any:
        """Return traffic inside and (V, O) counts; ``None`` where there are none, or ``False``."""
        if float(np.prod(sizes + 1.0)) * sum(map(len, rows)) <= _PLACED:
            best: Any = kinds.best(sizes, _PLACED)
            if best is not False:
                return best if best is None else (best[1], best[2])
        of = np.repeat(np.arange(len(rows)), [len(x) for x in rows])
        columns, gain = np.vstack(rows), np.concatenate([kinds.gain(x, sizes) for x in rows])
        model = LinearModel("max")
        model.add_variables("held", len(columns), 0, self.number[of], True, gain)
        model.add_matrix_rows("tasks", columns.T, sizes, sizes)
        per_class = (of == np.arange(len(rows))[:, None]).astype(float)
        model.add_matrix_rows("nodes", per_class, -np.inf, self.number)
        solved = solve_small_milp(model, node_limit=_NODES, gap=_SAFE)
        self.work -= 10 * _PROGRAM
        if solved.termination is LinearTermination.INFEASIBLE:
            return None
        if solved.termination is not LinearTermination.OPTIMAL or solved.x is None:
            return False
        chosen = np.repeat(np.arange(len(columns)), np.round(solved.x).astype(int))
        counts = np.zeros((len(self.kind), len(sizes)), dtype=np.int64)
        for k in range(len(rows)):
            rows_of_class = columns[chosen[of[chosen] == k]]
            counts[np.flatnonzero(self.kind == k)[: len(rows_of_class)]] = rows_of_class
        return float(kinds.gain(counts, sizes).sum()), counts


@kernel(steps=lambda load, prices: 300.0 * len(load) * len(prices))
def value_contents(  # type: ignore[no-untyped-def]
    load, each, rate, price, room, link, least, most, high, prices, limit, node_values
):
    """Find what a node may hold is worth at most, at numbers of tasks of a box.

    `room`, `link`: (R,) and (3,) of the node.
    `least`, `most`: (O,) smallest and greatest part of its operator that a task has.
    `high`: (O,) most tasks.
    `prices`: (P, O) worth of all of an operator.
    `limit`: contents after which to stop.
    `node_values`: (P,) output: the most, 0 at least.
    Returns contents looked at; above the limit nothing is known.
    """
    operators = len(load)
    counts = np.zeros(operators, dtype=np.int64)
    lower, upper = np.zeros(operators), np.zeros(operators)
    seen = 0
    while _next_content(load, each, room, least, high, counts):
        seen += 1
        if seen > limit:
            return seen
        for o in range(operators):
            lower[o] = min(1.0, counts[o] * least[o])
            upper[o] = min(1.0, counts[o] * most[o])
        if _may_be_held(load, each, rate, price, room, link, counts, lower, upper):
            for p in range(len(prices)):
                value = 0.0
                for o in range(operators):
                    part = upper[o] if prices[p, o] > 0.0 else lower[o]
                    value += prices[p, o] * part
                node_values[p] = max(node_values[p], value)
    return seen


@helper
def _next_content(load, each, room, least, high, counts):  # type: ignore[no-untyped-def]
    """Add one task of the last operator that may have it, and none of those behind; in place.

    Returns whether there is a further content.
    """
    for at in range(len(counts) - 1, -1, -1):
        counts[at] += 1
        fits = counts[at] <= high[at] and counts[at] * least[at] <= 1.0 + 1e-9
        if fits:
            for r in range(len(room)):
                total = 0.0
                for o in range(at + 1):
                    total += counts[o] * (least[o] * load[o, r] + each[o, r])
                if total > room[r] * (1 + 1e-9):
                    fits = False
                    break
        if fits:
            return True
        counts[at] = 0
    return False


@helper
def _may_be_held(  # type: ignore[no-untyped-def]
    load, each, rate, price, room, link, counts, lower, upper
):
    """Whether a node may hold a content whose parts of the operators lie between these bounds."""
    out, into, noise = 0.0, 0.0, 0.0
    for i in range(len(load)):
        for j in range(len(load)):
            if rate[i, j] > 0.0:
                out += rate[i, j] * lower[i] * (1.0 - upper[j])
                into += rate[i, j] * lower[j] * (1.0 - upper[i])
                noise += 1e-12 * rate[i, j]
    out, into = max(0.0, out - noise), max(0.0, into - noise)
    tolerance = 1 + 1e-9
    if out > link[0] * tolerance or into > link[1] * tolerance or out + into > link[2] * tolerance:
        return False
    for r in range(len(room)):
        need = out * price[0, r] + into * price[1, r]
        for o in range(len(load)):
            need += lower[o] * load[o, r] + counts[o] * each[o, r]
        if need > room[r] * tolerance:
            return False
    return True


# That no fewer nodes carry a rate, at whatever parallelism: parts of operators instead of tasks.
#
# A node holds parts f of the operators, any numbers from 0 to 1. The nodes of a plan hold parts
# that add up to 1 of each operator. Linear combinations of such parts (column generation) that do
# are more than all plans; if no nodes of less cost have any, no plan has. Which parts a node may
# hold is no convex set, as what stays inside is a product; prices are maximised over it by branch
# and bound on boxes of parts, where a product is below its two planes (McCormick). See
# docs/scale.md.

_SLACK = 1e-6
_ROUNDS, _FURTHER = 200, 8


class Offer(NamedTuple):
    """Nodes of a class: room at the rate, links, cost of each, and how many there are."""

    room: Floats
    link: Floats
    cost: float
    number: float


class PartsBound:
    """Refutes numbers of nodes; `programs` counts linear programs that were solved.

    `counts`: the problem; its numbers of tasks play no part.
    `most`: linear programs after which nothing is claimed.
    """

    def __init__(self, counts: Counts, offers: list[Offer], most: int = 4000) -> None:
        self.counts, self.offers, self.most, self.programs = counts, offers, most, 0
        self.pairs = np.argwhere(counts.rate > 0)
        self.flow = counts.rate[self.pairs[:, 0], self.pairs[:, 1]]
        self.columns: list[list[Floats]] = [[] for _ in offers]
        self.boxes = [self._box(offer) for offer in offers]

    def refutes(self, budget: float) -> bool:
        """Whether nodes of no more cost than this hold no parts that add up; ``False``: unknown."""
        try:
            return self._refuted(budget)
        except _Unsolved:
            return False

    def lacks(self, budget: float, tasks: Counts64) -> bool:
        """Whether no nodes of such a cost together have room for (O,) tasks, by adding up.

        Nodes of equal cost may have more of one resource and less of another: each is bounded by
        the nodes that have most of it.
        """
        need = self.counts.load.sum(axis=0) + tasks @ self.counts.each
        room = [
            _knapsack([(float(offer.room[r]), offer) for offer in self.offers], budget)
            for r in range(len(need))
        ]
        return bool((need > np.array(room) * (1 + 1e-9)).any())

    def _refuted(self, budget: float) -> bool:
        for _ in range(_ROUNDS):
            # parts are generated until none is worth more than is paid for it; the prices bound all
            # parts
            priced = self._master(budget)
            if priced is None or priced[1] <= _SLACK:
                return False
            price, _, paid = priced
            part_values, grown = [], False
            for k, offer in enumerate(self.offers):
                enough = float(price.sum()) * offer.cost / budget * (1 - 1e-6)
                best, at = self._priced(k, price, float(paid[k]), enough)
                if at is not None:
                    self.columns[k].append(at)
                    grown = True
                part_values.append((best, offer))
                if self.programs > self.most:
                    return False
            # the parts that the nodes of such a cost are worth at most
            if float(price.sum()) > _knapsack(part_values, budget) * (1 + 1e-9) + _SLACK:
                return True
            if not grown:
                return False
        return False

    def _master(self, budget: float) -> tuple[Floats, float, Floats] | None:
        """Return the prices of the operators, what is missing from 1 at the best, and what parts of
        a node of each class are worth where they change nothing.
        """
        operators = len(self.counts.load)
        parts = [f for column in self.columns for f in column]
        at = [k for k, column in enumerate(self.columns) for _ in column]
        count = len(parts)
        # min Σ |1 − Σ parts|: what is missing or too much of each operator
        objective = np.append(np.zeros(count), np.ones(2 * operators))
        equal = np.zeros((operators, count + 2 * operators))
        if count:
            equal[:, :count] = np.array(parts).T
        equal[:, count:] = np.hstack([np.eye(operators), -np.eye(operators)])
        rows, sides, bounded = [np.zeros(len(objective))], [budget], {}
        for i, k in enumerate(at):
            rows[0][i] = self.offers[k].cost
        for k, offer in enumerate(self.offers):
            if np.isfinite(offer.number):
                row = np.zeros(len(objective))
                bounded[k] = len(rows)
                row[: len(at)] = [float(one == k) for one in at]
                rows.append(row)
                sides.append(offer.number)
        below = np.append(np.full(len(rows), -np.inf), np.ones(operators))
        above = np.append(sides, np.ones(operators))
        zeros, free = np.zeros(len(objective)), np.full(len(objective), np.inf)
        solution = _solve(objective, np.vstack([rows, equal]), (below, above), zeros, free)
        self.programs += 1
        if solution is None:
            return None
        assert solution.row_duals is not None
        assert solution.objective is not None
        side = -solution.row_duals[: len(rows)]
        # a node of a class is paid its cost at the budget's price, and the price of its number
        paid = [side[0] * o.cost + (side[bounded[k]] if k in bounded else 0.0)
                for k, o in enumerate(self.offers)]  # fmt: skip
        return solution.row_duals[len(rows) :], solution.objective, np.array(paid)

    def _box(self, offer: Offer) -> Floats:
        """(O,) most of each operator on a node, tightened by what the others leave."""
        high = np.ones(len(self.counts.load))
        for _ in range(4):
            before = high.copy()
            for o in range(len(high)):
                price = np.zeros(len(high))
                price[o] = 1.0
                try:
                    relaxed = self._relaxed(offer, price, np.zeros(len(high)), high)
                except _Unsolved:
                    continue
                if relaxed is not None:
                    high[o] = min(high[o], relaxed[0] + 1e-9)
            # a tighter box of one operator tightens the planes of the others; it ends where that
            # fades
            if (high > 0.98 * before).all():
                break
        return high

    def _relaxed(self, offer: Offer, price: Floats, low: Floats, high: Floats) -> Any:
        """Return the most that parts within a box are worth if products are below their planes."""
        operators, pairs = len(price), self.pairs
        size = operators + len(pairs)
        i, j = pairs[:, 0], pairs[:, 1]
        planes = np.zeros((2 * len(pairs), size))
        at = np.arange(len(pairs))
        for row, (a, b) in zip((at, at + len(pairs)), ((i, j), (j, i)), strict=True):
            planes[row, operators + at] = 1.0  # z ≤ h_b f_a + l_a f_b − l_a h_b
            np.add.at(planes, (row, a), -high[b])
            np.add.at(planes, (row, b), -low[a])
        products = np.concatenate([-low[i] * high[j], -low[j] * high[i]])
        ways = np.zeros((3, size))
        for way, end in ((0, i), (1, j)):
            np.add.at(ways[way], end, self.flow)
            ways[way, operators + at] -= self.flow
        ways[2] = ways[0] + ways[1]
        crossing = [(ways[k], offer.link[k]) for k in range(3) if np.isfinite(offer.link[k])]
        for r in range(self.counts.load.shape[1]):
            row = np.append(self.counts.load[:, r], np.zeros(len(pairs)))
            row = row + self.counts.price[0, r] * ways[0] + self.counts.price[1, r] * ways[1]
            if np.isfinite(offer.room[r]) and row.any():
                crossing.append((row, offer.room[r]))
        rows = np.vstack([planes, *(row[None] for row, _ in crossing)])
        upper = np.append(products, [side for _, side in crossing])
        # rows in parts of their largest number, so that a tolerance means the same in each
        scale = np.maximum(np.abs(rows).max(axis=1), 1e-300)
        value = np.append(-price, np.zeros(len(pairs)))
        above = upper / scale + 1e-9
        lower, most = np.append(low, np.zeros(len(pairs))), np.append(high, high[i] * high[j])
        sides = (np.full(len(above), -np.inf), above)
        solution = _solve(value, rows / scale[:, None], sides, lower, most)
        self.programs += 1
        if solution is None:
            return None
        assert solution.x is not None
        assert solution.objective is not None
        return -solution.objective, solution.x[:operators], solution.x[operators:]

    def _holds(self, offer: Offer, part: Floats) -> bool:
        sent = part @ self.counts.rate
        inside = float(sent @ part)
        out, into = float(sent.sum()) - inside, float((self.counts.rate @ part).sum()) - inside
        need = part @ self.counts.load + out * self.counts.price[0] + into * self.counts.price[1]
        crossing = np.array([out, into, out + into])
        # only the bound of `_priced` refutes: parts may exceed what is there by a little
        room, link = offer.room * (1 + _SLACK), offer.link * (1 + _SLACK)
        return bool((need <= room).all() and (crossing <= link).all())

    def _priced(
        self, k: int, price: Floats, paid: float, enough: float
    ) -> tuple[float, Floats | None]:
        """Return a bound of what a node's parts are worth, and parts that are worth more than is
        paid for them, where there are.

        Ends where the bound is `enough` to refute, or after a few further boxes once it has such.
        """
        offer, high = self.offers[k], self.boxes[k]
        root = self._relaxed(offer, price, np.zeros(len(high)), high)
        if root is None:
            return 0.0, None
        # best bound first: the first box that is no better than the best parts bounds all others
        heap, number = [(-root[0], 0, np.zeros(len(high)), high, root)], 0
        best, best_parts, further = paid * (1 + 1e-4) + _SLACK, None, _FURTHER
        while heap:
            bound, _, low, high, node = heapq.heappop(heap)
            further -= best_parts is not None
            if -bound <= max(best, enough) or not further or self.programs > self.most:
                return max(-bound, best), best_parts
            _, part, products = node
            # a relaxed product hides what crosses: a smaller part of the same mix may fit
            for scaled in (1.0, 0.999, 0.99, 0.97, 0.9, 0.75, 0.5, 0.25):
                one = part * scaled
                if float(price @ one) > best and self._holds(offer, one):
                    best, best_parts = float(price @ one), one
                    break
            # branch on the pair whose product is furthest above f_i f_j, in the wider of its two
            # sides
            gap = self.flow * (products - part[self.pairs[:, 0]] * part[self.pairs[:, 1]])
            if not len(gap) or gap.max() <= 1e-12:
                return max(-bound, best), best_parts
            i, j = self.pairs[int(gap.argmax())]
            o = i if high[i] - low[i] >= high[j] - low[j] else j
            width = high[o] - low[o]
            cut = float(np.clip(part[o], low[o] + 0.2 * width, high[o] - 0.2 * width))
            for side in (0, 1):
                below, above = low.copy(), high.copy()
                (above if side == 0 else below)[o] = cut
                inner = self._relaxed(offer, price, below, above)
                if inner is not None and inner[0] > best:
                    number += 1
                    heapq.heappush(heap, (-inner[0], number, below, above, inner))
        return (-heap[0][0] if heap else best), best_parts


def _knapsack(part_values: list[tuple[float, Offer]], budget: float) -> float:
    """Return the most that fractions of nodes within a budget are worth."""
    total = 0.0
    for best, offer in sorted(part_values, key=lambda one: -one[0] / max(one[1].cost, 1e-300)):
        # fractions of nodes, most worth per cost first: more than any whole nodes are worth
        taken = min(offer.number, budget / offer.cost if offer.cost else np.inf)
        if best > 0 and taken > 0:
            total += best * taken
            budget -= offer.cost * taken
    return total


class _Unsolved(Exception):
    """A linear program that ended without an optimum or a proof that there is none."""


def _solve(
    objective: Floats, rows: Floats, sides: tuple[Any, Any], lower: Floats, upper: Floats
) -> LpSolution | None:
    """Solve a linear program with rows between sides; ``None`` where it is infeasible."""
    solution = solve_lp(objective, rows, *sides, lower, upper, tolerance=1e-9)
    if solution.termination is LinearTermination.INFEASIBLE:
        return None
    if solution.termination is not LinearTermination.OPTIMAL:
        raise _Unsolved(solution.reason)
    return solution
