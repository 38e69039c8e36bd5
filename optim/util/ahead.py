"""Long work goes to a kernel's twin from the first call on, where that lies on disk."""

from __future__ import annotations

from typing import Any

MOMENTS = 3_000
"""Steps of a walk, each over a few nodes, that Python takes less time for than numba to load."""


BEARABLE = 120_000
"""The same that Python takes less time for than a kernel of some hundred lines to compile."""

_LONGER = 6.0
"""Seconds that such work may take beyond what kernels may that are not on disk."""


def at_once(entry: Any, steps: float) -> None:
    """Let the twin do all calls, if so many steps are known to come and it was compiled before.

    Else a kernel runs as it stands until it has taken as long as numba takes to load, and the twin
    begins anew: all that time is lost. What would have to be compiled first has more time, if it is
    known to end.

    Parameters
    ----------
    entry
        A kernel (`optim.util.compiled.kernel`).
    steps
        Steps that will be taken in all calls.
    """
    on_disk = getattr(entry, "on_disk", None)
    if on_disk is None:  # a plain function in a kernel's place
        return
    if on_disk:
        entry.left = entry.left or steps > MOMENTS
    elif steps <= BEARABLE:
        entry.seconds = min(entry.seconds, -_LONGER)
