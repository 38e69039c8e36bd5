"""RSM, R-Storm's mapping: thread by thread to the machine at the least resource distance.

Source: Shukla and Simmhan 2017, section 7.3, Algorithm 5; after R-Storm (Peng et al., Middleware
2015). One thread of each task a sweep, tasks in topological order. A machine needs the CPU, one of
the slots in use the memory; its CPU and memory in the distance are those of the whole machine, of
which the job may use fewer slots. Shares of a slot, not percent (the algorithm's 1.00).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.model_driven.performance_model import FULL
from heuristics.model_driven.mapping import Mapped
from optim.util.tolerance import slack

if TYPE_CHECKING:
    from heuristics.model_driven.mapping import Job
    from optim.format.plan import AcquiredNode
    from optim.format.tables import Floats

SLOT_RULES = ("first", "most_free", "least_free")
"""Which slot of a machine takes a thread, of those with the memory: the paper leaves it open."""

_FITS = float(slack(FULL)) / FULL


def use_of_threads(job: Job) -> tuple[Floats, Floats]:
    """(O,) CPU and memory that a thread of each task is booked with, shares of a slot.

    The thread measured alone for LSA, and for MBA the average of the task's booking: booked as if
    alone, MBA's many threads would need several times the slots it planned with.
    """
    made = job.allocation
    if made.name == "lsa":
        return made.single_cpu / FULL, made.single_memory / FULL
    return made.cpu / made.threads / FULL, made.memory / made.threads / FULL


def map_resource_aware(job: Job, nodes: tuple[AcquiredNode, ...]) -> Mapped:
    """Run the sweeps; fails with the first task of which a thread fits nowhere."""
    from heuristics.model_driven.resource_aware_kernel import map_threads

    cpu, memory = use_of_threads(job)
    sizes = np.array([node.slots for node in nodes], dtype=np.int64)
    cores = np.array([job.cores[node.vm_type] for node in nodes], dtype=np.int64)
    options = job.options
    weights = tuple(float(options[name]) for name in ("w_memory", "w_cpu", "w_network"))
    rule = SLOT_RULES.index(options["slot_rule"])
    node, slot, failed = map_threads(
        job.order, job.allocation.threads, job.first, cpu, memory, sizes, cores, weights, rule,
        _FITS,
    )  # fmt: skip
    most_cpu = max(job.cores.values()) + _FITS
    hopeless = failed >= 0 and bool(memory[failed] > 1 + _FITS or cpu[failed] > most_cpu)
    return Mapped(node, slot, int(failed), hopeless)


def warm_up() -> None:
    """Compile the kernel, or load it from the cache, on a tiny job."""
    from heuristics.model_driven.resource_aware_kernel import map_threads

    one, share = np.ones(1, dtype=np.int64), np.full(1, 0.5)
    zero = np.zeros(1, dtype=np.int64)
    map_threads(zero, one, zero, share, share, one, one, (1.0, 1.0, 1.0), 0, _FITS)
