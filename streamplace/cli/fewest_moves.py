"""Fewer moves: the fewest within a share of the best objective, and the curve of both."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from optim.errors import InvalidInput, Problem, StreamplaceError
from optim.figures.catalogue import find_objective
from optim.figures.load import carrying
from optim.format.plan import Plan
from optim.kernels.undo import fewer_moves, point_of
from optim.methods.audit import moves_of
from optim.methods.choose import choices
from optim.methods.portfolio import PORTFOLIO
from optim.methods.reduce import may_be_rewritten, without_leaving
from optim.methods.registry import get_method
from optim.methods.solve import solve
from optim.referee import Termination, evaluate_indices
from optim.rules import SLOTS, broken, is_feasible, moving_at_most, without_limits
from optim.rules.placement import Placement
from streamplace.present.numbers import percent, plural
from streamplace.present.streams import plain_table
from streamplace.present.tables import figure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from optim.figures.figure import Figure, ObjectiveValue
    from optim.format.instance import Instance
    from optim.format.tables import Ints
    from optim.kernels.undo import Point
    from optim.referee import Result

SOLVES = 8
"""Budgets of moves that a curve of the rate asks for, at most."""
FURTHER = 30.0
"""Seconds for plans with fewer moves, where no time limit is given."""
_PROVING = 0.6
"""Share of that which is reserved for the proof that there are no fewer."""
_EXACT, _PATTERNS = "throughput-exact", 20_000
"""What counts the fewest moves, and patterns of nodes up to which it does so in a moment."""
_FLOOR = "that keep as much traffic"
"""What a bound on moves may assume: the share itself."""
_ROUNDING = 1e-9
_ROWS = 25


class Curve(NamedTuple):
    """Checked plans with ever more moves, each better than those before."""

    by: str  # ``moves`` or ``cost``: what is spent.
    points: list[Point]  # The plans.
    knee: int | None  # Position of the point after which more brings least.

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        names = ("moves", "switches", "cost")
        points = [{n: getattr(p, n) for n in names} | {"value": p.value.value} for p in self.points]
        return {"by": self.by, "knee": self.knee, "points": points}


class Fewest(NamedTuple):
    """How many moves a share of the best objective takes."""

    #: The share, and the objective that it is of.
    within: float
    best: ObjectiveValue
    #: Of the plan found, and what no plan can do with less.
    moves: int
    at_least: int
    by: str  # What proved that, where it is proved.

    @property
    def proved(self) -> bool:
        """Whether no plan has fewer."""
        return self.at_least >= self.moves

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        fields = {"within": self.within, "of": vars(self.best), "moves": self.moves}
        return {**fields, "at_least": self.at_least, "proved": self.proved}

    def __str__(self) -> str:
        """Say it in a line, and what is not proved of it."""
        near = f"within {100 * self.within:g} % of {self.best.name} {self.best.value:.6g}"
        moves = plural(self.moves, "move")
        if self.proved:
            return f"{moves}: the fewest {near} ({self.by})"
        least = f"the bound says at least {self.at_least}"
        return f"at most {moves} {near}; fewer are not excluded ({least})"


@dataclass
class Asking:
    """How plans with fewer moves are asked for, beside a result."""

    #: What was solved, and what came out.
    instance: Instance
    result: Result
    rate: float | None = None  # Multiple of the current input that plans have to carry.
    seconds: float = FURTHER  # For all further solving.
    #: As of the result.
    seed: int = 0
    threads: int = 1
    began: float = field(default_factory=time.perf_counter)

    @cached_property
    def objective(self) -> Figure:
        """What the result was solved for."""
        assert self.result.objective is not None
        return find_objective(self.result.objective.name)

    @cached_property
    def relaxed(self) -> Instance:
        """The instance that was solved: without limits, and with room for the rate."""
        relaxed = without_limits(self.instance, self.result.ignored)
        return relaxed if self.rate is None else carrying(relaxed, self.rate)

    @cached_property
    def emptied(self) -> Instance:
        """The instance that was solved, its leaving nodes closed where the plan has emptied them.

        Otherwise tasks would stay there to save moves. What is proved of it holds for all plans
        that leave no more on leaving nodes than the result's.
        """
        relaxed = self.relaxed
        weighed = self.objective.weighs_leaving or not relaxed.nodes.leaving.any()
        if weighed or self.left(self.node) or not may_be_rewritten(relaxed):
            return relaxed
        return without_leaving(relaxed, may_stay=False)

    @cached_property
    def node(self) -> Ints:
        """(T,) nodes of the result's plan."""
        assert self.result.plan is not None
        return self.result.plan.node_indices(self.instance)

    def left(self, node: Ints) -> int:
        """Return how many tasks a plan leaves on leaving nodes that might go elsewhere."""
        if self.objective.weighs_leaving:
            return 0
        instance = self.instance
        return int((instance.nodes.leaving[node] & instance.has_open_node).sum())

    def staying_excluded(self, worst: ObjectiveValue) -> bool:
        """Whether staying is the one plan without moves, and infeasible or worse than a value."""
        home, solved = self.instance.tasks.node, self.relaxed
        if home.min(initial=0) < 0 or len(self.instance.tasks.copied):  # places to choose for free
            return False
        stays = is_feasible(Placement(self.objective.binding(solved), home))
        if stays is False or self.left(home) > self.left(self.node):
            return True
        value = self.objective.measured(Placement(solved, home))
        # where slots are, a value depends on their assignment, too, which may change
        unknown = value.value is None or SLOTS.present(solved) is not None
        return not unknown and not value.as_good_as(worst)

    def points(self) -> list[Point]:
        """Return the plans with fewer of the result's moves that keep every rule."""
        return self.keeping_rules(fewer_moves(self.relaxed, self.node, self.objective))

    def keeping_rules(self, points: Sequence[Point]) -> list[Point]:
        """Return the plans with a value that keep what binds plans for the objective."""
        binding, most = self.objective.binding(self.relaxed), self.left(self.node)
        measured = [p for p in points if p.value.value is not None and self.left(p.node) <= most]
        return [p for p in measured if p.keeps or not broken(Placement(binding, p.node))]

    def point(self, result: Result) -> Point | None:
        """Return the plan of another result as a point, if it keeps what binds."""
        if result.plan is None:
            return None
        points = [point_of(self.relaxed, result.plan.node_indices(self.instance), self.objective)]
        return next(iter(self.keeping_rules(points)), None)

    def budgeted(self, moves: int, seconds: float, *, exact: bool = False) -> Result | None:
        """Return the best plan with so many moves, for the same objective; ``None`` for no method.

        `exact`: whether an exact method is to have all the time, where there is one.
        """
        # leaving nodes stay empty: moves are saved elsewhere
        limited = moving_at_most(self.emptied, moves)
        if seconds <= 0:
            return None
        name = self.objective.name
        try:
            return solve(
                limited, self._exact(limited, seconds) if exact else PORTFOLIO, objective=name,
                prefer=self.result.method, time_limit=seconds, seed=self.seed,
                threads=self.threads,
            )  # fmt: skip
        except StreamplaceError:  # no method for it
            return None

    def _exact(self, limited: Instance, seconds: float) -> str:
        """Return an exact method for an instance, or several methods where there is none."""
        for choice in choices(limited, seconds, self.objective.name, self.result.method):
            if get_method(choice.name).kind == "exact" and not choice.repair:
                return choice.name
        return PORTFOLIO

    def fewest(self, worst: ObjectiveValue) -> Result | None:
        """Ask for the fewest moves whose plan is no worse than a value; ``None`` for no method."""
        assert worst.value is not None
        instance, options = self.emptied, dict[str, Any]()
        if self.objective.name == "imc_gain":
            options = {"min_imc_gain": max(0.0, worst.value)}
        elif self.objective.holding is not None and worst.value > 0:
            value = worst.value if self.rate is None else max(1.0, worst.value)
            instance = self.objective.holding(instance, value)
        else:
            return None
        seconds = self.seconds_left(_PROVING)
        try:
            return solve(
                instance, _EXACT, objective="migrations", time_limit=seconds, seed=self.seed,
                threads=self.threads, most_patterns=_PATTERNS, **options,
            )  # fmt: skip
        except StreamplaceError:  # it does not suit
            return None

    def seconds_left(self, reserved: float = 0.0) -> float:
        """Return the time that is left, but for a share of all that is reserved for later."""
        return self.began + self.seconds * (1 - reserved) - time.perf_counter()


def fewest_within(asking: Asking, share: float) -> tuple[Result, Fewest | None]:
    """Return the plan with the fewest moves whose objective is that near to the best one.

    Moves are left out one by one; an exact method is asked for the fewest directly, where the
    objective can be written as a limit; what that leaves open is closed by budgets, halved.

    `share`: of the best objective.
    Raises `InvalidInput`: no task has a current node, so that there are no moves.
    """
    check_moves(asking.instance, "--fewest-moves-within", f"{100 * share:g}%")
    result = asking.result
    if result.plan is None or result.objective is None or result.objective.value is None:
        return result, None
    search = _Search(asking, result.objective, result.objective.within(share + _ROUNDING))
    if not search.begin():
        return result, None
    interrupted = False
    try:
        search.ask()
        search.halve()
        search.prove()
    except KeyboardInterrupt:
        interrupted = True
    fewest = Fewest(share, search.best, search.least.moves, search.low, search.by)
    slot = None if search.plan is None else search.plan.slot_indices(asking.instance)
    fewer = with_plan(asking.instance, result, search.least.node, str(fewest), slot)
    return replace(fewer, termination=Termination.INTERRUPTED) if interrupted else fewer, fewest


@dataclass
class _Search:
    """Between the plan of fewest moves that is known, and what is proved of all."""

    asking: Asking  # How plans are asked for.
    #: The objective reached, and what is still near enough.
    best: ObjectiveValue
    worst: ObjectiveValue
    #: What no plan can do with less, and what proved it.
    low: int = 0
    by: str = ""
    plan: Plan | None = None
    least: Point = field(init=False)  # The plan of fewest moves; `plan` is the same with its slots.

    def begin(self) -> bool:
        """Take the best of the plans with some of the moves undone; whether there is one."""
        points, result = self.asking.points(), self.asking.result
        good = [p for p in points if p.value.as_good_as(self.worst)]
        if not good:
            return False
        moves = min(p.moves for p in good)
        least, *others = [p for p in good if p.moves == moves]
        for point in others:
            least = point if point.value.better_than(least.value) else least
        self.least, self.by = least, result.method
        self.plan = result.plan if least is points[0] else None
        # 1e-6: a bound of 3.0000001 by floats still means 3 moves
        if self.best.name == "migrations" and result.bound_of == "problem":
            self.low = min(moves, math.ceil((result.bound or 0.0) - 1e-6))
        if self.low < 1 <= moves and self.asking.staying_excluded(self.worst):
            self.raise_low(1, "compared with staying")
        return True

    @property
    def closed(self) -> bool:
        """Whether the two meet."""
        return self.low >= self.least.moves

    def take(self, result: Result | None, most: int) -> bool:
        """Take a plan that is near enough and has fewer moves; whether there is one."""
        if result is not None and result.termination is Termination.INTERRUPTED:
            raise KeyboardInterrupt
        point = None if result is None else self.asking.point(result)
        if point is None or point.moves > most or not point.value.as_good_as(self.worst):
            return False
        assert result is not None
        self.least, self.plan = point, result.plan
        return True

    def raise_low(self, moves: int, by: str) -> None:
        """Take note that no plan has fewer moves."""
        if moves > self.low:
            self.low, self.by = min(moves, self.least.moves), by

    def ask(self) -> None:
        """Ask for the fewest moves, with the objective as a limit."""
        result = None if self.closed else self.asking.fewest(self.worst)
        if result is None:
            return
        self.take(result, self.least.moves - 1)
        if result.bound is not None and all(word.startswith(_FLOOR) for word in result.assumes):
            self.raise_low(math.ceil(result.bound - 1e-6), result.method)

    def halve(self) -> None:
        """Ask for the best objective with ever fewer moves; what is not found counts as none."""
        first = self.low
        while first < self.least.moves and not self.closed:
            middle = (first + self.least.moves) // 2
            # halvings that are left, each with the same time
            parts = (self.least.moves - first).bit_length()
            result = self.asking.budgeted(middle, self.asking.seconds_left(_PROVING) / parts)
            if self.take(result, middle):
                continue
            if self._excluded(result):
                self.raise_low(middle + 1, result.method if result else "")
            # not found, perhaps not proved: `first` guides the search alone, `low` is proved
            first = middle + 1

    def prove(self) -> None:
        """Ask an exact method for one move fewer, until it proves that there is no such plan."""
        while not self.closed:
            fewer = self.least.moves - 1
            result = self.asking.budgeted(fewer, self.asking.seconds_left(), exact=True)
            if self.take(result, fewer):
                continue
            if self._excluded(result):
                self.raise_low(fewer + 1, result.method if result else "")
            return

    def _excluded(self, result: Result | None) -> bool:
        """Whether a result with a budget proves that no plan within it is near enough."""
        if result is None or result.termination is Termination.INFEASIBLE:
            return result is not None
        if result.objective is None or result.bound_of != "problem":
            return False
        return self.worst.better_than(result.objective.with_value(result.bound))


def check_moves(instance: Instance, flag: str, value: str) -> None:
    """Refuse to count moves where no task is anywhere now.

    Raises `InvalidInput`: that is so.
    """
    if instance.tasks.node.max(initial=-1) < 0:
        remedy = "give tasks their current `node`"
        raise InvalidInput(
            Problem(flag, value, "counts moves, and no task has a current node", remedy)
        )


def with_plan(instance: Instance, result: Result, node: Any, note: str, slot: Any = None) -> Result:
    """Return the result with another plan, judged anew: within a share of the best, if not best."""
    assert result.objective is not None
    objective = find_objective(result.objective.name)
    evaluation = evaluate_indices(
        without_limits(instance, result.ignored), node, slot, objective.name
    )
    value = objective.of(evaluation.objective(objective.name))
    gap = objective.gap(value.value, result.bound, objective.reference_of(evaluation))
    # an optimum that is given up in part is one within a gap
    ended = result.termination
    if ended is Termination.OPTIMAL and (gap is None or gap > objective.optimal_gap):
        ended = Termination.GAP_REACHED
    plan = Plan.from_indices(instance, node, slot, result.method, result.versions)
    return replace(
        result, termination=ended, plan=plan, evaluation=evaluation, objective=value, gap=gap,
        objective_levels=(), moves=moves_of(instance, node), most_of_gain=None,
        notes=(*result.notes, note),
    )  # fmt: skip


def curve_of(asking: Asking, by: str) -> Curve:
    """Return the plans worth their moves, or their cost, and the knee.

    The highest rate is asked for with fewer moves, too: a rate is held by its bottleneck, so
    that undoing single moves of the best plan reports little.

    Raises `InvalidInput`: there are no moves, as no task has a current node.
    """
    check_moves(asking.instance, "--curve", by)
    points = asking.points()
    if asking.objective.hard is not None:
        count = max((p.moves for p in points), default=0)
        # budgets at equal distances: a curve of the rate has steps where they come
        fewer = np.unique(np.linspace(1, count - 1, SOLVES).astype(int))
        fewer = fewer[fewer > 0]
        for number, moves in enumerate(fewer.tolist()):
            part = asking.seconds_left() / (len(fewer) - number)
            result = asking.budgeted(moves, part)
            points += [] if result is None else filter(None, [asking.point(result)])
    worthwhile: list[Point] = []
    for point in sorted(points, key=lambda p: getattr(p, by)):
        if not worthwhile or point.value.better_than(worthwhile[-1].value):
            if worthwhile and getattr(worthwhile[-1], by) == getattr(point, by):
                worthwhile.pop()
            worthwhile.append(point)
    return Curve(by, worthwhile, knee_of(worthwhile, by))


def knee_of(points: Sequence[Point], by: str) -> int | None:
    """Return the point that gains most beyond the line between the ends, if any does."""
    if len(points) < 3:
        return None
    x = np.array([getattr(p, by) for p in points], float)
    y = np.array([p.value.value for p in points], float)
    if x[-1] == x[0] or y[-1] == y[0]:
        return None
    # both axes from 0 to 1: distance above the line between the ends
    above = (y - y[0]) / (y[-1] - y[0]) - (x - x[0]) / (x[-1] - x[0])
    return int(above.argmax()) if above.max() > 0.0 else None


def print_curve(console: Console, instance: Instance, objective: Figure, curve: Curve) -> None:
    """Print the curve as a table, the knee marked."""
    console.print()
    if not curve.points:
        console.print("no curve: no plan with at most these moves satisfies every rule")
        return
    switches = any(p.switches for p in curve.points)
    heads = ["moves", *(["switches"] if switches else []), "cost", objective.label]
    table = plain_table([*heads, "of the gain", ""], right=["moves", "switches"])
    first, last = curve.points[0].value, curve.points[-1].value
    whole = last.gain_over(first) or 0.0
    step = max(1, -(-len(curve.points) // _ROWS))
    for k, point in enumerate(curve.points):
        if k % step and k not in (curve.knee, len(curve.points) - 1):
            continue
        gained = (point.value.gain_over(first) or 0.0) / whole + 0.0 if whole else 1.0  # no -0
        table.add_row(
            f"{point.moves:,}", *([f"{point.switches:,}"] if switches else []),
            figure(instance, "state", point.cost),
            figure(instance, objective.unit, point.value.value), percent(gained),
            "← knee" if k == curve.knee else "",
        )  # fmt: skip
    console.print(table)


def draw_curve(curve: Curve, objective: Figure, unit: str, file: str) -> None:
    """Draw the curve into a file."""
    from streamplace.present.plots import COLORS, INK, canvas, legend

    x = [getattr(p, curve.by) for p in curve.points]
    y = [np.nan if p.value.value is None else p.value.value for p in curve.points]
    with canvas(size=(7.6, 4.4)) as (drawn, axes):
        axes.step(x, y, where="post", color=COLORS[0])
        axes.plot(x, y, "o", markersize=3, color=COLORS[0])
        if curve.knee is not None:
            axes.plot([x[curve.knee]], [y[curve.knee]], "D", color=INK, label="knee")
            legend(drawn, axes)
        axes.set_xlabel("moves" if curve.by == "moves" else "cost of the moves")
        axes.set_ylabel(f"{objective.label}{f' [{unit.strip()}]' if unit else ''}")
        drawn.savefig(file)
