"""Flink's REST documents, read into plain tables."""

from __future__ import annotations

import math
import re
from functools import cached_property
from statistics import fmean
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import AliasChoices, Field

from streamplace.clusters.exchange.pages import (
    Many,
    MaybeNumber,
    MaybeText,
    MaybeWhole,
    Name,
    Page,
    Reading,
    Text,
    Whole,
    as_number,
    completed,
    filled,
    is_whole,
    kind_by_field,
    read_pages,
    words,
)
from streamplace.present.numbers import listed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streamplace.clusters.exchange.declarations import Ledger
    from streamplace.clusters.exchange.sources import Document

UNUSED = words(
    """
    accumulated-busy-time accumulated-idle-time aggregated application-id assignedTasks attempt
    caching dataPort description duration end-time endpoint exchange freeMemory freeSlots
    hardware isStoppable jid jmxPort job-configuration job-type jobType last-modification
    lastHeartbeat local_strategy location managedMemory maxParallelism memoryConfiguration metrics
    name networkMemory now num operator operator_strategy optimizer_properties
    other-concurrent-attempts parallelism path pending-operators physicalMemory plan read-bytes
    read-bytes-complete read-records read-records-complete rescaleHistory schedulerType
    slotSharingGroupName start-time start_time state status status-counts status-duration
    stream-graph subtask subtasks taskHeapMemory taskmanagers taskOffHeapMemory tasks
    timeSinceLastHeartbeat timestamps totalProcessMemory type vertices write-bytes
    write-bytes-complete write-records write-records-complete
    """
)
RUNNING = "RUNNING"
ENDED = frozenset({"FINISHED", "CANCELED", "FAILED"})
"""States of subtasks, and of jobs, that use nothing any more; what they counted is the past."""
MOST_SUBTASKS = 1_000_000
_UNASSIGNED = "(unassigned)"
MEAN = 60.0
"""Flink's own rates are means over so many seconds."""
_PRESSED = 0.1
"""Share of time under back-pressure from which on Flink's own pages call it low, not none."""
_MEASURES = {
    "busyTimeMsPerSecond": ("busy", 1e-3, 1.0),
    "backPressuredTimeMsPerSecond": ("held", 1e-3, 1.0),
    "numBytesInPerSecond": ("read", 1.0, math.inf),
    "numBytesOutPerSecond": ("written", 1.0, math.inf),
    "Shuffle.Netty.Input.numBytesInRemotePerSecond": ("remote", 1.0, math.inf),
    "Shuffle.Netty.Input.numBytesInLocalPerSecond": ("local", 1.0, math.inf),
}
"""Metric to figure of a subtask, factor, and the most it can be."""


class _Page(Page):
    unused = UNUSED


class _Counters(_Page):
    read: MaybeNumber = Field(None, alias="read-bytes")
    write: MaybeNumber = Field(None, alias="write-bytes")
    busy: MaybeNumber = Field(None, alias="accumulated-busy-time")
    held: MaybeNumber = Field(None, alias="accumulated-backpressured-time")


class Subtask(_Page):
    """A subtask: where it runs, in which state, and what was read of it."""

    index: Whole = Field(validation_alias=AliasChoices("subtask"))
    state: MaybeText = Field(None, alias="status")
    duration: MaybeNumber = None
    end: MaybeNumber = Field(None, alias="end-time")
    manager: MaybeText = Field(None, alias="taskmanager-id")
    host: MaybeText = None
    endpoint: MaybeText = None
    metrics: _Counters | None = None
    #: Whether its job ended and is imported as it ran: then its figures count though it ended.
    past: bool = filled(False)
    node: str | None = filled()  # The id of its task manager, once that is found by its place.

    @cached_property
    def place(self) -> tuple[str | None, str | None]:
        """Task manager and host, as its page names them."""
        host = self.endpoint if self.host is None else self.host
        manager = None if self.manager == _UNASSIGNED else self.manager
        return manager, None if host == _UNASSIGNED else host

    @property
    def seconds(self) -> float | None:
        """How long it has run; ``None`` where not reported."""
        return None if self.duration is None else self.duration / 1000.0

    @cached_property
    def readings(self) -> dict[str, Reading]:
        """By name: bytes `read` and `written`, those read from other task managers (`remote`) and
        from its own (`local`), seconds it was `busy`, and `held` by back-pressure.
        """
        counted, life = self.metrics, self.seconds
        if counted is None:
            return {}
        return {
            "read": Reading(counted.read, life),
            "written": Reading(counted.write, life),
            "busy": _time_of(counted.busy, life),
            "held": _time_of(counted.held, life),
        }

    @property
    def ended(self) -> bool:
        """Whether it uses no CPU and no slot any more."""
        return self.state in ENDED and not self.past

    def rate(self, name: str) -> float | None:
        """Return a figure a second: 0 once the subtask has ended, ``None`` where unknown."""
        if self.ended:
            return 0.0
        reading = self.readings.get(name)
        return None if reading is None else reading.rate

    @property
    def busy(self) -> float | None:
        """Seconds a second for which it computes or waits for a processor."""
        return self.rate("busy")


def _time_of(milliseconds: float | None, seconds: float | None) -> Reading:
    """Return the reading of time spent in some way, which is at most the time that passed."""
    if milliseconds is None or seconds is None:
        return Reading(None, seconds)
    return Reading(min(milliseconds / 1000.0, seconds), seconds)


class Vertex(_Page):
    """A vertex of a job's page; `inputs` are (vertex id, ship strategy), `most` key groups."""

    id: Text
    name: Name = ""
    parallelism: Whole
    most: MaybeWhole = Field(None, alias="maxParallelism")
    status: MaybeText = None
    sharing: MaybeText = Field(None, alias="slotSharingGroupId")
    tasks: dict[str, MaybeWhole] | None = None
    inputs: list[tuple[str, str]] = filled(list)
    subtasks: dict[int, Subtask] = filled(dict)

    @property
    def states(self) -> set[str]:
        """The states of its subtasks, as far as the job's page counts them."""
        return {state for state, number in (self.tasks or {}).items() if number}

    @cached_property
    def state(self) -> str | None:
        """The state of subtasks that report none, where all have ended."""
        # of all subtasks one state is reported: then each has it
        only = next(iter(self.states)) if len(self.states) == 1 else None
        return state if (state := self.status or only) in ENDED else None

    @property
    def title(self) -> str:
        """Its name, or its id where it has none."""
        return self.name or self.id

    def subtask(self, index: int) -> Subtask:
        """Return a subtask, reported or not."""
        return self.subtasks.get(index) or Subtask.model_construct(index=index, state=self.state)

    def everyone(self) -> list[Subtask]:
        """Return all its subtasks."""
        return [self.subtask(index) for index in range(min(self.parallelism, MOST_SUBTASKS))]

    @property
    def running(self) -> int:
        """Number of its subtasks that have not ended."""
        return sum(1 for subtask in self.everyone() if not subtask.ended)

    def rates(self, name: str) -> list[float | None]:
        """Return a figure a second of each subtask that has not ended, ``None`` where unknown."""
        return [subtask.rate(name) for subtask in self.everyone() if not subtask.ended]

    @property
    def pressure(self) -> float | None:
        """The share of time its running subtasks are held by back-pressure."""
        shares = [share for share in self.rates("held") if share is not None]
        return fmean(shares) if shares else None

    def total(self, name: str) -> float | None:
        """Return a figure a second of all subtasks; unknown ones count as the mean of the others.

        ``None`` where it is known of none that runs.
        """
        rates = self.rates(name)
        values = completed(rates)
        # no subtask runs any more: 0, not unknown
        return (None if rates else 0.0) if values is None else sum(values)


class _Input(_Page):
    id: Text
    ship_strategy: MaybeText = None


class _Node(_Page):
    id: Text
    description: MaybeText = None
    inputs: Many[_Input] = ()


class _Plan(_Page):
    jid: MaybeText = None
    nodes: list[_Node]


class PlanPage(_Page):
    """``/jobs/:id/plan``."""

    plan: _Plan


class Listed(_Page):
    """A job of ``/jobs/overview``."""

    id: Text = Field(validation_alias=AliasChoices("jid", "id"))
    reported_name: Name = Field("", alias="name")
    state: MaybeText = Field(None, validation_alias=AliasChoices("state", "status"))
    scheduler: MaybeText = Field(None, alias="schedulerType")

    @property
    def name(self) -> str:
        """Its name, or its id where it has none."""
        return self.reported_name or self.id

    @property
    def running(self) -> bool:
        """Whether it runs; so it is taken where no state is reported."""
        return self.state in (None, RUNNING)


class Overview(_Page):
    """``/jobs/overview``."""

    jobs: list[Listed]


class Job(Listed):
    """``/jobs/:id``, and its vertices by id; one that does not run holds no slots.

    `path` is how it is named in problems, `planned` whether its plan was read.
    """

    entries: list[Vertex] = Field(validation_alias=AliasChoices("vertices"))
    plan: _Plan | None = None
    path: str = filled("")
    vertices: dict[str, Vertex] = filled(dict)
    planned: bool = filled(False)

    def everyone(self) -> list[Subtask]:
        """Return all subtasks of its vertices."""
        return [subtask for vertex in self.vertices.values() for subtask in vertex.everyone()]

    @property
    def pressed(self) -> dict[str, float]:
        """The share of time that vertices are held by back-pressure, by title, where it shows."""
        shares = {vertex.title: vertex.pressure or 0.0 for vertex in self.vertices.values()}
        return {title: share for title, share in shares.items() if share > _PRESSED}

    @property
    def all_run(self) -> bool:
        """Whether all of its subtasks run or have finished, by the job's page."""
        states = {state for vertex in self.entries for state in vertex.states}
        return self.state == RUNNING and bool(states) and states <= {RUNNING, "FINISHED"}


class VertexPage(_Page):
    """``/jobs/:id/vertices/:v``: hosts and counters of the subtasks."""

    id: Text
    parallelism: MaybeWhole = None
    most: MaybeWhole = Field(None, alias="maxParallelism")
    now: MaybeNumber = None
    subtasks: list[Subtask]


class Metric(_Page):
    """A metric of a vertex (id ``3.busyTimeMsPerSecond``) or of one of its subtasks.

    `seconds` is what a rate was computed over; ``None`` for Flink's own means.
    """

    id: Text
    value: MaybeNumber = None
    seconds: MaybeNumber = None


class _Resource(_Page):
    cpuCores: MaybeNumber = None
    taskHeapMemory: Any = None
    extendedResources: Any = None

    def amount(self, name: str) -> float:
        """Return how much there is of an external resource."""
        resources = self.extendedResources
        return as_number(resources.get(name)) or 0.0 if isinstance(resources, dict) else 0.0


class TaskManager(_Page):
    """A task manager: slots and cores."""

    id: Text
    slots: Whole = Field(alias="slotsNumber")
    free: MaybeWhole = Field(None, alias="freeSlots")
    path: MaybeText = None
    dataPort: MaybeWhole = None
    totalResource: _Resource | None = None
    freeResource: _Resource | None = None
    hardware: _Resource | None = None
    cpuCores: MaybeNumber = None
    blocked: Any = False
    reached: float | None = filled()  # Cores that its process gets, where that is less than it has.

    @property
    def configured(self) -> float | None:
        """CPU cores it is configured for; ``None`` where not reported, as before Flink 1.12."""
        return (self.totalResource.cpuCores if self.totalResource else None) or None

    @property
    def machine(self) -> float | None:
        """CPU cores of its machine, which other task managers may share (1.4: beside its id)."""
        return (self.hardware.cpuCores if self.hardware else None) or self.cpuCores or None

    @property
    def host(self) -> str:
        """The host it is on, or its own id where that is not reported."""
        addresses = self.addresses
        return addresses[1] if addresses else self.id

    @property
    def addresses(self) -> tuple[str, ...]:
        """Host and port, and the host, out of a path such as ``akka.tcp://flink@tm-1:6122/…``."""
        # an IPv6 address stands in brackets; port and path follow
        match = re.search(r"@(\[[^\]/\s]{1,255}\]|[^:/@\s\[]{1,255})(?=[:/])", self.path or "")
        return (f"{match[1]}:{self.dataPort}", match[1]) if match else ()

    @property
    def memory(self) -> str:
        """Heap for tasks, as reported; empty where it is not."""
        heap = self.totalResource.taskHeapMemory if self.totalResource else None
        return "" if as_number(heap) is None else str(heap)


class TaskManagers(_Page):
    """``/taskmanagers``."""

    taskmanagers: list[TaskManager]


J = TypeVar("J", bound=Listed)


def wanted_of(jobs: Iterable[J], wanted: str, ledger: Ledger) -> list[J]:
    """Return the jobs that are to be imported: those that run, or those of a name or id.

    Of one name are also former runs of a job: those that run count, and else one alone.
    """
    matching = [job for job in jobs if wanted in ("", job.id, job.name)]
    running = [job for job in matching if job.running]
    past = [job for job in matching if not job.running]
    if not wanted:
        return running
    if len(running) > 1:
        ids = listed([job.id for job in running], 5)
        ledger.warn(f"{len(running)} jobs of the name {wanted} run: all are imported: {ids}")
    if running and past and wanted not in {job.id for job in past}:
        ids = listed([f"{job.id} ({job.state})" for job in past], 5)
        ledger.warn(f"{wanted} ran before: {ids}: left out (--option job=ID takes that)")
        return running
    if len(past) > 1:
        ids = listed([f"{job.id} ({job.state})" for job in past], 5)
        remedy = f"--option job=ID of one: {ids}"
        ledger.problem(
            "--option job", wanted, f"is the name of {len(past)} jobs that ended", remedy
        )
    return matching


# -- from pages to tables --------------------------------------------------------------------------


def take_job(job: Job, path: str, ledger: Ledger) -> None:
    """Take up the vertices and the plan of a job, of a page named `path`."""
    job.path = path
    for i, vertex in enumerate(job.entries):
        if vertex.id in job.vertices:
            ledger.problem(f"{path}.vertices[{i}].id", vertex.id, "stands twice")
        job.vertices[vertex.id] = vertex
    if job.plan is not None:
        take_plan(job.plan, f"{path}.plan", job, ledger)


def take_plan(plan: _Plan, path: str, job: Job, ledger: Ledger) -> None:
    """Give the vertices of a job their inputs."""
    for i, entry in enumerate(plan.nodes):
        where = f"{path}.nodes[{i}]"
        vertex = job.vertices.get(entry.id)
        if vertex is None:
            ledger.problem(f"{where}.id", entry.id, f"is no vertex of {job.name}")
            continue
        vertex.name = vertex.name or entry.description or ""
        vertex.inputs = [(s.id, (s.ship_strategy or "").upper()) for s in entry.inputs]
        for k, (sender, _) in enumerate(vertex.inputs):
            if sender not in job.vertices:
                ledger.problem(f"{where}.inputs[{k}].id", sender, f"is no vertex of {job.name}")
    planned = {entry.id for entry in plan.nodes}
    if absent := [vertex.title for vertex in job.vertices.values() if vertex.id not in planned]:
        ledger.warn(
            f"the plan of {job.name} has no {listed(absent, 5)}: their inputs are unknown, and "
            "what they read is not counted; read all pages at one time"
        )
    job.planned = True


def take_vertex(page: VertexPage, path: str, vertex: Vertex, ledger: Ledger) -> None:
    """Give a vertex its subtasks; a page of before or after a rescale is a problem."""
    if page.parallelism not in (None, vertex.parallelism):
        reason = f"is {vertex.parallelism} by the job's page: the job was rescaled between both"
        ledger.problem(f"{path}.parallelism", page.parallelism, reason, "read all at one time")
    vertex.most = vertex.most or page.most
    for i, subtask in enumerate(page.subtasks):
        if subtask.index in vertex.subtasks:
            ledger.problem(f"{path}.subtasks[{i}].subtask", subtask.index, "stands twice")
        vertex.subtasks[subtask.index] = subtask
        subtask.state = subtask.state or vertex.state


def take_metrics(metrics: Iterable[Metric], vertex: Vertex, index: int | None = None) -> None:
    """Give the subtasks of a vertex their metrics; those without an index are of one of them.

    They replace counters of the subtask's whole life, but where the subtask is younger than what
    they are means of: these count the time before its start as time in which it did nothing.
    """
    for entry in metrics:
        head, _, tail = entry.id.partition(".")
        at, metric = (int(head), tail) if is_whole(head) else (index, entry.id)
        is_subtask = at is not None and (at in vertex.subtasks or at < vertex.parallelism)
        if at is None or not is_subtask or entry.value is None or metric not in _MEASURES:
            continue
        subtask = vertex.subtasks.setdefault(at, vertex.subtask(at))
        name, scale, most = _MEASURES[metric]
        span = entry.seconds or MEAN
        counted = subtask.readings.get(name)
        # a mean over longer than the subtask's life counts idle time before it
        if counted is None or counted.rate is None or span <= (subtask.seconds or span):
            subtask.readings[name] = Reading.mean(min(most, entry.value * scale), span)


# -- files of a user's folder ----------------------------------------------------------------------


def kind_of(document: Document, ledger: Ledger) -> Any:
    """Recognise a file by what it holds; ``None``, noted, for what is no page that is read."""
    value = document.value
    if isinstance(value, list):
        return list[Metric]
    if isinstance(value, dict) and "taskmanagers" in value and not {"subtasks", "name"} & {*value}:
        return TaskManagers
    marks = {"vertices": Job, "subtasks": VertexPage, "plan": PlanPage, "jobs": Overview}
    kind = kind_by_field(document, marks, "expected a REST document", ledger)
    if kind is None and isinstance(value, dict):
        ledger.warn(f"{_short(document.name)} is no document that is known, and is left out")
    return kind


def read_files(documents: list[Document], ledger: Ledger) -> tuple[list[TaskManager], list[Job]]:
    """Read saved pages, recognised once by what they hold, into task managers and jobs."""
    whole = (VertexPage, Overview)
    pages = read_pages(
        documents, kind_of, ledger, lambda kind, name: name if kind in whole else _short(name)
    )
    ledger.check()  # what a page that cannot be read lacks is no problem of the others
    managers = [m for _, page in pages.get(TaskManagers, ()) for m in page.taskmanagers]
    schedulers = {e.id: e.scheduler for _, page in pages.get(Overview, ()) for e in page.jobs}
    jobs: list[Job] = []
    for name, job in pages.get(Job, ()):
        take_job(job, _short(name), ledger)
        job.scheduler = job.scheduler or schedulers.get(job.id)
        jobs.append(job)
    ledger.check()
    for i, job in enumerate(jobs):
        if any(job.id == other.id for other in jobs[:i]):
            ledger.problem(f"{job.path}.jid", job.id, "stands in two documents", "keep one")
    for name, page in pages.get(PlanPage, ()):
        path, owners = f"{_short(name)}.plan", [j for j in jobs if page.plan.jid in (j.id, None)]
        if len(owners) == 1:
            take_plan(page.plan, path, owners[0], ledger)
        else:
            remedy = "save /jobs/ID of that job too"
            ledger.problem(f"{path}.jid", page.plan.jid, "is the id of no job page", remedy)
    for name, page in pages.get(VertexPage, ()):
        _place_vertex(page, name, jobs, ledger)
    for name, page in pages.get(list[Metric], ()):
        _place_metrics(page, name, jobs, ledger)
    return managers, jobs


def _short(name: str) -> str:
    return name.rsplit("/", 1)[-1]


def _place_vertex(page: VertexPage, path: str, jobs: list[Job], ledger: Ledger) -> None:
    """Give a vertex of a job its page, which does not name the job."""
    # two runs of a program share the ids of vertices: then the file's path says which is meant
    owners = [job for job in jobs if page.id in job.vertices]
    if len(owners) > 1:
        owners = [job for job in owners if job.id in path] or owners
    if len(owners) == 1:
        take_vertex(page, path, owners[0].vertices[page.id], ledger)
    else:
        several = "is a vertex of several jobs; keep the job's id in the file's path"
        reason = several if owners else "is a vertex of no job page"
        ledger.problem(f"{path}.id", page.id, reason, "save /jobs/ID too")


def _place_metrics(metrics: list[Metric], path: str, jobs: list[Job], ledger: Ledger) -> None:
    """Give metrics to the vertex, or subtask, that the document's path names."""
    fitting = [(job, v) for job in jobs for v in job.vertices.values() if v.id in path]
    if len(fitting) > 1:
        fitting = [pair for pair in fitting if pair[0].id in path]
    if len(fitting) != 1:
        ledger.warn(f"{_short(path)} holds metrics, but its path names no single vertex: left out")
        return
    # /vertices/V/subtasks/3/metrics, or a file that is named after it
    index = re.search(r"subtasks?[/_.-](\d{1,9})", path)
    take_metrics(metrics, fitting[0][1], int(index[1]) if index else None)
