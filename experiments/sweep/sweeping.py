"""`run_sweep`: from a sweep file to a result folder that holds a row of every run."""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from experiments.spark.remote import is_remote, output_at
from experiments.sweep.estimates import LEARNED_COLUMNS, Estimator
from experiments.sweep.kept import keep_instances
from experiments.sweep.planning import DEFAULT_RUNNER, Plan, Run, plan_runs
from experiments.sweep.progress import Reporter, make_reporter
from experiments.sweep.reading import read_columns
from experiments.sweep.spec import Spec, load_spec
from experiments.sweep.store import ResultFolder
from experiments.sweep.worker import own_versions
from optim.errors import StreamplaceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

logger = logging.getLogger(__name__)

DEFAULT_MASTER = "local[*]"
_APP_NAME = "streamplace sweep"


@dataclass(frozen=True)
class SweepSummary:
    """What a sweep did.

    Attributes
    ----------
    total
        Runs that the spec means.
    done
        Runs of this call.
    skipped
        Runs that had a row before.
    failed
        Of all runs of the spec, those whose row is no ``ok``.
    outcomes
        Number of rows of the spec's runs by outcome.
    seconds
        This call took, the start of Spark included.
    path
        Result folder, or its URI.
    notes
        What was left out and why.
    """

    total: int
    done: int
    skipped: int
    failed: int
    outcomes: Mapping[str, int]
    seconds: float
    path: Path | str
    notes: tuple[str, ...] = ()


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
        Dotted name ``module:function`` of what does a run, as `experiments.sweep.runner.run`.
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
    _check_master(master, threads)
    reporter = make_reporter(progress) if isinstance(progress, bool) else progress
    with (
        output_at(output_dir, master, task_cpus=threads, config=config) as path,
        (folder := ResultFolder(path)).writing(spec.name),
    ):
        folder.compact()
        outcomes = _stored(folder)
        _write_marker(folder, spec, plan)
        keep_instances(folder.path, (run.instance for run in plan.runs))
        waiting = [run for run in plan.runs if _is_open(outcomes.get(run.key), retry_failed)]
        if waiting:
            try:
                _spread(waiting, folder, spec, master, threads, reporter, collect, runner, config)
            finally:
                folder.compact()
            outcomes = _stored(folder)
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


def _check_master(master: str, threads: int) -> None:
    from experiments.spark.session import active_session, check_master

    if active_session() is None:
        check_master(master, threads)


def _stored(folder: ResultFolder) -> dict[str, str]:
    """Return the outcome of every run that has a row."""
    rows = read_columns(folder.files(), ("run_key", "outcome"))
    return {row["run_key"]: row["outcome"] for row in rows}


def _is_open(outcome: str | None, retry_failed: bool) -> bool:
    return outcome is None or (retry_failed and outcome != "ok")


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


def _spread(
    runs: Sequence[Run],
    folder: ResultFolder,
    spec: Spec,
    master: str,
    threads: int,
    reporter: Reporter,
    collect: bool | None,
    runner: str,
    config: Mapping[str, Any] | None,
) -> None:
    """Start or borrow a session and do the runs on it."""
    from experiments.spark.session import spark_session
    from experiments.sweep.spreading import Spreader

    estimator = Estimator(read_columns(folder.files(), LEARNED_COLUMNS))
    seconds = [estimator.seconds(run) for run in runs]
    with ExitStack() as stack:
        session = stack.enter_context(
            spark_session(master, _APP_NAME, task_cpus=threads, config=config)
        )
        tell = stack.enter_context(reporter)
        Spreader(session, folder, spec.name, runner, collect).run(runs, seconds, tell)
