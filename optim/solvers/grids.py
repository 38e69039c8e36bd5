"""Steps on which continuous variables may move when a model becomes one of integers only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from optim.solvers.linear_arrays import LinearArrays

#: Finest exact step tried.
MAX_DENOMINATOR = 10**9

#: A value is on a grid if it is this close to one of its points, relative to max(1, |value|).
ON_GRID = 1e-11

#: Odd parts of denominators: a mean over 60 nodes has steps of a third of a decimal.
_ODD = [q for q in range(1, 100) if q % 2 and q % 5]
_DENOMINATORS = sorted(q * 10**k for q in _ODD for k in range(10) if q * 10**k <= MAX_DENOMINATOR)


def exact_steps(arrays: LinearArrays) -> NDArray[np.float64]:
    """Return a step for every variable: 1 for integers, NaN where no exact step is known.

    Continuous variables that stand alone in their rows, or in pairs with opposite coefficients,
    form for fixed integers a system of difference constraints. Its matrix is totally unimodular, so
    if all right-hand sides lie on a grid, so does an optimal vertex: nothing is lost on the grid.
    This covers the load distance of a balance model and the products of a collocation model.

    Parameters
    ----------
    arrays
        The model. Infinite bounds do not matter: those that are found for them may be wide.
    """
    steps = np.where(arrays.integrality, 1.0, np.nan)
    loose = np.flatnonzero(~arrays.integrality)
    if not loose.size:
        return steps
    group = _groups(arrays, loose)
    values, of_group, spoilt = _values_on_grid(arrays, loose, group)
    for bound in (arrays.lower[loose], arrays.upper[loose]):
        given = np.isfinite(bound)
        values = np.concatenate([values, bound[given]])
        of_group = np.concatenate([of_group, group[given]])
    steps[loose] = _finest_needed(values, of_group, int(group.max()) + 1, spoilt)[group]
    return steps


def _groups(arrays: LinearArrays, loose: NDArray[np.intp]) -> NDArray[np.int64]:
    """Number of the connected group (through common rows) of every continuous variable."""
    from scipy.sparse.csgraph import connected_components

    part: csr_array = arrays.matrix[:, loose]
    together = (abs(part).T @ abs(part)).tocsr()
    _, labels = connected_components(together, directed=False)
    return labels.astype(np.int64)


def _values_on_grid(
    arrays: LinearArrays, loose: NDArray[np.intp], group: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the numbers that must lie on each group's grid, their groups, and groups without one.

    Rows are divided by the size of their continuous coefficients first.
    """
    coo = arrays.matrix.tocoo()
    position = np.full(arrays.num_variables, -1)
    position[loose] = np.arange(len(loose))
    moving = position[coo.col] >= 0
    rows, data, num = coo.row[moving], coo.data[moving], arrays.num_rows
    count = np.bincount(rows, minlength=num)
    size = np.zeros(num)
    np.maximum.at(size, rows, np.abs(data))
    balance = np.abs(np.bincount(rows, data, num))
    alike = np.abs(np.bincount(rows, np.abs(data), num) - count * size)
    opposite = (count == 2) & (balance <= ON_GRID * size) & (alike <= ON_GRID * size)
    row_group = np.full(num, -1)
    row_group[rows] = group[position[coo.col[moving]]]
    touched = np.flatnonzero(count > 0)
    spoilt = np.unique(row_group[touched[~((count == 1) | opposite)[touched]]])
    fixed = ~moving & (row_group[coo.row] >= 0)
    values, groups = [coo.data[fixed] / size[coo.row[fixed]]], [row_group[coo.row[fixed]]]
    for bound in (arrays.row_lower, arrays.row_upper):
        bounded = touched[np.isfinite(bound[touched])]
        values.append(bound[bounded] / size[bounded])
        groups.append(row_group[bounded])
    return np.concatenate(values), np.concatenate(groups), spoilt


def _finest_needed(
    values: NDArray[np.float64], group: NDArray[np.int64], num: int, spoilt: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Coarsest step of every group that all its values are multiples of; NaN for none."""
    steps = np.full(num, np.nan)
    open_ = np.ones(num, dtype=bool)
    open_[spoilt] = False
    for denominator in _DENOMINATORS:
        left = open_[group]
        values, group = values[left], group[left]
        off = np.abs(values - np.round(values * denominator) / denominator)
        failing = np.bincount(group, off > ON_GRID * np.maximum(1.0, np.abs(values)), num) > 0
        done = open_ & ~failing
        steps[done] = 1.0 / denominator
        open_ &= failing
        if not open_.any():
            break
    return steps
