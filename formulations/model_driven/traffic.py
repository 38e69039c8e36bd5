"""What the tasks of a model-driven job send each other, and how much of it stays on machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from formulations.model_driven.items import Items
    from formulations.model_driven.slots import Machines
    from optim.format.instance import Instance
    from optim.format.tables import Floats


TOTAL = 1000.0
"""All traffic of a job in the unit of everything below: thousandths, whatever the file's unit."""

_DIGITS = 12


def unit_of_traffic(instance: Instance) -> float:
    """Tuples/s that are one thousandth of all traffic."""
    return sum(rate for _, _, rate in _carrying(instance)) / TOTAL


def streams_between(instance: Instance) -> list[tuple[int, int, float]]:
    """(Sender, receiver, thousandths of all traffic) of every stream that carries something.

    Rounded, so that the same job in another unit gives the same numbers to the bit.
    """
    unit = unit_of_traffic(instance)
    return [(a, b, round(rate / unit, _DIGITS)) for a, b, rate in _carrying(instance)]


def _carrying(instance: Instance) -> list[tuple[int, int, float]]:
    rates = instance.operators.tuple_rate
    told = [(s.source, s.target, float(rates[s.source] * s.selectivity)) for s in instance.streams]
    return [stream for stream in told if stream[2] > 0]


def rates_of_pairs(items: Items, instance: Instance) -> Floats:
    """(C, C) symmetric: traffic between one item of each class, both directions together.

    Every thread of the sender sends the same to every thread of the receiver.
    """
    share = items.threads / items.threads_of_tasks(instance.num_operators)[items.operator]
    between = np.zeros((instance.num_operators, instance.num_operators))
    for a, b, rate in streams_between(instance):
        between[a, b] += rate
        between[b, a] += rate
    return between[np.ix_(items.operator, items.operator)] * np.outer(share, share)


def traffic_between(items: Items, machines: Machines, pairs: Floats) -> float:
    """Traffic between machines, given that of pairs."""
    count = items.count.astype(np.float64)
    total = 0.5 * float(count @ pairs @ count)
    for slots in machines:
        held = np.zeros(len(count))
        for slot in slots:
            for c, n in slot.items():
                held[c] += n
        total -= 0.5 * float(held @ pairs @ held)
    return max(0.0, total)
