"""An explanation as a person reads it: short, the cause first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim.rules import BUDGETS
from streamplace.present.console import name, plain_table, printable
from streamplace.present.numbers import number, percent, quantity
from streamplace.present.tables import (
    figure,
    gap_text,
    print_carries,
    print_rest,
    print_violations,
    size_line,
    unit_of,
)

if TYPE_CHECKING:
    from rich.console import Console

    from formulations.conflicts.conflict import Clash
    from formulations.conflicts.remedies import Remedy
    from optim.figures.figure import Figure
    from optim.format.instance import Instance
    from streamplace.explain.explanation import Explanation, Worth

SHOWN = 10
_GIVEN_UP = {
    "allowed": "let {by} of the tasks go elsewhere",
    "leaving": "let {by} tasks onto leaving nodes",
    "sets": "give the set up",
    "slot_sets": "give the set up",
}


def print_explanation(
    console: Console, instance: Instance, found: Explanation, *, full: bool
) -> None:
    """Print why there is no plan, or what a plan's moves are worth and what binds."""
    console.print(size_line(instance), soft_wrap=True)
    if found.feasible is False:
        console.print("infeasible: no plan can exist", style="bold red")
        print_conflicts(console, instance, found)
    elif found.evaluation is None:
        console.print(
            "not decided in the time given: neither a plan nor a proof that there is none"
        )
    else:
        _print_plan(console, instance, found, full=full)
    for note in found.notes:
        console.print(f"note     {printable(note)}", soft_wrap=True)


def print_conflicts(console: Console, instance: Instance, found: Explanation) -> None:
    """Print why there is no plan, and what would help."""
    for k, rules in enumerate(found.conflicts, start=1):
        which = "cannot hold together" if len(rules) > 1 else "cannot hold"
        heading = f"conflict {k}" if len(found.conflicts) > 1 else "conflict"
        console.print(f"\n{heading}: {which}, and each is needed for it", style="bold")
        for rule in rules:
            console.print(f"  {clash_line(instance, rule)}", soft_wrap=True)
    for heading, some in (("smallest change", found.relaxation), ("or", found.remedies)):
        if some:
            console.print(f"\n{heading}", style="bold")
        for remedy in some:
            console.print(f"  {remedy_line(remedy)}", soft_wrap=True)


def clash_line(instance: Instance, rule: Clash) -> str:
    """Write a rule of a conflict: ``capacity on rack r2.memory: 412 GB needed, 384 …``."""
    if rule.rule == "allowed":
        more = "" if rule.needed is None else f": {number(rule.needed)} would have to go elsewhere"
        return printable(f"allowed for {rule.where}{more}")
    needed, available = clash_figures(instance, rule)
    return printable(f"{rule.rule} on {rule.where}: {needed} needed, {available} available")


def clash_figures(instance: Instance, rule: Clash) -> tuple[str, str]:
    """Write what is needed of a rule of a conflict, and what there is, with units."""
    if rule.rule == "allowed":
        told = "–" if rule.needed is None else f"{number(rule.needed)} elsewhere"
        return told, "–"
    unit = _unit(instance, rule)
    needed = f"more{unit}" if rule.needed is None else quantity(rule.needed, unit.strip(), 6)
    return needed, quantity(rule.available, unit.strip(), 6)


def _unit(instance: Instance, rule: Clash) -> str:
    if rule.resource is not None:
        unit = instance.units.get(rule.resource, "")
        return f" {printable(unit)}" if 0 < len(unit) <= 24 and "(" not in unit else ""
    kind = {"max_load_distance": "resource", "links": "rate"}
    kind |= {budget.name: "state" for budget in BUDGETS if budget.column}
    return unit_of(instance, kind[rule.rule]) if rule.rule in kind else ""


def remedy_line(remedy: Remedy) -> str:
    """Write what would help."""
    part = "" if remedy.enough else " (against this conflict)"
    if remedy.rule == "nodes":
        return printable(f"add {number(remedy.by)} × {remedy.where}{part}")
    if remedy.to is None:
        words = _GIVEN_UP[remedy.rule].format(by=number(remedy.by))
        return printable(f"{remedy.rule} for {remedy.where}: {words}{part}")
    if remedy.rule == "parallelism":
        return printable(
            f"raise the parallelism of {remedy.where} by {number(remedy.by)} to {number(remedy.to)}"
        )
    verb = "raise" if remedy.by > 0 else "lower"
    share = "" if remedy.share is None else f" ({percent(remedy.share)})"
    return printable(
        f"{verb} {remedy.rule} on {remedy.where} by {number(abs(remedy.by))} to "
        f"{number(remedy.to, 9)}{share}{part}"
    )


def _print_plan(console: Console, instance: Instance, found: Explanation, *, full: bool) -> None:
    assert found.evaluation is not None
    assert found.objective is not None
    objective, shown = found.objective, None if full else SHOWN
    console.print(objective_line(instance, found), soft_wrap=True)
    print_violations(console, found.evaluation.violations)
    print_carries(console, found.evaluation)
    if found.moves:
        console.print()
        table = plain_table(["task", "from", "to", "undone alone"], right=[])
        moves = found.moves[:shown]
        for move in moves:
            ends = (name(end) for end in move_ends(instance, move))
            table.add_row(*ends, worth_text(instance, objective, move))
        console.print(table)
        print_rest(console, len(found.moves) - len(moves), "move", "--full")
    elif instance.has_current:
        console.print("no moves: the current placement stays")
    if found.binding:
        console.print("\nwhat binds", style="bold")
        told = found.binding[:shown]
        for rule in told:
            line = f"  {rule.rule} on {printable(rule.where)}: {number(rule.used, 6)} of "
            line += number(rule.available, 6)
            if rule.buys:
                gain = figure(instance, objective.unit, rule.buys)
                line += f"; {number(rule.more)} more buys {gain}"
            console.print(line, soft_wrap=True)
        print_rest(console, len(found.binding) - len(told), "rule", "--full")


def objective_line(instance: Instance, found: Explanation) -> str:
    """Write what the plan reaches, and what the bound says is left."""
    assert found.evaluation is not None
    assert found.objective is not None
    objective = found.objective
    value = found.evaluation.objective(objective.name)
    line = f"{objective.label} {figure(instance, objective.unit, value)}"
    if found.bound is not None:
        line += f", proven bound {figure(instance, objective.unit, found.bound)}"
        line += f": at most {gap_text(objective, found.gap)} is left"
    return line


def move_ends(instance: Instance, move: Worth) -> tuple[str, str, str]:
    """Name the task of a move, and where it goes from and to."""
    tasks, nodes = instance.tasks.ids, instance.nodes.ids
    return tasks[move.task], nodes[move.source], nodes[move.target]


def worth_text(instance: Instance, objective: Figure, move: Worth) -> str:
    """Write what undoing a move alone does: ``costs 40 % of a core, breaks sets``."""
    worth = "–"
    if move.worth is not None:
        gain = figure(instance, objective.unit, abs(move.worth))
        worth = f"costs {gain}" if move.worth > 0 else f"gains {gain}"
        worth = "costs nothing" if move.worth == 0 else worth
    return f"{worth}, breaks {', '.join(move.breaks)}" if move.breaks else worth
