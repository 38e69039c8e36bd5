"""The papers' experiments, found by name: a folder a paper, its figures and claims as data.

``task-allocation/fig-4a`` is an entry of ``figures.toml`` in the folder of the paper, as
`experiments.studies.papers.figure` describes it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from experiments.studies.papers.figure import Figure

__all__ = ["all_figures", "find_figures"]


@cache
def all_figures() -> tuple[Figure, ...]:
    """Return every figure of every paper, in order of their names."""
    from experiments.report.database import natural_key
    from experiments.studies.papers.figure import read_figures

    folders = sorted(Path(__path__[0]).glob("*/figures.toml"))
    figures = [figure for path in folders for figure in read_figures(path)]
    return tuple(sorted(figures, key=lambda figure: natural_key(figure.name)))


def find_figures(name: str) -> list[Figure]:
    """Return the figure of a name, or all figures of a paper.

    `name`: as ``task-allocation/fig-4a``, or ``task-allocation`` for all of that paper. Raises
    `InvalidInput`: there is none of that name.
    """
    from optim.errors import InvalidInput, Problem, meant

    figures = all_figures()
    chosen = [f for f in figures if f.name == name or f.paper == name]
    if not chosen:
        names = [f.name for f in figures]
        remedy = meant(name, dict.fromkeys([*names, *(f.paper for f in figures)]))
        raise InvalidInput(Problem("NAME", name, "is no figure of a paper", remedy))
    return chosen
