"""The public names: there, the same objects as in their modules, and loaded only when asked for."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import experiments.sweep
import optim
import optim.methods.registry
import streamplace

PUBLIC = {
    "Evaluation", "Instance", "InstanceBuilder", "InvalidInput", "Method", "Option", "Outcome",
    "Plan", "RefereeRefused", "Request", "Result", "Settings", "SolverError", "Steps",
    "StreamplaceError", "Termination", "UnsuitableMethod", "Violation", "all_methods", "evaluate",
    "get_method", "solve", "steps", "to_frames",
}  # fmt: skip


def run(script: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a script in an interpreter of its own."""
    return subprocess.run([sys.executable, "-c", script], cwd=cwd, capture_output=True, text=True)


def test_the_names_are_those_documented() -> None:
    assert set(dir(streamplace)) == PUBLIC
    assert set(dir(optim)) <= PUBLIC
    assert streamplace.__version__ == version("streamplace")


@pytest.mark.parametrize("package", [streamplace, optim, experiments.sweep])
def test_each_is_what_its_module_has(package: object) -> None:
    for name in dir(package):
        thing = getattr(package, name)
        assert thing.__name__ == name
        assert getattr(sys.modules[thing.__module__], name) is thing
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = package.nonsense  # type: ignore[attr-defined]


def test_a_star_gives_them_all() -> None:
    scope: dict[str, object] = {}
    exec("from streamplace import *", scope)
    assert set(scope) - {"__builtins__"} == PUBLIC


def test_importing_loads_nothing_heavy() -> None:
    done = run(
        "import sys, streamplace\n"
        "print([m for m in ('numpy', 'pydantic', 'ast', 'optim.errors', 'experiments')"
        " if m in sys.modules])"
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_a_namesake_that_was_there_first_is_told_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "optim").mkdir()
    (tmp_path / "optim" / "__init__.py").touch()
    done = run("import optim, streamplace", tmp_path)
    assert done.returncode == 1
    assert f"ImportError: optim was imported from {tmp_path / 'optim'}, and" in done.stderr
    done = run("from streamplace import Instance; print(Instance.__module__)", tmp_path)
    assert done.stdout.strip() == "optim.format.instance", done.stderr
