"""``trace --follow``: a stream of recordings, and an instance for every period that is over."""

from __future__ import annotations

import shutil
import threading
import uuid
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from experiments.spark.remote import place_for_spark, publish
from experiments.spark.session import TRACE_SETTINGS, SparkFailed, cause_of, spark_session
from experiments.traces.files import remote_entries, unread
from experiments.traces.folder import (
    CHECKPOINT,
    INSTANCES,
    FileEntry,
    Following,
    TraceFolder,
    is_trace,
)
from experiments.traces.instances import InstanceMaker, instances, name_of, planned
from experiments.traces.trace import (
    Feed,
    Places,
    add,
    check_appendable,
    find_all,
    ready,
    unpacking,
)
from optim.errors import InvalidInput, Problem
from optim.format.instance import Instance
from optim.util.files import file_name
from streamplace.present.status_line import Steps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from experiments.traces.job import Job

SCHEMA = "path string, modificationTime timestamp, length long, content binary"
_EVER = "36500d"
_POLL_SECONDS = 1


@dataclass(frozen=True)
class Planning:
    """Where key groups are: at first, and from period to period.

    Attributes
    ----------
    placement
        As `experiments.traces.instances.place` takes it.
    carry
        Method whose plan for a period is what the next one begins with; nothing moves without.
    seed
        Of methods.
    """

    placement: str
    carry: str | None = None
    seed: int = 0


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

    Parameters
    ----------
    every
        Seconds between two looks for new files.
    once
        Take what is there and end, instead of going on until interrupted.
    planning
        As the description says, if not given.
    uri
        Of what `output` is the working copy, as `experiments.spark.remote.output_at` gives it: it
        is put there after each batch, and the checkpoint lies beside the copy.

    Raises
    ------
    InvalidInput
        As `experiments.traces.trace.run_trace`; or the description needs the whole recording.
    SparkFailed
        Spark gave up; the same call goes on where it was.
    KeyboardInterrupt
        Interrupted, between two batches.
    """
    job, given = ready(job, master, paths)
    planning = planning or Planning("" if job.cluster is None else job.cluster.placement)
    _check_endless(job, planning)
    folder = TraceFolder.create(output)
    settings = {**TRACE_SETTINGS, **(config or {})}
    with ExitStack() as stack:
        stack.callback(folder.clean)
        state = _State(job, given, folder, planning, Steps(quiet=quiet, keep=True), uri)
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
    remedy = "trace the whole recording, or take another"
    if job.cluster is None:
        problems.append(Problem("cluster", None, "is missing", "add [cluster]"))
    elif job.cluster.utilisation is not None:
        reason = "is that of the whole recording, which has no end here"
        problems.append(Problem("cluster.utilisation", None, reason, "set cluster.load_scale"))
    if planning.placement == "worst":
        reason = "is that of the whole recording, which has no end here"
        problems.append(Problem("placement", planning.placement, reason, remedy))
    if problems:
        raise InvalidInput(problems, job.source)


@dataclass
class _State:
    """How far the trace is, as its manifest says."""

    job: Job
    given: Mapping[str, str]
    folder: TraceFolder
    planning: Planning
    tell: Steps
    uri: str | None = None
    scratch: Path = field(default_factory=Path)
    older: TraceFolder | None = None

    def found(self) -> Places:
        """Return where the files are now."""
        return find_all(self.job, self.given, may_come=True)

    @property
    def following(self) -> Following:
        told = None if self.older is None else self.older.manifest.following
        return Following(self._fresh) if told is None else told

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
            for name, place in self.found().items():
                if place.local:
                    unread(name, place.entries(), self.older.manifest)
        for path in self.notes.glob(f"{CHECKPOINT}*"):
            if path.name != self.following.checkpoint:
                shutil.rmtree(path, ignore_errors=True)
        self.write_instances()

    def start(self, session: SparkSession) -> None:
        """Look at what only Spark can reach: files that are not local, and the place of a URI."""
        older = None if self.older is None else self.older.manifest
        for name, place in self.found().items():
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
        for name, place in self.found().items():
            looked_up = "." in name
            entries = [e for n, e in arrived if n == name]
            if looked_up and place.local:
                entries = place.entries()
            elif looked_up:
                entries = remote_entries(session, place.files, [place.pattern])
            feed.files[name] = unread(name, entries, older)
            wanted = None if looked_up else [entry.path for entry in feed.files[name]]
            feed.paths[name] = place.paths(self.scratch, wanted)
        if not any(feed.files[events.name] for events in self.job.events):
            return
        self.older = add(session, self.job, self.folder, feed, self.tell)
        self.write_instances()
        self._publish(session)

    def write_instances(self) -> None:
        """Write the instances that may not be there yet; again and again the same."""
        told = self.following
        target = self.folder.path / INSTANCES
        for period in range(told.written, told.closed):
            assert self.older is not None
            target.mkdir(exist_ok=True)
            instance = self._instance(self.older, period)
            instance.save(target / file_name(instance.name, ".json"))
            self.tell(f"period {period} is over: {instance.name}")

    def _instance(self, trace: TraceFolder, period: int) -> Instance:
        planning = self.planning
        before = self.folder.path / INSTANCES / file_name(name_of(trace, period - 1), ".json")
        if period == 0 or not before.is_file():
            given = (planning.placement, planning.carry, planning.seed)
            return next(iter(instances(InstanceMaker(trace, 0, period), [period], *given)))
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
        found = self._state.found()
        files: DataFrame | None = None
        for events in self._state.job.events:
            reader = self._session.readStream.format("binaryFile").schema(SCHEMA)
            frame = reader.option("maxFileAge", _EVER).load(found[events.name].pattern)
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
