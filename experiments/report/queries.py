"""Every question that the report asks, as named SQL over the views of `views`.

Means are taken over a sorted list, so that the same rows give the same bytes in whatever order
they are read. A mean is first taken over the runs on one case (its seeds), then over cases,
so that a case counts once however many seeds it was tried with.
"""

from __future__ import annotations

from experiments.report.database import distinct
from experiments.report.views import PERCENT

FAILURES = ("error", "crash", "timeout", "memory")
"""Outcomes of a run that ended without an answer."""


def mean(expression: str) -> str:
    """Return SQL for the mean of what is known, in an order that does not vary; else NULL."""
    return f"(list_sum(list_sort(list({expression}))) / nullif(count({expression}), 0))"


def shifted_mean(seconds: str) -> str:
    """Return SQL for the geometric mean of times shifted by the parameter ``$shift``, in s."""
    return f"(exp({mean(f'ln({seconds} + $shift)')}) - $shift)"


def _count(condition: str, name: str) -> str:
    return f"count(*) FILTER (WHERE {condition}) AS {name}"


SWEEP = f"""
SELECT {distinct("sweep")} AS sweeps, count(*) AS num_runs,
  count(DISTINCT contestant) AS num_contestants, {distinct("host")} AS hosts,
  count(DISTINCT CASE WHEN NOT none_exists THEN num_tasks END) AS num_sizes,
  {distinct("versions")} AS versions,
  strftime(min(started_at), '%Y-%m-%d %H:%M') AS first_start,
  strftime(max(started_at), '%Y-%m-%d %H:%M') AS last_start,
  quantile_disc(seconds, 0.5) AS median_seconds,
  min(first_seconds) FILTER (WHERE first_seconds > 0) AS least_seconds,
  max(seconds) AS most_seconds
FROM (SELECT *, least(seconds, list_min([e.seconds for e in trace])) AS first_seconds
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
  CAST(sum(runs) AS BIGINT) AS runs, CAST(sum(plans) AS BIGINT) AS plans,
  CAST(sum(proved) AS BIGINT) AS proved, CAST(sum(best) AS BIGINT) AS best
FROM per_case GROUP BY objective_name, contestant
ORDER BY objective_name, contestant
"""
"""Per objective and contestant: the three gaps, mean over cases and worst run."""

OWN_VIRTUAL_BEST = f"""
WITH best AS (
  SELECT objective_name, problem, min(seconds) FILTER (WHERE is_best) AS seconds,
    gap_share(objective_name, max(best_known), max(best_bound), max(sizes)) AS gap_bound,
    gap_share(objective_name, max(best_known), max(optimum), max(sizes)) AS gap_optimum,
    count(*) FILTER (WHERE verdict = 'proved optimal') > 0 AS proved,
    count(*) FILTER (WHERE has_plan) > 0 AS has_plan
  FROM compared WHERE NOT none_exists AND verdict <> 'not applicable'
  GROUP BY objective_name, problem)
SELECT objective_name, {mean("gap_bound")} AS gap_bound, max(gap_bound) AS worst_gap_bound,
  {mean("gap_optimum")} AS gap_optimum, max(gap_optimum) AS worst_gap_optimum,
  count(*) AS runs, {_count("has_plan", "plans")}, {_count("proved", "proved")},
  {shifted_mean("seconds")} AS seconds
FROM best GROUP BY objective_name ORDER BY objective_name
"""
"""Per objective: what the best contestant on each case reaches, and its least time there."""

METRIC_STATUS = f"""
WITH found AS (
SELECT metric, problem, max(best_bound) AS best_bound, max(optimum) AS optimum,
  max(best_known) AS best_known,
  count(*) FILTER (WHERE objective_name = metric AND verdict = 'proved optimal'
    AND said_by = 'certificate') > 0 AS certified,
  max(total_traffic) AS total_traffic, max(gap_known) AS worst_gap,
  {distinct("contestant", "is_best")} AS best_by
FROM evaluated GROUP BY metric, problem)
SELECT f.*, bound_by, proved_by FROM found f
LEFT JOIN reference r ON r.problem = f.problem AND r.objective_name = f.metric
ORDER BY f.metric, f.problem
"""
"""Per metric and case: what is known."""

CELLS = f"""
CREATE TABLE cells AS
SELECT metric, contestant, problem, count(*) AS runs,
  bool_or(NOT none_exists AND verdict <> 'not applicable') AS suited,
  {_count("has_plan", "plans")},
  {_count("verdict = 'proved optimal' AND objective_name = metric", "proved")},
  array_to_string({distinct("verdict")}, ',') AS verdicts,
  {mean("value")} AS value, {mean("CASE WHEN has_plan THEN collocation_factor END")}
    AS collocation_factor,
  {mean("of_optimum")} AS of_optimum, min(of_optimum) AS worst_of_optimum, {_PER_CASE},
  {mean("gap_certified")} AS gap_certified, {_count("is_best", "best")},
  array_to_string({distinct("said_by", "own_bound IS NOT NULL")}, ',') AS said_by,
  CASE WHEN min(metric_sense) = 'max' THEN min(own_bound) ELSE max(own_bound) END AS own_bound,
  CASE WHEN min(metric_sense) = 'max' THEN min(certified) ELSE max(certified) END AS certified,
  {mean("CASE WHEN outcome = 'ok' THEN seconds END")} AS seconds
FROM (SELECT *, CASE WHEN objective_name = metric AND bound_of = 'problem' THEN bound END
  AS own_bound, CASE WHEN objective_name = metric THEN certified_bound END AS certified
  FROM evaluated)
GROUP BY metric, contestant, problem
"""
"""Per metric, contestant and case: its mean over the seeds, its gaps, bounds and time."""

METRIC_CELLS = """
SELECT enum_code(contestant) AS contestant, enum_code(problem) AS problem, runs, plans, proved,
  verdicts, value, collocation_factor, gap_bound, gap_optimum, gap_known, gap_certified,
  said_by, own_bound, certified, seconds
FROM cells WHERE metric = $metric ORDER BY contestant, problem
"""

METRIC_CONTESTANTS = f"""
SELECT metric, contestant, {mean("value")} AS value,
  {mean("collocation_factor")} AS collocation_factor,
  {mean("of_optimum")} AS of_optimum, min(worst_of_optimum) AS worst_of_optimum,
  {_OVER_CASES}, CAST(sum(best) AS BIGINT) AS best
FROM cells WHERE suited GROUP BY metric, contestant
ORDER BY metric, contestant
"""
"""Per metric and contestant: averaged over the cases where it has a plan."""

METRIC_RUNS = """
SELECT enum_code(contestant) AS contestant, enum_code(problem) AS problem, seed, has_plan, value,
  collocation_factor, tolerance(metric, value, value, sizes) AS noise
FROM evaluated WHERE NOT none_exists AND verdict <> 'not applicable' AND metric = $metric
ORDER BY contestant, problem, seed, place
"""
"""Every run on a case that may have a plan, for comparisons in pairs."""

WITHOUT_PLAN = """
SELECT contestant, problem, seed, verdict, error FROM judged
WHERE NOT has_plan AND NOT none_exists AND verdict <> 'not applicable'
ORDER BY contestant, problem, seed, run_key
"""

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
  SELECT contestant, count(*) OVER (PARTITION BY contestant, problem) AS tries,
    CASE WHEN value IS NULL THEN NULL
      WHEN metric IN ({PERCENT}) THEN gap_share(metric, value, best_known, sizes)
      WHEN best_known = value THEN 1 WHEN value <= 0 THEN NULL
      ELSE best_known / value END AS ratio
  FROM evaluated WHERE best_known IS NOT NULL AND metric = $metric)
SELECT enum_code(contestant) AS contestant, ratio, tries, count(*) AS runs
FROM graded WHERE ratio IS NOT NULL
GROUP BY contestant, ratio, tries ORDER BY contestant, ratio, tries
"""
"""How far each plan is from the best known: ratio, or gap where that is a difference."""

PROOF_RATIOS = """
WITH proofs AS (
  SELECT contestant, problem, count(*) OVER (PARTITION BY contestant, problem) AS tries,
    CASE WHEN verdict = 'proved optimal' THEN seconds END AS seconds
  FROM compared WHERE NOT none_exists AND objective_name = $metric),
graded AS (SELECT *, min(seconds) OVER (PARTITION BY problem) AS fastest FROM proofs)
SELECT enum_code(contestant) AS contestant, seconds / fastest AS ratio, tries, count(*) AS runs
FROM graded WHERE seconds IS NOT NULL AND fastest > 0
GROUP BY contestant, ratio, tries ORDER BY contestant, ratio, tries
"""
"""How much longer than the fastest proof of the same case each proof took."""

_PROVED = """CASE WHEN verdict = 'proved optimal' AND objective_name = metric AND seconds > 0
  THEN problem END"""

NUM_PROFILED = f"""
SELECT metric, count(DISTINCT problem) AS measured, count(DISTINCT {_PROVED}) AS proved
FROM evaluated WHERE best_known IS NOT NULL GROUP BY metric
"""
"""The number of cases in the two profiles."""

ANYTIME = """
WITH told AS (
  SELECT contestant, objective_name, place, best_bound, sizes, has_plan,
    list_append(
      [e for e in coalesce(trace, [])
        if has_plan AND e.incumbent IS NOT NULL AND e.seconds <= seconds],
      {'seconds': seconds, 'incumbent': objective, 'bound': bound}) AS events
  FROM compared
  WHERE NOT none_exists AND best_bound IS NOT NULL AND verdict <> 'not applicable'),
steps AS (
  SELECT * EXCLUDE (events), unnest(events) AS event, generate_subscripts(events, 1) AS step
  FROM told)
SELECT objective_name, enum_code(contestant) AS contestant, place, event.seconds AS seconds,
  CASE WHEN has_plan THEN gap_share(objective_name, event.incumbent, best_bound, sizes) END AS gap
FROM steps ORDER BY objective_name, contestant, place, step
"""
"""The gaps to the best proven bound that each run had, and when; its last one even if unknown."""

BY_SIZE = f"""
WITH sized AS (
  SELECT *, CASE WHEN $buckets THEN CAST(pow(2, floor(log2(num_tasks))) AS BIGINT)
    ELSE num_tasks END AS size
  FROM evaluated WHERE NOT none_exists AND num_tasks > 0)
SELECT metric, contestant, size, count(DISTINCT problem) AS cases, count(gap_bound) AS runs,
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
      ELSE objective END NULLS LAST, contestant, seed, run_key) AS position
  FROM judged LEFT JOIN asked USING (objective_name)
  LEFT JOIN reference USING (problem, objective_name))
SELECT * EXCLUDE (position) FROM ranked WHERE position = 1 ORDER BY problem
"""
"""Per case the best plan by the objective that most runs have; any run where there is no plan."""

OF_METRICS = {
    "status": METRIC_STATUS,
    "contestants": METRIC_CONTESTANTS,
    "best": METRIC_BEST,
    "profiled": NUM_PROFILED,
    "sizes": BY_SIZE,
}
"""What is asked about every metric, once for all of them: each row names its ``metric``."""

OF_RUNS = {
    "contestants": CONTESTANTS,
    "infeasible": INFEASIBLE_CASES,
    "own_gaps": OWN_GAPS,
    "own_best": OWN_VIRTUAL_BEST,
    "failed": FAILED_RUNS,
    "without_plan": WITHOUT_PLAN,
    "not_applicable": NOT_APPLICABLE,
    "chosen": CHOSEN_RUNS,
}
"""What is asked besides."""
