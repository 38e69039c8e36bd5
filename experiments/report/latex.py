"""Tables of a report for a paper: one ``table`` each, ruled by booktabs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from experiments.report.document import MOST_ROWS
from experiments.report.formats import printable, show, unit

if TYPE_CHECKING:
    from experiments.report.document import Cell, Column, Table

MOST_ON_A_PAGE = 40
"""Longer tables are ``longtable`` environments, which break over pages."""

_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#",
    "%": r"\%", "_": r"\_", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\textquotedbl{}",
    "≤": r"$\le$", "≥": r"$\ge$", "×": r"$\times$", "÷": r"$\div$", "−": "$-$", "–": "--",
    "†": r"\dag{}", "µ": r"\textmu{}", "“": "``", "”": "''", "\u00a0": "~", "…": r"\dots{}",
    "ρ": r"$\rho$", "τ": r"$\tau$", "→": r"$\to$",
    "[": "{[}", "*": "{*}",  # at the start of a row they would belong to the line break before it
}  # fmt: skip


def to_latex(table: Table) -> str:
    r"""Return a table for ``\input``; needs the packages booktabs and, if long, longtable.

    Texts that the page explains below a table are its caption; its label is ``tab:`` and its key.
    """
    long = len(table.rows) > MOST_ON_A_PAGE
    columns = "".join("r" if column.numeric else "l" for column in table.columns)
    cut = len(table.rows) > MOST_ROWS
    more = f"The first {MOST_ROWS} of {len(table.rows)} rows." if cut else ""
    text = " ".join(filter(None, (table.heading + ".", table.caption, more)))
    caption = rf"\caption{{{escape(text)}}}"
    label = rf"\label{{tab:{table.key}}}"
    heads = " & ".join(_heading(column, table) for column in table.columns)
    lines = [
        " & ".join(_cell(cell, column) for cell, column in zip(row, table.columns, strict=True))
        for row in table.rows[:MOST_ROWS]
    ]
    if table.last_is_summary and lines and not cut:
        lines[-1] = rf"\midrule {lines[-1]}"
    body = [rf"{line} \\" for line in lines]
    top = [r"\toprule", rf"{heads} \\", r"\midrule"]
    bottom = [*body, r"\bottomrule"]
    if long:
        start = [rf"\begin{{longtable}}{{{columns}}}", rf"{caption} {label} \\"]
        # the caption on the first page only: on each it would be numbered and labelled again
        heads_of = [*top, r"\endfirsthead", *top, r"\endhead"]
        parts = [*start, *heads_of, *bottom, r"\end{longtable}"]
    else:
        start = [r"\begin{table}", r"\centering", caption, label]
        start.append(rf"\begin{{tabular}}{{{columns}}}")
        parts = [*start, *top, *bottom, r"\end{tabular}", r"\end{table}"]
    return "\n".join([*parts, ""])


def escape(text: str) -> str:
    r"""Return a text that LaTeX shows as it is.

    >>> print(escape("a_b: 5 % ≤ c"))
    a\_b: 5 \% $\le$ c
    """
    plain = printable(" ".join(text.splitlines()))
    return re.sub(r"[^A-Za-z0-9 ]", lambda found: _SPECIAL.get(found.group(), found.group()), plain)


def _heading(column: Column, table: Table) -> str:
    measure = table.column_unit(column)
    return escape(f"{column.label} ({measure})" if measure else column.label)


def _cell(cell: Cell, column: Column) -> str:
    text = show(cell.value, column.kind)
    if column.kind == "duration":
        text = f"{text} {unit(cell.value, column.kind)}".strip()
    text = escape(text)
    if column.kind == "name":
        text = rf"\texttt{{{text}}}" if text else ""
    text = rf"\textbf{{{text}}}" if cell.best else text
    return f"{text} {escape(cell.note)}".strip()
