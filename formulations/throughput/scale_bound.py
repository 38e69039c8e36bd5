"""That no fewer nodes carry a rate, at whatever parallelism: parts of operators instead of tasks.

A node holds parts f of the operators, any numbers from 0 to 1. The nodes of a plan hold parts that
add up to 1 of each operator. Linear combinations of such parts (column generation) that do are more
than all plans; if no nodes of less cost have any, no plan has. Which parts a node may hold is no
convex set, as what stays inside is a product; prices are maximised over it by branch and bound on
boxes of parts, where a product is below its two planes (McCormick). See docs/scale.md.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from optim.solvers.inprocess import LpSolution, solve_lp
from optim.solvers.interface import LinearTermination

if TYPE_CHECKING:
    from formulations.throughput.scale_counts import Counts, Counts64
    from optim.format.tables import Floats

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

    Parameters
    ----------
    counts
        The problem; its numbers of tasks play no part.
    offers
        Classes of nodes.
    most
        Linear programs after which nothing is claimed.
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
            told = self._master(budget)
            if told is None or told[1] <= _SLACK:
                return False
            price, _, paid = told
            worth, grown = [], False
            for k, offer in enumerate(self.offers):
                enough = float(price.sum()) * offer.cost / budget * (1 - 1e-6)
                best, at = self._priced(k, price, float(paid[k]), enough)
                if at is not None:
                    self.columns[k].append(at)
                    grown = True
                worth.append((best, offer))
                if self.programs > self.most:
                    return False
            # the parts that the nodes of such a cost are worth at most
            if float(price.sum()) > _knapsack(worth, budget) * (1 + 1e-9) + _SLACK:
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
        found = _solve(objective, np.vstack([rows, equal]), (below, above), zeros, free)
        self.programs += 1
        if found is None:
            return None
        assert found.row_duals is not None
        assert found.objective is not None
        side = -found.row_duals[: len(rows)]
        # a node of a class is paid its cost at the budget's price, and the price of its number
        paid = [side[0] * o.cost + (side[bounded[k]] if k in bounded else 0.0)
                for k, o in enumerate(self.offers)]  # fmt: skip
        return found.row_duals[len(rows) :], found.objective, np.array(paid)

    def _box(self, offer: Offer) -> Floats:
        """(O,) most of each operator on a node, tightened by what the others leave."""
        high = np.ones(len(self.counts.load))
        for _ in range(4):
            before = high.copy()
            for o in range(len(high)):
                price = np.zeros(len(high))
                price[o] = 1.0
                try:
                    told = self._relaxed(offer, price, np.zeros(len(high)), high)
                except _Unsolved:
                    continue
                if told is not None:
                    high[o] = min(high[o], told[0] + 1e-9)
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
        found = _solve(value, rows / scale[:, None], sides, lower, most)
        self.programs += 1
        if found is None:
            return None
        assert found.x is not None
        assert found.objective is not None
        return -found.objective, found.x[:operators], found.x[operators:]

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
        best, found, further = paid * (1 + 1e-4) + _SLACK, None, _FURTHER
        while heap:
            bound, _, low, high, told = heapq.heappop(heap)
            further -= found is not None
            if -bound <= max(best, enough) or not further or self.programs > self.most:
                return max(-bound, best), found
            _, part, products = told
            # a relaxed product hides what crosses: a smaller part of the same mix may fit
            for scaled in (1.0, 0.999, 0.99, 0.97, 0.9, 0.75, 0.5, 0.25):
                one = part * scaled
                if float(price @ one) > best and self._holds(offer, one):
                    best, found = float(price @ one), one
                    break
            # branch on the pair whose product is furthest above f_i f_j, in the wider of its two
            # sides
            gap = self.flow * (products - part[self.pairs[:, 0]] * part[self.pairs[:, 1]])
            if not len(gap) or gap.max() <= 1e-12:
                return max(-bound, best), found
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
        return (-heap[0][0] if heap else best), found


def _knapsack(worth: list[tuple[float, Offer]], budget: float) -> float:
    """Return the most that fractions of nodes within a budget are worth."""
    total = 0.0
    for best, offer in sorted(worth, key=lambda one: -one[0] / max(one[1].cost, 1e-300)):
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
    found = solve_lp(objective, rows, *sides, lower, upper, tolerance=1e-9)
    if found.termination is LinearTermination.INFEASIBLE:
        return None
    if found.termination is not LinearTermination.OPTIMAL:
        raise _Unsolved(found.reason)
    return found
