"""The documentation's commands are run and their output compared; its links lead somewhere.

A console block whose command starts with ``$ streamplace`` is run, page by page in one folder, so
that a later command finds what an earlier one wrote. ``...`` in the output stands for anything,
as in doctest: times and versions differ from run to run. Sweeps and reports take minutes and have
tests of their own; here only their dry runs are run.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.command import run_command

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = [
    REPOSITORY / name
    for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples/README.md")
] + sorted((REPOSITORY / "docs").rglob("*.md"))
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
TUTORIALS = sorted((REPOSITORY / "docs" / "tutorials").glob("*.md"))
BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
GRADED = (
    (re.compile(r"^note +certificate of .*\n", re.MULTILINE), ""),
    (re.compile(r"^optimal \([\w-]+\)", re.MULTILINE), "optimal"),
    (re.compile(r"(  gap \S+ %)  certified bound .*"), r"\1"),
    (re.compile(r"\bcertified bound\b"), "bound"),
    (re.compile(r"^ +\d+\.\d+ s  \S+: .*\n", re.MULTILINE), ""),
)
"""Solves of a second and more tell of their progress and certify their bounds: not the same on each
machine."""
SHELL = re.compile(r"[|<>;&$*`~]")
PROCESSES = frozenset({"trace", "sweep", "report", "replay", "versions"})
COMPARED = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Example(NamedTuple):
    """A command of a page and the output the page shows."""

    command: str
    output: str


def examples_of(page: Path) -> list[Example]:
    """Return the commands of a page that are ours, in order."""
    found = []
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            slow = re.match(r"streamplace (sweep|report) ", command) and "--dry-run" not in command
            if command.startswith("streamplace ") and not slow:
                found.append(Example(command, output.strip("\n")))
    return found


def ungraded(text: str) -> str:
    """Return an output without what depends on the speed of the machine."""
    for pattern, instead in GRADED:
        text = pattern.sub(instead, text)
    return text


def same(command: str, shown: str, printed: str) -> None:
    """Fail unless a command prints what the page shows."""
    checker = doctest.OutputChecker()
    example = doctest.Example(command, shown.strip("\n") + "\n")
    printed = printed.replace("\xa0", " ")  # doctest takes it for no space
    if not checker.check_output(ungraded(example.want), ungraded(printed), COMPARED):
        pytest.fail(f"{command}\n{checker.output_difference(example, printed, COMPARED)}")


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a line of a page: here, unless a shell is needed or the command starts a JVM."""
    environment = {"COLUMNS": "100", "NO_COLOR": "1"}
    words = shlex.split(command, comments=True)
    if not SHELL.search(command) and words[1] not in PROCESSES:
        return run_command(words[1:], folder, environment, merged=True)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**os.environ, **environment, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )


LONG = {"explain.md", "traces.md"}  # minutes, and JVMs
WITH_EXAMPLES = [
    pytest.param(page, marks=[pytest.mark.slow] if page.name in LONG else [])
    for page in PAGES
    if examples_of(page) and page not in TUTORIALS  # these run in test_site.py
]


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda page: page.name)
def test_commands_print_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(REPOSITORY / "examples")
    for example in examples_of(page):
        done = run(example.command, tmp_path)
        if example.output:
            same(example.command, example.output, done.stdout)
        assert "internal error" not in done.stdout


def test_the_readme_shows_commands() -> None:
    assert any(example.output for example in examples_of(REPOSITORY / "README.md"))


def anchors(page: Path | str) -> list[str]:
    """Return the anchors of the headings of a page, or of one heading, as GitHub names them."""
    text = page if isinstance(page, str) else page.read_text(encoding="utf-8")
    found: list[str] = []
    for title in re.findall(r"^#+ (.*)", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).strip().lower()
        found.append(re.sub(r"[^\w\- ]", "", words).replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), f"{page.name} links to {target}"
        assert file.is_relative_to(REPOSITORY)
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file), f"{page.name} links to {target}"
