"""The textbook model of task allocation: its columns, its rows, and what they stand for.

x_tn says that task t is on node n, z_uvn that the pair u, v is together there, y_tn that t has a
receiver of a `local_first` stream there, under the rows of
`formulations.model_rows` for assignment, capacity, products, budgets and links, and those of
`formulations.rule_rows` for sets, inflow and counts of nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.model_rows import (
    Crossings,
    Placing,
    Staying,
    add_assignment,
    add_budgets,
    add_capacity,
    add_links,
    add_order,
    add_products,
    add_stars,
    add_staying,
    check_products,
)
from formulations.rule_rows import RuleRows, add_rule_rows
from optim.figures.measures import node_loads
from optim.format.tables import SPREAD
from optim.format.traffic import TaskPairs
from optim.kernels.classes import node_classes
from optim.kernels.place_rules import place_rules
from optim.kernels.room import placing_floor, placing_masks, placing_room
from optim.rules import broken, budgets
from optim.rules.placement import Placement
from optim.rules.slot_assignment import assign_slots
from optim.solvers import solve_kept
from optim.solvers.linear_model import LinearModel
from optim.util.tolerance import over, slack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats, Ints
    from optim.kernels.classes import NodeClasses
    from optim.methods.registry import Request
    from optim.solvers import LinearSolution


MOST_PRODUCTS = 2_000_000
"""Products, pairs times nodes, beyond which a model is refused."""

OTHERS = "use imc-exact, imc-search or partition"

SCALED_TOTAL = 1000.0
"""Rates are scaled to this total, so that solver tolerances mean the same in every unit."""


@dataclass(frozen=True, eq=False)
class AllocationModel:
    """The model and its columns.

    Attributes
    ----------
    model
        To be maximised; without an objective.
    placing
        The placement variables, which are the first C columns.
    u, v, at, rate
        (Z,) tasks and node of each product variable, which come next, and their traffic.
    local
        Columns of `local_first` streams.
    links
        What crosses links.
    rules
        Columns that sets add.
    classes
        Nodes that are identical in the model.
    scale
        Rate unit per scaled unit.
    """

    model: LinearModel
    placing: Placing
    u: Ints
    v: Ints
    at: Ints
    rate: Floats
    local: Staying | None
    links: Crossings
    rules: RuleRows
    classes: NodeClasses
    scale: float

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
        z = (node[self.u] == self.at) & (node[self.v] == self.at)
        vector[: len(x) + len(z)] = np.concatenate([x, z])
        if self.local is not None:
            self.local.complete(vector, node)
        for inside in self.links.inside:
            inside.complete(vector, node)
        self.rules.complete(vector, node.astype(np.int64))
        return vector

    def traffic(self) -> tuple[NDArray[np.int64], Floats]:
        """Return columns and their traffic that are what is inside: Σ r_uv z_uvn + Σ r_i y_in."""
        products = np.arange(len(self.task), len(self.task) + len(self.u))
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
    empties: bool = True,
    stars: bool = False,
    method: str = "imc-milp",
    others: str = OTHERS,
) -> AllocationModel:
    """Build the model, without an objective.

    Parameters
    ----------
    break_symmetry
        Number the identical nodes by their first task.
    alike
        (N, k) numbers in which such nodes must be alike, too.
    whole_products
        Declare the products integer, which a solver without continuous variables needs; they are
        0 or 1 in every optimum anyway.
    products
        Without them it knows no traffic inside nodes.
    empties
        Whether what is on leaving nodes must leave them.
    stars
        Add their rows, which no placement breaks.
    method, others
        Whose model it is, and what to use where that would be too large, for messages.

    Raises
    ------
    UnsuitableMethod
        Too many products.
    """
    classes, rules = node_classes(instance, alike), place_rules(instance)
    kind, allowed, target = placing_masks(instance)
    pairs = instance.pairs if products else _none_of(instance.pairs)
    if products:
        check_products(method, instance, MOST_PRODUCTS, others)
    may = target[kind]
    if not empties:
        home = instance.tasks.node
        there = np.flatnonzero((home >= 0) & instance.nodes.leaving[home])
        may[there] = allowed[kind[there]]
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
    z = model.add_variables(
        "together", len(pair), upper=1.0, integer=whole_products,
        of={"task": pairs.u[pair], "other": pairs.v[pair], "node": at},
    ).indices  # fmt: skip
    u, v = pairs.u[pair], pairs.v[pair]
    local = None
    if products and instance.flows.local:
        local = add_staying(model, instance, column, whole=whole_products)
    placing = Placing.by_columns(x, task, node, may.shape)
    add_assignment(model, placing)
    add_capacity(
        model, placing, instance.tasks.load, placing_floor(instance), placing_room(instance)
    )
    add_products(model, z, column[u, at], column[v, at], {"task": u, "other": v, "node": at})
    for r in range(instance.num_resources if stars else 0):
        add_stars(model, instance, column, (u, v, at, z), r)
    add_budgets(model, placing, rules, budgets(instance))
    known = (pair, at, z) if products else None
    links = Crossings(model, instance, column, known, whole=whole_products)
    add_links(links)
    if break_symmetry:
        add_order(model, map(classes.nodes_of, range(classes.num_classes)), column)
    made = add_rule_rows(model, rules, placing.where)
    return AllocationModel(
        model, placing, u, v, at.astype(np.int32), pairs.rate[pair], local, links, made, classes,
        scale,
    )  # fmt: skip


def _none_of(pairs: TaskPairs) -> TaskPairs:
    return TaskPairs(pairs.u[:0], pairs.v[:0], pairs.rate[:0])


# Cuts against placements that a solver takes for feasible and the referee does not.
#
# A node whose tasks exceed its capacity holds a *cover*: tasks that it cannot hold together. At
# most all but one of them may be there, on this node and on every other that has no more room. So
# are tasks that cannot be dealt to a node's slots, where fewer are easier to deal: no topology
# wants a number of workers, no set is to be spread over slots. Of other rules only the placement
# itself is cut off.
#
# Source: E. Balas, "Facets of the knapsack polytope", Mathematical Programming 8 (1975).


def solve_exactly(
    instance: Instance,
    made: AllocationModel,
    kept: frozenset[str],
    request: Request,
    solve: Callable[[], LinearSolution],
    worse: Callable[[Ints], bool] | None = None,
) -> tuple[LinearSolution, int]:
    """Solve until the placement keeps all rules exactly; return the answer and the cuts made.

    Parameters
    ----------
    kept
        Names of the violations that count.
    solve
        Solves the model as it stands, in the time that the request has left.
    worse
        Whether a placement is to be cut off though it keeps all rules.
    """

    def refused(x: Floats) -> bool:
        node = made.place(x)
        if cut_off(instance, made, node, kept):
            return True
        if worse is None or not worse(node):
            return False
        _add_row(made, node[made.task] == made.node, -np.inf, len(node) - 1)
        return True

    return solve_kept(solve, refused, lambda: request.remaining() == 0)


def cut_off(instance: Instance, made: AllocationModel, node: Ints, kept: frozenset[str]) -> bool:
    """Add rows that a placement breaks, where it breaks a rule; return whether it does.

    Parameters
    ----------
    kept
        Names of the violations that count.
    """
    if not any(found.rule in kept for found in broken(Placement(instance, node))):
        return False
    loads, bound = node_loads(instance, node), instance.nodes.capacity * _share(instance)
    crowded = np.argwhere(over(loads, bound)).tolist()
    for n, r in crowded:
        cover = _cover(instance, np.flatnonzero(node == n).astype(np.int32), n, r)
        room = instance.headroom[:, r] + slack(bound[:, r])
        for m in np.flatnonzero(room <= room[n]):
            together = np.isin(made.task, cover) & (made.node == m)
            _add_row(made, together, -np.inf, len(cover) - 1)
    undealt = [] if crowded else list(_undealt(instance, node))
    for tasks, nodes in undealt:
        for m in nodes.tolist():
            _add_row(made, np.isin(made.task, tasks) & (made.node == m), -np.inf, len(tasks) - 1)
    if not crowded and not undealt:
        _add_row(made, node[made.task] == made.node, -np.inf, len(node) - 1)
    return True


def _undealt(instance: Instance, node: Ints) -> Iterator[tuple[Ints, NDArray[Any]]]:
    """Yield tasks that cannot be dealt to a node's slots, none of which could be spared, and where.

    That is the node, and those whose slots are no more and no larger.
    """
    spread = instance.slot_sets.rule == SPREAD
    if (instance.topologies.workers >= 0).any() or spread.any():
        return
    nodes = instance.nodes
    slots = np.where(nodes.slots < 0, np.inf, nodes.slots)
    for n in np.unique(node).tolist():
        tasks = np.flatnonzero(node == n).astype(np.int32)
        if not _cannot_be_dealt(instance, tasks, n):
            continue
        for t in tasks.tolist():
            fewer = tasks[tasks != t]
            if _cannot_be_dealt(instance, fewer, n):
                tasks = fewer
        smaller = (nodes.slot_capacity <= nodes.slot_capacity[n]).all(axis=1)
        yield tasks, np.flatnonzero(smaller & (slots <= slots[n]))


def _cannot_be_dealt(instance: Instance, tasks: Ints, n: int) -> bool:
    alone = np.full(instance.num_tasks, -1, dtype=np.int32)
    alone[tasks] = n
    found = assign_slots(instance, alone)
    return found.slot is None and found.proven


def _cover(instance: Instance, tasks: Ints, n: int, r: int) -> Ints:
    """Return tasks of a node that are too much for it, none of which could be spared."""
    load = instance.tasks.load[tasks, r]
    bound = float(instance.nodes.capacity[n, r] * _share(instance)[r])
    keep = load > 0
    for k in np.argsort(load, kind="stable"):
        if keep[k]:
            keep[k] = False
            needed = float(load[keep].sum() + instance.nodes.background[n, r])
            if not over(needed, bound):
                keep[k] = True
    return tasks[keep]


def _share(instance: Instance) -> Floats:
    return instance.limits.max_utilisation


def _add_row(made: AllocationModel, chosen: Bools, least: float, most: float) -> None:
    columns = np.flatnonzero(chosen)
    zeros = np.zeros(len(columns), dtype=np.int64)
    made.model.add_rows("cut_off", least, most, zeros, columns, 1.0, num_rows=1)
