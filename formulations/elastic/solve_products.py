"""Solving one level in the compact form, with one call of the back end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.elastic.goals import LevelAnswer, scale_of, surely
from formulations.elastic.patterns.columns import node_classes
from formulations.elastic.products import build
from formulations.task_allocation.common import relabelled
from optim.errors import Problem, UnsuitableMethod

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formulations.elastic.goals import Goal
    from formulations.elastic.problem import EoaProblem
    from formulations.elastic.settings import Settings
    from optim.format.tables import Ints


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
        products = len(problem.u) * problem.num_nodes
        if products > settings.most_products:
            reason = (
                f"would need {products:,} products ({len(problem.u):,} communicating pairs × "
                f"{problem.num_nodes:,} nodes), more than the {settings.most_products:,} of "
                "option most_products"
            )
            raise UnsuitableMethod(Problem("eoa-milp", None, reason, "use gma"))
        self.classes = node_classes(problem) if settings.break_symmetry else None

    def solve(
        self, goal: Goal, caps: Sequence[tuple[Goal, float]], starts: Sequence[Ints]
    ) -> LevelAnswer:
        """Minimise a goal; `caps` are goals of earlier levels with the most they may reach.

        Raises
        ------
        UnsuitableMethod
            The goal is quadratic.
        """
        if goal == "squares":
            reason = (
                "needs all sets of tasks that a node can hold, too many here, or nodes of unequal "
                "capacity"
            )
            remedy = "raise most_patterns, or use --objective mean_absolute_deviation"
            raise UnsuitableMethod(Problem("--objective", "cpu_deviation", reason, remedy))
        problem, answer = self.problem, LevelAnswer(goal)
        for start in starts:
            answer.offer(problem, start)
        unit = scale_of(problem, goal) / 1000.0
        slack = [(name, most + 1e-7 * scale_of(problem, name)) for name, most in caps]
        made = build(problem, goal, slack, unit, whole=self.settings.whole, classes=self.classes)
        vector = None
        if answer.place is not None:
            place = answer.place
            if self.classes is not None and len(place):
                place = relabelled(place, self.classes).astype(np.int32)
            vector = made.vector(problem, place)
        solution = self.settings.solve(made.model, vector)
        answer.solver, answer.build = solution.solver, solution.build_seconds
        answer.termination = str(solution.termination)
        if vector is not None:
            answer.accepted = solution.warm_start_accepted
        if solution.message:
            answer.notes.append(solution.message)
        if solution.x is not None:
            place = made.place(solution.x, problem.num_free)
            if answer.offer(problem, place):
                self.settings.request.offer(problem.placement(place))
        if solution.bound is not None:
            answer.bound = surely(problem, goal, solution.bound * unit)
        return answer
