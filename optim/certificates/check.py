"""Check a certificate of a bound in exact arithmetic: no solver, nothing to install, one file.

    python -I check.py INSTANCE CERTIFICATE [PLAN]

ends with 0 (the bound holds), 1 (it does not follow; the reason is told) or 2 (a file cannot be
read). Numbers of the files are taken as the decimals that stand there. Why each step is valid is
told in docs/proofs/certificates.md, whose sections the parts below follow. A rule of the format
that is not read here is left out: fewer rules allow more placements, so that a bound stays one.
"""
# ruff: noqa: B905

from __future__ import annotations

import hashlib
import json
import re
import sys
import zlib
from fractions import Fraction as F
from math import ceil, floor, gcd, lcm
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
TABLES = ("nodes", "links", "sets", "topologies", "operators", "tasks", "streams")
DROPPED = (  # what may be assumed away
    "capacity min_load max_tasks allowed leaving copies sets links slots crossing_cost "
) + FIELDS["limits"]
Doc = dict[str, Any]
ZERO = F(0)


class Unreadable(Exception):
    """A file cannot be read as what it should be: exit 2."""


MALFORMED = (Unreadable, LookupError, TypeError, AttributeError, ValueError, ArithmeticError)


class Refused(Exception):
    """The bound does not follow from what the certificate says: exit 1."""


# ---- 1. files and numbers -----------------------------------------------------------------------
def no_twins(pairs: list[tuple[str, Any]]) -> Doc:
    """Make an object; a key that stands twice is refused."""
    if len(made := dict(pairs)) != len(pairs):
        raise Unreadable("a key stands twice in one object")
    return made


def decimal(text: str) -> F:
    """Read a decimal exactly; NaN, infinities and absurd exponents are refused."""
    exponent = re.search(r"[eE]([+-]?\d+)$", text)
    if "N" in text or "I" in text or len(text) > 1000 or (exponent and abs(int(exponent[1])) > 400):
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


def number(value: Any, least: int | None = 0, *, text: bool = False) -> F:
    """Read a number of at least so much; texts p/q where they may stand."""
    if text and isinstance(value, str) and re.fullmatch(r"-?\d{1,2000}(/[1-9]\d{0,2000})?", value):
        return number(F(value), least)
    if isinstance(value, bool) or not isinstance(value, (int, F)):
        raise Unreadable(f"{str(value)[:30]!r} is no number")
    if least is not None and value < least:
        raise Unreadable(f"a number is below {least}")
    return F(value)


def whole(value: Any, least: int | None = 0) -> int:
    """Read a whole number."""
    if number(value, least).denominator != 1:
        raise Unreadable("a number is not whole")
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
        tables = {k: [known(x, k) for x in document.get(k, [])] for k in TABLES}
        if document["format"] != "streamplace.instance/1":
            raise Unreadable("the instance's format is not streamplace.instance/1")
        for name, table in tables.items():
            ids = {(x["from"], x["to"]) if name == "streams" else x["id"] for x in table}
            if len(ids) < len(table):
                raise Unreadable(f"one of the {name} stands twice")
        self.resources: list[str] = document.get("resources", ["cpu"])
        limits = known(document.get("limits", {}), "limits")
        self.limits = {k: v for k, v in limits.items() if k not in self.dropped}
        nodes, bare = tables["nodes"], "capacity" in self.dropped
        self.node = {x["id"]: n for n, x in enumerate(nodes)}
        self.base = [self._amounts(x, "background", ZERO) for x in nodes]
        self.capacity = [self._amounts({} if bare else x, "capacity", None) for x in nodes]
        self.leaving = [x.get("leaving", False) is True for x in nodes]
        self.weight = [number(x.get("weight", 1)) for x in nodes]
        self._rates(tables["operators"], tables["streams"], document.get("input_rate"))
        self._tasks(tables["operators"], tables["tasks"])
        self._slots(nodes, tables["topologies"], tables["operators"])
        self._traffic(document.get("traffic", []), tables["streams"])
        self._rooms(document, tables["links"])

    def _amounts(self, entry: Doc, key: str, missing: Any) -> list[Any]:
        found = entry.get(key) or {}
        if found.keys() - set(self.resources):
            raise Unreadable(f"{key} names an unknown resource")
        return [number(found[r]) if r in found else missing for r in self.resources]

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
            even = {r: number(v) / size for r, v in group.get("load", {}).items() if size}
            for i in range(size):
                told = own.get(f"{name}/{i}", {})
                task = {"allowed": group.get("allowed"), **told, "operator": name}
                task["load"] = {**even, **told.get("load", {})}
                if "state" in group:
                    task.setdefault("state", number(group["state"]) / size)
                tasks[f"{name}/{i}"] = task
        tasks |= {name: entry for name, entry in own.items() if name not in tasks}
        every, staying = list(tasks.values()), {n for n, x in enumerate(self.leaving) if not x}
        self.task = {name: t for t, name in enumerate(tasks)}
        self.members: dict[Any, list[int]] = {}
        for t, x in enumerate(every):
            self.members.setdefault(x.get("operator"), []).append(t)
        for x in operators:  # a load that is given wins over a derived one
            mine = self.members.setdefault(x["id"], [])
            if "cpu_per_tuple" in x and x["id"] in self.tuples:
                share = number(x["cpu_per_tuple"]) * self.tuples[x["id"]] / max(1, len(mine))
                for t in mine:
                    every[t]["load"] = {self.resources[0]: share, **every[t].get("load", {})}
        self.member = [x.get("operator") for x in every]
        self.load = [self._amounts(x, "load", ZERO) for x in every]
        self.home = [self.node[x["node"]] if "node" in x else None for x in every]
        self.cost = [number(x.get("migration_cost", x.get("state", 1))) for x in every]
        self.copies = [{self.node[n] for n in x.get("copies", [])} for x in every]
        self.may: list[set[int]] = []
        for x, home in zip(every, self.home):
            free = "allowed" in self.dropped or not x.get("allowed")
            may = {self.node[n] for n in (self.node if free else x["allowed"])}
            held = "leaving" in self.dropped or (home is not None and self.leaving[home])
            self.may.append(may if held or not may & staying else may & staying)

    def _slots(self, nodes: list[Doc], topologies: list[Doc], operators: list[Doc]) -> None:
        """Slots of each node, and how many of them each topology with `workers` fills."""
        of, most = {x["id"]: x.get("topology") for x in operators}, len(self.load)
        self.slots = [whole(x.get("slots", most)) for x in nodes]
        self.topology = [of.get(m) for m in self.member]
        self.fills = [
            (x["id"], min(whole(x["workers"]), self.topology.count(x["id"])))
            for x in topologies if "workers" in x and "slots" not in self.dropped
        ]  # fmt: skip

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
        driven = document.get("rate_driven") or self.resources[:1]
        self.crosses = any(crossing)
        self.totals = [sum((x[r] for x in self.load + self.base), self.total_traffic * c)
                       for r, c in enumerate(crossing)]  # fmt: skip
        share = sum((w for w, gone in zip(self.weight, self.leaving) if not gone), ZERO)
        self.mean: Any = self.totals[0] / share if share and not self.crosses else None
        used = {k: number(v) for k, v in self.limits.get("max_utilisation", {}).items()}
        shares = [used.get(r, F(1)) for r in self.resources]
        #: of each node (amount, most of it, what the background leaves, whether the rate drives it)
        #: where amounts are the resources, then the traffic that leaves, that enters, and both
        self.rooms = [
            [room_of(r, c * shares[r], base[r], self.totals[r], driven=self.resources[r] in driven)
             for r, c in enumerate(capacity) if c is not None]
            for capacity, base in zip(self.capacity, self.base)
        ]  # fmt: skip
        bases = [number(x.get("background", 0)) for x in links]
        total = sum(bases, self.total_traffic)
        for x, base in zip(links if "links" not in self.dropped else [], bases):
            inside, room = {self.node[n] for n in x["nodes"]}, number(x["capacity"])
            way = len(shares) + ("out", "in", "both").index(x.get("direction", "both"))
            if len(inside) == 1:
                room *= used.get("links", F(1))
                self.rooms[inside.pop()].append(room_of(way, room, base, total, driven=True))


def room_of(amount: int, room: F, base: F, total: F, *, driven: bool) -> tuple[int, F, F, bool]:
    """What a node may carry of an amount beside its background: with the tolerance, and without."""
    return amount, room + SLACK * max(room, total) - base, max(ZERO, room - base), driven


def spread_of(pattern: str, a: int, b: int) -> list[tuple[int, int, F]]:
    """Return (sender, receiver, share of the rate) of a stream between a and b tasks."""
    each = F(1, a)
    if pattern == "full":
        return [(i, j, each / b) for i in range(a) for j in range(b)]
    if pattern in ("one_to_one", "merge") and (a == b or pattern == "merge"):
        return [(i, i % b, each) for i in range(a)]
    if pattern != "rescale":
        raise Unreadable(f"pattern {str(pattern)[:30]!r} between {a} and {b} tasks")
    if a >= b:
        return [(i, j, each) for j in range(b) for i in range(j * a // b, (j + 1) * a // b)]
    blocks = [range(-(-i * b // a), -(-(i + 1) * b // a)) for i in range(a)]
    return [(i, j, each / len(block)) for i, block in enumerate(blocks) for j in block]


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
        self, instance: Instance, objective: str, bound: F, *, patterns: bool,
        most_steps: int = MOST_STEPS,
    ) -> None:  # fmt: skip
        x, self.left = instance, most_steps
        self.instance = instance
        self.objective, self.bound, self.patterns = objective, bound, patterns
        self.threshold, self.shares = objective in THRESHOLDS, shares_of(x, objective)
        if objective == "load_distance" and x.mean is None:
            raise Refused("load distance needs staying nodes, and no crossing costs")
        prices = {"max_migrations": [F(1)] * len(x.load), "max_migration_cost": x.cost}
        self.budgets = [(prices[k], number(x.limits[k])) for k in prices if k in x.limits]
        self._alike()
        # amounts are whole in these units: the resources, traffic out, in, and both
        self.scale = [common(load[r] for load in x.load) for r in range(len(x.resources))]
        self.scale += [common(x.traffic.values())] * 3
        self.loads = [[int(a * s) for a, s in zip(x.load[t], self.scale)] for t in self.first]
        self.limits = [self._limits(n) for n in range(len(x.node))]
        self.offset, self.unit = ZERO, F(1, self.scale[-1])
        if objective == "internode_traffic":
            self.offset, self.unit = x.total_traffic, -self.unit
        elif objective in OF_NODES:
            self.unit = F(-1, common(self.shares))
        self.columns: list[Column] = []
        self.rows, self.groups = list[tuple[str, int]](), list[int]()
        (self._list if patterns else self._textbook)()
        if len(self.columns) > MOST_COLUMNS:
            raise Refused(f"more than {MOST_COLUMNS:,} columns")

    def _alike(self) -> None:
        """Classes of tasks that can be exchanged without changing anything that is read here."""
        x, flow = self.instance, [[ZERO, ZERO] for _ in self.instance.load]
        near: list[dict[int, F]] = [{} for _ in x.load]
        for (u, v), rate in x.traffic.items():
            flow[u][0] += rate
            flow[v][1] += rate
            for a, b in ((u, v), (v, u)) if rate else ():
                near[a][b] = near[a].get(b, ZERO) + rate
        found: dict[Any, list[list[int]]] = {}
        for t, load in enumerate(x.load):
            own = (x.home[t], x.cost[t], frozenset(x.copies[t])) if self.budgets else ()
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
        scale = common(x.traffic.values())
        self.flow = [[int(f * scale) for f in flow[t]] for t in self.first]
        # any two tasks of two classes have the same traffic
        self.rates = [{of[b]: int(rate * scale) for b, rate in near[t].items()} for t in self.first]

    def _step(self, count: int = 1) -> None:
        self.left -= count
        if self.left < 0:
            raise Refused("too many steps to list what nodes may hold")

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
        away = [(self.bound, True)] if self.objective == "load_distance" else []
        if "max_load_distance" in x.limits:
            most = number(x.limits["max_load_distance"])
            away.append((most + SLACK * max(most, x.totals[0]), False))
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
        """List (counts, traffic inside) of all that node n may hold."""
        x, counts = self.instance, [0] * len(self.first)
        found: list[tuple[tuple[int, ...], int]] = []
        limits = self.limits[n]
        upper = [(i, most) for i, sign, most in limits if sign > 0 and i < len(x.resources)]

        def grow(g: int, loads: list[int], gain: int, out: int, into: int) -> bool:
            self._step()
            if any(loads[i] > most for i, most in upper):
                return False  # nor will it with more
            while g < len(counts) and n not in x.may[self.first[g]]:
                g += 1
            if g == len(counts):
                amounts = [*loads, out - gain, into - gain, out + into - 2 * gain]
                if all(sign * amounts[i] <= most for i, sign, most in limits):
                    found.append((tuple(counts), gain))
                return True
            pull = sum(counts[h] * rate for h, rate in self.rates[g].items() if h < g)
            within, (a, b) = self.rates[g].get(g, 0), self.flow[g]
            for size in range(self.sizes[g] + 1):
                counts[g] = size
                own = [load + size * one for load, one in zip(loads, self.loads[g])]
                more = gain + size * pull + size * (size - 1) // 2 * within
                if not grow(g + 1, own, more, out + size * a, into + size * b):
                    break
            counts[g] = 0
            return True

        grow(0, [0] * len(x.resources), 0, 0, 0)
        return found

    def _list(self) -> None:
        """Rows: every class of tasks is placed. Groups: every node of a class holds one pattern."""
        if len(self.tasks) > 300:
            raise Refused(f"{len(self.tasks)} classes of tasks are too many for patterns")
        places: dict[Any, list[int]] = {}
        for n in range(len(self.limits)):  # alike where all that is read here of them is
            open_to = [(n in self.instance.may[t], self.pays(t, n)) for t in self.first]
            slots = self.instance.slots[n] if self.instance.fills else 0
            places.setdefault((*self.limits[n], *open_to, self.shares[n], slots), []).append(n)
        self.nodes = list(places.values())
        self.rows = [("=", size) for size in self.sizes]
        prices, scale = self._budget_rows(), common(self.shares)
        fills = []
        for name, wanted in self.instance.fills:  # a node's tasks fill a slot, or as many as can be
            of = [g for g, t in enumerate(self.first) if self.instance.topology[t] == name]
            fills.append((len(self.rows), of))
            self.rows += [("<", wanted), (">", wanted)]
        for k, (n, *others) in enumerate(self.nodes):
            self.groups.append(1 + len(others))
            for counts, inside in self.of_node(n):
                held = [(g, c) for g, c in enumerate(counts) if c]
                gain = inside * (self.objective in OF_TRAFFIC)
                gain -= int(self.shares[n] * scale) if held else 0
                away = [(g, c) for g, c in held if self.pays(self.first[g], n)] if prices else []
                held += [(row, sum(c * price[g] for g, c in away)) for row, price in prices]
                for row, of in fills:
                    there = sum(counts[g] for g in of)
                    held += [(row, min(1, there)), (row + 1, min(self.instance.slots[n], there))]
                self.columns.append(Column((k, *counts), gain, tuple(held)))
            if len(self.columns) > MOST_COLUMNS:
                raise Refused(f"more than {MOST_COLUMNS:,} patterns")

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
            for n in sorted(x.may[t]):
                moved = self.pays(t, n)
                entries = [(row, sign * amounts[i]) for row, i, sign in bound_by[n]]
                entries += [(row, price[g]) for row, price in prices if moved] + on.get((g, n), [])
                home = x.home[t]
                key = g, 0, -1 if home is None else home, n, int(moved)
                self.columns.append(Column(key, 0, tuple(e for e in entries if e[1])))
        for n in nodes if used else ():
            self.groups.append(1)
            cost, k = int(self.shares[n] / -self.unit), len(self.groups) - 1
            self.columns.append(Column((k, 2, -1, n, 1), -cost, tuple(use[n])))
            self.columns.append(Column((k, 2, -1, n, 0), 0, ()))

    def _products(self, bound_by: Any, on: Any) -> None:
        """Pairs of tasks that meet on a node: at most what either has, times all of the other."""
        out, counts = len(self.instance.resources), self.objective in OF_TRAFFIC
        for g, h, rate in ((g, h, r) for g, near in enumerate(self.rates) for h, r in near.items()):
            if g > h:
                continue
            a, b = self.sizes[g], self.sizes[h]
            k, twice = len(self.groups), 1 + (g == h)
            self.groups.append(a * b if g != h else a * (a - 1) // 2)
            self.columns.append(Column((k, 1, -1, -1, 0), 0, ()))  # those that are apart
            both = self.instance.may[self.first[g]] & self.instance.may[self.first[h]]
            for n in sorted(both):
                entries = [(row, -sign * rate * (1 + (i == out + 2)))
                           for row, i, sign in bound_by[n] if i >= out]  # fmt: skip
                for c, most in {g: b - (g == h), h: a - (g == h)}.items():
                    on.setdefault((c, n), []).append((len(self.rows), -most))
                    entries.append((len(self.rows), twice))
                    self.rows.append(("<", 0))
                self.columns.append(Column((k, 1, -1, n, 0), rate * counts, tuple(entries)))


# ---- 4. proofs over a model ---------------------------------------------------------------------
Cuts = tuple[tuple[frozenset[int], str, int], ...]


class Proof:
    """Walks the steps of a proof over a model; every case must end in multipliers that close it."""

    def __init__(self, model: Model, bound: F) -> None:
        self.model, self.work = model, 0
        self.step = gcd(*(c.gain for c in model.columns)) or 1
        self.goal = (bound - model.offset) / model.unit

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
                cases.append((columns, (*cuts, (cut, ">", at + 1))))
                cases.append((columns, (*cuts, (cut, "<", at))))
                continue
            gains, divisor = "empty" not in step, whole(step.get("over", 1), 1)
            given = next((step[k] for k in ("empty", "drop", "close") if k in step), None)
            value, reduced = self.value(given, divisor, columns, cuts, gains=gains)
            if (
                value is not None and "drop" in step
            ):  # no placement that is better than the bound uses such a column
                keep = [j for j, rest in zip(columns, reduced)
                        if not self.closed(value + F(rest, divisor), gains=gains)]  # fmt: skip
                cases.append((keep, cuts))
            elif not self.closed(value, gains=gains):
                raise Refused(f"step {number}: its multipliers leave {float(value or 0):.12g}")
        if cases:
            raise Refused(f"{len(cases)} cases are left open")

    def cut(self, branch: Any, columns: list[int]) -> frozenset[int]:
        """Return the columns whose keys have certain places within certain ranges."""
        keys = ((j, self.model.columns[j].key) for j in columns)
        return frozenset(
            j for j, key in keys if all(low <= key[i] <= high for i, low, high in branch)
        )

    def value(
        self, given: Any, divisor: int, columns: list[int], cuts: Cuts, *, gains: bool
    ) -> tuple[F | None, list[int]]:
        """Return the most that multipliers allow, and how far each column × divisor is from it."""
        every, rows = self.model.columns, [*self.model.rows, *(cut[1:] for cut in cuts)]
        if not isinstance(given, list) or len(given) != len(rows):
            raise Refused(f"{len(rows)} multipliers are needed, one a row")
        signed = [whole(y, None) for y in given]
        if any((s == "<" and y < 0) or (s == ">" and y > 0) for y, (s, _) in zip(signed, rows)):
            raise Refused("a multiplier has the wrong sign")
        tail = [(y, cut[0]) for y, cut in zip(signed[len(self.model.rows) :], cuts) if y]
        rests, top = list[int](), dict[int, int]()
        for j in columns:
            rest = divisor * every[j].gain if gains else 0
            rest -= sum([signed[row] * factor for row, factor in every[j].entries])
            rest -= sum([y for y, cut in tail if j in cut])
            rests.append(rest)
            group = every[j].key[0]
            top[group] = max(rest, top.get(group, rest))
        total = sum(y * right for y, (_, right) in zip(signed, rows))
        sizes = self.model.groups
        if any(size and group not in top for group, size in enumerate(sizes)):
            return None, []  # nothing is left that a group could be of: no solution
        total += sum(size * top[group] for group, size in enumerate(sizes) if size)
        rests = [rest - top[every[j].key[0]] for j, rest in zip(columns, rests)]
        return F(total, divisor), rests

    def closed(self, value: F | None, *, gains: bool) -> bool:
        """Whether gains that add up to at most a value leave nothing better than the bound."""
        if value is None:
            return True
        if self.model.threshold or not gains:
            return value < 0
        return self.step * floor(value / self.step) <= self.goal


# ---- 5. counting --------------------------------------------------------------------------------
def moved(x: Instance, bound: F, proof: Doc) -> bool:
    """Whether a load distance below the bound takes more moves than there may be."""
    part, price = (number(proof.get(key), None, text=True) for key in ("out", "gain"))
    told = bound > 0 and 0 <= part <= 1 and None not in x.home and not any(x.copies)
    if not told or x.mean is None or "max_migrations" not in x.limits:
        raise Refused("counting needs max_migrations, a place of every task, and 0 ≤ out ≤ 1")
    least = least_moves(x, bound, part, price)
    return least is None or least > x.limits["max_migrations"]


def least_moves(x: Instance, bound: F, part: F, price: F) -> F | None:
    """Return a number of moves below which nothing has that load distance; ``None``: nothing has.

    A node that loses o tasks and takes m gains between the least m less the greatest o and the
    greatest m less the least o; that has to lead into its window.
    """
    most, homes = whole(x.limits["max_migrations"]), x.home
    free = [t for t, may in enumerate(x.may) if may - {homes[t]}]

    def sums(tasks: list[int], sign: int) -> list[F]:
        loads = sorted(sign * x.load[t][0] for t in tasks)[:most]
        return [sign * sum(loads[:count], ZERO) for count in range(len(loads) + 1)]

    total, small, large = ZERO, sums(free, 1), sums(free, -1)
    for n in range(len(x.node)):
        light, heavy = (sums([t for t in free if homes[t] == n], sign) for sign in (1, -1))
        now = sum((x.load[t][0] for t in range(len(homes)) if homes[t] == n), x.base[n][0])
        off, costs = now - x.weight[n] * (x.mean or ZERO), list[F]()
        for o, m in ((o, m) for o in range(len(light)) for m in range(len(small))):
            high, low = min(bound - off, large[m] - light[o]), small[m] - heavy[o]
            low = low if x.leaving[n] else max(low, -bound - off)
            if low <= high:
                costs.append(part * o + (1 - part) * m - max(price * high, price * low))
        if not costs:
            return None
        total += min(costs)
    return total


# ---- 6. the whole -------------------------------------------------------------------------------
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
    objective, proof = str(certificate["objective"]), certificate["proof"]
    assumes = list(map(str, certificate["assumes"]))
    if certificate["instance_sha256"] != sha256:
        raise Refused(f"the certificate is of another instance: this one has sha256 {sha256}")
    if objective not in SENSES or certificate["sense"] != SENSES[objective]:
        raise Refused("objective and sense are not known to this checker")
    if set(assumes) - {f"without {name}" for name in DROPPED.split()}:
        raise Refused("an assumption is not known to this checker")
    bound, sense = number(certificate["bound"], None, text=True), SENSES[objective]
    if objective == "feasible" and bound:
        raise Refused("feasible is 0 where there is no placement; nothing else is proved")
    read = Instance(instance, frozenset(x.removeprefix("without ") for x in assumes))
    kind = proof.get("kind") if isinstance(proof, dict) else None
    if kind in ("dual", "threshold" if objective in THRESHOLDS else "patterns"):
        model = Model(read, objective, bound, patterns=kind != "dual")
        Proof(model, bound).walk(proof.get("steps"))
    elif (kind, objective) != ("counting", "load_distance") or not moved(read, bound, proof):
        raise Refused(f"{str(kind)[:30]!r} is no proof of this bound on {objective}")
    told = f"{objective} is {'at most' if sense == 'max' else 'at least'} {float(bound):.15g}"
    told = ", ".join([f"{told} (exactly {certificate['bound']})", *assumes])
    if plan is not None:
        value = value_of(read, plan, objective)
        if (value > bound) if sense == "max" else (value < bound):
            raise Refused(f"the plan has {float(value):.15g}, beyond the bound: it breaks a rule")
        gap = abs(value - bound) / (max(abs(value), abs(bound)) or 1)
        told += f"; the plan has {float(value):.15g}, a gap of {float(gap):.3g}"
    return told


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
