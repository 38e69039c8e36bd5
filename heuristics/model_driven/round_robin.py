"""DSM, Storm's default mapping: threads round robin over the slots.

Source: Shukla and Simmhan 2017, Algorithm 4. Threads are taken task by task in the order of the
instance, slots machine by machine, as in the paper's Figure 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from heuristics.model_driven.mapping import Mapped
from optim.format.threads import slot_order

if TYPE_CHECKING:
    from heuristics.model_driven.mapping import Job
    from optim.format.plan import AcquiredNode


def map_round_robin(job: Job, nodes: tuple[AcquiredNode, ...]) -> Mapped:
    """Place thread n in slot n modulo the number of slots; this never fails."""
    node, slot = slot_order(nodes)
    turn = np.arange(job.num_threads) % len(node)
    return Mapped(node[turn], slot[turn])
