"""Storm's UI REST documents, read into plain tables.

Facts: latencies and ``capacity`` are texts, counts are numbers; ``usedCpu`` is also spelt
``usedCPU``; the keys of the visualization start with a colon and only it tells groupings.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AliasChoices, Field, PlainValidator

from streamplace.clusters.exchange.pages import (
    Many,
    MaybeNumber,
    MaybeText,
    MaybeWhole,
    Page,
    Reading,
    Text,
    Whole,
    as_number,
    as_whole,
    kind_by_field,
    read_pages,
    seconds_of,
    words,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamplace.clusters.exchange.declarations import Ledger
    from streamplace.clusters.exchange.sources import Document

UNUSED = words(
    """
    acked ackedLatency activeControllers assignedCpu assignedMemOffHeap assignedMemOnHeap
    assignedTotalMem blacklisted bolts boltStats bytesRead completeLatency componentErrors
    componentNumTasks configuration debug debug-exception-count emitted encodedBoltId
    encodedComponentId encodedExecutorId encodedId encodedSpoutId encodedTopologyId error
    errorHost errorLapsedSecs errorPort errorTime errorWorkerLogLink eventLogLink executed
    executorsTotal executeLatency failed fragmentedCpu fragmentedMem generic-resources
    genericResources host id isDebugEnabled lastError logLink loggersTotal memory msgTimeout
    name nimbuses outputStats owner port processLatency profileActionEnabled profilerActive
    profilingAndDebuggingCapable rebalanceOptions replicationCount requestedCpu
    requestedGenericResources requestedGenericResourcesComp requestedMemOffHeap
    requestedMemOnHeap requestedTotalMem samplingPct schedulerDisplayResource schedulerInfo
    schedulerResources slotsFree slotsUsed spoutSummary spouts stats status statsTranslated
    stormVersion supervisorId supervisors taskCount tasks tasksTotal topologyId topologyName
    topologyPage topologyStats topologyStatus topologyVersion totalMem transferred
    uiActionsEnabled uptime uptimeSeconds usedGenericResources usedMem user version
    visualizationTable assignedGenericResources assignedRegularOffHeapMemLimit
    assignedSharedOffHeapMemory assignedSharedOnHeapMemory availCpu availMem
    availGenericResources usedMemory usedCPU totalCPU totalMemory totalGenericResources
    supervisorTimeoutSecs weburl window windowHint windowPretty workerLogLink workers
    workersTotal :capacity :link :latency :uptime_secs :sani-stream :bolt :stats :transferred
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


def window_seconds(window: Any) -> float | None:
    """Return the seconds of a window: infinity for all the time, ``None`` where none is told."""
    if window is None:
        return None
    seconds = as_number(window)
    return seconds if seconds and seconds < 1e12 else math.inf


Window = Annotated[float | None, PlainValidator(window_seconds)]


class _Page(Page):
    unused = UNUSED


class _Started(_Page):
    uptimeSeconds: MaybeNumber = None
    uptime: Any = None

    @property
    def age(self) -> float | None:
        """Seconds since it started; ``None`` where not told."""
        return seconds_of(self.uptime) if self.uptimeSeconds is None else self.uptimeSeconds


class Executor(_Started):
    """An executor: where it runs, and what it did in the `seconds` that its counts stand for."""

    name: Text = Field(alias="id")
    host: MaybeText = None
    port: MaybeWhole = None
    executed: MaybeNumber = None
    transferred: MaybeNumber = None
    latency: MaybeNumber = Field(None, alias="executeLatency")
    capacity: MaybeNumber = None
    seconds: float | None = None

    @property
    def reported(self) -> bool:
        """Whether it has reported; in its first minute it may show zeros that are no readings."""
        young = self.age is not None and self.age < YOUNG
        return not young or bool(self.executed or self.transferred)

    @property
    def done(self) -> float | None:
        """Tuples it executes a second."""
        return Reading(self.executed, self.seconds).rate if self.reported else None

    @property
    def sent(self) -> float | None:
        """Tuples it sends a second."""
        return Reading(self.transferred, self.seconds).rate if self.reported else None

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


class Worker(_Page):
    """A worker process: its executors, what is assigned to it, and how many of each component."""

    host: MaybeText = None
    port: MaybeWhole = None
    executors: MaybeWhole = Field(None, alias="executorsTotal")
    cpu: MaybeNumber = Field(None, alias="assignedCpu")
    assignedMemOnHeap: MaybeNumber = None
    assignedMemOffHeap: MaybeNumber = None
    componentNumTasks: Any = None

    @property
    def memory(self) -> float | None:
        """Memory that it is assigned, in MB; ``None`` where not told."""
        return (self.assignedMemOnHeap or 0.0) + (self.assignedMemOffHeap or 0.0) or None

    @property
    def components(self) -> dict[str, int]:
        """Component to the number of its tasks here, as far as told."""
        told = self.componentNumTasks if isinstance(self.componentNumTasks, dict) else {}
        return {str(name): n for name, value in told.items() if (n := as_whole(value))}


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

    @property
    def known_executors(self) -> list[Executor]:
        """Those of which it is known which they are."""
        return [e for part in self.components.values() for e in part.executors]

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


def _spelt(*names: str) -> Any:
    """Declare a field that versions of Storm spell in several ways."""
    return Field(None, validation_alias=AliasChoices(*names))


class _Supervisor(_Page):
    host: Text
    slotsTotal: Whole
    slotsUsed: MaybeWhole = None
    used_cpu: MaybeNumber = _spelt("usedCpu", "usedCPU")
    cpu: MaybeNumber = _spelt("totalCpu", "totalCPU")
    memory: MaybeNumber = _spelt("totalMem", "totalMemory")
    used_memory: MaybeNumber = _spelt("usedMem", "usedMemory")


class Supervisors(_Page):
    """``/supervisor/summary``."""

    supervisors: list[_Supervisor]


class _Summarised(_Page):
    id: Text
    name: MaybeText = None
    status: MaybeText = None


class Summary(_Page):
    """``/topology/summary``."""

    topologies: list[_Summarised]


class _Requests(_Page):
    requestedCpu: MaybeNumber = None
    requestedMemOnHeap: MaybeNumber = None
    requestedMemOffHeap: MaybeNumber = None

    @property
    def memory(self) -> float:
        return (self.requestedMemOnHeap or 0.0) + (self.requestedMemOffHeap or 0.0)


class _Part(_Requests):
    id: Text = Field(validation_alias=AliasChoices("spoutId", "id"))
    executors: Whole
    transferred: MaybeNumber = None
    capacity: MaybeNumber = None


class _Bolt(_Part):
    id: Text = Field(validation_alias=AliasChoices("boltId", "id"))


class TopologyPage(_Started):
    """``/topology/:id``: components, executors' number, workers, window."""

    id: Text
    name: MaybeText = None
    status: MaybeText = None
    workersTotal: MaybeWhole = None
    executorsTotal: MaybeWhole = None
    window: Window = None
    spouts: list[_Part]
    bolts: list[_Bolt]
    workers: Many[Worker] = ()


class SystemRows(_Page):
    """A topology's page that is read for its system components alone."""

    bolts: Many[_Bolt] = ()


class _Input(_Page):
    component: Text
    stream: MaybeText = None
    executed: MaybeNumber = None


class ComponentPage(_Requests):
    """``/topology/:id/component/:c``: executors and inputs."""

    topologyId: Any = None
    id: Text = Field(validation_alias=AliasChoices("id", "componentId"))
    window: Window = None
    executorStats: Many[Executor] = ()
    inputStats: Many[_Input] = ()


class _Subscription(_Page):
    component: Text = Field(validation_alias=AliasChoices(":component", "component"))
    stream: MaybeText = _spelt(":stream", "stream")
    grouping: MaybeText = _spelt(":grouping", "grouping")


class Pictured(_Page):
    """A component of ``/topology/:id/visualization``: its subscriptions with their groupings."""

    inputs: Many[_Subscription] = Field((), validation_alias=AliasChoices(":inputs", "inputs"))


def add_supervisors(page: Supervisors, found: dict[str, Supervisor], ledger: Ledger) -> None:
    """Add what hosts offer, by host."""
    own: dict[str, Supervisor] = {}
    for entry in page.supervisors:
        if entry.host in own:
            ledger.reading(f"supervisors on the same host ({entry.host}) are one node")
        at = own.setdefault(entry.host, Supervisor())
        at.slots += entry.slotsTotal
        at.slots_used += entry.slotsUsed or 0
        at.used_cpu += entry.used_cpu or 0.0
        at.cpu = None if entry.cpu is None else entry.cpu + (at.cpu or 0.0)
        at.memory = None if entry.memory is None else entry.memory + (at.memory or 0.0)
        at.used_memory += entry.used_memory or 0.0
    found |= own


def topology_of(page: TopologyPage, path: str, ledger: Ledger) -> Topology:
    """Return the topology of its page."""
    topology = Topology(
        id=page.id,
        name=page.name or page.id,
        workers=page.workersTotal,
        window=page.window,
        uptime=page.age or None,
        path=path,
        status=page.status or ACTIVE,
        executors=page.executorsTotal,
        processes=list(page.workers),
    )
    parts: dict[str, Sequence[_Part]] = {"spout": page.spouts, "bolt": page.bolts}
    for kind, entries in parts.items():
        for i, entry in enumerate(entries):
            if entry.id in topology.components:
                ledger.problem(f"{path}.{kind}s[{i}].{kind}Id", entry.id, "stands twice")
            if entry.id != SYSTEM:
                topology.components[entry.id] = Component(
                    name=entry.id,
                    kind=kind,
                    count=entry.executors,
                    transferred=entry.transferred,
                    busy=entry.capacity,
                    cpu_request=entry.requestedCpu,
                    memory=entry.memory,
                )
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
    executors = topology.known_executors
    for executor in executors:
        if executor.host is not None:
            ports = found.setdefault(executor.host, set())
            ports.update(() if executor.port is None else (executor.port,))
    told = all(e.host is not None and e.port is not None for e in executors)
    return found, listed or (bool(executors) and told)


def take_component(page: ComponentPage, path: str, ledger: Ledger, topology: Topology) -> None:
    """Give a component of a topology its executors and inputs."""
    if page.id == SYSTEM:
        return
    part = topology.components.get(page.id)
    if part is None:
        ledger.problem(f"{path}.id", page.id, f"is no component of {topology.name}")
        return
    part.window = page.window
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


def take_visualization(page: dict[str, Pictured], topology: Topology) -> None:
    """Give a topology the groupings of its subscriptions."""
    for receiver, entry in page.items():
        for source in entry.inputs:
            if source.grouping is not None:
                key = (source.component, source.stream or "default", receiver)
                topology.groupings[key] = source.grouping


# -- files of a user's folder ----------------------------------------------------------------------


def kind_of(document: Document, ledger: Ledger) -> Any:
    """Recognise a file by what it holds; ``None``, noted, for what is no page that is read."""
    value = document.value
    if isinstance(value, dict) and {"spouts", "bolts"} <= value.keys():
        return TopologyPage
    marks: dict[str, Any] = {"executorStats": ComponentPage, "componentType": ComponentPage}
    marks["supervisors"] = Supervisors
    found = kind_by_field(document, marks, "expected a page of the UI", ledger)
    if found is not None or not isinstance(value, dict):
        return found
    entries = [isinstance(v, dict) and v.keys() & {":type", ":inputs"} for v in value.values()]
    if entries and all(entries):
        return dict[str, Pictured]
    if "topologies" not in value:
        ledger.warn(f"{document.name} is no page of the UI that is known, and is left out")
    return None


def read_files(
    documents: list[Document], ledger: Ledger
) -> tuple[dict[str, Supervisor], list[Topology]]:
    """Read saved pages, recognised once by what they hold, into supervisors and topologies."""
    pages = read_pages(documents, kind_of, ledger)
    supervisors: dict[str, Supervisor] = {}
    for _, page in pages.get(Supervisors, ()):
        add_supervisors(page, supervisors, ledger)
    topologies = [topology_of(page, name, ledger) for name, page in pages.get(TopologyPage, ())]
    ledger.check()  # what a page that cannot be read lacks is no problem of the others
    for name, page in pages.get(ComponentPage, ()):
        named = [t for t in topologies if t.id == page.topologyId]
        if page.topologyId is None and len(topologies) == 1:
            named = topologies
        if not named:
            reason, remedy = "is the id of no topology page", "save that page too"
            ledger.problem(f"{name}.topologyId", page.topologyId, reason, remedy)
        else:
            take_component(page, name, ledger, named[0])
    for name, page in pages.get(dict[str, Pictured], ()):
        owner = _pictured(name, page, topologies)
        if owner is None:
            ledger.warn(f"{name} fits no single topology page, and is left out")
        else:
            take_visualization(page, owner)
    return supervisors, topologies


def _pictured(path: str, page: dict[str, Pictured], topologies: list[Topology]) -> Topology | None:
    """Return the topology of a visualization, which names components but not its topology.

    The path tells, where it holds the topology's id; else the components do.
    """
    by_path = [t for t in topologies if t.id in path]
    fitting = [t for t in topologies if page.keys() & t.components.keys()]
    whole = [t for t in fitting if t.components.keys() <= page.keys()]
    return next((found[0] for found in (by_path, whole, fitting) if len(found) == 1), None)
