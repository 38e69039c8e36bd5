"""The papers' experiments, found by name: a folder a paper, its figures and claims as data.

``task-allocation/fig-4a`` is an entry of ``figures.toml`` in the folder of the paper, or one of the
``FIGURES`` of a module there. How to add one stands in `experiments.studies.papers.figure`.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from experiments.studies.papers.figure import Figure

__all__ = ["all_figures", "find_figures"]


@cache
def all_figures() -> tuple[Figure, ...]:
    """Return every figure of every paper, in order of their names."""
    found = [figure for paper in _papers() for figure in _figures_of(paper)]
    return tuple(sorted(found, key=lambda figure: _natural(figure.name)))


def find_figures(name: str) -> list[Figure]:
    """Return the figure of a name, or all figures of a paper.

    Parameters
    ----------
    name
        As ``task-allocation/fig-4a``, or ``task-allocation`` for all of that paper.

    Raises
    ------
    InvalidInput
        There is none of that name.
    """
    from optim.errors import InvalidInput, Problem, meant

    figures = all_figures()
    chosen = [f for f in figures if f.name == name or f.paper == name]
    if not chosen:
        names = [f.name for f in figures]
        remedy = meant(name, dict.fromkeys([*names, *(f.paper for f in figures)]))
        raise InvalidInput(Problem("NAME", name, "is no figure of a paper", remedy))
    return chosen


def _papers() -> Iterator[str]:
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        if module.ispkg:
            yield module.name


def _figures_of(paper: str) -> Iterator[Figure]:
    """Give the figures of a paper's package; helpers, some of them compiled, are not imported."""
    from experiments.studies.papers.figure import read_figures

    package = importlib.import_module(paper)
    data = Path(*package.__path__, "figures.toml")
    if data.is_file():
        yield from read_figures(data)
    for module in pkgutil.iter_modules(package.__path__, f"{paper}."):
        if "\nFIGURES = (" in _source(module):
            yield from importlib.import_module(module.name).FIGURES


def _source(module: pkgutil.ModuleInfo) -> str:
    inside = module.name.removeprefix(f"{__name__}.").replace(".", "/")
    path = Path(__path__[0], f"{inside}.py")
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a key that puts fig-9 before fig-10."""
    import re

    parts = re.findall(r"\d+|\D+", name)
    return [(int(p), "") if p.isdigit() else (-1, p) for p in parts]
