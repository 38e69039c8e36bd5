"""Storm's UI REST documents, read into plain tables.

Facts: latencies and ``capacity`` are texts, counts are numbers; ``usedCpu`` is also spelt
``usedCPU``; the keys of the visualization start with a colon and only it tells groupings.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import AliasChoices, Field

from experiments.interchange.foreign import (
    Listed,
    MaybeNumber,
    MaybeText,
    MaybeWhole,
    Page,
    Text,
    Whole,
    read_page,
    words,
)

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
    :type componentType executors
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


class _Page(Page):
    unused = UNUSED


class Executor(_Page):
    """An executor: where it runs and what it did within the window."""

    name: Text = Field(alias="id")
    host: MaybeText = None
    port: MaybeWhole = None
    done: MaybeNumber = Field(None, alias="executed")
    sent: MaybeNumber = Field(None, alias="transferred")
    latency: MaybeNumber = Field(None, alias="executeLatency")
    busy: MaybeNumber = Field(None, alias="capacity")

    def measured(self, seconds: float | None) -> Executor:
        """Return it with the share of the window it was busy, where its figures tell that."""
        if self.busy is None and seconds and self.done is not None and self.latency is not None:
            self.busy = self.done * self.latency / 1000.0 / seconds
        return self


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


# -- the pages -------------------------------------------------------------------------------------


class _Supervisor(_Page):
    host: Text
    slotsTotal: Whole
    slotsUsed: MaybeWhole = None
    usedCpu: MaybeNumber = None
    usedCPU: MaybeNumber = None
    totalCpu: MaybeNumber = None
    totalCPU: MaybeNumber = None
    totalMem: MaybeNumber = None
    totalMemory: MaybeNumber = None


class _Supervisors(_Page):
    supervisors: list[_Supervisor]


class _Listed(_Page):
    id: Text
    name: MaybeText = None
    status: MaybeText = None


class _Summary(_Page):
    topologies: list[_Listed]


class _Requests(_Page):
    requestedCpu: MaybeNumber = None
    requestedMemOnHeap: MaybeNumber = None
    requestedMemOffHeap: MaybeNumber = None

    @property
    def memory(self) -> float:
        return (self.requestedMemOnHeap or 0.0) + (self.requestedMemOffHeap or 0.0)


class _Part(_Requests):
    id: str
    executors: Whole
    transferred: MaybeNumber = None
    capacity: MaybeNumber = None


class _Spout(_Part):
    id: Text = Field(validation_alias=AliasChoices("spoutId", "id"))


class _Bolt(_Part):
    id: Text = Field(validation_alias=AliasChoices("boltId", "id"))


class _Worker(_Page):
    host: MaybeText = None
    port: MaybeWhole = None
    assignedCpu: MaybeNumber = None


class _Topology(_Page):
    id: Text
    name: MaybeText = None
    status: MaybeText = None
    workersTotal: MaybeWhole = None
    window: Any = None
    uptimeSeconds: MaybeNumber = None
    spouts: list[_Spout]
    bolts: list[_Bolt]
    workers: Listed[_Worker] = ()


class _Input(_Page):
    component: Text
    stream: MaybeText = None
    executed: MaybeNumber = None


class _Component(_Requests):
    id: Text = Field(validation_alias=AliasChoices("id", "componentId"))
    window: Any = None
    executorStats: Listed[Executor] = ()
    inputStats: Listed[_Input] = ()


class _Subscription(_Page):
    component: Text = Field(validation_alias=AliasChoices(":component", "component"))
    stream: MaybeText = Field(None, validation_alias=AliasChoices(":stream", "stream"))
    grouping: MaybeText = Field(None, validation_alias=AliasChoices(":grouping", "grouping"))


class _Pictured(_Page):
    inputs: Listed[_Subscription] = Field((), validation_alias=AliasChoices(":inputs", "inputs"))


def _first(*values: float | None) -> float | None:
    """Return the value of the first spelling that is there."""
    return next((value for value in values if value is not None), None)


def read_summary(value: Any, path: str, ledger: Ledger) -> list[tuple[str, str | None, str]]:
    """Read ``/topology/summary``: id, name and status of each topology."""
    page: _Summary | None = read_page(_Summary, value, path, ledger)
    return [(t.id, t.name, t.status or ACTIVE) for t in (page.topologies if page else ())]


def read_supervisors(value: Any, path: str, ledger: Ledger) -> dict[str, Supervisor]:
    """Read ``/supervisor/summary``: host to what it offers."""
    found: dict[str, Supervisor] = {}
    page: _Supervisors | None = read_page(_Supervisors, value, path, ledger)
    for entry in page.supervisors if page else ():
        if entry.host in found:
            ledger.reading(f"supervisors on the same host ({entry.host}) are one node")
        at = found.setdefault(entry.host, Supervisor())
        at.slots += entry.slotsTotal
        at.slots_used += entry.slotsUsed or 0
        at.used_cpu += _first(entry.usedCpu, entry.usedCPU) or 0.0
        cpu = _first(entry.totalCpu, entry.totalCPU)
        memory = _first(entry.totalMem, entry.totalMemory)
        at.cpu = None if cpu is None else cpu + (at.cpu or 0.0)
        at.memory = None if memory is None else memory + (at.memory or 0.0)
    return found


def read_topology(value: Any, path: str, ledger: Ledger) -> Topology | None:
    """Read ``/topology/:id``: components, executors' number, workers, window."""
    page: _Topology | None = read_page(_Topology, value, path, ledger)
    if page is None:
        return None
    topology = Topology(
        id=page.id,
        name=page.name or page.id,
        workers=page.workersTotal,
        seconds=window_seconds(page.window, page.uptimeSeconds),
        path=path,
        status=page.status or ACTIVE,
    )
    parts: dict[str, list[_Spout] | list[_Bolt]] = {"spout": page.spouts, "bolt": page.bolts}
    for kind, entries in parts.items():
        for i, entry in enumerate(entries):
            if entry.id in topology.components:
                ledger.problem(f"{path}.{kind}s[{i}].{kind}Id", entry.id, "stands twice")
            topology.components[entry.id] = _component(entry, kind)
    for worker in page.workers:
        host, cpu = worker.host, worker.assignedCpu
        if host is not None and worker.port is not None:
            topology.ports.setdefault(host, set()).add(worker.port)
        if host is not None and cpu is not None:
            topology.assigned_cpu[host] = topology.assigned_cpu.get(host, 0.0) + cpu
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


def _component(entry: _Part, kind: str) -> Component:
    return Component(
        name=entry.id,
        kind=kind,
        count=entry.executors,
        sent=entry.transferred,
        busy=entry.capacity,
        cpu_request=entry.requestedCpu,
        memory=entry.memory,
    )


def read_component(value: Any, path: str, ledger: Ledger, topology: Topology) -> None:
    """Read ``/topology/:id/component/:c`` into its component: executors and inputs."""
    page: _Component | None = read_page(_Component, value, path, ledger)
    if page is None:
        return
    part = topology.components.get(page.id)
    if part is None:
        ledger.problem(f"{path}.id", page.id, f"is no component of {topology.name}")
        return
    seconds = window_seconds(page.window, None) or topology.seconds
    part.cpu_request = page.requestedCpu or part.cpu_request
    part.memory = page.memory or part.memory
    seen: set[str] = set()
    for i, executor in enumerate(page.executorStats):
        if executor.name in seen:
            ledger.problem(f"{path}.executorStats[{i}].id", executor.name, "stands twice")
        seen.add(executor.name)
    measured = [executor.measured(seconds) for executor in page.executorStats]
    part.executors = sorted(measured, key=lambda executor: _first_task(executor.name))
    for source in page.inputStats:
        key = (source.component, source.stream or "default")
        part.inputs[key] = part.inputs.get(key, 0.0) + (source.executed or 0.0)


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
    page: dict[str, _Pictured] | None = read_page(dict[str, _Pictured], value, path, ledger)
    for receiver, entry in (page or {}).items():
        for source in entry.inputs:
            if source.grouping is not None:
                key = (source.component, source.stream or "default", receiver)
                topology.groupings[key] = source.grouping


def window_seconds(window: Any, uptime: float | None) -> float | None:
    """Return the seconds that counts stand for: the window, or the uptime where it is shorter."""
    try:
        seconds = float(window)
    except (TypeError, ValueError):
        return uptime or None
    if not 0 < seconds < 1e12:
        return uptime or None
    return min(seconds, uptime) if uptime else seconds
