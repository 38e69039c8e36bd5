"""A class archive of Spark's JVM: half of what a short job costs is loading and checking classes.

``streamplace warm`` makes it once, in the user's cache folder, from a small trace (Java's *dynamic
archive*, ``-XX:ArchiveClassesAtExit``). Each later session names it; a JVM that it does not fit,
because Java or Spark were changed, ignores it.
"""

from __future__ import annotations

import logging
import os
import subprocess
import tempfile
from pathlib import Path

from experiments.spark.session import JAVA_OPTIONS, class_archive, jars, quoted, spark_session
from experiments.traces.job import Job
from experiments.traces.trace import run_trace
from optim.errors import StreamplaceError, first_line
from optim.util.files import UNFINISHED
from streamplace.java import find_java

logger = logging.getLogger(__name__)

_END_SECONDS = 300.0  # That the JVM gets to write the archive when it ends: 10 s on an idle core.

EVENTS = "time,user\n2024-01-01T00:00:01,a\n2024-01-01T00:00:02,b\n2024-01-01T00:01:03,a\n"
JOB = {
    "format": "streamplace.job/1",
    "name": "warm",
    "period": {"length": "1 min"},
    "events": {"clicks": {"path": "clicks.csv", "time": "to_timestamp(time)"}},
    "operator": [
        {"id": "source", "key": "user", "key_groups": 2},
        {"id": "count", "key": "user", "key_groups": 2, "state": 1},
    ],
    "edge": [{"from": "source", "to": "count"}],
}
"""A trace that loads the classes that every trace does."""


def make() -> str:
    """Make the archive unless it is there and newer than Java and Spark; return what was done.

    It belongs in a process of its own, whose JVM ends with it.
    """
    try:
        java = find_java()
        path = class_archive(java)
        newest = max(p.stat().st_mtime for p in (java.home / "bin" / "java", jars()))
        if path.is_file() and path.stat().st_mtime >= newest:
            return "the JVM's class archive is there"
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f"{path.name}.{os.getpid()}{UNFINISHED}")
        try:
            _dump(unfinished)
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)
    except (StreamplaceError, OSError, subprocess.TimeoutExpired) as error:
        logger.debug("no class archive", exc_info=True)
        return f"no class archive of the JVM: {first_line(error)}"
    return "the JVM's class archive is made"


def _dump(path: Path) -> None:
    """Trace a few events in a JVM that writes the archive when it ends, and wait for that."""
    from pyspark import SparkContext

    config = {JAVA_OPTIONS: quoted(f"-XX:ArchiveClassesAtExit={path}")}
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "clicks.csv").write_text(EVENTS)
        with spark_session("local[2]", config=config):
            run_trace(Job.from_dict(JOB, base=Path(name)), Path(name) / "trace")
    gateway = SparkContext._gateway
    assert gateway is not None
    process: subprocess.Popen[bytes] = gateway.proc
    assert process.stdin is not None
    process.stdin.close()
    process.wait(_END_SECONDS)
