"""Why no placement exists: the limit without which there would be one, and what breaks it then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formulations.task_allocation.common import why_nothing_fits
from optim.referee.evaluate import evaluate_indices
from optim.rules import limits_set, without_limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from optim.format.instance import Instance
    from optim.format.tables import Ints
    from optim.rules.violation import Violation

_SHOWN = 20
_LAST = ("capacity",)


def reasons(
    instance: Instance,
    place: Callable[[Instance], Ints | None],
    over: Callable[[], bool],
) -> tuple[Violation, ...]:
    """Return what a placement would break that keeps all limits but one.

    Parameters
    ----------
    instance
        Proven to have no placement.
    place
        Looks for any placement of an instance: (T,) nodes.
    over
        Whether the time is up; then only the totals are told.
    """
    for name in limits_set(instance):
        if name in _LAST or over():
            continue
        node = place(without_limits(instance, (name,)))
        broken = () if node is None else evaluate_indices(instance, node).violations
        if broken:
            return broken[:_SHOWN]
    return why_nothing_fits(instance)
