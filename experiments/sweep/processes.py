"""Process plumbing of the isolation: signals, limits, descendants, resident memory.

Linux gives all of it (``prctl``, ``/proc``, pidfds); elsewhere in POSIX the weaker means remain:
process groups instead of trees, no memory watch.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import select
import signal
import sys
import time
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PAGE = os.sysconf("SC_PAGE_SIZE")
_DATA_SLACK = 512 << 20
_KILL_SECONDS = 10.0
_POLL_SECONDS = 0.05


def die_with_parent() -> None:
    """Ask the kernel to kill this process when the one that forked it ends."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, sessions notwithstanding."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def reset_signals() -> None:
    """Give the signals that a Spark worker changes their usual meaning again."""
    for name in ("SIGTERM", "SIGHUP", "SIGCHLD", "SIGALRM"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def forget_files(keep: set[int]) -> None:
    """Point every inherited descriptor but the standard three and `keep` to ``/dev/null``.

    The sockets of the process that forked must not live on here: its peers wait for them to
    close. They are replaced and not closed, so that an object which closes its number later
    cannot hit another file.
    """
    null = os.open(os.devnull, os.O_RDWR)
    for number in _open_files():
        if number > 2 and number not in keep and number != null:
            with contextlib.suppress(OSError):
                os.dup2(null, number, inheritable=False)
    os.close(null)


def _open_files() -> list[int]:
    for folder in ("/proc/self/fd", "/dev/fd"):
        with contextlib.suppress(OSError):
            return [int(name) for name in os.listdir(folder)]  # noqa: PTH208 (Path costs a stat each)
    return list(range(3, 256))


def forget_finders() -> None:
    """Drop what finders know: they keep zips open, by descriptors that `forget_files` replaced."""
    from importlib.metadata import MetadataPathFinder

    importlib.invalidate_caches()
    try:
        MetadataPathFinder.invalidate_caches()
    except TypeError:  # before Python 3.12 it is no class method, and the line above spares it
        MetadataPathFinder.invalidate_caches(MetadataPathFinder)  # type: ignore[call-arg]


def limit_data(limit: int | None) -> None:
    """Let this process and those it starts allocate `limit` bytes more, with some slack.

    What counts is private writable memory, resident or not, so that one absurd request fails at
    once with `MemoryError`. The slack leaves room for what is reserved and never used; the
    watch over resident memory is what holds the limit itself. None lifts it.
    """
    if sys.platform != "linux":
        return
    import resource

    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    soft = hard if limit is None else _data_size() + limit + _DATA_SLACK
    if hard != resource.RLIM_INFINITY:
        soft = min(soft, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _data_size() -> int:
    """Return the bytes of data and stack mapped by this process."""
    return int(Path("/proc/self/statm").read_text().split()[5]) * _PAGE


def children_of(pid: int) -> list[int]:
    """Return the processes whose parent is `pid`, whichever of its threads started them."""
    found: list[int] = []
    try:
        tasks = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208
        for task in tasks:
            found += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    except OSError:
        return []
    return found


def resident_bytes(pid: int) -> int:
    """Return the resident memory of all descendants of `pid`, itself not counted.

    Pages that several share count in parts: twenty idle forks hold one another's memory once.
    """
    total = 0
    waiting = children_of(pid)
    while waiting:
        child = waiting.pop()
        with contextlib.suppress(OSError, IndexError):
            total += _proportional(child)
        waiting += children_of(child)
    return total


def _proportional(pid: int) -> int:
    """Return the proportional set size of a process; all that is resident on kernels without it."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) << 10
    except (OSError, StopIteration):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE


def kill_descendants() -> None:
    """Kill all descendants of this process, which must have called `adopt_orphans`.

    Each round kills the direct children; theirs are adopted and fall in the next one.
    Uninterruptible ones are waited for a while and then left to the kernel.
    """
    deadline = time.monotonic() + _KILL_SECONDS
    while time.monotonic() < deadline:
        for child in children_of(os.getpid()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.001)


def reap(child: int, seconds: float = 2 * _KILL_SECONDS) -> None:
    """Wait until a child has ended; after `seconds` it is killed."""
    deadline = time.monotonic() + seconds
    while not os.waitpid(child, os.WNOHANG)[0]:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return
        time.sleep(0.001)


def wait_for_exit(pid: int, lifeline: int) -> int | None:
    """Wait until the child `pid` ends, or until the other end of `lifeline` is closed.

    Returns
    -------
    int or None
        The child's exit code (negative: the signal that killed it), or None for the lifeline.
    """
    watched = [lifeline]
    pidfd: int | None = None
    with contextlib.suppress(OSError, AttributeError):
        pidfd = os.pidfd_open(pid)
        watched.append(pidfd)
    timeout = None if pidfd is not None else _POLL_SECONDS
    while True:
        ready = select.select(watched, [], [], timeout)[0]
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if lifeline in ready:
            return None
