"""What an importer noticed: fields it does not know, readings it chose, and what is wrong."""

from __future__ import annotations

from collections import Counter

from optim.errors import InvalidInput, Problem

_SHOWN_FIELDS = 8
_MAX_PROBLEMS = 1000


class Ledger:
    """Collects notes, ignored fields and problems while sources are read.

    Attributes
    ----------
    readings
        What was inferred and not read; stands in the instance's ``origin`` too.
    warnings
        What the user should look at.
    ignored
        Unknown field name to the number of times it was met.
    next_step
        How what was exported is put to use, where that is not as the exporter declares it, or is
        told though there are warnings.
    """

    def __init__(self) -> None:
        self.readings: list[str] = []
        self.warnings: list[str] = []
        self.ignored: Counter[str] = Counter()
        self.next_step = ""
        self._problems: list[Problem] = []

    def reading(self, text: str) -> None:
        """Note an inference, once."""
        if text not in self.readings:
            self.readings.append(text)

    def warn(self, text: str) -> None:
        """Note something to look at, once."""
        if text not in self.warnings:
            self.warnings.append(text)

    def problem(self, path: str, value: object, reason: str, remedy: str = "") -> None:
        """Note a reason why the sources cannot be taken."""
        if len(self._problems) < _MAX_PROBLEMS:
            self._problems.append(Problem(path, value, reason, remedy))

    def check(self) -> None:
        """Stop if there is a problem.

        Raises
        ------
        InvalidInput
            With all problems so far.
        """
        if self._problems:
            raise InvalidInput(self._problems)

    def ignored_text(self) -> str:
        """Tell the ignored fields in one line; empty if there are none."""
        total = sum(self.ignored.values())
        if not total:
            return ""
        names = sorted(self.ignored, key=lambda name: (-self.ignored[name], name))
        shown = [f"{n} ×{self.ignored[n]}" for n in names[:_SHOWN_FIELDS]]
        rest = "" if len(names) <= _SHOWN_FIELDS else f", and {len(names) - _SHOWN_FIELDS} more"
        word = "field" if total == 1 else "fields"
        return f"ignored {total} unknown {word}: {', '.join(shown)}{rest}"
