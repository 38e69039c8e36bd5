"""The columns an instance is made of; every array is read-only.

Shapes: N nodes, T tasks, O operators, P topologies, R resources, L links.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]
PatternName = Literal["full", "one_to_one", "rescale", "merge", "local_first"]

NO_INDEX = -1  # Stands for "none" in every index array.


class _Frozen:
    """Makes the arrays of a frozen dataclass read-only at birth."""

    def __post_init__(self) -> None:
        for item in fields(self):  # type: ignore[arg-type]
            value = getattr(self, item.name)
            if isinstance(value, np.ndarray):
                value.flags.writeable = False


@dataclass(frozen=True, eq=False)
class NodeTable(_Frozen):
    """Where tasks go.

    `capacity`, `slot_capacity`: (N, R); ``inf`` where unbounded.
    """

    ids: tuple[str, ...]  # N names.
    capacity: Floats
    #: (N, R); 0 where not given.
    min_load: Floats
    background: Floats
    weight: Floats  # (N,) share of the mean load.
    slots: Ints  # (N,) number of slots, -1 where not given.
    slot_capacity: Floats
    rack: Ints  # (N,) index into `rack_ids`, -1 for none.
    rack_ids: tuple[str, ...]
    leaving: Bools  # (N,) marked for removal.
    #: (N,) most tasks, and most tasks that move onto it; -1 for any number.
    max_tasks: Ints
    max_inflow: Ints
    vm_type: Ints  # (N,) index of its machine type, -1 where not given.
    #: Node index to labels, only where there are any.
    labels: Mapping[int, Mapping[str, str]] = field(default_factory=dict)

    @cached_property
    def index(self) -> dict[str, int]:
        """Node id to index."""
        return {name: i for i, name in enumerate(self.ids)}


@dataclass(frozen=True, eq=False)
class TaskTable(_Frozen):
    """What is placed."""

    ids: tuple[str, ...]  # T names.
    #: (T,) operator index (-1 none) and position within that operator.
    operator: Ints
    member: Ints
    load: Floats  # (T, R).
    #: (T,) as in the file; ``nan`` where not given.
    state: Floats
    given_cost: Floats
    #: (T,) current place; -1 where there is none.
    node: Ints
    slot: Ints
    #: Tasks with an ``allowed`` list, their own or their group's, and those lists in CSR form.
    restricted: Ints
    allowed_indptr: Ints
    allowed_indices: Ints
    #: Tasks with ``copies``, and the nodes of these in CSR form.
    copied: Ints = field(default_factory=lambda: np.zeros(0, np.int32))
    copies_indptr: Ints = field(default_factory=lambda: np.zeros(1, np.int32))
    copies_indices: Ints = field(default_factory=lambda: np.zeros(0, np.int32))
    #: Task index to labels, only where there are any.
    labels: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    #: (T, R) what one task can use wherever it runs, ``inf`` for any amount; takes the shape of
    #: `load`.
    max_load: Floats = field(default_factory=lambda: np.full((1, 1), np.inf))

    def __post_init__(self) -> None:
        limits = np.broadcast_to(self.max_load, self.load.shape)  # no memory where there are none
        object.__setattr__(self, "max_load", limits)
        super().__post_init__()

    @cached_property
    def limited(self) -> bool:
        """Whether any task has a `max_load`."""
        return bool(np.isfinite(self.max_load).any())

    @cached_property
    def index(self) -> dict[str, int]:
        """Task id to index."""
        return {name: i for i, name in enumerate(self.ids)}

    def any_allowed(self, holds: Bools) -> Bools:
        """(len(restricted),) whether any of `holds`, one an entry of `allowed_indices`, is true."""
        # differences of running counts: entries found in each row
        count = np.concatenate([[0], np.cumsum(holds)])
        return np.asarray(np.diff(count[self.allowed_indptr]) > 0)

    @cached_property
    def migration_cost(self) -> Floats:
        """(T,) cost of moving a task: `migration_cost`, else `state`, else 1."""
        cost = np.where(np.isnan(self.given_cost), self.state, self.given_cost)
        cost = np.where(np.isnan(cost), 1.0, cost)
        cost.flags.writeable = False
        return cost


@dataclass(frozen=True, eq=False)
class OperatorTable(_Frozen):
    """The vertices of the job graph.

    `group_load`, `group_state`: (O, R) and (O,) totals of the group form; ``nan`` state where not
        given.
    """

    #: O names and roles (source, operator, sink, system).
    ids: tuple[str, ...]
    role: tuple[str, ...]
    topology: Ints  # (O,) index, -1 for none.
    group_tasks: Ints  # (O,) size of the group form, -1 where tasks are listed one by one.
    #: Nodes that the group form allows, ascending, or ``None`` for all; O of them.
    group_allowed: tuple[tuple[int, ...] | None, ...]
    group_load: Floats
    group_load_given: Bools  # (O, R) whether the file gives that load (else it is 0 or derived).
    group_state: Floats
    #: (O,); ``nan`` where unknown. `tuple_rate` is tuples/s received, derived from the input rate.
    cpu_per_tuple: Floats
    service_rate: Floats
    tuple_rate: Floats
    model: tuple[str | None, ...]  # O names of performance models, or ``None``.
    #: The tasks of each operator in member order, CSR form.
    task_indptr: Ints
    task_indices: Ints
    #: (O, R) what one task can use, by its operator and by its group form; ``inf`` where not given.
    #: The latter overrides the former, and a task's own both.
    max_load: Floats
    group_max_load: Floats
    #: (O,) bounds of the number of tasks, and key groups; -1 where not given.
    min_parallelism: Ints
    max_parallelism: Ints
    key_groups: Ints
    #: Operator index to labels, only where there are any.
    labels: Mapping[int, Mapping[str, str]] = field(default_factory=dict)

    @cached_property
    def index(self) -> dict[str, int]:
        """Operator id to index."""
        return {name: i for i, name in enumerate(self.ids)}

    @cached_property
    def num_tasks(self) -> Ints:
        """(O,) number of tasks."""
        return np.diff(self.task_indptr)


@dataclass(frozen=True, eq=False)
class TopologyTable(_Frozen):
    """Jobs of a Storm-like engine."""

    ids: tuple[str, ...]  # P names.
    workers: Ints  # (P,) worker processes, -1 where not given.
    #: (P,) most nodes that a topology stands on, alone; -1 where it may share any.
    exclusive_nodes: Ints
    #: (P,) of these, how many others may share all the same: no document says so, a current
    #: placement that breaks the rule does.
    shared_nodes: Ints


@dataclass(frozen=True, eq=False)
class LinkTable(_Frozen):
    """Shared lines: L names, member nodes in CSR form, (L,) capacity, background and direction.

    `direction` is 0 where all that crosses counts, 1 for what leaves the nodes, 2 for what enters.
    """

    ids: tuple[str, ...]
    node_indptr: Ints
    node_indices: Ints
    capacity: Floats
    background: Floats
    direction: Ints

    @cached_property
    def layers(self) -> tuple[LinkLayer, ...]:
        """Links of several nodes in few layers, so that all of a layer are counted at once.

        The racks of a cluster are one layer, and what joins several racks another.
        """
        taken: dict[int, int] = {}  # node to the layers that have it, a bit each
        chosen: list[list[tuple[int, list[int]]]] = []
        for i in np.flatnonzero(np.diff(self.node_indptr) > 1).tolist():
            nodes = self.node_indices[self.node_indptr[i] : self.node_indptr[i + 1]].tolist()
            full = 0
            for n in nodes:
                full |= taken.get(n, 0)
            free = ~full & (full + 1)  # the lowest bit that is not set
            for n in nodes:
                taken[n] = taken.get(n, 0) | free
            at = free.bit_length() - 1
            if at == len(chosen):
                chosen.append([])
            chosen[at].append((i, nodes))
        return tuple(LinkLayer.of(layer) for layer in chosen)


class LinkLayer(NamedTuple):
    """Links that share no node: their indices, their nodes, and the position + 1 of each's link."""

    links: NDArray[np.int64]
    nodes: NDArray[np.int64]
    side: NDArray[np.int64]

    @classmethod
    def of(cls, members: Sequence[tuple[int, list[int]]]) -> LinkLayer:
        """Write links and their nodes as arrays."""
        sizes = [len(nodes) for _, nodes in members]
        return cls(
            np.array([i for i, _ in members]),
            np.array([n for _, nodes in members for n in nodes]),
            np.repeat(np.arange(1, len(members) + 1), sizes),
        )


DIRECTIONS = ("both", "out", "in")
APART, TOGETHER, SPREAD = 0, 1, 2
SET_RULES = ("apart", "together", "spread")


@dataclass(frozen=True, eq=False)
class SetTable(_Frozen):
    """Tasks that are to be apart, together or spread."""

    ids: tuple[str, ...]  # S names.
    rule: Ints  # (S,) `APART`, `TOGETHER` or `SPREAD`.
    by_rack: Bools  # (S,) whether places are racks, else nodes.
    #: (S,) most members on one place (apart), least number of places (spread), 1 (together).
    limit: Ints
    #: Tasks of each set in CSR form.
    indptr: Ints
    members: Ints
    by_operator: Ints  # (S,) operator whose tasks are the members, -1 where they are listed.
    #: (S,) where each stands in the file's list, which has sets over nodes, racks and slots.
    entry: Ints

    def tasks_of(self, i: int) -> Ints:
        """Members of one set."""
        return self.members[self.indptr[i] : self.indptr[i + 1]]

    def only(self, chosen: NDArray[Any], members: Sequence[NDArray[Any]] | None = None) -> SetTable:
        """Return a table of some of the sets; a set may be named several times.

        `members`: tasks of each; its own if left out.
        """
        tasks = [self.tasks_of(i) for i in chosen.tolist()] if members is None else members
        sizes = np.array([0, *map(len, tasks)])
        return SetTable(
            ids=tuple(self.ids[i] for i in chosen.tolist()),
            rule=self.rule[chosen],
            by_rack=self.by_rack[chosen],
            limit=self.limit[chosen],
            indptr=np.cumsum(sizes).astype(np.int32),
            members=np.concatenate([self.members[:0], *tasks]).astype(np.int32),
            by_operator=self.by_operator[chosen],
            entry=self.entry[chosen],
        )

    def joined(self, more: SetTable) -> SetTable:
        """Return a table of the sets of two."""
        parts = {
            name: np.concatenate([getattr(self, name), getattr(more, name)])
            for name in ("rule", "by_rack", "limit", "members", "by_operator", "entry")
        }
        indptr = np.concatenate([self.indptr, self.indptr[-1] + more.indptr[1:]])
        return SetTable(ids=self.ids + more.ids, indptr=indptr.astype(np.int32), **parts)


@dataclass(frozen=True, eq=False)
class TrafficTable(_Frozen):
    """Explicit directed task pairs, (K,) each."""

    source: Ints
    target: Ints
    rate: Floats


class Stream(NamedTuple):
    """Traffic between two operators (indices).

    `rate` is the whole stream's; ``nan`` marks what the file does not give. `replaced` says that
    explicit task pairs stand for the spread; `given` that the rate stands in the file.
    `sender_weights` are in proportion to what each sender of a `local_first` stream sends.
    """

    source: int
    target: int
    rate: float
    selectivity: float
    tuple_bytes: float
    pattern: PatternName
    replaced: bool
    given: bool
    sender_weights: tuple[float, ...] | None = None


class ModelPoint(NamedTuple):
    """Threads on one slot, their peak stable rate (tuples/s), and CPU and memory used (%)."""

    threads: int
    rate: float
    cpu: float
    memory: float


class VmType(NamedTuple):
    """A kind of machine that may be acquired."""

    id: str
    slots: int
    price: float


@dataclass(frozen=True, eq=False)
class Limits(_Frozen):
    """What a plan must keep beside capacities; ``None`` means no limit.

    `max_utilisation` is (R,), 1 by default. `into_leaving` is whether tasks may move onto leaving
    nodes: no document says so, dropping the limit ``leaving`` does.
    """

    max_migrations: int | None
    max_migration_cost: float | None
    max_migration_state: float | None
    max_load_distance: float | None
    max_tasks_per_slot: int | None
    max_nodes_used: int | None
    max_workers_restarted: int | None
    max_inflow: int | None
    max_utilisation: Floats
    max_link_utilisation: float
    into_leaving: bool = False
