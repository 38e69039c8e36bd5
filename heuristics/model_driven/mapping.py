"""What the mappings share: the job they map, what they return, and further slots when they fail.

Source: Shukla and Simmhan 2017, Algorithm 4. Threads are taken task by task in the order of the
instance, slots machine by machine, as in the paper's Figure 4.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.model_driven.allocate import acquire
from optim.format.demand import topological_order
from optim.format.plan import AcquiredNode, slot_order

if TYPE_CHECKING:
    from collections.abc import Mapping

    from formulations.model_driven.allocate import Allocation
    from formulations.model_driven.performance_model import Counts
    from optim.format.instance import Instance


@dataclass(frozen=True, eq=False)
class Job:
    """An allocated DAG.

    Attributes
    ----------
    allocation
        Threads and what they are booked with.
    order
        (O,) tasks in topological order, ties by index (breadth first).
    first
        (O,) number of each task's first thread; threads are counted task after task.
    options
        Of the method.
    cores
        Machine type to its cores, one for each slot it has.
    """

    allocation: Allocation
    order: Counts
    first: Counts
    options: Mapping[str, Any]
    cores: Mapping[str, int]

    @classmethod
    def of(cls, instance: Instance, allocation: Allocation, options: Mapping[str, Any]) -> Job:
        """Order the tasks of an allocated instance; it has no cycle."""
        edges = [(s.source, s.target) for s in instance.streams]
        order = np.array(topological_order(instance.num_operators, edges), dtype=np.int64)
        threads = allocation.threads
        cores = {vm.id: vm.slots for vm in instance.vm_types}
        return cls(allocation, order, np.cumsum(threads) - threads, options, cores)

    @property
    def num_threads(self) -> int:
        """Threads of all tasks."""
        return int(self.allocation.threads.sum())


@dataclass(frozen=True, eq=False)
class Mapped:
    """A mapping, or where it failed.

    Attributes
    ----------
    node, slot
        (Q,) machine and slot of each thread; -1 for threads that were left.
    failed
        Task that found no place; -1 when all threads are placed.
    hopeless
        No number of slots would help.
    """

    node: Counts
    slot: Counts
    failed: int = -1
    hopeless: bool = False


_PATIENCE = 32

Mapper = Callable[[Job, tuple[AcquiredNode, ...]], Mapped]


@dataclass(frozen=True, eq=False)
class Placed:
    """The machines that did, their mapping, and how often it was tried."""

    nodes: tuple[AcquiredNode, ...]
    mapped: Mapped
    tries: int


def map_with_further_slots(instance: Instance, job: Job, mapper: Mapper) -> Placed:
    """Map onto the slots that the allocation asked for; on failure acquire more and start again.

    Option ``slots`` fixes their number instead; option ``step`` is how many are added each time,
    doubled after every 32 tries, so that a job that needs thousands more is not mapped thousands of
    times. A mapping that places what fits an empty machine succeeds at the latest when there is a
    slot for each thread, so that the repetition ends.
    """
    fixed, step = job.options.get("slots"), job.options.get("step", 1)
    slots = fixed or job.allocation.slots
    most = max(slots, job.num_threads) + step
    tries = 0
    while True:
        nodes = acquire(instance, slots)
        mapped = mapper(job, nodes)
        tries += 1
        if mapped.failed < 0 or mapped.hopeless or fixed or slots > most:
            return Placed(nodes, mapped, tries)
        slots += step * 2 ** (tries // _PATIENCE)


def map_round_robin(job: Job, nodes: tuple[AcquiredNode, ...]) -> Mapped:
    """Place thread n in slot n modulo the number of slots; this never fails."""
    node, slot = slot_order(nodes)
    turn = np.arange(job.num_threads) % len(node)
    return Mapped(node[turn], slot[turn])
