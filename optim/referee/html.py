"""What a notebook shows of an evaluation and of a result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim.figures.catalogue import FIGURES
from optim.format.html import figure, page

if TYPE_CHECKING:
    from optim.referee.evaluation import Evaluation
    from optim.referee.result import Result


def result_html(result: Result) -> str:
    """Return status, objective, bound, and the moves."""
    told = result.objective
    words = f"{result.method}: {result.termination}"
    if told is not None:
        words += f"; {told.name} {figure(told.value)}, bound {figure(result.bound)}"
    if result.evaluation is not None:
        words += "; feasible" if result.feasible else "; not feasible"
    rows = [[m.task, m.source, m.target, figure(m.cost)] for m in result.moves]
    head = ["moves", "from", "to", "cost"] if rows else []
    return page(f"result for {result.instance_name}", words, head, rows)


def evaluation_html(evaluation: Evaluation) -> str:
    """Return whether the plan is feasible, what it breaks, and its figures of one value."""
    broken = [
        [f"breaks {v.rule}", f"{v.where}: needs {figure(v.needed)}, has {figure(v.available)}"]
        for v in evaluation.violations
    ]
    values = (
        (one.label, getattr(evaluation, one.name))
        for one in FIGURES
        if one.single and not one.quiet
    )
    rows = [
        [label, figure(value) if isinstance(value, float) else value]
        for label, value in values
        if value is not None
    ]
    words = "feasible" if evaluation.feasible else "not feasible"
    return page("evaluation", words, ["figure", "value"], broken + rows, most=len(broken + rows))
