"""One level of elastic allocation on the driver of column generation.

1. The relaxation over all columns gives duals and with them a proven bound.
2. The model over the columns of least reduced cost gives a placement. Least capacity has so many
   equal columns that its reduced costs choose badly: there, those of least network use at the
   bound just proven are taken, whose placement is also a start for the next level.
3. Columns that no better placement can use are dropped; the model over the rest closes the gap.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from formulations.column_generation import driver
from formulations.column_generation.client import Client, Incumbent
from formulations.column_generation.integer import Backend, Chosen, pattern_model
from formulations.column_generation.pricing import ListPricer, TableListing
from formulations.column_generation.problem import Clock
from formulations.elastic.columns import LevelRows, costs, pool_of
from formulations.elastic.problem import SAME, LevelAnswer, rounding_of, scale_of, surely

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from formulations.column_generation.master import Root
    from formulations.column_generation.problem import Pool
    from formulations.elastic.columns import Columns
    from formulations.elastic.problem import EoaProblem, Goal, Settings
    from optim.format.tables import Floats, Ints


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
        level, incumbent = _level(self, goal, caps)
        for start in starts:
            incumbent.offer_place(start)
        settings = self.settings
        interrupted = False
        try:
            driver.solve(level, incumbent, Backend(settings.solver))
            if not incumbent.closed and incumbent.answer.bound is None and not settings.over():
                level.solve_whole(incumbent)  # the relaxation found nothing out
        except KeyboardInterrupt:
            interrupted = True
        incumbent.answer.termination = incumbent.told(interrupted=interrupted)
        return incumbent.answer


def _level(
    form: PatternForm, goal: Goal, caps: Sequence[tuple[Goal, float]]
) -> tuple[Level, LevelIncumbent]:
    """Set up a level and what is known of it: nothing."""
    request = form.settings.request
    deadline = None if request.time_limit is None else request.started + request.time_limit
    level = Level(form, goal, caps, Clock(deadline))
    incumbent = LevelIncumbent(form.columns.problem, level.clock, gap=form.settings.gap)
    incumbent.answer, incumbent.level = LevelAnswer(goal), level
    return level, incumbent


def unit_of(cost: Floats) -> float:
    """Return the unit of a model over columns of these costs.

    Solvers' tolerances are absolute: costs of about 1,000 sit well in them, and columns that may be
    better than a very even placement all cost very little.
    """
    largest = float(np.abs(cost).max(initial=0.0))
    return largest / 1000.0 if largest > 0 else 1.0


@dataclass(eq=False)
class LevelIncumbent(Incumbent):
    """The best placement of the free tasks, and the bound; in units of the goal in `answer`.

    Attributes
    ----------
    uses
        (P,) how often the best placement uses each column.
    complete
        Whether a model over every better placement was solved to its end, in the solver's
        tolerance: what is very even has values below that.
    """

    answer: LevelAnswer = field(init=False)
    level: Level = field(init=False)
    uses: NDArray[np.int64] | None = None
    complete: bool = False

    @property
    def rounding(self) -> float:
        """Gains that differ by less are the same: deviations of even placements are tiny, too."""
        value = self.answer.value
        return 0.0 if value is None else self._rounding(value) / self.level.unit

    def _rounding(self, value: float) -> float:
        return rounding_of(self.level.eoa, self.answer.goal, value)

    def offer(self, counts: NDArray[np.int64] | None) -> bool:
        """Take counts if they are columns and better."""
        level = self.level
        return counts is not None and self.offer_place(level.columns.place(counts, level.eoa.home))

    def offer_place(self, place: Ints) -> bool:
        """Take a placement of the free tasks if it is better."""
        level, answer = self.level, self.answer
        uses = level.columns.of_placement(place)
        if uses is None or not answer.offer(level.eoa, place):
            return False
        self.uses, self.counts = uses, np.repeat(level.columns.counts, uses, axis=0)
        assert answer.value is not None
        self.value = level.gain_of(answer.value)
        level.settings.request.offer(level.eoa.placement(place))
        return True

    def take_bound(self, bound: float) -> None:
        """Take a bound on the gain if it is better: one on the goal, rounding taken off."""
        answer, level = self.answer, self.level
        if bound == np.inf:
            return
        if bound <= self.value:  # nothing is better than the placement
            if answer.value is None:
                self.bound = -np.inf
                return
            proven = surely(level.eoa, answer.goal, answer.value)
        else:
            proven = level.raised(surely(level.eoa, answer.goal, level.cost_of(bound)))
            if answer.value is not None:
                proven = min(proven, answer.value)
        if answer.bound is None or proven > answer.bound:
            answer.bound = proven
        self.bound = max(level.gain_of(answer.bound), self.value)

    @property
    def closed(self) -> bool:
        """Whether the bound meets the value, up to rounding or the gap; or there is nothing."""
        if self.bound == -np.inf:
            return True
        value, bound = self.answer.value, self.answer.bound
        if value is None or bound is None:
            return False
        if self.complete:
            return True
        room = 4 * self._rounding(value) + self.gap * max(abs(value), abs(bound))
        return value - bound <= room

    def told(self, *, interrupted: bool) -> str:
        """Say why the level is over."""
        if interrupted or self.stopped == "interrupted":
            return "interrupted"
        if self.closed:
            return "infeasible" if self.answer.place is None else "optimal"
        return self.stopped or "time_limit"


class Level(Client):
    """The columns of a level, and its rows; gains are what costs are below 0, in a common unit."""

    ties = True  # columns of least capacity are alike

    def __init__(
        self, form: PatternForm, goal: Goal, caps: Sequence[tuple[Goal, float]], clock: Clock
    ) -> None:
        self.form, self.eoa, self.columns, self.settings = (
            form, form.problem, form.columns, form.settings,
        )  # fmt: skip
        self.goal, columns = goal, form.columns
        self.cost, self.offset = costs(self.eoa, columns, goal)
        self.unit = unit_of(self.cost)
        self.pool = pool_of(columns, self.cost / self.unit)
        rows = LevelRows(self.eoa, columns, [self._cap(*cap) for cap in caps])
        listing = TableListing(self.pool, len(columns.size), rows)
        share = max(1, len(columns.size))
        pricer = ListPricer(listing, per_round=-(-JOINING // share), begin=-(-FIRST // share))
        super().__init__(columns.problem, pricer, clock, rows)
        self.stages = (SMALL,)
        self.most = max(1, columns.num)
        self.close = _CLOSE

    def _cap(self, goal: Goal, most: float) -> tuple[Floats, float]:
        """Row of an earlier level: ``Σ_p cost_p λ_p ≤ most − offset``, up to rounding."""
        values, offset = costs(self.eoa, self.columns, goal)
        return values, most - offset + 1e-7 * scale_of(self.eoa, goal)

    def gain_of(self, cost: float) -> float:
        """Return the gain of a value of the goal."""
        return (self.offset - cost) / self.unit

    def cost_of(self, gain: float) -> float:
        """Return the value of the goal of a gain."""
        return self.offset - gain * self.unit

    def raised(self, bound: float) -> float:
        """Raise a bound to the next value there is: whole nodes, where all have equal capacity."""
        if self.goal != "capacity":
            return bound
        share = np.unique(self.eoa.capacity_share)
        if len(share) > 1 or share[0] <= 0:
            return bound
        whole = np.ceil(bound / share[0] - 1e-6) * share[0]
        return float(max(bound, surely(self.eoa, "capacity", whole)))

    def most_gain(self) -> float:
        """Nothing is known before the relaxation."""
        return np.inf

    def known(self, incumbent: Incumbent) -> Pool | None:
        """Return the columns of the placement."""
        assert isinstance(incumbent, LevelIncumbent)
        return None if incumbent.uses is None else self.pool.only(np.flatnonzero(incumbent.uses))

    def relax(self, incumbent: Incumbent) -> Root:
        """Relax to the end: bounds of very even placements differ by less than the master
        resolves.
        """
        return self.master.run(self.known(incumbent))

    def begin(self, incumbent: Incumbent, backend: Backend) -> None:
        """Solve over all columns at once where they are few."""
        if self.columns.num <= SMALL:
            self.solve_whole(incumbent)

    def solve_whole(self, incumbent: Incumbent) -> None:
        """Solve over all columns."""
        answer = self.integer(self.pool, incumbent)
        incumbent.offer(answer.counts)
        incumbent.take_bound(answer.bound)
        incumbent.record(answer)
        if not answer.stopped:
            self.complete(incumbent)

    def complete(self, incumbent: Incumbent) -> None:
        """Take note that a model over every better placement was solved to its end."""
        assert isinstance(incumbent, LevelIncumbent)
        incumbent.complete = True

    def improve(self, incumbent: Incumbent, backend: Backend) -> None:
        """Look for a placement at the bound just proven, by the relaxation of the next level."""
        assert isinstance(incumbent, LevelIncumbent)
        if self.goal != "capacity" or incumbent.answer.bound is None:
            return
        cap = incumbent.answer.bound * (1 + 2 * SAME)
        level, found = _level(self.form, "network", [("capacity", cap)])
        root = level.master.run()
        if not np.isfinite(root.bound):
            return  # the bound cannot be reached, or nothing was found out
        least = np.argsort(root.loss(level.pool, level.rows), kind="stable")[:SMALL]
        answer = level.integer(level.pool.only(np.sort(least)), found)
        incumbent.record(answer)
        incumbent.offer(answer.counts)

    def within(self, gap: float, most: int) -> Pool | None:
        """List the columns of every placement within a gap below the bound of the relaxation.

        Where values are whole nodes, ``⌈z⌉ + cost above z ≥ value`` refutes a column as well: its
        placements cost more than ``value − 1`` nodes, hence as many.
        """
        raise_by = max(0.0, self.bound - self.gain_of(self.raised(self.cost_of(self.bound))))
        return super().within(gap - raise_by, most)

    def integer(
        self,
        part: Pool,
        incumbent: Incumbent,
        backend: Backend | None = None,
        node_limit: int | None = None,
    ) -> Chosen:
        """Solve over some columns and those of the placement, in a unit of their own."""
        assert isinstance(incumbent, LevelIncumbent)
        columns, settings, uses = self.columns, self.settings, incumbent.uses
        keep = np.asarray(part.at)
        if uses is not None:
            keep = np.union1d(keep, np.flatnonzero(uses))
        unit = unit_of(self.cost[keep])
        pool = pool_of(columns, self.cost / unit).only(keep)
        model = pattern_model(
            columns.group_size, columns.size, pool, self.rows, whole=settings.whole
        )
        model.set_objective([], [], -self.offset / unit)
        start = None
        if uses is not None and incumbent.answer.place is not None:
            beside = columns.beside(self.eoa, incumbent.answer.place)
            start = np.concatenate([uses[keep], beside]).astype(np.float64)
        few = len(keep) <= FEW
        solution = (settings.solve_small if few else settings.solve)(model, start)
        answer, ended = incumbent.answer, str(solution.termination)
        answer.solver = solution.solver or answer.solver
        answer.build += solution.build_seconds
        if start is not None and answer.accepted is None:
            answer.accepted = solution.warm_start_accepted
        if solution.message:
            answer.notes.append(solution.message)
        counts = None
        if solution.x is not None:
            times = np.round(solution.x[: len(keep)]).astype(np.int64)
            counts = np.repeat(pool.counts, times, axis=0)
        bound = np.inf
        if ended == "infeasible":
            bound = -np.inf
        elif solution.bound is not None:
            bound = self.gain_of(-solution.bound * unit)
        if ended == "interrupted":  # what was found before counts
            incumbent.offer(counts)
            raise KeyboardInterrupt
        stopped = "" if ended in ("optimal", "gap_reached", "infeasible") else ended
        return Chosen(counts, bound, stopped)
