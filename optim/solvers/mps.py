"""Linear models as free-format MPS: for CBC's executable in bulk, for readers with names.

Written is a minimisation: a maximisation has its costs negated, and the constant of the objective
is a last column ``ONE`` fixed to 1, as readers disagree on both.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import InvalidInput, Problem
from optim.util.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.solvers.linear_model import LinearArrays, LinearModel, RowBlock, VariableBlock

    Ids = Mapping[str, Sequence[str]]

SUFFIXES = (".mps", ".lp")  # Kinds of files that a model is written to.

_UNSAFE = re.compile(r"[^\w.,/#()\[\]{}~!@&;'|%?-]")
"""What ends a name or is an operator to some reader."""
_ALIKE = str.maketrans("-+[] >/", "_______")
"""PuLP reads these as an underscore: names that differ in nothing else would be one."""


@dataclass(frozen=True)
class PosedModel:
    """A method's linear model of an instance, to be written."""

    model: LinearModel  # Of the method's first level.
    objective: str  # What the objective is, in words of results.
    factor: float = 1.0  # The objective in the instance's units is the model's times this.
    #: Ids of kinds that are no tasks, nodes, resources or links.
    ids: Ids = field(default_factory=dict)


def check_path(path: str | Path) -> None:
    """Refuse a file name that says no format.

    Raises `InvalidInput`: it ends neither in ``.mps`` nor in ``.lp``.
    """
    if Path(path).suffix.lower() not in SUFFIXES:
        reason = "ends in neither .mps nor .lp, which say the format"
        raise InvalidInput(Problem("--write-model", str(path), reason, "name it FILE.mps"))


def write_model(path: str | Path, posed: PosedModel, instance: Instance, method: str) -> None:
    """Write a model with named rows and columns, whole or not at all.

    `path`: ends in ``.mps``, or in ``.lp``, which PuLP writes.
    `posed`, `instance`, `method`: the model; what it is of, and by which method.
    Raises `InvalidInput`: the name says no format, or the file cannot be written.
    """
    check_path(path)
    model, factor = posed.model, posed.factor
    arrays = model.freeze()
    least = (arrays.sense == "min") == (factor > 0)
    objective = f"{posed.objective}: {'smallest' if least else 'largest, written as its negative'}"
    arrays = replace(
        arrays, sense="min" if least else "max", cost=factor * arrays.cost + 0.0,
        offset=factor * arrays.offset,
    )  # fmt: skip
    tasks, nodes = instance.tasks.ids, instance.nodes.ids
    other_ids = {"resource": instance.resources, "link": instance.links.ids, **posed.ids}
    columns, rows = model_names(model, {"task": tasks, "other": tasks, "node": nodes, **other_ids})
    arrays, rows = _one_sided(arrays, rows)
    name = _UNSAFE.sub("_", instance.name) or "model"
    text = mps_text(arrays, name, columns, rows, (f"{method} of {instance.name!r}", objective))
    write_atomic(path, text if Path(path).suffix.lower() == ".mps" else _as_lp(text))


def model_names(model: LinearModel, ids: Ids) -> tuple[list[str], list[str]]:
    """Return the names of all columns and rows, as ``x[count/3,n2]``; none is there twice.

    `model`: its blocks say what each variable and row is of: a kind, and an index.
    `ids`: ids of each kind; of others the index is written.
    """
    return tuple(  # type: ignore[return-value]
        _unique([name for block in blocks for name in _names(block, ids)])
        for blocks in (model.variable_blocks, model.row_blocks)
    )


def _names(block: VariableBlock | RowBlock, ids: Ids) -> list[str]:
    """Return the names of one block."""
    size = block.stop - block.start
    of: Mapping[str, Any] = block.of
    shape = getattr(block, "shape", (size,))
    if not of and size == 1:
        return [block.name]
    if not of:
        of = dict(enumerate(np.unravel_index(np.arange(size), shape)))  # type: ignore[arg-type]
    parts = []
    for kind, index in of.items():
        each = np.broadcast_to(np.asarray(index), shape).ravel().tolist()
        names = ids.get(kind)
        parts.append(list(map(str, each)) if names is None else [names[i] for i in each])
    return [f"{block.name}[{','.join(part)}]" for part in zip(*parts, strict=True)]


def _unique(names: list[str]) -> list[str]:
    """Make names safe, and number those that readers could not distinguish."""
    names = [_UNSAFE.sub("_", name) for name in names]
    seen: set[str] = set()
    for i, name in enumerate(names):
        new, more = name, 1
        # compared as PuLP reads them
        while (key := new.translate(_ALIKE)) in seen:
            more += 1
            new = f"{name}~{more}"
        seen.add(key)
        names[i] = new
    return names


def _one_sided(arrays: LinearArrays, names: list[str]) -> tuple[LinearArrays, list[str]]:
    """Write rows of two different bounds as two rows: PuLP reads no ``RANGES``."""
    lower, upper = arrays.row_lower, arrays.row_upper
    both = np.flatnonzero(np.isfinite(lower) & np.isfinite(upper) & (lower != upper))
    if not len(both):
        return arrays, names
    from scipy.sparse import csr_array, vstack

    more = np.full(len(both), np.inf)
    return replace(
        arrays,
        matrix=csr_array(vstack([arrays.matrix, arrays.matrix[both]])),
        row_lower=np.concatenate([np.where(np.isin(np.arange(len(lower)), both), -np.inf, lower),
                                  lower[both]]),
        row_upper=np.concatenate([upper, more]),
    ), [*names, *_unique([f"{names[i]}_least" for i in both.tolist()])]  # fmt: skip


def _as_lp(text: str) -> str:
    """Return an MPS text as CPLEX LP, by PuLP."""
    import pulp

    from optim.solvers.process import scratch_folder

    with scratch_folder() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names: PuLP writes an underscore for brackets
        (folder / "model.mps").write_text(text)
        _, problem = pulp.LpProblem.fromMPS(str(folder / "model.mps"))
        problem.writeLP(str(folder / "model.lp"), max_length=1 << 30)
        return (folder / "model.lp").read_text()


def column_order(arrays: LinearArrays) -> NDArray[np.intp]:
    """Order in which `mps_text` writes the columns: continuous ones first, then integers."""
    return np.argsort(arrays.integrality, kind="stable")


def kept_rows(arrays: LinearArrays) -> NDArray[np.intp]:
    """Rows that bind anything; free rows are not written."""
    return np.flatnonzero(np.isfinite(arrays.row_lower) | np.isfinite(arrays.row_upper))


def mps_text(
    arrays: LinearArrays,
    name: str = "model",
    columns: Sequence[str] | None = None,
    row_names: Sequence[str] | None = None,
    comments: Iterable[str] = (),
) -> str:
    """Write the model, 17 digits of every number, in bulk.

    Columns are named ``C<column>``, rows ``R<row>``, where no names are given.
    """
    names = row_names or [f"R{i}" for i in range(arrays.num_rows)]
    columns = columns or [f"C{j}" for j in range(arrays.num_variables)]
    rows = kept_rows(arrays)
    lines = [*(f"* {line}" for line in comments), f"NAME {name} FREE", "ROWS", " N obj"]
    kinds = _row_kinds(arrays)
    lines += [f" {kinds[i]} {names[i]}" for i in rows.tolist()]
    lines.append("COLUMNS")
    lines += _column_lines(arrays, columns, names)
    lines.append("RHS")
    lower, upper = arrays.row_lower, arrays.row_upper
    # E and L rows have their upper bound on the right, with a RANGE down to the lower; G the lower
    right = np.where(np.isfinite(upper), upper, lower)
    filled = rows[right[rows] != 0]
    pairs = zip(filled.tolist(), right[filled].tolist(), strict=True)
    lines += [f" RHS {names[i]} {value!r}" for i, value in pairs]
    two_sided = rows[np.isfinite(lower[rows]) & np.isfinite(upper[rows])]
    ranged = two_sided[lower[two_sided] != upper[two_sided]]
    if ranged.size:
        lines.append("RANGES")
        widths = (upper[ranged] - lower[ranged]).tolist()
        lines += [f" RNG {names[i]} {w!r}" for i, w in zip(ranged.tolist(), widths, strict=True)]
    lines.append("BOUNDS")
    lines += _bound_lines(arrays, columns)
    lines.append("ENDATA\n")
    return "\n".join(lines)


def _row_kinds(arrays: LinearArrays) -> list[str]:
    """``E`` equal, ``L`` with an upper bound (and perhaps a range below it), ``G`` the others."""
    equal = arrays.row_lower == arrays.row_upper
    return np.where(equal, "E", np.where(np.isfinite(arrays.row_upper), "L", "G")).tolist()


def _column_lines(arrays: LinearArrays, columns: Sequence[str], rows: Sequence[str]) -> list[str]:
    order = column_order(arrays)
    num_continuous = int((~arrays.integrality).sum())
    cost = arrays.cost if arrays.sense == "min" else -arrays.cost
    parts = [_entries(arrays, cost, order[:num_continuous], columns, rows)]
    if num_continuous < len(order):
        parts.append([" M1 'MARKER' 'INTORG'"])
        parts.append(_entries(arrays, cost, order[num_continuous:], columns, rows))
        parts.append([" M2 'MARKER' 'INTEND'"])
    if arrays.offset:
        parts.append([f" ONE obj {arrays.offset if arrays.sense == 'min' else -arrays.offset!r}"])
    return [line for part in parts for line in part]


def _entries(
    arrays: LinearArrays,
    cost: NDArray[np.float64],
    columns: NDArray[np.intp],
    column_names: Sequence[str],
    row_names: Sequence[str],
) -> list[str]:
    """All entries of some columns, each column's cost first (a column must not be missing)."""
    chosen: Any = arrays.matrix.tocsc()[:, columns] if len(columns) else None
    if chosen is None:
        return []
    coo = chosen.tocoo()
    bound = np.zeros(arrays.num_rows, dtype=bool)
    bound[kept_rows(arrays)] = True
    bounded_entries = bound[coo.row]
    positions = np.concatenate([np.arange(len(columns)), coo.col[bounded_entries]])
    row_ids = np.concatenate([np.full(len(columns), -1), coo.row[bounded_entries]])
    values = np.concatenate([cost[columns], coo.data[bounded_entries]])
    order = np.argsort(positions, kind="stable")
    names = [*row_names, "obj"]  # the last is row number -1
    # models have few different numbers: each is written as text once
    texts, which = np.unique(values[order], return_inverse=True)
    table = [repr(value) for value in texts.tolist()]
    return [
        f" {column_names[j]} {names[i]} {table[k]}"
        for j, i, k in zip(
            columns[positions[order]].tolist(), row_ids[order].tolist(), which.tolist(), strict=True
        )
    ]


def _bound_lines(arrays: LinearArrays, columns: Sequence[str]) -> list[str]:
    """Bounds of every column, spelled out: readers differ in the defaults of integers."""
    lines: list[str] = []
    bounds = zip(columns, arrays.lower.tolist(), arrays.upper.tolist(), strict=True)
    infinite = float("inf")
    for column, low, high in bounds:
        if low == high:
            lines.append(f" FX B {column} {low!r}")
            continue
        if low == -infinite:
            lines.append(f" {'FR' if high == infinite else 'MI'} B {column}")
        elif high == infinite:  # before the lower bound, which PuLP takes back to 0 with it
            lines.append(f" PL B {column}")
        if low != -infinite:
            lines.append(f" LO B {column} {low!r}")
        if high != infinite:
            lines.append(f" UP B {column} {high!r}")
    if arrays.offset:
        lines.append(" FX B ONE 1.0")
    return lines
