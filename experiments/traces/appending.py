"""What is new since an older trace: files that it has not read, its sums, its counts."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from experiments.traces.failures import spark_trouble
from experiments.traces.locating import entry_of, escaped
from experiments.traces.manifest import FileEntry
from experiments.traces.periods import micros_of
from optim.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from experiments.traces.folder import TraceFolder
    from experiments.traces.job import Job
    from experiments.traces.locating import Paths
    from experiments.traces.manifest import Following, Manifest
    from experiments.traces.periods import Period
    from experiments.traces.recordings import Files

Entries = dict[str, list[FileEntry]]
"""Files by recording (``clicks``) and looked-up table (``clicks.users``)."""

_MOST_TOLD = 20
_LONG_AGO = -(1 << 62)
_OWN = ("format", "period", "events", "operator", "edge")
"""What of a job description the sums depend on; of recordings all but their paths."""


@dataclass
class Feed:
    """What a trace is to read.

    Attributes
    ----------
    older
        Trace that it is added to.
    files
        That are new.
    paths
        As Spark is to read them.
    following
        How far a trace is that follows its recordings.
    """

    older: TraceFolder | None = None
    files: Entries = field(default_factory=dict)
    paths: dict[str, Paths] = field(default_factory=dict)
    following: Following | None = None

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

        Parameters
        ----------
        periods
            All of it.
        latest
            By recording that was read: its latest event, in microseconds since 1970.
        """
        told = self.following
        if told is None:
            return None
        seen = dict(told.latest)
        for name, moment in latest.items():
            if moment is not None:
                seen[name] = max(moment, seen.get(name, moment))
        closed = told.closed
        if all(events.name in seen for events in job.events):
            watermark = min(seen.values()) - round(job.calendar.lateness * 1e6)
            closed = max(closed, sum(micros_of(period.end) <= watermark for period in periods))
        return replace(told, closed=closed, written=told.closed, latest=seen)

    def check_unchanged(self, session: SparkSession) -> None:
        """Refuse files that were changed, or went, while they were read.

        Raises
        ------
        InvalidInput
            There are such files.
        """
        problems = []
        for name, entries in self.files.items():
            now = self._now(session, name, entries)
            for entry in entries:
                if now.get(entry.path) != entry:
                    told = "was changed" if entry.path in now else "went away"
                    reason = f"{told} while it was read"
                    remedy = "trace again when nothing writes to it"
                    problems.append(Problem(entry.path, None, reason, remedy))
        if problems:
            raise InvalidInput(problems)

    def _now(
        self, session: SparkSession, name: str, entries: Sequence[FileEntry]
    ) -> dict[str, FileEntry]:
        """Return the files of a recording, or of a table, as they are now."""
        local = [path for entry in entries if (path := Path(entry.path)).is_absolute()]
        if local or not entries:
            found = [entry_of(path) for path in local if path.exists()]
        else:
            found = _listed(session, self.paths[name].paths)
        return {entry.path: entry for entry in found}


def check_appendable(job: Job, older: TraceFolder) -> None:
    """Refuse to add to a trace that was made otherwise.

    Raises
    ------
    InvalidInput
        Its job description sums up otherwise, or it does not tell which files it has read.
    """
    again = "trace everything again, into another folder"
    if not older.manifest.files:
        reason = "was made by an older version, which did not note the files that it read"
        raise InvalidInput(Problem(str(older.path), None, reason, again))
    mine, theirs = _summing_part(job.document), _summing_part(older.manifest.job)
    problems = [
        Problem(name, None, f"is not as it was for the trace in {older.path}", again)
        for name in _OWN
        if mine[name] != theirs[name]
    ]
    if problems:
        raise InvalidInput(problems, job.source)


def _summing_part(document: Mapping[str, Any]) -> dict[str, Any]:
    plain = json.loads(json.dumps(document, default=str))
    events = {
        name: {key: value for key, value in table.items() if key != "path"}
        for name, table in plain["events"].items()
    }
    return {name: plain.get(name) for name in _OWN} | {"events": events}


def unread(name: str, entries: Sequence[FileEntry], older: Manifest | None) -> list[FileEntry]:
    """Return the files of a recording that an older trace has not read.

    Parameters
    ----------
    name
        Of the recording, or of a table looked up for it: ``clicks.users``.
    entries
        Files that are there.
    older
        What the older trace says of itself.

    Raises
    ------
    InvalidInput
        A file is not as it was, or a table looked up has other files: the events that were read
        before would have to be looked up in it anew.
    """
    if older is None:
        return list(entries)
    known = {entry.path: entry for entry in older.files.get(name, ())}
    new = [entry for entry in entries if entry.path not in known]
    changed = [e.path for e in entries if e.path in known and known[e.path] != e]
    looked_up = "." in name
    if looked_up and known:
        changed += [entry.path for entry in new]
        changed += sorted(set(known) - {entry.path for entry in entries})
    if changed:
        reason = "is not as it was when it was read"
        remedy = "trace everything again, without --append"
        raise InvalidInput([Problem(path, None, reason, remedy) for path in changed])
    return [] if looked_up and known else new


def remote_entries(session: SparkSession, files: Files, paths: Sequence[str]) -> list[FileEntry]:
    """Return the files that Spark finds where they are not local.

    Raises
    ------
    InvalidInput
        There is nothing, or Spark cannot reach it.
    """
    try:
        return _listed(session, paths, recursiveFileLookup=True)
    except (PySparkException, Py4JJavaError) as error:
        raise spark_trouble(error, files) from None


def check_scanned(
    session: SparkSession,
    files: Files,
    located: Paths,
    entries: Sequence[FileEntry],
    read: Collection[str] = (),
    *,
    whole: bool,
) -> None:
    """Refuse files that are listed and that Spark passes over, or the other way round.

    Parameters
    ----------
    located
        As Spark is told to read them.
    entries
        Files that are listed.
    read
        Files in which Spark found rows. Spark is asked for the files that it scans only where
        there was none in a listed one.
    whole
        Whether these are all that is to be read.

    Raises
    ------
    InvalidInput
        There are such files.
    """
    listed = {_plain(entry.path): entry.bytes for entry in entries}
    found = set(read)
    if not found or any(size and path not in found for path, size in listed.items()):
        try:
            options = {"basePath": located.root} if located.root else {}
            found |= {_plain(e.path) for e in _listed(session, located.paths, **options)}
        except (PySparkException, Py4JJavaError) as error:
            raise spark_trouble(error, files) from None
    zips = {path for path in listed if path.lower().endswith(".zip")}
    passed = sorted(path for path in set(listed) - found - zips if listed[path])
    where, remedy = f"{files.where}.path", "move it, or name the files by a pattern"
    problems = [
        Problem(where, files.path, f"means {path} too, and Spark passes over it", remedy)
        for path in passed
    ]
    if whole and not zips:
        problems += [
            Problem(where, files.path, f"got {path} while it was traced", "trace again")
            for path in sorted(found - set(listed))
        ]
    if problems:
        raise InvalidInput(problems[:_MOST_TOLD])


def with_counts(entries: Sequence[FileEntry], events: Mapping[str, int]) -> list[FileEntry]:
    """Return files with the events that Spark read from each; zips tell none."""
    found = []
    for entry in entries:
        known = not entry.path.lower().endswith(".zip")
        found.append(replace(entry, events=events.get(_plain(entry.path), 0) if known else None))
    return found


def _plain(path: str) -> str:
    """Return a local path as such; Hadoop writes ``file:/a`` and ``file:///a``."""
    return re.sub(r"^file:/+", "/", path)


def _listed(session: SparkSession, paths: Sequence[str], **options: Any) -> list[FileEntry]:
    frame = session.read.format("binaryFile").options(**options).load(list(paths))
    rows = frame.select("path", "length", F.unix_millis("modificationTime")).collect()
    return sorted((FileEntry(*row) for row in rows), key=lambda entry: entry.path)


def older_span(job: Job, older: TraceFolder | None) -> dict[str, int | None]:
    """Return the buckets of the first and the last period of an older trace."""
    if older is None:
        return {"first": None, "last": None}
    periods = older.manifest.periods
    first, last = (datetime.fromisoformat(p.start) for p in (periods[0], periods[-1]))
    return {"first": job.calendar.bucket_of(first), "last": job.calendar.bucket_of(last)}


def older_tables(
    session: SparkSession, job: Job, folder: TraceFolder, older: TraceFolder | None, first: int
) -> dict[str, DataFrame]:
    """Return the tables of an older trace, with periods counted from another bucket.

    Parameters
    ----------
    folder
        In which the older trace lies.
    """
    if older is None:
        return {}
    before = older_span(job, older)["first"]
    assert before is not None
    period = (F.col("period") + F.lit(before - first)).cast("int")
    return {
        name: session.read.parquet(escaped(folder.table_uri(name))).withColumn("period", period)
        for name in ("loads", "rates", "keys")
        if name in older.manifest.rows
    }


def added(older: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return what became of the events of a recording before and now."""
    sums: dict[str, Any] = {}
    for key in {**older, **new}:
        before, now = older.get(key), new.get(key)
        if key == "lookups":
            sums[key] = {
                table: {**told, "unmatched": told["unmatched"] + _unmatched(before, table)}
                for table, told in (now or {}).items()
            }
        elif isinstance(before, dict) and isinstance(now, dict):
            sums[key] = {k: before.get(k, 0) + now.get(k, 0) for k in {**before, **now}}
        elif isinstance(before, int) and isinstance(now, int):
            sums[key] = before + now
        else:
            sums[key] = before if now is None else now
    return sums


def _unmatched(lookups: Mapping[str, Mapping[str, int]] | None, table: str) -> int:
    return (lookups or {}).get(table, {}).get("unmatched", 0)
