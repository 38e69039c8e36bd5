"""How many threads each task of a model-driven instance gets, and how many slots they ask for.

Two published allocations. LSA takes one thread's rate and use and scales them linearly; MBA takes
the whole model: bundles of the thread count with the greatest rate, a slot to each, and for the
rest the least measured thread count that reaches it.

Source: Shukla and Simmhan 2017, section 6, Algorithms 2 and 3.

Readings where the paper is silent: a task that receives nothing still gets one thread (booked as
measured where the model has no rate above 0, since nothing says what less work takes). A source or
sink with a model gets one thread at its full use, as the paper's do ("static allocation"), as long
as one thread reaches the rate. Thread counts that need more than a slot are left out of MBA.

Acquiring machines for a number of slots.

Source: Shukla and Simmhan 2017, section 7.1: as many of the largest machines as fit in the number
of slots, then the smallest machine that covers the rest. A job uses no more slots of the last
machine than were asked for; its price is that of the whole machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from formulations.model_driven.performance_model import FULL, PerformanceModel, performance_models
from optim.errors import InvalidInput, Problem
from optim.format.document import MAX_NODES, MAX_TASKS
from optim.format.plan import AcquiredNode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formulations.model_driven.performance_model import Counts
    from optim.format.instance import Instance
    from optim.format.tables import Floats, VmType


def cores_of(instance: Instance, nodes: Sequence[AcquiredNode]) -> list[int]:
    """Return the cores of each machine: as many as its type has slots, whatever the job uses."""
    slots = {vm.id: vm.slots for vm in instance.vm_types}
    return [slots[node.vm_type] for node in nodes]


def acquire(instance: Instance, slots: int) -> tuple[AcquiredNode, ...]:
    """Acquire machines ``vm1``, ``vm2``, … that lend `slots` slots in all.

    `slots`: at least 1.
    """
    largest = min(instance.vm_types, key=lambda vm: (-vm.slots, vm.price))
    whole, rest = divmod(slots, largest.slots)
    chosen: list[tuple[VmType, int]] = [(largest, largest.slots)] * whole
    if rest:
        covering = [vm for vm in instance.vm_types if vm.slots >= rest]
        chosen.append((min(covering, key=lambda vm: (vm.slots, vm.price)), rest))
    return tuple(
        AcquiredNode(id=f"vm{v + 1}", vm_type=vm.id, slots=used)
        for v, (vm, used) in enumerate(chosen)
    )


ALLOCATIONS = ("lsa", "mba")
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Allocation:
    """Threads of each task and the use they are booked with; O tasks."""

    name: str  # ``lsa`` or ``mba``.
    threads: Counts  # (O,) threads.
    #: (O,) booked for all threads of a task, percent of a slot.
    cpu: Floats
    memory: Floats
    #: (O,) bundles that fill a slot each, and the threads of one.
    full_bundles: Counts
    bundle_threads: Counts
    #: (O,) threads of the last bundle, which shares a slot (0 for none), and its use.
    rest_threads: Counts
    rest_cpu: Floats
    rest_memory: Floats
    #: (O,) use of one thread measured alone, percent of a slot.
    single_cpu: Floats
    single_memory: Floats

    @property
    def slots(self) -> int:
        """`ρ`: the greater of all CPU and all memory in whole slots, at least 1."""
        return max(1, *(math.ceil(total / FULL - _ROUNDING) for total in self.totals))

    @property
    def totals(self) -> tuple[float, float]:
        """CPU and memory of all tasks, percent of a slot."""
        return float(self.cpu.sum()), float(self.memory.sum())


@dataclass
class _Row:
    """What is decided for one task."""

    threads: int
    cpu: float
    memory: float
    full: int
    bundle: int
    rest: int
    rest_cpu: float
    rest_memory: float


def allocate(instance: Instance, name: str) -> Allocation:
    """Allocate threads by ``lsa`` or ``mba``.

    Raises `InvalidInput`: a task's rate is supported by no thread count, a model lacks what the
        allocation reads, or more threads would be needed than a plan may hold.
    """
    models = performance_models(instance)
    rates = instance.operators.tuple_rate
    _check(instance, models, rates, name)
    decide = _linear if name == "lsa" else _by_model
    rows = [
        _static(model)
        if role in ("source", "sink") and model.has_single and rate <= model.rate(1)
        else decide(model, float(rate))
        for model, rate, role in zip(models, rates, instance.operators.role, strict=True)
    ]
    allocation = _collect(name, rows, models)
    _check_size(instance, allocation)
    return allocation


def _linear(model: PerformanceModel, rate: float) -> _Row:
    """LSA (Algorithm 2), with the bundles that SAM would make of its threads."""
    single = float(model.rate(1))
    whole, residual = _split(rate, single)
    threads = max(1, whole + (residual > 0))
    scale = rate / single if single > 0 else 1.0  # of a model without rates nothing is scaled
    best = model.best
    bundle = int(model.threads[best])
    full, rest = divmod(threads, bundle)
    if full and bundle == 1 and threads > whole:
        full, rest = full - 1, 1  # the last thread is not used up, and shares a slot
    level = 1.0
    if rest == 1 and single > 0:
        left = max(0.0, rate - full * float(model.rates[best]))
        level = min(1.0, left / single)
    rest_cpu = float(model.cpu(rest)) * level if rest else 0.0
    rest_memory = float(model.memory(rest)) * level if rest else 0.0
    cpu, memory = float(model.cpu(1)) * scale, float(model.memory(1)) * scale
    return _Row(threads, cpu, memory, full, bundle, rest, rest_cpu, rest_memory)


def _by_model(model: PerformanceModel, rate: float) -> _Row:
    """MBA (Algorithm 3)."""
    best = model.best
    peak, bundle = float(model.rates[best]), int(model.threads[best])
    full, residual = _split(rate, peak)
    rest, rest_cpu, rest_memory = 0, 0.0, 0.0
    if residual > 0 or full == 0:
        at = model.position_for(residual)
        rest = int(model.threads[at])
        # a single thread works below its peak; more threads are booked as measured
        level = residual / float(model.rates[at]) if rest == 1 and model.rates[at] > 0 else 1.0
        rest_cpu, rest_memory = float(model.cpus[at]) * level, float(model.memories[at]) * level
    threads = full * bundle + rest
    cpu, memory = FULL * full + rest_cpu, FULL * full + rest_memory
    return _Row(threads, cpu, memory, full, bundle, rest, rest_cpu, rest_memory)


def _static(model: PerformanceModel) -> _Row:
    """A source or sink: one thread at its full use."""
    cpu, memory = float(model.cpu(1)), float(model.memory(1))
    return _Row(1, cpu, memory, 0, 1, 1, cpu, memory)


def _split(rate: float, unit: float) -> tuple[int, float]:
    """Whole units in a rate, and what is left; rounding leaves nothing behind."""
    # A unit of 0 comes with a rate of 0 only (`_check`)
    if unit <= 0:
        return 0, 0.0
    whole = math.floor(rate / unit + _ROUNDING)
    residual = rate - whole * unit
    return whole, residual if residual > _ROUNDING * unit else 0.0


def _collect(name: str, rows: list[_Row], models: Sequence[PerformanceModel]) -> Allocation:
    def ints(field: str) -> Counts:
        return np.array([getattr(row, field) for row in rows], dtype=np.int64)

    def floats(field: str) -> Floats:
        return np.array([getattr(row, field) for row in rows], dtype=np.float64)

    return Allocation(
        name, ints("threads"), floats("cpu"), floats("memory"), ints("full"), ints("bundle"),
        ints("rest"), floats("rest_cpu"), floats("rest_memory"),
        np.array([model.cpu(1) for model in models], dtype=np.float64),
        np.array([model.memory(1) for model in models], dtype=np.float64),
    )  # fmt: skip


def _check(
    instance: Instance, models: Sequence[PerformanceModel], rates: Floats, name: str
) -> None:
    problems = []
    reported: set[str] = set()
    for operator, model, rate in zip(instance.operators.ids, models, rates.tolist(), strict=True):
        path = f"models.{model.name}"
        if model.name in reported:
            continue
        if name == "lsa" and not model.has_single:
            reported.add(model.name)
            reason = f"has no point for 1 thread, which lsa scales (operator {operator})"
            problems.append(Problem(path, None, reason, "measure 1 thread, or use mba"))
            continue
        peak = float(model.rate(1)) if name == "lsa" else float(model.rates[model.best])
        if rate > 0 and peak <= 0:
            reported.add(model.name)
            reason = (
                f"supports no tuples at any thread count, and {operator} receives {rate:g} tuples/s"
                if model.rates.max() <= 0
                else f"supports no tuples with 1 thread, and {operator} receives {rate:g} tuples/s"
            )
            remedy = "give measured rates above 0, or set the selectivity into it to 0"
            if model.rates.max() > 0:
                remedy = "use mba, which reads all thread counts; " + remedy
            problems.append(Problem(path, None, reason, remedy))
    if problems:
        raise InvalidInput(problems)


def _check_size(instance: Instance, allocation: Allocation) -> None:
    threads, slots = int(allocation.threads.sum()), allocation.slots
    if threads <= MAX_TASKS and slots <= MAX_NODES:
        return
    largest = instance.operators.ids[int(allocation.threads.argmax())]
    raise InvalidInput(
        Problem(
            "input_rate",
            instance.input_rate,
            f"asks for {threads:,} threads on {slots:,} slots, most of them for {largest}; at most "
            f"{MAX_TASKS:,} on {MAX_NODES:,} are taken",
            "lower the rate or the selectivities, or check the unit of the models' rates",
        )
    )
