"""Commands typed in a folder whose own packages are called as ours are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.slowly import slowly

SCRIPT = [str(Path(sys.executable).with_name("streamplace"))]
MODULE = [sys.executable, "-m", "streamplace"]

SWEEP = """
name = "t"
time_limit = 30
[instances]
files = ["q1.json"]
[matrix]
method = ["top-down", "imc-exact"]
"""


@pytest.fixture
def folder(tmp_path: Path, examples: Path) -> Path:
    """Make a folder with packages that fail when they are imported, and a sweep."""
    for name in ("experiments", "formulations", "heuristics", "optim"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"raise RuntimeError('not your {name}')\n")
    (tmp_path / "q1.json").write_bytes((examples / "capsys-q1.json").read_bytes())
    (tmp_path / "sweep.toml").write_text(SWEEP)
    return tmp_path


def run(folder: Path, *words: str) -> str:
    """Run a command in the folder, which is on the import path too; return what it answers."""
    done = subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": "."},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("command", [SCRIPT, MODULE], ids=["script", "module"])
def test_the_command_starts(folder: Path, command: list[str]) -> None:
    assert run(folder, *command, "--version").startswith("streamplace ")
    assert "imc-exact" in run(folder, *command, "methods")


@pytest.mark.parametrize("solver", ["highs", *slowly("cp-sat", "scip")])
def test_solvers_start(folder: Path, solver: str) -> None:
    given = ("tasks=8", "nodes=4", "capacity=250")
    sizes = [part for option in given for part in ("--option", option)]
    run(folder, *SCRIPT, "generate", "random_graphs", *sizes, "-o", "small.json")
    words = ("solve", "small.json", "-q", "--method", "imc-milp", "--solver", solver)
    # a slow solve has its bound certified, too
    assert run(folder, *SCRIPT, *words).startswith("optimal")


@pytest.mark.slow
def test_sweeps_run_on_spark_and_are_reported(folder: Path) -> None:
    run(folder, *SCRIPT, "sweep", "sweep.toml", "-o", "out", "--master", "local[1]")
    told = run(folder, *SCRIPT, "report", "out", "-o", "report.html")
    assert "1 case, 2 method variants, 2 runs." in told
    assert "imc-exact found it" in told
