"""The table of figures for the documentation: ``python -m streamplace.cli.figure_table``."""

from __future__ import annotations

from optim.figures.catalogue import FIGURES
from streamplace.present.table import markdown

_UNITS = {
    "rate": "rate",
    "multiple": "multiple of the present rate",
    "resource": "first resource",
    "share": "share",
    "count": "number",
    "state": "state",
    "price": "price",
    "flag": "true or false",
    "text": "text",
    "table": "one each",
}


def figure_table() -> str:
    """Return the rows of ``docs/figures.md``, a figure each."""
    rows = [(f"`{f.name}`", f.words, _UNITS[f.unit], f.sense or "") for f in FIGURES]
    return markdown(("figure", "what it is", "unit", "to optimise"), rows, right=())


if __name__ == "__main__":
    print(figure_table(), end="")
