"""Every command in an installation without extras: it works, or one sentence says what it needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from streamplace.cli.main import commands
from streamplace.packages import EXTRAS

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
WITHOUT = (
    "import sys; sys.modules.update(dict.fromkeys(sys.argv.pop(1).split(',')))\n"
    "from streamplace.cli.main import main; sys.exit(main())"
)
"""Run the command where some packages are not there."""

INSTANCE = str(EXAMPLES / "hand-8-tasks.json")
WORKS = {
    "bench": ["--list"],
    "certify": [INSTANCE, "certificate.json"],
    "check": [INSTANCE],
    "diff": [INSTANCE, "plan.json", "plan.json"],
    "evaluate": [INSTANCE, "plan.json"],
    "explain": [INSTANCE],
    "export": ["csv", INSTANCE, "plan.json", "-o", "plan.csv"],
    "generate": ["dense", "-o", "dense.json"],
    "import": ["metis", "two.graph", "-o", "two.json"],
    "methods": [],
    "model": ["--help"],
    "paper": ["--help"],
    "run-steps": ["command", INSTANCE, "steps.json", "--run", "true {file}"],
    "schema": [],
    "solve": [INSTANCE, "-o", "plan.json", "--certificate", "certificate.json"],
    "steps": [INSTANCE, "plan.json", "-o", "steps.json"],
    "verify": ["--help"],
    "versions": [],
    "warm": ["naive"],
}
"""Arguments with which each command does its work."""
NEEDS = {
    "flink": (["submit", "--help"], "flink"),
    "replay": (["--help"], "spark"),
    "report": (["--help"], "report"),
    "sweep": ([str(EXAMPLES / "demo.toml"), "-o", "out"], "spark"),
    "trace": ([str(EXAMPLES / "clicks.toml"), "-o", "out"], "spark"),
}
"""What needs an extra to do its work; its help needs none."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with what the commands read: a plan, steps, a certificate, a graph."""
    place = tmp_path_factory.mktemp("bare")
    (place / "two.graph").write_text("2 1\n2\n1\n")
    for command in ("solve", "steps"):
        done = run(place, command, *WORKS[command])
        assert done.returncode == 0, done.stderr
    return place


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command without the packages of any extra."""
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, ",".join(EXTRAS), *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_every_command_is_asked() -> None:
    assert {command.name for command in commands()} == WORKS.keys() | NEEDS.keys()


@pytest.mark.parametrize("command", WORKS)
def test_it_works(folder: Path, command: str) -> None:
    done = run(folder, command, *WORKS[command])
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", NEEDS)
def test_it_says_what_it_needs(folder: Path, command: str) -> None:
    words, extra = NEEDS[command]
    done = run(folder, command, *words)
    if "--help" in words:
        assert done.returncode == 0, done.stderr
    else:
        assert done.returncode == 2, done.stderr
        assert done.stderr.count("\n") == 1
        assert f"pip install 'streamplace[{extra}]'" in done.stderr
