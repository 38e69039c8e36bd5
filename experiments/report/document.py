"""What a report consists of, before it is written as a page, as text or as CSV."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawn

    from streamplace.present.table import Table

_LONGEST_SLUG = 60


@dataclass(frozen=True)
class Drawing:
    """A finished figure, its SVG, and what is read to those who do not see it."""

    figure: Drawn = field(compare=False, repr=False)
    svg: str
    description: str


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
    """What is folded under a line of its own (`title`, `note`): sentences, then small tables.

    Such tables have no CSV files.
    """

    title: str
    note: str
    lines: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True)
class Section:
    """A heading with an introduction, open tables, figures, folded tables, and single cases."""

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
    """The whole report: what came out, in sentences, then sections; the first opens it.

    `facts` say how it was made: pairs of name and value.
    """

    title: str
    summary: tuple[str, ...]
    sections: tuple[Section, ...]
    facts: tuple[tuple[str, str], ...] = ()

    @property
    def tables(self) -> tuple[Table, ...]:
        """Every table of the report."""
        return tuple(table for section in self.sections for table in section.all_tables)


def slug(text: str) -> str:
    """Return a name for files and ids made from any text, another one for another text."""
    short = re.sub(r"[^A-Za-z0-9_-]+", "-", text)[:_LONGEST_SLUG]
    return short if short == text else f"{short}-{zlib.crc32(text.encode('utf-8', 'replace')):08x}"
