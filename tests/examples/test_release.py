"""What a release is made of agrees: versions, workflows, hooks, templates, images."""

from __future__ import annotations

import contextlib
import fnmatch
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

yaml = pytest.importorskip("yaml", reason="the workflows are read with it")


@pytest.fixture(autouse=True)
def in_a_clone(repository: Path) -> None:
    if not (repository / ".github").exists():
        pytest.skip("the sources are not those of a clone")


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def project(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    return found


def test_one_version_stands_everywhere(repository: Path) -> None:
    version = project(repository)["version"]
    assert project(repository / "experiments" / "studies")["version"] == version
    assert str(read(repository / "CITATION.cff")["version"]) == version
    headings = re.findall(r"^## \[([^\]]+)\]", (repository / "CHANGELOG.md").read_text(), re.M)
    assert next(name for name in headings if name != "Unreleased") == version


def test_pinned_packages_run_on_the_oldest_python(repository: Path) -> None:
    """Each version in constraints.txt that is installed here says which Pythons it is for."""
    oldest = Version(project(repository)["requires-python"].removeprefix(">=") + ".0")
    lines = (repository / "constraints.txt").read_text().splitlines()
    names = [line.split("==")[0] for line in lines if "==" in line and ";" not in line]
    assert len(names) > 50
    for name in names:
        with contextlib.suppress(PackageNotFoundError):
            needed = metadata(name)["Requires-Python"] or ""
            assert oldest in SpecifierSet(needed), (name, needed)


def test_the_changelog_says_what_a_release_removes(repository: Path) -> None:
    version = project(repository)["version"]
    text = (repository / "CHANGELOG.md").read_text().split(f"## [{version}]")[1].split("\n## [")[0]
    for part in ("Added", "Changed", "Removed", "Gap and size"):
        assert f"\n### {part}\n" in text


def workflows(repository: Path) -> dict[str, Any]:
    folder = repository / ".github" / "workflows"
    return {path.name: read(path) for path in sorted(folder.glob("*.yml"))}


def test_the_workflows_run_what_is_there(repository: Path) -> None:
    """With actionlint, where it is installed; it was clean when the workflows were written."""
    found = workflows(repository)
    jobs = {name: job for flow in found.values() for name, job in flow["jobs"].items()}
    assert {"test", "wheel", "docs"} <= jobs.keys()
    targets = re.findall(r"^([\w-]+):", (repository / "Makefile").read_text(), re.M)
    for flow in found.values():
        assert True in flow  # YAML 1.1 reads `on` as true
        assert flow["permissions"] == {"contents": "write" if flow is found["site.yml"] else "read"}
    for name, job in jobs.items():
        assert job["timeout-minutes"] <= 90, name
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step), step
            assert re.fullmatch(r"[\w-]+/[\w-]+@v\d+", step.get("uses", "a/b@v1")), step
            for target in re.findall(r"^make ([\w-]+)", step.get("run", ""), re.M):
                assert target in targets
    versions = jobs["test"]["strategy"]["matrix"]["python"]
    assert versions == ["3.11", "3.12", "3.13", "3.14"]
    assert {"run": "bash .ci/run"} in jobs["test"]["steps"]
    if tool := shutil.which("actionlint"):
        subprocess.run([tool], cwd=repository, check=True)


def test_the_hooks_are_the_tools_of_make(repository: Path) -> None:
    makefile = (repository / "Makefile").read_text()
    (local,) = read(repository / ".pre-commit-config.yaml")["repos"]
    assert local["repo"] == "local"
    for hook in local["hooks"]:
        tool = hook["entry"].split()[0]
        assert tool.startswith(".venv/bin/")
        assert f"$(BIN)/{tool.removeprefix('.venv/bin/')}" in makefile


def test_the_templates_are_forms(repository: Path) -> None:
    forms = sorted((repository / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
    assert forms
    for path in forms:
        form = read(path)
        assert {"name", "description", "body"} <= form.keys()
        ids = [part["id"] for part in form["body"]]
        assert len(set(ids)) == len(ids)
        assert all(
            part["type"] == "textarea" and part["attributes"]["label"] for part in form["body"]
        )
    assert (repository / ".github" / "pull_request_template.md").exists()


def test_the_image_is_built_of_the_wheel_and_hadolint_finds_nothing(repository: Path) -> None:
    text = (repository / "Dockerfile").read_text()
    stages = re.findall(r"^FROM \S+ AS (\w+)$", text, re.M)
    assert stages[-1] == "slim" and "spark" in stages  # the last one is built unless one is named
    assert text.rstrip().endswith("USER 1000")
    ignored = (repository / ".dockerignore").read_text().split("\n")
    sent = [line[1:] for line in ignored if line.startswith("!")]
    assert "*" in ignored and "constraints.txt" in sent
    wheel = tomllib.loads((repository / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    needed = [*wheel["targets"]["wheel"]["packages"], "pyproject.toml", "README.md", "LICENSE"]
    assert all(any(fnmatch.fnmatch(name, part) for part in sent) for name in needed)
    tool = Path(sys.executable).with_name("hadolint")
    if not tool.exists():
        pytest.skip("hadolint is not installed")
    done = subprocess.run([tool, "Dockerfile"], cwd=repository, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
