"""From Flink's tables to the document of an instance: edges, loads, slots, and what is noted.

What task managers run on: cores, links and racks of their hosts.
"""

from __future__ import annotations

import math
import re
from collections import ChainMap, Counter
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from optim.errors import InvalidInput, Problem, problems_in
from optim.format.document import INSTANCE_FORMAT, parse_json, validate
from streamplace.clusters.exchange.declarations import Ledger, weigh
from streamplace.clusters.exchange.sources import read_text
from streamplace.clusters.flink.pages import ENDED, MEAN, MOST_SUBTASKS, RUNNING
from streamplace.clusters.flink.units import (
    POINTWISE,
    Contents,
    is_sharing,
    slot_shares,
    slots_held,
    slots_taken,
    topology_of,
    units_of,
)
from streamplace.present.numbers import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from streamplace.clusters.flink.pages import Job, Subtask, TaskManager, Vertex
    from streamplace.clusters.flink.units import Unit

_LINK = re.compile(r"(\d+(?:\.\d*)?) ?([kMGT]?)(bit|b|B)(?:/s|ps)?")
_SCALE = {"": 1e-6, "k": 1e-3, "M": 1.0, "G": 1e3, "T": 1e6}
_EVERY = "*"
_ROUNDING = 1.01
"""Configured cores may exceed the machine's by rounding before a warning is due."""


class _Host(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    link: str | None = None
    cores: float | None = Field(None, gt=0, le=1e6)
    rack: str | None = Field(None, min_length=1, max_length=1000)


_HOSTS = TypeAdapter(dict[str, _Host])


class Hosts:
    """Hosts of task managers, with what the user says of them (options of the importer).

    Task managers of one host share its link and its cores.
    """

    def __init__(
        self, managers: list[TaskManager], options: Mapping[str, Any], ledger: Ledger
    ) -> None:
        self._ledger = ledger
        self._hosts = _read_file(options["hosts"]) if options["hosts"] else {}
        self._rate = options["link_rate"]
        self._cores = options["cores"]
        self._on: dict[str, list[TaskManager]] = {}
        for manager in managers:
            self._on.setdefault(manager.host, []).append(manager)
        names = {_EVERY, *self._on, *(m.id for m in managers)}
        for name in sorted(self._hosts.keys() - names):
            hosts = listed(sorted(self._on), 5)
            ledger.problem(f"{options['hosts']}: {name}", None, "is no host", f"there is {hosts}")
        self._over = self._overcommitted()

    def _of(self, manager: TaskManager) -> _Host:
        """Return what is said of a task manager: by its id, its host, or for all."""
        entries = [self._hosts[k] for k in (manager.id, manager.host, _EVERY) if k in self._hosts]
        merged = ChainMap(*(host.model_dump(exclude_none=True) for host in entries))
        return _Host.model_construct(**merged)

    def cores(self, manager: TaskManager) -> float | None:
        """Return the CPU a task manager has, in cores."""
        declared = self._of(manager).cores
        over = self._cores == "auto" and manager.host in self._over
        if declared is None and self._cores != "hardware" and not over and manager.configured:
            return manager.configured
        of_manager = self._hosts.get(manager.id)
        if of_manager is not None and of_manager.cores and manager.id not in self._on:
            return declared
        # the machine's cores, or those said of the host, are divided by slots
        managers = self._on[manager.host]
        machine = max((m.machine for m in managers if m.machine), default=None)
        total = machine if declared is None else declared
        if total is None:
            return manager.configured
        slots = sum(m.slots for m in managers)
        if len(managers) > 1:
            self._ledger.reading("cores of a host are divided among its task managers by slots")
        return total * (manager.slots / slots if slots else 1 / len(managers))

    def describe(self, manager: TaskManager) -> dict[str, Any]:
        """Return the labels and the rack of a node."""
        labels = {
            "taskHeapMemory": manager.memory,
            "host": manager.host if manager.host != manager.id else "",
            "cores configured": f"{manager.configured:g}" if manager.configured else "",
            "cores of the machine": f"{manager.machine:g}" if manager.machine else "",
        }
        rack = self._of(manager).rack
        entry: dict[str, Any] = {"labels": {k: v for k, v in labels.items() if v}}
        return entry if rack is None else {**entry, "rack": rack}

    def links(self) -> list[dict[str, Any]]:
        """Return an uplink and a downlink a host, where their rate is known."""
        links = []
        for host, managers in self._on.items():
            ids = [m.id for m in managers]
            # one link a host: that of any of its task managers, of the host, or of all
            rates = [self._hosts[k].link for k in (*ids, host, _EVERY) if k in self._hosts]
            link = next(filter(None, rates), self._rate)
            if not link:
                continue
            capacity = megabytes(link, f"link of {host}")
            for way in ("out", "in"):
                entry = {"id": f"{host} {way}", "nodes": ids, "capacity": capacity}
                links.append({**entry, "direction": way})
        if links:
            self._ledger.reading("a host's link carries its rate each way at the same time")
        if links and len(self._on) == 1:
            self._ledger.warn("all task managers are on one host: nothing crosses its link")
        return links

    def _overcommitted(self) -> set[str]:
        """Return the hosts whose task managers are configured for more than their machine has."""
        hosts = set()
        for host, managers in self._on.items():
            real = max((m.machine for m in managers if m.machine), default=None)
            configured = sum(m.configured or 0.0 for m in managers)
            if real is None or configured <= _ROUNDING * real or self._cores == "hardware":
                continue
            hosts.add(host)
            done = "--option cores=hardware counts those"
            if self._cores == "auto":
                done = "those count, divided by slots (--option cores=configured)"
            self._ledger.warn(
                f"task managers on {host} are configured for {configured:g} cores, the machine has "
                f"{real:g}: {done}"
            )
        return hosts


def megabytes(text: str, path: str = "--option link_rate") -> float:
    """Return the rate of a link in MB/s: ``1Gbit`` is 125, ``40 MB/s`` is 40."""
    match = _LINK.fullmatch(text.strip())
    rate = float(match[1]) * _SCALE[match[2]] if match else 0.0
    if match is None or not 0 < rate <= 1e12:
        raise InvalidInput(Problem(path, text, "is no rate of a link", "such as 1Gbit or 40MB/s"))
    return rate if match[3] == "B" else rate / 8


def _read_file(name: str) -> dict[str, _Host]:
    with problems_in(name):
        hosts = validate(_HOSTS, parse_json(read_text(Path(name)).encode()))
    for host, host_entry in hosts.items():
        if host_entry.link:
            megabytes(host_entry.link, f"{name}: {host}.link")
    return hosts


MB = 1e6
_MOST_PAIRS = 1_000_000
"""Pairs of tasks between which traffic is written."""
_UNEVEN = 1.1
"""Most key groups of a subtask, by the mean, from which on a warning is due."""
_NAMED = 5
_FITTINGS, _FITTED = 200, 1e-9
"""Most rounds in which outputs are fitted, and the relative change that ends them."""
NO_PRICE = (
    "no --link-rate: what crosses task managers costs nothing, so that `solve` gathers the job on "
    "as few as their CPU allows; `solve --objective load_distance` spreads it evenly, --objective "
    "sustainable_rate (the default with --link-rate RATE) lets it carry the most, --limit "
    "max_utilisation.cpu=0.8 leaves room"
)


class Edge(NamedTuple):
    """What one vertex sends to another, in bytes/s, and whether index by index (or block)."""

    job: str
    sender: str
    receiver: str
    rate: float
    pointwise: bool


def edges_of(job: Job, ledger: Ledger) -> Iterator[Edge]:
    """Give each edge of the plan its rate: what the receiver reads, shared by its senders."""
    outputs = _outputs(job)
    for vertex in job.vertices.values():
        senders = list(dict.fromkeys(sender for sender, _ in vertex.inputs))
        running = [s for s in senders if job.vertices[s].running]
        written = {s: outputs[s, vertex.id] for s in running}
        read = vertex.total("read")
        if len(running) > 1:
            ledger.reading(
                "what a vertex of several inputs reads is shared by what its senders write"
            )
        for sender in senders:
            if sender == vertex.id:
                ledger.warn(f"{vertex.title} reads itself: left out")
                continue
            strategies = {s for source, s in vertex.inputs if source == sender}
            if strategies & {"GLOBAL", "CUSTOM"}:
                ledger.reading("custom partitioning is taken as an even spread over all pairs")
            # what is read counts: bytes that were written may wait in buffers
            rate = _rate(read, written, sender) if sender in written else 0.0
            if rate is None:
                title = job.vertices[sender].title
                ledger.warn(f"what {title} sends to {vertex.title} is on no page: counted as 0")
            yield Edge(job.id, sender, vertex.id, rate or 0.0, strategies <= POINTWISE)


def _outputs(job: Job) -> dict[tuple[str, str], float | None]:
    """Return what each running sender writes for each receiver; ``None`` where it is unknown."""
    # Flink counts the bytes of all outputs of a vertex together. A receiver of one sender reads
    # what it reports; the rest is divided so that the others do, too, by iterative proportional
    # fitting (Deming and Stephan 1940, https://doi.org/10.1214/aoms/1177731829)
    edges = [
        (sender, vertex.id)
        for vertex in job.vertices.values()
        for sender in dict.fromkeys(sender for sender, _ in vertex.inputs)
        if job.vertices[sender].running
    ]
    rest = {sender: job.vertices[sender].total("written") for sender, _ in edges}
    outputs = {edge: rest[edge[0]] for edge in edges}
    of_receiver = _grouped(edges, 1)
    reads = {receiver: job.vertices[receiver].total("read") for receiver in of_receiver}
    for receiver, (edge, *others) in of_receiver.items():
        written, read = rest[edge[0]], reads[receiver]
        if not others and written is not None and read is not None:
            outputs[edge], rest[edge[0]] = read, max(0.0, written - read)
            edges.remove(edge)
    # per edge: bytes/s that are written, first as if all of the rest were for this receiver
    flows = {e: value for e in edges if (value := rest[e[0]]) is not None}
    columns = [
        (members, reads[receiver])
        for receiver, members in _grouped(edges, 1).items()
        if all(edge in flows for edge in members)
    ]
    # rows are last, so that they hold exactly: what waits in buffers makes reads differ
    rows = [(members, rest[sender]) for sender, members in _grouped(flows, 0).items()]
    for _ in range(_FITTINGS if any(len(members) > 1 for members, _ in rows) else 0):
        before = dict(flows)
        for members, total in (*columns, *rows):
            value = sum(flows[edge] for edge in members)
            if total is not None and value > 0:
                flows.update((edge, flows[edge] / value * total) for edge in members)
        if all(abs(flows[edge] - x) <= _FITTED * x for edge, x in before.items()):
            break
    return {**outputs, **flows}


def _grouped(edges: Iterable[tuple[str, str]], end: int) -> dict[str, list[tuple[str, str]]]:
    """Return edges by their sender (`end` 0) or receiver (1)."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for edge in edges:
        groups.setdefault(edge[end], []).append(edge)
    return groups


def _rate(read: float | None, written: dict[str, float | None], sender: str) -> float | None:
    """Return a sender's part of what a vertex reads: in proportion to what each sender writes."""
    # senders of which that is unknown share what the others leave. `None` where nothing is known
    of_sender = written[sender]
    if read is None:
        return of_sender
    total = sum(value for value in written.values() if value is not None)
    unknown = sum(1 for value in written.values() if value is None)
    if of_sender is None:
        return max(0.0, read - total) / unknown
    if total <= 0:
        return 0.0 if unknown else read / len(written)
    return of_sender * (read / total if total > read or not unknown else 1.0)


def stays_inside(edge: Edge, unit: Unit) -> bool:
    """Whether an edge between two vertices of a unit goes from a subtask to one in its own slot."""
    vertices = unit.job.vertices
    alike = vertices[edge.sender].parallelism == vertices[edge.receiver].parallelism
    return edge.pointwise and alike


def traffic_of(
    edges: list[Edge], units: list[Unit], contents: Contents, ledger: Ledger
) -> tuple[list[dict[str, Any]], list[tuple[str, str, float]]]:
    """Return streams between units, and pairs of tasks where a stream would not say who talks.

    Flink gives subtasks to slots as it likes, so that what is left between units is an even spread
    in the mean, whatever its pattern: one to one is only had within a unit. Pairs stand for what
    flows among the slots of one unit, and between units where a task holds no running subtask of
    the sender or the receiver.
    """
    unit_of = {(unit.job.id, v.id): unit for unit in units for v in unit.vertices}
    between: dict[tuple[str, str], list[Edge]] = {}
    for edge in edges:
        sender, receiver = unit_of[edge.job, edge.sender], unit_of[edge.job, edge.receiver]
        if sender is receiver and stays_inside(edge, sender):
            ledger.reading("what a subtask forwards within its slot is no traffic")
            continue
        between.setdefault((sender.name, receiver.name), []).append(edge)
        if sender is not receiver and edge.pointwise:
            ledger.reading(
                "FORWARD and RESCALE between units are an even spread: Flink decides which "
                "index goes where"
            )
    width = {unit.name: unit.width for unit in units}
    streams, pairs = [], []
    left = _MOST_PAIRS
    for (a, b), parts in between.items():
        if a != b:
            streams.append({"from": a, "to": b, "rate": sum(e.rate for e in parts) / MB})
        # each task of both ends holds one running subtask: the stream alone says who talks
        whole = a != b and all(
            (contents.per_task(e.job, v) == 1).all() for e in parts for v in e[1:3]
        )
        parts = [edge for edge in parts if edge.rate > 0]
        if whole or not parts:
            continue
        # the budget of pairs is of the whole instance, in order of the edges
        left -= width[a] * width[b]
        if left >= 0:
            pairs += _pairs(a, b, (width[a], width[b]), parts, contents)
        elif a == b:
            reason = "slots are too many to write who talks to whom"
            ledger.problem(a, width[a], reason, "--option place=subtasks")
        else:
            ledger.reading("streams of very many pairs of subtasks are spread over all of them")
    return streams, pairs


def _pairs(
    a: str, b: str, widths: tuple[int, int], edges: list[Edge], contents: Contents
) -> list[tuple[str, str, float]]:
    """Return who talks to whom: each running sender to each running receiver the same."""
    rates = np.zeros(widths)
    for edge in edges:
        senders = contents.per_task(edge.job, edge.sender)
        receivers = contents.per_task(edge.job, edge.receiver)
        if number := senders.sum() * receivers.sum():
            # (senders, receivers) MB/s: rate / (number of pairs) for each running pair
            rates += edge.rate / MB / number * np.outer(senders, receivers)
    if a == b:
        np.fill_diagonal(rates, 0.0)
    return [
        (f"{a}/{i}", f"{b}/{j}", float(rates[i, j])) for i, j in np.argwhere(rates > 0).tolist()
    ]


def _warn_of_jobs(jobs: Sequence[Job], ledger: Ledger) -> None:
    """Warn of what has ended, of back-pressure, uneven key groups, and the adaptive scheduler."""
    for job in jobs:
        for vertex in job.vertices.values():
            _warn_of_ended(vertex, ledger)
        if names := [f"{title} {share:.0%}" for title, share in job.pressed.items()]:
            ledger.warn(
                f"{job.name} is back-pressured ({listed(names, _NAMED)} of the time): it is "
                "at its limit, and the rates are what it carries, not what arrives"
            )
        for vertex in job.vertices.values():
            _warn_of_key_groups(vertex, ledger)
        if (job.scheduler or "").lower().startswith("adaptive"):
            ledger.warn(
                f"{job.name} runs under the {job.scheduler} scheduler, which chooses parallelism "
                "itself and takes no groups of `export flink`: its plan holds until the next "
                "rescaling, and needs jobmanager.scheduler: Default to be submitted"
            )


def _warn_of_ended(vertex: Vertex, ledger: Ledger) -> None:
    states = Counter(s.state or "" for s in vertex.everyone() if s.ended)
    ended = ", ".join(f"{number} {state}" for state, number in sorted(states.items()))
    advice = "" if set(states) == {"FINISHED"} else "; import again once the job has recovered"
    if states:
        ledger.warn(
            f"{vertex.title}: of {vertex.parallelism} subtasks {ended}: no CPU, slot or "
            f"traffic of theirs is counted, though a new start runs them again{advice}"
        )


def _warn_of_key_groups(vertex: Vertex, ledger: Ledger) -> None:
    """Warn where key groups, which are not split, do not divide evenly among the subtasks."""
    groups, width = vertex.most, vertex.parallelism
    if not groups or not 1 < width < groups or not any(how == "HASH" for _, how in vertex.inputs):
        return
    least, rest = divmod(groups, width)
    # most groups on a subtask / mean = ⌈groups / width⌉ · width / groups
    if (least + (rest > 0)) * width <= _UNEVEN * groups:
        return
    # nearest divisors of the number of key groups
    fewer = next(n for n in range(width, 0, -1) if groups % n == 0)
    more = next(n for n in range(width, groups + 1) if groups % n == 0)
    ledger.warn(
        f"{vertex.title}: {groups} key groups on {width} subtasks: {rest} have "
        f"{least + 1}, {width - rest} have {least}, up to "
        f"{(least + 1) * width / groups:.2f} × the mean; {fewer} or {more} subtasks have the same"
    )


def build_document(
    managers: list[TaskManager],
    jobs: list[Job],
    others: list[Job],
    options: Mapping[str, Any],
    ledger: Ledger,
) -> dict[str, Any]:
    """Put task managers and jobs together.

    Slots and CPU of `others`, running jobs that are not imported, are subtracted.
    """
    locator = _Locator(managers, ledger)
    _place_all(jobs, locator, ledger)
    _check_running(jobs, ledger)
    ledger.check()
    _place_all(others, locator, Ledger())  # what is odd there is no concern of ours
    running = [job for job in jobs if job.running]
    place, slots = options["place"], options["slots"]
    sharing = is_sharing(managers, [*running, *others], slots, ledger)
    units = units_of(jobs, place, sharing)
    imported = slots_held(running, sharing)
    foreign = slots_taken(managers, imported, slots_held(others, sharing), ledger)
    shares = {} if slots == "free" else slot_shares(jobs, sharing)
    edges = [edge for job in jobs for edge in edges_of(job, ledger)]
    _check_rates(edges, jobs, options["idle"], ledger)
    loads = options["loads"]
    measured = loads == "measured" or (loads == "auto" and place == "slots")
    contents = Contents(units, measured, ledger)
    streams, traffic = traffic_of(edges, units, contents, ledger)
    operators = [_operator(unit, jobs) for unit in units]
    tasks = [entry for unit in units for entry in _tasks(unit, contents, shares, place, ledger)]
    _note_figures(jobs, options["cpu"] == "busy", ledger)
    _warn_of_jobs(jobs, ledger)
    hosts = Hosts(managers, options, ledger)
    links = hosts.links()
    if len(managers) > 1 and not links and not options["crossing_cost"]:
        ledger.warn(NO_PRICE)
    resources = ["cpu", "slot"] if shares else ["cpu"]
    room = _room(managers, foreign, tasks) if shares else {}
    background = _cpu_elsewhere(others, ledger)
    standing = options["standing"]
    nodes = [
        _node(m, hosts, room.get(m.id), background.get(m.id, 0.0) + standing, ledger)
        for m in managers
    ]
    ledger.check()
    weigh(nodes, tasks, resources[0], ledger)
    return {
        "format": INSTANCE_FORMAT,
        "name": ("flink " + " ".join(sorted(job.name for job in jobs)))[:200],
        "units": {"cpu": "cores", "rate": "MB/s"},
        "labels": {"system": "flink", "place": place}
        | {f"job {topology_of(job, jobs)}": job.id for job in jobs}
        | {f"scheduler {topology_of(j, jobs)}": j.scheduler for j in jobs if j.scheduler},
        "resources": resources,
        "nodes": nodes,
        "links": links,
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
    if pressed := [x for vertex in unit.vertices if (x := vertex.pressure) is not None]:
        labels["back-pressured"] = f"{max(pressed):.2f}"
    if most := [vertex.most for vertex in unit.vertices if vertex.most]:
        labels["max parallelism"] = str(min(most))
    operator = {"id": unit.name, "topology": topology_of(unit.job, jobs), "labels": labels, **role}
    return {**operator, "max_load": {"cpu": 1.0}}  # a subtask is one thread


def _tasks(
    unit: Unit, contents: Contents, shares: dict[tuple[str, str], float], place: str, ledger: Ledger
) -> list[dict[str, Any]]:
    """Return the tasks of a unit, with load, share of a slot, and where they are now."""
    cpu, fullest = (values.tolist() for values in contents.cpu(unit))
    slots = contents.slots(unit, shares, place == "slots").tolist() if shares else []
    if place == "slots" and len(set(cpu)) > 1:
        ledger.reading(
            "a slot's load is what is in it now: when a job starts anew, Flink assigns its "
            "subtasks to slots again"
        )
    return [
        {
            "id": f"{unit.name}/{i}",
            "operator": unit.name,
            "load": {"cpu": cpu[i], **({"slot": slots[i]} if shares else {})},
        }
        | _limit(cpu[i], fullest[i])
        | ({} if node is None else {"node": node})
        for i, node in enumerate(contents.where[unit.name])
    ]


def _limit(load: float, fullest: float) -> dict[str, Any]:
    """Return what the threads of a task can use, where that is not the one core of a single one."""
    # its subtasks are a thread each, so that it carries 1 / `fullest` of the current input, the
    # share of time that the busiest of them works; what runs now can
    # 9 digits: no limit that is below the load by rounding
    most = round(load / min(1.0, fullest), 9) if fullest > 0 else 1.0
    return {} if most == 1.0 else {"max_load": {"cpu": max(most, load)}}


def _room(
    managers: list[TaskManager], foreign: Counter[str], tasks: list[dict[str, Any]]
) -> dict[str, float]:
    """Return the slots of each task manager for a plan: at least what is there now."""
    occupied: dict[str, float] = {}
    for task in tasks:
        if "node" in task:
            occupied[task["node"]] = occupied.get(task["node"], 0.0) + task["load"]["slot"]
    return {m.id: max(float(m.slots - foreign[m.id]), occupied.get(m.id, 0.0)) for m in managers}


def _check_running(jobs: list[Job], ledger: Ledger) -> None:
    reason = "is not running: the job starts, restarts or waits for slots"
    for job in jobs:
        remedy = f"wait until all run; /jobs/{job.id}/exceptions may say why they do not"
        for vertex in job.vertices.values() if job.running else ():
            odd = (s for s in vertex.subtasks.values() if s.state not in (None, RUNNING, *ENDED))
            for subtask in islice(odd, 1):
                path = f"{job.path}: {vertex.title}/{subtask.index}"
                ledger.problem(path, subtask.state, reason, remedy)


def _check_rates(edges: list[Edge], jobs: list[Job], idle: bool, ledger: Ledger) -> None:
    """Refuse a job through which nothing flows; warn of one that has only begun."""
    for job in jobs:
        rates = [edge.rate for edge in edges if edge.job == job.id]
        if rates and not any(rates) and not idle:
            reason = "nothing flows: the job stands still, or was never asked for its metrics"
            remedy = "import again while it works, or --option idle=true takes it so"
            ledger.problem(f"{job.path}: rates", 0, reason, remedy)
        ages = (subtask.seconds for subtask in job.everyone() if not subtask.ended)
        youngest = min((age for age in ages if age is not None), default=MEAN)
        if job.running and youngest < MEAN:
            ledger.warn(
                f"{job.name} has subtasks that run for {youngest:.0f} s: rates of the first "
                f"{MEAN:.0f} s may be those of its start"
            )


class _Locator:
    """Task managers by what subtasks say of their place."""

    def __init__(self, managers: list[TaskManager], ledger: Ledger) -> None:
        self.ids: set[str] = set()
        for manager in managers:
            if manager.id in self.ids:
                ledger.problem("taskmanagers: id", manager.id, "stands twice")
            self.ids.add(manager.id)
        # an address of several task managers names none of them
        counts: Counter[str] = Counter(a for m in managers for a in dict.fromkeys(m.addresses))
        self._at = {a: m.id for m in managers for a in m.addresses if counts[a] == 1}
        self._shared = {a for a in counts if counts[a] > 1}
        self.first = min(self.ids, default=None)

    def find(self, subtask: Subtask) -> str | None:
        """Return the id of a subtask's task manager by what is surest: id, host and port, host."""
        manager, host = subtask.place
        if manager in self.ids:
            return manager
        for address in (host, host.rsplit(":", 1)[0]) if host else ():
            if address in self._at:
                return self._at[address]
            if address in self.ids and address not in self._shared:
                return address
        return None


def _place(vertex: Vertex, path: str, locator: _Locator, ledger: Ledger) -> None:
    """Give each subtask of a vertex its task manager; those that no page reports are made."""
    if vertex.parallelism > MOST_SUBTASKS:
        ledger.problem(f"{path}.parallelism", vertex.parallelism, f"is more than {MOST_SUBTASKS}")
        return
    if beyond := [i for i in vertex.subtasks if i >= vertex.parallelism]:
        reason = f"is beyond the parallelism of {vertex.parallelism}"
        ledger.problem(f"{path}.subtasks", beyond[0], reason, "save all pages at one time")
    unknown = 0
    for index, subtask in enumerate(vertex.everyone()):
        vertex.subtasks[index] = subtask
        subtask.node = locator.find(subtask)
        if subtask.ended and subtask.node is None:
            subtask.node = locator.first  # it uses nothing there
        elif not subtask.ended and (name := subtask.place[0]) and name not in locator.ids:
            reason = "is a task manager that is not listed: it left or came while pages were read"
            ledger.problem(f"{path}: subtask {index}", name, reason, "import again")
        unknown += subtask.node is None
    if unknown:
        ledger.warn(f"where {unknown} subtasks of {vertex.title} run is not known")


def _place_all(jobs: list[Job], locator: _Locator, ledger: Ledger) -> None:
    for job in jobs:
        for vertex in job.vertices.values():
            _place(vertex, f"{job.path}: vertex {vertex.id}", locator, ledger)


def _cpu_elsewhere(jobs: list[Job], ledger: Ledger) -> dict[str, float]:
    """Return what subtasks that are not imported use, by task manager, in cores."""
    cpu: dict[str, float] = {}
    for subtask in (subtask for job in jobs for subtask in job.everyone()):
        if subtask.node is not None and subtask.busy:
            cpu[subtask.node] = cpu.get(subtask.node, 0.0) + subtask.busy
            ledger.reading("CPU of running jobs that are not imported is background")
    return cpu


def _node(
    manager: TaskManager, hosts: Hosts, room: float | None, background: float, ledger: Ledger
) -> dict[str, Any]:
    cores = hosts.cores(manager)
    if not cores:
        remedy = "--option hosts=FILE sets them"
        ledger.warn(f"{manager.id} reports no cores: its CPU is unbounded ({remedy})")
    if manager.reached is not None and manager.reached < (cores or math.inf):
        ledger.warn(
            f"{manager.id}: its subtasks hold their senders back, and its process computes "
            f"{manager.reached:.2g} cores{f' of {cores:.2g}' if cores else ''}: that counts as its "
            "capacity, as it gets no more from its machine (or waits for something outside)"
        )
        cores = manager.reached
    capacity = {**({"cpu": cores} if cores else {}), **({} if room is None else {"slot": room})}
    entry = {"id": manager.id, "capacity": capacity, **hosts.describe(manager)}
    if manager.blocked is True:
        entry["leaving"] = True
        ledger.warn(f"{manager.id} is blocked: Flink gives it no subtasks: leaving")
    return {**entry, "background": {"cpu": background}} if background else entry


def _note_figures(jobs: list[Job], busy: bool, ledger: Ledger) -> None:
    rates = [vertex.rates("busy") for job in jobs for vertex in job.vertices.values()]
    total = sum(map(len, rates))
    if silent := sum(busy.count(None) for busy in rates):
        alone = sum(len(busy) for busy in rates if not any(one is not None for one in busy))
        zero = f", and as 0 for the {alone} of vertices of which none is known" if alone else ""
        text = f"no busy time for {silent} of {total} subtasks: their CPU counts as the mean of"
        ledger.warn(f"{text} their vertex{zero}")
    spans = [
        reading.seconds
        for job in jobs
        for subtask in job.everyone()
        for reading in subtask.readings.values()
        if reading.rate is not None and reading.seconds is not None and not subtask.ended
    ]
    if spans:
        ledger.reading(f"figures are means over {min(spans):.0f} s to {max(spans):.0f} s")
    if busy:
        ledger.reading("a subtask's CPU is the share of time it is busy, in cores")
    ledger.reading("HASH, REBALANCE and the like are an even spread over all pairs of subtasks")
