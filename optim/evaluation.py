"""What the referee found: feasibility, violations with figures, and every quantity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from optim.errors import InvalidInput, Problem
from optim.objectives import OBJECTIVES


@dataclass(frozen=True)
class Violation:
    """A rule that a plan breaks, or a reason why no plan can exist.

    Attributes
    ----------
    rule
        Name of the rule, as ``--ignore`` takes it where it can be dropped.
    where
        The node, task, link, slot or limit.
    amount
        By how much.
    needed, available
        The two figures whose difference is the amount.
    """

    rule: str
    where: str
    amount: float
    needed: float
    available: float

    def __str__(self) -> str:
        return (
            f"{self.rule} at {self.where}: needs {self.needed:.6g}, has {self.available:.6g} "
            f"({self.amount:.6g} off)"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the violation as plain data."""
        return dict(vars(self))


@dataclass(frozen=True)
class Evaluation:
    """The referee's figures for one plan; ``None`` where a figure does not apply.

    Attributes
    ----------
    feasible, violations
        Whether the plan keeps every rule, and those it breaks.
    load_distance
        Greatest distance of a node from its share of the mean, in units of the first resource.
    imc_gain, total_traffic, internode_traffic, interslot_traffic
        Traffic inside nodes, in all, between nodes, between slots; in the instance's rate unit.
    collocation_factor
        `imc_gain` / `total_traffic`.
    utilisation
        Node to resource to (background + load) / capacity, where there is a capacity.
    slot_utilisation, link_utilisation
        The same of slots (``node#slot``) and links.
    max_utilisation
        Greatest of the nodes' utilisations.
    deviation
        Resource to sqrt(Σ (u − ū)²) over staying nodes with a capacity.
    mean_absolute_deviation
        Mean |u − ū| of the first resource over these nodes.
    used_utilisation
        Load over capacity of the first resource, summed over the nodes in use.
    used_capacity
        Capacity of the first resource on the nodes in use, as a share of all nodes' capacity.
    node_tasks, node_loads
        Node to number of tasks, and to background + load per resource.
    nodes_used, slots_used
        Nodes and slots that hold a task.
    migrations, migration_cost
        Tasks that leave their current node, and what that costs.
    supported_rate, capacity_rate, bottleneck
        Model-driven plans: input rate that the threads sustain under shuffle grouping, and if every
        slot were sent what it can take (tuples/s); the operator and slot where the former ends.
    slots, extra_slots, price
        Model-driven plans: slots acquired, those beyond the allocation, $/h.
    """

    feasible: bool
    violations: tuple[Violation, ...]
    load_distance: float | None = None
    imc_gain: float | None = None
    total_traffic: float | None = None
    collocation_factor: float | None = None
    internode_traffic: float | None = None
    interslot_traffic: float | None = None
    utilisation: dict[str, dict[str, float]] | None = None
    slot_utilisation: dict[str, dict[str, float]] | None = None
    link_utilisation: dict[str, float] | None = None
    max_utilisation: float | None = None
    deviation: dict[str, float] | None = None
    mean_absolute_deviation: float | None = None
    used_utilisation: float | None = None
    used_capacity: float | None = None
    node_tasks: dict[str, int] | None = None
    node_loads: dict[str, dict[str, float]] | None = None
    nodes_used: int | None = None
    slots_used: int | None = None
    migrations: int | None = None
    migration_cost: float | None = None
    supported_rate: float | None = None
    capacity_rate: float | None = None
    bottleneck: str | None = None
    slots: int | None = None
    extra_slots: int | None = None
    price: float | None = None

    def objective(self, name: str) -> float | None:
        """Return the value of an objective by its name.

        Raises
        ------
        InvalidInput
            There is no such objective.
        """
        if name not in OBJECTIVES:
            known = ", ".join(OBJECTIVES)
            raise InvalidInput(Problem("objective", name, "is unknown", f"one of {known}"))
        if name == "cpu_deviation":
            return next(iter(self.deviation.values())) if self.deviation else None
        value: float | None = getattr(self, name)
        return value

    def to_dict(self) -> dict[str, Any]:
        """Return the evaluation as plain data."""
        return {**vars(self), "violations": [v.to_dict() for v in self.violations]}
