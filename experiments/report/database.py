"""The rows of a sweep in a DuckDB database of this process: contestants, cases, questions."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from experiments.sweep.row import COLUMNS, FIGURE_COLUMNS, NEWER_COLUMNS, REQUIRED
from experiments.sweep.store import ResultFolder, footer, literal, parquet_source
from optim.errors import InvalidInput, Problem
from optim.figures.catalogue import FIGURES, OBJECTIVES

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

Rows = list[dict[str, Any]]
Columns: TypeAlias = "dict[str, NDArray[Any]]"

MEMORY = "800MB"
"""What the database may hold; beyond it uses a temporary folder."""

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

_SQL_TYPES = {
    "text": "VARCHAR", "int": "BIGINT", "float": "DOUBLE", "bool": "BOOLEAN",
    "time": "TIMESTAMPTZ", "map": "MAP(VARCHAR, VARCHAR)",
    "trace": "STRUCT(seconds DOUBLE, incumbent DOUBLE, bound DOUBLE)[]",
}  # fmt: skip

_IGNORED = "CASE WHEN json_valid(result) THEN CAST(result -> '$.ignored' AS VARCHAR[]) END"
"""Which limits a run was told to ignore: all that is needed of the whole result."""

_UNUSED = frozenset(
    name
    for name in COLUMNS
    if name in ("result", "gap", "time_limit", "time_read", "time_check", "time_total")
    or (name in FIGURE_COLUMNS and name not in (*MEASURES, "drained"))
)
"""Columns that no question is about, nor a row must have."""


def connect() -> DuckDBPyConnection:
    """Return an empty database of this process; large ones spill to the temporary folder."""
    import duckdb

    con = duckdb.connect(config={"memory_limit": MEMORY, "threads": 2})
    con.execute("SET temp_directory = ?", [tempfile.gettempdir()])
    con.execute("SET TimeZone = 'UTC'")
    con.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")
    con.execute("SET enable_progress_bar = false")
    return con


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
        reason = f"cannot be read as Parquet: {_first_line(error)}"
        raise _refused(path, reason, _REMEDY) from None
    missing = [name for name in COLUMNS if name not in names and name not in NEWER_COLUMNS]
    if missing:
        more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        reason = f"lacks columns of a sweep's rows: {', '.join(missing[:_SHOWN])}{more}"
        raise _refused(path, reason, _REMEDY)
    return int(told["num_rows"])


def read_sweep(con: DuckDBPyConnection, folder: Path) -> None:
    """Make the table ``sweep_rows``: each run once, with ``ignored`` in place of ``result``.

    Of the rows of one key the latest counts, as everywhere in a result folder.

    Raises
    ------
    InvalidInput
        A file cannot be read, or what a row must have is null.
    """
    import duckdb

    try:
        con.execute(_reading(con, _parquet(folder)))
        counts = ", ".join(f"count(*) - count({name}) AS {name}" for name in REQUIRED)
        (found,) = ask(con, f"SELECT {counts} FROM sweep_rows")
    except duckdb.Error as error:
        raise _refused(folder, f"cannot be read: {_first_line(error)}", _REMEDY) from None
    broken = [name for name in REQUIRED if found[name]]
    if broken:
        raise _refused(folder, f"has rows without {', '.join(broken)}", _REMEDY)


def read_results(folder: Path, keys: Collection[str]) -> dict[str, str | None]:
    """Return the stored results of some runs, whole plans among them, by key."""
    with connect() as con:
        rows = con.execute(
            f"SELECT run_key, result FROM {_parquet(folder)} WHERE run_key IN "
            f"(SELECT unnest($keys)) QUALIFY {_LATEST}",
            {"keys": sorted(keys)},
        ).fetchall()
    return dict(rows)


_LATEST = (
    "row_number() OVER (PARTITION BY run_key "
    "ORDER BY started_at DESC, host, filename, file_row_number) = 1"
)


def _parquet(folder: Path) -> str:
    options = "union_by_name = true, filename = true, file_row_number = true"
    return parquet_source(ResultFolder(folder).files(), options)


def _reading(con: DuckDBPyConnection, table: str) -> str:
    stored = {row[0] for row in con.execute(f"DESCRIBE SELECT * FROM {table}").fetchall()}
    columns = [f"{_IGNORED} AS ignored"]
    for name, kind in COLUMNS.items():
        if name not in _UNUSED:
            value = name if name in stored else "NULL"
            columns.append(f"CAST({value} AS {_SQL_TYPES[kind.rstrip('!')]}) AS {name}")
    # narrow columns decide which rows count; wide ones are read of those only
    return (
        "CREATE TABLE sweep_rows AS WITH latest AS "
        f"(SELECT filename, file_row_number FROM {table} QUALIFY {_LATEST}) "
        f"SELECT {', '.join(columns)} FROM {table} "
        "SEMI JOIN latest USING (filename, file_row_number)"
    )


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _refused(
    path: Path, reason: str, remedy: str = "name one that `sweep -o` made"
) -> InvalidInput:
    return InvalidInput(Problem("result folder", str(path), reason, remedy))


# -- contestants and cases -------------------------------------------------------------------------

_NEVER_A_CASE = frozenset({"method", "method_label", "solver", "seed", "instance"})
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
        What tells it from the other cases of the same name, one text per name in
        `Labels.level_names`; empty where a name does not apply.
    num_tasks, num_nodes
        Its size.
    """

    problem: str
    instance: str
    levels: tuple[str, ...]
    num_tasks: int | None
    num_nodes: int | None

    @property
    def name(self) -> str:
        """Return a short name, such as ``Q3 · 0.9``."""
        return " · ".join([self.instance, *(level for level in self.levels if level)])


@dataclass(frozen=True)
class Labels:
    """Cases in natural order, and the names of what tells them apart."""

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


def factor_names(con: DuckDBPyConnection) -> list[str]:
    """Return the names of all factors in the table ``sweep_rows``."""
    text = "SELECT DISTINCT unnest(map_keys(factors)) AS name FROM sweep_rows ORDER BY name"
    return [row["name"] for row in ask(con, text)]


def case_factors(con: DuckDBPyConnection, names: Sequence[str]) -> list[str]:
    """Return the factors that belong to the instance: one value on each, several in the sweep."""
    names = [name for name in names if name not in _NEVER_A_CASE]
    inside = _varying(con, names, "instance_sha256")
    overall = _varying(con, names)
    return [name for name in names if name in overall and name not in inside]


def setting_factors(con: DuckDBPyConnection, names: Sequence[str]) -> list[str]:
    """Return the factors that differ between runs of one method, solver, seed and instance."""
    names = [name for name in names if name not in _IN_THE_LABEL]
    group = "instance_sha256, method_label, coalesce(solver, factors['solver'], ''), seed"
    varying = _varying(con, names, group)
    return [name for name in names if name in varying]


def _varying(con: DuckDBPyConnection, names: Sequence[str], group: str = "") -> set[str]:
    """Return the factors with several values within a group of rows; absent is one of them."""
    if not names:
        return set()
    values = [f"coalesce(factors[{literal(name)}], '')" for name in names]
    several = ", ".join(f"min({v}) <> max({v}) AS f{i}" for i, v in enumerate(values))
    any_of = ", ".join(f"bool_or(f{i}) AS f{i}" for i in range(len(values)))
    grouped = f"SELECT {several} FROM sweep_rows" + (f" GROUP BY {group}" if group else "")
    (found,) = ask(con, f"SELECT {any_of} FROM ({grouped})")
    return {name for i, name in enumerate(names) if found[f"f{i}"]}


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


def read_labels(con: DuckDBPyConnection, case_names: Sequence[str]) -> Labels:
    """Name the cases of the table ``runs``.

    Parameters
    ----------
    con
        The database.
    case_names
        The factors that belong to the instance, from `case_factors`.
    """
    levels = [
        f"{distinct(f'factors[{literal(name)}]')} AS level{i}" for i, name in enumerate(case_names)
    ]
    columns = ", ".join(
        [
            "problem",
            f"{distinct('instance')} AS instances",
            "min(ignored) AS ignored",
            "max(num_tasks) AS num_tasks",
            "max(num_nodes) AS num_nodes",
            *levels,
        ]
    )
    rows = ask(con, f"SELECT {columns} FROM runs GROUP BY problem")
    names = tuple(case_names)
    if len({row["ignored"] for row in rows}) > 1:
        names = (*names, "ignored limits")
    cases = []
    for row in rows:
        found = tuple(_joined(row[f"level{i}"]) for i in range(len(case_names)))
        if len(names) > len(case_names):
            found = (*found, row["ignored"])
        cases.append(
            Case(
                row["problem"],
                _joined(row["instances"]),
                found,
                row["num_tasks"],
                row["num_nodes"],
            )
        )
    cases.sort(
        key=lambda case: ([natural_key(t) for t in (case.instance, *case.levels)], case.problem)
    )
    return Labels(*_told_apart(cases, names))


def _joined(texts: Sequence[str]) -> str:
    """Return one text for those of equal instances."""
    if len(texts) <= _MOST_NAMES:
        return ", ".join(texts)
    return f"{texts[0]} and {len(texts) - 1} equal ones"


def _told_apart(
    cases: list[Case], names: tuple[str, ...]
) -> tuple[tuple[Case, ...], tuple[str, ...]]:
    """Add the beginning of the sha256 where two cases would else have the same name."""
    if len({case.name for case in cases}) == len(cases):
        return tuple(cases), names
    longer = [
        Case(
            case.problem,
            case.instance,
            (*case.levels, case.problem[:_SHOWN_SHA]),
            case.num_tasks,
            case.num_nodes,
        )
        for case in cases
    ]
    return tuple(longer), (*names, "sha256")
