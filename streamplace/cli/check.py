"""``streamplace check``: is an instance sound, is a plan feasible?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optim import evaluate
from optim.errors import ExitCode, Problem
from optim.format.tables import SET_RULES
from optim.referee import evaluate_indices
from optim.rules import SLOTS, budgets, hopeless, without_limits
from streamplace.present.arguments import (
    add_ignore,
    add_instance,
    add_json,
    declare,
    load_instance,
    load_plan,
)
from streamplace.present.numbers import listed, number, percent, plural
from streamplace.present.streams import answer_console, print_json, problem_lines
from streamplace.present.tables import print_reasons, print_undrained, print_verdict, size_line

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from optim.format.instance import Instance
    from optim.referee import Evaluation
    from optim.rules.base import Violation

EXAMPLES = """\
examples:
  streamplace check cluster.json
  streamplace check cluster.json.gz plan.json

exit codes: 0 valid, and the plan (if given) feasible; 2 invalid input; 3 no plan can exist;
4 the plan, or without one the current placement, breaks a rule"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_instance(parser)
    declare(parser, "PLAN", "a plan to check", nargs="?")
    add_ignore(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Validate an instance, look for what is suspicious, and judge a plan where one is given."""
    instance = load_instance(args.instance)
    relaxed = without_limits(instance, args.ignore)
    evaluation = None
    if args.plan is not None:
        evaluation = evaluate(instance, load_plan(args.plan), args.ignore)
    reasons = hopeless(relaxed)
    current = None if args.plan is not None else current_violations(relaxed)
    show = _print_json if args.json else _print_text
    show(instance, suspicions(relaxed), reasons, evaluation, current)
    if evaluation is not None:
        return int(ExitCode.OK if evaluation.feasible else ExitCode.NO_PLAN)
    if reasons:
        return int(ExitCode.INFEASIBLE)
    return int(ExitCode.NO_PLAN if current else ExitCode.OK)


def _print_json(
    instance: Instance,
    warnings: Sequence[Problem],
    reasons: Sequence[Violation],
    evaluation: Evaluation | None,
    current: Sequence[Violation] | None,
) -> None:
    judged = None if evaluation is None else evaluation.violations
    document = {
        "instance": instance.name,
        "instance_sha256": instance.sha256,
        "nodes": instance.num_nodes,
        "tasks": instance.num_tasks,
        "operators": instance.num_operators,
        "resources": list(instance.resources),
        "warnings": [vars(problem) for problem in warnings],
        "infeasible": [reason.to_dict() for reason in reasons],
        "current_feasible": None if current is None else not current,
        "feasible": evaluation and evaluation.feasible,
        "drained": evaluation and evaluation.drained,
        "undrained": evaluation and evaluation.undrained,
        "violations": judged if judged is None else [violation.to_dict() for violation in judged],
    }
    print_json(document)


def _print_text(
    instance: Instance,
    warnings: Sequence[Problem],
    reasons: Sequence[Violation],
    evaluation: Evaluation | None,
    current: Sequence[Violation] | None,
) -> None:
    console = answer_console()
    print_undrained(console, evaluation)
    console.print(size_line(instance), soft_wrap=True)
    console.print(f"sha256 {instance.sha256}", soft_wrap=True)
    if warnings:
        console.print(
            f"\nvalid, but suspicious: {plural(len(warnings), 'warning')}", style="yellow"
        )
        console.print("\n".join(problem_lines(list(warnings))), soft_wrap=True)
    if reasons:
        print_reasons(console, reasons)
    if evaluation is not None:
        console.print()
        print_verdict(console, evaluation)
    elif not reasons:
        broken = ", but the current placement violates a rule (solve repairs it)" if current else ""
        console.print(f"valid{broken}", soft_wrap=True)


NEARLY_FULL = 0.95
LARGE_TASK = 0.9
WIDE_RANGE = 1e9
_NAMED = 3


def suspicions(instance: Instance) -> list[Problem]:
    """Look for what a person would want to be asked about.

    Returns path, value, reason and what to look at; empty when nothing is odd.
    """
    checks = (_resources, _nodes, _tasks, _traffic, _sets, _current, _limits, _models)
    return [problem for check in checks for problem in check(instance)]


def _resources(instance: Instance) -> Iterator[Problem]:
    staying = instance.open_nodes
    for r, resource in enumerate(instance.resources):
        room = instance.headroom[staying, r]
        load = float(instance.total_load[r])
        path = f"resources[{r}]"
        if not np.isfinite(room).any() and load > 0:
            remedy = f"give nodes a capacity.{resource}"
            yield Problem(path, resource, "is bounded on no node", remedy)
            continue
        total = float(np.maximum(room, 0).sum())
        # above the total it is no warning but a proof: `hopeless` has it
        if np.isfinite(total) and NEARLY_FULL * total < load <= total:
            part = f"{percent(load / total)} of the capacity of staying nodes ({number(total)})"
            reason = f"is nearly full: load {number(load)} is {part}"
            remedy = "a plan may be hard to find, or there may be none"
            yield Problem(path, resource, reason, remedy)
        amounts = np.concatenate([instance.tasks.load[:, r], room[room > 0]])
        yield from _wide(path, resource, amounts)


def _wide(path: str, value: str | None, figures: np.ndarray) -> Iterator[Problem]:
    used = figures[(figures > 0) & np.isfinite(figures)]
    least, most = float(used.min(initial=np.inf)), float(used.max(initial=0.0))
    if most > WIDE_RANGE * least:
        span = f"spans {number(least)} to {number(most)}"
        reason = f"{span}, a range above 1e9, which solvers get wrong"
        yield Problem(path, value, reason, "check the units")


def _nodes(instance: Instance) -> Iterator[Problem]:
    nodes = instance.nodes
    has_slots = nodes.slots >= 0
    for i in np.flatnonzero(~has_slots & bool(has_slots.any()))[:_NAMED]:
        yield Problem(f"nodes[{i}].slots", nodes.ids[i], "is not given, though other nodes have it")
    for i in np.flatnonzero(nodes.slots == 0)[:_NAMED]:
        yield Problem(f"nodes[{i}].slots", nodes.ids[i], "is 0: the node can take no task")
    full = (instance.headroom <= 0) & (instance.tasks.load.sum(axis=0) > 0)
    for i, r in np.argwhere(full)[:_NAMED]:
        if not nodes.leaving[i]:
            path = f"nodes[{i}].capacity.{instance.resources[r]}"
            yield Problem(path, nodes.ids[i], "leaves no room beside the background load")
    if instance.num_nodes and not instance.open_nodes.any():
        yield Problem("nodes", None, "are all leaving: no node is left to move to")


def _tasks(instance: Instance) -> Iterator[Problem]:
    load, ids = instance.tasks.load, instance.tasks.ids
    if not len(load):
        return
    for r, resource in enumerate(instance.resources):
        room = instance.headroom[instance.open_nodes, r]
        largest = float(room.max()) if len(room) else 0.0
        if not 0 < largest < np.inf:
            continue
        large = np.flatnonzero((load[:, r] > LARGE_TASK * largest) & (load[:, r] <= largest))
        if len(large):
            need = f"{'needs' if len(large) == 1 else 'need'} more than {percent(LARGE_TASK)}"
            reason = f"{need} of the largest node's {resource} ({number(largest)})"
            remedy = "cut the operator into more tasks"
            yield Problem(f"tasks {_names(ids, large)}", None, reason, remedy)
    idle = np.flatnonzero((load == 0).all(axis=1))
    if len(idle):
        reason = "have no load: no capacity limits them"
        yield Problem(f"tasks {_names(ids, idle)}", None, reason)
    restricted, stay = instance.tasks.restricted.tolist(), instance.open_nodes
    # all nodes that they may be on are to be emptied
    stuck = [t for t in restricted if not (instance.allowed_mask(t) & stay).any()]
    if stuck:
        yield Problem(f"tasks {_names(ids, stuck)}", None, "may only go to leaving nodes")


def _traffic(instance: Instance) -> Iterator[Problem]:
    rates = np.array([s.rate for s in instance.streams if not s.replaced], dtype=np.float64)
    carries = instance.num_tasks and (len(rates) or len(instance.traffic.rate))
    if carries and not instance.has_traffic:
        yield Problem("streams", None, "carry nothing: all rates are 0")
    yield from _wide("streams and traffic", None, np.concatenate([rates, instance.traffic.rate]))


def _sets(instance: Instance) -> Iterator[Problem]:
    """Sets that forbid nothing: every plan satisfies them."""
    tables = (instance.sets, instance.slot_sets)
    for table, i in ((each, i) for each in tables for i in range(len(each.ids))):
        rule, limit, size = SET_RULES[table.rule[i]], int(table.limit[i]), len(table.tasks_of(i))
        path, members = f"sets[{table.entry[i]}]", plural(size, "member")
        if rule == "apart" and limit >= size:
            yield Problem(f"{path}.at_most", limit, f"binds nothing: the set has {members}")
        elif rule == "spread" and limit <= 1:
            reason = "binds nothing: tasks are on one place at least"
            yield Problem(f"{path}.at_least", limit, reason)
        elif rule == "together" and size <= 1:
            yield Problem(path, table.ids[i], f"binds nothing: the set has {members}")


def _current(instance: Instance) -> Iterator[Problem]:
    placed = instance.tasks.node >= 0
    missing = np.flatnonzero(~placed)
    if len(missing) and placed.any():
        given = f"is given for {placed.sum():,} of {plural(len(placed), 'task')}"
        have = f"{_names(instance.tasks.ids, missing)} {'has' if len(missing) == 1 else 'have'}"
        yield Problem("tasks[].node", None, f"{given}; {have} none")
    # what is broken has to be mended
    broken, what = current_violations(instance) or (), "the current placement breaks"
    for violation in broken[:_NAMED]:
        needs = f"needs {number(violation.needed, 6)}, has {number(violation.available, 6)}"
        yield Problem("tasks[].node", violation.where, f"{what} {violation.rule}: {needs}")
    if len(broken) > _NAMED:
        rest = plural(len(broken) - _NAMED, "more limit")
        yield Problem("tasks[].node", None, f"{what} {rest}")


def current_violations(instance: Instance) -> Sequence[Violation] | None:
    """Return what the current placement breaks; ``None`` where a task has no node."""
    if not instance.num_tasks or (instance.tasks.node < 0).any():
        return None
    slot = instance.tasks.slot
    dealt = (slot >= 0).all() and SLOTS.present(instance) is not None
    placed = slot if dealt else None
    return evaluate_indices(instance, instance.tasks.node, placed).violations


def _limits(instance: Instance) -> Iterator[Problem]:
    limits = instance.limits
    for budget in budgets(instance):
        if not (instance.tasks.node >= 0).any():
            reason = "binds nothing: no task has a node yet"
            yield Problem(f"limits.{budget.name}", budget.limit, reason)
    for r in np.flatnonzero(np.asarray(limits.max_utilisation) > 1):
        path = f"limits.max_utilisation.{instance.resources[r]}"
        yield Problem(path, float(limits.max_utilisation[r]), "allows more than the capacity")


def _models(instance: Instance) -> Iterator[Problem]:
    used = set(instance.operators.model)
    for name, points in instance.models.items():
        if name not in used:
            yield Problem(f"models.{name}", None, "is the model of no operator")
        over = [p.threads for p in points if max(p.cpu, p.memory) > 100]
        if over:
            reason = f"needs more than a slot at {plural(over[0], 'thread')}"
            remedy = "figures are percent of one slot; such thread counts are not used"
            yield Problem(f"models.{name}", None, reason, remedy)
    if instance.models and not instance.num_tasks and not instance.input_rate:
        yield Problem("input_rate", instance.input_rate, "is not given: no threads can be planned")


def _names(ids: tuple[str, ...], which: np.ndarray | list[int]) -> str:
    return listed([ids[int(t)] for t in which], _NAMED)
