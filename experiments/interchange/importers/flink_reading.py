"""Flink's REST documents, read into plain tables."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from experiments.interchange.record import Record, as_number, is_whole, words

if TYPE_CHECKING:
    from experiments.interchange.ledger import Ledger

UNUSED = words(
    """
    accumulated-backpressured-time accumulated-idle-time aggregated application-id attempt
    assignedTasks blocked caching duration end-time endpoint exchange extendedResources freeMemory
    freeResource hardware isStoppable jmxPort job-configuration job-type jid lastHeartbeat
    local_strategy managedMemory maxParallelism memoryConfiguration metrics name networkMemory now
    num operator operator_strategy optimizer_properties other-concurrent-attempts parallelism path
    pending-operators physicalMemory plan read-bytes read-bytes-complete read-records-complete
    rescaleHistory schedulerType slotSharingGroupName start-time start_time state status
    status-counts status-duration stream-graph subtask subtasks taskHeapMemory taskOffHeapMemory
    tasks timeSinceLastHeartbeat timestamps type vertices write-bytes write-bytes-complete
    write-records-complete accumulated-busy-time read-records write-records location
    totalProcessMemory taskmanagers freeSlots dataPort description
    """
)
RUNNING = "RUNNING"
METRICS = ("busyTimeMsPerSecond", "numBytesInPerSecond", "numBytesOutPerSecond")


@dataclass
class TaskManager:
    """A task manager: slots and cores."""

    id: str
    slots: int
    free: int | None
    cores: float | None
    addresses: tuple[str, ...]
    memory: str = ""


@dataclass
class Subtask:
    """A subtask: where it runs, bytes/s read and written, and the share of time it is busy."""

    index: int
    place: tuple[str | None, str | None]
    read: float | None = None
    written: float | None = None
    busy: float | None = None


@dataclass
class Vertex:
    """A job vertex; `inputs` are (vertex id, ship strategy)."""

    id: str
    name: str
    parallelism: int
    sharing: str | None = None
    inputs: list[tuple[str, str]] = field(default_factory=list)
    subtasks: dict[int, Subtask] = field(default_factory=dict)


@dataclass
class Job:
    """A job and its vertices by id; one that does not run holds no slots."""

    id: str
    name: str
    path: str
    running: bool = True
    vertices: dict[str, Vertex] = field(default_factory=dict)
    planned: bool = False


def read_task_managers(value: Any, path: str, ledger: Ledger) -> list[TaskManager]:
    """Read ``/taskmanagers``."""
    page = Record(value, path, ledger, UNUSED)
    found = []
    for entry in page.records("taskmanagers", needed=True):
        identity = entry.text("id")
        total, hardware = entry.record("totalResource"), entry.record("hardware")
        cores = total.maybe_number("cpuCores") if total is not None else None
        heap = total.raw("taskHeapMemory") if total is not None else None
        if not cores and hardware is not None:
            cores = hardware.maybe_number("cpuCores")
        for inner in (total, hardware):
            if inner is not None:
                _ = inner.raw("cpuCores")
                inner.close()
        host, port = _host(entry.maybe_text("path") or ""), entry.maybe_whole("dataPort")
        found.append(
            TaskManager(
                id=identity,
                slots=entry.whole("slotsNumber"),
                free=entry.maybe_whole("freeSlots"),
                cores=cores,
                addresses=(f"{host}:{port}", host) if host else (),
                memory="" if as_number(heap) is None else str(heap),
            )
        )
    page.close()
    return found


def _host(path: str) -> str:
    """Return the host of an actor's path such as ``akka.tcp://flink@tm-1:6122/user/…``."""
    found = re.search(r"@([^:/@\s]{1,255})(?=[:/])", path)
    return found[1] if found else ""


def read_job(value: Any, path: str, ledger: Ledger) -> Job:
    """Read ``/jobs/:id``; its plan, where it holds one, too."""
    page = Record(value, path, ledger, UNUSED)
    identity = page.text("jid", "id")
    running = page.maybe_text("state") in (None, RUNNING)
    job = Job(identity, page.maybe_text("name") or identity, path, running)
    for entry in page.records("vertices", needed=True):
        vertex = Vertex(
            id=entry.text("id"),
            name=entry.maybe_text("name") or "",
            parallelism=entry.whole("parallelism"),
            sharing=entry.maybe_text("slotSharingGroupId"),
        )
        if vertex.id in job.vertices:
            ledger.problem(entry.where("id"), vertex.id, "stands twice")
        job.vertices[vertex.id] = vertex
    plan = page.record("plan")
    if plan is not None:
        _read_nodes(plan, job, ledger)
        plan.close()
    page.close()
    return job


def read_plan(value: Any, path: str, ledger: Ledger, jobs: list[Job]) -> None:
    """Read ``/jobs/:id/plan`` into its job."""
    page = Record(value, path, ledger, UNUSED)
    plan = page.record("plan")
    if plan is None:
        ledger.problem(page.where("plan"), None, "is missing", "an object with nodes is needed")
        return
    identity = plan.maybe_text("jid")
    owners = [j for j in jobs if identity in (j.id, None)]
    if len(owners) != 1:
        remedy = "save /jobs/ID of that job too"
        ledger.problem(plan.where("jid"), identity, "is the id of no job page", remedy)
        return
    _read_nodes(plan, owners[0], ledger)
    plan.close()
    page.close()


def _read_nodes(plan: Record, job: Job, ledger: Ledger) -> None:
    for entry in plan.records("nodes", needed=True):
        identity = entry.text("id")
        vertex = job.vertices.get(identity)
        if vertex is None:
            ledger.problem(entry.where("id"), identity, f"is no vertex of {job.name}")
            continue
        vertex.name = vertex.name or entry.maybe_text("description") or ""
        vertex.inputs = []
        for source in entry.records("inputs"):
            sender = source.text("id")
            if sender not in job.vertices:
                ledger.problem(source.where("id"), sender, f"is no vertex of {job.name}")
            strategy = source.maybe_text("ship_strategy") or ""
            vertex.inputs.append((sender, strategy.upper()))
    job.planned = True


def read_vertex(value: Any, path: str, ledger: Ledger, jobs: list[Job]) -> None:
    """Read ``/jobs/:id/vertices/:v``: hosts and counters of the subtasks."""
    page = Record(value, path, ledger, UNUSED)
    identity = page.text("id")
    # The page names no job. Vertex ids come from the shape of the graph, so that two runs of the
    # same program share them: then the file's path has to tell which job is meant.
    owners = [j for j in jobs if identity in j.vertices]
    if len(owners) > 1:
        owners = [j for j in owners if j.id in path] or owners
    if len(owners) != 1:
        several = "is a vertex of several jobs; keep the job's id in the file's path"
        reason = several if owners else "is a vertex of no job page"
        ledger.problem(page.where("id"), identity, reason, "save /jobs/ID too")
        return
    vertex = owners[0].vertices[identity]
    for entry in page.records("subtasks", needed=True):
        subtask = _subtask(entry)
        if subtask.index in vertex.subtasks:
            ledger.problem(entry.where("subtask"), subtask.index, "stands twice")
        vertex.subtasks[subtask.index] = subtask
    page.close()


def _subtask(entry: Record) -> Subtask:
    milliseconds = entry.maybe_number("duration") or 0.0
    subtask = Subtask(
        index=entry.whole("subtask"),
        place=(entry.maybe_text("taskmanager-id"), entry.maybe_text("host", "endpoint")),
    )
    counters = entry.record("metrics")
    if counters is not None:
        if milliseconds > 0:
            seconds = milliseconds / 1000.0
            read, written = (counters.maybe_number(f"{k}-bytes") for k in ("read", "write"))
            busy = counters.maybe_number("accumulated-busy-time")
            subtask.read = None if read is None else read / seconds
            subtask.written = None if written is None else written / seconds
            subtask.busy = None if busy is None else min(1.0, busy / milliseconds)
        counters.close()
    return subtask


def read_metrics(value: Any, path: str, ledger: Ledger, vertex: Vertex, index: int | None) -> None:
    """Read metrics of a vertex (ids ``3.busyTimeMsPerSecond``) or of one of its subtasks."""
    for i, item in enumerate(value if isinstance(value, list) else []):
        entry = Record(item, f"{path}[{i}]", ledger, UNUSED)
        name = entry.text("id")
        number = entry.maybe_number("value")
        entry.close()
        head, _, tail = name.partition(".")
        at, metric = (int(head), tail) if is_whole(head) else (index, name)
        subtask = None if at is None else vertex.subtasks.get(at)
        if subtask is None or number is None:
            continue
        if metric == "busyTimeMsPerSecond":
            subtask.busy = min(1.0, number / 1000.0)
        elif metric == "numBytesInPerSecond":
            subtask.read = number
        elif metric == "numBytesOutPerSecond":
            subtask.written = number
