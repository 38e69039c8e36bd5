"""Standard streams that survive a reader who leaves and a terminal of few characters."""

from __future__ import annotations

import atexit
import contextlib
import io
import os
import sys
import threading
from typing import TYPE_CHECKING, Any, NoReturn, TextIO, cast

if TYPE_CHECKING:
    from collections.abc import Iterator

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

    Raises
    ------
    InvalidInput
        The file cannot be written.
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
