"""Stored tables: a CSV file in the paper's folder, its record beside it, and how each is made.

A paper's ``tables.toml`` has an entry for each table that is made from

- ``sweep``: sweeps as the product runs them, and ``sql`` on their rows, the table ``runs``;
- ``run``: a function ``"module:name"`` of the paper, called with each combination of ``each``
  (lists or ranges by argument, the last one fastest; several tables one after the other). It gives
  a row, or several, which follow the arguments that they do not name (``bare``: which have none
  added), and gets what ``given`` has as well. With ``keep``, rows stay for the next time.

``seeds`` and ``reduced_seeds`` say in words which; ``reduced`` has the changes of a smaller table,
by dotted place (a number for an entry of a list, ``*`` for all); ``columns`` names those of the
table where they are not all; ``left_out`` and ``left_out_why`` are as in `About`.
"""

from __future__ import annotations

import copy
import json
import platform
import shutil
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.studies.papers.query import Tables
from optim import Instance, Result
from optim.errors import InvalidInput, Problem, StreamplaceError
from optim.methods.registry import PACKAGES, package_version
from optim.plugins import loaded
from optim.util.files import write_atomic
from optim.util.process import usable_cores
from optim.util.store import fingerprint, remembered

if TYPE_CHECKING:
    import pandas as pd

    from experiments.sweep.spec import Spec

Row = dict[str, Any]

PAPERS = Path(__file__).parent  # Folder of the papers' folders.
MADE = Path("build/papers")  # Where finished parts of a table are stored: ``PAPER/tables/NAME``.


@dataclass(frozen=True, kw_only=True)
class About:
    """How a stored table was made."""

    command: str  # that makes it again
    seeds: str  # which, as text: `0-99`; `one instance` where nothing is random
    rows: int  # of the table
    # left_out, left_out_why: runs without a row in it, and why.
    left_out: int = 0
    left_out_why: str = ""
    # versions, date, machine: of what made it.
    versions: dict[str, str]
    date: str
    machine: str
    reduced: bool = False  # whether the run was smaller than the paper's
    # Sentences that were computed with the table and cannot be from its columns alone.
    said: tuple[str, ...] = ()
    seconds: float | None = None  # that it took; `None` where earlier versions made it


def store_table(
    paper: str, name: str, frame: pd.DataFrame, *, root: Path = PAPERS, **about: Any
) -> Path:
    """Write a table and its record into the paper's folder, and return its path.

    `paper`, `name`: the paper's folder, as ``task_allocation``; the table, as ``graphs``. `frame`:
    rows with plain columns; the index is not stored. `root`: folder of the papers' folders.
    `about`: of `About`, ``command`` and ``seeds`` at least; the rest is of this machine.
    """
    folder = root / paper / "tables"
    folder.mkdir(parents=True, exist_ok=True)
    versions = {"python": platform.python_version()}
    versions |= {p: v for p in PACKAGES if (v := package_version(p))}
    machine = f"{platform.machine()}, {usable_cores()} cores"
    date = datetime.now(UTC).date().isoformat()
    whole = About(rows=len(frame), versions=versions, date=date, machine=machine, **about)
    path = folder / f"{name}.csv"
    write_atomic(path, to_csv(frame))
    text = json.dumps(asdict(whole), indent=1, ensure_ascii=False)
    write_atomic(path.with_suffix(".json"), text + "\n")
    return path


def has_table(paper: str, name: str, root: Path = PAPERS) -> bool:
    """Return whether a table is stored."""
    return (root / paper / "tables" / f"{name}.csv").is_file()


def load_table(paper: str, name: str, root: Path = PAPERS) -> pd.DataFrame:
    """Return a stored table. Raises `InvalidInput`: there is none of that name."""
    import pandas as pd

    path = root / paper / "tables" / f"{name}.csv"
    if not path.is_file():
        remedy = f"make it: `streamplace paper --tables {paper}/{name}`"
        raise InvalidInput(Problem(name, str(path), "is no stored table", remedy))
    return pd.read_csv(path)


def about_table(paper: str, name: str, root: Path = PAPERS) -> About:
    """Return how a stored table was made."""
    path = root / paper / "tables" / f"{name}.json"
    return About(**json.loads(path.read_text(encoding="utf-8")))


@dataclass(frozen=True)
class Making:
    """How a table is made: its entry of ``tables.toml``, and the views that SQL may name there."""

    paper: str
    name: str
    entry: Row
    views: Mapping[str, str]

    def make(self, reduced: bool) -> pd.DataFrame:
        """Return the table, or a smaller one.

        Runs without a row in it are counted in ``attrs["left_out"]``; ``attrs["left_out_why"]``
        says why.
        """
        entry = change(self.entry, self.entry.get("reduced", {})) if reduced else self.entry
        folder = MADE / self.paper / "tables" / (f"{self.name}-reduced" if reduced else self.name)
        if "sweep" in entry:
            runs = run_all(entry["sweep"], PAPERS / self.paper, folder)
            with Tables({"runs": runs}, self.views, f"{self.paper}/{self.name}") as tables:
                frame = tables.table(entry["sql"])
            shutil.rmtree(folder)  # the next time all is run again
        else:
            frame = runs_of(self.paper, entry, folder)
        frame.attrs |= {key: entry[key] for key in ("left_out", "left_out_why") if key in entry}
        return frame


def claiming_papers(name: str | None = None) -> list[str]:
    """Return the folders of the papers that have claims, or the one that is named.

    Raises `InvalidInput`: the named paper has none.
    """
    papers = sorted(path.parent.name for path in PAPERS.glob("*/claims.toml"))
    if name is None:
        return papers
    folder = name.replace("-", "_")
    if folder not in papers:
        remedy = f"one of {', '.join(papers)}"
        raise InvalidInput(Problem("NAME", name, "is no paper with claims", remedy))
    return [folder]


def makings(name: str) -> list[Making]:
    """Return how the tables of a name are made: ``PAPER``, ``PAPER/TABLE`` or ``all``.

    Raises `InvalidInput`: there is none of that name.
    """
    paper, _, table = name.partition("/")
    candidates = [
        making
        for folder in claiming_papers(None if paper == "all" else paper)
        for making in tables_of(folder).values()
    ]
    chosen = [making for making in candidates if table in ("", making.name)]
    if not chosen:
        names = ", ".join(making.name for making in candidates)
        remedy = f"one of {names}" if candidates else "this paper has no tables of claims yet"
        raise InvalidInput(Problem("NAME", name, "is no table of a paper's claims", remedy))
    return chosen


def make_table(making: Making, reduced: bool, root: Path = PAPERS) -> Path:
    """Make a table, store it, and return its path."""
    began = time.monotonic()
    frame, paper, name = making.make(reduced), making.paper, making.name
    whole: str = making.entry["seeds"]
    left_out: Any = frame.attrs
    return store_table(
        paper,
        name,
        frame,
        command=f"streamplace paper --tables {paper}/{name}" + (" --reduced" if reduced else ""),
        seeds=making.entry.get("reduced_seeds", whole) if reduced else whole,
        reduced=reduced,
        seconds=round(time.monotonic() - began, 1),
        root=root,
        **left_out,
    )


def tables_of(paper: str) -> dict[str, Making]:
    """Return how the tables of a paper's folder are made, by name."""
    path = PAPERS / paper / "tables.toml"
    document = tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    views = document.pop("views", {})
    return {name: Making(paper, name, entry, views) for name, entry in document.items()}


def runs_of(paper: str, entry: Row, folder: Path) -> pd.DataFrame:
    """Return the rows of an entry's runs; with ``keep`` those that the folder has are not made."""
    import pandas as pd

    run, arguments = function_of(paper, entry["run"]), entry.get("given", {})
    rows = [
        row if entry.get("bare") else {**{k: v for k, v in key.items() if k not in row}, **row}
        for key in keys(entry.get("each", {}))
        for row in _rows(run, {**arguments, **key}, folder if entry.get("keep") else None)
    ]
    return pd.DataFrame(rows)[entry.get("columns", slice(None))]


def function_of(paper: str, place: str) -> Callable[..., Any]:
    """Return the function ``module:name`` of a paper."""
    function: Callable[..., Any] = loaded(f"experiments.studies.papers.{paper}.{place}", "run")
    return function


def _rows(run: Callable[..., Any], key: Row, folder: Path | None) -> list[Row]:
    """Return the rows of a run: made, or those that are in the folder."""

    def make() -> list[Row]:
        result = run(**key)
        return [result] if isinstance(result, dict) else list(result)

    if folder is None:
        return make()
    rows: list[Row] = remembered(folder / f"{fingerprint(key)}.json", key, make)
    return rows


def keys(each: Row | list[Row]) -> Iterator[Row]:
    """Yield the combinations of arguments."""
    for factors in each if isinstance(each, list) else [each]:
        # {from, to, step} has both ends, {from, below} not the last
        values = [
            range(v["from"], v["below"] if "below" in v else v["to"] + 1, v.get("step", 1))
            if isinstance(v, dict)
            else v
            for v in factors.values()
        ]
        for combination in product(*values):
            yield dict(zip(factors, combination, strict=True))


def to_csv(table: pd.DataFrame) -> str:
    """Return the table with all digits; unknown values are empty."""
    return str(table.to_csv(index=False, lineterminator="\n"))


# --- rows of sweeps --------------------------------------------------------------------------

_SHOWN_ERRORS = 3
_WIDE = ("trace", "result", "versions", "factors")


def run_rows(spec: Spec, folder: Path, *, wide: bool = False) -> pd.DataFrame:
    """Run a sweep, or the rest of it, and return its rows.

    They have the columns of `experiments.sweep.row`, and each factor as one more, numbers as
    numbers: ``instance.nodes``, ``option.priority``, ``load_share``, …

    `wide`: keep the columns ``trace``, ``result`` (the whole result as JSON) and ``versions``.
    Raises `StreamplaceError`: a run failed, or Spark did; what is finished stays in the folder.
    """
    from experiments.sweep import plan_runs, run_sweep
    from experiments.sweep.store import MARKER

    again = (folder / MARKER).is_file()
    run_sweep(spec, folder)
    rows = read_planned(folder, wide)
    if again:
        # rows keep the label of their day; a label is no part of a run's key, and may be new
        # rows of an earlier run have the label that the method had then
        labels = {run.key: run.label for run in plan_runs(spec).runs}
        rows["method_label"] = rows["run_key"].map(labels)
    return rows


def load(path: Path, changes: Mapping[str, Any] | None = None) -> Spec:
    """Read a sweep file, at full size or, with changes, reduced; the latter says so in its name.

    Raises `InvalidInput`: the file, or what the changes made of it, is wrong. Raises `KeyError,
    IndexError`: a change names no place in the file.
    """
    from experiments.sweep import Spec

    document = tomllib.loads(path.read_text(encoding="utf-8"))
    if changes is not None:
        document = change(document, changes)
        document["name"] = f"{document['name']} (reduced)"
    return Spec.from_dict(document, path.parent, path.name)


def run_all(sweeps: Sequence[Mapping[str, Any]], base: Path, folder: Path) -> pd.DataFrame:
    """Run sweeps one after another; return their rows, ``sweep`` the name, results as JSON too.

    A sweep runs an instance once that several seeds make; here every seed has its rows.
    """
    import pandas as pd

    from experiments.spark.session import spark_session
    from experiments.sweep import Spec

    specs = [Spec.from_dict(dict(one), base, one["name"]) for one in sweeps]
    with spark_session("local[*]"):
        frames = [run_rows(s, folder / s.name, wide=True).merge(_seeds(s)) for s in specs]
    return pd.concat(frames)


def _seeds(spec: Spec) -> pd.DataFrame:
    """Return each seed, and the instance of the first one that makes the same."""
    import pandas as pd

    from experiments.generators import generate
    from experiments.sweep.instances import content_hash

    rows = []
    for entry in spec.generators:
        for values in product(*entry.parameters.values()):
            parameters, first = dict(zip(entry.parameters, values, strict=True)), dict[str, str]()
            for seed in entry.seeds:
                instance = generate(entry.kind, seed=seed, **parameters)
                name = first.setdefault(content_hash(instance), instance.name)
                rows.append({"instance": name, "drawn": seed})
    return pd.DataFrame(rows)


def change(document: Any, changes: Mapping[str, Any]) -> Any:
    """Return a document with other values at dotted places; ``*`` is every entry of a list.

    Raises `KeyError`, `IndexError`: a change names no place; a new one would hide a slip in it.
    """
    document = copy.deepcopy(document)
    for place, value in changes.items():
        _change(document, place.split("."), value)
    return document


def _change(document: Any, place: Sequence[str], value: Any) -> None:
    step, *rest = place
    if step == "*":
        for entry in document:
            _change(entry, rest, value)
        return
    key: Any = int(step) if isinstance(document, list) else step
    inner = document[key]  # raises where there is none
    if rest:
        _change(inner, rest, value)
    else:
        document[key] = value


def read_planned(folder: Path, wide: bool = False) -> pd.DataFrame:
    """Return the rows that a folder's sweep means now, in the order of the matrix.

    Raises `StreamplaceError`: a run ended otherwise than ``ok``: a figure must not be drawn from
    what is left.
    """
    from experiments.sweep import read_rows_pandas
    from experiments.sweep.store import ResultFolder

    rows = read_rows_pandas(folder).set_index("run_key")
    # the folder may have runs of an earlier version of the sweep
    rows = rows.loc[ResultFolder(folder).marker()["runs"]].reset_index()
    failed = rows[rows["outcome"] != "ok"]
    if len(failed):
        errors = [f"{r.method_label} on {r.instance}: {r.error}" for r in failed.itertuples()]
        raise StreamplaceError(
            f"{len(failed)} of {len(rows)} runs failed; first: "
            + "; ".join(errors[:_SHOWN_ERRORS])
            + f"; `streamplace sweep … -o {folder} --retry-failed` does them again"
        )
    return _with_factors(rows, wide)


def _with_factors(rows: pd.DataFrame, wide: bool) -> pd.DataFrame:
    import pandas as pd

    factors = pd.DataFrame(list(rows["factors"]), index=rows.index)
    factors = factors.drop(columns=[name for name in factors if name in rows])
    for name in factors:
        # a factor that is a number for all runs that have it is one here
        numbers = pd.to_numeric(factors[name], errors="coerce")
        if (numbers.notna() == factors[name].notna()).all():
            factors[name] = numbers
    dropped = ["factors"] if wide else list(_WIDE)
    return pd.concat([rows.drop(columns=dropped), factors], axis=1)


# --- who proves the optima -------------------------------------------------------------------

BY, GAP = "by", "certified gap"
CASES, SECONDS = 2000, 10.0
"""Most cases of a certificate, and seconds of the processor to write one."""


def certified_of(instance: Instance, result: Result) -> dict[str, Any]:
    """Certify an optimum as far as that is quickly done, for a row of a figure.

    `BY` is as `bound_by` of results, `GAP` a share; both ``None`` of what has no bound.
    """
    from optim.certificates.grade import certified

    graded, _ = certified(result, instance.to_json().encode(), nodes=CASES, seconds=SECONDS)
    return {BY: graded.bound_by, GAP: graded.certified_gap}
