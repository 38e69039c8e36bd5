"""This process: its CPU time and cores, garbage collector, standard output and signals.

CPU time hardly depends on what else the machine does. The garbage collector is off while a large
document is read: it would visit every object again and again. What a C library prints does not
reach standard output, which carries the answer.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
import sys
import threading
import time
import warnings
from functools import cache
from multiprocessing import Pipe, current_process, get_context
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection

_STDOUT = 1


@contextlib.contextmanager
def c_stdout_silenced() -> Iterator[None]:
    """Send file descriptor 1 nowhere for a while; what C had buffered before still arrives.

    scipy's HiGHS writes a line of its debugging there now and then, whatever its options say, and
    METIS its complaints.
    """
    try:
        saved = os.dup(_STDOUT)
    except OSError:  # there is no standard output
        yield
        return
    _flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, _STDOUT)
    os.close(nowhere)
    try:
        yield
    finally:
        _flush()
        os.dup2(saved, _STDOUT)
        os.close(saved)


def _flush() -> None:
    """Write out what C's own streams hold."""
    _libc().fflush(None)


@cache
def _libc() -> Any:
    return ctypes.CDLL(None)


@contextlib.contextmanager
def collection_paused() -> Iterator[None]:
    """Pause the search for reference cycles while millions of objects without any are made.

    Each of its passes looks at all that is there; at a million tasks they take half of the time.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def processor_seconds() -> float:
    """Return the processor time of this process and its finished children so far.

    On a machine that others keep busy this is nearer to what an idle one would show on the clock
    than the clock is.
    """
    process, children = (getrusage(who) for who in (RUSAGE_SELF, RUSAGE_CHILDREN))
    return process.ru_utime + process.ru_stime + children.ru_utime + children.ru_stime


def usable_cores() -> int:
    """Return the cores that this process may use: those it is bound to, within the quota of its
    control group.
    """
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    cores = len(os.sched_getaffinity(0))
    with contextlib.suppress(OSError, ValueError):  # no control group, or "max": no quota
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text("ascii").split()
        cores = min(cores, max(1, int(quota) // int(period)))
    return cores


_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int | None = None) -> None:
    """Ask the kernel to kill this process when the one that forked it ends (Linux).

    `parent` is that process, where it may have ended already: then this one ends here.
    """
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent is not None and os.getppid() != parent:
        os._exit(1)


def prctl(option: int, value: int) -> None:
    """Set an option of this process (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


# Work in a forked process: its answer, or the end of it.
#
# A fork has the instance and the compiled kernels at once, where a new process would read, validate
# and load them again. It is safe only while no other thread of Python runs.


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

    `work`: returns what can be pickled. An interrupt raises `KeyboardInterrupt` in it.
    `delay`: seconds to wait before it begins: what is stopped by then has cost no processor time.
    """

    def __init__(self, work: Callable[[], T], delay: float = 0.0) -> None:
        self._ours, child_end = Pipe(duplex=False)
        self._child = get_context("fork").Process(
            target=_work, args=(work, delay, child_end, self._ours, os.getpid()), daemon=True
        )
        with warnings.catch_warnings():  # of the threads of linear algebra, which survive a fork
            warnings.simplefilter("ignore", DeprecationWarning)
            self._child.start()
        child_end.close()

    def interrupt(self) -> None:
        """Raise `KeyboardInterrupt` in it."""
        if self._child.is_alive() and self._child.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._child.pid, signal.SIGINT)

    def answer(self, seconds: float | None) -> T | None:
        """Return what it returned; ``None`` if it was killed, or does not end within `seconds`.

        ``None`` for `seconds` waits without a limit.

        Raises `Exception`: what it raised.
        """
        try:
            if not self._ours.poll(seconds):
                return None
            returned, error = self._ours.recv()
        except EOFError:
            return None
        if error is not None:
            raise error
        value: T | None = returned
        return value

    def end(self) -> None:
        """Kill it, if it is still there, with the solvers that it started."""
        self._child.kill()
        self._child.join()
        self._ours.close()


def _work(
    work: Callable[[], Any], delay: float, answers: Connection, ours: Connection, parent: int
) -> None:
    os.setpgid(0, 0)
    die_with_parent(parent)
    ours.close()  # else nobody would hear that nobody reads
    returned: Any = None
    error: Exception | None = None
    try:
        time.sleep(delay)
        returned = work()
    except KeyboardInterrupt:
        pass
    except Exception as raised:  # whatever it is, it is raised where the answer is taken
        error = raised
    # the answer must get out, whatever comes now
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(OSError):  # nobody waits for it any more
        answers.send((returned, error))


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

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
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


class Repeated(Held):
    """Raise again, at the end of the block, an interrupt that came and that nothing passed on.

    For what catches `KeyboardInterrupt` to return what it has, where nobody looks at that.
    """

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._restore()
        if kind is None:
            self.deliver()

    def _note(self, number: int, frame: object) -> None:
        try:
            self._handlers[number](number, frame)
        except BaseException:
            self._noted.append(number)
            raise


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
