"""Signals that ask a command to end, heard as Ctrl-C is.

``timeout``, systemd and Kubernetes stop a program with SIGTERM, a closed terminal with SIGHUP.
"""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from optim.exit_codes import ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterator

_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class Received:
    """The signal that came, if one did."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def exit_code(self, code: int) -> int:
        """Return the exit code of an interrupted run: 128 and the signal, 130 after Ctrl-C."""
        if code != ExitCode.INTERRUPTED or self.signal is None:
            return int(code)
        return 128 + self.signal


@contextmanager
def stopped_by_signals() -> Iterator[Received]:
    """Raise `KeyboardInterrupt` on SIGTERM and SIGHUP; signals that are ignored stay so."""
    received = Received()

    def stop(came: int, frame: Any) -> None:
        received.signal = came
        raise KeyboardInterrupt

    before = {}
    for end in _SIGNALS:
        if signal.getsignal(end) is signal.SIG_DFL:
            before[end] = signal.signal(end, stop)
    try:
        yield received
    finally:
        for end, handler in before.items():
            signal.signal(end, handler)
