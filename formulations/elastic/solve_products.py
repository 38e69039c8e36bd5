"""Solving one level in the compact form, until a placement keeps the rules exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formulations.elastic.goals import LevelAnswer, scale_of, surely
from formulations.elastic.products import build
from formulations.task_allocation.common import HONOURS, LINEAR_ONLY, relabelled
from formulations.task_allocation.covers import solve_exactly
from optim.errors import Problem, UnsuitableMethod
from optim.kernels.classes import node_classes
from optim.rules import kept_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formulations.elastic.goals import Goal
    from formulations.elastic.problem import EoaProblem
    from formulations.elastic.settings import Settings
    from optim.format.tables import Ints

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
        pairs, nodes = len(problem.instance.pairs.u), problem.num_nodes
        if pairs * nodes > settings.most_products:
            reason = (
                f"would need {pairs * nodes:,} products ({pairs:,} communicating pairs × {nodes:,} "
                f"nodes), more than the {settings.most_products:,} of option most_products"
            )
            raise UnsuitableMethod(Problem("eoa-milp", None, reason, "use gma"))

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
                "needs all sets of tasks that a node can hold, which are too many here, or bound "
                "by limits that sets do not show, or nodes of unequal capacity"
            )
            remedy = "raise most_patterns, or use --objective mean_absolute_deviation"
            raise UnsuitableMethod(Problem("--objective", "cpu_deviation", reason, remedy))
        problem, settings, answer = self.problem, self.settings, LevelAnswer(goal)
        for start in starts:
            answer.offer(problem, start)
        unit = scale_of(problem, goal) / 1000.0
        slack = [(name, most + 1e-7 * scale_of(problem, name)) for name, most in caps]
        ordered = settings.break_symmetry
        made = build(problem, goal, slack, unit, whole=settings.whole, break_symmetry=ordered)
        vector = None
        if answer.place is not None:
            node = problem.placement(answer.place)
            if ordered:
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
            node = made.placement.place(solution.x, problem.instance.num_tasks)
            if answer.offer(problem, node[problem.free]):
                settings.request.offer(node)
        if solution.bound is not None:
            answer.bound = surely(problem, goal, -solution.bound * unit)
        return answer
