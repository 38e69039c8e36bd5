"""How a rebalancing is solved, and what comes back: settings, levels, answer."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from formulations.rebalancing.balance.forms import Form
    from formulations.rebalancing.balance.model import Goal
    from formulations.rebalancing.covers import Cut
    from formulations.rebalancing.problem import BalanceProblem, Ints
    from optim.util.progress import Progress


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
    drain_first
        Whether load left on leaving nodes comes before the load distance, not after it.
    sides
        Whether both sides are tightened in the end.
    gap
        Difference to the bound at which a level may stop; optimal by default. Where it is wider,
        the sides get no model: what the search made of them stands.
    deadline
        ``time.perf_counter()`` value; ``None`` for no limit.
    seed, threads, options
        Handed to the solver.
    progress
        Told of the load distance and its bound.
    offer
        Given each better placement.
    started
        ``time.perf_counter()`` value from which the trace counts.
    """

    solver: str = "highs"
    form: Form = "moves"
    objective: Literal["lexicographic", "weighted"] = "lexicographic"
    weights: tuple[float, float] = (1e4, 1.0)
    drain_first: bool = False
    sides: bool = True
    gap: float | None = None
    deadline: float | None = None
    seed: int = 0
    threads: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)
    progress: Callable[[Progress], None] | None = None
    offer: Callable[[Any], None] | None = None
    started: float = field(default_factory=time.perf_counter)

    def remaining(self) -> float | None:
        """Seconds left, never negative; ``None`` without a limit."""
        if self.deadline is None:
            return None
        return max(0.0, self.deadline - time.perf_counter())

    def gap_of(self, problem: BalanceProblem) -> float:
        """Difference to the bound at which a level may stop."""
        return problem.optimal_gap if self.gap is None else self.gap

    def goals(self, problem: BalanceProblem) -> list[Goal]:
        """Levels in the order in which they are solved."""
        if self.objective == "weighted":
            return ["weighted"]
        left: list[Goal] = ["left"] if problem.has_leaving else []
        sides: list[Goal] = ["sides"] if self.sides else []
        if self.drain_first:
            return [*left, "distance", *sides]
        return ["distance", *left, *sides]


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
    cuts
        What plans broke that a solver took for feasible; see `formulations.rebalancing.covers`.
    notes, trace, build_seconds, solver
        For the result.
    """

    placement: Ints | None = None
    levels: list[LevelAnswer] = field(default_factory=list)
    start_accepted: bool | None = None
    cuts: list[Cut] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    trace: list[tuple[float, float | None, float | None]] = field(default_factory=list)
    build_seconds: float = 0.0
    solver: str | None = None
