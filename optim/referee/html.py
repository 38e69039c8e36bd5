"""What a notebook shows of a result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim.format.html import ROWS, figure, page

if TYPE_CHECKING:
    from optim.referee.result import Result


def result_html(result: Result) -> str:
    """Return status, objective, bound, and the moves."""
    told = result.objective
    words = f"{result.method}: {result.termination}"
    if told is not None:
        words += f"; {told.name} {figure(told.value)}, bound {figure(result.bound)}"
    if result.evaluation is not None:
        words += "; feasible" if result.feasible else "; not feasible"
    rows = [[m.task, m.source, m.target, figure(m.cost)] for m in result.moves[:ROWS]]
    head = ["moves", "from", "to", "cost"] if rows else []
    return page(f"result for {result.instance_name}", words, head, rows, len(result.moves))
