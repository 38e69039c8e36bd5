"""Time of the processor, which others on a busy machine hardly change."""

from __future__ import annotations

from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage


def processor_seconds() -> float:
    """Return the processor time of this process and its finished children so far.

    On a machine that others keep busy this is nearer to what an idle one would show on the clock
    than the clock is.
    """
    ours, theirs = (getrusage(who) for who in (RUSAGE_SELF, RUSAGE_CHILDREN))
    return ours.ru_utime + ours.ru_stime + theirs.ru_utime + theirs.ru_stime
