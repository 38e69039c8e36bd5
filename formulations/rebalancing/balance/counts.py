"""Equal key groups as counts: classes, the numbered vectors of counts, and each node's patterns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from formulations.rebalancing.problem import BalanceProblem, Floats, Ints


class Patterns(NamedTuple):
    """What one node may hold: vectors of counts by number, and what each of them means.

    Attributes
    ----------
    number, moves, left, deviation
        (P,) the vector, key groups that leave the node, load it keeps of a leaving node, and its
        deviation from the node's share.
    """

    number: Ints
    moves: Ints
    left: Floats
    deviation: Floats


@dataclass(frozen=True)
class Counts:
    """A problem's key groups as counts of classes.

    Attributes
    ----------
    problem
        The problem.
    class_of
        (T,) class: equal load, cost, usage, allowed nodes, and, where it matters, the same kind of
        home.
    example
        (C,) a key group of each class.
    """

    problem: BalanceProblem
    class_of: Ints
    example: Ints

    @cached_property
    def total(self) -> Ints:
        """(C,) key groups of each class."""
        return np.bincount(self.class_of, minlength=len(self.example))

    @cached_property
    def at_home(self) -> Ints:
        """(N, C) key groups of each class at home on each node."""
        found = np.zeros((self.problem.num_nodes, len(self.example)), dtype=np.int64)
        np.add.at(found, (self.problem.home, self.class_of), 1)
        return found

    @cached_property
    def radix(self) -> Ints:
        """(C,) value of each digit of a vector's number."""
        return np.concatenate([[1], np.cumprod(self.total + 1)[:-1]]).astype(np.int64)

    @property
    def num_vectors(self) -> int:
        """Vectors of counts that there are."""
        product = 1
        for count in self.total.tolist():
            product *= count + 1
        return product

    @cached_property
    def digits(self) -> Ints:
        """(S, C) the counts of each number."""
        return np.arange(self.num_vectors)[:, None] // self.radix % (self.total + 1)

    @cached_property
    def patterns(self) -> list[Patterns]:
        """What each node may hold within its capacities, least loads and allowed sets."""
        return [self._patterns_of(node) for node in range(self.problem.num_nodes)]

    def _patterns_of(self, node: int) -> Patterns:
        problem, digits = self.problem, self.digits
        fits = np.ones(len(digits), dtype=np.bool_)
        usage = digits @ problem.usage[self.example]
        fits &= (usage <= problem.headroom[node]).all(axis=1)
        if not problem.leaving[node]:
            fits &= (usage >= problem.floor[node]).all(axis=1)
        # whether a key group may stay where it is is told by its allowed set, not by its class
        barred = ~np.array([self._may_hold(int(task), node) for task in self.example])
        fits &= (digits[:, barred] == 0).all(axis=1)
        number = np.flatnonzero(fits)
        load = digits[number] @ problem.load[self.example]
        moves = np.maximum(0, self.at_home[node] - digits[number]).sum(axis=1)
        left = load if problem.leaving[node] else np.zeros(len(number))
        deviation = load + problem.background[node] - problem.share[node]
        return Patterns(number, moves, left, deviation)

    def _may_hold(self, task: int, node: int) -> bool:
        problem = self.problem
        closed = problem.leaving[node] and not problem.into_leaving
        if closed and not problem.leaving[problem.home[task]]:
            return False
        row = int(problem.row_of[task])
        if row < 0:
            return True
        begin, end = problem.allowed_indptr[row], problem.allowed_indptr[row + 1]
        return node in problem.allowed_nodes[begin:end]

    def placement(self, numbers: Ints) -> Ints:
        """Return a placement in which node i holds the counts numbered `numbers[i]`.

        Key groups stay at home where the counts let them.
        """
        problem = self.problem
        placement = problem.home.copy()
        held = self.digits[numbers]
        for c in range(len(self.example)):
            tasks = np.flatnonzero(self.class_of == c)
            order = tasks[np.argsort(problem.home[tasks], kind="stable")]
            home = problem.home[order]
            rank = np.arange(len(order)) - np.searchsorted(home, home)
            moved = order[rank >= held[home, c]]
            wanted = np.maximum(0, held[:, c] - self.at_home[:, c])
            placement[moved] = np.repeat(np.arange(problem.num_nodes), wanted)
        return placement


def count_classes(problem: BalanceProblem) -> Counts:
    """Group the key groups that are interchangeable."""
    rows = [
        tuple(sorted(problem.allowed_nodes[a:b].tolist()))
        for a, b in zip(problem.allowed_indptr[:-1], problem.allowed_indptr[1:], strict=True)
    ]
    names = {row: number for number, row in enumerate(sorted(set(rows)))}
    allowed = np.full(problem.num_tasks, -1)
    allowed[problem.restricted] = [names[row] for row in rows]
    drained = np.zeros(problem.num_tasks)
    if problem.has_leaving and not problem.into_leaving:
        drained = problem.leaving[problem.home].astype(np.float64)
    cost = problem.cost if problem.max_cost is not None else np.zeros(problem.num_tasks)
    features = np.column_stack([problem.load, cost, problem.usage, allowed, drained])
    _, example, class_of = np.unique(features, axis=0, return_index=True, return_inverse=True)
    return Counts(problem, class_of.ravel().astype(np.int64), example.astype(np.int64))
