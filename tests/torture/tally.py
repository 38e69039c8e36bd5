"""What became of each fault that was tried."""

from __future__ import annotations

import re
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

TRACEBACK = re.compile(r"Traceback \(most recent|internal error|This is a fault of streamplace")
"""What no fault from outside may bring up."""


@dataclass
class Tally:
    """One line of the table.

    Attributes
    ----------
    name
        What was done.
    tried
        How often.
    faults
        What went wrong, in words; all of it is printed.
    told
        What else is worth a word, by how often.
    """

    name: str
    tried: int = 0
    faults: list[str] = field(default_factory=list)
    told: dict[str, int] = field(default_factory=dict)

    def fault(self, words: str) -> None:
        """Note what went wrong."""
        self.faults.append(words)
        sys.stderr.write(f"FAULT {self.name}: {words}\n")

    def tell(self, words: str) -> None:
        """Count an end that is right."""
        self.told[words] = self.told.get(words, 0) + 1

    def row(self) -> str:
        """Return the line of the table."""
        told = ", ".join(f"{count:,} {words}" for words, count in sorted(self.told.items()))
        return f"| {self.name} | {self.tried:,} | {len(self.faults):,} | {told} |"


def timed(name: str, part: Callable[[], Tally]) -> Tally:
    """Run a part, and tell how long it took."""
    began = time.monotonic()
    tally = part()
    sys.stderr.write(f"{name}: {time.monotonic() - began:.0f} s\n{tally.row()}\n")
    return tally
