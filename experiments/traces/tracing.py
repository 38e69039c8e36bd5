"""`run_trace`: recordings and a job description → a folder with what each period came to."""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.spark.remote import place_for_spark
from experiments.traces.appending import (
    Feed,
    added,
    check_appendable,
    check_scanned,
    older_span,
    older_tables,
    remote_entries,
    unread,
    with_counts,
)
from experiments.traces.folder import TraceFolder, is_trace
from experiments.traces.locating import Found, escaped, find
from experiments.traces.manifest import TABLES, Manifest
from experiments.traces.periods import MAX_PERIODS, Period
from experiments.traces.summing import Summing, lengths_frame
from optim.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from experiments.traces.gathering import Gathered
    from experiments.traces.job import Job
    from experiments.traces.recordings import Events, Files

SETTINGS = {
    "spark.driver.memory": "2g",  # of a local JVM: sums that do not fit go to disk
    "spark.sql.adaptive.coalescePartitions.initialPartitionNum": "256",
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "32m",
}
"""Of Spark: sums move in many small parts, of which so many are put together as their sizes ask."""


def run_trace(
    job: Job,
    output: str | Path,
    master: str = "local[*]",
    *,
    paths: Mapping[str, str] | None = None,
    scratch: str | Path | None = None,
    config: Mapping[str, str] | None = None,
    quiet: bool = True,
    append: bool = False,
    uri: str | None = None,
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
    append
        Add the files that the trace in the folder has not read, if there is one: the result is that
        of a trace over everything.
    uri
        Of what `output` is the working copy, as `experiments.spark.remote.output_at` gives it.

    Raises
    ------
    InvalidInput
        A file, a column, an expression or a value cannot be taken; or what was read before is not
        as it was.
    SparkFailed
        Spark gave up.
    """
    from experiments.spark.session import spark_session

    job, given = ready(job, master, paths)
    tell = Talk(quiet)
    folder = TraceFolder.create(output)
    try:
        with unpacking(folder, scratch) as unpacked:
            feed = Feed(older=_older(job, folder) if append else None)
            found = find_all(job, given)
            take(feed, found, Path(unpacked))
            if feed.older is not None and not any(feed.files.values()) and _all_local(found):
                tell("nothing new")
                return feed.older
            tell("starting Spark")
            settings = {**SETTINGS, **(config or {})}
            with spark_session(master, "streamplace trace", quick=False, config=settings) as spark:
                session = spark.newSession()
                folder.place = None if uri is None else place_for_spark(session, uri)
                if not _all_local(found):
                    take(feed, found, Path(unpacked), session)
                return add(session, job, folder, feed, tell)
    finally:
        folder.clean()


def ready(job: Job, master: str, paths: Mapping[str, str] | None) -> tuple[Job, Mapping[str, str]]:
    """Return a job with other paths for its recordings, and these.

    Raises
    ------
    InvalidInput
        The master is none, or there is no such recording.
    """
    from experiments.spark.session import check_master

    check_master(master)
    given = dict(paths or {})
    unknown = [name for name in given if name not in [e.name for e in job.events]]
    if unknown:
        remedy = f"one of {', '.join(e.name for e in job.events)}"
        raise InvalidInput([Problem("--events", n, "is no recording", remedy) for n in unknown])
    return job.with_paths(given), given


def _older(job: Job, folder: TraceFolder) -> TraceFolder | None:
    if not is_trace(folder.path):
        return None
    older = TraceFolder.open(folder.path)
    check_appendable(job, older)
    if older.manifest.following is not None:
        reason = "follows its recordings"
        raise InvalidInput(Problem("--append", str(folder.path), reason, "use --follow"))
    return older


def unpacking(folder: TraceFolder, scratch: str | Path | None) -> tempfile.TemporaryDirectory[str]:
    """Make the folder that archives are unpacked in.

    Within that of the trace the next run removes it, should this one be killed.
    """
    base = folder.scratch if scratch is None else Path(scratch)
    try:
        return tempfile.TemporaryDirectory(dir=base, prefix="unpacked-")
    except OSError as error:
        reason, remedy = f"cannot be written: {error.strerror}", "name a folder that is there"
        raise InvalidInput(Problem("--scratch", str(base), reason, remedy)) from None


Places = dict[str, Found]
"""By recording (``clicks``) and looked-up table (``clicks.users``): where its files are."""


def find_all(job: Job, given: Mapping[str, str], *, may_come: bool = False) -> Places:
    """Return where all files are that a job description names.

    Raises
    ------
    InvalidInput
        With everything that is missing.
    """
    found: Places = {}
    problems: list[Problem] = []
    for events in job.events:
        for name, files in files_of(events).items():
            try:
                awaited = may_come and "." not in name
                found[name] = find(files, job.base, given.get(name), may_come=awaited)
            except InvalidInput as error:
                problems += error.problems
    if problems:
        raise InvalidInput(problems, job.source)
    return found


def files_of(events: Events) -> dict[str, Files]:
    """Return a recording and the tables looked up for it, by the names of their files."""
    return {events.name: events, **{f"{events.name}.{join.name}": join for join in events.joins}}


def _all_local(found: Places) -> bool:
    return all(place.local for place in found.values())


def take(feed: Feed, found: Places, scratch: Path, session: SparkSession | None = None) -> None:
    """Put the files that are to be read into a feed; without a session only local ones."""
    older = None if feed.older is None else feed.older.manifest
    for name, place in found.items():
        if place.local == (session is not None):
            continue
        entries = place.entries()
        if session is not None:
            entries = remote_entries(session, place.files, [place.pattern])
        new = unread(name, entries, older)
        feed.files[name] = new
        whole = older is None or "." in name
        wanted = None if whole else [entry.path for entry in new]
        feed.paths[name] = place.paths(scratch, wanted)


def add(
    session: SparkSession, job: Job, folder: TraceFolder, feed: Feed, tell: Callable[[str], None]
) -> TraceFolder:
    """Trace what a feed holds, together with the sums of its older trace.

    Raises
    ------
    InvalidInput, SparkFailed
        As `run_trace`.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    from experiments.spark.session import SparkFailed
    from experiments.traces.failures import full_disk, is_full, places, spark_trouble
    from experiments.traces.gathering import gather
    from experiments.traces.judging import judge
    from experiments.traces.parquet import NANOS_AS_WHOLE
    from experiments.traces.preparing import prepare

    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.ansi.enabled", "true")
    session.conf.set(NANOS_AS_WHOLE, "true")
    recordings: list[Gathered] = []
    older = feed.older
    told: dict[str, Any] = {} if older is None else dict(older.manifest.recordings)
    spans: list[Mapping[str, Any]] = [older_span(job, older)]
    latest: dict[str, int | None] = {}
    started = time.perf_counter()
    events = job.events[0]
    try:
        for events in job.events:
            if not feed.files[events.name]:
                continue
            tell(f"reading {events.name}")
            prepared = prepare(session, job, events, feed.paths, feed.open_from(job))
            uri = folder.part_uri(f"sums-{len(recordings)}")
            gathered = gather(session, job, prepared, uri)
            recordings.append(gathered)
            judged = judge(job, gathered)
            read = judged.pop("files")
            for name, files in files_of(events).items():
                mine = read if name == events.name else ()
                alone = older is None and name == events.name
                given = feed.paths[name], feed.files[name], mine
                check_scanned(session, files, *given, whole=alone)
            feed.files[events.name] = with_counts(feed.files[events.name], read)
            spans.append(judged)
            latest[events.name] = judged["latest"]
            told[events.name] = added(told.get(events.name, {}), judged)
        if not recordings and older is not None:
            return older
        periods, first = _periods(job, spans)
        manifest = replace(
            Manifest.of(job, periods, told),
            files=feed.all_files(),
            following=feed.followed(job, periods, latest),
        )
        tell(f"{sum(t['events'] for t in told.values()):,} events in {len(periods):,} periods")
        summing = Summing(
            job,
            recordings,
            first,
            lengths_frame(session, periods),
            older_tables(session, job, folder, older, first),
        )
        written = _write(session, folder, summing, tell)
        feed.check_unchanged(session)
        return folder.finish(manifest, time.perf_counter() - started, written)
    except (PySparkException, Py4JJavaError, SparkFailed) as error:
        if is_full(error):
            raise full_disk(places(session, folder.path)) from error
        if isinstance(error, SparkFailed):
            raise
        raise spark_trouble(error, events).within(job.source) from error
    except InvalidInput as error:
        raise error if error.source else error.within(job.source) from None
    finally:
        for gathered in recordings:
            for table in gathered.prepared.rows.kept:
                table.unpersist()


def _write(
    session: SparkSession, folder: TraceFolder, summing: Summing, tell: Callable[[str], None]
) -> list[str]:
    """Have Spark write the tables, and return their names."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    from experiments.spark.session import SparkFailed, cause_of

    written = []
    for name in TABLES:
        frame = getattr(summing, name)()
        if frame is None:
            continue
        tell(f"summing up {name}")
        try:
            frame.write.parquet(folder.part_uri(name))
        except (PySparkException, Py4JJavaError) as error:
            # what is in the files was read before: this is about Spark, memory or disks
            reason = f"{summing.job.name}: {name} cannot be summed up: {cause_of(error)}"
            remedy = "look at free memory (--spark-config spark.driver.memory=…) and disks"
            raise SparkFailed(f"{reason} ({remedy})") from error
        written.append(name)
        if folder.place is not None:
            folder.place.fetch_new(f"{name}.parquet", folder.scratch / f"{name}.parquet")
        if name == "keys":
            summing.stored_keys = session.read.parquet(escaped(folder.part_uri(name)))
    return written


def _periods(job: Job, spans: Sequence[Mapping[str, Any]]) -> tuple[list[Period], int]:
    """Return all periods of the recording, empty ones too, and the bucket of the first."""
    calendar = job.calendar
    firsts = [span["first"] for span in spans if span["first"] is not None]
    lasts = [span["last"] for span in spans if span["last"] is not None]
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


class Talk:
    """Tells on standard error what is being done, with the seconds since the start."""

    def __init__(self, quiet: bool) -> None:
        self._quiet, self._started = quiet, time.perf_counter()

    def __call__(self, text: str) -> None:
        if not self._quiet:
            sys.stderr.write(f"{time.perf_counter() - self._started:6.1f} s  {text}\n")
            sys.stderr.flush()
