"""A standalone cluster on loopback: our code arrives as a zip, rows by either way."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from experiments.spark.java import find_java
from experiments.sweep import read_rows_pandas

WAIT = 120

SCRIPT = """
import sys
from experiments.spark.session import spark_session
from experiments.sweep import run_sweep

def where(_):
    import experiments.sweep.worker
    from optim.methods.registry import get_method
    return experiments.sweep.worker.__file__, get_method("top-down").name

with spark_session(sys.argv[3]) as session:
    print(*session.sparkContext.parallelize([0], 1).map(where).collect()[0])
    for name, collect in (("auto", None), ("collected", True)):
        summary = run_sweep(sys.argv[1], f"{sys.argv[2]}/{name}", progress=False, collect=collect)
        print(summary.total, summary.done, summary.outcomes)
"""

TOML = """
name = "t"
time_limit = 30
[instances]
files = ["*.json"]
[matrix]
method = ["top-down", "storm-even"]
seed = {from = 0, to = 9}
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """Start a master and a worker of two cores, and end both by their process ids."""
    import pyspark

    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    spark_class = Path(pyspark.__file__).parent / "bin" / "spark-class"
    environment = {
        **os.environ,
        "JAVA_HOME": str(find_java().home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    environment.pop("PYTHONPATH", None)
    address = ["--host", "127.0.0.1", "--webui-port", "0"]
    commands = [
        ["org.apache.spark.deploy.master.Master", *address, "--port", str(port)],
        ["org.apache.spark.deploy.worker.Worker", *address, "--cores", "2", "--memory", "1g",
         "--work-dir", str(tmp_path / "work"), url],
    ]  # fmt: skip
    with ExitStack() as stack:
        log = stack.enter_context((tmp_path / "cluster.log").open("wb"))
        for command in commands:
            process = subprocess.Popen(
                [spark_class, *command], env=environment, stdout=log, stderr=log
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            deadline = time.monotonic() + WAIT
            while not answers(port):
                assert process.poll() is None, (tmp_path / "cluster.log").read_text()
                assert time.monotonic() < deadline
                time.sleep(0.1)
        yield url


@pytest.mark.slow
def test_a_sweep_on_a_cluster(base: Path, master: str) -> None:
    (base / "sweep.toml").write_text(TOML)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, base / "sweep.toml", base, master],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    place, *summaries = done.stdout.splitlines()
    worker, method = place.split()
    assert ".zip/experiments/sweep/worker.py" in worker
    assert method == "top-down"
    assert summaries == ["40 40 {'ok': 40}"] * 2
    for name in ("auto", "collected"):
        rows = read_rows_pandas(base / name)
        assert rows["run_key"].nunique() == len(rows) == 40
