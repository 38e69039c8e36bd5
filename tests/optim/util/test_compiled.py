"""The kernel decorator: cached on disk, renewed when a helper changes, and compiling is told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HELPERS = """
from optim.util.compiled import helper

@helper
def step(x):
    return x + {}
"""
KERNELS = """
from helpers_of_test import step
from optim.util.compiled import kernel

@kernel
def run(x):
    return step(x) * 10
"""
CALL = """
from optim.util.compilation import listening
from kernels_of_test import run
heard = []
with listening(lambda: heard.append(1)):
    value = run(1)
print(value, sum(run.stats.cache_hits.values()), bool(heard))
"""


NOWHERE = """
from numba.core import caching
for locator in (caching.InTreeCacheLocator, caching.UserWideCacheLocator):
    locator.from_function = classmethod(lambda *_: None)
"""


def call(folder: Path, repository: Path, before: str = "", **variables: str) -> list[str]:
    path = os.pathsep.join([str(folder), str(repository)])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    environment |= variables
    done = subprocess.run(
        [sys.executable, "-c", before + CALL],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_cache_is_used_and_renewed_with_the_helpers(tmp_path: Path, repository: Path) -> None:
    helpers, kernels = tmp_path / "helpers_of_test.py", tmp_path / "kernels_of_test.py"
    helpers.write_text(HELPERS.format(1))
    kernels.write_text(KERNELS)
    assert call(tmp_path, repository) == ["20", "0", "True"]
    assert call(tmp_path, repository) == ["20", "1", "False"]
    helpers.write_text(HELPERS.format(2))
    assert call(tmp_path, repository) == ["30", "0", "True"]


def test_cache_is_renewed_with_helpers_of_other_folders(tmp_path: Path, repository: Path) -> None:
    kernels, package = tmp_path / "kernels_of_test.py", tmp_path / "elsewhere"
    package.mkdir()
    helpers = package / "helpers.py"
    kernels.write_text(KERNELS.replace("helpers_of_test", "elsewhere.between"))
    (package / "__init__.py").write_text("")
    (package / "between.py").write_text("from elsewhere.helpers import step\n")
    helpers.write_text(HELPERS.format(1))
    assert call(tmp_path, repository) == ["20", "0", "True"]
    assert call(tmp_path, repository) == ["20", "1", "False"]
    helpers.write_text(HELPERS.format(2))
    assert call(tmp_path, repository) == ["30", "0", "True"]


def test_torn_files_of_the_cache_are_made_again(tmp_path: Path, repository: Path) -> None:
    (tmp_path / "helpers_of_test.py").write_text(HELPERS.format(1))
    (tmp_path / "kernels_of_test.py").write_text(KERNELS)
    assert call(tmp_path, repository) == ["20", "0", "True"]
    for ending, rest in (("nbi", 9), ("nbc", 100)):
        (file,) = (tmp_path / "__pycache__").glob(f"*.{ending}")
        file.write_bytes(file.read_bytes()[:rest])
        assert call(tmp_path, repository) == ["20", "0", "True"]
    assert call(tmp_path, repository) == ["20", "1", "False"]


def test_what_lies_beside_the_module_is_read_by_those_who_write_elsewhere(
    tmp_path: Path, repository: Path
) -> None:
    (tmp_path / "helpers_of_test.py").write_text(HELPERS.format(1))
    (tmp_path / "kernels_of_test.py").write_text(KERNELS)
    assert call(tmp_path, repository) == ["20", "0", "True"]
    other = {"NUMBA_CACHE_DIR": str(tmp_path / "other")}
    assert call(tmp_path, repository, **other) == ["20", "1", "False"]
    (tmp_path / "tmp").mkdir()
    nowhere = {"TMPDIR": str(tmp_path / "tmp")}
    assert call(tmp_path, repository, NOWHERE, **nowhere) == ["20", "1", "False"]
    assert not list((tmp_path / "tmp").iterdir())
