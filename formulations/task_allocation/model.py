"""The textbook model of task allocation: its columns, its rows, and what they stand for.

    max Σ_(u,v) Σ_n r_uv z_uvn
    s.t. Σ_n x_tn = 1                    every task on one node
         Σ_t load_tr x_tn ≤ room_nr      capacity, each resource
         Σ_t load_tr x_tn ≥ floor_nr     lower load bounds
         z_uvn ≤ x_un,  z_uvn ≤ x_vn     a pair is together on n only if both are there
         Σ_(moves) x_tn ≤ most           migrations, and their cost
         Σ_(u→v) r_uv (Σ_(n in l) x_un − w_uvl) ≤ room_l
                                         what leaves the nodes of a link, w as z for all of them
         load_ur x_un + Σ_v load_vr z_uvn ≤ room_nr x_un
                                         stars, if asked for: what is beside u fits there with it
and the rows of `formulations.rule_rows` for sets and inflow. Without stars the relaxation spreads
every task evenly and sees no traffic at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from formulations.rule_rows import RuleRows, Whereabouts, add_rule_rows
from optim.errors import Problem, UnsuitableMethod
from optim.figures.measures import node_loads
from optim.format.traffic import TaskPairs
from optim.kernels.classes import node_classes
from optim.kernels.place_rules import place_rules
from optim.kernels.room import link_room, most_of, placing_floor, placing_masks, placing_room
from optim.rules import broken, budgets
from optim.rules.placement import Placement
from optim.solvers import solve_kept
from optim.solvers.linear_model import LinearModel
from optim.util.tolerance import over, slack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats, Ints
    from optim.kernels.place_rules import PlaceRules
    from optim.methods.registry import Request
    from optim.solvers import LinearSolution


MOST_PRODUCTS = 2_000_000
"""Products, pairs times nodes, beyond which a model is refused."""

SCALED_TOTAL = 1000.0
"""Rates are scaled to this total, so that solver tolerances mean the same in every unit."""

_ORDERED_TASKS = 64


class Crossing(NamedTuple):
    """Directed pairs that may cross a link: (N,) its nodes, (P,) ends and column of each pair."""

    inside: NDArray[np.bool_]
    source: Ints
    target: Ints
    column: NDArray[Any]


@dataclass(frozen=True, eq=False)
class AllocationModel:
    """The model and its columns.

    Attributes
    ----------
    model
        To be maximised; objective in scaled rates.
    task, node
        (C,) what each placement variable stands for; they are the first C columns.
    u, v, at
        (Z,) tasks and node of each product variable; they come next.
    links
        The pairs whose traffic may cross each link with a capacity, with their columns.
    rules
        Columns that sets add.
    scale
        Rate unit per scaled unit.
    """

    model: LinearModel
    task: Ints
    node: Ints
    u: Ints
    v: Ints
    at: Ints
    links: list[Crossing]
    rules: RuleRows
    scale: float

    def place(self, x: NDArray[np.float64], num_tasks: int) -> Ints:
        """Read (T,) node indices off a solution."""
        chosen = np.flatnonzero(x[: len(self.task)] > 0.5)
        node = np.full(num_tasks, -1, dtype=np.int32)
        node[self.task[chosen]] = self.node[chosen]
        return node

    def vector(self, node: Ints) -> NDArray[np.float64]:
        """Write (T,) node indices as a full column vector."""
        vector = np.zeros(self.model.num_variables)
        x = node[self.task] == self.node
        z = (node[self.u] == self.at) & (node[self.v] == self.at)
        vector[: len(x) + len(z)] = np.concatenate([x, z])
        for link in self.links:
            vector[link.column] = link.inside[node[link.source]] & link.inside[node[link.target]]
        self.rules.complete(vector, node.astype(np.int64))
        return vector

    def without_objective(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Take traffic out of the objective; return the products and what they were worth."""
        z = np.arange(len(self.task), len(self.task) + len(self.u))
        worth = self.model.freeze().cost[z]
        self.model.set_objective(z, -worth)
        return z, worth


def build(
    instance: Instance,
    *,
    break_symmetry: bool = True,
    alike: Any = None,
    whole_products: bool = False,
    products: bool = True,
    empties: bool = True,
    stars: bool = False,
) -> AllocationModel:
    """Build the model.

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
        Without them every placement is as good as any other.
    empties
        Whether what is on leaving nodes must leave them.
    stars
        Add their rows, which no placement breaks.

    Raises
    ------
    UnsuitableMethod
        Too many products.
    """
    classes, rules = node_classes(instance, alike), place_rules(instance)
    kind, allowed, target = placing_masks(instance)
    pairs = instance.pairs if products else _none_of(instance.pairs)
    _check_size(len(pairs.u), instance.num_nodes)
    may = target[kind]
    if not empties:
        home = instance.tasks.node
        there = np.flatnonzero((home >= 0) & instance.nodes.leaving[home])
        may[there] = allowed[kind[there]]
    model = LinearModel("imc-milp", sense="max")
    task, node = (a.astype(np.int32) for a in np.nonzero(may))
    x = model.add_variables(
        "x", len(task), upper=1.0, integer=True, of={"task": task, "node": node}
    ).indices
    column = np.full(may.shape, -1, dtype=np.int64)
    column[task, node] = x
    scale = max(float(pairs.rate.sum()), 1e-300) / SCALED_TOTAL
    pair, at = np.nonzero(may[pairs.u] & may[pairs.v])
    z = model.add_variables(
        "together", len(pair), upper=1.0, integer=whole_products,
        objective=pairs.rate[pair] / scale,
        of={"task": pairs.u[pair], "other": pairs.v[pair], "node": at},
    ).indices  # fmt: skip
    u, v = pairs.u[pair], pairs.v[pair]
    add_assignment(model, task, x, instance.num_tasks)
    add_loads(model, instance, task, node, x)
    add_products(model, z, column[u, at], column[v, at], {"task": u, "other": v, "node": at})
    for r in range(instance.num_resources if stars else 0):
        add_stars(model, instance, column, (u, v, at, z), r)
    add_budgets(model, instance, rules, task, node, x)
    known = (pair, at, z) if products else None
    links = add_links(model, instance, column, known, whole=whole_products)
    if break_symmetry:
        add_order(model, map(classes.nodes_of, range(classes.num_classes)), column)
    nowhere = np.full(instance.num_tasks, -1, dtype=np.int64)
    where = Whereabouts(task.astype(np.int64), node.astype(np.int64), x, np.ones(len(x)), nowhere)
    made = add_rule_rows(model, rules, where)
    return AllocationModel(model, task, node, u, v, at.astype(np.int32), links, made, scale)


def _none_of(pairs: TaskPairs) -> TaskPairs:
    return TaskPairs(pairs.u[:0], pairs.v[:0], pairs.rate[:0])


def add_assignment(model: LinearModel, task: Ints, x: NDArray[Any], num_tasks: int) -> None:
    """Every task is on exactly one node: ``Σ_n x_tn = 1``."""
    model.add_rows(
        "assign", 1.0, 1.0, task, x, 1.0, num_rows=num_tasks, of={"task": np.arange(num_tasks)}
    )


def add_loads(
    model: LinearModel, instance: Instance, task: Ints, node: Ints, x: NDArray[Any]
) -> None:
    """Every node keeps its bounds on each resource: ``floor ≤ Σ_t load_tr x_tn ≤ room``."""
    load = instance.tasks.load
    upper, lower = placing_room(instance), placing_floor(instance)
    for r in range(instance.num_resources):
        bounded = np.isfinite(upper[:, r]) | np.isfinite(lower[:, r])
        row = np.cumsum(bounded) - 1
        used = bounded[node] & (load[task, r] > 0)
        if bounded.any():
            model.add_rows(
                "capacity", lower[bounded, r], upper[bounded, r], row[node[used]], x[used],
                load[task[used], r], num_rows=int(bounded.sum()),
                of={"node": np.flatnonzero(bounded), "resource": r},
            )  # fmt: skip


def add_products(
    model: LinearModel,
    z: NDArray[Any],
    x_u: NDArray[Any],
    x_v: NDArray[Any],
    of: Mapping[str, Any],
) -> None:
    """A pair is together on a node only if both are there: ``z ≤ x_u`` and ``z ≤ x_v``.

    `of` says what each product is of.
    """
    rows = np.arange(len(z))
    for name, x in (("with_first", x_u), ("with_second", x_v)):
        model.add_rows(
            name, -np.inf, 0.0, np.concatenate([rows, rows]), np.concatenate([z, x]),
            np.concatenate([np.ones(len(z)), -np.ones(len(z))]), num_rows=len(z), of=of,
        )  # fmt: skip


def add_stars(
    model: LinearModel,
    instance: Instance,
    column: NDArray[Any],
    products: tuple[NDArray[Any], ...],
    r: int,
) -> None:
    """What is beside a task on a node fits there with it: ``Σ_v load_v z_uvn ≤ (room − load) x``.

    Only where all its partners together would not.
    """
    u, v, at, z = (np.asarray(a, dtype=np.int64) for a in products)
    n, load, room = instance.num_nodes, instance.tasks.load[:, r], placing_room(instance)[:, r]
    value = np.concatenate([load[v], load[u]])
    keys, row = np.unique(np.concatenate([u * n + at, v * n + at]), return_inverse=True)
    t, node = keys // n, keys % n
    full = np.isfinite(room[node]) & (load[t] + np.bincount(row, value, len(keys)) > room[node])
    number, kept = np.cumsum(full) - 1, full[row]
    t, node = t[full], node[full]
    if len(t):
        model.add_rows(
            "star", -np.inf, 0.0, np.concatenate([number[row[kept]], np.arange(len(t))]),
            np.concatenate([np.concatenate([z, z])[kept], column[t, node]]),
            np.concatenate([value[kept], load[t] - room[node]]), num_rows=len(t),
            of={"task": t, "node": node, "resource": r},
        )  # fmt: skip


def add_budgets(
    model: LinearModel,
    instance: Instance,
    rules: PlaceRules,
    task: Ints,
    node: Ints,
    x: NDArray[Any],
) -> None:
    """Σ weight_t · x_tn ≤ limit over migrations, for each budget; moves onto copies are none."""
    pays = rules.pays(task.astype(np.int64), node.astype(np.int64))
    for budget in budgets(instance):
        model.add_rows(
            budget.name, -np.inf, most_of(budget), np.zeros(pays.sum(), dtype=np.int64), x[pays],
            budget.weight[task[pays]], num_rows=1,
        )  # fmt: skip


def add_links(
    model: LinearModel,
    instance: Instance,
    column: NDArray[Any],
    products: tuple[NDArray[Any], NDArray[Any], NDArray[Any]] | None,
    *,
    whole: bool,
) -> list[Crossing]:
    """What leaves and what enters the nodes of each link keeps its capacity.

    Parameters
    ----------
    products
        Pair, node and column of each product: what a link of one node needs no others for.
    """
    links, room = instance.links, link_room(instance)
    made = []
    source, target, rate = instance.flows.directed()
    every = np.arange(len(rate))
    for i in np.flatnonzero(np.isfinite(room)):
        nodes = links.node_indices[links.node_indptr[i] : links.node_indptr[i + 1]]
        inside = np.zeros(instance.num_nodes, dtype=np.bool_)
        inside[nodes] = True
        ends = [np.where(inside, column[end], -1) for end in (source, target)]
        if products is not None and len(nodes) == 1:
            both = _on_node(instance, source, target, products, int(nodes[0]))
        else:
            of = {"link": i, "task": source, "other": target}
            both = model.add_variables("inside", len(rate), upper=1.0, integer=whole, of=of).indices
            made.append(Crossing(inside, source, target, both))
            for name, there in zip(("source_inside", "target_inside"), ends, strict=True):
                pair, at = np.nonzero(there >= 0)
                model.add_rows(
                    name, -np.inf, 0.0, np.concatenate([every, pair]),
                    np.concatenate([both, there[pair, at]]),
                    np.concatenate([np.ones(len(rate)), -np.ones(len(pair))]), num_rows=len(rate),
                    of=of,
                )  # fmt: skip
        some = np.flatnonzero(both >= 0)
        cols, values = [], []
        # 1 and 2 count one direction only, 0 both
        for there, other in zip(ends, (2, 1), strict=True):
            if links.direction[i] != other:
                pair, at = np.nonzero(there >= 0)
                cols += [there[pair, at], both[some]]
                values += [rate[pair], -rate[some]]
        columns = np.concatenate(cols)
        model.add_rows(
            "link", -np.inf, room[i] - links.background[i],
            np.zeros(len(columns), dtype=np.int64), columns, np.concatenate(values), num_rows=1,
            of={"link": i},
        )  # fmt: skip
    return made


def _on_node(
    instance: Instance, source: Ints, target: Ints, products: tuple[Any, Any, Any], node: int
) -> NDArray[np.int64]:
    """(D,) product of each directed pair on a node, -1 where its ends cannot both be there."""
    pairs, size = instance.pairs, instance.num_tasks
    pair, at, z = products
    column = np.full(len(pairs.u) + 1, -1, dtype=np.int64)
    column[pair[at == node]] = z[at == node]
    low, high = np.minimum(source, target), np.maximum(source, target)
    keys = pairs.u.astype(np.int64) * size + pairs.v
    return np.asarray(column[np.searchsorted(keys, low.astype(np.int64) * size + high)])


def add_order(model: LinearModel, classes: Iterable[NDArray[Any]], column: NDArray[Any]) -> None:
    """Number identical places by their first task: ``x_t,j+1 ≤ Σ_(s<t) x_sj``.

    Every placement becomes one that keeps this when identical places are exchanged, so no value is
    lost. The rows are written for the first tasks only; any part of them is valid.

    Parameters
    ----------
    classes
        Places, nodes or slots, that are identical.
    column
        (T, places) column of each task on each, -1 for none.
    """
    rows: list[NDArray[Any]] = []
    cols: list[NDArray[Any]] = []
    values: list[NDArray[Any]] = []
    count = 0
    for members in classes:
        usable = np.flatnonzero((column[:, members[:1]] >= 0).any(axis=1))[:_ORDERED_TASKS]
        for before, after in pairwise(members):
            for i, t in enumerate(usable):
                rows.append(np.full(i + 1, count))
                cols.append(np.append(column[usable[:i], before], column[t, after]))
                values.append(np.append(-np.ones(i), 1.0))
                count += 1
    if count:
        model.add_rows(
            "first_task", -np.inf, 0.0, np.concatenate(rows), np.concatenate(cols),
            np.concatenate(values), num_rows=count,
        )  # fmt: skip


def _check_size(num_pairs: int, num_nodes: int) -> None:
    products = num_pairs * num_nodes
    if products > MOST_PRODUCTS:
        reason = (
            f"would need {products:,} products ({num_pairs:,} communicating pairs × "
            f"{num_nodes:,} nodes), more than {MOST_PRODUCTS:,}"
        )
        raise UnsuitableMethod(
            Problem("imc-milp", None, reason, "use imc-exact, imc-search or partition")
        )


# Cuts against placements that a solver takes for feasible and the referee does not.
#
# A node whose tasks exceed its capacity holds a *cover*: tasks that it cannot hold together. At
# most all but one of them may be there, on this node and on every other that has no more room. Of
# other rules only the placement itself is cut off.
#
# Source: E. Balas, "Facets of the knapsack polytope", Mathematical Programming 8 (1975).


def solve_exactly(
    instance: Instance,
    made: AllocationModel,
    kept: frozenset[str],
    request: Request,
    solve: Callable[[], LinearSolution],
) -> tuple[LinearSolution, int]:
    """Solve until the placement keeps all rules exactly; return the answer and the cuts made.

    Parameters
    ----------
    kept
        Names of the violations that count.
    solve
        Solves the model as it stands, in the time that the request has left.
    """

    def refused(x: Floats) -> bool:
        return cut_off(instance, made, made.place(x, instance.num_tasks), kept)

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
    if not crowded:
        _add_row(made, node[made.task] == made.node, -np.inf, len(node) - 1)
    return True


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
