"""Search for collocated traffic under a load-distance cap: rounds of annealing, the best of all."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from formulations.rebalancing.balance.search import TRIES, Portfolio, changing_part
from formulations.rebalancing.problem import writable
from formulations.rebalancing.progress import Watch
from optim.util.compiled import warming

if TYPE_CHECKING:
    from formulations.rebalancing.joint.kernel import Arcs, JointFixed
    from formulations.rebalancing.joint.problem import JointProblem
    from formulations.rebalancing.problem import Floats, Ints

#: Steps of the first round and how many rounds by default; each round is twice as long.
FIRST, ROUNDS = 200_000, 4

#: Steps in one call of the kernel: between calls the clock and Ctrl-C are looked at. With more than
#: so many pairs a key group a step takes longer, and a call has fewer.
SLICE, PAIRS = 50_000, 8

#: Steps that are made whatever the clock says, some milliseconds: a busy machine takes no plan.
SURE = 2_000

#: Value of no placement: finite, since the kernel adds a part of it to it.
NOTHING = -1e300

#: Times that a round which ends outside the cap goes on for a third of its steps, cold and dear.
TAILS = 2


@dataclass
class JointFound:
    """What a search found.

    Attributes
    ----------
    placement
        Best feasible one, ``None`` if there is none.
    value
        Its collocated traffic, or minus the load left on leaving nodes.
    steps
        Proposals tried.
    interrupted
        Whether Ctrl-C ended it.
    trace
        (seconds, value) at every improvement seen between calls of the kernel.
    """

    placement: Ints | None = None
    value: float = -math.inf
    steps: int = 0
    interrupted: bool = False
    trace: list[tuple[float, float]] = field(default_factory=list)


def search_joint(
    problem: JointProblem,
    starts: tuple[Ints, ...],
    seed: int = 0,
    *,
    target: float = math.inf,
    rounds: int = ROUNDS,
    first: int = FIRST,
    deadline: float | None = None,
    for_left: bool = False,
    arcs: Arcs | None = None,
    warm: bool = False,
) -> JointFound:
    """Return the best feasible placement found.

    Parameters
    ----------
    problem
        What to place.
    starts
        Placements within the budgets and allowed sets; loads may exceed their limits. Feasible ones
        are never lost.
    seed
        Of the random choices.
    target
        Value at which to stop: a proven bound.
    rounds, first
        Rounds of annealing and steps of the first; each next one has twice as many.
    deadline
        ``time.perf_counter()`` value; ``None`` for none.
    arcs
        Promising moves; those to the homes of partners by default.
    for_left
        Empty leaving nodes instead of collocating.
    warm
        Begin less hot: for starts that are good but for what they exceed.
    """
    from formulations.rebalancing.joint.kernel import anneal

    began = time.perf_counter()
    found, fixed = JointFound(), fixed_part(problem)
    best = np.zeros(problem.balance.num_tasks, np.int64)
    for start in starts:
        if problem.is_feasible(start):
            value = -problem.left(start) if for_left else problem.collocated(start)
            if value > found.value:
                found.value, found.placement = value, start.copy()
    if not starts or problem.balance.num_tasks == 0:
        return found
    hot, cold, price = _temperatures(problem, for_left)
    arcs = partner_arcs(problem) if arcs is None else arcs
    seeds = np.random.default_rng(seed)
    number = 0
    crowd = problem.num_pairs / (PAIRS * problem.balance.num_tasks)
    calls = max(1, int(SLICE / max(1.0, crowd)))
    try:
        while number < rounds:
            steps = first * 2 ** min(number, 6)
            place = starts[number % len(starts)] if found.placement is None else found.placement
            place = starts[0] if number % 3 == 2 else place
            heat = hot if number % 2 == 0 and not warm else math.sqrt(hot * cold)
            done, now_price, outside = 0, price, False
            while done < steps or (outside and done < steps + TAILS * (steps // 3)):
                sure = SURE - found.steps
                if found.value >= target or (sure <= 0 and _over(deadline)):
                    return found
                slice_ = min(calls, steps - done if done < steps else max(1, steps // 3))
                slice_ = slice_ if deadline is None or sure <= 0 else min(slice_, sure)
                part = np.minimum(1.0, np.array([done / steps, (done + slice_) / steps]))
                known = max(found.value, NOTHING)
                place, value, now_price, _ = anneal(
                    fixed, *changing_part(problem.balance, place), arcs,
                    int(seeds.integers(1, 2**62)), best, known, slice_, part,
                    heat, cold, now_price, for_left,
                )  # fmt: skip
                done += slice_
                found.steps += slice_
                if value > known:
                    _take(problem, found, best, for_left, time.perf_counter() - began)
                outside = done >= steps and not for_left and _is_outside(problem, place)
                if outside:
                    ended = _levelled(problem, place, seed, deadline)
                    _take(problem, found, ended, for_left, time.perf_counter() - began)
            number += 1
    except KeyboardInterrupt:
        found.interrupted = True
    return found


def make_arcs(problem: JointProblem, task: Ints, node: Ints, worth: Floats) -> Arcs:
    """Return moves as arcs, the worthiest first; of equal ones the first stays."""
    from formulations.rebalancing.joint.kernel import Arcs

    home = problem.balance.home
    order = np.lexsort((node, task, -worth))
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
    home, apart = problem.balance.home, problem.apart
    task = np.concatenate([problem.source[apart], problem.target[apart]])
    node = home[np.concatenate([problem.target[apart], problem.source[apart]])]
    worth = np.concatenate([problem.rate[apart], problem.rate[apart]])
    return make_arcs(problem, task, node, worth)


def _is_outside(problem: JointProblem, place: Ints) -> bool:
    return problem.balance.levels(place).distance > problem.balance.most_distance


def _levelled(problem: JointProblem, place: Ints, seed: int, deadline: float | None) -> Ints:
    """Return where annealing ended, its loads brought within the cap where that can be done.

    With a tight cap and few moves annealing mostly ends just outside: it may see no feasible
    placement at all, though a few exchanges from its end there is one with most of the traffic.
    """
    watch, free = Watch(deadline=deadline), replace(problem.balance, max_distance=None)
    portfolio = Portfolio(free, seed, problem.cap, watch)
    portfolio.descend(place, TRIES)
    return place if portfolio.best is None else portfolio.best


def _over(deadline: float | None) -> bool:
    return deadline is not None and time.perf_counter() >= deadline


def _take(
    problem: JointProblem,
    found: JointFound,
    best: Ints,
    for_left: bool,
    seconds: float,
) -> None:
    """Keep the kernel's best if our own count agrees that it is feasible and better."""
    if not problem.is_feasible(best):
        return
    value = -problem.left(best) if for_left else problem.collocated(best)
    if value > found.value:
        found.value, found.placement = value, best.copy()
        found.trace.append((seconds, value))


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
    from formulations.rebalancing.problem import make_problem

    tiny = make_problem([1.0, 1.0, 1.0], [0, 0, 2], 3, leaving=[False, False, True])
    ends = np.array([0, 1], np.int64), np.array([1, 2], np.int64)
    search_joint(JointProblem(tiny, *ends, np.ones(2)), (tiny.home,), rounds=1, first=8)
