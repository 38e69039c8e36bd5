"""The line that tells how far a method has come."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from streamplace.present.numbers import duration, quantity
from streamplace.present.status_line import StatusLine
from streamplace.present.tables import gap_text

if TYPE_CHECKING:
    from optim.figures.figure import Figure
    from optim.util.progress import Progress

_FIRST_LINE = 2.0
_SPARSER = 1.5
_LONG = 20.0
_ROUNDING = 1e-9
"""A bound so small beside the incumbent is 0."""


class ProgressLine:
    """Shows incumbent, bound and gap of a running method; a callback for `optim.solve`.

    On a terminal one line is rewritten; elsewhere lines get sparser as time goes on, so that a
    log of an hour has some twenty.

    Parameters
    ----------
    objective, unit
        What is being found, and its unit with a space before it, or nothing.
    reference
        What its gap is in percent of, where it is (`Figure.gap`).
    stream
        Where to write; standard error if not given.
    hint
        Said once when a run that has a plan takes long; nothing if empty.
    """

    def __init__(
        self,
        objective: Figure,
        unit: str = "",
        reference: float | None = None,
        stream: TextIO | None = None,
        hint: str = "",
    ) -> None:
        self._objective = objective
        self._unit = unit
        self._reference = reference
        self._line = StatusLine(stream, _FIRST_LINE, lambda seconds: seconds * _SPARSER)
        self._hint = hint

    def __call__(self, progress: Progress) -> None:
        """Show a moment of the run, if it is time to."""
        if not self._line.due(progress.seconds):
            return
        if self._hint and progress.seconds >= _LONG and progress.incumbent is not None:
            self._line.say(self._hint)
            self._hint = ""
        self._line.show(self._text(progress), progress.seconds)

    def close(self) -> None:
        """Take the live line away, so that what follows starts on a clean one."""
        self._line.close()

    def _text(self, progress: Progress) -> str:
        gap = self._objective.gap(progress.incumbent, progress.bound, self._reference)
        bound = progress.bound
        if bound is not None and abs(bound) <= _ROUNDING * abs(progress.incumbent or 0.0):
            bound = 0.0
        return (
            f"{duration(progress.seconds):>8}  {progress.phase}  {self._objective.name} "
            f"{quantity(progress.incumbent, self._unit.strip())}  bound {quantity(bound)}  "
            f"gap {gap_text(self._objective, gap)}"
        )
