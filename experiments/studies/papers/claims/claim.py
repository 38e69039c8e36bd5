"""Claims as data: SQL on the stored tables, a text with values in it, and a verdict rule.

A claim of ``claims.toml`` that has ``tables`` is judged by

- ``sql``: a query (DuckDB) whose ``FROM`` names stored tables and ``[views]`` of the same file,
  which may have arguments (``"last_third(job)"`` is a macro of a table);
- ``verdict``: expressions, which together give the verdict (`verdict_of`), or ``"not shown"``;
- ``text``: our figures, ``{expression:format}``: SQL, then the number format of Python;
- ``cause``: a text, or a list of ``{when = expression, text = …}``, of which the first counts;
- ``left_out``, ``left_out_why``: how many rows the figure does not count, and why.

A claim about others of the same file has ``claims``, their ids, in place of ``tables``: its query
is on the table ``claims`` with ``id``, ``verdict``, ``figure`` and ``cause``, in that order.

All expressions are evaluated over the rows of the query, so that they are columns of its only row
or aggregates of all rows. Beside DuckDB's own functions there are `MACROS`, and
``interp(point, xs, ys)`` of lists, as NumPy's.
"""

from __future__ import annotations

import math
import re
import tomllib
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from experiments.statistics import Estimate, mean_interval, median_interval, paired_sign_test

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import pandas as pd
    from duckdb import DuckDBPyConnection


Verdict = Literal["same", "in part", "different", "not shown"]
"""Whether the predicate holds, holds for a part that is named, does not, or was not computed."""

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


@dataclass(frozen=True)
class Finding:
    """What the stored tables say of a claim.

    Attributes
    ----------
    verdict
        Computed from the tables, never typed.
    figure
        Our figure, or figures, as text with units; made of values of the table.
    cause
        Why it is not the same, shown by a computed figure; ``None`` where no cause is shown.
    left_out, left_out_why
        Rows that the figure does not count (infeasible, unproved, base of 0, no plan), and why.
    """

    verdict: Verdict
    figure: str
    cause: str | None = None
    left_out: int = 0
    left_out_why: str = ""

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ValueError(f"verdict {self.verdict!r} is none of {', '.join(VERDICTS)}")
        if self.left_out and not self.left_out_why:
            raise ValueError(f"{self.left_out} rows are left out without a reason")


def verdict_of(*parts: object) -> Verdict:
    """Return the verdict of a predicate's parts: all hold, some do, or none.

    >>> verdict_of(True, True), verdict_of(True, False), verdict_of(False)
    ('same', 'in part', 'different')
    """
    held = [bool(part) for part in parts]
    return "same" if all(held) else "in part" if any(held) else "different"


@dataclass(frozen=True)
class Claim:
    """A claim of a paper.

    Attributes
    ----------
    id
        As ``CIKM-A1``.
    paper
        The folder in `experiments.studies.papers`.
    starred
        Whether it is one of the ten that matter most in its paper.
    where
        Section of the paper.
    words
        What the paper says, in our words; the half that fails, too.
    setup
        What it is said of; capital letters are set-ups of ``[setups]``.
    predicate
        What is computed, in words.
    tables, judge
        Names of stored tables, and the function that is called with their frames in this order.
        ``None`` where there is no judge.
    not_checkable
        Why this cannot be checked without the authors' cluster or data; empty where it can.
    """

    id: str
    paper: str
    starred: bool
    where: str
    words: str
    setup: str
    predicate: str
    tables: tuple[str, ...] = ()
    judge: Callable[..., Finding] | None = None
    not_checkable: str = ""


FIELD = re.compile(r"""\{((?:[^{}']|'[^']*')+?)(?::([^{}:']*))?\}""")
"""An expression in a text, with strings in single quotes, and its format."""

ESTIMATE = "STRUCT(value DOUBLE, low DOUBLE, high DOUBLE, seeds BIGINT)"

MACROS = """
-- mean and median with their 95 % intervals, and the same of rows that meet a condition
CREATE MACRO mean95(x) AS mean_of(list(x));
CREATE MACRO median95(x) AS median_of(list(x));
CREATE MACRO mean95_if(x, condition) AS mean_of(list(x) FILTER (WHERE condition));
CREATE MACRO median95_if(x, condition) AS median_of(list(x) FILTER (WHERE condition));
-- p of the sign test on pairs, rank correlation
CREATE MACRO sign_p(x, y) AS sign_p_of(list(x), list(y));
CREATE MACRO rank_corr(x, y) AS rank_corr_of(list(x), list(y));
-- the verdict of a predicate of which all or some parts hold
CREATE MACRO verdict_word(whole, partly) AS if(whole, 'same', if(partly, 'in part', 'different'));
-- percentage of rows for which a condition holds
CREATE MACRO share(condition) AS 100.0 * avg(CAST(condition AS INTEGER));
-- squared correlation, unknown where one side does not vary
CREATE MACRO r2(x, y) AS nullif(corr(x, y), 'nan') ^ 2;
-- whether y never falls, or never rises, with x
CREATE MACRO rises(y, x) AS list_sort(list(y)) = list(y ORDER BY x);
CREATE MACRO falls(y, x) AS list_reverse_sort(list(y)) = list(y ORDER BY x);
"""


@dataclass(frozen=True)
class Query:
    """How a claim is judged from stored tables; called with their frames in order of `tables`.

    Raises
    ------
    LookupError
        The tables lack a column or rows that the query needs, or a value that counts is unknown.
    """

    id: str
    tables: tuple[str, ...]
    sql: str
    text: str
    verdict: str | Sequence[str]
    cause: str | Sequence[Mapping[str, str]] = ()
    left_out: str = "0"
    left_out_why: str = ""
    views: Mapping[str, str] | None = None

    def __call__(self, *frames: pd.DataFrame) -> Finding:
        """Return what the tables say."""
        causes = [{"text": self.cause}] if isinstance(self.cause, str) else list(self.cause)
        parts = [] if isinstance(self.verdict, str) else list(self.verdict)
        texts = [self.text, *(cause["text"] for cause in causes)]
        wanted = [*parts, self.left_out, *(cause.get("when", "true") for cause in causes)]
        wanted += [found[1] for text in texts for found in FIELD.finditer(text)]
        values = self._values(list(dict.fromkeys(wanted)), frames)

        def told(text: str) -> str:
            return FIELD.sub(lambda at: format(self._known(values, at[1]), at[2] or ""), text)

        holding = (c["text"] for c in causes if self._known(values, c.get("when", "true")))
        cause = next(holding, None)
        if isinstance(self.verdict, str):
            verdict = next(v for v in VERDICTS if v == self.verdict)
        else:
            verdict = verdict_of(*(self._known(values, part) for part in parts))
        left_out = int(self._known(values, self.left_out))
        why = self.left_out_why
        return Finding(verdict, told(self.text), None if cause is None else told(cause),
                       left_out, why)  # fmt: skip

    def _values(self, expressions: list[str], frames: Sequence[pd.DataFrame]) -> dict[str, Any]:
        import duckdb

        columns = ", ".join(f'({text}) AS "#{at}"' for at, text in enumerate(expressions))
        with connection() as db:
            for name, frame in zip(self.tables, frames, strict=True):
                db.register(name, frame)
            try:
                for name in self._needed_views():
                    kind = f"MACRO {name} AS TABLE" if "(" in name else f"VIEW {name} AS"
                    db.execute(f"CREATE {kind} {(self.views or {})[name]}")
                found = db.execute(f"SELECT {columns} FROM ({self.sql})").fetchall()
            except duckdb.Error as error:
                raise LookupError(f"{self.id}: {error}") from error
        if len(found) != 1:
            raise LookupError(f"{self.id}: the query gives {len(found)} rows for its texts, not 1")
        return dict(zip(expressions, map(_plain, found[0]), strict=True))

    def _needed_views(self) -> list[str]:
        """Return the views that the query names, after those that they name themselves."""
        views = self.views or {}
        found: list[str] = []

        def visit(sql: str) -> None:
            for name in views:
                word = re.escape(name.partition("(")[0])
                if name not in found and re.search(rf"\b{word}\b", sql) and views[name] != sql:
                    visit(views[name])
                    found.append(name)

        visit(self.sql)
        return found

    def _known(self, values: Mapping[str, Any], expression: str) -> Any:
        value = values[expression]
        if value is None:
            raise LookupError(f"{self.id}: {expression} is unknown")
        return value


def connection() -> DuckDBPyConnection:
    """Return a database in memory with the functions that claims use."""
    import duckdb

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
    db.create_function("interval_text", lambda found: str(_estimate(found)), [ESTIMATE], "VARCHAR")
    db.execute(MACROS)
    return db


def _estimate(found: Mapping[str, Any]) -> Estimate:
    """Return an interval; a bound that is not known is `NULL` there and ``nan`` here."""
    known: dict[str, Any] = {k: math.nan if v is None else v for k, v in found.items()}
    return Estimate(**known)


def _rank_correlation(x: list[float], y: list[float]) -> float:
    from scipy import stats

    return float(stats.spearmanr(x, y).statistic)


def _plain(value: Any) -> Any:
    """Return a value of DuckDB as Python formats it."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, dict):
        return _estimate(value)
    return value


@dataclass(frozen=True)
class ClaimsQuery:
    """How a claim is judged from what is found of other claims; called with all their tables."""

    query: Query
    others: tuple[Query, ...]

    @property
    def tables(self) -> tuple[str, ...]:
        """Those of the other claims, each once."""
        return tuple(dict.fromkeys(name for other in self.others for name in other.tables))

    def __call__(self, *frames: pd.DataFrame) -> Finding:
        """Return what the tables say."""
        import pandas as pd

        known = dict(zip(self.tables, frames, strict=True))
        found = [other(*(known[name] for name in other.tables)) for other in self.others]
        ids = [other.id for other in self.others]
        rows = [{"id": at, **asdict(one)} for at, one in zip(ids, found, strict=True)]
        return self.query(pd.DataFrame(rows, columns=["id", "verdict", "figure", "cause"]))


QUERY = ("tables", "sql", "verdict", "text", "cause", "left_out", "left_out_why")
"""Keys of a claim that is judged by SQL."""


def read_claims(path: Path) -> tuple[Claim, ...]:
    """Return the claims of a paper's ``claims.toml``, in its order; those without SQL not shown.

    Parameters
    ----------
    path
        In the folder of the paper.

    Raises
    ------
    KeyError
        A claim is about one that is not there, or has no SQL.
    """
    told = _read(path)
    judges: dict[str, Query | ClaimsQuery] = {}
    queries: dict[str, Query] = {}
    for entry in sorted(told["claim"], key=lambda one: "claims" in one):  # others first
        if "sql" not in entry:
            continue
        parts = {name: entry.pop(name) for name in QUERY if name in entry}
        others = entry.pop("claims", ())
        tables = ("claims",) if others else tuple(parts["tables"])
        views = told.get("views")
        query = Query(**{**parts, "id": entry["id"], "tables": tables, "views": views})
        judges[query.id] = queries[query.id] = query
        if others:
            judges[query.id] = ClaimsQuery(query, tuple(queries[name] for name in others))
    return tuple(
        _claim(path.parent.name, entry, judges.get(entry["id"])) for entry in told["claim"]
    )


def _claim(paper: str, entry: Mapping[str, Any], judge: Query | ClaimsQuery | None) -> Claim:
    tables = () if judge is None else judge.tables
    return Claim(**{"starred": False, **entry, "paper": paper, "tables": tables, "judge": judge})


def read_section(path: Path, name: str) -> dict[str, str]:
    """Return a table of names and texts of ``claims.toml``.

    ``setups`` says what the capital letters of set-ups mean, ``shown`` the titles of stored tables
    that the page shows whole.
    """
    return dict(_read(path).get(name, {}))


def _read(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))
