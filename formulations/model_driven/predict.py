"""What a placement of threads will do: supported rate, CPU and memory of slots and machines.

Each slot's rate follows from the task's performance model and the number of its threads there.
Shuffle grouping sends every thread of a task the same share of its tuples, whatever the slot can
take; the input rate that a mapping supports is therefore the least, over tasks and slots, at which
some slot reaches its peak. Beside it stands the *capacity*: the rate if each slot were sent what it
can take (Σ of the slots' peak rates, least over tasks), which is what allocations plan with.

Source: Shukla and Simmhan 2017, sections 8.4 and 8.5; CPU and memory below the peak rate in
proportion to the rate, as there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from formulations.model_driven.bundles import rates_of
from formulations.model_driven.referee import checked_bundles

if TYPE_CHECKING:
    from formulations.model_driven.bundles import Bundles
    from optim.format.instance import Instance
    from optim.format.plan import Plan
    from optim.format.tables import Floats


@dataclass(frozen=True)
class Prediction:
    """What a mapping does at an input rate.

    Attributes
    ----------
    rate
        The input rate asked about, tuples/s.
    supported_rate
        Greatest input rate at which no slot is sent more than its peak under shuffle grouping.
    capacity_rate
        Greatest input rate if every slot were sent what it can take.
    bottleneck
        Where the supported rate ends: (operator, machine, slot).
    slots
        ``machine#slot`` to CPU and memory in percent of the slot.
    nodes
        Machine to CPU and memory in percent of a slot, summed over its slots.
    """

    rate: float
    supported_rate: float | None
    capacity_rate: float | None
    bottleneck: tuple[str, str, int] | None
    slots: dict[str, dict[str, float]]
    nodes: dict[str, dict[str, float]]


def predict(
    instance: Instance, plan: Plan, rate: float | None = None, *, between: str = "linear"
) -> Prediction:
    """Predict supported rate, CPU and memory of any placement of threads.

    Parameters
    ----------
    instance, plan
        The plan carries threads, machines and slots; whatever made it.
    rate
        Input rate of the CPU and memory figures; the instance's by default.
    between
        Between measured thread counts: ``linear``, as the referee has it, or the ``nearest`` count,
        which is what the paper's own predictions come to.

    Raises
    ------
    InvalidInput
        The plan names what does not exist, or a thread without a slot.
    """
    bundles = checked_bundles(instance, plan, between)
    ids = [node.id for node in plan.nodes]
    asked = instance.input_rate if rate is None else rate
    served = bundles.peak if asked is None or not bundles.known else bundles.shuffled(asked)
    cpu, memory = bundles.use(served)
    slots = _labelled(bundles, ids, cpu, memory)
    sums = bundles.by_node(cpu), bundles.by_node(memory)
    supported, capacity, at = rates_of(bundles)
    return Prediction(
        rate=math.nan if asked is None else asked,
        supported_rate=supported,
        capacity_rate=capacity,
        bottleneck=None if at is None else _place(instance, bundles, ids, at),
        slots=slots,
        nodes={
            name: {"cpu": float(sums[0][v]), "memory": float(sums[1][v])}
            for v, name in enumerate(ids)
        },
    )


def _labelled(
    bundles: Bundles, ids: list[str], cpu: Floats, memory: Floats
) -> dict[str, dict[str, float]]:
    first, second = bundles.by_slot(cpu), bundles.by_slot(memory)
    return {f"{ids[v]}#{s}": {"cpu": first[v, s], "memory": second[v, s]} for v, s in first}


def _place(instance: Instance, bundles: Bundles, ids: list[str], row: int) -> tuple[str, str, int]:
    operator = instance.operators.ids[int(bundles.operator[row])]
    return operator, ids[int(bundles.node[row])], int(bundles.slot[row])
