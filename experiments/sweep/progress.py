"""Report how far a sweep is on standard error, by a bar or a line now and then, and what failed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from streamplace.present.numbers import duration
from streamplace.present.status_line import StatusLine


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


Tell = Callable[[SweepProgress], None]
Reporter = AbstractContextManager[Tell]
"""What shows progress: a context manager whose value is called with each moment."""


def make_reporter(wanted: bool) -> Reporter:
    """Return a bar on a terminal, lines elsewhere, nothing where nothing is wanted."""
    if not wanted:
        return nullcontext(lambda moment: None)
    return bar() if sys.stderr.isatty() else lines()


@contextmanager
def lines() -> Iterator[Tell]:
    """Write a line every ten seconds, and one at the end: for logs."""
    line, told = StatusLine(), -1

    def tell(moment: SweepProgress) -> None:
        nonlocal told
        for text in moment.news:
            line.say(text)
        now = time.monotonic()
        last = moment.done == moment.total
        if moment.done == told or not (last or line.due(now)):
            return
        told = moment.done
        failed = f", {moment.failed} failed" if moment.failed else ""
        line.show(f"{moment.done:,}/{moment.total:,} runs{failed}, {duration(moment.seconds)}", now)

    yield tell


@contextmanager
def bar() -> Iterator[Tell]:
    """Draw a bar on a terminal."""
    from rich import progress
    from rich.console import Console

    shown = progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn("{task.fields[failed]}"),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
        console=Console(stderr=True),
        refresh_per_second=4,
    )
    task = shown.add_task("runs", total=None, failed="")

    def tell(moment: SweepProgress) -> None:
        for text in moment.news:
            shown.console.print(text, markup=False, highlight=False, soft_wrap=True)
        failed = f"[red]{moment.failed} failed[/red]" if moment.failed else ""
        shown.update(task, completed=moment.done, total=moment.total, failed=failed)

    with shown:
        yield tell
