"""Sessions that fail or are interrupted: no JVM is left behind, and nothing is told twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
from pyspark import java_gateway

from experiments.spark import session as spark_module

INTERRUPTED = """
import time
from experiments.spark.session import spark_session
try:
    print("starting", flush=True)
    with spark_session("local[1]") as session:
        print("running", flush=True)
        session.sparkContext.parallelize([0], 1).map(lambda _: time.sleep(60)).count()
except KeyboardInterrupt:
    print("interrupted")
"""


def alive(group: int) -> list[str]:
    """Return the processes of a process group but zombies, which no one may have reaped yet."""
    columns = ["ps", "-ww", "-eo", "pgid=,stat=,args="]
    listed = subprocess.run(columns, capture_output=True, text=True, check=True).stdout
    rows = [line.split(maxsplit=2) for line in listed.splitlines()]
    return [args for pgid, stat, args in rows if int(pgid) == group and "Z" not in stat]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("when", "seconds", "number"),
    [
        ("starting", 0.2, signal.SIGINT),
        ("starting", 0.8, signal.SIGINT),
        ("starting", 1.4, signal.SIGINT),
        ("starting", None, signal.SIGTERM),
        ("running", 1.0, signal.SIGINT),
    ],
)
def test_a_signal_leaves_no_jvm_and_no_traceback(
    when: str, seconds: float | None, number: int
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    while process.stdout.readline().strip() != when:
        assert process.poll() is None
    if seconds is not None:
        time.sleep(seconds)
        os.killpg(process.pid, number)
    else:
        while not any("java -cp" in args and "SparkSubmit" in args for args in alive(process.pid)):
            time.sleep(0.01)
        process.send_signal(number)
    told, errors = process.communicate(timeout=600)
    assert told.splitlines()[-1] == "interrupted"
    assert errors == ""
    until = time.monotonic() + 20
    while alive(process.pid) and time.monotonic() < until:
        time.sleep(0.2)
    assert alive(process.pid) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_jvm_is_forked_leaves_no_process(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    forked: list[int] = []

    def fork(*args: object) -> int:
        forked.append(fork_exec(*args))
        signal.raise_signal(number)
        return forked[0]

    fork_exec = subprocess._fork_exec  # type: ignore[attr-defined]
    monkeypatch.setattr(subprocess, "_fork_exec", fork)
    before = signal.signal(number, signal.default_int_handler)
    started: list[subprocess.Popen[bytes]] = []
    try:
        with pytest.raises(KeyboardInterrupt), spark_module._recording(started):
            java_gateway.Popen(["sleep", "60"])
        spark_module._discard_session(started)
        assert not psutil.pid_exists(forked[0])
    finally:
        signal.signal(number, before)
        if psutil.pid_exists(forked[0]):
            os.kill(forked[0], signal.SIGKILL)
            os.waitpid(forked[0], 0)


FAILING = """
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from experiments.spark.session import SparkFailed, spark_session

class Gone:
    def getOrCreate(self):
        raise Py4JError("the master is gone")

before, SparkSession.builder = SparkSession.__dict__["builder"], Gone()
try:
    with spark_session("local[1]"):
        pass
except SparkFailed as error:
    print(error)
SparkSession.builder = before
with spark_session("local[1]") as session:
    print(session.range(3).count())
    try:
        session.sql("select cast('x' as int)").collect()
    except Exception as error:
        print(type(error).__name__)
"""


@pytest.mark.slow
def test_a_session_that_fails_late_says_so_and_another_can_be_started() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FAILING], capture_output=True, text=True, timeout=300, check=False
    )
    told = done.stdout.splitlines()
    assert told[0] == "Spark did not start on local[1,4]: the master is gone", done
    assert told[-2:] == ["3", "NumberFormatException"]
    assert done.stderr == ""
