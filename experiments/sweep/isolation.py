"""Call a function in a child process, so that nothing it does can take the caller along.

Each caller (a Spark worker) keeps one warm child::

    worker ── guardian ── runner ── (whatever the runner starts: CBC …)

The *runner* executes one call after another, and is forked before any solver is imported.
It says when it compiles kernels (`optim.util.progress`), and its deadline stands still
meanwhile: what is compiled is stored on disk for all runs after it, and a kill would throw it away.
The *guardian* does nothing but wait, for the runner's end or for the end of a pipe whose other end
the worker holds. Whatever happens first, it kills all that is left below it, processes in
sessions of their own included, and ends. So a worker that is killed leaves nothing behind
either. A runner that ended is replaced on the next call.

Anything may happen in a call, and all of it is an `Answer`.
"""

from __future__ import annotations

import contextlib
import faulthandler
import fcntl
import importlib
import json
import os
import pickle
import platform
import select
import signal
import socket
import struct
import sys
import tempfile
import threading
import time
import traceback
import zlib
from collections import ChainMap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.sweep.row import complete_row
from experiments.sweep.store import write_part
from optim.errors import InvalidInput, Problem, StreamplaceError
from optim.plugins import loaded
from optim.util import progress
from optim.util.process import die_with_parent, prctl

if TYPE_CHECKING:
    from experiments.sweep.plan import Run

_STATUS = struct.Struct("!i")
_STOP_SECONDS = 0.2
_MEMORY_SECONDS = 0.02
_TAIL_BYTES = 16_000
_TOLD_CHARACTERS = 1500
_FATAL = "Fatal Python error"
_OUTPUT_BYTES = 16 << 20
_TRACEBACK_CHARACTERS = 4000

MOST_COMPILING = 1800.0
"""Seconds that a call may compile, or wait for others to, before that counts as hanging."""


class Outcome(StrEnum):
    """How a run ended, as far as its process is concerned."""

    OK = "ok"
    ERROR = "error"
    CRASH = "crash"
    TIMEOUT = "timeout"
    MEMORY = "memory"


class Stopped(Exception):
    """The caller was asked to stop while a call was under way; the call is given up."""


@dataclass(frozen=True)
class Answer:
    """What came of one call: its value, or what went wrong, in words.

    `exit_code` is that of a crash, or the negative number of the signal.
    """

    outcome: Outcome
    value: Any = None
    error: str | None = None
    exit_code: int | None = None


class IsolatedCaller:
    """Keeps the warm child and calls a function of one argument in it.

    `function`: called in the child with the payload; what it keeps in globals survives between
        calls.
    `should_stop`: asked several times a second while a call is under way; True gives the call up.
    """

    def __init__(
        self, function: Callable[[Any], Any], should_stop: Callable[[], bool] = lambda: False
    ) -> None:
        self._function = function
        self._should_stop = should_stop
        self._child: _Child | None = None
        self.generation = 0
        """Number of children started so far: a change means that the child's memory is fresh."""

    def prepare(self) -> None:
        """Start a child if there is none."""
        if self._child is None:
            self._child = _Child(self._function)
            self.generation += 1

    def call(self, payload: Any, timeout: float, memory_limit: int | None = None) -> Answer:
        """Call the function and wait for its answer.

        `payload`: argument; must pickle.
        `timeout`: seconds after which the child and all that it started are killed; those in which
            it compiles do not count.
        `memory_limit`: resident bytes of the child and all that it started, at which they are
            killed.
        Raises `Stopped`: `should_stop` said so.
        """
        self.prepare()
        assert self._child is not None
        answer = None
        try:
            answer = self._exchange(self._child, payload, timeout, memory_limit)
        finally:
            # an error was raised and caught in a child that is sound; all else spoils its memory
            if answer is None or answer.outcome not in (Outcome.OK, Outcome.ERROR):
                self.close()
        if memory_limit and self._child and self._child.resident() > memory_limit // 2:
            self.close()  # what earlier runs left behind must not count against the next one
        return answer

    def close(self) -> None:
        """Kill the child and everything below it."""
        if self._child is not None:
            self._child.end()
            self._child = None

    def _exchange(
        self, child: _Child, payload: Any, timeout: float, memory_limit: int | None
    ) -> Answer:
        deadline = time.monotonic() + timeout
        compiling, spent = None, 0.0  # since when, and how long before
        if not child.send((payload, memory_limit)):
            return child.crashed(memory_limit)
        pause = _STOP_SECONDS if memory_limit is None else _MEMORY_SECONDS
        while True:
            now = time.monotonic()
            remaining = (
                deadline - now if compiling is None else compiling + MOST_COMPILING - spent - now
            )
            if remaining <= 0:
                limit = f"ran longer than {timeout:g} s"
                if compiling is not None:
                    limit = f"compiled longer than {MOST_COMPILING:g} s"
                return Answer(Outcome.TIMEOUT, error=limit)
            match child.receive(min(remaining, pause)):
                case _Child.ENDED:
                    return child.crashed(memory_limit)
                case _Child.COMPILING:
                    compiling = time.monotonic()
                case _Child.COMPILED if compiling is not None:
                    took = time.monotonic() - compiling
                    compiling, spent, deadline = None, spent + took, deadline + took
                case None:
                    if self._should_stop():
                        raise Stopped
                    child.curb_output()
                    used = 0 if memory_limit is None else child.resident()
                    if memory_limit is not None and used > memory_limit:
                        reason = f"used {used >> 20} MiB, more than {memory_limit >> 20} MiB"
                        return Answer(Outcome.MEMORY, error=reason)
                case answer:
                    return Answer(*answer)


class _Child:
    """The caller's end of one guardian and its runner."""

    ENDED, COMPILING, COMPILED = "ended", "compiling", "compiled"

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._pipe, child_pipe = Pipe()
        lifeline, self._lifeline = os.pipe()
        self._status, status = os.pipe()
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the child)
        fcntl.fcntl(self._output, fcntl.F_SETFL, os.O_APPEND)
        self._guardian = os.fork()
        if self._guardian == 0:
            _run_guardian(function, child_pipe, lifeline, status, self._output.fileno())
        child_pipe.close()
        os.close(lifeline)
        os.close(status)

    def send(self, message: Any) -> bool:
        """Hand a message over; False when nobody is there to take it."""
        os.ftruncate(self._output.fileno(), 0)
        try:
            self._pipe.send(message)
        except (BrokenPipeError, ConnectionResetError):
            return False
        return True

    def receive(self, timeout: float) -> Any:
        """Return the answer, None when there is none within the time, or what happens meanwhile."""
        ready = wait([self._pipe, self._status], timeout)
        if self._pipe in ready:
            with contextlib.suppress(EOFError, ConnectionResetError):
                return self._pipe.recv()
        return self.ENDED if ready else None

    def crashed(self, memory_limit: int | None) -> Answer:
        """Say how the runner ended, with the last it wrote to its standard error."""
        # the pipe closes a moment before the guardian has waited for the runner
        select.select([self._status], [], [], 2 * _STOP_SECONDS)
        self._close_lifeline()
        data = os.read(self._status, _STATUS.size)
        code = _STATUS.unpack(data)[0] if len(data) == _STATUS.size else None
        size = os.fstat(self._output.fileno()).st_size
        written = os.pread(self._output.fileno(), _TAIL_BYTES, max(0, size - _TAIL_BYTES))
        tail = _error_end(written.decode(errors="replace"))
        error = f"{_ending(code)}\n{tail}" if tail else _ending(code)
        short_of_memory = memory_limit is not None and "bad_alloc" in tail
        outcome = Outcome.MEMORY if short_of_memory else Outcome.CRASH
        return Answer(outcome, error=error, exit_code=code)

    def resident(self) -> int:
        """Return the resident bytes of the runner and all below it."""
        return resident_bytes(self._guardian)

    def curb_output(self) -> None:
        """Keep what the runner writes from filling the disk."""
        if os.fstat(self._output.fileno()).st_size > _OUTPUT_BYTES:
            os.ftruncate(self._output.fileno(), 0)

    def end(self) -> None:
        """Let the guardian kill everything, and wait until it has; one that hangs is killed."""
        self._close_lifeline()
        reap(self._guardian)
        os.close(self._status)
        self._pipe.close()
        self._output.close()

    def _close_lifeline(self) -> None:
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1


def _ending(code: int | None) -> str:
    if code is None:
        return "the process vanished"
    if code >= 0:
        return f"the process ended itself with exit code {code}"
    with contextlib.suppress(ValueError):
        return f"the process was killed by {signal.Signals(-code).name}"
    return f"the process was killed by signal {-code}"


def _error_end(text: str) -> str:
    """Return the end of its standard error, of Python's own words, which begin with the place,
    the beginning."""
    words, fatal, place = text.partition(_FATAL)
    return (words[-_TOLD_CHARACTERS:] + (fatal + place)[:_TOLD_CHARACTERS]).strip()


def _run_guardian(
    function: Callable[[Any], Any], pipe: Connection, lifeline: int, status: int, output: int
) -> None:
    """Be the guardian: fork the runner, wait, kill what is left. Never returns."""
    code = 1
    try:
        os.setsid()
        reset_signals()
        adopt_orphans()
        forget_files({pipe.fileno(), lifeline, status, output})
        guardian = os.getpid()
        runner = os.fork()
        if runner == 0:
            os.close(lifeline)
            os.close(status)
            _run(function, pipe, output, guardian)
        pipe.close()
        ended = wait_for_exit(runner, lifeline)
        if ended is not None:
            os.write(status, _STATUS.pack(ended))
        kill_descendants()
        code = 0
    finally:
        if sys.platform != "linux":
            os.killpg(0, signal.SIGKILL)
        os._exit(code)


def _run(function: Callable[[Any], Any], pipe: Connection, output: int, guardian: int) -> None:
    """Be the runner: answer calls until the pipe closes. Never returns."""
    code, lock = 1, threading.Lock()

    def tell(compiling: bool) -> None:
        with lock:  # kernels may be compiled in any thread
            pipe.send(_Child.COMPILING if compiling else _Child.COMPILED)

    try:
        die_with_parent()
        if os.getppid() != guardian:
            return
        _take_output(output)
        forget_finders()
        faulthandler.enable(file=2, all_threads=False)
        with contextlib.suppress(EOFError):
            while True:
                message = pipe.recv_bytes()
                with progress.watching(tell):
                    data = _answer(function, message)
                with lock:
                    pipe.send_bytes(data)
        code = 0
    finally:
        os._exit(code)


def _take_output(output: int) -> None:
    """Send whatever is written to the standard streams to the file for the error text."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False, buffering=1)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False, buffering=1)  # noqa: SIM115


def _answer(function: Callable[[Any], Any], message: bytes) -> bytes:
    """Make the call; whatever it raises, an order to exit included, is an answer too."""
    try:
        payload, memory_limit = pickle.loads(message)
        limit_data(memory_limit)
        answer = (Outcome.OK, function(payload))
        return pickle.dumps(answer, pickle.HIGHEST_PROTOCOL)
    except MemoryError as error:
        failure = (Outcome.MEMORY, None, _describe(error))
    except BaseException as error:
        failure = (Outcome.ERROR, None, _describe(error))
    finally:
        limit_data(None)
    return pickle.dumps(failure, pickle.HIGHEST_PROTOCOL)


def _describe(error: BaseException) -> str:
    """Return type and message, and for what was not raised on purpose the end of the traceback."""
    if isinstance(error, StreamplaceError):
        return f"{type(error).__name__}: {error}"
    text = "".join(traceback.format_exception_only(error)).strip()
    trace = "".join(traceback.format_tb(error.__traceback__))[-_TRACEBACK_CHARACTERS:]
    return f"{text}\n{trace}".rstrip()


# -- processes: signals, limits, descendants, memory --------------------------------------------


_PR_SET_CHILD_SUBREAPER = 36
_PAGE = os.sysconf("SC_PAGE_SIZE")
_DATA_SLACK = 512 << 20
_KILL_SECONDS = 10.0
_POLL_SECONDS = 0.05


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, sessions notwithstanding."""
    prctl(_PR_SET_CHILD_SUBREAPER, 1)


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
    # of /proc/self/statm the sixth: pages of data and stack that are mapped
    mapped = int(Path("/proc/self/statm").read_text().split()[5]) * _PAGE
    soft = hard if limit is None else mapped + limit + _DATA_SLACK
    if hard != resource.RLIM_INFINITY:
        soft = min(soft, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def children_of(pid: int) -> list[int]:
    """Return the processes whose parent is `pid`, whichever of its threads started them."""
    children: list[int] = []
    try:
        tasks = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208
        for task in tasks:
            children += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    except OSError:
        return []
    return children


def resident_bytes(pid: int) -> int:
    """Return the resident memory of all descendants of `pid`, itself not counted.

    Pages that several share count in parts: twenty idle forks hold one another's memory once.
    """
    total = 0
    waiting = children_of(pid)
    while waiting:
        child = waiting.pop()
        with contextlib.suppress(OSError, IndexError):
            total += proportional_bytes(child)
        waiting += children_of(child)
    return total


def proportional_bytes(pid: int) -> int:
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

    Returns the child's exit code (negative: the signal that killed it), or None for the lifeline.
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


# -- the inside of a Spark task --------------------------------------------------------------------

FLUSH_SECONDS = 2.0  # Finished rows wait at most about this long before they are stored.

_TIMES_KEPT = 6


@dataclass(frozen=True)
class Setting:
    """What all tasks of a sweep share, besides the instances."""

    sweep: str  # Its name.
    runner: str  # Dotted name of the function that does a run.
    versions: str  # What `own_versions` says on the driver, whose code it is that runs.
    parts: str | None = None  # Folder for finished batches; None where rows go through the driver.
    #: File whose presence makes workers store what they have and end; None without one.
    stop: str | None = None


Chunk = tuple[bytes, dict[str, bytes]]
"""Runs as compressed JSON, and documents of instances that go with them, by sha256."""


def pack_chunk(runs: Sequence[Run], carried: Collection[str] = ()) -> Chunk:
    """Write the runs of a chunk small enough to ship a million of them.

    `carried`: sha256 of instances that go with their chunks; workers get all others once, by
        broadcast.
    """
    carried_instances = {
        r.instance.sha256: r.instance for r in runs if r.instance.sha256 in carried
    }
    entries = [
        {
            "columns": run.columns(),
            "arguments": run.arguments(),
            "timeout": run.timeout,
            "memory_limit": run.settings.memory_limit,
        }
        for run in runs
    ]
    text = zlib.compress(json.dumps(entries, ensure_ascii=False).encode(), 6)
    return text, {sha256: instance.packed for sha256, instance in carried_instances.items()}


def run_partition(
    setting: Setting,
    documents: Any,
    keep: Callable[[list[dict[str, Any]]], None] | None,
    chunks: Iterable[Chunk],
) -> Iterator[int]:
    """Do all runs of a partition.

    `documents`: broadcast mapping of sha256 to the compressed JSON of instances that no chunk
        carries.
    `keep`: takes finished rows where they cannot be written from here.
    `chunks`: as `pack_chunk` writes them.
    Yields number of rows of each chunk.
    """
    for packed, carried in chunks:
        runs = json.loads(zlib.decompress(packed))
        yield _run_chunk(setting, ChainMap(carried, documents.value), keep, runs)


class _Caller:
    """The worker's child, and the file whose presence ends its work."""

    def __init__(self) -> None:
        self.stop: Path | None = None
        self.child = IsolatedCaller(handle, self.should_stop)

    def should_stop(self) -> bool:
        return self.stop is not None and self.stop.exists()


def _run_chunk(
    setting: Setting, documents: Mapping[str, bytes], keep: Any, runs: Sequence[Mapping[str, Any]]
) -> int:
    """Do runs one after another, and store their rows batch by batch; return how many."""
    rows: list[dict[str, Any]] = []
    stored, flushed = 0, time.monotonic()

    def flush() -> None:
        nonlocal stored, flushed, rows
        if rows and setting.parts is None:
            keep(rows)
        elif rows and setting.parts is not None:
            write_part(Path(setting.parts), rows)
        stored, rows, flushed = stored + len(rows), [], time.monotonic()

    _caller.stop = None if setting.stop is None else Path(setting.stop)
    for run in runs:
        if _caller.should_stop():
            break
        started, began = datetime.now(UTC), time.perf_counter()
        try:
            packed = documents[run["columns"]["instance_sha256"]]
            call = Call(setting.runner, packed, run["arguments"])
            answer = _caller.child.call(call, run["timeout"], run["memory_limit"])
        except Stopped:
            break
        columns = {
            **run["columns"], "sweep": setting.sweep, "host": socket.gethostname(),
            "versions": setting.versions, "started_at": started,
        }  # fmt: skip
        rows.append(make_row(columns, answer, time.perf_counter() - began))
        if time.monotonic() - flushed >= FLUSH_SECONDS:
            flush()
    flush()
    return stored


def make_row(columns: Mapping[str, Any], answer: Answer, spent: float) -> dict[str, Any]:
    """Return the row of a run: what it was given, how it ended, and the columns it filled.

    A runner that fills columns wrongly is an error of that run, and no other.
    """
    ended = {
        "outcome": str(answer.outcome),
        "error": answer.error,
        "exit_code": answer.exit_code,
        "time_total": round(spent, _TIMES_KEPT),
    }
    if answer.outcome is Outcome.OK:
        try:
            return complete_row({**columns, "time_total": spent, **answer.value, "outcome": "ok"})
        except (TypeError, ValueError) as error:
            ended |= {"outcome": str(Outcome.ERROR), "error": f"the runner's answer: {error}"}
    return complete_row({**columns, **ended})


def own_versions() -> str:
    """Return the versions that are known even of a run that said nothing."""
    from optim.methods.registry import package_version

    versions = {"python": platform.python_version(), "streamplace": package_version("streamplace")}
    return json.dumps(versions, sort_keys=True)


@dataclass(frozen=True)
class Call:
    """One run as it goes through the pipe.

    `runner` (``module:function``) is called with the instance's JSON, here compressed, and the
    arguments, and returns columns of the row.
    """

    runner: str
    packed: bytes
    arguments: Mapping[str, Any]


def handle(call: Call) -> dict[str, Any]:
    """Do one run and return the columns that it fills."""
    function = find_runner(call.runner)
    return dict(function(_document(call.packed), dict(call.arguments)))


@lru_cache(8)
def _document(packed: bytes) -> bytes:
    return zlib.decompress(packed)


def find_runner(name: str) -> Callable[[bytes, dict[str, Any]], Mapping[str, Any]]:
    """Import the function that a dotted name ``module:function`` names.

    Raises `InvalidInput`: there is none.
    """
    value = loaded(name, "runner", "write module:function")
    if not callable(value):
        raise InvalidInput(Problem("runner", name, "is not a function"))
    function: Callable[[bytes, dict[str, Any]], Mapping[str, Any]] = value
    return function


_caller = _Caller()
