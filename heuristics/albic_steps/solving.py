"""Step 4 of ALBIC: the MILP over the units of a round."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from formulations.balance_solving import OPTIMAL_POINTS, Settings, solve_balance
from heuristics.flux import flux_placement, warm_up
from optim.errors import SolverError
from optim.local_search.balance_problem import margin

if TYPE_CHECKING:
    from heuristics.albic_steps.pinning import Pins
    from heuristics.albic_steps.units import Units
    from optim.local_search.balance_problem import BalanceProblem, Ints
    from optim.registry import Request


class UnitSolver:
    """Solves the balance MILP over units, within the time of a request.

    Parameters
    ----------
    request
        Back end, time limit, gap, seed and threads.

    Attributes
    ----------
    build_seconds, solve_seconds
        Spent so far.
    notes
        What a reader of the result should know.
    name
        Name and version of the back end that ran last; ``None`` while none was needed.
    stopped
        Whether time is up or the user interrupted: no further round.
    proven_infeasible
        Whether the last model was shown to have no solution.
    """

    def __init__(self, request: Request) -> None:
        self._request = request
        limit = request.time_limit
        self._deadline = None if limit is None else request.started + limit
        self.build_seconds = 0.0
        self.solve_seconds = 0.0
        self.notes: list[str] = []
        self.name: str | None = None
        self.stopped = False
        self.proven_infeasible = False

    @classmethod
    def warmed(cls, request: Request) -> UnitSolver:
        """Return a solver whose kernels are compiled before its clock starts."""
        warm_up()
        return cls(request.restarted())

    def solve(self, units: Units, pins: Pins) -> Ints | None:
        """Return the balanced placement of the key groups, pinned pairs on their nodes.

        Where the pins leave no solution, they are dropped for this round, and that is noted.

        Returns
        -------
        ndarray or None
            (T,) node indices; ``None`` when there is none.

        Raises
        ------
        SolverError
            A plan breaks a limit of the single key groups.
        """
        found = self._solved(units.merged(pins.node_of), _start(units, pins))
        if found is None and pins.node_of and not self.stopped:
            self.notes.append("the pinned pairs left no solution and were let go")
            pins.pairs.clear()
            found = self._solved(units.merged(), _start(units, None))
        if found is None:
            return None
        placement = units.spread(found)
        if not units.problem.is_feasible(placement):
            raise SolverError(f"{self.name}: its plan of units breaks a limit of their key groups")
        return placement

    def _solved(self, problem: BalanceProblem, start: Ints) -> Ints | None:
        request = self._request
        settings = Settings(
            solver=request.solver or "highs",
            gap=OPTIMAL_POINTS if request.gap is None else request.gap,
            deadline=self._deadline,
            seed=request.seed,
            threads=request.threads,
            started=request.started,
        )
        answer = solve_balance(problem, settings, [start, problem.home])
        self.build_seconds += answer.build_seconds
        self.solve_seconds += answer.solve_seconds
        self.name = answer.solver or self.name
        self.notes += [note for note in answer.notes if note not in self.notes]
        ended = {level.termination for level in answer.levels}
        self.stopped |= bool({"interrupted", "time_limit"} & ended) and self._time_is_up(ended)
        self.proven_infeasible = answer.placement is None and "infeasible" in ended
        return answer.placement

    def _time_is_up(self, ended: set[str]) -> bool:
        return "interrupted" in ended or self._request.remaining() == 0.0


def _start(units: Units, pins: Pins | None) -> Ints:
    """Return Flux's plan after the pins are carried out: where the MILP begins."""
    node_of = {} if pins is None else pins.node_of
    problem = units.merged(node_of)
    home = problem.home.copy()
    home[list(node_of)] = list(node_of.values())
    if problem.max_cost is None:
        left = None
    else:
        spent = float(problem.cost[home != problem.home].sum())
        left = problem.max_cost + float(margin(problem.max_cost)) - spent
        if left < 0:
            return home
    placement, _ = flux_placement(replace(problem, home=home, max_cost=left))
    return np.asarray(placement, dtype=np.int64)
