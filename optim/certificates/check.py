"""Check a certificate of a bound in exact arithmetic: no solver, nothing to install, one file.

    python -I check.py INSTANCE CERTIFICATE [PLAN]

ends with 0 (the bound holds), 1 (it does not follow) or 2 (a file cannot be read), and says why.
Numbers are the decimals that stand there; docs/proofs/certificates.md derives every step. A rule of
the format that is not read here is left out: more placements are allowed, and a bound stays one.
"""
# ruff: noqa: B905, C419

import hashlib
import json
import re
import sys
import zlib
from collections import Counter, defaultdict
from fractions import Fraction as F
from itertools import accumulate, chain, product
from math import ceil, floor, gcd, inf, lcm
from operator import add, le, mul
from pathlib import Path
from typing import Any

ZERO, FORMAT, READS = F(0), "streamplace.certificate/1", "streamplace.instance/1"
SLACK = F(1_000_001, 10**15)  # of what a row has available: the format's, and a hair for doubles
WORSE = F(1_000_001, 10**6)  # times what exceeds a limit now is no more than now, in doubles
MOST_BYTES, MOST_STEPS, MOST_COLUMNS, MOST_WORK = 1 << 30, 4_000_000, 400_000, 400_000_000
OF_TRAFFIC, OF_NODES = ("imc_gain", "internode_traffic"), ("nodes_used", "used_capacity")
THRESHOLDS, BUSY = ("sustainable_rate", "load_distance", "feasible"), "the work limit is reached"
SENSES = dict.fromkeys((*OF_TRAFFIC, *OF_NODES, *THRESHOLDS), "min")
SENSES |= dict.fromkeys(("imc_gain", "sustainable_rate", "feasible"), "max")
FIELDS = {  # all that may stand in each part of an instance that is read
    "instance": """format name origin units labels resources nodes links rate_driven crossing_cost
    sets topologies operators tasks streams traffic limits input_rate vm_types""",
    "nodes": """id capacity min_load background weight slots slot_capacity rack leaving max_tasks
    max_inflow vm_type labels""",
    "operators": """id topology role group max_load cpu_per_tuple service_rate model labels
    min_parallelism max_parallelism key_groups""",
    "tasks": "id operator load max_load state migration_cost node slot allowed copies labels",
    "streams": "from to rate selectivity tuple_bytes pattern sender_weights",
    "links": "id nodes capacity background direction",
    "topologies": "id workers exclusive_nodes",
    "group": "tasks load max_load state allowed",
    "limits": """max_migrations max_migration_cost max_migration_state max_load_distance
    max_tasks_per_slot max_nodes_used max_workers_restarted max_inflow max_utilisation""",
}
DROPPED = f"""{FIELDS["limits"]} capacity max_load min_load max_tasks allowed leaving copies sets
    links slots slot_sets exclusive_nodes crossing_cost local_first local_first_links"""  # to waive
CERTIFICATE = "format instance_sha256 objective sense bound assumes proof"
EXCESS, NOW, LOCAL = "excess", "no worse than now", {"local_first"}  # a level; it assumes NOW
MALFORMED = (LookupError, TypeError, AttributeError, ValueError, ArithmeticError)
Doc = dict[str, Any]
Pairs = list[tuple[int, int]]
Cuts = tuple[tuple[frozenset[int], str, int], ...]  # each: what it sums up, sense, right side


class Refused(Exception):
    """The bound does not follow from what the certificate says: exit 1."""


class Unreadable(ValueError):
    """A file cannot be read as what it should be: exit 2."""


def need(holds: object, why: str, error: type[Exception] = Refused) -> None:
    """Raise an error unless something holds."""
    if not holds:
        raise error(why)


# ---- 1. files and numbers -----------------------------------------------------------------------
def parse(data: bytes) -> tuple[Doc, str]:
    """Read a JSON object, packed or not; return it with the sha256 of its unpacked bytes."""

    def decimal(text: str) -> F:  # NaN, infinities and exponents beyond 399 are refused
        fits = re.fullmatch(r"-?[\d.]{1,1000}([eE][+-]?[0-3]?\d?\d)?", text)
        need(fits, f"{text[:30]} is no number of a sensible size", Unreadable)
        return F(text)

    def no_twins(pairs: list[tuple[str, Any]]) -> Doc:
        need(len(row := dict(pairs)) == len(pairs), "a key stands twice in one object", Unreadable)
        return row

    if data[:2] == b"\x1f\x8b":
        data = zlib.decompressobj(31).decompress(data, MOST_BYTES + 1)
    need(len(data) <= MOST_BYTES, "more than 1 GiB", Unreadable)
    hooks: Doc = {"parse_float": decimal, "parse_constant": decimal, "object_pairs_hook": no_twins}
    document = json.loads(data.decode("utf-8-sig"), **hooks)
    need(isinstance(document, dict), "no JSON object", Unreadable)
    return document, hashlib.sha256(data).hexdigest()


def number(value: Any, least: float = 0) -> F:
    """Read a number of at least so much."""
    if isinstance(value, bool) or not isinstance(value, (int, F)) or value < least:
        raise Unreadable(f"{str(value)[:30]!r} is no number of at least {least}")
    return F(value)


def whole(value: Any, least: float = 0) -> int:
    """Read a whole number of at least so much."""
    need(number(value, least).denominator == 1, "a number is not whole", Unreadable)
    return int(value)


def checked(entry: Doc, name: str) -> Doc:
    """Refuse a field that is not known here: it might change what is asked."""
    need(entry.keys() <= {*FIELDS[name].split()}, f"{name} has a field unknown here", Unreadable)
    return {key: value for key, value in entry.items() if value is not None}


def table(document: Doc, name: str) -> list[Doc]:
    """Read a table, whose ids (of streams: ends) differ."""
    rows = [checked(row, name) for row in document.get(name, [])]
    ids = {tuple(map(row.get, ("id", "from", "to"))) for row in rows}
    need(len(ids) == len(rows), f"one of the {name} stands twice", Unreadable)
    return rows


def receivers(pattern: str, i: int, a: int, b: int, even: Any = ()) -> range:
    """Return which of b tasks the i-th of a sends to, as much to each; to all where it is even."""
    start, end = -(-i * b // a), -(-(i + 1) * b // a)  # blocks, as Flink forms them
    ranges = dict.fromkeys(["full", *even], range(b)) | {"rescale": range(min(start, end - 1), end)}
    ranges |= dict.fromkeys(["merge", "one_to_one"][: 1 + (a == b)], range(i % b, i % b + 1))
    need(pattern in ranges, f"no pairs: {str(pattern)[:30]!r} of {a} and {b} tasks", Unreadable)
    return ranges[pattern]


# ---- 2. the instance ----------------------------------------------------------------------------
class Instance:
    """What the file says, exactly; limits that are `dropped` are not read.

    `amounts` are what a task adds to a node: the load of each resource, the traffic that leaves,
    enters, and both, times `unit`; `inner` times the rate of tasks that meet is taken off again.
    Where `mends` names an objective, limits that bind it may be exceeded as far as they are now.
    """

    def __init__(self, document: Doc, dropped: Any = frozenset[str](), mends: str = "") -> None:
        document, self.dropped, self.mends = checked(document, "instance"), dropped, mends
        need(document["format"] == READS, f"the format is not {READS}", Unreadable)
        self.resources: list[str] = document.get("resources", ["cpu"])
        limits = checked(document.get("limits", {}), "limits")
        self.limits = {key: most for key, most in limits.items() if key not in dropped}
        nodes, operators, streams = (table(document, k) for k in ("nodes", "operators", "streams"))
        self.node = {x["id"]: n for n, x in enumerate(nodes)}
        self.base = [self._amounts(x.get("background"), ZERO) for x in nodes]
        self.capacity = [self._amounts(x.get("capacity"), None) for x in nodes]
        self.leaving = [x.get("leaving", False) is True for x in nodes]
        self.weight = [number(x.get("weight", 1)) for x in nodes]
        fed, lacks = defaultdict[str, list[Doc]](list), Counter(x["to"] for x in streams)
        for x in (x for x in streams if "selectivity" in x):
            fed[x["from"]].append(x)
        ordered = [x["id"] for x in operators if "input_rate" in document and not lacks[x["id"]]]
        rates = defaultdict(F, {name: number(document["input_rate"]) for name in ordered})
        for name in ordered:  # grows: an operator follows the last that feeds it
            for to, factor in ((x["to"], number(x["selectivity"])) for x in fed[name]):
                rates[to] += rates[name] * factor
                need(not max(rates[to].as_integer_ratio()) >> 10**5, "too many digits", Unreadable)
                lacks[to] -= 1
                ordered += [to] * (not lacks[to])
        self.tuples = {name: rates[name] for name in ordered}  # tuples/s, where determined
        self._tasks(operators, table(document, "tasks"))
        self._rooms(document, [] if "links" in dropped else table(document, "links"))
        self._traffic(document.get("traffic", []), streams)
        self._limits()
        # slots of each node, and how many of them each topology with `workers` fills
        self.slots = [whole(x.get("slots", len(self.load))) for x in nodes]
        of = {x["id"]: x.get("topology") for x in operators}
        self.topology = [of.get(m) for m in self.member]
        sizes = Counter(self.topology)
        rows = table(document, "topologies") if not (mends or "slots" in dropped) else []
        rows = [x for x in rows if "workers" in x]
        self.fills = [(x["id"], min(whole(x["workers"]), sizes[x["id"]])) for x in rows]
        self._classes()

    def _amounts(self, entry: Doc | None, missing: Any) -> list[Any]:
        need((entry := entry or {}).keys() <= {*self.resources}, "unknown resource", Unreadable)
        return [number(entry[r]) if r in entry else missing for r in self.resources]

    def _tasks(self, operators: list[Doc], listed: list[Doc]) -> None:
        """Read the members of groups in their order, then the others; what is listed wins."""
        alone, every = {x["id"]: x for x in listed}, dict[str, Doc]()
        for x in operators:
            group = checked(x.get("group", {}), "group")
            size = whole(group.get("tasks", 0))
            need(size <= MOST_STEPS // 4 - len(every), "groups have too many tasks", Unreadable)
            load = {r: number(v) / size for r, v in group.get("load", {}).items()}
            group |= {key: number(group[key]) / size for key in ("state",) if key in group}
            each = x.get("max_load", {}) | group.get("max_load", {})
            for name in (f"{x['id']}/{i}" for i in range(size)):
                me = alone.pop(name, {})
                also: Doc = {"load": load | me.get("load", {}), "operator": x["id"]}
                every[name] = group | me | also | {"max_load": each | me.get("max_load", {})}
        every |= alone
        self.task, tasks = {name: t for t, name in enumerate(every)}, [*every.values()]
        self.member = [x.get("operator") for x in tasks]
        self.members = {x["id"]: list[int]() for x in operators}
        for t, member in enumerate(self.member):
            self.members.setdefault(member, []).append(t)
        for x in (x for x in operators if "cpu_per_tuple" in x and x["id"] in self.tuples):
            work, mates = number(x["cpu_per_tuple"]) * self.tuples[x["id"]], self.members[x["id"]]
            for t in mates:  # a load that is given wins over a derived one
                derived = {self.resources[0]: work / len(mates)}
                tasks[t]["load"] = derived | tasks[t].get("load", {})
        self.load = [self._amounts(x.get("load"), ZERO) for x in tasks]
        of, free = {x["id"]: x.get("max_load", {}) for x in operators}, "max_load" in self.dropped
        most = [of.get(x.get("operator"), {}) | x.get("max_load", {}) for x in tasks]
        #: (resource, load, most) of what a task, which is one thread, cannot have more of; whose
        self.threads = [(r, a, m, self.member[t] or t)
                        for t, (caps, load) in enumerate(zip(most, self.load)) if caps and not free
                        for r, a, m in zip(self.resources, load, self._amounts(caps, None))
                        if m is not None and a]  # fmt: skip
        self.home = [self.node[x["node"]] if "node" in x else -1 for x in tasks]
        self.cost = [number(x.get("migration_cost", x.get("state", 1))) for x in tasks]
        self.state = [number(x.get("state", 0)) for x in tasks]
        self.copies = [{self.node[n] for n in x.get("copies", [])} for x in tasks]
        allowed = [x.get("allowed") if "allowed" not in self.dropped else None for x in tasks]
        lift = "leaving" in self.dropped
        gone = {n for n, leaves in enumerate(self.leaving) if leaves and not lift}
        lists = {id(names): names or self.node for names in allowed}  # equal lists are one object
        may = {k: frozenset([self.node[n] for n in names]) for k, names in lists.items()}
        staying = {k: m - gone or m for k, m in may.items()}
        self.may = [(may if h in gone else staying)[id(k)] for k, h in zip(allowed, self.home)]

    def _traffic(self, pairs: list[Any], streams: list[Doc]) -> None:
        """Read the rates of pairs; streams between operators that no pair is of are spread."""
        traffic = defaultdict[tuple[int, int], F](F)
        for source, target, rate in pairs:
            traffic[self.task[source], self.task[target]] = number(rate)
        need(len(traffic) == len(pairs), "a pair stands twice", Unreadable)
        listed, even = {(self.member[u], self.member[v]) for u, v in traffic}, self.dropped & LOCAL
        #: of `local_first` streams: sender, receivers, rate; and of which each task is an end
        self.shuffled = list[tuple[int, list[int], F]]()
        self.sides = [list[Any]() for _ in self.load]
        for k, x in enumerate(streams):
            left, right, rate = self.members[x["from"]], self.members[x["to"]], x.get("rate")
            if rate is None and "tuple_bytes" in x and x["from"] in self.tuples:
                sent = self.tuples[x["from"]] * number(x.get("selectivity", 1))
                rate = sent * number(x["tuple_bytes"])
            spread = rate is not None and (x["from"], x["to"]) not in listed and right
            if spread and left and x.get("pattern") in LOCAL - even:
                self._shuffle(k, left, right, number(rate), x.get("sender_weights"), traffic)
                continue
            for i, u in enumerate(left if spread else ()):
                to = receivers(x.get("pattern", "full"), i, len(left), len(right), even)
                most = MOST_STEPS - (len(left) - i) * len(to)
                need(len(traffic) <= most, "too many pairs", Unreadable)
                for j in to:
                    traffic[u, right[j]] += number(rate) / (len(left) * len(to))
        need(all(u != v for u, v in traffic), "traffic ends where it began", Unreadable)
        rates = *traffic.values(), *(rate for *_, rate in self.shuffled)
        self.total_traffic = sum(rates, ZERO)
        columns = [*zip(*self.load)] or [()] * len(self.resources)
        columns += [rates] * 3
        for k in range(len(columns) * bool(self.mends)):
            columns[k] += tuple(a for i, a in self.rights if i == min(k, len(columns) - 3))
        self.unit = [lcm(*(a.denominator for a in column)) for column in columns]
        self.inner = [0] * len(self.resources) + [1, 1, 2]
        self.amounts = [[*map(int, map(mul, load, self.unit)), 0, 0, 0] for load in self.load]
        self.rate = {pair: int(rate * self.unit[-1]) for pair, rate in traffic.items() if rate}
        self.near: list[dict[int, int]] = [defaultdict(int) for _ in self.load]  # both ways
        for (u, v), flow in self.rate.items():
            for t, peer, way in ((u, v, -3), (v, u, -2)):
                self.near[t][peer] += flow
                self.amounts[t][way] += flow
                self.amounts[t][-1] += flow

    def _shuffle(
        self, k: int, left: list[int], right: list[int], rate: F, weights: Any, traffic: Any
    ) -> None:
        """Read a stream to the receivers on a sender's node, where there are any, else to all."""
        over = self.crosses or any(i >= len(self.resources) for _, i, *_ in self.carry)
        need(not over, "local_first streams over links or with crossing costs", Unreadable)
        parts = [number(w) for w in weights or [1] * len(left)]
        total, fits = sum(parts), len(parts) == len(left) and not {*left} & {*right}
        need(fits and total, "sender_weights or ends of a local_first stream", Unreadable)
        for i, sent in zip(left, (rate * part / total for part in parts)):
            if len(right) == 1:
                traffic[i, right[0]] += sent
            elif sent:
                self.shuffled.append((i, right, sent))
                self.sides[i].append((k, sent))
        for j in right:
            self.sides[j].append((k, None))

    def _rooms(self, document: Doc, links: list[Doc]) -> None:
        """Read what each node may carry; links of several nodes bind nothing here."""
        cost = {} if "crossing_cost" in self.dropped else document.get("crossing_cost", {})
        crossing = [sum(map(number, cost.get(r, {}).values()), ZERO) for r in self.resources]
        self.crosses, driven = any(crossing), document.get("rate_driven") or self.resources[:1]
        self.thread_rates = [most / load for r, load, most, _ in self.threads if r in driven]
        self.totals = [sum(x, ZERO) for x in zip(*self.load, *self.base)]
        self.share = sum((w for w, gone in zip(self.weight, self.leaving) if not gone), ZERO)
        mean = sum(self.totals[:1], ZERO) / (self.share or 1)
        self.mean: Any = mean if self.share and not self.crosses else None
        # what tasks have above what they can use is the same in all plans; the worst of an operator
        self.free, worst = self.mends == "sustainable_rate", defaultdict[Any, F](F)
        for r, load, most, whose in self.threads:
            if load > most + SLACK * most and not (self.free and r in driven):
                above = (load - most) / self.totals[self.resources.index(r)]
                worst[r, whose] = max(worst[r, whose], above)
        self.crossing, self.fixed = crossing, sum(worst.values(), ZERO)
        far = [number(m) for k, m in self.limits.items() if k == "max_load_distance"]
        self.far = [(m, 0) for m in far if self.mean is not None]
        used = {k: number(v) for k, v in self.limits.get("max_utilisation", {}).items()}
        carry: list[tuple[Any, ...]] = [
            (n, r, room * used.get(name, 1), self.base[n][r], name in driven)
            for n, capacity in enumerate(self.capacity) if "capacity" not in self.dropped
            for r, (name, room) in enumerate(zip(self.resources, capacity)) if room is not None
        ]  # fmt: skip
        bases = [number(x.get("background", 0)) for x in links]
        part = used.get("links", 1)
        for x, base in zip(links, bases):
            inside, room = {self.node[n] for n in x["nodes"]}, number(x["capacity"]) * part
            way = len(crossing) + ("out", "in", "both").index(x.get("direction", "both"))
            carry += [(n, way, room, base, True) for n in inside if len(inside) == 1]
        self.carry, self.linked = carry, sum(bases, ZERO)
        #: (amount, number): to be whole in the units of amounts where excesses count
        self.rights = [(min(i, len(crossing)), room - base) for _, i, room, base, _ in carry]
        for m, _ in self.far:
            shares = (w * mean - x[0] for w, x in zip(self.weight, self.base))
            self.rights += [(0, right) for right in (m, *shares)]

    def _limits(self) -> None:
        """Write limits in the units of amounts, and what these are now."""
        #: of each node (amount, most of it, that without a tolerance, whether the rate drives it)
        self.rooms: list[list[tuple[int, F, F, bool]]] = [[] for _ in self.node]
        for n, i, room, base, rated in self.carry:
            exact, grant = (room - base) * self.unit[i], SLACK * room * self.unit[i]
            self.rooms[n].append((i, exact + grant, exact, rated))
        #: budgets of moves: the price of each task, and the most, in units that make them whole
        self.budgets: list[tuple[list[int], int]] = []
        prices = {"max_migrations": [F(1)] * len(self.cost), "max_migration_cost": self.cost,
                  "max_migration_state": self.state}  # fmt: skip
        for costs, cap in ((prices[k], self.limits[k]) for k in prices if k in self.limits):
            unit, most = lcm(*(c.denominator for c in costs)), number(cap)
            most += SLACK * most
            self.budgets.append(([int(c * unit) for c in costs], floor(most * unit)))
        self.totals = [x or F(1) for x in (*self.totals, *[self.total_traffic + self.linked] * 3)]
        self.now: list[list[F]] = self.node_amounts(self.home) if self.mends else []
        for amounts in self.now:  # what crossing adds, or more: more is allowed then
            for r, price in enumerate(self.crossing):
                amounts[r] += amounts[-1] * price * self.unit[r] / self.unit[-1]
        self.apart = self.distance(self.now) if self.now and self.far else ZERO

    def node_amounts(self, at: list[int]) -> list[list[Any]]:
        """Return the amounts of each node under a placement; -1 is no node."""
        sums: list[list[Any]] = [[0] * len(self.unit) for _ in self.node]
        for n, amounts in zip(at, self.amounts):
            if n >= 0:
                sums[n] = [*map(add, sums[n], amounts)]
        for n, rate in ((at[u], rate) for (u, v), rate in self.rate.items() if at[u] == at[v] >= 0):
            sums[n] = [a - part * rate for a, part in zip(sums[n], self.inner)]
        return sums

    def distance(self, sums: list[list[Any]]) -> F:
        """Return the load distance of a placement."""
        loads = [h[0] / F(self.unit[0]) + b[0] for h, b in zip(sums, self.base)]
        mean = sum(loads, ZERO) / self.share
        off = [load - w * mean for load, w in zip(loads, self.weight)]
        return max(a if gone else abs(a) for a, gone in zip(off, self.leaving))

    def excess(self, sums: list[list[Any]]) -> F:
        """Return what a placement has above limits, each as a share of all there is of it."""
        shares = [(sums[n][i] - exact) / self.unit[i] / self.totals[i]
                 for n, rooms in enumerate(self.rooms) for i, most, exact, rated in rooms
                 if sums[n][i] > most and not (self.free and rated)]  # fmt: skip
        shares += [max(ZERO, self.distance(sums) - m) / self.totals[0] for m, _ in self.far]
        return sum(shares, self.fixed)

    def _classes(self) -> None:
        """Put tasks together that can be exchanged without changing anything that is read here."""
        classes = defaultdict[Any, list[int]](list)
        for t, near in enumerate(self.near):
            moves: Any = (self.home[t], self.cost[t], frozenset(self.copies[t]))
            also = moves if self.budgets else None, self.topology[t] if self.fills else None
            same = frozenset(near.items()), frozenset(self.sides[t])
            classes[(*self.amounts[t], self.may[t], *same, also)].append(t)
        self.first, self.sizes = [c[0] for c in classes.values()], [*map(len, classes.values())]
        of = {t: g for g, tasks in enumerate(classes.values()) for t in tasks}
        #: traffic, both ways, between any two tasks of two classes; there is none within one
        self.rates = [{of[b]: rate for b, rate in self.near[t].items()} for t in self.first]
        #: of `local_first` streams: class of senders, classes of receivers, rate of each sender
        firsts = {t: g for g, t in enumerate(self.first)}
        self.stays = [(firsts[i], {of[j] for j in to}, int(rate * self.unit[-1]))
                      for i, to, rate in self.shuffled if i in firsts]  # fmt: skip

    def paid(self, t: int, n: int) -> Pairs:
        """Which budgets task t pays for being on node n, and how much: none unless it moved."""
        moved = self.home[t] not in (-1, n) and n not in self.copies[t]
        return [(row, price[t]) for row, (price, _) in enumerate(self.budgets) if moved]

    def shares(self, objective: str) -> list[F]:
        """Return what each node counts once it is in use; nothing for the other objectives."""
        if objective != "used_capacity":
            return [F(objective == "nodes_used")] * len(self.node)
        sizes = [] if "capacity" in self.dropped else [x[0] for x in self.capacity]
        need(any(sizes) and None not in sizes, "a node has no capacity of the first kind")
        return [size / total for total in (sum(sizes),) for size in sizes]


# ---- 3. models ----------------------------------------------------------------------------------
class Model:
    """max gain·z: rows (sense, right side), the z of each group add up to its size, all whole.

    A column z ≥ 0 is its key (its group first), gain, and (row, factor)s; the objective is offset +
    unit·gain·z. With `threshold` limits are those of what is better than the bound: there is no z.
    Where limits may be exceeded, in all at `most` (of the level `EXCESS` itself, below the bound).
    """

    def __init__(
        self, x: Instance, objective: str, bound: F, kind: str, most_steps: int = MOST_STEPS,
        most: F = ZERO,
    ) -> None:  # fmt: skip
        self.instance, self.objective, self.bound, self.left = x, objective, bound, most_steps
        self.kind, self.threshold = kind, objective in (*THRESHOLDS, EXCESS)
        shares = x.shares(objective)
        has_mean = objective != "load_distance" or x.mean is not None
        need(has_mean, "load distance needs staying nodes, and no crossing costs")
        limits = [[*self._limits(n)] for n in range(len(x.node))]
        # a unit above a limit is 1 / (total · unit) of excess: a whole number of equal parts
        above = {i: x.totals[i] * x.unit[i] for i, _, high, low, _ in chain(*limits) if high > low}
        self.part = part = lcm(*(total.numerator for total in above.values()))
        left = ((bound if objective == EXCESS else most) - x.fixed) * part
        right = ceil(left) - 1 if objective == EXCESS else floor(left)
        price = [int(part / above.get(i, part + 1)) for i in range(len(x.unit))]
        #: of each node (amount, sign, most) for sign · amount ≤ most; all are whole; then what
        #: nothing exceeds, the price of a unit above that, whether the worst node alone counts
        self.limits = [tuple((i, sign, min(high, low + max(0, right) // (price[i] or 1)), low,
                              price[i] * (high > low), far)
                             for i, sign, high, low, far in row) for row in limits]  # fmt: skip
        self.gains, of_nodes = objective in OF_TRAFFIC, objective in OF_NODES
        parts = lcm(*(share.denominator for share in shares)) if of_nodes else x.unit[-1]
        self.offset = x.total_traffic if objective == "internode_traffic" else ZERO
        self.unit = F(1 if objective == "imc_gain" else -1, parts)
        self.used = [int(share / self.unit) for share in shares]
        self.columns: list[tuple[tuple[int, ...], int, tuple[tuple[int, int], ...]]] = []
        self.rows, self.groups = [("<", most) for _, most in x.budgets], list[int]()
        self.rows += [("<", right)] * bool(x.mends)
        self.parts = set[int]()  # columns that are not whole one by one
        {"dual": self._textbook, "counting": self._counting}.get(kind, self._patterns)()
        self.aim(bound)

    def _add(self, key: tuple[int, ...], gain: int, entries: Pairs) -> None:
        need(len(self.columns) < MOST_COLUMNS, f"more than {MOST_COLUMNS:,} columns")
        self.columns.append((key, gain, tuple([e for e in entries if e[1]])))

    def _step(self, count: int, why: str = "too many steps to list what nodes may hold") -> None:
        self.left -= count
        need(self.left >= 0, why)

    def _limits(self, n: int) -> Any:
        """Yield (amount, sign, most, what nothing exceeds, whether the worst node alone counts)."""
        x, rate = self.instance, "sustainable_rate" in (self.objective, self.instance.mends)
        for i, most, exact, driven in x.rooms[n]:
            if not (rate and driven):
                above = x.now[n][i] - exact if x.mends else ZERO
                yield i, 1, *self._loosened(most, exact, above), False
            elif self.objective != EXCESS and self.bound >= 0 and (self.bound or exact <= 0):
                edge = max(0, ceil(max(ZERO, exact) / (self.bound or 1)) - 1)
                yield i, 1, edge, edge, False  # below what is left / bound, or unused
        below = [(self.bound, 1)] if self.objective == "load_distance" else []
        for (far, strict), sign in product(below + x.far, (1,) if x.leaving[n] else (1, -1)):
            due = x.weight[n] * x.mean  # load <= due + far, due <= load + far
            grant = SLACK * (due + far if sign > 0 else max(due, far)) * x.unit[0]
            exact = (sign * (due - x.base[n][0]) + far) * x.unit[0]
            edges = self._loosened(exact + grant, exact, (x.apart - far) * x.unit[0])
            yield 0, sign, *([ceil(exact) - 1] * 2 if strict else edges), True

    def _loosened(self, most: F, exact: F, above: F) -> tuple[int, int]:
        """Allow what is above a limit now: what exceeds it is counted from the next whole unit."""
        if not self.instance.mends or above <= 0:
            return floor(most), floor(most)
        low = max(floor(most), ceil(exact))
        return max(low, floor(exact + above * WORSE)), low

    # -- node patterns: what a node of a class may hold; (class, counts) is a column's key
    def of_node(self, n: int) -> list[tuple[tuple[int, ...], int, int]]:
        """List (counts, traffic inside, excess) of all that node n may hold, class by class."""
        x, limits = self.instance, self.limits[n]
        sizes = [size * (n in x.may[t]) for t, size in zip(x.first, x.sizes)]
        adds = [[sign * x.amounts[t][i] for i, sign, *_ in limits] for t in x.first]
        takes = [[min(0, a) * size for a in deltas] for deltas, size in zip(adds, sizes)]
        # sums are the least that they can come to: with all that classes to come can take off
        least = tuple(sum(deltas[k] for deltas in takes) for k in range(len(limits)))
        rooms = [inf if x.inner[i] else most for i, _, most, *_ in limits]
        partial: list[Any] = [((), least, 0)]
        for g, size in enumerate(sizes):
            pulls = [(h, rate) for h, rate in x.rates[g].items() if h < g]
            more = [[c * a - off for a, off in zip(adds[g], takes[g])] for c in range(size + 1)]
            before, partial = partial, []
            for counts, sums, inside in before:
                self._step((size + 1) * (1 + (g + len(x.fills)) // 50))
                pull = sum([counts[h] * rate for h, rate in pulls])
                for c, extra in enumerate(more):
                    if all(map(le, now := tuple(map(add, sums, extra)), rooms)):
                        partial.append(((*counts, c), now, inside + c * pull))
        stays = x.stays if self.gains else []
        self._step(len(partial) * len(stays) // 10)
        partial = [(counts, now, inside + sum([rate * counts[g] for g, to, rate in stays
                                             if counts[g] and any([counts[h] for h in to])]))
                 for counts, now, inside in partial] if stays else partial  # fmt: skip
        inner = [(k, x.inner[i], *row) for k, (i, _, *row) in enumerate(limits)]
        pays = [(k, part, low, price) for k, part, _, low, price, far in inner if price and not far]
        return [(counts, inside, sum([price * max(0, sums[k] - part * inside - low)
                                      for k, part, low, price in pays]))
                for counts, sums, inside in partial
                if all([sums[k] - part * inside <= row[0] for k, part, *row in inner])]  # fmt: skip

    def _patterns(self) -> None:
        """Rows: every class of tasks is placed. Groups: every node of a class holds one pattern."""
        x, places = self.instance, defaultdict[Any, list[int]](list)
        need(len(x.first) <= 300, f"{len(x.first)} classes of tasks are too many for patterns")
        for n, limits in enumerate(self.limits):  # alike where all that is read here of them is
            open_to = tuple((n in x.may[t], bool(x.paid(t, n))) for t in x.first)
            places[limits, open_to, self.used[n], x.slots[n] if x.fills else 0].append(n)
        placed, slots = len(self.rows), len(self.rows) + len(x.sizes)
        self.rows += [("=", size) for size in x.sizes]
        self.rows += [row for _, wanted in x.fills for row in (("<", wanted), (">", wanted))]
        for k, (n, *others) in enumerate(places.values()):
            self.groups.append(1 + len(others))
            paid = [x.paid(t, n) for t in x.first]
            for counts, inside, excess in self.of_node(n):
                entries = [(placed + g, c) for g, c in enumerate(counts)]
                entries += [(len(x.budgets), excess)] * bool(x.mends)
                entries += [(row, c * price) for c, pay in zip(counts, paid) for row, price in pay]
                for f, (name, _) in enumerate(x.fills):
                    there = sum(c for c, t in zip(counts, x.first) if x.topology[t] == name)
                    filled = min(1, there), min(x.slots[n], there)  # slots: one, or as many
                    entries += enumerate(filled, slots + 2 * f)
                gain = inside * self.gains + self.used[n] * any(counts)
                self._add((k, *counts), gain, entries)

    # -- the textbook's: (group, kind, home, node, whether it pays or is in use) is a key
    def _textbook(self) -> None:
        """Rows: limits, use, products. Groups: each class of tasks, pair of these, and node."""
        x, uses, first = self.instance, self.objective in OF_NODES, list[int]()
        self._step(10 * len(self.limits) * (len(x.first) + sum(map(len, x.rates))))
        counts = self.gains or any(x.inner[i] for i, *_ in chain(*self.limits))
        pairs = [(g, h, r) for g, near in enumerate(x.rates) for h, r in near.items() if g < h]
        pairs = pairs if counts else []
        stays = x.stays if self.gains else []
        self.groups = [*x.sizes, *(x.sizes[g] * x.sizes[h] for g, h, _ in pairs)]
        self.groups += [x.sizes[g] for g, *_ in stays]
        for n, limits in enumerate(self.limits):  # an unused node has nothing of an amount
            first.append(len(self.rows))
            most = [*(low for _, _, _, low, *_ in limits), *x.sizes * uses]
            self.rows += [("<", 0 if uses else a) for a in most]
            if uses:
                entries = [(row, -a) for row, a in enumerate(most, first[n])]
                self._add((len(self.groups), 2, -1, n, 1), self.used[n], entries)
                self._add((len(self.groups), 2, -1, n, 0), 0, [])
                self.groups.append(1)
        on = defaultdict[Any, Pairs](list)
        for k, (g, h, rate) in enumerate(pairs, len(x.sizes)):  # tasks that meet on a node
            self._add((k, 1, -1, -1, 0), 0, [])  # those that are apart
            for n in sorted(x.may[x.first[g]] & x.may[x.first[h]]):
                of_n = enumerate(self.limits[n], first[n])
                entries = [(row, -x.inner[i] * rate) for row, (i, *_) in of_n]
                for one, other in ((g, h), (h, g)):  # what either has, times all of the other
                    entries.append((len(self.rows), 1))
                    on[one, n].append((len(self.rows), -x.sizes[other]))
                    self.rows.append(("<", 0))
                self._add((k, 1, -1, n, 0), rate * self.gains, entries)
        for k, (g, to, rate) in enumerate(stays, len(x.sizes) + len(pairs)):
            self._add((k, 1, -1, -1, 0), 0, [])  # senders without a receiver on their node
            for n in sorted(x.may[x.first[g]]):  # no more than are there; none without a receiver
                on[g, n].append((len(self.rows), -1))
                for h in to:
                    on[h, n].append((len(self.rows) + 1, -x.sizes[g]))
                self._add((k, 1, -1, n, 0), rate, [(len(self.rows), 1), (len(self.rows) + 1, 1)])
                self.rows += [("<", 0)] * 2
        for g, t in enumerate(x.first):
            for n in sorted(x.may[t]):
                of_n, paid = enumerate(self.limits[n], first[n]), x.paid(t, n)
                entries = [(row, sign * x.amounts[t][i]) for row, (i, sign, *_) in of_n]
                entries += [(first[n] + len(self.limits[n]) + g, 1)] * uses + on[g, n] + paid
                self._add((g, 0, x.home[t], n, int(bool(paid))), 0, entries)
        above = defaultdict[Any, list[Any]](list)  # what exceeds limits: none, or all that it may
        for n, limits in enumerate(self.limits):
            for row, (*_, most, low, price, far) in enumerate(limits, first[n]):
                if price and most > low:
                    above[0 if far else row].append((row, low - most, price))
        for rows in above.values():
            size = min(part for _, part, _ in rows)
            entries = [*((row, size) for row, *_ in rows), (len(x.budgets), -size * rows[0][-1])]
            self.parts |= {len(self.columns), len(self.columns) + 1}
            for some in ([], entries):
                self._add((len(self.groups), 3, -1, -1, 0), 0, some)
            self.groups.append(1)

    # -- counting: (node, tasks that it loses, that it takes) is the key of both ends of its gain:
    #    only sums over both are whole, so that cuts cannot distinguishes it, and nothing is dropped
    def _counting(self) -> None:
        """Rows: the budget of moves; as many come as go; gains add up to 0. Groups: the nodes."""
        x = self.instance
        suits = -1 not in x.home and not any(x.copies) and "max_migrations" in x.limits
        need(suits, "counting needs max_migrations, a place of every task, and no copies")
        most, loads = whole(x.limits["max_migrations"]), [amounts[0] for amounts in x.amounts]
        free = [t for t, home in enumerate(x.home) if x.may[t] - {home}]
        self.rows, self.groups = [("<", most), ("=", 0), ("=", 0)], [1] * len(self.limits)

        def sums(tasks: list[int], sign: int) -> list[int]:  # the least, or most, of so many tasks
            chosen = sorted([sign * loads[t] for t in tasks])[:most]
            return [sign * s for s in accumulate(chosen, initial=0)]

        small, large = sums(free, 1), sums(free, -1)
        for n, limits in enumerate(self.limits):
            light, heavy = (sums([t for t in free if x.home[t] == n], sign) for sign in (1, -1))
            self._step(len(light) * len(small))
            now = sum(load for load, home in zip(loads, x.home) if home == n)
            edges = [(s, edge - s * now) for i, s, edge, *_ in limits if i == 0]
            for o, m in product(range(len(light)), range(len(small))):
                high = min([large[m] - light[o], *(edge for s, edge in edges if s > 0)])
                low = max([small[m] - heavy[o], *(-edge for s, edge in edges if s < 0)])
                for gain in sorted({low, high}) if low <= high else ():
                    self._add((n, o, m), 0, [(0, o), (1, o - m), (2, gain)])

    # ---- 4. proofs: every case must end in multipliers that close it ----------------------------
    def aim(self, bound: F) -> None:
        """Set what is to be proved: no gain, in steps of what all are multiples of, is beyond."""
        self.step = gcd(*(gain for _, gain, _ in self.columns)) or 1
        self.goal = -1 if self.threshold else floor((bound - self.offset) / self.unit)

    def walk(self, steps: Any) -> None:
        """Go through the steps in order; a branch is followed by all of its low, then high side."""
        cases: list[tuple[list[int], Cuts]] = [([*range(len(self.columns))], ())]
        self.left = MOST_WORK
        for at, step in enumerate(steps if isinstance(steps, list) else [None]):
            need(isinstance(step, dict) and cases, f"step {at} belongs to no open case")
            columns, cuts = cases.pop()
            if "branch" in step:
                self._step((len(columns) + 10) * (len(step["branch"]) + 1) + 100 * len(cuts), BUSY)
                cut, low = self.cut(step["branch"], columns), whole(step.get("at"))
                cases += [(columns, (*cuts, (cut, *side))) for side in ((">", low + 1), ("<", low))]
                continue
            duals, over = step.get("close", step.get("drop")), whole(step.get("over", 1))
            value, rests = self.value(duals, over, columns, cuts)
            if value is not None and "drop" in step and self.kind != "counting":
                keep = [j for j, rest in zip(columns, rests)
                        if j in self.parts or not self.closed(value + rest, over)]  # fmt: skip
                cases.append((keep, cuts))  # nothing better uses one of the others
            elif not self.closed(value, over):
                raise Refused(f"step {at}: its multipliers leave {value} / {over}"[:99])
        need(not cases, f"{len(cases)} cases are left open")

    def cut(self, branch: Any, columns: list[int]) -> frozenset[int]:
        """Return the columns whose keys have certain places within certain ranges."""
        keys = ((j, self.columns[j][0]) for j in columns)
        return frozenset([j for j, key in keys if all(a <= key[i] <= b for i, a, b in branch)])

    def value(self, duals: Any, over: int, columns: list[int], cuts: Cuts) -> tuple[Any, list[int]]:
        """Return the most that multipliers allow, and how far each column is from it; × over."""
        rows = [*self.rows, *(cut[1:] for cut in cuts)]
        need(len(duals) == len(rows), f"{len(rows)} multipliers are needed, one a row")
        signed = [whole(y, -inf) for y in duals]
        wrong = any((s == "<" and y < 0) or (s == ">" and y > 0) for y, (s, _) in zip(signed, rows))
        need(not wrong, "a multiplier has the wrong sign")
        tail = [(y, members) for y, (members, *_) in zip(signed[len(self.rows) :], cuts) if y]
        work = sum([len(self.columns[j][2]) for j in columns]) + 10 * len(rows)
        self._step(work + (len(columns) + 10) * (len(tail) + 4), BUSY)
        rests, top = list[int](), dict[int, int]()
        for j in columns:
            (group, *_), gain, entries = self.columns[j]
            rest = over * gain - sum([signed[row] * factor for row, factor in entries])
            rests.append(rest - sum([y for y, members in tail if j in members]) if tail else rest)
            top[group] = max(top.get(group, rests[-1]), rests[-1])
        total = sum(y * right for y, (_, right) in zip(signed, rows))
        for group, size in enumerate(self.groups):
            if size and group not in top:
                return None, []  # nothing is left that a group could be of: no solution
            total += size and size * top[group]
        return total, [rest - top[self.columns[j][0][0]] for j, rest in zip(columns, rests)]

    def closed(self, value: int | None, over: int) -> bool:
        """Whether gains of at most value / over leave nothing better than the bound."""
        if value is None or not over:  # over 0 gains do not count: no solution is below 0
            return value is None or value < 0
        return value // (over * self.step) * self.step <= self.goal


def of_threads(x: Instance, objective: str, bound: F) -> None:
    """Prove by a single task: one that is full at the bound, or has more than it can use."""
    tight = not x.mends and any(m + SLACK * m < a for _, a, m, _ in x.threads)
    rated = objective == "sustainable_rate" and any(rate <= bound for rate in x.thread_rates)
    need(rated or (objective == "feasible" and tight), "no task is full before")


# ---- 5. the whole -------------------------------------------------------------------------------
def value_of(x: Instance, plan: Doc, objective: str) -> F:
    """Return the exact value of a plan (whether it keeps every rule is the referee's to say)."""
    places: Any = plan.get("assignment")
    fits = isinstance(places, dict) and places.keys() == x.task.keys()
    need(fits, "the plan does not place exactly the tasks of the instance")
    at = [x.node.get(places[name], -1) for name in x.task]
    need(all(n in may for n, may in zip(at, x.may)), "the plan puts a task where it may not be")
    sums = x.node_amounts(at)
    apart = F(sum(h[-3] for h in sums), x.unit[-1])  # what leaves the nodes
    apart += sum(rate for i, to, rate in x.shuffled if at[i] not in {at[j] for j in to})
    values = {"internode_traffic": apart, "imc_gain": x.total_traffic - apart, "feasible": F(1)}
    if objective == EXCESS:
        return x.excess(sums)
    if objective == "sustainable_rate" and not x.crosses:
        # 0 of a node in use that its background alone exceeds, whatever its tasks need
        rates = [*x.thread_rates, *(
            max(ZERO, left) / (sums[n][i] or 1) for n in {*at} for i, cap, left, rated in x.rooms[n]
            if rated and (sums[n][i] or (cap < 0 and i < len(x.crossing))))]  # fmt: skip
        need(rates, "nothing limits the rate of the plan")
        return min(rates)
    if objective == "load_distance" and x.mean is not None:
        return x.distance(sums)
    if objective in OF_NODES:
        return sum(map(x.shares(objective).__getitem__, {*at}), ZERO)
    need(objective in values, f"the plan has no {objective} that this checker can determine")
    return values[objective]


def exactly(name: str, value: Any) -> F:
    """Read an exact number."""
    fits = re.fullmatch(r"-?\d{1,2000}(/[1-9]\d{0,2000})?", str(value))
    why = f"{name} is {str(value)[:30]!r}, neither a whole number nor a text p/q; write it as 17/25"
    need(fits, why, Unreadable)
    return F(str(value))


def prove(x: Instance, objective: str, bound: F, proof: Any, most: F = ZERO) -> None:
    """Have what a proof says checked."""
    kind: Any = proof.get("kind") if isinstance(proof, dict) else None
    kinds = {"dual", "threshold"} if objective in (*THRESHOLDS, EXCESS) else {"dual", "patterns"}
    kinds |= {"counting", "threads"} if objective in THRESHOLDS else set()
    need(kind in kinds, f"{str(kind)[:30]!r} is no kind of proof of {objective}")
    if kind == "threads":
        of_threads(x, objective, bound)
    else:
        Model(x, objective, bound, kind, most=most).walk(proof.get("steps"))


def check(file: Doc | Instance, sha256: str, certificate: Doc, plan: Doc | None = None) -> str:
    """Return what is proved of a file (or what is read of it); raise `Refused` or `Unreadable`."""
    stated = certificate.keys() - {EXCESS} == {*CERTIFICATE.split()} and certificate["format"]
    why = f"a {FORMAT} has the fields {CERTIFICATE}, maybe {EXCESS}, and no others"
    need(stated == FORMAT, why, Unreadable)
    _, of, objective, sense, bound, _, proof = (certificate[key] for key in CERTIFICATE.split())
    need(of == sha256, f"it is not of this instance, {sha256}")
    need((objective, sense) in SENSES.items(), "unknown objective, or its sense")
    assumes, mends = [*map(str, certificate["assumes"])], EXCESS in certificate
    dropped = frozenset(name for name in DROPPED.split() if f"without {name}" in assumes)
    need(len(dropped) + mends == len({*assumes}), "an assumption is not known to this checker")
    need(mends == (NOW in assumes), f"{EXCESS} and the assumption {NOW!r} go together")
    exact, most = exactly("bound", bound), ZERO
    need(objective != "feasible" or not exact, "feasible is 0: nothing else is proved")
    read = file if isinstance(file, Instance) else Instance(file, dropped, objective * mends)
    need((read.dropped, read.mends) == (dropped, objective * mends),
         "other limits were dropped when the file was read")  # fmt: skip
    way = "most" if SENSES[objective] == "max" else "least"
    line = f"{objective} is at {way} {float(exact):.15g} (exactly {bound})"
    if mends:
        level = certificate[EXCESS]
        fields = isinstance(level, dict) and level.keys() == {"bound", "most", "proof"}
        need(fields, f"{EXCESS} has the fields bound, most and proof, and no others", Unreadable)
        least, most = (exactly(f"{EXCESS}.{key}", level[key]) for key in ("bound", "most"))
        need(least <= most, f"{EXCESS}.most is below {EXCESS}.bound")
        prove(read, EXCESS, least, level["proof"])
        raised = f"{EXCESS} is at least {float(least):.15g}; where it is at most {float(most):.15g}"
        line = f"{raised}, {line}"
    prove(read, objective, exact, proof, most)
    line = ", ".join([line, *assumes])
    if plan is not None and mends:
        over = value_of(read, plan, EXCESS)
        need(over <= most, f"the plan has an excess of {float(over):.15g}, above {EXCESS}.most")
        line += f"; the plan has an excess of at least {float(over):.15g}"
    if plan is not None and objective == "sustainable_rate" and read.crosses:
        line += "; under crossing costs the rate of a plan is not reported here"
    elif plan is not None:
        value = value_of(read, plan, objective)
        beyond = value > exact if way == "most" else value < exact
        need(not beyond, f"the plan has {float(value):.15g}, beyond the bound: it breaks a rule")
        gap = abs(value - exact) / (max(abs(value), abs(exact)) or 1)
        line += f"; the plan has {float(value):.15g}, a gap of {float(gap):.3g}"
    return line


def main(arguments: list[str]) -> int:
    """Check the files that are named."""
    path = "usage"
    try:
        need(len(arguments) in (2, 3), "check.py INSTANCE CERTIFICATE [PLAN]", Unreadable)
        documents = [parse(Path(path := name).read_bytes()) for name in arguments]
        (instance, sha256), *rest = documents
        path = " with ".join(arguments)
        print(f"holds: {check(instance, sha256, *(document for document, _ in rest))}")
    except (Refused, RecursionError, OverflowError) as error:
        print(f"does not hold: {error}", file=sys.stderr)
        return 1
    except (*MALFORMED, OSError, zlib.error) as error:
        what = f"nothing is found for {error}" if isinstance(error, LookupError) else str(error)
        if isinstance(error, OSError):
            what = f"{error.strerror or error}; check the path and your rights"
        print(f"cannot be read: {path}: {what}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
