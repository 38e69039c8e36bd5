"""Who wants to know that a kernel is compiled: the first use of a method on a machine takes longer.

Separate from `optim.util.machine_code` so that listening does not load numba.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_watchers: list[Callable[[bool], None]] = []
_begun: list[float] = []
_done = [0.0]
_homeless = [False]


@contextmanager
def watching(watcher: Callable[[bool], None]) -> Iterator[None]:
    """Call `watcher` with True where compiling, or waiting for another process that compiles,
    begins, and with False where it ends; loading from disk is not reported."""
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


def begin() -> None:
    """Notify every listener; kernels are compiled within others."""
    _begun.append(time.perf_counter())
    if len(_begun) == 1:
        for watcher in _watchers:
            watcher(True)


def end() -> None:
    """Count the seconds of what was compiled."""
    began = _begun.pop()
    if not _begun:
        _done[0] += time.perf_counter() - began
        for watcher in _watchers:
            watcher(False)


@contextmanager
def waiting() -> Iterator[None]:
    """Count the seconds within, of waiting for another process that compiles."""
    begin()
    try:
        yield
    finally:
        end()


def lose() -> None:
    """Note that there is no folder to keep machine code in: it goes with this process."""
    _homeless[0] = True


def is_kept() -> bool:
    """Return whether what this process compiles is there for the next one."""
    return not _homeless[0] or not (_begun or _done[0] > 0.0)


def seconds() -> float:
    """Return how long this process has compiled so far, or waited for another one to."""
    return _done[0]
