"""An instance as the format's page tells it, in plain arrays; nothing of the product is used."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np

INF = math.inf
Document = dict[str, Any]


@dataclass(frozen=True)
class Link:
    """A line with a capacity; `room` is what of it may be used."""

    name: str
    inside: np.ndarray
    capacity: float
    room: float
    background: float
    direction: str


@dataclass(frozen=True)
class Together:
    """A set of tasks under one rule: where each node counts (`place`), and which tasks.

    Of a set over slots places say nothing.
    """

    rule: str
    place: np.ndarray
    tasks: np.ndarray
    at_most: int
    at_least: int


class Reading:
    """The arrays of one instance: (T,) tasks, (N,) nodes, (R,) resources.

    Parameters
    ----------
    document
        The parsed JSON.
    dropped
        Limits that do not count, as ``--ignore`` names them.
    """

    def __init__(self, document: Document, dropped: frozenset[str] = frozenset()) -> None:
        self.document, self.dropped = document, dropped
        self.limits = {
            k: v
            for k, v in document.get("limits", {}).items()
            if v is not None and k not in dropped
        }
        self.resources = document.get("resources", ["cpu"])
        self._tasks()
        self._nodes()
        self._task_arrays()
        self._links()
        self._sets()
        self._traffic()
        self._topologies()
        self._totals()

    # ---- tasks: groups first, in the order of the operators, then those listed alone

    def _tasks(self) -> None:
        document = self.document
        own = {t["id"]: t for t in document.get("tasks", [])}
        rates = tuple_rates(document)
        self.tasks: dict[str, dict[str, Any]] = {}
        for operator in document.get("operators", []):
            group = operator.get("group")
            if group is None:
                continue
            load = group.get("load", {})
            size = group["tasks"]
            for i in range(size):
                name = f"{operator['id']}/{i}"
                told = {k: v for k, v in own.get(name, {}).items() if v is not None}
                even = {r: v / size for r, v in load.items()}
                task = {"operator": operator["id"], "allowed": group.get("allowed"), **told}
                task["load"] = {**even, **told.get("load", {})}
                task["max_load"] = {**group.get("max_load", {}), **told.get("max_load", {})}
                if group.get("state") is not None:
                    task.setdefault("state", group["state"] / size)
                self.tasks[name] = task
        for name, task in own.items():
            self.tasks.setdefault(name, {**task})
        self.task_ids = list(self.tasks)
        self.task_index = {name: t for t, name in enumerate(self.task_ids)}
        self.members: dict[str, list[int]] = defaultdict(list)
        for t, task in enumerate(self.tasks.values()):
            if task.get("operator"):
                self.members[task["operator"]].append(t)

        for operator in document.get("operators", []):
            for task in (self.tasks[self.task_ids[t]] for t in self.members[operator["id"]]):
                task["max_load"] = {**operator.get("max_load", {}), **task.get("max_load", {})}
        for operator in document.get("operators", []):
            members = self.members[operator["id"]]
            if "cpu_per_tuple" in operator and operator["id"] in rates:
                share = operator["cpu_per_tuple"] * rates[operator["id"]] / max(1, len(members))
                for task in (self.tasks[self.task_ids[t]] for t in members):
                    task["load"] = {self.resources[0]: share, **task.get("load", {})}

    def _table(self, items: list[dict[str, Any]], key: str, missing: float) -> np.ndarray:
        rows = [[(x.get(key) or {}).get(r, missing) for r in self.resources] for x in items]
        return np.array(rows, dtype=float).reshape(len(items), len(self.resources))

    def _nodes(self) -> None:
        nodes = self.document.get("nodes", [])
        gone = self.dropped
        self.node_ids = [x["id"] for x in nodes]
        self.node_index = {name: n for n, name in enumerate(self.node_ids)}
        self.capacity = self._table(nodes, "capacity", INF)
        if "capacity" in gone:
            self.capacity = np.full_like(self.capacity, INF)
        share = {} if "max_utilisation" in gone else self.limits.get("max_utilisation", {})
        self.link_share = share.get("links", 1.0)
        shares = np.array([share.get(r, 1.0) for r in self.resources])
        self.room = np.full_like(self.capacity, INF)
        bound = np.isfinite(self.capacity)
        self.room[bound] = (self.capacity * shares)[bound]
        self.background = self._table(nodes, "background", 0.0)
        self.min_load = self._table([] if "min_load" in gone else nodes, "min_load", 0.0)
        if "min_load" in gone:
            self.min_load = np.zeros_like(self.capacity)
        self.weight = np.array([x.get("weight", 1.0) for x in nodes], dtype=float)
        self.leaving = np.array([bool(x.get("leaving")) for x in nodes], dtype=bool)
        unslotted = "slots" in gone
        self.slots = [None if unslotted else x.get("slots") for x in nodes]
        self.slot_room = self._table(nodes, "slot_capacity", INF)
        if unslotted:
            self.slot_room = np.full_like(self.slot_room, INF)
        self.max_tasks = self._most(nodes, "max_tasks")
        self.max_inflow = self._most(nodes, "max_inflow")
        if self.limits.get("max_inflow") is not None:
            self.max_inflow = np.minimum(self.max_inflow, self.limits["max_inflow"])

    def _most(self, nodes: list[dict[str, Any]], key: str) -> np.ndarray:
        told = [None if key in self.dropped else x.get(key) for x in nodes]
        return np.array([INF if v is None else v for v in told], dtype=float)

    def _task_arrays(self) -> None:
        tasks, index, n = list(self.tasks.values()), self.node_index, len(self.node_ids)
        self.load = self._table(tasks, "load", 0.0)
        limited = [] if "max_load" in self.dropped else tasks
        self.max_load = self._table(limited, "max_load", INF)
        if not limited:
            self.max_load = np.full_like(self.load, INF)
        self.home = np.array([index[t["node"]] if t.get("node") else -1 for t in tasks], dtype=int)
        costs = [t.get("migration_cost", t.get("state")) for t in tasks]
        self.cost = np.array([1.0 if c is None else c for c in costs], dtype=float)
        self.state = np.array([t.get("state") or 0.0 for t in tasks], dtype=float)
        self.allowed = np.ones((len(tasks), n), dtype=bool)
        self.copies = np.zeros((len(tasks), n), dtype=bool)
        for t, task in enumerate(tasks):
            if task.get("allowed") and "allowed" not in self.dropped:
                self.allowed[t] = False
                self.allowed[t, [index[x] for x in task["allowed"]]] = True
            if "copies" not in self.dropped:
                self.copies[t, [index[x] for x in task.get("copies") or []]] = True
        staying = self.allowed & ~self.leaving[None]
        self.can_stay_off = staying.any(axis=1)
        #: (T, N) where a task may be: `allowed`, and the mark of a node that is to be emptied
        self.open = self.allowed.copy()
        if "leaving" not in self.dropped:
            at_leaving = np.zeros(len(tasks), dtype=bool)
            known = self.home >= 0
            at_leaving[known] = self.leaving[self.home[known]]
            held = self.can_stay_off & ~at_leaving
            self.open[held] = staying[held]

    # ---- what ties nodes together

    def _links(self) -> None:
        self.links = []
        for x in self.document.get("links", []):
            inside = np.zeros(len(self.node_ids), dtype=bool)
            inside[[self.node_index[n] for n in x["nodes"]]] = True
            capacity = INF if "links" in self.dropped else x.get("capacity", INF)
            room = capacity * self.link_share if capacity < INF else INF
            background, direction = x.get("background", 0.0), x.get("direction", "both")
            self.links.append(Link(x["id"], inside, capacity, room, background, direction))

    def _sets(self) -> None:
        nodes = self.document.get("nodes", [])
        racks = sorted({str(x.get("rack")) for x in nodes})
        self.rack = np.array([racks.index(x["rack"]) if x.get("rack") else -1 for x in nodes])
        places = {
            "node": np.arange(len(nodes)),
            "rack": np.array([racks.index(str(x.get("rack"))) for x in nodes], dtype=int),
        }
        self.sets, self.slot_sets = [], []
        gone = {name for name in ("sets", "slot_sets") if name in self.dropped}
        for x in self.document.get("sets", []):
            kind = "slot_sets" if x.get("over") == "slot" else "sets"
            if kind in gone:
                continue
            if x.get("operator"):
                tasks = self.members[x["operator"]]
            else:
                tasks = [self.task_index[t] for t in x["tasks"]]
            place = places[x.get("over", "node") if kind == "sets" else "node"]
            most, least = x.get("at_most") or 1, x.get("at_least") or 0
            made = Together(x["rule"], place, np.array(tasks, dtype=int), most, least)
            (self.sets if kind == "sets" else self.slot_sets).append(made)

    def _traffic(self) -> None:
        owner = {t: name for name, members in self.members.items() for t in members}
        found: dict[tuple[int, int], float] = defaultdict(float)
        told = set()
        #: (sender, rate, receivers) of streams to whoever is nearest
        self.near: list[tuple[int, float, list[int]]] = []
        for source, target, rate in self.document.get("traffic", []):
            u, v = self.task_index[source], self.task_index[target]
            found[u, v] += rate
            if u in owner and v in owner:
                told.add((owner[u], owner[v]))
        rates = tuple_rates(self.document)
        for stream in self.document.get("streams", []):
            rate = stream.get("rate")
            if rate is None and stream["from"] in rates and "tuple_bytes" in stream:
                rate = rates[stream["from"]] * stream.get("selectivity", 1.0)
                rate *= stream["tuple_bytes"]
            if not rate or (stream["from"], stream["to"]) in told:
                continue
            left, right = self.members[stream["from"]], self.members[stream["to"]]
            pattern = stream.get("pattern", "full")
            if pattern == "local_first" and {"local_first", "local_first_links"} & self.dropped:
                pattern = "full"
            if pattern == "local_first":
                weights = stream.get("sender_weights") or [1] * len(left)
                self.near += [(i, rate * w / sum(weights), right)
                              for i, w in zip(left, weights, strict=True) if w]  # fmt: skip
                continue
            for i, j, share in shares(pattern, len(left), len(right)):
                found[left[i], right[j]] += rate * share
        self.pairs = {pair: rate for pair, rate in found.items() if rate > 0}
        self.total_traffic = math.fsum([*self.pairs.values(), *(rate for _, rate, _ in self.near)])

    def _topologies(self) -> None:
        listed = self.document.get("topologies", [])
        names = [x["id"] for x in listed]
        free = "slots" in self.dropped  # a worker is a slot
        self.workers = [None if free else x.get("workers") for x in listed]
        self.topology = np.full(len(self.task_ids), -1)
        for operator in self.document.get("operators", []):
            if operator.get("topology"):
                members = self.members[operator["id"]]
                self.topology[members] = names.index(operator["topology"])
        self.most_a_slot = self.limits.get("max_tasks_per_slot")
        self._read_running()
        self.slots_matter = (
            any(s is not None for s in self.slots)
            or bool(np.isfinite(self.slot_room).any())
            or self.most_a_slot is not None
            or any(w is not None for w in self.workers)
            or bool(self.slot_sets)
            or self.most_restarts is not None
        )
        alone = [None if "exclusive_nodes" in self.dropped else x.get("exclusive_nodes")
                 for x in listed]  # fmt: skip
        #: (topology, most nodes) of each that stands on nodes of its own
        self.exclusive = [(i, most) for i, most in enumerate(alone) if most is not None]

    def _read_running(self) -> None:
        """Tasks that share a slot now, by node, and how many such may change; nothing without."""
        #: (T,) slot now
        self.slot = [self.tasks[name].get("slot") for name in self.task_ids]
        self.most_restarts = self.limits.get("max_workers_restarted")
        self.running: list[list[list[int]]] = [[] for _ in self.node_ids]
        held: dict[tuple[int, int], list[int]] = {}
        for t, name in enumerate(self.task_ids):
            task = self.tasks[name]
            if task.get("node") is not None and task.get("slot") is not None:
                held.setdefault((self.node_index[task["node"]], task["slot"]), []).append(t)
        if not held:
            self.most_restarts = None  # where nothing runs nothing restarts
        if self.most_restarts is not None:
            for (n, _), tasks in sorted(held.items()):
                self.running[n].append(tasks)

    def _totals(self) -> None:
        crossing = {} if "crossing_cost" in self.dropped else self.document.get("crossing_cost", {})
        self.crossing = {
            side: np.array([(crossing.get(r) or {}).get(side, 0.0) for r in self.resources])
            for side in ("out", "in")
        }
        driven = self.document.get("rate_driven") or self.resources[:1]
        self.rate_driven = np.array([r in driven for r in self.resources])
        least = self.load.sum(axis=0) + self.background.sum(axis=0)
        most = least + self.total_traffic * (self.crossing["out"] + self.crossing["in"])
        #: (R,) the most a resource's loads can add up to
        self.totals = most
        share = float(self.weight[~self.leaving].sum())
        #: least and greatest mean load of load distance's own definition
        self.means = (least[0] / share, most[0] / share) if share > 0 else (0.0, 0.0)


def tuple_rates(document: Document) -> dict[str, float]:
    """Return tuples/s received by each operator where `input_rate` gives them."""
    if document.get("input_rate") is None:
        return {}
    into = defaultdict(list)
    for stream in document.get("streams", []):
        into[stream["to"]].append(stream)
    rates: dict[str, float] = {}
    waiting = [x["id"] for x in document.get("operators", [])]
    while waiting:
        name = next((o for o in waiting if all(s["from"] in rates for s in into[o])), None)
        if name is None:
            break
        waiting.remove(name)
        streams = into[name]
        if all("selectivity" in s for s in streams):
            sums = (rates[s["from"]] * s["selectivity"] for s in streams)
            rates[name] = sum(sums) if streams else document["input_rate"]
        else:
            break
    return rates


def shares(pattern: str, senders: int, receivers: int) -> list[tuple[int, int, float]]:
    """Return (sender, receiver, share of the stream's rate) of every pair that communicates."""
    if not senders or not receivers:
        return []
    each = 1 / senders
    if pattern == "full":
        share = each / receivers
        return [(i, j, share) for i in range(senders) for j in range(receivers)]
    if pattern == "one_to_one":
        return [(i, i, each) for i in range(senders)]
    if pattern == "merge":
        return [(i, i % receivers, each) for i in range(senders)]
    if senders >= receivers:  # rescale: a receiver has a contiguous block of senders
        blocks = [(j * senders // receivers, (j + 1) * senders // receivers, j)
                  for j in range(receivers)]  # fmt: skip
        return [(i, j, each) for begin, end, j in blocks for i in range(begin, end)]
    found = []
    for i in range(senders):  # a sender has a contiguous block of receivers
        begin, end = -(-i * receivers // senders), -(-(i + 1) * receivers // senders)
        found += [(i, j, each / (end - begin)) for j in range(begin, end)]
    return found
