"""What the bench measures: jobs, machines and ways to place, fixed before anything was measured."""

from __future__ import annotations

from typing import NamedTuple

MACHINES = ("tm1", "tm2", "tm3", "tm4")
SLOTS = 4
"""Of each task manager."""
CORES = 0.2
"""Of each machine, held by a control group."""
STANDING = 0.02
"""Cores that a task manager's process takes while its job stands still."""
MEGABITS = 40.0
"""Of each machine's link, each way, Mbit/s."""


class Shape(NamedTuple):
    """A job: five vertices, each spread over all subtasks of the next.

    Attributes
    ----------
    parallelism
        Of orders, clean, sum, rate and store.
    size
        Bytes of an order; clean keeps 60 % of them, rate a quarter of those.
    work
        Rounds of arithmetic an order costs clean, and rate.
    """

    name: str
    parallelism: tuple[int, int, int, int, int]
    size: int
    work: tuple[int, int]

    def arguments(self) -> tuple[str, ...]:
        """Return the job's arguments, for as many orders as go through."""
        return tuple(str(n) for n in (*self.parallelism, self.size, 0, *self.work))


class Policy(NamedTuple):
    """A way to place: Flink's mode of balancing, and who shares slots.

    Attributes
    ----------
    mode
        Flink's ``taskmanager.load-balance.mode``.
    groups
        ``each``: each vertex has its own slot sharing group, a subtask a slot; ``one``: all share
        one, Flink's default; ``plan``: those of the plan.
    """

    name: str
    mode: str
    groups: str


SHAPES = (
    Shape("CPU-bound", (2, 4, 4, 2, 1), 600, (100_000, 100_000)),
    Shape("link-bound", (2, 4, 4, 2, 1), 2400, (0, 0)),
    Shape("mixed", (2, 4, 4, 2, 1), 2400, (20_000, 20_000)),
)
POLICIES = (
    Policy("default", "NONE", "each"),
    Policy("SLOTS", "SLOTS", "each"),
    Policy("TASKS", "TASKS", "each"),
    Policy("one shared group", "SLOTS", "one"),
    Policy("throughput plan", "NONE", "plan"),
)
MODES = tuple(dict.fromkeys(policy.mode for policy in POLICIES))
