"""Figures of plans that acquire machines; the referee of that kind of plan computes them."""

from __future__ import annotations

from optim.figures.figure import Figure

SLOTS = Figure(
    "slots",
    "slots acquired",
    "slots of the acquired machines",
    "count",
    sense="min",
)
EXTRA_SLOTS = Figure(
    "extra_slots",
    "beyond the allocation",
    "slots acquired beyond what the allocation planned",
    "count",
)
SUPPORTED_RATE = Figure(
    "supported_rate",
    "supported input rate",
    "input rate that the threads sustain under shuffle grouping, tuples/s",
    "rate",
)
CAPACITY_RATE = Figure(
    "capacity_rate",
    "input rate by capacity",
    "input rate if every slot were sent what it can take, tuples/s",
    "rate",
)
BOTTLENECK = Figure(
    "bottleneck",
    "bottleneck",
    "the operator and slot where the supported rate ends",
    "text",
    quiet=True,
)
PRICE = Figure(
    "price",
    "price",
    "price of the acquired machines, $/h",
    "price",
    sense="min",
)
