"""From Flink's tables to the document of an instance."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from experiments.interchange.importers.flink_slots import (
    is_sharing,
    slot_resources,
    slots_held,
    slots_taken,
)
from experiments.interchange.ledger import Ledger
from experiments.interchange.naming import UniqueNames
from experiments.interchange.weighing import weigh
from optim.format.document import INSTANCE_FORMAT

if TYPE_CHECKING:
    from experiments.interchange.importers.flink_reading import Job, Subtask, TaskManager, Vertex
    from experiments.interchange.importers.flink_slots import Placed

_MOST_SUBTASKS = 1_000_000
_MB = 1e6
_POINTWISE = {"FORWARD", "RESCALE"}


def build_document(
    managers: list[TaskManager], jobs: list[Job], others: list[Job], slots: str, ledger: Ledger
) -> dict[str, Any]:
    """Put task managers and jobs together.

    Parameters
    ----------
    others
        Running jobs that are not imported: their slots and CPU are taken off.
    slots
        ``auto``, ``sharing`` or ``single``.

    Raises
    ------
    InvalidInput
        Subtasks contradict the parallelism of their vertex.
    """
    hosts = _addresses(managers, ledger)
    names = _names(jobs)
    placed = _all_placed(jobs, hosts, ledger)
    ledger.check()
    elsewhere = _all_placed(others, hosts, Ledger())  # what is odd there is no concern of ours
    running = [job for job in jobs if job.running]
    sharing = is_sharing(managers, [*running, *others], {**placed, **elsewhere}, slots, ledger)
    resources, slot_of = slot_resources(names, jobs, sharing, ledger)
    own = slots_held(running, placed, sharing)
    taken = slots_taken(managers, own, slots_held(others, elsewhere, sharing), ledger)
    background = _cpu_elsewhere(elsewhere, ledger)
    operators: list[dict[str, Any]] = []
    tasks: list[dict[str, Any]] = []
    streams: list[dict[str, Any]] = []
    for job in jobs:
        for vertex in job.vertices.values():
            name = names[job.id, vertex.id]
            role = {} if vertex.inputs else {"role": "source"}
            operators.append({"id": name, "topology": _topology(job, jobs), **role})
            for subtask, node in placed[job.id, vertex.id]:
                load = {"cpu": subtask.busy or 0.0, slot_of[name]: 1.0}
                entry = {"id": f"{name}/{subtask.index}", "operator": name, "load": load}
                tasks.append(entry if node is None else {**entry, "node": node})
        streams += _streams(job, names, ledger)
    _tell(placed, ledger)
    nodes = [_node(m, resources, taken[m.id], background.get(m.id, 0.0)) for m in managers]
    weigh(nodes, resources[0], ledger)
    return {
        "format": INSTANCE_FORMAT,
        "name": ("flink " + " ".join(sorted(job.name for job in jobs)))[:200],
        "units": {"cpu": "cores", "rate": "MB/s"},
        "labels": {"system": "flink"},
        "resources": resources,
        "nodes": nodes,
        "topologies": [{"id": _topology(job, jobs)} for job in jobs],
        "operators": operators,
        "tasks": tasks,
        "streams": streams,
    }


def _topology(job: Job, jobs: list[Job]) -> str:
    alike = [other for other in jobs if other.name == job.name]
    return job.name if len(alike) == 1 else f"{job.name} ({job.id[:8]})"


def _names(jobs: list[Job]) -> dict[tuple[str, str], str]:
    """Give each vertex a name that can be read: its own, the job's before it if there are more."""
    unique = UniqueNames()
    return {
        (job.id, vertex.id): unique.take(
            (f"{_topology(job, jobs)}: " if len(jobs) > 1 else "") + (vertex.name or vertex.id),
            vertex.id[:8],
        )
        for job in jobs
        for vertex in job.vertices.values()
    }


def _addresses(managers: list[TaskManager], ledger: Ledger) -> dict[str, str]:
    """Return what a subtask may say of its place to the id of the task manager there."""
    seen: Counter[str] = Counter(a for m in managers for a in dict.fromkeys(m.addresses))
    found = {a: m.id for m in managers for a in m.addresses if seen[a] == 1}
    for manager in managers:
        if found.get(manager.id) == manager.id:
            ledger.problem("taskmanagers: id", manager.id, "stands twice")
        found[manager.id] = manager.id
    return found


def _placed(
    job: Job, vertex: Vertex, hosts: dict[str, str], ledger: Ledger
) -> list[tuple[Subtask, str | None]]:
    from experiments.interchange.importers.flink_reading import Subtask

    path = f"{job.path}: vertex {vertex.id}"
    if vertex.parallelism > _MOST_SUBTASKS:
        ledger.problem(f"{path}.parallelism", vertex.parallelism, f"is more than {_MOST_SUBTASKS}")
        return []
    beyond = [i for i in vertex.subtasks if i >= vertex.parallelism]
    if beyond:
        reason = f"is beyond the parallelism of {vertex.parallelism}"
        ledger.problem(f"{path}.subtasks", beyond[0], reason, "save all pages at one time")
    found = []
    unknown = 0
    for index in range(vertex.parallelism):
        subtask = vertex.subtasks.get(index) or Subtask(index, (None, None))
        node = next((hosts[a] for a in _clues(subtask) if a in hosts), None)
        unknown += node is None
        found.append((subtask, node))
    if unknown:
        ledger.warn(f"where {unknown} subtasks of {vertex.name or vertex.id} run is not known")
    return found


def _clues(subtask: Subtask) -> list[str]:
    """Return what a subtask says of its place, surest first: id, host and port, host."""
    manager, host = subtask.place
    said = [manager] if manager else []
    if host:
        said += [host, host.rsplit(":", 1)[0]]
    return said


def _all_placed(jobs: list[Job], hosts: dict[str, str], ledger: Ledger) -> Placed:
    return {
        (job.id, vertex.id): _placed(job, vertex, hosts, ledger)
        for job in jobs
        for vertex in job.vertices.values()
    }


def _cpu_elsewhere(placed: Placed, ledger: Ledger) -> dict[str, float]:
    """Return what subtasks that are not imported use, by task manager, in cores."""
    found: dict[str, float] = {}
    for subtask, node in (pair for pairs in placed.values() for pair in pairs):
        if node is not None and subtask.busy:
            found[node] = found.get(node, 0.0) + subtask.busy
            ledger.reading("CPU of running jobs that are not imported is background")
    return found


def _node(
    manager: TaskManager, resources: list[str], taken: int, background: float
) -> dict[str, Any]:
    room = float(max(0, manager.slots - taken))
    capacity: dict[str, float] = {r: room for r in resources[1:] if r != "slot others"}
    if manager.cores:
        capacity["cpu"] = manager.cores
    labels = {"taskHeapMemory": manager.memory} if manager.memory else {}
    entry = {"id": manager.id, "capacity": capacity, "labels": labels}
    return {**entry, "background": {"cpu": background}} if background else entry


def _streams(job: Job, names: dict[tuple[str, str], str], ledger: Ledger) -> list[dict[str, Any]]:
    """Give each edge of the plan its rate: what the receiver reads, shared by its senders."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for vertex in job.vertices.values():
        senders = list(dict.fromkeys(sender for sender, _ in vertex.inputs))
        written = {s: _total(job.vertices[s], "written") for s in senders}
        read = _total(vertex, "read")
        if len(senders) > 1:
            ledger.reading(
                "what a vertex of several inputs reads is shared by what its senders write"
            )
        for sender in senders:
            if sender == vertex.id:
                ledger.warn(f"{names[job.id, vertex.id]} reads itself: left out")
                continue
            rate = _rate(read, written, sender)
            strategies = {s for source, s in vertex.inputs if source == sender}
            pattern = _pattern(job.vertices[sender], vertex, strategies, ledger)
            entry = {"from": names[job.id, sender], "to": names[job.id, vertex.id]}
            entry_rate: dict[str, Any] = {"rate": rate / _MB}
            found[sender, vertex.id] = {**entry, **entry_rate, **pattern}
    return list(found.values())


def _rate(read: float | None, written: dict[str, float | None], sender: str) -> float:
    known = sum(value or 0.0 for value in written.values())
    own = written[sender]
    if read is None:
        return own or 0.0
    if len(written) == 1:
        return read
    return read * (own or 0.0) / known if known > 0 else read / len(written)


def _total(vertex: Vertex, what: str) -> float | None:
    values = [getattr(s, what) for s in vertex.subtasks.values()]
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _pattern(
    sender: Vertex, receiver: Vertex, strategies: set[str], ledger: Ledger
) -> dict[str, str]:
    if not strategies <= _POINTWISE:
        if strategies & {"GLOBAL", "CUSTOM"}:
            ledger.reading("custom partitioning is taken as an even spread over all pairs")
        return {}
    if sender.parallelism == receiver.parallelism:
        return {"pattern": "one_to_one"}
    return {"pattern": "rescale"}


def _tell(placed: dict[tuple[str, str], list[tuple[Subtask, str | None]]], ledger: Ledger) -> None:
    everyone = [subtask for pairs in placed.values() for subtask, _ in pairs]
    silent = sum(1 for subtask in everyone if subtask.busy is None)
    if silent:
        ledger.warn(f"no busy time for {silent} of {len(everyone)} subtasks: their CPU counts as 0")
    ledger.reading("a subtask's CPU is the share of time it is busy, in cores")
    ledger.reading("HASH, REBALANCE and the like are an even spread over all pairs of subtasks")
