"""The inside of a Spark task: does the runs of its chunk in isolation and stores their rows.

The child is stored in a module global, so that it outlives the task and serves the next one in the
same Python worker.
"""

from __future__ import annotations

import json
import platform
import socket
import time
import zlib
from collections import ChainMap, OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.sweep.isolation import Answer, IsolatedCaller, Outcome, Stopped
from experiments.sweep.row import complete_row
from experiments.sweep.store import write_part
from optim.errors import InvalidInput, Problem
from optim.plugins import loaded

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from experiments.sweep.plan import Run

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
        File whose presence makes workers store what they have and end; None without one.
    """

    sweep: str
    runner: str
    versions: str
    parts: str | None = None
    stop: str | None = None


Chunk = tuple[bytes, dict[str, bytes]]
"""Runs as compressed JSON, and documents of instances that go with them, by sha256."""


def pack_chunk(runs: Sequence[Run], carried: Collection[str] = ()) -> Chunk:
    """Write the runs of a chunk small enough to ship a million of them.

    Parameters
    ----------
    carried
        Sha256 of instances that go with their chunks; workers get all others once, by broadcast.
    """
    known = {r.instance.sha256: r.instance for r in runs if r.instance.sha256 in carried}
    entries = [
        {
            "columns": run.columns(),
            "arguments": run.arguments(),
            "timeout": run.timeout,
            "memory_limit": run.settings.memory_limit,
        }
        for run in runs
    ]
    text = zlib.compress(json.dumps(entries, ensure_ascii=False).encode(), 6)
    return text, {sha256: instance.packed for sha256, instance in known.items()}


def run_partition(
    setting: Setting,
    documents: Any,
    keep: Callable[[list[dict[str, Any]]], None] | None,
    chunks: Iterable[Chunk],
) -> Iterator[int]:
    """Do all runs of a partition.

    Parameters
    ----------
    documents
        Broadcast mapping of sha256 to the compressed JSON of instances that no chunk carries.
    keep
        Takes finished rows where they cannot be written from here.
    chunks
        As `pack_chunk` writes them.

    Yields
    ------
    int
        Number of rows of each chunk.
    """
    for packed, carried in chunks:
        runs = json.loads(zlib.decompress(packed))
        yield _run_chunk(setting, ChainMap(carried, documents.value), keep, runs)


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


def _run_chunk(
    setting: Setting,
    documents: Mapping[str, bytes],
    keep: Any,
    runs: Sequence[Mapping[str, Any]],
) -> int:
    """Do runs one after another, and store their rows batch by batch; return how many."""
    rows: list[dict[str, Any]] = []
    stored, flushed = 0, time.monotonic()

    def flush() -> None:
        nonlocal stored, flushed, rows
        if rows and setting.parts is None:
            keep(rows)
        elif rows and setting.parts is not None:
            write_part(Path(setting.parts), rows)
        stored, rows, flushed = stored + len(rows), [], time.monotonic()

    _caller.stop = None if setting.stop is None else Path(setting.stop)
    for run in runs:
        if _caller.should_stop():
            break
        started, began = datetime.now(UTC), time.perf_counter()
        try:
            answer = _caller.call(setting.runner, run, documents)
        except Stopped:
            break
        known = {
            **run["columns"],
            "sweep": setting.sweep,
            "host": socket.gethostname(),
            "versions": setting.versions,
            "started_at": started,
        }
        rows.append(make_row(known, answer, time.perf_counter() - began))
        if time.monotonic() - flushed >= FLUSH_SECONDS:
            flush()
    flush()
    return stored


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
    from optim.methods.registry import package_version

    found = {"python": platform.python_version(), "streamplace": package_version("streamplace")}
    return json.dumps(found, sort_keys=True)


KEPT_DOCUMENTS = 8
"""Documents that a child keeps; its caller counts along, and sends only what is not there."""


@dataclass(frozen=True)
class Call:
    """One run as it goes through the pipe.

    `runner` (``module:function``) is called with the instance's JSON and the arguments, and returns
    columns of the row; `packed` is that JSON compressed, None if the child has it.
    """

    runner: str
    sha256: str
    packed: bytes | None
    arguments: Mapping[str, Any]


class Recent:
    """Keeps the entries used last; two of them that see the same calls hold the same keys."""

    def __init__(self, size: int = KEPT_DOCUMENTS) -> None:
        self._size = size
        self._entries: OrderedDict[str, Any] = OrderedDict()

    def get(self, key: str) -> Any:
        """Return an entry and mark it as used; None if it is not there."""
        if key not in self._entries:
            return None
        self._entries.move_to_end(key)
        return self._entries[key]

    def put(self, key: str, value: Any) -> None:
        """Add an entry; the one that was unused for longest goes."""
        self._entries[key] = value
        self._entries.move_to_end(key)
        while len(self._entries) > self._size:
            self._entries.popitem(last=False)


_documents = Recent()


def handle(call: Call) -> dict[str, Any]:
    """Do one run and return the columns that it fills."""
    if call.packed is not None:
        _documents.put(call.sha256, zlib.decompress(call.packed))
    document = _documents.get(call.sha256)
    function = find_runner(call.runner)
    return dict(function(document, dict(call.arguments)))


def find_runner(name: str) -> Callable[[bytes, dict[str, Any]], Mapping[str, Any]]:
    """Import the function that a dotted name ``module:function`` names.

    Raises
    ------
    InvalidInput
        There is none.
    """
    found = loaded(name, "runner", "write module:function")
    if not callable(found):
        raise InvalidInput(Problem("runner", name, "is not a function"))
    function: Callable[[bytes, dict[str, Any]], Mapping[str, Any]] = found
    return function


_caller = _Caller()
