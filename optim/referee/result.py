"""The result of one solve: the checked plan, its objective and bound, and how it came about."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from optim.errors import ExitCode
from optim.figures.catalogue import FIGURES, Figures, find_objective
from optim.format.html import figure, page
from optim.util.files import finite, write_atomic

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from optim.figures.figure import ObjectiveValue
    from optim.format.plan import Plan
    from optim.rules.base import Violation


@dataclass(frozen=True, kw_only=True)
class Evaluation(Figures):
    """The referee's verdict on one plan, and its figures (`optim.figures.catalogue`).

    Attributes
    ----------
    feasible, violations
        Whether the plan keeps every rule, and those it breaks.
    """

    feasible: bool
    violations: tuple[Violation, ...]

    def objective(self, name: str) -> float | None:
        """Return the value of an objective, as `find_objective` reads it.

        Raises
        ------
        InvalidInput
            There is no such objective.
        """
        return find_objective(name).read(self)

    def _repr_html_(self) -> str:

        return evaluation_html(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the evaluation as plain data."""
        verdict = {"feasible": self.feasible, "violations": [v.to_dict() for v in self.violations]}
        return verdict | {figure.name: getattr(self, figure.name) for figure in FIGURES}


RESULT_FORMAT = "streamplace.result/1"
_NAMED = 3
_NO_PROGRESS = 1e-6


class Termination(StrEnum):
    """Why a solve stopped; its incumbent is another question.

    Attributes
    ----------
    OPTIMAL, GAP_REACHED
        The bound is met, within 1e-6 (load distance: 0.001 % of the mean load), or within the gap
        that was asked for.
    TIME_LIMIT, ITERATION_LIMIT
        Its time was over, or its fixed amount of work was done.
    HEURISTIC
        It ended by itself, and does not claim that more is not to be had.
    INFEASIBLE
        It is proven that there is no plan; `Result.reasons` says why.
    INTERRUPTED, ERROR
        By Ctrl-C or a signal; by a failure, with an incumbent.
    """

    OPTIMAL = "optimal"
    GAP_REACHED = "gap_reached"
    TIME_LIMIT = "time_limit"
    ITERATION_LIMIT = "iteration_limit"
    HEURISTIC = "heuristic"
    INFEASIBLE = "infeasible"
    INTERRUPTED = "interrupted"
    ERROR = "error"


@dataclass(frozen=True)
class Level:
    """One level of a lexicographic objective; `unit` as figures have it, for scaling."""

    name: str
    sense: str
    value: float | None
    bound: float | None = None
    unit: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the level as plain data."""
        named = ("name", "sense", "value", "bound")
        return {name: getattr(self, name) for name in named}


@dataclass(frozen=True)
class Mending:
    """What a plan leaves broken of a current placement that breaks limits.

    Attributes
    ----------
    excess_now, excess
        Excess (`optim.rules.excess`) of the current placement, and of the plan.
    still
        What the plan breaks, each with the amount by which that is broken now.
    budget
        Whether moves are limited, so that further rounds may mend more.
    least
        Whether it is proven that no plan has less excess.
    certified
        What a certificate proves that no plan has less excess than, maybe less.
    """

    excess_now: float
    excess: float
    still: tuple[tuple[Violation, float], ...]
    budget: bool
    least: bool
    certified: float | None = None

    @property
    def rounds(self) -> int | None:
        """Further rounds of the budget that mend the rest at this pace; ``None`` if none do."""
        done = self.excess_now - self.excess
        if not self.still:
            return 0
        if not self.budget or done <= _NO_PROGRESS * self.excess_now:
            return None
        return math.ceil(self.excess / done - _NO_PROGRESS)

    def __str__(self) -> str:
        """Say what is still broken, and how many rounds it takes."""
        if not self.still:
            return "mends all that is broken now"
        named = [
            f"{v.rule} of {v.where} by {v.amount:.6g} (was {was:.6g})"
            for v, was in self.still[:_NAMED]
        ]
        rest = len(self.still) - _NAMED
        more = f" and {rest} more" if rest > 0 else ""
        if not self.budget and not self.least:
            after = "whether a plan mends more is not known"
        elif not self.budget:
            after = "no plan mends more" if self.excess < self.excess_now else "no plan mends any"
        elif self.rounds is None:
            after = "this budget mends nothing of it"
        else:
            after = f"about {self.rounds} more round{'s' * (self.rounds != 1)} of the budget"
        return f"still broken: {', '.join(named)}{more}; {after}"

    def to_dict(self) -> dict[str, Any]:
        """Return it as in the result file."""
        still = [{**v.to_dict(), "was": was} for v, was in self.still]
        told = {"excess_now": self.excess_now, "excess": self.excess, "rounds": self.rounds}
        told["certified_excess"] = self.certified
        return {**told, "still_broken": still}


@dataclass(frozen=True)
class Move:
    """A task that leaves its current node, and what moving it costs."""

    task: str
    source: str
    target: str
    cost: float

    def to_dict(self) -> dict[str, Any]:
        """Return the move as in the result file."""
        return {"task": self.task, "from": self.source, "to": self.target, "cost": self.cost}


@dataclass(frozen=True)
class WarmStart:
    """Where a solve started: the method or file, its objective, and whether the solver took it."""

    method: str
    objective: float | None
    accepted: bool | None


@dataclass(frozen=True)
class Result:
    """What a solve returns; every figure of the plan is the referee's.

    Attributes
    ----------
    instance_name, instance_sha256
        What it is of.
    method, solver, seed
        What ran.
    termination
        Why it stopped.
    plan
        ``None`` when there is none.
    objective, bound, bound_of, gap
        Value, proven bound (of the ``problem``, or of a ``restricted`` one), and their distance:
        relative, or in percent of the mean load for load distance; ``None`` where unknown, or where
        the plan breaks a limit, so that its value says nothing.
    bound_by
        What the bound rests on: a checked ``certificate``, ``two solvers`` or ``one solver``.
    certified_bound, certified_gap
        The bound that a certificate proves, maybe a weaker one, and the value's gap to it.
    assumes
        What the bound assumes beyond the file; empty for one of the problem.
    objective_levels
        Further levels of a lexicographic objective; where the current placement breaks limits that
        cannot all be satisfied, the first one is ``excess``, which comes before the objective.
    mending
        What is still broken then; ``None`` where the plan had nothing to leave broken.
    evaluation
        The referee's figures; ``None`` without a plan.
    moves
        Tasks that leave their current node: ``task``, ``source``, ``target``, ``cost``.
    most_of_gain
        How many of the moves bring 95 % of the gain over staying, and of how many; ``None`` where
        there is no gain, or there are too many moves to find out.
    warm_start
        ``None`` when there was none.
    repaired, ignored
        Whether repair finished the plan; limits that were dropped.
    unplaced
        Tasks that a heuristic could not place.
    reasons
        Why the instance is infeasible, where it is proven so.
    departs
        Of a changed instance: in what its solve differs from that of the case as it is (another
        method, or another objective), and why; empty where it does not.
    notes
        Readings used, best-effort parts, anything a reader should know.
    times
        Seconds: read, build, solve, check, total; ``compile`` for a kernel's first use;
        ``warm_start`` of the method that made the start, which has the time limit for itself.
    trace
        (seconds, incumbent, bound) over time.
    versions
        Of everything that took part.
    """

    instance_name: str
    instance_sha256: str
    method: str
    termination: Termination
    solver: str | None = None
    seed: int = 0
    plan: Plan | None = None
    objective: ObjectiveValue | None = None
    bound: float | None = None
    bound_of: str | None = None
    assumes: tuple[str, ...] = ()
    gap: float | None = None
    bound_by: str | None = None
    certified_bound: float | None = None
    certified_gap: float | None = None
    objective_levels: tuple[Level, ...] = ()
    mending: Mending | None = None
    evaluation: Evaluation | None = None
    moves: tuple[Move, ...] = ()
    most_of_gain: tuple[int, int] | None = None
    warm_start: WarmStart | None = None
    repaired: bool = False
    ignored: tuple[str, ...] = ()
    unplaced: tuple[str, ...] = ()
    reasons: tuple[Violation, ...] = ()
    departs: str = ""
    notes: tuple[str, ...] = ()
    times: Mapping[str, float] = field(default_factory=dict)
    trace: tuple[tuple[float, float | None, float | None], ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def feasible(self) -> bool:
        """Whether there is a plan that keeps every rule."""
        return self.evaluation is not None and self.evaluation.feasible

    @property
    def whole_bound(self) -> float | None:
        """The bound where it is one of all plans; ``None`` where of fewer, or there is none."""
        return self.bound if self.bound_of == "problem" else None

    @property
    def exit_code(self) -> ExitCode:
        """Exit status of the command line for this result."""
        if self.termination is Termination.INTERRUPTED:
            return ExitCode.INTERRUPTED
        if self.feasible:
            return ExitCode.OK
        if self.termination is Termination.INFEASIBLE:
            return ExitCode.INFEASIBLE
        return ExitCode.NO_PLAN

    def _repr_html_(self) -> str:

        return result_html(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as the document ``streamplace.result/1``; unknown numbers are null."""
        document = {
            "format": RESULT_FORMAT,
            "instance": self.instance_name,
            "instance_sha256": self.instance_sha256,
            "method": self.method,
            "solver": self.solver,
            "seed": self.seed,
            "termination": str(self.termination),
            "plan": None if self.plan is None else self.plan.to_dict(),
            "objective": None if self.objective is None else vars(self.objective),
            "bound": self.bound,
            "bound_of": self.bound_of,
            "assumes": list(self.assumes),
            "gap": self.gap,
            "bound_by": self.bound_by,
            "certified_bound": self.certified_bound,
            "certified_gap": self.certified_gap,
            "objective_levels": [level.to_dict() for level in self.objective_levels],
            "mending": None if self.mending is None else self.mending.to_dict(),
            "evaluation": None if self.evaluation is None else self.evaluation.to_dict(),
            "moves": [move.to_dict() for move in self.moves],
            "most_of_gain": self.most_of_gain
            and dict(zip(("moves", "of"), self.most_of_gain, strict=True)),
            "warm_start": None if self.warm_start is None else vars(self.warm_start),
            "repaired": self.repaired,
            "ignored": list(self.ignored),
            "unplaced": list(self.unplaced),
            "reasons": [reason.to_dict() for reason in self.reasons],
            "departs": self.departs or None,
            "notes": list(self.notes),
            "times": dict(self.times),
            "trace": [list(point) for point in self.trace],
            "versions": dict(self.versions),
        }
        return finite(document)

    def to_json(self) -> str:
        """Return the result as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=1, allow_nan=False) + "\n"

    def save(self, path: str | Path) -> None:
        """Write the result atomically."""
        write_atomic(path, self.to_json())


def result_html(result: Result) -> str:
    """Return status, objective, bound, and the moves."""
    told = result.objective
    words = f"{result.method}: {result.termination}"
    if told is not None:
        words += f"; {told.name} {figure(told.value)}, bound {figure(result.bound)}"
    if result.evaluation is not None:
        words += "; feasible" if result.feasible else "; not feasible"
    rows = [[m.task, m.source, m.target, figure(m.cost)] for m in result.moves]
    head = ["moves", "from", "to", "cost"] if rows else []
    return page(f"result for {result.instance_name}", words, head, rows)


def evaluation_html(evaluation: Evaluation) -> str:
    """Return whether the plan is feasible, what it breaks, and its figures of one value."""
    broken = [
        [f"breaks {v.rule}", f"{v.where}: needs {figure(v.needed)}, has {figure(v.available)}"]
        for v in evaluation.violations
    ]
    values = (
        (one.label, getattr(evaluation, one.name))
        for one in FIGURES
        if one.single and not one.quiet
    )
    rows = [
        [label, figure(value) if isinstance(value, float) else value]
        for label, value in values
        if value is not None
    ]
    words = "feasible" if evaluation.feasible else "not feasible"
    return page("evaluation", words, ["figure", "value"], broken + rows, most=len(broken + rows))
