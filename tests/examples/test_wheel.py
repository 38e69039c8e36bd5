"""The wheel: what is in it, and what it says of what is not."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("hatchling", reason="the wheel is built with it")

LEFT_OUT = ("experiments/studies/", "tests/")


@pytest.fixture(scope="module")
def wheel(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel and unpack it; return the folder, which stands for ``site-packages``."""
    return unpacked(repository, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def with_studies(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpack the wheels of the product and of the studies into one folder."""
    folder = tmp_path_factory.mktemp("studies")
    unpacked(repository, folder)
    return unpacked(repository / "experiments" / "studies", folder)


def unpacked(project: Path, folder: Path) -> Path:
    """Build a project's wheel and unpack it beside what is there."""
    words = ["-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / project.name)]
    subprocess.run([sys.executable, *words], cwd=project, check=True, capture_output=True)
    (file,) = (folder / project.name).glob("*.whl")
    zipfile.ZipFile(file).extractall(folder / "site")
    return folder / "site"


def run(wheel: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the unpacked command away from the source tree."""
    return subprocess.run(
        [sys.executable, "-m", "streamplace", *words],
        cwd=wheel.parent,
        env={**os.environ, "PYTHONPATH": str(wheel)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_it_holds_the_product_and_no_more(wheel: Path) -> None:
    names = [path.relative_to(wheel).as_posix() for path in wheel.rglob("*")]
    assert not [name for name in names if f"{name}/".startswith(LEFT_OUT)]
    packages = {"streamplace", "optim", "formulations", "heuristics", "experiments"}
    assert {name.partition("/")[0] for name in names if ".dist-info" not in name} == packages
    assert {f"{package}/py.typed" for package in packages} <= set(names)
    assert {"streamplace/__init__.pyi", "experiments/report/report.css"} <= set(names)


def test_a_case_of_the_benchmark_is_made_of_what_is_in_the_studies(with_studies: Path) -> None:
    words = ("bench", "--method", "naive", "--only", "collocation-q4-cpu50", "--json")
    done = run(with_studies, *words)
    assert done.returncode == 0, done.stderr
    assert run(with_studies, "paper", "--help").returncode == 0


def test_a_command_of_the_studies_says_what_brings_it(wheel: Path) -> None:
    done = run(wheel, "paper", "--help")
    assert done.returncode == 2
    assert "comes with streamplace-studies" in done.stderr
    assert "pip install streamplace-studies" in done.stderr


def test_everything_that_it_registers_is_in_it(wheel: Path) -> None:
    script = (
        "from streamplace.packages import HOME, claim; claim()\n"
        "from experiments.generators import KINDS\n"
        "from streamplace.clusters.exchange.declarations import EXPORTERS, IMPORTERS\n"
        "from streamplace.policies.registry import POLICIES\n"
        "from optim.methods.registry import METHODS\n"
        "tables = (METHODS, KINDS, IMPORTERS, EXPORTERS, POLICIES)\n"
        "print(HOME, *(len([t.get(n) for n in t.names() if t.is_ours(n)]) > 2 for t in tables))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        cwd=wheel.parent,
        env={**os.environ, "PYTHONPATH": str(wheel)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == [str(wheel), *["True"] * 5], done.stderr


def test_it_runs(wheel: Path, examples: Path) -> None:
    done = run(wheel, "check", str(examples / "capsys-q1.json"))
    assert done.returncode == 0, done.stderr
