"""The rows of a sweep in a DuckDB database of this process: contestants, cases, questions."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib.resources import files
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
    levels = [f", known(factors[{literal(name)}], true) AS level{i}"
              for i, name in enumerate(names)]  # fmt: skip
    rows = ask(
        con,
        f"SELECT problem, known(instance, true) AS instances, min(ignored) AS ignored"
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


# -- every question that the report asks, and the tables that they are asked of --------------------

FAILURES = ("error", "crash", "timeout", "memory")
"""Outcomes of a run that ended without an answer."""

UNSUITABLE = "^(unsuitable|UnsuitableMethod): "
"""How the error of a run begins whose method said that it does not suit the instance."""

_STORED = (
    "infeasible_problems", "own_objectives", "reference", "best_measured", "evaluated", "cells",
)  # fmt: skip
"""Computed once; the others are asked seldom, or are a few columns more of what is stored."""


def _names_where(condition: Callable[[Figure], object]) -> str:
    """Return a list for SQL's IN: the objectives that meet a condition."""
    return ", ".join(f"'{name}'" for name, figure in OBJECTIVES.items() if condition(figure))


_LISTS = {
    "maximised": _names_where(lambda figure: figure.sense == "max"),
    "minimised": _names_where(lambda figure: figure.sense == "min"),
    "percent": _names_where(lambda figure: figure.percent),
    "shares": _names_where(lambda figure: figure.unit == "share"),
    "size_of_name": " ".join(
        f"WHEN level1(name) IN ({_names_where(lambda figure, size=size: figure.reference == size)})"  # type: ignore[misc]
        f" THEN struct_extract(sizes, '{size}')"
        for size in SIZES
    ),
    "percent_gap": repr(PERCENT_GAP),
    "relative_gap": repr(RELATIVE_GAP),
    "share_noise": repr(SHARE_NOISE),
    "sizes": ", ".join(f"{name} := max(finite({name}))" for name in SIZES),
    "figures": ", ".join(f"finite({name}) AS {name}" for name in MEASURES),
    "metrics": ", ".join(f"('{f.name}', '{f.sense}')" for f in COMPARED),
    "values": " ".join(f"WHEN '{f.name}' THEN {f.name}" for f in COMPARED),
    "unsuitable": UNSUITABLE,
}
"""What stands in braces in ``questions.sql``, but for ``{contestant}``."""


@cache
def questions(part: str) -> dict[str, str]:
    """Return the queries of a part of ``questions.sql`` by name."""
    text = files("experiments.report").joinpath("questions.sql").read_text("utf-8")
    for name, sql in _LISTS.items():
        text = text.replace(f"{{{name}}}", sql)
    return _sections(_sections(text, "====")[part], "==")


def _sections(text: str, sign: str) -> dict[str, str]:
    """Return what follows each heading ``-- SIGN NAME``, by name."""
    _, *pieces = re.split(rf"^-- {sign} ([\w ]+).*\n", text, flags=re.MULTILINE)
    return dict(zip(pieces[::2], pieces[1::2], strict=True))


def define_macros(con: DuckDBPyConnection) -> None:
    """Define what queries say of figures; what `optim.figures.figure.Figure` says, in SQL."""
    con.execute(questions("macros")["macros"])


def define_views(con: DuckDBPyConnection) -> Labels:
    """Make the table ``runs`` of ``sweep_rows``, and name its cases."""
    define_macros(con)
    of_case, settings = sort_factors(con)
    queries = questions("rows")
    named = queries["named"].replace("{contestant}", contestant_expression(settings))
    con.execute(f"CREATE TABLE named AS {named}")
    # as numbers, in the order of their texts: what is grouped and joined by all the time
    for name in ("problem", "contestant"):
        con.execute(
            f"CREATE TYPE {name}_name AS ENUM (SELECT DISTINCT {name} FROM named ORDER BY 1)"
        )
    con.execute(f"CREATE TABLE placed AS {queries['placed']}")
    con.execute(f"CREATE TABLE runs AS {queries['runs']}")
    for name in ("named", "sweep_rows", "placed"):
        con.execute(f"DROP TABLE {name}")
    labels = read_labels(con, of_case)
    con.execute("ALTER TABLE runs DROP COLUMN factors")  # the widest, and asked for names only
    return labels


def define_tables(con: DuckDBPyConnection, part: str) -> None:
    """Define the tables of ``graded`` or ``compared``, which needs those of ``graded``."""
    for name, text in questions(part).items():
        kind = "TABLE" if name in _STORED else "VIEW"
        con.execute(f"CREATE {kind} IF NOT EXISTS {name} AS {text}")
