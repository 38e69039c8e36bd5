"""By how much limits have to be raised: the least, from a model in which they may be."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array, hstack, vstack

from formulations.conflicts.aggregate import aggregate
from formulations.conflicts.model import build
from formulations.conflicts.rows import joined
from optim.rules import LEAVING
from optim.solvers.inprocess import solve_small_milp
from optim.solvers.linear_arrays import LinearArrays

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from formulations.conflicts.atoms import Atoms
    from formulations.conflicts.rows import RuleModel
    from optim.format.instance import Instance
    from optim.format.tables import Floats

    Ids = NDArray[np.int64]

_WHOLE_CELLS = 4_000
"""Tasks × nodes up to which the whole model is asked."""
_FAR = 1e9
WHOLE = frozenset(
    {"max_tasks", "max_inflow", "max_migrations", "slots", "max_tasks_per_slot", "workers", "sets"}
)
"""Rules whose limits are whole numbers."""


def least_raise(
    atoms: Atoms, kept: Ids, weight: Mapping[int, float], seconds: float
) -> dict[int, float] | None:
    """Return by how much limits have to be raised at least, so that rule instances may be kept.

    Parameters
    ----------
    kept
        The rule instances that are to hold.
    weight
        Those whose limit may be raised, and what a unit of that counts; lists of allowed nodes and
        leaving nodes count in tasks that go elsewhere.
    seconds
        Time for it.

    Returns
    -------
    dict or None
        Rule instance to the raise of its limit, in the file's units and in whole numbers where the
        limit is one; ``None`` where nothing came out in time. Where the
        model is that of groups of tasks, it may take more.
    """
    instance = atoms.instance
    if instance.num_tasks * instance.num_nodes <= _WHOLE_CELLS:
        made: RuleModel | None = build(atoms.normal, kept)
    else:
        made = aggregate(atoms.normal, kept)
    if made is None:
        return None
    whole = {atom for atom in weight if atoms.rule_of(atom) in WHOLE}
    arrays, columns = with_raises(made, weight, whole)
    answer = solve_small_milp(arrays, time_limit=max(seconds, 0.1), gap=1e-4)
    if answer.x is None:
        return None
    found = dict.fromkeys(weight, 0.0)
    for atom, column in columns:
        found[atom] += float(answer.x[column])
    return {
        atom: float(round(by)) if atom in whole else by * atoms.unit_of(atom)
        for atom, by in found.items()
        if by > (0.5 if atom in whole else 1e-7)
    }


def with_raises(
    made: RuleModel,
    weight: Mapping[int, float],
    wholes: set[int],
    most: Mapping[int, float] | None = None,
) -> tuple[LinearArrays, list[tuple[int, int]]]:
    """Return the model with a raise for each of some rule instances, and the columns of these.

    Parameters
    ----------
    weight, wholes, most
        What a unit of a raise costs, which are whole numbers, and how large each may be at most.
    """
    arrays = made.model.freeze()
    rows, ids, factor = joined(made.owners)
    may = np.isin(ids, list(weight))
    rows, ids, factor = rows[may], ids[may], factor[may]
    raised = np.unique(ids)
    matrix = csr_array(arrays.matrix)
    first = matrix.shape[1]
    count = len(raised)
    # an excess of a row on either side, no more than its rules' raises allow
    exceeded = np.unique(rows)
    sides = [
        (sign, exceeded[np.isfinite(bound[exceeded])])
        for sign, bound in ((-1.0, arrays.row_upper), (1.0, arrays.row_lower))
    ]
    number = sum(len(some) for _, some in sides)
    excess = np.concatenate([np.full(len(some), sign) for sign, some in sides])
    where = np.concatenate([some for _, some in sides]).astype(np.int64)
    body = csr_array((excess, (where, np.arange(number))), shape=(matrix.shape[0], number))
    none = csr_array((matrix.shape[0], count))
    link_rows, link_columns, link_values = (
        [np.arange(number)],
        [np.arange(number)],
        [np.ones(number)],
    )
    for row, atom, by in zip(rows.tolist(), ids.tolist(), factor.tolist(), strict=True):
        for k in np.flatnonzero(where == row).tolist():
            link_rows.append(np.array([k]))
            link_columns.append(np.array([number + int(np.searchsorted(raised, atom))]))
            link_values.append(np.array([-by]))
    links = csr_array(
        (np.concatenate(link_values), (np.concatenate(link_rows), np.concatenate(link_columns))),
        shape=(number, number + count),
    )
    whole = vstack([
        hstack([matrix, body, none]), hstack([csr_array((number, first)), links])
    ], format="csr")  # fmt: skip
    upper, cost = arrays.upper.copy(), np.zeros(first)
    found = _opened(made, weight, upper, cost)
    limits = np.array([(most or {}).get(a, _FAR) for a in raised.tolist()])
    integral = [atom in wholes for atom in raised.tolist()]
    more = LinearArrays(
        "min",
        np.concatenate([cost, np.zeros(number), [weight[a] for a in raised.tolist()]]),
        0.0,
        np.concatenate([arrays.lower, np.zeros(number + count)]),
        np.concatenate([upper, np.full(number, _FAR), limits]),
        np.concatenate(
            [arrays.integrality, np.zeros(number, np.bool_), np.array(integral, np.bool_)]
        ),
        csr_array(whole),
        np.concatenate([arrays.row_lower, np.full(number, -np.inf)]),
        np.concatenate([arrays.row_upper, np.zeros(number)]),
    )
    found += [(atom, first + number + k) for k, atom in enumerate(raised.tolist())]
    return more, found


def _opened(
    made: RuleModel, weight: Mapping[int, float], upper: Floats, cost: Floats
) -> list[tuple[int, int]]:
    """Open the columns that masks close, where these may give way; return those that count."""
    columns, ids, counts = joined(made.shut)
    may = np.isin(ids, list(weight))
    shut = np.setdiff1d(columns[may], columns[~may])
    found = []
    for column, atom, counted in zip(columns, ids, counts, strict=True):
        if atom in weight and np.isin(column, shut):
            upper[column] = made.instance.num_tasks if counted else _FAR
            cost[column] += weight[int(atom)] * counted
            if counted:
                found.append((int(atom), int(column)))
    return found


def raised(atoms: Atoms, by: Mapping[int, float]) -> Instance:
    """Return the instance with fields of the file raised by so much.

    Lists of allowed nodes, and sets that are to be together, fall where they give way.
    """
    given = atoms.instance
    dropped = [a for a in by if atoms.rule_of(a) in ("allowed", "leaving") or atoms.is_together(a)]
    made = atoms.keep(np.setdiff1d(np.arange(len(atoms)), dropped).tolist()) if dropped else given
    nodes, limits, sets = made.nodes, made.limits, made.sets
    columns: dict[str, Any] = {
        name: np.array(getattr(nodes, name))
        for name in ("capacity", "min_load", "slot_capacity", "max_tasks", "max_inflow", "slots")
    }
    set_limit, workers = np.array(sets.limit), np.array(made.topologies.workers)
    link = np.array(made.links.capacity)
    changes: dict[str, Any] = {}
    gone = [a for a in dropped if atoms.rule_of(a) == "sets"]
    for atom, amount in by.items():
        if atom in dropped:
            continue
        rule, r = atoms.kinds[atoms.kind[atom]]
        i = int(atoms.index[atom])
        up = int(amount) if rule in WHOLE else amount
        if rule in ("capacity", "slot_capacity", "min_load"):
            columns[rule][i, r] += -up if rule == "min_load" else up
        elif rule == "max_inflow":
            columns[rule][i] = given.num_tasks if columns[rule][i] < 0 else columns[rule][i]
            columns[rule][i] = min(columns[rule][i], _inflow(given, i)) + up
        elif rule in columns:
            columns[rule][i] += up
        elif rule == "sets":
            at = i - sum(int(atoms.index[a]) < i for a in gone)
            set_limit[at] += -up if sets.rule[at] == 2 else up
        elif rule == "links":
            link[i] += up
        elif rule == "workers":
            workers[i] = max(1, workers[i] - up)
        else:
            changes[rule] = getattr(limits, rule) + up
    if any(atoms.rule_of(a) == "max_inflow" for a in by):
        changes["max_inflow"] = None
    made = replace(
        made,
        nodes=replace(nodes, **columns),
        sets=replace(sets, limit=set_limit),
        topologies=replace(made.topologies, workers=workers),
        links=replace(made.links, capacity=link),
        limits=replace(limits, **changes),
    )
    return LEAVING.dropped(made) if any(atoms.rule_of(a) == "leaving" for a in by) else made


def _inflow(instance: Instance, node: int) -> int:
    from optim.rules.max_inflow import most_inflow

    return int(most_inflow(instance)[node])
