"""Bounds of a rebalancing that need no solver: forced moves, and whole numbers of them by node.

Forced moves: for a target d every node outside its share ± d must lose or gain load, so a least
number (or cost) of key groups must leave or arrive. Where that exceeds the budget, d is refuted;
bisection finds the least d that is not. The proof is in ``docs/proofs/forced-moves-bound.md``.

Counting: each node is described by how many key groups leave it and how many arrive; prices on
both, and on the load that comes in, tie the nodes together (step 7 of the proof).

Copies: a switch to a copy is free, so a bound that looks at single key groups believes that all of
them leave for nothing. Replicas of a set `apart` that hold each other's copies cannot: however they
change places, as many nodes as are new to the set have copied its state. So the set is judged as if
nobody in it held a copy (step 11 of the proof).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from formulations.rebalancing.exchanges import exchange_bound
from formulations.rebalancing.loads import (
    EPSILON,
    ROUNDING,
    common_unit,
    load_allowance,
    movable_key_groups,
    rounding,
)
from formulations.rebalancing.problem import Watch, drainable
from optim.figures.measures import node_loads, slack
from optim.format.tables import APART
from optim.util.compiled import helper, kernel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from formulations.rebalancing.problem import BalanceProblem, Bools, Floats, Ints
    from optim.format.instance import Instance
    from optim.kernels.place_rules import PlaceRules


PRECISION = 1e-10  # Bisection stops at this width, relative to the largest deviation there is.


def forced_moves_bound(problem: BalanceProblem, watch: Watch | None = None) -> float:
    """Return a load distance that no placement within the limits of `problem` falls below.

    The greater of the bound by touched nodes and of the counting bound
    (`formulations.rebalancing.bound`).

    `problem`: unit or weighted costs, weights, leaving nodes, background, allowed sets and
        capacities of all resources count; least loads are not read, which only weakens the bound.
    `watch`: clock; when time is up, the bound found so far is returned.
    """
    problem, watch = without_switches(problem), watch or Watch()
    top = problem.levels(problem.home).distance
    least = touched_bound(problem)
    if least < top:
        least = counting_bound(problem, least, top, watch)
        for taken, budget in finite_budgets(problem):
            least = exchange_bound(problem, taken, budget, least, top, watch)
    return least


def touched_bound(problem: BalanceProblem) -> float:
    """Return the bound by touched nodes alone: weaker, and a matter of a millisecond."""
    return Needs(without_switches(problem)).least_distance()


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


@dataclass(frozen=True)
class Needs:
    """How much must move for a given load distance."""

    problem: BalanceProblem  # What is bounded.

    def least_distance(self, share: float = 1.0) -> float:
        """Return the load distance below which a share of the budgets is less than is needed."""
        problem, least = self.problem, self._lattice
        top = problem.levels(problem.home).distance
        if problem.num_tasks == 0:
            return top
        if least >= top or self.within(least, share):
            return least
        # bisection: `low` is refuted, `high` is not
        low, high = least, top
        if not self.within(high, share):  # forced moves aside, staying needs nothing
            return least
        width = PRECISION * max(1.0, high)
        while high - low > width:
            middle = 0.5 * (low + high)
            if self.within(middle, share):
                high = middle
            else:
                low = middle
        return low

    def within(self, distance: float, share: float = 1.0) -> bool:
        """Whether a share of the budgets is enough for the least number and cost of moves."""
        problem = self.problem
        excess, shortage = self.outside(distance)
        count, possible = self.least_moves(excess, shortage)
        if not possible or count > share * self._max_moves:
            return False
        return all(
            self.least_spent(problem.price[:, k], excess, shortage) <= share * problem.budget[k]
            for k in np.flatnonzero(np.isfinite(problem.budget) & problem.uneven).tolist()
        )

    def outside(self, distance: float) -> tuple[Floats, Floats]:
        """Return (N,) load each node must lose, and (N,) load each must gain, for `distance`."""
        problem = self.problem
        deviation = problem.base_load - problem.share
        allowance = self._allowance
        excess = np.maximum(0.0, deviation - distance - allowance)
        shortage = np.maximum(0.0, -deviation - distance - allowance)
        shortage[problem.leaving] = 0.0
        return excess, shortage

    def least_moves(self, excess: Floats, shortage: Floats) -> tuple[int, bool]:
        """Return a lower bound on the number of moves, and whether any number suffices."""
        over = np.flatnonzero(excess > 0)
        leave, position = self.leaving_counts(over, excess)
        arrive = self.arriving_counts(shortage[shortage > 0])
        if (position > self._bounds[over + 1]).any() or (arrive >= len(self._largest)).any():
            return 0, False
        begin = self._bounds[over]
        # load that leaves overfull nodes also fills what lacks; only what is missing beyond that
        # costs further moves, of the largest key groups that are left
        total_leave = int(leave.sum())
        missing = float(shortage.sum()) - float(
            (self._before[position] - self._before[begin]).sum()
        )
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

    def arriving_counts(self, shortage: Floats) -> Ints:
        """Return how many key groups must arrive for each lack; too many where none suffice."""
        return np.searchsorted(self._largest, shortage - self._allowance, side="left")

    def least_spent(self, price: Floats, excess: Floats, shortage: Floats) -> float:
        """Return a lower bound on what is paid: fractional covers, per node and in all.

        `price`: (T,) what migrations take, of a budget or as their cost.
        """
        paid = self.problem.least(price)[self._movable]
        per_node = sum(
            self._cover(paid, self._of_node(int(i)), float(excess[i]))
            for i in np.flatnonzero(excess)
        )
        return max(per_node, self._cover(paid, np.arange(len(self._node)), float(shortage.sum())))

    def _cover(self, paid: Floats, chosen: Ints, amount: float) -> float:
        """Return the least fractional price of `amount` of load out of some key groups."""
        if amount <= self._allowance:
            return 0.0
        return cheapest_cover(self._load[chosen], paid[chosen], amount) * (1.0 - ROUNDING)

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
        order = self.problem.by_home(-self.problem.load)
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
    def _lattice(self) -> float:
        return lattice_bound(self.problem)

    @cached_property
    def _max_moves(self) -> float:
        most = self.problem.most_moved
        return math.inf if most is None else float(most)


def cheapest_cover(load: Floats, cost: Floats, amount: float) -> float:
    """Return the least cost of `amount` of load out of some key groups, the last one in part."""
    useful = load > 0
    load, cost = load[useful], cost[useful]
    order = np.argsort(cost / load, kind="stable")
    load, price = load[order], (cost / load)[order]
    taken = np.minimum(load, np.maximum(0.0, amount - np.cumsum(load) + load))
    return float((taken * price).sum())


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
    entries_kept = np.repeat(set_of < 0, np.diff(rules.copies_indptr))
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
            copies=rules.copies[entries_kept],
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
    # two of a set at home on one node: not alike
    good[homes[1:][np.diff(homes) == 0] // n] = False
    load = problem.load[task]
    good &= _least(owner, load, len(good)) == -_least(owner, -load, len(good))
    # in two such sets at once: neither is judged as one
    often = np.bincount(task[good[owner]], minlength=problem.num_tasks) > 1
    good[owner[often[task]]] = False
    chosen = good[owner]
    set_of = np.full(problem.num_tasks, -1)
    set_of[task[chosen]] = owner[chosen]
    # copies must lie on homes of the set
    set_of_copy = np.repeat(set_of, np.diff(rules.copies_indptr))
    key = (set_of_copy * n + rules.copies)[set_of_copy >= 0]
    at = np.minimum(np.searchsorted(homes, key), len(homes) - 1)
    good[set_of_copy[set_of_copy >= 0][homes[at] != key]] = False
    return good


def _least(owner: Ints, values: Floats, sets: int) -> Floats:
    """(S,) least value of each set's members; infinite where it has none."""
    least = np.full(sets, np.inf)
    np.minimum.at(least, owner, values)
    return least


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


COUNTED_PRECISION = 1e-6  # Bisection stops at this width, relative to the load distance.
COARSE = 1e-4  # The same in large problems, as a part of the mean load.

#: Beyond this many key groups only leaving is counted, and prices on load are not searched for.
LARGE = 20_000

#: Shares of a migration's price that its leaving pays; the arrival pays the rest.
SHARES = (1.0, 0.0, 0.5)

STEPS = 16  # Steps of the search for the best price on load.

_GOLDEN = 0.5 * (5.0**0.5 - 1.0)


class Sums(NamedTuple):
    """Least and greatest sums over whole numbers of key groups.

    Sums of loads are moved apart by what rounding may have added: the same key groups, summed in
    another order, must not seem to weigh more than they can.
    """

    #: (N + 1,) where each node's part of `least_out`, `most_out` and `cheapest_out` begins; a part
    #: has one entry more than the node has key groups that may leave.
    begin: Ints
    #: Least load, greatest load, least cost of 0, 1, 2, … of them.
    least_out: Floats
    most_out: Floats
    cheapest_out: Floats
    #: The same over all key groups that may move.
    least_in: Floats
    most_in: Floats
    cheapest_in: Floats
    #: The same over those of leaving nodes: only these arrive at leaving nodes.
    least_drained: Floats
    most_drained: Floats
    cheapest_drained: Floats
    forced: Ints  # (N,) key groups that must leave.
    #: As `least_out`: how many key groups can arrive at most where so many have left, and how much
    #: load they bring at most, for all that binds beside the balanced load.
    fits: Ints
    most_arriving: Floats


def counting_bound(
    problem: BalanceProblem, low: float, high: float, watch: Watch | None = None
) -> float:
    """Return a load distance that no placement falls below, at least `low`.

    `low`: a bound known already.
    `high`: where to stop looking: the load distance of some placement.
    `watch`: clock; when time is up, the bound found so far is returned.
    """
    for cost, budget in finite_budgets(problem):
        low = _Counting(problem, cost, budget).bisect(low, high, watch or Watch())
    return low


def least_exchanged(problem: BalanceProblem, distance: float) -> Floats:
    """Return (S, N) what leaves and enters each node at least within a load distance.

    For each of `SHARES`: that part of the number of key groups that leave a node and the rest of
    the number that arrive; infinite where the node cannot be within the distance.
    """
    counting = _Counting(problem, np.ones(problem.num_tasks), math.inf)
    return np.array([counting.of_nodes(distance, share, 0.0) for share in SHARES])


def finite_budgets(problem: BalanceProblem) -> Iterator[tuple[Floats, float]]:
    finite = np.flatnonzero(np.isfinite(problem.budget))
    for k in finite.tolist():
        yield problem.least(problem.price[:, k]), float(problem.budget[k])
    if not len(finite) and problem.num_resources:
        yield np.ones(problem.num_tasks), np.inf


@dataclass(frozen=True)
class _Counting:
    """One budget: what a migration of each key group takes of it, and how much there is."""

    problem: BalanceProblem
    cost: Floats
    budget: float

    def bisect(self, low: float, high: float, watch: Watch) -> float:
        """Return the greatest distance found refuted between `low` and `high`."""
        width = COUNTED_PRECISION * max(1.0, high)
        if self.problem.num_tasks > LARGE:
            width = max(width, COARSE * self.problem.mean)
        # the nearest distances first: where nothing is gained, one look decides
        step = max(width, 0.02 * (high - low))
        while high - low > width and not watch.over():
            middle = min(low + step, 0.5 * (low + high))
            if self.refutes(middle):
                low, step = middle, 4.0 * step
            else:
                high, step = middle, 0.5 * (middle - low)
        return low

    def refutes(self, distance: float) -> bool:
        """Whether no placement within the budget has a load distance of at most `distance`."""
        if self.budget == np.inf:  # what is left is whether each node can be within the distance
            return self._least(distance, SHARES[0], 0.0) == np.inf
        budget = self.budget * (1.0 + ROUNDING) + 1e-9
        if self.problem.num_tasks > LARGE:
            return self._least(distance, SHARES[0], 0.0) > budget
        if any(self._least(distance, share, 0.0) > budget for share in SHARES):
            return True
        return any(self._best_price(distance, share, budget) > budget for share in SHARES)

    def _best_price(self, distance: float, share: float, enough: float) -> float:
        """Return the greatest least spending over prices on load, by golden section."""
        # it is concave in the price; any price gives a valid figure
        reach = 2.0 * float(np.max(self.cost, initial=0.0)) / self._typical_load
        # golden section on a concave function of the price
        low, high = -reach, reach
        a, b = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        at_a, at_b = self._least(distance, share, a), self._least(distance, share, b)
        for _ in range(STEPS):
            if max(at_a, at_b) > enough:
                break
            if at_a >= at_b:
                high, b, at_b = b, a, at_a
                a = high - _GOLDEN * (high - low)
                at_a = self._least(distance, share, a)
            else:
                low, a, at_a = a, b, at_b
                b = low + _GOLDEN * (high - low)
                at_b = self._least(distance, share, b)
        return max(at_a, at_b)

    def _least(self, distance: float, share: float, price: float) -> float:
        """Return the least spending of all nodes at a price on load; infinite if one has none."""
        value = float(self.of_nodes(distance, share, price).sum())
        # what adding up spending and priced loads may have added to the figure
        total = abs(value) + 2.0 * abs(price) * float(self.problem.load.sum())
        return value - 4.0 * self.problem.num_nodes * EPSILON * total if value < np.inf else value

    def of_nodes(self, distance: float, share: float, price: float) -> Floats:
        """Return (N,) the least spending of each node; infinite for some where there is none."""
        problem = self.problem
        deviation = problem.base_load - problem.share
        low = np.where(problem.leaving, -np.inf, -distance - deviation - self._allowance)
        high = distance - deviation + self._allowance
        closed = problem.leaving if not problem.into_leaving else np.zeros_like(problem.leaving)
        spent: Floats = least_spending(self._sums, low, high, closed.copy(), share, price)
        return spent

    @cached_property
    def _typical_load(self) -> float:
        positive = self.problem.load[self.problem.load > 0]
        return float(np.median(positive)) if len(positive) else 1.0

    @cached_property
    def _allowance(self) -> float:
        return load_allowance(self.problem)

    @cached_property
    def _sums(self) -> Sums:
        problem = self.problem
        movable = movable_key_groups(problem)
        drained = movable & problem.leaving[problem.home]
        least_out, most_out, cheapest_out = (
            self._by_node(key, movable) for key in (problem.load, -problem.load, self.cost)
        )
        counts = np.bincount(problem.home[movable], minlength=problem.num_nodes) + 1
        spread = self._allowance
        return Sums(
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            least_out - spread,
            spread - most_out,
            cheapest_out,
            _running(problem.load[movable]) - spread,
            spread - _running(-problem.load[movable]),
            _running(self.cost[movable]),
            _running(problem.load[drained]) - spread,
            spread - _running(-problem.load[drained]),
            _running(self.cost[drained]),
            np.bincount(problem.home[problem.must_move & movable], minlength=problem.num_nodes),
            *self._arrivals(movable, counts),
        )

    def _arrivals(self, movable: Bools, counts: Ints) -> tuple[Ints, Floats]:
        """Return `fits` and `most_arriving`: what capacities have room for where some have left."""
        problem = self.problem
        node = np.repeat(np.arange(problem.num_nodes), counts)
        fits = np.full(len(node), problem.num_tasks, dtype=np.int64)
        most_arriving = np.full(len(node), np.inf)
        for e in range(problem.num_resources):
            usage, most = problem.usage[:, e], problem.headroom[:, e]
            if not np.isfinite(most).any():
                continue
            left = -self._by_node(-usage, movable)
            allowance = rounding(problem) * float(usage.sum() + most[np.isfinite(most)].max())
            # room once so many of the node's own key groups, the largest of this resource, have
            # left
            room = (most - problem.base_usage[:, e])[node] + left + allowance
            least = _running(usage[movable])
            fits = np.minimum(fits, np.searchsorted(least, room + allowance, side="right") - 1)
            most_load = fractional_knapsack(problem.load[movable], usage[movable], room)
            most_arriving = np.minimum(most_arriving, most_load + self._allowance)
        return fits, most_arriving

    def _by_node(self, key: Floats, movable: Bools) -> Floats:
        """Least sums of 0, 1, 2, … key groups of each node, node after node."""
        problem = self.problem
        order = problem.by_home(key)
        order = order[movable[order]]
        counts = np.bincount(problem.home[order], minlength=problem.num_nodes)
        ends = np.cumsum(counts)
        total = np.concatenate([[0.0], np.cumsum(key[order])])
        node = np.repeat(np.arange(problem.num_nodes), counts + 1)
        at = np.arange(len(node)) - node  # each node's part is one longer than its key groups
        result: Floats = total[at] - total[(ends - counts)[node]]
        return result


def _running(values: Floats) -> Floats:
    """Least sums of 0, 1, 2, … of some values."""
    return np.concatenate([[0.0], np.cumsum(np.sort(values))])


def fractional_knapsack(values: Floats, size: Floats, room: Floats) -> Floats:
    """Greatest worth, of parts too, that each room holds; of negative rooms nothing is said."""
    with np.errstate(divide="ignore", invalid="ignore"):
        order = np.argsort(np.where(size > 0, -values / size, -np.inf), kind="stable")
    sizes = np.concatenate([[0.0], np.cumsum(size[order])])
    cumulated = np.concatenate([[0.0], np.cumsum(values[order])])
    last = np.maximum(0, np.searchsorted(sizes, room, side="right") - 1)
    following = np.minimum(last + 1, len(sizes) - 1)
    step = sizes[following] - sizes[last]
    part = np.clip((room - sizes[last]) / np.where(step > 0, step, 1.0), 0.0, 1.0)
    result: Floats = cumulated[last] + part * (cumulated[following] - cumulated[last])
    return result


@kernel(steps=lambda low: 15 * len(low))
def least_spending(sums: Any, low: Any, high: Any, closed: Any, share: Any, price: Any) -> Any:
    """Return (N,) lower bounds of what a placement spends whose nodes gain `low` to `high`.

    Nodes after one that cannot are infinite too.

    `sums`: as `formulations.rebalancing.bound.Sums`.
    `low`, `high`: (N,) least and greatest load that each node gains; `low` may be −inf.
    `closed`: (N,) whether only key groups of leaving nodes may arrive.
    `share`, `price`: what leaving pays of the cost of a migration, and the price on load gained.
    """
    spent = np.full(len(low), np.inf)
    for i in range(len(low)):
        if closed[i]:
            spent[i] = least_of_node(
                sums, i, low[i], high[i], share, price,
                sums.least_drained, sums.most_drained, sums.cheapest_drained,
            )  # fmt: skip
        else:
            spent[i] = least_of_node(
                sums, i, low[i], high[i], share, price,
                sums.least_in, sums.most_in, sums.cheapest_in,
            )  # fmt: skip
        if spent[i] == np.inf:
            break
    return spent


@helper
def least_of_node(
    sums: Any,
    i: Any,
    low: Any,
    high: Any,
    share: Any,
    price: Any,
    least_in: Any,
    most_in: Any,
    cheapest_in: Any,
) -> Any:
    """Return the least priced cost over whole numbers that leave and arrive; inf if none do."""
    begin = sums.begin[i]
    best = np.inf
    for out in range(sums.forced[i], sums.begin[i + 1] - begin):
        least_out, most_out = sums.least_out[begin + out], sums.most_out[begin + out]
        fits, most_arriving = sums.fits[begin + out], sums.most_arriving[begin + out]
        paid = share * sums.cheapest_out[begin + out]
        # more that leave pay more: from here on nothing is better
        if price >= 0.0 and paid - price * high >= best:
            break
        if price < 0.0 and low > -np.inf and paid - price * low >= best:
            break
        into = np.searchsorted(most_in, low + least_out) if low > -np.inf else 0
        while into < min(len(most_in), fits + 1):
            if least_in[into] - most_out > high:
                break  # more that arrive only add to it
            # the node's gain is what arrives less what leaves: both are known up to a range
            gain_low = max(low, least_in[into] - most_out)
            gain_high = min(high, min(most_in[into], most_arriving) - least_out)
            if gain_low > gain_high:
                if most_in[into] >= most_arriving:
                    break  # another resource has no room for more load
                into += 1
                continue
            gain = gain_high if price > 0.0 else gain_low
            value = paid + (1.0 - share) * cheapest_in[into]
            if price != 0.0:
                value -= price * gain
            best = min(best, value)
            if price <= 0.0 or gain_high >= high or most_in[into] >= most_arriving:
                break
            into += 1
    return best


def cannot_be_emptied(problem: BalanceProblem) -> bool:
    """Whether the budgets do not allow leaving nodes to be emptied; false says nothing."""
    must = problem.must_move.copy()
    must[drainable(problem)] = True
    must &= ~problem.has_copy
    return _beyond_budgets(problem, problem.price[must].sum(axis=0))


def impossible(instance: Instance, problem: BalanceProblem) -> bool:
    """Whether no placement can exist, as needs no solver to be seen; false says nothing."""
    forced = np.flatnonzero(problem.must_move)
    if not problem.may_be_rows(forced).any(axis=1).all():
        return True
    return _beyond_budgets(problem, least_spent(instance, problem))


def _beyond_budgets(problem: BalanceProblem, spent: Floats) -> bool:
    return bool((spent > np.asarray(problem.budget)).any())


def least_spent(instance: Instance, problem: BalanceProblem) -> Floats:
    """Return (K,) what key groups that must move take at least of each budget.

    They may not stay where they are, or must leave a node for its capacity: what comes in makes
    room for nothing, so each node is counted alone.
    """
    home, forced = problem.home, problem.must_move
    price = problem.least(problem.price)
    spent = np.zeros((instance.num_nodes, price.shape[1]))
    np.add.at(spent, home[forced], price[forced])
    bound = instance.nodes.capacity * instance.limits.max_utilisation
    # the tolerance twice: once the referee's own, once for sums over many key groups
    over = node_loads(instance, instance.tasks.node) - bound - 2 * slack(bound)
    by_node = np.argsort(home, kind="stable")
    starts = np.searchsorted(home[by_node], np.arange(instance.num_nodes + 1))
    for node, resource in np.argwhere(over > 0).tolist():
        here = by_node[starts[node] : starts[node + 1]]
        load, excess = instance.tasks.load[here, resource], float(over[node, resource])
        if load.sum() < excess:
            continue  # its background alone is too much
        for k, each in enumerate(price[here].T):
            spent[node, k] = max(spent[node, k], _cheapest_relief(load, each, excess))
    return spent.sum(axis=0)


def _cheapest_relief(load: Floats, cost: Floats, excess: float) -> float:
    """Return a least cost of being rid of that much load: the cheapest first, the last in part."""
    # where all cost the same, the last one costs as much as the others
    if np.ptp(cost) == 0:
        taken = np.cumsum(np.sort(load)[::-1])
        return float(cost[0]) * (int(np.searchsorted(taken, excess * (1 - 1e-9))) + 1)
    return cheapest_cover(load, cost, excess * (1 - 1e-9))
