"""The compact form of `eoa-milp`: the textbook model of task allocation, and what EOA adds to it.

y_n    node n is in use                    x_tn ≤ y_n,  Σ_t load_t x_tn ≤ room_n y_n
d_n    distance of a share from the mean   d_n ≥ |u_n − ū|
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.elastic.problem import (
    LevelAnswer,
    counted_nodes,
    largest_share,
    scale_of,
    shares,
    surely,
)
from formulations.model_rows import add_deviation, add_in_use, check_products
from formulations.task_allocation.common import HONOURS, LINEAR_ONLY, relabelled
from formulations.task_allocation.model import MOST_PRODUCTS, solve_exactly
from formulations.task_allocation.model import build as build_allocation
from optim.errors import Problem, UnsuitableMethod
from optim.figures.measures import node_loads
from optim.kernels.classes import node_classes
from optim.kernels.room import link_room, placing_room
from optim.rules import kept_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from formulations.elastic.problem import EoaProblem, Goal, Settings
    from formulations.task_allocation.model import AllocationModel
    from optim.format.tables import Floats, Ints


@dataclass(frozen=True, eq=False)
class ProductModel:
    """A built model and where its variables are.

    Attributes
    ----------
    placement
        Tasks on nodes, products, links and rules: the first columns. To be maximised.
    used
        Column of y of each node, -1 for none.
    sides
        Column of the mean share, after which those of the distances from it come; -1 for none.
    """

    placement: AllocationModel
    used: NDArray[np.int64]
    sides: int

    def vector(self, problem: EoaProblem, node: Ints) -> Floats:
        """Write (T,) nodes as a full column vector."""
        x = self.placement.vector(node)
        modelled = np.flatnonzero(self.used >= 0)
        x[self.used[modelled]] = np.isin(modelled, node)
        if self.sides >= 0:
            load = node_loads(problem.instance, node)[:, 0]
            share = shares(problem, load) / largest_share(problem)
            x[self.sides] = share.mean()
            x[self.sides + 1 : self.sides + 1 + len(share)] = np.abs(share - share.mean())
        return x


class _Builder:
    """Adds one family of rows a method."""

    def __init__(self, problem: EoaProblem, placement: AllocationModel) -> None:
        self.problem, self.placement, self.model = problem, placement, placement.model
        self.task, self.node = placement.task, placement.node
        self.x = np.arange(len(self.task))
        self.z, self.rate = placement.traffic()
        self.load, self.room = problem.instance.tasks.load, placing_room(problem.instance)
        self.used = np.full(problem.num_nodes, -1, dtype=np.int64)
        self.sides = -1

    def add_used(self) -> None:
        """What holds a task is in use, and else carries nothing; nodes of running ones are so."""
        problem, n = self.problem, self.problem.num_nodes
        empty = np.flatnonzero(problem.may.any(axis=0) & ~problem.occupied)
        y = self.model.add_variables(
            "used", len(empty), upper=1.0, integer=True, of={"node": empty}
        ).indices
        self.used[empty] = y
        add_in_use(self.model, self.placement.placing, self.used)
        # Σ_t load_tr x_tn ≤ room_nr y_n, which is stronger than x ≤ y in the relaxation
        held = np.flatnonzero(self.used[self.node] >= 0)
        x, node = self.x[held], self.node[held]
        for r in range(self.load.shape[1]):
            bound = empty[np.isfinite(self.room[empty, r])]
            on = np.isin(node, bound)
            self.model.add_sum(
                "capacity_in_use", -np.inf, 0.0, n,
                (node[on], x[on], self.load[self.task[held[on]], r]),
                (bound, self.used[bound], -self.room[bound, r]),
                of={"node": np.arange(n), "resource": r},
            )  # fmt: skip

    def add_sides(self) -> None:
        """d_n ≥ |u_n − ū| over the staying nodes, ū a variable; in parts of the largest share."""
        problem, counted = self.problem, counted_nodes(self.problem)
        unit = largest_share(problem)
        # u_n = base_n + of_one_n Σ_t load_t x_tn, in parts of the largest share so that all are ≤ 1
        of_one = shares(problem, np.ones(problem.num_nodes)) / unit  # 0 for one without capacity
        base = shares(problem, problem.instance.nodes.background[:, 0]) / unit
        ids = [problem.instance.nodes.ids[n] for n in counted.tolist()]
        placing, load = self.placement.placing, self.load[:, 0]
        columns = add_deviation(self.model, placing, load, base, of_one, ids, counted)
        self.sides = int(columns[0])

    def terms(self, goal: Goal) -> tuple[NDArray[Any], Floats, float]:
        """Columns, coefficients and constant of a goal."""
        problem = self.problem
        if goal == "capacity":
            nodes = np.flatnonzero(self.used >= 0)
            constant = float(problem.capacity_share[problem.occupied].sum())
            return self.used[nodes], problem.capacity_share[nodes], constant
        if goal == "network":
            return self.z, -self.rate, problem.instance.total_traffic
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
    break_symmetry: bool,
) -> ProductModel:
    """Build the model, the goal's negative to be maximised.

    Parameters
    ----------
    goal, caps
        What is minimised; goals of earlier levels with the most they may reach.
    unit
        The objective is counted in this unit.
    whole, break_symmetry
        As for `formulations.task_allocation.model.build`.
    """
    goals = {goal, *(name for name, _ in caps)}
    placement = build_allocation(
        problem.instance,
        break_symmetry=break_symmetry,
        alike=problem.node_keys,
        whole_products=whole,
        products="network" in goals or bool(np.isfinite(link_room(problem.instance)).any()),
        stars=True,
    )
    made = _Builder(problem, placement)
    if "capacity" in goals:
        made.add_used()
    if "absolute" in goals:
        made.add_sides()
    cols, values, constant = made.terms(goal)
    made.model.set_objective(cols, -values / unit, -constant / unit)
    for name, most in caps:
        cols, values, constant = made.terms(name)
        made.model.add_rows(f"level_{name}", -np.inf, most - constant, 0, cols, values, 1)
    return ProductModel(placement, made.used, made.sides)


# Solving one level in the compact form, until a placement keeps the rules exactly.

_KEPT = kept_by(HONOURS | LINEAR_ONLY)


class ProductForm:
    """The compact form of one problem, solved level by level.

    Raises
    ------
    UnsuitableMethod
        It would have too many products.
    """

    name = "products"
    large = True

    def __init__(self, problem: EoaProblem, settings: Settings) -> None:
        self.problem, self.settings = problem, settings
        check_products("eoa-milp", problem.instance, MOST_PRODUCTS, "use gma")

    def build(
        self, goal: Goal, caps: Sequence[tuple[Goal, float]] = ()
    ) -> tuple[ProductModel, float]:
        """Return the model of a goal, and the unit in which it maximises the goal's negative.

        Raises
        ------
        UnsuitableMethod
            The goal is quadratic.
        """
        if goal == "squares":
            reason = (
                "needs all sets of tasks that a node can hold, which are too many here, or bound "
                "by limits that sets do not show, or nodes of unequal capacity"
            )
            remedy = "use --objective mean_absolute_deviation"
            raise UnsuitableMethod(Problem("--objective", "cpu_deviation", reason, remedy))
        problem, settings = self.problem, self.settings
        unit = scale_of(problem, goal) / 1000.0
        # earlier levels may lose what a solver's tolerance is, or their own plan would be cut off
        slack = [(name, most + 1e-7 * scale_of(problem, name)) for name, most in caps]
        ordered = settings.break_symmetry
        made = build(problem, goal, slack, unit, whole=settings.whole, break_symmetry=ordered)
        return made, unit

    def solve(
        self, goal: Goal, caps: Sequence[tuple[Goal, float]], starts: Sequence[Ints]
    ) -> LevelAnswer:
        """Minimise a goal; `caps` are goals of earlier levels with the most they may reach.

        Raises
        ------
        UnsuitableMethod
            The goal is quadratic.
        """
        problem, settings, answer = self.problem, self.settings, LevelAnswer(goal)
        for start in starts:
            answer.offer(problem, start)
        made, unit = self.build(goal, caps)
        vector = None
        if answer.place is not None:
            node = problem.placement(answer.place)
            if settings.break_symmetry:
                node = relabelled(node, node_classes(problem.instance, problem.node_keys))
            vector = made.vector(problem, node)
        solution, _ = solve_exactly(
            problem.instance, made.placement, _KEPT, settings.request,
            lambda: settings.solve(made.placement.model, vector),
        )  # fmt: skip
        answer.solver, answer.build = solution.solver, solution.build_seconds
        answer.termination = str(solution.termination)
        if vector is not None:
            answer.accepted = solution.warm_start_accepted
        if solution.message:
            answer.notes.append(solution.message)
        if solution.x is not None:
            node = made.placement.place(solution.x)
            if answer.offer(problem, node[problem.free]):
                settings.request.offer(node)
        if solution.bound is not None:
            answer.bound = surely(problem, goal, -solution.bound * unit)
        return answer
