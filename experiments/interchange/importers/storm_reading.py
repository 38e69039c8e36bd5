"""Storm's UI REST documents, read into plain tables.

Facts: latencies and ``capacity`` are texts, counts are numbers; ``usedCpu`` is also spelt
``usedCPU``; the keys of the visualization start with a colon and only it tells groupings.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from experiments.interchange.record import Record, words

if TYPE_CHECKING:
    from experiments.interchange.ledger import Ledger

UNUSED = words(
    """
    acked ackedLatency activeControllers assignedCpu assignedMemOffHeap assignedMemOnHeap
    assignedTotalMem blacklisted bolts boltStats bytesRead completeLatency componentErrors
    componentNumTasks configuration debug debug-exception-count emitted encodedBoltId
    encodedComponentId encodedExecutorId encodedId encodedSpoutId encodedTopologyId error
    errorHost errorLapsedSecs errorPort errorTime errorWorkerLogLink eventLogLink
    executed executorsTotal executeLatency failed fragmentedCpu fragmentedMem generic-resources
    genericResources host id isDebugEnabled lastError logLink
    loggersTotal memory msgTimeout name nimbuses outputStats owner port processLatency
    profileActionEnabled profilerActive profilingAndDebuggingCapable rebalanceOptions
    replicationCount requestedCpu requestedGenericResources requestedGenericResourcesComp
    requestedMemOffHeap requestedMemOnHeap requestedTotalMem samplingPct schedulerDisplayResource
    schedulerInfo schedulerResources
    slotsFree slotsUsed spoutSummary spouts stats status statsTranslated stormVersion supervisorId
    supervisors taskCount tasks tasksTotal topologyId topologyName topologyPage topologyStats
    topologyStatus topologyVersion totalMem transferred
    uiActionsEnabled uptime uptimeSeconds usedGenericResources usedMem user
    version visualizationTable assignedGenericResources
    assignedRegularOffHeapMemLimit assignedSharedOffHeapMemory
    assignedSharedOnHeapMemory availCpu availMem
    availGenericResources usedMemory totalGenericResources supervisorTimeoutSecs weburl
    window windowHint windowPretty workerLogLink workers workersTotal :capacity :link :latency
    :uptime_secs :sani-stream :bolt :stats :transferred
    """
)

ACTIVE = "ACTIVE"


@dataclass
class Supervisor:
    """A machine: its slots and what it offers; several supervisors of one host are one."""

    slots: int = 0
    slots_used: int = 0
    cpu: float | None = None
    memory: float | None = None
    used_cpu: float = 0.0


@dataclass
class Executor:
    """An executor: where it runs and what it did within the window."""

    name: str
    host: str | None = None
    port: int | None = None
    done: float | None = None
    sent: float | None = None
    busy: float | None = None


@dataclass
class Component:
    """A spout or bolt; `inputs` is (sender, stream) to tuples executed within the window."""

    name: str
    kind: str
    count: int = 0
    sent: float | None = None
    busy: float | None = None
    cpu_request: float | None = None
    memory: float = 0.0
    executors: list[Executor] = field(default_factory=list)
    inputs: dict[tuple[str, str], float] = field(default_factory=dict)


@dataclass
class Topology:
    """A topology and, where the visualization is there, the grouping of each subscription.

    `status` is ``ACTIVE`` where it is not told; `ports` are those that its workers name.
    """

    id: str
    name: str
    workers: int | None
    seconds: float | None
    path: str
    status: str = ACTIVE
    components: dict[str, Component] = field(default_factory=dict)
    groupings: dict[tuple[str, str, str], str] = field(default_factory=dict)
    assigned_cpu: dict[str, float] = field(default_factory=dict)
    ports: dict[str, set[int]] = field(default_factory=dict)


def read_supervisors(value: Any, path: str, ledger: Ledger) -> dict[str, Supervisor]:
    """Read ``/supervisor/summary``: host to what it offers."""
    found: dict[str, Supervisor] = {}
    page = Record(value, path, ledger, UNUSED)
    for entry in page.records("supervisors", needed=True):
        host = entry.text("host")
        if host in found:
            ledger.reading(f"supervisors on the same host ({host}) are one node")
        at = found.setdefault(host, Supervisor())
        at.slots += entry.whole("slotsTotal")
        at.slots_used += entry.maybe_whole("slotsUsed") or 0
        at.used_cpu += entry.maybe_number("usedCpu", "usedCPU") or 0.0
        cpu = entry.maybe_number("totalCpu", "totalCPU")
        memory = entry.maybe_number("totalMem", "totalMemory")
        at.cpu = None if cpu is None else cpu + (at.cpu or 0.0)
        at.memory = None if memory is None else memory + (at.memory or 0.0)
    page.close()
    return found


def read_topology(value: Any, path: str, ledger: Ledger) -> Topology:
    """Read ``/topology/:id``: components, executors' number, workers, window."""
    page = Record(value, path, ledger, UNUSED)
    identity = page.text("id")
    topology = Topology(
        id=identity,
        name=page.maybe_text("name") or identity,
        workers=page.maybe_whole("workersTotal"),
        seconds=window_seconds(page.raw("window"), page.maybe_number("uptimeSeconds")),
        path=path,
        status=page.maybe_text("status") or ACTIVE,
    )
    for kind, names in (("spout", ("spoutId", "id")), ("bolt", ("boltId", "id"))):
        for entry in page.records(f"{kind}s", needed=True):
            part = _component(entry, entry.text(*names), kind)
            if part.name in topology.components:
                ledger.problem(entry.where(names[0]), part.name, "stands twice")
            topology.components[part.name] = part
    for entry in page.records("workers"):
        host, cpu = entry.maybe_text("host"), entry.maybe_number("assignedCpu")
        port = entry.maybe_whole("port")
        if host is not None and port is not None:
            topology.ports.setdefault(host, set()).add(port)
        if host is not None and cpu is not None:
            topology.assigned_cpu[host] = topology.assigned_cpu.get(host, 0.0) + cpu
    page.close()
    return topology


def ports_of(topology: Topology) -> tuple[dict[str, set[int]], bool]:
    """Return the ports a topology's workers are on, by host, and whether these are all.

    Workers name them, and so do executors; a host of executors without a port has an empty set.
    """
    found = {host: set(ports) for host, ports in topology.ports.items()}
    executors = [e for part in topology.components.values() for e in part.executors]
    for executor in executors:
        if executor.host is not None:
            ports = found.setdefault(executor.host, set())
            ports.update(() if executor.port is None else (executor.port,))
    told = all(e.host is not None and e.port is not None for e in executors)
    return found, bool(topology.ports) or (bool(executors) and told)


def _component(entry: Record, name: str, kind: str) -> Component:
    on, off = entry.maybe_number("requestedMemOnHeap"), entry.maybe_number("requestedMemOffHeap")
    return Component(
        name=name,
        kind=kind,
        count=entry.whole("executors"),
        sent=entry.maybe_number("transferred"),
        busy=entry.maybe_number("capacity"),
        cpu_request=entry.maybe_number("requestedCpu"),
        memory=(on or 0.0) + (off or 0.0),
    )


def read_component(value: Any, path: str, ledger: Ledger, topology: Topology) -> None:
    """Read ``/topology/:id/component/:c`` into its component: executors and inputs."""
    page = Record(value, path, ledger, UNUSED)
    name = page.text("id", "componentId")
    part = topology.components.get(name)
    if part is None:
        ledger.problem(page.where("id"), name, f"is no component of {topology.name}")
        return
    seconds = window_seconds(page.raw("window"), None) or topology.seconds
    part.cpu_request = page.maybe_number("requestedCpu") or part.cpu_request
    on, off = page.maybe_number("requestedMemOnHeap"), page.maybe_number("requestedMemOffHeap")
    part.memory = ((on or 0.0) + (off or 0.0)) or part.memory
    _ = page.raw("componentType", "executors")
    part.executors = []
    seen: set[str] = set()
    for entry in page.records("executorStats"):
        executor = _executor(entry, seconds)
        if executor.name in seen:
            ledger.problem(entry.where("id"), executor.name, "stands twice")
        seen.add(executor.name)
        part.executors.append(executor)
    part.executors.sort(key=lambda executor: _first_task(executor.name))
    for entry in page.records("inputStats"):
        sender = entry.text("component")
        stream = entry.maybe_text("stream") or "default"
        executed = entry.maybe_number("executed") or 0.0
        part.inputs[sender, stream] = part.inputs.get((sender, stream), 0.0) + executed
    page.close()


def _executor(entry: Record, seconds: float | None) -> Executor:
    done, latency = entry.maybe_number("executed"), entry.maybe_number("executeLatency")
    busy = entry.maybe_number("capacity")
    if busy is None and seconds and done is not None and latency is not None:
        busy = done * latency / 1000.0 / seconds
    return Executor(
        name=entry.text("id"),
        host=entry.maybe_text("host"),
        port=entry.maybe_whole("port"),
        done=done,
        sent=entry.maybe_number("transferred"),
        busy=busy,
    )


def _first_task(name: str) -> tuple[int, str]:
    found = re.match(r"\[(\d{1,12})-", name)
    return (int(found[1]) if found else 0, name)


def is_visualization(value: Any) -> bool:
    """Whether a document is ``/topology/:id/visualization``: component to colon-prefixed keys."""
    return (
        isinstance(value, dict)
        and bool(value)
        and all(isinstance(v, dict) and (":type" in v or ":inputs" in v) for v in value.values())
    )


def read_visualization(value: Any, path: str, ledger: Ledger, topology: Topology) -> None:
    """Read the groupings of subscriptions."""
    page = Record(value, path, ledger, UNUSED)
    for receiver, entry in page.entries():
        _ = entry.raw(":type")
        for source in entry.records(":inputs", "inputs"):
            sender = source.text(":component", "component")
            stream = source.maybe_text(":stream", "stream") or "default"
            grouping = source.maybe_text(":grouping", "grouping")
            if grouping is not None:
                topology.groupings[sender, stream, receiver] = grouping


def window_seconds(window: Any, uptime: float | None) -> float | None:
    """Return the seconds that counts stand for: the window, or the uptime where it is shorter."""
    try:
        seconds = float(window)
    except (TypeError, ValueError):
        return uptime or None
    if not 0 < seconds < 1e12:
        return uptime or None
    return min(seconds, uptime) if uptime else seconds
