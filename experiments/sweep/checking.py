"""Check the values of a sweep file one by one and collect everything that is wrong with them."""

from __future__ import annotations

import math
import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from optim.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Collection

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?", re.IGNORECASE)
_MAX_RANGE = 1_000_000
_RANGE_KEYS = ("from", "to", "step")


class Checker:
    """Collects problems while values are read; each check returns the value or None."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def add(self, path: str, value: Any, reason: str, remedy: str = "") -> None:
        """Note one problem."""
        self.problems.append(Problem(path, value, reason, remedy))

    def finish(self, source: str) -> None:
        """Raise everything noted, if anything was.

        Raises
        ------
        InvalidInput
            There are problems.
        """
        if self.problems:
            raise InvalidInput(self.problems, source)

    def keys(self, table: dict[str, Any], path: str, known: Collection[str]) -> None:
        """Note every key that is not known."""
        for key in table:
            if key not in known:
                close = get_close_matches(key, list(known), 1)
                remedy = f"did you mean {close[0]}?" if close else f"known: {', '.join(known)}"
                self.add(_join(path, key), None, "is not a known key", remedy)

    def table(self, value: Any, path: str) -> dict[str, Any] | None:
        """Take a table."""
        if isinstance(value, dict):
            return value
        self.add(path, value, "must be a table")
        return None

    def items(self, value: Any, path: str, remedy: str = "") -> list[Any] | None:
        """Take a list that is not empty, or a range ``{from = 0, to = 9}`` as the list it means."""
        if isinstance(value, dict) and value.keys() <= set(_RANGE_KEYS) and "from" in value:
            return self._range(value, path)
        if not isinstance(value, list):
            self.add(path, value, "must be a list", remedy or "put it into [ ]")
        elif not value:
            self.add(path, value, "is empty, so there is nothing to run", "name at least one value")
        else:
            return value
        return None

    def _range(self, value: dict[str, Any], path: str) -> list[int] | None:
        numbers = [value["from"], value.get("to"), value.get("step", 1)]
        if not all(isinstance(n, int) and not isinstance(n, bool) for n in numbers):
            self.add(path, value, "is no range", "write {from = 0, to = 9}, both whole numbers")
            return None
        first, last, step = numbers
        if step < 1 or last < first or (last - first) // step >= _MAX_RANGE:
            reason = f"must hold 1 to {_MAX_RANGE} numbers, upwards"
            self.add(path, value, reason)
            return None
        return list(range(first, last + 1, step))

    def text(self, value: Any, path: str) -> str | None:
        """Take a text that is not empty."""
        if isinstance(value, str) and value.strip():
            return value
        self.add(path, value, "must be a text" if not isinstance(value, str) else "is empty")
        return None

    def boolean(self, value: Any, path: str) -> bool | None:
        """Take true or false."""
        if isinstance(value, bool):
            return value
        self.add(path, value, "must be true or false")
        return None

    def number(
        self, value: Any, path: str, *, above: float | None = None, least: float | None = None
    ) -> float | None:
        """Take a finite number above or at least a limit."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.add(path, value, "must be a number")
        elif not math.isfinite(value):
            self.add(path, value, "must be a finite number")
        elif above is not None and value <= above:
            self.add(path, value, f"must be above {above:g}")
        elif least is not None and value < least:
            self.add(path, value, f"must be at least {least:g}")
        elif abs(value) > 1e15:
            self.add(path, value, "is absurdly large")
        else:
            return float(value)
        return None

    def whole(self, value: Any, path: str, least: int, most: int) -> int | None:
        """Take a whole number in a range."""
        if isinstance(value, bool) or not isinstance(value, int):
            self.add(path, value, "must be a whole number")
        elif not least <= value <= most:
            self.add(path, value, f"must be from {least} to {most}")
        else:
            return value
        return None

    def scalar(self, value: Any, path: str) -> str | int | float | bool | None:
        """Take a text, a number, or true or false."""
        if isinstance(value, bool | str):
            return value
        if isinstance(value, int | float):
            return value if self.number(value, path) is not None else None
        self.add(path, value, "must be a text, a number, or true or false")
        return None

    def size(self, value: Any, path: str, least: int) -> int | None:
        """Take a number of bytes, or a text such as ``4GB`` or ``512 MiB``."""
        found: float | None = None
        if isinstance(value, str):
            match = _SIZE.fullmatch(value.strip())
            if match:
                base = 1024 if match[3] else 1000
                found = float(match[1]) * base ** (" KMGT".index((match[2] or " ").upper()))
        elif isinstance(value, int) and not isinstance(value, bool):
            found = value
        if found is None:
            self.add(path, value, "is no size", "write bytes, or a text such as 4GB or 512MiB")
        elif not least <= found <= 1 << 50:
            self.add(path, value, f"must be at least {least >> 20} MiB and at most 1 PiB")
        else:
            return int(found)
        return None


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
