"""Start and stop Spark sessions: a JVM that is found, a quiet console, our packages shipped."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import socket
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urlsplit

from experiments.spark.folders import local_folders, temporary_files_in, with_temporary_folder
from experiments.spark.package import build_zip
from optim.errors import InvalidInput, Problem, StreamplaceError, first_line
from streamplace.java import find_java

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

DEFAULT_MASTER = "local[*]"
LONG_RUN = "-XX:+UseSerialGC -XX:+IgnoreUnrecognizedVMOptions -XX:+UseTransparentHugePages"
"""For a JVM with two cores or so: other collectors take a tenth of the time of a job besides; large
pages of memory, where the system has them, for the maps that sums are made in."""

TRACE_SETTINGS = {
    "spark.driver.memory": "2g",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
}
"""Of sessions in which recordings are read."""

QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Halves the start-up of a JVM that has little to compute: one compiler, the simplest collector."""

TASK_FAILURES = 4
"""Attempts that a Spark task gets, in local mode too, where Spark's own default is one."""

_LOCAL = re.compile(r"local(?:\[(?P<cores>\*|\d+)(?:,\s*(?P<failures>\d+))?\])?")
_MASTER = re.compile(r"(spark://\S+|k8s://\S+|yarn|local-cluster\[\d+,\d+,\d+\])")
_ADDRESSES = re.compile(r"(?:spark|k8s)://(?:(?P<scheme>https?)://)?(?P<addresses>[^/\s]+)/?")
REACH_SECONDS = 3.0
"""That an address of a master has to take a connection."""

_LOOPBACK = re.compile(r"spark://(127\.0\.0\.1|localhost)[:,]")
_LOG_TAIL_BYTES = 4000
_CAUSE = re.compile(r"^Caused by: (.*)$", re.MULTILINE)
_IN_WORKER = re.compile(r"Traceback \(most recent call last\):\n(?:\s.*\n)+(\S.*)")


class SparkFailed(StreamplaceError):
    """Spark did not start, or a job of ours was given up by it."""


def is_local(master: str) -> bool:
    """Return whether the runs stay in this machine's own process tree."""
    return _LOCAL.fullmatch(master) is not None


def check_master(master: str, task_cpus: int = 1) -> None:
    """Refuse a master that Spark would not understand, before a JVM is started for it."""
    local = _LOCAL.fullmatch(master)
    if local is None:
        if _MASTER.fullmatch(master) is None:
            remedy = "use local[N], local[*], spark://HOST:PORT, yarn or k8s://…"
            raise InvalidInput(Problem("--master", master, "is no Spark master", remedy))
        return
    cores = _cores(local.group("cores"))
    if cores < 1:
        raise InvalidInput(Problem("--master", master, "has no core", "use local[1] or more"))
    if task_cpus > cores:
        reason = f"has {cores} cores, and one run asks for {task_cpus} threads"
        raise InvalidInput(Problem("--master", master, reason, "lower `threads`, or add cores"))


def check_reachable(master: str) -> None:
    """Refuse a master of which no address answers: Spark itself tries for more than a minute."""
    found = _ADDRESSES.fullmatch(master)
    if found is None:
        return
    told = []
    usual = (80 if found["scheme"] == "http" else 443) if master.startswith("k8s") else None
    for address in found["addresses"].split(","):
        try:
            parts = urlsplit(f"//{address}")
            host, port = parts.hostname, parts.port or usual
        except ValueError:
            host, port = None, None
        if not host or not port:
            remedy = "write spark://HOST:PORT, several with commas between, or k8s://https://HOST"
            raise InvalidInput(Problem("--master", master, f"{address!r} is no address", remedy))
        try:
            with socket.create_connection((host, port), REACH_SECONDS):
                return
        except OSError as error:
            told.append(f"{host}:{port}: {error.strerror or error}")
    reason = f"cannot be reached ({'; '.join(told)})"
    raise InvalidInput(Problem("--master", master, reason, "start it, or check host and port"))


def _cores(text: str | None) -> int:
    if text is None:
        return 1
    return len(os.sched_getaffinity(0)) if text == "*" else int(text)


def settings(
    master: str = DEFAULT_MASTER,
    app_name: str = "streamplace",
    *,
    task_cpus: int = 1,
    quick: bool = True,
    config: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the Spark configuration of a session; `config` is laid over it and wins.

    Parameters
    ----------
    master
        Spark master; a local one gets :data:`TASK_FAILURES` attempts a task.
    task_cpus
        Cores that one task, and so one run, occupies.
    quick
        Start the JVM quickly; False for jobs in which the JVM itself computes for minutes.
    """
    local = _LOCAL.fullmatch(master)
    if local is not None and local.group("failures") is None:
        master = f"local[{local.group('cores') or 1},{TASK_FAILURES}]"
    found = {
        "spark.master": master,
        "spark.app.name": app_name,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.speculation": "false",
        "spark.task.cpus": str(task_cpus),
        "spark.task.maxFailures": str(TASK_FAILURES),
        "spark.python.worker.reuse": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.legacy.javaCharsets": "true",  # of recordings: all that Java knows
        "spark.sql.shuffle.partitions": "8",
        "spark.log.level": "ERROR",
        # half of the time of a short query: each call on a column would look up where it was made
        "spark.python.sql.dataFrameDebugging.enabled": "false",
    }
    if local is not None or _LOOPBACK.match(master):
        found["spark.driver.host"] = "127.0.0.1"
        found["spark.driver.bindAddress"] = "127.0.0.1"
    if local is not None:
        found["spark.python.daemon.module"] = "streamplace.spark_daemon"
    found["spark.driver.extraJavaOptions"] = QUICK_START if quick else LONG_RUN
    return found | dict(config or {})


def start_session(
    master: str = DEFAULT_MASTER,
    app_name: str = "streamplace",
    *,
    task_cpus: int = 1,
    quick: bool = True,
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start a session of our own; see :func:`settings` for the parameters.

    What the JVM says goes to a file that vanishes with it, and is shown only if it fails to start.

    Raises
    ------
    InvalidInput
        The master is malformed, or no Java runtime was found.
    SparkFailed
        Spark did not start.
    """
    check_master(master, task_cpus)
    check_reachable(master)
    chosen = settings(master, app_name, task_cpus=task_cpus, quick=quick, config=config)
    folders = local_folders() if is_local(master) else {}
    chosen = with_temporary_folder(folders | chosen)
    java = find_java()
    logger.debug("Java %d of %s in %s", java.version, java.source, java.home)
    with (
        temporary_files_in(folders),
        _environment(_variables(master, str(java.home))),
        tempfile.TemporaryFile() as log,
    ):
        return _start(chosen, log)


def _start(chosen: Mapping[str, str], log: IO[bytes]) -> SparkSession:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from py4j.protocol import Py4JError
        from pyspark import SparkConf, SparkContext
        from pyspark.errors import PySparkException
        from pyspark.java_gateway import launch_gateway
        from pyspark.sql import SparkSession
    master = chosen["spark.master"]
    _silence()
    conf = SparkConf()
    for name, value in chosen.items():
        conf.set(name, value)
    started: list[subprocess.Popen[bytes]] = []
    try:
        with _recording(started):
            # A JVM that an earlier session of this process left behind is used again.
            gateway = SparkContext._gateway or launch_gateway(conf, {"stdout": log, "stderr": log})
        context = SparkContext(conf=conf, gateway=gateway)
        session = SparkSession.builder.getOrCreate()
        context.setLogLevel(chosen["spark.log.level"])
        if not is_local(master):
            context.addPyFile(str(build_zip()))
        return session
    except (Py4JError, PySparkException, OSError) as error:
        # asked before the JVM is ended: the text of its errors lies there
        reason = f"Spark did not start on {master}: {java_line(error)}{_tail(log)}"
        _leave_nothing(started)
        raise SparkFailed(reason) from error
    except BaseException:
        _leave_nothing(started)
        raise


def _silence() -> None:
    """Silence loggers that report, with pages of traceback, errors that are also raised."""
    from pyspark.logger import PySparkLogger

    for logger in (
        logging.getLogger("py4j"),
        PySparkLogger.getLogger("SQLQueryContextLogger"),
        PySparkLogger.getLogger("DataFrameQueryContextLogger"),
    ):
        logger.setLevel(logging.CRITICAL + 1)
    # some of what py4j reports goes to no logger of its own
    logging.getLogger().addFilter(_not_of_py4j)


def _not_of_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in Path(record.pathname).parts


@contextlib.contextmanager
def _recording(started: list[subprocess.Popen[bytes]]) -> Iterator[None]:
    """Note the process of the JVM, which `launch_gateway` reports only when it has succeeded.

    Interrupted before, it would leave the JVM behind for good: that ignores Ctrl-C, and does not
    find where to report its port.
    """
    from pyspark import java_gateway

    module: Any = java_gateway

    class Recorded(subprocess.Popen):
        def __init__(self, *args: Any, **options: Any) -> None:
            started.append(self)
            super().__init__(*args, **options)

    before = module.Popen
    module.Popen = Recorded
    try:
        yield
    finally:
        module.Popen = before


def _leave_nothing(started: Sequence[subprocess.Popen[bytes]]) -> None:
    """End the JVM of a session that did not come to be, and forget what Python knows of it."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context = SparkContext._active_spark_context
    if not started:
        if context is not None:
            context.stop()
        return
    for process in started:
        if hasattr(process, "pid"):
            process.kill()
            process.wait()
    SparkContext._active_spark_context = None
    SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = None


def cause_of(error: BaseException) -> str:
    """Return what Spark gives as the deepest cause of an error, in one line."""
    causes = _CAUSE.findall(str(error))
    return (causes[-1] if causes else first_line(error))[:300]


def escaped(path: str) -> str:
    """Return a path or URI that Spark takes for what it is, not for a pattern."""
    return re.sub(r"([*?\[\]{}\\])", r"\\\1", path)


def java_line(error: BaseException) -> str:
    """Return the first line of what Java says, or the error itself."""
    java = getattr(error, "java_exception", None)
    return first_line(error if java is None else java)


def worker_error(error: BaseException) -> str:
    """Return what a Python worker of Spark gave up with; empty where none did."""
    return "".join(_IN_WORKER.findall(str(error))[-1:])[:300]


def _tail(log: IO[bytes]) -> str:
    log.seek(0, os.SEEK_END)
    log.seek(max(0, log.tell() - _LOG_TAIL_BYTES))
    text = log.read().decode(errors="replace").strip()
    return f"\n{text}" if text else ""


def _variables(master: str, java_home: str) -> dict[str, str | None]:
    """Return what the environment must hold while the JVM starts; None: must be absent."""
    variables: dict[str, str | None] = {"JAVA_HOME": java_home, "SPARK_REMOTE": None}
    if is_local(master):
        # The workers are ours: this interpreter, the Spark that was installed with it, and what
        # can be imported here can be imported there.
        variables |= {"PYSPARK_PYTHON": sys.executable, "SPARK_HOME": None}
        variables["PYTHONPATH"] = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
    else:
        variables["PYSPARK_PYTHON"] = os.environ.get("PYSPARK_PYTHON", sys.executable)
    variables["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if is_local(master) or _LOOPBACK.match(master):
        variables["SPARK_LOCAL_IP"] = "127.0.0.1"
    return variables


@contextlib.contextmanager
def _environment(variables: Mapping[str, str | None]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    _set_environment(variables)
    try:
        yield
    finally:
        _set_environment(before)


def _set_environment(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@contextlib.contextmanager
def spark_session(
    master: str = DEFAULT_MASTER,
    app_name: str = "streamplace",
    *,
    task_cpus: int = 1,
    quick: bool = True,
    config: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """Give a session for the life of a ``with`` block.

    A session that is already active in this process is lent out and not stopped at the end;
    `master` and the settings then do not apply.
    """
    active = active_session()
    if active is not None:
        yield active
        return
    session = start_session(master, app_name, task_cpus=task_cpus, quick=quick, config=config)
    try:
        yield session
    finally:
        session.stop()


def active_session() -> SparkSession | None:
    """Return the session that this process already runs, if it runs one."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is None:
        return None
    return SparkSession.builder.getOrCreate()
