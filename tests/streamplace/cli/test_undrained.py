"""A plan that leaves tasks on a leaving node says so first, in every answer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from optim.errors import ExitCode
from tests.streamplace.cli.conftest import write_plan

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., subprocess.CompletedProcess[str]]

FIRST = "not drained  2 tasks on leaving n1 (max_migrations 0 used up)"


@pytest.fixture
def leaving(tmp_path: Path, document: dict[str, Any]) -> Path:
    """Return an instance whose first node leaves while nothing may move."""
    document["nodes"][0]["leaving"] = True
    document["limits"] = {"max_migrations": 0}
    path = tmp_path / "leaving.json"
    path.write_text(json.dumps(document))
    write_plan(tmp_path / "stay.json", {"a/0": "n1", "b/0": "n2", "c/0": "n1", "d/0": "n2"})
    return path


@pytest.mark.parametrize(
    "arguments",
    [
        ("solve", "leaving.json", "--method", "balance-search", "-q"),
        ("check", "leaving.json", "stay.json"),
        ("evaluate", "leaving.json", "stay.json"),
        ("diff", "leaving.json", "stay.json"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_it_is_the_first_line(streamplace: Run, leaving: Path, arguments: tuple[str, ...]) -> None:
    done = streamplace(*arguments)
    assert done.returncode == ExitCode.OK, done.stderr
    assert done.stdout.splitlines()[0] == FIRST
    if arguments[0] in ("solve", "evaluate"):
        assert "n1 leaving, not empty" in done.stdout


def test_json_has_what_stays_and_why(streamplace: Run, leaving: Path) -> None:
    done = streamplace("evaluate", "leaving.json", "stay.json", "--json")
    told = json.loads(done.stdout)
    assert told["drained"] is False
    assert told["undrained"]["why"] == {"max_migrations 0 used up": 2}
    checked = json.loads(streamplace("check", "leaving.json", "stay.json", "--json").stdout)
    assert (checked["drained"], checked["undrained"]) == (False, told["undrained"])


def test_an_emptied_node_needs_no_word(streamplace: Run, leaving: Path) -> None:
    document = json.loads(leaving.read_text())
    del document["limits"]
    document["nodes"][1]["capacity"]["cpu"] = 200
    leaving.write_text(json.dumps(document))
    done = streamplace("solve", "leaving.json", "--method", "balance-search", "-q")
    assert "drained" not in done.stdout
    assert "n1 leaving " in done.stdout
