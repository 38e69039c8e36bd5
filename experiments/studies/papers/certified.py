"""Who proves the optima of a figure, and what certificates prove of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

    from optim import Instance, Result

BY, GAP = "by", "certified gap"
TOLD, TOLD_GAP = "by", "certified gap, worst (%)"
CASES, SECONDS = 2000, 10.0
"""Most cases of a certificate, and seconds of the processor to write one."""


def of_result(instance: Instance, result: Result) -> dict[str, Any]:
    """Certify an optimum as far as that is quickly done, for a row of a figure.

    Returns
    -------
    dict
        `BY`, as in `bound_by` of results, and `GAP`, a share; both ``None`` of what has no bound.
    """
    from optim.certificates.grade import certified

    told, _ = certified(result, instance.to_json().encode(), nodes=CASES, seconds=SECONDS)
    return {BY: told.bound_by, GAP: told.certified_gap}


def summed_up(rows: pd.DataFrame, by: str = BY, gap: str = GAP) -> dict[str, Any]:
    """Say of rows of optima who proves them, and how far the worst is from its certificate.

    Empty where the rows were made without: the head of the column of optima says so then. The gap
    is unknown as soon as one row has no certificate at all.
    """
    if by not in rows:
        return {}
    counts = rows[by].dropna().value_counts()
    told = ", ".join(f"{name} ({count:,})" for name, count in counts.items())
    gaps = rows[gap] if len(rows) and rows[gap].notna().all() else None
    return {TOLD: told or None, TOLD_GAP: None if gaps is None else 100 * float(gaps.max())}


def sentence(line: Mapping[Any, Any]) -> str:
    """Say who proves the optima of a line of a table: one solver, where it does not say."""
    told = line.get(TOLD)
    return f"by {told}" if isinstance(told, str) and told else "by one solver"
