"""A line that tells how far something is: rewritten on a terminal, now and then a new one in a log.

`solve`, sweeps and replays tell of their progress by it, each with a text and a clock of its own.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable

LOG_SECONDS = 10.0
_LIVE_SECONDS = 0.2
_CLEAR = "\r\x1b[2K"
_WIDEST = 110


class StatusLine:
    """The line of one run; standard error, if no stream is given.

    Parameters
    ----------
    stream
        Where to write.
    first
        Earliest moment of the first line in a log, on the clock of `due` and `show`, s.
    later
        From the moment of a line in a log to the earliest of the next; if not given, ten seconds.
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

    def close(self, *, keep: bool = False) -> None:
        """End the live line, so that what follows starts on a clean one; `keep` leaves it there."""
        if self._live and self._shown:
            self._stream.write("\n" if keep else _CLEAR)
            self._stream.flush()
