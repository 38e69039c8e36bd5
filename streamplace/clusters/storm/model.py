"""From Storm's tables to the document of an instance.

Storm reports how many tuples a bolt executed by sender and stream, and how many each executor sent
and executed; no interface reports executor to executor. A sender's share is its share of what its
component sent. What a receiver gets of each sender follows the grouping:

=================================  ==============================================================
shuffle, local_or_shuffle          every executor the same; since Storm 2, unless it is set
                                   otherwise, whoever is near (a `local_first` stream)
none                               every executor the same
all                                every executor the same: what was executed holds the copies
global                             all to the executor with the lowest task
fields, direct, partial key,       in proportion to what each executor executed: keys are skewed
custom, unknown
=================================  ==============================================================

Executors that Storm adds to a topology, ackers and the like, take CPU, memory and room in slots as
the others do. Where the pages say which and where they are they become tasks; else what they take
is background of the hosts of the topology's workers.

Constraints that a topology's configuration sets are rules of the instance:

=====================================  ==========================================================
``topology.ras.constraints``           component to ``maxNodeCoLocationCnt`` (at most so many of
                                       its executors on a node) and ``incompatibleComponents``
                                       (no worker has executors of both); before 2.0 a list of
                                       pairs of components
``topology.spread.components``         components of which a node has one executor at most, where
                                       the other key says nothing of that
``isolation.scheduler.machines``       topology to the number of machines that it has for itself
=====================================  ==========================================================

As Storm's ``ConstraintSolverConfig`` reads them: what names no component, or is no number from 1,
is warned of and left out. Storm keeps them with the scheduler that knows them; a plan keeps them in
any case.
"""

from __future__ import annotations

from collections import Counter
from itertools import cycle, islice, product
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.format.document import INSTANCE_FORMAT
from streamplace.clusters.exchange.declarations import weigh
from streamplace.clusters.exchange.pages import Reading, as_whole, completed
from streamplace.clusters.storm.pages import (
    LOCAL_FIRST,
    SYSTEM,
    Bolt,
    Component,
    Executor,
    Worker,
    ports_of,
)
from streamplace.present.numbers import listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from optim.format.tables import Floats
    from streamplace.clusters.exchange.declarations import Ledger
    from streamplace.clusters.storm.pages import Supervisor, Topology


_FULL = 2.0
"""Capacity from which on a warning is due; 1 is all the time, which samples exceed a little."""
_MEMORY, _CPU = 128.0, 10.0
"""What Storm takes a component to need that says nothing: MB, percent of a core."""
FIRST_PORT = 6700
"""Storm's first worker port where nothing else is configured."""
PORTS = "ports"
"""Node label: the worker ports in slot order; ``+1``, ``+2``, … for idle slots of unknown port."""
MOST_PAIRS = 5_000_000
MOST_SLOTS = 10_000
_EVEN = {"shuffle", "none", "localorshuffle", "all"}
_GLOBAL = {"global"}
_SHUFFLED = {"shuffle", "localorshuffle"}
_SWITCH, _BOUND = "topology.disable.loadaware.messaging", "topology.localityaware.higher.bound"
"""Whether shuffle is even; what only versions have whose shuffle prefers who is near (2.0 on)."""


def add_system_executors(topology: Topology, ledger: Ledger) -> None:
    """Add the executors that run but that no component page reports."""
    _share_memory(topology, ledger)
    system = [part for part in topology.components.values() if part.is_system]
    on_pages = {part.name for part in system if part.executors}
    for part in system:
        if part.name not in on_pages:
            del topology.components[part.name]
    # executors that run less those whose page is there; the topology's own total is surer
    if topology.executors is None:
        missing = sum(part.count for part in system if part.name not in on_pages)
    else:
        missing = max(0, topology.executors - len(topology.known_executors))
    parts = [part for part in topology.components.values() if part.executors]
    no_memory = [part for part in parts if not part.memory]
    # system executors report no capacity: what they take is shared out of their workers'
    no_cpu = [p for p in parts if p.is_system and all(e.busy is None for e in p.executors)]
    no_cpu = [part for part in no_cpu if part.cpu_request is None]
    at = _at_workers(topology)
    memory, cpu = _needs(topology, at, [missing + _size(some) for some in (no_memory, no_cpu)])
    for part in no_cpu:
        part.cpu_request = cpu
    for part in no_memory if memory else ():
        part.memory = memory
        ledger.reading(f"{part.name} requests no memory: {memory:g} MB an executor is assumed")
    if not missing:
        return
    workers_of = _system_workers(at, on_pages, missing)
    for name, workers in workers_of.items():
        part = Bolt.model_construct(name=name, count=len(workers), cpu_request=cpu)
        part.memory = memory
        part.executors = [
            Executor.model_construct(name=f"#{i}", host=worker.host, port=worker.port)
            for i, worker in enumerate(workers)
        ]
        topology.components[name] = part
    if placed := sum(map(len, workers_of.values())):
        ledger.reading(
            f"{placed} system executors ({', '.join(sorted(workers_of))}) are tasks, by what the "
            "topology's page says of its workers"
        )
    if missing > placed:
        _reserve(topology, at, missing - placed, (cpu or 0.0, memory), ledger)


def _share_memory(topology: Topology, ledger: Ledger) -> None:
    """Give executors their part of what workers are assigned, where no component requests any."""
    parts = list(topology.components.values())
    reporting = [w for w in topology.processes if w.memory is not None and w.executors]
    if any(part.memory for part in parts) or not reporting:
        return
    # MB per executor = assigned memory of all workers / their executors
    share = sum(w.memory or 0.0 for w in reporting) / sum(w.executors or 0 for w in reporting)
    for part in parts:
        part.memory = share
    ledger.reading("executors' memory is their part of what their workers are assigned")


_Workers = list[tuple[Worker, list[Component]]]
"""Workers, each with the component of every executor that is known to be there."""


def _at_workers(topology: Topology) -> _Workers:
    parts_at: dict[tuple[str, int], list[Component]] = {}
    for part in topology.components.values():
        for executor in part.executors:
            if executor.host is not None and executor.port is not None:
                parts_at.setdefault((executor.host, executor.port), []).append(part)
    pairs: _Workers = []
    for worker in topology.processes:
        if worker.host is not None and worker.port is not None:
            pairs.append((worker, parts_at.pop((worker.host, worker.port), [])))
    pairs += [
        (Worker.model_construct(host=host, port=port), parts)
        for (host, port), parts in parts_at.items()
    ]
    return sorted(pairs, key=lambda pair: (str(pair[0].host), pair[0].port or 0))


def _size(parts: list[Component]) -> int:
    return sum(len(part.executors) for part in parts)


def _needs(topology: Topology, at: _Workers, unknown: list[int]) -> tuple[float, float | None]:
    """Return memory and CPU of an executor of which it is unknown: what workers are assigned more.

    Where that is not reported, what Storm takes by default, if the others request any. `unknown` is
    the number of executors of which memory, and CPU, are.
    """
    parts = topology.components.values()
    memory = _MEMORY if any(part.memory for part in parts) else 0.0
    cpu = _CPU if any(part.cpu_request for part in parts) else None
    if unknown[0] and (spare := _beyond(at, "memory", "memory")) > 0:
        memory = spare / unknown[0]
    if unknown[1] and (spare := _beyond(at, "cpu", "cpu_request")) > 0:
        cpu = spare / unknown[1]
    return memory, cpu


def _beyond(at: _Workers, assigned: str, requested: str) -> float:
    """Return what all workers are assigned beyond what their known executors request."""
    spare = 0.0
    for worker, parts in at:
        amount = getattr(worker, assigned)
        if amount is None:  # a figure that one worker lacks says nothing of the sum
            return 0.0
        spare += amount - sum(getattr(part, requested) or 0.0 for part in parts)
    return spare


def _system_workers(at: _Workers, on_pages: set[str], missing: int) -> dict[str, list[Worker]]:
    """Return system components that workers name, with the worker of each executor."""
    workers_of: dict[str, list[Worker]] = {}
    for worker, _ in at:
        for name, tasks in sorted(worker.components.items()):
            if name.startswith("__") and name != SYSTEM and name not in on_pages:
                number = min(tasks, missing)
                missing -= number
                if number:
                    workers_of.setdefault(name, []).extend([worker] * number)
    return workers_of


def _reserve(
    topology: Topology, at: _Workers, missing: int, needs: tuple[float, float], ledger: Ledger
) -> None:
    """Make what unnamed executors take background of the hosts that their workers are on."""
    lacking = [
        worker for worker, parts in at for _ in range(max(0, (worker.executors or 0) - len(parts)))
    ]
    hosts = [w.host for w in lacking if w.host is not None][:missing]
    others = [host for host, ports in sorted(ports_of(topology)[0].items()) for _ in ports or (0,)]
    # of which workers they are is unknown: dealt out evenly, a worker at a time
    hosts += islice(cycle(others), missing - len(hosts)) if others else ()
    cpu, memory = needs
    for host in hosts:
        before = topology.reserved.get(host, (0.0, 0.0))
        topology.reserved[host] = (before[0] + cpu, before[1] + memory)
    amount = f"{cpu:g} % of a core and {memory:g} MB each are background of its workers' hosts"
    ledger.warn(
        f"{topology.name}: {missing} system executors (ackers and the like) are on no page: "
        + (amount if hosts and (cpu or memory) else "what they take is not known, nor counted")
    )


def build_document(
    supervisors: dict[str, Supervisor], topologies: list[Topology], cpu: str, ledger: Ledger
) -> dict[str, Any]:
    """Put supervisors and topologies together."""
    # slots first: tasks name their slot by its index in these lists
    used, complete = _used_ports(supervisors, topologies, ledger)
    for topology in topologies:
        _settle_workers(topology, ledger)
    ports = _ports(supervisors, used, ledger)
    if complete:
        _subtract_foreign_slots(supervisors, used, ports, ledger)
    elif any((s.slots_used or 0) > len(used[host]) for host, s in supervisors.items()):
        ledger.reading("the owners of slots in use are not reported: slots of others count as free")
    ledger.check()
    several = len(topologies) > 1
    operators: list[dict[str, Any]] = []
    tasks: list[dict[str, Any]] = []
    streams: list[dict[str, Any]] = []
    traffic: list[list[Any]] = []
    sets: list[dict[str, Any]] = []
    for topology in topologies:
        prefix = f"{topology.name}:" if several else ""
        for part in topology.components.values():
            role = "source" if part.kind == "spout" else "operator"
            entry = {"id": prefix + part.name, "topology": topology.name}
            operators.append(entry | {"role": "system" if part.is_system else role})
            tasks += [
                _task(prefix, part, executor, cpu_and_busy, ports)
                for executor, cpu_and_busy in zip(part.executors, _cpu_of(part, cpu), strict=True)
            ]
        for edge in edges_of(topology, ledger, max(0, MOST_PAIRS - len(traffic))):
            ends = [prefix + edge.source, prefix + edge.target]
            streams.append({"from": ends[0], "to": ends[1], "rate": edge.rate, **edge.pattern})
            traffic += _pairs(topology, edge, ends)
        sets += sets_of(topology, prefix, ledger)
    _note_loads(topologies, cpu, ledger)
    _warn_of_odd(topologies, streams, ledger)
    resources = ["cpu"] + (["memory"] if any("memory" in t["load"] for t in tasks) else [])
    if cpu != "process":
        ledger.reading("an executor's CPU is 100 × capacity, in percent of a core")
    nodes = _nodes(supervisors, topologies, ports, resources, ledger)
    weigh(nodes, tasks, resources[0], ledger)
    return {
        "format": INSTANCE_FORMAT,
        "name": "storm " + " ".join(sorted(t.name for t in topologies))[:200],
        "units": {"cpu": "percent of a core", "memory": "MB", "rate": "tuples/s"},
        "labels": {"system": "storm"},
        "resources": resources,
        "nodes": nodes,
        "topologies": [_numbers(topology, ledger) for topology in topologies],
        "operators": operators,
        "tasks": tasks,
        "streams": streams,
        "traffic": traffic,
        **({"sets": sets} if sets else {}),
    }


def _numbers(topology: Topology, ledger: Ledger) -> dict[str, Any]:
    """Return a topology with the numbers of its workers, and of nodes that it has for itself."""
    numbers = {"workers": topology.workers, "exclusive_nodes": machines_of(topology, ledger)}
    return {"id": topology.name} | {name: value for name, value in numbers.items() if value}


def _task(
    prefix: str,
    part: Component,
    executor: Executor,
    cpu_and_busy: tuple[float, float | None],
    ports: dict[str, list[int]],
) -> dict[str, Any]:
    cpu, busy = cpu_and_busy
    operator = prefix + part.name
    entry: dict[str, Any] = {
        "id": operator + executor.name,
        "operator": operator,
        "load": {"cpu": cpu} | ({"memory": part.memory} if part.memory else {}),
    }
    if busy:  # an executor is one thread: at capacity 1 it carries no more; what runs can
        entry["max_load"] = {"cpu": max(cpu, round(cpu / min(1.0, busy), 9))}
    if executor.host is not None:
        entry["node"] = executor.host
        if executor.port is not None:
            entry["slot"] = ports[executor.host].index(executor.port)
    return entry


def _cpu_of(part: Component, cpu: str) -> list[tuple[float, float | None]]:
    """Return CPU, and share of time it is busy, of each executor; unknown ones as their equals."""
    shares = completed([executor.busy for executor in part.executors])
    request = part.cpu_request
    computes = completed([executor.computes for executor in part.executors])
    if cpu == "process" and computes is not None:
        busy = shares or [0.0] * len(computes)
        return [(100.0 * cores, share or None) for cores, share in zip(computes, busy, strict=True)]
    if shares is None:
        return [(request or 0.0, None)] * len(part.executors)
    if cpu == "requested" and request is not None:
        return [(request, share) for share in shares]
    return [(100.0 * share, share) for share in shares]


def _note_loads(topologies: list[Topology], cpu: str, ledger: Ledger) -> None:
    silent: Counter[str] = Counter()
    for part in (part for topology in topologies for part in topology.components.values()):
        if part.cpu_request is None and all(e.busy is e.computes is None for e in part.executors):
            silent[part.name] += len(part.executors)
    if cpu == "measured":
        ledger.reading("spouts report no capacity: their CPU is what they request")
    if silent.total():
        names = listed(sorted(+silent), 5)
        ledger.warn(f"no CPU figure for {silent.total()} executors ({names}): counted as 0")


def _warn_of_odd(topologies: list[Topology], streams: list[dict[str, Any]], ledger: Ledger) -> None:
    """Warn of streams that stand still, of executors without a worker, and of odd capacities."""
    if streams and not any(stream["rate"] for stream in streams):
        ledger.warn("nothing flows: loads and rates are those of standing still; import again")
    parts = [part for topology in topologies for part in topology.components.values()]
    reported = [(p, e) for p in parts for e in p.executors if not e.name.startswith("#")]
    if unplaced := [p.name + e.name for p, e in reported if e.host is None]:
        ledger.warn(f"{listed(unplaced, 5)} has no worker now: where it is is not known")
    if odd := [f"{p.name}{e.name} {e.busy:g}" for p, e in reported if (e.busy or 0.0) > _FULL]:
        ledger.warn(
            f"a thread is busy at most all the time, and capacity is {listed(odd, 5)}: its figures "
            "are of another time or unit (--option cpu=requested takes what components request)"
        )


def _pairs(topology: Topology, edge: Edge, ends: list[str]) -> list[list[Any]]:
    """Return the pairs of executors that an edge is between, where they are not alike."""
    if edge.even or edge.pattern or edge.pairs is None:
        return []
    senders, receivers = (topology.components[end].executors for end in (edge.source, edge.target))
    return [
        [ends[0] + sender.name, ends[1] + receiver.name, rate]
        for sender, row in zip(senders, edge.pairs.tolist(), strict=True)
        for receiver, rate in zip(receivers, row, strict=True)
        if rate > 0
    ]


def _used_ports(
    supervisors: dict[str, Supervisor], topologies: list[Topology], ledger: Ledger
) -> tuple[dict[str, set[int]], bool]:
    """Return the worker ports of the topologies on each host, and whether these are all."""
    # slots in which several topologies are now are warned of: a worker serves one
    used: dict[str, set[int]] = {host: set() for host in supervisors}
    owners: dict[tuple[str, int], list[str]] = {}
    complete = True
    for topology in topologies:
        by_host, all_known = ports_of(topology)
        complete = complete and all_known
        for host, ports in by_host.items():
            used.setdefault(host, set()).update(ports)
            for port in ports:
                owners.setdefault((host, port), []).append(topology.name)
    for (host, port), names in sorted(owners.items()):
        if len(names) > 1:
            ledger.warn(
                f"{host}:{port} holds executors of {', '.join(sorted(names))}: a slot serves one "
                "topology, so that the current placement breaks a rule, or the pages are of "
                "different times"
            )
    return used, complete


def _settle_workers(topology: Topology, ledger: Ledger) -> None:
    """Take the number of workers that are seen, where another number is reported."""
    by_host, complete = ports_of(topology)
    used = sum(map(len, by_host.values()))
    executors = len(topology.known_executors)
    stated = topology.workers
    if stated is None or not used:
        return
    # Storm starts no more workers than executors
    total = max(executors, topology.executors or 0)
    expected = min(stated, total)
    hidden = 0 if topology.processes else total - executors  # they may have workers of their own
    if used > expected or (complete and used + hidden < expected):
        ledger.warn(
            f"{topology.name}: workersTotal is {stated}, its executors are in {used} slots, which "
            "counts: the page is stale, or workers are down"
        )
        topology.workers = used if complete else None


def _ports(
    supervisors: dict[str, Supervisor], used: dict[str, set[int]], ledger: Ledger
) -> dict[str, list[int]]:
    """Return the worker ports of each host in slot order: those in use, then likely ones."""
    by_host = {}
    for host, ports in used.items():
        supervisor = supervisors.get(host)
        slots = len(ports) if supervisor is None else supervisor.slots
        path = f"supervisors: {host}.slotsTotal"
        if slots > MOST_SLOTS:
            ledger.problem(path, slots, f"is more than {MOST_SLOTS}")
            continue
        if len(ports) > slots:
            reason = f"workers run on {len(ports)} ports of {host}, which has {slots} slots"
            ledger.problem(path, slots, reason, "save all at one time")
        by_host[host] = sorted(ports)
        listed = None if supervisor is None else supervisor.ports
        if listed is not None and ports.issubset(listed):
            by_host[host] += [port for port in listed if port not in ports]
        elif len(ports) < slots:
            ledger.reading("ports of idle slots are unknown: a plan names any free one")
            by_host[host] += [-i for i in range(1, slots - len(ports) + 1)]
    return by_host


def port_text(port: int) -> str:
    """Return how a port is written; ``+1``, ``+2``, … stand for any free ones."""
    return str(port) if port > 0 else f"+{-port}"


def _subtract_foreign_slots(
    supervisors: dict[str, Supervisor],
    used: dict[str, set[int]],
    ports: dict[str, list[int]],
    ledger: Ledger,
) -> None:
    """Take the slots away that topologies which are not imported use: the last of each host."""
    for host, supervisor in supervisors.items():
        imported = len(used[host])
        busy = supervisor.slots_used or 0
        if host in ports and busy > imported:
            # those in use by the imported topologies stand first in the list
            remaining = max(imported, supervisor.slots - (busy - imported))
            del ports[host][remaining:]
            ledger.reading("slots of topologies that are not imported are taken away")


def _nodes(
    supervisors: dict[str, Supervisor],
    topologies: list[Topology],
    ports: dict[str, list[int]],
    resources: list[str],
    ledger: Ledger,
) -> list[dict[str, Any]]:
    entries = []
    assigned = {what: [t.assigned(what) for t in topologies] for what in ("cpu", "memory")}
    for host, supervisor in supervisors.items():
        offered = {"cpu": supervisor.cpu, "memory": supervisor.memory}
        entry: dict[str, Any] = {
            "id": host,
            "capacity": {r: offered[r] for r in resources if offered[r]},
            **_slots(ports[host]),
        }
        if supervisor.blacklisted is True:
            entry["leaving"] = True
            ledger.warn(f"{host} is blacklisted: Storm gives it no workers: leaving")
        if not supervisor.cpu:
            ledger.warn(f"{host} reports no totalCpu: its CPU is unbounded")
        if not supervisor.memory and "memory" in resources:
            ledger.warn(f"{host} reports no totalMem: its memory is unbounded")
        used = {"cpu": supervisor.used_cpu, "memory": supervisor.used_memory}
        background = {}
        for r, (what, noun) in enumerate((("cpu", "CPU"), ("memory", "memory"))):
            # of others = used of the supervisor - assigned to the imported; below 0.5 is rounding
            others = (used[what] or 0.0) - sum(by_host.get(host, 0.0) for by_host in assigned[what])
            if not all(assigned[what]) or others <= 0.5:
                others = 0.0
            else:
                ledger.reading(f"{noun} assigned to topologies that are not imported is background")
            reserved = sum(t.reserved.get(host, (0.0, 0.0))[r] for t in topologies)
            if what in resources and others + reserved:
                background[what] = others + reserved
        if background:
            entry["background"] = background
        entries.append(entry)
    for host in (host for host in ports if host not in supervisors):
        ledger.warn(f"executors run on {host}, which the supervisor summary lacks: leaving")
        entries.append({"id": host, "leaving": True, **_slots(ports[host])})
    return entries


def _slots(ports: list[int]) -> dict[str, Any]:
    labels = {PORTS: ",".join(map(port_text, ports))} if ports else {}
    return {"slots": len(ports), "labels": labels}


class Edge:
    """Traffic between two components: (a, b) rates of executor pairs, or one even rate."""

    def __init__(self, source: str, target: str) -> None:
        self.source, self.target = source, target
        self.rate = 0.0
        self.even = True
        self.pairs: Floats | None = None
        self.near: Floats | None = None
        self.others = 0.0

    @property
    def pattern(self) -> dict[str, Any]:
        """What its stream has beside the rate, where all of it goes to who is near."""
        if self.near is None or self.others > 0:
            return {}
        even = np.allclose(self.near, self.near[:1], rtol=1e-9, atol=0.0)
        weights: dict[str, Any] = {} if even else {"sender_weights": self.near.tolist()}
        return {"pattern": "local_first", **weights}

    def add(self, rate: float, senders: Floats, receivers: Floats) -> None:
        """Add a subscription's rate, spread over senders' and receivers' shares."""
        part = rate * np.outer(senders, receivers)
        self.pairs = part if self.pairs is None else self.pairs + part
        self.rate += rate
        # even only if every subscription of the edge is: then no pairs have to be listed
        shares = (senders, receivers)
        self.even = self.even and all(np.allclose(x, x[0], rtol=1e-9, atol=0.0) for x in shares)


def edges_of(topology: Topology, ledger: Ledger, most_pairs: int) -> list[Edge]:
    """Split all subscriptions of a topology; rates are tuples/s.

    `most_pairs`: edges that would give more pairs than this in all are spread evenly, which needs
        no list.
    """
    pairs_left = most_pairs
    edges: dict[tuple[str, str], Edge] = {}
    for target, sender, stream, rate in _subscriptions(topology, ledger):
        source = topology.components.get(sender)
        if source is None or sender == target.name:
            ledger.warn(f"{target.name} reads {sender}, which is left out: no pair of components")
            continue
        grouping = topology.groupings.get((sender, stream, target.name))
        if grouping is None:
            ledger.reading("groupings that no document names are split as measured")
        edge = edges.setdefault((sender, target.name), Edge(sender, target.name))
        senders = _sender_shares(source, stream)
        receivers = _receiver_shares(target, (sender, stream), grouping)
        follows = _follows(topology, grouping, ledger)
        if follows and len(senders):
            part: Floats = np.asarray(rate * senders, dtype=np.float64)
            edge.near = part if edge.near is None else edge.near + part
        else:
            edge.others += rate
        # all subscriptions of an edge share one (a, b) matrix, which is counted once
        if len(senders) * len(receivers) > pairs_left:
            if not edge.pattern:
                ledger.reading("edges with very many pairs of executors are spread evenly")
            edge.rate += rate
        elif len(senders) and len(receivers):
            pairs_left -= len(senders) * len(receivers) if edge.pairs is None else 0
            edge.add(rate, senders, receivers)
    _note_shuffles(topology, list(edges.values()), ledger)
    return list(edges.values())


def _follows(topology: Topology, grouping: str | None, ledger: Ledger) -> bool:
    """Whether who receives of a subscription depends on where executors are."""
    if grouping == LOCAL_FIRST:
        return True
    settings = topology.configuration if isinstance(topology.configuration, dict) else {}
    if _plain(grouping) not in _SHUFFLED or settings.get(_SWITCH) is True:
        return False
    # before Storm 2.0 shuffle is even, and so it is taken where no page shows the version
    if _BOUND not in settings:
        ledger.reading(f"shuffle counts as even: no page has a {_BOUND}")
    return _BOUND in settings


def _note_shuffles(topology: Topology, edges: list[Edge], ledger: Ledger) -> None:
    """State which edges go to who is near, and what that leaves open."""
    near: list[str] = []
    mixed: list[str] = []
    for edge in edges:
        if edge.near is not None:
            (near if edge.pattern else mixed).append(f"{edge.source} → {edge.target}")
    if near:
        ledger.warn(
            f"{topology.name}: shuffle prefers receivers in the same worker, then on the same host "
            f"({listed(sorted(near), 3)}): local_first, what crosses follows the placement; load "
            f"of these receivers is that of now ({_SWITCH}: true makes both even)"
        )
    if mixed:
        ledger.warn(
            f"{topology.name}: {listed(sorted(mixed), 3)} has a shuffle that prefers who is near "
            "beside another grouping: counted as measured now, and will be otherwise after moves"
        )


def _subscriptions(topology: Topology, ledger: Ledger) -> list[tuple[Component, str, str, float]]:
    """Return (receiver, sender, stream, tuples/s): what bolts executed, else what spouts sent."""
    measured = [
        (part, sender, stream, input_rate(topology, part, (sender, stream), executed))
        for part in topology.components.values()
        for (sender, stream), executed in part.inputs.items()
        if sender != SYSTEM
    ]
    measured_pairs = {(sender, part.name) for part, sender, _, _ in measured}
    readers: dict[str, list[tuple[str, str]]] = {}
    for sender, stream, receiver in topology.groupings:
        readers.setdefault(sender, []).append((stream, receiver))
    for sender, subscriptions in readers.items():
        source = topology.components.get(sender)
        if source is None:
            continue
        rates = completed([executor.sent for executor in source.executors])
        # counts of a spout's page are of all its streams: split evenly below
        counted = Reading(source.transferred, topology.seconds(source)).rate
        sent_rate = counted if rates is None else sum(rates)
        for stream, receiver in subscriptions:
            target = topology.components.get(receiver)
            if target is None or sent_rate is None or (sender, receiver) in measured_pairs:
                continue
            ledger.reading(
                "where a bolt reports no inputs, what its sender transferred is shared evenly "
                "by those who read it"
            )
            measured.append((target, sender, stream, sent_rate / len(subscriptions)))
    fed = {part.name for part, _, _, _ in measured}
    silent = [
        part.name
        for part in topology.components.values()
        if part.kind == "bolt" and part.executors and not part.is_system and part.name not in fed
    ]
    if silent:
        ledger.warn(f"no page says what {listed(silent, 5)} reads: those streams are missing")
    return measured


def input_rate(topology: Topology, part: Component, stream: tuple[str, str], count: float) -> float:
    """Return tuples/s of an input that a component counted so many tuples of.

    Where its executors report what each received, that is their sum. Else they count since they
    started, each for itself: what they execute a second over what they executed turns the count
    into a rate.
    """
    if any(stream in e.received for e in part.executors):
        return sum(rates_received(part, stream))
    counted = [e for e in part.executors if e.executed is not None]
    with_rate = [(e.executed or 0.0, e.done) for e in counted if e.done is not None]
    total = sum(executed for executed, _ in with_rate)
    # rate = count × Σ done / Σ executed, scaled up to executors that report no rate
    if total > 0:
        return count * sum(done for _, done in with_rate) / total * len(counted) / len(with_rate)
    seconds = max((e.seconds or 0.0 for e in part.executors), default=topology.seconds(part))
    return count / seconds if seconds else 0.0


def rates_received(part: Component, stream: tuple[str, str]) -> list[float]:
    """Return tuples/s that each executor received of a (sender, stream), unknown ones as equals."""
    rates = completed([executor.rate_of(stream) for executor in part.executors])
    return rates or [0.0] * len(part.executors)


def _sender_shares(part: Component, stream: str) -> Floats:
    """(a,) share of each executor in what its component sends on a stream."""
    if any(stream in e.sent_on for e in part.executors):
        return _shares([executor.rate_on(stream) for executor in part.executors])
    return _shares([e.sent for e in part.executors])


def _plain(grouping: str | None) -> str:
    """Return a grouping as one word, however a version of Storm spells it."""
    plain = (grouping or "").lower().replace("_", "").replace(" ", "").replace("-", "")
    return plain.removesuffix("grouping")


def _receiver_shares(part: Component, stream: tuple[str, str], grouping: str | None) -> Floats:
    """(b,) share of each executor in what its component receives under a grouping."""
    count = len(part.executors)
    plain = _plain(grouping)
    if plain in _GLOBAL:
        # executors are in order of their tasks: the first has the lowest
        only = np.zeros(count)
        only[:1] = 1.0
        return only
    if plain in _EVEN:
        return np.full(count, 1.0 / max(1, count))
    if any(stream in e.received for e in part.executors):
        return _shares(list(rates_received(part, stream)))
    return _shares([e.done for e in part.executors])


def _shares(rates: Sequence[float | None]) -> Floats:
    """(a,) share of each executor in what all send or receive."""
    filled = np.array(completed(rates) or (), dtype=np.float64)
    total = filled.sum()
    if total <= 0:
        return np.full(len(rates), 1.0 / max(1, len(rates)))
    return np.asarray(filled / total, dtype=np.float64)


CONSTRAINTS, SPREAD = "topology.ras.constraints", "topology.spread.components"
MACHINES = "isolation.scheduler.machines"
STRATEGY, SCHEDULER = "topology.scheduler.strategy", "storm.scheduler"
_COUNT, _INCOMPATIBLE = "maxNodeCoLocationCnt", "incompatibleComponents"
MOST_SETS = 2_000
"""Pairs of executors that may not share a place, at most: each is a set of its own."""


def machines_of(topology: Topology, ledger: Ledger) -> int | None:
    """Return the number of nodes that a topology is to have for itself."""
    by_name = topology.configuration.get(MACHINES)
    if not isinstance(by_name, dict) or topology.name not in by_name:
        return None
    machines = _count(by_name[topology.name], f"{MACHINES}.{topology.name}", topology, ledger)
    if machines is not None:
        ledger.reading(
            f"{topology.name} has up to {machines} nodes for itself ({MACHINES}"
            f"{_unless(topology, SCHEDULER, 'IsolationScheduler')})"
        )
    return machines


def sets_of(topology: Topology, prefix: str, ledger: Ledger) -> Iterator[dict[str, Any]]:
    """Yield the sets that a topology's constraints are.

    `prefix`: of its operators.
    """
    most, apart = _constraints(topology, ledger)
    for name, count in most.items():
        yield {
            "id": f"{topology.name}: {name} on a node",
            "operator": prefix + name,
            "rule": "apart",
            "at_most": count,
        }
    texts = [f"{name} at most {count} on a node" for name, count in most.items()]
    for one, other in sorted(apart):
        texts.append(f"{one} and {other} in no worker together")
        yield from _incompatible(topology, one, other, prefix, ledger)
    if texts:
        ledger.reading(
            f"{topology.name}: constraints are sets: {listed(texts, 5)}"
            f"{_unless(topology, STRATEGY, 'ConstraintSolverStrategy')}"
        )


def _incompatible(
    topology: Topology, one: str, other: str, prefix: str, ledger: Ledger
) -> Iterator[dict[str, Any]]:
    """Yield sets that keep executors of two components out of one worker, of one if it is both."""
    name = f"{topology.name}: {one} and {other} in a worker"
    if one == other:
        yield {"id": name, "operator": prefix + one, "rule": "apart", "over": "slot"}
        return
    ends = (
        [prefix + part + executor.name for executor in topology.components[part].executors]
        for part in (one, other)
    )
    pairs = list(product(*ends))
    if len(pairs) > MOST_SETS:
        ledger.warn(
            f"{topology.name}: {one} and {other} are not to share a worker, which is not counted: "
            f"{len(pairs):,} pairs of executors are more than {MOST_SETS:,}"
        )
        return
    for pair in pairs:
        yield {"id": f"{name}: {' '.join(pair)}", "tasks": list(pair), "rule": "apart",
               "over": "slot"}  # fmt: skip


def _constraints(topology: Topology, ledger: Ledger) -> tuple[dict[str, int], set[tuple[str, str]]]:
    """Return most executors of components on a node, and the pairs that share no worker."""
    most: dict[str, int] = {}
    apart: set[tuple[str, str]] = set()
    components = topology.components

    def is_part(name: Any, where: str) -> bool:
        if isinstance(name, str) and name in components:
            return True
        ledger.warn(f"{topology.name}: {where}: {name!r} is no component with executors: left out")
        return False

    def leave_out(what: str) -> None:
        ledger.warn(f"{topology.name}: {what}: left out")

    configured = topology.configuration.get(CONSTRAINTS)
    pairs: list[tuple[Any, Any]] = []
    if isinstance(configured, list):
        for pair in configured:
            if isinstance(pair, list) and len(pair) > 1:
                pairs.append((pair[0], pair[1]))
            else:
                leave_out(f"{CONSTRAINTS}: {pair!r} is no pair")
    elif isinstance(configured, dict):
        named = {name: entry for name, entry in configured.items() if is_part(name, CONSTRAINTS)}
        for name, constraints in named.items():
            if not isinstance(constraints, dict):
                leave_out(f"{CONSTRAINTS}.{name} is no object")
                continue
            for kind, value in constraints.items():
                where = f"{CONSTRAINTS}.{name}.{kind}"
                if kind == _COUNT:
                    if (count := _count(value, where, topology, ledger)) is not None:
                        most[name] = count
                elif kind == _INCOMPATIBLE and isinstance(value, list | str):
                    pairs += product([name], [value] if isinstance(value, str) else value)
                else:
                    leave_out(f"{where} is not known to Storm")
    elif configured is not None:
        leave_out(f"{CONSTRAINTS} is neither list nor object")
    for one, other in pairs:
        if is_part(one, CONSTRAINTS) and is_part(other, CONSTRAINTS):
            apart.add((min(one, other), max(one, other)))
    spread = topology.configuration.get(SPREAD, [])
    if not isinstance(spread, list):
        leave_out(f"{SPREAD} is no list")
        spread = []
    for name in spread:
        if is_part(name, SPREAD):
            most.setdefault(name, 1)
    return most, apart


def _count(value: Any, where: str, topology: Topology, ledger: Ledger) -> int | None:
    """Return a whole number from 1; ``None``, with a warning, for anything else."""
    count = None if isinstance(value, bool) else as_whole(value)
    if count is None or count < 1:
        ledger.warn(f"{topology.name}: {where}: {value!r} is no number from 1: left out")
        return None
    return count


def _unless(topology: Topology, key: str, expected: str) -> str:
    """Say that the scheduler which runs does not keep them, where it is known to be another."""
    configured = topology.configuration.get(key)
    if not isinstance(configured, str) or configured.rpartition(".")[2] == expected:
        return ""
    return f"; {key} is {configured.rpartition('.')[2]}, which does not keep them: plans do"
