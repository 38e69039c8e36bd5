"""A standalone cluster on loopback: our code arrives as a zip, rows by either way."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from experiments.sweep import read_rows_pandas
from streamplace.java import find_java

WAIT = 120

SCRIPT = """
import sys
from experiments.spark.session import spark_session
from experiments.sweep import run_sweep

def where(_):
    import experiments.sweep.isolation
    from optim.methods.registry import get_method
    return experiments.sweep.isolation.__file__, get_method("top-down").name

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
    with cluster(tmp_path, workers=1) as (url, _):
        yield url


@contextmanager
def cluster(folder: Path, workers: int) -> Iterator[tuple[str, list[int]]]:
    """Give the URL of a master, and the process ids of its workers, of two cores each."""
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
        *(["org.apache.spark.deploy.worker.Worker", *address, "--cores", "2", "--memory", "1g",
           "--work-dir", str(folder / f"work{number}"), url] for number in range(workers)),
    ]  # fmt: skip
    started = []
    with ExitStack() as stack:
        log = stack.enter_context((folder / "cluster.log").open("wb"))
        for command in commands:
            process = subprocess.Popen(
                [spark_class, *command], env=environment, stdout=log, stderr=log
            )
            started.append(process.pid)
            stack.callback(process.wait)
            stack.callback(process.kill)
            deadline = time.monotonic() + WAIT
            while not answers(port):
                assert process.poll() is None, (folder / "cluster.log").read_text()
                assert time.monotonic() < deadline
                time.sleep(0.1)
        yield url, started[1:]


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
    assert ".zip/experiments/sweep/isolation.py" in worker
    assert method == "top-down"
    assert summaries == ["40 40 {'ok': 40}"] * 2
    for name in ("auto", "collected"):
        rows = read_rows_pandas(base / name)
        assert rows["run_key"].nunique() == len(rows) == 40


KILLING = """
import os, signal, sys
from experiments.spark.session import spark_session
from experiments.sweep import run_sweep

class Killer:
    killed = False
    def __enter__(self):
        return self
    def __exit__(self, *_):
        pass
    def __call__(self, moment):
        if moment.done and not self.killed:
            self.killed = True
            os.kill(int(sys.argv[4]), signal.SIGKILL)

sys.path.insert(0, sys.argv[2])
killer = Killer()
config = {"spark.task.maxFailures": "8"}
with spark_session(sys.argv[3], config=config) as session:
    session.sparkContext.addPyFile(f"{sys.argv[2]}/slowly.py")
    summary = run_sweep(
        sys.argv[1], f"{sys.argv[2]}/out", progress=killer, collect=True, runner="slowly:run"
    )
    print(killer.killed, summary.total, summary.outcomes)
"""

SLOWLY = """
import time
from experiments.sweep import row as runner

def run(document, arguments):
    time.sleep(0.5)
    return runner.run(document, arguments)
"""


@pytest.mark.slow
def test_a_worker_is_killed(base: Path, tmp_path: Path) -> None:
    """Every run has one row, although the rows of one worker's chunks never arrived."""
    (base / "sweep.toml").write_text(TOML)
    (base / "slowly.py").write_text(SLOWLY)
    with cluster(tmp_path, workers=2) as (url, workers):
        done = subprocess.run(
            [sys.executable, "-c", KILLING, base / "sweep.toml", base, url, str(workers[0])],
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "True 40 {'ok': 40}"
    rows = read_rows_pandas(base / "out")
    assert rows["run_key"].nunique() == len(rows) == 40
