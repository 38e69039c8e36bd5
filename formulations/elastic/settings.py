"""How an EOA model is solved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from optim.solvers import solve_linear

if TYPE_CHECKING:
    from optim.format.tables import Floats
    from optim.methods.registry import Request
    from optim.solvers import LinearSolution
    from optim.solvers.linear_model import LinearModel


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
