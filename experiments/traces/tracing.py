"""`run_trace`: recordings and a job description → a folder with what each period came to."""

from __future__ import annotations

import sys
import tempfile
import time
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F

from experiments.traces.columns import MICRO
from experiments.traces.folder import TraceFolder
from experiments.traces.locating import locate
from experiments.traces.manifest import Manifest
from experiments.traces.periods import MAX_PERIODS, Period
from optim.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from experiments.traces.job import Job
    from experiments.traces.preparing import Prepared

MEMORY = "2g"
"""Heap of a local JVM: cached events that do not fit go to disk."""


def run_trace(
    job: Job,
    output: str | Path,
    master: str = "local[*]",
    *,
    paths: Mapping[str, str] | None = None,
    scratch: str | Path | None = None,
    config: Mapping[str, str] | None = None,
    quiet: bool = True,
) -> TraceFolder:
    """Trace recordings of a job.

    Parameters
    ----------
    job
        Its description.
    output
        Folder: new, empty, or of a trace, which is replaced when the new one is whole.
    master
        Of Spark.
    paths
        Recordings in place of those the description names.
    scratch
        Where archives are unpacked; executors must see it. The folder of the trace, until it is
        done, if not given.
    config
        Spark settings.
    quiet
        Do not tell what is being done.

    Raises
    ------
    InvalidInput
        A file, a column, an expression or a value cannot be taken.
    SparkFailed
        Spark gave up.
    """
    from experiments.spark.session import check_master, spark_session

    check_master(master)
    given = dict(paths or {})
    unknown = [name for name in given if name not in [e.name for e in job.events]]
    if unknown:
        remedy = f"one of {', '.join(e.name for e in job.events)}"
        raise InvalidInput([Problem("--events", n, "is no recording", remedy) for n in unknown])
    job = job.with_paths(given)
    tell = _Talk(quiet)
    settings = {"spark.driver.memory": MEMORY, **(config or {})}
    folder = TraceFolder.create(output)
    try:
        with _unpacking(folder, scratch) as unpacked:
            located = _locate(job, given, Path(unpacked))
            tell("starting Spark")
            with spark_session(master, "streamplace trace", quick=False, config=settings) as spark:
                return _trace(spark.newSession(), job, folder, located, tell)
    finally:
        folder.clean()


def _unpacking(folder: TraceFolder, scratch: str | Path | None) -> tempfile.TemporaryDirectory[str]:
    """Make the folder that archives are unpacked in.

    Within that of the trace the next run removes it, should this one be killed.
    """
    base = folder.scratch if scratch is None else Path(scratch)
    try:
        return tempfile.TemporaryDirectory(dir=base, prefix="unpacked-")
    except OSError as error:
        reason, remedy = f"cannot be written: {error.strerror}", "name a folder that is there"
        raise InvalidInput(Problem("--scratch", str(base), reason, remedy)) from None


Located = dict[str, dict[str, list[str]]]
"""By recording: its files under ``""``, those of joined tables under their names."""


def _locate(job: Job, given: Mapping[str, str], scratch: Path) -> Located:
    found: Located = {}
    problems: list[Problem] = []
    for events in job.events:
        wanted = {"": events} | {join.name: join for join in events.joins}
        found[events.name] = {}
        for name, files in wanted.items():
            path = given.get(events.name) if name == "" else None
            try:
                found[events.name][name] = locate(files, job.base, scratch, path)
            except InvalidInput as error:
                problems += error.problems
    if problems:
        raise InvalidInput(problems, job.source)
    return found


def _trace(
    session: SparkSession,
    job: Job,
    folder: TraceFolder,
    located: Located,
    tell: Callable[[str], None],
) -> TraceFolder:
    from py4j.protocol import Py4JJavaError
    from pyspark import StorageLevel
    from pyspark.errors import PySparkException

    from experiments.traces.preparing import judge, prepare
    from experiments.traces.reading import spark_trouble

    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.ansi.enabled", "true")
    recordings: list[Prepared] = []
    told: dict[str, Any] = {}
    started = time.perf_counter()
    events = job.events[0]
    try:
        for events in job.events:
            tell(f"reading {events.name}")
            prepared = prepare(session, job, events, dict(located[events.name]))
            prepared.frame.persist(StorageLevel.MEMORY_AND_DISK)
            recordings.append(prepared)
            told[events.name] = judge(job, prepared)
        periods, first = _periods(job, told)
        manifest = Manifest.of(job, periods, told)
        tell(f"{sum(t['events'] for t in told.values()):,} events in {len(periods):,} periods")
        written = _write(session, job, folder, recordings, (periods, first), tell)
        return folder.finish(manifest, time.perf_counter() - started, written)
    except (PySparkException, Py4JJavaError) as error:
        raise spark_trouble(error, events).within(job.source) from error
    except InvalidInput as error:
        raise error if error.source else error.within(job.source) from None
    finally:
        for prepared in recordings:
            prepared.frame.unpersist()


def _write(
    session: SparkSession,
    job: Job,
    folder: TraceFolder,
    recordings: Sequence[Prepared],
    span: tuple[Sequence[Period], int],
    tell: Callable[[str], None],
) -> list[str]:
    """Have Spark write the tables, and return their names."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    from experiments.spark.session import SparkFailed, cause_of

    periods, first = span
    written = []
    summing = Summing(job, recordings, first, lengths_frame(session, periods))
    for name, frame in (
        ("loads", summing.loads()),
        ("rates", summing.rates()),
        ("states", summing.states()),
    ):
        if frame is not None:
            tell(f"summing up {name}")
            try:
                frame.write.parquet(folder.part_uri(name))
            except (PySparkException, Py4JJavaError) as error:
                # what is in the files was read before: this is about Spark, memory or disks
                reason = f"{job.name}: {name} cannot be summed up: {cause_of(error)}"
                remedy = "look at free memory (--spark-config spark.driver.memory=…) and disks"
                raise SparkFailed(f"{reason} ({remedy})") from error
            written.append(name)
    return written


def _periods(job: Job, told: Mapping[str, Mapping[str, Any]]) -> tuple[list[Period], int]:
    """Return all periods of the recording, empty ones too, and the bucket of the first."""
    calendar = job.calendar
    firsts = [t["first"] for t in told.values() if t["first"] is not None]
    lasts = [t["last"] for t in told.values() if t["last"] is not None]
    if not firsts and (calendar.start is None or calendar.end is None):
        remedy = "look at time, period.start and period.end, and at the file"
        raise InvalidInput(Problem("events", None, "hold no event that counts", remedy))
    first = min(firsts) if calendar.start is None else calendar.bucket_of(calendar.start)
    last = max(lasts) if calendar.end is None else calendar.bucket_of(calendar.end)
    count = last - first + 1
    if count > MAX_PERIODS:
        reason = f"makes {count:,} periods; at most {MAX_PERIODS:,} are taken"
        remedy = "take longer periods, or bound the recording by start and end"
        raise InvalidInput(Problem("period.length", None, reason, remedy))
    try:
        found = [calendar.period(first + number, number) for number in range(count)]
    except OverflowError:
        raise InvalidInput(Problem("period", None, "lies outside the years 1 to 9999")) from None
    # a recording that ends just where a period does has none after it
    return [period for period in found if period.end > period.start], first


class _Talk:
    """Tells on standard error what is being done, with the seconds since the start."""

    def __init__(self, quiet: bool) -> None:
        self._quiet, self._started = quiet, time.perf_counter()

    def __call__(self, text: str) -> None:
        if not self._quiet:
            sys.stderr.write(f"{time.perf_counter() - self._started:6.1f} s  {text}\n")
            sys.stderr.flush()


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
