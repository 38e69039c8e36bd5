"""The method of docs/own-methods.md and the importer of docs/own-importer.md, as they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from optim.format.instance import Instance

REPOSITORY = Path(__file__).resolve().parents[2]
RAISES = "def run(instance, request):\n    raise ValueError('oops')\n\n\nMETHOD = "


def lay_down(folder: Path, page: str) -> Path:
    """Put the module of a page into a folder, with its entry points, as pip does."""
    text = (REPOSITORY / "docs" / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```(python|toml)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    module = next(block for language, block in blocks if language == "python")
    setup = next(block for _, block in blocks if "[project.entry-points" in block)
    ((group, entries),) = tomllib.loads(setup)["project"]["entry-points"].items()
    ((name, value),) = entries.items()
    (folder / f"{name}.py").write_text(module, encoding="utf-8")
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Name: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {value}\n")
    return folder


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return lay_down(tmp_path, "own-methods.md")


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


def test_an_importer_reads_a_file_and_names_its_faults(tmp_path: Path) -> None:
    lay_down(tmp_path, "own-importer.md")
    table = tmp_path / "jobs.csv"
    table.write_text("task,node,cpu\na,n1,2\nb,n2,3\n")
    written = tmp_path / "jobs.json"
    done = streamplace(tmp_path, "import", "mycsv", str(table), "-o", str(written))
    assert done.returncode == 0, done.stderr
    assert "no capacity is known" in done.stderr
    assert Instance.load(written).tasks.load.tolist() == [[2.0], [3.0]]
    table.write_text("task,node,cpu\na,n1,2\nb,n2,x\n")
    done = streamplace(tmp_path, "import", "mycsv", str(table), "-o", str(written))
    assert done.returncode == 2
    assert "jobs.csv line 3" in done.stderr and "is no task,node,cpu" in done.stderr
