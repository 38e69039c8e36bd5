"""`run_sweep`: from a sweep file to a result folder that holds a row of every run.

Runs are estimated, put into chunks of even length, and spread over Spark. Where workers share a
file system with the driver they write their batches themselves. Elsewhere rows travel through an
accumulator, and the driver writes them when a task ends.
"""

from __future__ import annotations

import functools
import json
import logging
import threading
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark import AccumulatorParam, SparkContext

from experiments.spark.remote import is_remote, output_at
from experiments.spark.session import (
    SparkFailed,
    active_context,
    check_master,
    is_local,
    java_line,
    spark_context,
    worker_error,
)
from experiments.sweep.isolation import Setting, own_versions, pack_chunk, run_partition
from experiments.sweep.plan import DEFAULT_RUNNER, Plan, Run, plan_runs
from experiments.sweep.spec import Spec, load_spec
from experiments.sweep.store import (
    PartName,
    ResultFolder,
    failed_rows,
    keep_instances,
    list_parts,
    read_columns,
    write_part,
)
from optim.errors import StreamplaceError
from streamplace.present.numbers import bar, duration
from streamplace.present.tables import StatusLine

logger = logging.getLogger(__name__)

DEFAULT_MASTER = "local[*]"
_APP_NAME = "streamplace sweep"
_PRELOAD = {"spark.executorEnv.STREAMPLACE_PRELOAD": "pyspark.worker experiments.sweep.isolation"}
"""What each worker would import for itself otherwise: half a second of each; see `spark_daemon`."""

_BAR = 20  # Characters of the bar of progress.


@dataclass(frozen=True)
class SweepProgress:
    """A moment of a sweep."""

    #: Runs stored so far by this sweep, those of them that failed, and those it has to do.
    done: int
    failed: int
    total: int
    seconds: float  # Since its first run could start.
    #: Lines to write once: which runs failed since the moment before, and why.
    news: tuple[str, ...] = ()


Reporter = AbstractContextManager["Callable[[SweepProgress], None]"]
"""What shows progress: a context manager whose value is called with each moment."""


@contextmanager
def reporter(shown: bool) -> Iterator[Callable[[SweepProgress], None]]:
    """Show progress on standard error: a bar on a terminal, a line every ten seconds in a log."""
    line, reported = StatusLine(), -1

    def tell(moment: SweepProgress) -> None:
        nonlocal reported
        for text in moment.news if shown else ():
            line.say(text)
        now, last = time.monotonic(), moment.done == moment.total
        if not shown or (moment.done == reported and not line.live) or not (last or line.due(now)):
            return
        reported = moment.done
        failed = f", {moment.failed} failed" if moment.failed else ""
        text = f"{moment.done:,}/{moment.total:,} runs{failed}, {duration(moment.seconds)}"
        if line.live and moment.done:
            remaining = duration(moment.seconds * (moment.total - moment.done) / moment.done)
            text = f"{bar(moment.done / moment.total, _BAR):{_BAR}} {text}, about {remaining} left"
        line.show(text, now)

    yield tell
    line.close(keep=True)


@dataclass(frozen=True)
class SweepSummary:
    """What a sweep did."""

    #: Runs that the spec means; of these those of this call, and those that had a row before.
    total: int
    done: int
    skipped: int
    #: Of all runs of the spec, those whose row is no ``ok``; number of rows by outcome.
    failed: int
    outcomes: Mapping[str, int]
    seconds: float  # This call took, the start of Spark included.
    path: Path | str  # Result folder, or its URI.
    notes: tuple[str, ...] = ()  # What was left out and why.


def run_sweep(
    spec: Spec | str | Path,
    output_dir: str | Path,
    master: str = DEFAULT_MASTER,
    *,
    retry_failed: bool = False,
    progress: bool | Reporter = True,
    collect: bool | None = None,
    runner: str = DEFAULT_RUNNER,
    config: Mapping[str, str] | None = None,
) -> SweepSummary:
    """Do every run of a sweep that has no row yet.

    Interrupted or killed, it is taken up again by the same call; extended, it does what is new.

    Parameters
    ----------
    spec
        A sweep file, or what `load_spec` made of one.
    output_dir
        Result folder: new, empty, or one of the same sweep. Or a URI that Hadoop writes; rows then
        lie in a working copy until the sweep ends, and the same call goes on with it.
    master
        Spark master. A session that is active in this process is used as it is.
    retry_failed
        Do runs again whose row is an error, a crash, a timeout or out of memory.
    progress
        Whether to show progress on standard error; or a context manager that is called with
        `SweepProgress`.
    collect
        Rows go through the driver (True) or are written by the workers (False); by default it is
        tried out whether workers share the folder.
    runner
        Dotted name ``module:function`` of what does a run, as `experiments.sweep.row.run`.
    config
        Further Spark settings.

    Raises
    ------
    InvalidInput
        The spec, an instance, the folder or the master is wrong; nothing was started.
    SparkFailed
        Spark did not start or gave up; rows that were stored stay.
    KeyboardInterrupt
        Interrupted; rows of finished runs are stored.
    """
    began = time.monotonic()
    if not isinstance(spec, Spec):
        spec = load_spec(spec)
    plan = plan_runs(spec, runner)
    for note in plan.notes:
        logger.info("%s", note)
    threads = max(run.settings.threads for run in plan.runs)
    if active_context() is None:
        check_master(master, threads)
    config = _PRELOAD | dict(config or {})
    shown = reporter(progress) if isinstance(progress, bool) else progress
    with (
        output_at(output_dir, master, task_cpus=threads, config=config) as path,
        (folder := ResultFolder(path)).writing(spec.name),
    ):
        folder.compact()
        outcomes = _stored_outcomes(folder)
        _write_marker(folder, spec, plan)
        keep_instances(folder.path, (run.instance for run in plan.runs))
        closed = {key for key, outcome in outcomes.items() if outcome == "ok" or not retry_failed}
        waiting = [run for run in plan.runs if run.key not in closed]
        if waiting:
            estimator = Estimator(read_columns(folder.files(), LEARNED_COLUMNS))
            seconds = [estimator.seconds(run) for run in waiting]
            try:
                with (
                    spark_context(master, _APP_NAME, task_cpus=threads, config=config) as context,
                    shown as tell,
                ):
                    spreader = Spreader(context, folder, spec.name, runner, collect)
                    spreader.run(waiting, seconds, tell)
            finally:
                folder.compact()
            outcomes = _stored_outcomes(folder)
    missing = sum(run.key not in outcomes for run in plan.runs)
    if missing:
        raise StreamplaceError(f"{missing} runs have no row; the same command does them")
    ended = Counter(outcomes[run.key] for run in plan.runs)
    return SweepSummary(
        total=len(plan.runs),
        done=len(waiting),
        skipped=len(plan.runs) - len(waiting),
        failed=len(plan.runs) - ended["ok"],
        outcomes=dict(sorted(ended.items())),
        seconds=time.monotonic() - began,
        path=str(output_dir) if is_remote(output_dir) else folder.path,
        notes=plan.notes,
    )


def _stored_outcomes(folder: ResultFolder) -> dict[str, str]:
    """Return the outcome of every run that has a row."""
    rows = read_columns(folder.files(), ("run_key", "outcome"))
    return {row["run_key"]: row["outcome"] for row in rows}


def _write_marker(folder: ResultFolder, spec: Spec, plan: Plan) -> None:
    """Say what the folder is for, before the first row."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    created = now
    if (folder.path / "sweep.json").is_file():
        created = folder.marker().get("created", now)
    folder.write_marker(
        {
            "name": spec.name,
            "description": spec.description,
            "created": created,
            "updated": now,
            "versions": json.loads(own_versions()),
            "spec": json.loads(json.dumps(spec.document, default=str)),
            "num_runs": len(plan.runs),
            "notes": list(plan.notes),
            "runs": [run.key for run in plan.runs],
        }
    )


# -- spreading over Spark -----------------------------------------------------------------------


_COLLECTED_CHUNK_SECONDS = 10.0
_POLL_SECONDS = 0.2
_STOP_SECONDS = 10.0
_PROBES_PER_SLOT = 2
_MOST_NAMED = 50  # Failed runs that are named one by one.
_REASON_CHARACTERS = 200
_LARGE = 256 * 1024  # Bytes of a compressed instance above which it is no part of a task.


class Spreader:
    """Does runs on a Spark context and stores their rows in a result folder, open for writing.

    Rows go through the driver (`collect`), or workers write them; None: it is tried out.
    """

    def __init__(
        self,
        context: SparkContext,
        folder: ResultFolder,
        sweep: str,
        runner: str,
        collect: bool | None = None,
    ) -> None:
        self._context = context
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
        task_cpus = int(self._context.getConf().get("spark.task.cpus", "1") or 1)
        self._slots = max(1, self._context.defaultParallelism // task_cpus)

    def _must_collect(self) -> bool:
        """Return whether some worker does not see the folder, or may not write to it."""
        if is_local(str(self._context.master)):
            return False
        token = self._folder.parts / f".token-{uuid.uuid4().hex}"
        token.touch()
        try:
            tasks = self._context.defaultParallelism * _PROBES_PER_SLOT
            probe = functools.partial(_can_write, str(token.resolve()))
            shared = self._context.parallelize(range(tasks), tasks).mapPartitions(probe).collect()
        finally:
            token.unlink(missing_ok=True)
        if not all(shared):
            logger.info("workers do not share the result folder: rows go through the driver")
        return not all(shared)

    def run(
        self, runs: Sequence[Run], seconds: Sequence[float], tell: Callable[[SweepProgress], None]
    ) -> None:
        """Do all runs; returns when their rows are stored.

        Raises `SparkFailed`: Spark gave up; what was stored stays.
        Raises `KeyboardInterrupt`: interrupted; workers stored what they had finished.
        """
        most = _COLLECTED_CHUNK_SECONDS if self._collect else MAX_CHUNK_SECONDS
        chunks = make_chunks(seconds, self._slots, MIN_CHUNK_SECONDS, most)
        logger.debug("%d runs in %d chunks on %d slots", len(runs), len(chunks), self._slots)
        before = {part.path for part in list_parts(self._folder.parts)}
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
            why = worker_error(job.error) or java_line(job.error)
            raise SparkFailed(f"Spark gave the sweep up: {why}") from job.error

    def _submit(self, runs: Sequence[Run], chunks: Sequence[Sequence[int]]) -> None:
        """Run the Spark job; called in a thread of its own."""
        packed_by_hash = {run.instance.sha256: run.instance.packed for run in runs}
        within = [[runs[i] for i in chunk] for chunk in chunks]
        # instances that few chunks need travel with these, the others by broadcast
        carried = _instances_in_chunks(within, packed_by_hash, self._slots)
        packed = [pack_chunk(chunk, carried) for chunk in within]
        shared = {sha256: text for sha256, text in packed_by_hash.items() if sha256 not in carried}
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
    values: dict[str, set[str]] = defaultdict(set)
    for run in runs:
        for name, value in run.factors.items():
            values[name].add(value)
    return [n for n, v in values.items() if len(v) > 1 and n not in ("method", "instance")]


def failure_text(row: Mapping[str, Any], varied: Sequence[str]) -> str:
    """Name a failed run and say why: ``timeout: flux on drain (seed=1): ran longer than 5 s``."""
    factors = dict(row["factors"])
    factors_text = ", ".join(f"{name}={factors[name]}" for name in varied if name in factors)
    where = f"{row['method_label']} on {row['instance']}" + (
        f" ({factors_text})" if factors_text else ""
    )
    reason = (row["error"] or "no reason given").strip().partition("\n")[0][:_REASON_CHARACTERS]
    text = f"{row['outcome']}: {where}: {reason}"
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _instances_in_chunks(
    chunks: Sequence[Sequence[Run]], packed_by_hash: Mapping[str, bytes], slots: int
) -> frozenset[str]:
    """Return the instances that go with their chunks: small ones that few workers need."""
    needed = Counter(sha256 for c in chunks for sha256 in {run.instance.sha256 for run in c})
    return frozenset(
        s for s, times in needed.items() if times <= slots and len(packed_by_hash[s]) <= _LARGE
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
    """Return, on a worker, whether the driver's folder is here and takes files."""
    path = Path(token)
    if not path.exists():
        return [False]
    probe = path.with_name(f".probe-{uuid.uuid4().hex}")
    try:
        probe.touch()
        probe.unlink()
    except OSError:
        return [False]
    return [True]


# -- how long a run may take --------------------------------------------------------------------


MIN_CHUNK_SECONDS = 1.0
MAX_CHUNK_SECONDS = 60.0
LEARNED_COLUMNS = ("run_key", "method_label", "solver", "instance_sha256", "time_total")
"""What an `Estimator` reads of stored rows."""

_SHARE = 3
_UNKNOWN_SECONDS = 0.02
_UNLIMITED_SECONDS = 60.0
_EXACT_SECONDS_PER_CELL = 1e-4  # a guess for task × node models; runs soon report better


class Estimator:
    """Estimates the seconds of runs.

    `rows`: rows of earlier runs: of the same method on the same instance counts most, then of the
        same method on any.
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]] = ()) -> None:
        exact: dict[Any, list[float]] = defaultdict(list)
        for row in rows:
            seconds = row.get("time_total")
            if seconds is not None:
                place = (row["method_label"], row["solver"])
                exact[*place, row["instance_sha256"]].append(seconds)
                exact[place].append(seconds)
        self._learned = {place: sum(values) / len(values) for place, values in exact.items()}

    def seconds(self, run: Run) -> float:
        """Return the estimate for one run."""
        place = (run.label, run.settings.solver)
        learned = self._learned.get((*place, run.instance.sha256), self._learned.get(place))
        return guess(run) if learned is None else learned


def guess(run: Run) -> float:
    """Return an estimate from the kind of method, the limits and the size of the instance."""
    limit = run.settings.time_limit
    most = min(run.timeout, _UNLIMITED_SECONDS if limit is None else limit)
    tasks, nodes = run.instance.num_tasks, run.instance.num_nodes
    match run.kind:
        case "exact":
            return min(most, _UNKNOWN_SECONDS + _EXACT_SECONDS_PER_CELL * tasks * nodes)
        case "search":
            return min(most, 1.0) if limit is None else most
        case _:
            return min(most, _UNKNOWN_SECONDS + 1e-5 * tasks)


def make_chunks(
    seconds: Sequence[float],
    slots: int,
    least: float = MIN_CHUNK_SECONDS,
    most: float = MAX_CHUNK_SECONDS,
) -> list[list[int]]:
    """Divide runs into chunks, longest runs first, each chunk a share of what is left.

    Large chunks first and small ones last keep all slots busy to the end, even where estimates
    are wrong, and still make few of them (guided self-scheduling).

    `slots`: runs at a time.
    `least`, `most`: bounds on a chunk's estimated seconds; one run may be longer.
    Returns indices of the runs; every run in exactly one chunk.
    """
    # longest runs first: a long one at the end would keep one slot busy alone
    order = sorted(range(len(seconds)), key=lambda i: (-seconds[i], i))  # ties by place
    remaining = sum(seconds)
    chunks: list[list[int]] = []
    chunk: list[int] = []
    filled = 0.0
    target = _target(remaining, slots, least, most)
    for position, index in enumerate(order):
        chunk.append(index)
        filled += seconds[index]
        # A share of the runs is an end as well: estimates may be far too low.
        count = -(-(len(order) - position) // (_SHARE * slots))
        if filled >= target or (filled >= least and len(chunk) >= count):
            chunks.append(chunk)
            remaining -= filled
            chunk, filled = [], 0.0
            target = _target(remaining, slots, least, most)
    if chunk:
        chunks.append(chunk)
    return chunks


def _target(remaining: float, slots: int, least: float, most: float) -> float:
    return min(most, max(least, remaining / (_SHARE * slots)))
