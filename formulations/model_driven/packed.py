"""The best packing of a run of `slots-milp`: fewer slots first, then less traffic."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from formulations.model_driven.slots import placement
from formulations.model_driven.traffic import rates_of_pairs, traffic_between

if TYPE_CHECKING:
    from formulations.model_driven.allocate import Allocation
    from formulations.model_driven.items import Items
    from formulations.model_driven.slots import Machines
    from optim.format.instance import Instance
    from optim.format.plan import AcquiredNode
    from optim.format.tables import Floats
    from optim.format.threads import ThreadPlacement

_LESS = 1e-6
"""By how much less traffic, in thousandths of all, a packing is better."""


@dataclass
class Packed:
    """The packing in hand.

    Attributes
    ----------
    machines, nodes
        Slots in use of each machine, and the machines; empty while there is no packing.
    traffic
        Between the machines, in thousandths of all.
    pairs
        (C, C) traffic between one item of each class, in the same unit.
    """

    items: Items
    pairs: Floats
    machines: Machines = field(default_factory=list)
    nodes: tuple[AcquiredNode, ...] = ()
    traffic: float = float("inf")

    @classmethod
    def empty(cls, instance: Instance, items: Items) -> Packed:
        """Nothing yet."""
        return cls(items, rates_of_pairs(items, instance))

    @property
    def num_slots(self) -> int:
        """Slots of the machines."""
        return sum(node.slots for node in self.nodes)

    def placement(self, allocation: Allocation) -> ThreadPlacement:
        """Place the allocation's threads as they are packed."""
        return placement(self.items, self.machines, self.nodes, allocation)

    def offer(self, machines: Machines, nodes: tuple[AcquiredNode, ...]) -> bool:
        """Take a packing if it is better; return whether it was."""
        slots = sum(node.slots for node in nodes)
        if self.nodes and slots > self.num_slots:
            return False
        traffic = traffic_between(self.items, machines, self.pairs)
        if slots == self.num_slots and traffic >= self.traffic - _LESS:
            return False
        self.machines, self.nodes, self.traffic = machines, nodes, traffic
        return True
