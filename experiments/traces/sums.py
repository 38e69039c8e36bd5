"""One pass over a recording: everything that is told of its events, summed up by key."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import functions as F

from experiments.traces.expressions import as_text
from experiments.traces.files import escaped
from experiments.traces.rows import (
    BAD,
    FILE,
    MARK,
    Rows,
    bad_rows,
    check_bad,
    joined,
    path_of,
    read_rows,
)
from optim.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from pyspark.sql import Column, DataFrame, Row, SparkSession

    from experiments.traces.expressions import Typed
    from experiments.traces.files import Paths
    from experiments.traces.job import Edge, Events, Expression, Input, Job, OperatorSpec

MICRO = 1_000_000
"""Costs, rates and states are summed in millionths, as whole numbers: sums of these do not depend
on the order of the events."""

NULL_KEY = "\x00null"
"""The key that null stands for where ``null_key = "group"``; no text of a file begins so."""

FATES = ("counted", "no_time", "outside", "late_dropped", "late_moved", "late_kept")
COUNTED = (0, 4, 5)
"""Of these, the ones of events that count."""


@dataclass(frozen=True)
class Prepared:
    """A recording ready to be summed up.

    Attributes
    ----------
    events, rows
        The recording, and as it was read.
    frame
        One row an event: ``fate``, ``bucket``, `BAD` (what is wrong, else the file), and for input
        i of operator o and edge e the columns ``g{o}``, ``c{o}``, ``k{o}``, ``s{o}``, ``r{e}``.
    operators, edges
        Numbers of those that take part.
    lookups
        For each joined table its rows, and those dropped for a key that stood twice; the columns
        ``m0``, ``m1`` … of `frame` are 1, in this order, where an event found nothing in it.
    """

    events: Events
    rows: Rows
    frame: DataFrame
    operators: tuple[int, ...]
    edges: tuple[int, ...]
    lookups: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def counts(self) -> Column:
        """Whether an event counts."""
        return F.col("fate").isin(*COUNTED)


def prepare(
    session: SparkSession,
    job: Job,
    events: Events,
    paths: Mapping[str, Paths],
    open_from: int | None = None,
) -> Prepared:
    """Read a recording and compute everything about single events.

    Parameters
    ----------
    session
        With UTC as its time zone.
    job, events
        The description, and which of its recordings.
    paths
        What Spark is to read: of ``clicks``, and of the tables looked up as ``clicks.users``.
    open_from
        First bucket that still takes events, where periods are closed one after another; moments
        are then kept as ``at``, so that the latest can be told.

    Raises
    ------
    InvalidInput
        Columns and expressions do not fit together.
    """
    inputs = {
        o: entry for o, spec in enumerate(job.operators) if (entry := spec.input_of(events.name))
    }
    edges = {e: edge for e, edge in enumerate(job.edges) if events.name in edge.events}
    wanted = [e for e in (events.time, events.arrival) if e]
    for entry in inputs.values():
        wanted += [e for e in (entry.key, entry.cost, entry.state) if e]
    wanted += [edge.rate for edge in edges.values()]
    rows, lookups = _rows(session, job, events, paths, wanted)
    made = _Maker(job, rows)
    columns = {"fate": None, "bucket": None, BAD: F.coalesce(BAD, FILE)} | made.moments(
        events, open_from
    )
    for o, entry in inputs.items():
        columns |= made.input(o, job.operators[o], entry)
    for e, edge in edges.items():
        columns |= made.edge(e, edge)
    columns |= {f"m{i}": F.when(F.col(missed), 1) for i, missed in enumerate(rows.missed.values())}
    frame = rows.frame.select(*(c.alias(n) for n, c in columns.items() if c is not None))
    return Prepared(events, rows, frame, tuple(inputs), tuple(edges), lookups)


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


class _Maker:
    """Makes the columns of one recording."""

    def __init__(self, job: Job, rows: Rows) -> None:
        self.job, self.rows = job, rows

    def compute(self, expression: Expression) -> Typed:
        """Return the SQL of an expression, and its type."""
        return self.rows.compute(expression, self.job.calendar.zone)

    def moments(self, events: Events, open_from: int | None) -> dict[str, Column]:
        """Return ``fate`` and ``bucket``, and ``at`` where periods are closed."""
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
        if open_from is None:
            return {"fate": fate.when(late, of_late).otherwise(0), "bucket": bucket}
        fate = fate.when(bucket < F.lit(open_from), 3).when(late, of_late)
        return {"fate": fate.otherwise(0), "bucket": bucket, "at": F.unix_micros(judged)}

    def input(self, number: int, spec: OperatorSpec, entry: Input) -> dict[str, Column]:
        """Return key group, cost, and where there is state its key and size."""
        key = F.expr(as_text(self.compute(entry.key)))
        if spec.null_key == "group":
            key = F.coalesce(key, F.lit(NULL_KEY))
        made = {
            f"g{number}": key_group(key, spec.key_groups),
            f"c{number}": self._amount(entry.cost),
        }
        if entry.state is not None:
            made |= {f"k{number}": key, f"s{number}": self._amount(entry.state)}
        return made

    def edge(self, number: int, edge: Edge) -> dict[str, Column]:
        """Return the amount an event sends."""
        return {f"r{number}": self._amount(edge.rate)}

    def _moment(self, expression: Expression) -> Column:
        sql, kind = self.compute(expression)
        if kind != "time":
            remedy = "time(…), timestamp(…) and epoch(…) make one; or declare the column as time"
            reason = f"is {kind}, not a time"
            raise InvalidInput(Problem(expression.where, expression.text, reason, remedy))
        return F.expr(sql)

    def _amount(self, expression: Expression) -> Column:
        sql, kind = self.compute(expression)
        if kind not in ("whole", "number"):
            remedy = 'declare the column as "number", or use number(…)' if kind == "text" else ""
            reason = f"is {kind}, not an amount"
            raise InvalidInput(Problem(expression.where, expression.text, reason, remedy))
        return micros(F.expr(sql))


def _literal(moment: datetime) -> Column:
    from experiments.traces.periods import micros_of

    return F.timestamp_micros(F.lit(micros_of(moment)).cast("bigint"))


def key_group(key: Column, key_groups: int) -> Column:
    """Return the key group of keys as texts; null for null."""
    group = F.pmod(F.xxhash64(key), F.lit(key_groups)).cast("int")
    return F.when(key.isNotNull(), group)


def micros(column: Column) -> Column:
    """Return amounts in millionths; null where one is no finite number, or too large."""
    return F.round(column.cast("double") * MICRO).try_cast("bigint")


# -- One pass over a recording: everything that is told of its events, summed up by k --

FATE = 0
"""Kind of the rows that tell what became of events."""

_BITS = 31
"""Amounts are summed in two halves, so that 64 bits hold the sums of two thousand million."""

_COLUMNS = {"kind": "int", "a": "int", "b": "int", "key": "string", "amount": "bigint"}
_COLUMNS |= {"state": "bigint"}


class Kind(NamedTuple):
    """What the rows of one kind tell, as columns of prepared events.

    Attributes
    ----------
    a, b
        Key groups, or the fate.
    key
        Of state; a value that is not of its type.
    amount, state
        In millionths; where there is a fate, the moment in place of the state.
    """

    a: str
    b: str = ""
    key: str = ""
    amount: str = ""
    state: str = ""


@dataclass(frozen=True)
class Gathered:
    """A recording as sums.

    Attributes
    ----------
    prepared
        The recording.
    sums
        One row a kind, ``bucket``, ``a``, ``b`` and ``key``: ``events``, and of amount and state
        how many are known, and the least; of amounts the sum as ``high`` and ``low`` half, of
        states the ``most``; and whether the key groups are ``reached``, of an edge both.
    operators, edges, lookups
        Their kinds, by number.
    """

    prepared: Prepared
    sums: DataFrame
    operators: dict[int, int]
    edges: dict[int, int]
    lookups: dict[int, int]

    def of(self, kinds: Iterable[int]) -> DataFrame:
        """Return the rows of some kinds where there are key groups."""
        return self.sums.where(F.col("kind").isin(*kinds) & F.col("reached"))

    @property
    def stateful(self) -> list[int]:
        """Kinds of the operators that keep state here."""
        return [k for o, k in self.operators.items() if f"k{o}" in self.prepared.frame.columns]


def gather(session: SparkSession, job: Job, prepared: Prepared, uri: str) -> Gathered:
    """Read a recording, and write its sums to a table at a URI.

    In a table they are smaller than in Spark's cache and read faster; and a worker that is lost
    does not take them with it, so that no event has to be read again.
    """
    kinds = [Kind("fate", key=BAD, state="at" if "at" in prepared.frame.columns else "")]
    operators, edges, lookups = {}, {}, {}
    numbers = {spec.id: o for o, spec in enumerate(job.operators)}
    for o in prepared.operators:
        operators[o] = len(kinds)
        key, state = (f"k{o}", f"s{o}") if f"k{o}" in prepared.frame.columns else ("", "")
        kinds.append(Kind(f"g{o}", key=key, amount=f"c{o}", state=state))
    for e in prepared.edges:
        edges[e] = len(kinds)
        source, target = (numbers[name] for name in (job.edges[e].source, job.edges[e].target))
        kinds.append(Kind(f"g{source}", f"g{target}", amount=f"r{e}"))
    for i in range(len(prepared.lookups)):
        lookups[i] = len(kinds)
        kinds.append(Kind(f"m{i}"))
    counts = prepared.counts
    rows = _expanded(session, prepared.frame.withColumn("counts", counts), kinds)
    kept = F.col("counts") | (F.col("kind") == FATE)
    _summed(rows.where(kept), list(edges.values())).write.parquet(uri)
    return Gathered(prepared, session.read.parquet(escaped(uri)), operators, edges, lookups)


def _expanded(session: SparkSession, frame: DataFrame, kinds: list[Kind]) -> DataFrame:
    """Return a row an event and kind."""
    made: dict[str, Column] = {}
    for number, kind in enumerate(kinds):
        named = kind._asdict().items()
        given = {name: F.col(column) if column else F.lit(None) for name, column in named}
        given["kind"] = F.lit(number)
        made |= {f"{name}_{number}": given[name].cast(_COLUMNS[name]) for name in _COLUMNS}
    wide = frame.select("counts", "bucket", *(c.alias(name) for name, c in made.items()))
    sets = [
        f"({', '.join(f'{name}_{number}' for name in _COLUMNS)}) AS s{number}"
        for number in range(len(kinds))
    ]
    rows = session.sql(
        "SELECT * FROM {wide} UNPIVOT INCLUDE NULLS "
        f"(({', '.join(_COLUMNS)}) FOR told IN ({', '.join(sets)}))",
        wide=wide,
    )
    return rows.drop("told")


def _summed(rows: DataFrame, edges: list[int]) -> DataFrame:
    amount, state = F.col("amount"), F.col("state")
    reached = F.col("a").isNotNull()
    if edges:
        reached = reached & (~F.col("kind").isin(*edges) | F.col("b").isNotNull())
    return (
        rows.groupBy("kind", "bucket", "a", "b", "key")
        .agg(
            F.count(F.lit(1)).alias("events"),
            F.count(amount).alias("known"),
            F.min(amount).alias("least"),
            F.sum(F.shiftright(amount, _BITS)).alias("high"),
            F.sum(amount.bitwiseAND((1 << _BITS) - 1)).alias("low"),
            F.count(state).alias("known_state"),
            F.min(state).alias("least_state"),
            F.max(state).alias("most"),
        )
        .withColumn("reached", reached)
    )


def exact(high: Column, low: Column) -> Column:
    """Return millionths from their halves."""
    wide = high.cast("decimal(28,0)") * F.lit(1 << _BITS).cast("decimal(10,0)")
    return wide + low.cast("decimal(28,0)")


def union(parts: list[DataFrame]) -> DataFrame:
    """Return the rows of several frames."""
    return reduce(lambda one, other: one.unionAll(other), parts)


# -- What became of the events of a recording, and the values that cannot be --

_SUMMED = ("events", "known", "known_state")


def judge(job: Job, gathered: Gathered) -> dict[str, Any]:
    """Count what became of the events, and refuse values that cannot be.

    Returns
    -------
    dict
        ``events``, one count for each of `FATES`, ``first`` and ``last`` bucket (or None), the
        ``latest`` moment in microseconds, where it is kept, the events of all ``files``, and for
        every operator the events without key, cost and state, for every edge those without rate;
        for every joined table its rows, those dropped, and the events without a match.

    Raises
    ------
    InvalidInput
        A value is not of its declared type, or a cost, rate or state is negative.
    """
    fates, files = _fates(gathered)
    told = _Told(gathered)
    _check_amounts(job, gathered, told)
    counted = [row for fate, row in fates.items() if fate in COUNTED]
    moments = [row["most"] for row in counted if row["most"] is not None]
    operators = {job.operators[o].id: kind for o, kind in gathered.operators.items()}
    stateful = {kind for kind, _, of_state in _amounts(job, gathered) if of_state}
    edges = {_arrow(job, e): kind for e, kind in gathered.edges.items()}
    lookups = zip(gathered.prepared.lookups.items(), gathered.lookups.values(), strict=True)
    return {
        "events": sum(row["events"] for row in fates.values()),
        **{name: fates[i]["events"] if i in fates else 0 for i, name in enumerate(FATES)},
        "first": min((row["first"] for row in counted), default=None),
        "last": max((row["last"] for row in counted), default=None),
        "latest": max(moments, default=None),
        "without_key": {n: told.count(k, "events", reached=False) for n, k in operators.items()},
        "without_cost": {n: told.unknown(k, "known") for n, k in operators.items()},
        "without_state": {
            n: told.unknown(k, "known_state") for n, k in operators.items() if k in stateful
        },
        "without_rate": {n: told.unknown(k, "known") for n, k in edges.items()},
        "lookups": {
            name: {**rows, "unmatched": told.count(k, "events")} for (name, rows), k in lookups
        },
        "files": files,
    }


def _fates(gathered: Gathered) -> tuple[dict[int, Row], dict[str, int]]:
    """Return what the events of each fate come to, and the events of each file.

    Raises
    ------
    InvalidInput
        A row is wrong, or a value is not of its declared type.
    """
    rows = gathered.sums.where(F.col("kind") == FATE)
    check_bad(gathered.prepared.rows, rows.sparkSession, bad_rows(rows, "key", "events"))
    fates = rows.groupBy("a").agg(
        F.sum("events").alias("events"),
        F.min("bucket").alias("first"),
        F.max("bucket").alias("last"),
        F.max("most").alias("most"),
    )
    file = F.element_at(F.split("key", MARK), -1)
    by_file = rows.groupBy(file.alias("file")).agg(F.sum("events").alias("events")).collect()
    files = {path_of(row["file"]): row["events"] for row in by_file if row["file"]}
    return {row["a"]: row for row in fates.collect()}, files


class _Told:
    """What the rows of each kind come to: those with key groups, and those without."""

    def __init__(self, gathered: Gathered) -> None:
        rows = gathered.sums.where(F.col("kind") != FATE).groupBy("kind", "reached")
        sums = (F.sum(name).alias(name) for name in _SUMMED)
        least = (F.min(name).alias(name) for name in ("least", "least_state"))
        self._rows = {(r["kind"], r["reached"]): r for r in rows.agg(*sums, *least).collect()}

    def count(self, kind: int, name: str, *, reached: bool = True) -> int:
        row = self._rows.get((kind, reached))
        return 0 if row is None else row[name]

    def unknown(self, kind: int, known: str) -> int:
        """Return how many events reach their key groups with no amount or state."""
        return self.count(kind, "events") - self.count(kind, known)

    def least(self, kind: int, name: str) -> int | None:
        found = [row[name] for (k, _), row in self._rows.items() if k == kind]
        return min((value for value in found if value is not None), default=None)


def _amounts(job: Job, gathered: Gathered) -> Iterator[tuple[int, Expression, bool]]:
    """Give the expressions whose values must not be negative: kind, expression, of state or not."""
    for o, kind in gathered.operators.items():
        entry = job.operators[o].input_of(gathered.prepared.events.name)
        assert entry is not None
        yield kind, entry.cost, False
        if entry.state is not None:
            yield kind, entry.state, True
    for e, kind in gathered.edges.items():
        yield kind, job.edges[e].rate, False


def _check_amounts(job: Job, gathered: Gathered, told: _Told) -> None:
    problems = []
    for kind, amount, of_state in _amounts(job, gathered):
        least = told.least(kind, "least_state" if of_state else "least")
        if least is not None and least < 0:
            reason = f"is negative for some events (down to {least / 1e6:g})"
            problems.append(Problem(amount.where, amount.text, reason))
    if problems:
        raise InvalidInput(problems)


def _arrow(job: Job, edge: int) -> str:
    return f"{job.edges[edge].source} → {job.edges[edge].target}"
