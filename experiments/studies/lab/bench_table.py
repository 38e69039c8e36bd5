"""The runs of the bench as a table: ``python -m experiments.studies.lab.bench_table``."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from statistics import fmean, geometric_mean
from typing import TYPE_CHECKING

from experiments.studies.lab.shapes import POLICIES, SHAPES
from streamplace.present.table import markdown

if TYPE_CHECKING:
    from collections.abc import Iterable

RUNS = Path(__file__).with_name("bench-runs.csv")
"""The runs of the documentation."""
_PLAN = POLICIES[-1].name
_HEAD = (
    "shape",
    "policy",
    "runs",
    "orders/s, mean (least, most)",
    "measured / predicted, mean (least, most)",
    "load average",
)

Rows = list[dict[str, str]]


def bench_table(rows: Rows) -> str:
    """Return the table of runs, and what the plan measured against the others, a line a shape."""
    lines = []
    for shape in SHAPES:
        for policy in POLICIES:
            own = [r for r in rows if (r["shape"], r["policy"]) == (shape.name, policy.name)]
            if own:
                lines.append([*_cells(own)])
    versus = [line for shape in SHAPES if (line := _versus(shape.name, rows))]
    return "\n".join([markdown(_HEAD, lines, right=()), *versus]) + "\n"


def _cells(rows: Rows) -> Iterable[str]:
    measured = [float(row["measured"]) for row in rows]
    ratios = [float(row["measured"]) / float(row["predicted"]) for row in rows]
    loads = [float(row["load"]) for row in rows]
    yield from (rows[0]["shape"], rows[0]["policy"], str(len(rows)))
    yield f"{fmean(measured):,.0f} ({min(measured):,.0f}, {max(measured):,.0f})"
    yield f"{geometric_mean(ratios):.2f} ({min(ratios):.2f}, {max(ratios):.2f})"
    yield f"{min(loads):.0f}–{max(loads):.0f}"


def _versus(shape: str, rows: Rows) -> str:
    """Return the means of the plan over that of the default, and by the best of all others."""
    means = {
        policy.name: fmean(found)
        for policy in POLICIES
        if (
            found := [
                float(row["measured"])
                for row in rows
                if (row["shape"], row["policy"]) == (shape, policy.name)
            ]
        )
    }
    plan = means.pop(_PLAN, None)
    if plan is None or POLICIES[0].name not in means:
        return ""
    best = max(means, key=lambda name: means[name])
    return (
        f"- {shape}: {plan / means[POLICIES[0].name]:.2f} × the default, "
        f"{plan / means[best]:.2f} × the best of the others ({best})."
    )


def read_runs(path: Path) -> Rows:
    """Read the runs of a bench."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


if __name__ == "__main__":
    sys.stdout.write(bench_table(read_runs(Path(sys.argv[1]) if sys.argv[1:] else RUNS)))
