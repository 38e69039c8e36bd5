"""Second level of `slots-milp`: the least traffic between given machines, by machine patterns.

Machines with equally many slots are interchangeable, and so are the items of a class: the problem
is one of counts, which `formulations.column_generation` solves. What is particular is what
fits a machine: items that share slots are no liquid. The engine searches by what is linear (CPU and
memory in sum, and the prices of the first level, at which no slot's content is worth more than one
slot); every content it finds is then packed into the slots for real (`pack_kernel`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.column_generation import driver
from formulations.column_generation.client import Client, Incumbent
from formulations.column_generation.pricing import RING, OfClass, TreePricer
from formulations.column_generation.problem import PatternProblem, make_problem
from formulations.model_driven.items import NO, ROOM, ROUNDING, YES, pack, which_pack
from formulations.model_driven.performance_model import FULL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from formulations.column_generation.problem import Pool
    from formulations.model_driven.fewest import SolverCalls
    from formulations.model_driven.items import Items
    from formulations.model_driven.performance_model import Counts
    from formulations.model_driven.slots import Machines, Slot
    from optim.format.tables import Floats

MOST_CLASSES = 200
MOST_CELLS = 200_000
"""Classes of items, and machines times classes, beyond which the engine is not asked."""

NODE_BUDGET = 5_000_000
"""Search nodes of one pricing: some seconds."""

_PACK_STEPS = 20_000
_MOST_PACKED = 20_000
_AT_ONCE = 10_000


@dataclass(frozen=True, eq=False, kw_only=True)
class MachineProblem(PatternProblem):
    """The allocation problem in counts, with slots.

    Attributes
    ----------
    item
        (G, R) size of an item in the resources that a slot binds.
    alone
        (G,) whether an item takes a slot of its own.
    largest
        (G,) classes, the largest items first, as they are packed.
    lent
        (K,) slots of a machine of each class.
    """

    item: Floats
    alone: NDArray[Any]
    largest: Counts
    lent: Counts

    def packs(self, node_class: int, counts: Counts) -> NDArray[np.int8]:
        """(P,) whether contents go into the slots of a machine: NO, YES or UNKNOWN."""
        order = self.largest
        rows = np.ascontiguousarray(np.asarray(counts, dtype=np.int64)[:, order])
        verdicts: NDArray[np.int8] = which_pack(
            rows, self.alone[order], self.item[order], ROOM, int(self.lent[node_class]), _PACK_STEPS
        )
        return verdicts

    def fits(self, node_class: int, counts: NDArray[Any]) -> NDArray[np.bool_]:
        """Whether contents (P, G) keep the bounds of a machine and go into its slots."""
        within = super().fits(node_class, counts)
        within[within] = self.packs(node_class, counts[within]) == YES
        return within

    def slots(self, node_class: int, content: Counts) -> list[dict[int, int]]:
        """Slots of a machine with a content that packs."""
        shared = np.where(self.alone, 0, content)[self.largest]
        free = int(self.lent[node_class] - content[self.alone].sum())
        _, at = pack(shared, self.item[self.largest], ROOM, free, _PACK_STEPS)
        slots: list[Slot] = [{c: 1} for c in np.flatnonzero(self.alone).tolist()
                             for _ in range(int(content[c]))]  # fmt: skip
        classes = np.repeat(self.largest, shared)
        for s in range(int(at.max(initial=-1)) + 1):
            here, count = np.unique(classes[at == s], return_counts=True)
            slots.append(dict(zip(here.tolist(), count.tolist(), strict=True)))
        return slots


class PackingPricer(TreePricer):
    """Prices and lists contents that go into the slots, not only into the sum of their room."""

    problem: MachineProblem

    def price_class(
        self, node_class: int, price: Floats, threshold: float, *, gainless: bool = False
    ) -> OfClass:
        """Find the best content that packs; where too many do not, bound it by the linear one."""
        priced = super().price_class(node_class, price, threshold, gainless=gainless)
        packs = self.problem.packs(node_class, priced.counts) != NO
        if packs.all():
            return priced
        pool = None
        if not gainless:
            pool = super()._enumerate_class(node_class, price, threshold, _MOST_PACKED)
        pool = None if pool is None else self._packed(pool)
        if pool is None:
            return OfClass(priced.counts[packs], priced.highest, priced.proven)
        value = pool.value(price)
        best = np.argsort(-value, kind="stable")[:RING]
        return OfClass(pool.counts[best], float(value.max(initial=threshold)), True)

    def enumerate(self, price: Floats, side: Floats, threshold: Floats, room: int) -> Pool | None:
        """Return all contents above the thresholds that pack; ``None`` where that is too much."""
        pool = super().enumerate(price, side, threshold, room)
        return None if pool is None else self._packed(pool)

    def _packed(self, pool: Pool) -> Pool | None:
        """Keep what packs; ``None`` where the time does not suffice to find out."""
        keep = np.ones(len(pool), dtype=np.bool_)
        for k in range(self.problem.num_node_classes):
            mine = np.flatnonzero(pool.node_class == k)
            for first in range(0, len(mine), _AT_ONCE):
                if self.clock.over():
                    return None
                part = mine[first : first + _AT_ONCE]
                keep[part] = self.problem.packs(k, pool.counts[part]) != NO
        return pool.only(keep)


@dataclass
class OnMachines:
    """What is known of placing all items on given machines.

    Attributes
    ----------
    problem, incumbent
        In counts, and the best so far.
    order
        (G,) class of items of each class of the problem.
    place
        (N,) machine of each node of the problem, which are listed class by class.
    """

    problem: MachineProblem
    incumbent: Incumbent
    order: Counts
    place: Counts
    total: float = field(default=0.0)

    @classmethod
    def of(
        cls,
        items: Items,
        pairs: Floats,
        sizes: Sequence[int],
        cores: Sequence[int] | None,
        price: Floats,
        calls: SolverCalls,
        gap: float,
    ) -> OnMachines:
        """State the problem in counts.

        Parameters
        ----------
        pairs
            (C, C) traffic between one item of each class.
        sizes, cores
            Slots of each machine; its cores where they serve all of its slots.
        price
            (C,) price of an item; no slot's content is worth more than 1.
        """
        order = np.argsort(items.count, kind="stable")  # few choices first in the search
        items, pairs, price = items.only(order), pairs[np.ix_(order, order)], price[order]
        kinds = np.array([sizes, sizes if cores is None else cores]).T
        found, kind, nodes = np.unique(kinds, axis=0, return_inverse=True, return_counts=True)
        lent = found[:, 0].astype(np.float64)
        cpu = lent * ROOM if cores is None else found[:, 1] * FULL + ROUNDING
        base = make_problem(
            items.count,
            np.stack([items.cpu, items.memory, price], axis=1),
            pairs,
            nodes,
            np.stack([cpu, lent * ROOM, lent * (1 + 1e-9)], axis=1),
        )
        size = items.sizes(pooled=cores is not None)
        problem = MachineProblem(
            **vars(base),
            item=np.ascontiguousarray(size),
            alone=items.exclusive,
            largest=np.argsort(-size.max(axis=1), kind="stable"),
            lent=found[:, 0].astype(np.int64),
        )
        incumbent = Incumbent(problem, calls.clock(problem.scale), gap=gap)
        total = 0.5 * float(items.count @ pairs @ items.count)
        place = np.argsort(kind.reshape(-1), kind="stable")
        return cls(problem, incumbent, order, place, total)

    @property
    def solvable(self) -> bool:
        """Whether the engine's arrays are of a reasonable size."""
        classes = self.problem.num_classes
        return classes <= MOST_CLASSES and classes * self.problem.num_nodes <= MOST_CELLS

    @property
    def infeasible(self) -> bool:
        """Whether it is proven that the items do not fit."""
        return bool(self.incumbent.bound == -np.inf)

    @property
    def closed(self) -> bool:
        """Whether nothing better can be found."""
        return self.incumbent.closed

    @property
    def traffic_bound(self) -> float:
        """Traffic that must cross between machines at least, in the unit of the pairs."""
        bound = self.incumbent.bound
        if not np.isfinite(bound):
            return 0.0
        return max(0.0, self.total - bound * self.problem.scale)

    def offer(self, machines: Machines) -> None:
        """Take a packing as a start."""
        counts = np.zeros((len(machines), len(self.order)), dtype=np.int64)
        for v, slots in enumerate(machines):
            for slot in slots:
                for c, n in slot.items():
                    counts[v, c] += n
        self.incumbent.offer(counts[np.ix_(self.place, self.order)])

    def machines(self) -> Machines | None:
        """Return the slots of each machine, in the order the machines were given."""
        counts = self.incumbent.counts
        if counts is None:
            return None
        owner = self.problem.class_of_node()
        found: Machines = [[] for _ in self.place]
        for n, v in enumerate(self.place.tolist()):
            slots = self.problem.slots(int(owner[n]), counts[n])
            found[v] = [{int(self.order[g]): k for g, k in slot.items()} for slot in slots]
        return found


def place_on_machines(known: OnMachines, calls: SolverCalls) -> None:
    """Find and prove the best placement, in place, as far as time and memory go.

    Where no traffic counts, any placement is as good, and its lack a proof that there is none.
    """
    incumbent = known.incumbent
    pricer = PackingPricer(known.problem, incumbent.clock, NODE_BUDGET)
    client = Client(known.problem, pricer, incumbent.clock)
    client.filtered = bool(known.problem.rate.any())  # else no pattern is better than another
    driver.solve(client, incumbent, calls.backend)
