"""A registry of timings: each is a function with fixed work and seeds that yields a table's rows.

A timing is called MODULE.FUNCTION, and has an entry of that name in ``timings.toml``. Its
parameters have defaults, which are the work that docs/benchmarks.md shows.
"""

from __future__ import annotations

import importlib
import inspect
import os
import platform
import time
import tomllib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from optim.errors import InvalidInput, Problem, meant
from optim.methods.registry import package_version
from optim.util.process import processor_seconds
from streamplace.present.table import markdown

if TYPE_CHECKING:
    from optim.referee.result import Result

Rows = Iterable[Sequence[object]]

PACKAGES = ("numpy", "scipy", "numba", "ortools", "pulp", "highsbox", "pyspark")


class LeftOut(Exception):
    """A timing cannot be measured here; the text says what it needs."""


@dataclass(frozen=True)
class Timing:
    """A table that is measured.

    Attributes
    ----------
    name
        MODULE.FUNCTION.
    title, columns, aim
        Of the table; the aim in words, or empty.
    rows
        Makes the set-up, does the work and yields the rows.
    quick
        Parameters of the smallest work.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: Callable[..., Rows]
    aim: str
    quick: dict[str, Any]

    @property
    def parameters(self) -> dict[str, Any]:
        """Its parameters with their defaults."""
        return {name: p.default for name, p in inspect.signature(self.rows).parameters.items()}

    def measure(self, given: dict[str, Any]) -> dict[str, Any]:
        """Do the work, and return the table as a document."""
        began, used = time.perf_counter(), processor_seconds()
        rows = [list(row) for row in self.rows(**given)]
        return {
            "name": self.name, "title": self.title, "aim": self.aim, "given": given,
            "columns": list(self.columns), "rows": rows, "load": os.getloadavg()[0],
            "seconds": time.perf_counter() - began, "cpu_seconds": processor_seconds() - used,
        }  # fmt: skip


TIMINGS: dict[str, Timing] = {}
"""By name, once they are read."""


def read() -> dict[str, Timing]:
    """Return the timings of ``timings.toml``, in its order."""
    told = tomllib.loads(Path(__file__).with_name("timings.toml").read_text(encoding="utf-8"))
    found = {}
    for module, entries in told.items():
        own = importlib.import_module(f"{__package__}.{module}")
        for name, entry in entries.items():
            about = (entry["title"], tuple(entry["columns"]), getattr(own, name))
            key = f"{module}.{name}"
            found[key] = Timing(key, *about, entry.get("aim", ""), entry.get("quick", {}))
    return found


def cases(name: str) -> list[Any]:
    """Return the instances of ``cases.toml`` under a name."""
    text = Path(__file__).with_name("cases.toml").read_text(encoding="utf-8")
    found: list[Any] = tomllib.loads(text)[name]
    return found


def timings(names: Sequence[str] = ()) -> list[Timing]:
    """Return the timings of these names, or modules; all without a name.

    Raises
    ------
    InvalidInput
        There is none of a name.
    """
    if not TIMINGS:
        TIMINGS.update(read())
    modules = dict.fromkeys(key.partition(".")[0] for key in TIMINGS)
    found: dict[str, Timing] = {}
    for name in names or modules:
        chosen = {key: t for key, t in TIMINGS.items() if name in (key, key.partition(".")[0])}
        if not chosen:
            remedy = meant(name, [*modules, *TIMINGS])
            raise InvalidInput(Problem("NAME", name, "is no timing, and no module of them", remedy))
        found |= chosen
    return list(found.values())


def text(table: dict[str, Any]) -> str:
    """Return a table in Markdown under its title."""
    cells = [[_shown(cell) for cell in row] for row in table["rows"]]
    head = f"### {table['name']}: {table['title']}\n\n"
    if table["aim"]:
        head += f"Aim: {table['aim']}.\n\n"
    return head + markdown(table["columns"], cells, right=())


def _shown(cell: object) -> str:
    """Return a cell; what is not known stays empty."""
    if cell is None or cell != cell:
        return ""
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)


def machine() -> str:
    """Return what it is measured on, in one line."""
    versions = ", ".join(f"{name} {package_version(name)}" for name in PACKAGES)
    load = f"load {os.getloadavg()[0]:.1f}"
    return f"{os.cpu_count()} cores ({load}), Python {platform.python_version()}, {versions}"


class Spent(NamedTuple):
    """What a call returned, and what it took: CPU seconds (child processes too) and wall time."""

    value: Any
    cpu: float
    wall: float


def spend(work: Callable[..., Any], *arguments: Any, **given: Any) -> Spent:
    """Call, and measure."""
    began, used = time.perf_counter(), processor_seconds()
    value = work(*arguments, **given)
    return Spent(value, processor_seconds() - used, time.perf_counter() - began)


def least(work: Callable[..., Any], *arguments: Any, repeats: int = 5, **given: Any) -> Spent:
    """Return the least of several calls: the least disturbed one on a shared machine."""
    runs = [spend(work, *arguments, **given) for _ in range(repeats)]
    return Spent(runs[-1].value, min(run.cpu for run in runs), min(run.wall for run in runs))


def apart(function: Callable[..., Any], *arguments: object) -> Any:
    """Call in a process of its own, for its peak memory and for what only the first call costs."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def value_of(result: Result) -> float | None:
    """Return the value of a result's objective, if there is a plan."""
    return None if result.objective is None else result.objective.value


def collocated(result: Result) -> float:
    """Return the share of all traffic inside nodes, percent."""
    return 0.0 if result.evaluation is None else 100 * (result.evaluation.collocation_factor or 0.0)
