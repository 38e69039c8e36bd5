"""Long calls of C libraries that Ctrl-C ends at once, and that cannot overrun.

Python runs signal handlers in the main thread only, and only between its own instructions: a
library that computes there for a minute answers no Ctrl-C for a minute. So the call is made in a
second thread, for which the main thread waits. A call that is given up goes on unheard to its own
end, or that of the process.
"""

from __future__ import annotations

import os
import queue
import threading
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Overdue(Exception):
    """A call that took longer than it may."""


class _Caller:
    """A thread that makes one call after another (HiGHS starts threads for each that calls it)."""

    def __init__(self) -> None:
        self.calls: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="solver calls", daemon=True).start()

    def _work(self) -> None:
        while (order := self.calls.get()) is not None:
            function, answers = order
            try:
                answers.put((function(), None))
            except BaseException as error:  # the waiting thread raises it
                answers.put((None, error))


_idle: list[_Caller] = []
os.register_at_fork(after_in_child=_idle.clear)  # a forked process has no other threads


def interruptible(function: Callable[[], T], seconds: float | None = None) -> T:
    """Return what `function` returns, or raise what it raises.

    Parameters
    ----------
    function
        Releases Python's lock while it computes; changes nothing that others read.
    seconds
        It is given up after so many.

    Raises
    ------
    Overdue
        It was given up. `KeyboardInterrupt` gives it up as well.
    """
    if threading.current_thread() is not threading.main_thread():
        return function()
    caller = _idle.pop() if _idle else _Caller()
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
    caller.calls.put((function, answers))
    try:
        value, error = answers.get(timeout=seconds)
    except queue.Empty:
        caller.calls.put(None)
        raise Overdue from None
    except BaseException:
        caller.calls.put(None)
        raise
    _idle.append(caller)
    if error is not None:
        raise error
    result: T = value
    return result
