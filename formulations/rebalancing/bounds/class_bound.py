"""A strong bound when time is given: load distances refuted one after the other by small MILPs.

For a fixed distance the relaxation by classes (`formulations.rebalancing.bounds.class_model`) is
refuted within fractions of a second where branch and bound on the distance itself gets nowhere:
fixed windows make whole counts bind. What cannot be refuted yields counts, and they a placement to
go on from.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from formulations.rebalancing.bounds.class_model import GRANTED, build_class_model, load_classes
from optim.solvers import solve_linear

if TYPE_CHECKING:
    from collections.abc import Callable

    from formulations.rebalancing.problem import BalanceProblem, Ints

#: Rounds of bisection: classes, and the share of the time left that one attempt may take.
ROUNDS = ((60, 0.08), (60, 0.25), (240, 0.3), (960, 0.5))

#: Models beyond this many integers are not tried.
MAX_INTEGERS = 60_000

#: The least seconds left that are worth an attempt, and the shortest one where there is time.
LEAST, SHORTEST = 0.1, 1.5


@dataclass
class Refuting:
    """What is proven while distances are refuted.

    Attributes
    ----------
    problem
        What is bounded.
    bound
        Proven: no placement has a load distance below it.
    value
        Load distance of the best known placement.
    gap
        Stop when the two are this near, in points.
    remaining
        Seconds left.
    solver, seed, threads
        For the MILPs.
    on_counts
        Called with a placement read from counts that could not be refuted; returns the load
        distance of the best placement known after that.
    on_bound
        Called with each better bound.
    interrupted
        Whether the solver was stopped by Ctrl-C.
    """

    problem: BalanceProblem
    bound: float
    value: float
    gap: float
    remaining: Callable[[], float]
    on_counts: Callable[[Ints], float]
    on_bound: Callable[[float], None]
    solver: str = "highs"
    seed: int = 0
    threads: int = 1
    interrupted: bool = field(default=False, init=False)

    def run(self) -> None:
        """Refute distances until the gap is closed, time is up, or classes are fine enough."""
        for most, share in ROUNDS:
            if self._worthwhile(most):
                self._bisect(most, share)

    def _worthwhile(self, most: int) -> bool:
        problem = self.problem
        integers = problem.num_tasks + problem.num_nodes * min(most, problem.num_tasks)
        open_gap = self.value - self.bound > self.gap and not self.interrupted
        return open_gap and integers <= MAX_INTEGERS and self.remaining() > LEAST

    def _bisect(self, most: int, share: float) -> None:
        """Bisect between the bound and what these classes do not refute."""
        classes = load_classes(self.problem.load, most)
        ceiling = math.inf  # not refuted by these classes, or not in time
        near = max(0.5 * self.gap, 1e-9)
        while self._worthwhile(most):
            # what the model grants is a tenth of the narrowest gap, and comes off the bound
            top = self.value - 0.8 * self.gap
            goal = top if math.isinf(ceiling) else 0.5 * (self.bound + min(ceiling, top))
            if goal <= self.bound or min(ceiling, self.value) - self.bound <= near:
                return
            built = build_class_model(self.problem, classes, goal)
            left = self.remaining()
            limit = None if math.isinf(left) else max(min(SHORTEST, 0.5 * left), share * left)
            answer = solve_linear(
                built.model, self.solver, time_limit=limit, seed=self.seed, threads=self.threads
            )
            if answer.termination == "infeasible":
                # the model grants a little, so a placement just beyond the goal is refuted as well
                self.bound = max(self.bound, goal - GRANTED * max(1.0, self.problem.mean))
                self.on_bound(self.bound)
                continue
            ceiling = min(ceiling, goal)
            if answer.termination == "interrupted":
                self.interrupted = True
            if answer.x is not None:
                self.value = min(self.value, self.on_counts(built.read(answer.x)))
