"""One JSON object of a foreign system, read field by field, by path, trusting nothing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from optim.document import MAX_NUMBER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from experiments.interchange.ledger import Ledger

_MAX_TEXT = 1000


def words(text: str) -> frozenset[str]:
    """Return the words of a text: a list of field names that reads as prose."""
    return frozenset(text.split())


class Record:
    """A JSON object with its path.

    A field may be named in several spellings; the first that is there counts. Numbers may stand
    in strings, as Storm and Flink write them. What is needed and absent, or of the wrong type, is
    noted as a problem in the ledger and a stand-in returned, so that all problems are told at once.

    Parameters
    ----------
    value
        The parsed value; anything but an object is a problem.
    path
        Where it stands: the source, then the fields.
    ledger
        Takes problems and unknown fields.
    unused
        Documented fields that this reading has no use for: not counted as unknown.
    """

    def __init__(
        self, value: Any, path: str, ledger: Ledger, unused: frozenset[str] = frozenset()
    ) -> None:
        self.path, self._ledger, self._unused = path, ledger, unused
        self._read: set[str] = set()
        if not isinstance(value, dict):
            ledger.problem(path, value, "is not an object", "check that this is the right document")
            value = {}
        self._value: dict[str, Any] = value

    def __contains__(self, name: str) -> bool:
        return self._value.get(name) is not None

    def keys(self) -> list[str]:
        """Names of all fields, as they stand."""
        return list(self._value)

    def where(self, name: str) -> str:
        """Path of a field."""
        return f"{self.path}.{name}"

    def raw(self, *names: str) -> Any:
        """Return the value of the first of the names that is there and not null, else ``None``."""
        found = None
        for name in names:
            self._read.add(name)
            if found is None:
                found = self._value.get(name)
        return found

    def _missing(self, names: tuple[str, ...], what: str) -> None:
        value = self.raw(*names)
        if value is None:
            self._ledger.problem(self.where(names[0]), None, "is missing", f"{what} is needed here")
        else:
            self._ledger.problem(self.where(names[0]), value, f"is not {what}")

    def number(self, *names: str) -> float:
        """Return a needed number that is not negative."""
        found = self.maybe_number(*names)
        if found is None:
            self._missing(names, "a number of at least 0")
            return 0.0
        return found

    def maybe_number(self, *names: str) -> float | None:
        """Return a number, or ``None`` where it is absent, negative, NaN or no number at all."""
        return as_number(self.raw(*names))

    def maybe_percent(self, *names: str) -> float | None:
        """Return a number that may end in a percent sign."""
        value = self.raw(*names)
        return as_number(value.strip().removesuffix("%") if isinstance(value, str) else value)

    def whole(self, *names: str) -> int:
        """Return a needed whole number that is not negative."""
        found = self.maybe_whole(*names)
        if found is None:
            self._missing(names, "a whole number of at least 0")
            return 0
        return found

    def maybe_whole(self, *names: str) -> int | None:
        """Return a whole number, or ``None``."""
        found = as_number(self.raw(*names))
        return int(found) if found is not None and found.is_integer() else None

    def text(self, *names: str) -> str:
        """Return a needed text that can be an id: 1 to 1000 characters."""
        found = self.maybe_text(*names)
        if found is None:
            self._missing(names, f"a text of 1 to {_MAX_TEXT} characters")
            return ""
        return found

    def maybe_text(self, *names: str) -> str | None:
        """Return a text, or a number as text, or ``None``."""
        value = self.raw(*names)
        if isinstance(value, int | float) and not isinstance(value, bool):
            value = str(value)
        return value if isinstance(value, str) and 0 < len(value) <= _MAX_TEXT else None

    def record(self, name: str) -> Record | None:
        """Return an inner object, or ``None``; the caller closes it."""
        value = self.raw(name)
        return None if value is None else self._inner(value, self.where(name))

    def records(self, *names: str, needed: bool = False) -> Iterator[Record]:
        """Run through a list of objects; each is closed after its turn."""
        value = self.raw(*names)
        if value is None:
            if needed:
                self._missing(names, "a list")
            return
        if not isinstance(value, list):
            self._ledger.problem(self.where(names[0]), value, "is not a list")
            return
        for i, item in enumerate(value):
            inner = self._inner(item, f"{self.where(names[0])}[{i}]")
            yield inner
            inner.close()

    def entries(self) -> Iterator[tuple[str, Record]]:
        """Run through an object whose keys are names: component to its description."""
        for name, item in self._value.items():
            self._read.add(name)
            inner = self._inner(item, self.where(name))
            yield name, inner
            inner.close()

    def _inner(self, value: Any, path: str) -> Record:
        return Record(value, path, self._ledger, self._unused)

    def close(self) -> None:
        """Count the fields that nobody asked for and no documentation knows."""
        for name in self._value:
            if name not in self._read and name not in self._unused:
                self._ledger.ignored[name[:80]] += 1


def as_number(value: Any) -> float | None:
    """Return a finite number of at least 0, also out of a string; ``None`` for all else."""
    if isinstance(value, str):
        try:
            value = float(value) if len(value) <= 64 else None
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and 0 <= number <= MAX_NUMBER else None


def is_whole(text: str) -> bool:
    """Whether a text is a whole number that `int` takes: 1 to 9 ASCII digits, so no "²"."""
    return text.isascii() and text.isdigit() and len(text) < 10
