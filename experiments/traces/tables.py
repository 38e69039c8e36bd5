"""The tables of a trace: loads, rates, keys and states of every period."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from experiments.traces.sums import MICRO, exact, union

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.window import WindowSpec

    from experiments.traces.job import Job
    from experiments.traces.periods import Period
    from experiments.traces.sums import Sums

LOADS = ("period", "operator", "group", "events", "cost", "load", "millionths")
_PAIR = ("period", "source", "target", "source_group", "target_group")
RATES = (*_PAIR, "amount", "rate", "millionths")
KEYS = ("period", "operator", "group", "key", "millionths")
STATES = ("period", "operator", "group", "keys", "state")

_SUMS = ("events", "high", "low")
_GROUP = ("operator", "group")
_KEY = (*_GROUP, "key")


class Summing:
    """Makes the tables of a trace.

    Parameters
    ----------
    job
        The description.
    recordings
        As sums by key.
    first
        Bucket of period 0.
    periods
        All of them.
    older
        Tables of the trace that these recordings are added to, with periods counted anew.
    """

    def __init__(
        self,
        job: Job,
        recordings: Sequence[Sums],
        first: int,
        periods: Sequence[Period],
        older: Mapping[str, DataFrame] | None = None,
    ) -> None:
        self.job, self.recordings, self.first = job, recordings, first
        self.periods = periods
        self.older = older or {}
        self.stored_keys: DataFrame | None = None
        """What `keys` gives, where it is written already."""

    def loads(self) -> DataFrame:
        """One row a period and key group with events."""
        parts = [
            sums.of(k for k, _ in sums.each("operator")).select(
                self._period(),
                self._operator(sums).alias("operator"),
                F.col("a").alias("group"),
                *_SUMS,
            )
            for sums in self.recordings
            if any(sums.each("operator"))
        ]
        order = ("period", "operator", "group")
        summed = _summed(parts, order, F.sum("events").alias("events")) if parts else None
        events = F.sum("events").alias("events")
        summed = self._with_older("loads", summed, order, ("events", "micros"), events)
        assert summed is not None
        return self._over_time(summed, "cost", "load").select(*LOADS).sortWithinPartitions(*order)

    def rates(self) -> DataFrame | None:
        """One row a period and pair of key groups with traffic; ``None`` without edges."""
        parts = [
            sums.of(k for k, _ in sums.each("edge")).select(
                self._period(),
                *(self._end(sums, end).alias(end) for end in ("source", "target")),
                F.col("a").alias("source_group"),
                F.col("b").alias("target_group"),
                *_SUMS,
            )
            for sums in self.recordings
            if any(sums.each("edge"))
        ]
        order, summed = _PAIR, None
        if len(parts) == 1:  # a pair stands once in a recording
            summed = parts[0].withColumn("micros", exact(F.col("high"), F.col("low")))
        elif parts:
            summed = _summed(parts, order)
        if summed is not None:
            summed = summed.where(F.col("micros") > 0)
        summed = self._with_older("rates", summed, order, ("micros",))
        if summed is None:
            return None
        return self._over_time(summed, "amount", "rate").select(*RATES).sortWithinPartitions(*order)

    def keys(self) -> DataFrame | None:
        """One row where a key is seen first, or with a larger state than ever; in millionths.

        ``None`` where no operator keeps state. All of `states` follows from these.
        """
        parts = [
            sums.of(stateful).select(
                self._period(),
                self._operator(sums).alias("operator"),
                F.col("a").alias("group"),
                "key",
                F.coalesce(F.col("most"), F.lit(0)).alias("millionths"),
            )
            for sums in self.recordings
            if (stateful := [k for k, kind in sums.each("operator") if kind.state])
        ]
        if "keys" in self.older:
            parts.append(self.older["keys"].select("period", *_KEY, "millionths"))
        if not parts:
            return None
        seen = union(parts)
        if len(parts) > 1:
            seen = seen.groupBy(*_KEY, "period").agg(F.max("millionths").alias("millionths"))
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
        ).sortWithinPartitions("period", *_GROUP)

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

    def _operator(self, sums: Sums) -> Column:
        """Return the operator of rows."""
        each = sums.each("operator")
        return _named({k: self.job.operators[kind.number].id for k, kind in each})

    def _end(self, sums: Sums, end: str) -> Column:
        """Return the ``source`` or ``target`` of rows."""
        each = sums.each("edge")
        return _named({k: getattr(self.job.edges[kind.number], end) for k, kind in each})

    def _period(self) -> Column:
        return (F.col("bucket") - F.lit(self.first)).cast("int").alias("period")

    def _over_time(self, summed: DataFrame, total: str, per_second: str) -> DataFrame:
        millionths = F.coalesce(F.col("micros"), F.lit(0)).cast("decimal(30,0)")
        amount = millionths.cast("double") / MICRO
        lengths = {period.seconds for period in self.periods}
        if len(lengths) == 1:
            summed = summed.withColumn("seconds", F.lit(lengths.pop()))
        else:
            rows = [(period.number, period.seconds) for period in self.periods]
            frame = summed.sparkSession.createDataFrame(rows, "period int, seconds double")
            summed = summed.join(F.broadcast(frame), "period")
        found = {total: amount, per_second: amount / F.col("seconds"), "millionths": millionths}
        return summed.withColumns(found)


def _earlier() -> WindowSpec:
    """Return the rows of a key in earlier periods."""
    return Window.partitionBy(*_KEY).orderBy("period").rowsBetween(Window.unboundedPreceding, -1)


def _named(names: Mapping[int, str]) -> Column:
    """Return the name of the kind of rows."""
    pairs = (F.lit(part) for kind, name in names.items() for part in (kind, name))
    return F.create_map(*pairs)[F.col("kind")]


def _summed(parts: list[DataFrame], order: Sequence[str], *more: Column) -> DataFrame:
    """Return the sums of several recordings as one."""
    micros = exact(F.sum("high"), F.sum("low")).alias("micros")
    return union(parts).groupBy(*order).agg(*more, micros)


def _sum(column: str) -> Column:
    """Return a sum of whole numbers that neither overflows nor depends on their order."""
    return F.sum(F.col(column).cast("decimal(28,0)")).alias(column)
