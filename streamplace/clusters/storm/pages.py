"""Storm's UI REST documents, read into plain tables.

Facts: latencies and ``capacity`` are texts, counts are numbers; ``usedCpu`` is also spelt
``usedCPU``; the keys of the visualization start with a colon and only it has groupings.
"""

from __future__ import annotations

import math
import re
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

from pydantic import AliasChoices, Field, PlainValidator

from optim.errors import InvalidInput, Problem
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
    filled,
    kind_by_field,
    read_pages,
    seconds_of,
    words,
)
from streamplace.present.numbers import listed as some

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from streamplace.clusters.exchange.declarations import Ledger
    from streamplace.clusters.exchange.sources import Document

T = TypeVar("T", bound=Any)
LOCAL_FIRST = "local first"
"""Grouping of a shuffle that prefers receivers in the same worker, then on the same host."""
UNUSED = words(
    """
    :bolt :capacity :latency :link :sani-stream :stats :transferred :type :uptime_secs acked
    ackedLatency activeControllers assignedCpu assignedGenericResources assignedMemOffHeap
    assignedMemOnHeap assignedRegularOffHeapMemLimit assignedSharedOffHeapMemory
    assignedSharedOnHeapMemory assignedTotalMem availCpu availGenericResources availMem
    bolts boltStats bytesRead completeLatency componentErrors componentNumTasks componentType
    debug debug-exception-count emitted encodedBoltId encodedComponentId
    encodedExecutorId encodedId encodedSpoutId encodedTopologyId error errorHost errorLapsedSecs
    errorPort errorTime errorWorkerLogLink eventLogLink executed executeLatency executors
    executorsTotal failed fragmentedCpu fragmentedMem generic-resources genericResources host id
    isDebugEnabled lastError loggersTotal logLink memory msgTimeout name nimbuses outputStats owner
    port processLatency profileActionEnabled profilerActive profilingAndDebuggingCapable
    rebalanceOptions replicationCount requestedCpu requestedGenericResources
    requestedGenericResourcesComp requestedMemOffHeap requestedMemOnHeap requestedTotalMem
    samplingPct schedulerDisplayResource schedulerInfo schedulerResources slotsFree slotsUsed spouts
    spoutSummary stats statsTranslated status stormVersion supervisorId supervisors
    supervisorTimeoutSecs taskCount tasks tasksTotal topologyId topologyName topologyPage
    topologyStats topologyStatus topologyVersion totalCPU totalGenericResources totalMem totalMemory
    transferred uiActionsEnabled uptime uptimeSeconds usedCPU usedGenericResources usedMem
    usedMemory user version visualizationTable weburl window windowHint windowPretty workerLogLink
    workers workersTotal
    """
)

SYSTEM = "__system"
"""A component that is in every worker, and is no executor that a scheduler places."""
YOUNG = 60.0
"""Seconds after which an executor has reported its counts for the first time."""


def window_seconds(window: Any) -> float | None:
    """Return the seconds of a window: infinity for all the time, ``None`` for none."""
    if window is None:
        return None
    seconds = as_number(window)
    return seconds if seconds and seconds < 1e12 else math.inf


Settings = Annotated[dict[str, Any], PlainValidator(lambda x: x if isinstance(x, dict) else {})]
Window = Annotated[float | None, PlainValidator(window_seconds)]


class _Page(Page):
    unused = UNUSED


class _Started(_Page):
    uptimeSeconds: MaybeNumber = None
    uptime: Any = None

    @property
    def age(self) -> float | None:
        """Seconds since it started; ``None`` where not reported."""
        return seconds_of(self.uptime) if self.uptimeSeconds is None else self.uptimeSeconds


class Executor(_Started):
    """An executor: where it runs, and what it did in the `seconds` that its counts stand for.

    Nimbus reports more than the UI: `measured` are the seconds between two reports that its counts
    are of, `received` what it executed by (sender, stream), `sent_on` what it sent by stream.
    `computes` are the cores that its thread uses, where the process of its worker reports them.
    """

    name: Text = Field(alias="id")
    host: MaybeText = None
    port: MaybeWhole = None
    executed: MaybeNumber = None
    transferred: MaybeNumber = None
    latency: MaybeNumber = Field(None, alias="executeLatency")
    capacity: MaybeNumber = None
    seconds: float | None = filled()
    measured: float | None = filled()
    computes: float | None = filled()
    received: dict[tuple[str, str], float] = filled(dict)
    sent_on: dict[str, float] = filled(dict)

    @property
    def reported(self) -> bool:
        """Whether it has reported; in its first minute it may show zeros that are no readings."""
        # zeros of a young executor are no measurement, unless something was counted
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

    def rate_on(self, stream: str) -> float | None:
        """Return tuples it sends a second on a stream; ``None`` where it has not been measured."""
        return self.sent_on.get(stream, 0.0) / self.measured if self.measured else None

    def rate_of(self, stream: tuple[str, str]) -> float | None:
        """Return tuples it receives a second of a (sender, stream); ``None`` as in `rate_on`."""
        return self.received.get(stream, 0.0) / self.measured if self.measured else None

    @property
    def busy(self) -> float | None:
        """The share of time it is busy: its `capacity`, or what its figures say."""
        if not self.reported:
            return None
        if self.capacity is not None or self.done is None or self.latency is None:
            return self.capacity
        return self.done * self.latency / 1000.0


class _Requests(_Page):
    """What an executor of a component requests: percent of a core, MB."""

    cpu_request: MaybeNumber = Field(None, alias="requestedCpu")
    requestedMemOnHeap: MaybeNumber = None
    requestedMemOffHeap: MaybeNumber = None

    @cached_property
    def memory(self) -> float:
        """MB requested; 0 where not reported."""
        return (self.requestedMemOnHeap or 0.0) + (self.requestedMemOffHeap or 0.0)


class Component(_Requests):
    """A spout, as the topology's page has it; its own page gives the rest.

    `window` is in seconds, that of its own page; ``None`` for the topology's. `inputs` is (sender,
    stream) to tuples executed within the window.
    """

    kind: ClassVar[str] = "spout"
    name: Text = Field(validation_alias=AliasChoices("spoutId", "id"))
    count: Whole = Field(validation_alias=AliasChoices("executors"))
    transferred: MaybeNumber = None
    busy: MaybeNumber = Field(None, alias="capacity")
    window: float | None = filled()
    executors: list[Executor] = filled(list)
    inputs: dict[tuple[str, str], float] = filled(dict)

    @property
    def is_system(self) -> bool:
        """Whether Storm added it: ackers and the like."""
        return self.name.startswith("__")


class Bolt(Component):
    """A bolt, as the topology's page has it."""

    kind: ClassVar[str] = "bolt"
    name: Text = Field(validation_alias=AliasChoices("boltId", "id"))


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
        """Memory that it is assigned, in MB; ``None`` where not reported."""
        return (self.assignedMemOnHeap or 0.0) + (self.assignedMemOffHeap or 0.0) or None

    @property
    def components(self) -> dict[str, int]:
        """Component to the number of its tasks here, as far as reported."""
        counts = self.componentNumTasks if isinstance(self.componentNumTasks, dict) else {}
        return {str(name): n for name, value in counts.items() if (n := as_whole(value))}


class Summarised(_Page):
    """A topology of ``/topology/summary``."""

    id: Text
    reported_name: MaybeText = Field(None, alias="name")
    status: MaybeText = None

    @property
    def name(self) -> str:
        """Its name, or its id where none is reported."""
        return self.reported_name or self.id

    @property
    def is_active(self) -> bool:
        """Whether it runs; so it is taken where no status is reported."""
        return self.status in (None, "ACTIVE")


class Topology(Summarised, _Started):
    """``/topology/:id``, and what other pages say of the topology."""

    #: Number of worker processes that it should have.
    workers: MaybeWhole = Field(None, alias="workersTotal")
    #: Number of all of them, those of the system included.
    executors: MaybeWhole = Field(None, alias="executorsTotal")
    window: Window = None  # In seconds; infinity is all the time, ``None`` is not reported.
    spouts: list[Component]
    bolts: list[Bolt]
    processes: Many[Worker] = Field((), alias="workers")  # Its workers as its page lists them.
    #: Of the topology, with that of Nimbus for what it does not set.
    configuration: Settings = Field(default_factory=dict)
    path: str = filled("")
    components: dict[str, Component] = filled(dict)
    #: (sender, stream, receiver) to the grouping, where the visualization is there; `LOCAL_FIRST`
    #: for a shuffle that prefers who is near.
    groupings: dict[tuple[str, str, str], str] = filled(dict)
    #: Host to CPU and memory of system executors that no page names.
    reserved: dict[str, tuple[float, float]] = filled(dict)

    @property
    def known_executors(self) -> list[Executor]:
        """Those of which it is known which they are."""
        return [e for part in self.components.values() for e in part.executors]

    def seconds(self, part: Component, executor: Executor | None = None) -> float | None:
        """Return what counts of a component, or of an executor, stand for.

        Counts begin with the executor, and go back no further than the window.
        """
        if executor is not None and executor.measured:
            return executor.measured
        age = None if executor is None else executor.age
        # the shorter of window and age: an executor counts from its start on
        window = self.window if part.window is None else part.window
        spans = (window, (self.age or None) if age is None else age)
        shortest = min((span for span in spans if span is not None), default=math.inf)
        return shortest if math.isfinite(shortest) else None

    def assigned(self, what: str) -> dict[str, float]:
        """Return ``cpu`` or ``memory`` that its workers are assigned, by host."""
        amounts: dict[str, float] = {}
        for worker in self.processes:
            amount = getattr(worker, what)
            if worker.host is not None and amount is not None:
                amounts[worker.host] = amounts.get(worker.host, 0.0) + amount
        return amounts


# -- the pages -------------------------------------------------------------------------------------


def _spelt(*names: str) -> Any:
    """Declare a field that versions of Storm spell in several ways."""
    return Field(None, validation_alias=AliasChoices(*names))


class Supervisor(_Page):
    """A machine: its slots and what it offers; several supervisors of one host are one.

    `ports` are those of all its slots, where they are known.
    """

    host: Text
    slots: Whole = Field(alias="slotsTotal")
    slots_used: MaybeWhole = Field(None, alias="slotsUsed")
    used_cpu: MaybeNumber = _spelt("usedCpu", "usedCPU")
    cpu: MaybeNumber = _spelt("totalCpu", "totalCPU")
    memory: MaybeNumber = _spelt("totalMem", "totalMemory")
    used_memory: MaybeNumber = _spelt("usedMem", "usedMemory")
    blacklisted: Any = False
    ports: list[int] | None = filled()

    def with_another(self, other: Supervisor) -> Supervisor:
        """Return both as one; what only one of them offers is not known."""
        # fields alone: a page has more of a supervisor, texts among it
        names = type(self).model_fields.keys() - {"host", "ports", "blacklisted"}
        offers = {name: [getattr(self, name), getattr(other, name)] for name in names}
        for name in ("slots_used", "used_cpu", "used_memory"):
            offers[name] = [x or 0 for x in offers[name]]
        sums = {name: None if None in two else sum(two) for name, two in offers.items()}
        # Storm's list is of hosts
        shut = self.blacklisted is True or other.blacklisted is True
        return self.model_copy(update=sums | {"ports": None, "blacklisted": shut})


class Supervisors(_Page):
    """``/supervisor/summary``."""

    supervisors: list[Supervisor]


class Summary(_Page):
    """``/topology/summary``."""

    topologies: list[Summarised]


class SystemRows(_Page):
    """A topology's page that is read for its system components alone."""

    bolts: Many[Bolt] = ()


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


def chosen(listed: Iterable[T], wanted: str, address: str) -> list[T]:
    """Return the topologies of a summary that are active, or the one with a name or id.

    Raises `InvalidInput`: there is none, with what is there.
    """
    every = [(one, one.status or "ACTIVE") for one in listed]
    topologies = [
        one
        for one, status in every
        if wanted in (one.id, one.name) or (not wanted and status == "ACTIVE")
    ]
    if not topologies:
        reason = f"has no topology {wanted!r}" if wanted else "has no active topology"
        available = [f"{one.name} ({status})" for one, status in every]
        remedy = f"there is {some(sorted(available), 5)}" if available else "submit one first"
        raise InvalidInput(Problem(address, None, reason, remedy))
    return topologies


def add_supervisors(page: Supervisors, supervisors: dict[str, Supervisor], ledger: Ledger) -> None:
    """Add what hosts offer, by host."""
    by_host: dict[str, Supervisor] = {}
    for entry in page.supervisors:
        if entry.host in by_host:
            ledger.reading(f"supervisors on the same host ({entry.host}) are one node")
            by_host[entry.host] = by_host[entry.host].with_another(entry)
        else:
            by_host[entry.host] = entry
    supervisors |= by_host


def take_topology(topology: Topology, path: str, ledger: Ledger) -> None:
    """Take up the components of a topology, of a page named `path`."""
    topology.path = path
    parts: dict[str, Sequence[Component]] = {"spout": topology.spouts, "bolt": topology.bolts}
    for kind, entries in parts.items():
        for i, part in enumerate(entries):
            if part.name in topology.components:
                ledger.problem(f"{path}.{kind}s[{i}].{kind}Id", part.name, "stands twice")
            if part.name != SYSTEM:
                topology.components[part.name] = part


def ports_of(topology: Topology) -> tuple[dict[str, set[int]], bool]:
    """Return the ports a topology's workers are on, by host, and whether these are all.

    Workers name them, and so do executors; a host of executors without a port has an empty set.
    """
    by_host: dict[str, set[int]] = {}
    for worker in topology.processes:
        if worker.host is not None and worker.port is not None:
            by_host.setdefault(worker.host, set()).add(worker.port)
    listed = bool(by_host)
    executors = topology.known_executors
    for executor in executors:
        if executor.host is not None:
            ports = by_host.setdefault(executor.host, set())
            ports.update(() if executor.port is None else (executor.port,))
    all_placed = all(e.host is not None and e.port is not None for e in executors)
    return by_host, listed or (bool(executors) and all_placed)


def take_component(page: ComponentPage, path: str, ledger: Ledger, topology: Topology) -> None:
    """Give a component of a topology its executors and inputs."""
    if page.id == SYSTEM:
        return
    part = topology.components.get(page.id)
    if part is None:
        ledger.problem(f"{path}.id", page.id, f"is no component of {topology.name}")
        return
    part.window = page.window
    part.cpu_request = page.cpu_request or part.cpu_request
    part.memory = page.memory or part.memory
    names: set[str] = set()
    for i, executor in enumerate(page.executorStats):
        if executor.name in names:
            ledger.problem(f"{path}.executorStats[{i}].id", executor.name, "stands twice")
        names.add(executor.name)
    # in order of their first tasks: [FIRST-LAST]
    first = {name: int(m[1]) if (m := re.match(r"\[(\d{1,12})-", name)) else 0 for name in names}
    part.executors = sorted(page.executorStats, key=lambda one: (first[one.name], one.name))
    for source in page.inputStats:
        key = (source.component, source.stream or "default")
        # what is not known is not 0: then the sender's count is taken
        if source.executed is not None:
            part.inputs[key] = part.inputs.get(key, 0.0) + source.executed


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
        return Topology
    marks: dict[str, Any] = {"executorStats": ComponentPage, "componentType": ComponentPage}
    marks["supervisors"] = Supervisors
    kind = kind_by_field(document, marks, "expected a page of the UI", ledger)
    if kind is not None or not isinstance(value, dict):
        return kind
    # a visualization has a key for each component, and no name of its own
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
    topologies: list[Topology] = []
    for name, page in pages.get(Topology, ()):
        take_topology(page, name, ledger)
        topologies.append(page)
    ledger.check()  # what a page that cannot be read lacks is no problem of the others
    for name, page in pages.get(ComponentPage, ()):
        # pages of old versions do not name their topology
        matching = [t for t in topologies if t.id == page.topologyId]
        if page.topologyId is None and len(topologies) == 1:
            matching = topologies
        if not matching:
            reason, remedy = "is the id of no topology page", "save that page too"
            ledger.problem(f"{name}.topologyId", page.topologyId, reason, remedy)
        else:
            take_component(page, name, ledger, matching[0])
    for name, page in pages.get(dict[str, Pictured], ()):
        owner = _pictured(name, page, topologies)
        if owner is None:
            ledger.warn(f"{name} fits no single topology page, and is left out")
        else:
            take_visualization(page, owner)
    return supervisors, topologies


def _pictured(path: str, page: dict[str, Pictured], topologies: list[Topology]) -> Topology | None:
    """Return the topology of a visualization, which names components but not its topology."""
    # the path decides, where it holds the topology's id; else the components do
    by_path = [t for t in topologies if t.id in path]
    fitting = [t for t in topologies if page.keys() & t.components.keys()]
    whole = [t for t in fitting if t.components.keys() <= page.keys()]
    return next((group[0] for group in (by_path, whole, fitting) if len(group) == 1), None)
