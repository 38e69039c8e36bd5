"""Figure 12: Real Job 2, delays of airplanes."""

from __future__ import annotations

from experiments.papers.albic_real.readings import READINGS, SIZE
from experiments.papers.albic_real.replaying import POLICIES, Replaying, climbing, draw, table_of
from experiments.papers.figure import Figure

FIGURE = Figure(
    name="albic-real/fig-12",
    title="Real Job 2: delays by airplane",
    source="Madsen, Zhou and Cao 2016, section 5.4, Figure 12",
    words=(
        "COLA has the optimum collocation at once, since it plans from scratch, and migrates "
        "close to 200 key groups a period; ALBIC climbs to the same with 10. ALBIC's load "
        "distance is lower throughout. Its load index falls to about half: collocation saves the "
        "serialisation. COLA saves less, because its migrations cost so much."
    ),
    rows=Replaying("real_job_2.toml", POLICIES),
    table=table_of(POLICIES),
    plot=draw,
    measured=climbing,
    readings=READINGS,
    size=SIZE,
    keeps_sentences=True,
    panels=4,
)
