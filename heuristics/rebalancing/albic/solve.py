"""Step 4 of ALBIC: the MILP over the units of a round."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.rebalancing.balance.prepare import best_start, prepare_balance
from formulations.rebalancing.balance.solve import Settings, solve_balance
from optim.errors import SolverError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from formulations.rebalancing.problem import Ints
    from heuristics.rebalancing.albic.pin import Pins
    from heuristics.rebalancing.albic.units import Units
    from optim.methods.registry import Request


GAP = 1.0
"""Load distance within which the MILP need not go on proving, on the scale of methods."""


class UnitSolver:
    """Solves the balance MILP over units, within the time of a request.

    Parameters
    ----------
    request
        Back end, time limit, seed, threads and the option ``balance_gap``.

    Attributes
    ----------
    build_seconds
        Spent on building models so far.
    notes
        What a reader of the result should know.
    name
        Name and version of the back end that ran last; ``None`` while none was needed.
    stopped, interrupted
        Whether time is up or the user interrupted: no further round; whether it was the user.
    proven_infeasible
        Whether the last model was shown to have no solution.
    """

    def __init__(self, request: Request) -> None:
        self._request = request
        limit = request.time_limit
        self._deadline = None if limit is None else request.started + limit
        self.build_seconds = 0.0
        self.notes: list[str] = []
        self.name: str | None = None
        self.stopped = False
        self.interrupted = False
        self.proven_infeasible = False

    def solve(self, units: Units, pins: Pins) -> Ints | None:
        """Return the balanced placement of the key groups, pinned pairs on their nodes.

        Where the pins leave no solution, they are dropped for this round, and that is noted.

        Returns
        -------
        ndarray or None
            (T,) node indices; ``None`` when there is none. Interrupted before there was one:
            staying.

        Raises
        ------
        SolverError
            A plan breaks a limit of the single key groups.
        """
        found = self._solved(units, pins.node_of)
        if found is None and pins.node_of and not self.stopped:
            self.notes.append("the pinned pairs left no solution and were let go")
            pins.pairs.clear()
            found = self._solved(units, {})
        if found is None:
            home = units.problem.home
            if self.interrupted and units.problem.is_feasible(home):
                pins.pairs.clear()
                return home
            return None
        placement = units.spread(found)
        if not units.problem.is_feasible(placement):
            raise SolverError(f"{self.name}: its plan of units breaks a limit of their key groups")
        return placement

    def _solved(self, units: Units, pins: Mapping[int, int]) -> Ints | None:
        """Search, bound, and let the MILP close what is left of the gap."""
        request, problem = self._request, units.merged(pins)
        gap = request.options["balance_gap"]
        settings = Settings(
            solver=request.solver or "highs",
            gap=GAP if gap is None else float(gap),
            deadline=self._deadline,
            seed=request.seed,
            threads=request.threads,
            offer=lambda placement: request.offer(units.spread(placement).astype(np.int32)),
            started=request.started,
        )
        prepared = prepare_balance(problem, settings)
        starts = [*prepared.starts, problem.home]
        if prepared.interrupted:
            self.interrupted = self.stopped = True
            return best_start(problem, starts)
        answer = solve_balance(problem, settings, starts, prepared.bound)
        self.build_seconds += answer.build_seconds
        self.name = answer.solver or self.name
        self.notes += [note for note in answer.notes if note not in self.notes]
        ended = {level.termination for level in answer.levels}
        self.interrupted |= "interrupted" in ended
        self.stopped |= self.interrupted or request.remaining() == 0.0
        self.proven_infeasible = answer.placement is None and "infeasible" in ended
        return answer.placement
