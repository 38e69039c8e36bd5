"""One pass over a recording: everything that is told of its events, summed up by key."""

from __future__ import annotations

from dataclasses import dataclass
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
    check_bad,
    joined,
    path_of,
    read_rows,
)
from optim.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from pyspark.sql import Column, DataFrame, SparkSession

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

FATE = 0
"""Kind of the rows that tell what became of events."""

_BITS = 31
"""Amounts are summed in two halves, so that 64 bits hold the sums of two thousand million."""

_NUMBER = 21
"""Bits of a key group, or of a fate; 0 stands for none."""

_COLUMNS = {"place": "bigint", "key": "string", "amount": "bigint", "state": "bigint"}


class Kind(NamedTuple):
    """What the rows of one kind tell, as columns of single events.

    Attributes
    ----------
    what, number
        ``fate``; or ``operator``, ``edge`` or ``lookup``, and which.
    a, b
        Key groups; the fate; or whether nothing was found in a table.
    key
        Of state; of fates, what is wrong, else the file.
    amount, state
        In millionths; where there is a fate, the moment in place of the state.
    of_amount, of_state
        Where these come from.
    """

    what: str
    number: int
    a: str
    b: str = ""
    key: str = ""
    amount: str = ""
    state: str = ""
    of_amount: Expression | None = None
    of_state: Expression | None = None


@dataclass(frozen=True)
class Sums:
    """A recording as sums.

    Attributes
    ----------
    events, rows
        The recording, and as it was read.
    kinds
        What there are rows of, by their number.
    lookups
        For each joined table its rows, and those dropped for a key that stood twice.
    frame
        One row a kind, ``bucket``, ``a``, ``b`` and ``key``: ``events``, and of amount and state
        how many are known, and the least; of amounts the sum as ``high`` and ``low`` half, of
        states the ``most``; and whether the key groups are ``reached``, of an edge both.
    """

    events: Events
    rows: Rows
    kinds: Sequence[Kind]
    lookups: Mapping[str, Mapping[str, int]]
    frame: DataFrame

    def each(self, what: str) -> Iterator[tuple[int, Kind]]:
        """Give the kinds that are about the same."""
        return ((k, kind) for k, kind in enumerate(self.kinds) if kind.what == what)

    def of(self, kinds: Iterable[int]) -> DataFrame:
        """Return the rows of some kinds where there are key groups."""
        return self.frame.where(F.col("kind").isin(*kinds) & F.col("reached"))


def sum_up(
    session: SparkSession,
    job: Job,
    events: Events,
    paths: Mapping[str, Paths],
    uri: str,
    open_from: int | None = None,
) -> Sums:
    """Read a recording once, and write its sums to a table at a URI.

    Each event becomes a row of the same columns for what became of it, for every operator, edge and
    looked-up table (Spark's Expand), and these are summed up in one aggregation, first where they
    are read: a hot key, or null, leaves each task as one row. In a table the sums are smaller than
    in Spark's cache and read faster; and a worker that is lost does not take them with it.

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
        are then kept as ``at``, so that the latest can be told.

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
    kinds, columns = _kinds(job, events, rows, open_from)
    frame = rows.frame.select(*(column.alias(name) for name, column in columns.items()))
    _summed(_expanded(session, frame, kinds), kinds).write.parquet(uri)
    return Sums(events, rows, kinds, lookups, session.read.parquet(escaped(uri)))


def _kinds(
    job: Job, events: Events, rows: Rows, open_from: int | None
) -> tuple[list[Kind], dict[str, Column]]:
    """Return the kinds of rows, and the columns of events that these are made of."""
    made = _Maker(job, rows)
    columns = {**made.moments(events, open_from), BAD: F.coalesce(BAD, FILE)}
    kinds = [Kind("fate", 0, "fate", key=BAD, state="at" if "at" in columns else "")]
    numbers = {spec.id: o for o, spec in enumerate(job.operators)}
    for o, spec in enumerate(job.operators):
        if (entry := spec.input_of(events.name)) is None:
            continue
        key = made.key(spec, entry)
        columns |= {f"g{o}": key_group(key, spec.key_groups), f"c{o}": made.amount(entry.cost)}
        kind = Kind("operator", o, f"g{o}", amount=f"c{o}", of_amount=entry.cost)
        if entry.state is not None:
            columns |= {f"k{o}": key, f"s{o}": made.amount(entry.state)}
            kind = kind._replace(key=f"k{o}", state=f"s{o}", of_state=entry.state)
        kinds.append(kind)
    for e, edge in enumerate(job.edges):
        if events.name in edge.events:
            columns[f"r{e}"] = made.amount(edge.rate)
            source, target = (f"g{numbers[end]}" for end in (edge.source, edge.target))
            kinds.append(Kind("edge", e, source, target, amount=f"r{e}", of_amount=edge.rate))
    for i, missed in enumerate(rows.missed.values()):
        columns[f"m{i}"] = F.when(F.col(missed), 1)
        kinds.append(Kind("lookup", i, f"m{i}"))
    return kinds, columns


def _expanded(session: SparkSession, frame: DataFrame, kinds: Sequence[Kind]) -> DataFrame:
    """Return a row an event and kind; of events that do not count the fate alone."""
    made: list[Column] = []
    counts = F.col("fate").isin(*COUNTED)
    for number, kind in enumerate(kinds):
        place = F.lit(number).cast("bigint")  # kind and key groups as one number: a short key
        for part in (kind.a, kind.b):
            group = F.coalesce(F.col(part).cast("bigint") + 1, F.lit(0)) if part else F.lit(0)
            place = F.shiftleft(place, _NUMBER) + group
        if kind.what != "fate":
            wanted = counts & F.col(kind.a).isNotNull() if kind.what == "lookup" else counts
            place = F.when(wanted, place)
        given = {"place": place}
        for name in ("key", "amount", "state"):
            column = getattr(kind, name)
            given[name] = F.col(column) if column else F.lit(None)
        made += [c.cast(_COLUMNS[name]).alias(f"{name}_{number}") for name, c in given.items()]
    sets = [
        f"({', '.join(f'{name}_{number}' for name in _COLUMNS)}) AS s{number}"
        for number in range(len(kinds))
    ]
    rows = session.sql(
        "SELECT * FROM {wide} UNPIVOT INCLUDE NULLS "
        f"(({', '.join(_COLUMNS)}) FOR told IN ({', '.join(sets)}))",
        wide=frame.select("bucket", *made),
    )
    return rows.drop("told").where("place IS NOT NULL")


def _summed(rows: DataFrame, kinds: Sequence[Kind]) -> DataFrame:
    amount, state, place = F.col("amount"), F.col("state"), F.col("place")
    summed = rows.groupBy("place", "bucket", "key").agg(
        F.count(F.lit(1)).alias("events"),
        F.count(amount).alias("known"),
        F.min(amount).alias("least"),
        F.sum(F.shiftright(amount, _BITS)).alias("high"),
        F.sum(amount.bitwiseAND((1 << _BITS) - 1)).alias("low"),
        F.count(state).alias("known_state"),
        F.min(state).alias("least_state"),
        F.max(state).alias("most"),
    )
    kind, a, b = (
        F.shiftright(place, shift).bitwiseAND((1 << _NUMBER) - 1)
        for shift in (2 * _NUMBER, _NUMBER, 0)
    )
    a, b = ((F.nullif(group, F.lit(0)) - 1).cast("int") for group in (a, b))
    found = summed.withColumns({"kind": kind.cast("int"), "a": a, "b": b}).drop("place")
    edges = [number for number, kind in enumerate(kinds) if kind.what == "edge"]
    both = ~F.col("kind").isin(*edges) | F.col("b").isNotNull() if edges else F.lit(True)
    return found.withColumn("reached", F.col("a").isNotNull() & both)


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

    def key(self, spec: OperatorSpec, entry: Input) -> Column:
        """Return the key of an operator as a text."""
        key = F.expr(as_text(self.compute(entry.key)))
        return F.coalesce(key, F.lit(NULL_KEY)) if spec.null_key == "group" else key

    def _moment(self, expression: Expression) -> Column:
        sql, kind = self.compute(expression)
        if kind != "time":
            remedy = "time(…), timestamp(…) and epoch(…) make one; or declare the column as time"
            reason = f"is {kind}, not a time"
            raise InvalidInput(Problem(expression.where, expression.text, reason, remedy))
        return F.expr(sql)

    def amount(self, expression: Expression) -> Column:
        """Return a cost, state or rate in millionths."""
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
    """Return amounts in millionths; null where one is no finite number, or too large.

    Halves are rounded away from 0, as Spark's `round` does, which goes by way of decimals.
    """
    exact = column.cast("double") * MICRO
    whole = exact.try_cast("bigint")
    rest = exact - whole
    away = F.when(rest >= 0.5, 1).when(rest <= -0.5, -1).otherwise(0)
    return F.try_add(whole, away.cast("bigint"))


def exact(high: Column, low: Column) -> Column:
    """Return millionths from their halves."""
    wide = high.cast("decimal(28,0)") * F.lit(1 << _BITS).cast("decimal(10,0)")
    return wide + low.cast("decimal(28,0)")


def union(parts: list[DataFrame]) -> DataFrame:
    """Return the rows of several frames."""
    return reduce(lambda one, other: one.unionAll(other), parts)


# -- what became of the events, and values that cannot be ------------------------------------------


def judge(job: Job, sums: Sums) -> dict[str, Any]:
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
    told = _Told(sums)
    check_bad(sums.rows, sums.frame.sparkSession, told.bads)
    _check_amounts(sums, told)
    counted = [row for fate, row in told.fates.items() if fate in COUNTED]
    moments = [row["most"] for row in counted if row["most"] is not None]
    operators = {job.operators[kind.number].id: (k, kind) for k, kind in sums.each("operator")}
    edges = {_arrow(job.edges[kind.number]): k for k, kind in sums.each("edge")}
    lookups = zip(sums.lookups.items(), sums.each("lookup"), strict=True)
    return {
        "events": sum(row["events"] for row in told.fates.values()),
        **{name: told.fates.get(i, {"events": 0})["events"] for i, name in enumerate(FATES)},
        "first": min((row["first"] for row in counted), default=None),
        "last": max((row["last"] for row in counted), default=None),
        "latest": max(moments, default=None),
        "without_key": {n: told.count(k, "events", False) for n, (k, _) in operators.items()},
        "without_cost": {n: told.unknown(k, "known") for n, (k, _) in operators.items()},
        "without_state": {
            n: told.unknown(k, "known_state") for n, (k, kind) in operators.items() if kind.state
        },
        "without_rate": {n: told.unknown(k, "known") for n, k in edges.items()},
        "lookups": {
            name: {**rows, "unmatched": told.count(k, "events")} for (name, rows), (k, _) in lookups
        },
        "files": told.files,
    }


class _Told:
    """What the sums come to, asked in one query: of each kind, with and without key groups.

    Attributes
    ----------
    fates
        By number: events, first and last bucket, the latest moment.
    files
        By path: its events.
    bads
        The first fault of each kind and file, with the number of such rows.
    """

    def __init__(self, sums: Sums) -> None:
        fate, key = F.col("kind") == FATE, F.col("key")
        parts = F.split(key, MARK)  # of what is wrong; else the file
        wrong = fate & key.startswith(MARK)
        by = {
            "fate": F.when(fate, F.col("a")),
            "fault": F.when(wrong, parts[1]),
            "file": F.when(fate, F.element_at(parts, -1)),
        }
        totals = (F.sum(name).alias(name) for name in ("events", "known", "known_state"))
        least = (F.min(name).alias(name) for name in ("least", "least_state"))
        of_fates = {"first": F.min("bucket"), "last": F.max("bucket"), "most": F.max("most")}
        of_fates["bad"] = F.min(F.when(wrong, key))
        grouped = sums.frame.groupBy("kind", "reached", *(c.alias(n) for n, c in by.items()))
        found = grouped.agg(*totals, *least, *(c.alias(n) for n, c in of_fates.items())).collect()
        self._rows = {(r["kind"], r["reached"]): r for r in found if r["kind"] != FATE}
        self.fates: dict[int, dict[str, Any]] = {}
        self.files: dict[str, int] = {}
        bads: dict[tuple[str, str], tuple[str, int]] = {}
        for row in (row for row in found if row["kind"] == FATE):
            known = self.fates.setdefault(row["fate"], {"events": 0})
            known["events"] += row["events"]
            for name, chosen in (("first", min), ("last", max), ("most", max)):
                values = (v for v in (known.get(name), row[name]) if v is not None)
                known[name] = chosen(values, default=None)
            if row["file"]:
                path = path_of(row["file"])
                self.files[path] = self.files.get(path, 0) + row["events"]
            if row["bad"] is not None:
                first, count = bads.get((row["fault"], row["file"]), (row["bad"], 0))
                bads[row["fault"], row["file"]] = min(first, row["bad"]), count + row["events"]
        self.bads = sorted(bads.values())

    def count(self, kind: int, name: str, reached: bool = True) -> int:
        row = self._rows.get((kind, reached))
        return 0 if row is None else row[name]

    def unknown(self, kind: int, known: str) -> int:
        """Return how many events reach their key groups with no amount or state."""
        return self.count(kind, "events") - self.count(kind, known)

    def least(self, kind: int, name: str) -> int | None:
        found = [row[name] for (k, _), row in self._rows.items() if k == kind]
        return min((value for value in found if value is not None), default=None)


def _check_amounts(sums: Sums, told: _Told) -> None:
    problems = []
    for number, kind in enumerate(sums.kinds):
        for amount, name in ((kind.of_amount, "least"), (kind.of_state, "least_state")):
            least = None if amount is None else told.least(number, name)
            if amount is not None and least is not None and least < 0:
                reason = f"is negative for some events (down to {least / 1e6:g})"
                problems.append(Problem(amount.where, amount.text, reason))
    if problems:
        raise InvalidInput(problems)


def _arrow(edge: Edge) -> str:
    return f"{edge.source} → {edge.target}"
