"""Flink: quotas of task managers and groups of vertices that leave a job only the planned places.

A group is a slot sharing group with a resource of its own. A task manager that offers n of that
resource takes n slots of the group, and all of them together offer as many as there are slots: the
only way to run the job is the planned one. That fixes how many subtasks of a vertex run where, on
every start and restart; which index runs where remains Flink's choice.

Three files: the sheet that ``streamplace submit flink`` and ``streamplace verify flink`` read, the
lines for each task manager's ``config.yaml``, and how to put them to use.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from optim.errors import InvalidInput, Problem, problems_in
from optim.format.document import PositiveCount, parse_json, validate
from optim.format.plan import Plan
from optim.util.files import read_bytes
from streamplace.clusters.exchange.declarations import Exporter, Ledger, Places, places_of_plan
from streamplace.clusters.exchange.sources import MAX_SOURCE
from streamplace.present.numbers import listed
from streamplace.present.table import markdown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optim.format.instance import Instance


SHEET_FORMAT = "streamplace.flink/1"
VERTEX = "vertex "
"""Label of an operator: with the vertex' id after it, the vertex' name."""
JOB = "job "
"""Label of an instance: with the topology after it, the job's id."""
OVERRIDES = "pipeline.jobvertex-parallelism-overrides"
_KEY_LENGTH = 6
_REMEDY = "export an instance that `streamplace import flink` made"
_NAMED = 5
_HEADS = ("group and resource", "parallelism", "vertices", "slots by task manager")


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
    """A plan as Flink carries it out; `jobs` are names, each with its id when it was imported."""

    groups: tuple[Group, ...]
    jobs: Mapping[str, str]

    @cached_property
    def by_job(self) -> dict[str, list[Group]]:
        """The groups of each job."""
        names = dict.fromkeys(group.job for group in self.groups)
        return {name: [group for group in self.groups if group.job == name] for name in names}

    @cached_property
    def key(self) -> str:
        """Hash of groups and counts: in the names, so that plans may stand side by side."""
        # what changes the quotas, in a fixed order: the same plan has the same key
        parts = [
            (g.job, g.operator, sorted(g.vertices), sorted(g.counts.items())) for g in self.groups
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:_KEY_LENGTH]

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
        settings: dict[str, Any] = {"taskmanager.resource-id": manager}
        if amounts:
            settings["external-resources"] = list(amounts)
        return settings | {f"external-resource.{name}.amount": n for name, n in amounts.items()}

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
        """Read a document that `to_dict` made."""
        document = validate(_ADAPTER, value)
        sheet = cls(tuple(document.groups), document.jobs)
        # the key is in the names of resources: counts that were edited no longer fit them
        if sheet.key != document.key:
            reason = f"does not match groups and counts ({sheet.key}): they were changed"
            raise InvalidInput(Problem("key", document.key, reason, "export the plan again"))
        ledger = Ledger()
        for i, group in enumerate(sheet.groups):
            slots = sum(group.counts.values())
            if slots != group.parallelism:
                reason = f"slots are not the parallelism of {group.parallelism}"
                ledger.problem(f"groups[{i}].counts", slots, reason, "export the plan again")
        ledger.check()
        return sheet


def sheet_of(instance: Instance, places: Places) -> Sheet:
    """Make the sheet of a plan for an imported instance.

    Raises `InvalidInput`: the instance does not say which vertices its operators are, or a task has
        no operator.
    """
    ledger = Ledger()
    groups = []
    if loose := int((instance.tasks.operator < 0).sum()):
        ledger.problem("tasks[].operator", None, f"is missing of {loose} tasks", _REMEDY)
    for o, name in enumerate(instance.operators.ids):
        vertices = _labelled(instance.operators.labels.get(o, {}), VERTEX)
        if not vertices:
            reason = "has no label that names a vertex"
            ledger.problem(f"operators[{o}].labels", name, reason, _REMEDY)
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
    ledger.check()
    return Sheet(tuple(groups), _labelled(instance.labels, JOB))


def check_parallelism(
    groups: list[Group], widths: Mapping[str, int], path: str, remedy: str
) -> None:
    """Refuse groups whose vertices have another parallelism (`widths`, by id) than is planned."""
    ledger = Ledger()
    for group in groups:
        width = max(widths[vertex] for vertex in group.vertices)
        if width != group.parallelism:
            reason = f"is its parallelism, the plan places {group.parallelism}"
            ledger.problem(path + group.operator, width, reason, remedy)
    ledger.check()


def _labelled(labels: Mapping[str, str], mark: str) -> dict[str, str]:
    """Return the labels that begin with a mark, without it."""
    return {name.removeprefix(mark): x for name, x in labels.items() if name.startswith(mark)}


def read_plan(name: str, instance: Instance | None) -> Sheet | Plan:
    """Read a sheet; or a plan, which becomes one with its instance.

    Raises `InvalidInput`: the file is neither, or the plan is for another instance.
    """
    with problems_in(name):
        value = parse_json(read_bytes(name, MAX_SOURCE))
        kind = value.get("format") if isinstance(value, dict) else None
        if kind == SHEET_FORMAT:
            return Sheet.from_dict(value)
        if not isinstance(kind, str) or not kind.startswith("streamplace.plan/"):
            remedy = "a file of `export flink`, or a plan"
            raise InvalidInput(Problem("format", kind, "is no plan", remedy))
        plan = Plan.from_dict(value)
        return plan if instance is None else sheet_of(instance, places_of_plan(instance, plan))


def write(
    instance: Instance, places: Places, options: Mapping[str, Any], ledger: Ledger
) -> dict[str, str]:
    """As `Exporter.write`: the sheet, the blocks of configuration, and the how-to."""
    sheet = sheet_of(instance, places)
    ledger.reading(
        "counts of subtasks by task manager are preserved; which index goes where is Flink's"
    )
    _warn_of_unequal(instance, ledger)
    blocks = []
    for manager in sheet.task_managers:
        settings = sheet.configuration(manager).items()
        lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in settings]
        blocks.append(f"# task manager {' '.join(manager.split())}\n" + "".join(lines))
    return {
        "": json.dumps(sheet.to_dict(), ensure_ascii=False, indent=1) + "\n",
        ".taskmanagers.yaml": "---\n".join(blocks),
        ".md": _how_to(sheet),
    }


def _warn_of_unequal(instance: Instance, ledger: Ledger) -> None:
    """Warn of operators whose tasks differ: a plan says which goes where, the sheet how many."""
    names = [
        name
        for o, name in enumerate(instance.operators.ids)
        if len(load := instance.tasks.load[instance.tasks_of(o)])
        and not np.allclose(load, load[0], rtol=1e-9, atol=0.0)
    ]
    if names:
        ledger.warn(
            f"tasks of {listed(names, _NAMED)} have unequal loads: the plan's figures "
            "hold if each runs where it is planned, and Flink knows only how many run where"
        )


def _how_to(sheet: Sheet) -> str:
    rows = []
    for group in sheet.groups:
        vertices = " + ".join(f"{name} (`{key}`)" for key, name in group.vertices.items())
        counts = ", ".join(f"{manager}: {n}" for manager, n in group.counts.items())
        rows.append((f"`{sheet.resource(group)}`", group.parallelism, vertices, counts))
    slots = sum(group.parallelism for group in sheet.groups)
    table = markdown(_HEADS, rows, right=()).rstrip()
    managers = len(sheet.task_managers)
    text = files("streamplace.clusters.flink").joinpath("how_to.md").read_text("utf-8")
    return text.format(key=sheet.key, slots=slots, managers=managers, table=table)


def rescale(instance: Instance, changed: Mapping[str, int], ledger: Ledger) -> dict[str, str]:
    """As `Exporter.rescale`: bodies for the REST interface, and the option for a restart.

    Both name every vertex of a job that changes: Flink refuses requirements that lack one, and
    overrides replace those of before.

    Raises `InvalidInput`: an operator names no vertex.
    """
    by_job: dict[str, dict[str, int]] = {}
    table = instance.operators
    jobs = {int(table.topology[table.index[name]]) for name in changed}
    for o, name in enumerate(table.ids):
        if (topology := int(table.topology[o])) not in jobs:
            continue
        n = changed.get(name, int(table.num_tasks[o]))
        vertex_ids = _labelled(table.labels.get(o, {}), VERTEX)
        if not vertex_ids:
            reason = "has no label that names a vertex"
            ledger.problem(f"operators[{o}].labels", name, reason, _REMEDY)
        if len(vertex_ids) > 1:
            ledger.reading(f"all {len(vertex_ids)} vertices of {name} get {n} subtasks")
        job = instance.topologies.ids[topology] if topology >= 0 else ""
        by_job.setdefault(job, {}).update(dict.fromkeys(vertex_ids, n))
    ledger.check()
    ids = _labelled(instance.labels, JOB)
    texts = {"": "{}\n"}
    head = "# for a restart; with the Kubernetes operator under spec.flinkConfiguration\n"
    blocks = []
    for number, (job, vertices) in enumerate(by_job.items()):
        body = {v: {"parallelism": {"lowerBound": 1, "upperBound": n}} for v, n in vertices.items()}
        identity = ids.get(job, ":jobid")
        texts["" if not number else f".{number + 1}.json"] = json.dumps(body, indent=1) + "\n"
        # FLIP-291: bounds of parallelism, which the adaptive scheduler follows without a restart
        put = f"PUT /jobs/{identity}/resource-requirements"
        ledger.reading(f"{job or 'job'}: {put} (adaptive scheduler) rescales it as it runs")
        overrides = ",".join(f"{v}:{n}" for v, n in vertices.items())
        blocks.append(f'# job {" ".join((job or identity).split())}\n{OVERRIDES}: "{overrides}"\n')
    # a document a job, as the key is the same
    return {**texts, ".yaml": head + "---\n".join(blocks)}


EXPORTER = Exporter(
    name="flink",
    summary="quotas of task managers and groups of vertices, for submit and verify",
    options=(),
    write=write,
    rescale=rescale,
    next_step="give each task manager its block of {1}, then "
    "`streamplace submit flink URL {0} --jar JOB.jar`; {2} says how",
)
