"""Figure 10: the share of one-to-one key groups varied."""

from __future__ import annotations

from experiments.papers.albic.collocating import figure

FIGURE = figure(
    number=10,
    title="Collocation and balance by share of one-to-one key groups",
    source="Figure 10 (its text says 11), section 5.3",
    words=(
        "40 nodes, 800 key groups, 20 operators; 0 to 100 % of the key groups communicate one to "
        "one. ALBIC has a lower load distance than COLA throughout, and up to ten points more "
        "collocation."
    ),
    column="one_to_one",
    name="one-to-one key groups (%)",
    made="collocation",
    size="Full: 4 nodes, 32 key groups, 4 operators (the paper: 40, 800, "
    "20), five shares, 30 seeds. Reduced: all one to one, 2 seeds.",
)
