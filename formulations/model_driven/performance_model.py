"""Performance models: what k threads of a task reach and use on one slot.

Source: Shukla and Simmhan, "Model-driven scheduling for distributed stream processing systems",
JPDC 2018 (arXiv:1702.01785), sections 3 and 6: `I(k)` the peak stable rate, `C(k)` and `M(k)` CPU
and memory in percent of a slot, `T(ω)` the least number of threads whose peak rate is at least ω.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from optim.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Floats, ModelPoint

    Counts = NDArray[np.int64]

FULL = 100.0
"""All of a slot's CPU or memory, in percent."""


class PerformanceModel:
    """Measured points of one task, ordered by threads.

    Allocation takes measured points only; between them the prediction of a given mapping is linear,
    below the first and above the last the nearest point holds.

    Parameters
    ----------
    name
        Key in the instance's ``models``.
    points
        At least one, ordered by threads.
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
        found: Floats = values[np.where(closer, below, above)]
        return found

    @cached_property
    def fitting(self) -> Counts:
        """Positions of the measured points that need no more than one slot."""
        within = (self.cpus <= FULL + 1e-6) & (self.memories <= FULL + 1e-6)
        return np.flatnonzero(within).astype(np.int64)

    @cached_property
    def best(self) -> int:
        """Position of the least thread count with the greatest rate that fits a slot.

        Raises
        ------
        InvalidInput
            No measured point fits a slot.
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

        Raises
        ------
        ValueError
            None does; callers cut the rate at the best point's first.
        """
        reaching = self.fitting[self.rates[self.fitting] >= rate * (1 - 1e-12)]
        if not len(reaching):
            raise ValueError(f"no thread count of {self.name} reaches {rate}")
        return int(reaching[0])


def performance_models(instance: Instance) -> list[PerformanceModel]:
    """Return the model of each operator, in operator order; equal names share one object.

    Raises
    ------
    InvalidInput
        An operator has none.
    """
    made = {name: PerformanceModel(name, points) for name, points in instance.models.items()}
    problems = [
        Problem(f"operators[{o}].model", None, f"is missing ({name} has none)", "give it a model")
        for o, (name, model) in enumerate(
            zip(instance.operators.ids, instance.operators.model, strict=True)
        )
        if model is None
    ]
    if problems:
        raise InvalidInput(problems)
    return [made[model] for model in instance.operators.model if model is not None]
