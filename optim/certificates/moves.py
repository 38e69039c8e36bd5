"""The writer's branch and bound where moves are limited: more of them are needed than there are.

Over the textbook's model. That no solution keeps all rows says little of where to branch; how many
moves it takes to keep the others does. Branches are on how many tasks leave a node, or come to it,
while these numbers are broken; each is chosen by what both of its sides cost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.sparse import csc_array, csr_array, eye_array, hstack

from optim.certificates import check
from optim.certificates.tree import GaveUp, Tree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from fractions import Fraction

    from optim.certificates.arrays import Cuts
    from optim.certificates.check import Model
    from optim.certificates.tree import Spec

_SAME, _TRIED, _ADDED = 1e-6, 8, 400
"""What counts as whole; branches whose sides are solved; columns that join a programme at once."""
_DEAR = 1e4
"""Moves that a row's lack of its largest entry costs: a case that is empty costs too much."""
_DIVISORS = (10**9, 10**12, 10**15)
_DROPS = 0.9
"""Share of a case's columns up to which the others are worth a step that drops them."""


class Answer(NamedTuple):
    """The fewest moves of a case, multipliers of its rows in the model's units, and the optimum."""

    moves: float
    y: np.ndarray
    z: np.ndarray


class Side(NamedTuple):
    """One side of a branch: its cuts and what the programme answers, if it was solved."""

    cuts: Cuts
    answer: Answer


class Moves(Tree):
    """Looks for the steps of a proof that what is better than a bound takes too many moves.

    Parameters
    ----------
    model, bound
        The textbook's model of a threshold, whose first row is a budget, and what to prove.
    nodes, deadline
        Most cases that are looked at; `time.process_time` at which to give up.
    """

    def __init__(self, model: Model, bound: Fraction, nodes: int, deadline: float) -> None:
        super().__init__(model, bound, nodes, deadline)
        self.budget = float(model.rows[0][1])
        entries = (dict(held) for _, _, held in model.columns)
        self.price = np.array([float(held.get(0, 0)) for held in entries])
        self.work = 0
        #: columns that the programmes have so far: those that stay; others join as they pay
        self.chosen = self.price == 0
        self.sets = list(self._sets_to_try())

    def _sets_to_try(self) -> Iterator[tuple[Spec, np.ndarray]]:
        """Tasks that leave a node, or come to one: what identifies them, and which columns they
        are.
        """
        _, _, home, node, moved = self.keys.T
        for place, of in ((2, home), (3, node)):
            for n in np.unique(of[moved == 1]).tolist():
                yield [[1, 0, 0], [place, n, n], [4, 1, 1]], (of == n) & (moved == 1)

    def run(self) -> list[dict[str, Any]]:
        """Return the steps.

        Raises
        ------
        GaveUp
            A limit is reached, or a solution has whole numbers and keeps all rows.
        """
        everything = np.arange(len(self.model.columns))
        stack = [(everything, Side((), self._fewest(everything, ())))]
        while stack:
            columns, (cuts, answer) = stack.pop()
            self.left -= 1
            # more than the checker counts for closing a case, or dropping columns and branching
            self.work += 2 * (len(columns) + 10) * (len(cuts) + 9)
            if self.left < 0 or self.work > check.MOST_WORK:
                raise GaveUp
            kept = self._dropped(columns, cuts, answer)
            if kept is None:
                continue
            if len(kept) < len(columns):
                columns, answer = kept, self._fewest(kept, cuts)
            if answer.moves > self.budget + _SAME:
                stack.append((columns, Side(cuts, answer)))  # the next round closes it
                continue
            spec, at, sides = self._best(columns, cuts, answer)
            self.steps.append({"branch": spec, "at": at})
            stack += [(columns, side) for side in reversed(sides)]
        return self.steps

    def _dropped(self, columns: np.ndarray, cuts: Cuts, answer: Answer) -> np.ndarray | None:
        """Close a case: ``None``; or return the columns that a solution may still use."""
        told = [*answer.y[: len(self.model.rows)], *answer.y[len(self.every) :]]
        for divisor in _DIVISORS:
            whole = [round(float(v) * divisor) for v in told]
            value, rests = self.arrays.value(whole, 0, columns, cuts)
            if self.model.closed(value, 0):
                self.steps.append({"close": whole, "over": 0})
                return None
            if answer.moves <= self.budget + _SAME:
                break
        if value is None or answer.moves > self.budget + _SAME:
            raise GaveUp  # the multipliers are too coarse
        keep = np.array([not self.model.closed(value + int(rest), 0) for rest in rests])
        keep |= self.parts[columns]
        if keep.mean() > _DROPS:
            return columns
        self.steps.append({"drop": whole, "over": 0})
        return np.asarray(columns[keep])

    def _best(
        self, columns: np.ndarray, cuts: Cuts, answer: Answer
    ) -> tuple[Spec, int, list[Side]]:
        """Choose the branch whose sides cost most, by the product of what they add."""
        best: tuple[float, Spec, int, list[Side]] | None = None
        for spec, held, total in self._candidates(columns, answer.z):
            at, mine = int(np.floor(total + _SAME)), frozenset(columns[held[columns]].tolist())
            ends = ((held.astype(float), mine, "<", at), (held.astype(float), mine, ">", at + 1))
            sides = [Side((*cuts, end), self._fewest(columns, (*cuts, end))) for end in ends]
            most = self.budget + 1
            score = float(
                np.prod([max(1e-4, min(most, side.answer.moves) - answer.moves) for side in sides])
            )
            if best is None or score > best[0]:
                best = score, spec, at, sides
            if max(side.answer.moves for side in sides) > self.budget + _SAME:
                break
        if best is None:
            raise GaveUp
        return best[1:]

    def _candidates(
        self, columns: np.ndarray, z: np.ndarray
    ) -> list[tuple[Spec, np.ndarray, float]]:
        """Sets whose number is broken: of nodes, else of a class of tasks, else columns."""
        found = [(spec, held, float(z @ held[columns])) for spec, held in self.sets]
        found = [each for each in found if _broken(each[2]) > _SAME]
        if not found:
            found = list(self._of_tasks(columns, z))
        by_part = sorted(found, key=lambda each: -_broken(each[2]))
        by_size = sorted(found, key=lambda each: -each[2])[: _TRIED // 2]
        return [*by_size, *(c for c in by_part if all(c is not b for b in by_size))][:_TRIED]

    def _of_tasks(
        self, columns: np.ndarray, z: np.ndarray
    ) -> Iterator[tuple[Spec, np.ndarray, float]]:
        broken = columns[np.minimum(z - np.floor(z), np.ceil(z) - z) > _SAME]
        broken = broken[~self.parts[broken]]
        whole = np.zeros(len(self.price))
        whole[columns] = z
        for g in np.unique(self.keys[broken, 0]).tolist():
            gone = (self.keys[:, 0] == g) & (self.keys[:, 4] == 1)
            total = float(whole @ gone)
            if _broken(total) > _SAME:
                yield [[0, g, g], [1, 0, 0], [4, 1, 1]], gone, total
        for j in broken.tolist():
            key = self.keys[j].tolist()
            held = (self.keys == key).all(axis=1)
            yield [[i, v, v] for i, v in enumerate(key)], held, float(whole[j])

    def _fewest(self, columns: np.ndarray, cuts: Cuts) -> Answer:
        """The fewest moves that a case takes; what its rows lack costs `_DEAR`."""
        matrix, right, equal, factor = self._system(columns, cuts)
        right[0] = np.inf  # the budget's row is what counts
        cost, rows, by_column = self.price[columns], len(right), csc_array(matrix)
        eye = eye_array(rows, format="csc")
        while True:
            some = np.flatnonzero(self.chosen[columns])
            whole = csr_array(hstack([by_column[:, some], eye, -eye]))
            dear = np.full(2 * rows, _DEAR)
            solved = self._solved_whole(np.r_[cost[some], dear], whole, right, equal)
            if solved is None:
                raise GaveUp
            y, z = solved
            reduced = cost + matrix.T @ y
            reduced[some] = 0.0
            pays = np.flatnonzero(reduced < -_SAME)
            if not len(pays):
                break
            self.chosen[columns[pays[np.argsort(reduced[pays], kind="stable")[:_ADDED]]]] = True
        every = np.zeros(len(columns))
        every[some] = z[: len(some)]
        moves = float(cost @ every + _DEAR * z[len(some) :].sum())
        y[0] = 1.0 / factor[0]
        return Answer(moves, y * factor, every)


def _broken(total: float) -> float:
    """How far a number is from a whole one."""
    return float(abs(total - np.round(total)))
