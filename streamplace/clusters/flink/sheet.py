"""What Flink needs of a plan: groups of vertices, and how many slots of each a task manager has.

A group is a slot sharing group with a resource of its own. A task manager that offers n of that
resource takes n slots of the group, and all of them together offer as many as there are slots: the
only way to run the job is the planned one. That fixes how many subtasks of a vertex run where, on
every start and restart; which index runs where remains Flink's choice.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from optim.errors import InvalidInput, Problem
from optim.format.document import PositiveCount
from optim.format.read import validate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optim.format.instance import Instance
    from streamplace.clusters.exchange.placements import Places

SHEET_FORMAT = "streamplace.flink/1"
VERTEX = "vertex "
"""Label of an operator: with the vertex' id after it, the vertex' name."""
JOB = "job "
"""Label of an instance: with the topology after it, the job's id."""
_KEY_LENGTH = 6
_REMEDY = "export an instance that `streamplace import flink` made"


class Group(BaseModel):
    """Vertices that share slots, and the number of those slots on each task manager."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    operator: str
    job: str
    vertices: dict[str, str] = Field(min_length=1, description="id to name")
    parallelism: PositiveCount
    counts: dict[str, PositiveCount] = Field(description="task manager to slots")


class _Sheet(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    format: Literal["streamplace.flink/1"]
    key: str
    jobs: dict[str, str]
    groups: list[Group] = Field(min_length=1)
    resources: list[str] = []
    task_managers: dict[str, dict[str, Any]] = {}


_ADAPTER = TypeAdapter(_Sheet)


@dataclass(frozen=True)
class Sheet:
    """A plan as Flink carries it out.

    Attributes
    ----------
    groups
        All groups, of all jobs.
    jobs
        Name of a job to the id it had when it was imported.
    """

    groups: tuple[Group, ...]
    jobs: Mapping[str, str]

    @cached_property
    def key(self) -> str:
        """Hash of groups and counts: in the names, so that plans may stand side by side."""
        content = [
            [g.job, g.operator, sorted(g.vertices), sorted(g.counts.items())] for g in self.groups
        ]
        text = json.dumps(content, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()[:_KEY_LENGTH]

    def resource(self, group: Group) -> str:
        """Return the name of a group, and of its resource."""
        return f"p{self.key}-{self.groups.index(group)}"

    @cached_property
    def task_managers(self) -> tuple[str, ...]:
        """Those that run something, in order of their ids."""
        return tuple(sorted({name for group in self.groups for name in group.counts}))

    def configuration(self, manager: str) -> dict[str, Any]:
        """Return what a task manager's ``config.yaml`` needs to take its part."""
        amounts = {self.resource(g): g.counts[manager] for g in self.groups if manager in g.counts}
        found: dict[str, Any] = {"taskmanager.resource-id": manager}
        if amounts:
            found["external-resources"] = list(amounts)
        return found | {f"external-resource.{name}.amount": n for name, n in amounts.items()}

    def to_dict(self) -> dict[str, Any]:
        """Return the sheet as a document."""
        return {
            "format": SHEET_FORMAT,
            "key": self.key,
            "jobs": dict(self.jobs),
            "groups": [group.model_dump() for group in self.groups],
            "resources": [self.resource(group) for group in self.groups],
            "task_managers": {name: self.configuration(name) for name in self.task_managers},
        }

    @classmethod
    def from_dict(cls, value: Any) -> Sheet:
        """Read a document that `to_dict` made.

        Raises
        ------
        InvalidInput
            It is none, or was changed.
        """
        document = validate(_ADAPTER, value)
        sheet = cls(tuple(document.groups), document.jobs)
        if sheet.key != document.key:
            reason = f"does not match groups and counts ({sheet.key}): they were changed"
            raise InvalidInput(Problem("key", document.key, reason, "export the plan again"))
        problems = [
            Problem(
                f"groups[{i}].counts",
                sum(group.counts.values()),
                f"slots are not the parallelism of {group.parallelism}",
                "export the plan again",
            )
            for i, group in enumerate(sheet.groups)
            if sum(group.counts.values()) != group.parallelism
        ]
        if problems:
            raise InvalidInput(problems)
        return sheet


def sheet_of(instance: Instance, places: Places) -> Sheet:
    """Make the sheet of a plan for an imported instance.

    Raises
    ------
    InvalidInput
        The instance does not say which vertices its operators are, or a task has no operator.
    """
    problems = []
    groups = []
    loose = int((instance.tasks.operator < 0).sum())
    if loose:
        problems.append(Problem("tasks[].operator", None, f"is missing of {loose} tasks", _REMEDY))
    for o, name in enumerate(instance.operators.ids):
        labels = instance.operators.labels.get(o, {})
        vertices = {
            label.removeprefix(VERTEX): text
            for label, text in labels.items()
            if label.startswith(VERTEX)
        }
        if not vertices:
            reason = "has no label that names a vertex"
            problems.append(Problem(f"operators[{o}].labels", name, reason, _REMEDY))
            continue
        tasks = instance.tasks_of(o)
        topology = int(instance.operators.topology[o])
        counts = Counter(instance.nodes.ids[n] for n in places.node[tasks].tolist())
        groups.append(
            Group(
                operator=name,
                job=instance.topologies.ids[topology] if topology >= 0 else "",
                vertices=vertices,
                parallelism=len(tasks),
                counts=dict(sorted(counts.items())),
            )
        )
    if problems:
        raise InvalidInput(problems)
    jobs = {
        label.removeprefix(JOB): text
        for label, text in instance.labels.items()
        if label.startswith(JOB)
    }
    return Sheet(tuple(groups), jobs)
