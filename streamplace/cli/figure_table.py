"""The list of figures for the documentation: ``python -m streamplace.cli.figure_table``."""

from __future__ import annotations

from optim.figures.catalogue import FIGURES

_UNITS = {
    "multiple": "multiple of the present rate", "resource": "first resource", "count": "number",
    "flag": "true or false", "table": "one each",
}  # fmt: skip
"""Of kinds of figures, where they are called otherwise."""


def figure_list() -> str:
    """Return the lines of ``docs/figures.md``, a figure each: its unit, its sense, what it is."""
    lines = []
    for figure in FIGURES:
        sense = f"; **{figure.sense}**" if figure.sense else ""
        unit = _UNITS.get(figure.unit, figure.unit)
        lines.append(f"- `{figure.name}` ({unit}{sense}): {figure.words}\n")
    return "".join(lines)


if __name__ == "__main__":
    print(figure_list(), end="")
