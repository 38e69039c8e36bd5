"""Search portfolio for rebalancing: several starts, compiled searches, the best of all.

Bisection on the load distance goes from the start to one goal after another: each attempt begins
anew, so every migration is spent on the goal itself and none on a coarser one before it. Attempts
are made in slices, between which the clock is read.
"""

from __future__ import annotations

import itertools
import math
import time
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from formulations.rebalancing.balance.model import build_moves
from formulations.rebalancing.bound import Needs, forced_moves_bound, without_switches
from formulations.rebalancing.problem import Watch, confined_to_staying, writable
from optim.format.tables import APART
from optim.kernels.place_rules import make_guard, nodes_of_parts
from optim.solvers.inprocess import solve_small_milp
from optim.util.compiled import warming

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from formulations.rebalancing.balance.kernel import Fixed, Placed, State
    from formulations.rebalancing.balance.model import Settings
    from formulations.rebalancing.problem import BalanceProblem, Floats, Ints


#: Levels that one search may try, and how many may fail in a row.
LEVELS, TRIES, PARTNERS = 2_000, 40, 6

#: Up to this many key groups everything is tried; beyond it, what is worth its time.
SMALL, LARGE = 3_000, 50_000

#: Key groups of a node that are looked at in large problems: all pairs of two nodes' would be many.
LOOK_AT = 25

SLICE = 60_000  # Key groups times levels between two looks at the clock.

#: Key groups times nodes up to which a model is asked for a placement, and its nodes.
MODELLED, MODEL_NODES = 20_000, 200

#: Annealing: the goal's part of the way from the bound to the best, temperatures in goals at the
#: beginning, where the start is nearly right, and at the end, steps for each key group and at most,
#: and slices between two looks at the clock.
GOAL_PART, HOT, WARM, COLD = 0.5, 0.5, 0.05, 0.0015
STEPS_EACH, MOST_STEPS, ANNEALED = 800, 2_000_000, 64

#: First levels aimed at, as a part of the way from the bound to where the start lies.
FIRST_GOALS = np.array([0.0, 0.003, 0.01, 0.02, 0.04, 0.08, 0.16, 0.3])


class Portfolio:
    """The searches on one problem and the best feasible placement that any of them found.

    `target`: load distance at which to stop: a proven bound.
    `watch`: clock and ear.
    """

    def __init__(self, problem: BalanceProblem, seed: int, target: float, watch: Watch) -> None:
        self.problem, self.seed, self.target, self.watch = problem, seed, target, watch
        self.best: Ints | None = None
        self._fixed = fixed_part(problem)
        self._runs = 0

    @cached_property
    def needs(self) -> Needs:
        """What must move at least."""
        return Needs(without_switches(self.problem))

    def take(self, placement: Ints) -> None:
        """Keep a placement if it is feasible and the best so far."""
        problem = self.problem
        if not problem.is_feasible(placement):
            return
        levels = problem.levels(placement)
        if self.best is not None and not problem.is_better(levels, problem.levels(self.best)):
            return
        self.best = placement.copy()
        if self.watch.tell is not None:
            self.watch.tell(levels.distance)
        if self.watch.offer is not None:
            self.watch.offer(self.best)

    def take_modelled(self) -> Ints | None:
        """Where no placement is known, ask a small model for one; also return it."""
        problem = self.problem
        if self.best is not None or problem.num_tasks * problem.num_nodes > MODELLED:
            return self.best
        limit = None if self.watch.deadline is None else 0.5 * self.watch.remaining()
        built = build_moves(problem)
        answer = solve_small_milp(built.model, limit, node_limit=MODEL_NODES)
        if answer.x is not None:
            self.take(built.read(answer.x))
        return self.best

    def reached(self) -> bool:
        """Whether the target is met, or time is up."""
        if self.watch.over():
            return True
        if self.best is None or self.problem.has_leaving:
            return False
        return self.problem.levels(self.best).distance <= self.target * (1.0 + 1e-9)

    def aim_at_goals(self, start: Ints) -> None:
        """Bisect on the load distance from a start."""
        large = self.problem.num_tasks > LARGE
        first = self.needs.least_distance(1.0 / USUAL) if large else None
        bisect_goals(
            self.problem, start, self.seed, self.target, self.watch, self.take_drained, first
        )

    def fill(self, start: Ints) -> Ints:
        """Return the placement by water filling."""
        from formulations.rebalancing.balance.kernel import water_fill

        state = state_of(self.problem, start)
        water_fill(self._fixed, state)
        self.take(state.place)
        return state.place

    def descend(self, start: Ints, tries: int) -> None:
        """Let the level fall step by step from a start, in slices."""
        from formulations.rebalancing.balance import kernel as compiled

        problem, fixed = self.problem, self._fixed
        self._runs += 1
        seed = self.seed * 8 + self._runs
        look_at = LOOK_AT
        if problem.num_tasks <= LARGE:
            look_at = int(np.bincount(start, minlength=problem.num_nodes).max()) + 64
        state = state_of(problem, start, seed)
        start, best = start.astype(np.int64), start.astype(np.int64)
        now = problem.levels(start).distance
        memory = np.array([now, compiled.FIRST_STEP, 0.0, 0.0])
        # the bound itself lies a rounding below what can be reached
        parts = FIRST_GOALS if problem.num_tasks <= SMALL else FIRST_GOALS[:0]
        goals = self.target + (now - self.target) * parts + 1e-8 * max(1.0, self.target)
        levels = max(1, SLICE // problem.num_tasks)
        left, more = LEVELS, True
        while more and left > 0 and not self.watch.over():
            more = compiled.lower(
                fixed, state, start, best, memory, goals, min(levels, left), tries, PARTNERS,
                self.target, look_at,
            )  # fmt: skip
            left -= levels
            goals = goals[:0]
            if self.watch.deadline is not None:
                self.take(best)
        self.take_drained(best)

    def anneal(self, start: Ints, *, near: bool = False) -> None:
        """Anneal from a start, or from the best, towards a goal between the best and the target.

        `near`: whether the start is nearly right, but for some key groups that do not fit as well
            as others: begin cooler, and with the goal between the start and the target.
        """
        from formulations.rebalancing.balance import anneal as compiled

        problem, fixed = self.problem, self._fixed
        assert self.best is not None
        self._runs += 1
        start = start if problem.is_feasible(start) else self.best
        state = state_of(problem, start, self.seed * 8 + self._runs)
        best, now = self.best.copy(), problem.levels(self.best).distance
        reached = problem.levels(start).distance if near else now
        goal, hot = self.target + GOAL_PART * (reached - self.target), WARM if near else HOT
        left = max(1, min(MOST_STEPS, STEPS_EACH * problem.num_tasks) // compiled.STEPS)
        memory = np.array([goal, hot * goal, (COLD / hot) ** (1.0 / left), now, math.inf])
        while left > 0 and not self.reached():
            compiled.anneal(fixed, state, best, memory, min(left, ANNEALED))
            left -= ANNEALED
            if memory[compiled.BEST] < now:
                now = memory[compiled.BEST]
                self.take_drained(best)

    def take_drained(self, placement: Ints) -> None:
        """Take a placement, leaving nodes drained as far as its load distance allows."""
        from formulations.rebalancing.balance.kernel import drain

        problem = self.problem
        if problem.has_leaving:
            reached = problem.levels(placement).distance
            state = state_of(problem, placement)
            drain(self._fixed, state, reached)
            self.take(state.place)
        self.take(placement)


def search_balance(
    problem: BalanceProblem,
    starts: tuple[Ints, ...] = (),
    seed: int = 0,
    target: float = 0.0,
    tries: int = TRIES,
    watch: Watch | None = None,
) -> Ints | None:
    """Return the lexicographically best feasible placement found; ``None`` if there is none.

    `starts`: placements to begin from besides staying and water filling.
    `target`: load distance at which to stop: a proven bound.
    `tries`: levels of the search that may fail one after the other.
    `watch`: clock and ear. With one, Ctrl-C keeps the best placement so far; without, it is raised.
    """
    if problem.num_tasks == 0:
        return problem.home
    portfolio = Portfolio(problem, seed, target, watch or Watch())
    try:
        run_portfolio(portfolio, starts, tries)
    except KeyboardInterrupt:
        if watch is None:
            raise
        watch.interrupted = True
    return portfolio.best


def run_portfolio(portfolio: Portfolio, starts: tuple[Ints, ...], tries: int) -> None:
    """Try one start and search after the other, the quickest first."""
    home = take_starts(portfolio, starts)
    portfolio.aim_at_goals(home)
    descend_from_all(portfolio, home, starts, tries)


def take_starts(portfolio: Portfolio, starts: tuple[Ints, ...]) -> Ints:
    """Take home and some starts; return home, or what a model finds where home breaks a limit."""
    home = start_at_home(portfolio.problem, portfolio.seed)
    for start in (home, *starts):
        portfolio.take(start)
    modelled = portfolio.take_modelled()
    return modelled if modelled is not None and not portfolio.problem.is_feasible(home) else home


def descend_from_all(
    portfolio: Portfolio, home: Ints, starts: tuple[Ints, ...], tries: int
) -> None:
    """Let the level fall from staying, from water filling, from what was given and from the best.

    Not in large problems, where it gains nothing in the time it takes.
    """
    problem = portfolio.problem
    if portfolio.reached() or problem.num_tasks > LARGE:
        return
    begun: list[Ints] = [home]
    if problem.has_leaving or problem.num_tasks <= SMALL:
        begun.append(portfolio.fill(home))
    begun += starts
    if portfolio.best is not None:
        begun.append(portfolio.best)
    for start in begun:
        if portfolio.reached():
            return
        portfolio.descend(start, tries)


@warming
def warm_up() -> None:
    """Compile the kernels of search and bound, or load them from the disk: once a process."""
    from formulations.rebalancing.bound import forced_moves_bound
    from formulations.rebalancing.exchanges import Exchanges
    from formulations.rebalancing.problem import plain_problem

    tiny = plain_problem([1.0, 1.0, 1.0], [0, 0, 2], 3, leaving=[2], max_moves=1)
    search_balance(tiny)
    relieved(tiny, tiny.home, 0)
    forced_moves_bound(tiny)
    Exchanges(tiny, np.ones(3), 1.0, 30).refutes(0.1)  # no bound asks for it in a tiny problem


@warming
def warm_up_annealing() -> None:
    """Compile the kernel of annealing, or load it from the disk: once a process."""
    from formulations.rebalancing.problem import plain_problem

    tiny = plain_problem([1.0, 1.0, 1.0], [0, 0, 2], 3, max_moves=1)
    portfolio = Portfolio(tiny, 0, 0.0, Watch())
    portfolio.take(tiny.home)
    portfolio.anneal(tiny.home)


def start_at_home(problem: BalanceProblem, seed: int = 0) -> Ints:
    """Return home with the key groups that may not stay on their least loaded allowed node.

    Where that breaks place rules, capacities or least loads, these are mended as far as budgets go.
    """
    movers = np.flatnonzero(problem.must_move)
    placement = _put_elsewhere(problem, problem.home, movers)
    surplus = problem.rules.surplus(placement)
    if len(surplus):
        repaired = _put_elsewhere(problem, problem.home, np.union1d(movers, surplus))
        placement = repaired if problem.is_feasible(repaired) else placement
    if problem.rules.counts and not problem.rules.are_kept(placement):
        repaired = _put_on_chosen(problem, movers)
        placement = repaired if problem.rules.are_kept(repaired) else placement
    if problem.is_within_capacities(placement) and problem.rules.are_kept(placement):
        return placement
    return relieved(problem, placement, seed)


def _put_on_chosen(problem: BalanceProblem, movers: Ints) -> Ints:
    """Return home with the key groups that may not stay, by themselves or for counts of nodes, on
    the least loaded of the nodes that are chosen for their like."""
    may = problem.may_be_rows(np.arange(problem.num_tasks)) & ~problem.leaving
    # kinds of key groups: those that may be on the same nodes
    rows, kind = np.unique(may, axis=0, return_inverse=True)
    load, room = problem.usage, problem.headroom
    part, chosen = nodes_of_parts(
        problem.rules.counts, load, room, problem.home, kind.reshape(-1), rows
    )
    away = np.flatnonzero(~chosen[part, problem.home])
    return _put_elsewhere(problem, problem.home, np.union1d(movers, away), chosen[part])


def _put_elsewhere(
    problem: BalanceProblem, placement: Ints, movers: Ints, chosen: Any = None
) -> Ints:
    """Return a placement with each mover on its least loaded other node that no set bars."""
    # `chosen` are (T, N) nodes that it may go to; all, if left out
    placement, rules = placement.copy(), problem.rules
    load = problem.base_load - problem.share
    by_task = np.argsort(rules.members, kind="stable")
    starts = np.searchsorted(rules.members[by_task], np.arange(problem.num_tasks + 1))
    for task in movers.tolist():
        free = problem.may_be_rows(np.array([task]))[0]
        free[placement[task]] = False
        nodes = np.flatnonzero(free if chosen is None else free & chosen[task])
        for s in rules.owner[by_task[starts[task] : starts[task + 1]]].tolist():
            there = rules.tasks_of(s)
            if rules.rule[s] == APART:
                per_place = np.bincount(rules.place[s, placement[there[there != task]]])
                place = rules.place[s, nodes]
                full = np.append(per_place, 0)[np.minimum(place, len(per_place))] >= rules.limit[s]
                nodes = nodes if full.all() else nodes[~full]
        if len(nodes):
            target = int(nodes[np.argmin(load[nodes])])
            load[placement[task]] -= problem.load[task]
            load[target] += problem.load[task]
            placement[task] = target
    return placement


def relieved(problem: BalanceProblem, placement: Ints, seed: int) -> Ints:
    """Return a placement after place rules, capacities and least loads were mended."""
    from formulations.rebalancing.balance.kernel import relieve

    mean = problem.usage.mean(axis=0)
    unit = np.where(mean > 0, 1.0 / np.where(mean > 0, mean, 1.0), 0.0)
    state = state_of(problem, placement, 2 * seed + 1)
    relieve(fixed_part(problem), state, unit)
    return state.place


class Stage(NamedTuple):
    """One bisection: nodes to look at for an exchange, how far below the best it begins (a factor),
    and how near its ends get to each other (a factor)."""

    partners: int
    reach: float
    near: float


STAGES = (Stage(12, math.inf, 1.1), Stage(24, 1.25, 1.03), Stage(48, 1.1, 1.01))

#: The first goal, as a part of the mean load, and the steps down from there.
FIRST, STEP = 0.01, 0.4

#: In large problems a few attempts are all there is time for: the first goal is the least one that
#: the budgets allow so many times the least moves of, and each step down is the square of the last.
USUAL, SHORT_STEP = 1.4, 0.95

GOAL_LOOK_AT = 512  # Key groups of a node that are looked at.
GOAL_SLICE, ROUNDS = 256, 8  # Nodes mended, or rounds filled, between two looks at the clock.
PASSES = 10  # Passes over the nodes above a goal.
FLOOR = 1e-4  # The first goal is not below this part of the mean load.


class GoalSearch:
    """Attempts at goals from one start.

    `start`: (T,) placement that every attempt begins from.
    `watch`: clock; an attempt that runs out of time ends where it is.
    """

    def __init__(self, problem: BalanceProblem, start: Ints, seed: int, watch: Watch) -> None:
        self._watch = watch
        self._order = problem.by_home(problem.load)
        numbered = _renumbered(problem, self._order)
        self._fixed = fixed_part(numbered)
        self._begin = np.searchsorted(numbered.home, np.arange(problem.num_nodes + 1))
        self._start = start[self._order].astype(np.int64)
        # all are at home: nobody from elsewhere is in a list
        state = state_of(numbered, numbered.home, seed * 2 + 1)
        first, after, before = (np.full_like(a, -1) for a in state[4:7])
        self._state = state._replace(first=first, after=after, before=before)

    def attempt(self, goal: float, partners: int, *, fills: bool = True) -> float:
        """Go from the start towards a goal; return the load distance reached.

        Without filling only nodes beyond the goal are changed, so that less is moved.
        """
        from formulations.rebalancing.balance import fill as compiled

        fixed, begin, state, n = self._fixed, self._begin, self._state, len(self._begin) - 1
        compiled.set_to(fixed, state, self._start)
        while fills and not self._watch.over():
            if not compiled.fill(fixed, begin, state, goal, ROUNDS):
                break
        patience = 8 + n // 50
        for _ in range(PASSES):
            order, at, num_above, num_mended = compiled.by_height(state), 0, 0, 0
            span = compiled.ranges(fixed, begin, state)
            while at < n and num_above - num_mended <= patience and not self._watch.over():
                new_above, new_mended, at = compiled.mend_some(
                    fixed,
                    begin,
                    state,
                    goal,
                    order,
                    span,
                    partners,
                    patience,
                    GOAL_LOOK_AT,
                    at,
                    GOAL_SLICE,
                )
                num_above, num_mended = num_above + new_above, num_mended + new_mended
            if num_mended == 0 or num_above - num_mended > patience or self._watch.over():
                break
        deviation = state.deviation
        breach = np.where(fixed.leaving, np.maximum(deviation, 0.0), np.abs(deviation))
        return float(breach.max())

    def placement(self) -> Ints:
        """Return the placement that the last attempt reached."""
        result = np.empty_like(self._state.place)
        result[self._order] = self._state.place
        return result


def bisect_goals(
    problem: BalanceProblem,
    start: Ints,
    seed: int,
    target: float,
    watch: Watch,
    take: Callable[[Ints], None],
    first: float | None = None,
) -> None:
    """Attempt goals between a bound and the start's load distance, ever closer; `take` what is met.

    `target`: a proven lower bound.
    `take`: called with each placement that is better than those before.
    `first`: the first goal, for large problems.
    """
    best = problem.levels(start).distance
    if not problem.num_tasks or best <= target + 1e-9:
        return
    search = GoalSearch(problem, start, seed, watch)
    floor = max(target, FLOOR * problem.mean, 1e-9)
    low, high = floor, max(best, floor)

    def try_goal(goal: float, partners: int) -> None:
        nonlocal best, low, high
        reached = search.attempt(goal, partners)
        if reached < best * (1.0 - 1e-9):
            best = reached
            take(search.placement())
        if reached <= goal * (1.0 + 1e-9) + 1e-12:
            high = min(goal, reached)
        else:
            low = goal
            high = max(low, min(high, reached))

    step, factor = FIRST * problem.mean, STEP
    if first is not None:
        step, factor = max(floor, first), SHORT_STEP
    # the bound itself is often reached where many moves are allowed
    elif target > 0.0:
        try_goal(floor * (1.0 + 1e-9), STAGES[0].partners)
    # downwards in long steps first: goals that are met take less time than those that are not
    while high > low * STAGES[0].near and not watch.over():
        step = max(min(step, high * factor), low)
        try_goal(step, STAGES[0].partners)
        if high > step:
            break
        if first is not None:
            factor *= factor
    # then bisection between what is met and what is not, with ever more partners
    for stage in STAGES:
        if stage.reach < math.inf:
            low = max(floor, high / stage.reach)
        while high > low * stage.near and not watch.over():
            try_goal(math.sqrt(low * high), stage.partners)


def _renumbered(problem: BalanceProblem, order: Ints) -> BalanceProblem:
    """Return the problem with its key groups in another order."""
    row = problem.row_of[order]
    rows = {k: problem.allowed[int(order[k])] for k in np.flatnonzero(row >= 0).tolist()}
    return replace(
        problem.allowing(rows),
        load=problem.load[order],
        cost=problem.cost[order],
        budgets=tuple(b._replace(weight=b.weight[order]) for b in problem.budgets),
        home=problem.home[order],
        usage=problem.usage[order],
        counted=None if problem.counted is None else problem.counted.reordered(order),
    )


MOST_EXCHANGES = 5_000  # Exchanges made at most.


def by_exchanges(problem: BalanceProblem) -> Ints | None:
    """Return a placement that differs from now by exchanges of replicas, and is better balanced.

    Each exchange is the one that lowers the sum of the squares of what nodes are off their share
    most: with the leader a partition's load goes to the broker of a follower.

    Returns (T,) nodes; ``None`` where no exchange helps, or what it leads to breaks a rule.
    """
    one, other = _pairs(problem)
    if not len(one):
        return None
    place = problem.home.copy()
    off = problem.node_load(place) - problem.share
    scale = np.where(problem.weight > 0, problem.weight, 1.0)
    for _ in range(MOST_EXCHANGES):
        a, b = place[one], place[other]
        moved = problem.load[one] - problem.load[other]
        # change of Σ off² / weight by each exchange alone
        change = ((off[a] - moved) ** 2 - off[a] ** 2) / scale[a]
        change += ((off[b] + moved) ** 2 - off[b] ** 2) / scale[b]
        k = int(np.argmin(change))
        if change[k] >= -1e-9 * max(float((off**2).max()), 1e-300):
            break
        off[a[k]] -= moved[k]
        off[b[k]] += moved[k]
        place[one[k]], place[other[k]] = b[k], a[k]
    if (place == problem.home).all() or not problem.is_feasible(place):
        return None
    return place


def _pairs(problem: BalanceProblem) -> tuple[Ints, Ints]:
    """Return replicas that may change places: each is a copy where the other one is."""
    rules, one, other = problem.rules, list[int](), list[int]()
    if rules.num_sets and problem.has_copy.any():
        copies = np.split(rules.copies, rules.copies_indptr[1:-1])
        hosts = {
            t: {*copies[t].tolist(), int(problem.home[t])}
            for t in np.flatnonzero(problem.has_copy).tolist()
        }
        members = np.split(rules.members, rules.indptr[1:-1])
        for i in np.flatnonzero((rules.rule == APART) & (rules.limit == 1)).tolist():
            for s, t in itertools.combinations(members[i].tolist(), 2):
                if problem.load[s] == problem.load[t] or hosts.get(s) != hosts.get(t):
                    continue
                homes = int(problem.home[s]), int(problem.home[t])
                if problem.may_be(s, homes[1]) and problem.may_be(t, homes[0]):
                    one.append(s)
                    other.append(t)
    return np.array(one, np.int64), np.array(other, np.int64)


def fixed_part(problem: BalanceProblem) -> Fixed:
    """Return the arrays that the kernels read."""
    from formulations.rebalancing.balance.kernel import Fixed

    effort, uneven = _effort(problem)
    price = problem.counted_budgets[0]
    return Fixed(
        writable(problem.load),
        price,
        writable(problem.home),
        writable(problem.share),
        writable(problem.leaving),
        writable(problem.usage),
        writable(problem.row_of),
        writable(problem.must_move),
        writable(problem.allowed_indptr),
        writable(problem.allowed_nodes),
        problem.into_leaving,
        effort,
        uneven,
        price.min(axis=0, initial=np.inf),
        writable(problem.rules.copies_indptr),
        writable(problem.rules.copies),
        problem.rules.restrict,
    )


def _effort(problem: BalanceProblem) -> tuple[Floats, bool]:
    """Return (T,) what a migration of each key group takes, in usual ones, and if they differ."""
    uneven = problem.price[:, problem.uneven]
    if not uneven.shape[1]:
        return np.ones(problem.num_tasks), False
    usual = [float(np.median(price[price > 0])) for price in uneven.T]
    return np.ascontiguousarray((uneven / usual).mean(axis=1)), True


def changing_part(problem: BalanceProblem, placement: Ints) -> Placed:
    """Return a placement and what follows from it."""
    from formulations.rebalancing.balance.kernel import Placed

    used = problem.node_usage(placement)
    floor = np.where(problem.leaving[:, None], -math.inf, problem.floor)
    floor = np.where(floor > 0, floor, -math.inf)
    price, most = problem.counted_budgets
    budget = most - price[problem.rules.migrates(placement)].sum(axis=0)
    room = problem.headroom - used
    placement = writable(placement)
    deviation = problem.node_load(placement) - problem.share
    guard = make_guard(problem.rules, placement)
    return Placed(placement, deviation, room, used - floor, budget, guard)


def state_of(problem: BalanceProblem, placement: Ints, seed: int = 1) -> State:
    """Return the state of a search that begins from a placement; `seed` is not 0."""
    from formulations.rebalancing.balance.kernel import State

    place, deviation, room, spare, budget, guard = changing_part(problem, placement)
    size = np.bincount(place, minlength=problem.num_nodes)
    order = np.argsort(place, kind="stable")
    # doubly linked lists of the key groups of each node, in order of their number
    alike = np.flatnonzero(place[order[1:]] == place[order[:-1]])
    first, after, before = (np.full(n, -1) for n in (problem.num_nodes, len(place), len(place)))
    after[order[alike]], before[order[alike + 1]] = order[alike + 1], order[alike]
    first[place[order[::-1]]] = order[::-1]
    random = np.array([seed], np.uint64)
    return State(
        place.astype(np.int64), deviation, room, spare, first, after, before, size, budget,
        guard.ints, random,
    )  # fmt: skip


#: Share of the time left that bound and search may take; the rest is the solver's.
SEARCH_SHARE = 0.5


class Prepared(NamedTuple):
    """A bound and placements to start from."""

    bound: float  # A load distance that no placement falls below.
    starts: list[Ints]  # What the search found, if anything, then what was given.
    interrupted: bool  # Whether Ctrl-C ended it: nothing further is to be tried.


def best_start(problem: BalanceProblem, starts: Sequence[Ints]) -> Ints | None:
    """Return the best of some placements; ``None`` when none is feasible."""
    best = None
    for start in filter(problem.is_feasible, starts):
        if best is None or problem.is_better(problem.levels(start), problem.levels(best)):
            best = start
    return best


def prepare_balance(
    problem: BalanceProblem, settings: Settings, starts: Sequence[Ints] = (), tries: int = TRIES
) -> Prepared:
    """Bound the load distance and search, for a share of the time or until Ctrl-C.

    `starts`: placements to search from, besides staying.
    `tries`: levels of the search that may fail one after the other; 0 for no search.
    """
    left = settings.remaining()
    half = None if left is None else time.perf_counter() + SEARCH_SHARE * left
    watch = Watch(half, offer=settings.offer)
    bound, placement = 0.0, None
    try:
        bound = forced_moves_bound(problem, watch)
    except KeyboardInterrupt:
        watch.interrupted = True
    if not watch.interrupted and tries:
        placement = search_balance(problem, tuple(starts), settings.seed, bound, tries, watch)
    return Prepared(
        bound, [*([] if placement is None else [placement]), *starts], watch.interrupted
    )


#: Allowed sets of more entries than this are not made: the model would be far larger.
MAX_ENTRIES = 50_000_000


def drained_start(problem: BalanceProblem, settings: Settings, tries: int) -> Ints | None:
    """Return a balanced placement that empties leaving nodes, the largest key groups first.

    `problem`: with leaving nodes.
    `settings`: whose seed and deadline count.
    Returns (T,) a feasible placement; ``None`` if none was found.
    """
    from formulations.rebalancing.balance.kernel import drain

    home = start_at_home(problem, settings.seed)
    state = state_of(problem, home)
    drain(fixed_part(problem), state, math.inf)
    emptied = state.place
    moved_off = np.flatnonzero(problem.leaving[problem.home] & ~problem.leaving[emptied])
    if len(moved_off) * len(problem.staying) > MAX_ENTRIES:
        return emptied if problem.is_feasible(emptied) else None
    drained = confined_to_staying(problem, moved_off)
    return best_start(drained, prepare_balance(drained, settings, [emptied], tries).starts)
