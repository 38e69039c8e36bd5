"""The command, and a small instance that is solved by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.command import run_command

if TYPE_CHECKING:
    from collections.abc import Callable

COMMAND = Path(sys.executable).with_name("streamplace")
"""The installed command, where a process is what is tested."""


@pytest.fixture
def streamplace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs the command in a folder of its own."""
    monkeypatch.delenv("STREAMPLACE_DEBUG", raising=False)

    def run(*arguments: Any, stdin: str = "") -> subprocess.CompletedProcess[str]:
        environment = {"COLUMNS": "120", "NO_COLOR": "1"}
        return run_command([*map(str, arguments)], tmp_path, environment, stdin=stdin)

    return run


@pytest.fixture
def document() -> dict[str, Any]:
    """Return two pairs that talk, and two nodes with room for two tasks each.

    The best plan puts each pair on one node: all 12 MB/s inside. The current placement splits both.
    """
    tasks = [("a", "n1"), ("b", "n2"), ("c", "n1"), ("d", "n2")]
    return {
        "format": "streamplace.instance/1",
        "name": "pairs",
        "units": {"cpu": "percent", "rate": "MB/s"},
        "resources": ["cpu"],
        "nodes": [{"id": "n1", "capacity": {"cpu": 100}}, {"id": "n2", "capacity": {"cpu": 100}}],
        "operators": [{"id": o, "group": {"tasks": 1, "load": {"cpu": 40}}} for o, _ in tasks],
        "tasks": [{"id": f"{o}/0", "node": node} for o, node in tasks],
        "streams": [{"from": "a", "to": "b", "rate": 10}, {"from": "c", "to": "d", "rate": 2}],
    }


@pytest.fixture
def instance_file(tmp_path: Path, document: dict[str, Any]) -> Path:
    """Return the document as a file."""
    path = tmp_path / "pairs.json"
    path.write_text(json.dumps(document))
    return path


@pytest.fixture
def plan_file(tmp_path: Path, instance_file: Path) -> Path:
    """Return the best plan of the document as a file."""
    return write_plan(tmp_path / "best.json", {"a/0": "n1", "b/0": "n1", "c/0": "n2", "d/0": "n2"})


def write_plan(path: Path, assignment: dict[str, str]) -> Path:
    """Write a hand-made plan for the document above."""
    plan = {"format": "streamplace.plan/1", "instance": "pairs", "assignment": assignment}
    path.write_text(json.dumps(plan))
    return path
