"""The command line run in the process of the tests: the same answers without a second of imports.

What is a matter of processes (closed streams, pipes, signals, what ``--help`` imports) is tested
with the installed command.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from unittest.mock import patch

import jsonschema

from streamplace.cli.main import OURS, main

PRINTED = {
    "solve": "result", "evaluate": "evaluation", "explain": "explanation", "steps": "steps",
    "verify": "verify", "decide": "decision",
}  # fmt: skip
"""Command to the schema of what it prints with ``--json``."""


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

    With `merged`, standard error goes where standard output goes; else what is printed as JSON is
    held against its published schema.
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
    if "--json" in arguments and arguments[0] in PRINTED and out.text() and not merged:
        validator(PRINTED[arguments[0]]).validate(json.loads(out.text()))
    return subprocess.CompletedProcess(list(arguments), code, out.text(), err.text())


@cache
def validator(name: str) -> jsonschema.Draft202012Validator:
    """Return what holds documents against a published schema."""
    from streamplace.cli.schema import schema

    return jsonschema.Draft202012Validator(schema(name))


def with_a_plan(process: subprocess.Popen[str]) -> None:
    """Wait until a line of its progress shows an incumbent."""
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if "  bound " in line and "–  bound" not in line:
            return
    raise AssertionError(said)
