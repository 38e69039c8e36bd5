"""The tables that every question of the report is asked of.

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

from experiments.report.database import COMPARED, MEASURES, SIZES, distinct
from experiments.report.labels import (
    Labels,
    case_factors,
    contestant_expression,
    factor_names,
    read_labels,
    setting_factors,
)
from optim.figures.catalogue import OBJECTIVES
from optim.figures.figure import PERCENT_GAP, RELATIVE_GAP, SHARE_NOISE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from duckdb import DuckDBPyConnection

    from optim.figures.figure import Figure

UNSUITABLE = "^(unsuitable|UnsuitableMethod): "
"""How the error of a run begins whose method said that it does not suit the instance."""

_RUNS = """
WITH contents AS (
  SELECT instance_sha256, coalesce(max(instance_content), instance_sha256) AS content
  FROM sweep_rows GROUP BY instance_sha256
), solvers AS (
  SELECT method_label, count(DISTINCT coalesce(solver, factors['solver'])) AS num_solvers
  FROM sweep_rows GROUP BY method_label
), ready AS (
  SELECT *, coalesce(solver, factors['solver']) AS used_solver,
    array_to_string(list_sort(ignored), ', ') AS limits
  FROM sweep_rows JOIN contents USING (instance_sha256) JOIN solvers USING (method_label)
)
SELECT run_key, sweep, factors, instance, instance_sha256, num_tasks, num_nodes,
  method, family, kind, coalesce(seed, 0) AS seed,
  host, versions, started_at, outcome, error, exit_code, termination, feasible, repaired,
  objective_name, sense, bound_of, trace, coalesce(limits, '') AS ignored,
  finite(objective) AS objective, finite(bound) AS bound,
  finite(certified_bound) AS certified_bound, bound_by AS said_by,
  drained, {figures},
  coalesce(finite(time_build), 0) + finite(time_solve) AS seconds,
  concat(content, CASE WHEN limits <> '' THEN ' without ' || limits END) AS problem,
  {contestant} AS contestant,
  CASE
    WHEN outcome = 'error' AND regexp_matches(error, '{unsuitable}') THEN 'not applicable'
    WHEN outcome IN ('crash', 'timeout', 'memory') THEN outcome
    WHEN outcome <> 'ok' THEN 'error'
    WHEN termination = 'error' THEN 'error'
    WHEN feasible AND termination = 'optimal' AND coalesce(bound_of, 'problem') = 'problem'
      AND finite(objective) IS NOT NULL THEN 'proved optimal'
    WHEN feasible THEN 'plan'
    WHEN NOT feasible THEN 'refused plan'
    WHEN termination = 'infeasible' THEN 'proven infeasible'
    ELSE 'no plan' END AS verdict
FROM ready
"""

_GRADED = {
    "infeasible_problems": """
SELECT problem, list(DISTINCT contestant ORDER BY contestant) AS infeasible_by
FROM runs WHERE verdict = 'proven infeasible' GROUP BY problem
""",
    "own_objectives": """
SELECT contestant, max(objective_name) AS own_objective FROM runs GROUP BY contestant
""",
    "judged": """
SELECT r.* EXCLUDE (objective_name), coalesce(objective_name, own_objective) AS objective_name,
  infeasible_by IS NOT NULL AS none_exists,
  verdict IN ('proved optimal', 'plan') AS has_plan
FROM runs r JOIN own_objectives USING (contestant) LEFT JOIN infeasible_problems USING (problem)
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
SELECT problem, contestant, seed, run_key, instance, verdict, outcome, has_plan, none_exists,
  objective_name, bound, bound_of, certified_bound, said_by, collocation_factor, total_traffic,
  num_tasks, seconds, sizes, place, m.metric, m.metric_sense,
  CASE WHEN has_plan THEN CASE m.metric {values} END END AS value
FROM judged CROSS JOIN (VALUES {metrics}) m(metric, metric_sense)
""",
}
"""What runs are graded by."""

_COMPARED = {
    "reference": f"""
SELECT problem, objective_name,
  CASE min(sense) WHEN 'max' THEN min(bound) ELSE max(bound) END AS best_bound,
  first(contestant ORDER BY CASE sense WHEN 'max' THEN bound ELSE -bound END, contestant)
    FILTER (WHERE bound IS NOT NULL) AS bound_by,
  CASE min(sense) WHEN 'max' THEN max(objective) FILTER (WHERE proved)
    ELSE min(objective) FILTER (WHERE proved) END AS optimum,
  {distinct("contestant", "proved")} AS proved_by,
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
SELECT m.* EXCLUDE (run_key, instance), r.best_bound, r.optimum, b.best_known,
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

_KEPT = ("infeasible_problems", "own_objectives", "reference", "best_measured", "evaluated")
"""Computed once; the others are asked seldom, or are a few columns more of what is stored."""


def define_views(con: DuckDBPyConnection) -> Labels:
    """Make the table ``runs`` of ``sweep_rows``, and name its cases.

    Parameters
    ----------
    con
        A database with the rows of a sweep, from `experiments.report.database.read_sweep`.

    Returns
    -------
    Labels
        The cases.
    """
    for macro in MACROS:
        con.execute(f"CREATE OR REPLACE MACRO {macro}")
    names = factor_names(con)
    of_case = case_factors(con, names)
    settings = [name for name in setting_factors(con, names) if name not in of_case]
    text = _RUNS.format(
        contestant=contestant_expression(settings),
        unsuitable=UNSUITABLE,
        figures=", ".join(f"finite({name}) AS {name}" for name in MEASURES),
    )
    con.execute(f"CREATE TABLE runs_read AS {text}")
    con.execute("DROP TABLE sweep_rows")
    # as numbers, in the order of their texts: what is grouped and joined by all the time
    for name in ("problem", "contestant"):
        con.execute(
            f"CREATE TYPE {name}_name AS ENUM (SELECT DISTINCT {name} FROM runs_read ORDER BY 1)"
        )
    # an instance has its sizes whatever became of a run, and whichever version wrote the row
    sizes = ", ".join(f"{name} := max({name})" for name in SIZES)
    con.execute(
        f"CREATE TABLE runs AS WITH of_problem AS (SELECT problem, struct_pack({sizes}) AS sizes "
        "FROM runs_read GROUP BY problem), "
        "places AS (SELECT run_key, row_number() OVER (ORDER BY run_key) AS place FROM runs_read) "
        "SELECT r.* REPLACE (CAST(problem AS problem_name) AS problem, "
        "CAST(contestant AS contestant_name) AS contestant), sizes, place "
        "FROM runs_read r JOIN of_problem USING (problem) JOIN places USING (run_key)"
    )
    con.execute("DROP TABLE runs_read")
    return read_labels(con, of_case)


def define_graded(con: DuckDBPyConnection) -> None:
    """Define the tables that runs are graded by."""
    metrics = ", ".join(f"('{f.name}', '{f.sense}')" for f in COMPARED)
    values = " ".join(f"WHEN '{f.name}' THEN {f.name}" for f in COMPARED)
    _define(con, {k: t.format(metrics=metrics, values=values) for k, t in _GRADED.items()})


def define_comparisons(con: DuckDBPyConnection) -> None:
    """Define the tables that hold runs against each other."""
    define_graded(con)
    _define(con, _COMPARED)


def _define(con: DuckDBPyConnection, views: Mapping[str, str]) -> None:
    for name, text in views.items():
        kind = "TABLE" if name in _KEPT else "VIEW"
        con.execute(f"CREATE {kind} IF NOT EXISTS {name} AS {text}")


def names_where(condition: Callable[[Figure], object]) -> str:
    """Return a list for SQL's IN: the objectives that meet a condition."""
    return ", ".join(f"'{name}'" for name, figure in OBJECTIVES.items() if condition(figure))


PERCENT = names_where(lambda figure: figure.percent)
"""Objectives whose gaps are differences in percent of their size, as a list for SQL's IN."""

_MAX, _MIN = (names_where(lambda figure, s=s: figure.sense == s) for s in ("max", "min"))  # type: ignore[misc]
_SHARES = names_where(lambda figure: figure.unit == "share")
_OF_SIZE = " ".join(
    f"WHEN name IN ({names_where(lambda figure, size=size: figure.reference == size)}) "  # type: ignore[misc]
    f"THEN struct_extract(sizes, '{size}')"
    for size in SIZES
)

MACROS = (
    "finite(x) AS CASE WHEN isfinite(x) THEN x END",
    f"size_of(name, sizes) AS CASE {_OF_SIZE} END",
    f"""tolerance(name, a, b, sizes) AS CASE WHEN name IN ({PERCENT})
          THEN {PERCENT_GAP!r}::DOUBLE * coalesce(size_of(name, sizes) / 100, 1)
        ELSE greatest(
          {RELATIVE_GAP!r}::DOUBLE * greatest(abs(a), abs(b), coalesce(size_of(name, sizes), 0)),
          CASE WHEN name IN ({_SHARES}) THEN {SHARE_NOISE!r}::DOUBLE ELSE 0 END) END""",
    f"""gap_of(name, a, b, sizes) AS CASE WHEN a IS NULL OR b IS NULL THEN NULL
          WHEN a = b THEN 0
          WHEN a > b AND name IN ({_MAX}) THEN 0
          WHEN a < b AND name IN ({_MIN}) THEN 0
          WHEN name IN ({PERCENT}) THEN CASE
            WHEN size_of(name, sizes) IS NULL THEN abs(a - b)
            WHEN size_of(name, sizes) > 0 THEN 100 * abs(a - b) / size_of(name, sizes)
            ELSE 'Infinity'::DOUBLE END
          ELSE abs(a - b) / greatest(abs(a), abs(b)) END""",
    f"""gap_share(name, a, b, sizes) AS
          gap_of(name, a, b, sizes) / CASE WHEN name IN ({PERCENT}) THEN 100 ELSE 1 END""",
    """share_of(part, whole) AS
          CASE WHEN whole = 0 AND part = 0 THEN 1 ELSE part / nullif(whole, 0) END""",
    f"""beats(name, a, b, sizes) AS CASE WHEN name IN ({_MAX})
          THEN a - b > tolerance(name, a, b, sizes)
        ELSE b - a > tolerance(name, a, b, sizes) END""",
)
"""How differences are seen; what `optim.figures.figure.Figure` says, in SQL."""
