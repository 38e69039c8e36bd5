"""A registry of timings, the entries of ``timings.toml``: fixed work and seeds, a table each.

An entry has title, columns and aim of its table, ``quick``: the parameters of the smallest work;
and

- ``each``: runs of ``run = "module:function"``, by default of `run_of`, as lists of their
  arguments, of which all combinations are run (the last one fastest; several such tables one after
  the other; ``alone``: each in a process of its own, for its peak of memory), and ``sql``, the rows
  of the table from theirs, ``runs``. ``"$name"`` is one of the ``parameters``; ``most`` is how many
  are run; ``warm`` has runs that come before and are not counted; ``told``: runs are reported on
  standard error as they end;
- or else ``run``, by default of its own name, yields the rows; its arguments are the parameters.

Defaults are the work that docs/benchmarks.md shows.
"""

from __future__ import annotations

import inspect
import os
import platform
import sys
import time
import tomllib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from experiments.generators import generate
from experiments.studies.bench.rebalancer_process import peak_megabytes
from experiments.studies.papers.query import connection
from experiments.studies.papers.tables import keys
from optim import Instance, solve
from optim.errors import InvalidInput, Problem, meant
from optim.methods.registry import package_version
from optim.plugins import loaded
from optim.referee import Result
from optim.util.process import processor_seconds
from streamplace.present.table import markdown

Rows = Iterable[Sequence[object]]

RUNS_ALONE = "STREAMPLACE_TIMINGS_RUNS_ALONE"
"""Set in the environment: runs are done and no table is made of them, which loads DuckDB."""

PACKAGES = ("numpy", "scipy", "numba", "ortools", "pulp", "highsbox", "pyspark")


class LeftOut(Exception):
    """A timing cannot be measured here; the text says what it needs."""


@dataclass(frozen=True)
class Timing:
    """A table that is measured: `rows` makes the set-up, does the work and yields them."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: Callable[..., Rows]
    aim: str
    quick: dict[str, Any]
    parameters: dict[str, Any]  # With their defaults.

    def measure(self, given: dict[str, Any]) -> dict[str, Any]:
        """Do the work, and return the table as a document."""
        began, used = time.perf_counter(), processor_seconds()
        rows = [list(row) for row in self.rows(**given)]
        return {
            "name": self.name, "title": self.title, "aim": self.aim, "given": given,
            "columns": list(self.columns), "rows": rows, "load": os.getloadavg()[0],
            "seconds": time.perf_counter() - began, "cpu_seconds": processor_seconds() - used,
        }  # fmt: skip


TIMINGS: dict[str, Timing] = {}  # By name, once they are read.


def read() -> dict[str, Timing]:
    """Return the timings of ``timings.toml``, in its order."""
    timings_by_key = {}
    for section, entries in _document("timings").items():
        for name, entry in entries.items():
            key = f"{section}.{name}"
            rows: Callable[..., Rows]
            if "sql" in entry:
                parameters = {"most": None, **entry.get("parameters", {})}
                rows = partial(solved, entry)
            else:
                rows = function_of(entry.get("run", f"{section}:{name}"))
                # the parameters of a timing are those of its function
                signature = inspect.signature(rows).parameters.items()
                parameters = {name: one.default for name, one in signature}
            about = (entry["title"], tuple(entry["columns"]), rows, entry.get("aim", ""))
            timings_by_key[key] = Timing(key, *about, entry.get("quick", {}), parameters)
    return timings_by_key


def _document(name: str) -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8"))


def function_of(place: str) -> Callable[..., Any]:
    """Return the function ``module:name`` of this folder."""
    function: Callable[..., Any] = loaded(f"{__package__}.{place}", "run")
    return function


def cases(name: str) -> list[Any]:
    """Return the instances of ``cases.toml`` under a name."""
    instances: list[Any] = _document("cases")[name]
    return instances


def solved(entry: dict[str, Any], most: int | None = None, **given: Any) -> Rows:
    """Do the runs of an entry, and yield what its SQL says of them."""
    parameters = {**entry.get("parameters", {}), **given}
    run = function_of(entry.get("run", "registry:run_of"))
    warm = [*keys(_with_parameters(entry.get("warm", []), parameters))]
    for key in warm:
        run(**key)
    runs: list[dict[str, Any]] = []
    for key in islice(keys(_with_parameters(entry["each"], parameters)), most):
        row = apart(_run_after, run, warm, key) if key.pop("alone", False) else run(**key)
        if row and entry.get("told"):
            print(row, file=sys.stderr, flush=True)
        runs += [{"number": len(runs), **row}] if row else []
    if RUNS_ALONE not in os.environ:
        yield from _table(entry["sql"], runs)


def _table(sql: str, runs: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return what a query says of runs."""
    import pyarrow as pa

    names = dict.fromkeys(key for run in runs for key in run)
    columns = {key: [run.get(key) for run in runs] for key in names}
    with connection() as db:
        db.register("runs", pa.table(columns))
        return db.execute(sql).fetchall()


def _run_after(
    run: Callable[..., Any], warm: list[dict[str, Any]], key: dict[str, Any]
) -> dict[str, Any] | None:
    """Return the row of a run after others, which are not counted."""
    for one in warm:
        run(**one)
    row: dict[str, Any] | None = run(**key)
    return row


def _with_parameters(value: Any, parameters: dict[str, Any]) -> Any:
    """Return a value with parameters in place of their names."""
    if isinstance(value, dict):
        return {key: _with_parameters(one, parameters) for key, one in value.items()}
    if isinstance(value, list):
        return [_with_parameters(one, parameters) for one in value]
    named = isinstance(value, str) and value.startswith("$")
    return parameters[value[1:]] if named else value


@lru_cache(4)
def _cached_instance(kind: str, seed: int, given: tuple[tuple[str, Any], ...]) -> Instance | None:
    make = function_of(kind) if ":" in kind else partial(generate, kind)
    instance: Instance | None = make(seed=seed, **dict(given))
    return instance


def instance_of(kind: str, seed: int, given: dict[str, Any]) -> Instance | None:
    """Return an instance of a generator, or of a function ``module:name`` that may have none."""
    return _cached_instance(kind, seed, tuple(given.items()))


FIGURES = ("imc_gain", "internode_traffic", "collocation_factor", "load_distance", "migrations")
ASKED = ("objective", "time_limit", "gap", "max_load_distance")


def run_of(
    kind: str, method: str, *, seed: int = 0, search_seed: int = 0, repeats: int = 1,
    options: dict[str, Any] | None = None, looks: Sequence[float] = (), aim: str = "",
    **given: Any,
) -> dict[str, Any] | None:  # fmt: skip
    """Solve an instance, and return the row of the run; ``None`` where there is no such instance.

    `kind`, `seed`, `**given`: of the instance (`instance_of`); but `ASKED` is for `solve`.
    `method`, `search_seed`, `options`: of `solve`. `repeats`: times: the least CPU and wall time
    count. `looks`: seconds at which the best value so far is read. `aim`: what is to be met, for
    the table.
    """
    solve_options = {name: given.pop(name) for name in ASKED if name in given}
    instance = instance_of(kind, seed, given)
    if instance is None:
        return None
    # an entry's options win over what it asks for
    words = {**solve_options, **(options or {}), "seed": search_seed}
    # the least of several: on a shared machine the least disturbed
    runs = [spend(solve, instance, method, **words) for _ in range(repeats)]
    result: Result = runs[-1].value
    evaluation, plan, times = result.evaluation, result.plan, result.times
    # shares of no traffic are 0
    total, room = instance.total_traffic or 1.0, instance.nodes.capacity[:, :1].sum()
    proved = proved_at(result)
    if str(result.termination) == "optimal":
        # optimality may be proved after the last point of the trace
        proved = min(proved, times["solve"] + times.get("build", 0.0))
    row = {
        **given, **solve_options, "kind": kind, "seed": seed, "search_seed": search_seed,
        "method": method,
        "options": ", ".join(f"{k} {v}" for k, v in (options or {}).items()), "aim": aim,
        "time_limit": solve_options.get("time_limit"), "instance": instance.name,
        "size": f"{instance.num_operators} × {instance.num_tasks} on {instance.num_nodes}",
        "used": 100 * instance.tasks.load[:, :1].sum() / room if room else None,
        "value": value_of(result), "bound": result.bound, "gap": result.gap,
        "ended": str(result.termination), "note": " ".join(result.notes[-1:]), "proved": proved,
        "first_note": " ".join(result.notes[:1]), "cpu": min(run.cpu for run in runs),
        "wall": min(run.wall - run.value.times.get("compile", 0.0) for run in runs),
        "solve": min(run.value.times["solve"] for run in runs),
        "build": times.get("build", 0.0), "total": total, "looks": [*looks],
        "seen": [distance_at(result, at) for at in looks], "memory": peak_megabytes() / 1024,
        "threads": sum((plan.threads or {}).values()) if plan else None,
        "planned": plan.planned_slots if plan else None,
    }  # fmt: skip
    row |= {name: getattr(evaluation, name) if evaluation else None for name in FIGURES}
    row["acquired"] = evaluation.slots if evaluation else None
    return row | {"violations": len(evaluation.violations) if evaluation else None}


def distance_at(result: Result, seconds: float) -> float:
    """Return the best value known by a moment of a run."""
    # trace points are in order of time
    values = [value for at, value, _ in result.trace if at <= seconds and value is not None]
    return values[-1] if values else float("nan")


def proved_at(result: Result, gap: float = 1e-3) -> float:
    """Return when value and bound came this near, infinity if never."""
    for at, value, bound in result.trace:
        if value is not None and bound is not None and value - bound <= gap * (1.0 + 1e-9):
            return at
    return float("inf")


def timings(names: Sequence[str] = ()) -> list[Timing]:
    """Return the timings of these names, or modules; all without a name.

    Raises `InvalidInput`: there is none of a name.
    """
    if not TIMINGS:
        TIMINGS.update(read())
    modules = dict.fromkeys(key.partition(".")[0] for key in TIMINGS)
    selected: dict[str, Timing] = {}
    for name in names or modules:
        chosen = {key: t for key, t in TIMINGS.items() if name in (key, key.partition(".")[0])}
        if not chosen:
            remedy = meant(name, [*modules, *TIMINGS])
            raise InvalidInput(Problem("NAME", name, "is no timing, and no module of them", remedy))
        selected |= chosen
    return list(selected.values())


def text(table: dict[str, Any]) -> str:
    """Return a table in Markdown under its title."""
    cells = [[_cell_text(cell) for cell in row] for row in table["rows"]]
    head = f"### {table['name']}: {table['title']}\n\n"
    if table["aim"]:
        head += f"Aim: {table['aim']}.\n\n"
    return head + markdown(table["columns"], cells, right=())


def _cell_text(cell: object) -> str:
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
