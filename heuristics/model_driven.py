"""The six combinations: ``lsa`` or ``mba`` threads, mapped by ``dsm``, ``rsm`` or ``sam``.

Each is a method ``allocation+mapping``. The allocation says how many threads each task gets and how
many slots they ask for; machines are acquired for these; the mapping places every thread. Where it
fails, one more slot is acquired and the mapping repeated.

Source: Shukla and Simmhan, JPDC 2018, arXiv:1702.01785, sections 6 to 8.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.model_driven.allocate import acquire, allocate
from formulations.model_driven.performance_model import FULL
from optim.figures.measures import slack
from optim.format.document import MAX_NODES
from optim.format.plan import AcquiredNode, ThreadPlacement, slot_order
from optim.format.traffic import topological_order
from optim.methods.registry import Method, Option, Outcome
from optim.referee import Termination
from optim.rules.base import Form
from optim.util.compiled import helper, kernel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from formulations.model_driven.allocate import Allocation
    from formulations.model_driven.performance_model import Counts
    from optim.format.instance import Instance
    from optim.format.tables import Floats
    from optim.methods.registry import Request

# What the mappings share: the job they map, what they return, and further slots when they fail.
#
# Source: Shukla and Simmhan 2017, Algorithm 4. Threads are taken task by task in the order of the
# instance, slots machine by machine, as in the paper's Figure 4.


@dataclass(frozen=True, eq=False)
class Job:
    """An allocated DAG."""

    allocation: Allocation  # Threads and what they are booked with.
    order: Counts  # (O,) tasks in topological order, ties by index (breadth first).
    first: Counts  # (O,) number of each task's first thread; threads are counted task after task.
    options: Mapping[str, Any]  # Of the method.
    cores: Mapping[str, int]  # Machine type to its cores, one for each slot it has.

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
    """A mapping, or where it failed."""

    #: (Q,) machine and slot of each thread; -1 for threads that were left.
    node: Counts
    slot: Counts
    failed: int = -1  # Task that found no place; -1 when all threads are placed.
    never_fits: bool = False  # No number of slots would help.


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
        if mapped.failed < 0 or mapped.never_fits or fixed or slots > most:
            return Placed(nodes, mapped, tries)
        slots += step * 2 ** (tries // _PATIENCE)


def map_round_robin(job: Job, nodes: tuple[AcquiredNode, ...]) -> Mapped:
    """Place thread n in slot n modulo the number of slots; this never fails."""
    node, slot = slot_order(nodes)
    turn = np.arange(job.num_threads) % len(node)
    return Mapped(node[turn], slot[turn])


# RSM, R-Storm's mapping: thread by thread to the machine at the least resource distance.
#
# Source: Shukla and Simmhan 2017, section 7.3, Algorithm 5; after R-Storm (Peng et al.,
# Middleware 2015). One thread of each task a sweep, tasks in topological order. A machine needs
# the CPU, one of the slots in use the memory; its CPU and memory in the distance are those of the
# whole machine, of which the job may use fewer slots. Shares of a slot, not percent (the
# algorithm's 1.00).

SLOT_RULES = ("first", "most_free", "least_free")
"""Which slot of a machine takes a thread, of those with the memory: the paper leaves it open."""

_SHARE_FITS = float(slack(FULL)) / FULL


def use_of_threads(job: Job) -> tuple[Floats, Floats]:
    """(O,) CPU and memory that a thread of each task is booked with, shares of a slot.

    The thread measured alone for LSA, and for MBA the average of the task's booking: booked as if
    alone, MBA's many threads would need several times the slots it planned with.
    """
    allocation = job.allocation
    if allocation.name == "lsa":
        return allocation.single_cpu / FULL, allocation.single_memory / FULL
    return allocation.cpu / allocation.threads / FULL, allocation.memory / allocation.threads / FULL


def map_resource_aware(job: Job, nodes: tuple[AcquiredNode, ...]) -> Mapped:
    """Run the sweeps; fails with the first task of which a thread fits nowhere."""
    cpu, memory = use_of_threads(job)
    sizes = np.array([node.slots for node in nodes], dtype=np.int64)
    cores = np.array([job.cores[node.vm_type] for node in nodes], dtype=np.int64)
    options = job.options
    weights = tuple(float(options[name]) for name in ("w_memory", "w_cpu", "w_network"))
    rule = SLOT_RULES.index(options["slot_rule"])
    node, slot, failed = map_threads(
        job.order, job.allocation.threads, job.first, cpu, memory, sizes, cores, weights, rule,
        _SHARE_FITS,
    )  # fmt: skip
    most_cpu = max(job.cores.values()) + _SHARE_FITS
    never_fits = failed >= 0 and bool(memory[failed] > 1 + _SHARE_FITS or cpu[failed] > most_cpu)
    return Mapped(node, slot, int(failed), never_fits)


def warm_up() -> None:
    """Compile the kernel, or load it from the cache, on a tiny job."""
    one, share = np.ones(1, dtype=np.int64), np.full(1, 0.5)
    zero = np.zeros(1, dtype=np.int64)
    map_threads(zero, one, zero, share, share, one, one, (1.0, 1.0, 1.0), 0, _SHARE_FITS)


# Algorithm 5 compiled, on plain arrays.

FIRST, MOST_FREE, LEAST_FREE = 0, 1, 2


@kernel
def map_threads(order, threads, first, cpu, memory, sizes, cores, weights, rule, tolerance):
    """Map all threads.

    `order`: (O,) tasks in the order of a sweep.
    `threads`, `first`: (O,) threads of each task, and the number of its first one.
    `cpu`, `memory`: (O,) use of a thread, shares of a slot.
    `sizes`, `cores`: (V,) slots in use and cores of each machine; all stand in one rack.
    `weights`: of memory, CPU and network in the distance.
    `rule`: slot of a machine: FIRST with the memory, MOST_FREE or LEAST_FREE.
    `tolerance`: by how much a use may exceed what is free.
    Returns (Q,) machine and slot of each thread, -1 where left, and the task that failed or -1.
    """
    num_threads = threads.sum()
    start = np.zeros(len(sizes) + 1, np.int64)
    start[1:] = np.cumsum(sizes)
    free_cpu = cores.astype(np.float64)
    free_memory = cores.astype(np.float64)
    slot_memory = np.ones(start[-1])
    roomiest = np.ones(len(sizes))
    node = np.full(num_threads, -1, np.int64)
    slot = np.full(num_threads, -1, np.int64)
    done = np.zeros(len(threads), np.int64)
    reference = 0
    placed = 0
    open_to = np.arange(len(sizes))  # machines that may still take a thread of some task
    while placed < num_threads:
        for task in order:
            if done[task] == threads[task]:
                continue
            c, m = cpu[task], memory[task]
            best, least = -1, np.inf
            for v in open_to:
                if free_cpu[v] + tolerance < c or roomiest[v] + tolerance < m:
                    continue
                hop = 0.0 if v == reference else 0.5
                distance = (
                    weights[0] * (free_memory[v] - m) ** 2
                    + weights[1] * (free_cpu[v] - c) ** 2
                    + weights[2] * hop
                )
                if distance < least:
                    best, least = v, distance
            if best < 0:
                return node, slot, task
            at = _slot_of(slot_memory, start[best], start[best + 1], m - tolerance, rule)
            slot_memory[at] -= m
            free_cpu[best] -= c
            free_memory[best] -= m
            roomiest[best] = slot_memory[start[best] : start[best + 1]].max()
            thread = first[task] + done[task]
            node[thread], slot[thread] = best, at - start[best]
            done[task] += 1
            placed += 1
            reference = best
        open_to = _still_open(open_to, free_cpu, roomiest, threads, done, cpu, memory, tolerance)
    return node, slot, -1


@helper
def _still_open(open_to, free_cpu, roomiest, threads, done, cpu, memory, tolerance):
    """Machines with the CPU and memory of the least thread left; the others never take one."""
    least_cpu, least_memory = np.inf, np.inf
    for task in range(len(threads)):
        if done[task] < threads[task]:
            least_cpu, least_memory = min(least_cpu, cpu[task]), min(least_memory, memory[task])
    count = 0
    for v in open_to:
        if free_cpu[v] + tolerance >= least_cpu and roomiest[v] + tolerance >= least_memory:
            open_to[count] = v
            count += 1
    return open_to[:count]


@helper
def _slot_of(free, begin, end, needed, rule):
    """Slot of a machine with the memory, by the rule; there is one."""
    best = -1
    for s in range(begin, end):
        if free[s] < needed:
            continue
        better = best < 0
        if not better and rule == MOST_FREE:
            better = free[s] > free[best]
        elif not better and rule == LEAST_FREE:
            better = free[s] < free[best]
        if better:
            best = s
        if rule == FIRST:
            break
    return best


_ALLOCATIONS = {
    "lsa": ("threads by linear scaling of one", "Algorithm 2"),
    "mba": ("threads by the performance model, in bundles", "Algorithm 3"),
}
_MAPPINGS = {
    "dsm": ("round robin over slots (Storm's default)", "Algorithm 4"),
    "rsm": ("thread by thread to the machine nearest in CPU, memory and network", "Algorithm 5"),
    "sam": ("full bundles to slots of their own, the last one to the best fit", "Algorithm 6"),
}


def place_threads(instance: Instance, allocation: str, mapping: str, request: Request) -> Outcome:
    """Allocate, acquire, map, and acquire more where mapping fails.

    Raises `InvalidInput`: a rate that no thread count supports, or a model that lacks what the
        allocation reads.
    """
    request, compiling = request.warmed(*((warm_up,) if mapping == "rsm" else ()))
    began = time.perf_counter()
    allocated = allocate(instance, allocation)
    job = Job.of(instance, allocated, request.options)
    building = time.perf_counter() - began
    placed = map_with_further_slots(instance, job, _MAPPERS[mapping])
    outcome = Outcome(Termination.HEURISTIC, times={"build": building})
    if mapping == "rsm":
        outcome.times["compile"] = compiling
    outcome.notes += _notes(instance, job, placed)
    if placed.mapped.failed < 0:
        outcome.threads = ThreadPlacement(
            allocated.threads, placed.nodes, placed.mapped.node, placed.mapped.slot, allocated.slots
        )
    return outcome


def _notes(instance: Instance, job: Job, placed: Placed) -> list[str]:
    allocation = job.allocation
    cpu, memory = allocation.totals
    notes = [
        f"{allocation.name} asks for {allocation.slots} slots: {job.num_threads:,} threads, "
        f"{cpu:,.2f} % CPU, {memory:,.2f} % memory of a slot"
    ]
    slots = sum(node.slots for node in placed.nodes)
    failed = placed.mapped.failed
    if failed >= 0:
        task = instance.operators.ids[failed]
        if placed.mapped.never_fits:
            notes.append(
                f"insufficient resources for {task}: what must stand together of it needs more "
                "than an empty slot (or machine) has, so that no number of slots would do"
            )
        else:
            notes.append(f"insufficient resources for {task} on {slots} slots; more slots may do")
    elif slots > allocation.slots:
        tries = "" if placed.tries == 1 else f", mapped in {placed.tries} tries"
        notes.append(f"{slots - allocation.slots} extra slots acquired{tries}")
    elif slots < allocation.slots:
        notes.append(
            f"placed on {slots} slots as requested, though {allocation.name} asks for "
            f"{allocation.slots}"
        )
    return notes


_SLOTS = Option(
    "slots",
    "int",
    None,
    "map onto this many slots, instead of what the allocation asks for and more on failure",
    minimum=1,
    maximum=MAX_NODES,
)
_STEP = Option(
    "step", "int", 1, "slots acquired when the mapping fails", minimum=1, maximum=100_000
)
_WEIGHT = "weight of {} in the distance of a machine"
_OF_MAPPING: dict[str, tuple[Option, ...]] = {
    "dsm": (),
    "rsm": (
        _STEP,
        Option("w_memory", "float", 1.0, _WEIGHT.format("free memory"), minimum=0, maximum=1e9),
        Option("w_cpu", "float", 1.0, _WEIGHT.format("free CPU"), minimum=0, maximum=1e9),
        Option("w_network", "float", 1.0, _WEIGHT.format("network hops"), minimum=0, maximum=1e9),
        Option(
            "slot_rule",
            "str",
            "first",
            "slot of the machine: the first with the memory, or that with most or least of it free",
            choices=SLOT_RULES,
        ),
    ),
    "sam": (
        _STEP,
        Option(
            "literal",
            "bool",
            False,
            "form bundles from thread counts as Algorithm 6 reads, instead of the allocation's",
        ),
    ),
}


def _method(allocation: str, mapping: str) -> Method:
    threads, first = _ALLOCATIONS[allocation]
    places, second = _MAPPINGS[mapping]

    def run(instance: Instance, request: Request) -> Outcome:
        return place_threads(instance, allocation, mapping, request)

    return Method(
        name=f"{allocation}+{mapping}",
        family="model-driven",
        decides="threads",
        kind="heuristic",
        objective="slots",
        run=run,
        summary=f"{threads[0].upper()}{threads[1:]}; {places}",
        source=f"Shukla and Simmhan, JPDC 2018, {first} and {second}",
        needs=("models", "dag", "tuple_rates", "vm_types", "whole_slots"),
        forms=frozenset({Form.SLOTS}),
        options=(_SLOTS, *_OF_MAPPING[mapping]),
        # by LSA's booking, taken literally, the last bundle may need less than the model says
        promises_feasibility=(allocation, mapping) == ("mba", "sam"),
    )


LSA_DSM = _method("lsa", "dsm")
LSA_RSM = _method("lsa", "rsm")
LSA_SAM = _method("lsa", "sam")
MBA_DSM = _method("mba", "dsm")
MBA_RSM = _method("mba", "rsm")
MBA_SAM = _method("mba", "sam")


# SAM, slot-aware mapping: full bundles to empty slots, the last bundle of a task to the best fit.
#
# Source: Shukla and Simmhan 2017, section 7.4, Algorithm 6. By default the bundles are those that
# the allocation formed; read literally, the algorithm forms them anew from thread counts, so that
# a lone thread of a task whose best thread count is 1 takes a slot of its own however little it
# does.

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
    allocation = job.allocation
    if not job.options.get("literal", False):
        return Bundled(
            allocation.full_bundles, allocation.bundle_threads, allocation.rest_threads,
            allocation.rest_cpu, allocation.rest_memory,
        )  # fmt: skip
    full, rest = (
        allocation.threads // allocation.bundle_threads,
        allocation.threads % allocation.bundle_threads,
    )
    cpu = np.maximum(allocation.cpu - FULL * full, 0.0)
    memory = np.maximum(allocation.memory - FULL * full, 0.0)
    return Bundled(full, allocation.bundle_threads, rest, cpu, memory)


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
        slot = self._find(int(self.start[machine]))
        if slot == len(self.node):
            slot = self._find(0)
        return -1 if slot == len(self.node) else slot

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
    bundles, slots = bundles_of(job), _Slots(nodes)
    node = np.full(job.num_threads, -1, dtype=np.int64)
    slot = np.full(job.num_threads, -1, dtype=np.int64)
    left, done = bundles.full.copy(), job.first.copy()
    rest = bundles.rest.copy()
    active, machine = job.order.tolist(), 0
    while active:
        for o in active:
            whole = bool(left[o] > 0)
            cpu, memory = float(bundles.cpu[o]), float(bundles.memory[o])
            at = slots.next_empty(machine) if whole else slots.best_fit(cpu, memory, machine)
            if at < 0:
                never_fits = not whole and max(cpu, memory) > FULL + _FITS
                return Mapped(node, slot, o, never_fits)
            slots.take(at, cpu, memory, whole=whole)
            machine = int(slots.node[at])
            threads = int(bundles.bundle[o] if whole else rest[o])
            node[done[o] : done[o] + threads] = machine
            slot[done[o] : done[o] + threads] = slots.slot[at]
            done[o] += threads
            if whole:
                left[o] -= 1
            else:
                rest[o] = 0
        active = [o for o in active if left[o] > 0 or rest[o] > 0]
    return Mapped(node, slot)


_MAPPERS = {"dsm": map_round_robin, "rsm": map_resource_aware, "sam": map_slot_aware}
