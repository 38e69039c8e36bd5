"""How an EOA model is solved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from optim.solvers import LinearSolution, solve_linear
from optim.solvers.inprocess import solve_small_milp
from optim.solvers.interface import LinearTermination

if TYPE_CHECKING:
    from optim.format.tables import Floats
    from optim.methods.registry import Request
    from optim.solvers.linear_model import LinearModel


FEW_NODES = 1000
"""Branch-and-bound nodes up to which HiGHS runs in this process: to start one would cost more."""


@dataclass(frozen=True)
class Settings:
    """Back end, clock and limits of a solve, from the request."""

    request: Request
    solver: str
    most_patterns: int
    most_products: int
    break_symmetry: bool

    @property
    def gap(self) -> float:
        """Relative gap that counts as done."""
        return 1e-7 if self.request.gap is None else self.request.gap

    @property
    def whole(self) -> bool:
        """Whether auxiliary variables must be declared integer."""
        return self.solver == "cp-sat"

    def over(self) -> bool:
        """Whether the time is up."""
        remaining = self.request.remaining()
        return remaining is not None and remaining <= 0

    def solve(self, model: LinearModel, start: Floats | None) -> LinearSolution:
        """Hand a model to the back end with the time that is left."""
        return solve_linear(
            model,
            self.solver,
            time_limit=self.request.remaining(),
            gap=self.gap,
            seed=self.request.seed,
            threads=self.request.threads,
            warm_start=start,
        )

    def solve_small(self, model: LinearModel, start: Floats | None) -> LinearSolution:
        """Solve a small model in this process; hand it to the back end where that has no end."""
        if self.solver != "highs":
            return self.solve(model, start)
        try:
            answer = solve_small_milp(model, self.request.remaining(), self.gap, FEW_NODES)
        except KeyboardInterrupt:  # what was proven before is kept
            ended = LinearTermination.INTERRUPTED
            return LinearSolution(ended, None, None, None, None, [], "", 0.0, 0.0)
        if answer.termination not in ("optimal", "infeasible"):
            return self.solve(model, start)
        return LinearSolution(
            answer.termination, answer.x, answer.objective, answer.bound, None, [], "", 0.0, 0.0
        )
