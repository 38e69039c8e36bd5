"""Why no placement exists: the limit without which there would be one, and what breaks it then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formulations.imc_common import why_nothing_fits
from optim.referee import evaluate_indices
from optim.suitability import limits_set

if TYPE_CHECKING:
    from collections.abc import Callable

    from formulations.eoa_goals import LevelAnswer
    from formulations.eoa_problem import EoaProblem
    from optim.evaluation import Violation
    from optim.instance import Instance

_SHOWN = 20
_LAST = ("capacity",)


def reasons(
    instance: Instance,
    place: Callable[[Instance], tuple[EoaProblem, LevelAnswer]],
    over: Callable[[], bool],
) -> tuple[Violation, ...]:
    """Return what a placement would break that keeps all limits but one.

    Parameters
    ----------
    instance
        Proven to have no placement.
    place
        Looks for any placement of an instance.
    over
        Whether the time is up; then only the totals are told.
    """
    for name in limits_set(instance):
        if name in _LAST or over():
            continue
        problem, answer = place(instance.without_limits((name,)))
        if answer.place is not None:
            judged = evaluate_indices(instance, problem.placement(answer.place))
            return judged.violations[:_SHOWN]
    return why_nothing_fits(instance)
