"""The instance: one immutable placement problem, validated once, with its arrays derived once."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import InvalidInput
from optim.format.traffic import TaskPairs, Traffic
from optim.util.files import read_bytes, write_atomic
from optim.util.process import collection_paused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from scipy.sparse import csr_array

    from optim.format.document import InstanceDocument
    from optim.format.tables import (
        Bools,
        Floats,
        Ints,
        Limits,
        LinkTable,
        ModelPoint,
        NodeTable,
        OperatorTable,
        SetTable,
        Stream,
        TaskTable,
        TopologyTable,
        TrafficTable,
        VmType,
    )


@dataclass(frozen=True, eq=False, repr=False)
class Instance:
    """A placement problem.

    Build one with `Instance.load`, `Instance.from_json` or `Instance.from_dict`; all of these
    validate everything and report all problems at once. Arrays are read-only.

    Attributes
    ----------
    name, origin, units, labels
        What the file says about itself; carried through unread.
    resources
        R names; the first is the balanced one.
    nodes, tasks, operators, topologies, links, sets, slot_sets, limits
        The tables of `optim.format.tables`; sets over nodes or racks, and sets over slots.
    rate_driven
        Indices of the resources whose load grows with the input rate.
    crossing_cost
        (2, R) units of each resource that one unit of rate costs the node that sends it to another
        node, and the one that receives it.
    streams
        Traffic between operators.
    traffic
        Explicit directed task pairs.
    models, input_rate, vm_types
        The model-driven parts.
    """

    name: str
    origin: str
    units: Mapping[str, str]
    labels: Mapping[str, str]
    resources: tuple[str, ...]
    nodes: NodeTable
    tasks: TaskTable
    operators: OperatorTable
    topologies: TopologyTable
    links: LinkTable
    rate_driven: tuple[int, ...]
    crossing_cost: Floats
    sets: SetTable
    slot_sets: SetTable
    streams: tuple[Stream, ...]
    traffic: TrafficTable
    limits: Limits
    models: Mapping[str, tuple[ModelPoint, ...]]
    input_rate: float | None
    vm_types: tuple[VmType, ...]

    # -- in and out ------------------------------------------------------------------------------

    @classmethod
    def from_dict(cls, value: Any) -> Instance:
        """Validate a parsed document.

        Raises
        ------
        InvalidInput
            With every problem by path.
        """
        from optim.format.document import INSTANCE_ADAPTER
        from optim.format.read import validate

        return cls._from_parsed([value], lambda parsed: validate(INSTANCE_ADAPTER, parsed))

    @classmethod
    def _from_parsed(
        cls, values: list[Any], check: Callable[[Any], InstanceDocument] | None = None
    ) -> Instance:
        """Build from the one document of a list; without `check` nobody else holds it."""
        from optim.format.build import build
        from optim.format.document import checked
        from optim.format.read import refuse_other_kind

        refuse_other_kind(values[0], "streamplace.instance")
        with collection_paused():
            return cls(**build((check or checked)(values.pop())))

    @classmethod
    def from_json(cls, text: str | bytes) -> Instance:
        """Read an instance from JSON text.

        Raises
        ------
        InvalidInput
            Not JSON, duplicate keys, or anything the format does not allow.
        """
        from optim.format.read import parse_json

        with collection_paused():
            data = text.encode() if isinstance(text, str) else text
            return cls._from_parsed([parse_json(data)])

    @classmethod
    def load(cls, path: str | Path) -> Instance:
        """Read an instance from a ``.json`` or ``.json.gz`` file.

        Raises
        ------
        InvalidInput
            The file cannot be read, or its content cannot be taken.
        """
        from optim.format.read import parse_json

        data = read_bytes(path)
        try:
            with collection_paused():
                value = [parse_json(data)]
                del data  # a large file is given back before its content is checked
                return cls._from_parsed(value)
        except InvalidInput as error:
            raise error.within(str(path)) from None

    def to_dict(self) -> dict[str, Any]:
        """Return the canonical document: fixed key order, defaults left out, groups preserved."""
        from optim.format.write import instance_document

        with collection_paused():
            return instance_document(self)

    def to_json(self) -> str:
        """Return the canonical JSON text; `sha256` is the hash of these bytes."""
        return self._canonical().decode()

    def save(self, path: str | Path) -> None:
        """Write the canonical JSON atomically; ``.gz`` packs it."""
        write_atomic(path, self._canonical())

    def _canonical(self) -> bytes:
        from pydantic_core import to_json

        return to_json(self.to_dict()) + b"\n"

    @cached_property
    def sha256(self) -> str:
        """Hash of the canonical JSON: two files that mean the same have the same."""
        return hashlib.sha256(self._canonical()).hexdigest()

    def replace(self, **changes: Any) -> Instance:
        """Return a new instance with top-level entries of the document replaced, as in a file.

        Raises
        ------
        InvalidInput
            With every problem by path.
        """
        return Instance.from_dict({**self.to_dict(), **changes})

    def __repr__(self) -> str:
        return (
            f"<Instance {self.name!r}: {self.num_tasks} tasks in {self.num_operators} operators, "
            f"{self.num_nodes} nodes>"
        )

    def _repr_html_(self) -> str:
        from optim.format.html import instance_html

        return instance_html(self)

    def with_values(self, table: str, **columns: Any) -> Instance:
        """Return the instance with other columns of a table (``nodes``, …, ``limits``)."""
        return replace(self, **{table: replace(getattr(self, table), **columns)})

    def with_max_load(self, max_load: Floats) -> Instance:
        """Return the instance with other ceilings of its tasks, (T, R) or (1, 1)."""
        none = np.full((self.num_operators, self.num_resources), np.inf)
        return replace(
            self,
            tasks=replace(self.tasks, max_load=max_load),
            operators=replace(self.operators, max_load=none, group_max_load=none),
        )

    def with_allowed(self, tasks: Iterable[int], rows: Sequence[Any]) -> Instance:
        """Return the instance in which these tasks, ascending, and no others have allowed nodes."""
        return self.with_values(
            "tasks",
            restricted=np.fromiter(tasks, dtype=np.int32),
            allowed_indptr=np.cumsum([0, *map(len, rows)]).astype(np.int32),
            allowed_indices=np.concatenate([*rows, []]).astype(np.int32),
        )

    # -- sizes -----------------------------------------------------------------------------------

    @property
    def num_nodes(self) -> int:
        """N."""
        return len(self.nodes.ids)

    @property
    def num_tasks(self) -> int:
        """T."""
        return len(self.tasks.ids)

    @property
    def num_operators(self) -> int:
        """O."""
        return len(self.operators.ids)

    @property
    def num_resources(self) -> int:
        """R."""
        return len(self.resources)

    # -- derived once ----------------------------------------------------------------------------

    def tasks_of(self, operator: int) -> Ints:
        """Return the tasks of an operator in member order."""
        table = self.operators
        return table.task_indices[table.task_indptr[operator] : table.task_indptr[operator + 1]]

    @cached_property
    def task_topology(self) -> Ints:
        """(T,) topology of each task, -1 for none."""
        operator = self.tasks.operator
        return np.append(self.operators.topology, -1).astype(np.int32)[operator]  # -1 is the last

    @cached_property
    def headroom(self) -> Floats:
        """(N, R) load that may be placed: capacity × max_utilisation − background, or ``inf``."""
        return _frozen(self.nodes.capacity * self.limits.max_utilisation - self.nodes.background)

    @cached_property
    def thread_rates(self) -> Floats:
        """(T, D) multiple of the current input at which a task uses all it can of what that drives.

        ``inf`` where it never does; of no rows where no task has a ``max_load``.
        """
        driven = list(self.rate_driven)
        if not self.tasks.limited:
            return _frozen(np.zeros((0, len(driven))))
        load, most = self.tasks.load[:, driven], self.tasks.max_load[:, driven]
        return _frozen(np.divide(most, load, out=np.full(load.shape, np.inf), where=load > 0))

    @cached_property
    def open_nodes(self) -> Bools:
        """(N,) nodes that stay; constructive methods place only there."""
        return _frozen(~self.nodes.leaving)

    @cached_property
    def has_open_node(self) -> Bools:
        """(T,) whether a node that stays is among those a task may use."""
        found = np.full(self.num_tasks, bool(self.open_nodes.any()))
        table = self.tasks
        found[table.restricted] = table.any_allowed(self.open_nodes[table.allowed_indices])
        return _frozen(found)

    def allowed_mask(self, task: int) -> Bools:
        """(N,) where one task may go."""
        if not 0 <= task < self.num_tasks:
            raise IndexError(f"task {task} of {self.num_tasks}")
        # of its own type, or numpy would convert the whole array
        where = int(np.searchsorted(self.tasks.restricted, np.int32(task)))
        if where == len(self.tasks.restricted) or self.tasks.restricted[where] != task:
            return np.ones(self.num_nodes, dtype=np.bool_)
        mask = np.zeros(self.num_nodes, dtype=np.bool_)
        start, stop = self.tasks.allowed_indptr[where : where + 2]
        mask[self.tasks.allowed_indices[start:stop]] = True
        return mask

    @cached_property
    def flows(self) -> Traffic:
        """All traffic in the compact form the referee counts with."""
        rack = self.nodes.rack
        return Traffic.of(self.num_tasks, self.streams, self.traffic, self.tasks_of, rack)

    @cached_property
    def pairs(self) -> TaskPairs:
        """All traffic between pairs as undirected task pairs u < v, both directions added.

        Raises
        ------
        InvalidInput
            There are more than `optim.format.traffic.MAX_PAIRS`.
        """
        return TaskPairs(*(_frozen(column) for column in self.flows.pairs()))

    @cached_property
    def adjacency(self) -> csr_array[Any, tuple[int, int]]:
        """(T, T) symmetric sparse matrix of pair rates."""
        from scipy.sparse import coo_array

        u, v, rate = self.pairs
        both = (np.concatenate([rate, rate]), (np.concatenate([u, v]), np.concatenate([v, u])))
        return coo_array(both, shape=(self.num_tasks, self.num_tasks)).tocsr()

    @cached_property
    def partners(self) -> tuple[Ints, Ints, Floats]:
        """(T + 1,) starts, partners and rates: the rows of `adjacency`, before scipy is loaded."""
        u, v, rate = self.pairs
        own, other = np.concatenate([u, v]), np.concatenate([v, u])
        order = np.lexsort((other, own))
        starts = np.concatenate([[0], np.cumsum(np.bincount(own, minlength=self.num_tasks))])
        return starts, other[order], np.concatenate([rate, rate])[order]

    @cached_property
    def total_traffic(self) -> float:
        """Sum of all rates between tasks."""
        return self.flows.total()

    @property
    def has_traffic(self) -> bool:
        """Whether any tasks communicate."""
        return self.total_traffic > 0

    @cached_property
    def has_current(self) -> bool:
        """Whether every task has a current node."""
        return self.num_tasks > 0 and bool((self.tasks.node >= 0).all())

    @cached_property
    def total_load(self) -> Floats:
        """(R,) load of all tasks."""
        return _frozen(self.tasks.load.sum(axis=0))

    @cached_property
    def totals(self) -> Floats:
        """(R,) load of all tasks and all background."""
        return _frozen(self.total_load + self.nodes.background.sum(axis=0))

    @cached_property
    def mean_load(self) -> float | None:
        """First resource's load a unit of weight of the staying nodes; ``None`` without any."""
        weight = float(self.nodes.weight[self.open_nodes].sum())
        return float(self.totals[0]) / weight if weight > 0 else None

    @cached_property
    def due(self) -> Floats:
        """(N,) share of the mean load that each node is due by its weight; 0 without a mean."""
        return _frozen(self.nodes.weight * (self.mean_load or 0.0))

    @cached_property
    def copy_nodes(self) -> dict[int, frozenset[int]]:
        """Task to the nodes that hold its state already; only tasks with such."""
        table = self.tasks
        ends = zip(table.copies_indptr[:-1].tolist(), table.copies_indptr[1:].tolist(), strict=True)
        rows = (frozenset(table.copies_indices[a:b].tolist()) for a, b in ends)
        return dict(zip(table.copied.tolist(), rows, strict=True))


def _frozen(array: Any) -> Any:
    array.flags.writeable = False
    return array
