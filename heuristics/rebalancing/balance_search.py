"""`balance-search`: compiled search for a small load distance within the budget, with a bound.

Without a time limit only counted iterations end it. With one, what the search leaves of it goes
into proofs (distances refuted by small MILPs), and then into further searches, by seed and by
large neighbourhoods, until the time is up or the gap is closed.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from formulations.rebalancing.balance.classes import count_classes, few_classes, solve_by_classes
from formulations.rebalancing.balance.milp import METHOD as BALANCE_MILP
from formulations.rebalancing.balance.milp import least_changed, told_level
from formulations.rebalancing.balance.model import BalanceAnswer, Settings
from formulations.rebalancing.balance.search import (
    TRIES,
    Portfolio,
    by_exchanges,
    descend_from_all,
    start_at_home,
    warm_up,
)
from formulations.rebalancing.bound import (
    forced_moves_bound,
    impossible,
    touched_bound,
    without_switches,
)
from formulations.rebalancing.problem import Watch, balance_problem
from optim.kernels.place_rules import place_rules
from optim.methods.registry import Method, Option, Outcome
from optim.referee.result import Level, Termination
from optim.util.progress import ProgressRecorder

if TYPE_CHECKING:
    from formulations.rebalancing.problem import BalanceProblem, Ints
    from optim.format.instance import Instance
    from optim.methods.registry import Request

#: Share of the time left after the search that proofs may take.
PROOFS = 0.6

#: Vectors of counts up to which equal key groups are counted without a time limit too.
COUNTED = 5_000

#: Beyond this many key groups neither proofs by MILPs nor large neighbourhoods pay.
LARGE = 50_000

#: The objective that asks for the cheapest moves which keep ``max_load_distance``.
COST = "migration_cost"


class Run:
    """One run on the method's clock: the portfolio, the proven bound, and what is reported
    of both.
    """

    def __init__(
        self, problem: BalanceProblem, request: Request, recorder: ProgressRecorder
    ) -> None:
        self.problem, self.request, self.recorder = problem, request, recorder
        self.watch = Watch(
            request.deadline,
            lambda value: recorder.note(value, phase="search"),
            request.offer,
        )
        self.bound = 0.0
        self.portfolio = Portfolio(problem, request.seed, 0.0, self.watch)
        self.changes = BalanceAnswer()
        self.gap = problem.optimal_gap if request.gap is None else request.gap

    def go(self, starts: tuple[Ints, ...]) -> None:
        """Search, then prove and search on as long as there is time."""
        home = start_at_home(self.problem, self.request.seed)
        exchanged = by_exchanges(self.problem)
        if exchanged is not None:  # what costs nothing comes first: copies have to be better
            starts = (exchanged, *starts)
        for start in (home, *starts):
            self.portfolio.take(start)
        found = self.portfolio.take_modelled()
        home = found if found is not None and not self.problem.is_feasible(home) else home
        # the quick bound first: it ends the bisection on many instances
        self.raise_bound(touched_bound(self.problem))
        self.portfolio.aim_at_goals(home)
        if not self.watch.over():
            self.raise_bound(forced_moves_bound(self.problem))
        descend_from_all(self.portfolio, home, starts, int(self.request.options["tries"]))
        if self.portfolio.best is None:
            return
        # few classes of equal key groups: an exact programme takes milliseconds
        if self.value() - self.bound > self.gap and self.is_counted():
            self.count()
        if self.watch.deadline is None:
            return
        if self.problem.num_tasks <= LARGE:
            self.prove()
        self.search_on()

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

    def prove(self) -> None:
        """Refute load distances below the best one."""
        from formulations.rebalancing.balance.classes import Refuting

        end = time.perf_counter() + PROOFS * self.watch.remaining()
        refuting = Refuting(
            without_switches(self.problem),
            self.bound,
            self.value(),
            self.gap,
            lambda: end - time.perf_counter(),
            self._try_counts,
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
        return self.value()

    def search_on(self) -> None:
        """Rearrange some nodes exactly and let the level fall anew, in turn."""
        from heuristics.rebalancing.cheapest import SECONDS, rearrange

        rng = np.random.default_rng(self.request.seed)
        while self.value() - self.bound > self.gap and not self.watch.over():
            best = self.portfolio.best
            assert best is not None
            for _ in range(10 if self.problem.num_tasks <= LARGE else 0):
                seconds = min(SECONDS, self.watch.remaining())
                better = rearrange(self.problem, best, self.bound, rng, max(0.01, seconds))
                if better is not None:
                    self.portfolio.take_drained(better)
                    best = better
                if self.watch.over():
                    return
            self.portfolio.descend(best, TRIES)


def run(instance: Instance, request: Request) -> Outcome:
    """Rebalance an instance; the method's entry point.

    Raises
    ------
    UnsuitableMethod
        A task that stands on a staying node may be on leaving ones only.
    """
    request, compiled = request.warmed(warm_up)
    problem = balance_problem(instance, "balance-search")
    if impossible(instance, problem):
        return Outcome(Termination.INFEASIBLE)
    if request.objective == COST:
        return _cheapest(problem, request, compiled)
    recorder = ProgressRecorder("min", request.progress, request.started)
    started = Run(problem, request, recorder)
    given = () if request.warm_start is None else (request.warm_start.astype(np.int64),)
    try:
        started.go(given)
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
    if given:
        outcome.warm_start_accepted = problem.is_feasible(given[0])
    return outcome


def _cheapest(problem: BalanceProblem, request: Request, compiled: float) -> Outcome:
    """Look for the cheapest moves within the greatest load distance."""
    from heuristics.rebalancing.cheapest import cost_bound, search_cheapest

    recorder = ProgressRecorder("min", request.progress, request.started)
    watch = Watch(request.deadline)
    bound = cost_bound(problem)
    best: list[Ints] = []
    recorder.note(None, bound, phase="prove")

    def take(placement: Ints, cost: float) -> None:
        best.append(placement)
        request.offer(placement.astype(np.int32))
        recorder.note(cost, phase="search")

    given = () if request.warm_start is None else (request.warm_start.astype(np.int64),)
    try:
        search_cheapest(problem, given, request.seed, bound, watch, take)
    except KeyboardInterrupt:
        watch.interrupted = True
    recorder.finish()
    why = Termination.TIME_LIMIT if watch.expired else Termination.ITERATION_LIMIT
    if watch.interrupted:
        why = Termination.INTERRUPTED
    times = {"compile": compiled, "solve": request.elapsed()}
    if not best:
        note = "the search found no placement that keeps every limit"
        return Outcome(why, bound=bound, notes=[note], times=times)
    cost = problem.moving_cost(best[-1])
    bound = min(bound, cost)
    if cost <= bound * (1.0 + 1e-9):
        why = Termination.OPTIMAL
    recorder.settle(cost, bound)
    return Outcome(why, node=best[-1], claimed=cost, bound=bound, trace=recorder.trace, times=times)


def _outcome(run: Run) -> Outcome:
    """Report the best placement with all levels, the bound and why the run ended."""
    problem, placement, bound = run.problem, run.portfolio.best, run.bound
    why = Termination.ITERATION_LIMIT
    if run.watch.interrupted:
        why = Termination.INTERRUPTED
    elif placement is not None and run.value() - bound <= max(run.gap, problem.optimal_gap):
        why = Termination.GAP_REACHED
    elif run.watch.expired:
        why = Termination.TIME_LIMIT
    if placement is None:
        note = "the search found no placement that keeps every limit"
        return Outcome(why, bound=bound, notes=[note])
    reached = problem.levels(placement)
    bound = min(bound, reached.distance)
    levels = [Level("load_distance", "min", reached.distance, bound, "resource")]
    if problem.has_leaving:
        levels.append(Level("load_on_leaving_nodes", "min", reached.left, None, "resource"))
    sides = Level("sum_of_sides", "min", reached.over + reached.under, None, "resource")
    levels += [told_level(level) for level in run.changes.levels] or [sides]
    run.recorder.settle(reached.distance, bound)
    return Outcome(
        why,
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
