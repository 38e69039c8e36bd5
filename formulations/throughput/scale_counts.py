"""Counts of tasks on nodes where every operator's number of tasks is free.

Of x tasks on a node out of n, an operator has the part x / n of its load and its streams there, so
that what a node carries follows from its parts alone, whatever n is. Exact for a given n: which
contents a node may have (`Counts.contents`), and by dynamic programming over how many tasks are
placed, the cheapest nodes that take all, and the most traffic inside them (`Counts.best`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from formulations.throughput.problem import places_of
from optim.figures.load import carrying
from optim.format.parallelism import bounds_of, key_groups_of, largest_share, shares
from optim.kernels.place_rules import placing_masks, placing_room
from optim.rules import Form, limits_set, node_counts, rules_of
from optim.util.compiled import accepts, draw, inlined, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats

    Counts64 = NDArray[np.int64]

_ROUNDING = 1e-9
_KEPT = rules_of({
    Form.NODE_CAPACITY, Form.LINK_CAPACITY, Form.TASK, Form.SHARE, Form.CROSSING, Form.LEAVING
})  # fmt: skip
"""Rules that counts know, with bounds on the nodes that all tasks use: so many are offered."""


class Counts(NamedTuple):
    """O operators and V nodes at a rate."""

    #: (O, R) load of all tasks of an operator at the current input, of the resources that it
    #: drives; 0 of the others.
    load: Floats
    each: Floats  # (O, R) load of one task, of the others; 0 of those that are driven.
    #: (O, O) traffic of the streams; (2, R) what a unit that crosses costs sender and receiver.
    rate: Floats
    price: Floats
    #: (V, R) load and (V, 3) traffic that a node takes (leaving, entering, both) at the rate.
    room: Floats
    link: Floats
    cost: Floats  # (V,) of using a node.
    #: (O,) least and greatest number of tasks.
    low: Counts64
    high: Counts64
    key_groups: Counts64  # (O,) 0 where there are none.
    #: (O,) part that one task has, where the rows stand for kinds of tasks (`exact`).
    shares: Floats | None = None

    def only(self, nodes: Any) -> Counts:
        """Return the same operators on some of the nodes."""
        return self._replace(room=self.room[nodes], link=self.link[nodes], cost=self.cost[nodes])

    def keys(self) -> list[bytes]:
        """Return of each node what it takes: those of one key may hold the same."""
        return [row.tobytes() for row in np.hstack([self.room, self.link])]

    def priced_keys(self) -> list[tuple[bytes, float]]:
        """Return of each node what it takes and its cost."""
        return list(zip(self.keys(), self.cost.tolist(), strict=True))

    def exact(self, tasks: Counts64) -> tuple[Counts, Counts64]:
        """Return kinds of tasks of equal shares, for numbers of tasks, and how many each has."""
        operator, share, sizes = [], [], []
        for o, n in enumerate(tasks.tolist()):
            distinct, count = np.unique(
                shares(n, int(self.key_groups[o]) or None), return_counts=True
            )
            operator += [o] * len(distinct)
            share += distinct.tolist()
            sizes += count.tolist()
        kind = np.array(operator)
        scaled = self._replace(
            load=self.load[kind], each=self.each[kind], rate=self.rate[np.ix_(kind, kind)],
            shares=np.array(share),
        )  # fmt: skip
        return scaled, np.array(sizes, dtype=np.int64)

    def part(self, tasks: Counts64) -> Floats:
        """(O,) part of its operator that one task has, the fullest where key groups are uneven."""
        if self.shares is not None:
            return self.shares
        pairs = zip(tasks.tolist(), self.key_groups.tolist(), strict=True)
        return np.array([largest_share(n, k or None) for n, k in pairs])

    def fits(self, rows: Counts64, tasks: Counts64, node: int) -> Bools:
        """(M,) which of (M, O) counts a node may hold."""
        part = rows * self.part(tasks)
        # a node that holds parts f of the operators: Σ_ij c_ij f_i f_j stays inside, and
        # Σ_ij c_ij f_i (1 − f_j) leaves it; what enters likewise
        sent, taken = part @ self.rate, part @ self.rate.T
        inside = np.einsum("mo,mo->m", sent, part)
        # of an operator of unequal tasks, several rows are one whole
        whole = np.ones(len(tasks)) if self.shares is None else tasks * self.shares
        out, into = (np.maximum(x @ whole - inside, 0.0) for x in (sent, taken))
        # a difference of nearly equal sums is 0, not traffic
        noise = 1e-12 * self.rate.sum()
        out, into = np.where(out > noise, out, 0.0), np.where(into > noise, into, 0.0)
        need = part @ self.load + rows @ self.each
        need = need + np.outer(out, self.price[0]) + np.outer(into, self.price[1])
        good = (need <= self.room[node] * (1 + _ROUNDING)).all(axis=1)
        for crossing, most in zip((out, into, out + into), self.link[node].tolist(), strict=True):
            good &= crossing <= most * (1 + _ROUNDING)
        return np.asarray(good)

    def gain(self, rows: Counts64, tasks: Counts64) -> Floats:
        """(M,) traffic inside a node that holds (M, O) counts."""
        part = rows * self.part(tasks)
        return np.einsum("mo,mo->m", part @ self.rate, part)

    def most(self, tasks: Counts64, node: int) -> Counts64:
        """(O,) most tasks of each operator on a node, by its room alone."""
        each = self.part(tasks)[:, None] * self.load + self.each
        with np.errstate(divide="ignore", invalid="ignore"):
            count = np.where(each > 0, self.room[node] * (1 + _ROUNDING) / each, np.inf)
        return np.minimum(np.floor(count.min(axis=1)), tasks).astype(np.int64)

    def contents(self, tasks: Counts64, node: int, most: int) -> Counts64 | None:
        """(M, O) counts that a node may hold, the empty one first; ``None`` where too many are."""
        rows = np.zeros((1, 0), dtype=np.int64)
        each = self.part(tasks)[:, None] * self.load + self.each
        room = self.room[node] * (1 + _ROUNDING)
        for o, top in enumerate(self.most(tasks, node).tolist()):
            # operator by operator: loads only grow, so a prefix that is too much is dropped with
            # all that would follow; crossing traffic may fall again and is checked at the end
            if len(rows) * (top + 1) > most:
                return None
            grown = np.repeat(rows, top + 1, axis=0)
            grown = np.column_stack([grown, np.tile(np.arange(top + 1), len(rows))])
            rows = grown[(grown @ each[: o + 1] <= room).all(axis=1)]
        return rows[self.fits(rows, tasks, node)]

    def best(self, tasks: Counts64, work: int, most_nodes: int | None = None) -> Any:
        """Place so many tasks on the cheapest nodes, with most traffic inside.

        `tasks`: (O,) of each operator, or kind of tasks.
        `work`: states of the dynamic program × contents of nodes.
        `most_nodes`: nodes that may be used, if not all; their number is part of the state then.
        Returns cost, traffic inside, (V, O) counts; ``None`` where no placement is, ``False`` where
            more work than `work` is needed to know.
        """
        numbers = 1 if most_nodes is None else min(most_nodes, len(self.cost)) + 1
        counted = 1 < numbers <= len(self.cost)
        shape = (*(tasks + 1).tolist(), *([numbers] if counted else []))
        # table over vectors of tasks placed so far, nodes one after the other: nothing is relaxed
        states = int(np.prod(shape, dtype=float))
        if states * len(self.cost) > work:
            return False
        stride = np.append(np.cumprod(np.array(shape[:0:-1], dtype=np.int64))[::-1], 1)
        # more than any traffic inside: the cost of nodes comes first
        node_price = 4.0 * float(self.rate.sum()) + 1.0
        value = np.full(states, -np.inf)
        value[0] = 0.0
        taken = np.zeros((len(self.cost), states), dtype=np.int32)
        listed: dict[bytes, Counts64 | None] = {}
        chosen: list[Counts64] = []
        keys = self.keys()
        for v, key in enumerate(keys):
            if key not in listed:
                listed[key] = self.contents(tasks, v, max(1000, work // states))
            if (rows := listed[key]) is None:
                return False
        every = [listed[key] for key in keys]
        # not even each operator by itself finds room for all of its tasks
        if (sum(rows.max(axis=0) for rows in every if rows is not None) < tasks).any():
            return None
        if sum(len(rows) for rows in every if rows is not None) * states > work:
            return False
        for v, rows in enumerate(every):
            assert rows is not None
            filled = rows.sum(axis=1) > 0
            gains = self.gain(rows, tasks) - node_price * self.cost[v] * filled
            steps = np.column_stack([rows, filled]).astype(np.int64) if counted else rows
            value = place_one(steps, steps @ stride, gains, value, np.array(shape), taken[v])
            chosen.append(steps)
        last = value[-numbers if counted else -1 :]  # all tasks are placed, on so many nodes
        if not np.isfinite(last.max()):
            return None
        # back from the full state, node by node, along the contents that were chosen
        at = states - len(last) + int(last.argmax())
        counts = np.zeros((len(self.cost), len(tasks)), dtype=np.int64)
        for v in range(len(self.cost) - 1, -1, -1):
            step = chosen[v][taken[v, at]]
            counts[v] = step[: len(tasks)]
            at -= int(step @ stride)
        used = counts.sum(axis=1) > 0
        return float(self.cost[used].sum()), float(self.gain(counts, tasks).sum()), counts


@kernel(steps=lambda rows, value: 0.5 * len(rows) * len(value))
def place_one(rows, offset, gains, value, shape, taken):  # type: ignore[no-untyped-def]
    """Let one node hold any of its contents, after those before it.

    `rows`, `offset`, `gains`: (M, O) contents, their (M,) distances in the table of states, and
        what they gain.
    `value`, `shape`: (S,) best value of each state, a number of tasks of each operator that are
        placed.
    `taken`: (S,) output: the contents that were chosen to get there.
    Returns (S,) best values with this node.
    """
    values_after = np.full(len(value), -np.inf)
    at = np.zeros(len(shape), dtype=np.int64)
    for s in range(len(value)):
        # `at` is the vector of counts of state s, counted up like an odometer, last operator
        # fastest
        if value[s] > -np.inf:
            for m in range(len(rows)):
                fits = True
                for o in range(len(shape)):
                    if at[o] + rows[m, o] >= shape[o]:
                        fits = False
                        break
                if fits and value[s] + gains[m] > values_after[s + offset[m]]:
                    values_after[s + offset[m]] = value[s] + gains[m]
                    taken[s + offset[m]] = m
        for o in range(len(shape) - 1, -1, -1):
            at[o] += 1
            if at[o] < shape[o]:
                break
            at[o] = 0
    return values_after


@kernel(steps=lambda start, steps: 20.0 * steps * len(start))
def anneal(problem, start, steps, random, best):  # type: ignore[no-untyped-def]
    """Add, drop and move tasks so that no node is too full, and tasks are few, by annealing.

    `start`, `steps`, `random`: (V, O) counts to begin with; moves tried; state of the generator
        (`draws.seeded`).
    `best`: (V, O) output: the best counts.
    Returns what the fullest nodes of `best` exceed their room by, as a part of it, added up.
    """
    load, each, rate, price, room, link, _, low, high, key_groups, _ = problem
    nodes, operators = start.shape
    counts, total = start.copy(), np.zeros(operators, dtype=np.int64)
    for o in range(operators):
        total[o] = counts[:, o].sum()
    whole = max(rate.sum(), 1e-300)
    share = np.zeros(operators)
    now, least, fine = 1e300, np.inf, np.inf
    v, w, o, kind = 0, 0, 0, _STAY
    for step in range(steps + 1):
        if step:
            # a move half the time
            kind, o = min(draw(random, 4), _MOVE), draw(random, operators)
            v, w = draw(random, nodes), draw(random, nodes)
            if kind == _ADD:
                if total[o] >= high[o]:
                    continue
            elif counts[v, o] == 0 or (kind == _DROP and total[o] <= low[o]) or v == w:
                continue
            _change(counts, total, kind, o, v, w, 1)
        _share_out(total, key_groups, share)
        excess, inner = 0.0, 0.0
        for n in range(nodes):
            inside, out, into = _traffic(n, counts, share, rate)
            inner += inside
            excess += _excess(n, counts, share, out, into, load, each, price, room, link)
        tasks = 0
        for p in range(operators):
            tasks += total[p]
        # feasibility first: an excess of 0.2 % of a node's room weighs as much as a task
        cost = 60.0 * excess + 0.1 * tasks - 0.1 * inner / whole
        # from 2 to 0.006: at the end hardly one more task is accepted
        heat = 2.0 * 0.003 ** (float(step) / steps)
        if accepts(random, cost - now, heat):
            now = cost
            if excess < least or (excess == least and cost < fine):
                least, fine = excess, cost
                best[:] = counts
        else:
            _change(counts, total, kind, o, v, w, -1)
    return least


_STAY, _ADD, _DROP, _MOVE = -1, 0, 1, 2  # _STAY: the start, measured as it is.


@inlined
def _change(counts, total, kind, o, v, w, sign):  # type: ignore[no-untyped-def]
    """Add a task of o to v, drop one there, or move one from v to w; undone by a sign of -1."""
    if kind == _ADD:
        counts[v, o] += sign
        total[o] += sign
    elif kind == _DROP:
        counts[v, o] -= sign
        total[o] -= sign
    elif kind == _MOVE:
        counts[v, o] -= sign
        counts[w, o] += sign


@inlined
def _share_out(total, key_groups, share):  # type: ignore[no-untyped-def]
    """Write what part of its operator the fullest task has: ⌈K / n⌉ of K key groups."""
    for p in range(len(total)):
        if key_groups[p] > 0:
            share[p] = float((key_groups[p] + total[p] - 1) // total[p]) / key_groups[p]
        else:
            share[p] = 1.0 / total[p]


@inlined
def _traffic(n, counts, share, rate):  # type: ignore[no-untyped-def]
    """Return what stays on a node, what leaves it, and what enters it."""
    inside, out, into = 0.0, 0.0, 0.0
    for p in range(len(share)):
        if counts[n, p] == 0:
            continue
        part = counts[n, p] * share[p]
        for q in range(len(share)):
            if rate[p, q] > 0.0:
                other = counts[n, q] * share[q]
                inside += rate[p, q] * part * other
                out += rate[p, q] * part * max(0.0, 1.0 - other)
            if rate[q, p] > 0.0:
                into += rate[q, p] * part * max(0.0, 1.0 - counts[n, q] * share[q])
    return inside, out, into


@inlined
def _excess(n, counts, share, out, into, load, each, price, room, link):  # type: ignore[no-untyped-def]
    """Return what a node and its link exceed their room by, as parts of it, added up."""
    excess = 0.0
    for r in range(room.shape[1]):
        need = out * price[0, r] + into * price[1, r]
        for p in range(len(share)):
            need += counts[n, p] * (share[p] * load[p, r] + each[p, r])
        if need > room[n, r] * (1 + 1e-9):
            excess += need / max(room[n, r], 1e-9) - 1.0
    for k in range(3):
        crossing = out if k == 0 else (into if k == 1 else out + into)
        if crossing > link[n, k] * (1 + 1e-9):
            excess += crossing / max(link[n, k], 1e-9) - 1.0
    return excess


def plain_reason(instance: Instance) -> str | None:
    """Return why counts do not describe an instance; ``None`` where they do."""
    counts = node_counts(instance)
    few = {c.rule for c in counts if c.of_all} - {c.rule for c in counts if not c.of_all}
    for name in sorted(limits_set(instance).keys() - _KEPT - few):
        return f"sets {name}"
    if not places_of(instance).single:
        return "has a link of several nodes"
    if any(s.pattern != "full" and s.rate > 0 for s in instance.streams):
        return "has a stream that is not spread fully"
    operator = instance.tasks.operator
    if (operator < 0).any():
        return "has tasks of no operator"
    if (operator[instance.traffic.source] == operator[instance.traffic.target]).any():
        return "has traffic between tasks of one operator"
    return None


def counts_of(instance: Instance, rate: float, cost: Floats) -> Counts:
    """Write an instance, with all nodes that may be used, in counts at a rate."""
    driven = np.isin(np.arange(instance.num_resources), instance.rate_driven)
    used = np.flatnonzero(instance.operators.num_tasks > 0)
    binding = carrying(instance, rate)
    loads = [instance.tasks.load[instance.tasks_of(o)] for o in used.tolist()]
    bounds = [bounds_of(instance, o) for o in used.tolist()]
    flows = instance.flows.directed()
    operator = np.searchsorted(used, instance.tasks.operator)
    between = np.zeros((len(used), len(used)))
    np.add.at(between, (operator[flows[0]], operator[flows[1]]), flows[2])
    return Counts(
        # what the input drives is split over any number of tasks, the rest comes with each of them
        load=np.array([np.where(driven, x.sum(axis=0), 0.0) for x in loads]),
        each=np.array([np.where(driven, 0.0, x.mean(axis=0)) for x in loads]),
        rate=between,
        price=np.array(instance.crossing_cost),
        room=np.maximum(placing_room(binding), 0.0),
        link=places_of(binding).link,
        cost=cost,
        low=np.array([low for low, _ in bounds], dtype=np.int64),
        high=np.array([high or 1_000_000 for _, high in bounds], dtype=np.int64),
        key_groups=np.array(
            [key_groups_of(instance, o) or 0 for o in used.tolist()], dtype=np.int64
        ),
    )


def everywhere(instance: Instance) -> bool:
    """Whether every task may be on every node that stays."""
    kind, _, target = placing_masks(instance)
    return bool(target[np.unique(kind)].all())
