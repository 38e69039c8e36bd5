"""Signals: answered at once, but never in the middle of what must be whole."""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SIGNALS = [
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGALRM")
    if hasattr(signal, name)
]


@contextlib.contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """Let SIGTERM raise `KeyboardInterrupt`, as Ctrl-C does; where a program has its own, that.

    Without it the process would end where it stands: no plan, and its files left behind.
    """
    ours = _in_main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if ours:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


class Held:
    """While active, signals only make a note; `deliver` calls their handlers.

    What is noted at the end of the block is delivered there. In other threads than the main one,
    where Python runs no handlers, it does nothing.
    """

    def __init__(self) -> None:
        self._noted: list[int] = []
        self._handlers: dict[int, Callable[..., Any]] = {}

    def __enter__(self) -> Held:
        try:
            for number in _SIGNALS if _in_main_thread() else ():
                handler = signal.getsignal(number)
                if callable(handler):
                    self._handlers[number] = handler
                    signal.signal(number, self._note)
        except BaseException:  # a signal between the two
            self._restore()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()
        self.deliver()

    def deliver(self) -> None:
        """Call the handlers of the signals noted; Python's own raises `KeyboardInterrupt`."""
        while self._noted:
            number = self._noted.pop(0)
            self._handlers[number](number, None)

    def _restore(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _note(self, number: int, _: object) -> None:
        self._noted.append(number)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
