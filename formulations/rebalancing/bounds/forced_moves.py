"""The forced-moves bound: a load distance is out of reach when too many key groups have to move.

For a target d every node outside its share ± d must lose or gain load, so a least number (or cost)
of key groups must leave or arrive. Where that exceeds the budget, d is refuted; bisection finds the
least d that is not. The proof is in ``docs/proofs/forced-moves-bound.md``.

Copies: a switch to a copy is free, so a bound that looks at single key groups believes that all of
them leave for nothing. Replicas of a set `apart` that hold each other's copies cannot: however they
change places, as many nodes as are new to the set have copied its state. So the set is judged as if
nobody in it held a copy (step 10 of the proof).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from formulations.rebalancing.bounds.counts import (
    ROUNDING,
    counting_bound,
    load_allowance,
    movable_key_groups,
)
from optim.format.tables import APART

if TYPE_CHECKING:
    from formulations.rebalancing.problem import BalanceProblem, Bools, Floats, Ints
    from formulations.rebalancing.progress import Watch
    from optim.kernels.place_rules import PlaceRules


#: Bisection stops at this width, relative to the largest deviation there is.
PRECISION = 1e-10

#: Units finer than this share of the mean are no lattice worth the name.
FINEST = 1e-7


def forced_moves_bound(problem: BalanceProblem, watch: Watch | None = None) -> float:
    """Return a load distance that no placement within the limits of `problem` falls below.

    The greater of the bound by touched nodes and of the counting bound
    (`formulations.rebalancing.bounds.counts`).

    Parameters
    ----------
    problem
        Unit or weighted costs, weights, leaving nodes, background, allowed sets and capacities of
        all resources count; least loads are not read, which only weakens the bound.
    watch
        Clock; when time is up, the bound found so far is returned.
    """
    problem = without_switches(problem)
    top = problem.levels(problem.home).distance
    least = touched_bound(problem)
    return least if least >= top else counting_bound(problem, least, top, watch)


def touched_bound(problem: BalanceProblem) -> float:
    """Return the bound by touched nodes alone: weaker, and a matter of a millisecond."""
    problem = without_switches(problem)
    top = problem.levels(problem.home).distance
    if problem.num_tasks == 0:
        return top
    least = lattice_bound(problem)
    if least >= top:
        return least
    needs = Needs(problem)
    if needs.within(least):
        return least
    low, high = least, max(top, least)
    if not needs.within(high):  # forced moves aside, staying needs nothing: cannot happen
        return least
    width = PRECISION * max(1.0, high)
    while high - low > width:
        middle = 0.5 * (low + high)
        if needs.within(middle):
            high = middle
        else:
            low = middle
    return low


def lattice_bound(problem: BalanceProblem) -> float:
    """Return the least deviation that a common unit of all loads leaves at any staying node.

    When every load is a whole multiple of a unit g, the load of node i is its background plus a
    multiple of g, so its deviation is at least the distance of its share from that lattice.
    """
    unit = common_unit(problem.load)
    if unit is None or problem.num_tasks == 0:
        return 0.0
    offset = (problem.share - problem.background)[problem.staying] / unit
    off = np.abs(offset - np.round(offset)) * unit
    # where the share is below what is there anyway, the nearest multiple may be negative: no harm
    return max(0.0, float(off.max()) - 1e-9 * max(1.0, float(problem.share.max())))


def common_unit(load: Floats, decimals: int = 9) -> float | None:
    """Return the greatest number all loads are multiples of; ``None`` where it is too fine to help.

    Loads with more than `decimals` decimals have none.
    """
    if not len(load) or not np.isfinite(load).all():
        return None
    top = float(load.max())
    for power in range(decimals + 1):
        scaled = load * 10.0**power
        whole = np.round(scaled)
        if top * 10.0**power > 2.0**50:
            return None
        if np.all(np.abs(scaled - whole) <= 1e-9 * np.maximum(1.0, whole) * 1e-3 + 1e-12):
            divisor = int(np.gcd.reduce(whole.astype(np.int64)))
            unit = divisor / 10.0**power
            return unit if divisor > 0 and unit >= FINEST * top else None
    return None


@dataclass(frozen=True)
class Needs:
    """How much must move for a given load distance.

    Attributes
    ----------
    problem
        What is bounded.
    """

    problem: BalanceProblem

    def within(self, distance: float) -> bool:
        """Whether the least number and cost of moves for `distance` keep the budgets."""
        problem = self.problem
        excess, lack = self.outside(distance)
        count, possible = self.least_moves(excess, lack)
        if not possible or count > self._max_moves:
            return False
        return all(
            self.least_spent(problem.price[:, k], excess, lack) <= problem.budget[k]
            for k in np.flatnonzero(np.isfinite(problem.budget) & problem.uneven).tolist()
        )

    def outside(self, distance: float) -> tuple[Floats, Floats]:
        """Return (N,) load each node must lose, and (N,) load each must gain, for `distance`."""
        problem = self.problem
        deviation = problem.base_load - problem.share
        allowance = self._allowance
        excess = np.maximum(0.0, deviation - distance - allowance)
        lack = np.maximum(0.0, -deviation - distance - allowance)
        lack[problem.leaving] = 0.0
        return excess, lack

    def least_moves(self, excess: Floats, lack: Floats) -> tuple[int, bool]:
        """Return a lower bound on the number of moves, and whether any number suffices."""
        over = np.flatnonzero(excess > 0)
        leave, position = self.leaving_counts(over, excess)
        arrive = self.arriving_counts(lack[lack > 0])
        if (position > self._bounds[over + 1]).any() or (arrive >= len(self._largest)).any():
            return 0, False
        begin = self._bounds[over]
        total_leave = int(leave.sum())
        missing = float(lack.sum()) - float((self._before[position] - self._before[begin]).sum())
        extra = 0
        if missing > self._allowance:
            chosen = self._first_of_each(over, leave)
            rest = np.cumsum(self._load_down[~chosen[self._down]])
            extra = int(np.searchsorted(rest, missing - self._allowance, side="left")) + 1
            if extra > len(rest):
                return 0, False
        return max(total_leave + extra, int(arrive.sum())), True

    def leaving_counts(self, over: Ints, excess: Floats) -> tuple[Ints, Ints]:
        """Return how many key groups must leave each of some nodes, and where their list then is.

        Nodes whose key groups do not suffice get a position beyond their list.
        """
        begin = self._bounds[over]
        goal = self._before[begin] + excess[over] - self._allowance
        position = np.searchsorted(self._before, goal, side="left")
        return position - begin, position

    def arriving_counts(self, lack: Floats) -> Ints:
        """Return how many key groups must arrive for each lack; too many where none suffice."""
        return np.searchsorted(self._largest, lack - self._allowance, side="left")

    def least_spent(self, price: Floats, excess: Floats, lack: Floats) -> float:
        """Return a lower bound on what is paid: fractional covers, per node and in all.

        Parameters
        ----------
        price
            (T,) what migrations take, of a budget or as their cost.
        excess, lack
            As of `outside`.
        """
        paid = self.problem.least(price)[self._movable]
        per_node = sum(
            self._cover(paid, self._of_node(int(i)), float(excess[i]))
            for i in np.flatnonzero(excess)
        )
        return max(per_node, self._cover(paid, np.arange(len(self._node)), float(lack.sum())))

    def _cover(self, paid: Floats, chosen: Ints, amount: float) -> float:
        """Return the least fractional price of `amount` of load out of some key groups."""
        if amount <= self._allowance:
            return 0.0
        load, cost = self._load[chosen], paid[chosen]
        useful = load > 0
        load, cost = load[useful], cost[useful]
        order = np.argsort(cost / load, kind="stable")
        load, price = load[order], (cost / load)[order]
        taken = np.minimum(load, np.maximum(0.0, amount - np.cumsum(load) + load))
        return float((taken * price).sum()) * (1.0 - ROUNDING)

    def _of_node(self, node: int) -> Ints:
        return np.arange(self._bounds[node], self._bounds[node + 1])

    def _first_of_each(self, nodes: Ints, counts: Ints) -> Bools:
        """Mark the first `counts` key groups of each node in the order (node, load descending)."""
        step = np.zeros(len(self._node) + 1, dtype=np.int64)
        np.add.at(step, self._bounds[nodes], 1)
        np.add.at(step, self._bounds[nodes] + counts, -1)
        return np.cumsum(step[:-1]) > 0

    # -- the key groups that may move, by node and load descending --------------------------------

    @cached_property
    def _movable(self) -> Ints:
        """Key groups that may leave their home at all, by (node, load descending)."""
        order = np.lexsort((-self.problem.load, self.problem.home))
        return order[movable_key_groups(self.problem)[order]]

    @cached_property
    def _node(self) -> Ints:
        return self.problem.home[self._movable]

    @cached_property
    def _load(self) -> Floats:
        return self.problem.load[self._movable]

    @cached_property
    def _bounds(self) -> Ints:
        """(N + 1,) where each node's key groups begin."""
        return np.searchsorted(self._node, np.arange(self.problem.num_nodes + 1))

    @cached_property
    def _before(self) -> Floats:
        """Sum of the loads before each position, one more at the end."""
        return np.concatenate([[0.0], np.cumsum(self._load)])

    @cached_property
    def _down(self) -> Ints:
        """Positions by load descending over all nodes."""
        return np.argsort(-self._load, kind="stable")

    @cached_property
    def _load_down(self) -> Floats:
        return self._load[self._down]

    @cached_property
    def _largest(self) -> Floats:
        """Greatest sum of 0, 1, 2, … key groups over all nodes."""
        return np.concatenate([[0.0], np.cumsum(self._load_down)])

    @cached_property
    def _allowance(self) -> float:
        return load_allowance(self.problem)

    @cached_property
    def _max_moves(self) -> float:
        most = self.problem.most_moved
        return math.inf if most is None else float(most)


def without_switches(problem: BalanceProblem) -> BalanceProblem:
    """Return a problem without those copies that alike replicas hold of each other.

    Whatever placement the problem has, this one has one with the same load on each node, at no
    greater cost and with no more migrations.
    """
    rules = problem.rules
    if not rules.has_copies or not rules.num_sets:
        return problem
    alike = _alike(problem, rules)
    if not alike.any():
        return problem
    chosen = alike[rules.owner]
    owner, task = rules.owner[chosen], rules.members[chosen]
    usage = problem.usage.copy()

    def least_of(values: Floats) -> Floats:
        changed = values.copy()
        changed[task] = _least(owner, values[task], rules.num_sets)[owner]
        return changed

    for e in range(problem.num_resources):
        usage[task, e] = _least(owner, usage[task, e], rules.num_sets)[owner]
    set_of = np.full(problem.num_tasks, -1)
    set_of[task] = owner
    kept = np.repeat(set_of < 0, np.diff(rules.copies_indptr))
    count = np.where(set_of < 0, np.diff(rules.copies_indptr), 0)
    restricted, indptr, nodes = _allowed_together(problem, set_of, owner, task)
    return replace(
        problem,
        cost=least_of(problem.cost),
        budgets=tuple(b._replace(weight=least_of(b.weight)) for b in problem.budgets),
        usage=usage,
        restricted=restricted,
        allowed_indptr=indptr,
        allowed_nodes=nodes,
        counted=replace(
            rules,
            copies_indptr=np.concatenate([[0], np.cumsum(count)]).astype(np.int64),
            copies=rules.copies[kept],
        ),
    )


def _alike(problem: BalanceProblem, rules: PlaceRules) -> Bools:
    """(S,) sets of which never two are on a node, whose members are alike and share their copies.

    They are at home on distinct nodes, hold copies on homes of the set only, have one load, and are
    in no other such set.
    """
    n, owner, task = problem.num_nodes, rules.owner, rules.members
    good = (rules.rule == APART) & (rules.limit == 1) & (np.diff(rules.indptr) > 1)
    homes = np.sort(owner * n + problem.home[task])
    good[homes[1:][np.diff(homes) == 0] // n] = False
    load = problem.load[task]
    good &= _least(owner, load, len(good)) == -_least(owner, -load, len(good))
    often = np.bincount(task[good[owner]], minlength=problem.num_tasks) > 1
    good[owner[often[task]]] = False
    chosen = good[owner]
    set_of = np.full(problem.num_tasks, -1)
    set_of[task[chosen]] = owner[chosen]
    mine = np.repeat(set_of, np.diff(rules.copies_indptr))
    key = (mine * n + rules.copies)[mine >= 0]
    at = np.minimum(np.searchsorted(homes, key), len(homes) - 1)
    good[mine[mine >= 0][homes[at] != key]] = False
    return good


def _least(owner: Ints, values: Floats, sets: int) -> Floats:
    """(S,) least value of each set's members; infinite where it has none."""
    found = np.full(sets, np.inf)
    np.minimum.at(found, owner, values)
    return found


def _allowed_together(
    problem: BalanceProblem, set_of: Ints, owner: Ints, task: Ints
) -> tuple[Ints, Ints, Ints]:
    """Let each member of the chosen sets be wherever any of its set may be."""
    n, bound = problem.num_nodes, problem.row_of >= 0
    everywhere = np.zeros(int(set_of.max()) + 1, np.bool_)
    everywhere[owner[~bound[task]]] = True
    of_row = np.repeat(problem.restricted, np.diff(problem.allowed_indptr))
    alone = set_of[of_row] < 0
    key = np.unique(set_of[of_row[~alone]] * n + problem.allowed_nodes[~alone])
    members = task[~everywhere[owner]]
    begin = np.searchsorted(key, set_of[members] * n)
    count = np.searchsorted(key, (set_of[members] + 1) * n) - begin
    at = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    tasks = np.concatenate([of_row[alone], np.repeat(members, count)])
    nodes = np.concatenate([problem.allowed_nodes[alone], key[np.repeat(begin, count) + at] % n])
    empty = problem.restricted[
        (np.diff(problem.allowed_indptr) == 0) & (set_of[problem.restricted] < 0)
    ]
    restricted = np.union1d(np.unique(tasks), empty).astype(np.int64)
    order = np.lexsort((nodes, tasks))
    indptr = np.searchsorted(tasks[order], np.append(restricted, problem.num_tasks))
    return restricted, indptr.astype(np.int64), nodes[order].astype(np.int64)
