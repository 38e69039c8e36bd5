"""The zip that executors import from: same bytes each time, importable, methods found in it."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from experiments.spark import session as shipped
from experiments.spark.session import build_zip, zip_content


def test_the_same_sources_give_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "optim"
    (package / "__pycache__").mkdir(parents=True)
    for name in ("b.py", "__init__.py", "data.json", "__pycache__/b.cpython-311.pyc"):
        (package / name).write_text(name)
    monkeypatch.setattr(shipped, "PACKAGES", ("optim",))
    monkeypatch.setattr(shipped, "_package_folder", lambda name: package)
    first = zip_content()
    os.utime(package / "b.py", (10**9, 10**9))
    assert zip_content() == first
    names = zipfile.ZipFile(build_zip(tmp_path)).namelist()
    assert [n for n in names if n.startswith("optim")] == [
        "optim/__init__.py", "optim/b.py", "optim/data.json",
    ]  # fmt: skip
    (package / "b.py").write_text("changed")
    assert zip_content() != first
    assert len(list(tmp_path.glob("streamplace-*.zip"))) == 1


def test_packages_and_entry_points_are_found_in_the_zip_alone(tmp_path: Path) -> None:
    """Imported from elsewhere than the source tree, with the installed distribution hidden."""
    path = build_zip(tmp_path)
    script = (
        "import sys, os\n"
        f"sys.path = [{str(path)!r}] + [p for p in sys.path if p and not "
        "os.path.isfile(os.path.join(p, 'optim', '__init__.py'))]\n"
        "import experiments.sweep.isolation, optim.methods.registry, heuristics, formulations\n"
        "from importlib.metadata import distribution\n"
        "print(experiments.sweep.isolation.__file__)\n"
        "method = optim.methods.registry.get_method('top-down')\n"
        "print(sys.modules[method.run.__module__].__file__)\n"
        "print(distribution('streamplace').version)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    worker, method, version = done.stdout.split()
    assert worker == f"{path}/experiments/sweep/isolation.py"
    assert method.startswith(f"{path}/")
    assert version
