"""Consoles: answers on standard output, messages on standard error.

Errors are printed as path, value, reason and remedy, aligned; plug-ins with their options as lines
of text. Most commands print neither colours nor tables: rich is imported where a console is made.
"""

from __future__ import annotations

import os
import sys
import warnings
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from optim.errors import InvalidInput, shorten
from streamplace.present.streams import STDOUT, print_json, quiet_stdout, write_stdout

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from optim.errors import Problem, StreamplaceError
    from optim.options import Option
    from optim.plugins import Plugins

T = TypeVar("T")


def load_all(plugins: Plugins[T]) -> list[T]:
    """Load all plug-ins of a kind; what cannot be taken is reported on standard error."""
    with warnings.catch_warnings(record=True) as left_out:
        warnings.simplefilter("always")
        found = plugins.all()
    for warning in left_out:
        sys.stderr.write(f"warning: {printable(str(warning.message))}\n")
    return found


def print_all(plugins: Plugins[Any], told: Callable[[Any], list[str]], *, as_json: bool) -> None:
    """List all plug-ins of a kind: each as plain data, or what is reported of it and its
    options.
    """
    found = load_all(plugins)
    if as_json:
        print_json([plugin.to_dict() for plugin in found])
        return
    blocks = [
        "\n".join([f"{p.name}: {p.summary}", *told(p), *option_lines(p.options)]) for p in found
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


def problem_lines(problems: list[Problem], shown: int = SHOWN) -> list[str]:
    """Lay problems out in columns; after `shown` of them only their number is reported."""
    rows = []
    for told in problems[:shown]:
        value = "" if told.value is None else shorten(told.value)
        rows.append([*map(printable, (told.path, value, told.reason, told.remedy))])
    path_width = min(_WIDEST_PATH, max((len(row[0]) for row in rows), default=0))
    value_width = min(_WIDEST_VALUE, max((len(row[1]) for row in rows), default=0))
    lines = []
    for path, value, reason, remedy in rows:
        middle = f"  {value:<{value_width}}" if value_width else ""
        tail = f" → {remedy}" if remedy else ""
        lines.append(f"  {path:<{path_width}}{middle}  {reason}{tail}")
    if len(problems) > shown:
        lines.append(f"  … and {len(problems) - shown} more problems")
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
