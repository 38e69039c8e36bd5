"""First level of `slots-milp`: the fewest slots, by column generation over what a slot can hold.

With λ_p slots that hold content p, n_c items of kind c and f full bundles with a slot each:

    f + min Σ_p λ_p   s.t.  Σ_p a_pc λ_p ≥ n_c,   λ whole

The relaxation is solved by pricing contents (an integer knapsack). Prices π at which no content is
worth more than 1 prove Σ_c n_c π_c slots (Farley 1990), after every round. What is better than the
packing known consists of contents that are worth nearly 1; these are listed, and the integer
program over them is the proof. Where they are too many, the counts of every slot are decided by one
program for each number of slots (`formulations.model_driven.fewest`).

Source of the idea: Gilmore and Gomory, Operations Research 9 (1961).

A slot's content is a vector of counts, one for each kind of item that shares slots. Kinds are sizes
here, not tasks: items of equal size can be exchanged, whatever runs in them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.column_generation.integer import Backend
from formulations.column_generation.pricing import TreePricer
from formulations.column_generation.problem import Clock, make_problem
from formulations.model_driven.performance_model import FULL
from formulations.model_driven.slots import ROOM, ROUNDING, Slot, slots_alone, slots_holding
from optim.solvers import LIMITED_WORK, solve_linear
from optim.solvers.inprocess import solve_lp
from optim.solvers.linear_model import LinearModel
from optim.util.progress import ProgressRecorder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from formulations.model_driven.performance_model import Counts
    from formulations.model_driven.slots import Items, Machines
    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats
    from optim.methods.registry import Request
    from optim.solvers import LinearSolution


_NOTHING = 1e-7  # A content worth no more than this above 1 improves nothing.

_ROUNDED = 1e-6
"""Slots by which a bound may be rounded before it is taken to the next whole number."""

_STEPS = 200_000
_MOST_STEPS = 50_000_000
_MOST_LISTED = 200_000
"""Search nodes of a pricing at first, and of a listing; contents that are listed at most."""


@dataclass
class Fewest:
    """The best packing into slots so far, and the proven bound."""

    items: Items  # What is packed.
    slots: list[Slot]  # Contents of slots in use, from which the relaxation begins.
    num_slots: int  # Slots of the packing; with pooled cores some of them may be empty.
    bound: int  # No packing has fewer slots.
    #: (C,) prices of the items at which no slot's content is worth more than 1: a slot each for
    #: full bundles. Without a relaxation, nothing for what shares slots.
    price: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.price = self.items.exclusive.astype(np.float64)

    @property
    def closed(self) -> bool:
        """Whether no packing can be better."""
        return self.bound >= self.num_slots

    def offer(self, slots: list[Slot] | None) -> None:
        """Take a packing if there is one and it is better."""
        if slots is not None and len(slots) < self.num_slots:
            self.slots, self.num_slots = slots, len(slots)

    def prove(self, bound: float) -> None:
        """Take a bound on all slots if it is better."""
        if math.isfinite(bound):
            self.bound = max(self.bound, math.ceil(bound - _ROUNDED))


@dataclass(frozen=True, eq=False)
class _Kinds:
    """Sizes of the items that share slots; classes of one size are one kind."""

    classes: Counts
    kind: Counts
    size: Floats
    count: Counts

    @classmethod
    def of(cls, items: Items, *, pooled: bool) -> _Kinds:
        classes = np.flatnonzero(~items.exclusive)
        size, kind = np.unique(items.sizes(pooled=pooled)[classes], axis=0, return_inverse=True)
        kind = kind.reshape(-1)
        count = np.bincount(kind, items.count[classes], minlength=len(size)).astype(np.int64)
        return cls(classes, kind, size, count)

    def items_by_kind(self, slot: Slot) -> Counts:
        """(K,) items of each kind that a slot shares."""
        row = np.zeros(len(self.count), dtype=np.int64)
        for c, kind in zip(self.classes.tolist(), self.kind.tolist(), strict=True):
            row[kind] += slot.get(c, 0)
        return row


def prove_fewest(fewest: Fewest, calls: SolverCalls, *, pooled: bool) -> None:
    """Improve packing and bound in place, to the proof or as far as the time goes.

    `pooled`: cores serve all slots of a machine: slots are filled by memory alone, so that only the
        bound counts here.
    """
    kinds = _Kinds.of(fewest.items, pooled=pooled)
    if fewest.closed or not len(kinds.count):
        return
    contents = SlotContents(kinds.size, kinds.count, ROOM)
    columns = _generate(fewest, kinds, contents, calls)
    if fewest.closed or calls.over():
        return
    if not pooled:
        answer = _least(kinds, columns, calls, share=SHORT_SHARE, most=SHORT_SECONDS)
        fewest.offer(_slots_of(fewest.items, kinds, columns, answer))
    if not fewest.closed and not calls.over():
        _close(fewest, kinds, contents, calls, pooled=pooled)


def _generate(fewest: Fewest, kinds: _Kinds, contents: SlotContents, calls: SolverCalls) -> Counts:
    """Run column generation; returns all contents generated."""
    rows = [kinds.items_by_kind(slot) for slot in fewest.slots]
    columns = np.unique(np.array([row for row in rows if row.any()], dtype=np.int64), axis=0)
    steps, alone = _STEPS, fewest.items.num_exclusive
    while not fewest.closed and not calls.over():
        price = _prices(columns, kinds.count, calls)
        if price is None:
            break
        priced = contents.most_valuable(price, 1.0 + _NOTHING, calls.steps(steps))
        price = price / max(1.0, priced.highest)
        if alone + float(kinds.count @ price) > float(fewest.items.count @ fewest.price):
            fewest.price[kinds.classes] = price[kinds.kind]
        fewest.prove(alone + float(kinds.count @ price))
        calls.report(fewest.num_slots, fewest.bound, "bound")
        if not len(priced.contents):
            if priced.highest <= 1.0 + 2 * _NOTHING or steps >= _MOST_STEPS:
                break
            steps *= 10  # nothing found, and something may be left
            continue
        columns = np.unique(np.concatenate([columns, priced.contents]), axis=0)
    return columns


def _prices(columns: Counts, count: Counts, calls: SolverCalls) -> Floats | None:
    """(K,) prices of the items in the relaxation over some contents; ``None`` where it failed."""
    from scipy.sparse import csr_array

    num, none = len(columns), np.full(len(count), np.inf)
    answer = solve_lp(
        np.ones(num), csr_array(columns.T.astype(np.float64)), count.astype(np.float64), none,
        np.zeros(num), np.full(num, np.inf), calls.left(),
    )  # fmt: skip
    return None if answer.row_duals is None else np.maximum(answer.row_duals, 0.0)


def _least(
    kinds: _Kinds, columns: Counts, calls: SolverCalls, *, share: float = 1.0,
    most: float | None = None,
) -> LinearSolution:  # fmt: skip
    """Choose the fewest slots out of given contents."""
    model = LinearModel("slots-milp fewest", sense="min")
    times = model.add_variables(
        "slots with content", len(columns), upper=float(kinds.count.sum()), integer=True,
        objective=1.0,
    ).indices  # fmt: skip
    at, kind = np.nonzero(columns)
    model.add_rows(
        "items", kinds.count.astype(float), np.inf, kind, times[at],
        columns[at, kind].astype(float), num_rows=len(kinds.count),
    )  # fmt: skip
    return calls.solve(model, share=share, most=most)


def _slots_of(
    items: Items, kinds: _Kinds, columns: Counts, answer: LinearSolution
) -> list[Slot] | None:
    """Slots that a choice of contents makes; ``None`` where there is none."""
    if answer.x is None:
        return None
    chosen = np.repeat(columns, np.rint(answer.x).astype(np.int64), axis=0)
    return slots_holding(items, chosen, kinds.classes, kinds.kind)


def _close(
    fewest: Fewest, kinds: _Kinds, contents: SlotContents, calls: SolverCalls, *, pooled: bool
) -> None:
    """Prove by the contents that a better packing could have, or slot count by slot count."""
    price = np.zeros(len(kinds.count))
    price[kinds.kind] = fewest.price[kinds.classes]
    alone = fewest.items.num_exclusive
    gap = fewest.num_slots - 1 - alone - float(kinds.count @ price)
    above = 1.0 - gap - _NOTHING
    listed = contents.listed(price, above, _MOST_LISTED, calls.steps(_MOST_STEPS))
    if listed is not None:
        _close_listed(fewest, kinds, listed, calls, pooled=pooled)
        return
    while not fewest.closed and not calls.over():
        shared = fewest.items.only(~fewest.items.exclusive)
        counts = build_counts(shared, [fewest.bound - alone], None, pooled=pooled)
        answer = calls.solve(counts.model)
        if answer.x is not None:
            if not pooled:
                slots = counts.machines(answer.x)[0]
                fewest.offer(_renumbered(slots, kinds.classes) + slots_alone(fewest.items))
            return
        if answer.termination != "infeasible":
            return
        fewest.bound += 1


def _close_listed(
    fewest: Fewest, kinds: _Kinds, listed: Counts, calls: SolverCalls, *, pooled: bool
) -> None:
    """Prove by contents of which every better packing consists."""
    least = math.inf
    if len(listed):
        answer = _least(kinds, listed, calls)
        if not pooled:
            fewest.offer(_slots_of(fewest.items, kinds, listed, answer))
        if answer.termination != "infeasible":
            least = -math.inf if answer.bound is None else answer.bound
    fewest.prove(min(fewest.items.num_exclusive + least, fewest.num_slots))


def _renumbered(slots: Sequence[Slot], classes: Counts) -> list[Slot]:
    return [{int(classes[c]): n for c, n in slot.items()} for slot in slots]


@dataclass(frozen=True, eq=False)
class Priced:
    """Contents worth more than was asked for, and what no content can be worth more than."""

    contents: Counts
    highest: float
    steps: int


class SlotContents:
    """The contents of one slot.

    `size`: (C, R) size of an item of each kind in each resource, at most `room`.
    `count`: (C,) items there are of each kind.
    `room`: what a slot offers of each resource; rounding is the caller's.
    """

    def __init__(self, size: Floats, count: Counts, room: float) -> None:
        kinds, resources = size.shape
        rate = np.zeros((kinds, kinds))
        with np.errstate(over="ignore"):  # sizes next to nothing
            self.problem = make_problem(count, size, rate, [1], np.full((1, resources), room))
        self._pricer = TreePricer(self.problem, Clock(), 0)

    def most_valuable(self, price: Floats, above: float, steps: int) -> Priced:
        """Find the content of greatest price; only those above a threshold are of interest.

        `price`: (C,) price of an item.
        `steps`: search nodes after which only a bound is given for the rest.
        """
        self._pricer.node_budget, before = steps, self._pricer.spent
        priced = self._pricer.price_class(0, -price, above)
        return Priced(priced.counts, priced.highest, self._pricer.spent - before)

    def listed(self, price: Floats, above: float, most: int, steps: int) -> Counts | None:
        """List the maximal contents dearer than a threshold; ``None`` where that is too many."""
        self._pricer.node_budget = steps
        pool = self._pricer.enumerate(-price, np.zeros(0), np.array([above]), most)
        return None if pool is None else pool.counts[self._maximal(pool.counts)]

    def _maximal(self, contents: Counts) -> Bools:
        """(P,) whether no further item fits."""
        problem = self.problem
        left = problem.limit[0] - contents @ problem.load
        grows = np.zeros(len(contents), dtype=np.bool_)
        for c in range(problem.num_classes):
            fits = (problem.load[c] <= left).all(axis=1)
            grows |= (contents[:, c] < problem.most[0, c]) & fits
        return ~grows


# How many items of each class stand in each slot: the plain linear model of `slots-milp`.
#
# It is what remains where the pattern engines end without a proof. For machines v of s_v slots,
# with n_cs items of class c in slot s, n_cv on machine v, full bundles f with a slot each, u_s for
# a slot in use by others:
#
#     Σ_v n_cv = n_c,   n_cv = Σ_(s on v) n_cs,   Σ_c size_c n_cs ≤ 100 u_s  (CPU and memory),
#     Σ_(s on v) u_s + Σ_f n_fv ≤ s_v,   and where cores are pooled:  Σ_c cpu_c n_cv ≤ 100 · cores_v
#
# *Traffic* inside machines, Σ over streams (a, b) of rate · T_av T_bv / (q_a q_b) with T the
# threads of a task on a machine and q all of them. One side's item counts are written in binary
# digits β; the product of a digit and the other side's threads is z ≤ U β, z ≤ T.
#
# What the tasks of a model-driven job send each other, and how much of it stays on machines.


TOTAL = 1000.0
"""All traffic of a job in the unit of everything below: thousandths, whatever the file's unit."""

_DIGITS = 12


def unit_of_traffic(instance: Instance) -> float:
    """Tuples/s that are one thousandth of all traffic."""
    return sum(rate for _, _, rate in _carrying(instance)) / TOTAL


def streams_between(instance: Instance) -> list[tuple[int, int, float]]:
    """(Sender, receiver, thousandths of all traffic) of every stream that carries something.

    Rounded, so that the same job in another unit gives the same numbers to the bit.
    """
    unit = unit_of_traffic(instance)
    return [(a, b, round(rate / unit, _DIGITS)) for a, b, rate in _carrying(instance)]


def _carrying(instance: Instance) -> list[tuple[int, int, float]]:
    rates = instance.operators.tuple_rate
    flows = [(s.source, s.target, float(rates[s.source] * s.selectivity)) for s in instance.streams]
    return [stream for stream in flows if stream[2] > 0]


def rates_of_pairs(items: Items, instance: Instance) -> Floats:
    """(C, C) symmetric: traffic between one item of each class, both directions together.

    Every thread of the sender sends the same to every thread of the receiver.
    """
    share = items.threads / items.threads_of_tasks(instance.num_operators)[items.operator]
    between = np.zeros((instance.num_operators, instance.num_operators))
    for a, b, rate in streams_between(instance):
        between[a, b] += rate
        between[b, a] += rate
    return between[np.ix_(items.operator, items.operator)] * np.outer(share, share)


def traffic_between(items: Items, machines: Machines, pairs: Floats) -> float:
    """Traffic between machines, given that of pairs."""
    count = items.count.astype(np.float64)
    total = 0.5 * float(count @ pairs @ count)
    for slots in machines:
        on_machine = np.zeros(len(count))
        for slot in slots:
            for c, n in slot.items():
                on_machine[c] += n
        total -= 0.5 * float(on_machine @ pairs @ on_machine)
    return max(0.0, total)


@dataclass(frozen=True, eq=False)
class _Digit:
    """A binary digit of a class's count on a machine, times the threads of another task there."""

    klass: int
    machine: int
    digit: int
    other: int
    column: int


@dataclass(eq=False)
class CountsModel:
    """The model and its columns."""

    #: Minimises the traffic between machines, in thousandths of all, where that is asked for.
    model: LinearModel

    items: Items
    count: NDArray[Any]  # (C, V) columns of the items on machines.
    #: (C, S) columns of the items of the classes that share, in every slot; (S,) whether a slot is
    #: in use by them.
    in_slots: NDArray[Any]
    used: NDArray[Any]
    machine: NDArray[Any]  # (S,) machine of each slot.
    bits: dict[tuple[int, int], NDArray[Any]] = field(default_factory=dict)
    products: list[_Digit] = field(default_factory=list)

    def machines(self, x: NDArray[np.float64]) -> Machines:
        """Read the slots of each machine off a solution."""
        count = np.rint(x[self.count]).astype(np.int64)
        in_slot = np.rint(x[self.in_slots]).astype(np.int64)
        shared = np.flatnonzero(~self.items.exclusive)
        machines: Machines = []
        for v in range(count.shape[1]):
            slots: list[Slot] = []
            for c in np.flatnonzero(self.items.exclusive).tolist():
                slots += [{c: 1} for _ in range(int(count[c, v]))]
            for s in np.flatnonzero(self.machine == v).tolist():
                here = np.flatnonzero(in_slot[:, s])
                if len(here):
                    slots.append({int(shared[k]): int(in_slot[k, s]) for k in here})
            machines.append(slots)
        return machines

    def vector(self, machines: Machines) -> NDArray[np.float64]:
        """Write a packing as a full column vector."""
        x = np.zeros(self.model.num_variables)
        shared = {int(c): k for k, c in enumerate(np.flatnonzero(~self.items.exclusive))}
        for v, slots in enumerate(machines):
            empty = iter(np.flatnonzero(self.machine == v).tolist())
            for slot in slots:
                for c, count in slot.items():
                    x[self.count[c, v]] += count
                if any(c in shared for c in slot):
                    s = next(empty)
                    x[self.used[s]] = 1.0
                    for c, count in slot.items():
                        x[self.in_slots[shared[c], s]] = count
        for (c, v), columns in self.bits.items():
            value = round(float(x[self.count[c, v]]))
            x[columns] = [(value >> d) & 1 for d in range(len(columns))]
        for z in self.products:
            of = np.flatnonzero(self.items.operator == z.other)
            threads = x[self.count[of, z.machine]] @ self.items.threads[of]
            x[z.column] = x[self.bits[z.klass, z.machine][z.digit]] * float(threads)
        return x


def build_counts(
    items: Items, sizes: Sequence[int], cores: Sequence[int] | None, *, pooled: bool
) -> CountsModel:
    """Build the model of placing all items on machines, without an objective.

    `cores`: of each machine, where they serve all of its slots and are to bind.
    `pooled`: slots are filled by memory alone.
    """
    model = LinearModel("slots-milp counts", sense="min")
    num_slots = np.asarray(sizes, dtype=np.int64)
    machine = np.repeat(np.arange(len(num_slots)), num_slots)
    shared = np.flatnonzero(~items.exclusive)
    most = items.count.astype(float)
    count = model.add_variables(
        "items", (len(most), len(num_slots)),
        upper=np.repeat(most[:, None], len(num_slots), axis=1), integer=True,
        of={"item": np.arange(len(most))[:, None], "machine": np.arange(len(num_slots))},
    ).indices  # fmt: skip
    in_slots = model.add_variables(
        "held", (len(shared), len(machine)),
        upper=np.repeat(most[shared][:, None], len(machine), axis=1), integer=True,
        of={"item": shared[:, None], "slot": np.arange(len(machine))},
    ).indices  # fmt: skip
    used = model.add_variables("used", len(machine), upper=1.0, integer=True).indices
    counts = CountsModel(model, items, count, in_slots, used, machine)
    rows = np.repeat(np.arange(len(most)), len(num_slots))
    of = {"item": np.arange(len(most))}
    model.add_rows("all_items", most, most, rows, count.ravel(), 1.0, num_rows=len(most), of=of)
    _add_slots(counts, num_slots, items.sizes(pooled=pooled))
    if cores is not None:
        v = np.tile(np.arange(len(num_slots)), len(most))
        model.add_rows(
            "cores", -np.inf, FULL * np.array(cores, dtype=float) + ROUNDING, v, count.ravel(),
            np.repeat(items.cpu, len(num_slots)), num_rows=len(num_slots),
        )  # fmt: skip
    _add_order(counts, num_slots)
    return counts


def _add_slots(counts: CountsModel, num_slots: NDArray[Any], size: NDArray[Any]) -> None:
    """Slots hold what stands in them; a machine has so many, some of them for full bundles."""
    model, count, in_slots, used = counts.model, counts.count, counts.in_slots, counts.used
    alone = np.flatnonzero(counts.items.exclusive)
    shared = np.flatnonzero(~counts.items.exclusive)
    machines = np.tile(np.arange(len(num_slots)), len(alone))
    shares, full = (counts.machine, used, 1.0), (machines, count[alone].ravel(), 1.0)
    model.add_sum("slots", -np.inf, num_slots.astype(float), len(num_slots), shares, full)
    slots = np.tile(np.arange(len(used)), len(shared))
    names = ("cpu", "memory")[-size.shape[1] :]
    for r in range(size.shape[1]):
        weight = np.repeat(size[shared, r], len(used))
        room = np.arange(len(used)), used, -ROOM
        model.add_sum(names[r], -np.inf, 0.0, len(used), (slots, in_slots.ravel(), weight), room)
    row = np.arange(len(shared) * len(num_slots)).reshape(len(shared), len(num_slots))
    model.add_sum(
        "on_machine", 0.0, 0.0, row.size, (row, count[shared], 1.0),
        (row[:, counts.machine], in_slots, -1.0),
        of={
            "item": np.repeat(shared, len(num_slots)),
            "machine": np.arange(row.size) % len(num_slots),
        },
    )  # fmt: skip
    if len(used) > 1:  # a machine's slots are used in their order
        same = np.flatnonzero(counts.machine[1:] == counts.machine[:-1])
        rows = np.arange(len(same))
        following = rows, used[same + 1], -1.0
        model.add_sum("in_order", 0.0, np.inf, len(same), (rows, used[same], 1.0), following)


def leading_class(items: Items) -> int:
    """Class by which equal machines are ordered: the most numerous one."""
    return int(np.argmax(items.count))


def _add_order(counts: CountsModel, num_slots: NDArray[Any]) -> None:
    """Of equal machines the earlier one holds no fewer items of the leading class."""
    leader = leading_class(counts.items)
    pairs = [(a, b) for a, b in pairwise(range(len(num_slots))) if num_slots[a] == num_slots[b]]
    for row, (a, b) in enumerate(pairs):
        both = counts.count[leader, [a, b]]
        counts.model.add_rows(f"order_{row}", 0.0, np.inf, 0, both, [1.0, -1.0], num_rows=1)


def add_traffic(counts: CountsModel, instance: Instance, *, whole: bool, most: int) -> bool:
    """Minimise the traffic between machines; ``False`` when there would be too many products.

    `whole`: declare the products integer, which a solver without continuous variables needs.
    `most`: products beyond which nothing is added.
    """
    items, machines = counts.items, counts.count.shape[1]
    streams = streams_between(instance)
    if not streams:
        return True
    tasks = instance.num_operators
    of = [np.flatnonzero(items.operator == o) for o in range(tasks)]
    total_threads = items.threads_of_tasks(tasks)
    digits = np.array([int(n).bit_length() for n in items.count])
    needed = machines * sum(
        min(int(digits[of[a]].sum()), int(digits[of[b]].sum())) for a, b, _ in streams
    )
    if needed > most:
        return False
    counts.model.set_objective([], [], offset=TOTAL)
    for a, b, rate in streams:
        if digits[of[b]].sum() < digits[of[a]].sum():
            a, b = b, a
        weight = rate / float(total_threads[a]) / float(total_threads[b])
        for v in range(machines):
            _add_products(counts, of[a], of[b], b, v, weight, int(total_threads[b]), whole=whole)
    return True


def _add_products(
    counts: CountsModel, of_a: Any, of_b: Any, b: int, v: int, weight: float, most: int,
    *, whole: bool,
) -> None:  # fmt: skip
    """Products of the digits of a task's items on machine v with task b's threads there."""
    model, items = counts.model, counts.items
    cols_b, threads_b = counts.count[of_b, v], items.threads[of_b].astype(float)
    for c in of_a.tolist():
        digits = _digits(counts, c, v)
        power = 2.0 ** np.arange(len(digits))
        gain = weight * power * float(items.threads[c])
        z = model.add_variables(
            f"z {c} {b} {v}", len(digits), upper=float(most), integer=whole, objective=-gain
        ).indices
        rows, pair = np.arange(len(digits)), f"{c} {b} {v}"
        product = rows, z, 1.0
        # z ≤ U·β and z ≤ T
        model.add_sum(
            f"with digit {pair}", -np.inf, 0.0, len(z), product, (rows, digits, -float(most))
        )
        threads = rows[:, None], cols_b, -threads_b
        model.add_sum(f"with threads {pair}", -np.inf, 0.0, len(z), product, threads)
        counts.products += [_Digit(c, v, d, b, int(z[d])) for d in range(len(digits))]


def _digits(counts: CountsModel, c: int, v: int) -> NDArray[Any]:
    """Columns of the binary digits of n_cv, made on first use."""
    if (c, v) not in counts.bits:
        length = int(counts.items.count[c]).bit_length()
        columns = counts.model.add_variables(
            f"digit {c} {v}", length, upper=1.0, integer=True
        ).indices
        digits, whole = (0, columns, 2.0 ** np.arange(length)), (0, counts.count[c, v], -1.0)
        counts.model.add_sum(f"digits {c} {v}", 0.0, 0.0, 1, digits, whole)
        counts.bits[c, v] = columns
    return counts.bits[c, v]


# The clock of a run of `slots-milp`, its calls of the solver, and what it reports meanwhile.


SHORT_SHARE, SHORT_SECONDS = 0.3, 10.0
"""Of the time left, and seconds, for a try that another step follows."""

_STEPS_PER_SECOND = 100_000.0  # A cautious guess of the search nodes of a pricing.


@dataclass
class SolverCalls:
    """What every step of a run shares."""

    request: Request  # Solver, seed, limits.
    recorder: ProgressRecorder = field(init=False)  # Slots and bound over time.
    solver: str | None = None  # Name and version of the solver that answered last.
    handover: float = 0.0  # Seconds spent handing models over.
    messages: list[str] = field(default_factory=list)  # What solvers said besides.
    interrupted: bool = False  # Ctrl-C came while a solver ran.

    def __post_init__(self) -> None:
        self.recorder = ProgressRecorder("min", self.request.progress, self.request.started)

    @property
    def backend(self) -> Backend:
        """The solver, as the pattern engine takes it."""
        request = self.request
        return Backend(request.solver or "highs", request.seed, request.threads)

    def left(self) -> float | None:
        """Seconds left; ``None`` without a limit."""
        return self.request.remaining()

    def over(self) -> bool:
        """Whether the time is up, or the run was interrupted."""
        return self.interrupted or self.left() == 0.0

    def clock(self, scale: float) -> Clock:
        """A clock for the pattern engine that reports to nobody: its values are no slots."""
        return Clock(self.request.deadline, None, scale)

    def steps(self, wanted: int) -> int:
        """Search nodes of one call, fewer where the time is short."""
        left = self.left()
        return wanted if left is None else max(1, min(wanted, int(left * _STEPS_PER_SECOND)))

    def report(self, slots: int, bound: int, phase: str) -> None:
        """Report slots and bound."""
        self.recorder.note(float(slots), float(bound), phase)

    def solve(
        self,
        model: LinearModel,
        start: Any = None,
        *,
        share: float = 1.0,
        most: float | None = None,
    ) -> LinearSolution:
        """Hand a model to the back end, for a share of the time left or so many seconds at most.

        Where no time is set, `most` asks for limited work: that repeats where a clock does not.
        """
        request, left = self.request, self.left()
        limit = None if left is None else min(share * left, math.inf if most is None else most)
        limited = left is None and most is not None
        solver = request.solver or "highs"
        settings = {**request.solving(), "time_limit": limit}
        options = LIMITED_WORK[solver] if limited else None
        answer = solve_linear(model, solver, warm_start=start, options=options, **settings)
        self.solver = answer.solver
        self.handover += answer.build_seconds
        self.interrupted |= answer.termination == "interrupted"
        if answer.message:
            self.messages.append(answer.message)
        return answer
