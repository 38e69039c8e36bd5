"""Performance models: what k threads of a task reach and use on one slot.

Source: Shukla and Simmhan, "Model-driven scheduling for distributed stream processing systems",
JPDC 2018 (arXiv:1702.01785), sections 3 and 6: `I(k)` the peak stable rate, `C(k)` and `M(k)` CPU
and memory in percent of a slot, `T(ω)` the least number of threads whose peak rate is at least ω.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Floats, ModelPoint

    Counts = NDArray[np.int64]


FULL = 100.0  # All of a slot's CPU or memory, in percent.


class PerformanceModel:
    """Measured points of one task, ordered by threads.

    Allocation takes measured points only; between them the prediction of a given mapping is linear,
    below the first and above the last the nearest point holds.

    `name`: key in the instance's ``models``.
    `points`: at least one, ordered by threads.
    """

    def __init__(self, name: str, points: Sequence[ModelPoint]) -> None:
        self.name = name
        self.threads: Counts = np.array([p.threads for p in points], dtype=np.int64)
        self.rates: Floats = np.array([p.rate for p in points], dtype=np.float64)
        self.cpus: Floats = np.array([p.cpu for p in points], dtype=np.float64)
        self.memories: Floats = np.array([p.memory for p in points], dtype=np.float64)

    def rate(self, threads: Floats | Counts | float, between: str = "linear") -> Floats:
        """`I(k)`: peak rate of k threads on one slot, tuples/s."""
        return self._between(self.rates, threads, between)

    def cpu(self, threads: Floats | Counts | float, between: str = "linear") -> Floats:
        """`C(k)`: CPU of k threads at their peak rate, percent of a slot."""
        return self._between(self.cpus, threads, between)

    def memory(self, threads: Floats | Counts | float, between: str = "linear") -> Floats:
        """`M(k)`: memory of k threads at their peak rate, percent of a slot."""
        return self._between(self.memories, threads, between)

    def _between(self, values: Floats, threads: Floats | Counts | float, how: str) -> Floats:
        """Read a figure between measured thread counts: ``linear``, or at the ``nearest`` count."""
        if how == "linear":
            return np.asarray(np.interp(threads, self.threads, values), dtype=np.float64)
        counts = np.asarray(threads, dtype=np.float64)
        above = np.clip(np.searchsorted(self.threads, counts), 0, len(self.threads) - 1)
        below = np.maximum(above - 1, 0)
        closer = counts - self.threads[below] < self.threads[above] - counts
        nearest: Floats = values[np.where(closer, below, above)]
        return nearest

    @cached_property
    def fitting(self) -> Counts:
        """Positions of the measured points that need no more than one slot."""
        within = (self.cpus <= FULL + 1e-6) & (self.memories <= FULL + 1e-6)
        return np.flatnonzero(within).astype(np.int64)

    @cached_property
    def best(self) -> int:
        """Position of the least thread count with the greatest rate that fits a slot.

        Raises `InvalidInput`: no measured point fits a slot.
        """
        if not len(self.fitting):
            raise InvalidInput(
                Problem(
                    f"models.{self.name}",
                    None,
                    "has no thread count that needs at most 100 % of a slot's CPU and memory",
                    "measure fewer threads, or give the model in percent of a larger slot",
                )
            )
        return int(self.fitting[np.argmax(self.rates[self.fitting])])

    @property
    def has_single(self) -> bool:
        """Whether one thread was measured."""
        return bool(self.threads[0] == 1)

    def position_for(self, rate: float) -> int:
        """`T(ω)`: position of the least measured thread count that reaches `rate` within a slot.

        Raises `ValueError`: None does; callers cut the rate at the best point's first.
        """
        reaching = self.fitting[self.rates[self.fitting] >= rate * (1 - 1e-12)]
        if not len(reaching):
            raise ValueError(f"no thread count of {self.name} reaches {rate}")
        return int(reaching[0])


def performance_models(instance: Instance) -> list[PerformanceModel]:
    """Return the model of each operator, in operator order; equal names share one object.

    Raises `InvalidInput`: an operator has none.
    """
    models = {name: PerformanceModel(name, points) for name, points in instance.models.items()}
    problems = [
        Problem(f"operators[{o}].model", None, f"is missing ({name} has none)", "give it a model")
        for o, (name, model) in enumerate(
            zip(instance.operators.ids, instance.operators.model, strict=True)
        )
        if model is None
    ]
    if problems:
        raise InvalidInput(problems)
    return [models[model] for model in instance.operators.model if model is not None]


# Threads counted by slot: what they reach and use under a grouping, and where a job ends.
#
# Source: Shukla and Simmhan 2017, section 8.5.


@dataclass(frozen=True, eq=False)
class Bundles:
    """Threads counted by slot: one row a slot and operator that meet."""

    #: (B,) machine, slot number, operator, and how many threads of it are there.
    node: Counts
    slot: Counts
    operator: Counts
    threads: Counts
    of_operator: Counts  # (O,) all threads of each operator, placed or not.
    slots: Counts  # (V,) slots of each machine.
    #: (B,) peak rate (tuples/s) of the row, and CPU and memory at it in percent of a slot; a task
    #: without a model takes any rate at no cost.
    peak: Floats
    cpu: Floats
    memory: Floats
    per_input: Floats  # (O,) tuples a task receives for each tuple of input; ``nan`` where unknown.

    @cached_property
    def share(self) -> Floats:
        """(B,) share of its task's tuples that a row receives: that of its threads."""
        total: Floats = np.maximum(self.of_operator[self.operator], 1).astype(np.float64)
        return self.threads / total

    @cached_property
    def _tasks_per_slot(self) -> NDArray[Any]:
        """(B,) tasks that share a row's slot."""
        width = int(self.slots.max(initial=1))
        key = self.node.astype(np.int64) * width + self.slot
        _, index, counts = np.unique(key, return_inverse=True, return_counts=True)
        return counts[index]

    @property
    def known(self) -> bool:
        """Whether the tuple rates of all operators follow from the input rate."""
        return not bool(np.isnan(self.per_input).any())

    def limits(self) -> Floats:
        """(B,) input rate at which each row reaches its peak under shuffle grouping."""
        # peak_b = input rate × tuples for each of input × share of the threads, solved for the rate
        arriving = self.share * self.per_input[self.operator]
        limit = np.full(len(self.peak), np.inf)
        np.divide(self.peak, arriving, out=limit, where=arriving > 0)
        return limit

    def capacity(self) -> Floats:
        """(O,) input rate that all slots of a task could sustain together."""
        total = np.zeros(len(self.of_operator))
        np.add.at(total, self.operator, self.peak)
        limit = np.full(len(total), np.inf)
        np.divide(total, self.per_input, out=limit, where=self.per_input > 0)
        return limit

    def shuffled(self, rate: float) -> Floats:
        """(B,) tuples/s each row serves under shuffle grouping, at most its peak."""
        return np.minimum(rate * self.per_input[self.operator] * self.share, self.peak)

    def filled(self, rate: float) -> Floats:
        """(B,) tuples/s if the best slots of a task were filled first, as allocations plan.

        Of equally good slots those that the task shares with the fewest others come first.
        """
        order = np.lexsort(
            (np.arange(len(self.peak)), self._tasks_per_slot, -self.peak, self.operator)
        )
        peaks = self.peak[order]
        first = np.searchsorted(self.operator[order], self.operator[order], side="left")
        # what the slots ahead of a row take, those of its own task only: the sum so far less that
        # at the first row of the task
        before = np.cumsum(np.where(np.isfinite(peaks), peaks, 0.0))
        before = np.concatenate([[0.0], before])
        taken = before[np.arange(len(peaks))] - before[first]
        wanted = rate * self.per_input[self.operator[order]]
        served = np.empty(len(peaks))
        served[order] = np.clip(wanted - taken, 0.0, peaks)
        return served

    def use(self, served: Floats) -> tuple[Floats, Floats]:
        """(B,) CPU and memory, percent of a slot, of rows that serve these rates."""
        level = np.ones(len(served))
        np.divide(served, self.peak, out=level, where=(self.peak > 0) & np.isfinite(self.peak))
        # tasks whose rate is unknown count as working at their peak
        level = np.where(np.isnan(level), 1.0, level)
        return self.cpu * level, self.memory * level

    def by_slot(self, values: Floats) -> dict[tuple[int, int], float]:
        """Sum of a (B,) figure over each slot that holds a thread."""
        width = int(self.slots.max(initial=1))
        key = self.node.astype(np.int64) * width + self.slot
        used, index = np.unique(key, return_inverse=True)
        sums = np.bincount(index, values, minlength=len(used))
        pairs = zip(used.tolist(), sums.tolist(), strict=True)
        return {(key // width, key % width): value for key, value in pairs}

    def by_node(self, values: Floats) -> NDArray[Any]:
        """(V,) sum of a (B,) figure over each machine."""
        return np.bincount(self.node, values, minlength=len(self.slots))


def rates_of(bundles: Bundles) -> tuple[float | None, float | None, int | None]:
    """Return supported rate, capacity, and the row where the supported rate ends."""
    if not bundles.known or not len(bundles.peak):
        return None, None, None
    limits = bundles.limits()
    at = int(np.argmin(limits))
    capacity = float(bundles.capacity().min())
    if not math.isfinite(limits[at]):
        return None, None, None
    return float(limits[at]), capacity, at


def count_bundles(
    instance: Instance,
    threads: Counts,
    slots: Counts,
    placed: Counter[tuple[int, int, int]],
    between: str = "linear",
) -> Bundles:
    """Count threads by (machine, slot, operator) and look their models up.

    `threads`: (O,) threads of each operator.
    `slots`: (V,) slots of each machine.
    `placed`: threads of each (machine, slot, operator).
    """
    rows = sorted(placed.items())
    table = np.array([key for key, _ in rows], dtype=np.int64).reshape(len(rows), 3)
    count = np.array([k for _, k in rows], dtype=np.int64)
    peak = np.full(len(rows), np.inf)
    cpu, memory = np.zeros(len(rows)), np.zeros(len(rows))
    kinds = np.array([m or "" for m in instance.operators.model], dtype=object)[table[:, 2]]
    for name, points in instance.models.items():
        here, model = kinds == name, PerformanceModel(name, points)
        peak[here] = model.rate(count[here], between)
        cpu[here] = model.cpu(count[here], between)
        memory[here] = model.memory(count[here], between)
    rates = instance.operators.tuple_rate
    per_input = rates / instance.input_rate if instance.input_rate else np.full(len(rates), np.nan)
    return Bundles(
        table[:, 0], table[:, 1], table[:, 2], count, threads, slots, peak, cpu, memory, per_input
    )
