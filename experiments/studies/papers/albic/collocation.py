"""Figures 10 and 11: ALBIC against COLA, synthetic jobs.

No sweep: rounds follow one another until ALBIC stands still, and COLA plans the last of them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from experiments.studies.papers.albic.runs import Row, placed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optim.format.instance import Instance
    from optim.referee.result import Result


LAST = 4
"""Rounds of a standstill: figures are means over them."""

TARGETS = (10.0, 3.0, 1.0)
"""Load distances asked of both: the paper's maxLD is lost. The first is ALBIC's default."""


ALBIC = {"balance_gap": 5.0}


def periods_of(seed: int, given: Mapping[str, Any], number: int) -> Instance:
    """Return one period of a job in which only one-to-one pairs can be collocated."""
    from experiments.generators.rebalancing import JOINT

    job = {"varies": 20.0, "max_migrations": 20, "rest": "outside", "period": number, **given}
    return JOINT.make(seed, job)


def climb(
    seed: int, given: Mapping[str, Any], options: Mapping[str, Any], most: int = 600
) -> tuple[list[Row], int]:
    """Follow ALBIC until its collocation has not risen for `LAST` rounds.

    Returns
    -------
    tuple
        A row for each round, and the number of the first period after them.
    """
    from optim import solve

    node, rows = None, []
    best, since = -1.0, 0
    for number in range(most):
        period = periods_of(seed, given, number)
        now = period if node is None else placed(period, node)
        result = solve(now, "albic", seed=seed + number, **options)
        assert result.plan is not None
        node = result.plan.node_indices(now)
        rows.append(_row(seed, given, number, result, node))
        climbed = rows[-1]["collocated"] > best + 1e-9
        best, since = max(best, rows[-1]["collocated"]), 0 if climbed else since + 1
        if since >= LAST:
            break
    return rows, len(rows)


def summary(
    seed: int, given: Mapping[str, Any], options: Mapping[str, Any] | None = None
) -> list[Row]:
    """Return one line for ALBIC at its standstill, and one for COLA at each target there."""
    from optim import solve

    rows, count = climb(seed, given, {**ALBIC, **(options or {})})
    base = {"seed": seed, "nodes": given["nodes"], "one_to_one": given["one_to_one"]}
    name = "ALBIC" if not options else "ALBIC, " + ", ".join(f"{k}={v}" for k, v in options.items())
    lines = [{**base, "policy": name, "target": 10.0, **_told(rows)}]
    if options:
        return lines
    for target in TARGETS:
        made: list[Row] = []
        for number in range(count - LAST, count):
            period = periods_of(seed, given, number)
            if made:
                period = placed(period, made[-1]["node"])
            result = solve(
                period, "cola", seed=seed + number, max_load_distance=target,
                ignore=("max_migrations",),
            )  # fmt: skip
            assert result.plan is not None
            node = result.plan.node_indices(period)
            made.append({**_row(seed, given, number, result, node), "node": node})
        lines.append({**base, "policy": "COLA", "target": target, **_told(made)})
    return lines


def _row(seed: int, given: Mapping[str, Any], number: int, result: Result, node: Any) -> Row:
    from optim.figures.measures import load_distance_of

    found = result.evaluation
    assert found is not None
    notes = " ".join(result.notes)
    rounds, parts = (re.search(rf"(\d+) {word}", notes) for word in ("rounds", "parts"))
    following = periods_of(seed, given, number + 1)
    source, target = following.flows.source, following.flows.target
    together = int((node[source] == node[target]).sum())
    return {
        "collocated": given["one_to_one"] * (found.collocation_factor or 0.0),
        "distance": found.load_distance,
        "next": load_distance_of(following, node),
        "migrations": found.migrations,
        "recalculations": int(rounds[1]) - 1 if rounds else 0,
        "parts": int(parts[1]) if parts else following.num_tasks - together,
    }


def _told(rows: list[Row]) -> Row:
    import numpy as np

    last = rows[-LAST:]

    def mean(key: str) -> float:
        return float(np.mean([row[key] for row in last]))

    return {
        "rounds": len(rows),
        **{key: mean(key) for key in ("collocated", "distance", "next", "migrations", "parts")},
        "worst distance": max(row["distance"] for row in rows),
        "recalculated": sum(row["recalculations"] > 0 for row in rows),
        "most recalculations": max(row["recalculations"] for row in rows),
    }
