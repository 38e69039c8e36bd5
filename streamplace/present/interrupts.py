"""Signals that ask a command to end, heard as Ctrl-C is.

``timeout``, systemd and Kubernetes stop a program with SIGTERM, a closed terminal with SIGHUP.

An interrupt that is raised while modules are imported may be lost: CPython forgets what is raised
in the callbacks that clear the locks of modules, and C code takes it for a missing attribute. So
it waits until nothing is being imported. So it does while LLVM passes what it has compiled, and
while its objects are freed: cut off there, the code would be missing, or be freed again. In other
callbacks from C, and in finalizers, Python reports that it drops what is raised: there the signal
is sent again.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
import time
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

from optim.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
_IMPORTING = "<frozen importlib._bootstrap>"
_WHOLE = (
    ("llvmlite/binding/executionengine.py", "_raw_object_cache_"),
    ("llvmlite/binding/ffi.py", "close"),
    ("llvmlite/binding/ffi.py", "detach"),
)
"""What must not be cut off: the end of the file, and the beginning of the functions' names."""
_STEP, _LONGEST = 0.02, 10.0
"""Seconds between two tries, and until an import is interrupted: it may wait for a dead disk."""


class Received:
    """The signal that came, if one did."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def exit_code(self, code: int) -> int:
        """Return the exit code of an interrupted run: 128 and the signal, 130 after Ctrl-C."""
        if code != ExitCode.INTERRUPTED or self.signal is None:
            return int(code)
        return 128 + self.signal


class _Raised:
    """A handler that raises `KeyboardInterrupt` where nothing is lost by it."""

    def __init__(self, received: Received | None = None) -> None:
        self._received = received
        self._came: float | None = None

    def __call__(self, number: int, _: object) -> None:
        now = time.monotonic()
        self._came = now if self._came is None else self._came
        if _not_now() and now < self._came + _LONGEST:
            # no `threading.Timer`: the signal may have come while a thread was being started
            _thread.start_new_thread(_again, (number,))
            return
        self._came = None
        if self._received is not None:
            self._received.signal = number
        raise KeyboardInterrupt(number)


def _not_now() -> bool:
    """Return whether a module is being imported, or compiled code passed or freed."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_filename == _IMPORTING:
            return True
        if any(code.co_name.startswith(n) and code.co_filename.endswith(f) for f, n in _WHOLE):
            return True
        frame = frame.f_back
    return False


def _again(number: int) -> None:
    time.sleep(_STEP)
    with suppress(OSError):
        os.kill(os.getpid(), number)


@contextmanager
def _forgotten_sent_again() -> Iterator[None]:
    """Send a signal again whose interrupt was raised where Python cannot pass it on."""
    before = sys.unraisablehook

    def hook(told: Any) -> None:
        if not isinstance(told.exc_value, KeyboardInterrupt):
            return before(told)
        number = next((n for n in told.exc_value.args if isinstance(n, int)), signal.SIGINT)
        _thread.start_new_thread(_again, (number,))
        return None

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before


@contextmanager
def interrupts_heard() -> Iterator[None]:
    """Let Ctrl-C be heard at any moment, imports included; a handler of the program's own stays."""
    plain = signal.default_int_handler
    main = threading.current_thread() is threading.main_thread()
    ours = main and signal.getsignal(signal.SIGINT) is plain
    if ours:
        signal.signal(signal.SIGINT, _Raised())
    try:
        with _forgotten_sent_again() if main else nullcontext():
            yield
    finally:
        if ours:
            signal.signal(signal.SIGINT, plain)


@contextmanager
def stopped_by_signals() -> Iterator[Received]:
    """Raise `KeyboardInterrupt` on SIGTERM and SIGHUP; signals that are ignored stay so."""
    received = Received()
    stop: Any = _Raised(received)
    before = {}
    for end in _SIGNALS:
        if signal.getsignal(end) is signal.SIG_DFL:
            before[end] = signal.signal(end, stop)
    try:
        yield received
    finally:
        for end, handler in before.items():
            signal.signal(end, handler)
