"""Standard streams that survive a reader who leaves and a terminal of few characters."""

from __future__ import annotations

import _thread
import atexit
import contextlib
import io
import os
import signal
import sys
import threading
import time
import warnings
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn, TextIO, TypeVar, cast

from optim.errors import ExitCode, InvalidInput, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import FrameType

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from optim.errors import Problem, StreamplaceError
    from optim.plugins import Option, Plugins

STDOUT = "-"
"""What names standard output where a file could be named."""


def quiet_stdout() -> None:
    """Point standard output at nothing, so that neither we nor the interpreter's end complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def open_missing() -> None:
    """Put nothing in the place of streams that whoever started us has closed."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123


def write_stdout(text: str) -> None:
    """Write to standard output; a reader that has left, as ``| head`` does, is no error."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        quiet_stdout()


def write_document(output: str | None, text: str) -> None:
    """Write a document to a file, or to standard output for ``-``; without a name nowhere.

    Raises `InvalidInput`: the file cannot be written.
    """
    from optim.util.files import write_atomic

    if output == STDOUT:
        write_stdout(text)
    elif output is not None:
        write_atomic(output, text)


def forgive_encoding() -> None:
    """Let a terminal that cannot show a character show a question mark, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() != "utf-8":
            stream.reconfigure(errors="replace")


def leave(code: int) -> NoReturn:
    """End the process with an exit code, also after an interrupt.

    What ends by itself is ended as Python does it: threads, exit functions, streams. But its
    modules are not taken apart one by one: with numba and scipy loaded that takes up to 0.4 s.

    CPython remembers a `KeyboardInterrupt` that has passed through `exec`, as it does where modules
    are imported, though it was caught: run by ``-m``, the process then dies by SIGINT instead.
    """
    if code <= 128:
        try:
            sys.stdout.flush()
        except (OSError, ValueError):
            sys.exit(code)  # Python reports that
        threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


class Talk:
    """Standard error whose failures cost nothing: on a full disk the answer counts, not its log."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write what can be written."""
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Write out what can be written."""
        with contextlib.suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def forgive_talk() -> None:
    """Let standard error fail silently, until the end of the process."""
    if not isinstance(sys.stderr, Talk):
        sys.stderr = cast("TextIO", Talk(sys.stderr))


@contextlib.contextmanager
def flushed_stdout() -> Iterator[None]:
    """Flush standard output at the end of a command, whatever became of its reader."""
    try:
        yield
    finally:
        write_stdout("")


def print_json(document: Any, indent: int | None = 1) -> None:
    """Print one JSON document on standard output; what JSON cannot say (nan, inf) is null."""
    import json

    from optim.util.files import finite

    text = json.dumps(finite(document), ensure_ascii=False, indent=indent, allow_nan=False)
    write_stdout(text + "\n")


# -- signals that ask a command to end, heard as Ctrl-C is -----------------------------------------

_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
_IMPORTING = "<frozen importlib._bootstrap>"
_WHOLE = (
    ("llvmlite/binding/executionengine.py", "_raw_object_cache_"),
    ("llvmlite/binding/ffi.py", "close"),
    ("llvmlite/binding/ffi.py", "detach"),
    # numpy compares rows by it, and makes a `TypeError` of whatever it raises
    ("numpy/_core/_internal.py", "_promote_fields"),
)
"""What must not be cut off: the end of the file, and the beginning of the functions' names."""
_STEP, _LONGEST = 0.02, 10.0
"""Seconds between two tries, and until an import is interrupted: it may wait for a dead disk."""


class Interrupt:
    """A handler of signals that raises `KeyboardInterrupt` where nothing is lost by it."""

    def __init__(self) -> None:
        self.signal: int | None = None  # The one that was raised.
        self._came: float | None = None

    def __call__(self, number: int, _: object) -> None:
        now = time.monotonic()
        # an import that never ends must not keep the signal for ever
        self._came = now if self._came is None else self._came
        if _not_now() and now < self._came + _LONGEST:
            # no `threading.Timer`: the signal may have come while a thread was being started
            _thread.start_new_thread(_again, (number,))
            return
        self._came = None
        self.signal = number
        raise KeyboardInterrupt(number)

    def exit_code(self, code: int) -> int:
        """Return the exit code of an interrupted run: 128 and the signal, 130 after Ctrl-C."""
        if code != ExitCode.INTERRUPTED or self.signal is None:
            return int(code)
        return 128 + self.signal


def _not_now() -> bool:
    """Return whether a module is being imported, or compiled code passed or freed."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_filename == _IMPORTING:
            return True
        if any(code.co_name.startswith(n) and code.co_filename.endswith(f) for f, n in _WHOLE):
            return True
        frame = frame.f_back
    return False


def _again(number: int) -> None:
    time.sleep(_STEP)
    with suppress(OSError):
        os.kill(os.getpid(), number)


@contextmanager
def _forgotten_sent_again() -> Iterator[None]:
    """Send a signal again whose interrupt was raised where Python cannot pass it on."""
    # an interrupt in a finaliser or a callback of C is printed by Python, and lost
    before = sys.unraisablehook

    def hook(unraisable: Any) -> None:
        if not isinstance(unraisable.exc_value, KeyboardInterrupt):
            return before(unraisable)
        number = next((n for n in unraisable.exc_value.args if isinstance(n, int)), signal.SIGINT)
        _thread.start_new_thread(_again, (number,))
        return None

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before


@contextmanager
def interrupts_heard() -> Iterator[None]:
    """Let Ctrl-C be heard at any moment, imports included; a handler of the program's own stays."""
    plain = signal.default_int_handler
    main = threading.current_thread() is threading.main_thread()
    ours = main and signal.getsignal(signal.SIGINT) is plain
    if ours:
        signal.signal(signal.SIGINT, Interrupt())
    try:
        with _forgotten_sent_again() if main else nullcontext():
            yield
    finally:
        if ours:
            signal.signal(signal.SIGINT, plain)


@contextmanager
def stopped_by_signals() -> Iterator[Interrupt]:
    """Raise `KeyboardInterrupt` on SIGTERM and SIGHUP; signals that are ignored stay so."""
    received = Interrupt()
    before = {}
    for end in _SIGNALS:
        # nohup ignores SIGHUP: then it stays ignored
        if signal.getsignal(end) is signal.SIG_DFL:
            before[end] = signal.signal(end, received)
    try:
        yield received
    finally:
        for end, handler in before.items():
            signal.signal(end, handler)


# Consoles: answers on standard output, messages on standard error.
#
# Errors are printed as path, value, reason and remedy, aligned; plug-ins with their options as
# lines of text. Most commands print neither colours nor tables: rich is imported where a console
# is made.

T = TypeVar("T")


def load_all(plugins: Plugins[T]) -> list[T]:
    """Load all plug-ins of a kind; what cannot be taken is reported on standard error."""
    with warnings.catch_warnings(record=True) as left_out:
        warnings.simplefilter("always")
        loaded = plugins.all()
    for warning in left_out:
        sys.stderr.write(f"warning: {printable(str(warning.message))}\n")
    return loaded


def print_all(plugins: Plugins[Any], remarks: Callable[[Any], list[str]], *, as_json: bool) -> None:
    """List all plug-ins of a kind: each as plain data, or what is reported of it and its
    options.
    """
    loaded = load_all(plugins)
    if as_json:
        print_json([plugin.to_dict() for plugin in loaded])
        return
    blocks = [
        "\n".join([f"{p.name}: {p.summary}", *remarks(p), *option_lines(p.options)]) for p in loaded
    ]
    write_stdout("\n\n".join(blocks) + "\n")


def option_lines(options: Sequence[Option]) -> list[str]:
    """Return one line an option: name, meaning, choices, default."""
    width = max((len(option.name) for option in options), default=0)
    lines = []
    for option in options:
        choices = f" ({', '.join(map(str, option.choices))})" if option.choices else ""
        default = "" if option.default in (None, "") else f" [{option.default}]"
        lines.append(f"  {option.name:{width}}  {option.help}{choices}{default}")
    return lines


SHOWN = 20
_WIDEST_PATH = 48
_WIDEST_VALUE = 24


def printable(text: str) -> str:
    """Escape control characters: ids come from files, and a terminal obeys what it is shown."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def describe(error: StreamplaceError) -> str:
    """Return the text for standard error, without a line end."""
    if not isinstance(error, InvalidInput):
        return "\n".join(printable(line) for line in str(error).splitlines())
    source = printable(error.source)
    if len(error.problems) == 1:
        line = printable(str(error.problems[0]))
        return f"{source}: {line}" if source else line
    head = f"{source}: " if source else ""
    return "\n".join([f"{head}{len(error.problems)} problems", *problem_lines(error.problems)])


def problem_lines(problems: list[Problem]) -> list[str]:
    """Lay problems out in columns; after `SHOWN` of them only their number is reported."""
    rows = []
    for problem in problems[:SHOWN]:
        value = "" if problem.value is None else shorten(problem.value)
        rows.append([*map(printable, (problem.path, value, problem.reason, problem.remedy))])
    path_width = min(_WIDEST_PATH, max((len(row[0]) for row in rows), default=0))
    value_width = min(_WIDEST_VALUE, max((len(row[1]) for row in rows), default=0))
    lines = []
    for path, value, reason, remedy in rows:
        middle = f"  {value:<{value_width}}" if value_width else ""
        tail = f" → {remedy}" if remedy else ""
        lines.append(f"  {path:<{path_width}}{middle}  {reason}{tail}")
    if len(problems) > SHOWN:
        lines.append(f"  … and {len(problems) - SHOWN} more problems")
    return lines


_PIPE_WIDTH = 120


@cache
def _console_class() -> type[Console]:
    from rich.console import Console

    class QuietConsole(Console):
        """A console that goes on in silence when its reader has left."""

        def on_broken_pipe(self) -> None:
            self.quiet = True
            quiet_stdout()

    return QuietConsole


def answer_console() -> Console:
    """Return the console of standard output; colours and width only on a terminal."""
    return _console_class()(
        file=sys.stdout, highlight=False, markup=False, width=_width(sys.stdout.isatty())
    )


def talk_console(quiet: bool = False) -> Console:
    """Return the console of standard error."""
    return _console_class()(
        file=sys.stderr, highlight=False, markup=False, quiet=quiet, soft_wrap=True,
        width=_width(sys.stderr.isatty()),
    )  # fmt: skip


def console_beside(output: str | None) -> Console:
    """Return the console of the answer: standard error where ``-o -`` has standard output."""
    return talk_console() if output == STDOUT else answer_console()


def _width(tty: bool) -> int | None:
    if "COLUMNS" in os.environ:
        return None
    return None if tty else _PIPE_WIDTH


def name(text: str, style: str = "") -> Text:
    """Return an id as text that a terminal cannot be commanded with."""
    from rich.text import Text

    return Text(printable(text), style=style)


def plain_table(columns: Sequence[str], right: Sequence[str] = ()) -> Table:
    """Return an empty table without lines; of its headings those that are aligned to the right."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return table
