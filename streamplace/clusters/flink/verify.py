"""Whether a cluster runs a plan: subtasks of each vertex by task manager, and what crosses."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pydantic import Field, computed_field
from pydantic.dataclasses import dataclass

from optim.errors import InvalidInput, Problem
from streamplace.clusters.exchange.declarations import Ledger
from streamplace.clusters.exchange.verdict import PRINTED, Verdict, share_lines
from streamplace.clusters.flink.exporter import Group, Sheet, check_parallelism
from streamplace.clusters.flink.model import edges_of, stays_inside
from streamplace.clusters.flink.pages import RUNNING
from streamplace.clusters.flink.units import Unit, topology_of, units_of
from streamplace.present.numbers import listed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim.format.plan import Plan
    from streamplace.clusters.flink.pages import Job, Subtask, TaskManager, Vertex

_SHOWN = 5
_FAR = "keys or loads are skewed, or it lags"


@dataclass(frozen=True, config=PRINTED)
class FlinkDifference:
    """Subtasks of a vertex on a task manager whose number is not as planned."""

    job: str = Field(description="name of the job")
    vertex: str = Field(description="title of the vertex")
    manager: str = Field(description="id of the task manager")
    planned: int = Field(description="number of subtasks planned there")
    running: int = Field(description="number of subtasks that run there")


@dataclass(frozen=True, config=PRINTED)
class FlinkVerdict(Verdict):
    """Whether Flink's jobs run as planned, of subtasks that have not ended."""

    ended: int = Field(description="subtasks that have ended")
    differences: tuple[FlinkDifference, ...] = Field(description="where numbers differ")
    predicted_share: float | None = Field(
        description="share of input from other task managers, by plan and rates"
    )
    measured_share: float | None = Field(
        description="the same as Flink counts it; null where nothing flows"
    )

    @computed_field(description="whether subtasks run, and all that do are as planned")  # type: ignore[prop-decorator]
    @property
    def holds(self) -> bool:
        """Whether subtasks run, and all that do are as planned."""
        return bool(self.planned) and not self.differences and self.as_planned == self.planned

    def lines(self) -> Iterator[str]:
        """As `Verdict.lines`."""
        ended = f"; {self.ended} ended" if self.ended else ""
        yield f"{self.as_planned} of {self.planned} subtasks as planned{ended}"
        for d in self.differences:
            yield f"  {d.vertex} on {d.manager}: {d.running}, planned {d.planned}"
        yield from share_lines(self.predicted_share, self.measured_share, _FAR)


def verify(sheet: Sheet, managers: list[TaskManager], jobs: list[Job]) -> FlinkVerdict:
    """Compare a plan with running jobs.

    Raises `InvalidInput`: the plan is of another job, or a vertex has another parallelism.
    """
    owners = _owners(sheet, jobs)
    manager_ids = {m.id for m in managers}
    planned = right = ended = 0
    differences: list[FlinkDifference] = []
    for group in sheet.groups:
        job = owners[group.job]
        for identity in group.vertices:
            vertex = job.vertices[identity]
            # what failed is to run again
            alive = [s for s in vertex.subtasks.values() if not s.ended or s.state == "FAILED"]
            num_ended = len(vertex.subtasks) - len(alive)
            counts = Counter(_place(subtask, manager_ids) for subtask in alive)
            planned, ended = planned + vertex.parallelism - num_ended, ended + num_ended
            right += sum((counts & Counter(group.counts)).values())
            differences += _compare(job, vertex, group, counts, num_ended)
    return FlinkVerdict(planned, right, ended, tuple(differences), *_shares(sheet, owners))


def _place(subtask: Subtask, managers: set[str]) -> str:
    """Return the task manager that runs a subtask, else why none does: nothing is lost in sums."""
    if subtask.state not in (None, RUNNING):
        return f"({subtask.state})"
    manager = subtask.place[0]
    return manager if manager is not None and manager in managers else "(none)"


def _compare(
    job: Job, vertex: Vertex, group: Group, counts: Counter[str], num_ended: int
) -> list[FlinkDifference]:
    """Report where numbers differ; of a narrower vertex, which slots it fills is Flink's choice."""
    # one of which subtasks have ended is as a narrower one
    narrow = vertex.parallelism - num_ended < group.parallelism
    return [
        FlinkDifference(job.name, vertex.title, manager, want, counts[manager])
        for manager in sorted(group.counts.keys() | counts.keys())
        if counts[manager] > (want := group.counts.get(manager, 0))
        or (counts[manager] < want and not narrow)
    ]


def _owners(sheet: Sheet, jobs: list[Job]) -> dict[str, Job]:
    """Find the running job of each job of the sheet: the one that has its vertices."""
    owners: dict[str, Job] = {}
    for name, groups in sheet.by_job.items():
        vertex_ids = {vertex for group in groups for vertex in group.vertices}
        fitting = [job for job in jobs if vertex_ids == job.vertices.keys()]
        # the same program twice: by the id of the import, else by name
        if len(fitting) > 1:
            same_id = [job for job in fitting if job.id == sheet.jobs.get(name)]
            fitting = same_id or [job for job in fitting if job.name == name] or fitting
        if len(fitting) != 1:
            raise InvalidInput(_no_owner(name, vertex_ids, jobs, len(fitting)))
        owners[name] = job = fitting[0]
        widths = {identity: vertex.parallelism for identity, vertex in job.vertices.items()}
        check_parallelism(groups, widths, f"job {job.name}: ", "import and solve again")
    return owners


def _no_owner(name: str, vertex_ids: set[str], jobs: list[Job], fitting: int) -> Problem:
    available = listed(sorted(f"{job.name} ({job.id[:8]})" for job in jobs), _SHOWN) or "none"
    if fitting:
        remedy = f"name one: --job ID of {available}"
        return Problem(f"job {name}", None, f"runs {fitting} times", remedy)
    near = min(jobs, key=lambda job: len(vertex_ids - job.vertices.keys()), default=None)
    lacking = (
        sorted(vertex_ids - near.vertices.keys())[:_SHOWN] if near else sorted(vertex_ids)[:_SHOWN]
    )
    reason = f"no running job has just the vertices of the plan (lacking {', '.join(lacking)})"
    if near and not lacking:
        reason = f"{near.name} has vertices that the plan does not place"
    remedy = f"running: {available}; a plan holds for the program it was imported from"
    return Problem(f"job {name}", None, reason, remedy)


def _shares(sheet: Sheet, owners: dict[str, Job]) -> tuple[float | None, float | None]:
    crossing = total = remote = local = 0.0
    for name, job in owners.items():
        of = {vertex: group for group in sheet.by_job[name] for vertex in group.vertices}
        # predicted: Σ rate × share of pairs apart / Σ rate; measured: remote / all bytes read
        for edge in edges_of(job, Ledger()):
            sender, receiver = of[edge.sender], of[edge.receiver]
            unit = Unit("", job, tuple(job.vertices[v] for v in sender.vertices))
            together = sender is receiver and stays_inside(edge, unit)
            total += edge.rate
            crossing += 0.0 if together else edge.rate * _apart(sender, receiver)
        for vertex in job.vertices.values():
            remote += vertex.total("remote") or 0.0
            local += vertex.total("local") or 0.0
    return (
        crossing / total if total > 0 else None,
        remote / (remote + local) if remote + local > 0 else None,
    )


def _apart(sender: Group, receiver: Group) -> float:
    """Return the share of pairs of slots that are on two task managers."""
    # Σ over task managers of senders · receivers there / all pairs
    near = sum(n * receiver.counts.get(manager, 0) for manager, n in sender.counts.items())
    return 1.0 - near / (sender.parallelism * receiver.parallelism)


def sheet_by_names(plan: Plan, jobs: list[Job]) -> Sheet:
    """Make the sheet of a plan whose instance is not known, by the names of running vertices."""
    counts: dict[str, Counter[str]] = {}
    for task, node in plan.assignment.items():
        counts.setdefault(task.rpartition("/")[0], Counter())[node] += 1
    for place in ("subtasks", "slots"):
        units = units_of(jobs, place, sharing=True)
        if {unit.name for unit in units} == counts.keys():
            break
    else:
        names = sorted({unit.name for unit in units} ^ counts.keys())[:_SHOWN]
        remedy = "give the exported sheet, or --instance INSTANCE, so that vertices are found by id"
        reason = f"names do not fit what runs: {', '.join(names)}"
        raise InvalidInput(Problem("assignment", None, reason, remedy))
    groups = [
        Group(
            operator=unit.name,
            job=topology_of(unit.job, jobs),
            vertices={vertex.id: vertex.name for vertex in unit.vertices},
            parallelism=sum(counts[unit.name].values()),
            counts=dict(sorted(counts[unit.name].items())),
        )
        for unit in units
    ]
    return Sheet(tuple(groups), {topology_of(job, jobs): job.id for job in jobs})
