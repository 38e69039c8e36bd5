"""Sums over the periods: load of key groups, rates between them, state; all of them sparse."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from experiments.traces.columns import MICRO

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from experiments.traces.job import Job
    from experiments.traces.periods import Period
    from experiments.traces.preparing import Prepared

LOADS = ("period", "operator", "group", "events", "cost", "load")
RATES = ("period", "source", "target", "source_group", "target_group", "amount", "rate")
STATES = ("period", "operator", "group", "keys", "state")

_GROUP = ("operator", "group")
_KEY = (*_GROUP, "key")
_FIRST = Window.unboundedPreceding


class Summing:
    """Sums up prepared recordings.

    Parameters
    ----------
    job
        The description.
    recordings
        Prepared.
    first
        Bucket of period 0.
    lengths
        Seconds by period, as `lengths_frame` makes it.
    """

    def __init__(
        self, job: Job, recordings: Sequence[Prepared], first: int, lengths: DataFrame
    ) -> None:
        self.job, self.recordings, self.first = job, recordings, first
        self.lengths = F.broadcast(lengths)

    def loads(self) -> DataFrame:
        """One row a period and key group with events."""
        parts = [
            prepared.counted.select(
                self._period(),
                F.lit(self.job.operators[o].id).alias("operator"),
                F.col(f"g{o}").alias("group"),
                F.col(f"c{o}").alias("micros"),
            ).where(F.col("group").isNotNull())
            for prepared in self.recordings
            for o in prepared.operators
        ]
        sums = _union(parts).groupBy("period", "operator", "group")
        summed = sums.agg(
            F.count(F.lit(1)).alias("events"), _sum("micros").cast("double").alias("micros")
        )
        per_second = self._over_time(summed, "cost", "load")
        return per_second.select(*LOADS).orderBy("period", "operator", "group")

    def rates(self) -> DataFrame | None:
        """One row a period and pair of key groups with traffic; ``None`` without edges."""
        parts = []
        for prepared in self.recordings:
            for e in prepared.edges:
                edge = self.job.edges[e]
                source, target = (self._number(name) for name in (edge.source, edge.target))
                part = prepared.counted.select(
                    self._period(),
                    F.lit(edge.source).alias("source"),
                    F.lit(edge.target).alias("target"),
                    F.col(f"g{source}").alias("source_group"),
                    F.col(f"g{target}").alias("target_group"),
                    F.col(f"r{e}").alias("micros"),
                )
                both = F.col("source_group").isNotNull() & F.col("target_group").isNotNull()
                parts.append(part.where(both & (F.col("micros") > 0)))
        if not parts:
            return None
        order = ("period", "source", "target", "source_group", "target_group")
        summed = _union(parts).groupBy(*order).agg(_sum("micros").cast("double").alias("micros"))
        return self._over_time(summed, "amount", "rate").select(*RATES).orderBy(*order)

    def states(self) -> DataFrame | None:
        """One row where the state of a key group grows: from that period on it has this size.

        State is that of all keys seen so far; a key counts with the largest state it had so far,
        so that no period knows of a later one.
        """
        parts = [
            prepared.counted.select(
                self._period(),
                F.lit(self.job.operators[o].id).alias("operator"),
                F.col(f"g{o}").alias("group"),
                F.col(f"k{o}").alias("key"),
                F.coalesce(F.col(f"s{o}"), F.lit(0)).alias("micros"),
            ).where(F.col("group").isNotNull())
            for prepared in self.recordings
            for o in prepared.operators
            if f"k{o}" in prepared.frame.columns
        ]
        if not parts:
            return None
        seen = _union(parts).groupBy(*_KEY, "period").agg(F.max("micros").alias("micros"))
        earlier = Window.partitionBy(*_KEY).orderBy("period").rowsBetween(_FIRST, -1)
        known = F.max("micros").over(earlier)
        more = F.col("micros") - F.coalesce(known, F.lit(0))
        keys = seen.select(
            *_GROUP, "period", known.isNull().cast("bigint").alias("new"), more.alias("more")
        ).where((F.col("new") > 0) | (F.col("more") > 0))
        grown = keys.groupBy(*_GROUP, "period").agg(
            F.sum("new").alias("new"), _sum("more").alias("more")
        )
        so_far = Window.partitionBy(*_GROUP).orderBy("period")
        return grown.select(
            "period",
            *_GROUP,
            F.sum("new").over(so_far).alias("keys"),
            (F.sum("more").over(so_far).cast("double") / MICRO).alias("state"),
        ).orderBy("period", *_GROUP)

    def _number(self, name: str) -> int:
        return next(o for o, spec in enumerate(self.job.operators) if spec.id == name)

    def _period(self) -> Column:
        return (F.col("bucket") - F.lit(self.first)).cast("int").alias("period")

    def _over_time(self, summed: DataFrame, total: str, per_second: str) -> DataFrame:
        amount = F.coalesce(F.col("micros"), F.lit(0)) / MICRO
        timed = summed.join(self.lengths, "period")
        return timed.withColumns({total: amount, per_second: amount / F.col("seconds")})


def lengths_frame(session: SparkSession, periods: Sequence[Period]) -> DataFrame:
    """Return the length of every period in seconds."""
    rows = [(period.number, period.seconds) for period in periods]
    return session.createDataFrame(rows, "period int, seconds double")


def _union(parts: Sequence[DataFrame]) -> DataFrame:
    return reduce(lambda a, b: a.unionAll(b), parts)


def _sum(column: str) -> Column:
    """Return a sum of whole numbers that neither overflows nor depends on their order."""
    return F.sum(F.col(column).cast("decimal(20,0)"))
