"""The command line run in the process of the tests: the same answers without a second of imports.

What is a matter of processes (closed streams, pipes, signals, what ``--help`` imports) is tested
with the installed command.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from unittest.mock import patch

from streamplace.cli.main import OURS, main


class _Stream(io.TextIOWrapper):
    """A standard stream whose bytes are kept."""

    def __init__(self, content: str = "") -> None:
        self.kept = io.BytesIO(content.encode())
        super().__init__(self.kept, encoding="utf-8", newline="", write_through=True)

    def text(self) -> str:
        """Return what was written."""
        return self.kept.getvalue().decode()


@contextlib.contextmanager
def _undone() -> Iterator[None]:
    """Take back what the command sets for its process."""
    names = ("stdin", "stdout", "stderr", "excepthook", "argv")
    before = {name: getattr(sys, name) for name in names}
    loggers = [logging.getLogger(name) for name in OURS]
    logged = [(one, one.level, one.handlers, one.propagate) for one in loggers]
    handlers = [(s, signal.getsignal(s)) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(sys, name, value)
        for one, level, kept, propagate in logged:
            one.setLevel(level)
            one.handlers, one.propagate = kept, propagate
        for number, handler in handlers:
            signal.signal(number, handler)


def run_command(
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    *,
    stdin: str = "",
    merged: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run ``streamplace ARGUMENTS`` in a folder, and return what a process would have.

    With `merged`, standard error goes where standard output goes.
    """
    out = _Stream()
    err = out if merged else _Stream()
    with _undone(), contextlib.chdir(folder), patch.dict(os.environ, environment):
        sys.stdin, sys.stdout, sys.stderr = _Stream(stdin), out, err
        sys.argv = ["streamplace", *arguments]
        try:
            code = main(arguments)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 2
        except Exception:  # whatever it is: a process would end so
            sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
            code = 1
    return subprocess.CompletedProcess(list(arguments), code, out.text(), err.text())
