"""How a rebalancing is solved, and what comes back: settings, levels, answer."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from formulations.balance_forms import Form
    from formulations.balance_model import Goal
    from optim.local_search.balance_problem import BalanceProblem, Ints
    from optim.progress import Progress

#: A load distance counts as proven optimal within this many points.
OPTIMAL_POINTS = 1e-3


@dataclass(frozen=True)
class Settings:
    """How to solve.

    Attributes
    ----------
    solver
        Back end.
    form
        ``moves`` or ``full``.
    objective
        ``lexicographic``, or ``weighted``: w1·d − w2·(d_u + d_l) in one solve.
    weights
        (w1, w2).
    drain
        ``soft``: load left on leaving nodes comes after the load distance. ``hard``: before it.
    gap
        Absolute gap in points at which a level may stop. Above `OPTIMAL_POINTS` the sides get no
        model: what the search made of them stands.
    deadline
        ``time.perf_counter()`` value; ``None`` for no limit.
    seed, threads, options
        Handed to the solver.
    progress
        Told of the load distance and its bound.
    started
        ``time.perf_counter()`` value from which the trace counts.
    """

    solver: str = "highs"
    form: Form = "moves"
    objective: Literal["lexicographic", "weighted"] = "lexicographic"
    weights: tuple[float, float] = (1e4, 1.0)
    drain: Literal["soft", "hard"] = "soft"
    gap: float = OPTIMAL_POINTS
    deadline: float | None = None
    seed: int = 0
    threads: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)
    progress: Callable[[Progress], None] | None = None
    started: float = field(default_factory=time.perf_counter)

    def remaining(self) -> float | None:
        """Seconds left, never negative; ``None`` without a limit."""
        if self.deadline is None:
            return None
        return max(0.0, self.deadline - time.perf_counter())

    def goals(self, problem: BalanceProblem) -> list[Goal]:
        """Levels in the order in which they are solved."""
        if self.objective == "weighted":
            return ["weighted"]
        left: list[Goal] = ["left"] if problem.has_leaving else []
        if self.drain == "hard":
            return [*left, "distance", "sides"]
        return ["distance", *left, "sides"]


@dataclass
class LevelAnswer:
    """What is known of one level: the value reached, what is proven, and why it stopped.

    `value` and `bound` are in the units of the goal, always minimised.
    """

    goal: Goal
    value: float | None
    bound: float | None
    termination: str


@dataclass
class BalanceAnswer:
    """What `solve_balance` found.

    Attributes
    ----------
    placement
        Best one, ``None`` if there is none.
    levels
        One answer for each level that was solved, in order.
    start_accepted
        Whether the solver took the start it was given at the first level.
    notes, trace, build_seconds, solve_seconds, solver
        For the result.
    """

    placement: Ints | None = None
    levels: list[LevelAnswer] = field(default_factory=list)
    start_accepted: bool | None = None
    notes: list[str] = field(default_factory=list)
    trace: list[tuple[float, float | None, float | None]] = field(default_factory=list)
    build_seconds: float = 0.0
    solve_seconds: float = 0.0
    solver: str | None = None
