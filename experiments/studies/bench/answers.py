"""Asking for plans: a function of the user's, a command, or a registered method.

Their outcome is reported as that of one case, and the next case is run: only Ctrl-C and a name
that there is not end it all.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import IO, Any

from experiments.studies.bench.scores import Outcome, Point, words
from optim import Instance, solve
from optim.certificates.grade import affordable
from optim.errors import InvalidInput, Problem, UnsuitableMethod
from optim.methods.registry import Method
from optim.referee import Termination

Asker = Callable[[Instance, str], "Outcome"]

MOST_BYTES = 256 << 20  # What a command may write.
CHOSEN = ("default", "portfolio")
"""What ``--method`` takes besides the registered ones: as `solve` chooses, or several."""


class _Over(BaseException):
    """The limit is reached; no `Exception`, so that a method's own ``except`` does not eat it."""


@contextlib.contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Raise `_Over` after so many seconds, where signals can be had."""
    # Python delivers signals to the main thread alone
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def over(_: int, __: FrameType | None) -> None:
        raise _Over

    # the wall clock: what waits for others is over, too
    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def guarded(work: Callable[[Instance, str, Outcome, float], None]) -> Asker:
    """Ask by a function that adds answers, given when it began; what it raises is the problem."""

    def ask(instance: Instance, objective: str) -> Outcome:
        outcome, began = Outcome(), time.perf_counter()
        try:
            # standard output is for the results
            with contextlib.redirect_stdout(sys.stderr):
                work(instance, objective, outcome, began)
        except Exception as error:  # a method of others may fail in any way
            outcome.problem = words(error)
            outcome.unsuitable = isinstance(error, UnsuitableMethod)
        outcome.seconds = outcome.seconds or time.perf_counter() - began
        return outcome

    return ask


def function_asker(function: Callable[[dict[str, Any]], Any], limit: float) -> Asker:
    """Ask a function; one that yields is asked until it ends or the limit is reached."""

    def work(instance: Instance, _: str, outcome: Outcome, began: float) -> None:
        document = instance.to_dict()
        began = time.perf_counter()  # the dictionary is made on our time
        try:
            with _time_limit(limit):
                answer = function(document)
                for one in answer if isinstance(answer, Iterator) else (answer,):
                    copied = dict(one) if isinstance(one, Mapping) else one  # it may go on with it
                    outcome.answers.append((time.perf_counter() - began, copied))
            if not outcome.answers:
                outcome.problem = "ended without a plan"
        except _Over:
            outcome.stopped, outcome.problem = True, f"stopped after {limit:g} s"
        except SystemExit as error:
            outcome.problem = f"left by sys.exit({error.code!r})"
        finally:
            outcome.seconds = time.perf_counter() - began

    return guarded(work)


def command_asker(command: str, limit: float) -> Asker:
    """Ask a command: the instance on its standard input, plans on its output, one a line.

    Raises `InvalidInput`: it names no program, or a quotation in it has no end.
    """
    reason = "names no program"
    try:
        line = shlex.split(command)
    except ValueError as error:
        line, reason = [], f"cannot be split into words: {error}"
    if not line:
        remedy = "write it as in a shell, such as --my-command './place --fast'"
        raise InvalidInput(Problem("--my-command", command, reason, remedy))

    def ask(instance: Instance, _: str) -> Outcome:
        outcome, text = Outcome(), instance.to_json().encode()
        began = time.perf_counter()
        with tempfile.TemporaryFile() as errors:
            try:
                # a session of its own, so that all that it starts can be ended
                process = subprocess.Popen(
                    line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                    start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                outcome.problem = f"{line[0]} cannot be started: {error.strerror}"
                return outcome
            try:
                written = _timed_lines(process, text, began, limit, outcome)
            finally:  # with all that it started; Ctrl-C ends it as well
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                code = process.wait()
                for stream in (process.stdin, process.stdout):
                    with contextlib.suppress(OSError):
                        stream.close()  # type: ignore[union-attr]
            outcome.seconds = time.perf_counter() - began
            passed = _take_documents(written, outcome)
            _note_problem(outcome, code, passed, errors)
        return outcome

    return ask


Lines = list[tuple[float, bytes]]


def _timed_lines(
    process: subprocess.Popen[bytes], text: bytes, began: float, limit: float, outcome: Outcome
) -> Lines:
    """Hand over the instance and stamp each line as it comes, until the end or the limit."""
    assert process.stdin is not None and process.stdout is not None
    # in a thread: a command may write before it has read all, and pipes hold 64 kB
    threading.Thread(target=_feed, args=(process.stdin, text), daemon=True).start()
    lines: Lines = []
    rest, size, output = bytearray(), 0, process.stdout
    with selectors.DefaultSelector() as selector:
        selector.register(output, selectors.EVENT_READ)
        while True:
            remaining = limit - (time.perf_counter() - began)
            if remaining <= 0:
                outcome.stopped, outcome.problem = True, f"stopped after {limit:g} s"
                break
            if not selector.select(remaining):
                continue
            block = os.read(output.fileno(), 1 << 20)
            now = time.perf_counter() - began
            if not block:
                break
            size += len(block)
            # a command that prints without end must not fill the memory
            if size > MOST_BYTES:
                outcome.problem = f"stopped: it wrote more than {MOST_BYTES >> 20} MB"
                break
            rest += block
            if b"\n" in block:
                *whole, last = bytes(rest).split(b"\n")
                rest = bytearray(last)
                lines += [(now, line) for line in whole]
    if rest:
        lines.append((time.perf_counter() - began, bytes(rest)))
    if not outcome.stopped and not outcome.problem:
        with contextlib.suppress(subprocess.TimeoutExpired):  # its output is closed: it ends now
            process.wait(timeout=max(0.1, limit - (time.perf_counter() - began)))
    return lines


def _feed(stream: IO[bytes], text: bytes) -> None:
    with contextlib.suppress(OSError, ValueError):  # it need not read, and may end before
        stream.write(text)
        stream.close()


def _take_documents(lines: Lines, outcome: Outcome) -> int:
    """Take the lines that are JSON objects, or all together as one; return how many are passed."""
    filled = [(seconds, line) for seconds, line in lines if line.strip()]
    for seconds, line in filled:
        document = _object(line)
        if document is not None:
            outcome.answers.append((seconds, document))
    if not outcome.answers and filled:
        # one document over several lines, as json.dumps(…, indent=…) writes it
        document = _object(b"\n".join(line for _, line in lines))
        if document is not None:
            outcome.answers.append((filled[-1][0], document))
            return 0
    return len(filled) - len(outcome.answers)


def _object(text: bytes) -> dict[str, Any] | None:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _note_problem(outcome: Outcome, code: int, passed: int, errors: IO[bytes]) -> None:
    """Say what was wrong with a command."""
    if outcome.problem is None and code:
        errors.seek(max(0, errors.seek(0, os.SEEK_END) - 4096))
        last = errors.read().decode(errors="replace").strip().splitlines()[-1:]
        outcome.problem = ": ".join([f"ended with {code}", *last])
    elif outcome.problem is None and not outcome.answers:
        outcome.problem = "wrote no JSON object" if passed else "wrote nothing"
    elif outcome.problem is None and passed:
        outcome.problem = f"{passed} lines that are no JSON objects passed over"


def method_asker(method: Method | str, limit: float, **options: Any) -> Asker:
    """Ask a registered method, or what `solve` chooses; its own words for the trajectory."""
    name = method if isinstance(method, str) else method.name
    registered = None if name == "default" else name

    def work(instance: Instance, objective: str, outcome: Outcome, _: float) -> None:
        optimised = isinstance(method, str) or objective in method.objectives
        began = time.perf_counter()
        result = solve(
            instance, registered, objective=objective if optimised else None, time_limit=limit,
            explain=0.0, **options,
        )  # fmt: skip
        # kernels are compiled once a machine, and not on the method's clock
        spent = time.perf_counter() - began - result.times.get("compile", 0.0)
        if result.termination is Termination.INTERRUPTED:
            raise KeyboardInterrupt
        outcome.seconds = spent
        outcome.stopped = result.termination is Termination.TIME_LIMIT
        if result.plan is None:
            outcome.problem = f"has no plan: {result.termination}"
        else:
            outcome.answers.append((spent, result.plan))
        if optimised and result.objective is not None and result.objective.name == objective:
            outcome.reported = [
                Point(s, value) for s, value, _ in result.trace if value is not None
            ]
            result = affordable(result, lambda: instance.to_json().encode())
        outcome.result = result

    return guarded(work)
