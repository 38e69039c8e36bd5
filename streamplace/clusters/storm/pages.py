"""Storm's UI REST documents, read into plain tables.

Facts: latencies and ``capacity`` are texts, counts are numbers; ``usedCpu`` is also spelt
``usedCPU``; the keys of the visualization start with a colon and only it tells groupings.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import AliasChoices, Field

from streamplace.clusters.exchange.pages import (
    Listed,
    MaybeNumber,
    MaybeText,
    MaybeWhole,
    Page,
    Reading,
    Text,
    Whole,
    as_number,
    as_whole,
    read_page,
    seconds_of,
    words,
)

if TYPE_CHECKING:
    from streamplace.clusters.exchange.declarations import Ledger

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
SYSTEM = "__system"
"""A component that is in every worker, and is no executor that a scheduler places."""
YOUNG = 60.0
"""Seconds after which an executor has reported its counts for the first time."""


@dataclass
class Supervisor:
    """A machine: its slots and what it offers; several supervisors of one host are one."""

    slots: int = 0
    slots_used: int = 0
    cpu: float | None = None
    memory: float | None = None
    used_cpu: float = 0.0
    used_memory: float = 0.0


class _Page(Page):
    unused = UNUSED


class Executor(_Page):
    """An executor: where it runs, and what it did in the `seconds` that its counts stand for."""

    name: Text = Field(alias="id")
    host: MaybeText = None
    port: MaybeWhole = None
    executed: MaybeNumber = None
    transferred: MaybeNumber = None
    latency: MaybeNumber = Field(None, alias="executeLatency")
    capacity: MaybeNumber = None
    uptimeSeconds: MaybeNumber = None
    uptime: Any = None
    seconds: float | None = None

    @property
    def age(self) -> float | None:
        """Seconds since it started; ``None`` where not told."""
        return _first(self.uptimeSeconds, seconds_of(self.uptime))

    @property
    def reported(self) -> bool:
        """Whether it has reported; in its first minute it may show zeros that are no readings."""
        young = self.age is not None and self.age < YOUNG
        return not young or bool(self.executed or self.transferred)

    def _rate(self, count: float | None) -> float | None:
        return Reading(count, self.seconds).rate if self.reported else None

    @property
    def done(self) -> float | None:
        """Tuples it executes a second."""
        return self._rate(self.executed)

    @property
    def sent(self) -> float | None:
        """Tuples it sends a second."""
        return self._rate(self.transferred)

    @property
    def busy(self) -> float | None:
        """The share of time it is busy: its `capacity`, or what its figures tell."""
        if not self.reported:
            return None
        if self.capacity is not None or self.done is None or self.latency is None:
            return self.capacity
        return self.done * self.latency / 1000.0


@dataclass
class Component:
    """A spout or bolt; `inputs` is (sender, stream) to tuples executed within the window.

    `window` is in seconds, that of its own page; ``None`` for the topology's.
    """

    name: str
    kind: str
    count: int = 0
    transferred: float | None = None
    busy: float | None = None
    cpu_request: float | None = None
    memory: float = 0.0
    window: float | None = None
    executors: list[Executor] = field(default_factory=list)
    inputs: dict[tuple[str, str], float] = field(default_factory=dict)

    @property
    def is_system(self) -> bool:
        """Whether Storm added it: ackers and the like."""
        return self.name.startswith("__")


@dataclass
class Worker:
    """A worker process: its executors, what is assigned to it, and how many of each component."""

    host: str | None
    port: int | None
    executors: int | None = None
    cpu: float | None = None
    memory: float | None = None
    components: dict[str, int] = field(default_factory=dict)


@dataclass
class Topology:
    """A topology and, where the visualization is there, the grouping of each subscription.

    Attributes
    ----------
    workers
        Number of worker processes that it should have.
    window, uptime
        In seconds; a window of infinity is all the time, ``None`` is not told.
    status
        ``ACTIVE`` where it is not told.
    executors
        Number of all of them, those of the system included.
    processes
        Its workers as its page lists them.
    reserved
        Host to CPU and memory of system executors that no page names.
    """

    id: str
    name: str
    workers: int | None
    window: float | None
    uptime: float | None
    path: str
    status: str = ACTIVE
    executors: int | None = None
    components: dict[str, Component] = field(default_factory=dict)
    groupings: dict[tuple[str, str, str], str] = field(default_factory=dict)
    processes: list[Worker] = field(default_factory=list)
    reserved: dict[str, tuple[float, float]] = field(default_factory=dict)

    def seconds(self, part: Component, executor: Executor | None = None) -> float | None:
        """Return what counts of a component, or of an executor, stand for.

        Counts begin with the executor, and go back no further than the window.
        """
        age = None if executor is None else executor.age
        window = self.window if part.window is None else part.window
        spans = (window, self.uptime if age is None else age)
        found = min((span for span in spans if span is not None), default=math.inf)
        return found if math.isfinite(found) else None

    def assigned(self, what: str) -> dict[str, float]:
        """Return ``cpu`` or ``memory`` that its workers are assigned, by host; empty if untold."""
        found: dict[str, float] = {}
        for worker in self.processes:
            amount = getattr(worker, what)
            if worker.host is not None and amount is not None:
                found[worker.host] = found.get(worker.host, 0.0) + amount
        return found


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
    usedMem: MaybeNumber = None
    usedMemory: MaybeNumber = None


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
    executorsTotal: MaybeWhole = None
    assignedCpu: MaybeNumber = None
    assignedMemOnHeap: MaybeNumber = None
    assignedMemOffHeap: MaybeNumber = None
    componentNumTasks: Any = None

    def read(self) -> Worker:
        """Return it as a worker."""
        memory = (self.assignedMemOnHeap or 0.0) + (self.assignedMemOffHeap or 0.0)
        told = self.componentNumTasks if isinstance(self.componentNumTasks, dict) else {}
        counts = {str(name): n for name, value in told.items() if (n := as_whole(value))}
        return Worker(
            self.host, self.port, self.executorsTotal, self.assignedCpu, memory or None, counts
        )


class _Topology(_Page):
    id: Text
    name: MaybeText = None
    status: MaybeText = None
    workersTotal: MaybeWhole = None
    executorsTotal: MaybeWhole = None
    window: Any = None
    uptimeSeconds: MaybeNumber = None
    uptime: Any = None
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
        at.used_memory += _first(entry.usedMem, entry.usedMemory) or 0.0
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
        window=window_seconds(page.window),
        uptime=_first(page.uptimeSeconds, seconds_of(page.uptime)) or None,
        path=path,
        status=page.status or ACTIVE,
        executors=page.executorsTotal,
        processes=[worker.read() for worker in page.workers],
    )
    parts: dict[str, list[_Spout] | list[_Bolt]] = {"spout": page.spouts, "bolt": page.bolts}
    for kind, entries in parts.items():
        for i, entry in enumerate(entries):
            if entry.id in topology.components:
                ledger.problem(f"{path}.{kind}s[{i}].{kind}Id", entry.id, "stands twice")
            if entry.id != SYSTEM:
                topology.components[entry.id] = _component(entry, kind)
    return topology


def ports_of(topology: Topology) -> tuple[dict[str, set[int]], bool]:
    """Return the ports a topology's workers are on, by host, and whether these are all.

    Workers name them, and so do executors; a host of executors without a port has an empty set.
    """
    found: dict[str, set[int]] = {}
    for worker in topology.processes:
        if worker.host is not None and worker.port is not None:
            found.setdefault(worker.host, set()).add(worker.port)
    listed = bool(found)
    executors = [e for part in topology.components.values() for e in part.executors]
    for executor in executors:
        if executor.host is not None:
            ports = found.setdefault(executor.host, set())
            ports.update(() if executor.port is None else (executor.port,))
    told = all(e.host is not None and e.port is not None for e in executors)
    return found, listed or (bool(executors) and told)


def _component(entry: _Part, kind: str) -> Component:
    return Component(
        name=entry.id,
        kind=kind,
        count=entry.executors,
        transferred=entry.transferred,
        busy=entry.capacity,
        cpu_request=entry.requestedCpu,
        memory=entry.memory,
    )


def read_component(value: Any, path: str, ledger: Ledger, topology: Topology) -> None:
    """Read ``/topology/:id/component/:c`` into its component: executors and inputs."""
    page: _Component | None = read_page(_Component, value, path, ledger)
    if page is None:
        return
    if page.id == SYSTEM:
        return
    part = topology.components.get(page.id)
    if part is None:
        ledger.problem(f"{path}.id", page.id, f"is no component of {topology.name}")
        return
    part.window = window_seconds(page.window)
    part.cpu_request = page.requestedCpu or part.cpu_request
    part.memory = page.memory or part.memory
    seen: set[str] = set()
    for i, executor in enumerate(page.executorStats):
        if executor.name in seen:
            ledger.problem(f"{path}.executorStats[{i}].id", executor.name, "stands twice")
        seen.add(executor.name)
    part.executors = sorted(page.executorStats, key=lambda one: _first_task(one.name))
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


def window_seconds(window: Any) -> float | None:
    """Return the seconds of a window: infinity for all the time, ``None`` where none is told."""
    if window is None:
        return None
    seconds = as_number(window)
    return seconds if seconds and seconds < 1e12 else math.inf
