"""The indivisible units of a round: which key groups move together, and the problem over them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from formulations.rebalancing.problem import compressed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from formulations.rebalancing.problem import BalanceProblem, Floats, Ints
    from heuristics.rebalancing.albic.sets import Indices


@dataclass(frozen=True, eq=False)
class Units:
    """Key groups in indivisible units.

    Attributes
    ----------
    problem
        The rebalancing of the single key groups.
    unit_of
        (T,) unit of each key group, numbered by first member.
    size
        (U,) number of key groups of each.
    """

    problem: BalanceProblem
    unit_of: Indices
    size: Indices

    @classmethod
    def of(cls, problem: BalanceProblem, parts: Iterable[Indices]) -> Units:
        """Make each part one unit, and every other key group a unit of its own.

        Parameters
        ----------
        problem
            Where members of a part are at home on one node.
        parts
            Disjoint.
        """
        # each unit is named by its first key group
        first = np.arange(problem.num_tasks)
        for part in parts:
            first[part] = part.min(initial=problem.num_tasks)
        unit_of, size = np.unique(first, return_inverse=True, return_counts=True)[1:]
        return cls(problem, unit_of.astype(np.int64), size.astype(np.int64))

    @property
    def num_units(self) -> int:
        """U."""
        return len(self.size)

    def merged(self, pins: Mapping[int, int] | None = None) -> BalanceProblem:
        """Return the rebalancing of the units.

        Loads, costs, resources and what is taken of budgets are added over the members; a unit may
        go where all its members may.

        Parameters
        ----------
        pins
            Unit to the node it must be on.
        """
        problem = self.problem
        paid = np.where(problem.is_free, 0.0, 1.0)
        rows = self._allowed(pins or {})
        restricted, indptr, nodes = compressed(rows)
        single = self.num_units == problem.num_tasks
        return replace(
            problem,
            # rules of key groups are none of units: these cost what their paying members do
            counted=problem.counted if single else None,
            load=self._summed(problem.load),
            cost=self._summed(paid * problem.cost),
            home=self._first_of(problem.home),
            budgets=tuple(
                b._replace(weight=b.weight if single else self._summed(paid * b.weight))
                for b in problem.budgets
            ),
            usage=np.column_stack(
                [self._summed(problem.usage[:, e]) for e in range(problem.num_resources)]
                or [np.zeros((self.num_units, 0))]
            ),
            restricted=restricted,
            allowed_indptr=indptr,
            allowed_nodes=nodes,
        )

    def spread(self, placement: Ints) -> Ints:
        """Return the placement of the key groups that a placement of the units stands for."""
        return placement[self.unit_of]

    def _summed(self, values: Floats) -> Floats:
        return np.bincount(self.unit_of, values, self.num_units).astype(np.float64)

    def _first_of(self, values: Ints) -> Ints:
        first = np.unique(self.unit_of, return_index=True)[1]
        return values[first]

    def _allowed(self, pins: Mapping[int, int]) -> dict[int, Ints]:
        """Return the nodes of every unit that may not go everywhere, by unit."""
        problem = self.problem
        rows: dict[int, Ints] = {}
        for task, allowed in problem.allowed.items():
            unit, nodes = int(self.unit_of[task]), np.unique(allowed)
            rows[unit] = np.intersect1d(rows[unit], nodes) if unit in rows else nodes
        for unit, node in pins.items():
            rows[unit] = np.array([node], dtype=np.int64)
        return rows
