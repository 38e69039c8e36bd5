"""How far a replay is, on standard error: one live line on a terminal, now and then elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Any

_LINE_SECONDS = 10.0


class Teller:
    """Tells of finished periods.

    Parameters
    ----------
    total
        Policies × periods.
    done
        Of these, stored before.
    quiet
        Say nothing.
    """

    def __init__(self, total: int, done: int, quiet: bool = False) -> None:
        self._total, self._done, self._quiet = total, done, quiet
        self._live = sys.stderr.isatty()
        self._next = 0.0

    def __call__(self, policy: str, row: dict[str, Any]) -> None:
        """Take in a finished period."""
        self._done += 1
        now = time.monotonic()
        last = self._done == self._total
        if self._quiet or (now < self._next and not last):
            return
        self._next = now + (0.1 if self._live else _LINE_SECONDS)
        distance = row["load_distance"]
        told = "–" if distance is None else f"{distance:.3g}"
        text = (
            f"{self._done}/{self._total} periods  {policy} {row['period']}: "
            f"load distance {told}, {row['migrations']} moves, {row['nodes']} nodes"
        )
        if self._live:
            sys.stderr.write("\r\x1b[2K" + text[:110] + ("\n" if last else ""))
        else:
            sys.stderr.write(text + "\n")
        sys.stderr.flush()
