"""Storm: the worker of each executor, as `submit storm` takes it, or numbers of threads.

    {"format": "streamplace.storm/1", "topologies": {"<topology>": {
        "workers": {"<node>:<port>": ["<first>-<last>", …]}, "components": {"<component>": […]}}}}

Executors are named by their task ids. Where tasks of an instance do not name them, and with
``form=threads``, it is the file of a custom scheduler that deals a component's threads to workers:

    {"<topology>": {"<component>": {"conf": "<site>#<port>,<threads>/…", "threads": "<n>"}}}

Which executor of a component goes where is then the scheduler's choice. Reading it back deals them
in their order, those that stay first.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from optim.errors import InvalidInput, Problem
from optim.format.document import parse_json
from optim.plugins import Option
from optim.rules import SLOT_RULES
from optim.rules.placement import Placement
from optim.rules.slot_assignment import assign_slots
from streamplace.clusters.exchange.declarations import Exporter, Ledger, Places
from streamplace.clusters.storm.model import FIRST_PORT, MOST_SLOTS, PORTS, port_text
from streamplace.clusters.storm.submit import PLACEMENT_FORMAT, StormPlacement, read_placement

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from optim.format.instance import Instance
    from optim.format.tables import Floats, Ints

_SLOTS = "plan with a method that decides slots, or check the plan: the referee says the same"
_PART = re.compile(r"(.+)#(\d{1,5}),(\d{1,9})")
_PORT = re.compile(r"\+?\d{1,9}")
_EXECUTOR = re.compile(r"\[(\d+-\d+)\]$")


def write(
    instance: Instance, places: Places, options: Mapping[str, Any], ledger: Ledger
) -> dict[str, str]:
    """As `Exporter.write`: the placement as JSON."""
    slot = decided_slots(instance, places, ledger)
    ledger.check()
    ports = Ports(instance)
    all_named = all(_EXECUTOR.search(task) for task in instance.tasks.ids)
    if options["form"] == "executors" or (options["form"] == "auto" and all_named):
        return {"": _dump(_executors(instance, Places(places.node, slot), ports, ledger))}
    if options["form"] == "auto":
        ledger.next_step = (
            "a custom scheduler that reads numbers of threads; to submit it to Storm, import from "
            "Nimbus or the UI, so that tasks name executors"
        )
    content: dict[str, dict[str, dict[str, str]]] = {}
    for operator, topology, component in _components(instance, ledger):
        tasks = instance.tasks_of(operator)
        counts: dict[str, int] = {}
        # one entry a worker; in order of places, so that equal plans give equal files
        for t in sorted(tasks.tolist(), key=lambda t: (places.node[t], slot[t])):
            where = ports.text(int(places.node[t]), int(slot[t]), ledger)
            counts[where] = counts.get(where, 0) + 1
        content.setdefault(topology, {})[component] = {
            "conf": "/".join(f"{where},{count}" for where, count in counts.items()),
            "threads": str(len(tasks)),
        }
    ledger.check()
    reread = read_back(json.dumps(content), instance)
    other = int(((reread.node != places.node) | (reread.slot != slot)).sum())
    if other:  # with a scheduler that keeps what can stay
        ledger.warn(
            f"the file holds numbers of threads: {other} of {len(slot)} executors may "
            "trade places with others of their component"
        )
    return {"": _dump(content)}


def _dump(content: dict[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def _executors(instance: Instance, places: Places, ports: Ports, ledger: Ledger) -> dict[str, Any]:
    """Return the placement by executors."""
    topologies: dict[str, Any] = {}
    assert places.slot is not None
    for operator, topology, component in _components(instance, ledger):
        entry = topologies.setdefault(topology, {"workers": {}, "components": {}})
        for t in instance.tasks_of(operator).tolist():
            match = _EXECUTOR.search(instance.tasks.ids[t])
            if match is None:
                reason = "names no executor: [first-last] of its task ids ends the name"
                remedy = "import from Nimbus, or --option form=threads"
                ledger.problem("tasks[].id", instance.tasks.ids[t], reason, remedy)
                continue
            worker = ports.worker(int(places.node[t]), int(places.slot[t]))
            entry["workers"].setdefault(worker, []).append(match[1])
            entry["components"].setdefault(component, []).append(match[1])
    ledger.check()
    return {
        "format": PLACEMENT_FORMAT,
        "instance_sha256": instance.sha256,
        "remote_share": remote_share(instance, places.node, places.slot),
        "topologies": topologies,
    }


def remote_share(instance: Instance, node: Ints, slot: Ints) -> float | None:
    """Return the share of all messages that cross between nodes under a placement.

    Figures of a plan leave what an executor sends as it was measured. Here executors that are given
    more by a `local_first` stream send more, and others less: each component sends on in proportion
    to what its executors receive, and to whom it sent before. Receivers in the sender's worker come
    first, then those on its node.
    """
    operator, flows = instance.tasks.operator, instance.flows
    local = [s for s in instance.streams if s.pattern == "local_first" and not s.replaced]
    # (E,) sender, receiver and rate of all pairs whose rate no placement changes
    pairs = [(flows.source, flows.target, flows.rate)]
    for block in flows.blocks:
        i, j = (x.ravel() for x in np.meshgrid(block.sources, block.targets, indexing="ij"))
        pairs.append((i, j, np.full(len(i), block.pair_rate)))
    source, target, rate = (np.concatenate(column) for column in zip(*pairs, strict=True))
    received = {s.target: np.zeros(instance.num_tasks) for s in local}
    for o, into in received.items():
        here = operator[target] == o
        np.add.at(into, target[here], rate[here])
    crossed = 0.0
    routed: dict[int, Floats] = {}
    for _ in local:  # streams may follow each other: as often as there are of them
        crossed, after = 0.0, {o: into.copy() for o, into in received.items()}
        for stream in local:
            # a sender's part: what it is given itself if that is routed, else as it was measured
            senders = instance.tasks_of(stream.source)
            weights = np.ones(len(senders))
            if stream.source in routed:
                weights = routed[stream.source][senders]
            elif stream.sender_weights is not None:
                weights = np.array(stream.sender_weights)
            for i, part in zip(senders.tolist(), weights / (weights.sum() or 1.0), strict=True):
                receivers = instance.tasks_of(stream.target)
                near = receivers[node[receivers] == node[i]]
                same = near[slot[near] == slot[i]]
                # Storm's order: same worker, same host, everywhere
                nearest = next(some for some in (same, near, receivers) if len(some))
                each = stream.rate * part / len(nearest)
                after[stream.target][nearest] += each
                crossed += each * int((node[nearest] != node[i]).sum())
        routed = after
    total = float(rate.sum()) + sum(stream.rate for stream in local)
    for o, into in routed.items():  # what they send on, by what they receive now
        is_sender = operator[source] == o
        for end in np.unique(operator[target[is_sender]]).tolist():
            some = is_sender & (operator[target] == end)
            to = np.bincount(target[some], rate[some], instance.num_tasks)
            # crossing = Σ to - Σ_node share·to: each sends to receivers as they were measured
            share = into / (into.sum() or 1.0)
            by_node = [np.bincount(node, x, instance.num_nodes) for x in (share, to)]
            crossed += float(to.sum() * share.sum() - by_node[0] @ by_node[1])
    fixed = ~np.isin(operator[source], [*routed])
    crossed += float(rate[fixed & (node[source] != node[target])].sum())
    return crossed / total if total else None


def _components(instance: Instance, ledger: Ledger) -> Iterator[tuple[int, str, str]]:
    """Yield each operator that has tasks, with its topology's and its component's name."""
    # where there is no topology it is called as the instance
    without = np.flatnonzero(instance.tasks.operator < 0)
    if len(without):
        name = instance.tasks.ids[without[0]]
        ledger.problem("tasks[].operator", name, "has no component", "give every task an operator")
    for operator in np.flatnonzero(instance.operators.num_tasks).tolist():
        at = instance.operators.topology[operator]
        topology = instance.topologies.ids[at] if at >= 0 else instance.name
        yield operator, topology, _component(instance, operator, topology)


def _component(instance: Instance, operator: int, topology: str) -> str:
    """Name a component as its operator, without the topology that the import of several adds."""
    several = len(instance.topologies.ids) > 1
    return instance.operators.ids[operator].removeprefix(f"{topology}:" * several)


def read_back(text: str, instance: Instance) -> Places:
    """Return where executors are under a placement file.

    A component's executors that are in a worker of the file stay there as long as it has threads
    left; the others take what is left, in their order and the file's.
    """
    ledger = Ledger()
    value = parse_json(text.encode())
    node, slot = instance.tasks.node.copy(), instance.tasks.slot.copy()
    ports = Ports(instance)
    if isinstance(value, dict) and value.get("format") == PLACEMENT_FORMAT:
        return _by_executor(read_placement(value), instance, ports, ledger)
    for operator, topology, component in _components(instance, ledger):
        path = f"{topology}.{component}"
        conf: Any = value
        for key in (topology, component, "conf"):
            conf = conf.get(key) if isinstance(conf, dict) else None
        if not isinstance(conf, str):
            ledger.problem(f"{path}.conf", None, "is missing", "one for each component")
            continue
        room = _room(conf, f"{path}.conf", ports, ledger)
        tasks = instance.tasks_of(operator).tolist()
        if sum(room.values()) != len(tasks):
            reason = f"threads are placed, of {len(tasks)} executors"
            ledger.problem(f"{path}.conf", sum(room.values()), reason)
            continue
        unplaced = []
        for t in tasks:
            current = (int(node[t]), int(slot[t]))
            if room.get(current, 0) > 0:
                room[current] -= 1
            else:
                unplaced.append(t)
        free = [place for place, count in room.items() for _ in range(count)]
        for t, (n, s) in zip(unplaced, free, strict=True):
            node[t], slot[t] = n, s
    ledger.check()
    return Places(node, slot)


def _by_executor(
    placement: StormPlacement, instance: Instance, ports: Ports, ledger: Ledger
) -> Places:
    node, slot = instance.tasks.node.copy(), instance.tasks.slot.copy()
    for operator, topology, component in _components(instance, ledger):
        planned = placement.topologies.get(topology)
        for t in instance.tasks_of(operator).tolist():
            match = _EXECUTOR.search(instance.tasks.ids[t])
            worker = None if planned is None or match is None else planned.worker_of.get(match[1])
            place = None if worker is None else ports.place_of(worker)
            if place is None:
                path = f"topologies.{topology}.workers"
                reason = "has no place for it" if worker is None else "is no worker of the instance"
                ledger.problem(path, worker or instance.tasks.ids[t], reason, f"of {component}")
                continue
            node[t], slot[t] = place
    ledger.check()
    return Places(node, slot)


def _room(conf: str, path: str, ports: Ports, ledger: Ledger) -> dict[tuple[int, int], int]:
    room: dict[tuple[int, int], int] = {}
    for part in conf.split("/"):
        match = _PART.fullmatch(part)
        place = ports.place(match[1], int(match[2])) if match else None
        if match is None or place is None:
            ledger.problem(path, part, "is no worker of the instance", "site#port,threads")
            continue
        room[place] = room.get(place, 0) + int(match[3])
        if room[place] > 10_000_000:
            raise InvalidInput(Problem(path, room[place], "threads are too many"))
    return room


def rescale(instance: Instance, changed: Mapping[str, int], ledger: Ledger) -> dict[str, str]:
    """As `Exporter.rescale`: a command a topology; executors are at most a component's tasks."""
    commands: dict[str, list[str]] = {}
    for name, n in changed.items():
        operator = instance.operators.index[name]
        topology = int(instance.operators.topology[operator])
        job = instance.topologies.ids[topology] if topology >= 0 else "TOPOLOGY"
        component = _component(instance, operator, job)
        commands.setdefault(job, []).append(f"-e {shlex.quote(f'{component}={n}')}")
    ledger.reading("Storm runs no more executors than tasks (setNumTasks): more take a new submit")
    lines = [f"storm rebalance {shlex.quote(job)} {' '.join(e)}" for job, e in commands.items()]
    return {"": "".join(f"{line}\n" for line in lines)}


EXPORTER = Exporter(
    name="storm",
    summary="the worker of each executor, for `streamplace submit storm`",
    options=(
        Option(
            "form", "str", "auto", "executors by worker, or numbers of threads for a custom "
            "scheduler; auto: executors where tasks name them",
            choices=("auto", "executors", "threads"),
        ),
    ),
    write=write,
    rescale=rescale,
    read_back=read_back,
    next_step="streamplace submit storm nimbus://HOST:PORT {0}",
)  # fmt: skip


class Ports:
    """Site and port of each slot, from the labels of the nodes.

    A port that is not known is below 0: ``-1`` is written ``+1``, and is any free one.
    """

    def __init__(self, instance: Instance) -> None:
        self._sites: list[str] = []
        self._ports: list[list[int]] = []
        self._guessed: list[list[int]] = []
        self._index: dict[tuple[str, int], tuple[int, int]] = {}
        table = instance.nodes
        for n, name in enumerate(table.ids):
            labels = table.labels.get(n, {})
            site = labels.get("site", name)
            texts = [text.strip() for text in labels.get(PORTS, "").split(",")]
            ports = [-int(p[1:]) if p[0] == "+" else int(p) for p in texts if _PORT.fullmatch(p)]
            # slots without a label get numbers below those in use: any free port
            missing = min(MOST_SLOTS, int(table.slots[n])) - len(ports)
            lowest = min([0, *ports])
            ports += [lowest - i for i in range(1, missing + 1)]
            self._sites.append(site)
            self._ports.append(ports)
            self._guessed.append(_guess(ports))
            for numbers in (self._guessed[-1], ports):
                self._index.update({(site, port): (n, s) for s, port in enumerate(numbers)})

    def _port(self, numbers: list[int], node: int, slot: int, otherwise: int) -> int:
        port = numbers[slot] if slot < len(numbers) else otherwise
        self._index.setdefault((self._sites[node], port), (node, slot))
        return port

    def text(self, node: int, slot: int, ledger: Ledger) -> str:
        """Return ``site#port``; ports that are not known count up from the first."""
        site = self._sites[node]
        if any(mark in site for mark in "#/,"):
            ledger.problem(f"nodes[{node}].id", site, "holds one of # / , which the format uses")
        return f"{site}#{self._port(self._guessed[node], node, slot, FIRST_PORT + slot)}"

    def worker(self, node: int, slot: int) -> str:
        """Return ``site:port``, or ``site:+1`` where the port is any free one."""
        port = self._port(self._ports[node], node, slot, -1 - slot)
        return f"{self._sites[node]}:{port_text(port)}"

    def place_of(self, worker: str) -> tuple[int, int] | None:
        """Return node and slot of what `worker` wrote, or ``None``."""
        site, _, port = worker.rpartition(":")
        return self.place(site, -int(port[1:]) if port.startswith("+") else int(port))

    def place(self, site: str, port: int) -> tuple[int, int] | None:
        """Return node and slot of a worker, or ``None``."""
        if (site, port) not in self._index and site in self._sites:
            node = self._sites.index(site)
            slot = port - FIRST_PORT if port >= FIRST_PORT else -1 - port
            return None if self._ports[node] or slot < 0 else (node, slot)
        return self._index.get((site, port))


def _guess(ports: list[int]) -> list[int]:
    """Return ports with likely numbers for those that are not known."""
    fresh = (port for port in count(FIRST_PORT) if port not in ports)
    return [port if port > 0 else next(fresh) for port in ports]


def decided_slots(instance: Instance, places: Places, ledger: Ledger) -> Ints:
    """(T,) slots of a plan; where it decides none, those that the referee finds for it.

    Of the dealings that the referee accepts one is taken in which executors that stay keep their
    slot and the others join the fullest worker of their topology on their node: a worker restarts
    whole when its executors change. If that one breaks a rule, it is the referee's own.
    """
    if places.slot is not None:
        for t in np.flatnonzero(places.slot < 0)[:1]:
            name = instance.tasks.ids[t]
            ledger.problem(f"slots.{name}", None, "is missing: the plan decides the others", _SLOTS)
        return places.slot
    assigned = assign_slots(instance, places.node)
    if assigned.slot is None:
        for violation in assigned.shortage:
            reason = f"needs {violation.needed:g}, has {violation.available:g}: {violation.rule}"
            ledger.problem(f"slots: {violation.place}", None, reason, _SLOTS)
        return places.node
    if _keeps_slots(instance, places, staying := _staying_slots(instance, places)):
        ledger.reading(
            "the plan decides no slots: executors that stay keep theirs, the others join their "
            "topology's worker on the node, or the first idle slot"
        )
        return staying
    ledger.reading("the plan decides no slots: they are those that the referee assigned")
    # other numbers may be other workers that restart
    renumbered = _renumbered(instance, places, assigned.slot)
    return renumbered if _keeps_slots(instance, places, renumbered) else assigned.slot


def _keeps_slots(instance: Instance, places: Places, slot: Ints) -> bool:
    """Whether slots keep every rule that is of slots."""
    placement = Placement(instance, places.node, slot)
    return not any(v for rule in SLOT_RULES for v in rule.violations(placement))


def _staying_slots(instance: Instance, places: Places) -> Ints:
    """(T,) slots with which few workers change."""
    table = instance.tasks
    slot = np.full(instance.num_tasks, -1, dtype=np.int32)
    job = np.full(instance.num_tasks, -1, dtype=np.int64)
    owned = table.operator >= 0
    job[owned] = instance.operators.topology[table.operator[owned]]
    stays = (places.node == table.node) & (table.slot >= 0)
    slot[stays] = table.slot[stays]
    used: dict[int, set[int]] = {}
    workers: dict[tuple[int, int], Counter[int]] = {}
    # those that stay first: their slots are taken before any other task looks for one
    for t in [*np.flatnonzero(stays).tolist(), *np.flatnonzero(~stays).tolist()]:
        worker_sizes = workers.setdefault((int(places.node[t]), int(job[t])), Counter())
        used_here = used.setdefault(int(places.node[t]), set())
        if not stays[t]:
            idle = next(s for s in range(len(used_here) + 1) if s not in used_here)
            slot[t] = min(worker_sizes, key=lambda s: (-worker_sizes[s], s), default=idle)
        worker_sizes[int(slot[t])] += 1
        used_here.add(int(slot[t]))
    return slot


def _renumbered(instance: Instance, places: Places, slot: Ints) -> Ints:
    """(T,) the same assigned with the numbers under which most executors stay where they are."""
    # slots of a node are alike but for their port
    renumbered = slot.copy()
    for n in np.unique(places.node).tolist():
        here = np.flatnonzero(places.node == n)
        stays = here[(instance.tasks.node[here] == n) & (instance.tasks.slot[here] >= 0)]
        current = instance.tasks.slot[stays]
        width = 1 + max(int(slot[here].max()), int(current.max(initial=0)))
        if instance.nodes.slots[n] >= 0:
            width = min(width, int(instance.nodes.slots[n]))
        # common[i, j] = executors of assigned slot i that are in slot j now; most stay by matching
        common = np.zeros((width, width), dtype=np.int64)
        np.add.at(common, (slot[stays][current < width], current[current < width]), 1)
        _, number = linear_sum_assignment(common, maximize=True)
        renumbered[here] = number[slot[here]]
    return renumbered
