"""Workers: which slot an executor takes where a plan decides only nodes, and which port that is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from experiments.interchange.foreign import is_whole
from experiments.interchange.importers.storm_building import FIRST_PORT, PORTS

if TYPE_CHECKING:
    from experiments.interchange.ledger import Ledger
    from experiments.interchange.placing import Places
    from optim.format.instance import Instance
    from optim.format.tables import Ints


def topology_name(instance: Instance, operator: int) -> str:
    """Return the topology of an operator; the instance's name where there is none."""
    at = instance.operators.topology[operator]
    return instance.topologies.ids[at] if at >= 0 else instance.name


def component_name(instance: Instance, operator: int) -> str:
    """Return an operator's component: its id without ``topology:`` before it."""
    name = instance.operators.ids[operator]
    return name.removeprefix(f"{topology_name(instance, operator)}:")


class Ports:
    """Site and port of each slot, from the labels of the nodes."""

    def __init__(self, instance: Instance) -> None:
        self._sites: list[str] = []
        self._ports: list[list[int]] = []
        self._index: dict[tuple[str, int], tuple[int, int]] = {}
        table = instance.nodes
        for n, name in enumerate(table.ids):
            labels = table.labels.get(n, {})
            site = labels.get("site", name)
            ports = [int(p) for p in labels.get(PORTS, "").split(",") if is_whole(p.strip())]
            fresh = FIRST_PORT
            while len(ports) < min(10_000, max(0, int(table.slots[n]))):
                if fresh not in ports:
                    ports.append(fresh)
                fresh += 1
            self._sites.append(site)
            self._ports.append(ports)
            self._index.update({(site, port): (n, s) for s, port in enumerate(ports)})

    def text(self, node: int, slot: int, ledger: Ledger) -> str:
        """Return ``site#port``."""
        site, ports = self._sites[node], self._ports[node]
        if any(mark in site for mark in "#/,"):
            ledger.problem(f"nodes[{node}].id", site, "holds one of # / , which the format uses")
        port = ports[slot] if slot < len(ports) else FIRST_PORT + slot
        self._index.setdefault((site, port), (node, slot))
        return f"{site}#{port}"

    def place(self, site: str, port: int) -> tuple[int, int] | None:
        """Return node and slot of a worker, or ``None``."""
        found = self._index.get((site, port))
        if found is None and site in self._sites:
            node = self._sites.index(site)
            if port >= FIRST_PORT and not self._ports[node]:
                return node, port - FIRST_PORT
        return found


def decided_slots(instance: Instance, places: Places, ledger: Ledger) -> Ints:
    """(T,) slots of a plan; where it decides none, executors that stay keep theirs.

    The others join the fullest worker of their topology on their node, or take the first slot that
    nobody uses: one worker of a topology on a node is what Storm's own schedulers aim at.
    """
    if places.slot is not None and (places.slot >= 0).all():
        return places.slot
    ledger.reading(
        "the plan decides no slots: executors that stay keep theirs, the others join their "
        "topology's worker on the node, or the first idle slot"
    )
    table = instance.tasks
    slot = np.full(instance.num_tasks, -1, dtype=np.int32)
    job = np.full(instance.num_tasks, -1, dtype=np.int64)
    owned = table.operator >= 0
    job[owned] = instance.operators.topology[table.operator[owned]]
    stays = (places.node == table.node) & (table.slot >= 0)
    slot[stays] = table.slot[stays]
    used: dict[int, set[int]] = {}
    workers: dict[tuple[int, int], dict[int, int]] = {}
    for t in np.flatnonzero(stays).tolist():
        _note(used, workers, int(places.node[t]), int(job[t]), int(slot[t]))
    for t in np.flatnonzero(~stays).tolist():
        node, topology = int(places.node[t]), int(job[t])
        own = workers.get((node, topology), {})
        if own:
            chosen = min(own, key=lambda s: (-own[s], s))
        else:
            taken = used.get(node, set())
            chosen = next(s for s in range(len(taken) + 1) if s not in taken)
            room = int(instance.nodes.slots[node])
            if 0 <= room <= chosen:
                name = instance.nodes.ids[node]
                reason = f"has {room} slots, all in use by other topologies"
                ledger.problem(f"nodes[{node}]", name, reason, "plan with a method of slots")
        slot[t] = chosen
        _note(used, workers, node, topology, chosen)
    return slot


def _note(
    used: dict[int, set[int]],
    workers: dict[tuple[int, int], dict[int, int]],
    node: int,
    topology: int,
    slot: int,
) -> None:
    used.setdefault(node, set()).add(slot)
    counts = workers.setdefault((node, topology), {})
    counts[slot] = counts.get(slot, 0) + 1
