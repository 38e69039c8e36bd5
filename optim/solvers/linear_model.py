"""A linear (mixed-integer) model made of arrays: blocks of variables, blocks of rows, triplets.

No object is made per variable, row or coefficient, so a model of a hundred thousand binaries costs
little more than its sparse matrix. `LinearModel.freeze` gives the arrays every back end reads.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from optim.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray
    from scipy.sparse import csr_array

Sense = Literal["min", "max"]

#: A bound `b` may be overstepped by `TOLERANCE * max(1, BOUND_SCALE * |b|)`: 1e-6 absolute or 1e-9
#: relative. In a row, its largest term counts like a bound. A row of numbers that are all below
#: `SMALLEST` may be overstepped by `TOLERANCE` of the largest.
TOLERANCE = 1e-6
BOUND_SCALE = 1e-3
SMALLEST = 1e-3

WHOLE = 1e-9  # How far solvers at best take an integer that is not whole for one.


class Row(NamedTuple):
    """A row ``Σ value · x ≤ upper``."""

    column: tuple[int, ...]
    value: tuple[float, ...]
    upper: float


@dataclass(frozen=True)
class LinearArrays:
    """The frozen model: ``cost @ x + offset`` s.t. ``row_lower <= matrix @ x <= row_upper``."""

    sense: Sense  # ``"min"`` or ``"max"``.
    #: Objective, shape (variables,), and its constant.
    cost: NDArray[np.float64]
    offset: float
    #: Bounds of the variables; those of integer variables are whole numbers or infinite.
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    integrality: NDArray[np.bool_]  # Bool, shape (variables,): which variables are integers.
    matrix: csr_array  # CSR, shape (rows, variables), duplicates summed, columns sorted.
    #: Bounds of the rows, ±inf where there is none.
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
        # 1e-9 · largest number > what the tighter bound may be overstepped by
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
        # rows w - x <= 0 of a product w and an integer x
        plain = (count == 2) & (self.row_upper == 0) & np.isneginf(self.row_lower)
        sums = np.bincount(coo.row, coo.data, self.num_rows) == 0
        alone = np.bincount(coo.row, self.integrality[coo.col], self.num_rows) == 1
        good |= (plain & sums & alone)[coo.row] & (coo.data == 1)
        # a column that is better the larger it is, everywhere, stands at 0 or 1 in some optimum
        not_whole = np.bincount(coo.col, ~good, self.num_variables) > 0
        gains = self.cost <= 0 if self.sense == "min" else self.cost >= 0
        product = ~self.integrality & ~not_whole & gains & (self.lower == 0) & (self.upper == 1)
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


@dataclass(frozen=True)
class VariableBlock:
    """A named block of variables with consecutive column numbers."""

    name: str  # Used in messages: ``place[3,17]``.
    start: int  # Column of the first variable.
    shape: tuple[int, ...]  # Shape of the block, row-major.
    #: What each variable is of, one index each (or one for all): ``{"task": …, "node": …}``.
    of: Mapping[str, Any] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Number of variables."""
        return math.prod(self.shape)

    @property
    def stop(self) -> int:
        """Column after the last variable."""
        return self.start + self.size

    @property
    def indices(self) -> NDArray[np.int64]:
        """Column numbers, in the block's shape."""
        return np.arange(self.start, self.stop, dtype=np.int64).reshape(self.shape)

    def values(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Cut this block out of a full solution vector, in the block's shape."""
        return x[self.start : self.stop].reshape(self.shape)


@dataclass(frozen=True)
class RowBlock:
    """A named block of rows with consecutive numbers, `start` … `start + size - 1`.

    `of` is as in `VariableBlock`.
    """

    name: str
    start: int
    size: int
    of: Mapping[str, Any] = field(default_factory=dict)

    @property
    def stop(self) -> int:
        """Row after the last one."""
        return self.start + self.size


_OF_COLUMNS = (np.float64, np.float64, np.bool_, np.float64)


class LinearModel:
    """A linear model under construction.

    Parameters
    ----------
    name
        Used in messages and files.
    sense
        ``"min"`` or ``"max"``.

    Examples
    --------
    >>> model = LinearModel("knapsack", sense="max")
    >>> x = model.add_variables("take", 3, upper=1.0, integer=True, objective=[6.0, 5.0, 4.0])
    >>> _ = model.add_rows("weight", -np.inf, 5.0, np.zeros(3, int), x.indices, [3.0, 2.0, 2.0])
    >>> model.freeze().num_rows
    1
    >>> model.violation(np.array([1.0, 1.0, 1.0]))
    2.0
    """

    def __init__(self, name: str, sense: Sense = "min") -> None:
        if sense not in ("min", "max"):
            raise InvalidInput(Problem("sense", sense, "is neither 'min' nor 'max'"))
        self.name = name
        self.sense: Sense = sense
        self.variable_blocks: list[VariableBlock] = []
        self.row_blocks: list[RowBlock] = []
        # of each block: bounds, integrality and costs; bounds of rows and triplets
        self._columns: list[tuple[NDArray[Any], ...]] = []
        self._rows: list[tuple[NDArray[Any], ...]] = []
        self._objective: list[tuple[NDArray[np.integer[Any]], NDArray[np.float64]]] = []
        self._offset = 0.0
        self._frozen: LinearArrays | None = None

    @property
    def num_variables(self) -> int:
        """Number of variables so far."""
        return self.variable_blocks[-1].stop if self.variable_blocks else 0

    @property
    def num_rows(self) -> int:
        """Number of rows so far."""
        return self.row_blocks[-1].stop if self.row_blocks else 0

    def add_variables(
        self,
        name: str,
        shape: int | Sequence[int],
        lower: ArrayLike = 0.0,
        upper: ArrayLike = math.inf,
        integer: ArrayLike = False,
        objective: ArrayLike = 0.0,
        of: Mapping[str, Any] | None = None,
    ) -> VariableBlock:
        """Add a block of variables; bounds, integrality and objective are scalars or arrays.

        Parameters
        ----------
        name
            Name of the block.
        shape
            Number of variables, or the shape of the block.
        lower, upper
            Bounds, ±inf for none.
        integer
            Which are integers.
        objective
            Coefficients in the objective.
        of
            What each variable is of, in the words of `optim.solvers.mps.model_names`.
        """
        dims = (int(shape),) if np.ndim(shape) == 0 else tuple(int(n) for n in shape)  # type: ignore[arg-type, union-attr]
        block = VariableBlock(name, self.num_variables, dims, of or {})
        self.variable_blocks.append(block)
        values = zip((lower, upper, integer, objective), _OF_COLUMNS, strict=True)
        self._columns.append(tuple(_spread(value, dims, kind) for value, kind in values))
        self._frozen = None
        return block

    def add_rows(
        self,
        name: str,
        lower: ArrayLike,
        upper: ArrayLike,
        rows: ArrayLike,
        cols: ArrayLike,
        values: ArrayLike,
        num_rows: int | None = None,
        of: Mapping[str, Any] | None = None,
    ) -> RowBlock:
        """Add a block of rows ``lower <= sum(values * x[cols]) <= upper`` from triplets.

        Parameters
        ----------
        name
            Name of the block.
        lower, upper
            Scalars or one a row, ±inf for none.
        rows
            Row of each triplet, counted from 0 within the block.
        cols, values
            Column and coefficient of each triplet; broadcast against `rows`. Triplets of the same
            place are summed.
        num_rows
            Number of rows; from the bounds or the highest row number if not given.
        of
            What each row is of, in the words of `optim.solvers.mps.model_names`.
        """
        row_ids, col_ids = np.asarray(rows), np.asarray(cols)
        coefficients = np.asarray(values, dtype=np.float64)
        # broadcast only where shapes differ: of a million triplets that is a copy saved
        if not row_ids.shape == col_ids.shape == coefficients.shape:
            row_ids, col_ids, coefficients = np.broadcast_arrays(row_ids, col_ids, coefficients)
        row_ids, col_ids = _whole(row_ids), _whole(col_ids)
        if num_rows is None:
            declared = max(np.size(lower), np.size(upper))
            highest = int(row_ids.max()) + 1 if row_ids.size else 0
            is_array = np.ndim(lower) > 0 or np.ndim(upper) > 0
            num_rows = declared if is_array else highest
        self._check_indices(name, row_ids, num_rows, "row")
        self._check_indices(name, col_ids, self.num_variables, "column")
        block = RowBlock(name, self.num_rows, num_rows, of or {})
        self.row_blocks.append(block)
        bounds = (_spread(bound, (num_rows,), np.float64) for bound in (lower, upper))
        self._rows.append((*bounds, row_ids.ravel(), col_ids.ravel(), coefficients.ravel()))
        self._frozen = None
        return block

    def add_sum(
        self,
        name: str,
        lower: ArrayLike,
        upper: ArrayLike,
        num_rows: int,
        *terms: tuple[ArrayLike, ArrayLike, ArrayLike],
        of: Mapping[str, Any] | None = None,
    ) -> RowBlock:
        """Add a block of rows ``lower <= sum of some terms <= upper``.

        Parameters
        ----------
        name, lower, upper, num_rows, of
            As for `add_rows`.
        terms
            Rows, columns and values of each, broadcast against each other.
        """
        parts = [[x.ravel() for x in np.broadcast_arrays(*term)] for term in terms]
        rows, cols, values = (np.concatenate(some) for some in zip(*parts, strict=True))
        return self.add_rows(name, lower, upper, rows, cols, values, num_rows, of)

    def add_matrix_rows(
        self, name: str, matrix: Any, lower: ArrayLike, upper: ArrayLike
    ) -> RowBlock:
        """Add ``lower <= matrix @ x <= upper``, `matrix` a sparse or dense (rows, columns) array.

        It may have fewer columns than the model has variables: it then spans the first ones.
        """
        from scipy.sparse import coo_array, issparse

        entries: Any = matrix if issparse(matrix) else np.asarray(matrix, dtype=np.float64)
        coo = coo_array(entries)
        return self.add_rows(name, lower, upper, coo.row, coo.col, coo.data, coo.shape[0])

    def set_objective(self, cols: ArrayLike, values: ArrayLike, offset: float = 0.0) -> None:
        """Add ``sum(values * x[cols]) + offset`` to the objective that the variables declared."""
        col_ids, coefficients = np.broadcast_arrays(
            np.asarray(cols), np.asarray(values, dtype=np.float64)
        )
        col_ids = _whole(col_ids)
        self._check_indices("objective", col_ids, self.num_variables, "column")
        self._objective.append((col_ids.ravel(), coefficients.ravel()))
        self._offset += float(offset)
        self._frozen = None

    def freeze(self) -> LinearArrays:
        """Return the model as arrays (cached until something is added).

        Raises
        ------
        InvalidInput
            A coefficient is not finite, or a bound is NaN.
        """
        if self._frozen is None:
            self._frozen = self._assemble()
        return self._frozen

    def objective_of(self, x: NDArray[np.float64]) -> float:
        """Objective of `x`, offset included."""
        return self.freeze().objective_of(np.asarray(x, dtype=np.float64))

    def violation(self, x: NDArray[np.float64]) -> float:
        """Largest scaled violation of a bound, a row or integrality; ≤ `TOLERANCE` is feasible."""
        return self.worst_violation(x)[0]

    def worst_violation(self, x: NDArray[np.float64]) -> tuple[float, str]:
        """Return the largest scaled violation and the name of the row or variable it is in."""
        x = np.asarray(x, dtype=np.float64)
        if x.shape != (self.num_variables,):
            return math.inf, f"vector of shape {x.shape} for {self.num_variables} variables"
        by_variable, by_row = self.freeze().violations(x)
        j = int(by_variable.argmax()) if by_variable.size else -1
        i = int(by_row.argmax()) if by_row.size else -1
        in_variable = float(by_variable[j]) if j >= 0 else 0.0
        in_row = float(by_row[i]) if i >= 0 else 0.0
        if in_row > in_variable:
            return in_row, self.row_name(i)
        return in_variable, self.variable_name(j) if j >= 0 else ""

    def variable_name(self, column: int) -> str:
        """Name of a column: block and index within it, ``place[3,17]``."""
        block = _find(self.variable_blocks, column)
        place = np.unravel_index(column - block.start, block.shape) if block.shape else ()
        return f"{block.name}[{','.join(str(int(k)) for k in place)}]"

    def row_name(self, row: int) -> str:
        """Name of a row: block and number within it, ``capacity[4]``."""
        block = _find(self.row_blocks, row)
        return f"{block.name}[{row - block.start}]"

    def _assemble(self) -> LinearArrays:
        lower, upper, integrality, cost = (
            _joined([block[k] for block in self._columns], kind)
            for k, kind in enumerate(_OF_COLUMNS)
        )
        for cols, values in self._objective:
            np.add.at(cost, cols, values)
        # the slack keeps 2.9999999999 (a rounding error of 3) from becoming 2
        lower = np.where(integrality, np.ceil(lower - 1e-9), lower) + 0.0
        upper = np.where(integrality, np.floor(upper + 1e-9), upper) + 0.0
        row_lower, row_upper = (_joined([b[k] for b in self._rows], np.float64) for k in (0, 1))
        matrix = self._matrix()
        self._check_numbers(cost, matrix.data, (lower, upper, row_lower, row_upper))
        arrays = (cost, lower, upper, integrality, row_lower, row_upper)
        for array in (*arrays, matrix.data, matrix.indices, matrix.indptr):
            array.setflags(write=False)
        return LinearArrays(
            self.sense, cost, self._offset, lower, upper, integrality, matrix, row_lower, row_upper
        )

    def _matrix(self) -> csr_array:
        """Sum all triplets into one CSR matrix, row numbers shifted from block to model."""
        from scipy.sparse import coo_array, csr_array

        total = sum(values.size for *_, values in self._rows)
        rows = np.empty(total, dtype=np.int32)
        cols = np.empty(total, dtype=np.int32)
        values = np.empty(total, dtype=np.float64)
        at = 0
        parts = zip(self.row_blocks, self._rows, strict=True)
        for block, (_, _, row_part, col_part, value_part) in parts:
            here = slice(at, at + row_part.size)
            np.add(row_part, block.start, out=rows[here], casting="unsafe")
            cols[here] = col_part
            values[here] = value_part
            at = here.stop
        shape = (self.num_rows, self.num_variables)
        matrix = csr_array(coo_array((values, (rows, cols)), shape=shape))
        matrix.sum_duplicates()
        return matrix

    def _check_indices(self, name: str, ids: NDArray[Any], count: int, kind: str) -> None:
        if ids.size and (int(ids.min()) < 0 or int(ids.max()) >= count):
            wrong = int(ids.min()) if int(ids.min()) < 0 else int(ids.max())
            reason = f"is not a {kind} number of 0 … {count - 1}"
            raise InvalidInput(Problem(f"{self.name}.{name}", wrong, reason))

    def _check_numbers(
        self, cost: NDArray[np.float64], data: NDArray[np.float64], bounds: Sequence[NDArray[Any]]
    ) -> None:
        finite = np.isfinite(cost).all() and np.isfinite(data).all() and math.isfinite(self._offset)
        if not finite or any(np.isnan(part).any() for part in bounds):
            raise InvalidInput(
                Problem(self.name, None, "has a coefficient or bound that is not a finite number")
            )


def _spread(value: ArrayLike, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Broadcast a scalar or array to a block's shape and flatten it."""
    return np.array(np.broadcast_to(np.asarray(value, dtype=dtype), shape)).ravel()


def _joined(parts: list[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.empty(0, dtype=dtype)


def _whole(ids: NDArray[Any]) -> NDArray[Any]:
    """Refuse float or bool index arrays, except empty ones (``np.asarray([])`` is float)."""
    if ids.size == 0:
        return ids.astype(np.int64)
    if not np.issubdtype(ids.dtype, np.integer):
        raise InvalidInput(Problem("indices", str(ids.dtype), "are not of an integer type"))
    return ids


def _find(blocks: Sequence[Any], number: int) -> Any:
    at = bisect_right(blocks, number, key=lambda block: block.start) - 1
    while blocks[at].start == blocks[at].stop and at > 0:  # empty blocks share their start
        at -= 1
    return blocks[at]
