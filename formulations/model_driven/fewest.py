"""First level of `slots-milp`: the fewest slots, by column generation over what a slot can hold.

With λ_p slots that hold content p, n_c items of kind c and f full bundles with a slot each:

    f + min Σ_p λ_p   s.t.  Σ_p a_pc λ_p ≥ n_c,   λ whole

The relaxation is solved by pricing contents (an integer knapsack). Prices π at which no content is
worth more than 1 prove Σ_c n_c π_c slots (Farley 1990), after every round. What is better than the
packing known consists of contents that are worth nearly 1; these are listed, and the integer
program over them is the proof. Where they are too many, the counts of every slot are decided by one
program for each number of slots (`formulations.model_driven.counts_model`).

Source of the idea: Gilmore and Gomory, Operations Research 9 (1961).

A slot's content is a vector of counts, one for each kind of item that shares slots. Kinds are sizes
here, not tasks: items of equal size can be exchanged, whatever runs in them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from formulations.column_generation.pricing import TreePricer
from formulations.column_generation.problem import Clock, make_problem
from formulations.model_driven.counts_model import build_counts
from formulations.model_driven.items import ROOM
from formulations.model_driven.slots import Slot, slots_alone, slots_holding
from formulations.model_driven.solver_calls import SHORT_SECONDS, SHORT_SHARE
from optim.solvers.inprocess import solve_lp
from optim.solvers.linear_model import LinearModel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formulations.model_driven.items import Items
    from formulations.model_driven.performance_model import Counts
    from formulations.model_driven.solver_calls import SolverCalls
    from optim.format.tables import Bools, Floats
    from optim.solvers import LinearSolution

_NOTHING = 1e-7
"""A content worth no more than this above 1 improves nothing."""

_ROUNDED = 1e-6
"""Slots by which a bound may be rounded before it is taken to the next whole number."""

_STEPS = 200_000
_MOST_STEPS = 50_000_000
_MOST_LISTED = 200_000
"""Search nodes of a pricing at first, and of a listing; contents that are listed at most."""


@dataclass
class Fewest:
    """The best packing into slots so far, and the proven bound.

    Attributes
    ----------
    items
        What is packed.
    slots
        Contents of slots in use, from which the relaxation begins.
    num_slots
        Slots of the packing; with pooled cores some of them may be empty.
    bound
        No packing has fewer slots.
    price
        (C,) prices of the items at which no slot's content is worth more than 1: a slot each for
        full bundles. Without a relaxation, nothing for what shares slots.
    """

    items: Items
    slots: list[Slot]
    num_slots: int
    bound: int
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

    def held(self, slot: Slot) -> Counts:
        """(K,) items of each kind that a slot shares."""
        row = np.zeros(len(self.count), dtype=np.int64)
        for c, kind in zip(self.classes.tolist(), self.kind.tolist(), strict=True):
            row[kind] += slot.get(c, 0)
        return row


def prove_fewest(known: Fewest, calls: SolverCalls, *, pooled: bool) -> None:
    """Improve packing and bound in place, to the proof or as far as the time goes.

    Parameters
    ----------
    pooled
        Cores serve all slots of a machine: slots are filled by memory alone, so that only the
        bound counts here.
    """
    kinds = _Kinds.of(known.items, pooled=pooled)
    if known.closed or not len(kinds.count):
        return
    contents = SlotContents(kinds.size, kinds.count, ROOM)
    columns = _generate(known, kinds, contents, calls)
    if known.closed or calls.over():
        return
    if not pooled:
        answer = _least(kinds, columns, calls, share=SHORT_SHARE, most=SHORT_SECONDS)
        known.offer(_slots_of(known.items, kinds, columns, answer))
    if not known.closed and not calls.over():
        _close(known, kinds, contents, calls, pooled=pooled)


def _generate(known: Fewest, kinds: _Kinds, contents: SlotContents, calls: SolverCalls) -> Counts:
    """Run column generation; returns all contents generated."""
    rows = [kinds.held(slot) for slot in known.slots]
    columns = np.unique(np.array([row for row in rows if row.any()], dtype=np.int64), axis=0)
    steps, alone = _STEPS, known.items.num_exclusive
    while not known.closed and not calls.over():
        price = _prices(columns, kinds.count, calls)
        if price is None:
            break
        priced = contents.dearest(price, 1.0 + _NOTHING, calls.steps(steps))
        price = price / max(1.0, priced.highest)
        if alone + float(kinds.count @ price) > float(known.items.count @ known.price):
            known.price[kinds.classes] = price[kinds.kind]
        known.prove(alone + float(kinds.count @ price))
        calls.tell(known.num_slots, known.bound, "bound")
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
    known: Fewest, kinds: _Kinds, contents: SlotContents, calls: SolverCalls, *, pooled: bool
) -> None:
    """Prove by the contents that a better packing could have, or slot count by slot count."""
    price = np.zeros(len(kinds.count))
    price[kinds.kind] = known.price[kinds.classes]
    alone = known.items.num_exclusive
    gap = known.num_slots - 1 - alone - float(kinds.count @ price)
    above = 1.0 - gap - _NOTHING
    listed = contents.listed(price, above, _MOST_LISTED, calls.steps(_MOST_STEPS))
    if listed is not None:
        _close_listed(known, kinds, listed, calls, pooled=pooled)
        return
    while not known.closed and not calls.over():
        shared = known.items.only(~known.items.exclusive)
        made = build_counts(shared, [known.bound - alone], None, pooled=pooled)
        answer = calls.solve(made.model)
        if answer.x is not None:
            if not pooled:
                slots = made.machines(answer.x)[0]
                known.offer(_renumbered(slots, kinds.classes) + slots_alone(known.items))
            return
        if answer.termination != "infeasible":
            return
        known.bound += 1


def _close_listed(
    known: Fewest, kinds: _Kinds, listed: Counts, calls: SolverCalls, *, pooled: bool
) -> None:
    """Prove by contents of which every better packing consists."""
    least = math.inf
    if len(listed):
        answer = _least(kinds, listed, calls)
        if not pooled:
            known.offer(_slots_of(known.items, kinds, listed, answer))
        if answer.termination != "infeasible":
            least = -math.inf if answer.bound is None else answer.bound
    known.prove(min(known.items.num_exclusive + least, known.num_slots))


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

    Parameters
    ----------
    size
        (C, R) size of an item of each kind in each resource, at most `room`.
    count
        (C,) items there are of each kind.
    room
        What a slot offers of each resource; rounding is the caller's.
    """

    def __init__(self, size: Floats, count: Counts, room: float) -> None:
        kinds, resources = size.shape
        worth = np.zeros((kinds, kinds))
        with np.errstate(over="ignore"):  # sizes next to nothing
            self.problem = make_problem(count, size, worth, [1], np.full((1, resources), room))
        self._pricer = TreePricer(self.problem, Clock(), 0)

    def dearest(self, price: Floats, above: float, steps: int) -> Priced:
        """Find the content of greatest price; only those above a threshold are of interest.

        Parameters
        ----------
        price
            (C,) price of an item.
        steps
            Search nodes after which only a bound is given for the rest.
        """
        self._pricer.node_budget, before = steps, self._pricer.spent
        found = self._pricer.price_class(0, -price, above)
        return Priced(found.counts, found.highest, self._pricer.spent - before)

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
