"""Acquiring machines for a number of slots.

Source: Shukla and Simmhan 2017, section 7.1: as many of the largest machines as fit in the number
of slots, then the smallest machine that covers the rest. A job uses no more slots of the last
machine than were asked for; its price is that of the whole machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim.format.plan import AcquiredNode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optim.format.instance import Instance
    from optim.format.tables import VmType


def cores_of(instance: Instance, nodes: Sequence[AcquiredNode]) -> list[int]:
    """Return the cores of each machine: as many as its type has slots, whatever the job uses."""
    slots = {vm.id: vm.slots for vm in instance.vm_types}
    return [slots[node.vm_type] for node in nodes]


def acquire(instance: Instance, slots: int) -> tuple[AcquiredNode, ...]:
    """Acquire machines ``vm1``, ``vm2``, … that lend `slots` slots in all.

    Parameters
    ----------
    slots
        At least 1.
    """
    largest = min(instance.vm_types, key=lambda vm: (-vm.slots, vm.price))
    whole, rest = divmod(slots, largest.slots)
    chosen: list[tuple[VmType, int]] = [(largest, largest.slots)] * whole
    if rest:
        covering = [vm for vm in instance.vm_types if vm.slots >= rest]
        chosen.append((min(covering, key=lambda vm: (vm.slots, vm.price)), rest))
    return tuple(
        AcquiredNode(
            id=f"vm{v + 1}",
            vm_type=vm.id,
            slots=used,
        )
        for v, (vm, used) in enumerate(chosen)
    )
