"""The two commands: what they say before anything is installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def make(repository: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run make in the source tree, as if no make had started us."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        ["make", "--no-print-directory", *arguments],
        cwd=repository,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_without_a_target_the_targets_are_told(repository: Path) -> None:
    done = make(repository)
    assert done.returncode == 0
    for target in ("demo", "test", "docs-check", "bench", "clean"):
        assert re.search(rf"\bmake {target}\b", done.stdout)


@pytest.mark.parametrize("interpreter", ["false", "/no/such/python", ""])
def test_an_interpreter_that_will_not_do_is_told_and_nothing_is_left(
    interpreter: str, repository: Path, tmp_path: Path
) -> None:
    done = make(repository, f"PYTHON={interpreter}", f"VENV={tmp_path}/env", "demo")
    assert done.returncode != 0
    assert "needs Python 3.11 or newer" in done.stderr
    assert "make PYTHON=" in done.stderr
    assert not (tmp_path / "env").exists()


def test_demo_and_test_do_what_they_are_named_for(repository: Path) -> None:
    demo = make(repository, "--dry-run", "demo").stdout
    assert "streamplace sweep examples/demo.toml -o build/demo" in demo
    assert "streamplace report build/demo -o build/demo/report.html" in demo
    test = make(repository, "--dry-run", "test").stdout
    for tool in ("ruff check", "mypy", "lint-imports", "doctest", "pytest -n"):
        assert tool in test
    # with --quiet, warnings would count for nothing
    assert "mkdocs build --strict\n" in make(repository, "--dry-run", "docs").stdout


def test_what_is_compiled_is_kept(tmp_path: Path, repository: Path) -> None:
    (tmp_path / "Makefile").write_text(
        f'include {repository / "Makefile"}\nshown:\n\t@echo "<$$PYTHONDONTWRITEBYTECODE>"\n'
    )
    done = subprocess.run(
        ["make", "-C", tmp_path, "--no-print-directory", "shown"],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "<>\n"


def test_the_pinned_versions_are_those_that_pyproject_allows(repository: Path) -> None:
    import tomllib

    from packaging.requirements import Requirement

    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    lines = (repository / "constraints.txt").read_text().split()
    pinned = dict(line.lower().replace("_", "-").split("==") for line in lines)
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(text for group in extras.values() for text in group)]
    for requirement in map(Requirement, wanted):
        if requirement.name == project["name"]:  # dev takes in the other extras
            continue
        version = pinned.get(requirement.name.lower().replace("_", "-"))
        assert version is not None, f"constraints.txt does not pin {requirement.name}"
        assert requirement.specifier.contains(version), requirement
