"""The table of figures for the documentation: ``python -m streamplace.cli.figure_table``."""

from __future__ import annotations

from optim.figures.catalogue import FIGURES

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
    lines = ["| figure | what it is | unit | to optimise |", "|---|---|---|---|"]
    for figure in FIGURES:
        words = figure.words.replace("|", "\\|")
        lines.append(
            f"| `{figure.name}` | {words} | {_UNITS[figure.unit]} | {figure.sense or ''} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(figure_table(), end="")
