"""Check a certificate of a bound in exact arithmetic: no solver, nothing to install, one file.

    python -I check.py INSTANCE CERTIFICATE [PLAN]

ends with 0 (the bound holds), 1 (it does not follow; the reason is told) or 2 (a file cannot be
read). Numbers of the files are taken as the decimals that stand there. Why each step is valid is
told in docs/proofs/certificates.md, whose sections the parts below follow. A rule of the format
that is not read here is left out: fewer rules allow more placements, so that a bound stays one.
"""
# ruff: noqa: B905, C419

from __future__ import annotations

import hashlib
import json
import re
import sys
import zlib
from collections import defaultdict
from fractions import Fraction as F
from math import ceil, floor, gcd, inf, lcm
from pathlib import Path
from typing import Any, NamedTuple

FORMAT = "streamplace.certificate/1"
SLACK = F(2, 10**9)  # twice what the format grants every limit, of the larger side
MOST_BYTES, MOST_STEPS, MOST_COLUMNS, MOST_WORK = 1 << 30, 4_000_000, 400_000, 120_000_000
OF_TRAFFIC, OF_NODES = ("imc_gain", "internode_traffic"), ("nodes_used", "used_capacity")
THRESHOLDS = ("sustainable_rate", "load_distance", "feasible")
SENSES = dict.fromkeys((*OF_TRAFFIC, *OF_NODES, *THRESHOLDS), "min")
SENSES |= {"imc_gain": "max", "sustainable_rate": "max", "feasible": "max"}
FIELDS = {  # all that may stand in each part of a file
    "nodes": "id capacity min_load background weight slots slot_capacity rack leaving max_tasks "
    "max_inflow labels",
    "links": "id nodes capacity background direction",
    "sets": "id tasks operator rule over at_most at_least",
    "topologies": "id workers",
    "operators": "id topology role group cpu_per_tuple service_rate model labels",
    "tasks": "id operator load state migration_cost node slot allowed copies labels",
    "streams": "from to rate selectivity tuple_bytes pattern",
    "group": "tasks load state allowed",
    "limits": "max_migrations max_migration_cost max_load_distance max_tasks_per_slot max_inflow "
    "max_utilisation",
    "instance": "format name origin units labels resources nodes links rate_driven crossing_cost "
    "sets topologies operators tasks streams traffic limits input_rate",
    "certificate": "format instance_sha256 objective sense bound assumes proof",
}
DROPPED = (  # what may be assumed away
    "capacity min_load max_tasks allowed leaving copies sets links slots crossing_cost "
) + FIELDS["limits"]
Doc = dict[str, Any]
ZERO = F(0)


class Unreadable(Exception):
    """A file cannot be read as what it should be: exit 2."""


class Refused(Exception):
    """The bound does not follow from what the certificate says: exit 1."""


MALFORMED = (Unreadable, LookupError, TypeError, AttributeError, ValueError, ArithmeticError)


# ---- 1. files and numbers -----------------------------------------------------------------------
def no_twins(pairs: list[tuple[str, Any]]) -> Doc:
    """Make an object; a key that stands twice is refused."""
    if len(made := dict(pairs)) != len(pairs):
        raise Unreadable("a key stands twice in one object")
    return made


def decimal(text: str) -> F:
    """Read a decimal exactly; NaN, infinities and exponents beyond 399 are refused."""
    if not re.fullmatch(r"-?[\d.]{1,1000}([eE][+-]?[0-3]?\d?\d)?", text):
        raise Unreadable(f"{text[:30]} is no number of a sensible size")
    return F(text)


def parse(data: bytes) -> tuple[Doc, str]:
    """Read a JSON object, packed or not; return it with the sha256 of its unpacked bytes."""
    if data[:2] == b"\x1f\x8b":
        data = zlib.decompressobj(31).decompress(data, MOST_BYTES + 1)
    hooks: Doc = {"parse_float": decimal, "parse_constant": decimal, "object_pairs_hook": no_twins}
    found = json.loads(data.decode("utf-8-sig"), **hooks)
    if len(data) > MOST_BYTES or not isinstance(found, dict):
        raise Unreadable("no JSON object of at most 1 GiB")
    return found, hashlib.sha256(data).hexdigest()


def number(value: Any, least: float = 0) -> F:
    """Read a number of at least so much."""
    if isinstance(value, bool) or not isinstance(value, (int, F)) or value < least:
        raise Unreadable(f"{str(value)[:30]!r} is no number of at least {least}")
    return F(value)


def whole(value: Any, least: float = 0) -> int:
    """Read a whole number."""
    if value < least or (type(value) is not int and number(value, least).denominator != 1):
        raise Unreadable(f"{str(value)[:30]!r} is no whole number of at least {least}")
    return int(value)


def known(entry: Any, name: str) -> Doc:
    """Refuse a field that is not known here: it might change what is asked."""
    if not isinstance(entry, dict) or entry.keys() - set(FIELDS[name].split()):
        raise Unreadable(f"{name} has a field that this checker does not know")
    return {key: value for key, value in entry.items() if value is not None}


# ---- 2. the instance ----------------------------------------------------------------------------
class Instance:
    """What the file says, exactly; limits that are `dropped` are not read.

    Amounts of a node are the load of each resource, the traffic that leaves, that enters, and both.
    `amounts` is what each task adds to these, times `unit`, which makes them whole; of the traffic
    of tasks that meet, `inner` times the rate is taken off again.
    """

    def __init__(self, document: Doc, dropped: frozenset[str] = frozenset()) -> None:
        self.dropped, document = dropped, known(document, "instance")
        if document["format"] != "streamplace.instance/1":
            raise Unreadable("the instance's format is not streamplace.instance/1")
        names = ("nodes", "links", "sets", "topologies", "operators", "tasks", "streams")
        tables = {k: [known(x, k) for x in document.get(k, [])] for k in names}
        for name, table in tables.items():
            if len({tuple(map(x.get, ("id", "from", "to"))) for x in table}) < len(table):
                raise Unreadable(f"one of the {name} stands twice")
        self.resources: list[str] = document.get("resources", ["cpu"])
        limits = known(document.get("limits", {}), "limits")
        self.limits = {k: v for k, v in limits.items() if k not in dropped}
        nodes, operators, streams = tables["nodes"], tables["operators"], tables["streams"]
        self.node = {x["id"]: n for n, x in enumerate(nodes)}
        self.base = [self._amounts(x.get("background"), ZERO) for x in nodes]
        bare = "capacity" in dropped
        self.capacity = [self._amounts({} if bare else x.get("capacity"), None) for x in nodes]
        self.leaving = [x.get("leaving", False) is True for x in nodes]
        self.weight = [number(x.get("weight", 1)) for x in nodes]
        self._rates(operators, streams, document.get("input_rate"))
        self._tasks(operators, tables["tasks"])
        # slots of each node, and how many of them each topology with `workers` fills
        self.slots = [whole(x.get("slots", len(self.load))) for x in nodes]
        of = {x["id"]: x.get("topology") for x in operators}
        self.topology = [of.get(m) for m in self.member]
        told = tables["topologies"] if "slots" not in dropped else []
        self.fills = [(x["id"], min(whole(x["workers"]), self.topology.count(x["id"])))
                      for x in told if "workers" in x]  # fmt: skip
        self._traffic(document.get("traffic", []), streams)
        self._rooms(document, [] if "links" in dropped else tables["links"])
        self._classes()

    def _amounts(self, entry: Doc | None, missing: Any) -> list[Any]:
        entry = entry or {}
        if entry.keys() - set(self.resources):
            raise Unreadable("an unknown resource is named")
        return [number(entry[r]) if r in entry else missing for r in self.resources]

    def _rates(self, operators: list[Doc], streams: list[Doc], rate: Any) -> None:
        """Tuples a second that reach each operator, where `input_rate` gives them."""
        self.tuples: dict[str, F] = {}
        waiting = [x["id"] for x in operators] if rate is not None else []
        for name in waiting:  # grows: an operator is tried again after one that feeds it
            into = [s for s in streams if s["to"] == name]
            ready = all(s["from"] in self.tuples and "selectivity" in s for s in into)
            if ready and name not in self.tuples:
                sums = [self.tuples[s["from"]] * number(s["selectivity"]) for s in into]
                self.tuples[name] = sum(sums, ZERO) if sums else number(rate)
                waiting += [s["to"] for s in streams if s["from"] == name]

    def _tasks(self, operators: list[Doc], listed: list[Doc]) -> None:
        own, tasks = {x["id"]: x for x in listed}, dict[str, Doc]()
        for name, group in ((x["id"], known(x.get("group", {}), "group")) for x in operators):
            size = whole(group.get("tasks", 0))
            for task in (f"{name}/{i}" for i in range(size)):
                told = own.get(task, {})
                even = {r: number(v) / size for r, v in group.get("load", {}).items()}
                tasks[task] = {"allowed": group.get("allowed"), **told, "operator": name}
                tasks[task]["load"] = even | told.get("load", {})
                if "state" in group:
                    tasks[task].setdefault("state", number(group["state"]) / size)
        every = own | tasks
        self.task = {name: t for t, name in enumerate(every)}
        self._listed(operators, list(every.values()))

    def _listed(self, operators: list[Doc], every: list[Doc]) -> None:
        self.member = [x.get("operator") for x in every]
        self.members = {x["id"]: list[int]() for x in operators}
        for t, name in enumerate(self.member):
            self.members.setdefault(name, []).append(t)
        for x in operators:  # a load that is given wins over a derived one
            mine = self.members[x["id"]]
            for t in mine if "cpu_per_tuple" in x and x["id"] in self.tuples else ():
                share = number(x["cpu_per_tuple"]) * self.tuples[x["id"]] / len(mine)
                every[t]["load"] = {self.resources[0]: share, **every[t].get("load", {})}
        self.load = [self._amounts(x.get("load"), ZERO) for x in every]
        self.home = [self.node[x["node"]] if "node" in x else -1 for x in every]
        self.cost = [number(x.get("migration_cost", x.get("state", 1))) for x in every]
        self.copies = [{self.node[n] for n in x.get("copies", [])} for x in every]
        self.may, staying = list[set[int]](), {n for n, gone in enumerate(self.leaving) if not gone}
        for x, home in zip(every, self.home):
            free = "allowed" in self.dropped or not x.get("allowed")
            may = {self.node[n] for n in (self.node if free else x["allowed"])}
            held = "leaving" in self.dropped or (home >= 0 and self.leaving[home])
            self.may.append(may if held or not may & staying else may & staying)

    def _traffic(self, pairs: list[Any], streams: list[Doc]) -> None:
        self.traffic = defaultdict[tuple[int, int], F](F)
        for source, target, rate in pairs:
            u, v = self.task[source], self.task[target]
            if u == v or (u, v) in self.traffic:
                raise Unreadable("a pair of traffic stands twice, or is of one task")
            self.traffic[u, v] = number(rate)
        told = {(self.member[u], self.member[v]) for u, v in self.traffic}
        for x in streams:
            left, right, rate = self.members[x["from"]], self.members[x["to"]], x.get("rate")
            if x["from"] == x["to"]:
                raise Unreadable("a stream ends where it began")
            if rate is None and "tuple_bytes" in x and x["from"] in self.tuples:
                sent = self.tuples[x["from"]] * number(x.get("selectivity", 1))
                rate = sent * number(x["tuple_bytes"])
            if rate is not None and (x["from"], x["to"]) not in told and left and right:
                for i, j, share in spread_of(x.get("pattern", "full"), len(left), len(right)):
                    self.traffic[left[i], right[j]] += number(rate) * share
        self.total_traffic = sum(self.traffic.values(), ZERO)
        sums = [[*load, ZERO, ZERO, ZERO] for load in self.load]
        for (u, v), rate in self.traffic.items():
            for t, way in ((u, -3), (v, -2), (u, -1), (v, -1)):
                sums[t][way] += rate
        columns = [*zip(*self.load)] or [()] * len(self.resources)
        columns += [tuple(self.traffic.values())] * 3
        self.unit = [lcm(*(a.denominator for a in column)) for column in columns]
        self.inner = [0] * len(self.resources) + [1, 1, 2]
        self.amounts = [tuple(int(a * unit) for a, unit in zip(x, self.unit)) for x in sums]

    def _rooms(self, document: Doc, links: list[Doc]) -> None:
        """Sums of loads, and what each node may carry; links of several nodes bind nothing here."""
        cost = {} if "crossing_cost" in self.dropped else document.get("crossing_cost", {})
        crossing = [sum(map(number, cost.get(r, {}).values()), ZERO) for r in self.resources]
        self.crosses, driven = any(crossing), document.get("rate_driven") or self.resources[:1]
        totals = [sum((x[r] for x in self.load + self.base), self.total_traffic * c)
                  for r, c in enumerate(crossing)]  # fmt: skip
        self.total = totals[0]
        share = sum((w for w, gone in zip(self.weight, self.leaving) if not gone), ZERO)
        self.mean: Any = self.total / share if share and not self.crosses else None
        used = {k: number(v) for k, v in self.limits.get("max_utilisation", {}).items()}
        #: of each node (amount, most of it, what the background leaves, whether the rate drives it)
        self.rooms: list[list[tuple[int, F, F, bool]]] = [[] for _ in self.node]

        def add(n: int, i: int, room: F, base: F, total: F, rated: bool) -> None:
            most = room + SLACK * max(room, total) - base  # with the tolerance
            left = max(ZERO, room - base)
            self.rooms[n].append((i, most * self.unit[i], left * self.unit[i], rated))

        for n, capacity in enumerate(self.capacity):
            for r, (name, room) in enumerate(zip(self.resources, capacity)):
                if room is not None:
                    room *= used.get(name, 1)
                    add(n, r, room, self.base[n][r], totals[r], name in driven)
        bases = [number(x.get("background", 0)) for x in links]
        for x, base in zip(links, bases):
            inside, room = {self.node[n] for n in x["nodes"]}, number(x["capacity"])
            way = len(crossing) + ("out", "in", "both").index(x.get("direction", "both"))
            if len(inside) == 1:
                total = sum(bases, self.total_traffic)
                add(inside.pop(), way, room * used.get("links", 1), base, total, True)
        #: budgets of moves: the price of each task, and the most, in units that make them whole
        self.budgets: list[tuple[list[int], int]] = []
        prices = {"max_migrations": [F(1)] * len(self.cost), "max_migration_cost": self.cost}
        for costs, told in ((prices[k], self.limits[k]) for k in prices if k in self.limits):
            unit, most = lcm(*(c.denominator for c in costs)), number(told)
            most += SLACK * max(most, sum(costs, ZERO))
            self.budgets.append(([int(c * unit) for c in costs], floor(most * unit)))

    def _classes(self) -> None:
        """Put tasks together that can be exchanged without changing anything that is read here."""
        near: list[dict[int, int]] = [{} for _ in self.load]
        for (u, v), rate in self.traffic.items():
            for a, b in ((u, v), (v, u)) if rate else ():
                near[a][b] = near[a].get(b, 0) + int(rate * self.unit[-1])
        found = defaultdict[Any, list[int]](list)
        for t, amounts in enumerate(self.amounts):
            moves: Any = (self.home[t], self.cost[t], frozenset(self.copies[t]))
            also = moves if self.budgets else None, self.topology[t] if self.fills else None
            found[amounts, frozenset(self.may[t]), frozenset(near[t].items()), also].append(t)
        self.classes = list(found.values())
        self.first, self.sizes = [c[0] for c in self.classes], [len(c) for c in self.classes]
        of = {t: g for g, tasks in enumerate(self.classes) for t in tasks}
        #: traffic, both ways, between any two tasks of two classes; there is none within one
        self.rates = [{of[b]: rate for b, rate in near[t].items()} for t in self.first]

    def paid(self, t: int, n: int) -> list[tuple[int, int]]:
        """Which budgets task t pays for being on node n, and how much: none unless it moved."""
        moved = self.home[t] not in (-1, n) and n not in self.copies[t]
        return [(row, price[t]) for row, (price, _) in enumerate(self.budgets) if moved]


def spread_of(pattern: str, a: int, b: int) -> list[tuple[int, int, F]]:
    """Return (sender, receiver, share of the rate) of a stream between a and b tasks."""
    if pattern == "full":
        return [(i, j, F(1, a * b)) for i in range(a) for j in range(b)]
    if pattern in ("one_to_one", "merge") and (a == b or pattern == "merge"):
        return [(i, i % b, F(1, a)) for i in range(a)]
    if pattern != "rescale":
        raise Unreadable(f"pattern {str(pattern)[:30]!r} between {a} and {b} tasks")
    if a >= b:
        return [(i, j, F(1, a)) for j in range(b) for i in range(j * a // b, (j + 1) * a // b)]
    blocks = [range(-(-i * b // a), -(-(i + 1) * b // a)) for i in range(a)]
    return [(i, j, F(1, a * len(block))) for i, block in enumerate(blocks) for j in block]


def shares_of(x: Instance, objective: str) -> list[F]:
    """What each node counts once it is in use; nothing for the other objectives."""
    if objective != "used_capacity":
        return [F(objective == "nodes_used")] * len(x.node)
    sizes = [capacity[0] for capacity in x.capacity]
    if None in sizes or not sum(sizes):
        raise Refused("a node has no capacity of the first resource")
    return [size / sum(sizes) for size in sizes]


# ---- 3. models ----------------------------------------------------------------------------------
class Column(NamedTuple):
    """A whole number ≥ 0: the key that tells what it counts (its group first), gain, rows."""

    key: tuple[int, ...]
    gain: int
    entries: tuple[tuple[int, int], ...]


class Model:
    """max gain·z: rows (sense, right side), the z of each group add up to its size, all whole.

    The objective is offset + unit·gain·z. With `threshold`, limits are those of being better than
    the bound, and the proof is that there is no z.
    """

    def __init__(
        self, x: Instance, objective: str, bound: F, kind: str, most_steps: int = MOST_STEPS
    ) -> None:
        self.instance, self.objective, self.bound, self.left = x, objective, bound, most_steps
        self.kind, self.threshold = kind, objective in THRESHOLDS
        self.shares = shares_of(x, objective)
        if objective == "load_distance" and x.mean is None:
            raise Refused("load distance needs staying nodes, and no crossing costs")
        self.limits = [self._limits(n) for n in range(len(x.node))]
        self.offset, self.unit = ZERO, F(1, x.unit[-1])
        if objective == "internode_traffic":
            self.offset, self.unit = x.total_traffic, -self.unit
        elif objective in OF_NODES:
            self.unit = F(-1, lcm(*(share.denominator for share in self.shares)))
        self.columns: list[Column] = []
        self.rows = [("<", most) for _, most in x.budgets]
        self.groups: list[int] = []
        {"dual": self._textbook, "counting": self._counting}.get(kind, self._patterns)()

    def _add(self, key: tuple[int, ...], gain: int, entries: Any) -> None:
        self.columns.append(Column(key, gain, tuple(e for e in entries if e[1])))
        if len(self.columns) > MOST_COLUMNS:
            raise Refused(f"more than {MOST_COLUMNS:,} columns")

    def _step(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise Refused("too many steps to list what nodes may hold")

    def _limits(self, n: int) -> tuple[tuple[int, int, int], ...]:
        """Limits of node n: (amount, sign, most) for sign · amount ≤ most; all are whole."""
        x, found = self.instance, list[tuple[int, int, int]]()
        for i, most, left, driven in x.rooms[n]:
            if self.objective != "sustainable_rate" or not driven:
                found.append((i, 1, floor(most)))
            elif self.bound > 0 or (self.bound == 0 and not left):  # below left / bound, or unused
                found.append((i, 1, max(0, ceil(left / (self.bound or 1)) - 1)))
        away = [(self.bound, 1)] if self.objective == "load_distance" else []  # stays below it
        if "max_load_distance" in x.limits:
            most = number(x.limits["max_load_distance"])
            away.append((most + SLACK * max(most, x.total), 0))
        for far, below in away if x.mean is not None else ():
            middle = x.weight[n] * x.mean - x.base[n][0]
            for sign in (1,) if x.leaving[n] else (1, -1):
                edge = (sign * middle + far) * x.unit[0]
                found.append((0, sign, ceil(edge) - 1 if below else floor(edge)))
        return tuple(found)

    # -- node patterns: what a node of a class may hold
    def of_node(self, n: int) -> list[tuple[tuple[int, ...], int]]:
        """List (counts, traffic inside) of all that node n may hold, class by class of tasks."""
        x = self.instance
        limits = [([sign * x.amounts[t][i] for t in x.first], x.inner[i], most)
                  for i, sign, most in self.limits[n]]  # fmt: skip
        sizes = [size * (n in x.may[t]) for t, size in zip(x.first, x.sizes)]
        found: list[Any] = [((), (0,) * len(limits), 0)]
        # what sums may come to so far: the classes that follow can take off so much of them
        rooms = [most - sum(min(0, a) * size for a, size in zip(every, sizes)) if not inner else inf
                 for every, inner, most in limits]  # fmt: skip
        for g, size in enumerate(sizes):
            pulls = [(h, rate) for h, rate in x.rates[g].items() if h < g]
            own = [every[g] for every, *_ in limits]
            rooms = [room + min(0, a) * size for room, a in zip(rooms, own)]
            before, found = found, []
            for counts, sums, inside in before:
                pull = sum([counts[h] * rate for h, rate in pulls])
                self._step(size + 1)
                for c in range(size + 1):
                    now = tuple([s + c * a for s, a in zip(sums, own)]) if c else sums
                    if all([s <= room for s, room in zip(now, rooms)]):
                        found.append(((*counts, c), now, inside + c * pull))
        return [
            (counts, inside) for counts, sums, inside in found
            if all(s - inner * inside <= most for s, (_, inner, most) in zip(sums, limits))
        ]  # fmt: skip

    def _patterns(self) -> None:
        """Rows: every class of tasks is placed. Groups: every node of a class holds one pattern."""
        x, places = self.instance, defaultdict[Any, list[int]](list)
        if len(x.classes) > 300:
            raise Refused(f"{len(x.classes)} classes of tasks are too many for patterns")
        for n, limits in enumerate(self.limits):  # alike where all that is read here of them is
            open_to = tuple((n in x.may[t], bool(x.paid(t, n))) for t in x.first)
            places[limits, open_to, self.shares[n], x.slots[n] if x.fills else 0].append(n)
        placed, fills = len(self.rows), list[tuple[int, list[int]]]()
        self.rows += [("=", size) for size in x.sizes]
        for name, wanted in x.fills:  # a node's tasks fill a slot, or as many as can be
            of = [g for g, t in enumerate(x.first) if x.topology[t] == name]
            fills.append((len(self.rows), of))
            self.rows += [("<", wanted), (">", wanted)]
        for k, (n, *others) in enumerate(places.values()):
            self.groups.append(1 + len(others))
            paid = [x.paid(t, n) for t in x.first]
            for counts, inside in self.of_node(n):
                held = [(g, c) for g, c in enumerate(counts) if c]
                gain = inside * (self.objective in OF_TRAFFIC)
                gain += int(self.shares[n] / self.unit) if held else 0
                entries = [(placed + g, c) for g, c in held]
                entries += [(row, c * price) for g, c in held for row, price in paid[g]]
                for row, of in fills:
                    there = sum(counts[g] for g in of)
                    entries += [(row, min(1, there)), (row + 1, min(x.slots[n], there))]
                self._add((k, *counts), gain, entries)

    # -- the textbook's model: (group, kind, home, node, moved) is a column's key
    def _textbook(self) -> None:
        """Rows: limits, use, products. Groups: of each class of tasks, pair of these, and node.

        Entries of class g on node n are kept in `on`, of pairs there in `inside`, of n in `use`.
        """
        x, used, nodes = self.instance, self.objective in OF_NODES, range(len(self.limits))
        on = defaultdict[tuple[int, int], list[tuple[int, int]]](list)
        inside, use = ([list[tuple[int, int]]() for _ in nodes] for _ in range(2))
        self._step(10 * len(nodes) * (len(x.classes) + sum(map(len, x.rates))))
        for n in nodes:
            for i, sign, most in self.limits[n]:  # an unused node has nothing of an amount
                use[n].append((len(self.rows), -most))
                inside[n].append((len(self.rows), -x.inner[i]))
                for g, t in enumerate(x.first):
                    on[g, n].append((len(self.rows), sign * x.amounts[t][i]))
                self.rows.append(("<", 0 if used else most))
            for g, size in enumerate(x.sizes) if used else ():
                use[n].append((len(self.rows), -size))
                on[g, n].append((len(self.rows), 1))
                self.rows.append(("<", 0))
        self.groups = list(x.sizes)
        if self.objective in OF_TRAFFIC or any(x.inner[i] for ls in self.limits for i, *_ in ls):
            self._products(on, inside)
        for g, t in enumerate(x.first):
            for n in sorted(x.may[t]):
                paid = x.paid(t, n)
                self._add((g, 0, x.home[t], n, int(bool(paid))), 0, on[g, n] + paid)
        for n in nodes if used else ():
            self._add((len(self.groups), 2, -1, n, 1), int(self.shares[n] / self.unit), use[n])
            self._add((len(self.groups), 2, -1, n, 0), 0, ())
            self.groups.append(1)

    def _products(self, on: Any, inside: Any) -> None:
        """Pairs of tasks that meet on a node: at most what either has, times all of the other."""
        x, counts = self.instance, self.objective in OF_TRAFFIC
        pairs = [(g, h, rate) for g, near in enumerate(x.rates) for h, rate in near.items()]
        for g, h, rate in (pair for pair in pairs if pair[0] < pair[1]):
            k = len(self.groups)
            self.groups.append(x.sizes[g] * x.sizes[h])
            self._add((k, 1, -1, -1, 0), 0, ())  # those that are apart
            for n in sorted(x.may[x.first[g]] & x.may[x.first[h]]):
                entries = [(row, factor * rate) for row, factor in inside[n]]
                for one, other in ((g, h), (h, g)):
                    entries.append((len(self.rows), 1))
                    on[one, n].append((len(self.rows), -x.sizes[other]))
                    self.rows.append(("<", 0))
                self._add((k, 1, -1, n, 0), rate * counts, entries)

    # -- counting: (node, tasks that it loses, that it takes) is the key of both ends of its gain
    def _counting(self) -> None:
        """Rows: the budget of moves; as many come as go; gains add up to 0. Groups: the nodes.

        Whole are the sums over both ends; cuts cannot tell them apart, and nothing is dropped.
        """
        x = self.instance
        if -1 in x.home or any(x.copies) or "max_migrations" not in x.limits:
            raise Refused("counting needs max_migrations, a place of every task, and no copies")
        most, loads = whole(x.limits["max_migrations"]), [amounts[0] for amounts in x.amounts]
        free = [t for t, home in enumerate(x.home) if x.may[t] - {home}]
        self.rows = [("<", most), ("=", 0), ("=", 0)]

        def sums(tasks: list[int], sign: int) -> list[int]:
            some = sorted(sign * loads[t] for t in tasks)[:most]
            return [sign * sum(some[:count]) for count in range(len(some) + 1)]

        small, large = sums(free, 1), sums(free, -1)
        for n, limits in enumerate(self.limits):
            self.groups.append(1)
            light, heavy = (sums([t for t in free if x.home[t] == n], s) for s in (1, -1))
            self._step(len(light) * len(small))
            now = sum(load for load, home in zip(loads, x.home) if home == n)
            up, down = ([most_ - s * now for i, s, most_ in limits if (i, s) == (0, sign)]
                        for sign in (1, -1))  # fmt: skip
            for o, m in ((o, m) for o in range(len(light)) for m in range(len(small))):
                high, low = min([*up, large[m] - light[o]]), -min([*down, heavy[o] - small[m]])
                for gain in sorted({low, high}) if low <= high else ():
                    self._add((n, o, m), 0, ((0, o), (1, o - m), (2, gain)))


# ---- 4. proofs over a model ---------------------------------------------------------------------
Cuts = tuple[tuple[frozenset[int], str, int], ...]


class Proof:
    """Walks the steps of a proof over a model; every case must end in multipliers that close it."""

    def __init__(self, model: Model, bound: F) -> None:
        self.model, self.work = model, 0
        self.step = gcd(*(c.gain for c in model.columns)) or 1
        self.goal = -1 if model.threshold else floor((bound - model.offset) / model.unit)

    def walk(self, steps: Any) -> None:
        """Go through the steps in order; a branch is followed by all of its low, then high side."""
        cases: list[tuple[list[int], Cuts]] = [(list(range(len(self.model.columns))), ())]
        for number, step in enumerate(steps if isinstance(steps, list) else [None]):
            if not isinstance(step, dict) or not cases:
                raise Refused(f"step {number} belongs to no open case")
            columns, cuts = cases.pop()
            self.work += len(columns) * (len(cuts) + 4)
            if self.work > MOST_WORK:
                raise Refused("the work limit is reached")
            if "branch" in step:
                cut, at = self.cut(step["branch"], columns), whole(step.get("at"))
                cases += [(columns, (*cuts, (cut, *side))) for side in ((">", at + 1), ("<", at))]
                continue
            given, over = step.get("close", step.get("drop")), whole(step.get("over", 1))
            value, rests = self.value(given, over, columns, cuts)
            if value is not None and "drop" in step and self.model.kind != "counting":
                keep = [j for j, rest in zip(columns, rests) if not self.closed(value + rest, over)]
                cases.append((keep, cuts))  # nothing better uses one of the others
            elif not self.closed(value, over):
                raise Refused(f"step {number}: its multipliers leave {value} / {over}"[:99])
        if cases:
            raise Refused(f"{len(cases)} cases are left open")

    def cut(self, branch: Any, columns: list[int]) -> frozenset[int]:
        """Return the columns whose keys have certain places within certain ranges."""
        keys = ((j, self.model.columns[j].key) for j in columns)
        return frozenset(
            j for j, key in keys if all(low <= key[i] <= high for i, low, high in branch)
        )

    def value(
        self, given: Any, over: int, columns: list[int], cuts: Cuts
    ) -> tuple[int | None, list[int]]:
        """Return the most that multipliers allow, and how far each column is from it; × over."""
        every, rows = self.model.columns, [*self.model.rows, *(cut[1:] for cut in cuts)]
        if not isinstance(given, list) or len(given) != len(rows):
            raise Refused(f"{len(rows)} multipliers are needed, one a row")
        signed = [whole(y, -inf) for y in given]
        if any((s == "<" and y < 0) or (s == ">" and y > 0) for y, (s, _) in zip(signed, rows)):
            raise Refused("a multiplier has the wrong sign")
        tail = [(y, cut[0]) for y, cut in zip(signed[len(self.model.rows) :], cuts) if y]
        rests, top = list[int](), dict[int, int]()
        for j in columns:
            key, gain, entries = every[j]
            rest = over * gain - sum([signed[row] * factor for row, factor in entries])
            if tail:
                rest -= sum([y for y, cut in tail if j in cut])
            rests.append(rest)
            if key[0] not in top or rest > top[key[0]]:
                top[key[0]] = rest
        sizes = [(group, size) for group, size in enumerate(self.model.groups) if size]
        if any(group not in top for group, _ in sizes):
            return None, []  # nothing is left that a group could be of: no solution
        total = sum(y * right for y, (_, right) in zip(signed, rows))
        total += sum(size * top[group] for group, size in sizes)
        return total, [rest - top[every[j].key[0]] for j, rest in zip(columns, rests)]

    def closed(self, value: int | None, over: int) -> bool:
        """Whether gains of at most value / over leave nothing better than the bound.

        Over 0 gains do not count: less than 0 is reached by no solution at all.
        """
        if value is None or not over:
            return value is None or value < 0
        return value // (over * self.step) * self.step <= self.goal


# ---- 5. the whole -------------------------------------------------------------------------------
def value_of(x: Instance, plan: Doc, objective: str) -> F:
    """Return the exact value of a plan (whether it keeps every rule is the referee's to say)."""
    told = plan.get("assignment")
    if not isinstance(told, dict) or told.keys() != x.task.keys():
        raise Refused("the plan does not place exactly the tasks of the instance")
    at = [x.node.get(told[name], -1) for name in x.task]
    if any(n not in may for n, may in zip(at, x.may)):
        raise Refused("the plan puts a task where it may not be")
    together, held = ZERO, [[ZERO] * len(x.unit) for _ in x.node]
    for n, amounts in zip(at, x.amounts):
        held[n] = [a + b for a, b in zip(held[n], amounts)]
    for (u, v), rate in x.traffic.items():
        if at[u] == at[v]:
            together += rate
            held[at[u]] = [a - i * rate * x.unit[-1] for a, i in zip(held[at[u]], x.inner)]
    rates = [left / held[n][i] for n, rooms in enumerate(x.rooms) for i, _, left, driven in rooms
             if driven and held[n][i]]  # fmt: skip
    if objective == "sustainable_rate" and rates and not x.crosses:
        return min(rates)
    if objective == "load_distance" and x.mean is not None:
        off = [h[0] / x.unit[0] + b[0] - w * x.mean for h, b, w in zip(held, x.base, x.weight)]
        return max(a if gone else abs(a) for a, gone in zip(off, x.leaving))
    if objective in OF_NODES:
        return sum((shares_of(x, objective)[n] for n in {*at}), ZERO)
    values = {"imc_gain": together, "internode_traffic": x.total_traffic - together}
    if objective not in values and objective != "feasible":
        raise Refused(f"the plan has no {objective} that this checker can tell")
    return values.get(objective, F(1))


def check(instance: Doc, sha256: str, certificate: Doc, plan: Doc | None = None) -> str:
    """Return what is proved in a line; raise `Refused` or `Unreadable`."""
    if certificate.keys() != {*FIELDS["certificate"].split()} or certificate["format"] != FORMAT:
        raise Unreadable(f"a {FORMAT} has the fields {FIELDS['certificate']}, and no others")
    objective, told, proof = (
        str(certificate["objective"]),
        certificate["bound"],
        certificate["proof"],
    )
    assumes = list(map(str, certificate["assumes"]))
    if certificate["instance_sha256"] != sha256:
        raise Refused(f"the certificate is of another instance: this one has sha256 {sha256}")
    if objective not in SENSES or certificate["sense"] != SENSES[objective]:
        raise Refused("objective and sense are not known to this checker")
    if set(assumes) - {f"without {name}" for name in DROPPED.split()}:
        raise Refused("an assumption is not known to this checker")
    if isinstance(told, str) and not re.fullmatch(r"-?\d{1,2000}(/[1-9]\d{0,2000})?", told):
        raise Unreadable("the bound is neither a number nor a text p/q")
    bound, best = number(F(told) if isinstance(told, str) else told, -inf), SENSES[objective]
    if objective == "feasible" and bound:
        raise Refused("feasible is 0 where there is no placement; nothing else is proved")
    read = Instance(instance, frozenset(x.removeprefix("without ") for x in assumes))
    kind = str(proof.get("kind") if isinstance(proof, dict) else None)
    kinds = ("dual", "threshold", "counting") if objective in THRESHOLDS else ("dual", "patterns")
    if kind not in kinds:
        raise Refused(f"{kind[:30]!r} is no kind of proof of {objective}")
    Proof(Model(read, objective, bound, kind), bound).walk(proof.get("steps"))
    line = f"{objective} is {'at most' if best == 'max' else 'at least'} {float(bound):.15g}"
    line = ", ".join([f"{line} (exactly {told})", *assumes])
    if plan is not None:
        value = value_of(read, plan, objective)
        if (value > bound) if best == "max" else (value < bound):
            raise Refused(f"the plan has {float(value):.15g}, beyond the bound: it breaks a rule")
        gap = abs(value - bound) / (max(abs(value), abs(bound)) or 1)
        line += f"; the plan has {float(value):.15g}, a gap of {float(gap):.3g}"
    return line


def main(arguments: list[str]) -> int:
    """Check the files that are named."""
    path = ""
    try:
        found = [parse(Path(path := name).read_bytes()) for name in arguments]
        path = "usage: python -I check.py INSTANCE CERTIFICATE [PLAN]"
        (instance, sha256), (certificate, _), *rest = found
        print(f"holds: {check(instance, sha256, certificate, *(plan for plan, _ in rest))}")
    except (Refused, RecursionError, OverflowError) as error:
        print(f"does not hold: {error}", file=sys.stderr)
        return 1
    except (*MALFORMED, OSError, zlib.error) as error:
        print(f"cannot be read: {path}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
