"""The words that the report uses for what rows call by short names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from experiments.report.database import COMPARED
from optim.figures.catalogue import BY_NAME, FIGURES

if TYPE_CHECKING:
    from experiments.report.findings import Findings, MetricFindings
    from optim.figures.figure import Figure
    from streamplace.present.table import Kind

KINDS = {"exact": "exact", "heuristic": "heuristic", "search": "search"}

OBJECTIVES: dict[str | None, str] = {
    None: "",
    **{figure.name: figure.label for figure in BY_NAME.values() if figure.sense},
}


def gap_words(figure: Figure) -> str:
    """Say what gaps are, where they are not relative; else nothing."""
    if not figure.percent or figure.reference is None:
        return ""
    return f"Gaps are differences in percent of the {BY_NAME[figure.reference].label}."


VERDICTS = {
    "proved optimal": "optimal",
    "plan": "plan",
    "refused plan": "breaks limits",
    "proven infeasible": "infeasible",
    "no plan": "no plan",
    "not applicable": "not applicable",
    "error": "error",
    "crash": "crash",
    "timeout": "time-out",
    "memory": "out of memory",
}

SHORT_VERDICTS = VERDICTS | {"not applicable": "n/a"}
"""The same for narrow columns."""


def shift_text(shift: float) -> str:
    """Say how times are averaged."""
    amount = "1 s" if shift == 1.0 else f"{1000 * shift:g} ms"
    return f"the geometric mean shifted by {amount}"


OTHER = "†"
"""Marks a method that optimises something else than what it is measured by."""


@dataclass(frozen=True)
class MetricWords:
    """How a metric is spoken of.

    Attributes
    ----------
    slug, title, text
        Name in file names, heading, introduction.
    heading
        Column heading of its value.
    value
        Which figure is shown: ``collocation_factor``, or the ``value`` itself.
    kind
        What kind of number that is.
    same
        Objectives that come to the same as optimising it.
    relative
        Whether plans are told as a share of the optimum, rather than by how much they are above
        it, as a share of the figure's reference.
    limit
        Sign before a bound.
    of_mean
        What gaps are a share of, where they are not relative: ``of the mean load``.
    """

    slug: str
    title: str
    text: str
    heading: str
    value: str
    kind: Kind
    same: frozenset[str]
    relative: bool
    limit: str
    of_mean: str


def _words(figure: Figure) -> MetricWords:
    shown = BY_NAME[figure.shown_as or figure.name]
    heading = shown.label.capitalize()
    better = "more" if figure.sense == "max" else "less"
    text = (
        f"{heading} is the {shown.words}: {better} is better. Every feasible plan can be measured "
        "by it, whatever its method optimises, and set against the optimum of the case."
    )
    return MetricWords(
        slug=shown.label.replace(" ", "-"),
        title=figure.question,
        text=f"{text} {gap_words(figure)}".strip(),
        heading=heading,
        value=figure.shown_as or "value",
        kind="share" if shown.unit == "share" else "points",
        same=frozenset(f.name for f in FIGURES if figure.name in (f.name, f.same_as)),
        relative=not figure.percent,
        limit="≤" if figure.sense == "max" else "≥",
        of_mean=f"of the {BY_NAME[figure.reference].label}" if figure.reference else "",
    )


WORDS = {figure.name: _words(figure) for figure in COMPARED}


def mark(findings: Findings, metric: MetricFindings, contestant: str) -> str:
    """Return the mark of a method that optimises something else."""
    objective = findings.contestants[contestant]["objective_name"]
    return "" if objective in WORDS[metric.name].same else OTHER
