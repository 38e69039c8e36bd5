"""Figure 11: the size of the cluster varied."""

from __future__ import annotations

from experiments.papers.albic.collocating import figure

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
    made="sizes",
    size="Full: 2, 4 and 6 nodes of 8 key groups each (the paper: "
    "20, 40 and 60 of 20), 30 seeds. Reduced: 2.",
)
