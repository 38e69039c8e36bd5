"""Who wants to know that a kernel is compiled: the first use of a method on a machine takes longer.

Kept apart from `optim.util.compiled` so that listening does not load numba.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_listeners: list[Callable[[], None]] = []
_watchers: list[Callable[[bool], None]] = []
_begun: list[float] = []
_done = [0.0]
_homeless = [False]


@contextmanager
def listening(listener: Callable[[], None]) -> Iterator[None]:
    """Call `listener` whenever a kernel starts to be compiled; loading from disk is not told."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


@contextmanager
def watching(watcher: Callable[[bool], None]) -> Iterator[None]:
    """Call `watcher` with True where compiling, or waiting for another process that compiles,
    begins, and with False where it ends."""
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


def _tell_watchers(compiling: bool) -> None:
    for watcher in _watchers:
        watcher(compiling)


def begin() -> None:
    """Tell everyone who listens; kernels are compiled within others."""
    if not _begun:
        _tell_watchers(True)
    _begun.append(time.perf_counter())
    for listener in _listeners:
        listener()


def end() -> None:
    """Count the seconds of what was compiled."""
    began = _begun.pop()
    if not _begun:
        _done[0] += time.perf_counter() - began
        _tell_watchers(False)


@contextmanager
def waiting() -> Iterator[None]:
    """Count the seconds within, of waiting for another process that compiles."""
    began, alone = time.perf_counter(), not _begun
    if alone:
        _tell_watchers(True)
    try:
        yield
    finally:
        if alone:
            _done[0] += time.perf_counter() - began
            _tell_watchers(False)


def lose() -> None:
    """Note that there is no folder to keep machine code in: it goes with this process."""
    _homeless[0] = True


def is_kept() -> bool:
    """Return whether what this process compiles is there for the next one."""
    return not _homeless[0] or not (_begun or _done[0] > 0.0)


def seconds() -> float:
    """Return how long this process has compiled so far, or waited for another one to."""
    return _done[0]
