"""What small models of a joint problem are made of: few pairs, and what all others may add.

Where a few pairs carry much and very many a little each, as one-to-one beside full partitioning, a
model of all pairs is too large and its relaxation too loose to say which moves are worth trying.
The backbone has the strong pairs only. What the others win by a move goes into the objective of
that move: at most what the key group has with those at home on that node, and half of its largest
rates with as many others as the budget lets move besides (the other half goes with them). So the
relaxation over all places still bounds the whole problem.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from formulations.rebalancing.bounds.collocation import largest_rates, most_moves
from formulations.rebalancing.joint.model import JointAim, build_joint

if TYPE_CHECKING:
    from formulations.rebalancing.joint.columns import Columns
    from formulations.rebalancing.joint.model import JointModel
    from formulations.rebalancing.joint.problem import JointProblem
    from formulations.rebalancing.problem import Floats


@dataclass(frozen=True)
class Backbone:
    """Strong and weak pairs of a problem, apart.

    Attributes
    ----------
    problem
        With the strong pairs only.
    rest
        With the weak ones only; ``None`` where every pair counts as strong.
    """

    problem: JointProblem
    rest: JointProblem | None = None

    @property
    def is_whole(self) -> bool:
        """Whether every pair is in it."""
        return self.rest is None

    @cached_property
    def moving(self) -> Floats:
        """(T, N) the most that weak pairs win when a key group moves to a node."""
        assert self.rest is not None
        rest, apart = self.rest, self.rest.apart
        tasks, nodes = rest.balance.num_tasks, rest.balance.num_nodes
        ends = rest.source[apart], rest.target[apart]
        task, partner = np.concatenate(ends), np.concatenate(ends[::-1])
        rate = np.concatenate([rest.rate[apart], rest.rate[apart]])
        at_home = np.bincount(task * nodes + rest.balance.home[partner], rate, tasks * nodes)
        along = 0.5 * largest_rates(task, rate, most_moves(rest) - 1, tasks)
        moving: Floats = at_home.reshape(tasks, nodes) + along[:, None]
        return moving

    def build(self, columns: Columns, aim: JointAim) -> JointModel:
        """Build the model over some columns; over all of them its relaxation bounds the whole."""
        built = build_joint(self.problem, columns, aim)
        if self.rest is not None and aim.goal == "traffic":
            placing = built.placing
            worth = self.moving[placing.task, placing.node]
            now = float(self.rest.rate[~self.rest.apart].sum())
            built.model.set_objective(placing.column, worth, offset=now)
        return built


def backbone_of(problem: JointProblem) -> Backbone:
    """Return the backbone; the problem itself where that is not dense, or its backbone is too."""
    if problem.is_dense and not problem.backbone.all():
        strong = problem.part(problem.backbone)
        if not strong.is_dense:
            return Backbone(strong, problem.part(~problem.backbone))
    return Backbone(problem)
