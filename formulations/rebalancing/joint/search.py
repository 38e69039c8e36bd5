"""Search for collocated traffic under a load-distance cap.

Rounds of annealing, small models over the best columns of the relaxation, and models of a few nodes
around the best placement.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from formulations.rebalancing.balance.search import TRIES, Portfolio, changing_part
from formulations.rebalancing.joint.pricing import complete_tasks, price_places
from formulations.rebalancing.joint.problem import (
    JointAim,
    all_places,
    backbone_of,
    build_joint,
    collocation_bound,
    columns_of,
    pruned_places,
)
from formulations.rebalancing.problem import Timed, Watch, writable
from optim.errors import SolverError
from optim.solvers import solve_linear
from optim.solvers.inprocess import dual_bound, solve_lp, solve_small_milp
from optim.util.compiled import warming

if TYPE_CHECKING:
    from collections.abc import Callable

    from formulations.rebalancing.joint.kernel import Arcs, JointFixed
    from formulations.rebalancing.joint.problem import JointModel, JointProblem
    from formulations.rebalancing.problem import Bools, Floats, Ints
    from optim.solvers.inprocess import SmallMilpSolution


#: Steps of the first round and how many rounds by default; each round is twice as long.
FIRST_ROUND, ROUNDS = 200_000, 4

#: Steps in one call of the kernel: between calls the clock and Ctrl-C are looked at. With more than
#: so many pairs a key group a step takes longer, and a call has fewer.
SLICE, PAIRS = 50_000, 8

#: Steps that are made whatever the clock says, some milliseconds: a busy machine takes no plan.
SURE = 2_000

NOTHING = -1e300  # Value of no placement: finite, since the kernel adds a part of it to it.

#: Times that a round which ends outside the cap goes on for a third of its steps, cold and dear.
TAILS = 2


@dataclass
class AnnealingResult:
    """What a search found."""

    placement: Ints | None = None  # Best feasible one, ``None`` if there is none.
    value: float = -math.inf  # Its collocated traffic, or minus the load left on leaving nodes.
    steps: int = 0  # Proposals tried.
    interrupted: bool = False  # Whether Ctrl-C ended it.


def search_joint(
    problem: JointProblem,
    starts: tuple[Ints, ...],
    seed: int = 0,
    *,
    target: float = math.inf,
    rounds: int = ROUNDS,
    first: int = FIRST_ROUND,
    deadline: float | None = None,
    for_left: bool = False,
    arcs: Arcs | None = None,
    warm: bool = False,
) -> AnnealingResult:
    """Return the best feasible placement found.

    `starts`: placements within the budgets and allowed sets; loads may exceed their limits.
        Feasible ones are never lost.
    `target`: value at which to stop: a proven bound.
    `rounds`, `first`: rounds of annealing and steps of the first; each next one has twice as many.
    `deadline`: ``time.perf_counter()`` value; ``None`` for none.
    `arcs`: promising moves; those to the homes of partners by default.
    `for_left`: empty leaving nodes instead of collocating.
    `warm`: begin less hot: for starts that are good but for what they exceed.
    """
    from formulations.rebalancing.joint.kernel import Cooling, anneal

    result, guide = AnnealingResult(), problem.by_pairs
    fixed = fixed_part(guide)
    best = np.zeros(problem.balance.num_tasks, np.int64)
    for start in starts:
        _keep(problem, result, start, for_left)
    best_guide = NOTHING if result.placement is None else guide.value(result.placement, for_left)
    if not starts or problem.balance.num_tasks == 0:
        return result
    hot, cold, price = _temperatures(guide, for_left)
    arcs = partner_arcs(problem) if arcs is None else arcs
    seeds = np.random.default_rng(seed)
    number = 0
    crowd = guide.num_pairs / (PAIRS * problem.balance.num_tasks)
    calls = max(1, int(SLICE / max(1.0, crowd)))
    try:
        while number < rounds:
            steps = first * 2 ** min(number, 6)
            # rounds go on from the best, every third one from the first start; every second one is
            # cooler
            place = starts[number % len(starts)] if result.placement is None else result.placement
            place = starts[0] if number % 3 == 2 else place
            heat = hot if number % 2 == 0 and not warm else math.sqrt(hot * cold)
            done, now_price, outside = 0, price, False
            while done < steps or (outside and done < steps + TAILS * (steps // 3)):
                sure = SURE - result.steps
                if result.value >= target or (sure <= 0 and _over(deadline)):
                    return result
                slice_ = min(calls, steps - done if done < steps else max(1, steps // 3))
                slice_ = slice_ if deadline is None or sure <= 0 else min(slice_, sure)
                begin, end = min(1.0, done / steps), min(1.0, (done + slice_) / steps)
                best_value = max(result.value, NOTHING) if guide is problem else best_guide
                place, value, now_price, _ = anneal(
                    fixed, changing_part(problem.balance, place), arcs,
                    int(seeds.integers(1, 2**62)), best, best_value, slice_,
                    Cooling(heat, cold, begin, end), now_price, for_left,
                )  # fmt: skip
                done += slice_
                result.steps += slice_
                if value > best_value:
                    best_guide = value
                    _keep(problem, result, best, for_left)
                if guide is not problem:
                    _keep(problem, result, place, for_left)
                outside = done >= steps and not for_left and _is_outside(problem, place)
                if outside:
                    _keep(problem, result, _levelled(problem, place, seed, deadline), for_left)
            number += 1
    except KeyboardInterrupt:
        result.interrupted = True
    return result


def make_arcs(problem: JointProblem, task: Ints, node: Ints, scores: Floats) -> Arcs:
    """Return moves as arcs, the worthiest first; of equal ones the first stays."""
    from formulations.rebalancing.joint.kernel import Arcs

    home = problem.balance.home
    order = np.lexsort((node, task, -scores))
    _, first = np.unique(np.column_stack([task, node])[order], axis=0, return_index=True)
    order = order[np.sort(first)]
    by_home = np.argsort(home[task[order]], kind="stable")
    best = np.argsort(by_home, kind="stable")
    counts = np.bincount(home[task[order]], minlength=problem.balance.num_nodes)
    start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    chosen = order[by_home]
    return Arcs(start, task[chosen], node[chosen], best)


def partner_arcs(problem: JointProblem) -> Arcs:
    """Return the moves to the homes of partners, by the traffic with all partners there."""
    problem = problem.by_pairs
    home, apart = problem.balance.home, problem.apart
    task = np.concatenate([problem.source[apart], problem.target[apart]])
    node = home[np.concatenate([problem.target[apart], problem.source[apart]])]
    scores = np.concatenate([problem.rate[apart], problem.rate[apart]])
    return make_arcs(problem, task, node, scores)


def _is_outside(problem: JointProblem, place: Ints) -> bool:
    return problem.balance.levels(place).distance > problem.balance.most_distance


def _levelled(problem: JointProblem, place: Ints, seed: int, deadline: float | None) -> Ints:
    """Return where annealing ended, its loads brought within the cap where that can be done."""
    # with a tight cap and few moves annealing mostly ends just outside: it may see no feasible
    # placement at all, though a few exchanges from its end there is one with most of the traffic
    watch, free = Watch(deadline=deadline), replace(problem.balance, max_distance=None)
    portfolio = Portfolio(free, seed, problem.cap, watch)
    portfolio.descend(place, TRIES)
    return place if portfolio.best is None else portfolio.best


def _over(deadline: float | None) -> bool:
    return deadline is not None and time.perf_counter() >= deadline


def _keep(problem: JointProblem, result: AnnealingResult, placement: Ints, for_left: bool) -> None:
    """Keep a placement if our own count agrees that it is feasible and better."""
    if problem.is_feasible(placement):
        value = problem.value(placement, for_left)
        if value > result.value:
            result.value, result.placement = value, placement.copy()


def _temperatures(problem: JointProblem, for_left: bool) -> tuple[float, float, float]:
    """Return the first and last temperature, and the first price of a unit of excess."""
    loads = problem.balance.load
    load = float(loads.mean()) if loads.any() else 1.0
    if for_left:
        return load, 0.01 * load, 2.0
    rate = float(problem.rate.mean()) if problem.num_pairs and problem.total > 0 else 1.0
    return 0.5 * rate, 0.02 * rate, 2.0 * rate / load


def fixed_part(problem: JointProblem) -> JointFixed:
    """Return the arrays that the kernel reads."""
    from formulations.rebalancing.joint.kernel import JointFixed

    balance = problem.balance
    mean_use = balance.usage.mean(axis=0) if balance.num_tasks else np.zeros(balance.num_resources)
    load = float(balance.load.mean()) if balance.num_tasks else 1.0
    unit = np.where(mean_use > 0, (load or 1.0) / np.where(mean_use > 0, mean_use, 1.0), 1.0)
    start, partner, rate = problem.adjacency
    return JointFixed(
        writable(balance.load),
        balance.counted_budgets[0],
        writable(balance.home),
        writable(balance.leaving),
        writable(balance.usage),
        unit,
        load or 1.0,
        writable(balance.row_of),
        writable(balance.must_move),
        writable(balance.allowed_indptr),
        writable(balance.allowed_nodes),
        writable(start),
        writable(partner),
        writable(rate),
        writable(problem.source),
        writable(problem.target),
        balance.into_leaving,
        balance.most_distance,
        problem.most_left,
    )


@warming
def warm_up() -> None:
    """Compile the kernel, or load it from the disk: once a process."""
    from formulations.rebalancing.joint.problem import JointProblem
    from formulations.rebalancing.problem import plain_problem

    tiny = plain_problem([1.0, 1.0, 1.0], [0, 0, 2], 3, leaving=[2])
    ends = np.array([0, 1], np.int64), np.array([1, 2], np.int64)
    search_joint(JointProblem(tiny, *ends, np.ones(2)), (tiny.home,), rounds=1, first=8)


LP_PLACES = 400_000  # Relaxations of more promising columns take longer than they help.

#: Key groups and pairs times nodes up to which the relaxation has all places from the start, and up
#: to which models have all of them where that is needed; key groups times nodes beyond which there
#: is no relaxation.
AT_ONCE, WHOLE_PLACES, MAX_PLACES = 30_000, 1_000_000, 40_000_000

SPREAD = 4  # Key groups of so many of the fullest nodes are offered so many of the emptiest ones.

#: (columns at least, columns for each one in the LP's solution, relative gap, nodes) of the models.
KERNELS = ((600, 8, 0.05, 20), (800, 9, 0.01, 50))

#: Of models of a few nodes: columns that are free at first, at most, and factors by which they
#: grow or shrink; relative gap and branch-and-bound nodes; models of one phase, and in a row
#: without gain at which it stops.
FREE, MOST_FREE, GROWS, SHRINKS = 200, 1_500, 1.1, 0.8
NEAR, NEAR_NODES, MODELS, PATIENCE = 1e-3, 20, 24, 5

#: Columns that these models know, the most promising ones, for each one in the LP's solution.
KNOWN = 45

PLAIN_ROUNDS = 3  # Rounds of annealing where there are no small models beside it.

#: Steps for each task and node that a first round has, where these are fewer than asked for: of the
#: few placements of a small problem all good ones are met.
STEPS_A_PLACE = 100

#: Steps without a better placement, for each key group times key groups and nodes, after which a
#: search ends: of few key groups it does not use all the time that there is.
IDLE_STEPS = 1_000

#: Steps on the strong pairs alone for each one on all pairs, which takes several times as long.
POLISHING = 8

#: Share of the time left in which a model of all places bounds, after the first small models;
#: seconds for each of its places without which it would not come to that.
PROVING, EACH = 0.8, 1e-4

#: Longest single model while the clock runs, or a quarter of what is left; longest of a few nodes.
LONGEST, SHORT = 8.0, 2.0

#: With less than this share of what the relaxation promises, annealing along its moves has missed
#: what balances and collocates at once: it begins again from so many roundings of the relaxation.
POOR, ROUNDINGS = 0.75, 3

SAME = 1e-9  # Share of a pair's gain below which two values are the same.


@dataclass
class SearchResult:
    """What is known of a problem so far."""

    #: Best feasible placement, and its collocated traffic (or minus the load left).
    placement: Ints | None = None
    value: float = -math.inf
    bound: float = math.inf  # Proven upper bound of the whole problem.
    infeasible: bool = False  # Whether the relaxation of the whole problem has no solution.
    #: The last relaxation, and the model behind it.
    built: JointModel | None = None
    relaxed: Relaxed | None = None
    interrupted: bool = False  # Whether Ctrl-C ended it.
    #: (seconds, value, bound).
    trace: list[tuple[float, float | None, float | None]] = field(default_factory=list)
    #: Proposals and calls of the annealing; small models solved.
    steps: int = 0
    anneals: int = 0
    kernels: int = 0

    @property
    def closed(self) -> bool:
        """Whether the value meets the bound."""
        return self.value >= self.bound - SAME * max(1.0, abs(self.bound))


@dataclass(frozen=True)
class Effort(Timed):
    """How much to do."""

    #: Rounds of annealing, at least `PLAIN_ROUNDS` without small models; steps of the first.
    rounds: int = 1
    first: int = 30_000
    kernels: tuple[tuple[int, int, float, int], ...] = KERNELS  # Small models, as `KERNELS`.
    #: Whether relaxations are solved at all; without, pairs by their traffic say what is worth
    #: trying, there are no small models, and counting bounds.
    relaxing: bool = True


def find(
    problem: JointProblem,
    starts: list[Ints],
    effort: Effort,
    *,
    for_left: bool = False,
    go_on: bool = False,
    report: Callable[[float | None, float | None], None] | None = None,
) -> SearchResult:
    """Find a good placement and a bound of the whole problem.

    `starts`: placements within budgets and allowed sets, whatever their loads.
    `for_left`: empty leaving nodes instead of collocating.
    `go_on`: whether to use all the time there is.
    `report`: called with value and bound at every change.
    """
    finding = _Finding(problem, starts, effort, for_left, report)
    try:
        finding.go(go_on)
    except KeyboardInterrupt:
        finding.result.interrupted = True
    return finding.result


class _Finding:
    """One search, with the arguments of `find`, and what is known so far."""

    def __init__(
        self,
        problem: JointProblem,
        starts: list[Ints],
        effort: Effort,
        for_left: bool,
        report: Callable[[float | None, float | None], None] | None,
    ) -> None:
        self.problem, self.starts, self.for_left, self.report = problem, starts, for_left, report
        self.backbone = backbone_of(problem)
        #: What models are built of, and annealing mostly works on.
        self.core = self.backbone.problem
        #: Whether there is annealing only, beside what bounds.
        self.plain = self.core.is_dense or not effort.relaxing
        if self.plain:
            effort = replace(effort, rounds=max(effort.rounds, PLAIN_ROUNDS), kernels=())
        self.effort = effort
        self.rng, self.free = np.random.default_rng(effort.seed), float(FREE)
        balance = self.core.balance
        #: Key groups and products times nodes; (T, N) places of the last relaxation, and whether
        #: these are all, so that its models bound.
        self.size = (balance.num_tasks + self.core.num_products) * balance.num_nodes
        self.places: Bools | None = None
        self.whole = False
        self.steps_of_best = 0  # Proposals tried when the best placement was found.
        self.result = SearchResult(bound=-0.0 if for_left else collocation_bound(problem))

    def go(self, go_on: bool) -> None:
        """Search and bound; with `go_on`, until the time is up."""
        result, effort = self.result, self.effort
        for start in self.starts:
            self.take(start)
        if self.plain:
            self.search(0)
        if effort.relaxing and not (result.closed or result.interrupted or effort.over):
            self.relax()
        if result.closed or result.infeasible or result.interrupted:
            return
        if not self.plain:
            if self.size > AT_ONCE:
                self.search(1)
            if result.kernels > 0:
                self.improve()
            self.search(len(effort.kernels))
        if go_on:
            self.go_on()

    def relax(self, *, bounding: bool = True) -> None:
        """Solve the relaxation over places worth trying; others join while they may win.

        So it bounds, unless `bounding` is not asked for and no other place is looked at.
        """
        result, core, effort = self.result, self.core, self.effort
        every, tasks = np.arange(core.balance.num_tasks), core.balance.num_tasks
        if tasks * core.balance.num_nodes > MAX_PLACES or core.num_products > LP_PLACES:
            return
        allowed, best = all_places(core.balance), result.placement
        also = (*self.starts, *([] if best is None else [best]))
        if self.places is None and self.size <= AT_ONCE:
            self.places = allowed.copy()
        elif self.places is None:
            self.places = pruned_places(core, SPREAD, also)
            complete = complete_tasks(core)
            self.places[complete] = allowed[complete]
        places, bringing = self.places, True
        for placement in also:
            places[every, placement] |= allowed[every, placement]
        while True:
            self.whole = places.sum() == allowed.sum()
            most = WHOLE_PLACES if self.whole else LP_PLACES
            if places.sum() > most or len(columns := columns_of(core, places)) > most:
                return
            built = self.backbone.build(columns, self.aim())
            relaxed = relax(built, effort.remaining())
            if not self.whole and (len(columns) == 0 or (relaxed is not None and relaxed.is_empty)):
                places[:] = allowed
                continue
            if relaxed is None or relaxed.is_empty:
                result.infeasible = relaxed is not None and result.placement is None
                return
            result.built, result.relaxed, bound, number = built, relaxed, relaxed.bound, 0
            if not self.whole:
                if not bounding:
                    return
                known = KNOWN * int((relaxed.scores > 0.5).sum()) if effort.kernels else 0
                known = max(0, known - len(columns))
                priced = price_places(
                    self.backbone, built, relaxed.duals, places, allowed, known + len(columns),
                    left=self.for_left, ends=effort.deadline,
                )  # fmt: skip
                if priced is None:
                    return
                bound = relaxed.proven + priced.more
                # models of a few nodes know more places, which come with the first that may win
                number = max(int((priced.gain > NONE).sum()), known if bringing else 0)
                places[priced.task[:number], priced.node[:number]], bringing = True, False
            result.bound = max(result.value, min(result.bound, bound))
            self.note()
            if number == 0:
                return

    def aim(self) -> JointAim:
        """Return what the models maximise."""
        return JointAim("left" if self.for_left else "traffic")

    def search(self, kernels: int) -> None:
        """Anneal along promising moves, then solve the small models not solved yet."""
        result, effort, arcs = self.result, self.effort, self.arcs()
        if result.kernels == 0:
            self.anneal(arcs)
        for least, times, gap, nodes in effort.kernels[result.kernels : kernels]:
            if result.closed or effort.over or result.interrupted or result.relaxed is None:
                return
            result.kernels += 1
            self.solve_small(self.small(least, times), gap, nodes)
            if result.kernels == 1 and self.is_poor:
                self.round_relaxed(arcs)
            self.anneal(arcs)
            if result.kernels > 1:
                self.improve()

    @property
    def is_poor(self) -> bool:
        """Whether little is collocated, and rounding may help."""
        result = self.result
        if self.for_left or result.relaxed is None or self.core.balance.rules.restrict:
            return False
        return result.value < POOR * result.relaxed.bound

    def round_relaxed(self, arcs: Arcs) -> None:
        """Anneal from what the relaxation is when rounded."""
        result, effort, core = self.result, self.effort, self.core
        if result.built is None or result.relaxed is None:
            return
        rng = np.random.default_rng(effort.seed)
        for _ in range(ROUNDINGS):
            if effort.over or result.interrupted:
                return
            start = rounded(result.built, result.relaxed, rng)
            self.anneal_on(core, arcs, 1, effort.first, start)

    def improve(self) -> None:
        """Solve models of a few nodes, all else staying, until several in a row win nothing."""
        result, core, effort = self.result, self.core, self.effort
        if result.placement is None or result.built is None or self.for_left:
            return
        if not self.whole and result.built.write(result.placement) is None:
            self.relax(bounding=False)
        built, relaxed = result.built, result.relaxed
        x = built.write(result.placement)
        if x is None or relaxed is None:
            return
        around, failures = Neighbourhoods(built, relaxed, x), 0
        for _ in range(MODELS):
            if failures == PATIENCE or effort.over or result.closed or result.interrupted:
                return
            free = around.free(x, self.rng, int(self.free))
            answer = around.solve(x, free, effort.remaining())
            value, failures = result.value, failures + 1
            if answer.x is not None:
                changed = x.copy()
                changed[free] = answer.x
                placement = built.read(changed)
                self.take(placement)
                if core.is_feasible(placement) and self.problem.collocated(placement) >= value:
                    x = changed
            if result.value > value:
                failures = 0
            done = answer.termination in ("optimal", "infeasible")
            self.free = min(MOST_FREE, max(FREE / 2, self.free * (GROWS if done else SHRINKS)))

    def go_on(self) -> None:
        """Use the time that is left: longer annealing and larger models in turn."""
        result, effort, balance = self.result, self.effort, self.core.balance
        arcs, size, number = self.arcs(), 1_500, 0
        idle = IDLE_STEPS * balance.num_tasks * (balance.num_tasks + balance.num_nodes)
        self.prove()
        while effort.deadline is not None:
            if effort.over or result.closed or result.interrupted or result.infeasible:
                return
            if result.placement is not None and result.steps - self.steps_of_best > idle:
                return
            number += 1
            if result.relaxed is not None and not self.plain:
                self.solve_small(size, 1e-3, 1_000)
                size = min(2 * size, len(result.relaxed.order))
                self.improve()
            self.anneal(arcs, 2 ** min(number, 6))

    def arcs(self) -> Arcs:
        """Return the moves that annealing prefers."""
        result = self.result
        if result.built is None or result.relaxed is None or self.plain:
            return partner_arcs(self.core)
        return arcs_of(result.built, result.relaxed, self.small(*KERNELS[0][:2]))

    def small(self, least: int, times: int) -> int:
        """Return how many columns a small model keeps."""
        assert self.result.relaxed is not None
        return max(least, times * int((self.result.relaxed.scores > 0.5).sum()))

    def solve_small(self, size: int, gap: float, nodes: int) -> None:
        """Solve the model over the most promising columns."""
        built, relaxed, left = self.result.built, self.result.relaxed, self.effort.remaining()
        assert built is not None
        assert relaxed is not None
        limit = None if left is None else min(left, max(LONGEST, 0.25 * left))
        whole = self.whole and size >= len(relaxed.order)
        placement, bound = solve_kernel(
            built, relaxed.order, size, gap=0.0 if whole else gap, nodes=nodes, time_limit=limit
        )
        if placement is not None:
            self.take(placement)
        if whole and bound < self.result.bound:
            self.result.infeasible = bound == -math.inf and self.result.placement is None
            self.result.bound = max(self.result.value, bound)
            self.note()

    def prove(self) -> None:
        """Bound by the cuts of a model of all places in which only better plans are left."""
        result, effort, core = self.result, self.effort, self.core
        left, known = effort.remaining() or 0.0, result.placement is not None
        if not known or self.plain or not self.backbone.is_whole:
            return
        if result.closed or result.interrupted or self.size > min(WHOLE_PLACES, left / EACH):
            return
        floor = result.value - SAME * max(1.0, abs(result.value))
        columns = columns_of(core, all_places(core.balance))
        built = build_joint(core, columns, JointAim(min_traffic=floor))

        def bound(value: float | None) -> None:
            if value is not None and value < result.bound:
                result.bound = max(result.value, value)
                self.note()

        try:
            solution = solve_linear(
                built.model, "highs", time_limit=PROVING * left, seed=effort.seed,
                options={"presolve": "off"}, progress=lambda now: bound(now.bound),
            )  # fmt: skip
        except SolverError:  # the search has its plan, whatever becomes of HiGHS
            return
        result.interrupted |= str(solution.termination) == "interrupted"
        if solution.x is not None:
            self.take(built.read(solution.x))
        # none is better: the plan is optimal
        bound(result.value if str(solution.termination) == "infeasible" else solution.bound)

    def anneal(self, arcs: Arcs, times: int = 1) -> None:
        """Anneal from the best placement known and from the starts, on strong pairs first."""
        places = self.problem.balance.num_tasks * self.problem.balance.num_nodes
        rounds, first = self.effort.rounds, min(self.effort.first, STEPS_A_PLACE * places) * times
        if self.backbone.is_whole:
            self.anneal_on(self.problem, arcs, rounds, first)
            return
        self.anneal_on(self.core, arcs, rounds, first)
        if not (self.for_left or self.result.interrupted):
            self.anneal_on(self.problem, arcs, 1, max(1, first // POLISHING))

    def anneal_on(
        self, problem: JointProblem, arcs: Arcs, rounds: int, first: int, near: Ints | None = None
    ) -> None:
        """Anneal on all pairs, or on the strong ones; near a placement, or from the best ones."""
        result, effort = self.result, self.effort
        best = [] if result.placement is None else [result.placement]
        annealed = search_joint(
            problem,
            (*best, *self.starts) if near is None else (near,),
            effort.seed * 1024 + result.anneals,
            target=result.bound if problem is self.problem else math.inf,
            rounds=rounds,
            first=first,
            deadline=effort.deadline,
            for_left=self.for_left,
            arcs=arcs,
            warm=near is not None,
        )
        result.steps += annealed.steps
        result.anneals += 1
        result.interrupted |= annealed.interrupted
        if annealed.placement is not None:
            self.take(annealed.placement)

    def take(self, placement: Ints) -> None:
        """Keep a placement that is feasible and better."""
        problem, result = self.problem, self.result
        if not problem.is_feasible(placement):
            return
        value = problem.value(placement, self.for_left)
        if result.placement is None or value > result.value:
            result.placement, result.value = np.asarray(placement, np.int64).copy(), value
            self.steps_of_best = result.steps
            # a start may use the referee's whole tolerance, which the models do not
            result.bound = max(result.bound, value)
            if self.effort.offer is not None:
                self.effort.offer(result.placement)
            self.note()

    def note(self) -> None:
        """Enter value and bound into the trace, and report them."""
        result = self.result
        value = None if result.placement is None else result.value
        result.trace.append((time.perf_counter() - self.effort.started, value, result.bound))
        if self.report is not None:
            self.report(value, result.bound)


#: LP values are trusted to this much, relative; mostly what the duals prove is nearer.
LP_ERROR = 1e-7

NONE = 1e-7  # Gains that are none.


@dataclass(frozen=True)
class Relaxed:
    """A solved relaxation."""

    bound: float  # No placement over the model's columns has more; ``-inf`` where there is none.
    order: Ints  # Columns, most promising first.
    #: What the order is by: minus the reduced cost, above 0 for those in the LP's solution.
    scores: Floats
    proven: float = -np.inf  # What the duals alone prove, and with what they are worth elsewhere.
    duals: Floats = field(default_factory=lambda: np.zeros(0))  # Of the rows.

    @property
    def is_empty(self) -> bool:
        """Whether it has no solution."""
        return self.bound == -math.inf


def relax(built: JointModel, time_limit: float | None = None) -> Relaxed | None:
    """Solve the relaxation; ``None`` when time runs out or the LP solver fails."""
    arrays = built.model.freeze()
    program = (
        -arrays.cost, arrays.matrix, arrays.row_lower, arrays.row_upper, arrays.lower, arrays.upper
    )  # fmt: skip
    answer = solve_lp(*program, time_limit)
    count = len(arrays.cost)
    if str(answer.termination) == "infeasible":
        return Relaxed(-np.inf, np.arange(count), np.zeros(count))
    if answer.x is None or answer.objective is None or answer.row_duals is None:
        return None
    # a dual that leans on a bound which is not there proves nothing
    side = np.where(answer.row_duals > 0, arrays.row_lower, arrays.row_upper)
    duals = np.where(np.isfinite(side), answer.row_duals, 0.0)
    reduced = -arrays.cost - arrays.matrix.T @ duals
    # columns of the LP's solution first, by value, then the others by reduced cost
    scores = np.where(answer.x > 1e-9, 1.0 + answer.x, -reduced)
    # the duals prove a bound whatever the tolerances of the LP solver; its value bounds, too
    value = -answer.objective + arrays.offset
    proven = arrays.offset - dual_bound(*program, duals)
    trusted = value + LP_ERROR * max(1.0, abs(value))
    order = np.argsort(-scores, kind="stable")
    return Relaxed(min(proven, trusted), order, scores, proven, duals)


def arcs_of(built: JointModel, relaxed: Relaxed, most: int) -> Arcs:
    """Return the most promising moves, for the annealing."""
    placing = built.placing
    chosen = np.argsort(-relaxed.scores[placing.column], kind="stable")[:most]
    # columns of staying pairs move only the partner: nothing to add for them
    return make_arcs(
        built.problem,
        placing.task[chosen],
        placing.node[chosen],
        relaxed.scores[placing.column[chosen]],
    )


def rounded(built: JointModel, relaxed: Relaxed, rng: np.random.Generator) -> Ints:
    """Return a placement near the relaxation's: its columns whole, while the budgets last.

    The largest come first, blurred by half a column at most; key groups placed once stay there.
    Loads may exceed what they may be.
    """
    balance, placing = built.problem.balance, built.placing
    placement, free = balance.home.copy(), np.ones(balance.num_tasks, dtype=np.bool_)
    value = np.where(relaxed.scores > 1.0, relaxed.scores - 1.0, 0.0)
    chosen = np.flatnonzero(value[placing.column] > 0.0)
    chosen = chosen[np.argsort(placing.column[chosen], kind="stable")]
    parts = np.split(chosen, np.flatnonzero(np.diff(placing.column[chosen])) + 1)
    blurred = [value[placing.column[part[0]]] + rng.random() / 2 for part in parts if len(part)]
    left = np.array([budget.limit for budget in balance.budgets], dtype=np.float64)
    for k in np.argsort(-np.array(blurred), kind="stable"):
        tasks = placing.task[parts[k]]
        taken = balance.price[tasks].sum(axis=0)
        if free[tasks].all() and (taken <= left).all():
            placement[tasks], free[tasks] = placing.node[parts[k]], False
            left -= taken
    return placement


class Neighbourhoods:
    """Models of a few nodes: what moves between them is decided anew, all else stays.

    `x`: solution of the model to begin from.
    """

    def __init__(self, built: JointModel, relaxed: Relaxed, x: Floats) -> None:
        self.arrays, self.matrix = built.model.freeze(), built.model.freeze().matrix.tocsc()
        self.count, self.nodes = len(built.columns), built.problem.balance.num_nodes
        placing, home = built.placing, built.problem.balance.home
        moving = np.zeros(self.count, dtype=np.bool_)
        moving[placing.column] = True
        self.moving = moving
        #: Columns that may change: the most promising ones and those of the solution.
        self.known = x[: self.count] > 0.5
        order = relaxed.order[relaxed.order < self.count]
        self.known[order[: KNOWN * int((relaxed.scores > 0.5).sum())]] = True
        # columns, and a node that each touches
        pairs = np.arange(len(built.columns.task), self.count)
        column = np.concatenate([placing.column, placing.column, pairs])
        node = np.concatenate([placing.node, home[placing.task], built.columns.pair_node])
        self.column, self.node = column[self.known[column]], node[self.known[column]]

    def within(self, nodes: Bools) -> Ints:
        """Return the columns that touch these nodes only."""
        inside = self.known.copy()
        inside[self.column[~nodes[self.node]]] = False
        return np.flatnonzero(inside)

    def free(self, x: Floats, rng: np.random.Generator, size: int) -> Ints:
        """Return about `size` columns within some nodes: random ones, or joined by moves of `x`."""
        moves = (x[: self.count] > 0.5) & self.moving
        ends = moves[self.column]
        column, node, joined = self.column[ends], self.node[ends], rng.integers(2) == 0
        nodes, best = np.zeros(self.nodes, dtype=np.bool_), np.zeros(0, np.int64)
        while len(best) < size and not nodes.all():
            near = np.isin(column, column[nodes[node]]) & ~nodes[node] if joined else nodes[:0]
            others = node[near] if near.any() else np.flatnonzero(~nodes)
            nodes[others[rng.integers(len(others))]] = True
            best = self.within(nodes)
        return np.concatenate([best, np.arange(self.count, len(x))])

    def solve(self, x: Floats, free: Ints, time_limit: float | None) -> SmallMilpSolution:
        """Solve the model of the free columns, the others staying as they are."""
        arrays, stays = self.arrays, x.copy()
        stays[free] = 0.0
        taken, matrix = self.matrix @ stays, self.matrix[:, free].tocsr()
        rows = np.diff(matrix.indptr) > 0
        part = replace(
            arrays, cost=arrays.cost[free], lower=arrays.lower[free], upper=arrays.upper[free],
            integrality=arrays.integrality[free], matrix=matrix[rows],
            row_lower=(arrays.row_lower - taken)[rows], row_upper=(arrays.row_upper - taken)[rows],
        )  # fmt: skip
        limit = None if time_limit is None else max(0.01, min(SHORT, time_limit))
        return solve_small_milp(part, limit, gap=NEAR, node_limit=NEAR_NODES)


def solve_kernel(
    built: JointModel,
    order: Ints,
    size: int,
    *,
    gap: float,
    nodes: int,
    time_limit: float | None = None,
) -> tuple[Ints | None, float]:
    """Solve the model over its `size` best columns; return a placement, if any, and its bound.

    `built`, `order`: model, and its columns, most promising first.
    `size`: columns in the model; the others are 0.
    `gap`, `nodes`: relative gap and branch-and-bound nodes at which to stop: work that repeats.
    `time_limit`: seconds.
    """
    arrays = built.model.freeze()
    # what says nothing of a key group's place stays in any case
    keep = np.union1d(order[:size], np.arange(len(built.columns), len(arrays.cost)))
    kernel = replace(
        arrays, cost=arrays.cost[keep], lower=arrays.lower[keep], upper=arrays.upper[keep],
        integrality=arrays.integrality[keep], matrix=arrays.matrix[:, keep],
    )  # fmt: skip
    limit = None if time_limit is None else max(0.01, time_limit)
    answer = solve_small_milp(kernel, limit, gap=gap, node_limit=nodes)
    bound = math.inf if answer.bound is None else answer.bound
    bound = -math.inf if answer.termination == "infeasible" else bound
    if answer.x is None:
        return None, bound
    x = np.zeros(len(arrays.cost))
    x[keep] = answer.x
    return built.read(x), bound
