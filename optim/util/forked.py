"""Work in a forked process: its answer, or the end of it.

A fork has the instance and the compiled kernels at once, where a new process would read, validate
and load them again. It is safe only while no other thread of Python runs.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
import warnings
from multiprocessing import Pipe, current_process, get_context
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from optim.util.process import die_with_parent

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

T = TypeVar("T")

SOLVER_CALLS = "solver calls"
"""Name of the threads that wait for calls of a solver's library, and hold no lock between them."""


def may_fork() -> bool:
    """Whether a fork of this process can go on: on Linux, without other threads that may hold a
    lock.
    """
    others = [t for t in threading.enumerate() if t.name != SOLVER_CALLS]
    main = threading.current_thread() is threading.main_thread()
    return sys.platform == "linux" and main and len(others) == 1 and not current_process().daemon


class Forked(Generic[T]):
    """A function that runs in a forked process.

    Its process group is its own: Ctrl-C reaches it by `interrupt` alone, and once. It is killed
    when this process ends.

    Parameters
    ----------
    work
        Returns what can be pickled. An interrupt raises `KeyboardInterrupt` in it.
    delay
        Seconds to wait before it begins: what is stopped by then has cost no processor time.
    """

    def __init__(self, work: Callable[[], T], delay: float = 0.0) -> None:
        self._ours, theirs = Pipe(duplex=False)
        self._child = get_context("fork").Process(
            target=_work, args=(work, delay, theirs), daemon=True
        )
        with warnings.catch_warnings():  # of the threads of linear algebra, which survive a fork
            warnings.simplefilter("ignore", DeprecationWarning)
            self._child.start()
        theirs.close()

    def interrupt(self) -> None:
        """Raise `KeyboardInterrupt` in it."""
        if self._child.is_alive() and self._child.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._child.pid, signal.SIGINT)

    def answer(self, seconds: float) -> T | None:
        """Return what it returned; ``None`` if it was killed, or does not end within `seconds`.

        Raises
        ------
        Exception
            What it raised.
        """
        try:
            if not self._ours.poll(seconds):
                return None
            found, error = self._ours.recv()
        except EOFError:
            return None
        if error is not None:
            raise error
        value: T | None = found
        return value

    def end(self) -> None:
        """Kill it, if it is still there, with the solvers that it started."""
        self._child.kill()
        self._child.join()
        self._ours.close()


def _work(work: Callable[[], Any], delay: float, answers: Connection) -> None:
    os.setpgid(0, 0)
    die_with_parent()
    found: Any = None
    error: Exception | None = None
    try:
        time.sleep(delay)
        found = work()
    except KeyboardInterrupt:
        pass
    except Exception as raised:  # whatever it is, it is raised where the answer is taken
        error = raised
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(OSError):  # nobody waits for it any more
        answers.send((found, error))
