"""What other objectives would have given, where `solve` chose the objective by itself."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from optim.errors import StreamplaceError
from optim.figures.catalogue import BY_NAME
from optim.methods.choose import choose_method
from optim.methods.solve import solve
from optim.rules import without_limits
from optim.rules.placement import Placement
from streamplace.present.console import plain_table
from streamplace.present.numbers import plural
from streamplace.present.tables import figure

if TYPE_CHECKING:
    from rich.console import Console

    from optim.format.instance import Instance
    from optim.format.tables import Ints
    from optim.referee.result import Result

_SECONDS = 2.0
_SAME = 1e-9
_OTHER = {"load_distance": "imc_gain", "imc_gain": "load_distance"}
_VERBS = {"imc_gain": "keeps inside nodes", "load_distance": "reaches a load distance of"}
_SHOWN = ("sustainable_rate", "imc_gain", "load_distance")


def print_instead(console: Console, instance: Instance, result: Result) -> None:
    """Print a line each of the plan, of collocation and of balance; nothing of other objectives."""
    told = result.objective is not None and result.objective.name == "sustainable_rate"
    if not told or result.plan is None:
        return
    from optim.referee.evaluate import evaluate_indices

    table = plain_table(["", *(BY_NAME[name].label for name in _SHOWN)])
    plans = {
        "this plan: greatest rate": result.plan.node_indices(instance),
        "collocation": _collocated(instance),
        "balance": _balanced(instance),
    }
    for words, node in plans.items():
        if node is None or node.min(initial=0) < 0:
            continue
        found = evaluate_indices(instance, node)
        values = [(BY_NAME[name].unit, getattr(found, name)) for name in _SHOWN]
        table.add_row(words, *(figure(instance, unit, value) for unit, value in values))
    console.print()
    console.print(table)


def print_others(console: Console, instance: Instance, result: Result) -> None:
    """Print what collocation, or balance, gives with as many moves, under a budget of moves."""
    told = result.objective.name if result.objective is not None else ""
    limits = without_limits(instance, result.ignored).limits
    budget = limits.max_migrations is not None or limits.max_migration_cost is not None
    if told not in _OTHER or not budget or not result.feasible or not instance.has_traffic:
        return
    figure_, verb = BY_NAME[_OTHER[told]], _VERBS[_OTHER[told]]
    assert result.evaluation is not None
    same = replace(limits, max_migrations=len(result.moves))
    try:
        other = solve(
            replace(instance, limits=same),
            objective=figure_.name,
            time_limit=_SECONDS,
            ignore=tuple(name for name in result.ignored if name != "max_migrations"),
        )
    except StreamplaceError:  # no method for it: the line is left out
        return
    if not other.feasible or other.objective is None:
        return
    value = figure(instance, figure_.unit, other.objective.value)
    mine = figure_.of(getattr(result.evaluation, figure_.name))
    if not other.objective.better_than(mine):
        return  # in the seconds it had, it found nothing that this plan has not
    moves, ours = plural(len(other.moves), "move"), figure(instance, figure_.unit, mine.value)
    console.print(f"instead  {other.method} {verb} {value} with {moves}; this plan {ours}")


def print_traded(console: Console, instance: Instance, result: Result) -> None:
    """Say that a plan carries less than the present placement, and which objective does not."""
    told = result.objective.name if result.objective is not None else ""
    if result.plan is None or result.evaluation is None or not instance.has_current:
        return
    rate, relaxed = BY_NAME["sustainable_rate"], without_limits(instance, result.ignored)
    if told in (rate.name, "rate_after_loss") or result.plan.threads is not None:
        return
    now = rate.measured(Placement(relaxed, instance.tasks.node))
    plan = rate.of(result.evaluation.sustainable_rate)
    if not (now.gain_over(plan) or 0.0) > _SAME * (now.value or 0.0):
        return
    try:
        choose_method(relaxed, None, rate.name)
    except StreamplaceError:  # no method for it: it is no way out
        return
    before, after = (figure(instance, rate.unit, value.value) for value in (now, plan))
    console.print(
        f"traded   {rate.label} {before} now, {after} with this plan; --objective {rate.name} "
        "brings more",
        soft_wrap=True,
    )


def _collocated(instance: Instance) -> Ints | None:
    """Return a placement of much traffic inside, on capacities that hold the load."""
    from heuristics.throughput.starts import eased

    roomy = eased(instance)
    try:
        plan = solve(roomy, "imc-search", time_limit=_SECONDS).plan
    except StreamplaceError:  # limits that it does not keep: the line is left out
        return None
    return None if plan is None else plan.node_indices(roomy)


def _balanced(instance: Instance) -> Ints | None:
    """Return a placement of little load distance: tasks by decreasing load, to the emptiest."""
    from heuristics.throughput.starts import spread
    from optim.figures.rate import without_measured

    return np.asarray(spread(without_measured(instance), instance))
