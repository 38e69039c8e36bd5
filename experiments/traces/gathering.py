"""One pass over a recording: everything that is told of its events, summed up by key at once.

Each event becomes a row of the same columns for what became of it, for every operator, edge and
looked-up table (Spark's Expand), and these are summed up in one aggregation, first where they
are read: a hot key, or null, leaves each task as one row. Counts, loads, rates and states are all
taken from these sums, and the recording is never read again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from experiments.traces.locating import escaped
from experiments.traces.reading import BAD

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column, DataFrame, SparkSession

    from experiments.traces.job import Job
    from experiments.traces.preparing import Prepared

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
