"""Figures of a release, for *Gap and size* in CHANGELOG.md: ``.venv/bin/python .ci/size.py``.

Seconds are of the processor, the least of several processes, so that neighbours disturb little.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
SOLVE = [
    str(Path(sys.executable).with_name("streamplace")),
    "solve",
    "examples/capsys-q1.json",
    "-q",
]
REPEATS = 7


def lines_and_modules(*, studies: bool) -> tuple[int, int]:
    """Count lines and files of Python outside of the tests."""
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True)
    files = [
        ROOT / name
        for name in listed.stdout.split()
        if not name.startswith("tests/")
        and (studies or not name.startswith("experiments/studies/"))
    ]
    return sum(len(file.read_bytes().splitlines()) for file in files), len(files)


def installed_megabytes(name: str) -> float:
    """Sum up what a package and all that it requires without extras have in this environment."""
    seen, todo, size = set[str](), [Requirement(name)], 0
    while todo:
        requirement = todo.pop()
        key = requirement.name.lower().replace("_", "-")
        marker = requirement.marker
        if key in seen or (marker is not None and not marker.evaluate({"extra": ""})):
            continue
        seen.add(key)
        try:
            found = distribution(requirement.name)
        except PackageNotFoundError:
            continue
        paths = (Path(str(found.locate_file(file))) for file in found.files or ())
        size += sum(path.stat().st_size for path in paths if path.is_file())
        todo += map(Requirement, found.requires or ())
    return size / 1e6


def milliseconds(command: list[str]) -> float:
    """Return the least processor time of a command, after a run that fills caches."""
    spent = []
    for _ in range(REPEATS + 1):
        before = os.times()
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        after = os.times()
        spent.append(sum(after[2:4]) - sum(before[2:4]))
    return 1000 * min(spent[1:])


def main() -> None:
    """Print the figures."""
    lines, modules = lines_and_modules(studies=True)
    product, parts = lines_and_modules(studies=False)
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    words = sum(len(page.read_text(encoding="utf-8").split()) for page in pages)
    print(f"lines of Python, without tests    {lines:,} ({product:,} without studies)")
    print(f"modules                           {modules:,} ({parts:,} without studies)")
    print(f"words of documentation            {words:,}")
    print(f"install without extras            {installed_megabytes('streamplace'):,.0f} MB")
    bare = milliseconds([sys.executable, "-c", "import streamplace"])
    print(f"import streamplace                {bare:.0f} ms")
    load = "from streamplace import Instance, solve"
    print(f"from streamplace import solve     {milliseconds([sys.executable, '-c', load]):.0f} ms")
    print(f"streamplace solve capsys-q1.json  {milliseconds(SOLVE):.0f} ms")


if __name__ == "__main__":
    main()
