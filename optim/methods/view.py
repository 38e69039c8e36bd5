"""The instance as one method sees it, and the way back to the file's own words and units."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from optim.figures.catalogue import OBJECTIVES
from optim.methods.lowering import lowered
from optim.methods.outliers import with_bounded_costs, without_misfits
from optim.methods.scale import Scale, scale_of, scaled
from optim.util.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from optim.figures.figure import Figure
    from optim.format.instance import Instance
    from optim.methods.registry import Method, Outcome, Request

    Tell = Callable[[Progress], None]


@dataclass(frozen=True, eq=False)
class View:
    """What a method sees of an instance.

    Attributes
    ----------
    instance
        In units of `scale`, with rules that the method does not know written as capacities.
    scale
        What one of its units is in the file's.
    """

    instance: Instance
    scale: Scale

    def request(self, method: Method, request: Request, objective: Figure) -> Request:
        """Turn a request in the file's units into one that the method understands."""
        options = dict(request.options)
        for option in method.options:
            if option.unit and options[option.name] is not None:
                options[option.name] /= self.scale.of(option.unit)
        tell = request.progress
        return replace(
            request,
            options=options,
            gap=_difference(request.gap, objective, self.instance),
            scale=self.scale,
            progress=None if tell is None else self._told(tell, objective),
        )

    def outcome(self, outcome: Outcome, objective: Figure) -> None:
        """Write an outcome's figures in the file's units, in place."""
        factor = self.scale.of(objective.unit)
        outcome.claimed = _times(outcome.claimed, factor)
        outcome.bound = _times(outcome.bound, factor)
        outcome.trace = [(s, _times(x, factor), _times(b, factor)) for s, x, b in outcome.trace]
        outcome.levels = tuple(
            replace(
                level,
                value=_times(level.value, self.scale.of(level.unit)),
                bound=_times(level.bound, self.scale.of(level.unit)),
            )
            for level in outcome.levels
        )
        outcome.reasons = tuple(self.scale.told(self.instance, r) for r in outcome.reasons)

    def _told(self, tell: Tell, objective: Figure) -> Tell:
        factor = self.scale.of(objective.unit)

        def told(now: Progress) -> None:
            value, bound = _times(now.incumbent, factor), _times(now.bound, factor)
            tell(Progress(now.seconds, value, bound, now.phase))

        return told


def view_of(method: Method, instance: Instance) -> View:
    """Return what a method sees; model-driven plans are made from measured points as they stand."""
    if method.decides == "threads":
        return View(instance, Scale())
    seen = with_bounded_costs(lowered(instance, method.honours))
    scale = scale_of(seen)
    seen = scaled(seen, scale)
    if "allowed" in method.honours:
        seen = without_misfits(seen, OBJECTIVES[method.objective].binding(seen))
    return View(seen, scale)


def _difference(gap: float | None, objective: Figure, instance: Instance) -> float | None:
    """Return the gap as methods stop at it: load distances by a difference in their own unit."""
    return None if gap is None else objective.gap_to_difference(gap, instance.mean_load)


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor
