"""The clock of a run of `slots-milp`, its calls of the solver, and what it reports meanwhile."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from formulations.column_generation.integer import Backend
from formulations.column_generation.problem import Clock
from optim.solvers import LIMITED_WORK, solve_linear
from optim.util.progress import ProgressRecorder

if TYPE_CHECKING:
    from optim.methods.registry import Request
    from optim.solvers import LinearSolution
    from optim.solvers.linear_model import LinearModel

SHORT_SHARE, SHORT_SECONDS = 0.3, 10.0
"""Of the time left, and seconds, for a try that another step follows."""

_STEPS_PER_SECOND = 100_000.0
"""A cautious guess of the search nodes of a pricing."""


@dataclass
class SolverCalls:
    """What every step of a run shares.

    Attributes
    ----------
    request
        Solver, seed, limits.
    recorder
        Slots and bound over time.
    solver
        Name and version of the solver that answered last.
    handover
        Seconds spent handing models over.
    messages
        What solvers said besides.
    interrupted
        Ctrl-C came while a solver ran.
    """

    request: Request
    recorder: ProgressRecorder = field(init=False)
    solver: str | None = None
    handover: float = 0.0
    messages: list[str] = field(default_factory=list)
    interrupted: bool = False

    def __post_init__(self) -> None:
        self.recorder = ProgressRecorder("min", self.request.progress, self.request.started)

    @property
    def deadline(self) -> float | None:
        """`time.perf_counter` at which to stop; ``None`` for no limit."""
        limit = self.request.time_limit
        return None if limit is None else self.request.started + limit

    @property
    def backend(self) -> Backend:
        """The solver, as the pattern engine takes it."""
        request = self.request
        return Backend(request.solver or "highs", request.seed, request.threads)

    def left(self) -> float | None:
        """Seconds left; ``None`` without a limit."""
        return self.request.remaining()

    def over(self) -> bool:
        """Whether the time is up, or the run was interrupted."""
        return self.interrupted or self.left() == 0.0

    def clock(self, scale: float) -> Clock:
        """A clock for the pattern engine that reports to nobody: its values are no slots."""
        return Clock(self.deadline, None, scale)

    def steps(self, wanted: int) -> int:
        """Search nodes of one call, fewer where the time is short."""
        left = self.left()
        return wanted if left is None else max(1, min(wanted, int(left * _STEPS_PER_SECOND)))

    def tell(self, slots: int, bound: int, phase: str) -> None:
        """Report slots and bound."""
        self.recorder.note(float(slots), float(bound), phase)

    def solve(
        self,
        model: LinearModel,
        start: Any = None,
        *,
        share: float = 1.0,
        most: float | None = None,
    ) -> LinearSolution:
        """Hand a model to the back end, for a share of the time left or so many seconds at most.

        Where no time is set, `most` asks for limited work: that repeats where a clock does not.
        """
        request, left = self.request, self.left()
        limit = None if left is None else min(share * left, math.inf if most is None else most)
        limited = left is None and most is not None
        solver = request.solver or "highs"
        answer = solve_linear(
            model,
            solver,
            time_limit=limit,
            gap=request.gap,
            seed=request.seed,
            threads=request.threads,
            warm_start=start,
            options=LIMITED_WORK[solver] if limited else None,
        )
        self.solver = answer.solver
        self.handover += answer.build_seconds
        self.interrupted |= answer.termination == "interrupted"
        if answer.message:
            self.messages.append(answer.message)
        return answer
