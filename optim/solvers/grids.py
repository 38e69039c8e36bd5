"""Steps on which continuous variables may move when a model becomes one of integers only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from optim.linear_arrays import LinearArrays

#: Powers of ten tried for an exact step.
MAX_DECIMALS = 9

#: A value is on a grid if it is this close to one of its points, relative to max(1, |value|).
ON_GRID = 1e-11


def exact_steps(
    arrays: LinearArrays, lower: NDArray[np.float64], upper: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return a step for every variable: 1 for integers, NaN where no exact step is known.

    Continuous variables that stand alone in their rows, or in pairs with opposite coefficients,
    form for fixed integers a system of difference constraints. Its matrix is totally unimodular, so
    if all right-hand sides lie on a grid, so does an optimal vertex: nothing is lost on the grid.
    This covers the load distance of a balance model and the products of a collocation model.

    Parameters
    ----------
    arrays
        The model.
    lower, upper
        Finite bounds of all variables.
    """
    steps = np.where(arrays.integrality, 1.0, np.nan)
    loose = np.flatnonzero(~arrays.integrality)
    if not loose.size:
        return steps
    component = _components(arrays, loose)
    decimals = np.zeros(int(component.max()) + 1, dtype=np.int64)
    _raise_to(decimals, component, _decimals(lower[loose]))
    _raise_to(decimals, component, _decimals(upper[loose]))
    _rows_decimals(arrays, loose, component, decimals)
    exact = decimals[component] <= MAX_DECIMALS
    steps[loose[exact]] = 10.0 ** -decimals[component[exact]].astype(np.float64)
    return steps


def _components(arrays: LinearArrays, loose: NDArray[np.intp]) -> NDArray[np.int64]:
    """Number of the connected group (through common rows) of every continuous variable."""
    from scipy.sparse.csgraph import connected_components

    part: csr_array = arrays.matrix[:, loose]
    together = (abs(part).T @ abs(part)).tocsr()
    _, labels = connected_components(together, directed=False)
    return labels.astype(np.int64)


def _rows_decimals(
    arrays: LinearArrays,
    loose: NDArray[np.intp],
    component: NDArray[np.int64],
    decimals: NDArray[np.int64],
) -> None:
    """Raise every group's number of decimals to what the rows of its variables need."""
    coo = arrays.matrix.tocoo()
    position = np.full(arrays.num_variables, -1)
    position[loose] = np.arange(len(loose))
    moving = position[coo.col] >= 0
    num = arrays.num_rows
    count = np.bincount(coo.row[moving], minlength=num)
    size = np.zeros(num)
    np.maximum.at(size, coo.row[moving], np.abs(coo.data[moving]))
    balance = np.abs(np.bincount(coo.row[moving], coo.data[moving], num))
    alike = np.abs(np.bincount(coo.row[moving], np.abs(coo.data[moving]), num) - count * size)
    plain = (count == 1) | ((count == 2) & (balance <= ON_GRID * size) & (alike <= ON_GRID * size))
    group = np.full(num, -1)
    group[coo.row[moving]] = component[position[coo.col[moving]]]
    touched = np.flatnonzero(count > 0)
    decimals[group[touched[~plain[touched]]]] = MAX_DECIMALS + 1
    fixed = ~moving & (group[coo.row] >= 0)
    _raise_to(decimals, group[coo.row[fixed]], _decimals(coo.data[fixed] / size[coo.row[fixed]]))
    for bound in (arrays.row_lower, arrays.row_upper):
        rows = touched[np.isfinite(bound[touched])]
        _raise_to(decimals, group[rows], _decimals(bound[rows] / size[rows]))


def _decimals(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Number of decimals every value has, `MAX_DECIMALS` + 1 for more."""
    wanted = np.full(len(values), MAX_DECIMALS + 1, dtype=np.int64)
    allowed = ON_GRID * np.maximum(1.0, np.abs(values))
    for k in range(MAX_DECIMALS, -1, -1):
        off = np.abs(values - np.round(values * 10.0**k) / 10.0**k)
        wanted[off <= allowed] = k
    return wanted


def _raise_to(
    decimals: NDArray[np.int64], group: NDArray[np.int64], wanted: NDArray[np.int64]
) -> None:
    np.maximum.at(decimals, group, wanted)
