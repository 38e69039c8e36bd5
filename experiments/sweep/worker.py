"""The inside of a Spark task: does the runs of its chunk in isolation and stores their rows.

The child is kept in a module global, so that it outlives the task and serves the next one in the
same Python worker.
"""

from __future__ import annotations

import json
import platform
import socket
import time
import zlib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.sweep.calling import Call, Recent, handle
from experiments.sweep.isolation import Answer, IsolatedCaller, Outcome, Stopped
from experiments.sweep.row import complete_row
from experiments.sweep.store import write_part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from experiments.sweep.runs import Run

FLUSH_SECONDS = 2.0
"""Finished rows wait at most about this long before they are stored."""

_TIMES_KEPT = 6


@dataclass(frozen=True)
class Setting:
    """What all tasks of a sweep share, besides the instances.

    Attributes
    ----------
    sweep
        Its name.
    runner
        Dotted name of the function that does a run.
    versions
        What `own_versions` says on the driver, whose code it is that runs.
    parts
        Folder for finished batches; None where rows go through the driver.
    stop
        File whose presence tells workers to store what they have and end; None without one.
    """

    sweep: str
    runner: str
    versions: str
    parts: str | None = None
    stop: str | None = None


def pack_chunk(runs: Sequence[Run]) -> bytes:
    """Write the runs of a chunk as compressed JSON: small enough to ship a million of them."""
    entries = [
        {
            "columns": run.columns(),
            "arguments": run.arguments(),
            "timeout": run.timeout,
            "memory_limit": run.settings.memory_limit,
        }
        for run in runs
    ]
    return zlib.compress(json.dumps(entries, ensure_ascii=False).encode(), 6)


def run_partition(
    setting: Setting,
    documents: Any,
    keep: Callable[[list[dict[str, Any]]], None] | None,
    chunks: Iterable[bytes],
) -> Iterator[int]:
    """Do all runs of a partition.

    Parameters
    ----------
    documents
        Broadcast mapping of sha256 to the instance's compressed JSON.
    keep
        Takes finished rows where they cannot be written from here.
    chunks
        As `pack_chunk` writes them.

    Yields
    ------
    int
        Number of rows of each chunk.
    """
    for chunk in chunks:
        runs = json.loads(zlib.decompress(chunk))
        yield _Chunk(setting, documents.value, keep).run(runs)


class _Caller:
    """The worker's child, and which documents it holds."""

    def __init__(self) -> None:
        self.stop: Path | None = None
        self.child = IsolatedCaller(handle, self.should_stop)
        self._sent = Recent()
        self._generation = 0

    def should_stop(self) -> bool:
        return self.stop is not None and self.stop.exists()

    def call(self, runner: str, run: Mapping[str, Any], documents: Mapping[str, bytes]) -> Answer:
        self.child.prepare()
        if self.child.generation != self._generation:
            self._generation = self.child.generation
            self._sent = Recent()
        sha256 = run["columns"]["instance_sha256"]
        packed = None
        if self._sent.get(sha256) is None:
            packed = documents[sha256]
            self._sent.put(sha256, True)
        call = Call(runner, sha256, packed, run["arguments"])
        return self.child.call(call, run["timeout"], run["memory_limit"])


_caller = _Caller()


class _Chunk:
    """Runs one after another, with their rows stored batch by batch."""

    def __init__(self, setting: Setting, documents: Mapping[str, bytes], keep: Any) -> None:
        self.setting = setting
        self.documents = documents
        self.keep = keep
        self.rows: list[dict[str, Any]] = []
        self.stored = 0
        self.flushed = time.monotonic()
        _caller.stop = None if setting.stop is None else Path(setting.stop)

    def run(self, runs: Sequence[Mapping[str, Any]]) -> int:
        for run in runs:
            if _caller.should_stop():
                break
            try:
                self.rows.append(self._row(run))
            except Stopped:
                break
            if time.monotonic() - self.flushed >= FLUSH_SECONDS:
                self._flush()
        self._flush()
        return self.stored

    def _row(self, run: Mapping[str, Any]) -> dict[str, Any]:
        started = datetime.now(UTC)
        began = time.perf_counter()
        answer = _caller.call(self.setting.runner, run, self.documents)
        spent = time.perf_counter() - began
        known = {
            **run["columns"],
            "sweep": self.setting.sweep,
            "host": socket.gethostname(),
            "versions": self.setting.versions,
            "started_at": started,
        }
        return make_row(known, answer, spent)

    def _flush(self) -> None:
        if self.rows:
            if self.setting.parts is None:
                self.keep(self.rows)
            else:
                write_part(Path(self.setting.parts), self.rows)
            self.stored += len(self.rows)
            self.rows = []
        self.flushed = time.monotonic()


def make_row(known: Mapping[str, Any], answer: Answer, spent: float) -> dict[str, Any]:
    """Return the row of a run: what it was given, how it ended, and the columns it filled.

    A runner that fills columns wrongly is an error of that run, and no other.
    """
    ended = {
        "outcome": str(answer.outcome),
        "error": answer.error,
        "exit_code": answer.exit_code,
        "time_total": round(spent, _TIMES_KEPT),
    }
    if answer.outcome is Outcome.OK:
        try:
            return complete_row({**known, "time_total": spent, **answer.value, "outcome": "ok"})
        except (TypeError, ValueError) as error:
            ended |= {"outcome": str(Outcome.ERROR), "error": f"the runner's answer: {error}"}
    return complete_row({**known, **ended})


def own_versions() -> str:
    """Return the versions that are known even of a run that said nothing."""
    from optim.util.versions import package_version

    found = {"python": platform.python_version(), "streamplace": package_version("streamplace")}
    return json.dumps(found, sort_keys=True)
