"""Listings of plug-ins: all that can be taken, and their options as lines of text."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any, TypeVar

from streamplace.present.problems import printable
from streamplace.present.streams import print_json, write_stdout

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
