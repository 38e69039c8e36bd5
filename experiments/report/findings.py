"""What the rows of a sweep say, asked once: plain numbers from which tables and plots are made."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from experiments.report import queries
from experiments.report.queries import ask, ask_all
from experiments.report.views import COMPARED, define_comparisons

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from experiments.report.labels import Labels
    from experiments.report.queries import Rows
    from optim.figures.figure import Figure

Record = dict[str, Any]

QUICK_SECONDS = 0.1
"""Below this median time of a run, times are shifted by 10 ms instead of 1 s."""

_MOST_SIZES = 12
_MOMENTS_PER_DECADE = 8
_TIME_SPAN = 1e8


@dataclass(frozen=True)
class MetricFindings:
    """What is known of one metric, over all contestants whose plans can be measured by it.

    Attributes
    ----------
    name, sense
        The metric, and whether more (``max``) or less (``min``) is better.
    status
        By problem: best bound, proven optimum, best known, and whose they are.
    cells
        By contestant and problem: mean value, gaps, own bound, verdicts, time.
    contestants
        By contestant: means over cases, worst.
    best
        The virtual best.
    ratios, proof_ratios, num_measured, num_proved
        For the performance profiles, and over how many cases they run.
    sizes, buckets
        Gap by number of tasks; whether sizes are put together between powers of two.
    runs
        Every run on a case that may have a plan.
    """

    name: str
    sense: str
    status: dict[str, Record]
    cells: dict[tuple[str, str], Record]
    contestants: dict[str, Record]
    best: Record
    ratios: Rows
    proof_ratios: Rows
    num_measured: int
    num_proved: int
    sizes: Rows
    buckets: bool
    runs: Rows

    @property
    def order(self) -> list[str]:
        """Contestants with a plan somewhere, the best first."""
        known = [item for item in self.contestants.values() if item["num_gap_known"]]
        ranks = ranking(known, dict.fromkeys(self.contestants, self.num_measured))
        return sorted(ranks, key=ranks.__getitem__)


@dataclass(frozen=True)
class Findings:
    """Everything that the report says, as numbers.

    Attributes
    ----------
    labels
        The cases.
    sweep
        Counts, names, hosts and versions.
    shift
        What times are shifted by in geometric means, in s.
    contestants
        By name: what became of its runs, and its time.
    infeasible
        By problem: who proved that it has no plan.
    metrics
        What is known of every metric that can be shown; the first opens the report.
    own_gaps, own_best
        Gaps on the methods' own objectives, and the virtual best of each.
    anytime
        Gap over time.
    failed, not_applicable
        Runs without an answer.
    chosen
        Per case the run whose plan is explained.
    """

    labels: Labels
    sweep: Record
    shift: float
    contestants: dict[str, Record]
    infeasible: dict[str, list[str]]
    metrics: tuple[MetricFindings, ...]
    own_gaps: Rows
    own_best: Rows
    anytime: Rows
    failed: Rows
    not_applicable: Rows
    chosen: Rows


def gather(spark: SparkSession, labels: Labels) -> Findings:
    """Ask every question, once `experiments.report.views.define_views` has defined its views."""
    define_comparisons(spark)
    sweep = ask(spark, queries.SWEEP)[0]
    shift = time_shift(sweep["median_seconds"])
    buckets = sweep["num_sizes"] > _MOST_SIZES
    moments = json.dumps(time_grid(sweep["least_seconds"], sweep["most_seconds"]))
    given = {"shift": shift, "buckets": buckets, "moments": moments}
    of_metrics = _by_metric(ask_all(spark, queries.OF_METRICS, **given))
    metrics = (_metric(of_metrics, figure, buckets) for figure in COMPARED)
    told = ask_all(spark, queries.OF_RUNS, **given)
    return Findings(
        labels=labels,
        sweep=sweep,
        shift=shift,
        contestants=_by(told.pop("contestants"), "contestant"),
        infeasible={row["problem"]: row["infeasible_by"] for row in told.pop("infeasible")},
        metrics=tuple(metric for metric in metrics if metric is not None),
        **told,
    )


def ranking(rows: Rows, cases: Mapping[str, int]) -> dict[str, tuple[float, str]]:
    """Return what contestants are sorted by: the mean gap to the best known, then the name.

    A case without a plan counts as the widest gap there is, so that failing on the hard cases
    does not lead the table. Only the order follows from this; no gap is shown for such a case.

    Parameters
    ----------
    rows
        ``contestant``, ``gap_known``, ``worst_gap_known`` and ``num_gap_known``.
    cases
        By contestant, the number of cases that it could have solved.
    """
    widest = max((item["worst_gap_known"] or 0.0 for item in rows), default=0.0)
    ranks = {}
    for item in rows:
        name, known = item["contestant"], item["num_gap_known"]
        missing = max(0, cases[name] - known) * max(1.0, widest)
        ranks[name] = (((item["gap_known"] or 0.0) * known + missing) / max(1, cases[name]), name)
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
    found: dict[str, dict[str, Rows]] = {question: {} for question in answers}
    for question, rows in answers.items():
        for row in rows:
            found[question].setdefault(row.pop("metric"), []).append(row)
    return found


def _metric(
    found: Mapping[str, Mapping[str, Rows]], figure: Figure, buckets: bool
) -> MetricFindings | None:
    """Pick what is known of one metric; None when there is nothing to compare.

    Any plan with traffic has a collocation worth comparing; what is no part of a whole, as the load
    distance, is shown where a run has proved a bound on it.
    """
    name = figure.name
    rows = {question: by_metric.get(name, []) for question, by_metric in found.items()}
    status = _by(rows["status"], "problem")
    needed = "total_traffic" if figure.shown_as else "best_bound"
    if not any(
        row[needed] is not None and row["best_known"] is not None for row in status.values()
    ):
        return None
    profiled = rows["profiled"][0]
    return MetricFindings(
        name=name,
        sense=str(figure.sense),
        status=status,
        cells={(row["contestant"], row["problem"]): row for row in rows["cells"]},
        contestants=_by(rows["contestants"], "contestant"),
        best=rows["best"][0],
        ratios=rows["ratios"],
        proof_ratios=rows["proof_ratios"],
        num_measured=profiled["measured"],
        num_proved=profiled["proved"],
        sizes=rows["sizes"],
        buckets=buckets,
        runs=rows["runs"],
    )


def _by(rows: Rows, key: str) -> dict[str, Record]:
    return {row[key]: row for row in rows}
