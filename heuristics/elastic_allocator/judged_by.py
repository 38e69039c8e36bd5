"""Which figure a plan of the family is judged by: the names its option ``objective`` takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optim.registry import Request

_FIGURES = {"utilisation": "used_capacity", "deviation": "cpu_deviation"}

OBJECTIVE_NAMES = tuple(_FIGURES)


def judged_by(request: Request) -> str:
    """Return the name of the objective in `optim.objectives` that an option asks for."""
    return _FIGURES[request.options["objective"]]
