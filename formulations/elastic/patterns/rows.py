"""What the sets of a level share beside tasks and nodes: earlier levels, budgets, racks' links.

    Σ_p capacity_p λ_p ≤ what was reached        earlier level
    Σ_p moves_p λ_p ≤ budget                     migrations
    w_uv ≤ Σ_(p ∋ u, behind link) λ_p            both ends behind a shared link …
    Σ_p crossing_p λ_p − 2 Σ r_uv w_uv ≤ room    … whose traffic it carries
    Σ_p members_p λ_p ≤ limit                    tasks to be apart, on each rack
    Σ_p [members_p > 0] λ_p ≥ limit              tasks to be spread over nodes

Capacities, load bounds, the nodes' own uplinks and what else one node can break are in the sets
themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csc_array, csr_array, vstack

from formulations.elastic.patterns.rules import paying, set_rows
from formulations.elastic.problem import TIMES
from formulations.patterns.pool import TableRows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from formulations.elastic.patterns.columns import Columns
    from formulations.elastic.problem import EoaProblem, SharedLink
    from optim.format.tables import Floats


class LevelRows(TableRows):
    """The rows over all columns; all are bounded from above."""

    def __init__(
        self, problem: EoaProblem, columns: Columns, caps: Sequence[tuple[Floats, float]]
    ) -> None:
        """Write the rows; `caps` are costs of earlier levels and the most they may add up to."""
        moves = ((_moves(problem, columns, price), most) for most, price in problem.budgets)
        single = [*caps, *moves, *set_rows(problem, columns)]
        table: list[Any] = [csr_array(values[None, :]) for values, _ in single]
        upper = [np.array([most]) for _, most in single]
        pairs, links = len(problem.u), len(problem.shared)
        beside = [np.zeros((len(single), pairs * links))]
        for i, link in enumerate(problem.shared):
            block, sides, own = _behind(problem, columns, link)
            table.append(block)
            upper.append(sides)
            wide = np.zeros((len(sides), pairs * links))
            wide[:, i * pairs : (i + 1) * pairs] = own
            beside.append(wide)
        sides = np.concatenate([np.zeros(0), *upper])
        products = np.concatenate(beside) if links else None
        blocks = [csr_array((0, columns.num)), *table]
        super().__init__(
            np.full(len(sides), -np.inf), sides, products, np.ones(pairs * links),
            csc_array(vstack(blocks)),
        )  # fmt: skip


def _moves(problem: EoaProblem, columns: Columns, price: Floats) -> Floats:
    """(P,) cost of the moves that a column makes; homes are node classes of their own."""
    one = columns.groups.members[columns.groups.indptr[:-1]]  # a group has one home and one price
    pays = paying(problem, one, columns.first)[columns.of]
    return np.asarray((columns.counts * pays * price[one]).sum(axis=1))


def _behind(
    problem: EoaProblem, columns: Columns, link: SharedLink
) -> tuple[Any, Floats, NDArray[np.float64]]:
    """Rows of a link of several nodes: of its columns, their upper bounds, and of its products.

    Crossing = all traffic of the tasks behind it − 2 × the traffic between two of them.
    """
    pairs = len(problem.u)
    inside = np.isin(columns.first, link.nodes)[columns.of]
    holds = csr_array((columns.counts > 0) * inside[:, None] * 1.0)  # groups are single tasks here
    ends = holds.tocsc()[:, np.concatenate([problem.u, problem.v])].T
    running, times = problem.beside[:, link.nodes].sum(axis=1), TIMES[link.direction]
    crossing = columns.incident[link.direction] * inside - times * (holds @ running)
    one = np.eye(pairs)
    return (
        vstack([-ends, csr_array(crossing[None, :])]),
        np.append(np.zeros(2 * pairs), link.room + times * link.inside),
        np.vstack([one, one, -times * problem.rate[None, :]]),
    )
