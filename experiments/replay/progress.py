"""How far a replay is, on standard error: one live line on a terminal, now and then elsewhere."""

from __future__ import annotations

import time
from typing import Any

from experiments.numbers import number, plural
from experiments.status_line import StatusLine


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
        self._line = StatusLine()

    def __call__(self, policy: str, row: dict[str, Any]) -> None:
        """Take in a finished period."""
        self._done += 1
        now = time.monotonic()
        last = self._done == self._total
        if self._quiet or not (last or self._line.due(now)):
            return
        self._line.show(
            f"{self._done:,}/{self._total:,} periods  {policy} {row['period']}: load distance "
            f"{number(row['load_distance'], 3)}, {plural(row['migrations'], 'move')}, "
            f"{plural(row['nodes'], 'node')}",
            now,
        )
        if last:
            self._line.close(keep=True)
