"""SAM, slot-aware mapping: full bundles to empty slots, the last bundle of a task to the best fit.

Source: Shukla and Simmhan 2017, section 7.4, Algorithm 6. By default the bundles are those that the
allocation formed; read literally, the algorithm forms them anew from thread counts, so that a lone
thread of a task whose best thread count is 1 takes a slot of its own however little it does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from formulations.model_driven.performance_model import FULL
from heuristics.model_driven.mapping import Mapped
from optim.format.plan import slot_order
from optim.util.tolerance import slack

if TYPE_CHECKING:
    from formulations.model_driven.performance_model import Counts
    from heuristics.model_driven.mapping import Job
    from optim.format.plan import AcquiredNode
    from optim.format.tables import Floats

_FITS = float(slack(FULL))


@dataclass(frozen=True, eq=False)
class Bundled:
    """(O,) full bundles, their threads, the threads of the last bundle, its CPU and memory."""

    full: Counts
    bundle: Counts
    rest: Counts
    cpu: Floats
    memory: Floats


def bundles_of(job: Job) -> Bundled:
    """Return the bundles to place, as allocated or by Algorithm 6 to the letter."""
    made = job.allocation
    if not job.options.get("literal", False):
        return Bundled(
            made.full_bundles, made.bundle_threads, made.rest_threads, made.rest_cpu,
            made.rest_memory,
        )  # fmt: skip
    full, rest = made.threads // made.bundle_threads, made.threads % made.bundle_threads
    cpu = np.maximum(made.cpu - FULL * full, 0.0)
    memory = np.maximum(made.memory - FULL * full, 0.0)
    return Bundled(full, made.bundle_threads, rest, cpu, memory)


class _Slots:
    """Free CPU and memory of the slots, and the next empty one from any machine on."""

    def __init__(self, nodes: tuple[AcquiredNode, ...]) -> None:
        self.node, self.slot = slot_order(nodes)
        self.start = np.searchsorted(self.node, np.arange(len(nodes)))
        self.cpu = np.full(len(self.node), FULL)
        self.memory = np.full(len(self.node), FULL)
        self.shared = np.empty(len(self.node), dtype=np.int64)
        self.num_shared = 0
        self._next = list(range(len(self.node) + 1))

    def _find(self, slot: int) -> int:
        """First empty slot from `slot` on, the number of slots if there is none."""
        while self._next[slot] != slot:
            self._next[slot] = self._next[self._next[slot]]
            slot = self._next[slot]
        return slot

    def next_empty(self, machine: int) -> int:
        """First empty slot of the machine, or of those after it, going round; -1 for none."""
        found = self._find(int(self.start[machine]))
        if found == len(self.node):
            found = self._find(0)
        return -1 if found == len(self.node) else found

    def best_fit(self, cpu: float, memory: float, machine: int) -> int:
        """Slot with the least CPU + memory left that suffices; -1 for none."""
        if self.num_shared:
            here = self.shared[: self.num_shared]
            fits = (self.cpu[here] >= cpu - _FITS) & (self.memory[here] >= memory - _FITS)
            if fits.any():
                here = here[fits]
                return int(here[np.argmin(self.cpu[here] + self.memory[here])])
        if cpu > FULL + _FITS or memory > FULL + _FITS:
            return -1
        return self.next_empty(machine)

    def take(self, slot: int, cpu: float, memory: float, *, whole: bool) -> None:
        """Book a bundle on a slot; a full one leaves nothing."""
        if self._next[slot] == slot:
            self._next[slot] = slot + 1
            if not whole:
                self.shared[self.num_shared] = slot
                self.num_shared += 1
        self.cpu[slot] -= FULL if whole else cpu
        self.memory[slot] -= FULL if whole else memory


def map_slot_aware(job: Job, nodes: tuple[AcquiredNode, ...]) -> Mapped:
    """Place one bundle of each task a sweep, tasks in topological order."""
    made, slots = bundles_of(job), _Slots(nodes)
    node = np.full(job.num_threads, -1, dtype=np.int64)
    slot = np.full(job.num_threads, -1, dtype=np.int64)
    left, done = made.full.copy(), job.first.copy()
    rest = made.rest.copy()
    active, machine = job.order.tolist(), 0
    while active:
        for o in active:
            whole = bool(left[o] > 0)
            cpu, memory = float(made.cpu[o]), float(made.memory[o])
            at = slots.next_empty(machine) if whole else slots.best_fit(cpu, memory, machine)
            if at < 0:
                hopeless = not whole and max(cpu, memory) > FULL + _FITS
                return Mapped(node, slot, o, hopeless)
            slots.take(at, cpu, memory, whole=whole)
            machine = int(slots.node[at])
            threads = int(made.bundle[o] if whole else rest[o])
            node[done[o] : done[o] + threads] = machine
            slot[done[o] : done[o] + threads] = slots.slot[at]
            done[o] += threads
            if whole:
                left[o] -= 1
            else:
                rest[o] = 0
        active = [o for o in active if left[o] > 0 or rest[o] > 0]
    return Mapped(node, slot)
