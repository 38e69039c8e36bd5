"""What a model-driven method decides: threads, acquired machines, and a slot for every thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from optim.format.plan import AcquiredNode, Plan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from optim.format.instance import Instance

    Counts = NDArray[np.int64]

__all__ = ["AcquiredNode", "ThreadPlacement"]


@dataclass(frozen=True, eq=False)
class ThreadPlacement:
    """Threads on the slots of acquired machines.

    Attributes
    ----------
    threads
        (O,) threads of each operator.
    nodes
        The machines, with the slots of each that the job uses.
    node, slot
        (Q,) index into `nodes` and slot of each thread, operator after operator.
    planned_slots
        Slots that the allocation asked for, before mapping acquired more.
    """

    threads: Counts
    nodes: tuple[AcquiredNode, ...]
    node: Counts
    slot: Counts
    planned_slots: int

    @property
    def num_slots(self) -> int:
        """Slots of all machines."""
        return sum(node.slots for node in self.nodes)

    def to_plan(
        self, instance: Instance, method: str = "", versions: Mapping[str, str] | None = None
    ) -> Plan:
        """Name threads ``op/0``, ``op/1``, … and write the plan.

        Raises
        ------
        ValueError
            The lengths do not agree: a thread left unplaced is no plan.
        """
        if int(self.threads.sum()) != len(self.node) or len(self.node) != len(self.slot):
            raise ValueError("every thread needs a machine and a slot")
        names = [
            f"{operator}/{i}"
            for operator, count in zip(instance.operators.ids, self.threads.tolist(), strict=True)
            for i in range(count)
        ]
        ids = [node.id for node in self.nodes]
        return Plan(
            instance_name=instance.name,
            assignment={t: ids[n] for t, n in zip(names, self.node.tolist(), strict=True)},
            slots=dict(zip(names, self.slot.tolist(), strict=True)),
            threads=dict(zip(instance.operators.ids, self.threads.tolist(), strict=True)),
            nodes=self.nodes,
            planned_slots=self.planned_slots,
            planned_rate=instance.input_rate,
            method=method,
            versions=dict(versions or {}),
            _instance=instance,
        )


def slot_order(nodes: tuple[AcquiredNode, ...]) -> tuple[Counts, Counts]:
    """Return machine and slot number of all slots, machine after machine; (S,) each."""
    counts = np.array([node.slots for node in nodes], dtype=np.int64)
    node = np.repeat(np.arange(len(nodes)), counts)
    starts = np.cumsum(counts) - counts
    return node, np.arange(len(node)) - np.repeat(starts, counts)
