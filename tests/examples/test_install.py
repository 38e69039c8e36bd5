"""What pip is told is told to uv, or uv is left alone."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture
def installer(repository: Path) -> ModuleType:
    path = repository / ".ci" / "install.py"
    if not path.exists():
        pytest.skip("the sources are not those of a clone")
    spec = importlib.util.spec_from_file_location("installer", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_settings_of_pip_are_told_to_uv_the_environments_last(installer: ModuleType) -> None:
    listed = (
        ":env:.find-links='/a /b'\n:env:.index-url='https://me@own/simple'\n"
        "global.index-url='https://other/simple'\nglobal.disable-pip-version-check='1'\n"
        "install.trusted-host='own'\nfreeze.timeout='7'\n"
    )
    assert installer.environment(listed) == {
        "UV_FIND_LINKS": "/a,/b",
        "UV_DEFAULT_INDEX": "https://me@own/simple",
        "UV_INSECURE_HOST": "own",
    }


def test_what_only_pip_follows_leaves_it_to_pip(installer: ModuleType) -> None:
    assert installer.environment("install.no-binary='pyspark'\n") is None


@pytest.mark.parametrize("fails", ["get", "install"])
def test_pip_does_it_where_uv_cannot(
    installer: ModuleType, fails: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []
    uv = tmp_path / "uv"
    if fails == "install":
        (uv / "bin").mkdir(parents=True)
        (uv / "bin" / "uv").touch()

    def run(command: list[Any], **_: Any) -> subprocess.CompletedProcess[str]:
        ran.append([str(word) for word in command])
        failed = str(uv) in " ".join(ran[-1])
        return subprocess.CompletedProcess(command, int(failed), "", "")

    monkeypatch.setattr(installer.subprocess, "run", run)
    monkeypatch.setattr(installer, "UV", uv)
    monkeypatch.setattr(sys, "argv", ["install.py", "-e", "."])
    monkeypatch.delenv("STREAMPLACE_INSTALLER", raising=False)
    assert installer.main() == 0
    assert ran[-1][:3] == [sys.executable, "-m", "pip"]
    assert ran[-1][-4:] == ["-c", "constraints.txt", "-e", "."]
    assert len(ran) == 3
