"""How the metrics are spoken of that every plan can be measured by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from experiments.report.views import COMPARED
from experiments.report.words import gap_words
from optim.figures.catalogue import BY_NAME, FIGURES

if TYPE_CHECKING:
    from experiments.report.document import Kind
    from experiments.report.findings import Findings, MetricFindings
    from optim.figures.figure import Figure

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
        "by it, whatever its method optimises, and set against the proven optimum of the case."
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
