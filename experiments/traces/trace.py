"""`run_trace`: recordings and a job description → a folder with what each period came to."""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from experiments.spark.remote import place_for_spark, publish
from experiments.spark.session import (
    TRACE_SETTINGS,
    SparkFailed,
    cause_of,
    check_master,
    spark_session,
    worker_error,
)
from experiments.traces.files import (
    NANOS_AS_WHOLE,
    Found,
    Paths,
    check_scanned,
    entry_of,
    find,
    full_disk,
    is_full,
    listed,
    places,
    remote_entries,
    spark_trouble,
    unread,
    with_counts,
)
from experiments.traces.folder import (
    CHECKPOINT,
    INSTANCES,
    TABLES,
    FileEntry,
    Following,
    Manifest,
    TablesLost,
    TraceFolder,
    is_trace,
)
from experiments.traces.instances import (
    MAX_PERIODS,
    InstanceMaker,
    Period,
    instances,
    micros_of,
    name_of,
    planned,
)
from experiments.traces.job import Events, Files, Job
from experiments.traces.sums import Tables, sum_up
from optim.errors import InvalidInput, Problem, meant, raise_any
from optim.format.instance import Instance
from optim.util.files import file_name
from streamplace.present.tables import Steps

Entries = dict[str, list[FileEntry]]
"""Files by recording (``clicks``) and looked-up table (``clicks.users``)."""

_LONG_AGO = -(1 << 62)
FEW_BYTES = 64_000_000
"""Of files: below, compiling everything well costs a JVM more than it brings."""
_OWN = ("format", "period", "events", "operator", "edge")
"""What of a job description the sums depend on; of recordings all but their paths."""


@dataclass
class Feed:
    """What a trace is to read."""

    older: TraceFolder | None = None  # Trace that it is added to.
    files: Entries = field(default_factory=dict)  # That are new.
    paths: dict[str, Paths] = field(default_factory=dict)  # As Spark is to read them.
    following: Following | None = None  # How far a trace is that follows its recordings.

    def all_files(self) -> dict[str, tuple[FileEntry, ...]]:
        """Return the files of the older trace and the new ones."""
        before = {} if self.older is None else self.older.manifest.files
        return {
            name: tuple({e.path: e for e in (*before.get(name, ()), *new)}.values())
            for name, new in self.files.items()
        }

    def open_from(self, job: Job) -> int | None:
        """Return the first bucket that takes events; ``None`` where periods are never closed."""
        if self.following is None:
            return None
        first = older_span(job, self.older)["first"]
        return _LONG_AGO if first is None else first + self.following.closed

    def followed(
        self, job: Job, periods: Sequence[Period], latest: Mapping[str, int | None]
    ) -> Following | None:
        """Return how far a trace is after these files.

        `periods`: all of it.
        `latest`: by recording that was read: its latest event, in microseconds since 1970.
        """
        before = self.following
        if before is None:
            return None
        newest = dict(before.latest)
        for name, moment in latest.items():
            if moment is not None:
                newest[name] = max(moment, newest.get(name, moment))
        closed = before.closed
        if all(events.name in newest for events in job.events):
            watermark = min(newest.values()) - round(job.calendar.lateness * 1e6)
            closed = max(closed, sum(micros_of(period.end) <= watermark for period in periods))
        return replace(before, closed=closed, written=before.closed, latest=newest)

    def check_unchanged(self, session: SparkSession) -> None:
        """Refuse files that were changed, or went, while they were read."""
        problems = []
        for name, entries in self.files.items():
            local = [file for entry in entries if (file := Path(entry.path)).is_absolute()]
            if local or not entries:
                entries_now = [entry_of(file) for file in local if file.exists()]
            else:
                entries_now = listed(session, self.paths[name].paths)
            now = {entry.path: entry for entry in entries_now}
            for path in (entry.path for entry in entries if now.get(entry.path) != entry):
                reason = f"{'was changed' if path in now else 'went away'} while it was read"
                remedy = "trace again when nothing writes to it"
                problems.append(Problem(path, None, reason, remedy))
        raise_any(problems)


def check_appendable(job: Job, older: TraceFolder) -> None:
    """Refuse to add to a trace that was made otherwise."""
    again = "trace everything again, into another folder"
    if not older.manifest.files:
        reason = "was made by an older version, which did not note the files that it read"
        raise InvalidInput(Problem(str(older.path), None, reason, again))
    described, traced = _summing_part(job.document), _summing_part(older.manifest.job)
    difference = f"is not as it was for the trace in {older.path}"
    raise_any(
        [Problem(n, None, difference, again) for n in _OWN if described[n] != traced[n]], job.source
    )


def _summing_part(document: Mapping[str, Any]) -> dict[str, Any]:
    plain = json.loads(json.dumps(document, default=str))
    events = {
        name: {key: value for key, value in table.items() if key != "path"}
        for name, table in plain["events"].items()
    }
    return {name: plain.get(name) for name in _OWN} | {"events": events}


def older_span(job: Job, older: TraceFolder | None) -> dict[str, int | None]:
    """Return the buckets of the first and the last period of an older trace."""
    if older is None:
        return {"first": None, "last": None}
    periods = older.manifest.periods
    first, last = (datetime.fromisoformat(p.start) for p in (periods[0], periods[-1]))
    return {"first": job.calendar.bucket_of(first), "last": job.calendar.bucket_of(last)}


def added(older: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return what became of the events of a recording before and now."""
    sums: dict[str, Any] = {}
    for key in {**older, **new}:
        before, now = older.get(key), new.get(key)
        if key == "lookups":
            unmatched = {
                table: counts.get("unmatched", 0) for table, counts in (before or {}).items()
            }
            sums[key] = {
                table: {**counts, "unmatched": counts["unmatched"] + unmatched.get(table, 0)}
                for table, counts in (now or {}).items()
            }
        elif isinstance(before, dict) and isinstance(now, dict):
            sums[key] = {k: before.get(k, 0) + now.get(k, 0) for k in {**before, **now}}
        elif isinstance(before, int) and isinstance(now, int):
            sums[key] = before + now
        else:
            sums[key] = before if now is None else now
    return sums


# -- the trace -------------------------------------------------------------------------------------


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

    `output`: folder: new, empty, or of a trace, which is replaced when the new one is whole.
    `paths`: recordings in place of those the description names.
    `scratch`: where archives are unpacked; executors must see it. The folder of the trace, until it
        is done, if not given.
    `append`: add the files that the trace in the folder has not read, if there is one: the result
        is that of a trace over everything.
    `uri`: of what `output` is the working copy, as `experiments.spark.remote.output_at` gives it.
    Raises `InvalidInput`: a file, a column, an expression or a value cannot be taken; or what was
        read before is not as it was.
    Raises `SparkFailed`: Spark gave up.
    """
    job, replaced = ready(job, master, paths)
    tell = Steps(quiet=quiet, keep=True)
    folder = TraceFolder.create(output)
    try:
        with unpacking(folder, scratch) as unpacked:
            feed = Feed(older=_older(job, folder) if append else None)
            located = find_all(job, replaced)
            take(feed, located, Path(unpacked))
            if feed.older is not None and not any(feed.files.values()) and _all_local(located):
                tell("nothing new")
                return feed.older
            tell("starting Spark")
            settings = {**TRACE_SETTINGS, **(config or {})}
            size = sum(entry.bytes for new in feed.files.values() for entry in new)
            quick = _all_local(located) and size < FEW_BYTES
            with spark_session(master, "streamplace trace", quick=quick, config=settings) as spark:
                session = spark.newSession()
                folder.place = None if uri is None else place_for_spark(session, uri)
                if not _all_local(located):
                    take(feed, located, Path(unpacked), session)
                return add(session, job, folder, feed, tell)
    finally:
        folder.clean()


def ready(job: Job, master: str, paths: Mapping[str, str] | None) -> tuple[Job, Mapping[str, str]]:
    """Return a job with other paths for its recordings, and these.

    Raises `InvalidInput`: the master is none, or there is no such recording.
    """
    check_master(master)
    replaced = dict(paths or {})
    recordings = [events.name for events in job.events]
    unknown = (name for name in replaced if name not in recordings)
    raise_any([Problem("--events", n, "is no recording", meant(n, recordings)) for n in unknown])
    return job.with_paths(replaced), replaced


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


def find_all(job: Job, replaced: Mapping[str, str], *, may_come: bool = False) -> Places:
    """Return where all files are that a job description names.

    Raises `InvalidInput`: with everything that is missing.
    """
    located: Places = {}
    problems: list[Problem] = []
    for events in job.events:
        for name, files in files_of(events).items():
            try:
                awaited = may_come and "." not in name
                located[name] = find(files, job.base, replaced.get(name), may_come=awaited)
            except InvalidInput as error:
                problems += error.problems
    raise_any(problems, job.source)
    return located


def files_of(events: Events) -> dict[str, Files]:
    """Return a recording and the tables looked up for it, by the names of their files."""
    return {events.name: events, **{f"{events.name}.{join.name}": join for join in events.joins}}


def _all_local(located: Places) -> bool:
    return all(place.local for place in located.values())


def take(feed: Feed, located: Places, scratch: Path, session: SparkSession | None = None) -> None:
    """Put the files that are to be read into a feed; without a session only local ones."""
    older = None if feed.older is None else feed.older.manifest
    for name, place in located.items():
        if place.local == (session is not None):
            continue
        entries = place.entries()
        if session is not None:
            entries = remote_entries(session, place.files, [place.pattern])
        new = unread(name, entries, older)
        feed.files[name] = new
        whole = older is None or "." in name
        new_paths = None if whole else [entry.path for entry in new]
        feed.paths[name] = place.paths(scratch, new_paths)


def add(
    session: SparkSession, job: Job, folder: TraceFolder, feed: Feed, tell: Callable[[str], None]
) -> TraceFolder:
    """Trace what a feed holds, together with the sums of its older trace.

    Raises `InvalidInput, SparkFailed`: as `run_trace`.
    """
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.ansi.enabled", "true")
    session.conf.set(NANOS_AS_WHOLE, "true")
    older = feed.older
    recordings: dict[str, Any] = {} if older is None else dict(older.manifest.recordings)
    before = older_span(job, older)
    spans: list[Mapping[str, Any]] = [before]
    latest: dict[str, int | None] = {}
    started = time.perf_counter()
    events = job.events[0]
    tables = Tables(job, folder.scratch)
    try:
        for events in job.events:
            if not feed.files[events.name]:
                continue
            tell(f"reading {events.name}")
            part = f"sums-{len(tables.recordings)}"
            sums = sum_up(
                session, job, events, feed.paths, folder.part_uri(part), feed.open_from(job)
            )
            tables.add(sums, folder.fetched(part))
            judged = tables.judge(session)
            read = judged.pop("files")
            for name, files in files_of(events).items():
                read_here = read if name == events.name else ()
                alone = older is None and name == events.name
                scanned = feed.paths[name], feed.files[name], read_here
                check_scanned(session, files, *scanned, whole=alone)
            feed.files[events.name] = with_counts(feed.files[events.name], read)
            spans.append(judged)
            latest[events.name] = judged["latest"]
            recordings[events.name] = added(recordings.get(events.name, {}), judged)
        if not tables.recordings and older is not None:
            return older
        periods, first = _periods(job, spans)
        manifest = replace(
            Manifest.of(job, periods, recordings),
            files=feed.all_files(),
            following=feed.followed(job, periods, latest),
        )
        tell(
            f"{sum(t['events'] for t in recordings.values()):,} events in {len(periods):,} periods"
        )
        tables.set_periods(periods, first, (before["first"] or 0) - first)
        for name in () if older is None else older.manifest.rows:
            tables.extend(name, folder.table_path(name))
        written = _write(tables, folder, tell)
        feed.check_unchanged(session)
        return folder.finish(manifest, time.perf_counter() - started, written)
    except (PySparkException, Py4JJavaError, TablesLost) as error:
        if is_full(error):
            raise full_disk(places(session, folder.path)) from error
        if isinstance(error, TablesLost):
            raise
        if lost := worker_error(error):
            reason = f"{job.name}: {events.name} cannot be summed up: {lost}"
            raise TablesLost(f"{reason} (look at Spark's Python workers)") from error
        raise spark_trouble(error, events).within(job.source) from error
    except InvalidInput as error:
        raise error if error.source else error.within(job.source) from None
    finally:
        for sums in tables.recordings:
            for table in sums.rows.persisted:
                table.unpersist()
        tables.close()


def _write(tables: Tables, folder: TraceFolder, tell: Callable[[str], None]) -> list[str]:
    """Write the tables, and return their names."""
    written = []
    for name in TABLES:
        tell(f"summing up {name}")
        if tables.write(name, folder.scratch / f"{name}.parquet"):
            written.append(name)
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
        periods = [calendar.period(first + number, number) for number in range(count)]
    except OverflowError:
        raise InvalidInput(Problem("period", None, "lies outside the years 1 to 9999")) from None
    # a recording that ends just where a period does has none after it
    return [period for period in periods if period.end > period.start], first


# -- ``trace --follow`` ----------------------------------------------------------------------------

SCHEMA = "path string, modificationTime timestamp, length long, content binary"
_EVER = "36500d"
_POLL_SECONDS = 1


@dataclass(frozen=True)
class Planning:
    """Where key groups are: at first, and from period to period."""

    placement: str  # As `experiments.traces.instances.place` takes it.
    #: Method whose plan for a period is what the next one begins with; nothing moves without.
    carry: str | None = None
    seed: int = 0  # Of methods.


def follow(
    job: Job,
    output: str | Path,
    master: str = "local[*]",
    *,
    paths: Mapping[str, str] | None = None,
    scratch: str | Path | None = None,
    config: Mapping[str, str] | None = None,
    quiet: bool = True,
    every: float = 10.0,
    once: bool = False,
    planning: Planning | None = None,
    uri: str | None = None,
) -> TraceFolder:
    """Trace recordings as their files arrive; a period that is over becomes an instance.

    A period is over when every recording has shown an event `lateness` after its end; events of
    it that come later are counted as late and dropped.

    `every`: seconds between two looks for new files.
    `once`: take what is there and end, instead of going on until interrupted.
    `planning`: as the description says, if not given.
    `uri`: as of `run_trace`; the copy is put there after each batch, the checkpoint lies beside it.
    Raises `InvalidInput`: as `run_trace`; or the description needs the whole recording.
    Raises `SparkFailed`: Spark gave up; the same call goes on where it was.
    Raises `KeyboardInterrupt`: interrupted, between two batches.
    """
    job, replaced = ready(job, master, paths)
    planning = planning or Planning("" if job.cluster is None else job.cluster.placement)
    _check_endless(job, planning)
    folder = TraceFolder.create(output)
    settings = {**TRACE_SETTINGS, **(config or {})}
    with ExitStack() as stack:
        stack.callback(folder.clean)
        state = _State(job, replaced, folder, planning, Steps(quiet=quiet, keep=True), uri)
        state.resume()
        base = state.notes if uri is not None and scratch is None else scratch
        state.scratch = Path(stack.enter_context(unpacking(folder, base)))
        state.tell("starting Spark")
        spark = stack.enter_context(
            spark_session(master, "streamplace trace", quick=False, config=settings)
        )
        session = spark.newSession()
        state.start(session)
        _Stream(session, state).run(every, once)
        if not is_trace(folder.path):
            remedy = "let files arrive"
            raise InvalidInput(Problem("events", None, "hold no event so far", remedy), job.source)
        return TraceFolder.open(folder.path)


def _check_endless(job: Job, planning: Planning) -> None:
    """Refuse what only a whole recording shows."""
    problems = []
    reason = "is that of the whole recording, which has no end here"
    if job.cluster is None:
        problems.append(Problem("cluster", None, "is missing", "add [cluster]"))
    elif job.cluster.utilisation is not None:
        problems.append(Problem("cluster.utilisation", None, reason, "set cluster.load_scale"))
    if planning.placement == "worst":
        remedy = "trace the whole recording, or take another"
        problems.append(Problem("placement", planning.placement, reason, remedy))
    raise_any(problems, job.source)


@dataclass
class _State:
    """How far the trace is, as its manifest says."""

    job: Job
    replaced: Mapping[str, str]
    folder: TraceFolder
    planning: Planning
    tell: Steps
    uri: str | None = None
    scratch: Path = field(default_factory=Path)
    older: TraceFolder | None = None

    def locate(self) -> Places:
        """Return where the files are now."""
        return find_all(self.job, self.replaced, may_come=True)

    @property
    def following(self) -> Following:
        before = None if self.older is None else self.older.manifest.following
        return Following(self._fresh) if before is None else before

    @property
    def notes(self) -> Path:
        """Where the checkpoint lies: beside a working copy, since all that is in it is put away."""
        path = self.folder.path.resolve()
        return path if self.uri is None else path.parent

    @property
    def checkpoint(self) -> Path:
        return self.notes / self.following.checkpoint

    def resume(self) -> None:
        """Take the trace that is there; checkpoints that it does not know of are worthless."""
        self._fresh = f"{CHECKPOINT}{uuid.uuid4().hex}"
        if is_trace(self.folder.path):
            self.older = TraceFolder.open(self.folder.path)
            check_appendable(self.job, self.older)
            for name, place in self.locate().items():
                if place.local:
                    unread(name, place.entries(), self.older.manifest)
        for path in self.notes.glob(f"{CHECKPOINT}*"):
            if path.name != self.following.checkpoint:
                shutil.rmtree(path, ignore_errors=True)
        self.write_instances()

    def start(self, session: SparkSession) -> None:
        """Look at what only Spark can reach: files that are not local, and the place of a URI."""
        older = None if self.older is None else self.older.manifest
        for name, place in self.locate().items():
            if not place.local:
                unread(name, remote_entries(session, place.files, [place.pattern]), older)
        if self.uri is not None:
            self.folder.place = place_for_spark(session, self.uri)
            # a copy that was cut off before it was put may be newer than what is there
            self._publish(session)

    def _publish(self, session: SparkSession) -> None:
        if self.uri is not None and is_trace(self.folder.path):
            self.folder.empty()
            publish(session, self.uri, self.folder.path)

    def take(self, session: SparkSession, arrived: Sequence[tuple[str, FileEntry]]) -> None:
        """Add the files of a batch, and write the instances of periods that are over."""
        self.folder.renew()
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir()
        older = None if self.older is None else self.older.manifest
        feed = Feed(older=self.older, following=self.following)
        for name, place in self.locate().items():
            looked_up = "." in name
            entries = [e for n, e in arrived if n == name]
            if looked_up and place.local:
                entries = place.entries()
            elif looked_up:
                entries = remote_entries(session, place.files, [place.pattern])
            feed.files[name] = unread(name, entries, older)
            new_paths = None if looked_up else [entry.path for entry in feed.files[name]]
            feed.paths[name] = place.paths(self.scratch, new_paths)
        if not any(feed.files[events.name] for events in self.job.events):
            return
        self.older = add(session, self.job, self.folder, feed, self.tell)
        self.write_instances()
        self._publish(session)

    def write_instances(self) -> None:
        """Write the instances that may not be there yet; again and again the same."""
        following = self.following
        target = self.folder.path / INSTANCES
        for period in range(following.written, following.closed):
            assert self.older is not None
            target.mkdir(exist_ok=True)
            instance = self._instance(self.older, period)
            instance.save(target / file_name(instance.name, ".json"))
            self.tell(f"period {period} is over: {instance.name}")

    def _instance(self, trace: TraceFolder, period: int) -> Instance:
        planning = self.planning
        before = self.folder.path / INSTANCES / file_name(name_of(trace, period - 1), ".json")
        if period == 0 or not before.is_file():
            start = (planning.placement, planning.carry, planning.seed)
            return next(iter(instances(InstanceMaker(trace, 0, period), [period], *start)))
        last = Instance.load(before)
        node = last.tasks.node.astype("int64")
        if planning.carry and (last.total_traffic or last.total_load.any()):
            plan, _ = planned(last, planning.carry, planning.seed + period - 1)
            node = node if plan is None else plan
        return InstanceMaker(trace, period, period).instance(period, node)


class _Stream:
    """Spark's stream of the files of all recordings."""

    def __init__(self, session: SparkSession, state: _State) -> None:
        self._session, self._state = session, state
        self._failed: list[BaseException] = []
        self._in_batch = threading.Lock()

    def run(self, every: float, once: bool) -> None:
        trigger: dict[str, Any] = {"availableNow": True} if once else {}
        trigger = trigger or {"processingTime": f"{round(every * 1000)} milliseconds"}
        writer = self._files().writeStream.foreachBatch(self._batch).trigger(**trigger)
        writer = writer.option("checkpointLocation", f"file://{self._state.checkpoint}")
        try:
            query = writer.start()
            try:
                while not query.awaitTermination(_POLL_SECONDS):
                    pass
            finally:
                with self._in_batch:
                    query.stop()
        except PySparkException as error:
            if self._failed:
                raise self._failed[0] from None
            raise SparkFailed(f"Spark gave the stream up: {cause_of(error)}") from error

    def _files(self) -> DataFrame:
        located = self._state.locate()
        files: DataFrame | None = None
        for events in self._state.job.events:
            reader = self._session.readStream.format("binaryFile").schema(SCHEMA)
            frame = reader.option("maxFileAge", _EVER).load(located[events.name].pattern)
            frame = frame.select(
                F.lit(events.name).alias("recording"),
                "path",
                "length",
                F.unix_millis("modificationTime").alias("modified"),
            )
            files = frame if files is None else files.unionAll(frame)
        assert files is not None
        return files

    def _batch(self, frame: DataFrame, _: int) -> None:
        with self._in_batch:
            try:
                rows = sorted((tuple(row) for row in frame.collect()), key=lambda row: row[:2])
                arrived = [(name, _entry(*rest)) for name, *rest in rows]
                self._state.take(self._session, arrived)
            except BaseException as error:
                self._failed.append(error)
                raise


def _entry(path: str, length: int, modified: int) -> FileEntry:
    local = path.removeprefix("file://").removeprefix("file:")
    return FileEntry(local, length, modified)
