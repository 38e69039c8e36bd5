"""The table of figures for the documentation: ``python -m streamplace.cli.figure_table``."""

from __future__ import annotations

from optim.figures.catalogue import FIGURES
from streamplace.present.table import markdown

_UNITS = {
    "multiple": "multiple of the present rate", "resource": "first resource", "count": "number",
    "flag": "true or false", "table": "one each",
}  # fmt: skip
"""Of kinds of figures, where they are called otherwise."""


def figure_table() -> str:
    """Return the rows of ``docs/figures.md``, a figure each."""
    rows = [(f"`{f.name}`", f.words, _UNITS.get(f.unit, f.unit), f.sense or "") for f in FIGURES]
    return markdown(("figure", "what it is", "unit", "to optimise"), rows, right=())


if __name__ == "__main__":
    print(figure_table(), end="")
