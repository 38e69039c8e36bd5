"""Executors that Storm adds to a topology: ackers and the like, which its pages leave out.

They take CPU, memory and room in slots as the others do. Where the pages say which and where they
are they become tasks; else what they take is background of the hosts of the topology's workers.
"""

from __future__ import annotations

from itertools import cycle, islice
from typing import TYPE_CHECKING

from streamplace.clusters.storm.pages import (
    SYSTEM,
    Component,
    Executor,
    Worker,
    ports_of,
)

if TYPE_CHECKING:
    from streamplace.clusters.exchange.ledger import Ledger
    from streamplace.clusters.storm.pages import Topology

_MEMORY, _CPU = 128.0, 10.0
"""What Storm takes a component to need that says nothing: MB, percent of a core."""


def add_system_executors(topology: Topology, ledger: Ledger) -> None:
    """Add the executors that run but that no component page tells."""
    _share_memory(topology, ledger)
    rows = {p.name: p.count for p in topology.components.values() if p.is_system}
    listed = {n for n, p in topology.components.items() if p.is_system and p.executors}
    for name in rows.keys() - listed:
        del topology.components[name]
    told = sum(len(part.executors) for part in topology.components.values())
    total = topology.executors
    if total is None:
        total = told + sum(count for name, count in rows.items() if name not in listed)
    missing = total - told
    if missing <= 0:
        return
    at = _at_workers(topology)
    memory, cpu = _needs(topology, at, missing)
    named = _named(topology, at, listed, missing)
    for name, workers in named.items():
        part = Component(name, "bolt", len(workers), cpu_request=cpu, memory=memory)
        part.executors = [
            Executor.model_construct(name=f"#{i}", host=worker.host, port=worker.port)
            for i, worker in enumerate(workers)
        ]
        topology.components[name] = part
    placed = sum(map(len, named.values()))
    if placed:
        ledger.reading(
            f"{placed} system executors ({', '.join(sorted(named))}) are tasks, by what the "
            "topology's page says of its workers"
        )
    if missing > placed:
        _reserve(topology, at, missing - placed, (cpu or 0.0, memory), ledger)


def _share_memory(topology: Topology, ledger: Ledger) -> None:
    """Give executors their part of what workers are assigned, where no component requests any."""
    parts = list(topology.components.values())
    told = [w for w in topology.processes if w.memory is not None and w.executors]
    if any(part.memory for part in parts) or not told:
        return
    share = sum(w.memory or 0.0 for w in told) / sum(w.executors or 0 for w in told)
    for part in parts:
        part.memory = share
    ledger.reading("executors' memory is their part of what their workers are assigned")


def _at_workers(topology: Topology) -> list[tuple[Worker, list[Component]]]:
    """Return the topology's workers, each with the component of every executor known there."""
    there: dict[tuple[str, int], list[Component]] = {}
    for part in topology.components.values():
        for executor in part.executors:
            if executor.host is not None and executor.port is not None:
                there.setdefault((executor.host, executor.port), []).append(part)
    found: list[tuple[Worker, list[Component]]] = []
    for worker in topology.processes:
        if worker.host is not None and worker.port is not None:
            found.append((worker, there.pop((worker.host, worker.port), [])))
    found += [(Worker(host, port), parts) for (host, port), parts in there.items()]
    return sorted(found, key=lambda pair: (str(pair[0].host), pair[0].port or 0))


def _needs(
    topology: Topology, at: list[tuple[Worker, list[Component]]], missing: int
) -> tuple[float, float | None]:
    """Return memory and CPU of a missing executor: what workers are assigned beyond the known.

    Where that is not told, what Storm takes by default, if the others request any.
    """
    parts = topology.components.values()
    memory = [w.memory - sum(p.memory for p in known) for w, known in at if w.memory is not None]
    cpu = [w.cpu - sum(p.cpu_request or 0.0 for p in known) for w, known in at if w.cpu is not None]
    whole = bool(at) and bool(topology.processes)
    spare = sum(memory) if whole and len(memory) == len(at) else 0.0
    busy = sum(cpu) if whole and len(cpu) == len(at) else 0.0
    default = _MEMORY if any(part.memory for part in parts) else 0.0
    asked = _CPU if any(part.cpu_request for part in parts) else None
    return (
        spare / missing if spare > 0 else default,
        busy / missing if busy > 0 else asked,
    )


def _named(
    topology: Topology,
    at: list[tuple[Worker, list[Component]]],
    listed: set[str],
    missing: int,
) -> dict[str, list[Worker]]:
    """Return system components that workers name, with the worker of each executor."""
    found: dict[str, list[Worker]] = {}
    for worker, _ in at:
        for name, count in sorted(worker.components.items()):
            if name.startswith("__") and name != SYSTEM and name not in listed:
                number = min(count, missing)
                missing -= number
                if number:
                    found.setdefault(name, []).extend([worker] * number)
    return found


def _reserve(
    topology: Topology,
    at: list[tuple[Worker, list[Component]]],
    missing: int,
    needs: tuple[float, float],
    ledger: Ledger,
) -> None:
    """Make what unnamed executors take background of the hosts that their workers are on."""
    lacking = [
        worker for worker, known in at for _ in range(max(0, (worker.executors or 0) - len(known)))
    ]
    hosts = [w.host for w in lacking if w.host is not None][:missing]
    others = [host for host, ports in sorted(ports_of(topology)[0].items()) for _ in ports or (0,)]
    hosts += islice(cycle(others), missing - len(hosts)) if others else ()
    cpu, memory = needs
    for host in hosts:
        before = topology.reserved.get(host, (0.0, 0.0))
        topology.reserved[host] = (before[0] + cpu, before[1] + memory)
    taken = f"{cpu:g} % of a core and {memory:g} MB each are background of its workers' hosts"
    ledger.warn(
        f"{topology.name}: {missing} system executors (ackers and the like) are on no page: "
        + (taken if hosts and (cpu or memory) else "what they take is not known, nor counted")
    )
