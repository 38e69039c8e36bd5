"""Report how far a sweep is on standard error, by a bar or a line now and then, and what failed."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from streamplace.present.numbers import duration
from streamplace.present.status_line import StatusLine

if TYPE_CHECKING:
    from types import TracebackType


@dataclass(frozen=True)
class SweepProgress:
    """A moment of a sweep.

    Attributes
    ----------
    done, failed, total
        Runs stored so far by this sweep, those of them that failed, and those it has to do.
    seconds
        Since its first run could start.
    news
        Lines to write once: which runs failed since the moment before, and why.
    """

    done: int
    failed: int
    total: int
    seconds: float
    news: tuple[str, ...] = ()


class Reporter(Protocol):
    """What shows progress: a context manager that is called with each moment."""

    def __enter__(self) -> Reporter: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def __call__(self, moment: SweepProgress) -> None:
        """Take in a moment."""


class Silent:
    """Shows nothing."""

    def __enter__(self) -> Silent:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None

    def __call__(self, moment: SweepProgress) -> None:
        """Do nothing."""


class Lines(Silent):
    """Writes a line every ten seconds, and one at the end: for logs."""

    def __init__(self) -> None:
        self._line = StatusLine()
        self._told = -1

    def __call__(self, moment: SweepProgress) -> None:
        """Write a line if it is time, or if everything is done."""
        for text in moment.news:
            self._line.say(text)
        now = time.monotonic()
        last = moment.done == moment.total
        if moment.done == self._told or not (last or self._line.due(now)):
            return
        self._told = moment.done
        failed = f", {moment.failed} failed" if moment.failed else ""
        text = f"{moment.done:,}/{moment.total:,} runs{failed}, {duration(moment.seconds)}"
        self._line.show(text, now)


class Bar:
    """Draws a bar on a terminal."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[failed]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            refresh_per_second=4,
        )
        self._task = self._bar.add_task("runs", total=None, failed="")

    def __enter__(self) -> Bar:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def __call__(self, moment: SweepProgress) -> None:
        """Move the bar."""
        for text in moment.news:
            self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)
        failed = f"[red]{moment.failed} failed[/red]" if moment.failed else ""
        self._bar.update(self._task, completed=moment.done, total=moment.total, failed=failed)


def make_reporter(wanted: bool) -> Reporter:
    """Return a bar on a terminal, lines elsewhere, nothing where nothing is wanted."""
    if not wanted:
        return Silent()
    return Bar() if sys.stderr.isatty() else Lines()
