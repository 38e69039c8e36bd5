"""What the command line says with its exit status."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit status of ``streamplace``; the same numbers live on every error class."""

    OK = 0  # a feasible, checked plan
    INTERNAL = 1  # internal error, or the referee refused a plan
    USAGE = 2  # usage or invalid input
    INFEASIBLE = 3  # no plan can exist
    NO_PLAN = 4  # no feasible plan: a limit was reached, or a heuristic fell short
    INTERRUPTED = 130
