"""The SQL views that every question of the report is asked of.

``sweep_rows``  the rows as stored, without results
``runs``        one row a run: contestant, problem, verdict, method time, the sizes that gaps are
                seen against; broken numbers unknown
``judged``      runs, with whether their problem is proven infeasible
``reference``   per problem and objective: best proven bound, proven optimum, best known
``compared``    judged runs of methods with an objective, with the three gaps on it
``evaluated``   judged runs × metrics (any method's plan can be measured), with the three gaps

``finite(x)``                          a broken number is unknown
``tolerance(name, a, b, sizes)``       how far two values may lie apart and still be the same
``gap_of(name, a, b, sizes)``          `Figure.gap`, in the figure's own unit of gaps
``gap_share(name, a, b, sizes)``       the same with 1 for 100 %, whatever that unit
``share_of(value, optimum)``           their ratio
``beats(name, value, bound, sizes)``   whether a value lies beyond a bound by more than rounding

``sizes`` is a struct with what differences are seen against, a field for each of `SIZES`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.report.labels import (
    Labels,
    case_factors,
    contestant_expression,
    factor_names,
    read_labels,
    setting_factors,
)
from optim.figures.catalogue import FIGURES, OBJECTIVES
from optim.figures.figure import PERCENT_GAP, RELATIVE_GAP, SHARE_NOISE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from optim.figures.figure import Figure

UNSUITABLE = "^(unsuitable|UnsuitableMethod): "
"""How the error of a run begins whose method said that it does not suit the instance."""

COMPARED = tuple(figure for figure in FIGURES if figure.question)
"""What every feasible plan is measured by, whatever its method optimises."""

_RUNS = """
WITH ready AS (
  SELECT *,
    coalesce(solver, factors['solver']) AS used_solver,
    coalesce(max(instance_content) OVER (PARTITION BY instance_sha256), instance_sha256) AS content,
    array_join(array_sort(from_json(ignored, 'array<string>')), ', ') AS limits
  FROM sweep_rows
), solvers AS (
  SELECT method_label, size(collect_set(used_solver)) AS num_solvers
  FROM ready GROUP BY method_label
)
SELECT run_key, sweep, factors, instance, instance_sha256, num_tasks, num_nodes,
  method, method_label, family, kind, used_solver AS solver, coalesce(seed, 0) AS seed,
  host, versions, started_at, outcome, error, exit_code, termination, feasible, repaired,
  objective_name, sense, bound_of, trace, coalesce(limits, '') AS ignored,
  finite(objective) AS objective, finite(bound) AS bound,
  finite(certified_bound) AS certified_bound, bound_by AS said_by,
  drained, {figures},
  finite(time_total) AS time_total,
  coalesce(finite(time_build), 0D) + finite(time_solve) AS seconds,
  concat(content, CASE WHEN limits <> '' THEN concat(' without ', limits) ELSE '' END) AS problem,
  {contestant} AS contestant,
  CASE
    WHEN outcome = 'error' AND error RLIKE '{unsuitable}' THEN 'not applicable'
    WHEN outcome IN ('crash', 'timeout', 'memory') THEN outcome
    WHEN outcome <> 'ok' THEN 'error'
    WHEN termination = 'error' THEN 'error'
    WHEN feasible AND termination = 'optimal' AND coalesce(bound_of, 'problem') = 'problem'
      AND finite(objective) IS NOT NULL THEN 'proved optimal'
    WHEN feasible THEN 'plan'
    WHEN NOT feasible THEN 'refused plan'
    WHEN termination = 'infeasible' THEN 'proven infeasible'
    ELSE 'no plan' END AS verdict
FROM ready JOIN solvers USING (method_label)
"""

_GRADED = {
    "infeasible_problems": """
SELECT problem, sort_array(collect_set(contestant)) AS infeasible_by
FROM runs WHERE verdict = 'proven infeasible' GROUP BY problem
""",
    "judged": """
SELECT r.* EXCEPT (objective_name),
  coalesce(objective_name, max(objective_name) OVER (PARTITION BY contestant)) AS objective_name,
  infeasible_by IS NOT NULL AS none_exists,
  verdict IN ('proved optimal', 'plan') AS has_plan
FROM runs r LEFT JOIN infeasible_problems USING (problem)
""",
    # a proof of optimality is a bound too, should its row hold none
    "claims": """
SELECT problem, objective_name, sense, contestant, seed, run_key, instance,
  verdict = 'proved optimal' AS proved,
  CASE WHEN verdict IN ('proved optimal', 'plan') THEN objective END AS objective, sizes,
  CASE WHEN bound_of = 'problem' AND verdict <> 'error' THEN bound
    WHEN bound IS NULL AND verdict = 'proved optimal' THEN objective END AS bound
FROM runs
WHERE outcome = 'ok' AND objective_name IS NOT NULL AND sense IN ('max', 'min')
""",
    "measured": """
SELECT j.* EXCEPT (trace), metric, metric_sense, CASE WHEN has_plan THEN raw END AS value
FROM judged j LATERAL VIEW {stacked} AS metric, metric_sense, raw
""",
}
"""What runs are graded by."""

_COMPARED = {
    "reference": """
SELECT problem, objective_name,
  CASE min(sense) WHEN 'max' THEN min(bound) ELSE max(bound) END AS best_bound,
  CASE min(sense) WHEN 'max' THEN min_by(contestant, struct(bound, contestant)) FILTER (
      WHERE bound IS NOT NULL)
    ELSE min_by(contestant, struct(-bound, contestant)) FILTER (WHERE bound IS NOT NULL)
    END AS bound_by,
  CASE min(sense) WHEN 'max' THEN max(objective) FILTER (WHERE proved)
    ELSE min(objective) FILTER (WHERE proved) END AS optimum,
  sort_array(collect_set(contestant) FILTER (WHERE proved)) AS proved_by,
  CASE min(sense) WHEN 'max' THEN max(objective) ELSE min(objective) END AS best_known
FROM claims GROUP BY problem, objective_name
""",
    "compared": """
SELECT j.*, best_bound, optimum, best_known,
  CASE WHEN has_plan THEN gap_share(objective_name, objective, best_bound, sizes) END AS gap_bound,
  CASE WHEN has_plan THEN gap_share(objective_name, objective, optimum, sizes) END AS gap_optimum,
  CASE WHEN has_plan THEN gap_share(objective_name, objective, best_known, sizes) END AS gap_known,
  has_plan AND abs(objective - best_known)
    <= tolerance(objective_name, objective, best_known, sizes) AS is_best
FROM judged j LEFT JOIN reference USING (problem, objective_name)
WHERE objective_name IS NOT NULL
""",
    "best_measured": """
SELECT problem, metric,
  CASE min(metric_sense) WHEN 'max' THEN max(value) ELSE min(value) END AS best_known
FROM measured GROUP BY problem, metric
""",
    "evaluated": """
SELECT m.*, r.best_bound, r.bound_by, r.optimum, r.proved_by, b.best_known,
  gap_share(m.metric, value, r.best_bound, sizes) AS gap_bound,
  gap_share(m.metric, value, r.optimum, sizes) AS gap_optimum,
  CASE WHEN m.objective_name = m.metric
    THEN gap_share(m.metric, value, certified_bound, sizes) END AS gap_certified,
  gap_share(m.metric, value, b.best_known, sizes) AS gap_known,
  share_of(value, r.optimum) AS of_optimum,
  abs(value - b.best_known) <= tolerance(m.metric, value, b.best_known, sizes) AS is_best
FROM measured m
LEFT JOIN reference r ON r.problem = m.problem AND r.objective_name = m.metric
LEFT JOIN best_measured b ON b.problem = m.problem AND b.metric = m.metric
""",
}
"""What is asked about runs that do not contradict each other."""

_KEPT = ("runs", "judged", "claims", "measured", "compared", "evaluated")
"""Views that are asked often: computed once, and short plans for what builds on them."""

_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Thousands of rows, dozens of queries: compiling each would take longer than answering it."""


def report_session(spark: SparkSession) -> SparkSession:
    """Return a session of the same Spark with its own views, set for many small queries."""
    session = spark.newSession()
    for name, value in _SETTINGS.items():
        session.conf.set(name, value)
    return session


ROWS_TOGETHER = 20_000
"""Up to so many rows lie in one partition, which one task works through in a second or two."""

_TOGETHER = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}
"""Then no join, no grouping and no sorting moves a row: each query is one task of one stage."""

_APART = {"spark.sql.shuffle.partitions": "8"}


def laid_out(spark: SparkSession, rows: DataFrame, num_rows: int) -> DataFrame:
    """Return the rows in as many partitions as their number asks for, and set the session so."""
    together = num_rows <= ROWS_TOGETHER
    for name, value in (_TOGETHER if together else _APART).items():
        spark.conf.set(name, value)
    return rows.coalesce(1) if together else rows


def define_views(spark: SparkSession, rows: DataFrame) -> Labels:
    """Define the view ``runs`` over the rows of a sweep, in this session, and name its cases.

    Parameters
    ----------
    spark
        The session; gets temporary functions and views.
    rows
        The rows of the sweep, one a run, from `experiments.report.build.read_sweep`.

    Returns
    -------
    Labels
        The cases.
    """
    for function in FUNCTIONS:
        spark.sql(function)
    for name in ("runs", *_GRADED, *_COMPARED):
        spark.catalog.dropTempView(name)  # of other rows
    rows.createOrReplaceTempView("sweep_rows")
    names = factor_names(spark)
    of_case = case_factors(spark, names)
    settings = [name for name in setting_factors(spark, names) if name not in of_case]
    expression, args = contestant_expression(settings)
    figures = dict.fromkeys(name for f in COMPARED for name in (f.name, f.shown_as) if name)
    shown = ", ".join(f"finite({name}) AS {name}" for name in figures | dict.fromkeys(SIZES))
    spark.sql(
        _RUNS.format(contestant=expression, unsuitable=UNSUITABLE, figures=shown), args
    ).localCheckpoint().createOrReplaceTempView("runs_read")
    # an instance has its sizes whatever became of a run, and whichever version wrote the row
    sizes = ", ".join(f"'{name}', max({name}) OVER (PARTITION BY problem)" for name in SIZES)
    _define(spark, {"runs": f"SELECT *, named_struct({sizes}) AS sizes FROM runs_read"})
    return read_labels(spark, spark.table("runs"), of_case)


def define_graded(spark: SparkSession) -> None:
    """Define the views that runs are graded by, if this session does not have them yet."""
    metrics = ", ".join(f"'{f.name}', '{f.sense}', {f.name}" for f in COMPARED)
    stacked = f"stack({len(COMPARED)}, {metrics})"
    _define(spark, {name: text.format(stacked=stacked) for name, text in _GRADED.items()})


def define_comparisons(spark: SparkSession) -> None:
    """Define the views that hold runs against each other."""
    define_graded(spark)
    _define(spark, _COMPARED)


def _define(spark: SparkSession, views: Mapping[str, str]) -> None:
    for name, text in views.items():
        if not spark.catalog.tableExists(name):
            view = spark.sql(text)
            (view.localCheckpoint() if name in _KEPT else view).createOrReplaceTempView(name)


SIZES = sorted({figure.reference for figure in OBJECTIVES.values() if figure.reference})
"""Figures that others are seen against: columns of a sweep's rows."""

_STRUCT = f"STRUCT<{', '.join(f'{name}: DOUBLE' for name in SIZES)}>"


def names_where(condition: Callable[[Figure], object]) -> str:
    """Return a list for SQL's IN: the objectives that meet a condition."""
    return ", ".join(f"'{name}'" for name, figure in OBJECTIVES.items() if condition(figure))


PERCENT = names_where(lambda figure: figure.percent)
"""Objectives whose gaps are differences in percent of their size, as a list for SQL's IN."""

_OF_SIZE = " ".join(
    f"WHEN name IN ({names_where(lambda figure, size=size: figure.reference == size)}) "  # type: ignore[misc]
    f"THEN sizes.{size}"
    for size in SIZES
)


def _function(head: str, returns: str, body: str) -> str:
    return f"CREATE OR REPLACE TEMPORARY FUNCTION {head} RETURNS {returns} RETURN {body}"


_ARGUMENTS = f"name STRING, a DOUBLE, b DOUBLE, sizes {_STRUCT}"

FUNCTIONS = (
    _function(
        "finite(x DOUBLE)",
        "DOUBLE",
        "CASE WHEN isnan(x) OR abs(x) = double('Infinity') THEN NULL ELSE x END",
    ),
    _function(f"size_of(name STRING, sizes {_STRUCT})", "DOUBLE", f"CASE {_OF_SIZE} END"),
    _function(
        f"tolerance({_ARGUMENTS})",
        "DOUBLE",
        f"""CASE WHEN name IN ({PERCENT})
            THEN {PERCENT_GAP}D * coalesce(size_of(name, sizes) / 100, 1D)
          ELSE greatest(
            {RELATIVE_GAP}D * greatest(abs(a), abs(b), coalesce(size_of(name, sizes), 0D)),
            CASE WHEN name IN ({names_where(lambda f: f.unit == "share")}) THEN {SHARE_NOISE}D
              ELSE 0D END) END""",
    ),
    _function(
        f"gap_of({_ARGUMENTS})",
        "DOUBLE",
        f"""CASE WHEN a IS NULL OR b IS NULL THEN NULL
          WHEN a = b THEN 0D
          WHEN a > b AND name IN ({names_where(lambda f: f.sense == "max")}) THEN 0D
          WHEN a < b AND name IN ({names_where(lambda f: f.sense == "min")}) THEN 0D
          WHEN name IN ({PERCENT}) THEN CASE
            WHEN size_of(name, sizes) IS NULL THEN abs(a - b)
            WHEN size_of(name, sizes) > 0 THEN 100 * abs(a - b) / size_of(name, sizes)
            ELSE double('Infinity') END
          ELSE abs(a - b) / greatest(abs(a), abs(b)) END""",
    ),
    _function(
        f"gap_share({_ARGUMENTS})",
        "DOUBLE",
        f"gap_of(name, a, b, sizes) / CASE WHEN name IN ({PERCENT}) THEN 100D ELSE 1D END",
    ),
    _function(
        "share_of(value DOUBLE, optimum DOUBLE)",
        "DOUBLE",
        "CASE WHEN optimum = 0 AND value = 0 THEN 1D ELSE value / nullif(optimum, 0) END",
    ),
    _function(
        f"beats({_ARGUMENTS})",
        "BOOLEAN",
        f"""CASE WHEN name IN ({names_where(lambda f: f.sense == "max")})
          THEN a - b > tolerance(name, a, b, sizes)
          ELSE b - a > tolerance(name, a, b, sizes) END""",
    ),
)
