"""Search portfolio for rebalancing: several starts, compiled searches, the best of all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.rebalancing.balance.forms import build_moves
from formulations.rebalancing.search.arrays import fixed_part, state_of
from formulations.rebalancing.search.goals import bisect_goals
from formulations.rebalancing.watch import Watch
from optim.format.tables import APART
from optim.solvers.inprocess import solve_small_milp
from optim.util.compiled import warming

if TYPE_CHECKING:
    from formulations.rebalancing.problem import BalanceProblem, Ints

#: Levels that one search may try, and how many may fail in a row.
LEVELS, TRIES, PARTNERS = 2_000, 40, 6

#: Up to this many key groups everything is tried; beyond it, what is worth its time.
SMALL, LARGE = 3_000, 50_000

#: Key groups of a node that are looked at in large problems: all pairs of two nodes' would be many.
LOOK_AT = 25

#: Key groups times levels between two looks at the clock.
SLICE = 60_000

#: Key groups times nodes up to which a model is asked for a placement, and its nodes.
MODELLED, MODEL_NODES = 20_000, 200

#: First levels aimed at, as a part of the way from the bound to where the start lies.
FIRST_GOALS = np.array([0.0, 0.003, 0.01, 0.02, 0.04, 0.08, 0.16, 0.3])


class Portfolio:
    """The searches on one problem and the best feasible placement that any of them found.

    Parameters
    ----------
    problem
        What to rebalance.
    seed
        Of the random choices.
    target
        Load distance at which to stop: a proven bound.
    watch
        Clock and ear.
    """

    def __init__(self, problem: BalanceProblem, seed: int, target: float, watch: Watch) -> None:
        self.problem, self.seed, self.target, self.watch = problem, seed, target, watch
        self.best: Ints | None = None
        self._fixed = fixed_part(problem)
        self._runs = 0

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
        bisect_goals(self.problem, start, self.seed, self.target, self.watch, self.take_drained)

    def fill(self, start: Ints) -> Ints:
        """Return the placement by water filling."""
        from formulations.rebalancing.search.kernel import water_fill

        state = state_of(self.problem, start)
        water_fill(self._fixed, state)
        self.take(state.place)
        return state.place

    def descend(self, start: Ints, tries: int) -> None:
        """Let the level fall step by step from a start, in slices."""
        from formulations.rebalancing.search import kernel as compiled

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

    def take_drained(self, placement: Ints) -> None:
        """Take a placement, leaving nodes drained as far as its load distance allows."""
        from formulations.rebalancing.search.kernel import drain

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

    Parameters
    ----------
    problem
        What to rebalance.
    starts
        Placements to begin from besides staying and water filling.
    seed
        Of the random choices.
    target
        Load distance at which to stop: a proven bound.
    tries
        Levels of the search that may fail one after the other.
    watch
        Clock and ear. With one, Ctrl-C keeps the best placement so far; without, it is raised.
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
    home = start_at_home(portfolio.problem, portfolio.seed)
    for start in (home, *starts):
        portfolio.take(start)
    found = portfolio.take_modelled()
    home = found if found is not None and not portfolio.problem.is_feasible(home) else home
    portfolio.aim_at_goals(home)
    descend_from_all(portfolio, home, starts, tries)


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
    from formulations.rebalancing.bounds.touch import touch_bound
    from formulations.rebalancing.make_problem import make_problem

    tiny = make_problem([1.0, 1.0, 1.0], [0, 0, 2], 3, leaving=[False, False, True], max_moves=1)
    search_balance(tiny)
    relieved(tiny, tiny.home, 0)
    touch_bound(tiny)


def start_at_home(problem: BalanceProblem, seed: int = 0) -> Ints:
    """Return home with the key groups that may not stay on their least loaded allowed node.

    Where that breaks place rules, capacities or least loads, these are mended as far as budgets go.
    """
    movers = np.flatnonzero(problem.must_move)
    placement = _put_elsewhere(problem, problem.home, movers)
    surplus = problem.rules.surplus(placement)
    if len(surplus):
        mended = _put_elsewhere(problem, problem.home, np.union1d(movers, surplus))
        placement = mended if problem.is_feasible(mended) else placement
    if problem.is_within_capacities(placement) and problem.rules.are_kept(placement):
        return placement
    return relieved(problem, placement, seed)


def _put_elsewhere(problem: BalanceProblem, placement: Ints, movers: Ints) -> Ints:
    """Return a placement with each mover on its least loaded other node that no set bars."""
    placement, rules = placement.copy(), problem.rules
    load = problem.base_load - problem.share
    by_task = np.argsort(rules.members, kind="stable")
    starts = np.searchsorted(rules.members[by_task], np.arange(problem.num_tasks + 1))
    for task in movers.tolist():
        free = problem.may_be_rows(np.array([task]))[0]
        free[placement[task]] = False
        nodes = np.flatnonzero(free)
        for s in rules.owner[by_task[starts[task] : starts[task + 1]]].tolist():
            there = rules.tasks_of(s)
            if rules.rule[s] == APART:
                held = np.bincount(rules.place[s, placement[there[there != task]]])
                place = rules.place[s, nodes]
                full = np.append(held, 0)[np.minimum(place, len(held))] >= rules.limit[s]
                nodes = nodes if full.all() else nodes[~full]
        if len(nodes):
            target = int(nodes[np.argmin(load[nodes])])
            load[placement[task]] -= problem.load[task]
            load[target] += problem.load[task]
            placement[task] = target
    return placement


def relieved(problem: BalanceProblem, placement: Ints, seed: int) -> Ints:
    """Return a placement after place rules, capacities and least loads were mended."""
    from formulations.rebalancing.search.relief import relieve

    mean = problem.usage.mean(axis=0)
    unit = np.where(mean > 0, 1.0 / np.where(mean > 0, mean, 1.0), 0.0)
    state = state_of(problem, placement, 2 * seed + 1)
    relieve(fixed_part(problem), state, unit)
    return state.place
