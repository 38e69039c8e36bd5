"""The rows of a sweep in a DuckDB database of this process: contestants, cases, questions."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from experiments.sweep.row import COLUMNS, FIGURE_COLUMNS, NEWER_COLUMNS, REQUIRED
from experiments.sweep.store import ResultFolder, connect, footer, latest_query, literal
from optim.errors import InvalidInput, Problem, first_line
from optim.figures.catalogue import FIGURES, OBJECTIVES

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

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

_IGNORED = "CASE WHEN json_valid(result) THEN CAST(result -> '$.ignored' AS VARCHAR[]) END"
"""Which limits a run ignores: all that is needed of the whole result."""

_UNUSED = frozenset(
    name
    for name in COLUMNS
    if name in ("result", "gap", "time_limit", "time_read", "time_check", "time_total")
    or (name in FIGURE_COLUMNS and name not in (*MEASURES, "drained"))
)
"""Columns that no question is about, nor a row must have."""


def ask(con: DuckDBPyConnection, text: str, **args: Any) -> Rows:
    """Run one query and return its rows as dictionaries; unknown is ``None``.

    Parameters
    ----------
    con
        The database.
    text
        The query; ``$name`` stands for a parameter.
    args
        Parameters; those that the query does not have are left out.
    """
    found = con.execute(text, _used(text, args))
    names = [column[0] for column in found.description or ()]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def ask_columns(con: DuckDBPyConnection, text: str, **args: Any) -> Columns:
    """Run one query whose answer grows with the rows of the sweep, and return it as columns.

    Unknown numbers are ``nan``, other unknown values ``None``.
    """
    found = con.sql(text, params=_used(text, args)).fetchnumpy()
    return {name: _filled(column) for name, column in found.items()}


def _filled(column: Any) -> NDArray[Any]:
    if not isinstance(column, np.ma.MaskedArray):
        return np.asarray(column)
    texts = column.dtype.kind == "O"
    known = column if texts else column.astype(float)
    return np.asarray(np.ma.filled(known, None if texts else np.nan))


def values_of(con: DuckDBPyConnection, enum: str) -> list[str]:
    """Return the texts that the numbers of an enumeration stand for."""
    return [row["name"] for row in ask(con, f"SELECT unnest(enum_range(NULL::{enum})) AS name")]


def _used(text: str, args: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in args.items() if f"${name}" in text}


def distinct(expression: str, condition: str = "true") -> str:
    """Return SQL for the sorted list of an expression's known values where a condition holds."""
    return (
        f"coalesce(list(DISTINCT {expression} ORDER BY {expression}) "
        f"FILTER (WHERE {condition} AND {expression} IS NOT NULL), [])"
    )


def check_folder(folder: str | Path) -> Path:
    """Return the folder if it holds rows that can be read.

    Raises
    ------
    InvalidInput
        It does not exist, is no result folder, holds no rows, or a file of it is not Parquet or
        lacks columns.
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
            (told,) = ask(con, f"SELECT num_rows FROM {footer('file_metadata', path)}")
    except duckdb.Error as error:
        reason = f"cannot be read as Parquet: {first_line(error)}"
        raise _refused(path, reason, _REMEDY) from None
    missing = [name for name in COLUMNS if name not in names and name not in NEWER_COLUMNS]
    if missing:
        more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        reason = f"lacks columns of a sweep's rows: {', '.join(missing[:_SHOWN])}{more}"
        raise _refused(path, reason, _REMEDY)
    return int(told["num_rows"])


def read_sweep(con: DuckDBPyConnection, folder: Path) -> None:
    """Make the table ``sweep_rows``: each run once, with ``ignored`` in place of ``result``.

    Raises
    ------
    InvalidInput
        A file cannot be read, or what a row must have is null.
    """
    import duckdb

    try:
        used = [name for name in COLUMNS if name not in _UNUSED]
        rows = latest_query(con, ResultFolder(folder).files(), used, [f"{_IGNORED} AS ignored"])
        con.execute(f"CREATE TABLE sweep_rows AS {rows}")
        counts = ", ".join(f"count(*) - count({name}) AS {name}" for name in REQUIRED)
        (found,) = ask(con, f"SELECT {counts} FROM sweep_rows")
    except duckdb.Error as error:
        raise _refused(folder, f"cannot be read: {first_line(error)}", _REMEDY) from None
    broken = [name for name in REQUIRED if found[name]]
    if broken:
        raise _refused(folder, f"has rows without {', '.join(broken)}", _REMEDY)


def read_results(folder: Path, keys: Collection[str]) -> dict[str, str | None]:
    """Return the stored results of some runs, whole plans among them, by key."""
    with connect() as con:
        rows = latest_query(con, ResultFolder(folder).files(), ("run_key", "result"))
        wanted = f"SELECT * FROM ({rows}) WHERE run_key IN (SELECT unnest($keys))"
        return dict(con.execute(wanted, {"keys": sorted(keys)}).fetchall())


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
    """One problem that the contestants tried.

    Attributes
    ----------
    problem
        Its key: the hash of the instance's content, whatever it is called, followed by the ignored
        limits where there are any.
    instance
        The instance's name; of equal instances all names, or how many.
    levels
        What distinguishes it from the other cases of the same name, one text per name in
        `Labels.level_names`; empty where a name does not apply.
    """

    problem: str
    instance: str
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
    found = ask(
        con,
        f"SELECT level, {any_of} FROM (SELECT GROUPING(instance_sha256, seed) AS level, {several} "
        "FROM (SELECT *, coalesce(solver, factors['solver'], '') AS used FROM sweep_rows) "
        f"GROUP BY GROUPING SETS ({', '.join(levels)})) GROUP BY level ORDER BY level",
    )
    in_group, on_instance, overall = (
        {name for i, name in enumerate(names) if row[f"f{i}"]} for row in found
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
        found = [_joined(row[f"level{i}"]) for i in range(len(names))]
        found += [row["ignored"]] if several else []
        cases.append(Case(row["problem"], _joined(row["instances"]), tuple(found)))
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
