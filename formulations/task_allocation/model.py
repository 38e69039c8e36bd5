"""The textbook model of task allocation: its columns, its rows, what they stand for; other figures.

x_tn says that task t is on node n, z_uvn that the pair u, v is together there, y_tn that t has a
receiver of a `local_first` stream there, under the rows of `formulations.model_rows`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from formulations.model_rows import (
    Crossings,
    Placing,
    RuleRows,
    Staying,
    add_assignment,
    add_budgets,
    add_capacity,
    add_deviation,
    add_in_use,
    add_links,
    add_load_distance,
    add_order,
    add_products,
    add_rule_rows,
    add_stars,
    add_staying,
    check_products,
    with_crossing,
)
from optim.figures.measures import node_loads, over, slack
from optim.format.tables import SPREAD
from optim.format.traffic import TaskPairs
from optim.kernels.classes import node_classes
from optim.kernels.place_rules import place_rules, placing_floor, placing_masks, placing_room
from optim.rules import broken, budgets, undecided
from optim.rules.base import occupied_node_key
from optim.rules.placement import Placement
from optim.rules.slot_assignment import assign_slots
from optim.solvers import solve_kept
from optim.solvers.linear_model import LinearModel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from optim.figures.figure import Figure
    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats, Ints
    from optim.kernels.classes import NodeClasses
    from optim.kernels.place_rules import PlaceRules
    from optim.methods.registry import Request
    from optim.solvers import LinearSolution


MOST_PRODUCTS = 2_000_000  # Products, pairs times nodes, beyond which a model is refused.

OTHERS = "use imc-exact, imc-search or partition"

SCALED_TOTAL = 1000.0
"""Rates are scaled to this total, so that solver tolerances mean the same in every unit."""


@dataclass(frozen=True, eq=False)
class AllocationModel:
    """The model and its columns."""

    model: LinearModel  # To be maximised; without an objective.
    placing: Placing  # The placement variables, which are the first C columns.
    #: (Z,) u, v and n of each product z_uvn, which come next, and the traffic r_uv.
    pair_task: Ints
    pair_other: Ints
    pair_node: Ints
    rate: Floats
    local: Staying | None  # Columns of `local_first` streams.
    crossings: Crossings  # What crosses links.
    #: Columns that load nodes, as if all were of tasks, and the load of each: tasks, and with
    #: crossing costs pairs.
    loaded: Placing
    load: Floats
    rules: RuleRows  # Columns that sets add.
    classes: NodeClasses  # Nodes that are identical in the model.
    scale: float  # Rate unit per scaled unit.
    #: Placements cut off of which it is not known whether their tasks fit the slots.
    unknown: list[Ints] = field(default_factory=list)

    @property
    def task(self) -> NDArray[np.int64]:
        """(C,) task of each placement variable."""
        return self.placing.task

    @property
    def node(self) -> NDArray[np.int64]:
        """(C,) node of each placement variable."""
        return self.placing.node

    def place(self, x: NDArray[np.float64]) -> Ints:
        """Read (T,) node indices off a solution."""
        return self.placing.read(x).astype(np.int32)

    def vector(self, node: Ints) -> NDArray[np.float64]:
        """Write (T,) node indices as a full column vector."""
        vector = np.zeros(self.model.num_variables)
        x = node[self.task] == self.node
        on = self.pair_node
        z = (node[self.pair_task] == on) & (node[self.pair_other] == on)
        vector[: len(x) + len(z)] = np.concatenate([x, z])
        if self.local is not None:
            self.local.complete(vector, node)
        for inside in self.crossings.inside:
            inside.complete(vector, node)
        self.rules.complete(vector, node.astype(np.int64))
        return vector

    def traffic(self) -> tuple[NDArray[np.int64], Floats]:
        """Return columns and their traffic that are what is inside: Σ r_uv z_uvn + Σ r_i y_in."""
        products = np.arange(len(self.task), len(self.task) + len(self.rate))
        if self.local is None:
            return products, self.rate
        columns = np.concatenate([products, self.local.stays])
        return columns, np.concatenate([self.rate, self.local.rate])


def build(
    instance: Instance,
    *,
    break_symmetry: bool = True,
    alike: Any = None,
    whole_products: bool = False,
    products: bool = True,
    drain: bool = True,
    star_rows: bool = False,
    method: str = "imc-milp",
    others: str = OTHERS,
) -> AllocationModel:
    """Build the model, without an objective.

    `break_symmetry`: number the identical nodes by their first task.
    `alike`: (N, k) numbers in which such nodes must be alike, too.
    `whole_products`: declare the products integer, which a solver without continuous variables
        needs; they are 0 or 1 in every optimum anyway.
    `products`: without them it knows no traffic inside nodes.
    `drain`: whether what is on leaving nodes must leave them.
    `star_rows`: add the rows of `add_stars`, which every placement satisfies.
    `method`, `others`: whose model it is, and what to use where that would be too large, for
        messages.
    Raises `UnsuitableMethod`: too many products.
    """
    kind, allowed, target = placing_masks(instance)
    pairs = instance.pairs if products else _none_of(instance.pairs)
    if products:
        check_products(method, instance, MOST_PRODUCTS, others)
    may = target[kind]
    if not drain:
        home = instance.tasks.node
        there = np.flatnonzero((home >= 0) & instance.nodes.leaving[home])
        may[there] = allowed[kind[there]]
        stays = np.unique(may[there], axis=0).T  # leaving nodes differ in who may stay on them
        alike = stays if alike is None else np.column_stack([alike, stays])
    classes, rules = node_classes(instance, alike), place_rules(instance)
    model = LinearModel(method, sense="max")
    task, node = np.nonzero(may)
    x = model.add_variables(
        "x", len(task), upper=1.0, integer=True, of={"task": task, "node": node}
    ).indices
    column = np.full(may.shape, -1, dtype=np.int64)
    column[task, node] = x
    total = float(pairs.rate.sum())
    total += sum(block.rate * len(block.sources) for block in instance.flows.local)
    scale = max(total, 1e-300) / SCALED_TOTAL
    pair, at = np.nonzero(may[pairs.u] & may[pairs.v])
    load, room = instance.tasks.load, placing_room(instance)
    fits = (load[pairs.u[pair]] + load[pairs.v[pair]] <= room[at]).all(axis=1)
    z = model.add_variables(
        "together", len(pair), upper=fits.astype(float), integer=whole_products,
        of={"task": pairs.u[pair], "other": pairs.v[pair], "node": at},
    ).indices  # fmt: skip
    u, v = pairs.u[pair], pairs.v[pair]
    placing, local = Placing.by_columns(x, task, node, may.shape), None
    if products and instance.flows.local:
        local = add_staying(model, instance.flows.local, placing, whole=whole_products)
    add_assignment(model, placing)
    loaded = placing
    if instance.crossing_cost.any():
        of = {"pair": pair, "task": u, "other": v, "node": at}
        loaded, load = with_crossing(model, instance, placing, z, of)
    add_capacity(model, loaded, load, placing_floor(instance), room)
    add_products(model, z, column[u, at], column[v, at], {"task": u, "other": v, "node": at})
    for r in range(instance.num_resources if star_rows else 0):
        add_stars(model, instance, column, (u, v, at, z), r)
    add_budgets(model, placing, rules, budgets(instance))
    product_columns = (pair, at, z) if products else None
    crossings = Crossings(model, instance, column, product_columns, whole=whole_products)
    add_links(crossings)
    if break_symmetry:
        add_order(model, map(classes.nodes_of, range(classes.num_classes)), column)
    added = add_rule_rows(model, rules, placing.where)
    return AllocationModel(
        model, placing, u, v, at.astype(np.int32), pairs.rate[pair], local, crossings, loaded, load,
        added, classes,
        scale,
    )  # fmt: skip


def _none_of(pairs: TaskPairs) -> TaskPairs:
    return TaskPairs(pairs.u[:0], pairs.v[:0], pairs.rate[:0])


# Cuts against placements that a solver takes for feasible and the referee does not.
#
# A node whose tasks exceed its capacity holds a *cover*: tasks that it cannot hold together. At
# most all but one of them may be there, on this node and on every other that has no more room. So
# are tasks that cannot be dealt to a node's slots, numbers of workers and sets to be spread over
# slots left out, as fewer tasks are no easier for these. Of other rules only the placement itself
# is cut off, and of loads that crossing adds to: more tasks may be less load there.
#
# Source: E. Balas, "Facets of the knapsack polytope", Mathematical Programming 8 (1975).


def solve_exactly(
    instance: Instance,
    allocation: AllocationModel,
    rules_kept: frozenset[str],
    request: Request,
    solve: Callable[[], LinearSolution],
    worse: Callable[[Ints], bool] | None = None,
) -> tuple[LinearSolution, int]:
    """Solve until the placement keeps all rules exactly; return the answer and the cuts made.

    `rules_kept`: names of the violations that count.
    `solve`: solves the model as it stands, in the time that the request has left.
    `worse`: whether a placement is to be cut off though it keeps all rules.
    """

    def refused(x: Floats) -> bool:
        node = allocation.place(x)
        if cut_off(instance, allocation, node, rules_kept):
            return True
        if worse is None or not worse(node):
            return False
        _add_row(allocation, node[allocation.task] == allocation.node, -np.inf, len(node) - 1)
        return True

    return solve_kept(solve, refused, lambda: request.remaining() == 0)


def cut_off(
    instance: Instance, allocation: AllocationModel, node: Ints, rules_kept: frozenset[str]
) -> bool:
    """Add rows that a placement breaks, where it breaks a rule; return whether it does.

    `rules_kept`: names of the violations that count.
    """
    placement = Placement(instance, node)
    violations = [violation for violation in broken(placement) if violation.rule in rules_kept]
    if not violations:
        return False
    if all(undecided(placement, violation) for violation in violations):
        allocation.unknown.append(node)
    loads, bound = node_loads(instance, node), instance.nodes.capacity * _max_utilisation(instance)
    crosses = instance.crossing_cost.any(axis=0)
    crowded = np.argwhere(over(loads, bound) & ~crosses).tolist()
    for n, r in crowded:
        cover = _cover(instance, np.flatnonzero(node == n).astype(np.int32), n, r)
        room = instance.headroom[:, r] + slack(bound[:, r])
        for m in np.flatnonzero(room <= room[n]):
            together = np.isin(allocation.task, cover) & (allocation.node == m)
            _add_row(allocation, together, -np.inf, len(cover) - 1)
    unassignable = [] if crowded or crosses.any() else list(_tasks_without_slots(instance, node))
    for tasks, nodes in unassignable:
        for m in nodes.tolist():
            _add_row(
                allocation,
                np.isin(allocation.task, tasks) & (allocation.node == m),
                -np.inf,
                len(tasks) - 1,
            )
    if not crowded and not unassignable:
        _add_row(allocation, node[allocation.task] == allocation.node, -np.inf, len(node) - 1)
    return True


def _tasks_without_slots(instance: Instance, node: Ints) -> Iterator[tuple[Ints, NDArray[Any]]]:
    """Yield tasks that cannot be dealt to a node's slots, none of which could be spared, and where.

    That is the node, and those whose slots are no more and no larger.
    """
    spread, topologies = instance.slot_sets.rule == SPREAD, instance.topologies
    if (topologies.workers >= 0).any() or spread.any():
        some = instance.slot_sets.only(np.flatnonzero(~spread))
        free = replace(topologies, workers=np.full_like(topologies.workers, -1))
        instance = replace(instance, slot_sets=some, topologies=free)
    nodes = instance.nodes
    slots = np.where(nodes.slots < 0, np.inf, nodes.slots)
    for n in np.unique(node).tolist():
        tasks = np.flatnonzero(node == n).astype(np.int32)
        if not _fit_no_slots(instance, tasks, n):
            continue
        for t in tasks.tolist():
            fewer = tasks[tasks != t]
            if _fit_no_slots(instance, fewer, n):
                tasks = fewer
        smaller = (nodes.slot_capacity <= nodes.slot_capacity[n]).all(axis=1)
        yield tasks, np.flatnonzero(smaller & (slots <= slots[n]))


def _fit_no_slots(instance: Instance, tasks: Ints, n: int) -> bool:
    alone = np.full(instance.num_tasks, -1, dtype=np.int32)
    alone[tasks] = n
    assignment = assign_slots(instance, alone)
    return assignment.slot is None and assignment.proven


def _cover(instance: Instance, tasks: Ints, n: int, r: int) -> Ints:
    """Return tasks of a node that are too much for it, none of which could be spared."""
    load = instance.tasks.load[tasks, r]
    bound = float(instance.nodes.capacity[n, r] * _max_utilisation(instance)[r])
    keep = load > 0
    for k in np.argsort(load, kind="stable"):
        if keep[k]:
            keep[k] = False
            needed = float(load[keep].sum() + instance.nodes.background[n, r])
            if not over(needed, bound):
                keep[k] = True
    return tasks[keep]


def _max_utilisation(instance: Instance) -> Floats:
    return instance.limits.max_utilisation


def _add_row(allocation: AllocationModel, chosen: Bools, least: float, most: float) -> None:
    columns = np.flatnonzero(chosen)
    allocation.model.add_rows("cut_off", least, most, 0, columns, 1.0, num_rows=1)


# Figures of plans as linear expressions of a model that says where tasks are, each written once.
#
# A figure is Σ value·column + constant, or a column that is no better than the figure and meets it
# in every optimum: the greatest of some rows, a distance, a node in use. Columns and rows are added
# where a figure is first asked for. Weights of a sum have the sign of its figures' senses, and
# levels are held from their good side, so that such columns are never pushed to where they would be
# wrong.


class Expression(NamedTuple):
    """Σ value·column + constant."""

    #: Its terms.
    column: NDArray[Any]
    value: Floats
    constant: float
    unit: float  # A thousandth of what it usually or at most is, without its sign.
    best: float  # What no plan is better than, whatever its tasks.

    def times(self, weight: float) -> Expression:
        """Return the expression times a weight."""
        return Expression(
            self.column, weight * self.value, weight * self.constant, abs(weight) * self.unit,
            weight * self.best,
        )  # fmt: skip


TRAFFIC_FIGURES = ("imc_gain", "internode_traffic", "collocation_factor")
_MOVE_FIGURES = ("migrations", "migration_cost")
CONTINUOUS_FIGURES = (
    "load_distance", "max_utilisation", "max_link_utilisation", "mean_absolute_deviation",
)  # fmt: skip
"""Figures whose columns are no integers."""
LINEAR_FIGURES = (
    *TRAFFIC_FIGURES, *_MOVE_FIGURES, "nodes_used", "used_capacity", *CONTINUOUS_FIGURES,
)  # fmt: skip
"""Figures that there are expressions of."""

_ROOT = "it is a root of squares and the model is linear"
_SLOTS = "it is of slots, which the model does not decide"
_RATE = "its reciprocal is linear and it is not"
WHY_NOT_LINEAR = {
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


def node_keys(instance: Instance, names: set[str]) -> Floats | None:
    """(N, k) what makes nodes of equal room unequal in the figures of these names."""
    if names <= set(TRAFFIC_FIGURES):
        return None
    nodes, links = instance.nodes, instance.links
    keys = [nodes.capacity, nodes.background, nodes.weight, instance.open_nodes]
    if names.intersection(_MOVE_FIGURES):
        keys.append(occupied_node_key(instance))
    if "max_link_utilisation" in names:
        on = np.zeros((instance.num_nodes, len(links.ids)))
        on[links.node_indices, np.repeat(np.arange(len(links.ids)), np.diff(links.node_indptr))] = 1
        keys.append(on)
    return np.column_stack(keys)


class FigureRows:
    """The expressions of one model.

    `allocation`: the model, whose columns say where tasks are and which pairs are together.
    `rules`: which moves are migrations.
    """

    def __init__(self, instance: Instance, allocation: AllocationModel, rules: PlaceRules) -> None:
        self.instance, self.allocation, self.rules = instance, allocation, rules
        self._expressions: dict[str, Expression] = {}
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
        if name not in self._expressions:
            if name in TRAFFIC_FIGURES:
                expression = self._traffic(name)
            elif name in _MOVE_FIGURES:
                expression = self._moves(counted=name == "migrations")
            elif name in ("nodes_used", "used_capacity"):
                expression = self._in_use(by_capacity=name == "used_capacity")
            elif name == "mean_absolute_deviation":
                expression = self._deviation()
            else:
                expression = self._maximum(figure)
            self._expressions[name] = expression
        return self._expressions[name]

    def _traffic(self, name: str) -> Expression:
        """Σ_(u,v) Σ_n r_uv z_uvn; less that of the total; as a part of the total."""
        z, rate = self.allocation.traffic()
        total = self.instance.total_traffic
        inside = Expression(z, rate, 0.0, self.allocation.scale, total)
        if name == "imc_gain":
            return inside
        if name == "internode_traffic":
            return inside.times(-1.0)._replace(constant=total, best=0.0)
        return inside.times(1.0 / total)

    def _moves(self, *, counted: bool) -> Expression:
        """Σ_k mc_k (1 − x_cur(k),k), or how many move; a copy counts as home."""
        placing, cost = self.allocation.placing, self.instance.tasks.migration_cost
        each = np.ones(len(cost)) if counted else cost
        pays = self.rules.pays(placing.task, placing.node)
        size = float(each[self.rules.home >= 0].sum())
        return Expression(placing.column[pays], each[placing.task[pays]], 0.0, _unit(size), 0.0)

    def _in_use(self, *, by_capacity: bool) -> Expression:
        """Σ_n c_n y_n, where y_n ≥ x_tn."""
        n = self.instance.num_nodes
        if self._used is None:
            model = self.allocation.model
            block = model.add_variables(
                "used", n, upper=1.0, integer=True, of={"node": np.arange(n)}
            )
            self._used = block.indices
            load, room = self.instance.tasks.load, placing_room(self.instance)
            add_in_use(model, self.allocation.placing, self._used, load, room)
            self._completed.append((self._used, lambda placement: placement.used))
        if not by_capacity:
            return Expression(self._used, np.ones(n), 0.0, _unit(n), 1.0)
        capacity = self.instance.nodes.capacity[:, 0]
        return Expression(self._used, capacity / capacity.sum(), 0.0, _unit(1.0), 0.0)

    def _maximum(self, figure: Figure) -> Expression:
        """Return a column u ≥ each of what the figure is the greatest of."""
        rows = self._link_utilisations() if figure.name == "max_link_utilisation" else []
        if figure.name == "max_utilisation":
            rows = self._node_utilisations()
        size = self._mean_utilisation() if rows else float(self.instance.mean_load or 0.0)
        column = self.allocation.model.add_variables(figure.name, 1).indices
        self._completed.append((column, lambda placement: figure.measured(placement).value))
        if figure.name == "load_distance":
            self._add_load_distance(int(column[0]))
        for row in rows:
            shared, greatest = (0, row.column, row.value), (0, column, -1.0)
            name = f"of_{figure.name}"
            self.allocation.model.add_sum(name, -np.inf, -row.base, 1, shared, greatest, of=row.of)
        return Expression(column, np.ones(1), 0.0, _unit(size), 0.0)

    def _add_load_distance(self, column: int) -> None:
        """|load_n − weight_n·mean| ≤ d; from above alone where nodes leave."""
        instance, allocation, mean = self.instance, self.allocation, None
        load, share = allocation.load[:, 0], instance.due - instance.nodes.background[:, 0]
        if instance.crossing_cost[:, 0].any():
            mean, share = self._mean(), -instance.nodes.background[:, 0]
        leaving, columns = instance.nodes.leaving, (column,)
        add_load_distance(allocation.model, allocation.loaded, load, share, leaving, columns, mean)

    def _mean(self) -> tuple[int, Floats]:
        """Σ_n weight_n·mean over staying nodes = Σ_n load_n, which depends on what crosses."""
        nodes, allocation = self.instance.nodes, self.allocation
        weight = float(nodes.weight[self.instance.open_nodes].sum())
        (mean,) = allocation.model.add_variables("mean_load", 1).indices
        _, column, value, constant = allocation.loaded.sums(allocation.load[:, 0])
        base = float(nodes.background[:, 0].sum() + constant.sum())
        allocation.model.add_sum("mean", -base, -base, 1, (0, column, value), (0, [mean], -weight))
        self._completed.append((np.array([mean]), lambda p: p.loads[:, 0].sum() / weight))
        return int(mean), nodes.weight

    def _mean_utilisation(self) -> float:
        """Return the share of all capacity that all load is, of the resource that is fullest."""
        capacity = self.instance.nodes.capacity
        room = np.where(np.isfinite(capacity), capacity, 0.0).sum(axis=0)
        some = room > 0
        return float((self.instance.totals[some] / room[some]).max(initial=0.0))

    def _node_utilisations(self) -> list[_UtilisationTerms]:
        """(background + load) / capacity of each node and resource that has one."""
        nodes, terms = self.instance.nodes, []
        for r in range(self.instance.num_resources):
            node, column, value, constant = self.allocation.loaded.sums(self.allocation.load[:, r])
            for n in range(self.instance.num_nodes):
                room = nodes.capacity[n, r]
                if room > 0 and np.isfinite(room):
                    on = (node == n) & (value != 0.0)
                    base = (nodes.background[n, r] + constant[n]) / room
                    of = {"node": n, "resource": r}
                    terms.append(_UtilisationTerms(column[on], value[on] / room, float(base), of))
        return terms

    def _link_utilisations(self) -> list[_UtilisationTerms]:
        """(background + what crosses) / capacity of each link that has one."""
        links, terms = self.instance.links, []
        for i in np.flatnonzero((links.capacity > 0) & np.isfinite(links.capacity)).tolist():
            column, value = self.allocation.crossings.of(i)
            room = links.capacity[i]
            base = float(links.background[i] / room)
            terms.append(_UtilisationTerms(column, value / room, base, {"link": i}))
        return terms

    def _deviation(self) -> Expression:
        """Σ_n |u_n − ū| / N' over the N' staying nodes that have a capacity."""
        instance, nodes = self.instance, self.instance.nodes
        capacity, background = nodes.capacity[:, 0], nodes.background[:, 0]
        has_share = np.isfinite(capacity) & ((capacity > 0) | (background == 0))
        counted = np.flatnonzero(has_share & instance.open_nodes)
        of_one = np.zeros(len(capacity))
        np.divide(1.0, capacity, out=of_one, where=capacity > 0)
        (kind, _, target), room = placing_masks(instance), placing_room(instance)
        # a task that does not fit a node has no part in it
        fits = target[kind] & (instance.tasks.load[:, None, :] <= room).all(axis=2)
        crossing = instance.crossing_cost[:, 0].sum() * instance.total_traffic
        most = np.minimum(instance.tasks.load[:, 0] @ fits + crossing, np.maximum(room[:, 0], 0.0))
        unit = float((of_one * (background + most))[counted].max(initial=0.0)) or 1.0
        base, of_one = (background * of_one)[counted] / unit, of_one[counted] / unit
        ids = [nodes.ids[n] for n in counted.tolist()]
        allocation = self.allocation
        columns = add_deviation(
            allocation.model, allocation.loaded, allocation.load[:, 0], base, of_one, ids, counted
        )

        def values(placement: Placement) -> Floats:
            share = placement.loads[counted, 0] * of_one
            return np.append(share.mean(), np.abs(share - share.mean()))

        self._completed.append((columns, values))
        each = np.full(len(counted), unit / len(counted))
        return Expression(columns[1:], each, 0.0, _unit(unit), 0.0)


def _unit(size: float) -> float:
    return (float(size) or 1.0) / SCALED_TOTAL


class _UtilisationTerms(NamedTuple):
    """Σ value·column + base of a node or link, and what that is."""

    column: NDArray[Any]
    value: Floats
    base: float
    of: dict[str, Any]
