"""Prepared events as sums: loads, rates, keys and states of every period."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from experiments.traces.columns import MICRO

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.window import WindowSpec

    from experiments.traces.job import Job
    from experiments.traces.periods import Period
    from experiments.traces.preparing import Prepared

LOADS = ("period", "operator", "group", "events", "cost", "load", "millionths")
_PAIR = ("period", "source", "target", "source_group", "target_group")
RATES = (*_PAIR, "amount", "rate", "millionths")
KEYS = ("period", "operator", "group", "key", "millionths")
STATES = ("period", "operator", "group", "keys", "state")

_GROUP = ("operator", "group")
_KEY = (*_GROUP, "key")


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
    older
        Tables of the trace that these recordings are added to, with periods counted anew.
    """

    def __init__(
        self,
        job: Job,
        recordings: Sequence[Prepared],
        first: int,
        lengths: DataFrame,
        older: Mapping[str, DataFrame] | None = None,
    ) -> None:
        self.job, self.recordings, self.first = job, recordings, first
        self.lengths = F.broadcast(lengths)
        self.older = older or {}
        self.stored_keys: DataFrame | None = None
        """What `keys` gives, where it is written already."""

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
        order = ("period", "operator", "group")
        counted = F.count(F.lit(1)).alias("events")
        summed = _union(parts).groupBy(*order).agg(counted, _sum("micros")) if parts else None
        events = F.sum("events").alias("events")
        summed = self._with_older("loads", summed, order, ("events", "micros"), events)
        assert summed is not None
        return self._over_time(summed, "cost", "load").select(*LOADS).orderBy(*order)

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
        order = _PAIR
        summed = _union(parts).groupBy(*order).agg(_sum("micros")) if parts else None
        summed = self._with_older("rates", summed, order, ("micros",))
        if summed is None:
            return None
        return self._over_time(summed, "amount", "rate").select(*RATES).orderBy(*order)

    def keys(self) -> DataFrame | None:
        """One row where a key is seen first, or with a larger state than ever; in millionths.

        ``None`` where no operator keeps state. All of `states` follows from these.
        """
        parts = [
            prepared.counted.select(
                self._period(),
                F.lit(self.job.operators[o].id).alias("operator"),
                F.col(f"g{o}").alias("group"),
                F.col(f"k{o}").alias("key"),
                F.coalesce(F.col(f"s{o}"), F.lit(0)).alias("millionths"),
            ).where(F.col("group").isNotNull())
            for prepared in self.recordings
            for o in prepared.operators
            if f"k{o}" in prepared.frame.columns
        ]
        if "keys" in self.older:
            parts.append(self.older["keys"].select("period", *_KEY, "millionths"))
        if not parts:
            return None
        most = F.max("millionths").alias("millionths")
        seen = _union(parts).groupBy(*_KEY, "period").agg(most)
        known = F.max("millionths").over(_earlier())
        grown = seen.withColumn("known", known)
        return grown.where(F.col("known").isNull() | (F.col("millionths") > F.col("known"))).select(
            *KEYS
        )

    def states(self) -> DataFrame | None:
        """One row where the state of a key group grows: from that period on it has this size.

        State is that of all keys seen so far; a key counts with the largest state it had so far,
        so that no period knows of a later one.
        """
        keys = self.keys() if self.stored_keys is None else self.stored_keys
        if keys is None:
            return None
        before = F.max("millionths").over(_earlier())
        more = F.col("millionths") - F.coalesce(before, F.lit(0))
        grown = (
            keys.select(
                *_GROUP, "period", before.isNull().cast("bigint").alias("new"), more.alias("micros")
            )
            .groupBy(*_GROUP, "period")
            .agg(F.sum("new").alias("new"), _sum("micros"))
        )
        so_far = Window.partitionBy(*_GROUP).orderBy("period")
        return grown.select(
            "period",
            *_GROUP,
            F.sum("new").over(so_far).alias("keys"),
            (F.sum("micros").over(so_far).cast("double") / MICRO).alias("state"),
        ).orderBy("period", *_GROUP)

    def _with_older(
        self,
        name: str,
        summed: DataFrame | None,
        order: Sequence[str],
        sums: Sequence[str],
        *more: Column,
    ) -> DataFrame | None:
        """Return sums together with those of the older trace."""
        if name not in self.older:
            return summed
        older = self.older[name].withColumnRenamed("millionths", "micros").select(*order, *sums)
        if summed is None:
            return older
        both = summed.select(*order, *sums).unionAll(older)
        return both.groupBy(*order).agg(*more, _sum("micros"))

    def _number(self, name: str) -> int:
        return next(o for o, spec in enumerate(self.job.operators) if spec.id == name)

    def _period(self) -> Column:
        return (F.col("bucket") - F.lit(self.first)).cast("int").alias("period")

    def _over_time(self, summed: DataFrame, total: str, per_second: str) -> DataFrame:
        millionths = F.coalesce(F.col("micros"), F.lit(0)).cast("decimal(30,0)")
        amount = millionths.cast("double") / MICRO
        timed = summed.join(self.lengths, "period")
        found = {total: amount, per_second: amount / F.col("seconds"), "millionths": millionths}
        return timed.withColumns(found)


def lengths_frame(session: SparkSession, periods: Sequence[Period]) -> DataFrame:
    """Return the length of every period in seconds."""
    rows = [(period.number, period.seconds) for period in periods]
    return session.createDataFrame(rows, "period int, seconds double")


def _earlier() -> WindowSpec:
    """Return the rows of a key in earlier periods."""
    return Window.partitionBy(*_KEY).orderBy("period").rowsBetween(Window.unboundedPreceding, -1)


def _union(parts: Sequence[DataFrame]) -> DataFrame:
    return reduce(lambda a, b: a.unionAll(b), parts)


def _sum(column: str) -> Column:
    """Return a sum of whole numbers that neither overflows nor depends on their order."""
    return F.sum(F.col(column).cast("decimal(28,0)")).alias(column)
