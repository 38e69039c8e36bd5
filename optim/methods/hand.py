"""The plans in hand while a method runs: whatever happens next, the best of them is not lost."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from optim.format.tables import Ints
    from optim.format.threads import ThreadPlacement

_KEPT = 4
BEFORE = "a plan found before"
"""Name of what the running method itself handed over."""


class Held(NamedTuple):
    """A plan in hand: who found it, (T,) nodes, and slots where they are decided."""

    name: str
    node: Ints
    slot: Ints | None = None


@dataclass(eq=False)
class Hand:
    """Plans that a running method handed over, the last few of them.

    Methods hand over what they take for better than before, so the last ones are the best; which
    is, the referee says.

    Attributes
    ----------
    plans
        Oldest first.
    threads
        The same for a method whose plans say threads; only the last one.
    """

    plans: list[Held] = field(default_factory=list)
    threads: ThreadPlacement | None = None

    def offer(self, name: str, node: Ints, slot: Ints | None = None) -> None:
        """Take a complete placement; the arrays are copied."""
        found = np.array(node, dtype=np.int32)
        if len(found) and found.min() < 0:
            return
        self.plans.append(Held(name, found, None if slot is None else np.array(slot, np.int32)))
        del self.plans[:-_KEPT]

    def hold(self, node: Ints, slot: Ints | None = None) -> None:
        """Take a placement of the running method itself."""
        self.offer(BEFORE, node, slot)
