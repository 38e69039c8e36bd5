"""One recording as numbers: period, key groups, costs in millionths."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from experiments.traces.expressions import as_text
from experiments.traces.joining import joined
from experiments.traces.reading import BAD, FILE, Rows, read_rows
from optim.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from pyspark.sql import Column, DataFrame, SparkSession

    from experiments.traces.expressions import Typed
    from experiments.traces.job import Edge, Input, Job, OperatorSpec
    from experiments.traces.locating import Paths
    from experiments.traces.recordings import Events, Expression

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
