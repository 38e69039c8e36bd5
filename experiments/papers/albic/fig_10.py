"""Figure 10: the share of one-to-one key groups varied."""

from __future__ import annotations

from typing import Any

from experiments.papers.albic.collocating import figure


def sizes(reduced: bool) -> list[dict[str, Any]]:
    """Return jobs from no one-to-one key groups to all."""
    shares = (0.0, 50.0, 100.0) if reduced else (0.0, 20.0, 40.0, 60.0, 80.0, 100.0)
    size = {"nodes": 10, "operators": 10} if reduced else {"nodes": 40, "operators": 20}
    return [{**size, "key_groups": 20, "one_to_one": share} for share in shares]


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
    sizes=sizes,
    size=(
        "Full: 40 nodes, six shares, 20 periods. Reduced: 10 nodes, three shares, 6 periods, ALBIC "
        "with 20 pairs only."
    ),
)
