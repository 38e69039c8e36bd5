"""One line of progress: live on a terminal, now and then elsewhere."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TextIO

from experiments.cli.numbers import duration, number, percent

if TYPE_CHECKING:
    from optim.progress import Progress

_LIVE_EVERY = 0.2
_FIRST_LINE = 2.0
_SPARSER = 1.5
_LONG = 20.0


class ProgressLine:
    """Shows incumbent, bound and gap of a running method; a callback for `optim.solve`.

    On a terminal one line is rewritten; elsewhere lines get sparser as time goes on, so that a
    log of an hour has some twenty.

    Parameters
    ----------
    objective, unit
        What is being found, and its unit with a space before it, or nothing.
    absolute_gap
        Whether the gap is a difference, as for load distance, and not a share.
    stream
        Where to write; standard error if not given.
    hint
        Said once when a run that has a plan takes long; nothing if empty.
    """

    def __init__(
        self,
        objective: str,
        unit: str = "",
        absolute_gap: bool = False,
        stream: TextIO | None = None,
        hint: str = "",
    ) -> None:
        self._objective = objective
        self._unit = unit
        self._absolute = absolute_gap
        self._stream = sys.stderr if stream is None else stream
        self._live = self._stream.isatty()
        self._next = 0.0 if self._live else _FIRST_LINE
        self._shown = False
        self._hint = hint

    def __call__(self, progress: Progress) -> None:
        """Show a moment of the run, if it is time to."""
        if progress.seconds < self._next:
            return
        if self._hint and progress.seconds >= _LONG and progress.incumbent is not None:
            self._stream.write(("\r\x1b[2K" if self._live else "") + self._hint + "\n")
            self._hint = ""
        if self._live:
            self._next = progress.seconds + _LIVE_EVERY
            self._stream.write("\r\x1b[2K" + self._text(progress))
        else:
            self._next = progress.seconds * _SPARSER
            self._stream.write(self._text(progress) + "\n")
        self._shown = True
        self._stream.flush()

    def close(self) -> None:
        """Take the live line away, so that what follows starts on a clean one."""
        if self._live and self._shown:
            self._stream.write("\r\x1b[2K")
            self._stream.flush()

    def _text(self, progress: Progress) -> str:
        gap = self._gap(progress.incumbent, progress.bound)
        return (
            f"{duration(progress.seconds):>8}  {progress.phase}  {self._objective} "
            f"{number(progress.incumbent)}{self._unit}  bound {number(progress.bound)}  gap {gap}"
        )

    def _gap(self, incumbent: float | None, bound: float | None) -> str:
        if incumbent is None or bound is None:
            return "–"
        if self._absolute:
            return number(abs(incumbent - bound))
        largest = max(abs(incumbent), abs(bound))
        return percent(abs(incumbent - bound) / largest if largest else 0.0)
