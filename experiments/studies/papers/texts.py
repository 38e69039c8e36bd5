"""A figure's table as CSV and Markdown, and the page that sets it beside the paper's words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamplace.present.table import markdown

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from experiments.studies.papers.figure import Figure

REDUCED = "reduced run, smaller than the paper's"


def to_csv(table: pd.DataFrame) -> str:
    """Return the table with all digits; unknown values are empty."""
    return str(table.to_csv(index=False, lineterminator="\n"))


def to_markdown(table: pd.DataFrame) -> str:
    """Return the table for reading: four significant digits, unknown as a dash."""
    told = "by" in table.columns  # a column says who proves each
    heads = [by_whom(str(name), told=told) for name in table.columns]
    right = [head for head, kind in zip(heads, table.dtypes, strict=True) if kind.kind in "iuf"]
    return markdown(heads, [[*map(_cell, row)] for row in table.itertuples(index=False)], right)


def by_whom(head: str, *, told: bool = False) -> str:
    """Say of a column of proofs who gives them: one solver, unless a column says (`told`)."""
    if "prove" not in head:
        return head
    if head.startswith(("proved", "proven (")) or head == "proven":
        head = head.replace("proved", "optimal").replace("proven", "optimal")
    head = head.removesuffix(", proved").removeprefix("proven ")
    return head if told else f"{head}, by one solver"


def _cell(value: Any) -> str:
    import pandas as pd

    from streamplace.present.numbers import number

    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, str) and pd.isna(value):
        return "–"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return number(value)
    return str(value)


def linked(table: pd.DataFrame, link: str) -> str:
    """Return the words that stand for a stored table."""
    return f"[{len(table)} rows]({link})"


def page(
    figure: Figure,
    table: pd.DataFrame,
    measured: Sequence[str],
    reduced: bool,
    *,
    made: str = "",
    link: str = "",
) -> str:
    """Return the page: the paper's words, ours, the plot, the table.

    Parameters
    ----------
    measured
        Our figures as sentences.
    made
        How it was made: command, versions, size; empty where the page says so elsewhere.
    link
        Where the table is stored, for a page of the documentation, which does not show it.
    """
    about = [f"{figure.source}. `{figure.name}`"]
    about += [figure.size.removesuffix(".")] if figure.size else []
    about += [linked(table, link)] if link else []
    parts = [f"# {figure.title}", ". ".join(about)]
    if reduced:
        parts.append(f"**This is a {REDUCED}.**")
    parts += ["## The paper", figure.words] if figure.words else []
    parts += ["## Measured"]
    if measured:
        parts.append("\n".join(f"- {sentence}" for sentence in measured))
    parts += ["![Plot](plot.svg)"] + ([] if link else [to_markdown(table).rstrip()])
    if figure.readings:
        readings = "\n".join(f"- {reading}" for reading in figure.readings)
        parts += ["## Readings", readings]
    if made:
        parts += ["## How it was made", made]
    return "\n\n".join(parts) + "\n"
