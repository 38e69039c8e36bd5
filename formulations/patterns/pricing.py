"""Pricing and enumeration by the search tree, with a budget of search nodes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from formulations.patterns.pool import Pool, Priced, joined
from formulations.patterns.search_tree import search, upper_planes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.patterns.clock import Clock
    from formulations.patterns.problem import Counts, Floats, PatternProblem

RING = 64
"""Improving patterns kept of one pricing."""

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

    Parameters
    ----------
    problem
        The problem.
    clock
        With a deadline, budgets shrink with the time left.
    node_budget
        Inner search nodes of one call; beyond it only a bound is given for the rest.

    Attributes
    ----------
    spent
        Inner search nodes of all calls.
    """

    weights: tuple[float, ...] = (0.0,)

    def __init__(self, problem: PatternProblem, clock: Clock, node_budget: int) -> None:
        self.problem = problem
        weighed = problem.rate @ problem.sizes - np.diag(problem.rate)
        self.dearest = float(weighed.max(initial=0.0))  # the most traffic that one task has
        self.clock = clock
        self.node_budget = node_budget
        self.spent = 0
        self._speed = NODES_PER_SECOND
        self._allowed = node_budget
        self._planes: dict[tuple[int, bool], NDArray[Any]] = {}
        self._free = np.zeros_like(problem.rate)

    def _budget(self) -> int:
        left = self.clock.left()
        if left is None:
            self._allowed = self.node_budget
            return self._allowed
        affordable = max(1.0, _SHARE * left * self._speed)
        self._allowed = int(min(self.node_budget, affordable))
        return self._allowed

    def _measure(self, nodes: int, seconds: float) -> None:
        self.spent += nodes
        self.clock.hurried |= self._allowed < min(nodes, self.node_budget)
        if nodes > _ENOUGH and seconds > 0:
            self._speed = nodes / seconds

    def _arguments(self, node_class: int, gainless: bool) -> tuple[NDArray[Any], ...]:
        problem = self.problem
        rate = self._free if gainless else problem.rate
        most = problem.most[node_class].astype(np.float64)
        limit = problem.limit[node_class]
        key = (node_class, gainless)
        if key not in self._planes:
            self._planes[key] = upper_planes(rate, problem.load, most, limit)
        return rate, most, limit, problem.least[node_class], self._planes[key]

    def first(self) -> Pool:
        """Return the empty patterns, where they fit."""
        problem = self.problem
        nothing = np.zeros((1, problem.num_classes), dtype=np.int64)
        fits = [k for k in range(problem.num_node_classes) if problem.fits(k, nothing)[0]]
        kinds = np.array(fits, dtype=np.int64)
        return Pool(np.repeat(nothing, len(kinds), axis=0), kinds, np.zeros(len(kinds)))

    def price(self, price: Floats, side: Floats, threshold: Floats, *, gainless: bool) -> Priced:
        """Find the best patterns of all classes; `side` is empty."""
        found = [
            self.price_class(k, price, float(threshold[k]), gainless=gainless)
            for k in range(self.problem.num_node_classes)
        ]
        counts = np.concatenate([answer.counts for answer in found])
        kinds = np.repeat(np.arange(len(found)), [len(answer.counts) for answer in found])
        highest = np.array([answer.highest for answer in found])
        return Priced(Pool(counts, kinds, self.problem.gain(counts)), highest)

    def price_class(
        self, node_class: int, price: Floats, threshold: float, *, gainless: bool = False
    ) -> OfClass:
        """Find the pattern of greatest value (gain minus prices) above a threshold.

        ``highest`` bounds the value of every pattern from above: it is exact, or the threshold when
        nothing lies above it, or, when the budget ran out, what the open subtrees could hold.
        """
        problem = self.problem
        rate, most, limit, least, planes = self._arguments(node_class, gainless)
        rows = np.zeros((RING, problem.num_classes), dtype=np.int32)
        values = np.zeros(RING)
        began = time.perf_counter()
        found, open_bound, nodes = search(
            rate, price, problem.load, most, limit, least, planes,
            threshold, False, self._budget(), rows, values,
        )  # fmt: skip
        self._measure(nodes, time.perf_counter() - began)
        kept = min(found, RING)
        highest = max(threshold, open_bound, values[:kept].max(initial=-np.inf))
        return OfClass(rows[:kept].astype(np.int64), float(highest), open_bound == -np.inf)

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
        rate, most, limit, least, planes = self._arguments(node_class, False)
        size = min(4096, room)
        while True:
            rows = np.zeros((size, problem.num_classes), dtype=np.int32)
            values = np.zeros(size)
            began = time.perf_counter()
            found, open_bound, nodes = search(
                rate, price, problem.load, most, limit, least, planes,
                threshold, True, self._budget(), rows, values,
            )  # fmt: skip
            self._measure(nodes, time.perf_counter() - began)
            if found <= size:
                break
            if size >= room:
                return None
            size = min(8 * size, room)
        if open_bound > -np.inf:
            return None
        counts = rows[:found].astype(np.int64)
        return Pool(counts, np.full(found, node_class), problem.gain(counts))
