"""`balance-search`: compiled search for a small load distance within the budget, with a bound.

Without a time limit only counted iterations end it. With one, what the search leaves of it goes
into proofs (distances refuted by small MILPs), and then into further searches, by seed and by
large neighbourhoods, until the time is up or the gap is closed. What is hard to refute may be met
by a plan that is not known: each attempt that fails is followed by a search as long as it took.
"""

from __future__ import annotations

import itertools
import math
import time
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from formulations.model_rows import Whereabouts, add_rule_rows
from formulations.rebalancing.balance.classes import count_classes, few_classes, solve_by_classes
from formulations.rebalancing.balance.milp import METHOD as BALANCE_MILP
from formulations.rebalancing.balance.milp import least_changed, reported_level
from formulations.rebalancing.balance.model import BalanceAnswer, Settings
from formulations.rebalancing.balance.search import (
    TRIES,
    GoalSearch,
    Portfolio,
    by_exchanges,
    descend_from_all,
    run_portfolio,
    start_at_home,
    take_starts,
    warm_up,
    warm_up_annealing,
)
from formulations.rebalancing.bound import (
    Needs,
    forced_moves_bound,
    impossible,
    without_switches,
)
from formulations.rebalancing.problem import Watch, balance_problem
from optim.kernels.place_rules import place_rules
from optim.methods.registry import Method, Option, Outcome
from optim.referee import Level, Termination
from optim.solvers.inprocess import solve_small_milp
from optim.solvers.linear_model import LinearModel
from optim.util.compiled import SMALL
from optim.util.progress import ProgressRecorder

if TYPE_CHECKING:
    from collections.abc import Callable

    from formulations.rebalancing.problem import BalanceProblem, Bools, Floats, Ints
    from optim.format.instance import Instance
    from optim.methods.registry import Request

#: Migrations allowed up to which plans are annealed, as a step looks at all of them; runs before
#: the proofs, the share of the time left up to which a further one begins, and the most runs from
#: counts of classes.
FEW, RUNS, ANNEALED, NEAR_RUNS = 500, 2, 0.1, 3

PROOFS = 0.85  # Share of the time left that proofs, and searches in between, may take.

#: Vectors of counts up to which equal key groups are counted without a time limit too.
COUNTED = 5_000

LARGE = 50_000  # Beyond this many key groups neither proofs by MILPs nor large neighbourhoods pay.

#: The objective that asks for the cheapest moves which keep ``max_load_distance``.
COST = "migration_cost"


class Run:
    """One run on the method's clock: the portfolio and the proven bound."""

    def __init__(
        self, problem: BalanceProblem, request: Request, recorder: ProgressRecorder
    ) -> None:
        self.problem, self.request, self.recorder = problem, request, recorder
        self.watch = Watch(
            request.deadline, lambda value: recorder.note(value, phase="search"), request.offer
        )
        self.bound = 0.0
        self.portfolio = Portfolio(problem, request.seed, 0.0, self.watch)
        self.changes = BalanceAnswer()
        self._annealing = 0.0  # Seconds that the last run took.
        self.gap = problem.optimal_gap if request.gap is None else request.gap

    def go(self, starts: tuple[Ints, ...]) -> None:
        """Search, then prove and search on as long as there is time."""
        exchanged = by_exchanges(self.problem)
        if exchanged is not None:  # what costs nothing comes first: copies have to be better
            starts = (exchanged, *starts)
        home = take_starts(self.portfolio, starts)
        # the quick bound first: it ends the bisection on many instances
        self.raise_bound(self.portfolio.needs.least_distance())
        self.portfolio.aim_at_goals(home)
        if not self.watch.over():
            self.raise_bound(forced_moves_bound(self.problem))
        descend_from_all(self.portfolio, home, starts, int(self.request.options["tries"]))
        if self.portfolio.best is None:
            return
        self.anneal(home)
        # few classes of equal key groups: an exact programme takes milliseconds
        if self.value() - self.bound > self.gap and self.is_counted():
            self.count()
        if self.watch.deadline is None:
            return
        if self.problem.num_tasks <= LARGE:
            self.prove(home)
        self.search_on(home)

    def anneal(self, home: Ints) -> None:
        """Anneal before anything is refuted in vain: once, and again where that takes little."""
        for _ in range(RUNS if self.anneals else 0):
            if not self.is_done() and self._annealing <= ANNEALED * self.watch.remaining():
                self._anneal_once(home)

    def _anneal_once(self, home: Ints) -> None:
        began = time.perf_counter()
        self.portfolio.anneal(home)
        self._annealing = time.perf_counter() - began

    @cached_property
    def anneals(self) -> bool:
        """Whether annealing pays: few migrations are allowed, and the problem is not tiny."""
        problem, most = self.problem, self.problem.most_moved
        cells = problem.num_tasks * problem.num_nodes
        return most is not None and most <= FEW and cells > SMALL and problem.num_tasks <= LARGE

    def is_done(self) -> bool:
        """Whether the gap is as small as asked for, or time is up."""
        return self.is_closed() or self.watch.over()

    def is_counted(self) -> bool:
        """Whether so many key groups are equal that exact counts take milliseconds."""
        if not few_classes(self.problem):
            return False
        vectors = count_classes(self.problem).num_vectors
        return self.watch.deadline is not None or vectors <= COUNTED

    def count(self) -> None:
        """Solve exactly by counts of equal key groups."""
        assert self.portfolio.best is not None
        settings = Settings(deadline=self.watch.deadline)
        answer = solve_by_classes(self.problem, settings, [self.portfolio.best])
        if answer is None:
            return
        if answer.placement is not None:
            self.portfolio.take(answer.placement)
        if answer.levels[0].bound is not None:
            self.raise_bound(answer.levels[0].bound - self.problem.same)
        if any(level.termination == "interrupted" for level in answer.levels):
            raise KeyboardInterrupt

    def raise_bound(self, bound: float) -> None:
        """Take in a proven bound."""
        self.bound = self.portfolio.target = max(self.bound, bound)
        self.recorder.note(None, self.bound, phase="prove")

    def value(self) -> float:
        """Load distance of the best placement so far."""
        assert self.portfolio.best is not None
        return self.problem.levels(self.portfolio.best).distance

    def prove(self, home: Ints) -> None:
        """Refute load distances below the best one; `home`: where searches in between begin."""
        from formulations.rebalancing.balance.classes import Refuting

        end = time.perf_counter() + PROOFS * self.watch.remaining()
        turn, owed = itertools.count(), 0.0

        def search(seconds: float) -> float:
            nonlocal owed
            owed += seconds
            if self.anneals and owed < self._annealing:
                return self.value()  # short attempts save up for a run
            until = min(end, time.perf_counter() + owed)
            while time.perf_counter() < until and not self.is_done():
                self.fall(home, next(turn))
            owed = until - time.perf_counter()
            return self.value()

        refuting = Refuting(
            without_switches(self.problem),
            self.bound,
            self.value(),
            self.gap,
            lambda: end - time.perf_counter(),
            self._try_counts,
            search,
            self.raise_bound,
            seed=self.request.seed,
            threads=self.request.threads,
        )
        refuting.run()
        if refuting.interrupted:
            raise KeyboardInterrupt

    def _try_counts(self, placement: Ints) -> float:
        self.portfolio.take(placement)
        self.portfolio.descend(placement, TRIES // 2)
        known = self.value()
        for _ in range(NEAR_RUNS if self.anneals else 0):
            if self.value() == known and not self.is_done():
                self.portfolio.anneal(placement, near=True)
        return self.value()

    def is_closed(self) -> bool:
        """Whether the gap is as small as asked for."""
        return self.value() - self.bound <= self.gap

    def fall(self, home: Ints, turn: int) -> None:
        """Search anew by another seed: from `home` and from the best in turn."""
        assert self.portfolio.best is not None
        from_home = turn % 2 == 0 and self.problem.num_tasks <= LARGE
        if from_home and self.anneals:
            self._anneal_once(home)
        else:
            self.portfolio.descend(home if from_home else self.portfolio.best, TRIES)

    def search_on(self, home: Ints) -> None:
        """Rearrange some nodes exactly and let the level fall anew, in turn."""
        rng = np.random.default_rng(self.request.seed)
        for turn in itertools.count():
            if self.is_done():
                return
            assert self.portfolio.best is not None
            if self.problem.num_tasks <= LARGE:
                seconds = max(0.01, min(SECONDS, self.watch.remaining()))
                better = rearrange(self.problem, self.portfolio.best, self.bound, rng, seconds)
                if better is not None:
                    self.portfolio.take_drained(better)
            if not self.watch.over():
                self.fall(home, turn)


def run(instance: Instance, request: Request) -> Outcome:
    """Rebalance an instance; the method's entry point.

    Raises `UnsuitableMethod`: a task that stands on a staying node may be on leaving ones only.
    """
    request, compiled = request.warmed(warm_up, warm_up_annealing)
    problem = balance_problem(instance, "balance-search")
    if impossible(instance, problem):
        return Outcome(Termination.INFEASIBLE)
    if request.objective == COST:
        return _cheapest(problem, request, compiled)
    recorder = ProgressRecorder("min", request.progress, request.started)
    started = Run(problem, request, recorder)
    warm_starts = () if request.warm_start is None else (request.warm_start.astype(np.int64),)
    try:
        started.go(warm_starts)
    except KeyboardInterrupt:
        started.watch.interrupted = True
    recorder.finish()
    best = started.portfolio.best
    if len(instance.tasks.copied) and best is not None and not started.watch.interrupted:
        settings = Settings(deadline=started.watch.deadline, seed=request.seed)
        started.changes = least_changed(problem, settings, best, place_rules(instance))
        started.portfolio.best = started.changes.placement
    outcome = _outcome(started)
    outcome.times = {"compile": compiled, "solve": request.elapsed()}
    if warm_starts:
        outcome.warm_start_accepted = problem.is_feasible(warm_starts[0])
    return outcome


def _cheapest(problem: BalanceProblem, request: Request, compiled: float) -> Outcome:
    """Look for the cheapest moves within the greatest load distance."""
    recorder = ProgressRecorder("min", request.progress, request.started)
    watch = Watch(request.deadline)
    bound = cost_bound(problem)
    best: list[Ints] = []
    recorder.note(None, bound, phase="prove")

    def take(placement: Ints, cost: float) -> None:
        best.append(placement)
        request.offer(placement.astype(np.int32))
        recorder.note(cost, phase="search")

    warm_starts = () if request.warm_start is None else (request.warm_start.astype(np.int64),)
    try:
        search_cheapest(problem, warm_starts, request.seed, bound, watch, take)
    except KeyboardInterrupt:
        watch.interrupted = True
    recorder.finish()
    termination = Termination.TIME_LIMIT if watch.expired else Termination.ITERATION_LIMIT
    if watch.interrupted:
        termination = Termination.INTERRUPTED
    times = {"compile": compiled, "solve": request.elapsed()}
    if not best:
        note = "the search found no placement that keeps every limit"
        return Outcome(termination, bound=bound, notes=[note], times=times)
    cost = problem.moving_cost(best[-1])
    bound = min(bound, cost)
    if cost <= bound * (1.0 + 1e-9):
        termination = Termination.OPTIMAL
    recorder.settle(cost, bound)
    return Outcome(
        termination, node=best[-1], claimed=cost, bound=bound, trace=recorder.trace, times=times
    )


def _outcome(run: Run) -> Outcome:
    """Report the best placement with all levels, the bound and why the run ended."""
    problem, placement, bound = run.problem, run.portfolio.best, run.bound
    termination = Termination.ITERATION_LIMIT
    if run.watch.interrupted:
        termination = Termination.INTERRUPTED
    elif placement is not None and run.value() - bound <= max(run.gap, problem.optimal_gap):
        termination = Termination.GAP_REACHED
    elif run.watch.expired:
        termination = Termination.TIME_LIMIT
    if placement is None:
        note = "the search found no placement that keeps every limit"
        return Outcome(termination, bound=bound, notes=[note])
    reached = problem.levels(placement)
    bound = min(bound, reached.distance)
    levels = [Level("load_distance", "min", reached.distance, bound, "resource")]
    if problem.has_leaving:
        levels.append(Level("load_on_leaving_nodes", "min", reached.left, None, "resource"))
    sides = Level("sum_of_sides", "min", reached.over + reached.under, None, "resource")
    levels += [reported_level(level) for level in run.changes.levels] or [sides]
    run.recorder.settle(reached.distance, bound)
    return Outcome(
        termination,
        node=placement,
        claimed=reached.distance,
        bound=bound,
        levels=tuple(levels),
        trace=run.recorder.trace,
    )


METHOD = Method(
    name="balance-search",
    family="rebalancing",
    kind="search",
    objective="load_distance",
    run=run,
    summary="Compiled search: small load distance in milliseconds; proofs and more when given time",
    source="ours",
    needs=BALANCE_MILP.needs,
    forms=BALANCE_MILP.forms,
    objectives=("load_distance", COST),
    options=(
        Option(
            "tries", "int", TRIES, "levels of the search that may fail in a row", minimum=1,
            maximum=1_000_000,
        ),
        Option(
            "allow_into_leaving", "bool", False,
            "let key groups move onto leaving nodes; the same as --ignore leaving", drops="leaving",
        ),
    ),
    promises_feasibility=True,
    takes_warm_start=True,
)  # fmt: skip


# Rearrangements of a few nodes by small MILPs, and the cheapest moves that keep a load distance.
#
# Large neighbourhoods: either the worst node and some others, to lie nearer to their shares, or
# the two ends of a migration and some others, to cost less. The cheapest moves are found by goals
# met within ever smaller budgets of cost.

#: Budgets that are tried for a goal, and with all searches; how near to the bound the last one is.
ATTEMPTS, LAST, NEAR = 7, 2, 1.01
#: Beyond this multiple of the bound, up to so many key groups, all searches are asked for less.
FAR, MOST = 1.1, 20_000
#: Rearrangements a node where no time is set, and how many a node may fail in a row.
ROUNDS, FAILURES = 4, 1
PARTNERS = (12, 48)  # Nodes that are looked at for an exchange.


def cost_bound(problem: BalanceProblem) -> float:
    """Return what the moves of every plan within the greatest load distance cost at least.

    Key groups that may not stay, and what nodes outside the distance have to lose and to gain
    (``docs/proofs/forced-moves-bound.md``, step 4).
    """
    alike = without_switches(problem)
    forced = float(alike.least(alike.cost)[alike.must_move].sum()) * (1.0 - 1e-9)
    if problem.max_distance is None or not problem.num_tasks:
        return forced
    needs = Needs(alike)
    return max(forced, needs.least_spent(alike.cost, *needs.outside(problem.most_distance)))


def search_cheapest(
    problem: BalanceProblem,
    starts: tuple[Ints, ...],
    seed: int,
    bound: float,
    watch: Watch,
    take: Callable[[Ints, float], None],
) -> None:
    """Look for plans within the greatest load distance that cost less and less.

    Nodes within the distance are left as they are, so that no more is moved than has to be. Where
    that reaches nothing, the search for a small load distance is asked, until it is small enough.

    `bound`: proven: no plan costs less.
    `take`: called with each plan that is cheaper than those before, and its cost.
    """
    best, cheapest = math.inf, problem.home

    def keep(plan: Ints) -> None:
        """Take a plan if it is cheaper than those before."""
        nonlocal best, cheapest
        cost = problem.moving_cost(plan)
        if cost < best:
            best, cheapest = cost, plan
            take(plan, best)

    def within(budget: float, search: Callable[[BalanceProblem, Ints], Ints | None]) -> bool:
        """Whether a search finds a plan within a budget, some of whose moves are then undone."""
        limited = problem.cost_within(budget)
        plan = search(limited, start_at_home(limited, seed))
        if plan is None or not limited.is_feasible(plan):
            return False
        keep(undone(problem, plan))
        return True

    def bisect(search: Callable[[BalanceProblem, Ints], Ints | None], attempts: int) -> None:
        low, high = bound, min(problem.most_cost, best)
        for attempt in range(attempts):
            if high <= low * NEAR or watch.over():
                return
            budget = high if math.isinf(best) else 0.5 * (low + high)
            if within(budget, search):
                high = best
            elif attempt == 0 and math.isinf(best):
                return
            else:
                low = budget

    for start in (problem.home, *starts):
        within(problem.most_cost, _always(start))
    within(problem.most_cost, lambda limited, home: home)
    small = problem.num_tasks <= MOST
    # goals at the greatest distance within smaller and smaller budgets: first without filling,
    # which moves least, then with
    for fills in (False, True):
        for partners in PARTNERS:
            bisect(_towards_goal(problem, seed, watch, partners, fills), ATTEMPTS)
    # far from the bound, or nothing found: the whole search within less
    if math.isinf(best) or (best > FAR * bound and small):
        bisect(_all_searches(problem, seed, watch, 10 if math.isinf(best) else 1), LAST)
    if small and math.isfinite(best):
        _rearrange(problem, lambda: cheapest, seed, bound, watch, keep)


def undone(problem: BalanceProblem, placement: Ints) -> Ints:
    """Return a plan without the migrations that it does not need, the dearest undone first."""
    moved = np.flatnonzero(problem.rules.migrates(placement) & ~problem.must_move)
    home = problem.home[moved]
    rise = problem.node_load(placement)[home] + problem.load[moved] - problem.share[home]
    use = problem.node_usage(placement)[home] + problem.usage[moved]
    # only those whose return alone keeps distance and capacities of their home
    fits = (rise <= problem.most_distance) & (use <= problem.headroom[home]).all(axis=1)
    moved, result = moved[fits], placement.copy()
    for k in moved[np.argsort(-problem.cost[moved], kind="stable")].tolist():
        result[k] = problem.home[k]
        if not problem.is_feasible(result):
            result[k] = placement[k]
    return result


def _rearrange(
    problem: BalanceProblem,
    cheapest: Callable[[], Ints],
    seed: int,
    bound: float,
    watch: Watch,
    keep: Callable[[Ints], None],
) -> None:
    """Arrange a few nodes after the other exactly, until too many in a row cost no less."""
    rng, n, failed = np.random.default_rng(seed), problem.num_nodes, 0
    for turn in itertools.count():
        cost = problem.moving_cost(cheapest())
        if cost <= bound * NEAR or failed >= FAILURES * n or watch.over():
            return
        if watch.deadline is None and turn == ROUNDS * n:
            return
        left = None if watch.deadline is None else min(SECONDS, watch.remaining())
        cheaper = cheapen(problem, cheapest(), rng, left)
        failed = failed + 1 if cheaper is None else 0
        if cheaper is not None:
            keep(undone(problem, cheaper))


def _always(start: Ints) -> Callable[[BalanceProblem, Ints], Ints | None]:
    return lambda limited, home: start


def _towards_goal(
    problem: BalanceProblem, seed: int, watch: Watch, partners: int, fills: bool
) -> Callable[[BalanceProblem, Ints], Ints | None]:
    def search(limited: BalanceProblem, home: Ints) -> Ints:
        goal = problem.most_distance
        aimed = GoalSearch(limited, home, seed, watch)
        aimed.attempt(goal if math.isfinite(goal) else problem.mean, partners, fills=fills)
        return aimed.placement()

    return search


def _all_searches(
    problem: BalanceProblem, seed: int, watch: Watch, tries: int
) -> Callable[[BalanceProblem, Ints], Ints | None]:
    def search(limited: BalanceProblem, home: Ints) -> Ints | None:
        free = replace(limited, max_distance=None)
        portfolio = Portfolio(free, seed, problem.most_distance * (1.0 - 1e-9), watch)
        run_portfolio(portfolio, (), tries)
        return portfolio.best

    return search


#: Nodes rearranged together, key groups that may change place, and seconds for each MILP.
NODES, FREE, SECONDS = 4, 120, 0.5

BRANCHES, GAP = 3, 0.01  # Branch-and-bound nodes, and the gap, of a MILP that looks for less cost.
LESS = 1e-6  # By how much (a factor) a cheaper arrangement has to cost less.


class Part(NamedTuple):
    """What one MILP decides: some nodes and those of their key groups that may change place."""

    nodes: Ints
    tasks: Ints


def rearrange(
    problem: BalanceProblem,
    placement: Ints,
    target: float,
    rng: np.random.Generator,
    seconds: float = SECONDS,
) -> Ints | None:
    """Return a placement in which the worst node and some others lie nearer; ``None`` if not found.

    `target`: a proven lower bound of the load distance.
    `rng`: draws the other nodes and, on nodes with many key groups, which of them may change place.
    """
    deviation = problem.node_load(placement) - problem.share
    breach = np.where(problem.leaving, np.maximum(deviation, 0.0), np.abs(deviation))
    part = _choose(problem, placement, deviation, breach, rng)
    if len(part.tasks) == 0 or len(part.nodes) < 2:
        return None
    now = float(breach[part.nodes].max())
    built, place, _ = _build(problem, placement, part, min(target, now), now)
    answer = solve_small_milp(built, seconds)
    if answer.x is None or answer.objective is None or answer.objective >= now * (1.0 - 1e-9):
        return None
    return _read(problem, placement, part, answer.x[place])


def cheapen(
    problem: BalanceProblem, placement: Ints, rng: np.random.Generator, seconds: float | None
) -> Ints | None:
    """Return a placement in which a few nodes are arranged at less cost; ``None`` if not found.

    `problem`, `placement`: what is rebalanced, and a feasible placement in which something
        migrates.
    `rng`: draws the migration, the nodes beside its ends, and which of their key groups may change
        place: those that migrate before others.
    `seconds`: limit of the MILP; ``None`` for none, its branches are counted anyway.
    """
    migrates = problem.rules.migrates(placement)
    part = _around_a_migration(problem, placement, migrates, rng)
    total = float(problem.load.sum() + problem.background.sum() + problem.share.max())
    most = min(problem.most_distance, total)
    built, place, price = _build(problem, placement, part, most, most)
    now = float(problem.cost[part.tasks[migrates[part.tasks]]].sum())
    if now <= 0.0:
        return None
    built.set_objective(place, price)
    built.add_rows("cheaper", -np.inf, now * (1.0 - LESS), 0, place, price, num_rows=1)
    answer = solve_small_milp(built, seconds, GAP, BRANCHES)
    return None if answer.x is None else _read(problem, placement, part, answer.x[place])


def _read(problem: BalanceProblem, placement: Ints, part: Part, x: Floats) -> Ints | None:
    """Return the placement that a part's binaries stand for, if it keeps every limit."""
    chosen = np.argmax(x.reshape(len(part.tasks), len(part.nodes)), axis=1)
    result = placement.copy()
    result[part.tasks] = part.nodes[chosen]
    return result if problem.is_feasible(result) else None


def _around_a_migration(
    problem: BalanceProblem, placement: Ints, migrates: Bools, rng: np.random.Generator
) -> Part:
    """Take the ends of a migration, random nodes, and what migrates among them before others."""
    k = int(rng.choice(np.flatnonzero(migrates)))
    candidates = [
        int(placement[k]),
        int(problem.home[k]),
        *rng.permutation(problem.num_nodes).tolist(),
    ]
    nodes = np.array(list(dict.fromkeys(candidates))[:NODES], dtype=np.int64)
    tasks = np.flatnonzero(np.isin(placement, nodes))
    shuffled = rng.permutation(tasks)
    first = np.argsort(placement[shuffled] == problem.home[shuffled], kind="stable")
    return Part(nodes, np.sort(shuffled[first][:FREE]))


def _choose(
    problem: BalanceProblem, placement: Ints, deviation: Floats, breach: Floats,
    rng: np.random.Generator,
) -> Part:  # fmt: skip
    """Take the worst node, one far off on the other side, and random ones."""
    worst = int(breach.argmax())
    n = problem.num_nodes
    other = np.argsort(deviation * np.sign(deviation[worst]))[: max(2, n // 4)]
    candidates = [worst, int(rng.choice(other)), *rng.permutation(n)[:NODES].tolist()]
    nodes = np.array(list(dict.fromkeys(candidates))[:NODES], dtype=np.int64)
    tasks = np.flatnonzero(np.isin(placement, nodes))
    if len(tasks) > FREE:
        tasks = np.sort(rng.choice(tasks, FREE, replace=False))
    return Part(nodes, tasks)


def _build(
    problem: BalanceProblem, placement: Ints, part: Part, least: float, now: float
) -> tuple[LinearModel, Ints, Floats]:
    """Minimise the greatest breach among the nodes of a part, between `least` and `now`."""
    # return the model, its binaries, and what each of these costs
    nodes, tasks = part
    t, s = len(tasks), len(nodes)
    model = LinearModel("rearrange")
    may = problem.may_be_rows(tasks)[:, nodes].astype(np.float64)
    x = model.add_variables("x", (t, s), upper=may, integer=True)
    d = model.add_variables("d", 1, lower=least, upper=now, objective=1.0)
    row, column = np.repeat(np.arange(t), s), np.tile(np.arange(s), t)
    binaries = x.indices.ravel()
    model.add_rows("once", 1.0, 1.0, row, binaries, 1.0, num_rows=t)
    away = problem.rules.pays(np.repeat(tasks, s), np.tile(nodes, t)).astype(np.float64)
    # Σ_j x_kj = 1 for the chosen key groups; budgets less what the others take already
    others = np.ones(problem.num_tasks, dtype=np.bool_)
    others[tasks] = False
    moved = others & problem.rules.migrates(placement)
    for budget, most in zip(problem.budgets, problem.budget.tolist(), strict=True):
        left = most - float(budget.weight[moved].sum())
        taken = away * np.repeat(budget.weight[tasks], s)
        model.add_rows(budget.name, -np.inf, left, 0, binaries, taken, num_rows=1)
    price = away * np.repeat(problem.cost[tasks], s)
    node_of_others = placement[others]
    fixed = problem.background + np.bincount(
        node_of_others, problem.load[others], problem.num_nodes
    )
    # (3) Σ load·x − d ≤ room and (4) Σ load·x + d ≥ room, of the chosen nodes
    room = (problem.share - fixed)[nodes]
    load = np.repeat(problem.load[tasks], s)
    chosen_load, every = (column, binaries, load), np.arange(s)
    model.add_sum("above", -np.inf, room, s, chosen_load, (every, d.start, -1.0))
    floor = np.where(problem.leaving[nodes], -np.inf, room)
    model.add_sum("below", floor, np.inf, s, chosen_load, (every, d.start, 1.0))
    # capacities and least loads of the chosen nodes, less what is there already
    for e in range(problem.num_resources):
        used = np.bincount(node_of_others, problem.usage[others, e], problem.num_nodes)[nodes]
        ceiling = problem.headroom[nodes, e] - used
        least_use = np.where(problem.floor[nodes, e] > 0, problem.floor[nodes, e] - used, -np.inf)
        least_use = np.where(problem.leaving[nodes], -np.inf, least_use)
        usage = np.repeat(problem.usage[tasks, e], s)
        model.add_rows(f"use_{e}", least_use, ceiling, column, binaries, usage, num_rows=s)
    if problem.rules.restrict:
        ones, base = np.ones(t * s), np.where(others, placement, -1)
        where = Whereabouts(np.repeat(tasks, s), np.tile(nodes, t), binaries, ones, base)
        add_rule_rows(model, problem.rules, where)
    return model, binaries, price
