"""What a run on a case is worth, and tables of it.

The referee evaluates a run's plans; scored are the distance from what is proved and how soon it
came near it. Tables have a line a case as it is done, what it comes to by family, and what is known
of the cases.
"""

from __future__ import annotations

import math
import statistics
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tabulate import tabulate

from experiments.studies.bench.cases import Case
from optim import Evaluation, Instance, Plan
from optim.errors import InvalidInput, StreamplaceError
from optim.figures.catalogue import OBJECTIVES
from optim.figures.figure import Figure
from optim.format.plan import PLAN_FORMAT
from optim.methods.audit import broken_by
from optim.referee import Result, check_belongs, evaluate_indices
from optim.rules.base import Violation
from streamplace.present.table import markdown

Found = tuple[float, Evaluation, Plan]


BEYOND = "beyond the proven bound: please report this"
AT_BOUND = 1e-5
"""Relative gap up to which a value counts as at its bound: bounds are written a little weaker."""


class Point(NamedTuple):
    """A plan on the way: seconds since the start, and its value in the objective's unit."""

    seconds: float
    value: float


@dataclass
class Outcome:
    """What was answered on a case."""

    # Seconds since the start, and a plan, its document, or `{task: node}`; in order.
    answers: list[tuple[float, Any]] = field(default_factory=list)
    seconds: float = 0.0  # on the clock, until the end
    reported: list[Point] = field(default_factory=list)  # trajectory as the method reports it
    result: Result | None = None  # of a registered method
    problem: str | None = None  # why there is no answer, or not all
    stopped: bool = False  # whether it was the limit that ended it
    unsuitable: bool = False  # whether the method does not suit the instance


def words(error: BaseException) -> str:
    """Return the first line of what an error says."""
    if isinstance(error, InvalidInput) and error.problems:
        error = InvalidInput(error.problems[0])  # of several the first
    text = str(error) if isinstance(error, StreamplaceError) else repr(error)
    return text.splitlines()[0] if text else type(error).__name__


def primal_gap(value: float | None, best: float, sense: str) -> float:
    """Return how far a value is from the best known one, from 0 (as good, or better) to 1.

    ``|best - value| / max(|best|, |value|)``; 1 without a value, or one of the other sign.
    Source: Berthold, "Measuring the impact of primal heuristics", Operations Research Letters
    41(6), 2013, section 2.

    >>> primal_gap(8.0, 10.0, "max"), primal_gap(12.0, 10.0, "max"), primal_gap(None, 10.0, "max")
    (0.2, 0.0, 1.0)
    """
    if value is None or not math.isfinite(value):
        return 1.0
    if value == best or (value > best if sense == "max" else value < best):
        return 0.0
    if value * best < 0:
        return 1.0
    return abs(best - value) / max(abs(best), abs(value))


def primal_integral(points: Iterable[Point], best: float, sense: str, limit: float) -> float:
    """Return the primal gap's mean over the time from 0 to the limit: 0 best, 1 worst.

    At each moment the best plan so far counts, and 1 before there is one. What comes after the
    limit does not count. Berthold's integral is this times the limit (s, above 0).

    `points`: feasible plans in any order; those worse than one before change nothing.

    >>> primal_integral([Point(1.0, 5.0), Point(3.0, 10.0)], 10.0, "max", 4.0)
    0.5
    """
    # Σ of gap × time between plans: the gap is 1 until the first one
    area, since, gap = 0.0, 0.0, 1.0
    for point in sorted(points):
        if point.seconds > limit:
            break
        now = max(point.seconds, 0.0)
        area += gap * (now - since)
        since, gap = now, min(gap, primal_gap(point.value, best, sense))
    return (area + gap * (limit - since)) / limit


def reported_trajectory(points: Iterable[Point], final: Point, sense: str) -> list[Point]:
    """Return a trajectory as a method reports it, as far as its last plan bears them out.

    Nothing on the way counts for more than the plan returned at the end and judged, and
    nothing after it.
    """
    # a value that the last plan does not reach was never shown by a plan
    worse = min if sense == "max" else max
    before = [Point(p.seconds, worse(p.value, final.value)) for p in points]
    return [*(p for p in before if p.seconds < final.seconds), final]


def median(values: Sequence[float]) -> float | None:
    """Return the median; ``None`` of nothing. Infinite ones, of runs without a plan, count."""
    return statistics.median(values) if values else None


def mean(values: Sequence[float]) -> float | None:
    """Return the mean; ``None`` of nothing."""
    return statistics.fmean(values) if values else None


@dataclass(frozen=True)
class Run:
    """A case, what was answered to it, and what that is worth."""

    # case, instance, outcome: what was asked and answered.
    case: Case
    instance: Instance
    outcome: Outcome
    row: dict[str, Any]  # as `streamplace.bench/1` has it
    # The trajectory: plans that the referee took, or the method's own report up to the last.
    points: list[Point]
    # evaluation, plan: of the best plan, and that itself; `None` without one.
    evaluation: Evaluation | None
    plan: Plan | None = None


def judged(case: Case, instance: Instance, outcome: Outcome, limit: float) -> Run:
    """Judge all answers to a case and score them."""
    figure, bound = OBJECTIVES[case.objective], case.proven
    best, problem, points = _best_of(case, figure, instance, outcome)
    if best is None:
        points, value, evaluation, plan = [], None, None, None
    else:
        value, evaluation, plan = best
        if outcome.reported:
            points = reported_trajectory(outcome.reported, points[-1], str(figure.sense))
    if problem is None or value is not None:
        problem = outcome.problem
    reference = figure.reference_of(evaluation)
    # beyond a certified bound either the plan's check or the proof is wrong: no value counts
    if value is not None and bound is not None and figure.beats_bound(value, bound, reference):
        value, points, problem = None, [], BEYOND
    feasible, result = value is not None, outcome.result
    # certified by the method's own proof, not by the case's
    own_gap = None if result is None else result.certified_gap
    row: dict[str, Any] = {
        "case": case.name, "family": case.family, "tasks": instance.num_tasks,
        "nodes": instance.num_nodes, "objective": case.objective, "value": value,
        "reference": reference, "feasible": feasible, "problem": problem,
        "trajectory": [list(point) for point in points],
        "own_certificate": feasible and own_gap is not None and own_gap <= figure.optimal_gap,
        "seconds": outcome.seconds, "stopped": outcome.stopped,
    }  # fmt: skip
    row |= scores(case, row, limit)
    if not feasible:
        evaluation = plan = None
    return Run(case, instance, outcome, row, points, evaluation, plan)


def scores(case: Case, row: dict[str, Any], limit: float) -> dict[str, Any]:
    """Return what a row's value and trajectory are worth by what is known of the case.

    `case`: with its best known value and bound as they are now. `row`: with `value`, `reference`
    (what percents are of) and `trajectory`. `limit`: seconds that were given.
    """
    figure, bound = OBJECTIVES[case.objective], case.proven
    value, reference = row["value"], row["reference"]
    gap, integral = figure.gap(value, bound, reference), None
    if case.best is not None:
        points = [Point(*point) for point in row["trajectory"]]
        integral = primal_integral(points, case.best, str(figure.sense), limit)
    return {
        "bound": case.bound, "bound_certified": bound is not None, "best": case.best,
        "certificate_sha256": case.certificate_sha256, "gap": gap,
        "gap_to_best": figure.gap(value, case.best, reference),
        "at_bound": _is_at_bound(gap, figure),
        "better_than_best": _better(figure, value, case.best, reference),
        "primal_integral": integral,
    }  # fmt: skip


def _is_at_bound(gap: float | None, figure: Figure) -> bool | None:
    return None if gap is None else gap <= (figure.optimal_gap if figure.percent else AT_BOUND)


def _better(
    figure: Figure, value: float | None, best: float | None, reference: float | None
) -> bool:
    """Whether a value is better than the best known one by more than rounding."""
    if value is None or best is None:
        return value is not None
    return figure.better(value, best) and abs(value - best) > figure.tolerance(
        value, best, reference
    )


def _best_of(
    case: Case, figure: Figure, instance: Instance, outcome: Outcome
) -> tuple[Found | None, str | None, list[Point]]:
    """Return the best value with its evaluation, what is wrong with the others, and the points."""
    best: Found | None = None
    # the last problem is reported, and only where no answer is whole
    problem, points = outcome.problem, []
    for seconds, answer in outcome.answers:
        try:
            evaluation, broken, plan = _evaluate_answer(instance, answer, figure)
        except Exception as error:  # an answer of others may be anything
            problem = words(error)
            continue
        value = getattr(evaluation, case.objective)
        if broken:
            problem = str(broken[0])
        elif value is None:
            problem = f"has no {case.objective}"
        else:
            if best is None or figure.better(value, best[0]):
                best = value, evaluation, plan
            # the best so far, not this one: a trajectory never falls
            points.append(Point(seconds, best[0]))
    return best, problem, points


def _evaluate_answer(
    instance: Instance, answer: Any, figure: Figure
) -> tuple[Evaluation, Sequence[Violation], Plan]:
    """Return the figures of an answer, and what it breaks of the limits that bind the objective."""
    if not isinstance(answer, Plan):
        document = dict(answer)
        if "format" not in document:
            # a bare {task: node}
            document = {"format": PLAN_FORMAT, "instance": instance.name, "assignment": document}
        answer = Plan.from_dict(document)
    check_belongs(instance, answer)
    nodes, slots = answer.node_indices(instance), answer.slot_indices(instance)
    evaluation = evaluate_indices(instance, nodes, slots, figure.name)
    return evaluation, broken_by(figure, instance, nodes, slots, evaluation), answer


WIDTH, MOST_NAME = 98, 40
_HEADS = ("tasks × nodes", "value", "gap", "p. integral", "s")
_WIDTHS = (14, 11, 11, 13, 8)


class Lines:
    """Lays out the lines of a run: columns as wide as its cases ask for."""

    def __init__(self, cases: Iterable[Case]) -> None:
        self._name = min(MOST_NAME, max((len(case.name) for case in cases), default=4))

    def head(self) -> str:
        """Return the columns' heads."""
        return self._line("case", _HEADS)

    def of(self, row: dict[str, Any]) -> str:
        """Return the line of a case; what is wrong with it stands in place of its gap."""
        size = f"{row['tasks']:,} × {row['nodes']:,}"
        seconds = f"{row['seconds']:.2f}"
        if not row["feasible"]:
            head = self._line(row["case"], (size,))
            reason = " ".join(str(row["problem"]).split())
            # at least 20 characters of what is wrong
            room = max(20, WIDTH - len(head) - 2)
            return f"{head}  {reason if len(reason) <= room else reason[: room - 1] + '…'}"
        integral = row["primal_integral"]
        integral = "" if integral is None else f"{integral:.4f}"
        cells = (size, f"{row['value']:.6g}", gap_text(row), integral, seconds)
        return self._line(row["case"], cells) + (" *" if row["better_than_best"] else "")

    def _line(self, name: str, cells: Sequence[str]) -> str:
        if len(name) > self._name:
            name = name[: self._name - 1] + "…"
        padded = (cell.rjust(width) for cell, width in zip(cells, _WIDTHS, strict=False))
        return (name.ljust(self._name) + "".join(padded)).rstrip()


def percent_of(row: dict[str, Any], which: str) -> float | None:
    """Return a gap of a row in percent, ``None`` where it is unknown."""
    gap: float | None = row[which]
    if gap is None:
        return None
    return gap if OBJECTIVES[row["objective"]].percent else 100 * gap


def gap_text(row: dict[str, Any]) -> str:
    """Return the gap to the certified bound, or with a ``~`` that to the best known value."""
    gap = percent_of(row, "gap")
    if gap is not None:
        return "0" if row["at_bound"] else f"{gap:.3g} %"
    gap = percent_of(row, "gap_to_best")
    return "" if gap is None else f"~{gap:.3g} %"


def summary(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what the rows come to, by family and in all; see `streamplace.bench/1`."""
    families = list(dict.fromkeys(row["family"] for row in rows))
    parts = [(name, [row for row in rows if row["family"] == name]) for name in families]
    return [_sum(name, part) for name, part in [*parts, ("all", list(rows))]]


def _sum(name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    bounded = [row for row in rows if row["bound_certified"]]
    scored = [row for row in rows if row["best"] is not None]
    return {
        "family": name, "cases": len(rows),
        "feasible": sum(row["feasible"] for row in rows),
        "bounded": len(bounded),
        "at_bound": sum(bool(row["at_bound"]) for row in bounded),
        "median_gap_percent": median([_or_infinite(row, "gap") for row in bounded]),
        "median_gap_to_best_percent": median([_or_infinite(row, "gap_to_best") for row in scored]),
        "mean_primal_integral": mean([row["primal_integral"] for row in scored]),
        "own_certificates": sum(row["own_certificate"] for row in rows),
        "seconds": sum(row["seconds"] for row in rows),
    }  # fmt: skip


def _or_infinite(row: dict[str, Any], which: str) -> float:
    if which == "gap" and row["at_bound"]:
        return 0.0
    gap = percent_of(row, which)
    return math.inf if gap is None else gap


def summary_text(rows: Sequence[dict[str, Any]]) -> str:
    """Return the summary as a table, what its columns mean, and what is to be done about news."""
    heads = ("cases", "feasible", "at bound", "median gap", "to best", "p. integral", "certified")
    rows_of = [
        (
            part["family"], part["cases"], part["feasible"],
            f"{part['at_bound']}/{part['bounded']}", _percent(part["median_gap_percent"]),
            _percent(part["median_gap_to_best_percent"]), _number(part["mean_primal_integral"]),
            f"{part['own_certificates']}/{part['cases']}",
        )
        for part in summary(rows)
    ]  # fmt: skip
    lines = [_plain(("family", *heads), rows_of, ("family",))]
    lines += [
        "",
        "gap: to the certified bound, ~ to the best known value where none is certified; medians "
        "count\nmissing plans as infinite. p. integral: mean primal gap over the time limit, 0 to "
        "1.\ncertified: runs that come with a certificate of their own plan's optimality.",
    ]
    if news := [row["case"] for row in rows if row["better_than_best"]]:
        lines += [
            "",
            *textwrap.wrap(f"* better than the best known value: {', '.join(news)}.", WIDTH),
            "Please submit it: `--plans FOLDER` writes the plan, and “How to submit” says how, in",
            "docs/open-benchmark.md.",
        ]
    feasible = sum(row["feasible"] for row in rows)
    bounded = sum(row["bound_certified"] for row in rows)
    close = sum(bool(row["at_bound"]) for row in rows)
    lines.append(
        f"\n{feasible} of {len(rows)} feasible, {close} of {bounded} at the certified bound"
    )
    return "\n".join(lines) + "\n"


def _percent(value: float | None) -> str:
    if value is None:
        return "-"
    if math.isinf(value):
        return "no plan"
    return "0" if value == 0 else f"{value:.3g} %"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


KNOWN = (
    "case", "tasks × nodes", "objective", "best known", "by", "claimed bound", "by",
    "certified bound", "gap",
)  # fmt: skip
_LEFT = ("case", "objective", "by")  # Columns of words.


def cells(case: Case) -> tuple[str, ...]:
    """Return a case's line, a text a column; the gap is that of the best known value."""
    return (
        case.name, f"{case.tasks:,} × {case.nodes:,}", case.objective,
        _number7(case.best), case.best_by or "", _number7(case.stated), case.claimed_by or "",
        _number7(case.proven), _known_gap(case.best, case.proven),
    )  # fmt: skip


def known_text(cases: Iterable[Case]) -> str:
    """Return the table for a terminal, columns as wide as they need be."""
    return _plain(KNOWN, [cells(case) for case in cases], _LEFT) + "\n"


def page_table(cases: Iterable[Case]) -> str:
    """Return the table for a page: a claimed bound only where it differs from the certified one."""
    heads = (*KNOWN[:5], "certified bound, claimed bound (by)", "gap")
    lines = []
    for case in cases:
        *first, claimed, by, certified, gap = cells(case)
        others = [f"{claimed} ({by})"] if claimed not in ("", certified) else []
        lines.append([*first, ", ".join([certified] * bool(certified) + others), gap])
    return markdown(heads, lines, [heads[1], heads[3], *heads[5:]])


def _plain(
    heads: Sequence[str], rows: Sequence[Sequence[object]], left_heads: Sequence[str]
) -> str:
    """Return columns for a terminal, as wide as they need be."""
    align = ["left" if head in left_heads else "right" for head in heads]
    form: dict[str, Any] = {"tablefmt": "plain", "disable_numparse": True, "colalign": align}
    return "\n".join(map(str.rstrip, tabulate(rows, heads, **form).splitlines()))


def _number7(value: float | None) -> str:
    return "" if value is None else f"{value:,.7g}"


def _known_gap(best: float | None, bound: float | None) -> str:
    """Return how far a bound is from a value, of the larger, in percent."""
    if best is None or bound is None:
        return ""
    gap = abs(best - bound) / (max(abs(best), abs(bound)) or 1.0)
    return "0" if gap <= 1e-6 else f"{100 * gap:.3g} %"
