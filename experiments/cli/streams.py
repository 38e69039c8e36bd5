"""Standard streams that survive a reader who leaves and a terminal of few characters."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType


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


def forgive_encoding() -> None:
    """Let a terminal that cannot show a character show a question mark, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() != "utf-8":
            stream.reconfigure(errors="replace")


class Stdout:
    """Flushes standard output at the end of a command, whatever became of its reader."""

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        write_stdout("")
