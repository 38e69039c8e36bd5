"""What is to be reported of an instance, and of a plan for it, gathered without layout."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from formulations.conflicts.excess import raised
from formulations.conflicts.remedies import (
    clashes_of_threads,
    find_conflicts,
    remedies,
    violation_of,
)
from formulations.conflicts.rule_instances import atoms_of
from optim import solve
from optim.figures.catalogue import find_objective
from optim.figures.measures import TOLERANCE, moved_tasks, slack, slot_places, workers_restarted
from optim.format.html import figure, page
from optim.format.tables import APART, SPREAD
from optim.kernels.repair import warm_up
from optim.methods.registry import get_method, method_names
from optim.methods.solve import without_plan
from optim.referee import evaluate_indices
from optim.rules import (
    BUDGETS,
    LIMITS,
    Form,
    broken,
    budgets,
    inflow_limits,
    most_restarts,
    node_counts,
    rules_of,
)
from optim.rules.placement import Placement
from optim.rules.sets import places_of
from streamplace.present.numbers import number, percent, quantity
from streamplace.present.streams import name, plain_table, printable
from streamplace.present.tables import figure as figure_text
from streamplace.present.tables import (
    gap_text,
    print_carries,
    print_rest,
    print_violations,
    size_line,
    unit_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from formulations.conflicts.conflict import Clash
    from formulations.conflicts.remedies import Remedy
    from optim.figures.figure import Figure
    from optim.format.instance import Instance
    from optim.format.tables import Ints, SetTable
    from optim.methods.registry import Settings
    from optim.referee import Evaluation, Result
    from optim.rules.budget import Budget
    from streamplace.explain.what_if import Carried

_AT_ONCE = 1.0
"""Seconds that `solve` takes for the conflicts of an infeasible problem."""
_REMEDIES = 0.25
"""Share of the time for what would help."""


@dataclass(frozen=True)
class Explanation:
    """Why there is no plan, or what a plan's moves are worth and what binds it."""

    #: Whether there is a plan; ``None`` where that was not decided in the time given.
    feasible: bool | None
    #: Minimal sets of rules that cannot hold together, no two of which share one.
    conflicts: tuple[tuple[Clash, ...], ...] = ()
    #: The smallest change of limits after which there is a plan: one remedy a conflict.
    relaxation: tuple[Remedy, ...] = ()
    remedies: tuple[Remedy, ...] = ()  # What else would help.
    #: What moves are judged by, and the referee's figures of the plan.
    objective: Figure | None = None
    evaluation: Evaluation | None = None
    moves: tuple[Worth, ...] = ()  # What undoing each move alone would cost.
    binding: tuple[Bound, ...] = ()  # Rules that leave no room for more.
    #: What was proved of the objective, where the plan was solved for here.
    bound: float | None = None
    bound_of: str | None = None
    gap: float | None = None
    #: (T,) a placement that keeps all rules, where the search for conflicts met one.
    witness: Ints | None = None
    #: Of a changed instance: the plan in it, and in what its solve differs from that of the case as
    #: it is.
    carried: Carried | None = None
    departs: str = ""
    seconds: float = 0.0
    notes: tuple[str, ...] = field(default=())
    instance: Instance | None = field(default=None, repr=False)  # What it is of.

    def _repr_html_(self) -> str:
        words = {True: "feasible", False: "infeasible", None: "not decided in the time given"}
        report = self.clashes()
        conflicts = [(k, c) for k, some in enumerate(report["conflicts"], 1) for c in some["rules"]]
        rows: list[list[Any]] = [
            [f"conflict {k}", f"{c['rule']} on {c['where']}", figure(c["needed"]),
             figure(c["available"])]
            for k, c in conflicts
        ]  # fmt: skip
        rows += [
            ["remedy", f"{r['rule']} on {r['where']}", f"by {figure(r['by'])}",
             "given up" if r["to"] is None else f"to {figure(r['to'])}"]
            for r in (*report["relaxation"], *report["remedies"])
        ]  # fmt: skip
        rows += [
            ["binds", f"{b.rule} on {b.where}", figure(b.used), figure(b.available)]
            for b in self.binding
        ]
        title = "explanation" if self.instance is None else f"explanation of {self.instance.name}"
        if self.instance is not None:
            tasks, nodes = self.instance.tasks.ids, self.instance.nodes.ids
            rows += [
                ["move", f"{tasks[m.task]}: {nodes[m.source]} → {nodes[m.target]}",
                 f"worth {figure(m.worth)}", ", ".join(m.breaks)]
                for m in self.moves
            ]  # fmt: skip
        head = ["", "what", "needed, used", "available"] if rows else []
        return page(title, "; ".join((words[self.feasible], *self.notes)), head, rows)

    def clashes(self) -> dict[str, Any]:
        """Return conflicts, and what would help, as plain data."""
        return {
            "conflicts": [{"rules": [c.to_dict() for c in rules]} for rules in self.conflicts],
            "relaxation": [r.to_dict() for r in self.relaxation],
            "remedies": [r.to_dict() for r in self.remedies],
        }

    def to_dict(self, instance: Instance) -> dict[str, Any]:
        """Return it as plain data."""
        tasks, nodes = instance.tasks.ids, instance.nodes.ids
        evaluation = self.evaluation
        return {
            "instance": instance.name,
            "instance_sha256": instance.sha256,
            "feasible": self.feasible,
            "decided": self.feasible is not None,
            **self.clashes(),
            "plan_feasible": None if evaluation is None else evaluation.feasible,
            "violations": None
            if evaluation is None
            else [v.to_dict() for v in evaluation.violations],
            "objective": self.objective and self.objective.name,
            "value": evaluation and self.objective and evaluation.objective(self.objective.name),
            "bound": self.bound,
            "bound_of": self.bound_of,
            "gap": self.gap,
            "moves": [
                {"task": tasks[m.task], "from": nodes[m.source], "to": nodes[m.target]}
                | {"worth": m.worth, "breaks": list(m.breaks)}
                for m in self.moves
            ],
            "binding": [b.to_dict() for b in self.binding],
            "saturation": None if evaluation is None else evaluation.saturation,
            "departs": self.departs or None,
            "placed_anew": {} if self.carried is None else self.carried.placed_anew(instance),
            "unplaced": [] if self.carried is None else self.carried.unplaced(instance),
            "notes": list(self.notes),
            "seconds": self.seconds,
        }


def why_infeasible(instance: Instance, seconds: float) -> Explanation:
    """Find out whether an instance has a plan; where it has none, why and what would help.

    `seconds`: for all of it; where there is a plan a good part of it is left.
    """
    warm_up()
    began = time.perf_counter()
    if threads := clashes_of_threads(instance):
        rules, changes = zip(*threads, strict=True)
        alone = tuple((rule,) for rule in rules)
        spent = time.perf_counter() - began
        return Explanation(False, alone, changes, seconds=spent, instance=instance)
    judge, feasible, cores, clashes = find_conflicts(instance, seconds)
    atoms = judge.atoms
    best: list[Remedy] = []
    rest: list[Remedy] = []
    part = _REMEDIES * seconds / max(1, len(cores))
    for core, rules in zip(cores, clashes, strict=True):
        ranked = [r for r, _ in remedies(atoms, core, rules, part, alone=len(cores) == 1)]
        best += ranked[:1]
        rest += ranked[1:]
    # with one conflict unresolved no set of changes makes the whole feasible
    if len(best) < len(cores):
        best, rest = [], best + rest
    notes = []
    if feasible is False and not cores:
        notes.append("proved infeasible; the rules that conflict were not found in the time given")
    if cores and not best:
        notes.append("no change of one limit, nor nodes added, was found in time to be enough")
    witness = judge.ask(np.arange(len(atoms))).node if feasible else None
    return Explanation(
        feasible, tuple(clashes), tuple(best), tuple(rest), witness=witness, instance=instance,
        seconds=time.perf_counter() - began, notes=tuple(notes),
    )  # fmt: skip


def why_no_plan(
    instance: Instance, result: Result, settings: Settings
) -> tuple[Result, Explanation | None]:
    """Return a result with the rules that clash, and what would help, as found within a second."""
    solved = without_plan(instance, result, settings)
    if solved is None or (settings.target_rate is not None and clashes_of_threads(solved)):
        return result, None  # the reasons state it at the rate
    why = why_infeasible(solved, _AT_ONCE)
    if not why.conflicts:
        return result, None
    reasons = tuple(violation_of(clash) for rules in why.conflicts for clash in rules)
    return replace(result, reasons=result.reasons or reasons), why


def why_plan(
    instance: Instance,
    method: str,
    node: Ints,
    objective: str | None = None,
    *,
    slot: Ints | None = None,
    worths: bool = True,
) -> Explanation:
    """Say what each move of a plan is worth and what binds.

    `method`: what made the plan; moves are judged by what it optimises, unless an `objective` is
        named.
    `node`: (T,) node indices.
    `slot`: (T,) slots, where the plan decides them.
    `worths`: whether moves are judged, each with as many steps as there are tasks.
    """
    began = time.perf_counter()
    evaluation = evaluate_indices(instance, node, slot)
    figure = objective_of(method, objective, evaluation)
    complete = bool(len(node) and node.min() >= 0)
    # a move can be undone only if every task is somewhere
    judged = worths and complete and figure.value
    moves = worth_of_moves(instance, node, figure) if judged else []
    # unknown worths first: without that move the objective has no value at all
    moves.sort(key=lambda m: -np.inf if m.worth is None else -m.worth)
    return Explanation(
        evaluation.feasible or None,
        objective=figure,
        evaluation=evaluation,
        moves=tuple(moves),
        binding=tuple(binding_rules(instance, node, slot)),
        instance=instance,
        seconds=time.perf_counter() - began,
    )


def objective_of(method: str, requested: str | None, evaluation: Evaluation) -> Figure:
    """Return the objective that measures the gain of moves: as asked, or the method's."""
    if requested is not None:
        return find_objective(requested)
    if method in method_names():
        return find_objective(get_method(method).objective)
    name = "imc_gain" if evaluation.total_traffic else "load_distance"
    return find_objective(name)


class Worth(NamedTuple):
    """A move and what it brings."""

    #: Indices.
    task: int
    source: int
    target: int
    #: By how much the objective is worse without this one move; below 0 where it is better without.
    #: ``None`` where the objective has no value.
    worth: float | None
    breaks: tuple[str, ...]  # The rules that the plan violates without it.


def worth_of_moves(instance: Instance, node: Ints, objective: Figure) -> list[Worth]:
    """Undo each move alone, and have the referee's figures say what that costs."""
    judged = objective.binding(instance)
    before = objective.measured(Placement(instance, node))
    # what the plan breaks itself is broken by no move alone, unless it is worse without it
    broken_by_plan = {(v.rule, v.where): v.amount for v in broken(Placement(judged, node))}
    worths, trial = [], np.array(node, dtype=np.int32)
    for task in moved_tasks(instance, node).tolist():
        home = int(instance.tasks.node[task])
        trial[task] = home
        # the figure is of the whole instance: a rate is measured by the limits that do not bind it
        after = objective.measured(Placement(instance, trial.copy()))
        violations = [
            v for v in broken(Placement(judged, trial.copy()))
            if v.amount > broken_by_plan.get((v.rule, v.where), 0.0) * (1 + TOLERANCE)
        ]  # fmt: skip
        rules = tuple(dict.fromkeys(violation.rule for violation in violations))
        trial[task] = node[task]
        worths.append(Worth(task, home, int(node[task]), before.gain_over(after), rules))
    return worths


# -- which rules leave a plan no room: what each uses, and what it has -----------------------------


(_OF_INFLOW,) = rules_of({Form.INFLOW})


@dataclass(frozen=True)
class Bound:
    """A rule that leaves no room for one unit, or one task, more."""

    #: Which.
    rule: str
    where: str
    #: What the plan uses of what there is; of a least one, what it has and what it needs.
    used: float
    available: float
    #: By how much the limit was raised to solve again, and by how much the objective of the plan
    #: found then is better; ``None`` where that was not tried.
    more: float | None = None
    buys: float | None = None

    @property
    def slack(self) -> float:
        """Room that is left."""
        return abs(self.available - self.used)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {**vars(self), "slack": self.slack}


def binding_rules(instance: Instance, node: Ints, slot: Ints | None = None) -> Iterator[Bound]:
    """Yield the rules that bind: not even the least task, or one unit of a count, fits in."""
    placement = Placement(instance, node, slot)
    yield from _limits(placement)
    yield from _nodes(placement)
    yield from _sets(placement)


def _limits(placement: Placement) -> Iterator[Bound]:
    limits = placement.instance.limits
    for budget in budgets(placement.instance):
        spent = float(budget.weight[placement.migrated].sum())
        # not even the cheapest move is affordable
        if budget.limit - spent < budget.weight[budget.weight > 0].min(initial=np.inf):
            where = _place_of(placement.instance, budget)
            yield Bound(budget.name, where, spent, float(budget.limit))
    most, distance = limits.max_load_distance, placement.distance
    if most is not None and distance is not None and distance >= 0.99 * most:
        yield Bound("max_load_distance", "limits", distance, most)


def _place_of(instance: Instance, budget: Budget) -> str:
    """Name the entry of the file that sets a budget."""
    table = LIMITS[budget.name].table
    return "limits" if table == "limits" else str(getattr(instance, table).ids[budget.entry])


def _nodes(placement: Placement) -> Iterator[Bound]:
    instance, loads = placement.instance, placement.loads
    nodes, ids, task = instance.nodes, instance.nodes.ids, instance.tasks.load
    bound = nodes.capacity * instance.limits.max_utilisation
    for r, resource in enumerate(instance.resources):
        least = task[:, r][task[:, r] > 0].min(initial=np.inf)
        # tolerance of the referee, in the unit of the capacity
        noise = slack(bound[:, r])
        # room < least load of any task, beyond rounding
        full = np.isfinite(bound[:, r]) & (bound[:, r] - loads[:, r] < least - noise)
        for n in np.flatnonzero(full & placement.used):
            where = f"{ids[n]}.{resource}"
            yield Bound("capacity", where, float(loads[n, r]), float(bound[n, r]))
        floor = np.where(instance.open_nodes, nodes.min_load[:, r], 0.0)
        low = (floor > 0) & (loads[:, r] - floor < least - noise)
        for n in np.flatnonzero(low):
            yield Bound("min_load", f"{ids[n]}.{resource}", float(loads[n, r]), float(floor[n]))
    for n in np.flatnonzero((nodes.max_tasks >= 0) & (placement.counts >= nodes.max_tasks)):
        yield Bound("max_tasks", ids[n], float(placement.counts[n]), float(nodes.max_tasks[n]))
    most = inflow_limits(instance)
    if most is not None:
        inflow = np.bincount(placement.node[placement.migrated], minlength=instance.num_nodes)
        for n in np.flatnonzero((inflow >= most) & (most < instance.num_tasks)):
            yield Bound(_OF_INFLOW, ids[n], float(inflow[n]), float(most[n]))
    links = instance.links.capacity * instance.limits.max_link_utilisation
    for i in np.flatnonzero(np.isfinite(links) & (placement.crossing >= 0.99 * links)):
        yield Bound("links", instance.links.ids[i], float(placement.crossing[i]), float(links[i]))


def _sets(placement: Placement) -> Iterator[Bound]:
    instance, table = placement.instance, placement.instance.sets
    for i in range(len(table.ids)):
        node = placement.node[table.tasks_of(i)]
        yield from _set(table, i, "sets", places_of(instance, i)[node[node >= 0]])
    table = instance.slot_sets
    if placement.slot is not None:
        place = slot_places(placement.node, placement.slot)
        for i in range(len(table.ids)):
            at = place[table.tasks_of(i)]
            yield from _set(table, i, "slot_sets", at[at >= 0])
        most = most_restarts(instance)
        restarted = workers_restarted(instance, placement.node, placement.slot)
        if most is not None and restarted is not None and restarted >= most:
            (name,) = rules_of({Form.RESTARTS})
            yield Bound(name, "limits", float(restarted), float(most))
    for count in node_counts(instance):
        used = int(count.nodes(placement.node, instance.num_nodes).sum())
        if used >= count.limit > 0:
            yield Bound(count.rule, count.name, float(used), float(count.limit))


def _set(table: SetTable, i: int, rule: str, places: Ints) -> Iterator[Bound]:
    """Whether one more member on a place, or one place less, would break a set."""
    _, counts = np.unique(places, return_counts=True)
    most, limit, name = int(counts.max(initial=0)), float(table.limit[i]), table.ids[i]
    if table.rule[i] == APART and most >= limit and len(places) > 1:
        yield Bound(rule, f"{name} apart", float(most), limit)
    elif table.rule[i] == SPREAD and len(counts) <= limit:
        yield Bound(rule, f"{name} spread", float(len(counts)), limit)


_ASKED = 3
_ONE = frozenset(
    {"max_tasks", _OF_INFLOW}
    | {rule.name for rule in BUDGETS if all(limit.whole for limit in rule.limits)}
    | rules_of({Form.RESTARTS})
)


def priced(
    instance: Instance, explanation: Explanation, result: Result, seconds: float
) -> tuple[Bound, ...]:
    """Return the rules that bind, the first few with what a unit more of their limit buys.

    What it buys is the objective of a plan that was found, and judged by the referee, with that
    limit raised, against the plan's; 0 where none better was found, which proves nothing.

    `result`: of the plan: solved again is by the same method and seed.
    `seconds`: for all of it.
    """
    assert explanation.objective is not None
    assert explanation.evaluation is not None
    name, binding = explanation.objective.name, list(explanation.binding)
    value = explanation.objective.of(explanation.evaluation.objective(name))
    ends = time.perf_counter() + seconds
    indices = [i for i, bound in enumerate(binding) if _unit(instance, bound)][:_ASKED]
    for done, i in enumerate(indices):
        # what one solve leaves over goes to the next
        part = (ends - time.perf_counter()) / (len(indices) - done)
        atom, more = _unit(instance, binding[i]) or (0, 0.0)
        if value.value is None or result.gap == 0 or part <= 0:
            break
        changed = raised(atoms_of(instance), {atom: more})
        solved = solve(changed, result.method, objective=name, time_limit=part, seed=result.seed)
        if solved.evaluation is None or not solved.evaluation.feasible:
            continue
        assert solved.objective is not None
        gain = solved.objective.gain_over(value)
        buys = None if gain is None else max(0.0, gain)
        binding[i] = replace(binding[i], more=more, buys=buys)
    return tuple(binding)


def _unit(instance: Instance, bound: Bound) -> tuple[int, float] | None:
    """Return the rule instance of a limit, and by how much it is raised; ``None`` for others."""
    # that is one of what is counted, and of a sum what the least task needs beyond the room
    atoms, nodes = atoms_of(instance), instance.nodes.index
    set_here = {(b.name, _place_of(instance, b)): b for b in budgets(instance)}
    budget = set_here.get((bound.rule, bound.where))
    if budget is not None:
        candidates, index, loads = atoms.of(budget.name), budget.entry, budget.weight
    elif bound.rule in _ONE:
        candidates, index, loads = atoms.of(bound.rule), nodes.get(bound.where, 0), np.ones(1)
    elif bound.rule == "capacity":
        # NODE.RESOURCE, of which either may have dots in it
        ends = (
            (r, bound.where.removesuffix(f".{name}")) for r, name in enumerate(instance.resources)
        )
        r, node = next((r, node) for r, node in ends if node in nodes)
        candidates, index, loads = atoms.of(bound.rule, r), nodes[node], instance.tasks.load[:, r]
    else:
        return None
    atom = candidates[atoms.index[candidates] == index]
    if not len(atom):
        return None
    least = float(loads[loads > 0].min(initial=np.inf))
    # one more of what is counted; of a sum what the smallest task lacks
    more = 1.0 if bound.rule in _ONE else least - bound.slack
    return (int(atom[0]), more) if np.isfinite(more) and more > 0 else None


# -- an explanation as a person reads it: short, the cause first -----------------------------------

SHOWN = 10
_GIVEN_UP = {
    "allowed": "let {by} of the tasks go elsewhere",
    "leaving": "let {by} tasks onto leaving nodes",
    "sets": "give the set up",
    "slot_sets": "give the set up",
}


def print_explanation(
    console: Console, instance: Instance, explanation: Explanation, *, full: bool
) -> None:
    """Print why there is no plan, or what a plan's moves are worth and what binds."""
    console.print(size_line(instance), soft_wrap=True)
    if explanation.feasible is False:
        console.print("infeasible: no plan can exist", style="bold red")
        print_conflicts(console, instance, explanation)
    elif explanation.evaluation is None:
        console.print(
            "not decided in the time given: neither a plan nor a proof that there is none"
        )
    else:
        _print_plan(console, instance, explanation, full=full)
    for note in explanation.notes:
        console.print(f"note     {printable(note)}", soft_wrap=True)


def print_conflicts(console: Console, instance: Instance, explanation: Explanation) -> None:
    """Print why there is no plan, and what would help."""
    for k, rules in enumerate(explanation.conflicts, start=1):
        more = " together; without one of them, the others can" if len(rules) > 1 else ""
        heading = f"conflict {k}" if len(explanation.conflicts) > 1 else "conflict"
        console.print(f"\n{heading}: cannot hold{more}", style="bold")
        for rule in rules:
            console.print(f"  {clash_line(instance, rule)}", soft_wrap=True)
    for heading, changes in (
        ("smallest change", explanation.relaxation),
        ("or", explanation.remedies),
    ):
        if changes:
            console.print(f"\n{heading}", style="bold")
        for remedy in changes:
            console.print(f"  {remedy_line(remedy)}", soft_wrap=True)


def clash_line(instance: Instance, rule: Clash) -> str:
    """Write a rule of a conflict: ``capacity on rack r2.memory: 412 GB needed, 384 …``."""
    if rule.rule == "allowed":
        more = "" if rule.needed is None else f": {number(rule.needed)} would have to go elsewhere"
        return printable(f"allowed for {rule.place}{more}")
    needed, available = clash_figures(instance, rule)
    return printable(f"{rule.rule} on {rule.place}: {needed} needed, {available} available")


def clash_figures(instance: Instance, rule: Clash) -> tuple[str, str]:
    """Write what is needed of a rule of a conflict, and what there is, with units."""
    if rule.rule == "allowed":
        text = "–" if rule.needed is None else f"{number(rule.needed)} elsewhere"
        return text, "–"
    unit = _change_unit(instance, rule)
    needed = f"more{unit}" if rule.needed is None else quantity(rule.needed, unit.strip(), 6)
    return needed, quantity(rule.available, unit.strip(), 6)


def _change_unit(instance: Instance, rule: Clash) -> str:
    if rule.resource is not None:
        unit = instance.units.get(rule.resource, "")
        return f" {printable(unit)}" if 0 < len(unit) <= 24 and "(" not in unit else ""
    unit = LIMITS[rule.rule].unit if rule.rule in LIMITS else ""
    return unit_of(instance, unit) if unit else ""


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


def _print_plan(
    console: Console, instance: Instance, explanation: Explanation, *, full: bool
) -> None:
    assert explanation.evaluation is not None
    assert explanation.objective is not None
    objective, shown = explanation.objective, None if full else SHOWN
    console.print(objective_line(instance, explanation), soft_wrap=True)
    print_violations(console, explanation.evaluation.violations)
    print_carries(console, explanation.evaluation)
    if explanation.moves:
        console.print()
        table = plain_table(["task", "from", "to", "undone alone"], right=[])
        moves = explanation.moves[:shown]
        for move in moves:
            ends = (name(end) for end in move_ends(instance, move))
            table.add_row(*ends, worth_text(instance, objective, move))
        console.print(table)
        print_rest(console, len(explanation.moves) - len(moves), "move", "--full")
    elif instance.has_current and all(
        v.rule != "placed" for v in explanation.evaluation.violations
    ):
        console.print("no moves: the current placement stays")
    if explanation.binding:
        console.print("\nwhat binds", style="bold")
        rules = explanation.binding[:shown]
        for rule in rules:
            line = f"  {rule.rule} on {printable(rule.where)}: {number(rule.used, 6)} of "
            line += number(rule.available, 6)
            if rule.buys:
                gain = figure_text(instance, objective.unit, rule.buys)
                line += f"; {number(rule.more)} more buys {gain}"
            console.print(line, soft_wrap=True)
        print_rest(console, len(explanation.binding) - len(rules), "rule", "--full")


def objective_line(instance: Instance, explanation: Explanation) -> str:
    """Write what the plan reaches, and what the bound says is left."""
    assert explanation.evaluation is not None
    assert explanation.objective is not None
    objective = explanation.objective
    value = explanation.evaluation.objective(objective.name)
    line = f"{objective.label} {figure_text(instance, objective.unit, value)}"
    if explanation.bound is not None:
        line += f", proven bound {figure_text(instance, objective.unit, explanation.bound)}"
        line += f": at most {gap_text(objective, explanation.gap)} is left"
    return line


def move_ends(instance: Instance, move: Worth) -> tuple[str, str, str]:
    """Name the task of a move, and where it goes from and to."""
    tasks, nodes = instance.tasks.ids, instance.nodes.ids
    return tasks[move.task], nodes[move.source], nodes[move.target]


def worth_text(instance: Instance, objective: Figure, move: Worth) -> str:
    """Write what undoing a move alone does: ``costs 40 % of a core, violates sets``."""
    text = "–"
    if move.worth is not None:
        gain = figure_text(instance, objective.unit, abs(move.worth))
        text = f"costs {gain}" if move.worth > 0 else f"gains {gain}"
        text = "costs nothing" if move.worth == 0 else text
    return f"{text}, violates {', '.join(move.breaks)}" if move.breaks else text
