"""The elastic operator allocation problem as its exact models see it.

Tasks with one node to go to are running queries: they are part of what the nodes and links carry.
The others, F of them, are free. Of a set of free tasks on a node, everything follows: its load, the
traffic inside the node, and with it what crosses the node's uplink.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from optim.figures.measures import internode_of, node_loads
from optim.kernels.place_rules import (
    link_room,
    most_of,
    place_rules,
    placing_floor,
    placing_masks,
    placing_room,
)
from optim.rules import budgets
from optim.solvers import LinearSolution, solve_linear
from optim.solvers.inprocess import solve_small_milp
from optim.solvers.interface import LinearTermination

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats, Ints
    from optim.kernels.place_rules import PlaceRules
    from optim.methods.registry import Request
    from optim.solvers.linear_model import LinearModel


TIMES = np.array([2.0, 1.0, 1.0])
"""How often traffic inside the nodes of a link is in the sum of what its tasks send and receive.

Directions are numbered as in `optim.format.tables.LinkTable`: both, out, in.
"""


@dataclass(frozen=True, eq=False)
class SharedLink:
    """A link of several nodes, a rack's uplink."""

    nodes: Ints  # Its nodes.
    direction: int  # What counts.
    room: float  # Traffic it may carry beside its background.
    inside: float  # Traffic between running tasks behind it.


@dataclass(frozen=True, eq=False)
class EoaProblem:
    """An instance in the terms of the model; N nodes, R resources, F free tasks."""

    instance: Instance  # Where it comes from.
    #: (F,) free tasks; (T,) node of each running task, -1 for free ones.
    free: NDArray[np.int64]
    fixed: NDArray[np.int64]
    #: (F, N) where a free task may go; (F, R) its load.
    may: Bools
    load: Floats
    #: (N, R) load of free tasks that a node takes at most and at least, tolerance included.
    room: Floats
    floor: Floats
    base: Floats  # (N,) background + running load of the first resource.
    occupied: Bools  # (N,) nodes that hold a running task.
    #: Communicating pairs of free tasks, by position in `free`.
    u: Ints
    v: Ints
    rate: Floats
    #: (3, F) all traffic of a free task that counts in a direction; (F, N) its traffic with the
    #: running tasks of each node.
    degree: Floats
    beside: Floats
    #: (3, N) all traffic of a node's running tasks in a direction; (N,) what is between them.
    incident: Floats
    inside: Floats
    #: (3, N) traffic a node's own links of a direction may carry beside their background.
    uplink: Floats
    shared: tuple[SharedLink, ...]  # Links of several nodes.

    @property
    def num_free(self) -> int:
        """F."""
        return len(self.free)

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.instance.num_nodes

    @cached_property
    def capacity_share(self) -> Floats:
        """(N,) capacity of the first resource as a share of all nodes'."""
        capacity = self.instance.nodes.capacity[:, 0]
        total = float(capacity.sum())
        return capacity / total if total > 0 else np.zeros(len(capacity))

    @cached_property
    def traffic(self) -> Floats:
        """(F, F) traffic between free tasks, symmetric."""
        table = np.zeros((self.num_free, self.num_free))
        table[self.u, self.v] = self.rate
        return table + table.T

    @cached_property
    def home(self) -> Ints:
        """(F,) current node of each free task, -1 for none."""
        return self.instance.tasks.node[self.free]

    @cached_property
    def rules(self) -> PlaceRules:
        """Sets, inflow and copies of all tasks."""
        return place_rules(self.instance)

    @cached_property
    def running_moves(self) -> NDArray[np.int64]:
        """Running tasks that migrate to where they have to run."""
        running = np.flatnonzero(self.fixed >= 0)
        return running[self.rules.pays(running, self.fixed[running])]

    @cached_property
    def budgets(self) -> tuple[tuple[float, Floats], ...]:
        """Migration limits that are set: what free tasks may spend, (F,) cost of a move."""
        return tuple(
            (most_of(b) - float(b.weight[self.running_moves].sum()), b.weight[self.free])
            for b in budgets(self.instance)
        )

    @property
    def node_keys(self) -> Floats:
        """(N, 3) what makes nodes of equal room unequal in what is minimised."""
        nodes, stays = self.instance.nodes, self.instance.open_nodes
        return np.column_stack([nodes.capacity[:, 0], nodes.background[:, 0], stays])

    @cached_property
    def even_mean(self) -> float | None:
        """Mean share of CPU in use where it is the same for every placement, else ``None``.

        It is where all nodes that tasks may go to stay and have equal capacity.
        """
        counted = self.instance.open_nodes
        capacity = self.instance.nodes.capacity[:, 0]
        reached = self.may.any(axis=0)
        if not counted.any() or (reached & ~counted).any() or (capacity[counted] <= 0).any():
            return None
        if self.num_free and len(np.unique(capacity[reached])) > 1:
            return None
        share = float((self.base[counted] / capacity[counted]).sum())
        if self.num_free:
            share += float(self.load[:, 0].sum()) / float(capacity[reached].max())
        return share / int(counted.sum())

    def placement(self, place: Ints) -> Ints:
        """(T,) node indices from (F,) ones."""
        node = self.fixed.astype(np.int32)
        node[self.free] = place
        return node


def eoa_problem(instance: Instance) -> EoaProblem:
    """Put an instance into the terms of the model.

    `instance`: tasks go to its staying nodes.
    """
    kind, _, target = placing_masks(instance)
    fixed = fixed_nodes(kind, target)
    free = np.flatnonzero(fixed < 0)
    standing = fixed.astype(np.int32)
    running = node_loads(instance, standing)
    placed = running - instance.nodes.background
    n = instance.num_nodes
    position = np.full(instance.num_tasks, -1, dtype=np.int64)
    position[free] = np.arange(len(free))
    u, v, rate = instance.pairs
    both = (fixed[u] < 0) & (fixed[v] < 0)
    degree = directed_degrees(instance)
    beside = np.zeros((len(free), n))
    for here, there in ((u, v), (v, u)):
        mixed = (fixed[here] < 0) & (fixed[there] >= 0)
        np.add.at(beside, (position[here[mixed]], fixed[there[mixed]]), rate[mixed])
    stands = fixed >= 0
    same = stands[u] & (fixed[u] == fixed[v])
    return EoaProblem(
        instance=instance,
        free=free,
        fixed=fixed,
        may=target[kind[free]],
        load=instance.tasks.load[free],
        room=placing_room(instance) - placed,
        floor=placing_floor(instance) - placed,
        base=running[:, 0],
        occupied=np.bincount(fixed[stands], minlength=n) > 0,
        u=position[u[both]].astype(np.int32),
        v=position[v[both]].astype(np.int32),
        rate=rate[both],
        degree=degree[:, free],
        beside=beside,
        incident=np.stack([np.bincount(fixed[stands], d[stands], n) for d in degree]),
        inside=np.bincount(fixed[u[same]], rate[same], n).astype(np.float64),
        uplink=_uplinks(instance),
        shared=_shared(instance, fixed),
    )


def fixed_nodes(kind: Ints, target: Bools) -> NDArray[np.int64]:
    """(T,) the only node a task may go to, -1 where it has a choice."""
    single = target.sum(axis=1) == 1
    return np.where(single[kind], target.argmax(axis=1)[kind], -1).astype(np.int64)


def directed_degrees(instance: Instance) -> Floats:
    """(3, T) all traffic of each task that counts on a link of a direction."""
    source, target, rate = instance.flows.directed()
    out, into = (np.bincount(end, rate, instance.num_tasks) for end in (source, target))
    return np.stack([out + into, out, into])


def _link_rooms(instance: Instance) -> Floats:
    """(L,) traffic each link may carry beside its background, tolerance included."""
    return np.asarray(link_room(instance) - instance.links.background)


def _uplinks(instance: Instance) -> Floats:
    """(3, N) least room of the links of each direction that serve a node alone."""
    links, rooms = instance.links, _link_rooms(instance)
    least = np.full((3, instance.num_nodes), np.inf)
    single = np.flatnonzero(np.diff(links.node_indptr) == 1)
    at = links.direction[single], links.node_indices[links.node_indptr[single]]
    np.minimum.at(least, at, rooms[single])
    return least


def _shared(instance: Instance, fixed: NDArray[np.int64]) -> tuple[SharedLink, ...]:
    links, rooms = instance.links, _link_rooms(instance)
    u, v, rate = instance.pairs
    shared = []
    for i in np.flatnonzero((np.diff(links.node_indptr) > 1) & np.isfinite(rooms)):
        nodes = links.node_indices[links.node_indptr[i] : links.node_indptr[i + 1]]
        if len(nodes) == instance.num_nodes and rooms[i] >= 0:
            continue  # nothing can cross it
        behind = np.zeros(instance.num_nodes + 1, dtype=np.bool_)
        behind[nodes] = True  # the last entry is for -1
        both = behind[fixed[u]] & behind[fixed[v]]
        direction = int(links.direction[i])
        shared.append(SharedLink(nodes, direction, float(rooms[i]), float(rate[both].sum())))
    return tuple(shared)


# What `eoa-milp` minimises, level by level, and the value of a placement in each.
#
# ``capacity``
#     Share of all CPU capacity on nodes in use: the utilisation objective, since the same
#     load on less capacity is a higher share of it.
# ``network``
#     Traffic between nodes, the tie-breaker of utilisation.
# ``squares``
#     Σ (u − ū)² of the CPU over staying nodes; the deviation R_dev is its root.
# ``absolute``
#     Mean |u − ū|, the linear counterpart.

Goal = Literal["capacity", "network", "squares", "absolute"]

LEVELS: dict[str, tuple[Goal, ...]] = {
    "used_capacity": ("capacity", "network"),
    "cpu_deviation": ("squares",),
    "mean_absolute_deviation": ("absolute",),
}
"""What is asked for to levels, most important first."""

FIGURES: dict[Goal, str] = {
    "capacity": "used_capacity",
    "network": "internode_traffic",
    "squares": "cpu_deviation",
    "absolute": "mean_absolute_deviation",
}
"""Goal to the figure of the evaluation that it stands for."""

SAME = 1e-9
"""Values that differ by less than this part of them (traffic: of all traffic) are the same."""

_SHARE = 1e-15  # Rounding of a share in use, as part of the largest one.


@dataclass
class LevelAnswer:
    """What is known of one level; value and bound in units of the goal, always minimised."""

    #: (F,) best placement of the free tasks, what it reaches, what is proven, why it stopped.
    goal: Goal
    place: Ints | None = None
    value: float | None = None
    bound: float | None = None
    termination: str = "time_limit"
    accepted: bool | None = None  # Whether the solver took the start.
    #: For the result.
    solver: str | None = None
    notes: list[str] = field(default_factory=list)
    trace: list[tuple[float, float | None, float | None]] = field(default_factory=list)
    build: float = 0.0

    def offer(self, problem: EoaProblem, place: Ints) -> bool:
        """Keep a placement if it is better than the incumbent; say whether it was."""
        value = value_of(problem, self.goal, place)
        if self.value is not None and value >= self.value:
            return False
        self.place, self.value = place, value
        return True


def scale_of(problem: EoaProblem, goal: Goal) -> float:
    """Size of a goal's figures, against which rounding is measured."""
    if goal == "network":
        return max(problem.instance.total_traffic, 1e-300)
    if goal == "capacity":
        return 1.0
    share = largest_share(problem)
    return share if goal == "absolute" else share**2


def largest_share(problem: EoaProblem) -> float:
    """Return the largest share in use that a staying node can come to."""
    # a task that does not fit a node has no part in it
    fits = problem.may & (problem.load[:, None, :] <= problem.room).all(axis=2)
    most = np.minimum(problem.load[:, 0] @ fits, np.maximum(problem.room[:, 0], 0.0))
    return max(float(shares(problem, problem.base + most).max(initial=0.0)), 1e-150)


def rounding_of(problem: EoaProblem, goal: Goal, value: float) -> float:
    """How far rounding may move a value: deviations of nearly even placements are tiny, too."""
    if goal == "network":  # a difference of sums as large as all traffic
        return SAME * scale_of(problem, goal)
    if goal == "capacity":
        return SAME * abs(value)
    error = _SHARE * largest_share(problem)
    return SAME * abs(value) + error * (float(np.sqrt(abs(value))) if goal == "squares" else 1.0)


def surely(problem: EoaProblem, goal: Goal, bound: float) -> float:
    """Lower a bound by what rounding may have added to it; nothing is below 0."""
    return max(0.0, bound - rounding_of(problem, goal, bound))


def value_of(problem: EoaProblem, goal: Goal, place: Ints) -> float:
    """Value of a placement of the free tasks."""
    instance, node = problem.instance, problem.placement(place)
    if goal == "network":
        return internode_of(instance, node)
    if goal == "capacity":
        return float(problem.capacity_share[np.unique(node)].sum())
    share = shares(problem, node_loads(instance, node)[:, 0])
    if goal == "squares":
        return float(((share - share.mean()) ** 2).sum())
    return float(np.abs(share - share.mean()).mean()) if len(share) else 0.0


def shares(problem: EoaProblem, load: Floats) -> Floats:
    """CPU share in use of the staying nodes, from (N,) loads; 0 where there is no capacity."""
    counted, capacity = counted_nodes(problem), problem.instance.nodes.capacity[:, 0]
    return np.where(capacity > 0, load / np.where(capacity > 0, capacity, 1.0), 0.0)[counted]


def counted_nodes(problem: EoaProblem) -> Ints:
    """Nodes over which deviations are counted: those that stay."""
    return np.flatnonzero(problem.instance.open_nodes).astype(np.int32)


def in_figure(goal: Goal, value: float | None) -> float | None:
    """Turn a goal's value into the figure it stands for."""
    if value is None or goal != "squares":
        return value
    return float(np.sqrt(max(0.0, value)))


# How an EOA model is solved.

FEW_NODES = 1000
"""Branch-and-bound nodes up to which HiGHS runs in this process: to start one would cost more."""


@dataclass(frozen=True)
class Settings:
    """Back end, clock and limits of a solve, from the request."""

    request: Request
    solver: str

    @property
    def gap(self) -> float:
        """Relative gap that counts as done."""
        return 1e-7 if self.request.gap is None else self.request.gap

    @property
    def whole(self) -> bool:
        """Whether auxiliary variables must be declared integer."""
        return self.solver == "cp-sat"

    def over(self) -> bool:
        """Whether the time is up."""
        return self.request.remaining() == 0

    def solve(self, model: LinearModel, start: Floats | None) -> LinearSolution:
        """Hand a model to the back end with the time that is left."""
        settings = {**self.request.solving(), "gap": self.gap}
        return solve_linear(model, self.solver, warm_start=start, **settings)

    def solve_small(self, model: LinearModel, start: Floats | None) -> LinearSolution:
        """Solve a small model in this process; hand it to the back end where that has no end."""
        if self.solver != "highs":
            return self.solve(model, start)
        try:
            answer = solve_small_milp(model, self.request.remaining(), self.gap, FEW_NODES)
        except KeyboardInterrupt:  # what was proven before counts
            ended = LinearTermination.INTERRUPTED
            return LinearSolution(ended, None, None, None, None, [], "", 0.0, 0.0)
        if answer.termination not in ("optimal", "infeasible"):
            return self.solve(model, start)
        return LinearSolution(
            answer.termination, answer.x, answer.objective, answer.bound, None, [], "", 0.0, 0.0
        )
