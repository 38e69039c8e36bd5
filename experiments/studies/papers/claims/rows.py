"""Rows of a figure that is drawn from tables behind the claims."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.studies.papers.claims.making import tables_of
from experiments.studies.papers.texts import to_csv
from optim.util.files import write_atomic

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from experiments.studies.papers.figure import Rows

TABLE = "table"
"""Column that names the table of a row."""


def table_rows(paper: str, *names: str) -> Rows:
    """Return the function that makes tables of a paper, or goes on with those in the folder.

    Parameters
    ----------
    paper
        Its folder.
    names
        Tables of its ``measuring.TABLES``; the frame has their rows one after the other, told
        apart by the column ``table``.
    """

    def rows(folder: Path, reduced: bool) -> pd.DataFrame:
        import pandas as pd

        frames = []
        for name in names:
            path = folder / f"{name}.csv"
            if not path.is_file():
                folder.mkdir(parents=True, exist_ok=True)
                write_atomic(path, to_csv(tables_of(paper)[name].make(reduced)))
            frames.append(pd.read_csv(path).assign(**{TABLE: name}))
        return pd.concat(frames, ignore_index=True)

    return rows
