"""A frozen linear model as arrays: what every back end reads, and the check of a solution."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

Sense = Literal["min", "max"]

#: A bound `b` may be overstepped by `TOLERANCE * max(1, BOUND_SCALE * |b|)`: 1e-6 absolute or 1e-9
#: relative. In a row, its largest term counts like a bound. A row of numbers that are all below
#: `SMALLEST` may be overstepped by `TOLERANCE` of the largest.
TOLERANCE = 1e-6
BOUND_SCALE = 1e-3
SMALLEST = 1e-3

#: How far solvers at best take an integer that is not whole for one.
WHOLE = 1e-9


class Row(NamedTuple):
    """A row ``Σ value · x ≤ upper``."""

    column: tuple[int, ...]
    value: tuple[float, ...]
    upper: float


@dataclass(frozen=True)
class LinearArrays:
    """The frozen model: ``cost @ x + offset`` s.t. ``row_lower <= matrix @ x <= row_upper``.

    Attributes
    ----------
    sense
        ``"min"`` or ``"max"``.
    cost, offset
        Objective, shape (variables,), and its constant.
    lower, upper
        Bounds of the variables; those of integer variables are whole numbers or infinite.
    integrality
        Bool, shape (variables,): which variables are integers.
    matrix
        CSR, shape (rows, variables), duplicates summed, columns sorted.
    row_lower, row_upper
        Bounds of the rows, ±inf where there is none.
    """

    sense: Sense
    cost: NDArray[np.float64]
    offset: float
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    integrality: NDArray[np.bool_]
    matrix: csr_array
    row_lower: NDArray[np.float64]
    row_upper: NDArray[np.float64]

    @property
    def num_variables(self) -> int:
        """Number of columns."""
        return len(self.cost)

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return len(self.row_lower)

    @cached_property
    def has_integers(self) -> bool:
        """Whether any variable is an integer."""
        return bool(self.integrality.any())

    @cached_property
    def row_sizes(self) -> NDArray[np.float64]:
        """Largest number of each row: finite bounds, coefficients of variables not fixed at 0."""
        size = np.zeros(self.num_rows)
        row = np.repeat(np.arange(self.num_rows), np.diff(self.matrix.indptr))
        used = (self.lower != 0) | (self.upper != 0)
        np.maximum.at(size, row, np.abs(self.matrix.data) * used[self.matrix.indices])
        for bound in (self.row_lower, self.row_upper):
            np.maximum(size, np.where(np.isfinite(bound), np.abs(bound), 0.0), out=size)
        return size

    @cached_property
    def far_apart(self) -> NDArray[np.bool_]:
        """Rows whose numbers are too far apart for solvers.

        An integer that is whole within 1e-9, as solvers take it, moves such a row by more than it
        may be overstepped.
        """
        bounds = (self.row_lower, self.row_upper)
        least = np.minimum(*(np.where(np.isfinite(b), np.abs(b), np.inf) for b in bounds))
        allowed = np.maximum(1.0, BOUND_SCALE * np.where(np.isfinite(least), least, 0.0))
        return self.row_sizes * WHOLE > TOLERANCE * allowed

    @cached_property
    def exact_rows(self) -> NDArray[np.bool_]:
        """Such rows of whole columns alone, which are added up exactly."""
        if not self.far_apart.any():
            return self.far_apart
        count = np.diff(self.matrix.indptr)
        row = np.repeat(np.arange(self.num_rows), count)
        whole = np.bincount(row, self.whole_columns[self.matrix.indices], self.num_rows)
        return np.asarray(self.far_apart & (whole == count))

    @cached_property
    def whole_columns(self) -> NDArray[np.bool_]:
        """Integers and, where rows have numbers too far apart, what is 0 or 1 in some optimum.

        These are products: variables up to 1 which are bounded from above by integers alone
        (``w <= x``) and which, the larger they are, do rows and the objective good.
        """
        if not self.far_apart.any():
            return self.integrality
        coo = self.matrix.tocoo()
        count = np.diff(self.matrix.indptr)
        upper, lower = np.isfinite(self.row_upper)[coo.row], np.isfinite(self.row_lower)[coo.row]
        good = np.where(coo.data < 0, ~lower, ~upper) | (coo.data == 0)
        plain = (count == 2) & (self.row_upper == 0) & np.isneginf(self.row_lower)
        sums = np.bincount(coo.row, coo.data, self.num_rows) == 0
        alone = np.bincount(coo.row, self.integrality[coo.col], self.num_rows) == 1
        good |= (plain & sums & alone)[coo.row] & (coo.data == 1)
        bad = np.bincount(coo.col, ~good, self.num_variables) > 0
        gains = self.cost <= 0 if self.sense == "min" else self.cost >= 0
        product = ~self.integrality & ~bad & gains & (self.lower == 0) & (self.upper == 1)
        return np.asarray(self.integrality | product)

    def with_rows(self, rows: list[Row]) -> LinearArrays:
        """Return the model with further rows."""
        from scipy.sparse import csr_array, vstack

        if not rows:
            return self
        indptr = np.cumsum([0, *(len(row.column) for row in rows)])
        columns = np.array([j for row in rows for j in row.column], dtype=np.int32)
        values = np.array([v for row in rows for v in row.value], dtype=np.float64)
        more = csr_array((values, columns, indptr), shape=(len(rows), self.num_variables))
        more.sort_indices()
        return replace(
            self,
            matrix=csr_array(vstack([self.matrix, more], format="csr")),
            row_lower=np.concatenate([self.row_lower, np.full(len(rows), -np.inf)]),
            row_upper=np.concatenate([self.row_upper, [row.upper for row in rows]]),
        )

    def objective_of(self, x: NDArray[np.float64]) -> float:
        """Objective of `x`, offset included, in the model's own sense."""
        return float(self.cost @ x) + self.offset

    def violations(self, x: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return how far `x` oversteps each variable (bounds, integrality) and each row, scaled.

        The amounts are divided by ``max(1, BOUND_SCALE * size)``; up to `TOLERANCE` is none. The
        size is that of the bound or, in a row, of its largest term if that is larger: in
        ``loads <= 1e9 * open`` the bound is 0, but a billionth of 1e9 is rounding all the same. In
        rows that can be added up exactly it is none.
        """
        with np.errstate(invalid="ignore", over="ignore"):
            by_variable = _overstep(x, self.lower, self.upper)
            whole = np.where(self.integrality, np.abs(x - np.round(x)), 0.0)
            value, terms = self.matrix @ x, self._largest_terms(x)
            if self.exact_rows.any():
                terms = np.where(self.exact_rows, 0.0, terms)
                for i in np.flatnonzero(self.exact_rows).tolist():
                    some = slice(*self.matrix.indptr[i : i + 2])
                    value[i] = math.fsum(self.matrix.data[some] * x[self.matrix.indices[some]])
            by_row = _overstep(value, self.row_lower, self.row_upper, terms)
        size = self.row_sizes
        small = (size > 0) & (size < SMALLEST)
        by_row[small] /= size[small]
        np.maximum(by_variable, whole, out=by_variable)
        by_variable[~np.isfinite(x)] = math.inf
        by_row[np.isnan(by_row)] = math.inf
        return by_variable, by_row

    def _largest_terms(self, x: NDArray[np.float64]) -> NDArray[np.float64] | float:
        """Size of the largest term of each row; 0 where none is large enough to matter."""
        terms = np.abs(self.matrix.data * x[self.matrix.indices])
        if not terms.max(initial=0.0) * BOUND_SCALE > 1.0 or not np.isfinite(x).all():
            return 0.0
        largest = np.zeros(self.num_rows)
        rows = np.repeat(np.arange(self.num_rows), np.diff(self.matrix.indptr))
        np.maximum.at(largest, rows, terms)
        return largest


def _overstep(
    value: NDArray[np.float64],
    lower: NDArray[np.float64],
    upper: NDArray[np.float64],
    size: NDArray[np.float64] | float = 0.0,
) -> NDArray[np.float64]:
    """Scaled amount by which `value` lies outside its bounds, 0 inside."""
    below = (lower - value) / np.maximum(1.0, BOUND_SCALE * np.maximum(np.abs(lower), size))
    above = (value - upper) / np.maximum(1.0, BOUND_SCALE * np.maximum(np.abs(upper), size))
    below[np.isneginf(lower)] = 0.0
    above[np.isposinf(upper)] = 0.0
    return np.maximum(0.0, np.maximum(below, above))
