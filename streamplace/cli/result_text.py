"""A result as a person reads it: status first, then why it is good, then what it changes."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from rich.text import Text

from optim.errors import StreamplaceError
from optim.figures.catalogue import BY_NAME, find_objective
from optim.methods.choose import choose_method
from optim.referee import Termination, evaluate_indices
from optim.rules import without_limits
from optim.rules.capacity import NO_NODE
from optim.solvers.interface import SOLVERS, capabilities
from streamplace.explain.what_if import words
from streamplace.present.numbers import duration, listed, number, plural
from streamplace.present.streams import answer_console, name, plain_table, print_json, printable
from streamplace.present.tables import (
    figure,
    gap_text,
    print_measured,
    print_moves,
    print_reasons,
    print_undrained,
    print_verdict,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from optim.format.changes import Change
    from optim.format.instance import Instance
    from optim.referee import Evaluation, Result
    from streamplace.explain.explanation import Explanation

_SHOWN_UNPLACED = 10
_SAME = 1e-9
_MORE = "`streamplace explain INSTANCE`, with the same what-if options, takes longer and finds more"
_PROOF = "an exact method proves whether a plan exists"

_WORDS = {
    Termination.OPTIMAL: ("optimal", "bold green"),
    Termination.GAP_REACHED: ("gap reached", "bold green"),
    Termination.TIME_LIMIT: ("time limit", "bold yellow"),
    Termination.ITERATION_LIMIT: ("iteration limit", "bold yellow"),
    Termination.HEURISTIC: ("heuristic", "bold cyan"),
    Termination.INFEASIBLE: ("infeasible", "bold red"),
    Termination.INTERRUPTED: ("interrupted", "bold yellow"),
    Termination.ERROR: ("error", "bold red"),
}


def print_result(
    console: Console,
    instance: Instance,
    result: Result,
    output: str | None = None,
    why: Explanation | None = None,
) -> None:
    """Print a result, the file its plan was written to, and the conflicts that were found."""
    if result.departs:
        console.print(departs_line(result.departs), soft_wrap=True)
    if result.mending is not None:
        console.print(str(result.mending), style="bold yellow", soft_wrap=True, markup=False)
    print_undrained(console, result.evaluation)
    console.print(_status(instance, result), soft_wrap=True)
    objective = result.objective.name if result.objective else None
    columns = _columns(instance, result)
    if result.termination is Termination.INFEASIBLE:
        if why is not None:
            from streamplace.explain.explanation import print_conflicts  # only now: its models

            # conflicts add up the room of all nodes, of which such a task says nothing
            for reason in (one for one in result.reasons if NO_NODE in one.remark):
                console.print(f"\n{printable(str(reason))}", soft_wrap=True)
            print_conflicts(console, instance, why)
        elif result.reasons:
            print_reasons(console, result.reasons)
        console.print(_MORE, style="dim", soft_wrap=True)
    if result.unplaced:
        shown = printable(listed(result.unplaced, _SHOWN_UNPLACED))
        console.print(f"{plural(len(result.unplaced), 'task')} placed nowhere: {shown}")
        console.print(f"--repair completes the plan; {_PROOF}")
    if result.evaluation is not None:
        print_measured(console, instance, result.plan, columns, objective)
        _print_moves(console, instance, result)
        print_verdict(console, result.evaluation)
        mends_most = result.mending is not None and result.mending.least
        if not (result.evaluation.feasible or result.repaired or mends_most):
            console.print(f"--repair lets repair mend the plan; {_PROOF}")
    _print_tail(console, result, output)
    if len(columns) > 1:
        _print_traded(console, instance, result, columns[0][1])


def departs_line(departs: str, case: str = "") -> Text:
    """Say first that a changed instance was not solved as the case as it is, and why."""
    text = printable(f"{case}: {departs}" if case else departs)
    return Text.assemble(("not as before the change", "bold yellow"), f"  {text}")


def _status(instance: Instance, result: Result) -> Text:
    word, style = _WORDS[result.termination]
    text = Text.assemble((_claimed(result, word), style))
    if result.plan is None:
        text.append(": no plan")
    if result.objective is None:
        return text
    objective = find_objective(result.objective.name)
    value = figure(instance, objective.unit, result.objective.value)
    if result.objective.value is not None:
        text.append(f"  {objective.levels[0].name} {value}")
        for level in objective.further:
            later = None if result.evaluation is None else level.read(result.evaluation)
            text.append(f", then {level.name} {figure(instance, level.unit, later)}")
    bound = figure(instance, objective.unit, result.bound)
    of = " (of the restricted problem)" if result.bound_of == "restricted" else ""
    if result.bound is not None:
        proved = "certified " if result.bound_by == "certificate" else ""
        text.append(f"  {proved}bound {bound}{of}")
    if result.gap is not None:
        text.append(f"  gap {gap_text(objective, result.gap)}")
    elif result.plan is not None and result.bound is None:
        text.append("  no bound")
    if result.certified_bound is not None and result.bound_by != "certificate":
        certified = figure(instance, objective.unit, result.certified_bound)
        text.append(f"  certified bound {certified}")
        if result.certified_gap is not None:
            text.append(f"  gap {gap_text(objective, result.certified_gap)}")
    return text


def _claimed(result: Result, word: str) -> str:
    """Say who claims an optimum, or that no plan exists: `optimal (HiGHS)`, `optimal (certified)`.

    Reasons in figures need no claim.
    """
    if result.termination not in (Termination.OPTIMAL, Termination.INFEASIBLE):
        return word
    if result.bound_by == "certificate":
        return f"{word} (certified)"
    if result.reasons:
        return word
    # of a method without solver its own name says who claims it
    second = " and a second solver" if result.bound_by == "two solvers" else ""
    name = (result.solver or result.method).partition(" ")[0]
    by = capabilities(name).title.partition(" ")[0] if name in SOLVERS else name
    return f"{word} ({by}{second})"


def _columns(instance: Instance, result: Result) -> list[tuple[str, Evaluation]]:
    """Return what the plan is measured as, and before it the current placement, if there is one."""
    if result.evaluation is None:
        return []
    columns = [("plan", result.evaluation)]
    if instance.has_current:
        relaxed = without_limits(instance, result.ignored)
        objective = result.objective.name if result.objective else ""
        columns.insert(0, ("now", evaluate_indices(relaxed, instance.tasks.node, None, objective)))
    return columns


def _print_moves(console: Console, instance: Instance, result: Result) -> None:
    """Print what the plan moves; switches to a copy are no moves, nor is a first place."""
    nowhere = int((instance.tasks.node < 0).sum())
    if nowhere == instance.num_tasks:
        return
    first = f"; {plural(nowhere, 'task')} without a node placed" if nowhere else ""
    if not result.moves:
        console.print(f"no moves: the current placement stays{first}\n")
        return
    assert result.evaluation is not None
    switches = result.evaluation.switches or 0
    cost = figure(instance, "state", sum(move.cost for move in result.moves))
    text = f"{plural(len(result.moves) - switches, 'move')} of {plural(instance.num_tasks, 'task')}"
    copied = f"; {plural(switches, 'task')} to a copy of its state, no move" if switches else ""
    console.print(f"{text}, cost {cost}{copied}{_most(result)}{first}")
    print_moves(console, [(m.task, m.source, m.target, m.cost) for m in result.moves])
    console.print()


def _most(result: Result) -> str:
    """Say how many of the moves bring most of the gain, where that is fewer than all."""
    enough, count = result.most_of_gain or (0, 0)
    return f"; {enough} of them bring 95 % of the gain" if enough < count else ""


def _print_tail(console: Console, result: Result, output: str | None) -> None:
    for note in result.notes:
        console.print(f"note     {printable(note)}", soft_wrap=True)
    if result.repaired:
        console.print("note     repair completed the plan")
    if result.ignored:
        console.print(f"note     ignored: {', '.join(result.ignored)}")
    start = result.warm_start
    if start is not None:
        state = {True: "accepted", False: "not accepted", None: "acceptance unknown"}
        text = f"{printable(start.method)} at {number(start.objective)}: {state[start.accepted]}"
        console.print(f"note     warm start {text}")
    times = ", ".join(f"{what} {duration(spent)}" for what, spent in result.times.items())
    console.print(f"times    {times}", soft_wrap=True)
    if output is not None and result.plan is not None:
        line = Text.assemble("plan     ", name(output), f" (sha256 {result.plan.sha256[:12]}…)")
        console.print(line, soft_wrap=True)
    elif output is not None:
        console.print(f"plan     none, so {printable(output)} was not written", soft_wrap=True)


def _print_traded(console: Console, instance: Instance, result: Result, before: Evaluation) -> None:
    """Say that a plan carries less than the present placement, and which objective does not."""
    objective = result.objective.name if result.objective is not None else ""
    rate = BY_NAME["sustainable_rate"]
    if result.plan is None or result.plan.threads is not None:
        return
    if objective in (rate.name, "rate_after_loss"):
        return
    assert result.evaluation is not None
    old, plan = (rate.of(evaluation.sustainable_rate) for evaluation in (before, result.evaluation))
    # the present placement carries more, beyond rounding
    if not (old.gain_over(plan) or 0.0) > _SAME * (old.value or 0.0):
        return
    with suppress(StreamplaceError):  # without a method for it, it is no way out
        choose_method(without_limits(instance, result.ignored), None, rate.name)
        less, more = (figure(instance, rate.unit, value.value) for value in (plan, old))
        console.print(
            f"traded   {rate.label} {more} now, {less} with this plan; --objective {rate.name} "
            "brings more",
            soft_wrap=True,
        )


def print_cases(
    cases: Sequence[tuple[Sequence[Change], Instance, Result]], *, as_json: bool
) -> None:
    """Print what came out of several cases: one JSON document, or a table with a line each."""
    if as_json:
        print_json([{"case": words(case), **result.to_dict()} for case, _, result in cases])
        return
    heads = ["case", "method", "ended", "objective", "bound", "moves", "highest utilisation"]
    table = plain_table(heads, right=heads[3:])
    for case, _, result in cases:
        if result.departs:
            answer_console().print(departs_line(result.departs, words(case)), soft_wrap=True)
    for case, instance, result in cases:
        objective, evaluation = result.objective, result.evaluation
        value = (
            "–"
            if objective is None
            else figure(instance, find_objective(objective.name).unit, objective.value)
        )
        broken = result.mending is not None and not result.feasible
        ended = f"{result.termination}, still broken" if broken else str(result.termination)
        label = "" if objective is None else f"{find_objective(objective.name).label} "
        table.add_row(
            words(case), result.method, ended,
            f"{label}{value}" if result.plan else "no plan", number(result.bound),
            f"{len(result.moves):,}" if result.plan else "–",
            figure(instance, "share", evaluation and evaluation.max_utilisation),
        )  # fmt: skip
    answer_console().print(table)
