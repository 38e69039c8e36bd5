"""Fewer moves: the fewest within a share of the best objective, and the curve of both."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from experiments.cli.arguments import amount
from optim.figures.catalogue import OBJECTIVES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console

    from optim.figures.figure import Figure
    from optim.format.instance import Instance
    from optim.moves.undo import Point
    from optim.referee.result import Result

SOLVES = 8
"""Times that a method is asked for fewer moves, at most."""
_ROWS = 25


class Curve(NamedTuple):
    """Checked plans with ever more moves, each better than those before.

    Attributes
    ----------
    by
        ``moves`` or ``cost``: what is spent.
    points
        The plans.
    knee
        Position of the point after which more brings least.
    """

    by: str
    points: list[Point]
    knee: int | None

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        told = [{"moves": p.moves, "cost": p.cost, "value": p.value} for p in self.points]
        return {"by": self.by, "knee": self.knee, "points": told}


def add_fewest(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--fewest-moves-within", metavar="P%", type=share,
        help="the fewest moves whose plan is within P %% of the best objective reached",
    )  # fmt: skip
    parser.add_argument(
        "--curve", choices=("moves", "cost"), help="the objective against what is moved"
    )
    parser.add_argument("--plot", metavar="FILE", help="draw the curve: .svg, .png or .pdf")


def share(text: str) -> float:
    """Read ``5%`` or ``5`` as 0.05."""
    value = amount(text.strip().removesuffix("%").strip())
    if value > 100:
        raise argparse.ArgumentTypeError(f"{text!r} is more than 100 %")
    return value / 100


def fewest_within(
    instance: Instance,
    result: Result,
    within: float,
    again: Callable[[Instance], Result],
    rate: float | None = None,
) -> Result:
    """Return the plan with the fewest moves whose objective is that near to the best one.

    Moves are left out one by one; then the method itself is asked for plans with fewer, where it
    keeps a budget.

    Parameters
    ----------
    within
        Share of the best objective.
    again
        Solves a changed instance as before.
    rate
        Multiple of the present input that plans have to carry.
    """
    from optim.moves.undo import Point

    if result.plan is None or result.objective is None or result.objective.value is None:
        return result
    objective = OBJECTIVES[result.objective.name]
    best = result.objective.value
    sign = -1.0 if objective.sense == "max" else 1.0
    worst = sign * best + within * abs(best) + 1e-9 * abs(best)
    points = checked_points(instance, result, objective, rate)
    good = [p for p in points if sign * p.value <= worst]
    least = min(good, key=lambda p: (p.moves, sign * p.value), default=None)
    if least is None:
        return result
    low, high = 0, least.moves
    whole = result.plan if least is points[0] and least.moves == len(result.moves) else None
    proved = True
    for _ in range(SOLVES):
        if low >= high:
            break
        middle = (low + high) // 2
        found = _with_budget(instance, middle, again)
        value = None if found is None or found.objective is None else found.objective.value
        good_enough = value is not None and sign * value <= worst
        # free moves, and a budget that is ignored, count for no method
        if found and found.feasible and good_enough and len(found.moves) <= middle:
            assert found.plan is not None
            assert value is not None
            node, whole = found.plan.node_indices(instance), found.plan
            cost = float(sum(move.cost for move in found.moves))
            least = Point(len(found.moves), cost, value, node, True)
            high = least.moves
        else:
            ruled = found is not None and found.bound is not None and found.bound_of == "problem"
            proved &= found is not None and (
                str(found.termination) == "infeasible"
                or (ruled and sign * (found.bound or 0.0) > worst)
            )
            low = middle + 1
    note = f"{least.moves} moves are within {100 * within:g} % of the best objective {best:.6g}"
    if low >= high and proved:
        note += f"; fewer are not, according to {result.method}"
    slot = None if whole is None else whole.slot_indices(instance)
    return with_plan(instance, result, least.node, note, slot)


def _with_budget(
    instance: Instance, moves: int, again: Callable[[Instance], Result]
) -> Result | None:
    from optim.errors import StreamplaceError

    limited = replace(instance, limits=replace(instance.limits, max_migrations=moves))
    try:
        return again(limited)
    except StreamplaceError:  # a method that keeps no budget
        return None


def checked_points(
    instance: Instance, result: Result, objective: Figure, rate: float | None = None
) -> list[Point]:
    """Return the plans with fewer of a result's moves that keep every rule, and carry the rate."""
    from optim.moves.undo import fewer_moves

    assert result.plan is not None
    node, relaxed = result.plan.node_indices(instance), _relaxed(instance, result, rate)
    return _kept(fewer_moves(relaxed, node, objective), relaxed, objective)


def _relaxed(instance: Instance, result: Result, rate: float | None) -> Instance:
    """Return the instance that was solved: without limits, and with room for the rate."""
    from optim.figures.rate import carrying
    from optim.rules import without_limits

    relaxed = without_limits(instance, result.ignored)
    return relaxed if rate is None else carrying(relaxed, rate)


def _kept(points: list[Point], relaxed: Instance, objective: Figure) -> list[Point]:
    """Return the plans that have a value, and keep the rules that bind plans for the objective."""
    from optim.rules import broken
    from optim.rules.placement import Placement

    binding = objective.binding(relaxed)
    known = [p for p in points if p.value == p.value]
    return [p for p in known if p.keeps or not broken(Placement(binding, p.node))]


def with_plan(instance: Instance, result: Result, node: Any, note: str, slot: Any = None) -> Result:
    """Return the result with another plan, judged anew."""
    from optim.format.plan import Plan
    from optim.methods.judge import moves_of
    from optim.referee.evaluate import evaluate_indices
    from optim.referee.result import ObjectiveValue
    from optim.rules import without_limits

    assert result.objective is not None
    objective = OBJECTIVES[result.objective.name]
    found = evaluate_indices(without_limits(instance, result.ignored), node, slot, objective.name)
    value = found.objective(objective.name)
    plan = Plan.from_indices(instance, node, slot, result.method, result.versions)
    return replace(
        result,
        plan=plan,
        evaluation=found,
        objective=ObjectiveValue(objective.name, value, objective.sense),
        gap=objective.gap(value, result.bound, objective.reference_of(found)),
        objective_levels=(),
        moves=moves_of(instance, node),
        most_of_gain=None,
        notes=(*result.notes, note),
    )


def curve_of(
    instance: Instance,
    result: Result,
    by: str,
    rate: float | None = None,
    again: Callable[[Instance], Result] | None = None,
) -> Curve:
    """Return the plans worth their moves, or their cost, and the knee.

    Parameters
    ----------
    rate
        Multiple of the present input that plans have to carry.
    again
        Solves a changed instance as before: asked for the highest rate with fewer moves. A rate is
        held by what is full first, so that undoing single moves of the best plan tells little.

    Raises
    ------
    InvalidInput
        There are no moves, as no task has a current node.
    """
    from optim.errors import InvalidInput, Problem

    if not instance.has_current:
        remedy = "give tasks their present `node`"
        raise InvalidInput(Problem("--curve", by, "is of moves; no task is anywhere now", remedy))
    assert result.objective is not None
    objective = OBJECTIVES[result.objective.name]
    sign = -1.0 if objective.sense == "max" else 1.0
    points = checked_points(instance, result, objective, rate)
    if again is not None and objective.hard is not None:
        points += _with_budgets(instance, result, objective, rate, again)
    points.sort(key=lambda p: (getattr(p, by), sign * p.value))
    kept: list[Point] = []
    for point in points:
        if not kept or sign * point.value < sign * kept[-1].value:
            kept.append(point)
    return Curve(by, kept, knee_of(kept, by))


def _with_budgets(
    instance: Instance,
    result: Result,
    objective: Figure,
    rate: float | None,
    again: Callable[[Instance], Result],
) -> list[Point]:
    """Return the best plans with some smaller numbers of moves, judged as the result's own."""
    from optim.moves.undo import point_of

    relaxed = _relaxed(instance, result, rate)
    fewer = np.unique(np.linspace(1, len(result.moves) - 1, SOLVES).astype(int))
    points = []
    for moves in fewer[fewer > 0].tolist():
        found = _with_budget(instance, moves, again)
        if found is not None and found.plan is not None:
            points.append(point_of(relaxed, found.plan.node_indices(instance), objective))
    return _kept(points, relaxed, objective)


def knee_of(points: Sequence[Point], by: str) -> int | None:
    """Return the point that gains most beyond the line between the ends, if any does."""
    if len(points) < 3:
        return None
    x = np.array([getattr(p, by) for p in points], float)
    y = np.array([p.value for p in points])
    if x[-1] == x[0] or y[-1] == y[0]:
        return None
    above = (y - y[0]) / (y[-1] - y[0]) - (x - x[0]) / (x[-1] - x[0])
    return int(above.argmax()) if above.max() > 0.0 else None


def print_curve(console: Console, instance: Instance, objective: Figure, curve: Curve) -> None:
    """Print the curve as a table, the knee marked."""
    from experiments.cli.console import plain_table
    from experiments.cli.tables import figure
    from experiments.numbers import percent

    console.print()
    if not curve.points:
        console.print("no curve: no plan with these moves, or fewer, keeps every rule")
        return
    table = plain_table(["moves", "cost", objective.label, "of the gain", ""], right=["moves"])
    first, last = curve.points[0].value, curve.points[-1].value
    step = max(1, -(-len(curve.points) // _ROWS))
    for k, point in enumerate(curve.points):
        if k % step and k not in (curve.knee, len(curve.points) - 1):
            continue
        gained = (point.value - first) / (last - first) + 0.0 if last != first else 1.0  # no -0
        table.add_row(
            f"{point.moves:,}", figure(instance, "state", point.cost),
            figure(instance, objective.unit, point.value), percent(gained),
            "← knee" if k == curve.knee else "",
        )  # fmt: skip
    console.print(table)


def draw_curve(curve: Curve, objective: Figure, unit: str, file: str) -> None:
    """Draw the curve into a file."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    drawn, axes = pyplot.subplots(figsize=(6, 4), layout="constrained")
    x = [getattr(p, curve.by) for p in curve.points]
    y = [p.value for p in curve.points]
    axes.step(x, y, where="post", color="C0")
    axes.plot(x, y, "o", markersize=3, color="C0")
    if curve.knee is not None:
        axes.plot([x[curve.knee]], [y[curve.knee]], "o", color="C3", label="knee")
        axes.legend()
    axes.set_xlabel("moves" if curve.by == "moves" else "cost of the moves")
    axes.set_ylabel(f"{objective.label}{f' [{unit.strip()}]' if unit else ''}")
    drawn.savefig(file)
    pyplot.close(drawn)
