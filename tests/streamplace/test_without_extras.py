"""Every command in an installation without extras: it works, or one sentence says what it needs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from streamplace.cli.main import commands
from streamplace.packages import EXTRAS

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
WITHOUT = """
import json, os, sys
sys.modules.update(dict.fromkeys(sys.argv[1].split(",")))
import optim.methods.solve
from streamplace.cli.main import main
for words in json.loads(sys.argv[2]):
    child = os.fork()
    if child == 0:
        for stream, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(f"{words[0]}.{name}", os.O_WRONLY | os.O_CREAT), stream)
        sys.argv = ["streamplace", *words]
        sys.exit(main())
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""Run commands where some packages are not there, each in a process, which begins with what all
import."""

INSTANCE = str(EXAMPLES / "hand-8-tasks.json")
RATED = str(EXAMPLES / "capsys-rate-q6.json")
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
    "scale": [RATED, "--target-rate", "1"],
    "schema": [],
    "solve": [INSTANCE, "-o", "plan.json", "--certificate", "certificate.json"],
    "steps": [INSTANCE, "plan.json", "-o", "steps.json"],
    "storm": ["plugin", "-o", "plugin.jar"],
    "submit": ["--help"],
    "verify": ["--help"],
    "versions": [],
    "warm": ["naive"],
    "decide": [INSTANCE, "--state", "state.json", "--policy", "static"],
    "watch": ["--help"],
}
"""Arguments with which each command does its work."""
NEEDS = {
    "flink": (["submit", "--help"], "flink"),
    "replay": (["--help"], "spark"),
    "report": (["--help"], "report"),
    "revert": (["storm", "nimbus://127.0.0.1:1", "words"], "storm"),
    "sweep": ([str(EXAMPLES / "demo.toml"), "-o", "out"], "spark"),
    "trace": ([str(EXAMPLES / "clicks.toml"), "-o", "out"], "spark"),
}
"""What needs an extra to do its work; its help needs none."""


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    stderr: str


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ended]:
    """Run all commands, first those that write what others read, without the packages of extras."""
    folder = tmp_path_factory.mktemp("bare")
    (folder / "two.graph").write_text("2 1\n2\n1\n")
    asked = WORKS | {command: words for command, (words, _) in NEEDS.items()}
    order = sorted(asked, key=lambda command: (command != "solve", command != "steps"))
    lines = json.dumps([[command, *asked[command]] for command in order])
    codes = subprocess.run(
        [sys.executable, "-c", WITHOUT, ",".join(EXTRAS), lines],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
        timeout=600,
        check=True,
    ).stdout.split()
    told = ((folder / f"{command}.err").read_text() for command in order)
    return {c: Ended(int(code), err) for c, code, err in zip(order, codes, told, strict=True)}


def test_every_command_is_asked() -> None:
    assert {command.name for command in commands()} == WORKS.keys() | NEEDS.keys()


@pytest.mark.parametrize("command", WORKS)
def test_it_works(ended: dict[str, Ended], command: str) -> None:
    assert ended[command].code == 0, ended[command].stderr


@pytest.mark.parametrize("command", NEEDS)
def test_it_says_what_it_needs(ended: dict[str, Ended], command: str) -> None:
    words, extra = NEEDS[command]
    code, stderr = ended[command]
    if "--help" in words:
        assert code == 0, stderr
    else:
        assert code == 2, stderr
        assert stderr.count("\n") == 1
        assert f"pip install 'streamplace[{extra}]'" in stderr
