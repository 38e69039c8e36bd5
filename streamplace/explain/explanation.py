"""What is to be reported of an instance, and of a plan for it, gathered without layout."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from formulations.conflicts.remedies import (
    clashes_of_threads,
    find_conflicts,
    remedies,
    violation_of,
)
from optim.figures.catalogue import find_objective
from optim.figures.measures import moved_tasks
from optim.format.html import figure, page
from optim.kernels.warm import warm_up
from optim.methods.registry import get_method, method_names
from optim.methods.solve import without_plan
from optim.referee.evaluate import evaluate_indices
from optim.rules import broken
from optim.rules.placement import Placement
from streamplace.explain.binding import Bound, binding_rules

if TYPE_CHECKING:
    from formulations.conflicts.conflict import Clash
    from formulations.conflicts.remedies import Remedy
    from optim.figures.figure import Figure
    from optim.format.instance import Instance
    from optim.format.tables import Ints
    from optim.methods.registry import Settings
    from optim.referee.result import Evaluation, Result
    from streamplace.explain.what_if import Carried

_AT_ONCE = 1.0
"""Seconds that `solve` takes for the conflicts of an infeasible problem."""
_REMEDIES = 0.25
"""Share of the time for what would help."""


@dataclass(frozen=True)
class Explanation:
    """Why there is no plan, or what a plan's moves are worth and what binds it.

    Attributes
    ----------
    feasible
        Whether there is a plan; ``None`` where that was not decided in the time given.
    conflicts
        Minimal sets of rules that cannot hold together, no two of which share one.
    relaxation
        The smallest change of limits after which there is a plan: one remedy a conflict.
    remedies
        What else would help.
    objective, evaluation
        What moves are judged by, and the referee's figures of the plan.
    moves
        What undoing each move alone would cost.
    binding
        Rules that leave no room for more.
    bound, bound_of, gap
        What was proved of the objective, where the plan was solved for here.
    carried, departs
        Of a changed instance: the plan in it, and in what its solve differs from that of the case
        as it is.
    witness
        (T,) a placement that keeps all rules, where the search for conflicts met one.
    instance
        What it is of.
    """

    feasible: bool | None
    conflicts: tuple[tuple[Clash, ...], ...] = ()
    relaxation: tuple[Remedy, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    objective: Figure | None = None
    evaluation: Evaluation | None = None
    moves: tuple[Worth, ...] = ()
    binding: tuple[Bound, ...] = ()
    bound: float | None = None
    bound_of: str | None = None
    gap: float | None = None
    witness: Ints | None = None
    carried: Carried | None = None
    departs: str = ""
    seconds: float = 0.0
    notes: tuple[str, ...] = field(default=())
    instance: Instance | None = field(default=None, repr=False)

    def _repr_html_(self) -> str:
        words = {True: "feasible", False: "infeasible", None: "not decided in the time given"}
        told = self.clashes()
        conflicts = [(k, c) for k, some in enumerate(told["conflicts"], 1) for c in some["rules"]]
        rows: list[list[Any]] = [
            [f"conflict {k}", f"{c['rule']} on {c['where']}", figure(c["needed"]),
             figure(c["available"])]
            for k, c in conflicts
        ]  # fmt: skip
        rows += [
            ["remedy", f"{r['rule']} on {r['where']}", f"by {figure(r['by'])}",
             "given up" if r["to"] is None else f"to {figure(r['to'])}"]
            for r in (*told["relaxation"], *told["remedies"])
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
        found = self.evaluation
        return {
            "instance": instance.name,
            "instance_sha256": instance.sha256,
            "feasible": self.feasible,
            "decided": self.feasible is not None,
            **self.clashes(),
            "plan_feasible": None if found is None else found.feasible,
            "violations": None if found is None else [v.to_dict() for v in found.violations],
            "objective": self.objective and self.objective.name,
            "value": found and self.objective and found.objective(self.objective.name),
            "bound": self.bound,
            "bound_of": self.bound_of,
            "gap": self.gap,
            "moves": [
                {"task": tasks[m.task], "from": nodes[m.source], "to": nodes[m.target]}
                | {"worth": m.worth, "breaks": list(m.breaks)}
                for m in self.moves
            ],
            "binding": [b.to_dict() for b in self.binding],
            "saturation": None if found is None else found.saturation,
            "departs": self.departs or None,
            "placed_anew": {} if self.carried is None else self.carried.placed_anew(instance),
            "unplaced": [] if self.carried is None else self.carried.unplaced(instance),
            "notes": list(self.notes),
            "seconds": self.seconds,
        }


def why_infeasible(instance: Instance, seconds: float) -> Explanation:
    """Find out whether an instance has a plan; where it has none, why and what would help.

    Parameters
    ----------
    seconds
        For all of it; where there is a plan a good part of it is left.
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
        found = [r for r, _ in remedies(atoms, core, rules, part, alone=len(cores) == 1)]
        best += found[:1]
        rest += found[1:]
    if len(best) < len(cores):
        best, rest = [], best + rest
    notes = []
    if feasible is False and not cores:
        notes.append("proved infeasible; which rules clash was not decided in the time given")
    if cores and not best:
        notes.append("no change of one limit, nor nodes added, was found to be enough in time")
    witness = judge.ask(np.arange(len(atoms))).node if feasible else None
    return Explanation(
        feasible, tuple(clashes), tuple(best), tuple(rest), witness=witness, instance=instance,
        seconds=time.perf_counter() - began, notes=tuple(notes),
    )  # fmt: skip


def why_no_plan(
    instance: Instance, result: Result, asked: Settings
) -> tuple[Result, Explanation | None]:
    """Return a result with the rules that clash, and what would help, as found within a second.

    Parameters
    ----------
    instance, asked
        What was solved, and how.
    result
        That there is no plan.
    """
    solved = without_plan(instance, result, asked)
    if solved is None or (asked.target_rate is not None and clashes_of_threads(solved)):
        return result, None  # the reasons state it at the rate
    found = why_infeasible(solved, _AT_ONCE)
    if not found.conflicts:
        return result, None
    reasons = tuple(violation_of(clash) for rules in found.conflicts for clash in rules)
    return replace(result, reasons=result.reasons or reasons), found


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

    Parameters
    ----------
    method
        What made the plan; moves are judged by what it optimises, unless an `objective` is named.
    node
        (T,) node indices.
    slot
        (T,) slots, where the plan decides them.
    worths
        Whether moves are judged, each with as many steps as there are tasks.
    """
    began = time.perf_counter()
    evaluation = evaluate_indices(instance, node, slot)
    figure = objective_of(method, objective, evaluation)
    complete = bool(len(node) and node.min() >= 0)
    judged = worths and complete and figure.value
    moves = worth_of_moves(instance, node, figure) if judged else []
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


def objective_of(method: str, asked: str | None, evaluation: Evaluation) -> Figure:
    """Return what moves are judged by: as asked, or what the method of the plan optimises."""
    if asked is not None:
        return find_objective(asked)
    if method in method_names():
        return find_objective(get_method(method).objective)
    name = "imc_gain" if evaluation.total_traffic else "load_distance"
    return find_objective(name)


class Worth(NamedTuple):
    """A move and what it brings.

    Attributes
    ----------
    task, source, target
        Indices.
    worth
        By how much the objective is worse without this one move; below 0 where it is better
        without. ``None`` where the objective has no value.
    breaks
        The rules that the plan breaks without it.
    """

    task: int
    source: int
    target: int
    worth: float | None
    breaks: tuple[str, ...]


def worth_of_moves(instance: Instance, node: Ints, objective: Figure) -> list[Worth]:
    """Undo each move alone, and have the referee's figures say what that costs."""
    judged = objective.binding(instance)
    before = objective.measured(Placement(instance, node))
    found, trial = [], np.array(node, dtype=np.int32)
    for task in moved_tasks(instance, node).tolist():
        home = int(instance.tasks.node[task])
        trial[task] = home
        # the figure is of the whole instance: a rate is measured by the limits that do not bind it
        after = objective.measured(Placement(instance, trial.copy()))
        violations = broken(Placement(judged, trial.copy()))
        rules = tuple(dict.fromkeys(violation.rule for violation in violations))
        trial[task] = node[task]
        found.append(Worth(task, home, int(node[task]), before.gain_over(after), rules))
    return found
