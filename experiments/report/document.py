"""What a report consists of, before it is written as a page, as text or as CSV.

Values are plain numbers and texts; how they are shown follows from their column's kind, in one
place (`formats`), so that every form shows the same.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from streamplace.present import numbers

if TYPE_CHECKING:
    from experiments.report.svg import Drawing

Kind = Literal["text", "name"] | numbers.Kind
Value = str | int | float | None

MOST_ROWS = 1000
"""Longer tables are cut on the page and in Markdown; their CSV files hold every row."""

_MANY_COLUMNS = 4
_LONGEST_SLUG = 60


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes
    ----------
    key
        Its name in CSV files.
    label
        Its heading.
    kind
        What it holds: ``count``; ``share`` (1 = 100 %, one decimal), ``gap`` (1 = 100 %, two
        decimals), ``points`` (absolute, of a load distance), ``number``, ``duration`` (s),
        ``chance`` (a p value), ``text``, or ``name`` (of a contestant, in the typewriter face).
    help
        What it means, in one sentence.
    detail
        Whether it is left out where space is short, as in a terminal.
    """

    key: str
    label: str
    kind: Kind = "text"
    help: str = ""
    detail: bool = False

    @property
    def numeric(self) -> bool:
        """Whether it holds numbers, which are aligned to the right."""
        return self.kind not in ("text", "name")


@dataclass(frozen=True)
class Cell:
    """A value with something to say about it.

    Attributes
    ----------
    value
        The value; ``None`` is unknown and stays blank.
    note
        A remark shown after it, such as a bound that is not met.
    distance
        Relative distance to the optimum, shown as a shade; ``None`` for no shade.
    best
        Whether it is set apart as the best of its row.
    """

    value: Value
    note: str = ""
    distance: float | None = None
    best: bool = False


@dataclass(frozen=True)
class Table:
    """Rows under columns, with a caption that defines what is not plain.

    Attributes
    ----------
    key
        Its name in file names.
    title
        Its heading.
    columns, rows
        What it holds; a row has one value or `Cell` per column.
    caption
        Definitions and remarks.
    last_is_summary
        Whether the last row sums up the others, such as the virtual best.
    lead
        Number of columns at the left that name the row; repeated where a table is split.
    """

    key: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    last_is_summary: bool = False
    lead: int = 1

    @property
    def unit(self) -> str:
        """The unit that all its numbers share, told once beside the title; else empty."""
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

    def is_spanned(self, row: tuple[Cell, ...]) -> bool:
        """Whether a row says one thing only, in its first cell after those that name it."""
        said = row[self.lead :]
        return (
            bool(said)
            and bool(said[0].note)
            and all(cell.value is None for cell in said)
            and not any(cell.note for cell in said[1:])
        )


@dataclass(frozen=True)
class Figure:
    """A drawing with the table that holds its numbers."""

    key: str
    title: str
    drawing: Drawing
    table: Table
    caption: str = ""


@dataclass(frozen=True)
class Part:
    """What is folded under a line of its own: sentences, then small tables.

    Attributes
    ----------
    title, note
        The line, and what is said in short after it.
    lines, tables
        What is under it; such tables have no CSV files.
    """

    title: str
    note: str
    lines: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True)
class Section:
    """A heading with an introduction, tables and figures.

    Attributes
    ----------
    key, title, text
        Name, heading and introduction.
    tables
        Tables shown open.
    figures
        Figures, each with its table folded.
    folded
        Tables that are there to be looked up.
    parts
        What is told of single cases.
    """

    key: str
    title: str
    text: str = ""
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    folded: tuple[Table, ...] = ()
    parts: tuple[Part, ...] = ()

    @property
    def all_tables(self) -> tuple[Table, ...]:
        """Every table, in the order of the page."""
        return (*self.tables, *(figure.table for figure in self.figures), *self.folded)


@dataclass(frozen=True)
class Report:
    """The whole report.

    Attributes
    ----------
    title
        Its heading.
    summary
        What came out, in sentences.
    sections
        Its parts; the first opens the report.
    facts
        How it was made: pairs of name and value.
    """

    title: str
    summary: tuple[str, ...]
    sections: tuple[Section, ...]
    facts: tuple[tuple[str, str], ...] = field(default=())

    @property
    def tables(self) -> tuple[Table, ...]:
        """Every table of the report."""
        return tuple(table for section in self.sections for table in section.all_tables)


def slug(text: str) -> str:
    """Return a name for files and ids made from any text, another one for another text."""
    short = re.sub(r"[^A-Za-z0-9_-]+", "-", text)[:_LONGEST_SLUG]
    return short if short == text else f"{short}-{zlib.crc32(text.encode('utf-8', 'replace')):08x}"


def row(*values: Value | Cell) -> tuple[Cell, ...]:
    """Return a row of cells."""
    return tuple(value if isinstance(value, Cell) else Cell(value) for value in values)
