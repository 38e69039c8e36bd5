"""Figure 13: Real Job 3, delays of airplanes and of routes."""

from __future__ import annotations

from experiments.papers.albic_real.readings import FEWER, LESS, READINGS
from experiments.papers.albic_real.replaying import PROVED_LESS, Replaying, climbing, draw, table_of
from experiments.papers.figure import Figure

FIGURE = Figure(
    name="albic-real/fig-13",
    title="Real Job 3: delays by airplane and by route",
    source="Madsen, Zhou and Cao 2016, section 5.4, Figure 13",
    words=(
        "As for Real Job 2, at about half its collocation: delays by route are keyed by another "
        "attribute, so that the traffic to that operator cannot be collocated. COLA was given half "
        "the input, since the system could not bear its migrations otherwise."
    ),
    rows=Replaying("real_job_3.toml", PROVED_LESS, days=120),
    table=table_of(PROVED_LESS),
    plot=draw,
    measured=climbing,
    readings=(*READINGS, LESS, "COLA has the whole input here: a replay bears its migrations."),
    size=FEWER,
    keeps_sentences=True,
    panels=4,
)
