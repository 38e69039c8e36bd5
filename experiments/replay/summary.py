"""One line a policy: what a replay comes down to."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True)
class PolicySummary:
    """A policy over all periods.

    Attributes
    ----------
    policy
        As given.
    periods, without_plan
        How many; in how many no plan was found.
    load_distance, load_distance_next, worst_next
        Mean of now and of next, and the worst of next.
    collocation_factor, last_collocation_factor
        Mean and of the last period; ``None`` without traffic.
    load_index, last_load_index
        Likewise.
    migrations, migration_cost, over_budget
        Sums, and periods over the budget.
    node_periods, last_nodes
        Nodes summed over the periods, and of the last one.
    seconds
        Spent on planning and scoring.
    """

    policy: str
    periods: int
    without_plan: int
    load_distance: float | None
    load_distance_next: float | None
    worst_next: float | None
    collocation_factor: float | None
    last_collocation_factor: float | None
    load_index: float | None
    last_load_index: float | None
    migrations: int
    migration_cost: float
    over_budget: int
    node_periods: int
    last_nodes: int
    seconds: float


def summarise(
    policy: str, rows: Sequence[dict[str, Any]], seconds: Iterable[float]
) -> PolicySummary:
    """Sum up the rows of one policy; there is at least one."""
    last = rows[-1]
    following = [r["load_distance_next"] for r in rows if r["load_distance_next"] is not None]
    return PolicySummary(
        policy=policy,
        periods=len(rows),
        without_plan=sum(not row["planned"] for row in rows),
        load_distance=_mean(row["load_distance"] for row in rows),
        load_distance_next=_mean(following),
        worst_next=max(following, default=None),
        collocation_factor=_mean(row["collocation_factor"] for row in rows),
        last_collocation_factor=last["collocation_factor"],
        load_index=_mean(row["load_index"] for row in rows),
        last_load_index=last["load_index"],
        migrations=sum(row["migrations"] for row in rows),
        migration_cost=math.fsum(row["migration_cost"] for row in rows),
        over_budget=sum(row["over_budget"] for row in rows),
        node_periods=sum(row["nodes"] for row in rows),
        last_nodes=last["nodes"],
        seconds=math.fsum(seconds),
    )


HEADINGS = (
    "policy",
    "load distance now",
    "next",
    "worst next",
    "collocated",
    "at the end",
    "load index",
    "at the end",
    "migrations",
    "cost",
    "periods over budget",
    "node periods",
    "periods without a plan",
)


def cells(summary: PolicySummary) -> list[str]:
    """Return a line of the table, under `HEADINGS`."""
    from streamplace.present.numbers import number, percent

    return [
        summary.policy,
        number(summary.load_distance),
        number(summary.load_distance_next),
        number(summary.worst_next),
        percent(summary.collocation_factor),
        percent(summary.last_collocation_factor),
        number(summary.load_index, 3),
        number(summary.last_load_index, 3),
        f"{summary.migrations:,}",
        number(summary.migration_cost),
        str(summary.over_budget),
        f"{summary.node_periods:,}",
        str(summary.without_plan),
    ]


def summary_table(summaries: Sequence[PolicySummary]) -> str:
    """Return the table as Markdown."""
    from streamplace.present.table import markdown

    return markdown(HEADINGS, [cells(summary) for summary in summaries])


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None
