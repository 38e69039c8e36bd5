"""How the metrics are spoken of that every plan can be measured by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from experiments.report.document import Kind
    from experiments.report.findings import Findings, MetricFindings

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
        Whether plans are told as a share of the optimum, rather than as points above it.
    limit
        Sign before a bound.
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


WORDS = {
    "imc_gain": MetricWords(
        slug="collocation",
        title="How much traffic stays inside the nodes",
        text=(
            "Collocation is the share of the traffic between tasks that meets on one node and "
            "never crosses the network: more is better. Every feasible plan can be measured by "
            "it, whatever its method optimises, and set against the proven optimum of the case."
        ),
        heading="Collocation",
        value="collocation_factor",
        kind="share",
        same=frozenset({"imc_gain", "internode_traffic"}),
        relative=True,
        limit="≤",
    ),
    "load_distance": MetricWords(
        slug="load-distance",
        title="How evenly the load is spread",
        text=(
            "Load distance is the largest deviation of a node from its share of the load, in "
            "points of the first resource: less is better. Gaps are differences in points."
        ),
        heading="Load distance",
        value="value",
        kind="points",
        same=frozenset({"load_distance"}),
        relative=False,
        limit="≥",
    ),
}


def mark(findings: Findings, metric: MetricFindings, contestant: str) -> str:
    """Return the mark of a method that optimises something else."""
    objective = findings.contestants[contestant]["objective_name"]
    return "" if objective in WORDS[metric.name].same else OTHER
