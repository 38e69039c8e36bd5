"""What every benchmark prints: its name, the machine, and one Markdown table."""

from __future__ import annotations

import os
import platform
import time
from typing import TYPE_CHECKING

from optim.methods.registry import package_version
from optim.util.process import processor_seconds as processor_seconds
from streamplace.present.table import markdown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a Markdown table under its title, with the machine and versions it was measured on."""
    packages = ("numpy", "scipy", "numba", "ortools", "pulp", "highsbox", "pyspark")
    versions = ", ".join(f"{name} {package_version(name)}" for name in packages)
    print(f"### {title}\n")
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}, {versions}\n")
    print(markdown(columns, [[_shown(cell) for cell in row] for row in rows], right=()))


def _shown(cell: object) -> str:
    """Return a cell; what is not known stays empty."""
    if cell is None or cell != cell:
        return ""
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)


def best_of(function: Callable[[], object], repeats: int = 5) -> float:
    """Return the least seconds of several calls: the least disturbed one on a shared machine."""
    spent = []
    for _ in range(repeats):
        started = time.perf_counter()
        function()
        spent.append(time.perf_counter() - started)
    return min(spent)
