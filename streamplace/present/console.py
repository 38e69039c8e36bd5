"""Consoles: answers go to standard output, talk to standard error."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from streamplace.present.problems import printable
from streamplace.present.streams import STDOUT, quiet_stdout

if TYPE_CHECKING:
    from collections.abc import Sequence

_PIPE_WIDTH = 120


class _Console(Console):
    """A console that goes on in silence when its reader has left."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        quiet_stdout()


def answer_console() -> Console:
    """Return the console of standard output; colours and width only on a terminal."""
    return _Console(
        file=sys.stdout, highlight=False, markup=False, width=_width(sys.stdout.isatty())
    )


def talk_console(quiet: bool = False) -> Console:
    """Return the console of standard error."""
    return _Console(
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
    return Text(printable(text), style=style)


def plain_table(columns: Sequence[str], right: Sequence[str] = ()) -> Table:
    """Return an empty table without lines; of its headings those that are aligned to the right."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return table
