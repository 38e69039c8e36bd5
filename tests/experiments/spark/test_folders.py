"""The folder of a local Spark: its own while it lives, nobody's when it was killed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from experiments.spark.session import (
    local_folders,
    remove_left,
    temporary_files_in,
    with_temporary_folder,
)


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    return tmp_path


def test_folders_of_processes_that_are_gone_are_removed(base: Path) -> None:
    own = Path(local_folders()["spark.local.dir"])
    (own / "blockmgr").mkdir()
    (base / "streamplace-spark-left" / "blockmgr").mkdir(parents=True)
    (base / "other").mkdir()
    assert local_folders() == {"spark.local.dir": str(own)}
    assert sorted(base.iterdir()) == sorted([base / "other", own])
    remove_left(base)
    assert (own / "blockmgr").is_dir()


def test_a_process_removes_its_folder_and_a_killed_one_leaves_it_unheld(base: Path) -> None:
    for end, left in (("pass", 0), ("os.kill(os.getpid(), 9)", 1)):
        script = (
            "import os\n"
            "from experiments.spark.session import local_folders\n"
            f"assert local_folders()\n{end}\n"
        )
        subprocess.run(
            [sys.executable, "-c", script], env={**os.environ, "TMPDIR": str(base)}, check=not left
        )
        assert len(list(base.iterdir())) == left
    remove_left(base)
    assert list(base.iterdir()) == []


def test_where_the_user_or_a_comma_says_otherwise(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", f"{base}/a,b")
    assert local_folders() == {}
    monkeypatch.setattr(tempfile, "tempdir", str(base))
    monkeypatch.setenv("SPARK_LOCAL_DIRS", "/data")
    assert local_folders() == {}
    assert list(base.iterdir()) == []


def test_files_that_pyspark_makes_lie_there(base: Path) -> None:
    (base / "x").mkdir()
    with temporary_files_in({"spark.local.dir": str(base / "x")}):
        assert Path(tempfile.mkdtemp()).parent == base / "x"
    assert tempfile.gettempdir() == str(base)


def test_libraries_are_unpacked_there_and_what_the_user_says_comes_later(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "spark.driver.defaultJavaOptions"
    own = local_folders()["spark.local.dir"]
    assert with_temporary_folder({"x": "y"}) == {"x": "y", name: f'"-Djava.io.tmpdir={own}"'}
    assert with_temporary_folder({name: "-Xint"})[name] == f'"-Djava.io.tmpdir={own}" -Xint'
    monkeypatch.setenv("SPARK_LOCAL_DIRS", "/data")
    assert own in with_temporary_folder({})[name]
    odd = base / 'a "b\\c'
    odd.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(odd))
    quoted = str(odd).replace("\\", "\\\\").replace('"', '\\"')
    assert f'"-Djava.io.tmpdir={quoted}/streamplace-' in with_temporary_folder({})[name]
    monkeypatch.setattr(tempfile, "tempdir", str(base / "none"))
    assert with_temporary_folder({"x": "y"}) == {"x": "y"}
