"""Free-format MPS from arrays, for CBC's executable: 17 digits, written in bulk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optim.solvers.linear_arrays import LinearArrays


def column_order(arrays: LinearArrays) -> NDArray[np.intp]:
    """Order in which `mps_text` writes the columns: continuous ones first, then integers."""
    return np.argsort(arrays.integrality, kind="stable")


def kept_rows(arrays: LinearArrays) -> NDArray[np.intp]:
    """Rows that bind anything; free rows are not written."""
    return np.flatnonzero(np.isfinite(arrays.row_lower) | np.isfinite(arrays.row_upper))


def mps_text(arrays: LinearArrays, name: str = "model") -> str:
    """Write the model as a minimisation.

    Columns are named ``C<column>``, rows ``R<row>``. A maximisation is written with its costs
    negated, the constant as a last column ``ONE`` fixed to 1: readers disagree on both.
    """
    rows = kept_rows(arrays)
    lines = [f"NAME {name} FREE", "ROWS", " N obj"]
    kinds = _row_kinds(arrays)
    lines += [f" {kinds[i]} R{i}" for i in rows.tolist()]
    lines.append("COLUMNS")
    lines += _column_lines(arrays)
    lines.append("RHS")
    lower, upper = arrays.row_lower, arrays.row_upper
    right = np.where(np.isfinite(upper), upper, lower)
    filled = rows[right[rows] != 0]
    pairs = zip(filled.tolist(), right[filled].tolist(), strict=True)
    lines += [f" RHS R{i} {value!r}" for i, value in pairs]
    two_sided = rows[np.isfinite(lower[rows]) & np.isfinite(upper[rows])]
    ranged = two_sided[lower[two_sided] != upper[two_sided]]
    if ranged.size:
        lines.append("RANGES")
        widths = (upper[ranged] - lower[ranged]).tolist()
        lines += [f" RNG R{i} {w!r}" for i, w in zip(ranged.tolist(), widths, strict=True)]
    lines.append("BOUNDS")
    lines += _bound_lines(arrays)
    lines.append("ENDATA\n")
    return "\n".join(lines)


def _row_kinds(arrays: LinearArrays) -> list[str]:
    """``E`` equal, ``L`` with an upper bound (and perhaps a range below it), ``G`` the others."""
    equal = arrays.row_lower == arrays.row_upper
    return np.where(equal, "E", np.where(np.isfinite(arrays.row_upper), "L", "G")).tolist()


def _column_lines(arrays: LinearArrays) -> list[str]:
    order = column_order(arrays)
    num_continuous = int((~arrays.integrality).sum())
    cost = arrays.cost if arrays.sense == "min" else -arrays.cost
    parts = [_entries(arrays, cost, order[:num_continuous])]
    if num_continuous < len(order):
        parts.append([" M1 'MARKER' 'INTORG'"])
        parts.append(_entries(arrays, cost, order[num_continuous:]))
        parts.append([" M2 'MARKER' 'INTEND'"])
    if arrays.offset:
        parts.append([f" ONE obj {arrays.offset if arrays.sense == 'min' else -arrays.offset!r}"])
    return [line for part in parts for line in part]


def _entries(
    arrays: LinearArrays, cost: NDArray[np.float64], columns: NDArray[np.intp]
) -> list[str]:
    """All entries of some columns, each column's cost first (a column must not be missing)."""
    chosen: Any = arrays.matrix.tocsc()[:, columns] if len(columns) else None
    if chosen is None:
        return []
    coo = chosen.tocoo()
    bound = np.zeros(arrays.num_rows, dtype=bool)
    bound[kept_rows(arrays)] = True
    kept = bound[coo.row]
    positions = np.concatenate([np.arange(len(columns)), coo.col[kept]])
    row_ids = np.concatenate([np.full(len(columns), -1), coo.row[kept]])
    values = np.concatenate([cost[columns], coo.data[kept]])
    order = np.argsort(positions, kind="stable")
    names = [f"R{i}" for i in range(arrays.num_rows)]
    names.append("obj")  # row number -1
    texts, which = np.unique(values[order], return_inverse=True)
    table = [repr(value) for value in texts.tolist()]
    return [
        f" C{j} {names[i]} {table[k]}"
        for j, i, k in zip(
            columns[positions[order]].tolist(), row_ids[order].tolist(), which.tolist(), strict=True
        )
    ]


def _bound_lines(arrays: LinearArrays) -> list[str]:
    """Bounds of every column, spelled out: readers differ in the defaults of integers."""
    lines: list[str] = []
    bounds = zip(arrays.lower.tolist(), arrays.upper.tolist(), strict=True)
    infinite = float("inf")
    for j, (low, high) in enumerate(bounds):
        if low == high:
            lines.append(f" FX B C{j} {low!r}")
            continue
        if low == -infinite:
            lines.append(f" {'FR' if high == infinite else 'MI'} B C{j}")
        else:
            lines.append(f" LO B C{j} {low!r}")
        if high != infinite:
            lines.append(f" UP B C{j} {high!r}")
        elif low != -infinite:
            lines.append(f" PL B C{j}")
    if arrays.offset:
        lines.append(" FX B ONE 1.0")
    return lines
