"""What a method is asked to optimise, checked against what it can."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optim.errors import InvalidInput, Problem
from optim.figures.catalogue import find_objective

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optim.methods.registry import Method


def aim(
    method: Method, objective: str | None, options: Mapping[str, Any]
) -> tuple[Method, dict[str, Any]]:
    """Return the method with what it is to optimise for its objective, and its options.

    Parameters
    ----------
    objective
        Name of a figure; ``None`` for the method's own. A choice of an option ``objective`` that
        the method has itself goes there.
    options
        As given to `solve`.

    Raises
    ------
    InvalidInput
        There is no such objective, or the method does not optimise it.
    """
    if objective is None:
        return method, dict(options)
    if any(o.name == "objective" and objective in o.choices for o in method.options):
        return method, {**options, "objective": objective}
    figure = find_objective(objective)
    if figure.name not in method.objectives:
        verb = "maximise" if figure.sense == "max" else "minimise"
        reason = f"is nothing for {method.name}, which does not {verb} {figure.name}"
        remedy = f"it can: {', '.join(method.objectives)}"
        raise InvalidInput(Problem("--objective", objective, reason, remedy))
    return method.aimed_at(figure.name), dict(options)
