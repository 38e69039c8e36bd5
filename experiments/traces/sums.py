"""One pass over a recording: Spark reads it, DuckDB sums it up by key beside each of its tasks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from experiments.traces.expressions import Typed, as_text, quoted
from experiments.traces.files import Paths
from experiments.traces.folder import TablesLost
from experiments.traces.instances import Period
from experiments.traces.job import Events, Expression, Input, Job, OperatorSpec
from experiments.traces.rows import BAD, FILE, MARK, Rows, check_bad, joined, path_of, read_rows
from optim.errors import InvalidInput, Problem, first_line

MICRO = 1_000_000
"""Costs, rates and states are summed in millionths, as whole numbers: sums of these do not depend
on the order of the events."""

NULL_KEY = "\x00null"
"""The key that null stands for where ``null_key = "group"``; no text of a file begins so."""

FATES = ("counted", "no_time", "outside", "late_dropped", "late_moved", "late_kept")
COUNTED = (0, 4, 5)  # Of these, the ones of events that count.

_MEMORY = 2048
"""Megabytes of the sums beside all tasks at once; what does not fit goes to Spark's folder."""

_PART = "part"  # Column in which Spark moves sums, as files of Parquet.

_SUMMED = {"known": "count", "total": "sum", "least": "min", "most": "max"}
"""Of the amounts of events; a sum of 64 bits has 128."""

_FATES = ("fate", "bucket", "bad", "file")
"""Columns of the sums that count what became of events; ``bad``: what is wrong."""


class Amount(NamedTuple):
    """A cost, rate or state in millionths."""

    expression: Expression  # Where it comes from.
    #: SQL over the sums: number of events that have it, sum, smallest, largest.
    known: str
    total: str
    least: str
    most: str


class Kind(NamedTuple):
    """What is reported of an operator, an edge or a looked-up table, and which of the sums count
    it.
    """

    #: ``operator``, ``edge`` or ``lookup``, and which: an edge by both ends.
    what: str
    names: tuple[str, ...]
    #: Columns of key groups; of a table the one that shows that it lacks a row.
    groups: tuple[str, ...]
    key: str = ""  # Column of the key, where there is state.
    #: Of cost or rate, and of state.
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
    """A recording as sums."""

    rows: Rows  # As it was read.
    kinds: Sequence[Kind]  # What is reported of its events, beside what became of them.
    #: For each joined table its rows, and those dropped for a key that stood twice.
    lookups: Mapping[str, Mapping[str, int]]
    #: What the sums are grouped by; their number is the column ``part``.
    sets: Sequence[tuple[str, ...]]
    latest: str  # Column of the latest moment, or ``NULL``.
    partial: Callable[[Iterator[Any]], Iterator[Any]]  # Makes the sums of some events.

    def where(self, kind: Kind) -> str:
        """Return SQL of which sums report a kind."""
        return f"part = {self.sets.index(kind.by)} AND counted"

    def unpacked(self, path: Path) -> list[Path]:
        """Return the sums of all tasks as files, from what Spark has written."""
        files = [pq.ParquetFile(file) for file in sorted(path.glob("*.parquet"))]
        parts = (batch for file in files for batch in file.iter_batches(batch_size=1))
        files_written: list[Path] = []
        for part in chain(parts, self.partial(iter(()))):
            files_written.append(path / f"sums-{len(files_written)}")
            files_written[-1].write_bytes(part[_PART][0].as_buffer())
        return files_written


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
    tasks are put together by `experiments.traces.sums`.

    `session`: with UTC as its time zone.
    `paths`: what Spark is to read: of ``clicks``, and of the tables looked up as ``clicks.users``.
    `open_from`: first bucket that still takes events, where periods are closed one after another;
        moments are then stored as ``moment``, so that the latest can be determined.
    Raises `InvalidInput`: columns and expressions do not fit together.
    """
    expressions = [e for e in (events.time, events.arrival) if e]
    for spec in job.operators:
        if (entry := spec.input_of(events.name)) is not None:
            expressions += [e for e in (entry.key, entry.cost, entry.state) if e]
    expressions += [edge.rate for edge in job.edges if events.name in edge.events]
    rows, lookups = _rows(session, job, events, paths, expressions)
    maker = _Maker(job, rows)
    maker.moments(events, open_from)
    kinds = _kinds(job, events, maker)
    sets = tuple(dict.fromkeys((_FATES, *(kind.by for kind in kinds))))
    frame = rows.frame.select(*(maker.columns[name].alias(name) for name in maker.columns))
    memory = _MEMORY // session.sparkContext.defaultParallelism
    schema = to_arrow_schema(frame.schema)
    partial = _partial(_query(list(maker.columns), sets), schema, min(512, max(128, memory)))
    summed = frame.mapInArrow(partial, f"{_PART} binary")
    summed.write.option("compression", "none").parquet(uri)
    latest = "moment" if "moment" in maker.columns else "NULL"
    return Sums(rows, kinds, lookups, sets, latest, partial)


def _kinds(job: Job, events: Events, maker: _Maker) -> list[Kind]:
    """Return what is reported of events, and have the columns made that it takes."""
    kinds, groups = [], {}
    for spec in job.operators:
        if (entry := spec.input_of(events.name)) is None:
            continue
        sql, text = maker.key(spec, entry)
        size = spec.key_groups
        group = maker.column("g", f"{text} {size}", key_group(F.expr(text), size))
        key, state = "", None
        if entry.state is not None:
            key, state = maker.column("k", sql, F.expr(sql)), maker.amount(entry.state)
        amount = maker.amount(entry.cost)
        kinds.append(Kind("operator", (spec.id,), (group,), key, amount, state))
        groups[spec.id] = group
    for edge in job.edges:
        if events.name in edge.events:
            ends = (edge.source, edge.target)
            columns = (groups[edge.source], groups[edge.target])
            kinds.append(Kind("edge", ends, columns, amount=maker.amount(edge.rate)))
    for name, missed in maker.rows.missed.items():
        column = maker.column("m", missed, F.when(F.col(missed), 1))
        kinds.append(Kind("lookup", (name,), (column,)))
    return kinds


def _query(columns: Sequence[str], sets: Sequence[tuple[str, ...]]) -> str:
    """Return the query that sums up the ``events`` of a task."""
    selected = [*dict.fromkeys(chain(*sets)), "count(*) AS n"]
    selected += ["max(moment) AS moment"] if "moment" in columns else []
    selected += [
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
        f"SELECT CASE {' '.join(parts)} END AS part, {', '.join(selected)} "
        f"FROM (SELECT *, fate IN {COUNTED} AS counted FROM events) "
        f"GROUP BY GROUPING SETS ({grouped})"
    )


def _partial(query: str, schema: Any, memory: int) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return what asks DuckDB a query about the ``events`` of a task; its answer is Parquet."""
    # sent to the workers as it stands: they need DuckDB and Arrow, and nothing of ours
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
            batches_out = pa.RecordBatchReader.from_stream(con.sql(query))
            empty = batches_out.schema.empty_table()
            for table in chain([empty], (pa.Table.from_batches([batch]) for batch in batches_out)):
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
    expressions: list[Expression],
) -> tuple[Rows, dict[str, dict[str, int]]]:
    names = [name for e in expressions for name in e.names]
    keys = [name for join in events.joins for side, _ in join.on for name in side.names]
    rows = read_rows(session, events, paths[events.name], [*names, *keys])
    lookups = {}
    for join in events.joins:
        # what is looked up stands in expressions as name.column, and in the keys of later joins
        prefix = f"{join.name}."
        lookup_columns = [n.removeprefix(prefix) for n in (*names, *keys) if n.startswith(prefix)]
        table_keys = [name for _, key in join.on for name in key.names]
        located = paths[f"{events.name}.{join.name}"]
        table = read_rows(session, join, located, [*table_keys, *lookup_columns], "t")
        rows, count, doubled = joined(rows, join, table, job.calendar.zone)
        lookups[join.name] = {"rows": count, "doubled": doubled}
    return rows, lookups


@dataclass
class _Maker:
    """Makes the columns of one recording; those that are alike are one."""

    job: Job
    rows: Rows
    columns: dict[str, Column] = field(default_factory=dict)
    _names: dict[tuple[str, str], str] = field(default_factory=dict)

    def column(self, letter: str, meaning: str, column: Column) -> str:
        """Return the name of a column: a letter for what it is, and a number."""
        name = self._names.setdefault((letter, meaning), f"{letter}{len(self._names)}")
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
    from experiments.traces.instances import micros_of

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


# -- the tables of a trace, put together by DuckDB from the sums that Spark's tasks wrote ----------

_TABLE_MEMORY = "1GB"  # Of DuckDB; what does not fit goes to the folder of the unfinished trace.

_WIDE = "DECIMAL(38,0)"
_STORED = "DECIMAL(30,0)"
_PAIR = ("source", "target", "source_group", "target_group")
_GROUP = ("operator", '"group"')
_KEY = (*_GROUP, "key")


class Tables:
    """Answers questions about the sums of recordings, and writes the tables of a trace.

    `scratch`: folder for what does not fit into memory.
    """

    def __init__(self, job: Job, scratch: Path) -> None:
        self.job = job
        self.recordings: list[Sums] = []
        self._older: list[str] = []
        self._first = self._shift = 0
        self._con = duckdb.connect(config={"memory_limit": _TABLE_MEMORY})
        self._con.execute("SET temp_directory = ?", [str(scratch)])
        self._con.execute("SET enable_progress_bar = false")

    def close(self) -> None:
        """Give up the database."""
        self._con.close()

    def add(self, sums: Sums, path: Path) -> None:
        """Take the sums of a recording."""
        self._open(f"sums{len(self.recordings)}", sums.unpacked(path))
        self.recordings.append(sums)

    def extend(self, name: str, path: Path) -> None:
        """Have a table of an older trace be part of the new one."""
        self._open(f"older_{name}", sorted(path.glob("*.parquet")))
        self._older.append(name)

    def set_periods(self, periods: Sequence[Period], first: int, shift: int) -> None:
        """Set all periods, the bucket of the first, and what those of the older trace lie later."""
        self._first, self._shift = first, shift
        numbers = pa.array([period.number for period in periods], pa.int32())
        lengths = pa.array([period.seconds for period in periods], pa.float64())
        self._con.register("periods", pa.table({"period": numbers, "seconds": lengths}))

    def _open(self, name: str, files: Iterable[Path]) -> None:
        # not by DuckDB, which takes signs in names for a pattern
        self._con.register(name, ds.dataset([str(file) for file in files], format="parquet"))

    def _ask(self, what: str, query: str) -> list[dict[str, Any]]:
        """Return the rows of an answer."""
        try:
            answer = self._con.execute(query)
            names = [column[0] for column in answer.description or ()]
            return [dict(zip(names, row, strict=True)) for row in answer.fetchall()]
        except (duckdb.Error, OSError) as error:
            reason = f"{self.job.name}: {what} cannot be summed up: {first_line(error)}"
            raise TablesLost(f"{reason} (look at free memory and disks)") from error

    # -- tables ----------------------------------------------------------------------------------

    def write(self, name: str, path: Path) -> bool:
        """Write one of `experiments.traces.folder.TABLES`; False where the job has none.

        Raises `TablesLost`: memory or disks do not hold it.
        """
        query = getattr(self, f"_{name}")()
        if query is not None:
            path.mkdir()
            target = _text(str(path / "part-0.parquet"))
            self._ask(name, f"COPY ({query}) TO {target} (FORMAT parquet)")
        return query is not None

    def _loads(self) -> str:
        """One row a period and key group with events."""
        parts = [
            f"SELECT {self._period}, {_text(kind.names[0])} AS operator, {kind.groups[0]} AS "
            f'"group", n AS events, {kind.amount.total}::{_WIDE} AS micros FROM {where}'
            for kind, where in self._sums_of_kind("operator")
            if kind.amount is not None
        ]
        parts += self._from_older("loads", (*_GROUP, "events"), "micros")
        return _per_second_query(parts, _GROUP, "cost", "load", "sum(events)::BIGINT AS events, ")

    def _rates(self) -> str | None:
        """One row a period and pair of key groups with traffic."""
        parts = [
            f"SELECT {self._period}, {_text(kind.names[0])} AS source, {_text(kind.names[1])} AS "
            f"target, {kind.groups[0]} AS source_group, {kind.groups[1]} AS target_group, "
            f"{kind.amount.total}::{_WIDE} AS micros FROM {where}"
            for kind, where in self._sums_of_kind("edge")
            if kind.amount is not None
        ]
        parts += self._from_older("rates", _PAIR, "micros")
        return (
            _per_second_query(parts, _PAIR, "amount", "rate", where="micros > 0") if parts else None
        )

    def _keys(self) -> str | None:
        """One row where a key is seen first, or with a larger state than ever; in millionths."""
        parts = [
            f"SELECT {self._period}, {_text(kind.names[0])} AS operator, {kind.groups[0]} AS "
            f'"group", {kind.key}::VARCHAR AS key, coalesce({kind.state.most}, 0) AS millionths '
            f"FROM {where}"
            for kind, where in self._sums_of_kind("operator")
            if kind.state is not None
        ]
        parts += self._from_older("keys", _KEY, "millionths")
        if not parts:
            return None
        key = ", ".join(_KEY)
        return (
            f"SELECT period, {key}, millionths::BIGINT AS millionths FROM "
            f"(SELECT *, max(millionths) OVER ({_earlier_window()}) AS known FROM "
            f"(SELECT period, {key}, max(millionths) AS millionths "
            f"FROM ({' UNION ALL '.join(parts)}) "
            f"GROUP BY ALL)) WHERE known IS NULL OR millionths > known ORDER BY period, {key}"
        )

    def _states(self) -> str | None:
        """One row where the state of a key group grows: from that period on it has this size."""
        # a key counts with the largest state it had so far: no period knows of a later one
        keys = self._keys()
        if keys is None:
            return None
        group = 'PARTITION BY operator, "group" ORDER BY period'
        return (
            f'SELECT period, operator, "group", (sum(new) OVER ({group}))::BIGINT AS keys, '
            f"(sum(more) OVER ({group}))::DOUBLE / {MICRO} AS state FROM "
            '(SELECT period, operator, "group", count(*) FILTER (before IS NULL) AS new, '
            f"sum((millionths - coalesce(before, 0))::{_WIDE}) AS more FROM "
            f"(SELECT *, max(millionths) OVER ({_earlier_window()}) AS before FROM ({keys})) "
            'GROUP BY ALL) ORDER BY period, operator, "group"'
        )

    @property
    def _period(self) -> str:
        return f"(bucket - {self._first})::INT AS period"

    def _sums_of_kind(self, what: str) -> Iterable[tuple[Kind, str]]:
        """Give the kinds of all recordings, and where their sums are: ``FROM`` and ``WHERE``."""
        for number, sums in enumerate(self.recordings):
            for kind in sums.kinds:
                if kind.what == what:
                    yield kind, f"sums{number} WHERE {sums.where(kind)} AND {kind.reached}"

    def _from_older(self, name: str, columns: Sequence[str], amount: str) -> Iterable[str]:
        if name in self._older:
            yield (
                f"SELECT (period + {self._shift})::INT AS period, {', '.join(columns)}, "
                f"millionths AS {amount} FROM older_{name}"
            )

    # -- what became of the events, and values that cannot be ------------------------------------

    def judge(self, session: SparkSession) -> dict[str, Any]:
        """Count what became of the events of the last recording; refuse values that cannot be.

        Returns ``events``, one count for each of `FATES`, ``first`` and ``last`` bucket (or None),
            the ``latest`` moment in microseconds, where it is stored, the events of all ``files``,
            and for every operator the events without key, cost and state, for every edge those
            without rate; for every joined table its rows, those dropped, and the events without a
            match.
        Raises `InvalidInput`: a value is not of its declared type, or a cost, rate or state is
            negative.
        """
        sums, table = self.recordings[-1], f"sums{len(self.recordings) - 1}"
        rows = self._ask(
            "events",
            f"SELECT fate, file, string_split(bad, {_text(MARK)})[2] AS fault, min(bad) AS bad, "
            "sum(n)::BIGINT AS events, min(bucket) AS first, max(bucket) AS last, "
            f"max({sums.latest}) AS latest FROM {table} WHERE part = 0 GROUP BY ALL",
        )
        check_bad(sums.rows, session, _first_faults(rows))
        coverage = [(kind, self._coverage(table, sums, kind)) for kind in sums.kinds]
        _check_amounts(coverage)
        counted = [row for row in rows if row["fate"] in COUNTED]
        fates = [sum(row["events"] for row in rows if row["fate"] == i) for i in range(len(FATES))]
        operators, edges, lookups = (
            {" → ".join(kind.names): row for kind, row in coverage if kind.what == what}
            for what in ("operator", "edge", "lookup")
        )
        files: Counter[str] = Counter()
        for row in rows:
            file = row["file"]
            if file := sums.rows.numbers.get(file, "") if isinstance(file, int) else file:
                files[path_of(file)] += row["events"]
        return {
            "events": sum(fates),
            **dict(zip(FATES, fates, strict=True)),
            "first": min((row["first"] for row in counted), default=None),
            "last": max((row["last"] for row in counted), default=None),
            "latest": max((r["latest"] for r in counted if r["latest"] is not None), default=None),
            "without_key": {name: row["beyond"] for name, row in operators.items()},
            "without_cost": {name: row["without_amount"] for name, row in operators.items()},
            "without_state": {
                name: row["without_state"]
                for name, row in operators.items()
                if row["without_state"] is not None
            },
            "without_rate": {name: row["without_amount"] for name, row in edges.items()},
            "lookups": {
                name: {**counts, "unmatched": lookups[name]["reached"]}
                for name, counts in sums.lookups.items()
            },
            "files": dict(files),
        }

    def _coverage(self, table: str, sums: Sums, kind: Kind) -> dict[str, Any]:
        """Return how many events reach their key groups, how many lack an amount, and the least."""
        reached = kind.reached
        selected = [f"coalesce(sum(n) FILTER ({reached}), 0)::BIGINT AS reached"]
        selected += [f"coalesce(sum(n) FILTER (NOT ({reached})), 0)::BIGINT AS beyond"]
        for name, amount in (("amount", kind.amount), ("state", kind.state)):
            without, least = "NULL", "NULL"
            if amount is not None:
                without = f"coalesce(sum(n - {amount.known}) FILTER ({reached}), 0)::BIGINT"
                least = f"min({amount.least})"
            selected += [f"{without} AS without_{name}", f"{least} AS least_{name}"]
        query = f"SELECT {', '.join(selected)} FROM {table} WHERE {sums.where(kind)}"
        return self._ask("events", query)[0]


def _first_faults(rows: Iterable[Mapping[str, Any]]) -> list[tuple[str, int]]:
    """Return the first fault of each kind and file, with the number of such rows."""
    first_faults: dict[tuple[str, Any], tuple[str, int]] = {}
    for row in (row for row in rows if row["fault"] is not None):
        which = row["fault"], row["file"]
        first, count = first_faults.get(which, (row["bad"], 0))
        first_faults[which] = min(first, row["bad"]), count + row["events"]
    return sorted(first_faults.values())


def _check_amounts(coverage: Iterable[tuple[Kind, Mapping[str, Any]]]) -> None:
    problems = []
    for kind, row in coverage:
        for amount, least in ((kind.amount, row["least_amount"]), (kind.state, row["least_state"])):
            if amount is not None and least is not None and least < 0:
                reason = f"is negative for some events (down to {least / 1e6:g})"
                problems.append(Problem(amount.expression.where, amount.expression.text, reason))
    if problems:
        raise InvalidInput(problems)


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _earlier_window() -> str:
    """Return the rows of a key in earlier periods."""
    keys = ", ".join(_KEY)
    return f"PARTITION BY {keys} ORDER BY period ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"


def _per_second_query(
    parts: Iterable[str],
    keys: Sequence[str],
    total: str,
    per_second: str,
    more: str = "",
    where: str = "true",
) -> str:
    """Return the sums of several queries, as amounts and per second."""
    by = ", ".join(("period", *keys))
    amount = f"(millionths::DOUBLE / {MICRO})"
    shown = f"{'events, ' if more else ''}{amount} AS {total}, {amount} / seconds AS {per_second}"
    micros = f"coalesce(sum(micros), 0)::{_WIDE} AS micros"
    summed = f"SELECT {by}, {more}{micros} FROM ({' UNION ALL '.join(parts)}) GROUP BY {by}"
    return (
        f"SELECT {by}, {shown}, millionths FROM (SELECT *, micros::{_STORED} AS millionths FROM "
        f"({summed}) WHERE {where}) JOIN periods USING (period) ORDER BY {by}"
    )
