"""SQL on stored tables (DuckDB), and texts with values: what claims and figures are made of.

A query's ``FROM`` names frames and views, which may have arguments (``"last_third(job)"`` is a
macro of a table). A text has ``{expression:format}``: SQL over the rows of a query, then the number
format of Python. Beside DuckDB's own functions there are those of ``macros.sql``, and
``interp(point, xs, ys)`` of lists, as NumPy's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.statistics import Estimate, mean_interval, median_interval, paired_sign_test

if TYPE_CHECKING:
    import pandas as pd
    from duckdb import DuckDBPyConnection

FIELD = re.compile(r"""\{((?:[^{}']|'[^']*')+?)(?::([^{}:']*))?\}""")
"""An expression in a text, with strings in single quotes, and its format."""

ESTIMATE = "STRUCT(value DOUBLE, low DOUBLE, high DOUBLE, seeds BIGINT)"


class Tables:
    """Frames and views under their names, and what queries say of them.

    `frames`: by the names that queries use. `views`: SQL by name; one with arguments in its name is
    a macro of a table. `who`: whose queries they are, for errors. Raises `LookupError`: by all
    methods: the tables lack a column or rows that the query needs.
    """

    def __init__(
        self, frames: Mapping[str, pd.DataFrame], views: Mapping[str, str] | None, who: str
    ) -> None:
        self.db = connection()
        self.views, self.who = dict(views or {}), who
        self.created: set[str] = set()
        for name, frame in frames.items():
            # DuckDB reads the frames where they are, without a copy
            self.db.register(name, frame)

    def __enter__(self) -> Tables:
        return self

    def __exit__(self, *error: object) -> None:
        self.db.close()

    def table(self, sql: str) -> pd.DataFrame:
        """Return the rows of a query."""
        rows: pd.DataFrame = self._run(sql, sql).df()
        return rows

    def values(self, sql: str, expressions: Iterable[str]) -> list[dict[str, Any]]:
        """Return the values of expressions over a query: of all of its rows, or of each."""
        distinct = list(dict.fromkeys(expressions))
        columns = ", ".join(f'({text}) AS "#{at}"' for at, text in enumerate(distinct))
        # an aggregate makes one row of all, a column one of each
        rows = self._run(sql, f"SELECT {columns or 1} FROM ({sql})").fetchall()
        return [dict(zip(distinct, map(_plain, row), strict=False)) for row in rows]

    def texts(self, sql: str, text: str) -> list[str]:
        """Return a text with values in it: once for a query, or once a row of it.

        Raises `LookupError`: a value is unknown, too.
        """
        expressions = [match[1] for match in FIELD.finditer(text)]
        return [filled(text, row, self.who) for row in self.values(sql, expressions)]

    def _run(self, sql: str, whole: str) -> DuckDBPyConnection:
        import duckdb

        try:
            for name in self._needed_views(sql):
                kind = f"MACRO {name} AS TABLE" if "(" in name else f"VIEW {name} AS"
                self.db.execute(f"CREATE {kind} {self.views[name]}")
                self.created.add(name)
            return self.db.execute(whole)
        except duckdb.Error as error:
            raise LookupError(f"{self.who}: {error}") from error

    def _needed_views(self, sql: str) -> list[str]:
        """Return the views that a query names, after those that they name themselves."""
        needed: list[str] = []

        def visit(sql: str) -> None:
            # a view needs those that it names: they are made first, each once
            for name, text in self.views.items():
                word = re.escape(name.partition("(")[0])
                if name in needed or name in self.created or text == sql:
                    continue
                if re.search(rf"\b{word}\b", sql):
                    visit(text)
                    needed.append(name)

        visit(sql)
        return needed


def filled(text: str, values: Mapping[str, Any], who: str) -> str:
    """Return a text with its values. Raises `LookupError`: one of them is unknown."""
    return FIELD.sub(lambda at: format(known_value(values, at[1], who), at[2] or ""), text)


def known_value(values: Mapping[str, Any], expression: str, who: str) -> Any:
    """Return a value; one that is unknown is an error (`LookupError`)."""
    value = values[expression]
    if value is None:
        raise LookupError(f"{who}: {expression} is unknown")
    return value


def connection() -> DuckDBPyConnection:
    """Return a database in memory with the functions that claims use."""
    import duckdb

    # one thread: sums of floats come out the same on every machine
    db = duckdb.connect(config={"threads": 1})
    numbers: Any = "DOUBLE[]"
    for name, function, arguments, result in (
        ("mean_of", lambda x: mean_interval(x)._asdict(), [numbers], ESTIMATE),
        ("median_of", lambda x: median_interval(x)._asdict(), [numbers], ESTIMATE),
        ("sign_p_of", lambda x, y: paired_sign_test(x, y), [numbers] * 2, "DOUBLE"),
        ("rank_corr_of", lambda x, y: _rank_correlation(x, y), [numbers] * 2, "DOUBLE"),
        ("interp", lambda at, x, y: float(np.interp(at, x, y)), ["DOUBLE", numbers, numbers],
         "DOUBLE"),
    ):  # fmt: skip
        db.create_function(name, function, arguments, result)
    db.create_function(
        "interval_text", lambda interval: str(_estimate(interval)), [ESTIMATE], "VARCHAR"
    )
    db.execute(Path(__file__).with_name("macros.sql").read_text(encoding="utf-8"))
    return db


def _estimate(interval: Mapping[str, Any]) -> Estimate:
    """Return an interval; a bound that is not known is `NULL` there and ``nan`` here."""
    bounds: dict[str, Any] = {k: math.nan if v is None else v for k, v in interval.items()}
    return Estimate(**bounds)


def _rank_correlation(x: list[float], y: list[float]) -> float:
    from scipy import stats

    return float(stats.spearmanr(x, y).statistic)


def _plain(value: Any) -> Any:
    """Return a value of DuckDB as Python formats it."""
    if isinstance(value, Decimal):
        return float(value)
    # a STRUCT: one of `ESTIMATE`
    if isinstance(value, dict):
        return _estimate(value)
    return value
