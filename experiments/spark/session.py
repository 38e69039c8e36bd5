"""Start and stop Spark sessions: a JVM that is found, a quiet console, our packages shipped.

Our packages go to executors as a zip: Spark ships a ``.whl`` but cannot import from it. The zip
also holds the distribution's metadata, because methods are found by entry points, which live there.

Spark puts what it moves into folders beside each other below ``/tmp`` and forgets them when it is
killed; ours go with us, or with whoever comes next.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import io
import logging
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata, resources
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urlsplit

from optim.errors import InvalidInput, Problem, StreamplaceError, first_line
from optim.util.process import Held, sigterm_as_interrupt, usable_cores
from optim.util.store import Lock
from streamplace.java import Java, cache_folder, find_java

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

DISTRIBUTION = "streamplace"
PACKAGES = ("experiments", "formulations", "heuristics", "optim", "streamplace")

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip can hold
_METADATA_FILES = ("METADATA", "entry_points.txt")


def build_zip(folder: Path | None = None) -> Path:
    """Write the zip and return its path; its name carries the hash of its content.

    `folder`: where to put it; if not given, a fresh temporary folder that goes with this process,
        since Spark serves the file for as long as the session lives.
    """
    content = zip_content()
    digest = hashlib.sha256(content).hexdigest()[:12]
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix="streamplace-zip-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / f"{DISTRIBUTION}-{digest}.zip"
    path.write_bytes(content)
    return path


def zip_content() -> bytes:
    """Return the zip's bytes: the same sources give the same bytes, whatever their time stamps."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in sorted(_members().items()):
            info = zipfile.ZipInfo(name, _EPOCH)
            info.external_attr = 0o644 << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data, compresslevel=6)
    return buffer.getvalue()


def _members() -> dict[str, bytes]:
    members = _metadata_members()
    for package in PACKAGES:
        root = _package_folder(package)
        for path in root.rglob("*"):
            inside = path.relative_to(root)
            if path.is_file() and "__pycache__" not in inside.parts:
                members[str(PurePosixPath(package, *inside.parts))] = path.read_bytes()
    return members


def _package_folder(package: str) -> Path:
    return Path(str(resources.files(package)))


def _metadata_members() -> dict[str, bytes]:
    try:
        distribution = metadata.distribution(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return {}
    folder = f"{DISTRIBUTION}-{distribution.version}.dist-info"
    texts = {name: distribution.read_text(name) for name in _METADATA_FILES}
    return {f"{folder}/{name}": text.encode() for name, text in texts.items() if text}


_PREFIX = "streamplace-spark-"
_SETTING = "spark.local.dir"
JAVA_OPTIONS = "spark.driver.defaultJavaOptions"
"""Setting with options of the driver's JVM, before ``spark.driver.extraJavaOptions``."""

_TEMPORARY = "-Djava.io.tmpdir"


def local_folders() -> dict[str, str]:
    """Return the settings that name a folder of this process; those of processes that are gone go.

    None where ``SPARK_LOCAL_DIRS`` names folders, or where Spark would not understand the path: a
    comma ends it.
    """
    base = Path(tempfile.gettempdir()).absolute()
    if "SPARK_LOCAL_DIRS" in os.environ or "," in str(base):
        return {}
    remove_left(base)
    try:
        return {_SETTING: _own_folder(base, os.getpid())}
    except OSError:
        return {}  # Spark finds out by itself, and reports


def with_temporary_folder(settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings by which the driver's JVM unpacks its libraries into our folder.

    A JVM that is killed leaves them (``liblz4-java-…so``, ``snappy-…so``), and whatever else it
    has in ``java.io.tmpdir``; there the next process removes them. These options stand before
    ``spark.driver.extraJavaOptions``, so that a folder that is named there is taken.
    """
    base = Path(tempfile.gettempdir()).absolute()
    remove_left(base)
    try:
        return _with_java_option(settings, f"{_TEMPORARY}={_own_folder(base, os.getpid())}")
    except OSError:
        return dict(settings)


def _with_java_option(settings: Mapping[str, str], option: str) -> dict[str, str]:
    before = settings.get(JAVA_OPTIONS, "")
    return {**settings, JAVA_OPTIONS: f"{quoted(option)} {before}".strip()}


def quoted(option: str) -> str:
    """Return an option as it stands in `JAVA_OPTIONS`, which Spark splits as a shell does."""
    return '"' + option.replace("\\", r"\\").replace('"', r"\"") + '"'


def class_archive(java: Java) -> Path:
    """Return where the JVM's class archive for a Java and the installed Spark lies, if it was made.

    Half of what a short job costs is loading and checking classes. A JVM that the archive does not
    fit, because Java or Spark were changed, ignores it.
    """
    name = hashlib.sha256(f"{java.home}\n{jars()}".encode()).hexdigest()[:16]
    return cache_folder() / "java" / f"spark-{name}.jsa"


def jars() -> Path:
    """Return the folder of the installed Spark's classes."""
    return _package_folder("pyspark") / "jars"


def with_class_archive(settings: Mapping[str, str], java: Java) -> dict[str, str]:
    """Return settings by which the driver's JVM reads its class archive, where one was made."""
    dumping = "-XX:ArchiveClassesAtExit" in settings.get(JAVA_OPTIONS, "")
    with contextlib.suppress(OSError):  # there is no home folder
        if not dumping and (path := class_archive(java)).is_file():
            return _with_java_option(settings, f"-XX:SharedArchiveFile={path}")
    return dict(settings)


@contextlib.contextmanager
def temporary_files_in(folders: Mapping[str, str]) -> Iterator[None]:
    """Have what pyspark puts into a temporary folder, while the JVM starts, lie in ours."""
    before = tempfile.tempdir
    tempfile.tempdir = folders.get(_SETTING, before)
    try:
        yield
    finally:
        tempfile.tempdir = before


@functools.cache
def _own_folder(base: Path, pid: int) -> str:
    """Make the folder of this process, locked for as long as it lives."""
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
    Lock(folder, folder=True).acquire()
    atexit.register(_remove_own, folder, pid)
    return str(folder)


def _remove_own(folder: Path, pid: int) -> None:
    if os.getpid() == pid:  # not in children, which inherit what is to be done at the end
        shutil.rmtree(folder, ignore_errors=True)


def remove_left(base: Path) -> None:
    """Remove folders that nobody holds locked: their processes were killed."""
    for folder in base.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if folder.stat().st_uid == os.getuid():
                lock = Lock(folder, folder=True)
                if lock.acquire():
                    shutil.rmtree(folder, ignore_errors=True)
                    lock.release()


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
REACH_SECONDS = 3.0  # That an address of a master has to take a connection.

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
    parsed = _ADDRESSES.fullmatch(master)
    if parsed is None:
        return
    failures = []
    usual = (80 if parsed["scheme"] == "http" else 443) if master.startswith("k8s") else None
    for address in parsed["addresses"].split(","):
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
            failures.append(f"{host}:{port}: {error.strerror or error}")
    reason = f"cannot be reached ({'; '.join(failures)})"
    raise InvalidInput(Problem("--master", master, reason, "start it, or check host and port"))


def _cores(text: str | None) -> int:
    if text is None:
        return 1
    return usable_cores() if text == "*" else int(text)


def settings(
    master: str = DEFAULT_MASTER,
    app_name: str = "streamplace",
    *,
    task_cpus: int = 1,
    quick: bool = True,
    config: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the Spark configuration of a session; `config` is laid over it and wins.

    `master`: Spark master; a local one gets :data:`TASK_FAILURES` attempts a task.
    `task_cpus`: cores that one task, and so one run, occupies.
    `quick`: start the JVM quickly; False for jobs in which the JVM itself computes for minutes.
    """
    local = _LOCAL.fullmatch(master)
    if local is not None and local.group("failures") is None:
        master = f"local[{local.group('cores') or 1},{TASK_FAILURES}]"
    configuration = {
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
        configuration["spark.driver.host"] = "127.0.0.1"
        configuration["spark.driver.bindAddress"] = "127.0.0.1"
    if local is not None:
        configuration["spark.python.daemon.module"] = "streamplace.spark_daemon"
    configuration["spark.driver.extraJavaOptions"] = QUICK_START if quick else LONG_RUN
    return configuration | dict(config or {})


def _start_context(
    master: str, app_name: str, sql: bool, task_cpus: int, quick: bool, config: Any
) -> SparkContext:
    """Start a context of our own, with a session where SQL is wanted."""
    check_master(master, task_cpus)
    check_reachable(master)
    chosen = settings(master, app_name, task_cpus=task_cpus, quick=quick, config=config)
    folders = local_folders() if is_local(master) else {}
    chosen = with_temporary_folder(folders | chosen)
    java = find_java()
    logger.debug("Java %d of %s in %s", java.version, java.source, java.home)
    chosen = with_class_archive(chosen, java)
    with (
        temporary_files_in(folders),
        _environment(_variables(master, str(java.home))),
        tempfile.TemporaryFile() as log,  # what the JVM says, shown only if it fails to start
        # a JVM whose parent dies before it has started waits for ever
        sigterm_as_interrupt(),
    ):
        return _start(chosen, log, sql)


def _start(chosen: Mapping[str, str], log: IO[bytes], sql: bool) -> SparkContext:
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
        if sql:
            SparkSession.builder.getOrCreate()
        context.setLogLevel(chosen["spark.log.level"])
        if not is_local(master):
            context.addPyFile(str(build_zip()))
        return context
    except (Py4JError, PySparkException, OSError) as error:
        # asked before the JVM is ended: the text of its errors lies there
        reason = f"Spark did not start on {master}: {java_line(error)}{_tail(log)}"
        _discard_session(started)
        raise SparkFailed(reason) from error
    except BaseException:
        _discard_session(started)
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
    """Note the process of the JVM: `launch_gateway`, interrupted, would leave it behind."""
    from pyspark import java_gateway

    module: Any = java_gateway

    class Recorded(subprocess.Popen):
        def __init__(self, *args: Any, **options: Any) -> None:
            with Held():  # a signal while it forks would leave a process that nobody knows
                super().__init__(*args, **options)
                started.append(self)

    before = module.Popen
    module.Popen = Recorded
    try:
        yield
    finally:
        module.Popen = before


def _discard_session(started: Sequence[subprocess.Popen[bytes]]) -> None:
    """End the JVM of a session that did not come to be, and forget what Python knows of it."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context = SparkContext._active_spark_context
    if not started:
        if context is not None:
            context.stop()
        return
    for process in started:
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
def spark_context(
    master: str = DEFAULT_MASTER,
    app_name: str = "streamplace",
    *,
    sql: bool = False,
    task_cpus: int = 1,
    quick: bool = True,
    config: Mapping[str, str] | None = None,
) -> Iterator[SparkContext]:
    """Give a context for the life of a ``with`` block; see :func:`settings` for the parameters.

    A context that is already active in this process is lent out and not stopped at the end;
    `master` and the settings then do not apply. Without `sql` the JVM loads a third fewer classes.
    """
    active = active_context()
    if active is not None:
        yield active
        return
    context = _start_context(master, app_name, sql, task_cpus, quick, config)
    try:
        yield context
    finally:
        from pyspark.sql import SparkSession

        # a session remembers itself as the one to use; it stops its context, too
        (SparkSession._instantiatedSession or context).stop()


@contextlib.contextmanager
def spark_session(
    master: str = DEFAULT_MASTER, app_name: str = "streamplace", **options: Any
) -> Iterator[SparkSession]:
    """Give a session for SQL as `spark_context` gives a context, with the same options."""
    with spark_context(master, app_name, sql=True, **options):
        from pyspark.sql import SparkSession

        yield SparkSession.builder.getOrCreate()


def active_context() -> SparkContext | None:
    """Return the context that this process already runs, if it runs one."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark import SparkContext

    return SparkContext._active_spark_context
