"""Rows brought into the range of numbers that floating-point solvers keep tolerances in.

A solver lets a row be overstepped by some 1e-7, whatever its numbers. On loads of 1e9 that is less
than the rounding of a sum: optima and feasible plans get lost. Such rows are divided by a power of
two, which changes no digit, and rows of numbers that are all small, which are less than that
tolerance, multiplied by one; all other rows stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from optim.solvers.linear_model import BOUND_SCALE, SMALLEST, TOLERANCE, LinearArrays, Row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from scipy.sparse import coo_array

    from optim.solvers.linear_model import LinearArrays


#: Largest number of a row after the division. A solver's tolerance on it, 1e-6 at most, is then the
#: billionth that our check and the referee allow.
LARGEST = 1e3

_ROUNDS = 2  # What a row excludes no longer counts for its tolerance, which may exclude more.


def conditioned(arrays: LinearArrays) -> LinearArrays:
    """Return the model with its rows of large, or small, numbers times powers of two.

    Variables, objective and solutions are the same. Integers which alone would overstep such a row
    get tighter bounds, and do not count for its size: a load of 1e9 that fits nowhere near a room
    of 5 must not make the room a matter of tolerances.
    """
    size = arrays.row_sizes
    if not ((size > LARGEST) | ((size > 0) & (size < SMALLEST))).any():
        return arrays
    row = np.repeat(np.arange(arrays.num_rows), np.diff(arrays.matrix.indptr))
    tightened = _without_idle(without_impossible(arrays))
    size = tightened.row_sizes
    divided, small = size > LARGEST, (size > 0) & (size < SMALLEST)
    factor = np.ones(arrays.num_rows)
    # powers of two change exponents alone: no number is rounded
    factor[divided] = 2.0 ** -np.ceil(np.log2(size[divided] / LARGEST))
    factor[small] = 2.0 ** -np.floor(np.log2(size[small]))
    matrix = arrays.matrix.copy()
    matrix.data = matrix.data * factor[row]
    return replace(
        tightened,
        matrix=matrix,
        row_lower=tightened.row_lower * factor,
        row_upper=tightened.row_upper * factor,
    )


def without_impossible(arrays: LinearArrays) -> LinearArrays:
    """Return the model with tighter bounds of integers that alone overstep a row of large numbers.

    Bounds that cross are left to the solver, which then finds the model infeasible.
    """
    for _ in range(_ROUNDS):
        lower, upper = _possible(arrays, arrays.row_sizes)
        arrays = replace(arrays, lower=lower, upper=upper)
    return arrays


def _without_idle(arrays: LinearArrays) -> LinearArrays:
    """Return the model without bounds of large rows that nothing oversteps by more than rounding.

    CBC calls models infeasible that have ``1.46e9 x + 0.0015 y <= 1.46e9``.
    """
    coo = arrays.matrix.tocoo()
    large = arrays.row_sizes > LARGEST
    least, most = _extremes(coo, arrays.lower, arrays.upper)
    bounds = []
    for sign, bound, part in ((1.0, arrays.row_upper, most), (-1.0, -arrays.row_lower, -least)):
        reach = np.bincount(coo.row, part, arrays.num_rows)
        grant = TOLERANCE * np.maximum(1.0, BOUND_SCALE * np.abs(bound))
        bounds.append(sign * np.where(large & (reach <= bound + grant / 2), np.inf, bound))
    return replace(arrays, row_upper=bounds[0], row_lower=bounds[1])


def _possible(
    arrays: LinearArrays, size: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the bounds without the integers that a large row, with its tolerance, excludes."""
    coo = arrays.matrix.tocoo()
    least, most = _extremes(coo, arrays.lower, arrays.upper)
    slack = TOLERANCE * np.maximum(1.0, BOUND_SCALE * size)
    # a·x <= upper - least that the others come to, so x <= that / a (a > 0), or x >= it (a < 0)
    above = (arrays.row_upper + slack)[coo.row] - _others(coo, least, arrays.num_rows)
    below = (arrays.row_lower - slack)[coo.row] + _others(coo, -most, arrays.num_rows)
    used = (size > LARGEST)[coo.row] & (coo.data != 0) & arrays.integrality[coo.col]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        above, below = above / coo.data, below / coo.data
    high = np.where(coo.data > 0, above, below)
    low = np.where(coo.data > 0, below, above)
    lower, upper = arrays.lower.copy(), arrays.upper.copy()
    bounding = used & np.isfinite(high)
    np.minimum.at(upper, coo.col[bounding], np.floor(high[bounding] + 1e-9))
    bounding = used & np.isfinite(low)
    np.maximum.at(lower, coo.col[bounding], np.ceil(low[bounding] - 1e-9))
    crossed = lower > upper
    lower[crossed], upper[crossed] = arrays.lower[crossed], arrays.upper[crossed]
    return lower, upper


def _others(coo: coo_array, least: NDArray[np.float64], num_rows: int) -> NDArray[np.float64]:
    """For every entry: the sum of its row's `least` contributions without its own."""
    finite = np.isfinite(least)
    total = np.bincount(coo.row, np.where(finite, least, 0.0), num_rows)
    missing = np.bincount(coo.row, ~finite, num_rows)
    rest = total[coo.row] - np.where(finite, least, 0.0)
    return np.where(missing[coo.row] - ~finite > 0, -np.inf, rest)


def _extremes(
    coo: coo_array, lower: NDArray[np.float64], upper: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Least and greatest contribution of every entry to its row."""
    with np.errstate(invalid="ignore"):
        at_lower, at_upper = coo.data * lower[coo.col], coo.data * upper[coo.col]
    at_lower, at_upper = (
        np.nan_to_num(at_lower, nan=0.0, posinf=np.inf, neginf=-np.inf),
        (np.nan_to_num(at_upper, nan=0.0, posinf=np.inf, neginf=-np.inf)),
    )
    positive = coo.data > 0
    return np.where(positive, at_lower, at_upper), np.where(positive, at_upper, at_lower)


# Rows whose numbers lie too far apart for solvers, replaced by what follows from them exactly.
#
# In ``10¹² a − 10¹² b + 3 c + 4 d ≤ 5`` a solver does not see c and d: an `a` that is whole within
# 1e-9, as solvers take it, moves the row by a thousand. Such rows of 0-1 variables are not passed.
# What is, follows from them in exact arithmetic and has numbers that solvers distinguish:
#
# * the row with coefficients that are no larger than what makes it redundant;
# * where that is not enough, the row in steps of 1e-5 of its largest number, rounded down;
# * and whatever vector breaks the row all the same is cut off, with all others that break it for
#   the same reason: of the terms that are too much together (a *cover*), not all. Then the model
#   is solved again.
#
# So that a model is infeasible, and every bound, rests on rows in which a solver sees each number.
#
# Source: E. Balas, "Facets of the knapsack polytope", Mathematical Programming 8 (1975).


_STEPS = 10**5  # Largest coefficient of a row in steps.


class Knapsack(NamedTuple):
    """One side of a row: ``Σ weight · literal ≤ room``, with weights above 0, largest first.

    A literal is a variable of 0 or 1, or, where it is `negated`, one less the variable.
    """

    column: tuple[int, ...]
    negated: tuple[bool, ...]
    weight: tuple[Fraction, ...]
    room: Fraction

    def holds(self, x: NDArray[np.float64]) -> list[int]:
        """Return which literals are 1."""
        return [i for i, j in enumerate(self.column) if (x[j] < 0.5) == self.negated[i]]

    def cover(self, x: NDArray[np.float64]) -> list[int] | None:
        """Return literals that are 1 and too much together, none to spare; else ``None``."""
        some = self.holds(x)
        above = sum((self.weight[i] for i in some), Fraction(0)) - self.room
        if above <= 0:
            return None
        for i in reversed(some):  # the smallest first
            # minimal: without any of the others the rest would fit
            if self.weight[i] < above:
                above -= self.weight[i]
                some = [k for k in some if k != i]
        return some

    def row(self, weight: tuple[Fraction, ...], room: Fraction) -> Row:
        """Write literals as variables."""
        signed = [-w if no else w for w, no in zip(weight, self.negated, strict=True)]
        taken = sum((w for w, no in zip(weight, self.negated, strict=True) if no), Fraction(0))
        used = [(j, float(w)) for j, w in zip(self.column, signed, strict=True) if w]
        return Row(tuple(j for j, _ in used), tuple(w for _, w in used), float(room - taken))

    def rows(self) -> Iterator[Row]:
        """Yield rows that follow and whose numbers are near each other."""
        ones = tuple(Fraction(int(w > self.room)) for w in self.weight)
        if self.room < 0:
            # no literals keep it: Σ literals <= -1 is infeasible, in numbers that a solver sees
            yield self.row((Fraction(1),) * len(self.weight), Fraction(-1))
            return
        if any(ones):  # too much alone
            yield self.row(ones, Fraction(0))
        weight, room = self._reduced()
        largest = max(weight, default=Fraction(0))
        if not largest:
            return
        if largest <= _STEPS * min(w for w in weight if w):
            step = largest / int(LARGEST)
            yield self.row(tuple(w / step for w in weight), room / step)
            return
        # weights rounded down and the room rounded down, both in steps: implied by the row
        step, unit = largest / _STEPS, Fraction(int(LARGEST), _STEPS)
        yield self.row(tuple((w // step) * unit for w in weight), (room // step) * unit)

    def _reduced(self) -> tuple[tuple[Fraction, ...], Fraction]:
        """Lower weights without a change to what keeps the row; those above the room are left out.

        Where the others fit together whatever they are, a literal that is 0 leaves room over: as
        much is taken off its weight and off the room.
        """
        weight = [w if w <= self.room else Fraction(0) for w in self.weight]
        room, total = self.room, sum(weight, Fraction(0))
        if total <= room:
            return (), room
        for i, w in enumerate(weight):
            over = room - (total - w)
            if over > 0:
                weight[i], room, total = w - over, room - over, total - over
        return tuple(weight), room


@dataclass
class Apart:
    """A model without its rows of numbers too far apart, and these."""

    arrays: LinearArrays  # What is passed to a solver: other rows, and what follows from those.
    kept: list[Knapsack]  # The rows that are not.
    cuts: int = 0  # How many covers were added.

    def cut_off(self, x: NDArray[np.float64]) -> bool:
        """Add covers that a vector of whole integers holds; return whether there are any."""
        rows = []
        for each in self.kept:
            cover = each.cover(x)
            if cover is not None:
                chosen = set(cover)
                ones = tuple(Fraction(int(i in chosen)) for i in range(len(each.column)))
                rows.append(each.row(ones, Fraction(len(cover) - 1)))
        self.arrays = self.arrays.with_rows(rows)
        self.cuts += len(rows)
        return bool(rows)


def apart(arrays: LinearArrays) -> Apart | None:
    """Take the rows out of a model whose numbers lie too far apart; ``None`` where there is none.

    Rows with variables that are not 0 or 1 stay: with the integers fixed, the others can follow.
    """
    if not arrays.far_apart.any():
        return None
    arrays = without_impossible(replace(arrays, integrality=arrays.whole_columns))
    far = arrays.far_apart
    knapsacks, separated = [], np.zeros(arrays.num_rows, dtype=np.bool_)
    for i in np.flatnonzero(far).tolist():
        sides = _sides(arrays, i)
        if sides is not None:
            knapsacks += sides
            separated[i] = True
    if not separated.any():
        return None
    rest = replace(
        arrays,
        matrix=arrays.matrix[~separated],
        row_lower=arrays.row_lower[~separated],
        row_upper=arrays.row_upper[~separated],
    )
    return Apart(rest.with_rows([row for each in knapsacks for row in each.rows()]), knapsacks)


def _sides(arrays: LinearArrays, i: int) -> list[Knapsack] | None:
    """Return the bounds of a row as knapsacks; ``None`` with variables that are not 0 or 1."""
    if not arrays.exact_rows[i]:
        return None
    begin, end = arrays.matrix.indptr[i : i + 2]
    columns = arrays.matrix.indices[begin:end]
    lower, upper = arrays.lower[columns], arrays.upper[columns]
    fixed = lower == upper
    if not (fixed | ((lower == 0) & (upper == 1))).all():
        return None
    knapsacks = []
    for sign, bound in ((1, arrays.row_upper[i]), (-1, arrays.row_lower[i])):
        if not np.isfinite(bound):
            continue
        # by so much a row of whole numbers may be overstepped, and no more
        room = sign * Fraction(float(bound)) + Fraction(
            TOLERANCE * max(1.0, BOUND_SCALE * abs(bound)) / 2
        )
        terms = []
        entries = zip(columns, arrays.matrix.data[begin:end], lower, fixed, strict=True)
        for j, value, low, is_fixed in entries:
            weight = sign * Fraction(float(value))
            if is_fixed:
                room -= weight * Fraction(float(low))
            elif weight < 0:
                room -= weight
                terms.append((-weight, int(j), True))
            elif weight > 0:
                terms.append((weight, int(j), False))
        terms.sort(key=lambda term: (-term[0], term[1]))
        knapsacks.append(
            Knapsack(
                tuple(j for _, j, _ in terms), tuple(no for *_, no in terms),
                tuple(w for w, *_ in terms), room,
            )
        )  # fmt: skip
    return knapsacks
