"""Figure 11: the size of the cluster varied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.papers.albic.collocating import (
    POLICIES,
    READINGS,
    REDUCED,
    measure,
    plot_by,
    said,
    table_by,
)
from experiments.papers.figure import Figure

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

NODES = "nodes"


def rows(folder: Path, reduced: bool) -> pd.DataFrame:
    """Follow a job on each size of cluster."""
    counts = (10, 20) if reduced else (20, 40, 60)
    sizes = [
        {"nodes": n, "key_groups": 20, "operators": n // 2, "one_to_one": 50.0} for n in counts
    ]
    for size in sizes:
        size["operators"] = int(size["operators"]) // 2 * 2
    return measure(folder, sizes, 6 if reduced else 20, REDUCED if reduced else POLICIES)


FIGURE = Figure(
    name="albic/fig-11",
    title="Collocation and balance by size of the cluster",
    source="Madsen, Zhou, Cao 2016, Figure 11, section 5.3",
    words=(
        "Half of the key groups communicate one to one; 20, 40 and 60 nodes with 400, 800 and "
        "1,200 key groups and 10, 20 and 30 operators. ALBIC is clearly ahead of COLA in load "
        "distance and in collocation at each size."
    ),
    rows=rows,
    table=table_by("nodes", NODES),
    plot=plot_by(NODES),
    measured=said,
    readings=READINGS,
    size=(
        "Full: 20, 40 and 60 nodes, 20 periods. Reduced: 10 and 20 nodes, 6 periods, ALBIC with 20 "
        "pairs only."
    ),
    panels=2,
)
