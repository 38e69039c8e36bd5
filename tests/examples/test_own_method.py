"""The method of docs/own-methods.md, installed as the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = (REPOSITORY / "docs" / "own-methods.md").read_text(encoding="utf-8")
RAISES = "def run(instance, request):\n    raise ValueError('oops')\n\n\nMETHOD = "


def block(language: str, start: str) -> str:
    blocks = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return str(next(text for text in blocks if text.startswith(start)))


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Lay the package down as pip does."""
    project = tomllib.loads(block("toml", "[build-system]"))["project"]
    (tmp_path / "anna.py").write_text(block("python", '"""'), encoding="utf-8")
    info = tmp_path / f"{project['name']}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
    entries = project["entry-points"]["streamplace.methods"]
    lines = ["[streamplace.methods]", *(f"{name} = {value}" for name, value in entries.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return tmp_path


def streamplace(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    paths = [str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
    script = "import sys; from streamplace.cli.main import main; sys.exit(main())"
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def test_it_is_listed_and_runs(site: Path) -> None:
    done = streamplace(site, "methods", "anna")
    assert done.returncode == 0, done.stderr
    assert "Anna's thesis" in done.stdout
    asked = ["solve", "examples/capsys-q1.json", "--method", "anna", "--option", "spread=0.1", "-q"]
    done = streamplace(site, *asked)
    assert done.returncode == 0, done.stderr
    assert "referee  feasible" in done.stdout


def test_what_it_raises_is_not_called_a_fault_of_ours(site: Path) -> None:
    module = site / "anna.py"
    text = module.read_text(encoding="utf-8").replace("METHOD = ", RAISES)
    module.write_text(text, encoding="utf-8")
    done = streamplace(site, "solve", "examples/capsys-q1.json", "--method", "anna", "-q")
    assert done.returncode == 1
    assert "internal error: ValueError: oops" in done.stderr
    assert "fault of streamplace" not in done.stderr
    assert "module anna raised" in done.stderr


def test_one_that_cannot_be_loaded_is_warned_of_in_a_line(site: Path) -> None:
    (site / "anna.py").write_text("", encoding="utf-8")
    done = streamplace(site, "methods")
    assert done.returncode == 0
    assert done.stderr.startswith("warning: --method: 'anna' cannot be loaded")
    assert len(done.stderr.splitlines()) == 1
