"""This process: its CPU time and cores, its garbage collector, its standard output.

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
from functools import cache
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_STDOUT = 1


@contextlib.contextmanager
def c_stdout_silenced() -> Iterator[None]:
    """Send file descriptor 1 nowhere for a while; what C had buffered before still arrives.

    scipy's HiGHS writes a line of its debugging there now and then, whatever its options say, and
    METIS its complaints.
    """
    try:
        kept = os.dup(_STDOUT)
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
        os.dup2(kept, _STDOUT)
        os.close(kept)


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
    ours, theirs = (getrusage(who) for who in (RUSAGE_SELF, RUSAGE_CHILDREN))
    return ours.ru_utime + ours.ru_stime + theirs.ru_utime + theirs.ru_stime


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


def die_with_parent() -> None:
    """Ask the kernel to kill this process when the one that forked it ends (Linux)."""
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def prctl(option: int, value: int) -> None:
    """Set an option of this process (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
