"""Every question that the report asks, as named SQL over the views of `views`.

Means are taken over a sorted list, so that the same rows give the same bytes however Spark
distributes them. A mean is first taken over the runs on one case (its seeds), then over cases,
so that a case counts once however many seeds it was tried with.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from experiments.report.labels import count_distinct
from experiments.report.views import PERCENT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

Rows = list[dict[str, Any]]

_AT_ONCE = 2

FAILURES = ("error", "crash", "timeout", "memory")
"""Outcomes of a run that ended without an answer."""


def ask(spark: SparkSession, text: str, **args: Any) -> Rows:
    """Run one query and return its rows as dictionaries; unknown is ``None``."""
    return [row.asDict(recursive=True) for row in spark.sql(text, args or None).collect()]


def ask_all(spark: SparkSession, questions: Mapping[str, str], **args: Any) -> dict[str, Rows]:
    """Ask several questions, two at a time, and return the answers by the questions' names.

    Of small questions planning is all the work, and each is planned on one core.

    Parameters
    ----------
    spark
        The session.
    questions
        SQL by name.
    args
        Parameters; each question gets those that it has.
    """
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        asked = {
            name: pool.submit(ask, spark, text, **_used(text, args))
            for name, text in questions.items()
        }
        try:
            return {name: answer.result() for name, answer in asked.items()}
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _used(text: str, args: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in args.items() if f":{name}" in text}


def mean(expression: str) -> str:
    """Return SQL for the mean of what is known, in an order that does not vary; else NULL."""
    values = f"array_sort(collect_list({expression}))"
    return f"(aggregate({values}, 0D, (total, x) -> total + x) / nullif(size({values}), 0))"


def shifted_mean(seconds: str) -> str:
    """Return SQL for the geometric mean of times shifted by the parameter ``:shift``, in s."""
    return f"(exp({mean(f'ln({seconds} + :shift)')}) - :shift)"


def _count(condition: str, name: str) -> str:
    return f"count_if({condition}) AS {name}"


SWEEP = f"""
SELECT array_sort(collect_set(sweep)) AS sweeps, count(*) AS num_runs,
  {count_distinct("problem")} AS num_cases, {count_distinct("instance")} AS num_instances,
  {count_distinct("contestant")} AS num_contestants, array_sort(collect_set(host)) AS hosts,
  {count_distinct("CASE WHEN NOT none_exists THEN num_tasks END")} AS num_sizes,
  array_sort(collect_set(versions)) AS versions,
  date_format(min(started_at), 'yyyy-MM-dd HH:mm') AS first_start,
  date_format(max(started_at), 'yyyy-MM-dd HH:mm') AS last_start,
  percentile_approx(seconds, 0.5) AS median_seconds,
  min(first_seconds) FILTER (WHERE first_seconds > 0) AS least_seconds,
  max(seconds) AS most_seconds
FROM (SELECT *, least(seconds, array_min(transform(trace, e -> e.seconds))) AS first_seconds
  FROM judged)
"""

CONTESTANTS = f"""
SELECT contestant, min(method) AS method, min(family) AS family, min(kind) AS kind,
  min(objective_name) AS objective_name, count(*) AS runs,
  {_count("has_plan", "plans")},
  {_count("NOT none_exists AND verdict <> 'not applicable'", "solvable")},
  {_count("verdict = 'proved optimal'", "proved")},
  {_count("verdict = 'proved optimal' AND said_by = 'certificate'", "certified")},
  {_count("verdict = 'plan'", "unproved")},
  {_count("verdict = 'refused plan'", "refused")},
  {_count("verdict = 'proven infeasible'", "infeasible")},
  {_count("verdict = 'no plan' AND NOT none_exists", "no_plan")},
  {_count("verdict = 'no plan' AND none_exists", "none_exists")},
  {_count("verdict = 'not applicable'", "not_applicable")},
  {", ".join(_count(f"verdict = '{name}'", name) for name in FAILURES)},
  {_count("repaired", "repaired")}, {_count("has_plan AND NOT drained", "undrained")},
  {shifted_mean("CASE WHEN outcome = 'ok' THEN seconds END")} AS seconds,
  max(CASE WHEN outcome = 'ok' THEN seconds END) AS most_seconds
FROM judged GROUP BY contestant ORDER BY contestant
"""

INFEASIBLE_CASES = "SELECT problem, infeasible_by FROM infeasible_problems ORDER BY problem"

_GAPS = ("gap_bound", "gap_optimum", "gap_known")


def _gap_columns(gaps: tuple[str, ...] = _GAPS) -> str:
    per_case = ", ".join(f"{mean(gap)} AS {gap}, max({gap}) AS worst_{gap}" for gap in gaps)
    over = ", ".join(
        f"{mean(gap)} AS {gap}, max(worst_{gap}) AS worst_{gap}, count({gap}) AS num_{gap}"
        for gap in gaps
    )
    return f"{per_case}|{over}"


_PER_CASE, _OVER_CASES = _gap_columns().split("|")

OWN_GAPS = f"""
WITH per_case AS (
  SELECT objective_name, contestant, problem, {_PER_CASE},
    count(*) AS runs, {_count("has_plan", "plans")},
    {_count("verdict = 'proved optimal'", "proved")}, {_count("is_best", "best")}
  FROM compared WHERE NOT none_exists AND verdict <> 'not applicable'
  GROUP BY objective_name, contestant, problem)
SELECT objective_name, contestant, {_OVER_CASES}, count(*) AS cases,
  sum(runs) AS runs, sum(plans) AS plans, sum(proved) AS proved, sum(best) AS best
FROM per_case GROUP BY objective_name, contestant
ORDER BY objective_name, contestant
"""
"""Per objective and contestant: the three gaps, mean over cases and worst run."""

OWN_VIRTUAL_BEST = f"""
WITH best AS (
  SELECT objective_name, problem, min(seconds) FILTER (WHERE is_best) AS seconds,
    gap_share(objective_name, max(best_known), max(best_bound), max(sizes)) AS gap_bound,
    gap_share(objective_name, max(best_known), max(optimum), max(sizes)) AS gap_optimum,
    count_if(verdict = 'proved optimal') > 0 AS proved, count_if(has_plan) > 0 AS has_plan
  FROM compared WHERE NOT none_exists AND verdict <> 'not applicable'
  GROUP BY objective_name, problem)
SELECT objective_name, {mean("gap_bound")} AS gap_bound, max(gap_bound) AS worst_gap_bound,
  {mean("gap_optimum")} AS gap_optimum, max(gap_optimum) AS worst_gap_optimum,
  count(*) AS runs, {_count("has_plan", "plans")}, {_count("proved", "proved")},
  {shifted_mean("seconds")} AS seconds
FROM best GROUP BY objective_name ORDER BY objective_name
"""
"""Per objective: what the best contestant on each case reaches, and its least time there."""

METRIC_STATUS = """
SELECT metric, problem, max(best_bound) AS best_bound, max(bound_by) AS bound_by,
  max(optimum) AS optimum, max(proved_by) AS proved_by, max(best_known) AS best_known,
  count_if(objective_name = metric AND verdict = 'proved optimal' AND said_by = 'certificate') > 0
    AS certified,
  max(total_traffic) AS total_traffic, max(gap_known) AS worst_gap,
  array_sort(collect_set(CASE WHEN is_best THEN contestant END)) AS best_by
FROM evaluated GROUP BY metric, problem ORDER BY metric, problem
"""
"""Per metric and case: what is known."""

METRIC_CELLS = f"""
SELECT metric, contestant, problem, count(*) AS runs, {_count("has_plan", "plans")},
  {_count("verdict = 'proved optimal' AND objective_name = metric", "proved")},
  sort_array(collect_set(verdict)) AS verdicts,
  {mean("value")} AS value, {mean("CASE WHEN has_plan THEN collocation_factor END")}
    AS collocation_factor,
  {mean("gap_bound")} AS gap_bound, {mean("gap_optimum")} AS gap_optimum,
  {mean("gap_known")} AS gap_known, {mean("gap_certified")} AS gap_certified,
  sort_array(collect_set(CASE WHEN own_bound IS NOT NULL THEN said_by END)) AS said_by,
  CASE WHEN min(metric_sense) = 'max' THEN min(own_bound) ELSE max(own_bound) END AS own_bound,
  CASE WHEN min(metric_sense) = 'max' THEN min(certified) ELSE max(certified) END AS certified,
  {mean("CASE WHEN outcome = 'ok' THEN seconds END")} AS seconds
FROM (SELECT *, CASE WHEN objective_name = metric AND bound_of = 'problem' THEN bound END
  AS own_bound, CASE WHEN objective_name = metric THEN certified_bound END AS certified
  FROM evaluated)
GROUP BY metric, contestant, problem ORDER BY metric, contestant, problem
"""
"""Per metric, contestant and case: its mean over the seeds, its gaps, bounds and time."""

METRIC_CONTESTANTS = f"""
WITH per_case AS (
  SELECT metric, contestant, problem, {mean("value")} AS value,
    {mean("CASE WHEN has_plan THEN collocation_factor END")} AS collocation_factor,
    {mean("of_optimum")} AS of_optimum, min(of_optimum) AS worst_of_optimum, {_PER_CASE},
    {_count("is_best", "best")}
  FROM evaluated WHERE NOT none_exists AND verdict <> 'not applicable'
  GROUP BY metric, contestant, problem)
SELECT metric, contestant, {mean("value")} AS value,
  {mean("collocation_factor")} AS collocation_factor,
  {mean("of_optimum")} AS of_optimum, min(worst_of_optimum) AS worst_of_optimum,
  {_OVER_CASES}, sum(best) AS best
FROM per_case GROUP BY metric, contestant
ORDER BY metric, contestant
"""
"""Per metric and contestant: averaged over the cases where it has a plan."""

METRIC_RUNS = """
SELECT metric, contestant, problem, seed, run_key, verdict, has_plan, value, collocation_factor,
  tolerance(metric, value, value, sizes) AS noise
FROM evaluated WHERE NOT none_exists AND verdict <> 'not applicable'
ORDER BY metric, contestant, problem, seed, run_key
"""
"""Per metric every run on a case that may have a plan, for comparisons in pairs."""

METRIC_BEST = f"""
WITH best AS (
  SELECT metric, problem, max(best_known) AS value, max(optimum) AS optimum,
    max(collocation_factor) FILTER (WHERE is_best) AS collocation_factor,
    min(seconds) FILTER (WHERE is_best) AS seconds, max(sizes) AS sizes
  FROM evaluated WHERE NOT none_exists AND verdict <> 'not applicable'
  GROUP BY metric, problem)
SELECT metric, {mean("value")} AS value, {mean("collocation_factor")} AS collocation_factor,
  {mean("gap_share(metric, value, optimum, sizes)")} AS gap_optimum,
  max(gap_share(metric, value, optimum, sizes)) AS worst_gap_optimum,
  {mean("share_of(value, optimum)")} AS of_optimum,
  min(share_of(value, optimum)) AS worst_of_optimum,
  {shifted_mean("seconds")} AS seconds, count(value) AS plans, count(*) AS runs,
  count(optimum) AS proved
FROM best GROUP BY metric
"""
"""The virtual best of a metric: on each case the best plan of any contestant."""

RATIOS = f"""
WITH graded AS (
  SELECT metric, contestant, count(*) OVER (PARTITION BY metric, contestant, problem) AS tries,
    CASE WHEN value IS NULL THEN NULL
      WHEN metric IN ({PERCENT}) THEN gap_share(metric, value, best_known, sizes)
      WHEN best_known = value THEN 1D WHEN value <= 0 THEN NULL
      ELSE best_known / value END AS ratio
  FROM evaluated WHERE best_known IS NOT NULL)
SELECT metric, contestant, ratio, tries, count(*) AS runs FROM graded WHERE ratio IS NOT NULL
GROUP BY metric, contestant, ratio, tries ORDER BY metric, contestant, ratio, tries
"""
"""How far each plan is from the best known: ratio, or gap where that is a difference."""

PROOF_RATIOS = """
WITH proofs AS (
  SELECT objective_name AS metric, contestant, problem,
    count(*) OVER (PARTITION BY objective_name, contestant, problem) AS tries,
    CASE WHEN verdict = 'proved optimal' THEN seconds END AS seconds
  FROM compared WHERE NOT none_exists),
graded AS (SELECT *, min(seconds) OVER (PARTITION BY metric, problem) AS fastest FROM proofs)
SELECT metric, contestant, seconds / fastest AS ratio, tries, count(*) AS runs
FROM graded WHERE seconds IS NOT NULL AND fastest > 0
GROUP BY metric, contestant, ratio, tries ORDER BY metric, contestant, ratio, tries
"""
"""How much longer than the fastest proof of the same case each proof took."""

_PROVED = """CASE WHEN verdict = 'proved optimal' AND objective_name = metric AND seconds > 0
  THEN problem END"""

NUM_PROFILED = f"""
SELECT metric, {count_distinct("problem")} AS measured, {count_distinct(_PROVED)} AS proved
FROM evaluated WHERE best_known IS NOT NULL GROUP BY metric
"""
"""The number of cases in the two profiles."""

ANYTIME = """
WITH events AS (
  SELECT contestant, objective_name, best_bound, sizes,
    concat(
      filter(coalesce(trace, array()),
        e -> has_plan AND e.incumbent IS NOT NULL AND e.seconds <= seconds),
      CASE WHEN has_plan THEN array(named_struct('seconds', seconds, 'incumbent', objective,
        'bound', bound)) ELSE array() END) AS events
  FROM compared
  WHERE NOT none_exists AND best_bound IS NOT NULL AND verdict <> 'not applicable'),
states AS (
  SELECT contestant, objective_name, moment, best_bound, sizes,
    try_element_at(filter(events, e -> e.seconds <= moment), -1).incumbent AS incumbent
  FROM events LATERAL VIEW explode(from_json(:moments, 'array<double>')) AS moment),
gaps AS (
  SELECT *, coalesce(gap_share(objective_name, incumbent, best_bound, sizes),
    double('Infinity')) AS gap
  FROM states)
SELECT objective_name, contestant, moment, count(*) AS runs,
  nullif(element_at(array_sort(collect_list(gap)), CAST(ceil(count(*) / 2) AS INT)),
    double('Infinity')) AS gap
FROM gaps GROUP BY objective_name, contestant, moment
ORDER BY objective_name, contestant, moment
"""
"""The gap to the best proven bound that half of the runs have reached after a time."""

BY_SIZE = f"""
WITH sized AS (
  SELECT *, CASE WHEN :buckets THEN CAST(pow(2, floor(log2(num_tasks))) AS INT)
    ELSE num_tasks END AS size
  FROM evaluated WHERE NOT none_exists AND num_tasks > 0)
SELECT metric, contestant, size, {count_distinct("problem")} AS cases, count(gap_bound) AS runs,
  {mean("gap_bound")} AS gap_bound, max(gap_bound) AS worst_gap_bound
FROM sized GROUP BY metric, contestant, size HAVING count(gap_bound) > 0
ORDER BY metric, contestant, size
"""
"""The gap to the best proven bound by the number of tasks."""

FAILED_RUNS = f"""
SELECT contestant, problem, seed, outcome, verdict, exit_code, error, run_key FROM judged
WHERE verdict IN ({", ".join(f"'{name}'" for name in FAILURES)})
ORDER BY contestant, problem, seed, run_key
"""

NOT_APPLICABLE = """
SELECT contestant, error, count(*) AS runs FROM judged
WHERE verdict = 'not applicable' GROUP BY contestant, error ORDER BY contestant, error
"""

CHOSEN_RUNS = """
WITH asked AS (SELECT objective_name, count(*) AS runs FROM compared GROUP BY objective_name),
ranked AS (
  SELECT problem, instance_sha256, ignored, run_key, contestant, method, has_plan, none_exists,
    objective_name, best_bound, row_number() OVER (PARTITION BY problem ORDER BY has_plan DESC,
      coalesce(asked.runs, 0) DESC, objective_name, CASE sense WHEN 'max' THEN -objective
      ELSE objective END NULLS LAST, contestant, seed, run_key) AS place
  FROM judged LEFT JOIN asked USING (objective_name)
  LEFT JOIN reference USING (problem, objective_name))
SELECT * EXCEPT (place) FROM ranked WHERE place = 1 ORDER BY problem
"""
"""Per case the best plan by the objective that most runs have; any run where there is no plan."""

OF_METRICS = {
    "status": METRIC_STATUS,
    "cells": METRIC_CELLS,
    "contestants": METRIC_CONTESTANTS,
    "best": METRIC_BEST,
    "runs": METRIC_RUNS,
    "ratios": RATIOS,
    "proof_ratios": PROOF_RATIOS,
    "profiled": NUM_PROFILED,
    "sizes": BY_SIZE,
}
"""What is asked about every metric, once for all of them: each row names its ``metric``."""

OF_RUNS = {
    "contestants": CONTESTANTS,
    "infeasible": INFEASIBLE_CASES,
    "own_gaps": OWN_GAPS,
    "own_best": OWN_VIRTUAL_BEST,
    "anytime": ANYTIME,
    "failed": FAILED_RUNS,
    "not_applicable": NOT_APPLICABLE,
    "chosen": CHOSEN_RUNS,
}
"""What is asked besides."""
