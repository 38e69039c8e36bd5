"""Kernels: Python functions that numba compiles where that is worth its while.

The functions stay what they are; `optim.util.machine_code` compiles twins of them. So modules of
kernels load without numba (half a second), and a small instance needs neither it nor a compiler
(seconds to a minute where nobody was here before): its kernels run as they stand, each until it has
taken longer than its twin would take to be had. Then what it did is undone, and the twin does it.

Function and twin give the same: they draw from the same generator, and what numba sums or sorts
otherwise than numpy (`sum` of fractions, an unstable `argsort`) has no place in kernels. Hence
nothing but time depends on which one runs.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cached_property, update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.util.marks import Entry
from optim.util.marks import helper as helper
from optim.util.marks import inlined as inlined
from optim.util.signals import Held

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


SMALL = 400
"""Tasks times nodes up to which Python may do in moments what numba takes a second to load."""

_LOADED, _COMPILED = 0.5, 4.0
"""Seconds of the processor that kernels may take as they stand: all whose twins are on disk, which
numba is loaded for once, and each that would have to be compiled."""
_STEP = 0.1

_small: ContextVar[bool] = ContextVar("small", default=False)
_within: ContextVar[bool] = ContextVar("within", default=False)


class _TooLongError(BaseException):
    """Raised within a kernel that has run long enough as it stands."""


class kernel(Entry):
    """Compile a function that Python calls; the machine code is kept on disk where possible."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.seconds = 0.0
        self.left = False
        update_wrapper(self, function)

    def __call__(self, *args: Any) -> Any:
        """Run the function where that is quicker, else the twin."""
        if _within.get():
            return self.function(*args)
        if self.left or not _small.get() or self.seconds > self.patience:
            return self.compiled(*args)
        before = [(array, array.copy()) for array in _arrays(args)]
        try:
            return self._as_it_stands(args)
        except _TooLongError:
            self.left = True
        for array, values in before:
            array[...] = values
        return self.compiled(*args)

    @cached_property
    def compiled(self) -> Any:
        """The twin: a dispatcher of numba's."""
        from optim.util.machine_code import dispatcher_of

        self.left = True
        return dispatcher_of(self.function)

    @property
    def patience(self) -> float:
        """Seconds after which a twin would have been the better choice."""
        return _LOADED - _CLOCK.loaded + self.seconds if self.on_disk else _COMPILED

    @cached_property
    def on_disk(self) -> bool:
        """Whether somebody compiled it before."""
        file = Path(self.function.__code__.co_filename)
        own = os.environ.get("NUMBA_CACHE_DIR")
        folders = [file.parent / "__pycache__", *(Path(own).glob("*") if own else ())]
        name = f"{file.stem}.{self.function.__qualname__}-*.nbi"
        return any(any(folder.glob(name)) for folder in folders)

    def _as_it_stands(self, args: tuple[Any, ...]) -> Any:
        """Run the function; its draws are numba's, and nobody else's go on from them."""
        drawn = np.random.get_state()  # noqa: NPY002
        inner = _within.set(True)
        try:
            # as in C: integers wrap round, and a signal finds a kernel whole or not begun
            with Held(), np.errstate(all="ignore"):
                _CLOCK.start(self)
                try:
                    return self.function(*args)
                finally:
                    _CLOCK.stop()
        finally:
            _within.reset(inner)
            np.random.set_state(drawn)  # noqa: NPY002


class _Clock:
    """Stops kernels that take too long as they stand, from a thread of its own; one at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: tuple[kernel, float, int] | None = None
        self._sent = False
        self.loaded = 0.0

    def start(self, running: kernel) -> None:
        """Watch a kernel of this thread."""
        with self._lock:
            self._sent = False
            self._running = running, time.process_time(), threading.get_ident()

    def stop(self) -> None:
        """Watch no more; what was sent and has not arrived yet does so here."""
        with self._lock:
            assert self._running is not None
            running, began, thread = self._running
            self._running, sent = None, self._sent
        if sent:
            _receive(thread)
        taken = time.process_time() - began
        running.seconds += taken
        self.loaded += taken if running.on_disk else 0.0

    def look(self) -> None:
        """Stop what has taken too long."""
        with self._lock:
            if self._running is None or self._sent:
                return
            running, began, thread = self._running
            if running.seconds + time.process_time() - began > running.patience:
                self._sent = True
                _send(thread)


def _send(thread: int) -> None:
    error = ctypes.py_object(_TooLongError)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), error)


def _receive(thread: int) -> None:
    """Let what was sent to this thread arrive, or another in its place.

    To take it back would leave Python looking for it ever after: that is slow, and endless under a
    profiler (CPython 3.11).
    """
    with suppress(_TooLongError):
        _send(thread)
        while True:
            pass


_CLOCK = _Clock()


@contextmanager
def by_size(cells: int) -> Iterator[None]:
    """Within, kernels run as they stand where the instance is small: tasks × nodes."""
    small = cells <= SMALL
    if not small or _small.get() or threading.current_thread() is not threading.main_thread():
        yield
        return
    ended, before = threading.Event(), _small.set(True)

    def look() -> None:
        while not ended.wait(_STEP):
            _CLOCK.look()

    threading.Thread(target=look, daemon=True).start()
    try:
        yield
    finally:
        ended.set()
        _small.reset(before)


def warming(warm_up: Callable[[], object]) -> Callable[[], None]:
    """Let a warm-up be run once a process, and not where kernels run as they stand."""
    done = False

    def once() -> None:
        nonlocal done
        if not done and not _small.get():
            warm_up()
            done = True

    return once


def _arrays(args: tuple[Any, ...]) -> Iterator[np.ndarray[Any, Any]]:
    """Yield what a kernel may change."""
    for value in args:
        if isinstance(value, np.ndarray):
            if value.flags.writeable:
                yield value
        elif isinstance(value, tuple):
            yield from _arrays(value)
