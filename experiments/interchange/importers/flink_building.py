"""From Flink's tables to the document of an instance."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from experiments.interchange.importers.flink_edges import edges_of, traffic_of
from experiments.interchange.importers.flink_hosts import Hosts
from experiments.interchange.importers.flink_reading import RUNNING, Subtask
from experiments.interchange.importers.flink_slots import (
    is_sharing,
    slot_shares,
    slots_held,
    slots_taken,
)
from experiments.interchange.importers.flink_units import topology_of, units_of
from experiments.interchange.ledger import Ledger
from experiments.interchange.weighing import weigh
from optim.format.document import INSTANCE_FORMAT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from experiments.interchange.importers.flink_edges import Edge
    from experiments.interchange.importers.flink_reading import Job, TaskManager, Vertex
    from experiments.interchange.importers.flink_slots import Placed
    from experiments.interchange.importers.flink_units import Unit

_MOST_SUBTASKS = 1_000_000
_YOUNG = 60.0
"""Flink's own rates are means over so many seconds."""
_SKEWED = 2.0
"""Highest load of a subtask, by the mean of its vertex, from which on a warning is due."""


def build_document(
    managers: list[TaskManager],
    jobs: list[Job],
    others: list[Job],
    options: Mapping[str, Any],
    ledger: Ledger,
) -> dict[str, Any]:
    """Put task managers and jobs together.

    Parameters
    ----------
    others
        Running jobs that are not imported: their slots and CPU are taken off.
    options
        Of the importer.

    Raises
    ------
    InvalidInput
        Subtasks contradict the parallelism of their vertex or do not run, nothing flows, or what is
        said of hosts is of none.
    """
    addresses = _addresses(managers, ledger)
    placed = _all_placed(jobs, addresses, ledger)
    _check_running(jobs, ledger)
    ledger.check()
    elsewhere = _all_placed(others, addresses, Ledger())  # what is odd there is no concern of ours
    running = [job for job in jobs if job.running]
    place, slots = options["place"], options["slots"]
    sharing = is_sharing(managers, [*running, *others], {**placed, **elsewhere}, slots, ledger)
    units = units_of(jobs, place, sharing)
    own = slots_held(running, placed, sharing)
    taken = slots_taken(managers, own, slots_held(others, elsewhere, sharing), ledger)
    shares = {} if slots == "free" else slot_shares(units, place, sharing)
    edges = [edge for job in jobs for edge in edges_of(job, ledger)]
    _check_rates(edges, jobs, options["idle"], ledger)
    streams, traffic = traffic_of(edges, units, ledger)
    operators = [_operator(unit, jobs) for unit in units]
    tasks = [
        entry
        for unit in units
        for entry in _tasks(unit, placed, shares, options["loads"] == "measured", ledger)
    ]
    _tell(jobs, options["cpu"] == "busy", ledger)
    hosts = Hosts(managers, options, ledger)
    resources = ["cpu", "slot"] if shares else ["cpu"]
    room = _room(managers, taken, tasks) if shares else {}
    background = _cpu_elsewhere(elsewhere, ledger)
    standing = options["standing"]
    nodes = [
        _node(m, hosts, room.get(m.id), background.get(m.id, 0.0) + standing) for m in managers
    ]
    ledger.check()
    weigh(nodes, resources[0], ledger)
    return {
        "format": INSTANCE_FORMAT,
        "name": ("flink " + " ".join(sorted(job.name for job in jobs)))[:200],
        "units": {"cpu": "cores", "rate": "MB/s"},
        "labels": {"system": "flink", "place": place}
        | {f"job {topology_of(job, jobs)}": job.id for job in jobs},
        "resources": resources,
        "nodes": nodes,
        "links": hosts.links(),
        "topologies": [{"id": topology_of(job, jobs)} for job in jobs],
        "operators": operators,
        "tasks": tasks,
        "streams": streams,
        "traffic": traffic,
    }


def _operator(unit: Unit, jobs: list[Job]) -> dict[str, Any]:
    """Return the operator of a unit; its labels name the vertices by id."""
    reads = any(sender for vertex in unit.vertices for sender in vertex.inputs)
    role = {} if reads else {"role": "source"}
    labels = {f"vertex {vertex.id}": vertex.name for vertex in unit.vertices}
    return {"id": unit.name, "topology": topology_of(unit.job, jobs), "labels": labels, **role}


def _tasks(
    unit: Unit, placed: Placed, shares: dict[str, float], measured: bool, ledger: Ledger
) -> list[dict[str, Any]]:
    """Return the tasks of a unit, with load, share of a slot, and where its widest vertex runs."""
    where = placed[unit.job.id, unit.widest.id]
    apart = 0
    loads = [0.0] * unit.width
    for vertex in unit.vertices:
        pairs = placed[unit.job.id, vertex.id]
        busy = [subtask.busy or 0.0 for subtask, _ in pairs]
        if not measured:
            busy = [sum(busy) / unit.width] * unit.width
            _warn_of_skew(vertex, ledger)
        for i, load in enumerate(busy):
            loads[i] += load
        apart += sum(1 for pair, head in zip(pairs, where, strict=False) if pair[1] != head[1])
    if apart and unit.job.running:
        ledger.reading("of a chain that is on several task managers now, its first vertex counts")
    slot = {"slot": shares[unit.name]} if shares else {}
    return [
        {"id": f"{unit.name}/{i}", "operator": unit.name, "load": {"cpu": loads[i], **slot}}
        | ({} if node is None else {"node": node})
        for i, (_, node) in enumerate(where)
    ]


def _warn_of_skew(vertex: Vertex, ledger: Ledger) -> None:
    busy = [s.busy for s in vertex.subtasks.values() if s.busy is not None]
    mean = sum(busy) / len(busy) if busy else 0.0
    ledger.reading("subtasks of a vertex get its mean load: Flink decides which index goes where")
    if mean > 0.05 and max(busy) > _SKEWED * mean:
        ledger.warn(
            f"subtasks of {vertex.name or vertex.id} are busy {min(busy):.2f} to {max(busy):.2f}; "
            "a plan cannot say where the busy ones go (--option loads=measured keeps each as it is)"
        )


def _room(
    managers: list[TaskManager], taken: Counter[str], tasks: list[dict[str, Any]]
) -> dict[str, float]:
    """Return the slots of each task manager for a plan: at least what is there now."""
    now: dict[str, float] = {}
    for task in tasks:
        if "node" in task:
            now[task["node"]] = now.get(task["node"], 0.0) + task["load"]["slot"]
    return {m.id: max(float(m.slots - taken[m.id]), now.get(m.id, 0.0)) for m in managers}


def _check_running(jobs: list[Job], ledger: Ledger) -> None:
    for job in jobs:
        for vertex in job.vertices.values():
            for subtask in vertex.subtasks.values() if job.running else ():
                if subtask.state not in (None, RUNNING, "FINISHED"):
                    ledger.problem(
                        f"{job.path}: {vertex.name or vertex.id}/{subtask.index}",
                        subtask.state,
                        "is not running: the job starts, restarts or waits for slots",
                        f"wait until all run; /jobs/{job.id}/exceptions may say why they do not",
                    )
                    break


def _check_rates(edges: list[Edge], jobs: list[Job], idle: bool, ledger: Ledger) -> None:
    """Refuse a job through which nothing flows; warn of one that has only begun."""
    for job in jobs:
        rates = [edge.rate for edge in edges if edge.job == job.id]
        if rates and not any(rates) and not idle:
            ledger.problem(
                f"{job.path}: rates",
                0,
                "nothing flows: the job stands still, or was never asked for its metrics",
                "import again while it works, or --option idle=true takes it so",
            )
        ages = [s.seconds for v in job.vertices.values() for s in v.subtasks.values()]
        youngest = min((age for age in ages if age is not None), default=_YOUNG)
        if job.running and youngest < _YOUNG:
            ledger.warn(
                f"{job.name} has subtasks that run for {youngest:.0f} s: rates of the first "
                f"{_YOUNG:.0f} s may be those of its start"
            )


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
        if subtask.place[0] is not None and subtask.place[0] not in hosts:
            ledger.problem(
                f"{path}: subtask {index}",
                subtask.place[0],
                "is a task manager that is not listed: it left or came while pages were read",
                "import again",
            )
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
    manager: TaskManager, hosts: Hosts, room: float | None, background: float
) -> dict[str, Any]:
    cores = hosts.cores(manager)
    capacity = {**({"cpu": cores} if cores else {}), **({} if room is None else {"slot": room})}
    entry = {"id": manager.id, "capacity": capacity, **hosts.describe(manager)}
    return {**entry, "background": {"cpu": background}} if background else entry


def _tell(jobs: list[Job], busy: bool, ledger: Ledger) -> None:
    everyone = [s for job in jobs for v in job.vertices.values() for s in v.subtasks.values()]
    total = sum(vertex.parallelism for job in jobs for vertex in job.vertices.values())
    silent = total - sum(1 for subtask in everyone if subtask.busy is not None)
    if silent:
        ledger.warn(f"no busy time for {silent} of {total} subtasks: their CPU counts as 0")
    if busy:
        ledger.reading("a subtask's CPU is the share of time it is busy, in cores")
    ledger.reading("HASH, REBALANCE and the like are an even spread over all pairs of subtasks")
