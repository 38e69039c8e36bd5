"""Figure 10: the share of one-to-one key groups varied."""

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

SHARE = "one-to-one key groups (%)"


def rows(folder: Path, reduced: bool) -> pd.DataFrame:
    """Follow jobs from no one-to-one key groups to all."""
    shares = (0.0, 50.0, 100.0) if reduced else (0.0, 20.0, 40.0, 60.0, 80.0, 100.0)
    size = {"nodes": 10, "operators": 10} if reduced else {"nodes": 40, "operators": 20}
    sizes = [{**size, "key_groups": 20, "one_to_one": share} for share in shares]
    return measure(folder, sizes, 6 if reduced else 20, REDUCED if reduced else POLICIES)


FIGURE = Figure(
    name="albic/fig-10",
    title="Collocation and balance by share of one-to-one key groups",
    source="Madsen, Zhou, Cao 2016, Figure 10 (its text says 11), section 5.3",
    words=(
        "40 nodes, 800 key groups, 20 operators; 0 to 100 % of the key groups communicate one to "
        "one. ALBIC has a lower load distance than COLA throughout, and up to ten points more "
        "collocation."
    ),
    rows=rows,
    table=table_by("one_to_one", SHARE),
    plot=plot_by(SHARE),
    measured=said,
    readings=READINGS,
    size=(
        "Full: 40 nodes, six shares, 20 periods. Reduced: 10 nodes, three shares, 6 periods, ALBIC "
        "with 20 pairs only."
    ),
    panels=2,
)
