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

import importlib
import json
import os
import platform
import shutil
import time
import tomllib
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.studies.papers.query import Tables
from experiments.studies.papers.sweeps import change, run_all
from experiments.studies.papers.texts import to_csv
from optim.errors import InvalidInput, Problem
from optim.methods.registry import PACKAGES, package_version
from optim.util.files import write_atomic
from optim.util.store import fingerprint, remembered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pandas as pd


Row = dict[str, Any]

PAPERS = Path(__file__).parent.parent
"""Folder of the papers' folders."""

MADE = Path("build/papers")
"""Where finished parts of a table are stored: ``PAPER/tables/NAME``."""


@dataclass(frozen=True)
class About:
    """How a stored table was made.

    Attributes
    ----------
    command
        That makes it again.
    seeds
        Which, as text: ``0-99``; ``one instance`` where nothing is random.
    rows
        Of the table.
    left_out, left_out_why
        Runs without a row in it, and why.
    versions, date, machine
        Of what made it.
    reduced
        Whether the run was smaller than the paper's.
    said
        Sentences that were computed with the table and cannot be from its columns alone.
    seconds
        That it took; ``None`` where earlier versions made it.
    """

    command: str
    seeds: str
    rows: int
    left_out: int
    left_out_why: str
    versions: dict[str, str]
    date: str
    machine: str
    reduced: bool = False
    said: tuple[str, ...] = ()
    seconds: float | None = None


def store_table(
    paper: str,
    name: str,
    frame: pd.DataFrame,
    *,
    command: str,
    seeds: str,
    left_out: int = 0,
    left_out_why: str = "",
    reduced: bool = False,
    said: tuple[str, ...] = (),
    seconds: float | None = None,
    root: Path = PAPERS,
) -> Path:
    """Write a table and its record into the paper's folder, and return its path.

    Parameters
    ----------
    paper, name
        The paper's folder, as ``task_allocation``; the table, as ``graphs``.
    frame
        Rows with plain columns; the index is not stored.
    command, seeds, left_out, left_out_why, reduced, said, seconds
        As in `About`.
    root
        Folder of the papers' folders.
    """

    folder = root / paper / "tables"
    folder.mkdir(parents=True, exist_ok=True)
    versions = {"python": platform.python_version()}
    versions |= {p: v for p in PACKAGES if (v := package_version(p))}
    machine = f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores"
    date = datetime.now(UTC).date().isoformat()
    made = (versions, date, machine, reduced, said, seconds)
    about = About(command, seeds, len(frame), left_out, left_out_why, *made)
    path = folder / f"{name}.csv"
    write_atomic(path, to_csv(frame))
    text = json.dumps(asdict(about), indent=1, ensure_ascii=False)
    write_atomic(path.with_suffix(".json"), text + "\n")
    return path


def has_table(paper: str, name: str, root: Path = PAPERS) -> bool:
    """Return whether a table is stored."""
    return (root / paper / "tables" / f"{name}.csv").is_file()


def load_table(paper: str, name: str, root: Path = PAPERS) -> pd.DataFrame:
    """Return a stored table.

    Raises
    ------
    InvalidInput
        There is none of that name.
    """
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
    """How a table is made.

    Attributes
    ----------
    make
        Called with whether the run is to be smaller; gives the frame. Runs without a row in it are
        counted in ``frame.attrs["left_out"]``, and why in ``frame.attrs["left_out_why"]``.
    seeds, reduced_seeds
        Which, as text, at full size and smaller.
    """

    make: Callable[[bool], pd.DataFrame]
    seeds: str
    reduced_seeds: str = ""


def claiming_papers(name: str | None = None) -> list[str]:
    """Return the folders of the papers that have claims, or the one that is named.

    Raises
    ------
    InvalidInput
        The named paper has none.
    """
    papers = sorted(path.parent.name for path in PAPERS.glob("*/claims.toml"))
    if name is None:
        return papers
    folder = name.replace("-", "_")
    if folder not in papers:
        remedy = f"one of {', '.join(papers)}"
        raise InvalidInput(Problem("NAME", name, "is no paper with claims", remedy))
    return [folder]


def makings(name: str) -> list[tuple[str, str, Making]]:
    """Return paper, table and making of a name: ``PAPER``, ``PAPER/TABLE`` or ``all``.

    Raises
    ------
    InvalidInput
        There is none of that name.
    """
    paper, _, table = name.partition("/")
    found = [
        (folder, key, making)
        for folder in claiming_papers(None if paper == "all" else paper)
        for key, making in tables_of(folder).items()
        if table in ("", key)
    ]
    if not found:
        known = [key for folder in claiming_papers(paper) for key in tables_of(folder)]
        remedy = f"one of {', '.join(known)}" if known else "this paper has no tables of claims yet"
        raise InvalidInput(Problem("NAME", name, "is no table of a paper's claims", remedy))
    return found


def make_table(paper: str, name: str, making: Making, reduced: bool, root: Path = PAPERS) -> Path:
    """Make a table, store it, and return its path."""
    began = time.monotonic()
    frame = making.make(reduced)
    return store_table(
        paper,
        name,
        frame,
        command=f"streamplace paper --tables {paper}/{name}" + (" --reduced" if reduced else ""),
        seeds=(making.reduced_seeds or making.seeds) if reduced else making.seeds,
        left_out=int(frame.attrs.get("left_out", 0)),
        left_out_why=str(frame.attrs.get("left_out_why", "")),
        reduced=reduced,
        seconds=round(time.monotonic() - began, 1),
        root=root,
    )


def tables_of(paper: str) -> dict[str, Making]:
    """Return how the tables of a paper's folder are made, by name."""
    path = PAPERS / paper / "tables.toml"
    told = tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    views = told.pop("views", {})
    return {
        name: Making(
            partial(_made, paper, name, entry, views),
            entry["seeds"],
            entry.get("reduced_seeds", ""),
        )
        for name, entry in told.items()
    }


def _made(
    paper: str, name: str, entry: Row, views: Mapping[str, str], reduced: bool
) -> pd.DataFrame:
    """Make the table of an entry of ``tables.toml``."""
    if reduced:
        entry = change(entry, entry.get("reduced", {}))
    folder = MADE / paper / "tables" / (f"{name}-reduced" if reduced else name)
    if "sweep" in entry:
        runs = run_all(entry["sweep"], PAPERS / paper, folder)
        with Tables({"runs": runs}, views, f"{paper}/{name}") as tables:
            frame = tables.table(entry["sql"])
        shutil.rmtree(folder)  # the next time all is run again
    else:
        frame = runs_of(paper, entry, folder)
    frame.attrs |= {key: entry[key] for key in ("left_out", "left_out_why") if key in entry}
    return frame


def runs_of(paper: str, entry: Row, folder: Path) -> pd.DataFrame:
    """Return the rows of an entry's runs; with ``keep`` those that the folder has are not made."""
    import pandas as pd

    run, given = function_of(paper, entry["run"]), entry.get("given", {})
    rows = [
        row if entry.get("bare") else {**{k: v for k, v in key.items() if k not in row}, **row}
        for key in keys(entry.get("each", {}))
        for row in _rows(run, {**given, **key}, folder if entry.get("keep") else None)
    ]
    return pd.DataFrame(rows)[entry.get("columns", slice(None))]


def function_of(paper: str, place: str) -> Callable[..., Any]:
    """Return the function ``module:name`` of a paper."""
    module, _, name = place.partition(":")
    own = importlib.import_module(f"experiments.studies.papers.{paper}.{module}")
    function: Callable[..., Any] = getattr(own, name)
    return function


def _rows(run: Callable[..., Any], key: Row, folder: Path | None) -> list[Row]:
    """Return the rows of a run: made, or those that are in the folder."""

    def make() -> list[Row]:
        found = run(**key)
        return [found] if isinstance(found, dict) else list(found)

    if folder is None:
        return make()
    rows: list[Row] = remembered(folder / f"{fingerprint(key)}.json", key, make)
    return rows


def keys(each: Row | list[Row]) -> Iterator[Row]:
    """Yield the combinations of arguments."""
    for factors in each if isinstance(each, list) else [each]:
        values = [
            range(v["from"], v["below"] if "below" in v else v["to"] + 1, v.get("step", 1))
            if isinstance(v, dict)
            else v
            for v in factors.values()
        ]
        for combination in product(*values):
            yield dict(zip(factors, combination, strict=True))
