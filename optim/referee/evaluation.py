"""What the referee found: feasibility, violations with figures, and every quantity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optim.figures.catalogue import FIGURES, Figures, find_objective

if TYPE_CHECKING:
    from optim.rules.violation import Violation


@dataclass(frozen=True, kw_only=True)
class Evaluation(Figures):
    """The referee's verdict on one plan, and its figures (`optim.figures.catalogue`).

    Attributes
    ----------
    feasible, violations
        Whether the plan keeps every rule, and those it breaks.
    """

    feasible: bool
    violations: tuple[Violation, ...]

    def objective(self, name: str) -> float | None:
        """Return the value of an objective, as `find_objective` reads it.

        Raises
        ------
        InvalidInput
            There is no such objective.
        """
        return find_objective(name).read(self)

    def _repr_html_(self) -> str:
        from optim.referee.html import evaluation_html

        return evaluation_html(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the evaluation as plain data."""
        verdict = {"feasible": self.feasible, "violations": [v.to_dict() for v in self.violations]}
        return verdict | {figure.name: getattr(self, figure.name) for figure in FIGURES}
