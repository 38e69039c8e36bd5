"""Figures of plans as linear expressions of a model that says where tasks are, each written once.

A figure is Σ value·column + constant, or a column that is no better than the figure and meets it
in every optimum: the greatest of some rows, a distance, a node in use. Columns and rows are added
where a figure is first asked for. Weights of a sum have the sign of its figures' senses, and levels
are held from their good side, so that such columns are never pushed to where they would be wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from formulations.model_rows import add_deviation, add_in_use, add_load_distance
from formulations.task_allocation.model import SCALED_TOTAL
from optim.figures.placement import Placement
from optim.kernels.room import placing_room
from optim.rules.base import known_as_home

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from formulations.task_allocation.model import AllocationModel
    from optim.figures.figure import Figure
    from optim.format.instance import Instance
    from optim.format.tables import Floats, Ints
    from optim.kernels.place_rules import PlaceRules


class Expression(NamedTuple):
    """Σ value·column + constant.

    Attributes
    ----------
    column, value, constant
        Its terms.
    unit
        A thousandth of what it usually or at most is, without its sign.
    best
        What no plan is better than, whatever its tasks.
    """

    column: NDArray[Any]
    value: Floats
    constant: float
    unit: float
    best: float

    def times(self, weight: float) -> Expression:
        """Return the expression times a weight."""
        return Expression(
            self.column, weight * self.value, weight * self.constant, abs(weight) * self.unit,
            weight * self.best,
        )  # fmt: skip


TRAFFIC = ("imc_gain", "internode_traffic", "collocation_factor")
_MOVES = ("migrations", "migration_cost")
CONTINUOUS = (
    "load_distance", "max_utilisation", "max_link_utilisation", "mean_absolute_deviation",
)  # fmt: skip
"""Figures whose columns are no integers."""
LINEAR = (*TRAFFIC, *_MOVES, "nodes_used", "used_capacity", *CONTINUOUS)
"""Figures that there are expressions of."""

_ROOT = "it is a root of squares and the model is linear"
_SLOTS = "it is of slots, which the model does not decide"
_RATE = "its reciprocal is linear and it is not"
NONLINEAR = {
    "cpu_deviation": _ROOT,
    "resource_deviation": _ROOT,
    "used_utilisation": "it divides by what the plan uses and the model is linear",
    "sustainable_rate": _RATE,
    "rate_after_loss": _RATE,
    "interslot_traffic": _SLOTS,
    "slots_used": _SLOTS,
    "workers_restarted": _SLOTS,
}
"""Why there is none of others."""


def node_keys(instance: Instance, objective: Figure) -> Floats | None:
    """(N, k) what makes nodes of equal room unequal in the figures of an objective."""
    names = {figure.name for figure in objective.singles}
    if names <= set(TRAFFIC):
        return None
    nodes, links = instance.nodes, instance.links
    keys = [nodes.capacity, nodes.background, nodes.weight, instance.open_nodes]
    if names.intersection(_MOVES):
        keys.append(known_as_home(instance))
    if "max_link_utilisation" in names:
        on = np.zeros((instance.num_nodes, len(links.ids)))
        on[links.node_indices, np.repeat(np.arange(len(links.ids)), np.diff(links.node_indptr))] = 1
        keys.append(on)
    return np.column_stack(keys)


class FigureRows:
    """The expressions of one model.

    Parameters
    ----------
    instance
        What is measured.
    made
        The model, whose columns say where tasks are and which pairs are together.
    rules
        Which moves are migrations.
    """

    def __init__(self, instance: Instance, made: AllocationModel, rules: PlaceRules) -> None:
        self.instance, self.made, self.rules = instance, made, rules
        self._known: dict[str, Expression] = {}
        self._completed: list[tuple[NDArray[Any], Callable[[Placement], Any]]] = []
        self._used: NDArray[Any] | None = None

    def of(self, level: Figure) -> Expression:
        """Return the expression of a figure or of a weighted sum of some."""
        if not level.parts:
            return self._figure(level)
        terms = [self._figure(figure).times(weight) for weight, figure in level.parts]
        return Expression(
            np.concatenate([term.column for term in terms]),
            np.concatenate([term.value for term in terms]),
            sum(term.constant for term in terms),
            sum(term.unit for term in terms),
            sum(term.best for term in terms),
        )

    def complete(self, x: Floats, node: Ints) -> None:
        """Set the added columns of a solution vector as a placement wants them."""
        placement = Placement(self.instance, node)
        for columns, values in self._completed:
            x[columns] = values(placement)

    def _figure(self, figure: Figure) -> Expression:
        name = figure.name
        if name not in self._known:
            if name in TRAFFIC:
                found = self._traffic(name)
            elif name in _MOVES:
                found = self._moves(counted=name == "migrations")
            elif name in ("nodes_used", "used_capacity"):
                found = self._in_use(by_capacity=name == "used_capacity")
            elif name == "mean_absolute_deviation":
                found = self._deviation()
            else:
                found = self._greatest(figure)
            self._known[name] = found
        return self._known[name]

    def _traffic(self, name: str) -> Expression:
        """Σ_(u,v) Σ_n r_uv z_uvn; less that of the total; as a part of the total."""
        z, rate = self.made.traffic()
        total = self.instance.total_traffic
        inside = Expression(z, rate, 0.0, self.made.scale, total)
        if name == "imc_gain":
            return inside
        if name == "internode_traffic":
            return inside.times(-1.0)._replace(constant=total, best=0.0)
        return inside.times(1.0 / total)

    def _moves(self, *, counted: bool) -> Expression:
        """Σ_k mc_k (1 − x_cur(k),k), or how many move; a copy counts as home."""
        placing, cost = self.made.placing, self.instance.tasks.migration_cost
        each = np.ones(len(cost)) if counted else cost
        pays = self.rules.pays(placing.task, placing.node)
        size = float(each[self.rules.home >= 0].sum())
        return Expression(placing.column[pays], each[placing.task[pays]], 0.0, _unit(size), 0.0)

    def _in_use(self, *, by_capacity: bool) -> Expression:
        """Σ_n c_n y_n, where y_n ≥ x_tn."""
        n = self.instance.num_nodes
        if self._used is None:
            model = self.made.model
            block = model.add_variables(
                "used", n, upper=1.0, integer=True, of={"node": np.arange(n)}
            )
            self._used = block.indices
            add_in_use(model, self.made.placing, self._used)
            self._completed.append((self._used, lambda placement: placement.used))
        if not by_capacity:
            return Expression(self._used, np.ones(n), 0.0, _unit(n), 1.0)
        capacity = self.instance.nodes.capacity[:, 0]
        return Expression(self._used, capacity / capacity.sum(), 0.0, _unit(1.0), 0.0)

    def _greatest(self, figure: Figure) -> Expression:
        """Return a column u ≥ each of what the figure is the greatest of."""
        shares = self._link_shares() if figure.name == "max_link_utilisation" else []
        if figure.name == "max_utilisation":
            shares = self._node_shares()
        size = self._usual_share() if shares else float(self.instance.mean_load or 0.0)
        column = self.made.model.add_variables(figure.name, 1).indices
        self._completed.append((column, lambda placement: figure.measured(placement).value))
        if figure.name == "load_distance":
            self._add_load_distance(int(column[0]))
        for row in shares:
            self.made.model.add_rows(
                f"of_{figure.name}", -np.inf, -row.base, np.zeros(len(row.column) + 1, np.int64),
                np.append(row.column, column), np.append(row.value, -1.0), num_rows=1, of=row.of,
            )  # fmt: skip
        return Expression(column, np.ones(1), 0.0, _unit(size), 0.0)

    def _add_load_distance(self, column: int) -> None:
        """|load_n − weight_n·mean| ≤ d; from above alone where nodes leave."""
        instance = self.instance
        share = instance.due - instance.nodes.background[:, 0]
        load, leaving = instance.tasks.load[:, 0], instance.nodes.leaving
        add_load_distance(self.made.model, self.made.placing, load, share, leaving, (column,))

    def _usual_share(self) -> float:
        """Return the share of all capacity that all load is, of the resource that is fullest."""
        capacity = self.instance.nodes.capacity
        room = np.where(np.isfinite(capacity), capacity, 0.0).sum(axis=0)
        some = room > 0
        return float((self.instance.totals[some] / room[some]).max(initial=0.0))

    def _node_shares(self) -> list[_Share]:
        """(background + load) / capacity of each node and resource that has one."""
        nodes, found = self.instance.nodes, []
        for r in range(self.instance.num_resources):
            node, column, value, constant = self.made.placing.sums(self.instance.tasks.load[:, r])
            for n in range(self.instance.num_nodes):
                room = nodes.capacity[n, r]
                if room > 0 and np.isfinite(room):
                    on = (node == n) & (value != 0.0)
                    base = (nodes.background[n, r] + constant[n]) / room
                    of = {"node": n, "resource": r}
                    found.append(_Share(column[on], value[on] / room, float(base), of))
        return found

    def _link_shares(self) -> list[_Share]:
        """(background + what crosses) / capacity of each link that has one."""
        links, found = self.instance.links, []
        for i in np.flatnonzero((links.capacity > 0) & np.isfinite(links.capacity)).tolist():
            column, value = self.made.links.of(i)
            room = links.capacity[i]
            base = float(links.background[i] / room)
            found.append(_Share(column, value / room, base, {"link": i}))
        return found

    def _deviation(self) -> Expression:
        """Σ_n |u_n − ū| / N' over the N' staying nodes that have a capacity."""
        instance, nodes = self.instance, self.instance.nodes
        capacity, background = nodes.capacity[:, 0], nodes.background[:, 0]
        known = np.isfinite(capacity) & ((capacity > 0) | (background == 0))
        counted = np.flatnonzero(known & instance.open_nodes)
        of_one = np.zeros(len(capacity))
        np.divide(1.0, capacity, out=of_one, where=capacity > 0)
        most = np.minimum(instance.total_load[0], np.maximum(placing_room(instance)[:, 0], 0.0))
        unit = float((of_one * (background + most))[counted].max(initial=0.0)) or 1.0
        base, of_one = (background * of_one)[counted] / unit, of_one[counted] / unit
        ids = [nodes.ids[n] for n in counted.tolist()]
        model, placing = self.made.model, self.made.placing
        columns = add_deviation(
            model, placing, instance.tasks.load[:, 0], base, of_one, ids, counted
        )

        def values(placement: Placement) -> Floats:
            share = placement.loads[counted, 0] * of_one
            return np.append(share.mean(), np.abs(share - share.mean()))

        self._completed.append((columns, values))
        each = np.full(len(counted), unit / len(counted))
        return Expression(columns[1:], each, 0.0, _unit(self._usual_share()), 0.0)


def _unit(size: float) -> float:
    return (float(size) or 1.0) / SCALED_TOTAL


class _Share(NamedTuple):
    """Σ value·column + base of a node or link, and what that is."""

    column: NDArray[Any]
    value: Floats
    base: float
    of: dict[str, Any]
