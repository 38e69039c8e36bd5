"""Options of a format as lines of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optim.registry import Option


def option_lines(options: Sequence[Option]) -> list[str]:
    """Return one line an option: name, meaning, choices, default."""
    width = max((len(option.name) for option in options), default=0)
    lines = []
    for option in options:
        choices = f" ({', '.join(map(str, option.choices))})" if option.choices else ""
        default = "" if option.default in (None, "") else f" [{option.default}]"
        lines.append(f"  {option.name:{width}}  {option.help}{choices}{default}")
    return lines
