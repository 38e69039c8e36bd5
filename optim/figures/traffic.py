"""Figures of traffic: what stays inside nodes and slots, and what does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optim.figures.figure import Figure

if TYPE_CHECKING:
    from optim.figures.placement import Placement
    from optim.format.instance import Instance


def _silent(instance: Instance) -> str | None:
    return None if instance.has_traffic else "no tasks communicate"


def _collocated(placement: Placement) -> float | None:
    total = placement.instance.total_traffic
    return placement.gain / total if total > 0 else None


def _between_nodes(placement: Placement) -> float:
    return placement.parted[1]


def _between_slots(placement: Placement) -> float | None:
    slots = placement.slots
    if slots is None:
        return None
    compact = np.full(len(placement.node), -1, dtype=np.int32)
    compact[slots.placed] = slots.index
    return placement.instance.flows.apart(compact, max(1, len(slots)))


IMC_GAIN = Figure(
    "imc_gain",
    "traffic inside nodes",
    "traffic between tasks on one node",
    "rate",
    lambda placement: placement.gain,
    sense="max",
    reference="total_traffic",
    question="How much traffic stays inside the nodes",
    shown_as="collocation_factor",
    constant=_silent,
)
TOTAL_TRAFFIC = Figure(
    "total_traffic",
    "traffic",
    "traffic between tasks, in all",
    "rate",
    lambda placement: placement.instance.total_traffic,
    quiet=True,
    whole=False,
)
INTERNODE_TRAFFIC = Figure(
    "internode_traffic",
    "traffic between nodes",
    "traffic between tasks on different nodes",
    "rate",
    _between_nodes,
    sense="min",
    reference="total_traffic",
    same_as="imc_gain",
    constant=_silent,
)
INTERSLOT_TRAFFIC = Figure(
    "interslot_traffic",
    "traffic between slots",
    "traffic between tasks in different slots, other nodes included",
    "rate",
    _between_slots,
    sense="min",
    reference="total_traffic",
    constant=_silent,
)
COLLOCATION_FACTOR = Figure(
    "collocation_factor",
    "collocation",
    "share of the traffic between tasks that meets on one node and never crosses the network",
    "share",
    _collocated,
    sense="max",
    same_as="imc_gain",
    constant=_silent,
)
