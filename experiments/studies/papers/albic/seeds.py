"""Rows of many seeds, each kept as soon as it is there, so that a run can be gone on with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.studies.papers.albic.following import Row, frame, kept

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import pandas as pd

FOLDER = Path("build/papers/albic/claims")
"""Where finished runs are kept."""


def rows_of(
    table: str, keys: Iterable[Mapping[str, Any]], make: Callable[..., list[Row]]
) -> pd.DataFrame:
    """Return the rows that `make` gives for every key, taken from the folder where they are there.

    Parameters
    ----------
    table
        What the rows are for; part of their key.
    keys
        Arguments of `make`.
    make
        Called with a key as keyword arguments.
    """
    rows: list[Row] = []
    for key in keys:
        rows += kept(FOLDER, {"table": table, **key}, lambda k=key: make(**k))  # type: ignore[misc]
    return frame(rows)
