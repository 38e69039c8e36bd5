"""Stored tables: a CSV file in the paper's folder, and beside it how it was made."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from optim.errors import InvalidInput, Problem
from optim.methods.registry import PACKAGES, package_version
from optim.util.files import write_atomic

if TYPE_CHECKING:
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
        Rows with plain columns; the index is not kept.
    command, seeds, left_out, left_out_why, reduced, said, seconds
        As in `About`.
    root
        Folder of the papers' folders.
    """
    from experiments.studies.papers.texts import to_csv

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
