"""What `slots-milp` begins with: the plans of its family's heuristics, beside first fit."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from formulations.column_generation import driver
from formulations.model_driven.items import which_pack
from formulations.model_driven.performance_model import FULL
from formulations.model_driven.referee import checked_bundles, evaluate_model_driven
from formulations.model_driven.slots import placement
from formulations.model_driven.traffic import rates_of_pairs, traffic_between
from optim.errors import InvalidInput
from optim.methods.registry import Request, get_method
from optim.util.compiled import warming
from optim.util.tolerance import slack

if TYPE_CHECKING:
    from collections.abc import Iterator

    from formulations.model_driven.allocate import Allocation
    from formulations.model_driven.items import Items
    from formulations.model_driven.slots import Machines
    from formulations.model_driven.solver_calls import SolverCalls
    from optim.format.instance import Instance
    from optim.format.plan import AcquiredNode
    from optim.format.tables import Floats
    from optim.format.threads import ThreadPlacement

MAPPINGS = ("sam", "rsm", "dsm")

_MOST_WORK = 2_000_000
"""Threads times slots up to which `rsm` is asked: it maps all again for each further slot."""

_ENOUGH = 1 - 1e-9
"""Share of a rate that counts as all of it."""


def family_starts(
    instance: Instance, allocation: Allocation, calls: SolverCalls
) -> Iterator[tuple[str, ThreadPlacement]]:
    """Map the allocation's threads by each heuristic, while there is time; names and plans."""
    for mapping in MAPPINGS:
        large = int(allocation.threads.sum()) * allocation.slots > _MOST_WORK
        if calls.over() or (mapping == "rsm" and large):
            continue
        method = get_method(f"{allocation.name}+{mapping}")
        try:
            outcome = method.run(instance, Request(options=method.read_options({})))
        except InvalidInput:
            continue  # this mapping reads what the models do not have
        compiled = outcome.times.get("compile", 0.0)
        calls.request = replace(calls.request, started=calls.request.started + compiled)
        if outcome.threads is not None:
            yield method.name, outcome.threads


def stands_beside(
    instance: Instance, other: ThreadPlacement, packed: ThreadPlacement, *, pooled: bool
) -> bool:
    """Whether a plan that splits bundles, or books otherwise, is as good as a packing in all else.

    It keeps all rules, CPU is bound as asked, and its slots sustain the input rate, or no less than
    those of the packing.
    """
    plan = other.to_plan(instance)
    found = evaluate_model_driven(instance, plan)
    if not found.feasible:
        return False
    rate = instance.input_rate
    bundles = checked_bundles(instance, plan)
    if not pooled and rate is not None:
        cpu, _ = bundles.use(bundles.filled(rate))
        if max(bundles.by_slot(cpu).values()) > FULL + slack(FULL):
            return False
    mine = evaluate_model_driven(instance, packed.to_plan(instance)).capacity_rate
    if rate is None or mine is None or found.capacity_rate is None:
        return found.capacity_rate == mine
    return bool(found.capacity_rate >= min(rate, mine) * _ENOUGH)


@warming
def warm_up() -> None:
    """Compile, or load from disk, every kernel."""
    driver.warm_up()
    one, size = np.ones((1, 1), dtype=np.int64), np.ones((1, 1))
    which_pack(one, np.zeros(1, dtype=np.bool_), size, 1.0, 1, 1)


_LESS = 1e-6
"""By how much less traffic, in thousandths of all, a packing is better."""


@dataclass
class Packed:
    """The packing so far.

    Attributes
    ----------
    machines, nodes
        Slots in use of each machine, and the machines; empty while there is no packing.
    traffic
        Between the machines, in thousandths of all.
    pairs
        (C, C) traffic between one item of each class, in the same unit.
    """

    items: Items
    pairs: Floats
    machines: Machines = field(default_factory=list)
    nodes: tuple[AcquiredNode, ...] = ()
    traffic: float = float("inf")

    @classmethod
    def empty(cls, instance: Instance, items: Items) -> Packed:
        """Nothing yet."""
        return cls(items, rates_of_pairs(items, instance))

    @property
    def num_slots(self) -> int:
        """Slots of the machines."""
        return sum(node.slots for node in self.nodes)

    def placement(self, allocation: Allocation) -> ThreadPlacement:
        """Place the allocation's threads as they are packed."""
        return placement(self.items, self.machines, self.nodes, allocation)

    def offer(self, machines: Machines, nodes: tuple[AcquiredNode, ...]) -> bool:
        """Take a packing if it is better; return whether it was."""
        slots = sum(node.slots for node in nodes)
        if self.nodes and slots > self.num_slots:
            return False
        traffic = traffic_between(self.items, machines, self.pairs)
        if slots == self.num_slots and traffic >= self.traffic - _LESS:
            return False
        self.machines, self.nodes, self.traffic = machines, nodes, traffic
        return True
