"""Tables: what they hold, and the one way in which each form of them is written.

Values are plain numbers and texts; how they are shown follows from their column's kind, so that
every form shows the same: rich in a terminal, tabulate for Markdown and LaTeX, CSV with full
numbers; the page of a report fills its template with `shown` cells.
"""

from __future__ import annotations

import itertools
import re
import textwrap
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rich.text import Text

from streamplace.present import numbers
from streamplace.present.streams import plain_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rich.table import Table as Grid

Kind = Literal["text", "name"] | numbers.Kind
Value = str | int | float | None

MOST_ROWS = 1000
"""Longer tables are cut on pages, in Markdown and in LaTeX; their CSV files hold every row."""

MOST_ON_A_PAGE = 40
"""Longer tables are ``longtable`` environments of LaTeX, which break over pages."""

_CSV_ROWS = 100_000
"""Rows that are written at a time."""

_MANY_COLUMNS = 4
_SPACES = "\u00a0\u202f"


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    key: str  # Its name in CSV files.
    label: str  # Its heading.
    #: What it holds: ``count``; ``share`` (1 = 100 %, one decimal), ``gap`` (1 = 100 %, two
    #: decimals), ``points`` (absolute, of a load distance), ``number``, ``duration`` (s),
    #: ``chance`` (a p value), ``text``, or ``name`` (of a contestant, in the typewriter face).
    kind: Kind = "text"
    help: str = ""  # What it means, in one sentence.
    detail: bool = False  # Whether it is left out where space is short, as in a terminal.

    @property
    def numeric(self) -> bool:
        """Whether it holds numbers, which are aligned to the right."""
        return self.kind not in ("text", "name")


class Cell(NamedTuple):
    """A value with something to say about it."""

    value: Value  # The value; ``None`` is unknown and stays blank.
    note: str = ""  # A remark shown after it, such as a bound that is not met.
    #: Relative distance to the optimum, shown as a shade; ``None`` for no shade.
    distance: float | None = None
    best: bool = False  # Whether it is set apart as the best of its row.


def row(*values: Value | Cell) -> tuple[Cell, ...]:
    """Return a row of cells."""
    return tuple(value if isinstance(value, Cell) else Cell(value) for value in values)


def filled(
    columns: Sequence[Column], records: Iterable[Mapping[str, Any]]
) -> tuple[tuple[Cell, ...], ...]:
    """Return a row a record: what it has under the keys of the columns."""
    return tuple(row(*(record.get(column.key) for column in columns)) for record in records)


@dataclass(frozen=True)
class Table:
    """Rows under columns, with a caption that defines what is not plain."""

    key: str  # Its name in file names.
    title: str  # Its heading.
    #: What it holds; a row has one `Cell` per column.
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""  # Definitions and remarks.
    #: Whether the last row sums up the others, such as the virtual best.
    last_is_summary: bool = False
    #: Number of columns at the left that name the row; repeated where a table is split.
    lead: int = 1
    #: Gives the values of all rows, a column each (a list, or an array in which ``nan`` is
    #: unknown), where `rows` has the first ones only.
    values: Callable[[], Sequence[Any]] | None = None
    num_more: int = 0

    @property
    def num_rows(self) -> int:
        """The number of all rows."""
        return len(self.rows) + self.num_more

    @property
    def cut(self) -> str:
        """What is said where not all rows are shown; else empty."""
        return f"The first {MOST_ROWS} of {self.num_rows} rows" if self.num_rows > MOST_ROWS else ""

    @property
    def shown(self) -> Table:
        """The table as people read it: the first rows, without columns that hold nothing there."""
        rows = self.rows[:MOST_ROWS]
        is_filled = [
            number < self.lead or any(line[number].value not in (None, "") or line[number].note
                                      for line in rows)
            for number in range(len(self.columns))
        ]  # fmt: skip
        cut, columns = replace(self, num_more=self.num_rows - len(rows), rows=rows), self.columns
        if not rows or all(is_filled):
            return cut
        lines = tuple(tuple(itertools.compress(line, is_filled)) for line in rows)
        return replace(cut, columns=tuple(itertools.compress(columns, is_filled)), rows=lines)

    @property
    def unit(self) -> str:
        """The unit that all its numbers share, stated once beside the title; else empty."""
        kinds = {column.kind for column in self.columns if column.numeric}
        many = sum(column.numeric for column in self.columns) >= _MANY_COLUMNS
        return "%" if many and kinds <= {"share", "gap"} else ""

    @property
    def heading(self) -> str:
        """Its title, with the unit of its numbers where they share one."""
        return f"{self.title} ({self.unit})" if self.unit else self.title

    def column_unit(self, column: Column) -> str:
        """Return the unit that belongs into the heading of a column."""
        return "%" if column.kind in ("share", "gap") and not self.unit else ""

    def label(self, column: Column) -> str:
        """Return the heading of a column with its unit."""
        measure = self.column_unit(column)
        return f"{column.label} ({measure})" if measure else column.label

    def is_spanned(self, line: tuple[Cell, ...]) -> bool:
        """Whether a row says one thing only, in its first cell after those that name it."""
        cells = line[self.lead :]
        return (
            bool(cells)
            and bool(cells[0].note)
            and all(cell.value is None for cell in cells)
            and not any(cell.note for cell in cells[1:])
        )


# --- values ----------------------------------------------------------------------------------


def show(value: Value, kind: Kind) -> str:
    """Return the text of a cell without its unit; unknown is an empty text, never a zero."""
    return _parts(value, kind)[0]


def unit(value: Value, kind: Kind) -> str:
    """Return the unit that follows a value of this kind."""
    return _parts(value, kind)[1]


def with_unit(value: Value, kind: Kind) -> str:
    """Return a value as it stands in a sentence, not to be broken from its unit."""
    if value is None or isinstance(value, str):
        return show(value, kind)
    return numbers.in_line(float(value), _number_kind(kind)).replace(" ", "\u00a0")


def _parts(value: Value, kind: Kind) -> tuple[str, str]:
    if value is None:
        return "", ""
    if isinstance(value, str):
        return printable(value), ""
    return numbers.in_column(float(value), _number_kind(kind))


def _number_kind(kind: Kind) -> numbers.Kind:
    return "number" if kind == "text" or kind == "name" else kind


def printable(text: str) -> str:
    """Replace control characters: names come from files, and pages and terminals obey them."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in _SPACES else "\ufffd" for c in text)


def _measured(cell: Cell, column: Column) -> str:
    """Return a value with its unit, where the heading does not have it."""
    text = show(cell.value, column.kind)
    return f"{text} {unit(cell.value, column.kind)}".strip() if column.kind == "duration" else text


# --- CSV -------------------------------------------------------------------------------------


def to_csv(table: Table) -> str:
    """Return a table as CSV with full numbers: shares and gaps as parts of 1, times in s.

    A text that a spreadsheet would take for a formula gets an apostrophe before it.
    """
    if table.values is None or not table.num_more:
        columns: Sequence[Any] = [
            [cell.value for cell in column] for column in zip(*table.rows, strict=True)
        ]
    else:
        columns = table.values()
    head = ",".join(_csv_texts([column.key for column in table.columns]))
    parts = [head or '""']
    for start in range(0, len(columns[0]) if columns else 0, _CSV_ROWS):
        texts = [_csv_texts(column[start : start + _CSV_ROWS]) for column in columns]
        lines = map(",".join, zip(*texts, strict=True))
        parts.append("\n".join(line or '""' for line in lines))
    return "\n".join(parts) + "\n"


def _csv_texts(values: Any) -> list[str]:
    """Return values as CSV has them; one that stands often is written once."""
    # arrays of numbers: each distinct value is formatted once
    kind = getattr(getattr(values, "dtype", None), "kind", "")
    if kind not in ("f", "i"):
        # few names stand in many rows
        cache: dict[str, str] = {}
        return [
            (cache.get(x) or cache.setdefault(x, _csv_text(x))) if type(x) is str else _csv_text(x)
            for x in values
        ]
    import numpy as np

    numbers = np.ascontiguousarray(values)
    # by their bits, as -0.0 is no 0.0
    distinct, place = np.unique(numbers.view(f"i{numbers.itemsize}"), return_inverse=True)
    texts = [_csv_text(number) for number in distinct.view(numbers.dtype).tolist()]
    return list(np.array(texts, dtype=object)[place])


def _csv_text(value: Value) -> str:
    if value is None or value != value:
        return ""
    if isinstance(value, float):
        return repr(round(value, 12)) if -1e15 < value < 1e15 else repr(value)
    if not isinstance(value, str):
        return str(value)
    text = to_cell(printable(value))
    return '"' + text.replace('"', '""') + '"' if "," in text or '"' in text else text


# --- Markdown --------------------------------------------------------------------------------

_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~&$])")


def escape(text: str) -> str:
    """Return a text that Markdown shows as it is, in one line."""
    return _MARKDOWN.sub(r"\\\1", printable(" ".join(text.splitlines())))


def markdown(
    heads: Sequence[str], rows: Sequence[Sequence[object]], right: Sequence[str] | None = None
) -> str:
    r"""Return texts as a table of GitHub's Markdown; what is Markdown in them stays so.

    `heads`, `rows`: headings, and a text a cell; ``None`` is empty.
    `right`: headings of columns that are aligned to the right; all but the first if not given.

    >>> print(markdown(["task", "load"], [["a|b", 12], ["c", None]]), end="")
    | task | load |
    |---|---:|
    | a\|b | 12 |
    | c | |
    """
    from tabulate import tabulate

    right = heads[1:] if right is None else right
    cells = [["" if cell is None else _in_a_cell(str(cell)) for cell in line] for line in rows] or [
        [""] * len(heads)
    ]
    text = tabulate(
        cells,
        headers=[_in_a_cell(head) for head in heads],
        tablefmt="pipe",
        disable_numparse=True,
        colalign=["right" if head in right else "left" for head in heads],
    )
    # as narrow as can be: pages hold sentences in cells, and a changed one would move all others
    head, rule, *body = re.sub(" +", " ", text).splitlines()
    lines = [head, re.sub(":?-+", "---", rule), *(body if rows else [])]
    return "\n".join(lines) + "\n"


def _in_a_cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join(text.splitlines()))


def to_markdown(table: Table) -> str:
    """Return a table in the form of GitHub's Markdown, every text as it is."""
    shown = table.shown
    lines = [
        [_markdown_cell(cell, column) for cell, column in zip(line, shown.columns, strict=True)]
        for line in shown.rows
    ]
    heads = [escape(shown.label(column)) for column in shown.columns]
    right = [head for head, column in zip(heads, shown.columns, strict=True) if column.numeric]
    text = markdown(heads, lines, right).rstrip("\n")
    return f"{text}\n\n{table.cut}; the CSV file has all." if table.cut else text


def _markdown_cell(cell: Cell, column: Column) -> str:
    text = _measured(cell, column)
    if cell.note:
        text = f"{text} ({cell.note})" if column.numeric and text else f"{text} {cell.note}"
    return escape(text.strip())


# --- LaTeX -----------------------------------------------------------------------------------

_NAME, _BEST, _END = "\ue000", "\ue001", "\ue002"
_LATEX = str.maketrans({
    _NAME: r"\texttt{", _BEST: r"\textbf{", _END: "}", "|": r"\textbar{}", '"': r"\textquotedbl{}",
    "≤": r"$\le$", "≥": r"$\ge$", "×": r"$\times$", "÷": r"$\div$", "−": "$-$", "–": "--",
    "†": r"\dag{}", "µ": r"\textmu{}", "“": "``", "”": "''", "\u00a0": "~", "…": r"\dots{}",
    "ρ": r"$\rho$", "τ": r"$\tau$", "→": r"$\to$",
    "[": "{[}", "*": "{*}",  # at the start of a row they would belong to the line break before it
})  # fmt: skip


def to_latex(table: Table) -> str:
    r"""Return a table for ``\input``; needs the packages booktabs and, if long, longtable.

    Texts that the page explains below a table are its caption; its label is ``tab:`` and its key.
    """
    from tabulate import SEPARATING_LINE, tabulate

    shown = table.shown
    lines: list[object] = [
        [_latex_cell(cell, column) for cell, column in zip(line, shown.columns, strict=True)]
        for line in shown.rows
    ]
    if table.last_is_summary and lines and not table.cut:
        lines.insert(-1, SEPARATING_LINE)
    heads = [printable(shown.label(column)) for column in shown.columns]
    align = ["right" if column.numeric else "left" for column in shown.columns]
    form: dict[str, Any] = {"tablefmt": "latex_booktabs", "disable_numparse": True}
    text = _tabulated(tabulate(lines, headers=heads, colalign=align, **form))
    parts = (f"{shown.heading}.", table.caption, table.cut and f"{table.cut}.")
    caption = " ".join(filter(None, parts))
    captioned = rf"\caption{{{latex(caption)}}}" + "\n" + rf"\label{{tab:{table.key}}}"
    if len(shown.rows) <= MOST_ON_A_PAGE:
        return f"\\begin{{table}}\n\\centering\n{captioned}\n{text}\n\\end{{table}}\n"
    begin, _, rest = text.replace("{tabular}", "{longtable}").partition("\n")
    head, rule, body = rest.partition("\\midrule\n")
    head += rule.rstrip("\n")
    # the caption on the first page only: on each it would be numbered and labelled again
    return f"{begin}\n{captioned} \\\\\n{head}\n\\endfirsthead\n{head}\n\\endhead\n{body}\n"


def _latex_cell(cell: Cell, column: Column) -> str:
    text = _measured(cell, column)
    text = f"{_NAME}{text}{_END}" if column.kind == "name" and text else text
    text = f"{_BEST}{text}{_END}" if cell.best else text
    return f"{text} {printable(cell.note)}".strip()


def latex(text: str) -> str:
    r"""Return a text that LaTeX shows as it is.

    >>> print(latex("a_b: 5 % ≤ c"))
    a\_b: 5 \% $\le$ c
    """
    from tabulate import tabulate

    plain = printable(" ".join(text.splitlines()))
    rendered = tabulate([[plain]], tablefmt="latex_booktabs", disable_numparse=True)
    return _tabulated(rendered.split("\\toprule\n ")[1].split(" \\\\\n")[0].rstrip())


def _tabulated(text: str) -> str:
    """Write what tabulate leaves as it is: it escapes what ASCII has."""
    return text.translate(_LATEX)


# --- terminal --------------------------------------------------------------------------------


def split(table: Table, width: int) -> Iterator[Table]:
    """Cut a table into parts that fit a width, each with the columns that name the rows."""
    widths = [_width(table, number) for number in range(len(table.columns))]
    lead = sum(widths[: table.lead])
    start = table.lead
    while start < len(table.columns):
        # at least one column a part, however narrow the terminal
        end, used = start + 1, lead + widths[start]
        while end < len(table.columns) and used + widths[end] <= max(width, _NARROWEST):
            used += widths[end]
            end += 1
        chosen = [*range(table.lead), *range(start, end)]
        yield replace(
            table,
            columns=tuple(table.columns[i] for i in chosen),
            rows=tuple(tuple(line[i] for i in chosen) for line in table.rows),
        )
        start = end


_NARROWEST = 40
_GAP = 2
STAR = "*"
"""Stands for a remark that is only in the report."""


def grid(table: Table, *, units: bool = True) -> Grid:
    """Return a table as rich draws it; headings name the unit of their numbers, if `units`."""
    drawn = plain_table([])
    for column in table.columns:
        drawn.add_column(
            Text("\n".join(_heading(column, units=units))),
            vertical="bottom",
            overflow="fold",
            justify="right" if column.numeric else "left",
        )
    for number, line in enumerate(table.rows):
        last = table.last_is_summary and number == len(table.rows) - 1
        cells = [_text(cell, column) for cell, column in zip(line, table.columns, strict=True)]
        drawn.add_row(*cells, style="italic" if last else "")
    return drawn


def _heading(column: Column, *, units: bool = True) -> list[str]:
    """Return a heading in short lines."""
    words = printable(column.label).split()
    words += ["%"] if units and column.kind in ("share", "gap") else []
    text = " ".join(words)
    return textwrap.wrap(text, 9, break_long_words=False, break_on_hyphens=False) or [""]


def _text(cell: Cell, column: Column) -> Text:
    text = show(cell.value, column.kind)
    if column.kind == "duration" and text:
        text = f"{text} {unit(cell.value, column.kind):<3}"
    styled = Text(text, style="bold" if cell.best else "dim" if cell.value is None else "")
    if cell.note:
        space = " " if text and cell.note != STAR else ""
        styled.append(f"{space}{printable(cell.note)}", style="dim")
    return styled


def _width(table: Table, number: int) -> int:
    column = table.columns[number]
    shown: Sequence[int] = [len(_text(line[number], column)) for line in table.rows]
    return max([*shown, *(len(line) for line in _heading(column))], default=0) + _GAP


_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def to_cell(text: str) -> str:
    """Return a text with an apostrophe before it where it would be run as a formula.

    One that begins with apostrophes and goes on like that gets one more, so that it can be
    recognised from the others.
    """
    return f"'{text}" if text.lstrip("'").startswith(_FORMULA) else text


def from_cell(text: str) -> str:
    """Return what `to_cell` made this of."""
    return text[1:] if text[:1] == "'" and text.lstrip("'").startswith(_FORMULA) else text
