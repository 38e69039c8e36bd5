"""What the rows of a sweep say, asked once: plain numbers from which tables and plots are made.

Runs are graded against each other before anything is drawn: no table is made from runs that
contradict one another. Either a proof is false, or the referee is, or the rows do not belong
together; none of these may be averaged away.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from experiments.report.database import (
    COMPARED,
    Columns,
    Labels,
    Rows,
    ask,
    ask_columns,
    define_tables,
    questions,
    values_of,
)
from optim.errors import StreamplaceError
from optim.figures.figure import Figure

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Record = dict[str, Any]

QUICK_SECONDS = 0.1  # Below this median time of a run, times are shifted by 10 ms instead of 1 s.

_MOST_SIZES = 12
_MOMENTS_PER_DECADE = 8
_TIME_SPAN = 1e8


class Cells:
    """What became of each contestant on each case: columns with a row a pair, found by number.

    `columns`: of ``cells`` in ``questions.sql``.
    `contestants`, `problems`: what their numbers stand for.
    """

    def __init__(
        self, columns: Columns, contestants: Sequence[str], problems: Sequence[str]
    ) -> None:
        self._columns = columns
        self._contestants = {name: place for place, name in enumerate(contestants)}
        self._problems = {name: place for place, name in enumerate(problems)}
        self._rows = np.full((len(contestants), len(problems)), -1)
        who, case = columns["contestant"], columns["problem"]
        self._rows[who, case] = np.arange(len(who))

    def get(self, contestant: str, problem: str) -> Record | None:
        """Return what became of a contestant on a case; None where it did not run."""
        row = self._rows[self._contestants[contestant], self._problems[problem]]
        if row < 0:
            return None
        return {name: _value(column[row]) for name, column in self._columns.items()}

    def places(self, contestants: Sequence[str], problems: Sequence[str]) -> NDArray[np.int64]:
        """Return the row of each of these contestants (across) on each of these cases, or -1."""
        cases = np.array([self._problems[problem] for problem in problems], dtype=np.int64)
        who = np.array([self._contestants[name] for name in contestants], dtype=np.int64)
        return self._rows[who[:, None], cases].T

    def take(self, name: str, places: NDArray[np.int64]) -> NDArray[Any]:
        """Return a column at some rows; at -1 it is ``nan`` or, of texts, ``None``."""
        values, missing = self._columns[name][places], places < 0
        if missing.any():
            texts = values.dtype.kind == "O"
            values = values if texts else values.astype(float)
            values[missing] = None if texts else math.nan
        return values

    def values(self, contestant: str, name: str) -> NDArray[Any]:
        """Return a column of all cases that a contestant ran on."""
        rows = self._rows[self._contestants[contestant]]
        return self._columns[name][rows[rows >= 0]]


def _value(value: Any) -> Any:
    plain = value.item() if isinstance(value, np.generic) else value
    return None if plain != plain else plain


@dataclass(frozen=True)
class MetricFindings:
    """What is known of one metric, over all contestants whose plans can be measured by it."""

    name: str
    sense: str  # Whether more (``max``) or less (``min``) is better.
    #: By problem: best bound, proven optimum, best known, and whose they are.
    status: dict[str, Record]
    cells: Cells
    #: By contestant, and of the virtual best: means over cases, worst.
    contestants: dict[str, Record]
    best: Record
    #: For the performance profiles, and over how many cases they run.
    ratios: Columns
    proof_ratios: Columns
    num_measured: int
    num_proved: int
    #: Gap by number of tasks; whether sizes are put together between powers of two.
    sizes: Rows
    buckets: bool
    runs: Columns  # Every run on a case that may have a plan.

    @property
    def order(self) -> list[str]:
        """Contestants with a plan somewhere, the best first."""
        measured = [item for item in self.contestants.values() if item["num_gap_known"]]
        ranks = ranking(measured, dict.fromkeys(self.contestants, self.num_measured))
        return sorted(ranks, key=ranks.__getitem__)


@dataclass(frozen=True)
class Findings:
    """Everything that the report says, as numbers."""

    labels: Labels
    names: list[str]  # All contestants, sorted; their numbers in columns are places in it.
    sweep: Record  # Counts, names, hosts and versions.
    shift: float  # What times are shifted by in geometric means, in s.
    contestants: dict[str, Record]  # By name: what became of its runs, and its time.
    infeasible: dict[str, list[str]]  # By problem: who proved that it has no plan.
    #: What is known of every metric that can be shown; the first opens the report.
    metrics: tuple[MetricFindings, ...]
    #: Gaps on the methods' own objectives, and the virtual best of each.
    own_gaps: Rows
    own_best: Rows
    anytime: Rows  # Gap over time.
    failed: Rows  # Runs without an answer.
    without_plan: Rows  # Runs without a plan on cases that may have one.
    not_applicable: Rows
    chosen: Rows  # Per case the run whose plan is explained.


def gather(con: DuckDBPyConnection, labels: Labels) -> Findings:
    """Ask every question, once `experiments.report.database.define_views` has made its tables."""
    define_tables(con, "graded")
    define_tables(con, "compared")
    (sweep,) = ask(con, questions("of_sweep")["sweep"])
    shift = time_shift(sweep["median_seconds"])
    buckets = sweep["num_sizes"] > _MOST_SIZES
    parameters = {"shift": shift, "buckets": buckets}
    of_metrics = _by_metric(
        {n: ask(con, text, **parameters) for n, text in questions("of_metrics").items()}
    )
    names = values_of(con, "contestant_name")
    metrics = (_metric(con, of_metrics, figure, names, buckets) for figure in COMPARED)
    answers = {name: ask(con, text, **parameters) for name, text in questions("of_runs").items()}
    moments = time_grid(sweep["least_seconds"], sweep["most_seconds"])
    steps = questions("of_objective")["anytime"]
    lines = (
        anytime(ask_columns(con, steps, objective=name), name, names, moments)
        for name in sweep["objectives"]
    )
    return Findings(
        labels=labels,
        names=names,
        sweep=sweep,
        shift=shift,
        contestants=_by_key(answers.pop("contestants"), "contestant"),
        infeasible={row["problem"]: row["infeasible_by"] for row in answers.pop("infeasible")},
        metrics=tuple(metric for metric in metrics if metric is not None),
        anytime=[row for line in lines for row in line],
        **answers,
    )


def anytime(
    steps: Columns, objective: str, names: Sequence[str], moments: Sequence[float]
) -> Iterator[Record]:
    """Give the gap that at least half of the runs have reached at each moment (in s, ascending).

    `steps` are of ``anytime`` in ``questions.sql``, `names` the contestants.
    """
    contestant, place, seconds = (steps[name] for name in ("contestant", "place", "seconds"))
    gap = np.where(np.isnan(steps["gap"]), math.inf, steps["gap"])
    # the first moment at which a step counts; what has no time, or a later one, never does
    at = np.searchsorted(moments, np.where(np.isnan(seconds), math.inf, seconds))
    for who in np.unique(contestant).tolist():
        of_contestant = contestant == who
        _, run = np.unique(place[of_contestant], return_inverse=True)
        reached = np.full((run.max() + 1, len(moments) + 1), math.nan)
        # of several steps between two moments the last
        last = np.append((np.diff(run) != 0) | (np.diff(at[of_contestant]) != 0), True)
        reached[run[last], at[of_contestant][last]] = gap[of_contestant][last]
        steps_at = np.where(np.isnan(reached), -1, np.arange(len(moments) + 1))
        latest = np.maximum.accumulate(steps_at, axis=1)[:, :-1]
        gap_at = np.where(latest < 0, math.inf, np.take_along_axis(reached, latest, axis=1))
        half = math.ceil(len(gap_at) / 2) - 1
        for moment, value in zip(moments, np.partition(gap_at, half, axis=0)[half], strict=True):
            yield {
                "objective_name": objective, "contestant": names[who], "moment": moment,
                "gap": None if math.isinf(value) else float(value),
            }  # fmt: skip


def ranking(rows: Rows, cases: Mapping[str, int]) -> dict[str, tuple[float, str]]:
    """Return what contestants are sorted by: the mean gap to the best known, then the name.

    A case without a plan counts as the widest gap there is, so that failing on the hard cases
    does not lead the table. Only the order follows from this; no gap is shown for such a case.

    `rows`: ``contestant``, ``gap_known``, ``worst_gap_known`` and ``num_gap_known``.
    `cases`: by contestant, the number of cases that it could have solved.
    """
    widest = max((item["worst_gap_known"] or 0.0 for item in rows), default=0.0)
    ranks = {}
    for item in rows:
        name, measured = item["contestant"], item["num_gap_known"]
        missing = max(0, cases[name] - measured) * max(1.0, widest)
        ranks[name] = (
            ((item["gap_known"] or 0.0) * measured + missing) / max(1, cases[name]),
            name,
        )
    return ranks


def time_shift(median_seconds: float | None) -> float:
    """Return the shift of geometric mean times: 1 s, or 10 ms where half the runs are quick."""
    return 0.01 if median_seconds is not None and median_seconds < QUICK_SECONDS else 1.0


def time_grid(least: float | None, most: float | None) -> list[float]:
    """Return times in s, evenly spread over the powers of ten from `least` to `most`."""
    if least is None or most is None or most <= 0:
        return [1.0]
    first = math.floor(math.log10(max(least, most / _TIME_SPAN)))
    last = max(first + 1, math.ceil(math.log10(most)))
    steps = range(first * _MOMENTS_PER_DECADE, last * _MOMENTS_PER_DECADE + 1)
    return [float(f"{10 ** (step / _MOMENTS_PER_DECADE):.6g}") for step in steps]


def _by_metric(answers: Mapping[str, Rows]) -> dict[str, dict[str, Rows]]:
    by_question: dict[str, dict[str, Rows]] = {question: {} for question in answers}
    for question, rows in answers.items():
        for row in rows:
            by_question[question].setdefault(row.pop("metric"), []).append(row)
    return by_question


def _metric(
    con: DuckDBPyConnection,
    by_question: Mapping[str, Mapping[str, Rows]],
    figure: Figure,
    names: Sequence[str],
    buckets: bool,
) -> MetricFindings | None:
    """Pick what is known of one metric; None when there is nothing to compare."""
    name = figure.name
    rows = {question: by_metric.get(name, []) for question, by_metric in by_question.items()}
    status = _by_key(rows["status"], "problem")
    # what is no part of a whole, as the load distance, is shown where a bound on it is proved
    needed = "total_traffic" if figure.shown_as else "best_bound"
    if not any(
        row[needed] is not None and row["best_known"] is not None for row in status.values()
    ):
        return None
    profiled = rows["profiled"][0]
    columns = {n: ask_columns(con, text, metric=name) for n, text in questions("of_metric").items()}
    return MetricFindings(
        name=name,
        sense=str(figure.sense),
        status=status,
        cells=Cells(columns.pop("cells"), names, values_of(con, "problem_name")),
        contestants=_by_key(rows["contestants"], "contestant"),
        best=rows["best"][0],
        num_measured=profiled["measured"],
        num_proved=profiled["proved"],
        sizes=rows["sizes"],
        buckets=buckets,
        **columns,
    )


def _by_key(rows: Rows, key: str) -> dict[str, Record]:
    return {row[key]: row for row in rows}


_SHOWN = 20
_SHOWN_KEY = 12

_CONTRADICTIONS = {
    "optima": "{first} and {second} both claim the proven optimum of {name}, but with {a:.9g} and "
    "{b:.9g}",
    "bound": "{first} has a feasible plan with {name} {a:.9g}, beyond the bound {b:.9g} proved by "
    "{second}",
    "infeasible": "{first} has a feasible plan, but {second} claims to have proved that there is "
    "none",
    "own bound": "{first} claims a proven optimum with {name} {a:.9g}, away from its own bound "
    "{b:.9g}",
}
"""What each kind says, by the name of its query in ``questions.sql``."""


@dataclass(frozen=True)
class Contradiction:
    """Two runs (or one and itself) that cannot both be right; `kind` is of `_CONTRADICTIONS`."""

    kind: str
    instance: str
    first: str
    second: str
    text: str


class ContradictoryRuns(StreamplaceError):
    """Runs of the sweep contradict each other; carries all contradictions found."""

    def __init__(self, found: list[Contradiction]) -> None:
        self.found = found
        lines = [item.text for item in found[:_SHOWN]]
        if len(found) > _SHOWN:
            lines.append(f"… and {len(found) - _SHOWN} more")
        many = "contradiction" if len(found) == 1 else "contradictions"
        super().__init__(
            f"no report: the runs hold {len(found)} {many}\n"
            + "\n".join(f"  {line}" for line in lines)
            + "\n  A proof or a plan above is false. Re-run these with --debug and report them."
        )


def grade(con: DuckDBPyConnection) -> None:
    """Compare all runs in the views with each other.

    A feasible plan may not beat a bound of the same problem and objective by more than rounding
    (`Figure.tolerance`); proven optima may not differ by more; a problem proven
    infeasible may have no feasible plan; and a proven optimum meets its own bound.

    Raises `ContradictoryRuns`: something of this is broken; names the runs.
    """
    contradicting = contradictions(con)
    if contradicting:
        raise ContradictoryRuns(contradicting)


def contradictions(con: DuckDBPyConnection) -> list[Contradiction]:
    """Return every contradiction, each pair of runs once per objective."""
    define_tables(con, "graded")
    found: dict[tuple[str, frozenset[str]], Contradiction] = {}
    for kind, query in questions("contradictions").items():
        for row in ask(con, query):
            runs, name = (row["first"], row["second"]), row["objective_name"]
            first, second = map(_run_name, runs)
            message = _CONTRADICTIONS[kind].format(
                first=first, second=second, name=name, a=row["first_value"], b=row["second_value"]
            )
            instance = row["first"]["instance"]
            one = Contradiction(kind, instance, first, second, f"{instance}: {message}")
            found.setdefault((name, frozenset(run["run_key"] for run in runs)), one)
    return list(found.values())


def _run_name(run: Mapping[str, Any]) -> str:
    return f"{run['contestant']} (seed {run['seed']}, run {run['run_key'][:_SHOWN_KEY]})"
