"""The plan: where every task goes; a frozen, hashed artefact."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from optim.errors import InvalidInput, Problem
from optim.format.document import (
    Amount,
    Count,
    Identifier,
    Positive,
    SmallCount,
    Text,
    parse_json,
    refuse_other_kind,
    validate,
)
from optim.format.tables import NO_INDEX
from optim.util.files import read_bytes, write_atomic

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import ArrayLike, NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Ints

    Counts = NDArray[np.int64]

PLAN_FORMAT = "streamplace.plan/1"


class AcquiredNode(BaseModel):
    """A machine that a model-driven plan acquires."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    id: Identifier = Field(description="as in the assignment")
    vm_type: Identifier = Field(description="id of its machine type")
    slots: SmallCount = Field(description="number of its slots that are used")
    rack: Identifier | None = Field(None, description="name of its rack")


class PlanDocument(BaseModel):
    """A placement as a file: task to node, and what else the method decided."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    format: Literal["streamplace.plan/1"] = Field(description="what the file is, with its version")
    instance: Identifier = Field(description="name of the instance the plan is for")
    instance_sha256: str | None = Field(None, description="of the instance the plan is for")
    method: Text = Field("", description="that made it")
    assignment: dict[Identifier, Identifier] = Field(description="task or thread to node")
    slots: dict[Identifier, Count] | None = Field(
        None, description="task or thread to slot of its node, where the method decided slots"
    )
    threads: dict[Identifier, Count] | None = Field(
        None, description="operator to number of threads, in a model-driven plan"
    )
    parallelism: dict[Identifier, SmallCount] | None = Field(
        None, description="operator to number of tasks, in a plan that chooses it"
    )
    added_nodes: dict[Identifier, Identifier] = Field(
        {}, description="with parallelism: nodes that are added, each with the one it is like"
    )
    target_rate: Positive | None = Field(
        None, description="with parallelism: the multiple of the current input that it carries"
    )
    nodes: list[AcquiredNode] = Field([], description="machines that the plan acquires")
    planned_slots: Count | None = Field(
        None, description="slots the allocation asked for, before mapping acquired more"
    )
    planned_rate: Amount | None = Field(
        None, description="input rate that it was made for, in tuples/s"
    )
    versions: dict[str, str] = Field({}, description="of the programs that took part")
    sha256: str | None = Field(None, description="of the content without this field")


PLAN_ADAPTER: TypeAdapter[PlanDocument] = TypeAdapter(PlanDocument)
_ALIKE = PlanDocument.model_fields.keys() - {
    "format", "instance", "instance_sha256", "nodes", "sha256",
}  # fmt: skip
"""Fields of the document that a `Plan` has by the same name."""


class _Places(Mapping[str, Any]):
    """A read-only mapping task id → place over index arrays, so that a million tasks stay small."""

    def __init__(self, instance: Instance, values: Ints, names: tuple[str, ...] | None) -> None:
        self._instance, self.values_array, self._names = instance, values, names

    def __getitem__(self, task: str) -> Any:
        value = int(self.values_array[self._instance.tasks.index[task]])
        return value if self._names is None else self._names[value]

    def __iter__(self) -> Iterator[str]:
        return iter(self._instance.tasks.ids)

    def __len__(self) -> int:
        return len(self._instance.tasks.ids)

    def __repr__(self) -> str:
        return f"<{len(self)} tasks>"

    def to_dict(self) -> dict[str, Any]:
        """Return a plain dict, in task order."""
        values = self.values_array.tolist()
        if self._names is not None:
            values = [self._names[v] for v in values]
        return dict(zip(self._instance.tasks.ids, values, strict=True))


@dataclass(frozen=True, eq=False)
class Plan:
    """A placement of all tasks of one instance.

    Attributes
    ----------
    instance_name
        The instance it was made for.
    assignment
        Task id to node id.
    slots
        Task id to slot index, where the method decides slots.
    threads, nodes, planned_slots, planned_rate
        For model-driven plans: operator id to number of threads, acquired machines, the slots that
        the allocation asked for before mapping, and the input rate it is for, tuples/s.
    parallelism, added_nodes, target_rate
        For plans that choose it: operator id to number of tasks, ids of nodes that are added with
        those of the nodes they are like, and the multiple of the current input that it is for.
    method, versions
        What made it.
    """

    instance_name: str
    assignment: Mapping[str, str]
    slots: Mapping[str, int] | None = None
    threads: Mapping[str, int] | None = None
    nodes: tuple[AcquiredNode, ...] = ()
    planned_slots: int | None = None
    planned_rate: float | None = None
    parallelism: Mapping[str, int] | None = None
    added_nodes: Mapping[str, str] = field(default_factory=dict)
    target_rate: float | None = None
    method: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    claimed_instance_sha256: str | None = None
    _instance: Instance | None = None

    @classmethod
    def from_indices(
        cls,
        instance: Instance,
        node: ArrayLike,
        slot: ArrayLike | None = None,
        method: str = "",
        versions: Mapping[str, str] | None = None,
    ) -> Plan:
        """Make a plan from (T,) node indices and, where decided, (T,) slot indices.

        Raises
        ------
        ValueError
            Wrong length, or an index that is no node: a task left unplaced is no plan.
        """
        places = _indices(node, instance.num_tasks, instance.num_nodes)
        slots = None
        if slot is not None:
            slots = _Places(
                instance, _indices(slot, instance.num_tasks, np.iinfo(np.int32).max), None
            )
        return cls(
            instance_name=instance.name,
            assignment=_Places(instance, places, instance.nodes.ids),
            slots=slots,
            method=method,
            versions=dict(versions or {}),
            _instance=instance,
        )

    @property
    def instance_sha256(self) -> str | None:
        """Hash of the instance the plan was made for."""
        return self._instance.sha256 if self._instance is not None else self.claimed_instance_sha256

    def node_indices(self, instance: Instance) -> Ints:
        """(T,) node index of each task; -1 where the plan names none or an unknown node."""
        if isinstance(self.assignment, _Places) and self._instance is instance:
            return self.assignment.values_array
        index, assignment = instance.nodes.index, self.assignment
        places = [index.get(assignment.get(t, ""), NO_INDEX) for t in instance.tasks.ids]
        return np.array(places, dtype=np.int32)

    def slot_indices(self, instance: Instance) -> Ints | None:
        """(T,) slot of each task, -1 where the plan names none; ``None`` if it decides no slots."""
        if self.slots is None:
            return None
        if isinstance(self.slots, _Places) and self._instance is instance:
            return self.slots.values_array
        slots = self.slots
        return np.array([slots.get(t, NO_INDEX) for t in instance.tasks.ids], dtype=np.int32)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan's document, its own hash included."""
        return {**self._content(), "sha256": self.sha256}

    def _content(self) -> dict[str, Any]:
        parts = {
            "format": PLAN_FORMAT,
            "instance": self.instance_name,
            "instance_sha256": self.instance_sha256,
            "method": self.method,
            "assignment": _plain(self.assignment),
            "slots": None if self.slots is None else _plain(self.slots),
            "threads": None if self.threads is None else dict(self.threads),
            "nodes": [node.model_dump(exclude_none=True) for node in self.nodes] or None,
            "planned_slots": self.planned_slots,
            "planned_rate": self.planned_rate,
            "parallelism": None if self.parallelism is None else dict(self.parallelism),
            "added_nodes": dict(self.added_nodes) or None,
            "target_rate": self.target_rate,
            "versions": dict(self.versions) or None,
        }
        return {key: value for key, value in parts.items() if value is not None}

    def _repr_html_(self) -> str:
        from optim.format.html import plan_html

        return plan_html(self)

    @cached_property
    def sha256(self) -> str:
        """Hash of the plan's content in compact JSON with sorted keys."""
        # sorted keys and no blanks: the same content has one text, whoever wrote it
        text = json.dumps(
            self._content(), sort_keys=True, separators=(",", ":"), ensure_ascii=False
        )
        return hashlib.sha256(text.encode()).hexdigest()

    def to_json(self) -> str:
        """Return the plan as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=1) + "\n"

    def save(self, path: str | Path) -> None:
        """Write the plan atomically."""
        write_atomic(path, self.to_json())

    @classmethod
    def from_dict(cls, value: Any) -> Plan:
        """Validate a parsed plan document.

        Raises
        ------
        InvalidInput
            Not a plan, or its hash shows that it was changed after it was made.
        """
        refuse_other_kind(value, "streamplace.plan")
        document = validate(PLAN_ADAPTER, value)
        plan = cls(
            instance_name=document.instance,
            claimed_instance_sha256=document.instance_sha256,
            nodes=tuple(document.nodes),
            **{name: getattr(document, name) for name in _ALIKE},
        )
        if document.sha256 is not None and document.sha256 != plan.sha256:
            raise InvalidInput(
                Problem(
                    "sha256",
                    document.sha256,
                    f"does not match the plan's content ({plan.sha256}): it was changed",
                    "use the original file, or remove sha256 to take the plan as hand-made",
                )
            )
        return plan

    @classmethod
    def from_json(cls, text: str | bytes) -> Plan:
        """Read a plan from JSON text.

        Raises
        ------
        InvalidInput
            Not JSON, or not a plan.
        """
        return cls.from_dict(parse_json(text.encode() if isinstance(text, str) else text))

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        """Read a plan from a file.

        Raises
        ------
        InvalidInput
            The file cannot be read, or is not a plan.
        """
        data = read_bytes(path)
        try:
            return cls.from_json(data)
        except InvalidInput as error:
            raise error.within(str(path)) from None


def _indices(values: ArrayLike, length: int, below: int) -> Ints:
    indices = np.asarray(values)
    if indices.shape != (length,):
        raise ValueError(f"expected {length} indices, one a task; got shape {indices.shape}")
    if length and (indices.dtype.kind not in "iu" or indices.min() < 0 or indices.max() >= below):
        raise ValueError("every task needs a place; an index is out of range, or not whole")
    array = np.array(indices, dtype=np.int32)
    array.flags.writeable = False
    return array


def _plain(places: Mapping[str, Any]) -> dict[str, Any]:
    return places.to_dict() if isinstance(places, _Places) else dict(places)


@dataclass(frozen=True, eq=False)
class ThreadPlacement:
    """Threads on the slots of acquired machines."""

    threads: Counts  # (O,) threads of each operator.
    nodes: tuple[AcquiredNode, ...]  # The machines, with the slots of each that the job uses.
    #: (Q,) index into `nodes` and slot of each thread, operator after operator.
    node: Counts
    slot: Counts
    planned_slots: int  # Slots that the allocation asked for, before mapping acquired more.

    @property
    def num_slots(self) -> int:
        """Slots of all machines."""
        return sum(node.slots for node in self.nodes)

    def to_plan(
        self, instance: Instance, method: str = "", versions: Mapping[str, str] | None = None
    ) -> Plan:
        """Name threads ``op/0``, ``op/1``, … and write the plan.

        Raises `ValueError`: the lengths do not agree: a thread left unplaced is no plan.
        """
        if int(self.threads.sum()) != len(self.node) or len(self.node) != len(self.slot):
            raise ValueError("every thread needs a machine and a slot")
        names = [
            f"{operator}/{i}"
            for operator, count in zip(instance.operators.ids, self.threads.tolist(), strict=True)
            for i in range(count)
        ]
        ids = [node.id for node in self.nodes]
        return Plan(
            instance_name=instance.name,
            assignment={t: ids[n] for t, n in zip(names, self.node.tolist(), strict=True)},
            slots=dict(zip(names, self.slot.tolist(), strict=True)),
            threads=dict(zip(instance.operators.ids, self.threads.tolist(), strict=True)),
            nodes=self.nodes,
            planned_slots=self.planned_slots,
            planned_rate=instance.input_rate,
            method=method,
            versions=dict(versions or {}),
            _instance=instance,
        )


def slot_order(nodes: tuple[AcquiredNode, ...]) -> tuple[Counts, Counts]:
    """Return machine and slot number of all slots, machine after machine; (S,) each."""
    counts = np.array([node.slots for node in nodes], dtype=np.int64)
    node = np.repeat(np.arange(len(nodes)), counts)
    starts = np.cumsum(counts) - counts
    return node, np.arange(len(node)) - np.repeat(starts, counts)
