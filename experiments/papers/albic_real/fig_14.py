"""Figure 14: Real Job 4, delays joined with the weather."""

from __future__ import annotations

from experiments.papers.albic_real.readings import FEWER, LESS, READINGS
from experiments.papers.albic_real.replaying import PROVED_LESS, Replaying, climbing, draw, table_of
from experiments.papers.figure import Figure

FIGURE = Figure(
    name="albic-real/fig-14",
    title="Real Job 4: delays joined with the weather",
    source="Madsen, Zhou and Cao 2016, section 5.4, Figure 14",
    words=(
        "COLA's collocation is consistently around 61 %, measured on three runs of its own, since "
        "running it every period is more than the system can bear; ALBIC climbs to about the same, "
        "lowers the load index and keeps the load distance low."
    ),
    rows=Replaying("real_job_4.toml", PROVED_LESS, days=120),
    table=table_of(PROVED_LESS),
    plot=draw,
    measured=climbing,
    readings=(
        *READINGS,
        LESS,
        "The paper names the additional operators only in part. Here: rain score, join of routes "
        "with it (keyed by route), courier efficiency (by route and interval of ten of the rain "
        "score), and two stores, which get one row for ten flights.",
        "The weather is that of the three airports, hour by hour; the rain score is keyed by "
        "airport and hour of the day, and goes to the join once for every flight it is joined to.",
        "COLA plans every period here.",
    ),
    size=FEWER,
    keeps_sentences=True,
    panels=4,
)
