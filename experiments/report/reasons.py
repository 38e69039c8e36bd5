"""Per case: what holds the best plan, or why there is none."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from experiments.report.database import read_results
from experiments.report.tables import Part, Section
from experiments.sweep.store import kept_instances
from streamplace.explain.text import (
    SHOWN,
    clash_figures,
    move_ends,
    objective_line,
    remedy_line,
    worth_text,
)
from streamplace.present.numbers import plural
from streamplace.present.table import Column, Table, row
from streamplace.present.tables import carries_line, figure

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from experiments.report.findings import Findings, Record
    from formulations.conflicts.conflict import Clash
    from optim.format.instance import Instance
    from streamplace.explain.explanation import Explanation

MOST_CASES = 60
"""Cases that are explained."""
SECONDS, ALL_SECONDS = 10.0, 60.0
"""For the conflicts of a case, and of all together."""
_MOST_WORK = 20_000_000
"""Tasks × moves up to which the worth of moves is reported."""

_TEXT = (
    "Of each case the best plan by the objective that most runs have: the bottleneck, which "
    "rules leave no room, and what undoing each move alone would do. Where there is no plan: rules "
    "that cannot hold together, each needed for that, and the smallest change that would help."
)


def why_section(findings: Findings, folder: Path) -> Section | None:
    """Explain the first cases; ``None`` where the folder keeps no instance of them."""
    chosen = {record["problem"]: record for record in findings.chosen}
    cases = [case for case in findings.labels.cases if case.problem in chosen]
    records = [chosen[case.problem] for case in cases[:MOST_CASES]]
    instances = kept_instances(folder, {record["instance_sha256"] for record in records})
    plans = _plans(folder, {record["run_key"] for record in records if record["has_plan"]})
    ends = time.perf_counter() + ALL_SECONDS
    parts = []
    for number, (case, record) in enumerate(zip(cases, records, strict=False)):
        instance = instances.get(record["instance_sha256"])
        if instance is not None:
            parts.append(_part(case.name, number, record, instance, plans, ends))
    text = _TEXT
    if len(cases) > MOST_CASES:
        text += f" The first {MOST_CASES} of {len(cases):,} cases."
    return Section("why", "Why, case by case", text, parts=tuple(parts)) if parts else None


def _plans(folder: Path, keys: Collection[str]) -> dict[str, dict[str, str]]:
    """Return where each task is in the plans of some runs, by key; plans of threads have none."""
    found = {}
    for key, result in read_results(folder, keys).items():
        plan = json.loads(result or "{}").get("plan") or {}
        found[key] = plan.get("assignment") or {}
    return found


def _part(
    title: str,
    number: int,
    record: Record,
    given: Instance,
    plans: dict[str, dict[str, str]],
    ends: float,
) -> Part:
    from optim.rules import without_limits

    instance = without_limits(given, [name for name in record["ignored"].split(", ") if name])
    if not record["has_plan"]:
        left = min(SECONDS, ends - time.perf_counter())
        return _conflicts(title, number, instance, left, proven=record["none_exists"])
    if not instance.num_tasks or not plans.get(record["run_key"]):
        return Part(title, f"the best plan is of threads, by {record['contestant']}")
    return _plan(title, number, record, instance, plans[record["run_key"]])


def _plan(
    title: str, number: int, record: Record, instance: Instance, assignment: dict[str, str]
) -> Part:
    from optim import Plan
    from streamplace.explain.explanation import why_plan

    node = Plan(instance.name, assignment).node_indices(instance)
    moved = int(((instance.tasks.node != node) & (instance.tasks.node >= 0)).sum())
    few = moved * instance.num_tasks <= _MOST_WORK
    found = why_plan(instance, record["method"], node, record["objective_name"], worths=few)
    assert found.objective is not None
    assert found.evaluation is not None
    bound = record["best_bound"]
    reference = found.objective.reference_of(found.evaluation)
    gap = found.objective.gap(found.evaluation.objective(found.objective.name), bound, reference)
    told = objective_line(instance, replace(found, bound=bound, gap=gap))
    note = f"{told}; {plural(moved, 'move')}, {plural(len(found.binding), 'rule')} that bind"
    lines = [f"Plan of {record['contestant']}.", *_fullest(instance, found)]
    if not few:
        lines.append("What single moves are worth is left out: too many moves of too many tasks.")
    return Part(title, note, tuple(lines), tuple(_tables(number, instance, found)))


def _fullest(instance: Instance, found: Explanation) -> Iterator[str]:
    """Say where the bottleneck is: the fullest resource, and what the input fills first."""
    assert found.evaluation is not None
    shares = [
        (share, resource, node)
        for node, used in (found.evaluation.utilisation or {}).items()
        for resource, share in used.items()
    ]
    if shares:
        share, resource, node = max(shares)
        yield f"Bottleneck: {resource} of {node}, {figure(instance, 'share', share)} used."
    carries = carries_line(found.evaluation)
    if carries is not None:
        yield carries.plain.replace("bottleneck  ", "As the input grows, the bottleneck is ") + "."


_MOVE_COLUMNS = (
    *(Column(key, key.capitalize()) for key in ("task", "from", "to")),
    Column("worth", "Undone alone"),
)
_BINDING_COLUMNS = (
    Column("rule", "Rule"), Column("where", "On"),
    Column("used", "Used", "number"), Column("available", "Of", "number"),
)  # fmt: skip
_CLASH_COLUMNS = (
    Column("rule", "Rule"), Column("where", "On"),
    Column("needed", "Needed"), Column("available", "Available"),
)  # fmt: skip


def _tables(number: int, instance: Instance, found: Explanation) -> Iterator[Table]:
    """Give the moves that are worth most, and the rules that leave no room."""
    assert found.objective is not None
    if found.moves:
        moves = tuple(
            row(*move_ends(instance, move), worth_text(instance, found.objective, move))
            for move in found.moves[:SHOWN]
        )
        title, more = "Moves, the most worth first", _rest(len(found.moves), "move")
        yield Table(f"why-{number}-moves", title, _MOVE_COLUMNS, moves, more)
    if found.binding:
        rules = tuple(row(b.rule, b.where, b.used, b.available) for b in found.binding[:SHOWN])
        title, more = "Rules that leave no room", _rest(len(found.binding), "rule")
        yield Table(f"why-{number}-binding", title, _BINDING_COLUMNS, rules, more)


def _rest(count: int, noun: str) -> str:
    return f"And {plural(count - SHOWN, f'more {noun}')}." if count > SHOWN else ""


def _conflicts(
    title: str, number: int, instance: Instance, seconds: float, *, proven: bool
) -> Part:
    from streamplace.explain.explanation import why_infeasible

    note = "infeasible" if proven else "no method has a plan"
    found = why_infeasible(instance, seconds) if seconds > 0 else None
    if found is not None and found.feasible and not proven:
        return Part(title, f"{note}, though one exists that keeps every rule")
    if found is None or not found.conflicts:
        return Part(title, f"{note}; which rules clash was not decided in the time given")
    names = ", ".join(dict.fromkeys(rule.rule for rules in found.conflicts for rule in rules))
    helps = (f"Would help: {remedy_line(r)}." for r in (*found.relaxation, *found.remedies))
    tables = (_clashes(f"why-{number}-{k}", instance, r) for k, r in enumerate(found.conflicts))
    return Part(title, f"{note}: {names}", tuple(helps), tuple(tables))


def _clashes(key: str, instance: Instance, rules: tuple[Clash, ...]) -> Table:
    title = "Cannot hold together" if len(rules) > 1 else "Cannot hold"
    rows = tuple(row(r.rule, r.where, *clash_figures(instance, r)) for r in rules)
    return Table(key, title, _CLASH_COLUMNS, rows)
