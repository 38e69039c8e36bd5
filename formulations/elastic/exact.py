"""Solving one level in the pattern form: relaxation, a small model, then what may still be better.

1. The relaxation over all columns gives duals and with them a proven bound.
2. The model over the columns of least reduced cost gives a placement. Least capacity has so many
   equal columns that its reduced costs choose badly: there, those of least network use at the
   bound just proven are taken, whose placement is also a start for the next level.
3. Columns that no better placement can use are dropped; the model over the rest closes the gap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.column_generation.integer import pattern_model
from formulations.column_generation.master import Master
from formulations.column_generation.pricing import ListPricer, TableListing
from formulations.column_generation.problem import Clock
from formulations.elastic.columns import LevelRows, costs, pool_of
from formulations.elastic.problem import SAME, LevelAnswer, rounding_of, scale_of, surely

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from formulations.elastic.columns import Columns
    from formulations.elastic.problem import EoaProblem, Goal, Settings
    from optim.format.tables import Floats, Ints
    from optim.solvers import LinearSolution
    from optim.solvers.linear_model import LinearModel


SMALL = 1500
"""Columns of the first model; with fewer in all there is only one."""

FEW = 2 * SMALL
"""Columns up to which a model is solved in this process."""

LARGE = 20_000
"""Columns above which a heuristic's plan is there long before the model's."""

FIRST, JOINING = 2000, 1500
"""Columns that the relaxation begins with, and those that join in a round."""

_CLOSE = 1e-5
"""Distance of bound and relaxation, in units of a model of about 1,000, that counts as none."""


class PatternForm:
    """The pattern form of one problem, solved level by level."""

    name = "patterns"

    def __init__(self, problem: EoaProblem, columns: Columns, settings: Settings) -> None:
        self.problem, self.columns, self.settings = problem, columns, settings
        self.large = columns.num > LARGE

    def solve(
        self, goal: Goal, caps: Sequence[tuple[Goal, float]], starts: Sequence[Ints]
    ) -> LevelAnswer:
        """Minimise a goal; `caps` are goals of earlier levels with the most they may reach."""
        level = _Level(self, goal, caps)
        for start in starts:
            level.offer(start)
        level.run()
        return level.answer


def _least(above: Floats) -> NDArray[np.int64]:
    """Columns that cost least above the bound, few enough for a small model."""
    return np.sort(np.argsort(above, kind="stable")[:SMALL])


class _Level:
    def __init__(self, form: PatternForm, goal: Goal, caps: Sequence[tuple[Goal, float]]) -> None:
        self.problem, self.columns, self.settings = form.problem, form.columns, form.settings
        self.cost, self.offset = costs(self.problem, self.columns, goal)
        self.unit = 1.0
        self.rows = LevelRows(self.problem, self.columns, [self._cap(*cap) for cap in caps])
        self.answer = LevelAnswer(goal)
        self.uses: NDArray[np.int64] | None = None

    def _cap(self, goal: Goal, most: float) -> tuple[Floats, float]:
        values, offset = costs(self.problem, self.columns, goal)
        return values, most - offset + 1e-7 * scale_of(self.problem, goal)

    def offer(self, place: Ints) -> None:
        uses = self.columns.of_placement(place)
        if uses is not None and self.answer.offer(self.problem, place):
            self.uses = uses
            self.settings.request.offer(self.problem.placement(place))

    def run(self) -> None:
        every = np.arange(self.columns.num)
        if len(every) <= SMALL:
            self._solve_rest(every)
            return
        above = self._relax(every)
        if above is None:
            self._solve_rest(every)
            return
        if self.answer.termination == "infeasible" or self._done():
            return
        if self.answer.goal == "capacity":
            self._probe(every)
            if self.answer.termination == "interrupted" or self._done():
                return
        self._ask(_least(above))
        if self.answer.termination == "interrupted" or self._done() or self.settings.over():
            return
        bound, value = self.answer.bound, self.answer.value
        if bound is not None and value is not None:
            every = np.flatnonzero(bound + above < value - self._rounding(value))
        self._solve_rest(every)

    def _relax(self, every: NDArray[np.int64]) -> Floats | None:
        """Bound by the relaxation; (P,) what each column costs above it, in units of the goal.

        ``None`` where nothing was found out.
        """
        columns, request = self.columns, self.settings.request
        self._scale(every)
        pool = pool_of(columns, self.cost / self.unit)
        listing = TableListing(pool, len(columns.size), self.rows)
        share = max(1, len(columns.size))
        pricer = ListPricer(listing, per_round=-(-JOINING // share), begin=-(-FIRST // share))
        deadline = None if request.time_limit is None else request.started + request.time_limit
        master = Master(
            columns.group_size, columns.size, pricer, Clock(deadline), self.rows, close=_CLOSE
        )
        known = None if self.uses is None else pool.only(np.flatnonzero(self.uses))
        root = master.run(known)
        if root.bound == -np.inf:
            self.answer.termination = "infeasible"
        if not np.isfinite(root.bound):
            return np.zeros(0) if root.bound < 0 else None
        self._prove(self._surely(self.offset / self.unit - root.bound))
        values = listing.values(root.price, root.side, gainless=False)
        above = [best - v for best, v in zip(root.highest, values, strict=True)]
        return np.concatenate(above) * self.unit

    def _raised(self, bound: float) -> float:
        """Raise a bound to the next value there is: whole nodes, where all have equal capacity."""
        if self.answer.goal != "capacity":
            return bound
        share = np.unique(self.problem.capacity_share)
        if len(share) > 1 or share[0] <= 0:
            return bound
        whole = np.ceil(bound / share[0] - 1e-6) * share[0]
        return float(max(bound, surely(self.problem, "capacity", whole)))

    def _rounding(self, value: float) -> float:
        return rounding_of(self.problem, self.answer.goal, value)

    def _surely(self, bound: float) -> float:
        """Return a bound in units of the model in those of the goal, rounding taken off."""
        return surely(self.problem, self.answer.goal, bound * self.unit)

    def _done(self) -> bool:
        value = self.answer.value
        if value is not None and self.answer.closed(self._rounding(value), self.settings.gap):
            self.answer.termination = "optimal"
            return True
        return False

    def _scale(self, keep: NDArray[np.int64]) -> None:
        """Choose the unit of the next model.

        Solvers' tolerances are absolute: costs of about 1,000 sit well in them, and columns that
        may be better than a very even placement all cost very little.
        """
        largest = float(np.abs(self.cost[keep]).max(initial=0.0))
        self.unit = largest / 1000.0 if largest > 0 else 1.0

    def _build(self, keep: NDArray[np.int64]) -> LinearModel:
        """Build over some columns, to be maximised; from here on `unit` is that of this model."""
        self._scale(keep)
        columns, whole = self.columns, self.settings.whole
        pool = pool_of(columns, self.cost / self.unit).only(keep)
        model = pattern_model(columns.group_size, columns.size, pool, self.rows, whole=whole)
        model.set_objective([], [], -self.offset / self.unit)
        return model

    def _ask(self, keep: NDArray[np.int64]) -> LinearSolution:
        """Solve over some columns and those of the placement in hand, and take what is better."""
        if self.uses is not None:
            keep = np.union1d(keep, np.flatnonzero(self.uses))
        made = self._build(keep)
        start = None
        if self.uses is not None and self.answer.place is not None:
            beside = self.columns.beside(self.problem, self.answer.place)
            start = np.concatenate([self.uses[keep], beside]).astype(np.float64)
        few = len(keep) <= FEW
        solution = (self.settings.solve_small if few else self.settings.solve)(made, start)
        answer = self.answer
        answer.solver = solution.solver or answer.solver
        answer.build += solution.build_seconds
        if start is not None and answer.accepted is None:
            answer.accepted = solution.warm_start_accepted
        answer.termination = str(solution.termination)
        if solution.message:
            answer.notes.append(solution.message)
        if solution.x is not None:
            uses = np.zeros(self.columns.num, dtype=np.int64)
            uses[keep] = np.round(solution.x[: len(keep)]).astype(np.int64)
            self.offer(self.columns.place(uses, self.problem.home))
        return solution

    def _probe(self, every: NDArray[np.int64]) -> None:
        """Look for a placement at the bound just proven, by the relaxation of the next level."""
        assert self.answer.bound is not None
        form = PatternForm(self.problem, self.columns, self.settings)
        probe = _Level(form, "network", [("capacity", self.answer.bound * (1 + 2 * SAME))])
        above = probe._relax(every)
        if above is None or probe.answer.termination == "infeasible":
            return  # the bound cannot be reached
        probe._ask(_least(above))
        self.answer.solver = probe.answer.solver or self.answer.solver
        self.answer.termination = probe.answer.termination
        if probe.answer.place is not None:
            self.offer(probe.answer.place)

    def _solve_rest(self, keep: NDArray[np.int64]) -> None:
        """Solve over all columns that a better placement may use: the bound is then proven."""
        known = self.answer.value
        if len(keep) == 0 and known is not None:
            self._prove(known)
            self.answer.termination = "optimal"
            return
        solution = self._ask(keep)
        if solution.bound is not None:
            # what was left out is no better than the placement that left it out
            proven = self._surely(-solution.bound)
            self._prove(proven if known is None else min(known, proven))
        elif str(solution.termination) == "infeasible" and known is not None:
            self._prove(known)
            self.answer.termination = "optimal"

    def _prove(self, bound: float) -> None:
        bound = self._raised(bound)
        if self.answer.bound is None or bound > self.answer.bound:
            self.answer.bound = bound
