"""Running a solver in a process of its own: deadlines that hold, Ctrl-C, streamed incumbents."""

from __future__ import annotations

import contextlib
import marshal
import os
import selectors
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import InvalidInput, Problem, SolverError
from optim.solvers.interface import Answer, LinearTermination
from optim.solvers.workers import HEADER
from optim.util.process import Held

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from optim.solvers.interface import SolveTask

#: After the time limit: seconds until the solver is asked to stop, and until it is killed.
ASK_AFTER = 0.1
KILL_AFTER = 0.3

#: What a long run may overrun besides, for its incumbent's sake: a share of its time, and seconds.
_MORE_SHARE, _MORE = 0.02, 0.6

#: Seconds between a Ctrl-C (or SIGTERM) and the kill; a second one kills at once.
INTERRUPT_GRACE = 0.8

_FINAL = (
    LinearTermination.OPTIMAL,
    LinearTermination.GAP_REACHED,
    LinearTermination.INFEASIBLE,
    LinearTermination.UNBOUNDED,
    LinearTermination.INFEASIBLE_OR_UNBOUNDED,
)

_POLL = 0.1

# linear algebra underneath would start a thread a core just by being loaded
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
_TYPE_CODES = {"float64": "d", "int32": "i", "int64": "q", "int8": "b"}


@dataclass
class Exit:
    """How a child ended."""

    returncode: int  # Of the process; negative for a signal.
    stop_requested: bool  # We asked it to stop, because its time was up or after an interrupt.
    killed: bool  # We killed it, because it overran or did not heed an interrupt.
    interrupted: bool  # Ctrl-C or SIGTERM came while it ran.
    stderr: str  # The last of what it wrote to stderr.

    def check_crash(self, solver: str, model: str, last: str = "") -> None:
        """Raise `SolverError` for a silent end, unless it was stopped: it may still have started.

        `last` is what it printed, reported where it wrote nothing to stderr.
        """
        if not (self.stop_requested or self.killed or self.interrupted):
            message = self.stderr.strip()[-500:] or last or "no message"
            raise SolverError(
                f"{solver}: the process ended with code {self.returncode} on {model!r}: {message}"
            )

    def reason(self, ended: LinearTermination) -> LinearTermination:
        """Return why it stopped, given what it reported: only the user interrupts, we end
        its time.
        """
        if ended in _FINAL:
            return ended
        if self.interrupted:
            return LinearTermination.INTERRUPTED
        return LinearTermination.TIME_LIMIT if ended is LinearTermination.INTERRUPTED else ended


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yield a folder for model and solution files that is removed afterwards.

    Without `tempfile.TemporaryDirectory`: its finalizer would also run in a forked process that
    ends meanwhile, and take this one's files away.
    """
    folder = None
    try:
        with Held():
            folder = Path(tempfile.mkdtemp(prefix="streamplace-"))
        yield folder
    finally:
        if folder is not None:
            try:
                with Held():
                    shutil.rmtree(folder, ignore_errors=True)
            finally:  # a signal that came before it was held
                shutil.rmtree(folder, ignore_errors=True)


def pack(path: Path, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a header and named arrays to a file that `workers.Packed` maps."""
    places = {name: (_TYPE_CODES[a.dtype.name], 1 << 60, a.size) for name, a in arrays.items()}
    table = {**header, "arrays": places}
    offset = first = _aligned(72 + len(marshal.dumps(table)))  # with room: real offsets are shorter
    for name, array in arrays.items():
        places[name] = (places[name][0], offset, array.size)
        offset = _aligned(offset + array.nbytes)
    text = marshal.dumps(table)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.write(bytes(first - file.tell()))
        for array in arrays.values():
            file.write(np.ascontiguousarray(array).data)
            file.write(bytes(_aligned(file.tell()) - file.tell()))


def _aligned(offset: int) -> int:
    # cache lines: typed views and HiGHS' vector instructions take aligned arrays
    return offset + (-offset) % 64


def python_child(module: str, function: str, *arguments: str) -> list[str]:
    """Command line that runs ``module.function(*arguments)`` in a lean interpreter.

    Neither ``site`` nor the environment is read (12 ms instead of 40); the child gets this
    process's import path, so it finds the same packages, in a zip too.
    """
    here = str(Path.cwd())
    home = str(Path(__file__).parents[2])
    paths = [entry if Path(entry).is_absolute() else f"{here}/{entry}" for entry in sys.path]
    code = (
        f"import sys; sys.path.append({home!r}); import optim\n"  # ours, before any namesake
        f"sys.path[:] = {paths!r}\n"
        f"from {module} import {function} as run; run(*sys.argv[1:])"
    )
    return [sys.executable, "-I", "-S", "-c", code, *arguments]


def guarded_command(argv: Sequence[str]) -> list[str]:
    """Command line that runs a program so that it dies with this process (Linux)."""
    if sys.platform != "linux":
        return list(argv)
    return python_child("optim.solvers.workers", "become", *argv)


def run_child(
    argv: Sequence[str],
    on_output: Callable[[bytes], None],
    read: Callable[[Exit], Answer],
    *,
    deadline: float | None,
    folder: Path,
    ask: Callable[[subprocess.Popen[bytes]], None],
    terminal: bool = False,
) -> Answer:
    """Run a child, feed its stdout to `on_output`, stop it when its time is up.

    `on_output`: called with raw pieces of stdout.
    `read`: makes the answer once it has ended; not interrupted.
    `deadline`: end of its time on the clock of `time.monotonic`: without any left it is not
        started; it is asked to stop `ASK_AFTER` later, and killed `KILL_AFTER` later or, after a
        long run, 0.9 s.
    `ask`: asks the child to stop and pass what it has.
    `terminal`: give it a pseudo-terminal as stdout: it then writes line by line instead of in
        blocks.
    """
    if deadline is not None and time.monotonic() >= deadline:
        return Answer(LinearTermination.TIME_LIMIT, "not started", message="no time was left")
    errors = folder / "stderr"
    answer: Answer | None = None
    try:
        with Held() as held_signals, errors.open("wb") as stderr:
            our_end, child_end = os.openpty() if terminal else os.pipe()
            try:
                # an own process group: a Ctrl-C at the terminal reaches us, and we ask the child
                child = subprocess.Popen(
                    list(argv), stdin=subprocess.PIPE, stdout=child_end, stderr=stderr, cwd=folder,
                    process_group=0, bufsize=0, env={**os.environ, **_ONE_THREAD},
                )  # fmt: skip
            except OSError:
                os.close(our_end)
                raise
            finally:
                os.close(child_end)
            watch = _Watch(child, our_end, ask, held_signals, deadline)
            try:
                watch.until_end(on_output)
            finally:
                if child.poll() is None:
                    child.kill()
                child.wait()
                os.close(our_end)
                if child.stdin is not None:
                    child.stdin.close()
            answer = read(watch.exit(errors.read_bytes()[-4000:].decode(errors="replace")))
            answer.killed = watch.killed
    except KeyboardInterrupt:  # so late that nothing but the answer's reason is left to change
        if answer is None:
            raise
        if answer.termination not in _FINAL:
            answer.termination = LinearTermination.INTERRUPTED
    return answer


@dataclass
class _Watch:
    """The loop around a child: output, deadline, interrupts."""

    child: subprocess.Popen[bytes]
    output: int
    ask: Callable[[subprocess.Popen[bytes]], None]
    signals: Held
    deadline: float | None
    killed: bool = False
    interrupts: int = 0
    _stop_requested: bool = False
    _ask_at: float | None = None
    _kill_at: float | None = field(default=None)

    def exit(self, stderr: str) -> Exit:
        """How the child ended, once it has."""
        return Exit(
            self.child.returncode, self._stop_requested, self.killed, self.interrupts > 0, stderr
        )

    def until_end(self, on_output: Callable[[bytes], None]) -> None:
        """Pass on output until the child closes its stdout and ends."""
        if self.deadline is not None:
            extra = min(_MORE, _MORE_SHARE * (self.deadline - time.monotonic()))
            self._ask_at = self.deadline + ASK_AFTER
            self._kill_at = self.deadline + KILL_AFTER + max(0.0, extra)
        with selectors.DefaultSelector() as ready:
            ready.register(self.output, selectors.EVENT_READ)
            more = True
            while more or self.child.poll() is None:
                try:
                    self.signals.deliver()
                    self._look_at_clock()
                    if not more:
                        with contextlib.suppress(subprocess.TimeoutExpired):
                            self.child.wait(_POLL)
                    elif ready.select(_POLL):
                        chunk = _read(self.output)
                        more = bool(chunk)
                        on_output(chunk)  # the empty one too: it flushes
                except KeyboardInterrupt:  # a signal's, a callback's
                    self._interrupted()

    def _interrupted(self) -> None:
        self.interrupts += 1
        # the first interrupt asks, with time to pass the incumbent on; the second kills
        if self.interrupts == 1:
            self._ask_at = time.monotonic()
            limit = self._ask_at + INTERRUPT_GRACE
            self._kill_at = limit if self._kill_at is None else min(limit, self._kill_at)

    def _look_at_clock(self) -> None:
        now = time.monotonic()
        if self._ask_at is not None and now >= self._ask_at and not self._stop_requested:
            self._stop_requested = True
            with contextlib.suppress(OSError):  # it may have ended meanwhile
                self.ask(self.child)
        overdue = self._kill_at is not None and now >= self._kill_at
        if (overdue or self.interrupts > 1) and self.child.poll() is None:
            self.killed = True
            self.child.kill()


def _read(fd: int) -> bytes:
    """Read what is there; nothing at the end, which a terminal reports as an error."""
    try:
        return os.read(fd, 1 << 20)
    except OSError:
        return b""


def ask_by_stdin(child: subprocess.Popen[bytes]) -> None:
    """Ask one of our own workers to stop: a byte on its stdin."""
    assert child.stdin is not None
    child.stdin.write(b"s")


def ask_by_signal(child: subprocess.Popen[bytes]) -> None:
    """Ask a program to stop: SIGINT."""
    child.send_signal(signal.SIGINT)


class Lines:
    """Splits a program's output into lines."""

    def __init__(self, on_line: Callable[[str], None]) -> None:
        self._on_line = on_line
        self._rest = b""

    def __call__(self, chunk: bytes) -> None:
        self._rest += chunk if chunk else b"\n"
        while True:
            line, newline, rest = self._rest.partition(b"\n")
            if not newline:
                return
            self._rest = rest  # before the call: a raising callback loses no line
            if line.strip():
                self._on_line(line.decode(errors="replace").rstrip("\r"))


class Frames:
    """Splits a worker's stdout into frames and passes them to functions by kind."""

    def __init__(self, handlers: Mapping[bytes, Callable[[bytes], None]]) -> None:
        self._handlers = handlers
        self._rest = bytearray()

    def __call__(self, chunk: bytes) -> None:
        self._rest += chunk
        while len(self._rest) >= HEADER.size:
            kind, length = HEADER.unpack_from(self._rest)
            end = HEADER.size + length
            if len(self._rest) < end:
                return
            payload = bytes(self._rest[HEADER.size : end])
            del self._rest[:end]
            self._handlers[kind](payload)


@dataclass
class WorkerReport(ABC):
    """What a worker of ours has sent so far; a back end says how its bounds and vectors read."""

    task: SolveTask
    x: NDArray[np.float64] | None = None
    bound: float | None = None
    handed_over: float | None = None
    final: dict[str, Any] = field(default_factory=dict)

    def on_fields(self, payload: bytes) -> None:
        """Take a bound, a failure or the final status."""
        fields = marshal.loads(payload)
        if "handed_over" in fields:
            self.handed_over = time.perf_counter()
        elif "bound" in fields:
            self.bound = self.bound_of(fields["bound"])
            self.task.recorder.note(bound=self.bound)
        else:
            self.final.update(fields)

    @abstractmethod
    def bound_of(self, reported: Any) -> float | None:
        """Return the bound in the model's sense."""

    @abstractmethod
    def on_vector(self, payload: bytes) -> None:
        """Take an incumbent; the last one is the best."""

    @abstractmethod
    def on_log(self, payload: bytes) -> None:
        """Read what the solver's log says of the start."""

    def run(
        self, function: str, write: Callable[[Path], None], read: Callable[[Exit], Answer]
    ) -> Answer:
        """Run a function of `optim.solvers.workers` on the model that is written to a file."""
        before = time.perf_counter()
        with scratch_folder() as folder:
            path = folder / "model"
            write(path)
            frames = Frames({b"J": self.on_fields, b"X": self.on_vector, b"L": self.on_log})
            answer = run_child(
                python_child("optim.solvers.workers", function, str(path)), frames, read,
                deadline=self.task.deadline(), folder=folder, ask=ask_by_stdin,
            )  # fmt: skip
        answer.handover_seconds = (self.handed_over or time.perf_counter()) - before
        return answer

    def check_options(self, solver: str, remedy: str) -> None:
        """Refuse a native option that the worker could not set."""
        name = self.final.get("refused_option")
        if name is not None:
            reason = f"is refused by {solver}"
            raise InvalidInput(
                Problem(f"options.{name}", self.task.options.get(name), reason, remedy)
            )
