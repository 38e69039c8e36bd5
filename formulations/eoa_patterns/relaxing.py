"""The relaxation of the pattern form by sifting: few columns at a time, the others priced.

There are some thirty rows and up to hundreds of thousands of columns. A linear program over a few
thousand of them gives duals; these price all columns with one matrix product, and the cheapest
join. On 155,000 columns this takes a second where the whole program takes a minute.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csc_array, eye_array, hstack

from formulations.eoa_patterns.bound import lagrangian_bound
from optim.solvers.inprocess import solve_lp

if TYPE_CHECKING:
    from formulations.eoa_patterns.columns import Columns
    from optim.linear_arrays import LinearArrays
    from optim.tables import Floats

FIRST, JOINING = 2000, 1500
"""Columns to begin with, and those that join in a round."""

CLOSE = 1e-7
"""Rounds end when bound and program are within this part of each other."""

_ROUNDS = 200
_PRICE = 1e5
_DEAR = 100.0


def relax(
    arrays: LinearArrays, columns: Columns, time_limit: float | None = None
) -> tuple[float, Floats] | None:
    """Bound the whole model, and tell by how much each column exceeds the bound.

    Every row may be missed at a price, so that any few columns do. A bound above all that nodes can
    cost together is the proof that no solution meets the rows.

    Parameters
    ----------
    arrays
        The model over all columns, costs of about 1,000.
    columns
        Its columns; products of shared links follow them.
    time_limit
        Seconds.

    Returns
    -------
    tuple or None
        As of `lagrangian_bound`, the bound ``inf`` where there is no solution; ``None`` where
        nothing was found out.
    """
    dearest = np.full(len(columns.size), -np.inf)
    np.maximum.at(dearest, columns.of, arrays.cost[: columns.num])
    if not np.isfinite(dearest).all():  # a class of nodes that may hold nothing, not even nothing
        return np.inf, np.zeros(columns.num)
    ceiling = float(columns.size @ dearest) + arrays.offset
    ends = None if time_limit is None else time.perf_counter() + time_limit
    matrix = csc_array(arrays.matrix)
    rows, count = matrix.shape[0], matrix.shape[1]
    spare = hstack([eye_array(rows), -eye_array(rows)], format="csc")
    active = np.zeros(count, dtype=np.bool_)
    active[np.linspace(0, columns.num - 1, FIRST).astype(np.int64)] = True
    active[columns.num :] = True
    price, best = _PRICE, None
    for _ in range(_ROUNDS):
        left = None if ends is None else ends - time.perf_counter()
        if left is not None and left <= 0:
            return None
        chosen = np.flatnonzero(active)
        upper = np.append(
            np.where(chosen < columns.num, np.inf, arrays.upper[chosen]), np.full(2 * rows, np.inf)
        )
        answer = solve_lp(
            np.append(arrays.cost[chosen], np.full(2 * rows, price)),
            hstack([matrix[:, chosen], spare], format="csr"),
            arrays.row_lower,
            arrays.row_upper,
            np.zeros(len(upper)),
            upper,
            left,
        )
        if answer.row_duals is None or answer.x is None or answer.objective is None:
            return None
        bound, above = lagrangian_bound(arrays, columns, answer.row_duals)
        if best is None or bound > best[0]:
            best = bound, above
        if bound > ceiling + CLOSE * max(1.0, abs(ceiling)):
            return np.inf, above
        reached = answer.objective + arrays.offset
        if reached - bound <= CLOSE * max(1.0, abs(reached)):
            if answer.x[len(chosen) :].max(initial=0.0) <= CLOSE:
                return best
            if price > _PRICE:
                return None
            price *= _DEAR
            continue
        waiting = np.flatnonzero(~active[: columns.num])
        active[waiting[np.argsort(above[waiting], kind="stable")[:JOINING]]] = True
    return best
