"""One recording as numbers: period, key groups, costs in millionths; and what it came to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from experiments.traces.columns import as_text, key_group, micros
from experiments.traces.reading import BAD, Rows, bad_value, joined, read_rows
from optim.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from pyspark.sql import Column, DataFrame, SparkSession

    from experiments.traces.job import Edge, Input, Job, OperatorSpec
    from experiments.traces.locating import Paths
    from experiments.traces.recordings import Events, Expression

NULL_KEY = "\x00null"
"""The key that null stands for where ``null_key = "group"``; no text of a file begins so."""

FATES = ("counted", "no_time", "outside", "late_dropped", "late_moved", "late_kept")
_COUNTED = (0, 4, 5)


@dataclass(frozen=True)
class Prepared:
    """A recording ready to be summed up.

    Attributes
    ----------
    events
        The recording.
    frame
        One row an event: ``fate``, ``bucket``, and for input i of operator o and edge e the
        columns ``g{o}``, ``c{o}``, ``k{o}``, ``s{o}``, ``r{e}``.
    operators, edges
        Numbers of those that take part.
    lookups
        For each joined table its rows, and those dropped for a key that stood twice; the columns
        ``m0``, ``m1`` … of `frame` tell in this order whether an event found nothing in it.
    """

    events: Events
    frame: DataFrame
    operators: tuple[int, ...]
    edges: tuple[int, ...]
    lookups: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def counted(self) -> DataFrame:
        """The events that count."""
        return self.frame.where(F.col("fate").isin(*_COUNTED))


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
        are then kept as ``at``, so that `judge` can tell the latest.

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
    columns = {"fate": None, "bucket": None, BAD: F.col(BAD)} | made.moments(events, open_from)
    for o, entry in inputs.items():
        columns |= made.input(o, job.operators[o], entry)
    for e, edge in edges.items():
        columns |= made.edge(e, edge)
    columns |= {f"m{i}": F.col(missed) for i, missed in enumerate(rows.missed.values())}
    frame = rows.frame.select(*(c.alias(n) for n, c in columns.items() if c is not None))
    return Prepared(events, frame, tuple(inputs), tuple(edges), lookups)


def _rows(
    session: SparkSession,
    job: Job,
    events: Events,
    paths: Mapping[str, Paths],
    wanted: list[Expression],
) -> tuple[Rows, dict[str, dict[str, int]]]:
    mine = [*wanted, *(a for join in events.joins for a, _ in join.on)]
    rows = read_rows(session, events, paths[events.name], mine)
    lookups = {}
    for number, join in enumerate(events.joins):
        # what is looked up stands in the expressions as name.column, and in the keys of later joins
        theirs = [b for _, b in join.on]
        later = [a for other in events.joins[number + 1 :] for a, _ in other.on]
        own = [_of_table(e, join.name) for e in (*wanted, *later)]
        table = read_rows(
            session,
            join,
            paths[f"{events.name}.{join.name}"],
            [*theirs, *(e for e in own if e)],
            "t",
        )
        rows, count, doubled = joined(rows, join, table, job.calendar.zone)
        lookups[join.name] = {"rows": count, "doubled": doubled}
    return rows, lookups


def _of_table(expression: Expression, name: str) -> Expression | None:
    """Return an expression that reads what another one reads of a joined table."""
    from dataclasses import replace

    from experiments.traces.grammar import Call, ColumnName, column_names

    prefix = f"{name}."
    inner = [n.removeprefix(prefix) for n in column_names(expression.node) if n.startswith(prefix)]
    if not inner:
        return None
    node = Call(0, "coalesce", tuple(ColumnName(0, column) for column in inner))
    return replace(expression, node=node)


class _Maker:
    """Makes the columns of one recording."""

    def __init__(self, job: Job, rows: Rows) -> None:
        self.job, self.rows = job, rows
        self.translate = rows.translator(job.calendar.zone)

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
        kind = self.rows.kind(entry.key)
        key = as_text(self.translate(entry.key.node), kind)
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
        if self.rows.kind(expression) != "time":
            kind = self.rows.kind(expression)
            remedy = "time(…), timestamp(…) and epoch(…) make one; or declare the column as time"
            reason = f"is {kind}, not a time"
            raise InvalidInput(Problem(expression.where, expression.text, reason, remedy))
        return self.translate(expression.node)

    def _amount(self, expression: Expression) -> Column:
        kind = self.rows.kind(expression)
        if kind not in ("whole", "number"):
            remedy = 'declare the column as "number", or use number(…)' if kind == "text" else ""
            reason = f"is {kind}, not an amount"
            raise InvalidInput(Problem(expression.where, expression.text, reason, remedy))
        return micros(self.translate(expression.node))


def _literal(moment: datetime) -> Column:
    from experiments.traces.periods import micros_of

    return F.timestamp_micros(F.lit(micros_of(moment)).cast("bigint"))


def judge(job: Job, prepared: Prepared) -> dict[str, Any]:
    """Count what became of the events, and refuse amounts that cannot be.

    Returns
    -------
    dict
        ``events``, one count for each of `FATES`, ``first`` and ``last`` bucket (or None), the
        ``latest`` moment in microseconds, where it is kept, and for
        every operator the events without key, cost and state, for every edge those without rate;
        for every joined table its rows, those dropped, and the events without a match.

    Raises
    ------
    InvalidInput
        A value is not of its declared type, or a cost, rate or state is negative.
    """
    counted = F.col("fate").isin(*_COUNTED)
    names = {job.operators[o].id: o for o in prepared.operators}
    asked = {"events": F.count(F.lit(1)), "bad": F.count(BAD), "first_bad": F.min(BAD)}
    asked |= {f"fate{i}": _count(F.col("fate") == i) for i in range(len(FATES))}
    asked |= {"first": F.min(F.when(counted, F.col("bucket")))}
    asked |= {"last": F.max(F.when(counted, F.col("bucket")))}
    if "at" in prepared.frame.columns:
        asked |= {"latest": F.max(F.when(counted, F.col("at")))}
    amounts: dict[str, Expression] = {}
    for o in prepared.operators:
        entry = job.operators[o].input_of(prepared.events.name)
        assert entry is not None
        reached = counted & F.col(f"g{o}").isNotNull()
        asked[f"null{o}"] = _count(counted & F.col(f"g{o}").isNull())
        amounts[f"c{o}"] = entry.cost
        asked[f"none_c{o}"] = _count(reached & F.col(f"c{o}").isNull())
        if entry.state is not None:
            amounts[f"s{o}"] = entry.state
            asked[f"none_s{o}"] = _count(reached & F.col(f"s{o}").isNull())
    ends: dict[int, str] = {}
    for e in prepared.edges:
        edge = job.edges[e]
        amounts[f"r{e}"] = edge.rate
        ends[e] = f"{edge.source} → {edge.target}"
        both = counted
        for name in (edge.source, edge.target):
            both = both & F.col(f"g{names[name]}").isNotNull()
        asked[f"none_r{e}"] = _count(both & F.col(f"r{e}").isNull())
    for i in range(len(prepared.lookups)):
        asked[f"missed{i}"] = _count(counted & F.col(f"m{i}"))
    asked |= {f"least_{name}": F.min(F.when(counted, F.col(name))) for name in amounts}
    row = prepared.frame.agg(*(column.alias(name) for name, column in asked.items())).first()
    assert row is not None
    if row["bad"]:
        raise bad_value(prepared.events, row["first_bad"], row["bad"])
    least = {name: row[f"least_{name}"] for name in amounts}
    negative = [
        Problem(e.where, e.text, f"is negative for some events (down to {least[name] / 1e6:g})")
        for name, e in amounts.items()
        if least[name] is not None and least[name] < 0
    ]
    if negative:
        raise InvalidInput(negative)
    return {
        "events": row["events"],
        **{fate: row[f"fate{i}"] for i, fate in enumerate(FATES)},
        "first": row["first"],
        "last": row["last"],
        "latest": row["latest"] if "latest" in asked else None,
        "without_key": {name: row[f"null{o}"] for name, o in names.items()},
        "without_cost": {name: row[f"none_c{o}"] for name, o in names.items()},
        "without_state": {n: row[f"none_s{o}"] for n, o in names.items() if f"s{o}" in amounts},
        "without_rate": {told: row[f"none_r{e}"] for e, told in ends.items()},
        "lookups": {
            name: {**told, "unmatched": row[f"missed{i}"]}
            for i, (name, told) in enumerate(prepared.lookups.items())
        },
    }


def _count(condition: Column) -> Column:
    return F.count(F.when(condition, 1))
