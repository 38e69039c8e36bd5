"""The compact form of `eoa-milp`: one binary a free task and node, products of pairs.

    x_tn   task t is on node n                 Σ_n x_tn = 1
    y_n    node n is in use                    x_tn ≤ y_n,  Σ_t load_t x_tn ≤ room_n y_n
    z_uvn  both ends of a pair are on n        z_uvn ≤ x_un,  z_uvn ≤ x_vn
    uplink     Σ_t (deg_t − 2 beside_tn) x_tn − 2 Σ r_uv z_uvn ≤ room of the uplink − running
    star       load_u x_un + Σ_v load_v z_uvn ≤ room_n x_un

Products exist only for pairs that communicate. The star rows say that what stands beside u must fit
beside u; without them the relaxation spreads every task evenly and sees no traffic at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.elastic.goals import counted_nodes, largest_share, shares
from formulations.task_allocation.model import add_node_order, add_products
from optim.solvers.linear_model import LinearModel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from formulations.elastic.goals import Goal
    from formulations.elastic.problem import EoaProblem, SharedLink
    from formulations.patterns.classes import NodeClasses
    from optim.format.tables import Floats, Ints


@dataclass(frozen=True, eq=False)
class ProductModel:
    """A built model and where its variables are.

    Attributes
    ----------
    model
        To be minimised.
    task, node
        (C,) what each placement variable stands for; they are the first C columns.
    used
        Column of y of each node, -1 for none.
    pair, at
        (Z,) pair and node of each product.
    products, sides
        Column of the first product; of the mean share and the distances from it, -1 for none.
    shared
        Links of several nodes with the column of their first product.
    """

    model: LinearModel
    task: Ints
    node: Ints
    used: NDArray[np.int64]
    pair: NDArray[np.int64]
    at: NDArray[np.int64]
    products: int
    sides: int
    shared: tuple[tuple[SharedLink, int], ...]

    def place(self, x: Floats, num_free: int) -> Ints:
        """Read (F,) nodes off a solution."""
        chosen = np.flatnonzero(x[: len(self.task)] > 0.5)
        place = np.full(num_free, -1, dtype=np.int32)
        place[self.task[chosen]] = self.node[chosen]
        return place

    def vector(self, problem: EoaProblem, place: Ints) -> Floats:
        """Write (F,) nodes as a full column vector."""
        x = np.zeros(self.model.num_variables)
        x[: len(self.task)] = place[self.task] == self.node
        modelled = np.flatnonzero(self.used >= 0)
        x[self.used[modelled]] = np.isin(modelled, place)
        u, v = problem.u[self.pair], problem.v[self.pair]
        both = (place[u] == self.at) & (place[v] == self.at)
        x[self.products : self.products + len(both)] = both
        for link, start in self.shared:
            behind = np.isin(place, link.nodes)
            x[start : start + len(problem.u)] = behind[problem.u] & behind[problem.v]
        if self.sides >= 0:
            load = problem.base + np.bincount(place, problem.load[:, 0], problem.num_nodes)
            share = shares(problem, load) / largest_share(problem)
            x[self.sides] = share.mean()
            x[self.sides + 1 : self.sides + 1 + len(share)] = np.abs(share - share.mean())
        return x


class _Builder:
    """Adds one family of rows a method."""

    def __init__(self, problem: EoaProblem, goals: set[Goal], *, whole: bool) -> None:
        self.problem, self.goals, self.whole = problem, goals, whole
        self.model = LinearModel("eoa-milp", sense="min")
        self.task, self.node = (a.astype(np.int32) for a in np.nonzero(problem.may))
        self.x = self.model.add_variables("place", len(self.task), upper=1.0, integer=True).indices
        self.column = np.full(problem.may.shape, -1, dtype=np.int64)
        self.column[self.task, self.node] = self.x
        self.used = np.full(problem.num_nodes, -1, dtype=np.int64)
        self.pair = self.at = np.zeros(0, dtype=np.int64)
        self.z = np.zeros(0, dtype=np.int64)
        self.sides = -1

    def add_assignment(self) -> None:
        """Every free task is on one node."""
        self.model.add_rows(
            "assign", 1.0, 1.0, self.task, self.x, 1.0, num_rows=self.problem.num_free
        )

    def add_used(self) -> None:
        """A node that holds a free task is in use; nodes of running tasks are so anyway."""
        if "capacity" not in self.goals:
            return
        empty = np.flatnonzero(self.problem.may.any(axis=0) & ~self.problem.occupied)
        y = self.model.add_variables("used", len(empty), upper=1.0, integer=True).indices
        self.used[empty] = y
        held = np.flatnonzero(self.used[self.node] >= 0)
        row = np.arange(len(held))
        self.model.add_rows(
            "in use", -np.inf, 0.0, np.concatenate([row, row]),
            np.concatenate([self.x[held], self.used[self.node[held]]]),
            np.concatenate([np.ones(len(held)), -np.ones(len(held))]), num_rows=len(held),
        )  # fmt: skip

    def add_loads(self) -> None:
        """Every node keeps its bounds on each resource; an unused one carries nothing."""
        problem, n = self.problem, self.problem.num_nodes
        for r, name in enumerate(problem.instance.resources):
            upper, lower = problem.room[:, r].copy(), problem.floor[:, r]
            lower = np.where(lower > 0, lower, -np.inf)
            values = problem.load[self.task, r]
            rows, cols = [self.node], [self.x]
            parts = [values]
            shut = np.flatnonzero((self.used >= 0) & np.isfinite(upper) & (upper >= 0))
            rows.append(shut.astype(np.int32))
            cols.append(self.used[shut])
            parts.append(-upper[shut])
            upper[shut] = 0.0
            self.model.add_rows(
                f"room.{name}", -np.inf, upper, np.concatenate(rows), np.concatenate(cols),
                np.concatenate(parts), num_rows=n,
            )  # fmt: skip
            if np.isfinite(lower).any():
                self.model.add_rows(
                    f"floor.{name}", lower, np.inf, self.node, self.x, values, num_rows=n
                )

    def add_pairs(self) -> None:
        """Add products where a goal or an uplink asks for them, and the rows that hold them."""
        problem = self.problem
        asked = np.isfinite(problem.uplink) | ("network" in self.goals)
        may = problem.may[problem.u] & problem.may[problem.v] & asked
        self.pair, self.at = np.nonzero(may)
        self.z = self.model.add_variables(
            "together", len(self.pair), upper=1.0, integer=self.whole
        ).indices
        u, v = problem.u[self.pair], problem.v[self.pair]
        add_products(self.model, self.z, self.column[u, self.at], self.column[v, self.at])
        for r in range(problem.load.shape[1]):
            self._add_star(r)
        self._add_uplinks()

    def _add_star(self, r: int) -> None:
        """What stands beside a task on a node fits there with it."""
        problem, n = self.problem, self.problem.num_nodes
        u, v = problem.u[self.pair], problem.v[self.pair]
        load, room = problem.load[:, r], problem.room[:, r]
        centre = np.concatenate([u, v]).astype(np.int64) * n + np.concatenate([self.at, self.at])
        value = np.concatenate([load[v], load[u]])
        keys, row = np.unique(centre, return_inverse=True)
        most = room[keys % n]
        full = load[keys // n] + np.bincount(row, value, len(keys)) > most
        full &= np.isfinite(most)
        if not full.any():
            return
        number = np.cumsum(full) - 1
        kept = full[row]
        t, at = keys[full] // n, keys[full] % n
        self.model.add_rows(
            f"star {r}", -np.inf, 0.0,
            np.concatenate([number[row[kept]], np.arange(int(full.sum()))]),
            np.concatenate([np.concatenate([self.z, self.z])[kept], self.column[t, at]]),
            np.concatenate([value[kept], load[t] - room[at]]), num_rows=int(full.sum()),
        )  # fmt: skip

    def _add_uplinks(self) -> None:
        """A node's uplink carries all traffic of its tasks but twice what stays inside."""
        problem = self.problem
        tight = np.isfinite(problem.uplink)
        if not tight.any():
            return
        number = np.cumsum(tight) - 1
        on, inner = tight[self.node], tight[self.at]
        crossing = problem.degree[self.task] - 2.0 * problem.beside[self.task, self.node]
        most = problem.uplink - problem.incident + 2.0 * problem.inside
        self.model.add_rows(
            "uplink", -np.inf, most[tight],
            np.concatenate([number[self.node[on]], number[self.at[inner]]]),
            np.concatenate([self.x[on], self.z[inner]]),
            np.concatenate([crossing[on], -2.0 * problem.rate[self.pair[inner]]]),
            num_rows=int(tight.sum()),
        )  # fmt: skip

    def add_shared(self, link: SharedLink) -> int:
        """The same for a link of several nodes, with products of its own."""
        problem, pairs = self.problem, len(self.problem.u)
        w = self.model.add_variables("behind", pairs, upper=1.0, integer=self.whole).indices
        inside = np.isin(self.node, link.nodes)
        for name, end in (("behind first", problem.u), ("behind second", problem.v)):
            at = self.column[end][:, link.nodes]
            row, member = np.nonzero(at >= 0)
            self.model.add_rows(
                name, -np.inf, 0.0, np.concatenate([np.arange(pairs), row]),
                np.concatenate([w, at[row, member]]),
                np.concatenate([np.ones(pairs), -np.ones(len(row))]), num_rows=pairs,
            )  # fmt: skip
        running = problem.beside[:, link.nodes].sum(axis=1)
        crossing = problem.degree[self.task] - 2.0 * running[self.task]
        cols = np.concatenate([self.x[inside], w])
        values = np.concatenate([crossing[inside], -2.0 * problem.rate])
        most = link.room + 2.0 * link.inside - float(problem.incident[link.nodes].sum())
        rows = np.zeros(len(cols), dtype=np.int64)
        self.model.add_rows("shared link", -np.inf, most, rows, cols, values, 1)
        return int(w[0]) if pairs else self.model.num_variables

    def add_budgets(self) -> None:
        """Moves of the free tasks keep within the budgets."""
        home = self.problem.home[self.task]
        away = (home >= 0) & (home != self.node)
        for name, most, price in self.problem.budgets:
            rows = np.zeros(int(away.sum()), dtype=np.int64)
            self.model.add_rows(
                name, -np.inf, most, rows, self.x[away], price[self.task[away]], num_rows=1
            )

    def add_sides(self) -> None:
        """d_n ≥ |u_n − ū| over the staying nodes, ū a variable; in parts of the largest share."""
        if "absolute" not in self.goals:
            return
        problem, counted = self.problem, counted_nodes(self.problem)
        m = len(counted)
        unit = largest_share(problem)
        of_one = shares(problem, np.ones(problem.num_nodes)) / unit  # 0 for one without capacity
        base = shares(problem, problem.base) / unit
        mean, *d = self.model.add_variables("side", m + 1, upper=1.0).indices
        self.sides = int(mean)
        number = np.full(problem.num_nodes, -1, dtype=np.int64)
        number[counted] = np.arange(m)
        on = number[self.node] >= 0
        row, x = number[self.node[on]], self.x[on]
        value = problem.load[self.task[on], 0] * of_one[row]
        self.model.add_rows(
            "mean", -base.sum(), -base.sum(), np.zeros(len(x) + 1, np.int64),
            np.append(x, mean), np.append(value, -float(m)), num_rows=1,
        )  # fmt: skip
        every = np.arange(m)
        for name, sign in (("above", 1.0), ("below", -1.0)):
            self.model.add_rows(
                name, -np.inf, -sign * base, np.concatenate([row, every, every]),
                np.concatenate([x, np.full(m, mean), np.array(d)]),
                np.concatenate([sign * value, np.full(m, -sign), -np.ones(m)]), num_rows=m,
            )  # fmt: skip

    def terms(self, goal: Goal) -> tuple[NDArray[Any], Floats, float]:
        """Columns, coefficients and constant of a goal."""
        problem = self.problem
        if goal == "capacity":
            nodes = np.flatnonzero(self.used >= 0)
            constant = float(problem.capacity_share[problem.occupied].sum())
            return self.used[nodes], problem.capacity_share[nodes], constant
        if goal == "network":
            constant = problem.instance.total_traffic - float(problem.inside.sum())
            cols = np.concatenate([self.x, self.z])
            gains = [problem.beside[self.task, self.node], problem.rate[self.pair]]
            return cols, -np.concatenate(gains), constant
        m = len(counted_nodes(problem))
        weight = largest_share(problem) / m
        return np.arange(self.sides + 1, self.sides + 1 + m), np.full(m, weight), 0.0


def build(
    problem: EoaProblem,
    goal: Goal,
    caps: Sequence[tuple[Goal, float]],
    unit: float,
    *,
    whole: bool,
    classes: NodeClasses | None,
) -> ProductModel:
    """Build the model.

    Parameters
    ----------
    goal, caps
        What is minimised; goals of earlier levels with the most they may reach.
    unit
        The objective is counted in this unit.
    whole
        Declare the products integer.
    classes
        Identical nodes to number by their first task; ``None`` leaves them alone.
    """
    made = _Builder(problem, {goal, *(name for name, _ in caps)}, whole=whole)
    made.add_assignment()
    made.add_used()
    made.add_loads()
    made.add_pairs()
    shared = tuple((link, made.add_shared(link)) for link in problem.shared)
    made.add_budgets()
    made.add_sides()
    cols, values, constant = made.terms(goal)
    made.model.set_objective(cols, values / unit, constant / unit)
    for name, most in caps:
        cols, values, constant = made.terms(name)
        rows = np.zeros(len(cols), dtype=np.int64)
        made.model.add_rows(f"level {name}", -np.inf, most - constant, rows, cols, values, 1)
    if classes is not None:
        add_node_order(made.model, classes, made.column)
    start = int(made.z[0]) if len(made.z) else 0
    return ProductModel(
        made.model, made.task, made.node, made.used, made.pair, made.at, start, made.sides, shared
    )
