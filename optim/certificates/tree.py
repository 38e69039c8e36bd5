"""The writer's branch and bound: duals of linear programs, rounded to whole numbers.

The model is the checker's own (`optim.certificates.check.Model`), and every step is tried with its
exact arithmetic before it is written, so that floating point decides only where to look.
"""

from __future__ import annotations

import math
import time
from contextlib import suppress
from fractions import Fraction
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csc_array, csr_array, eye_array, hstack, vstack

from optim.solvers.inprocess import approximate_duals, solve_lp
from optim.solvers.interface import LinearTermination

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from optim.certificates.check import Model


_DIVISORS, _FINER, _NEARLY = (1, 2, 6, 60, 1000, 10**6, 10**9), (1000, 10**6, 10**9), 1e-4
"""What multipliers are whole numbers over; of many columns, those after the first only where it
leaves so little open, of the bound."""
_TOLERANCE = 1e-10
_SAME = 1e-6
_WORTH = 0.9
"""Share of the columns that a step may leave over for it to be worth its bytes."""

_MANY = 20_000  # Columns from which only one divisor is tried.

_FEW, _ADDED, _DEAR, _DEARER = 4000, 400, 1e5, 1e3
"""Columns beyond which the solver has only some; how many come at a time; the price of a lack, and
how much more it is where that was too low."""

Spec = list[list[int]]


class GaveUp(Exception):
    """The limit of nodes or of time is reached; `bound` is what the root proves, if anything."""


class Tree:
    """Looks for the steps of a proof that nothing is better than a bound.

    `model`, `bound`: what the checker builds of the instance, and what to prove.
    `nodes`, `deadline`: most cases that are looked at; `time.process_time` at which to give up.
    `better`: a bound beyond `bound`: `reached` reports afterwards whether the steps prove that one
        as well.
    `arrays`: of the model, where they are there.
    """

    def __init__(
        self,
        model: Model,
        bound: Fraction,
        nodes: int,
        deadline: float,
        better: Fraction | None = None,
        arrays: Arrays | None = None,
    ) -> None:
        self.model, self.reached = model, better is not None
        model.aim(bound if better is None else better)
        self.beyond = model.goal
        model.aim(bound)
        self.steps: list[dict[str, Any]] = []
        self.left, self.deadline = nodes, deadline
        self.arrays = arrays or Arrays(model)
        rows, gain = len(model.rows), self.arrays.gain
        # gains up to 1000: tolerances of the solver are absolute
        self.scale = 1000.0 / max(1e-300, float(np.abs(gain).max(initial=0.0)) or 1.0)
        self.gain = gain * self.scale
        self.keys = self.arrays.keys
        self.parts = np.isin(np.arange(len(gain)), list(model.parts))
        self.every = [*model.rows, *(("=", size) for size in model.groups)]
        self.size = np.ones(len(self.every))
        self.size[:rows] = self.arrays.most
        # multipliers of rows with large numbers are small: rounded to more places
        self.fine = 10 ** max(0, int(np.log10(self.size.max(initial=1.0))) - 1)

    def run(self) -> list[dict[str, Any]]:
        """Return the steps.

        Raises `GaveUp`: a limit is reached.
        """
        everything = np.arange(len(self.model.columns))
        stack: list[tuple[np.ndarray, Cuts]] = [(everything, ())]
        while stack:
            columns, cuts = stack.pop()
            self.left -= 1
            if self.left < 0 or time.process_time() > self.deadline:
                raise GaveUp
            columns, branch = self._case(columns, cuts)
            self.arrays.narrow(columns)
            if branch is None:
                continue
            spec, at = branch
            summed = self.model.cut(spec, columns.tolist())
            of_all = np.zeros(len(everything))
            of_all[list(summed)] = 1.0
            self.steps.append({"branch": spec, "at": at})
            stack.append((columns, (*cuts, (of_all, summed, ">", at + 1))))
            stack.append((columns, (*cuts, (of_all, summed, "<", at))))
        return self.steps

    def roots(self) -> Iterator[tuple[dict[str, Any], Fraction]]:
        """Yield steps that close the root, and what they prove: of its duals, and of none."""
        columns = np.arange(len(self.model.columns))
        with suppress(GaveUp):
            if self._suffices(columns):
                yield self._closing(self._root(columns))
        yield self._closing(np.zeros(len(self.every)))

    def estimates(self, deadline: float) -> Iterator[tuple[dict[str, Any], Fraction]]:
        """Yield steps that close the root, and what they prove: of duals that are about right."""
        columns = np.arange(len(self.model.columns))
        if not self._suffices(columns):
            return
        matrix, right, equal, factor = self._system(columns, ())
        below = np.where(equal, right, -np.inf)
        unit = self.scale / 1000.0  # the largest gain is 1
        for duals in approximate_duals(-self.gain / 1000.0, matrix, below, right, deadline):
            y = np.where(equal, -duals, np.maximum(0.0, -duals))
            yield self._closing(y * factor / unit)

    def least(self, row: int) -> float:
        """Return the least that a row comes to in the linear relaxation."""
        columns = np.arange(len(self.model.columns))
        matrix, right, equal, factor = self._system(columns, ())
        right[row] = np.inf
        cost = csr_array(matrix)[[row]].toarray().ravel()
        _, z, _ = self._priced(cost, matrix, right, equal)
        return float(cost @ z / factor[row])

    def _root(self, columns: np.ndarray) -> np.ndarray:
        with suppress(GaveUp):
            y, _, lacks = self._linear(columns, ())
            if not lacks:
                return y
        return self._unpriced(columns, ())[0]

    def _closing(self, y: np.ndarray) -> tuple[dict[str, Any], Fraction]:
        columns = np.arange(len(self.model.columns))
        step, value, _ = self._rounded(y, columns, (), gains=True)
        assert value is not None
        return {"close": step["y"], "over": step["over"]}, Fraction(value, step["over"])

    def _case(self, columns: np.ndarray, cuts: Cuts) -> tuple[np.ndarray, Any]:
        """Close a case, or return its columns and how to branch."""
        lacks = gains = not self.model.threshold and self._suffices(columns)
        if gains:
            with suppress(GaveUp):  # the solver has no answer at that price
                y, z, lacks = self._linear(columns, cuts)
                step, value, reduced = self._rounded(y, columns, cuts, gains=True)
                if self._closes(step, value):
                    return columns, None
        if lacks or not gains:
            y, z = self._infeasible(columns, cuts)
            step, value, reduced = self._rounded(y, columns, cuts, gains=False)
            if self._closes(step, value):
                return columns, None
        if lacks:  # nothing: the price was too low
            y, z = self._unpriced(columns, cuts)
            step, value, reduced = self._rounded(y, columns, cuts, gains=True)
            if self._closes(step, value):
                return columns, None
        return self._thinned(step, value, reduced, columns, z)

    def _closes(self, step: Any, value: int | None) -> bool:
        """Whether multipliers close the case, which is then written down."""
        closed = self.model.closed(value, step["over"])
        if closed:
            self.steps.append({"close": step["y"], "over": step["over"]})
            self._reach(value, step["over"])
        return closed

    def _reach(self, value: int | None, over: int) -> None:
        """Note whether the better bound would be proved as well."""
        goal, self.model.goal = self.model.goal, self.beyond
        self.reached = self.reached and self.model.closed(value, over)
        self.model.goal = goal

    def _least(self, over: int) -> int:
        """Return the least value / over that `Model.closed` leaves open."""
        model = self.model
        return over and over * model.step * (model.goal // model.step + 1)

    def _suffices(self, columns: np.ndarray) -> bool:
        """Whether each group has a column left."""
        groups = sum(size > 0 for size in self.model.groups)
        return len(np.unique(self.keys[columns, 0])) >= groups and len(columns) > 0

    def _thinned(
        self, step: Any, value: Any, reduced: Any, columns: np.ndarray, z: np.ndarray
    ) -> tuple[np.ndarray, Any]:
        """Drop the columns that nothing better can use, if they are many, and branch."""
        if self.model.kind == "counting":  # columns are not whole one by one
            return columns, self._branch(columns, z)
        rests = np.asarray(reduced)
        # reduced-cost fixing: where value + rest closes, no better solution uses the column
        keep = (rests >= self._least(step["over"]) - value) | self.parts[columns]
        if keep.sum() < _WORTH * len(keep):
            self.steps.append({"drop": step["y"], "over": step["over"]})
            self._reach(value + int(rests[~keep].max()), step["over"])
            columns, z = columns[keep], z[keep]
        return columns, self._branch(columns, z)

    def _system(self, columns: np.ndarray, cuts: Cuts) -> tuple[Any, Any, Any, Any]:
        """Rows with scaled entries, right sides, what is an equality, and the factors."""
        matrix = self.arrays.of(columns)
        rows = [*self.every, *((sense, right) for _, _, sense, right in cuts)]
        if cuts:
            matrix = _stacked(matrix, _in_cuts(columns, cuts))
        right = np.array([float(b) for _, b in rows])
        sign = np.array([-1.0 if sense == ">" else 1.0 for sense, _ in rows])
        factor = sign / np.concatenate([self.size, np.ones(len(cuts))])
        scaled = csr_array(matrix * factor[:, None])
        return scaled, right * factor, np.array([s == "=" for s, _ in rows]), factor

    def _linear(self, columns: np.ndarray, cuts: Cuts) -> tuple[np.ndarray, np.ndarray, bool]:
        """Multipliers in the model's units, the optimum, and whether its rows lack something.

        What they lack is dear: then the multipliers mostly close the case, and no second programme
        is needed to show that it is empty.
        """
        matrix, right, equal, factor = self._system(columns, cuts)
        y, z, lacks = self._priced(-self.gain[columns], matrix, right, equal)
        return y * factor / self.scale, z, lacks

    def _unpriced(self, columns: np.ndarray, cuts: Cuts) -> tuple[np.ndarray, np.ndarray]:
        """`_linear` of a case that is known not to lack anything."""
        matrix, right, equal, factor = self._system(columns, cuts)
        cost = -self.gain[columns]
        if len(columns) <= _FEW:
            solved = self._solved_whole(cost, matrix, right, equal)
        else:
            y, z, lacks = self._priced(cost, matrix, right, equal, _DEARER)
            solved = None if lacks else (y, z)
        if solved is None:
            raise GaveUp
        return solved[0] * factor / self.scale, solved[1]

    def _infeasible(self, columns: np.ndarray, cuts: Cuts) -> tuple[np.ndarray, np.ndarray]:
        """Multipliers that show a case to be empty, as far as it is; and what comes closest."""
        matrix, right, equal, factor = self._system(columns, cuts)
        first = len(self.model.rows)
        if not self._suffices(columns):
            return np.zeros(len(right)), np.zeros(len(columns))
        soft = np.r_[:first, len(self.every) : len(right)]  # groups are stored
        eye = eye_array(len(right), format="csr")[:, soft]
        cost = np.concatenate([np.zeros(len(columns)), np.ones(2 * len(soft))])
        whole = csr_array(hstack([matrix, eye, -eye]))
        solved = self._solved(cost, whole, right, equal)
        if solved is None:
            raise GaveUp
        return solved[0] * factor, solved[1][: len(columns)]

    def _solved(self, cost: Any, matrix: Any, right: Any, equal: Any) -> Any:
        """Solve a linear program; ``None`` where it has no solution."""
        if len(cost) <= _FEW:
            return self._solved_whole(cost, matrix, right, equal)
        y, z, lacks = self._priced(cost, matrix, right, equal)
        return None if lacks else (y, z)

    def _priced(self, cost: Any, matrix: Any, right: Any, equal: Any, more: float = 1.0) -> Any:
        """Solve one whose rows may lack something, at a price; of many columns only who pays."""
        rows = len(right)
        eye = eye_array(rows, format="csc")
        # big-M: what a row lacks costs far more than gains, which are scaled to 1000
        price = more * _DEAR
        dear = np.full(2 * rows, price)
        apart = max(1, len(cost) // _ADDED) if len(cost) > _FEW else 1
        columns, chosen = csc_array(matrix), np.arange(0, len(cost), apart)
        while True:
            some = hstack([columns[:, chosen], eye, -eye]).tocsr()
            solved = self._solved_whole(np.r_[cost[chosen], dear], some, right, equal)
            if solved is None:
                raise GaveUp
            y, z = solved
            reduced = cost + matrix.T @ y
            reduced[chosen] = 0.0
            pays = np.flatnonzero(reduced < -_TOLERANCE * price)
            if not len(pays):
                break
            # column generation: the most negative reduced costs join
            best = pays[np.argsort(reduced[pays], kind="stable")[:_ADDED]]
            chosen = np.unique(np.r_[chosen, best])
        whole = np.zeros(len(cost))
        whole[chosen] = z[: len(chosen)]
        return y, whole, bool(z[len(chosen) :].max(initial=0.0) > _SAME)

    def _solved_whole(self, cost: Any, matrix: Any, right: Any, equal: Any) -> Any:
        size = len(cost)
        left = self.deadline - time.process_time()
        if left <= 0:
            raise GaveUp
        answer = solve_lp(
            np.asarray(cost, float),
            matrix,
            np.where(equal, right, -np.inf),
            right,
            np.zeros(size),
            np.full(size, np.inf),
            left,
            tolerance=_TOLERANCE,
        )
        if answer.termination is LinearTermination.INFEASIBLE:
            return None
        if answer.x is None or answer.row_duals is None:
            raise GaveUp
        y = np.where(equal, -answer.row_duals, np.maximum(0.0, -answer.row_duals))
        return y, answer.x

    def _rounded(
        self, y: np.ndarray, columns: np.ndarray, cuts: Cuts, *, gains: bool
    ) -> tuple[dict[str, Any], int | None, Any]:
        """Round multipliers, the coarser the better; those of the groups follow from them.

        Without gains what they leave is over 0.

        Doubles choose the divisor, as exact sums take long; what they chose is reckoned exactly.
        """
        duals = [*y[: len(self.model.rows)], *y[len(self.every) :]]
        about = self._in_doubles(columns, cuts)
        best: Any = None
        many = len(columns) >= _MANY or self.fine > 1
        for divisor in [k * self.fine for k in _FINER] if many else _DIVISORS:
            whole, over = [round(float(v) * divisor) for v in duals], divisor * gains
            rough = about(whole, over)
            if best is None or rough / divisor < best[0]:
                best = rough / divisor, over, whole
            if math.isinf(rough) or self.model.closed(math.floor(rough), over):
                value, reduced = self.arrays.value(whole, over, columns, cuts)
                if self.model.closed(value, over):
                    return {"y": whole, "over": over}, value, reduced
            if many and not self._nearly(rough, over):
                break
        _, over, whole = best
        value, reduced = self.arrays.value(whole, over, columns, cuts)
        return {"y": whole, "over": over}, value, reduced

    def _nearly(self, value: float, over: int) -> bool:
        """Whether finer multipliers may close what these leave open."""
        goal = abs(self.model.goal)
        return not over or value / over - self.model.goal <= _NEARLY * max(goal, self.model.step)

    def _in_doubles(self, columns: np.ndarray, cuts: Cuts) -> Callable[[list[int], int], float]:
        """Return what sums up multipliers as `Model.value` does, in doubles."""
        matrix = self.arrays.of(columns)[: len(self.model.rows)]
        turned = (_stacked(matrix, _in_cuts(columns, cuts)) if cuts else matrix).T
        gain, group = self.gain[columns] / self.scale, self.keys[columns, 0]
        sizes = np.array(self.model.groups, dtype=float)
        right = np.array([*(b for _, b in self.model.rows), *(b for *_, b in cuts)], dtype=float)

        def about(whole: list[int], over: int) -> float:
            y = np.array(whole, dtype=float)
            top = np.full(len(sizes), -np.inf)
            np.maximum.at(top, group, over * gain - turned @ y)
            return float(y @ right + sizes[sizes > 0] @ top[sizes > 0])

        return about

    def _branch(self, columns: np.ndarray, z: np.ndarray) -> tuple[Spec, int]:
        """Choose columns whose number is broken in the optimum: of many, else of one."""
        used = z > _SAME
        keys, z_used = self.keys[columns[used]], z[used]
        for pairs in (False,) if self.model.kind == "counting" else (False, True):
            best: Any = None
            for specs, totals in self._sets(keys, z_used, pairs=pairs):
                if not len(specs):
                    continue
                # most fractional; of ties the first, so that a proof repeats
                part = totals - np.floor(totals)
                score = np.minimum(part, 1 - part)
                at = int(np.argmax(score > score.max() - _SAME))
                if score[at] > _SAME and (best is None or score[at] > best[0] + _SAME):
                    best = score[at], specs[at], int(np.floor(totals[at]))
            if best is not None:
                return best[1], best[2]
        part = np.where(self.parts[columns], 0.0, np.minimum(z - np.floor(z), np.ceil(z) - z))
        if not len(z) or part.max() <= _SAME or self.model.kind == "counting":
            raise GaveUp  # a placement that is better than the bound, or rounding
        at = int(np.argmax(part))
        key = self.keys[columns[at]].tolist()
        return [[i, v, v] for i, v in enumerate(key)], int(np.floor(z[at]))

    def _sets(
        self, keys: np.ndarray, z: np.ndarray, *, pairs: bool
    ) -> Iterator[tuple[list[Spec], np.ndarray]]:
        """Sets of columns that are worth a branch: what identifies them, and how much each
        sums up.
        """
        if self.model.kind == "dual":
            sets = [] if pairs else list(self._sets_of_nodes(keys))
            yield [spec for spec, _ in sets], np.array([z[members].sum() for _, members in sets])
            return
        most = self.keys.max(axis=0).tolist()
        for k in np.unique(keys[:, 0]).tolist():
            in_group = keys[:, 0] == k
            here, values_here = keys[in_group], z[in_group]
            of = [
                [g, least, most[g]]
                for g in range(1, keys.shape[1])
                for least in np.unique(here[:, g])[1:].tolist()
            ]
            if not of:
                continue
            members = np.array([here[:, g] >= least for g, least, _ in of], dtype=float)
            if pairs:  # with all that holds both of two classes whole, patterns mostly are
                one, two = np.triu_indices(len(of), 1)
                both = zip(one.tolist(), two.tolist(), strict=True)
                yield (
                    [[[0, k, k], of[i], of[j]] for i, j in both],
                    (members * values_here @ members.T)[one, two],
                )
            else:
                yield [[[0, k, k], each] for each in of], members @ values_here

    def _sets_of_nodes(self, keys: np.ndarray) -> Iterator[tuple[Spec, np.ndarray]]:
        """Nodes in use; tasks that leave a node; tasks that come to one."""
        _, kind, home, node, moved = keys.T
        for n in np.unique(node[kind == 2]).tolist():
            yield [[1, 2, 2], [3, n, n], [4, 1, 1]], (kind == 2) & (node == n) & (moved == 1)
        moved_away = (kind == 0) & (moved == 1)
        for i, of in ((2, home), (3, node)):
            for n in np.unique(of[moved_away]).tolist():
                yield [[1, 0, 0], [i, n, n], [4, 1, 1]], moved_away & (of == n)


def _in_cuts(columns: np.ndarray, cuts: Cuts) -> np.ndarray:
    """(cuts, columns) which columns each cut sums up."""
    return np.array([of_all[columns] for of_all, *_ in cuts])


def _stacked(matrix: Any, below: np.ndarray) -> Any:
    """Put rows below a dense or sparse matrix."""
    if isinstance(matrix, np.ndarray):
        return np.vstack([matrix, below])
    return vstack([matrix, csr_array(below)]).tocsr()


# The checker's model as arrays: doubles to search in, whole numbers of 64 bits to be exact in.
#
# What does not fit into 64 bits is reckoned by the checker's own sums, so that either is exact.


_SAFE = 2.0**62
_DENSE = 1_000_000
"""Entries up to which a matrix is dense: columns of a sparse one cost more than all the rest."""

Cuts = tuple[tuple[np.ndarray, frozenset[int], str, int], ...]
"""Of each what columns it sums up, as numbers of all columns and as a set; sense, right side."""


class Arrays:
    """Keys, gains and rows of a model, its groups standing as rows below its own.

    `keys`: (columns, width), or of no columns where keys differ in width.
    `gain`: in doubles.
    `most`: of each row the largest of its numbers, or 1.
    """

    def __init__(self, model: Model) -> None:
        self.model, columns = model, model.columns
        rows, many = len(model.rows), len(columns)
        keys = [key for key, _, _ in columns]
        self.group = np.fromiter((key[0] for key in keys), np.intp, many)
        self.keys = np.zeros((0, 1), int)
        width = {len(key) for key in keys}
        if len(width) == 1:
            flat = np.fromiter(chain.from_iterable(keys), np.int64, many * min(width))
            self.keys = flat.reshape(many, -1)
        gains, entries_of = [gain for _, gain, _ in columns], [entries for _, _, entries in columns]
        self.gain = np.array(gains, dtype=float)
        count = np.fromiter(map(len, entries_of), np.intp, many)
        total = int(count.sum())
        i = np.fromiter((i for i, _ in chain.from_iterable(entries_of)), np.intp, total)
        factors = [a for _, a in chain.from_iterable(entries_of)]
        a, j = np.array(factors, dtype=float), np.repeat(np.arange(many), count)
        below = (np.ones(many), (rows + self.group, np.arange(many)))
        shape = (rows + len(model.groups), many)
        at = (np.r_[i, below[1][0]], np.r_[j, below[1][1]])
        self._sparse: Any = csc_array((np.r_[a, below[0]], at), shape=shape)
        self.most = np.ones(rows)
        if rows and many:
            apart = csc_array((np.abs(a), (i, j)), shape=(rows, many))
            self.most = np.maximum(1.0, apart.max(axis=1).toarray().ravel())
        self._exact: Any = None
        if max(self.most.max(initial=1.0), np.abs(self.gain).max(initial=0.0)) < _SAFE:
            numbers = np.array(factors, dtype=np.int64)
            self._exact = csc_array((numbers, (i, j)), shape=(rows, many))
            self.whole_gain = np.array(gains, dtype=np.int64)
        self._dense: Any = None
        self._dense_exact: Any = None
        self._is_dense, self._place = np.zeros(many, dtype=bool), np.zeros(many, dtype=np.intp)
        self.narrow(np.arange(many))

    def narrow(self, columns: np.ndarray) -> None:
        """Keep some columns densely as well, if they are few: most cases are of these."""
        if self._sparse.shape[0] * len(columns) <= _DENSE and not self._is_dense[columns].any():
            self._is_dense[:] = False  # what was kept before has its place no longer
            self._is_dense[columns], self._place[columns] = True, np.arange(len(columns))
            self._dense = self._sparse[:, columns].toarray()
            self._dense_exact = None if self._exact is None else self._exact[:, columns].toarray()

    def of(self, columns: np.ndarray) -> Any:
        """Return the matrix of some columns: dense if they are stored so."""
        dense = self._is_dense[columns].all()
        return self._dense[:, self._place[columns]] if dense else self._sparse[:, columns]

    def _exact_of(self, columns: np.ndarray) -> Any:
        dense = self._is_dense[columns].all()
        return self._dense_exact[:, self._place[columns]] if dense else self._exact[:, columns]

    def value(
        self, multipliers: Sequence[int], over: int, columns: np.ndarray, cuts: Cuts
    ) -> tuple[int | None, Any]:
        """Return what `Model.value` does; how far columns are from it is a sequence of numbers."""
        rows = len(self.model.rows)
        of_rows, of_cuts = multipliers[:rows], multipliers[rows:]
        largest = sum(abs(y) * float(most) for y, most in zip(of_rows, self.most, strict=True))
        largest += sum(map(abs, of_cuts)) + over * float(np.abs(self.gain).max(initial=0.0))
        if self._exact is None or largest >= _SAFE or not len(columns):
            plain = tuple((entries, sense, right) for _, entries, sense, right in cuts)
            return self.model.value(list(multipliers), over, columns.tolist(), plain)
        rests = over * self.whole_gain[columns]
        rests -= self._exact_of(columns).T @ np.array(of_rows, dtype=np.int64)
        for y, (of_all, *_) in zip(of_cuts, cuts, strict=True):
            if y:
                rests -= y * of_all[columns].astype(np.int64)
        rights = [*(right for _, right in self.model.rows), *(right for *_, right in cuts)]
        total = sum(y * right for y, right in zip(multipliers, rights, strict=True))
        group = self.group[columns]
        top = np.full(len(self.model.groups), np.iinfo(np.int64).min)
        np.maximum.at(top, group, rests)
        there = np.zeros(len(top), dtype=bool)
        there[group] = True
        for of, size in enumerate(self.model.groups):
            if size and not there[of]:
                return None, []
            total += size and size * int(top[of])
        return total, rests - top[group]
