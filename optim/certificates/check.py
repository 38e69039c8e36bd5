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
    if value < least or (type(value) is not int and number(value).denominator != 1):
        raise Unreadable(f"{str(value)[:30]!r} is no whole number of at least {least}")
    return int(value)


def known(entry: Any, name: str) -> Doc:
    """Refuse a field that is not known here: it might change what is asked."""
    if not isinstance(entry, dict) or entry.keys() - set(FIELDS[name].split()):
        raise Unreadable(f"{name} has a field that this checker does not know")
    return {key: value for key, value in entry.items() if value is not None}


# ---- 2. the instance ----------------------------------------------------------------------------
class Instance:
    """What the file says, exactly; limits that are `dropped` are not read."""

    def __init__(self, document: Doc, dropped: frozenset[str] = frozenset()) -> None:
        self.dropped, document = dropped, known(document, "instance")
        if document["format"] != "streamplace.instance/1":
            raise Unreadable("the instance's format is not streamplace.instance/1")
        names = ("nodes", "links", "sets", "topologies", "operators", "tasks", "streams")
        tables = {k: [known(x, k) for x in document.get(k, [])] for k in names}
        for name, table in tables.items():
            ids = {(x["from"], x["to"]) if name == "streams" else x["id"] for x in table}
            if len(ids) < len(table):
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
        told = [x for x in tables["topologies"] if "workers" in x and "slots" not in dropped]
        self.fills = [(x["id"], min(whole(x["workers"]), self.topology.count(x["id"])))
                      for x in told]  # fmt: skip
        self._traffic(document.get("traffic", []), streams)
        self._rooms(document, [] if "links" in dropped else tables["links"])

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
        tasks |= {name: entry for name, entry in own.items() if name not in tasks}
        every, staying = list(tasks.values()), {n for n, x in enumerate(self.leaving) if not x}
        self.task = {name: t for t, name in enumerate(tasks)}
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
        self.home = [self.node[x["node"]] if "node" in x else None for x in every]
        self.cost = [number(x.get("migration_cost", x.get("state", 1))) for x in every]
        self.copies = [{self.node[n] for n in x.get("copies", [])} for x in every]
        self.may: list[set[int]] = []
        for x, home in zip(every, self.home):
            free = "allowed" in self.dropped or not x.get("allowed")
            may = {self.node[n] for n in (self.node if free else x["allowed"])}
            held = "leaving" in self.dropped or (home is not None and self.leaving[home])
            self.may.append(may if held or not may & staying else may & staying)

    def _traffic(self, pairs: list[Any], streams: list[Doc]) -> None:
        self.traffic: dict[tuple[int, int], F] = {}
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
                    pair = left[i], right[j]
                    self.traffic[pair] = self.traffic.get(pair, ZERO) + number(rate) * share
        self.total_traffic = sum(self.traffic.values(), ZERO)

    def _rooms(self, document: Doc, links: list[Doc]) -> None:
        """Sums of loads, and what each node may carry; links of several nodes bind nothing here."""
        cost = {} if "crossing_cost" in self.dropped else document.get("crossing_cost", {})
        crossing = [sum(map(number, cost.get(r, {}).values()), ZERO) for r in self.resources]
        self.crosses, driven = any(crossing), document.get("rate_driven") or self.resources[:1]
        self.totals = [sum((x[r] for x in self.load + self.base), self.total_traffic * c)
                       for r, c in enumerate(crossing)]  # fmt: skip
        share = sum((w for w, gone in zip(self.weight, self.leaving) if not gone), ZERO)
        self.mean: Any = self.totals[0] / share if share and not self.crosses else None
        used = {k: number(v) for k, v in self.limits.get("max_utilisation", {}).items()}
        #: of each node (amount, most of it, what the background leaves, whether the rate drives it)
        #: where amounts are the resources, then the traffic that leaves, that enters, and both
        self.rooms: list[list[tuple[int, F, F, bool]]] = [[] for _ in self.node]

        def add(n: int, amount: int, room: F, base: F, total: F, rated: bool) -> None:
            most = room + SLACK * max(room, total) - base  # with the tolerance
            self.rooms[n].append((amount, most, max(ZERO, room - base), rated))

        for n, capacity in enumerate(self.capacity):
            for r, name in enumerate(self.resources):
                if (room := capacity[r]) is not None:
                    room *= used.get(name, 1)
                    add(n, r, room, self.base[n][r], self.totals[r], name in driven)
        bases = [number(x.get("background", 0)) for x in links]
        for x, base in zip(links, bases):
            inside, room = {self.node[n] for n in x["nodes"]}, number(x["capacity"])
            way = len(crossing) + ("out", "in", "both").index(x.get("direction", "both"))
            if len(inside) == 1:
                total = sum(bases, self.total_traffic)
                add(inside.pop(), way, room * used.get("links", 1), base, total, True)


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


def common(numbers: Any) -> int:
    """Return the least common denominator."""
    return lcm(1, *{x.denominator for x in numbers})


class Model:
    """max gain·z: rows (sense, right side), the z of each group add up to its size, all whole.

    The objective is offset + unit·gain·z. With `threshold`, limits are those of being better than
    the bound, and the proof is that there is no z. `tasks` are the members of the classes.
    """

    def __init__(
        self, x: Instance, objective: str, bound: F, kind: str, most_steps: int = MOST_STEPS
    ) -> None:
        self.instance, self.objective, self.bound, self.left = x, objective, bound, most_steps
        self.kind, self.threshold = kind, objective in THRESHOLDS
        self.shares = shares_of(x, objective)
        if objective == "load_distance" and x.mean is None:
            raise Refused("load distance needs staying nodes, and no crossing costs")
        prices = {"max_migrations": [F(1)] * len(x.load), "max_migration_cost": x.cost}
        self.budgets = [(prices[k], number(x.limits[k])) for k in prices if k in x.limits]
        # amounts are whole in these units: the resources, traffic out, in, and both
        self.scale = [common(load[r] for load in x.load) for r in range(len(x.resources))]
        self.scale += [common(x.traffic.values())] * 3
        self.limits = [self._limits(n) for n in range(len(x.node))]
        self.offset, self.unit = ZERO, F(1, self.scale[-1])
        if objective == "internode_traffic":
            self.offset, self.unit = x.total_traffic, -self.unit
        elif objective in OF_NODES:
            self.unit = F(-1, common(self.shares))
        self.columns: list[Column] = []
        self.rows, self.groups = list[tuple[str, int]](), list[int]()
        if kind == "counting":
            self._counting()
        else:
            self._alike()
            (self._textbook if kind == "dual" else self._patterns)()

    def _add(self, key: tuple[int, ...], gain: int, entries: Any) -> None:
        self.columns.append(Column(key, gain, tuple(e for e in entries if e[1])))
        if len(self.columns) > MOST_COLUMNS:
            raise Refused(f"more than {MOST_COLUMNS:,} columns")

    def _step(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise Refused("too many steps to list what nodes may hold")

    def _alike(self) -> None:
        """Classes of tasks that can be exchanged without changing anything that is read here."""
        x, flow, scale = self.instance, [[0, 0] for _ in self.instance.load], self.scale[-1]
        near: list[dict[int, int]] = [{} for _ in x.load]
        for (u, v), rate in ((pair, int(r * scale)) for pair, r in x.traffic.items()):
            flow[u][0] += rate
            flow[v][1] += rate
            for a, b in ((u, v), (v, u)) if rate else ():
                near[a][b] = near[a].get(b, 0) + rate
        found: dict[Any, list[list[int]]] = {}
        for t, load in enumerate(x.load):
            own: Any = (x.home[t], x.cost[t], frozenset(x.copies[t])) if self.budgets else ()
            own = (*own, x.topology[t]) if x.fills else own
            groups = found.setdefault((*load, frozenset(x.may[t]), *flow[t], len(near[t]), own), [])
            for group in groups:
                a = group[0]
                if all(near[t].get(b if b != t else a) == rate for b, rate in near[a].items()):
                    group.append(t)
                    break
            else:
                groups.append([t])
        self.tasks = sorted(group for groups in found.values() for group in groups)
        self.first, self.sizes = [g[0] for g in self.tasks], [len(g) for g in self.tasks]
        of = {t: g for g, group in enumerate(self.tasks) for t in group}
        self.flow = [flow[t] for t in self.first]
        # any two tasks of two classes have the same traffic
        self.rates = [{of[b]: rate for b, rate in near[t].items()} for t in self.first]
        self.loads = [[int(a * s) for a, s in zip(x.load[t], self.scale)] for t in self.first]

    def pays(self, t: int, n: int) -> bool:
        """Whether task t on node n has migrated, and that counts."""
        x = self.instance
        return bool(self.budgets) and x.home[t] not in (None, n) and n not in x.copies[t]

    def _limits(self, n: int) -> tuple[tuple[int, int, int], ...]:
        """Limits of node n: (amount, sign, most) for sign · amount ≤ most; all are whole."""
        x, found = self.instance, list[tuple[int, int, int]]()
        for i, most, left, driven in x.rooms[n]:
            if self.objective != "sustainable_rate" or not driven:
                found.append((i, 1, floor(most * self.scale[i])))
            elif not left and self.bound >= 0:  # any use of it is a rate of 0
                found.append((i, 1, 0))
            elif self.bound > 0:  # below, as the rate has to be above the bound
                found.append((i, 1, ceil(left / self.bound * self.scale[i]) - 1))
        away = [(self.bound, 1)] if self.objective == "load_distance" else []  # stays below it
        if "max_load_distance" in x.limits:
            most = number(x.limits["max_load_distance"])
            away.append((most + SLACK * max(most, x.totals[0]), 0))
        for far, below in away if x.mean is not None else ():
            middle = x.weight[n] * x.mean - x.base[n][0]
            for sign in (1,) if x.leaving[n] else (1, -1):
                edge = (sign * middle + far) * self.scale[0]
                found.append((0, sign, ceil(edge) - 1 if below else floor(edge)))
        return tuple(found)

    def _budget_rows(self) -> list[tuple[int, list[int]]]:
        """Add the rows of the budgets; return (row, price of each class of tasks)."""
        prices = []
        for costs, most in self.budgets:
            unit = common(costs)
            prices.append((len(self.rows), [int(costs[t] * unit) for t in self.first]))
            self.rows.append(("<", floor((most + SLACK * max(most, sum(costs, ZERO))) * unit)))
        return prices

    # -- node patterns: what a node of a class may hold
    def of_node(self, n: int) -> list[tuple[tuple[int, ...], int]]:
        """List (counts, traffic inside) of all that node n may hold, class by class of tasks."""
        x, every = self.instance, range(len(self.instance.resources))
        most, least = ([min([m for i, s, m in self.limits[n] if (i, s) == (r, sign)], default=inf)
                        for r in every] for sign in (1, -1))  # fmt: skip
        sizes = [size * (n in x.may[t]) for t, size in zip(self.first, self.sizes)]
        rest = [sum(size * load[r] for size, load in zip(sizes, self.loads)) for r in every]
        found: list[Any] = [((), (0,) * len(every), 0, 0, 0)]
        for g, (load, near, (a, b)) in enumerate(zip(self.loads, self.rates, self.flow)):
            before, found, within = found, [], near.get(g, 0)
            pulls = [(h, rate) for h, rate in near.items() if h < g]
            rest = [all_ - sizes[g] * one for all_, one in zip(rest, load)]
            for counts, loads, gain, out, into in before:
                pull = sum([counts[h] * rate for h, rate in pulls])
                self._step(sizes[g] + 1)
                for c in range(sizes[g] + 1):
                    own = tuple([o + c * one for o, one in zip(loads, load)]) if c else loads
                    if any([own[r] > most[r] for r in every]):
                        break  # nor will it with more
                    if all([own[r] + rest[r] >= -least[r] for r in every]):
                        more = gain + c * pull + c * (c - 1) // 2 * within
                        found.append(((*counts, c), own, more, out + c * a, into + c * b))
        return [
            (counts, gain) for counts, loads, gain, out, into in found
            if all(s * (*loads, out - gain, into - gain, out + into - 2 * gain)[i] <= m
                   for i, s, m in self.limits[n])
        ]  # fmt: skip

    def _patterns(self) -> None:
        """Rows: every class of tasks is placed. Groups: every node of a class holds one pattern."""
        x, places = self.instance, dict[Any, list[int]]()
        if len(self.tasks) > 300:
            raise Refused(f"{len(self.tasks)} classes of tasks are too many for patterns")
        for n in range(len(self.limits)):  # alike where all that is read here of them is
            open_to = [(n in x.may[t], self.pays(t, n)) for t in self.first]
            slots = x.slots[n] if x.fills else 0
            places.setdefault((*self.limits[n], *open_to, self.shares[n], slots), []).append(n)
        self.rows = [("=", size) for size in self.sizes]
        prices, scale, fills = self._budget_rows(), common(self.shares), []
        for name, wanted in x.fills:  # a node's tasks fill a slot, or as many as can be
            of = [g for g, t in enumerate(self.first) if x.topology[t] == name]
            fills.append((len(self.rows), of))
            self.rows += [("<", wanted), (">", wanted)]
        for k, (n, *others) in enumerate(places.values()):
            self.groups.append(1 + len(others))
            away = [self.pays(t, n) for t in self.first]
            for counts, inside in self.of_node(n):
                held = [(g, c) for g, c in enumerate(counts) if c]
                gain = inside * (self.objective in OF_TRAFFIC)
                gain -= int(self.shares[n] * scale) if held else 0
                paid = [(row, sum(c * price[g] for g, c in held if away[g]))
                        for row, price in prices]  # fmt: skip
                for row, of in fills:
                    there = sum(counts[g] for g in of)
                    paid += [(row, min(1, there)), (row + 1, min(x.slots[n], there))]
                self._add((k, *counts), gain, held + paid)

    # -- the textbook's model: (group, kind, home, node, moved) is a column's key
    def _textbook(self) -> None:
        """Rows: limits, budgets, products, use. Groups: of each class, pair and node."""
        x, out, used = self.instance, len(self.instance.resources), self.objective in OF_NODES
        nodes = range(len(x.node))
        prices, bound_by = self._budget_rows(), list[list[tuple[int, int, int]]]()
        self._step(10 * len(nodes) * (len(self.sizes) + sum(map(len, self.rates))))
        use: list[list[tuple[int, int]]] = [[] for _ in nodes]
        on: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for n in nodes:
            bound_by.append([(len(self.rows) + k, *it[:2]) for k, it in enumerate(self.limits[n])])
            for _, sign, most in self.limits[n]:
                tied = used and sign > 0 and most >= 0  # an unused node has nothing of an amount
                use[n] += [(len(self.rows), -most)] if tied else []
                self.rows.append(("<", 0 if tied else most))
        for g, n in ((g, n) for g, size in enumerate(self.sizes) for n in nodes) if used else ():
            use[n].append((len(self.rows), -self.sizes[g]))
            on[g, n] = [(len(self.rows), 1)]
            self.rows.append(("<", 0))
        self.groups = list(self.sizes)
        if self.objective in OF_TRAFFIC or any(i >= out for ls in self.limits for i, *_ in ls):
            self._products(bound_by, on)
        for g, t in enumerate(self.first):
            amounts = [*self.loads[g], *self.flow[g], sum(self.flow[g])]
            home = -1 if (place := x.home[t]) is None else place
            for n in sorted(x.may[t]):
                moved = self.pays(t, n)
                entries = [(row, sign * amounts[i]) for row, i, sign in bound_by[n]]
                entries += [(row, price[g]) for row, price in prices if moved] + on.get((g, n), [])
                self._add((g, 0, home, n, int(moved)), 0, entries)
        for n in nodes if used else ():
            k, cost = len(self.groups), int(self.shares[n] / -self.unit)
            self.groups.append(1)
            self._add((k, 2, -1, n, 1), -cost, use[n])
            self._add((k, 2, -1, n, 0), 0, ())

    def _products(self, bound_by: Any, on: Any) -> None:
        """Pairs of tasks that meet on a node: at most what either has, times all of the other."""
        x, out, counts = self.instance, len(self.instance.resources), self.objective in OF_TRAFFIC
        pairs = [(g, h, rate) for g, near in enumerate(self.rates) for h, rate in near.items()]
        for g, h, rate in (pair for pair in pairs if pair[0] <= pair[1]):
            a, b, k, same = self.sizes[g], self.sizes[h], len(self.groups), g == h
            self.groups.append(a * (a - 1) // 2 if same else a * b)
            self._add((k, 1, -1, -1, 0), 0, ())  # those that are apart
            for n in sorted(x.may[self.first[g]] & x.may[self.first[h]]):
                entries = [(row, -sign * rate * (1 + (i == out + 2)))
                           for row, i, sign in bound_by[n] if i >= out]  # fmt: skip
                for c, most in {g: b - same, h: a - same}.items():
                    on.setdefault((c, n), []).append((len(self.rows), -most))
                    entries.append((len(self.rows), 1 + same))
                    self.rows.append(("<", 0))
                self._add((k, 1, -1, n, 0), rate * counts, entries)

    # -- counting: (node, tasks that it loses, that it takes) is the key of both ends of its gain
    def _counting(self) -> None:
        """Rows: the budget of moves; as many come as go; gains add up to 0. Groups: the nodes.

        Whole are the sums over both ends; cuts cannot tell them apart, and nothing is dropped.
        """
        x, scale = self.instance, self.scale[0]
        if None in x.home or any(x.copies) or "max_migrations" not in x.limits:
            raise Refused("counting needs max_migrations, a place of every task, and no copies")
        most, every = whole(x.limits["max_migrations"]), range(len(x.load))
        loads = [int(load[0] * scale) for load in x.load]
        free = [t for t in every if x.may[t] - {x.home[t]}]
        self.rows = [("<", most), ("=", 0), ("=", 0)]

        def sums(tasks: list[int], sign: int) -> list[int]:
            some = sorted(sign * loads[t] for t in tasks)[:most]
            return [sign * sum(some[:count]) for count in range(len(some) + 1)]

        small, large = sums(free, 1), sums(free, -1)
        for n, limits in enumerate(self.limits):
            self.groups.append(1)
            light, heavy = (sums([t for t in free if x.home[t] == n], s) for s in (1, -1))
            now = sum(loads[t] for t in every if x.home[t] == n)
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
        self.goal = floor((bound - model.offset) / model.unit)

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
            gains, over = "empty" not in step, whole(step.get("over", 1), 1)
            given = next((step[k] for k in ("empty", "drop", "close") if k in step), None)
            value, rests = self.value(given, over, columns, cuts, gains=gains)
            drops = "drop" in step and self.model.kind != "counting"
            if value is not None and drops:  # nothing better uses such a column
                keep = [j for j, rest in zip(columns, rests)
                        if not self.closed(value + rest, over, gains=gains)]  # fmt: skip
                cases.append((keep, cuts))
            elif not self.closed(value, over, gains=gains):
                raise Refused(f"step {number}: its multipliers leave {F(value or 0, over)}"[:99])
        if cases:
            raise Refused(f"{len(cases)} cases are left open")

    def cut(self, branch: Any, columns: list[int]) -> frozenset[int]:
        """Return the columns whose keys have certain places within certain ranges."""
        keys = ((j, self.model.columns[j].key) for j in columns)
        return frozenset(
            j for j, key in keys if all(low <= key[i] <= high for i, low, high in branch)
        )

    def value(
        self, given: Any, over: int, columns: list[int], cuts: Cuts, *, gains: bool
    ) -> tuple[int | None, list[int]]:
        """Return the most that multipliers allow, and how far each column is from it; × over."""
        every, rows = self.model.columns, [*self.model.rows, *(cut[1:] for cut in cuts)]
        if not isinstance(given, list) or len(given) != len(rows):
            raise Refused(f"{len(rows)} multipliers are needed, one a row")
        signed = [whole(y, -inf) for y in given]
        if any((s == "<" and y < 0) or (s == ">" and y > 0) for y, (s, _) in zip(signed, rows)):
            raise Refused("a multiplier has the wrong sign")
        tail = [(y, cut[0]) for y, cut in zip(signed[len(self.model.rows) :], cuts) if y]
        rests, top, scale = list[int](), dict[int, int](), over * gains
        for j in columns:
            key, gain, entries = every[j]
            rest = scale * gain - sum([signed[row] * factor for row, factor in entries])
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

    def closed(self, value: int | None, over: int, *, gains: bool) -> bool:
        """Whether gains of at most value / over leave nothing better than the bound."""
        if value is None or self.model.threshold or not gains:
            return value is None or value < 0
        return value // (over * self.step) * self.step <= self.goal


# ---- 5. the whole -------------------------------------------------------------------------------
def value_of(x: Instance, plan: Doc, objective: str) -> F:
    """Return the exact value of a plan (whether it keeps every rule is the referee's to say)."""
    told, nodes, out = plan.get("assignment"), range(len(x.node)), len(x.resources)
    if not isinstance(told, dict) or told.keys() != x.task.keys():
        raise Refused("the plan does not place exactly the tasks of the instance")
    at = [x.node.get(told[name], -1) for name in x.task]
    if any(n not in may for n, may in zip(at, x.may)):
        raise Refused("the plan puts a task where it may not be")
    amounts = [[ZERO] * (out + 3) for _ in nodes]
    for n, load in zip(at, x.load):
        amounts[n] = [a + b for a, b in zip(amounts[n], (*load, 0, 0, 0))]
    for (u, v), rate in x.traffic.items():
        for n, way in ((at[u], out), (at[v], out + 1)) if at[u] != at[v] else ():
            amounts[n][way] += rate
            amounts[n][out + 2] += rate
    crossing = sum((amount[out] for amount in amounts), ZERO)
    rates = [left / amounts[n][i] for n in nodes for i, _, left, driven in x.rooms[n]
             if driven and amounts[n][i]]  # fmt: skip
    if objective == "sustainable_rate" and rates and not x.crosses:
        return min(rates)
    if objective == "load_distance" and x.mean is not None:
        off = [amounts[n][0] + x.base[n][0] - x.weight[n] * x.mean for n in nodes]
        return max(a if gone else abs(a) for a, gone in zip(off, x.leaving))
    if objective in OF_NODES:
        return sum((shares_of(x, objective)[n] for n in {*at}), ZERO)
    values = {"imc_gain": x.total_traffic - crossing, "internode_traffic": crossing}
    if objective not in values and objective != "feasible":
        raise Refused(f"the plan has no {objective} that this checker can tell")
    return values.get(objective, F(1))


def check(instance: Doc, sha256: str, certificate: Doc, plan: Doc | None = None) -> str:
    """Return what is proved in a line; raise `Refused` or `Unreadable`."""
    if certificate.keys() != {*FIELDS["certificate"].split()} or certificate["format"] != FORMAT:
        raise Unreadable(f"a {FORMAT} has the fields {FIELDS['certificate']}, and no others")
    objective, proof, told = (
        str(certificate["objective"]),
        certificate["proof"],
        certificate["bound"],
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
