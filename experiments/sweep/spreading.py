"""Spread chunks of runs over Spark and watch them come back.

Where workers share a file system with the driver they write their batches themselves. Elsewhere
rows travel through an accumulator, and the driver writes them when a task ends.
"""

from __future__ import annotations

import functools
import logging
import threading
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import AccumulatorParam

from experiments.spark.session import SparkFailed, is_local
from experiments.sweep.estimates import MAX_CHUNK_SECONDS, MIN_CHUNK_SECONDS, make_chunks
from experiments.sweep.progress import SweepProgress
from experiments.sweep.store import failed_rows, list_parts, write_part
from experiments.sweep.worker import Setting, own_versions, pack_chunk, run_partition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from experiments.sweep.planning import Run
    from experiments.sweep.store import PartName, ResultFolder

logger = logging.getLogger(__name__)

_COLLECTED_CHUNK_SECONDS = 10.0
_POLL_SECONDS = 0.2
_STOP_SECONDS = 10.0
_PROBES_PER_SLOT = 2
_MOST_NAMED = 50
"""Failed runs that are named one by one."""
_REASON_CHARACTERS = 200
_LARGE = 256 * 1024
"""Bytes of a compressed instance above which it is no part of a task."""


class Spreader:
    """Does runs on a Spark session and stores their rows in a result folder.

    Parameters
    ----------
    spark
        Session to use.
    folder
        Where rows go; already opened for writing.
    sweep, runner
        Name of the sweep; dotted name of the function that does a run.
    collect
        True: rows go through the driver. False: workers write them. None: try it out.
    """

    def __init__(
        self,
        spark: SparkSession,
        folder: ResultFolder,
        sweep: str,
        runner: str,
        collect: bool | None = None,
    ) -> None:
        self._context = spark.sparkContext
        self._folder = folder
        self._group = f"streamplace-{uuid.uuid4().hex}"
        self._stop = folder.parts / f".stop-{self._group}"
        self._collect = self._must_collect() if collect is None else collect
        shared = None if self._collect else str(folder.parts.resolve())
        stop = None if self._collect else str(self._stop.resolve())
        self._setting = Setting(sweep, runner, own_versions(), shared, stop)
        self._varied: list[str] = []
        self._seen: set[Path] = set()
        self._named = 0
        self._slots = max(1, self._context.defaultParallelism // self._task_cpus())

    def _task_cpus(self) -> int:
        return int(self._context.getConf().get("spark.task.cpus", "1") or 1)

    def _must_collect(self) -> bool:
        """Tell whether some worker does not see the folder, or may not write to it."""
        if is_local(str(self._context.master)):
            return False
        token = self._folder.parts / f".token-{uuid.uuid4().hex}"
        token.touch()
        try:
            tasks = self._context.defaultParallelism * _PROBES_PER_SLOT
            probe = functools.partial(_can_write, str(token.resolve()))
            seen = self._context.parallelize(range(tasks), tasks).mapPartitions(probe).collect()
        finally:
            token.unlink(missing_ok=True)
        if not all(seen):
            logger.info("workers do not share the result folder: rows go through the driver")
        return not all(seen)

    def run(
        self,
        runs: Sequence[Run],
        seconds: Sequence[float],
        tell: Callable[[SweepProgress], None],
    ) -> None:
        """Do all runs; returns when their rows are stored.

        Parameters
        ----------
        seconds
            Estimate of each.

        Raises
        ------
        SparkFailed
            Spark gave up; what was stored stays.
        KeyboardInterrupt
            Interrupted; workers stored what they had finished.
        """
        most = _COLLECTED_CHUNK_SECONDS if self._collect else MAX_CHUNK_SECONDS
        chunks = make_chunks(seconds, self._slots, MIN_CHUNK_SECONDS, most)
        logger.debug("%d runs in %d chunks on %d slots", len(runs), len(chunks), self._slots)
        before = {part.path for part in self._folder.part_names()}
        self._varied = _varied(runs)
        job = _Job(functools.partial(self._submit, runs, chunks))
        began = time.monotonic()
        try:
            pause = _POLL_SECONDS
            while job.wait(pause):
                looked = time.monotonic()
                tell(self._progress(before, len(runs), began))
                # Listing many thousand parts takes a while: never more than a twentieth of all.
                pause = max(_POLL_SECONDS, 20 * (time.monotonic() - looked))
        except BaseException:
            self._halt(job)
            raise
        finally:
            self._stop.unlink(missing_ok=True)
            tell(self._progress(before, len(runs), began))
        if job.error is not None:
            raise SparkFailed(f"Spark gave the sweep up: {_reason(job.error)}") from job.error

    def _submit(self, runs: Sequence[Run], chunks: Sequence[Sequence[int]]) -> None:
        """Run the Spark job; called in a thread of its own."""
        known = {run.instance.sha256: run.instance.packed for run in runs}
        within = [[runs[i] for i in chunk] for chunk in chunks]
        carried = _carried(within, known, self._slots)
        packed = [pack_chunk(chunk, carried) for chunk in within]
        shared = {sha256: text for sha256, text in known.items() if sha256 not in carried}
        documents = self._context.broadcast(shared)
        keep = None
        if self._collect:
            rows = self._context.accumulator([], _PartWriter(str(self._folder.parts)))
            keep = rows.add
        self._context.setJobGroup(self._group, f"sweep {self._setting.sweep}", True)
        work = functools.partial(run_partition, self._setting, documents, keep)
        try:
            self._context.parallelize(packed, len(packed)).mapPartitions(work).count()
        finally:
            documents.destroy()

    def _halt(self, job: _Job) -> None:
        """Have workers store what they finished and end, and wait until they have."""
        self._stop.touch()
        if self._collect or job.wait(_STOP_SECONDS):
            self._context.cancelJobGroup(self._group)
            job.wait(_STOP_SECONDS)

    def _progress(self, before: set[Path], total: int, began: float) -> SweepProgress:
        new = [part for part in list_parts(self._folder.parts) if part.path not in before]
        done = min(total, sum(part.rows for part in new))
        failed = sum(part.failed for part in new)
        seconds = time.monotonic() - began
        return SweepProgress(done, failed, total, seconds, tuple(self._failures(new)))

    def _failures(self, parts: Sequence[PartName]) -> Iterator[str]:
        """Name the failed runs of parts that were not looked at before, with their reasons."""
        for part in parts:
            if not part.failed or part.path in self._seen or self._named > _MOST_NAMED:
                continue
            self._seen.add(part.path)
            for row in failed_rows(part):
                self._named += 1
                if self._named > _MOST_NAMED:
                    yield "more runs failed; the report lists them all"
                    return
                yield failure_text(row, self._varied)


def _varied(runs: Sequence[Run]) -> list[str]:
    """Return the factors that differ between runs, besides method and instance."""
    values: dict[str, set[str]] = {}
    for run in runs:
        for name, value in run.factors.items():
            values.setdefault(name, set()).add(value)
    return [n for n, v in values.items() if len(v) > 1 and n not in ("method", "instance")]


def failure_text(row: Mapping[str, Any], varied: Sequence[str]) -> str:
    """Name a failed run and say why: ``timeout: flux on drain (seed=1): ran longer than 5 s``.

    Parameters
    ----------
    row
        From `experiments.sweep.store.failed_rows`.
    varied
        Names of the factors to show.
    """
    factors = dict(row["factors"])
    told = ", ".join(f"{name}={factors[name]}" for name in varied if name in factors)
    where = f"{row['method_label']} on {row['instance']}" + (f" ({told})" if told else "")
    reason = (row["error"] or "no reason given").strip().partition("\n")[0][:_REASON_CHARACTERS]
    text = f"{row['outcome']}: {where}: {reason}"
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _carried(
    chunks: Sequence[Sequence[Run]], known: Mapping[str, bytes], slots: int
) -> frozenset[str]:
    """Return the instances that go with their chunks.

    A broadcast goes to every worker, once: that serves what nearly all of them need, and what is
    large. Others travel with the runs that need them, and to nobody else.
    """
    needed = Counter(sha256 for c in chunks for sha256 in {run.instance.sha256 for run in c})
    return frozenset(
        sha256
        for sha256, times in needed.items()
        if times <= slots and len(known[sha256]) <= _LARGE
    )


class _Job:
    """A function in a thread, and the error it ended with."""

    def __init__(self, function: Callable[[], None]) -> None:
        self._function = function
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            self._function()
        except BaseException as error:
            self.error = error

    def wait(self, seconds: float) -> bool:
        """Wait a while; True when it is still running after that."""
        self._thread.join(seconds)
        return self._thread.is_alive()


class _PartWriter(AccumulatorParam[Any]):
    """On workers adds rows up to a list; on the driver writes what arrives as a part at once."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._on_driver = True

    def __getstate__(self) -> dict[str, Any]:
        return {"_folder": self._folder, "_on_driver": False}

    def zero(self, value: Any) -> Any:
        """Return the empty list that every task starts with."""
        return []

    def addInPlace(self, value1: Any, value2: Any) -> Any:
        """Add rows to a worker's list, or write a finished task's rows on the driver."""
        if not self._on_driver:
            value1.extend(value2)
        elif value2:
            write_part(Path(self._folder), value2)
        return value1


def _can_write(token: str, _: Any) -> list[bool]:
    """Tell, on a worker, whether the driver's folder is here and takes files."""
    path = Path(token)
    if not path.exists():
        return [False]
    mine = path.with_name(f".probe-{uuid.uuid4().hex}")
    try:
        mine.touch()
        mine.unlink()
    except OSError:
        return [False]
    return [True]


def _reason(error: BaseException) -> str:
    """Return what went wrong: the last line of a worker's traceback, or the first of Java's."""
    java = getattr(error, "java_exception", None)
    lines = str(java if java is not None else error).strip().splitlines()
    if not lines:
        return type(error).__name__
    if any(line.startswith("Traceback ") for line in lines):
        told = [line for line in lines if line.strip() and not line.startswith((" ", "\t"))]
        return told[-1]
    return lines[0]
