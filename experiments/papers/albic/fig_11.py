"""Figure 11: the size of the cluster varied."""

from __future__ import annotations

from typing import Any

from experiments.papers.albic.collocating import figure


def sizes(reduced: bool) -> list[dict[str, Any]]:
    """Return a job for each size of cluster, its number of operators even."""
    counts = (10, 20) if reduced else (20, 40, 60)
    return [
        {"nodes": n, "key_groups": 20, "operators": n // 4 * 2, "one_to_one": 50.0} for n in counts
    ]


FIGURE = figure(
    number=11,
    title="Collocation and balance by size of the cluster",
    source="Figure 11, section 5.3",
    words=(
        "Half of the key groups communicate one to one; 20, 40 and 60 nodes with 400, 800 and "
        "1,200 key groups and 10, 20 and 30 operators. ALBIC is clearly ahead of COLA in load "
        "distance and in collocation at each size."
    ),
    column="nodes",
    name="nodes",
    sizes=sizes,
    size=(
        "Full: 20, 40 and 60 nodes, 20 periods. Reduced: 10 and 20 nodes, 6 periods, ALBIC with 20 "
        "pairs only."
    ),
)
