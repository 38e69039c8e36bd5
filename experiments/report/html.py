"""The report as one page that needs nothing but itself: no script, font or picture from afar."""

from __future__ import annotations

from base64 import b64encode
from importlib.resources import files
from typing import TYPE_CHECKING

from streamplace.present.table import show, unit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from experiments.report.document import Report
    from streamplace.present.table import Cell, Column, Table

_TEMPLATE = "report.html.j2"
_STYLE = "report.css"
_DARKEST = 0.5


def to_html(report: Report) -> str:
    """Return the page; every text from the rows is escaped."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "listed_rows": _rows,
        "shown": _shown,
        "unit": _unit,
        "shade": _shade,
        "breakable": _breakable,
        "data": _data,
    }
    folder = files("experiments.report")
    template = environment.from_string(folder.joinpath(_TEMPLATE).read_text("utf-8"))
    style = folder.joinpath(_STYLE).read_text("utf-8")
    return template.render(report=report, style=style)


def _shown(cell: Cell, column: Column) -> str:
    return show(cell.value, column.kind)


def _unit(cell: Cell, column: Column) -> str:
    return unit(cell.value, column.kind)


def _shade(cell: Cell) -> str:
    """Return how strongly a cell is shaded, between 0 and 1, the root making small gaps visible."""
    if cell.distance is None or cell.distance <= 0:
        return ""
    return f"{_DARKEST * min(1.0, cell.distance) ** 0.7:.3f}"


def _data(svg: str) -> str:
    """Return a drawing as an address that holds it."""
    return f"data:image/svg+xml;base64,{b64encode(svg.encode()).decode()}"


def _breakable(text: str) -> list[str]:
    """Return the parts of a heading between which a line may break."""
    head, bracket, tail = text.partition(" [")
    return [head, f"[{tail}"] if bracket else [text]


def _rows(table: Table) -> Iterator[tuple[tuple[Cell, ...], str]]:
    """Return the rows that are shown, each with its classes."""
    before = None
    for number, row in enumerate(table.rows):
        first = row[0].value
        classes = []
        if table.lead > 1 and before is not None and first != before:
            classes.append("next")
        if table.last_is_summary and number == len(table.rows) - 1:
            classes.append("summary")
        before = first
        yield row, " ".join(classes)
