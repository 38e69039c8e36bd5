"""The rows of a sweep in a DuckDB database of this process: contestants, cases, questions."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from experiments.sweep.row import COLUMNS, FIGURE_COLUMNS, NEWER_COLUMNS, REQUIRED
from experiments.sweep.store import ResultFolder, connect, footer, latest_query, literal
from optim.errors import InvalidInput, Problem, first_line
from optim.figures.catalogue import FIGURES, OBJECTIVES
from optim.figures.figure import PERCENT_GAP, RELATIVE_GAP, SHARE_NOISE, Figure
from streamplace.present.numbers import listed

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Rows = list[dict[str, Any]]
Columns: TypeAlias = "dict[str, NDArray[Any]]"

COMPARED = tuple(figure for figure in FIGURES if figure.question)
"""What every feasible plan is measured by, whatever its method optimises."""

SIZES = sorted({figure.reference for figure in OBJECTIVES.values() if figure.reference})
"""Figures that others are seen against."""

MEASURES = tuple(
    dict.fromkeys((*(name for f in COMPARED for name in (f.name, f.shown_as) if name), *SIZES))
)
"""Columns of these."""

_REMEDY = "remove the file and run the sweep again; it resumes what is missing"
_SHOWN = 8

_IGNORED = (
    """CASE WHEN NOT contains(result, '"ignored":[]') AND json_valid(result) """
    "THEN CAST(result -> '$.ignored' AS VARCHAR[]) END"
)
"""Which limits a run ignores: all that is needed of its result, which is parsed where any are."""

_UNUSED = frozenset(
    name
    for name in COLUMNS
    if name in ("result", "gap", "time_limit", "time_read", "time_check", "time_total")
    or (name in FIGURE_COLUMNS and name not in (*MEASURES, "drained"))
)
"""Columns that no question is about, nor a row must have."""


def ask(con: DuckDBPyConnection, text: str, **args: Any) -> Rows:
    """Run one query and return its rows as dictionaries; unknown is ``None``.

    `text`: the query; ``$name`` stands for a parameter.
    `args`: parameters; those that the query does not have are left out.
    """
    answer = con.execute(text, _used_arguments(text, args))
    names = [column[0] for column in answer.description or ()]
    return [dict(zip(names, row, strict=True)) for row in answer.fetchall()]


def ask_columns(con: DuckDBPyConnection, text: str, **args: Any) -> Columns:
    """Run one query whose answer grows with the rows of the sweep, and return it as columns.

    Unknown numbers are ``nan``, other unknown values ``None``.
    """
    columns = con.sql(text, params=_used_arguments(text, args)).fetchnumpy()
    return {name: _filled(column) for name, column in columns.items()}


def _filled(column: Any) -> NDArray[Any]:
    texts = column.dtype.kind == "O"
    if isinstance(column, np.ma.MaskedArray):
        column = np.ma.filled(*(column, None) if texts else (column.astype(float), np.nan))
    values = np.asarray(column)
    if texts:  # a few that stand in many rows: one object each
        shared: dict[Any, Any] = {}
        values[:] = [shared.setdefault(text, text) for text in values.tolist()]
    return values


def values_of(con: DuckDBPyConnection, enum: str) -> list[str]:
    """Return the texts that the numbers of an enumeration stand for."""
    return [row["name"] for row in ask(con, f"SELECT unnest(enum_range(NULL::{enum})) AS name")]


def _used_arguments(text: str, args: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in args.items() if f"${name}" in text}


def distinct(expression: str, condition: str = "true") -> str:
    """Return SQL for the sorted list of an expression's known values where a condition holds."""
    return (
        f"coalesce(list(DISTINCT {expression} ORDER BY {expression}) "
        f"FILTER (WHERE {condition} AND {expression} IS NOT NULL), [])"
    )


def check_folder(folder: str | Path) -> Path:
    """Return the folder if it holds rows that can be read.

    Raises `InvalidInput`: it does not exist, is no result folder, holds no rows, or a file of it is
        not Parquet or lacks columns.
    """
    path = Path(folder)
    if not path.exists():
        raise _refused(path, "does not exist")
    results = ResultFolder(path)
    results.marker()
    try:
        num_rows = sum(_check_file(file) for file in results.files())
    except PermissionError as error:
        raise _refused(
            Path(error.filename or path), "may not be read", "check its permissions"
        ) from None
    if not num_rows:
        raise _refused(path, "holds no rows", "run the sweep first, or resume it")
    return path


def _check_file(path: Path) -> int:
    """Return the number of rows of a file, from its footer."""
    import duckdb

    with path.open("rb"):
        pass  # or say that it may not be read
    try:
        with connect() as con:
            names = {row["name"] for row in ask(con, f"SELECT name FROM {footer('schema', path)}")}
            (metadata,) = ask(con, f"SELECT num_rows FROM {footer('file_metadata', path)}")
    except duckdb.Error as error:
        reason = f"cannot be read as Parquet: {first_line(error)}"
        raise _refused(path, reason, _REMEDY) from None
    missing = [name for name in COLUMNS if name not in names and name not in NEWER_COLUMNS]
    if missing:
        reason = f"lacks columns of a sweep's rows: {listed(missing, _SHOWN)}"
        raise _refused(path, reason, _REMEDY)
    return int(metadata["num_rows"])


def read_sweep(con: DuckDBPyConnection, folder: Path) -> None:
    """Make the table ``sweep_rows``: each run once, with ``ignored`` in place of ``result``.

    Raises `InvalidInput`: a file cannot be read, or what a row must have is null.
    """
    import duckdb

    try:
        used = [name for name in COLUMNS if name not in _UNUSED]
        rows = latest_query(con, ResultFolder(folder).files(), used, [f"{_IGNORED} AS ignored"])
        con.execute(f"CREATE TABLE sweep_rows AS {rows}")
        counts = ", ".join(f"count(*) - count({name}) AS {name}" for name in REQUIRED)
        (nulls,) = ask(con, f"SELECT {counts} FROM sweep_rows")
    except duckdb.Error as error:
        raise _refused(folder, f"cannot be read: {first_line(error)}", _REMEDY) from None
    broken = [name for name in REQUIRED if nulls[name]]
    if broken:
        raise _refused(folder, f"has rows without {', '.join(broken)}", _REMEDY)


def read_results(folder: Path, keys: Collection[str]) -> dict[str, str | None]:
    """Return the stored results of some runs, whole plans among them, by key."""
    with connect() as con:
        rows = latest_query(con, ResultFolder(folder).files(), ("run_key", "result"))
        query = f"SELECT * FROM ({rows}) WHERE run_key IN (SELECT unnest($keys))"
        return dict(con.execute(query, {"keys": sorted(keys)}).fetchall())


def _refused(
    path: Path, reason: str, remedy: str = "name one that `sweep -o` made"
) -> InvalidInput:
    return InvalidInput(Problem("result folder", str(path), reason, remedy))


# -- contestants and cases -------------------------------------------------------------------------

_IN_THE_LABEL = frozenset({"method", "method_label", "solver", "seed", "instance"})
_SHOWN_SHA = 8
_MOST_NAMES = 3


@dataclass(frozen=True)
class Case:
    """One problem that the contestants tried."""

    #: Its key: the hash of the instance's content, whatever it is called, followed by the ignored
    #: limits where there are any.
    problem: str
    instance: str  # The instance's name; of equal instances all names, or how many.
    #: What distinguishes it from the other cases of the same name, one text per name in
    #: `Labels.level_names`; empty where a name does not apply.
    levels: tuple[str, ...]

    @property
    def name(self) -> str:
        """Return a short name, such as ``Q3 · 0.9``."""
        return " · ".join([self.instance, *(level for level in self.levels if level)])


@dataclass(frozen=True)
class Labels:
    """Cases in natural order, and the names of what distinguishes them."""

    cases: tuple[Case, ...]
    level_names: tuple[str, ...]

    def case(self, problem: str) -> Case:
        """Return the case with this key."""
        return self._by_problem[problem]

    @cached_property
    def _by_problem(self) -> dict[str, Case]:
        return {case.problem: case for case in self.cases}


def natural_key(text: str) -> list[tuple[int, float, str]]:
    """Return a sorting key that puts ``Q2`` before ``Q10`` and 0.5 before 0.75."""
    parts = re.split(r"(\d+(?:\.\d+)?)", text)
    return [
        (0, float(part), "") if index % 2 else (1, 0.0, part.casefold())
        for index, part in enumerate(parts)
    ]


def sort_factors(con: DuckDBPyConnection) -> tuple[list[str], list[str]]:
    """Return factors of the table ``sweep_rows``: those of the instance, and further settings.

    A factor belongs to the instance if it has one value on each, and several in the sweep. Further
    settings differ between runs of one method, solver, seed and instance.
    """
    text = "SELECT DISTINCT unnest(map_keys(factors)) AS name FROM sweep_rows ORDER BY name"
    names = [row["name"] for row in ask(con, text) if row["name"] not in _IN_THE_LABEL]
    if not names:
        return [], []
    values = [f"coalesce(factors[{literal(name)}], '')" for name in names]
    several = ", ".join(f"min({v}) <> max({v}) AS f{i}" for i, v in enumerate(values))
    any_of = ", ".join(f"bool_or(f{i}) AS f{i}" for i in range(len(names)))
    levels = ("()", "(instance_sha256)", "(instance_sha256, method_label, used, seed)")
    # GROUPING has a bit for each that is not grouped by: 0 by settings, 1 by instance, 3 over all
    level_rows = ask(
        con,
        f"SELECT level, {any_of} FROM (SELECT GROUPING(instance_sha256, seed) AS level, {several} "
        "FROM (SELECT *, coalesce(solver, factors['solver'], '') AS used FROM sweep_rows) "
        f"GROUP BY GROUPING SETS ({', '.join(levels)})) GROUP BY level ORDER BY level",
    )
    in_group, on_instance, overall = (
        {name for i, name in enumerate(names) if row[f"f{i}"]} for row in level_rows
    )
    of_case = [name for name in names if name in overall - on_instance]
    return of_case, [name for name in names if name in in_group and name not in of_case]


def contestant_expression(settings: Sequence[str]) -> str:
    """Return the SQL text of a contestant's name.

    Needs the columns ``method_label``, ``used_solver``, ``num_solvers`` and ``factors``.
    """
    parts = [
        "method_label",
        "CASE WHEN num_solvers > 1 THEN ' [' || used_solver || ']' END",
        *(f"{literal(f' {name}=')} || factors[{literal(name)}]" for name in settings),
    ]
    return f"concat({', '.join(parts)})"  # which leaves out what is NULL


def read_labels(con: DuckDBPyConnection, names: Sequence[str]) -> Labels:
    """Name the cases of the table ``runs`` by the factors that belong to the instance."""
    levels = [f", {distinct(f'factors[{literal(name)}]')} AS level{i}"
              for i, name in enumerate(names)]  # fmt: skip
    rows = ask(
        con,
        f"SELECT problem, {distinct('instance')} AS instances, min(ignored) AS ignored"
        f"{''.join(levels)} FROM runs GROUP BY problem",
    )
    names = [*names]
    several = len({row["ignored"] for row in rows}) > 1
    cases = []
    for row in rows:
        levels_of = [_joined(row[f"level{i}"]) for i in range(len(names))]
        levels_of += [row["ignored"]] if several else []
        cases.append(Case(row["problem"], _joined(row["instances"]), tuple(levels_of)))
    cases.sort(
        key=lambda case: ([natural_key(t) for t in (case.instance, *case.levels)], case.problem)
    )
    names += ["ignored limits"] if several else []
    if len({case.name for case in cases}) < len(cases):  # distinguished by their sha256
        names.append("sha256")
        cases = [replace(case, levels=(*case.levels, case.problem[:_SHOWN_SHA])) for case in cases]
    return Labels(tuple(cases), tuple(names))


def _joined(texts: Sequence[str]) -> str:
    """Return one text for those of equal instances."""
    if len(texts) <= _MOST_NAMES:
        return ", ".join(texts)
    return f"{texts[0]} and {len(texts) - 1} equal ones"


# -- every question that the report asks, as named SQL, and the tables that they are asked of ------

UNSUITABLE = "^(unsuitable|UnsuitableMethod): "
"""How the error of a run begins whose method said that it does not suit the instance."""

_NAMED = """
WITH contents AS (
  SELECT instance_sha256, coalesce(max(instance_content), instance_sha256) AS content
  FROM sweep_rows GROUP BY instance_sha256
), solvers AS (
  SELECT method_label, count(DISTINCT coalesce(solver, factors['solver'])) AS num_solvers
  FROM sweep_rows GROUP BY method_label
), ready AS (
  SELECT *, sweep_rows.rowid AS line, coalesce(solver, factors['solver']) AS used_solver,
    array_to_string(list_sort(ignored), ', ') AS limits
  FROM sweep_rows JOIN contents USING (instance_sha256) JOIN solvers USING (method_label)
)
SELECT line, run_key, concat(content, CASE WHEN limits <> '' THEN ' without ' || limits END)
  AS problem, {contestant} AS contestant
FROM ready
"""
"""Which problem and contestant each row of ``sweep_rows`` is of."""

_PLACED = """
SELECT line, CAST(problem AS problem_name) AS problem,
  CAST(contestant AS contestant_name) AS contestant, row_number() OVER (ORDER BY run_key) AS place,
  count(*) OVER (PARTITION BY contestant, problem) = 1 AS alone
FROM named
"""

_RUNS = """
WITH of_problem AS (
  SELECT problem, struct_pack({sizes}) AS sizes
  FROM sweep_rows r JOIN placed ON placed.line = r.rowid GROUP BY problem
)
SELECT run_key, sweep, factors, instance, instance_sha256, num_tasks, num_nodes,
  method, family, kind, coalesce(seed, 0) AS seed,
  host, versions, started_at, outcome, error, exit_code, termination, feasible, repaired,
  objective_name, sense, bound_of, trace,
  coalesce(array_to_string(list_sort(ignored), ', '), '') AS ignored,
  finite(objective) AS objective, finite(bound) AS bound,
  finite(certified_bound) AS certified_bound, bound_by AS said_by,
  drained, {figures},
  coalesce(finite(time_build), 0) + finite(time_solve) AS seconds,
  problem, contestant,
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
    ELSE 'no plan' END AS verdict,
  sizes, place, alone
FROM sweep_rows r JOIN placed ON placed.line = r.rowid JOIN of_problem USING (problem)
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
  num_tasks, seconds, sizes, place, alone, m.metric, m.metric_sense,
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
    """Make the table ``runs`` of ``sweep_rows``, and name its cases."""
    for macro in MACROS:
        con.execute(f"CREATE OR REPLACE MACRO {macro}")
    of_case, settings = sort_factors(con)
    con.execute(
        f"CREATE TABLE named AS {_NAMED.format(contestant=contestant_expression(settings))}"
    )
    # as numbers, in the order of their texts: what is grouped and joined by all the time
    for name in ("problem", "contestant"):
        con.execute(
            f"CREATE TYPE {name}_name AS ENUM (SELECT DISTINCT {name} FROM named ORDER BY 1)"
        )
    con.execute(f"CREATE TABLE placed AS {_PLACED}")
    con.execute("DROP TABLE named")
    text = _RUNS.format(
        unsuitable=UNSUITABLE,
        figures=", ".join(f"finite({name}) AS {name}" for name in MEASURES),
        # an instance has its sizes whatever became of a run, and whichever version wrote the row
        sizes=", ".join(f"{name} := max(finite({name}))" for name in SIZES),
    )
    con.execute(f"CREATE TABLE runs AS {text}")
    for name in ("sweep_rows", "placed"):
        con.execute(f"DROP TABLE {name}")
    labels = read_labels(con, of_case)
    con.execute("ALTER TABLE runs DROP COLUMN factors")  # the widest, and asked for names only
    return labels


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
    f"WHEN level1(name) IN ({names_where(lambda figure, size=size: figure.reference == size)}) "  # type: ignore[misc]
    f"THEN struct_extract(sizes, '{size}')"
    for size in SIZES
)

MACROS = (
    "level1(name) AS split_part(name, ',', 1)",
    f"""is_max(name) AS level1(name) IN ({_MAX})
          OR regexp_matches(level1(name), '[-+*]')""",
    "finite(x) AS CASE WHEN isfinite(x) THEN x END",
    f"size_of(name, sizes) AS CASE {_OF_SIZE} END",
    f"""tolerance(name, a, b, sizes) AS CASE WHEN level1(name) IN ({PERCENT})
          THEN {PERCENT_GAP!r}::DOUBLE * coalesce(size_of(name, sizes) / 100, 1)
        ELSE greatest(
          {RELATIVE_GAP!r}::DOUBLE * greatest(abs(a), abs(b), coalesce(size_of(name, sizes), 0)),
          CASE WHEN level1(name) IN ({_SHARES}) THEN {SHARE_NOISE!r}::DOUBLE ELSE 0 END) END""",
    f"""gap_of(name, a, b, sizes) AS CASE WHEN a IS NULL OR b IS NULL THEN NULL
          WHEN a = b THEN 0
          WHEN a > b AND is_max(name) THEN 0
          WHEN a < b AND level1(name) IN ({_MIN}) THEN 0
          WHEN level1(name) IN ({PERCENT}) THEN CASE
            WHEN size_of(name, sizes) IS NULL THEN abs(a - b)
            WHEN size_of(name, sizes) > 0 THEN 100 * abs(a - b) / size_of(name, sizes)
            ELSE 'Infinity'::DOUBLE END
          ELSE abs(a - b) / greatest(abs(a), abs(b)) END""",
    f"""gap_share(name, a, b, sizes) AS
          gap_of(name, a, b, sizes) / CASE WHEN level1(name) IN ({PERCENT}) THEN 100 ELSE 1 END""",
    """share_of(part, whole) AS
          CASE WHEN whole = 0 AND part = 0 THEN 1 ELSE part / nullif(whole, 0) END""",
    """beats(name, a, b, sizes) AS CASE WHEN is_max(name)
          THEN a - b > tolerance(name, a, b, sizes)
        ELSE b - a > tolerance(name, a, b, sizes) END""",
)
"""How differences are seen; what `optim.figures.figure.Figure` says, in SQL.

Sums of figures are maximised; of levels the first is seen.
"""


# -- questions -------------------------------------------------------------------------------------

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
SELECT {distinct("sweep")} AS sweeps, {distinct("objective_name")} AS objectives,
  count(*) AS num_runs,
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

_GAPS = ("gap_bound", "gap_optimum", "gap_known")


def _per_case(mean: Callable[[str], str]) -> str:
    return ", ".join(f"{mean(gap)} AS {gap}, max({gap}) AS worst_{gap}" for gap in _GAPS)


_OVER_CASES = ", ".join(
    f"{mean(gap)} AS {gap}, max(worst_{gap}) AS worst_{gap}, count({gap}) AS num_{gap}"
    for gap in _GAPS
)


def _own_gaps(condition: str, mean: Callable[[str], str]) -> str:
    """Return SQL per objective, contestant and case: gaps, counts of plans."""
    return f"""
SELECT objective_name, contestant, problem, {_per_case(mean)},
  count(*) AS runs, {_count("has_plan", "plans")},
  {_count("verdict = 'proved optimal'", "proved")}, {_count("is_best", "best")}
FROM compared WHERE NOT none_exists AND verdict <> 'not applicable' AND {condition}
GROUP BY objective_name, contestant, problem
"""


def _cells(condition: str, mean: Callable[[str], str], texts: Callable[[str], str]) -> str:
    """Return SQL per metric, contestant and case; `mean`, `texts` (values as a text) give SQL."""
    return f"""
SELECT metric, contestant, problem, count(*) AS runs,
  bool_or(NOT none_exists AND verdict <> 'not applicable') AS suited,
  {_count("has_plan", "plans")},
  {_count("verdict = 'proved optimal' AND objective_name = metric", "proved")},
  {texts("verdict")} AS verdicts,
  {mean("value")} AS value, {mean("CASE WHEN has_plan THEN collocation_factor END")}
    AS collocation_factor,
  {mean("of_optimum")} AS of_optimum, min(of_optimum) AS worst_of_optimum, {_per_case(mean)},
  {mean("gap_certified")} AS gap_certified, {_count("is_best", "best")},
  {texts("CASE WHEN own_bound IS NOT NULL THEN said_by END")} AS said_by,
  CASE WHEN min(metric_sense) = 'max' THEN min(own_bound) ELSE max(own_bound) END AS own_bound,
  CASE WHEN min(metric_sense) = 'max' THEN min(certified) ELSE max(certified) END AS certified,
  {mean("CASE WHEN outcome = 'ok' THEN seconds END")} AS seconds
FROM (SELECT *, CASE WHEN objective_name = metric AND bound_of = 'problem' THEN bound END
  AS own_bound, CASE WHEN objective_name = metric THEN certified_bound END AS certified
  FROM evaluated WHERE {condition})
GROUP BY metric, contestant, problem
"""


CELLS = (
    # of one run no list is needed, which takes a fifth of the time
    "CREATE TABLE cells AS " + _cells("alone", "max({})".format, "coalesce(max({}), '')".format),
    "INSERT INTO cells "
    + _cells("NOT alone", mean, lambda text: f"array_to_string({distinct(text)}, ',')"),
)

_PROVED = """CASE WHEN verdict = 'proved optimal' AND objective_name = metric AND seconds > 0
  THEN problem END"""

ANYTIME = """
WITH stated AS (
  SELECT contestant, objective_name, place, best_bound, sizes, has_plan,
    list_append(
      [e for e in coalesce(trace, [])
        if has_plan AND e.incumbent IS NOT NULL AND e.seconds <= seconds],
      {'seconds': seconds, 'incumbent': objective, 'bound': bound}) AS events
  FROM compared
  WHERE objective_name = $objective AND NOT none_exists AND best_bound IS NOT NULL
    AND verdict <> 'not applicable'),
steps AS (
  SELECT * EXCLUDE (events), unnest(events) AS event, generate_subscripts(events, 1) AS step
  FROM stated)
SELECT enum_code(contestant) AS contestant, place, event.seconds AS seconds,
  CASE WHEN has_plan THEN gap_share(objective_name, event.incumbent, best_bound, sizes) END AS gap
FROM steps ORDER BY contestant, place, step
"""
"""The gaps to the best proven bound that each run had, and when; its last one even if unknown."""

OF_METRICS = {
    # per metric and case: what is known
    "status": f"""
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
""",
    # per metric and contestant: averaged over the cases where it has a plan
    "contestants": f"""
SELECT metric, contestant, {mean("value")} AS value,
  {mean("collocation_factor")} AS collocation_factor,
  {mean("of_optimum")} AS of_optimum, min(worst_of_optimum) AS worst_of_optimum,
  {_OVER_CASES}, CAST(sum(best) AS BIGINT) AS best
FROM cells WHERE suited GROUP BY metric, contestant
ORDER BY metric, contestant
""",
    # the virtual best of a metric: on each case the best plan of any contestant
    "best": f"""
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
""",
    # the number of cases in the two profiles
    "profiled": f"""
SELECT metric, count(DISTINCT problem) AS measured, count(DISTINCT {_PROVED}) AS proved
FROM evaluated WHERE best_known IS NOT NULL GROUP BY metric
""",
    # the gap to the best proven bound by the number of tasks
    "sizes": f"""
WITH sized AS (
  SELECT *, CASE WHEN $buckets THEN CAST(pow(2, floor(log2(num_tasks))) AS BIGINT)
    ELSE num_tasks END AS size
  FROM evaluated WHERE NOT none_exists AND num_tasks > 0)
SELECT metric, contestant, size, count(DISTINCT problem) AS cases, count(gap_bound) AS runs,
  {mean("gap_bound")} AS gap_bound, max(gap_bound) AS worst_gap_bound
FROM sized GROUP BY metric, contestant, size HAVING count(gap_bound) > 0
ORDER BY metric, contestant, size
""",
}
"""What is asked about every metric, once for all of them: each row names its ``metric``."""

OF_METRIC = {
    "cells": """
SELECT enum_code(contestant) AS contestant, enum_code(problem) AS problem, runs, plans, proved,
  verdicts, value, collocation_factor, gap_bound, gap_optimum, gap_known, gap_certified,
  said_by, own_bound, certified, seconds
FROM cells WHERE metric = $metric ORDER BY contestant, problem
""",
    # how far each plan is from the best known: ratio, or gap where that is a difference
    "ratios": f"""
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
""",
    # how much longer than the fastest proof of the same case each proof took
    "proof_ratios": """
WITH proofs AS (
  SELECT contestant, problem, count(*) OVER (PARTITION BY contestant, problem) AS tries,
    CASE WHEN verdict = 'proved optimal' THEN seconds END AS seconds
  FROM compared WHERE NOT none_exists AND objective_name = $metric),
graded AS (SELECT *, min(seconds) OVER (PARTITION BY problem) AS fastest FROM proofs)
SELECT enum_code(contestant) AS contestant, seconds / fastest AS ratio, tries, count(*) AS runs
FROM graded WHERE seconds IS NOT NULL AND fastest > 0
GROUP BY contestant, ratio, tries ORDER BY contestant, ratio, tries
""",
    # every run on a case that may have a plan, for comparisons in pairs
    "runs": """
SELECT enum_code(contestant) AS contestant, enum_code(problem) AS problem, seed, has_plan, value,
  collocation_factor, tolerance(metric, value, value, sizes) AS noise
FROM evaluated WHERE NOT none_exists AND verdict <> 'not applicable' AND metric = $metric
ORDER BY contestant, problem, seed, place
""",
}
"""What is asked about one metric, ``$metric``: columns that grow with the rows of the sweep."""

OF_RUNS = {
    "contestants": f"""
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
""",
    "infeasible": """
SELECT problem, infeasible_by FROM infeasible_problems ORDER BY problem
""",
    # per objective and contestant: the three gaps, mean over cases and worst run
    "own_gaps": f"""
WITH per_case AS ({_own_gaps("alone", "max({})".format)} UNION ALL {_own_gaps("NOT alone", mean)})
SELECT objective_name, contestant, {_OVER_CASES}, count(*) AS cases,
  CAST(sum(runs) AS BIGINT) AS runs, CAST(sum(plans) AS BIGINT) AS plans,
  CAST(sum(proved) AS BIGINT) AS proved, CAST(sum(best) AS BIGINT) AS best
FROM per_case GROUP BY objective_name, contestant
ORDER BY objective_name, contestant
""",
    # per objective: what the best contestant on each case reaches, and its least time there
    "own_best": f"""
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
""",
    "failed": f"""
SELECT contestant, problem, seed, outcome, verdict, exit_code, error, run_key FROM judged
WHERE verdict IN ({", ".join(f"'{name}'" for name in FAILURES)})
ORDER BY contestant, problem, seed, run_key
""",
    "without_plan": """
SELECT contestant, problem, seed, verdict, error FROM judged
WHERE NOT has_plan AND NOT none_exists AND verdict <> 'not applicable'
ORDER BY contestant, problem, seed, run_key
""",
    "not_applicable": """
SELECT contestant, error, count(*) AS runs FROM judged
WHERE verdict = 'not applicable' GROUP BY contestant, error ORDER BY contestant, error
""",
    # per case the best plan by the objective that most runs have; any run where there is no plan
    "chosen": """
WITH asked AS (SELECT objective_name, count(*) AS runs FROM compared GROUP BY objective_name),
ranked AS (
  SELECT problem, instance_sha256, ignored, run_key, contestant, method, has_plan, none_exists,
    objective_name, best_bound, row_number() OVER (PARTITION BY problem ORDER BY has_plan DESC,
      coalesce(asked.runs, 0) DESC, objective_name, CASE sense WHEN 'max' THEN -objective
      ELSE objective END NULLS LAST, contestant, seed, run_key) AS position
  FROM judged LEFT JOIN asked USING (objective_name)
  LEFT JOIN reference USING (problem, objective_name))
SELECT * EXCLUDE (position) FROM ranked WHERE position = 1 ORDER BY problem
""",
}
"""What is asked besides."""
