"""One pass over a recording: Spark reads it, DuckDB sums it up by key beside each of its tasks."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from experiments.traces.expressions import as_text, quoted
from experiments.traces.rows import BAD, FILE, Rows, joined, read_rows
from optim.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from pyspark.sql import Column, SparkSession

    from experiments.traces.expressions import Typed
    from experiments.traces.files import Paths
    from experiments.traces.job import Events, Expression, Input, Job, OperatorSpec

MICRO = 1_000_000
"""Costs, rates and states are summed in millionths, as whole numbers: sums of these do not depend
on the order of the events."""

NULL_KEY = "\x00null"
"""The key that null stands for where ``null_key = "group"``; no text of a file begins so."""

FATES = ("counted", "no_time", "outside", "late_dropped", "late_moved", "late_kept")
COUNTED = (0, 4, 5)
"""Of these, the ones of events that count."""

_MEMORY = 2048
"""Megabytes of the sums beside all tasks at once; what does not fit goes to Spark's folder."""

_PART = "part"
"""Column in which Spark moves sums, as files of Parquet."""

_SUMMED = {"known": "count", "total": "sum", "least": "min", "most": "max"}
"""Of the amounts of events; a sum of 64 bits has 128."""

_FATES = ("fate", "bucket", "bad", "file")
"""Columns of the sums that count what became of events; ``bad``: what is wrong."""


class Amount(NamedTuple):
    """A cost, rate or state in millionths.

    Attributes
    ----------
    expression
        Where it comes from.
    known, total, least, most
        SQL over the sums: number of events that have it, sum, smallest, largest.
    """

    expression: Expression
    known: str
    total: str
    least: str
    most: str


class Kind(NamedTuple):
    """What is reported of an operator, an edge or a looked-up table, and which of the sums count
    it.

    Attributes
    ----------
    what, names
        ``operator``, ``edge`` or ``lookup``, and which: an edge by both ends.
    groups
        Columns of key groups; of a table the one that shows that it lacks a row.
    key
        Column of the key, where there is state.
    amount, state
        Of cost or rate, and of state.
    """

    what: str
    names: tuple[str, ...]
    groups: tuple[str, ...]
    key: str = ""
    amount: Amount | None = None
    state: Amount | None = None

    @property
    def by(self) -> tuple[str, ...]:
        """What these sums are grouped by."""
        return ("counted", "bucket", *self.groups, *([self.key] if self.key else []))

    @property
    def reached(self) -> str:
        """SQL of whether events reach their key groups, or miss a row of a table."""
        return " AND ".join(f"{name} IS NOT NULL" for name in self.groups)


@dataclass(frozen=True)
class Sums:
    """A recording as sums.

    Attributes
    ----------
    rows
        As it was read.
    kinds
        What is reported of its events, beside what became of them.
    lookups
        For each joined table its rows, and those dropped for a key that stood twice.
    sets
        What the sums are grouped by; their number is the column ``part``.
    latest
        Column of the latest moment, or ``NULL``.
    partial
        Makes the sums of some events.
    """

    rows: Rows
    kinds: Sequence[Kind]
    lookups: Mapping[str, Mapping[str, int]]
    sets: Sequence[tuple[str, ...]]
    latest: str
    partial: Callable[[Iterator[Any]], Iterator[Any]]

    def where(self, kind: Kind) -> str:
        """Return SQL of which sums report a kind."""
        return f"part = {self.sets.index(kind.by)} AND counted"

    def unpacked(self, path: Path) -> list[Path]:
        """Return the sums of all tasks as files, from what Spark has written."""
        import pyarrow.parquet as pq

        files = [pq.ParquetFile(file) for file in sorted(path.glob("*.parquet"))]
        parts = (batch for file in files for batch in file.iter_batches(batch_size=1))
        found: list[Path] = []
        for part in chain(parts, self.partial(iter(()))):
            found.append(path / f"sums-{len(found)}")
            found[-1].write_bytes(part[_PART][0].as_buffer())
        return found


def sum_up(
    session: SparkSession,
    job: Job,
    events: Events,
    paths: Mapping[str, Paths],
    uri: str,
    open_from: int | None = None,
) -> Sums:
    """Read a recording once, and write its sums as Parquet to a URI.

    Each task of Spark passes its events to DuckDB beside it, which sums them up by all that is
    asked (grouping sets), so that a hot key, or null, leaves the task as one row. The sums of all
    tasks are put together by `experiments.traces.tables`.

    Parameters
    ----------
    session
        With UTC as its time zone.
    job, events
        The description, and which of its recordings.
    paths
        What Spark is to read: of ``clicks``, and of the tables looked up as ``clicks.users``.
    uri
        Of the sums.
    open_from
        First bucket that still takes events, where periods are closed one after another; moments
        are then stored as ``moment``, so that the latest can be determined.

    Raises
    ------
    InvalidInput
        Columns and expressions do not fit together.
    """
    wanted = [e for e in (events.time, events.arrival) if e]
    for spec in job.operators:
        if (entry := spec.input_of(events.name)) is not None:
            wanted += [e for e in (entry.key, entry.cost, entry.state) if e]
    wanted += [edge.rate for edge in job.edges if events.name in edge.events]
    rows, lookups = _rows(session, job, events, paths, wanted)
    made = _Maker(job, rows)
    made.moments(events, open_from)
    kinds = _kinds(job, events, made)
    sets = tuple(dict.fromkeys((_FATES, *(kind.by for kind in kinds))))
    frame = rows.frame.select(*(made.columns[name].alias(name) for name in made.columns))
    memory = _MEMORY // session.sparkContext.defaultParallelism
    schema = to_arrow_schema(frame.schema)
    partial = _partial(_query(list(made.columns), sets), schema, min(512, max(128, memory)))
    summed = frame.mapInArrow(partial, f"{_PART} binary")
    summed.write.option("compression", "none").parquet(uri)
    latest = "moment" if "moment" in made.columns else "NULL"
    return Sums(rows, kinds, lookups, sets, latest, partial)


def _kinds(job: Job, events: Events, made: _Maker) -> list[Kind]:
    """Return what is reported of events, and have the columns made that it takes."""
    kinds, groups = [], {}
    for spec in job.operators:
        if (entry := spec.input_of(events.name)) is None:
            continue
        sql, text = made.key(spec, entry)
        size = spec.key_groups
        group = made.column("g", f"{text} {size}", key_group(F.expr(text), size))
        key, state = "", None
        if entry.state is not None:
            key, state = made.column("k", sql, F.expr(sql)), made.amount(entry.state)
        amount = made.amount(entry.cost)
        kinds.append(Kind("operator", (spec.id,), (group,), key, amount, state))
        groups[spec.id] = group
    for edge in job.edges:
        if events.name in edge.events:
            ends = (edge.source, edge.target)
            found = (groups[edge.source], groups[edge.target])
            kinds.append(Kind("edge", ends, found, amount=made.amount(edge.rate)))
    for name, missed in made.rows.missed.items():
        column = made.column("m", missed, F.when(F.col(missed), 1))
        kinds.append(Kind("lookup", (name,), (column,)))
    return kinds


def _query(columns: Sequence[str], sets: Sequence[tuple[str, ...]]) -> str:
    """Return the query that sums up the ``events`` of a task."""
    told = [*dict.fromkeys(chain(*sets)), "count(*) AS n"]
    told += ["max(moment) AS moment"] if "moment" in columns else []
    told += [
        f"{function}({name}) AS {what}_{name}"
        for name in columns
        if name.startswith("v")
        for what, function in _SUMMED.items()
    ]
    # the sets with more columns first: what fits one of them may fit a smaller one, too
    parts = (
        f"WHEN {' AND '.join(f'GROUPING({name}) = 0' for name in sets[number])} THEN {number}"
        for number in sorted(range(len(sets)), key=lambda number: -len(sets[number]))
    )
    grouped = ", ".join(f"({', '.join(names)})" for names in sets)
    return (
        f"SELECT CASE {' '.join(parts)} END AS part, {', '.join(told)} "
        f"FROM (SELECT *, fate IN {COUNTED} AS counted FROM events) "
        f"GROUP BY GROUPING SETS ({grouped})"
    )


def _partial(query: str, schema: Any, memory: int) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return what asks DuckDB a query about the ``events`` of a task; its answer is Parquet.

    It is sent to the workers as it stands here: they need DuckDB and Arrow, and nothing of ours.
    Spark moves the answer as a few binary values, and not as rows.
    """
    name = _PART

    def summed(batches: Iterator[Any]) -> Iterator[Any]:
        import os
        import tempfile
        from itertools import chain

        import duckdb
        import pyarrow as pa
        import pyarrow.parquet as pq

        base = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None
        with (
            tempfile.TemporaryDirectory(prefix="sums-", dir=base) as spill,
            duckdb.connect(config={"threads": 1, "memory_limit": f"{memory}MB"}) as con,
        ):
            con.execute("SET temp_directory = ?", [spill])
            con.register("events", pa.RecordBatchReader.from_batches(schema, batches))
            found = pa.RecordBatchReader.from_stream(con.sql(query))
            empty = found.schema.empty_table()
            for table in chain([empty], (pa.Table.from_batches([batch]) for batch in found)):
                file = pa.BufferOutputStream()
                pq.write_table(table, file)
                value = pa.array([file.getvalue().to_pybytes()], pa.binary())
                yield pa.RecordBatch.from_arrays([value], [name])

    return summed


def _rows(
    session: SparkSession,
    job: Job,
    events: Events,
    paths: Mapping[str, Paths],
    wanted: list[Expression],
) -> tuple[Rows, dict[str, dict[str, int]]]:
    names = [name for e in wanted for name in e.names]
    keys = [name for join in events.joins for mine, _ in join.on for name in mine.names]
    rows = read_rows(session, events, paths[events.name], [*names, *keys])
    lookups = {}
    for join in events.joins:
        # what is looked up stands in expressions as name.column, and in the keys of later joins
        prefix = f"{join.name}."
        own = [n.removeprefix(prefix) for n in (*names, *keys) if n.startswith(prefix)]
        theirs = [name for _, key in join.on for name in key.names]
        located = paths[f"{events.name}.{join.name}"]
        table = read_rows(session, join, located, [*theirs, *own], "t")
        rows, count, doubled = joined(rows, join, table, job.calendar.zone)
        lookups[join.name] = {"rows": count, "doubled": doubled}
    return rows, lookups


@dataclass
class _Maker:
    """Makes the columns of one recording; those that are alike are one."""

    job: Job
    rows: Rows
    columns: dict[str, Column] = field(default_factory=dict)
    _known: dict[tuple[str, str], str] = field(default_factory=dict)

    def column(self, letter: str, meaning: str, column: Column) -> str:
        """Return the name of a column: a letter for what it is, and a number."""
        name = self._known.setdefault((letter, meaning), f"{letter}{len(self._known)}")
        self.columns.setdefault(name, column)
        return name

    def compute(self, expression: Expression) -> Typed:
        """Return the SQL of an expression, and its type."""
        return self.rows.compute(expression, self.job.calendar.zone)

    def moments(self, events: Events, open_from: int | None) -> None:
        """Make ``fate``, ``bucket`` and ``bad``, and ``moment`` where periods are closed."""
        calendar = self.job.calendar
        moment = self._moment(events.time)
        bucket, late = calendar.bucket(moment), F.lit(False)
        judged = moment
        if events.arrival is not None:
            arrival = self._moment(events.arrival)
            allowed = F.timestamp_micros(
                F.unix_micros(arrival) - F.lit(round(calendar.lateness * 1e6)).cast("bigint")
            )
            late = F.coalesce(calendar.bucket(allowed) > bucket, F.lit(False))
            if calendar.late == "move":
                judged = F.when(late, arrival).otherwise(moment)
                bucket = calendar.bucket(judged)
        outside = F.lit(False)
        if calendar.start is not None:
            outside = outside | (judged < _literal(calendar.start))
        if calendar.end is not None:
            outside = outside | (judged >= _literal(calendar.end))
        of_late = {"keep": 5, "drop": 3, "move": 4}[calendar.late]
        fate = F.when(moment.isNull(), 1).when(late & F.lit(of_late == 3), 3).when(outside, 2)
        if open_from is not None:
            fate = fate.when(bucket < F.lit(open_from), 3)
            self.columns["moment"] = F.unix_micros(judged)
        self.columns["fate"] = fate.when(late, of_late).otherwise(0)
        file = F.crc32(FILE) if self.rows.numbers else F.col(FILE)  # a number is moved faster
        self.columns |= {"bucket": bucket, "bad": F.make_valid_utf8(BAD), "file": file}

    def key(self, spec: OperatorSpec, entry: Input) -> tuple[str, str]:
        """Return SQL of the key of an operator, a whole number as such, and of it as a text."""
        key = self.compute(entry.key)
        text = as_text(key)
        if spec.null_key == "group":
            text = f"coalesce({text}, {quoted(NULL_KEY)})"
            return text, text
        return (key.sql if key.kind == "whole" else text), text

    def _moment(self, expression: Expression) -> Column:
        sql, kind = self.compute(expression)
        if kind != "time":
            remedy = "time(…), timestamp(…) and epoch(…) make one; or declare the column as time"
            reason = f"is {kind}, not a time"
            raise InvalidInput(Problem(expression.where, expression.text, reason, remedy))
        return F.expr(sql)

    def amount(self, expression: Expression) -> Amount:
        """Return a cost, state or rate in millionths."""
        sql, kind = self.compute(expression)
        if kind not in ("whole", "number"):
            remedy = 'declare the column as "number", or use number(…)' if kind == "text" else ""
            reason = f"is {kind}, not an amount"
            raise InvalidInput(Problem(expression.where, expression.text, reason, remedy))
        if re.fullmatch(r"\d{1,12}L", sql):  # the same for all events: nothing needs to be summed
            each = f"{int(sql[:-1]) * MICRO}::BIGINT"
            return Amount(expression, "n", f"(n::HUGEINT * {each})", each, each)
        name = self.column("v", sql, micros(F.expr(sql)))
        return Amount(expression, *(f"{what}_{name}" for what in _SUMMED))


def _literal(moment: datetime) -> Column:
    from experiments.traces.periods import micros_of

    return F.timestamp_micros(F.lit(micros_of(moment)).cast("bigint"))


def key_group(key: Column, key_groups: int) -> Column:
    """Return the key group of keys as texts; null for null."""
    group = F.pmod(F.xxhash64(key), F.lit(key_groups)).cast("int")
    return F.when(key.isNotNull(), group)


def micros(column: Column) -> Column:
    """Return amounts in millionths; null where one is no finite number, or too large.

    Halves are rounded away from 0, as Spark's `round` does, which goes by way of decimals.
    """
    exact = column.cast("double") * MICRO
    whole = exact.try_cast("bigint")
    rest = exact - whole
    away = F.when(rest >= 0.5, 1).when(rest <= -0.5, -1).otherwise(0)
    return F.try_add(whole, away.cast("bigint"))
