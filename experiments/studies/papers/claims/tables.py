"""Stored tables: a CSV file in the paper's folder, its record beside it, and how each is made."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import platform
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.studies.papers.texts import to_csv
from optim.errors import InvalidInput, Problem
from optim.methods.registry import PACKAGES, package_version
from optim.util.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd


PAPERS = Path(__file__).parent.parent
"""Folder of the papers' folders."""


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
    module = f"experiments.studies.papers.{paper}.measurements"
    if importlib.util.find_spec(module) is None:
        return {}
    tables: dict[str, Making] = importlib.import_module(module).TABLES
    return tables
