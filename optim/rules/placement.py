"""A placement as rules see it: what figures are made from, and the assignment to slots."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from optim.figures import measures

if TYPE_CHECKING:
    from optim.rules.slot_assignment import SlotAssignment


class Placement(measures.Placement):
    """Where every task of an instance is."""

    @cached_property
    def slot_assignment(self) -> SlotAssignment:
        """Whether each node's tasks can be assigned to its slots."""
        from optim.rules.slot_assignment import assign_slots

        return assign_slots(self.instance, self.node)
