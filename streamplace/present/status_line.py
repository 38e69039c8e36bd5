"""A line that says how far something is: rewritten on a terminal, now and then a new one in a log.

`solve`, sweeps and replays report their progress by it, each with a text and a clock of its own.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, TextIO

from streamplace.present.numbers import duration, quantity
from streamplace.present.tables import gap_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from optim.figures.figure import Figure
    from optim.util.progress import Progress

LOG_SECONDS = 10.0
_LIVE_SECONDS = 0.2
_CLEAR = "\r\x1b[2K"
_WIDEST = 110


class StatusLine:
    """The line of one run, on standard error if no stream is given.

    In a log the first line comes at `first` at the earliest, on the clock of `due` and `show`, and
    the next when `later` says (by default ten seconds after).
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        first: float = 0.0,
        later: Callable[[float], float] = lambda now: now + LOG_SECONDS,
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._live = self._stream.isatty()
        self._next = 0.0 if self._live else first
        self._later = later
        self._shown = False

    @property
    def live(self) -> bool:
        """Whether it is rewritten, as on a terminal."""
        return self._live

    def due(self, now: float) -> bool:
        """Whether it is time for another text."""
        return now >= self._next

    def show(self, text: str, now: float) -> None:
        """Show a text in place of the last one, or below it in a log."""
        if self._live:
            self._next = now + _LIVE_SECONDS
            self._stream.write(_CLEAR + text[:_WIDEST])
        else:
            self._next = self._later(now)
            self._stream.write(text + "\n")
        self._shown = True
        self._stream.flush()

    def say(self, text: str) -> None:
        """Write a line that stays."""
        self._stream.write((_CLEAR if self._live else "") + text + "\n")
        self._stream.flush()

    def close(self, *, keep: bool = False) -> None:
        """End the live line, so that what follows starts on a clean one; `keep` leaves it there."""
        if self._live and self._shown:
            self._stream.write("\n" if keep else _CLEAR)
            self._stream.flush()


class Steps:
    """Reports on standard error what is being done, with the seconds since the start.

    With `keep` each step is a line that stays, on terminals, too.
    """

    def __init__(self, *, quiet: bool, keep: bool = False) -> None:
        self._line = None if quiet else StatusLine()
        self._keep, self._started = keep, time.perf_counter()

    def __call__(self, text: str) -> None:
        """Report what begins now."""
        if self._line is not None:
            now = time.perf_counter() - self._started
            told = f"{now:6.1f} s  {text}"
            self._line.say(told) if self._keep else self._line.show(told, now)

    def close(self) -> None:
        """Leave a clean line."""
        if self._line is not None:
            self._line.close()


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
