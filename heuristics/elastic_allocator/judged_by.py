"""Which figure a plan of the family is judged by: the names its option ``objective`` takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim.registry import Option

if TYPE_CHECKING:
    from optim.registry import Request

_FIGURES = {"utilisation": "used_capacity", "deviation": "cpu_deviation"}

OBJECTIVE_NAMES = tuple(_FIGURES)

JUDGED_BY = Option(
    "objective",
    "str",
    "utilisation",
    "what the plan is judged by; the plan is the same",
    choices=OBJECTIVE_NAMES,
)
"""Option of the methods that look at no figure."""


def judged_by(request: Request) -> str:
    """Return the name of the objective in `optim.objectives` that an option asks for."""
    return _FIGURES[request.options["objective"]]
