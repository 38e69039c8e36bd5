"""Figures 12 to 14: Real Jobs 2 to 4, delays of airplanes, of routes, and with the weather."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.studies.papers.albic_real.readings import FEWER, LESS, READINGS, SIZE
from experiments.studies.papers.albic_real.replaying import (
    POLICIES,
    PROVED_LESS,
    Replaying,
    climbing,
    draw,
    table_of,
)
from experiments.studies.papers.figure import Figure

if TYPE_CHECKING:
    from collections.abc import Mapping


def _figure(
    number: int,
    title: str,
    words: str,
    *readings: str,
    policies: Mapping[str, str] = PROVED_LESS,
    days: int | None = 120,
    size: str = FEWER,
) -> Figure:
    """Return a figure, of the Real Job ten numbers below."""
    job = number - 10
    return Figure(
        name=f"albic-real/fig-{number}",
        title=f"Real Job {job}: {title}",
        source=f"Madsen, Zhou and Cao 2016, section 5.4, Figure {number}",
        words=words,
        rows=Replaying(f"real_job_{job}.toml", policies, days=days),
        table=table_of(policies),
        plot=draw,
        measured=climbing,
        readings=(*READINGS, *readings),
        size=size,
        keeps_sentences=True,
        panels=4,
    )


FIGURES = (
    _figure(
        12,
        "delays by airplane",
        "COLA has the optimum collocation at once, since it plans from scratch, and migrates "
        "close to 200 key groups a period; ALBIC climbs to the same with 10. ALBIC's load "
        "distance is lower throughout. Its load index falls to about half: collocation saves the "
        "serialisation. COLA saves less, because its migrations cost so much.",
        policies=POLICIES,
        days=None,
        size=SIZE,
    ),
    _figure(
        13,
        "delays by airplane and by route",
        "As for Real Job 2, at about half its collocation: delays by route are keyed by another "
        "attribute, so that the traffic to that operator cannot be collocated. COLA was given half "
        "the input, since the system could not bear its migrations otherwise.",
        LESS,
        "COLA has the whole input here: a replay bears its migrations.",
    ),
    _figure(
        14,
        "delays joined with the weather",
        "COLA's collocation is consistently around 61 %, measured on three runs of its own, since "
        "running it every period is more than the system can bear; ALBIC climbs to about the same, "
        "lowers the load index and keeps the load distance low.",
        LESS,
        "The paper names the additional operators only in part. Here: rain score, join of routes "
        "with it (keyed by route), courier efficiency (by route and interval of ten of the rain "
        "score), and two stores, which get one row for ten flights.",
        "The weather is that of the three airports, hour by hour; the rain score is keyed by "
        "airport and hour of the day, and goes to the join once for every flight it is joined to.",
        "COLA plans every period here.",
    ),
)
