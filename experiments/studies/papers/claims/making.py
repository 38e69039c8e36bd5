"""Tables behind the claims: how each is made, at full size or smaller.

A paper's folder has a module ``measuring`` with ``TABLES``: by the name of the stored table a
`Making`.
"""

from __future__ import annotations

import importlib
import importlib.util
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from experiments.studies.papers.claims.judging import claiming_papers
from experiments.studies.papers.claims.tables import PAPERS, store_table
from optim.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pandas as pd


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
    module = f"experiments.studies.papers.{paper}.measuring"
    if importlib.util.find_spec(module) is None:
        return {}
    tables: dict[str, Making] = importlib.import_module(module).TABLES
    return tables
