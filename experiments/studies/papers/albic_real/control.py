"""Real Job 1 as the control: full partitioning, with little to collocate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.studies.papers.albic_real.edits import write_edits
from experiments.studies.papers.albic_real.replaying import Replaying, draw, line, table_of
from experiments.studies.papers.figure import Figure

if TYPE_CHECKING:
    import pandas as pd

POLICIES = {
    "albic": "ALBIC, 1 pair",
    "cola": "COLA",
    "balance-milp:gap=0.1,time_limit=20": "MILP",
    "flux": "Flux",
    "potc": "PoTC",
    "static": "static",
    "joint-search:max_load_distance=5,bound=counting,steps=5000": "joint-search",
}


def measured(table: pd.DataFrame) -> list[str]:
    """Return the highest collocation and the load distances."""
    best = max(table.to_dict("records"), key=lambda row: row["best (%)"])
    told = [f"No policy collocates more than {best['best (%)']:.1f} % ({best['policy']})."]
    rows = table.attrs["series"]
    worst = rows.groupby("policy")["load_distance"].max()
    milp, flux, potc = (line(table, name) for name in ("MILP", "Flux", "PoTC"))
    if milp and flux and potc:
        told.append(
            "Load distance just after migrating, at worst: "
            f"MILP {worst['MILP']:.2f}, Flux {worst['Flux']:.2f}, PoTC {worst['PoTC']:.2f} points."
        )
    return told


FIGURE = Figure(
    name="albic-real/control",
    title="Real Job 1's shape: full partitioning",
    source="Madsen, Zhou and Cao 2016, sections 5.2 (the job) and 5.4 (its collocation)",
    words=(
        "Its three partitionings have nothing to do with one another and its rates are very even: "
        "collocation ends at about 5 %, too little to tell from the fluctuation of the load. "
        "Balancing it, the MILP keeps the load distance below 1 %, Flux comes up to 7 %."
    ),
    rows=Replaying("real_job_1.toml", POLICIES, prepare=write_edits),
    table=table_of(POLICIES),
    plot=draw,
    measured=measured,
    readings=(
        "The edits are synthetic, not Wikipedia's: 50,000 articles with Zipf popularity "
        "(exponent 0.8), some of which change places every period, at a rate that goes up and "
        "down by a third; GeoHash even, as the paper assumes.",
        "The key of the global top-k has nothing to do with the article; 13 migrations a period. "
        "The MILP stops within 0.1 % of the mean load, or after 20 s.",
        "Costs are those of the other real jobs; key groups are placed in turn at first.",
    ),
    size="48 periods of five minutes with 10,000 edits; reduced: 12.",
    keeps_sentences=True,
    panels=4,
)
