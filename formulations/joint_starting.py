"""Good placements before branch and bound over the whole: annealing, then small models.

Order: the relaxation says which moves are worth trying; annealing along them gives a plan at once;
models over the best columns improve it. With a time limit this goes on, rounds and models growing.

Dense traffic (most pairs have a key group with several partners) is another case: its relaxation
is loose, so its columns mislead, and the small models take minutes to find less than annealing
finds in a tenth of a second (measured: 400 key groups, 2,100 pairs). There all the work goes into
annealing along the moves to partners, and the relaxation only bounds.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from formulations.joint_columns import all_places, columns_of, pruned_places
from formulations.joint_model import JointAim, build_joint
from formulations.joint_relaxing import arcs_of, relax, solve_kernel
from optim.bounds.collocation import collocation_bound
from optim.local_search.joint_search import partner_arcs, search_joint

if TYPE_CHECKING:
    from collections.abc import Callable

    from formulations.joint_model import JointModel
    from formulations.joint_relaxing import Relaxed
    from optim.local_search.balance_problem import Ints
    from optim.local_search.joint_problem import JointProblem
    from optim.local_search.joint_state import Arcs

#: Relaxations beyond this many places (and pairs × nodes) take longer than they help.
LP_PLACES = 400_000

#: Up to so many the relaxation of the whole comes at once; beyond, that of a pruned model first.
SMALL_PLACES, MAX_PLACES = 30_000, 40_000_000

#: Key groups of so many of the fullest nodes are offered so many of the emptiest ones.
SPREAD = 4

#: (columns at least, columns for each one in the LP's solution, relative gap, nodes) of the models.
KERNELS = ((600, 8, 0.05, 20), (1_000, 14, 0.01, 50))

#: Rounds of annealing where there are no small models beside it.
PLAIN_ROUNDS = 3

#: Longest single model while the clock runs, or a quarter of what is left: Ctrl-C is heard only
#: between two.
LONGEST = 10.0

#: Share of a pair's gain below which two values are the same.
SAME = 1e-9


@dataclass
class Known:
    """What is known of a problem so far.

    Attributes
    ----------
    placement, value
        Best feasible placement, and its collocated traffic (or minus the load left).
    bound
        Proven upper bound of the whole problem.
    infeasible
        Whether the relaxation of the whole problem has no solution.
    built, relaxed
        The last relaxation, and the model behind it.
    interrupted
        Whether Ctrl-C ended it.
    trace
        (seconds, value, bound).
    steps, anneals, kernels
        Proposals and calls of the annealing; small models solved.
    """

    placement: Ints | None = None
    value: float = -math.inf
    bound: float = math.inf
    infeasible: bool = False
    built: JointModel | None = None
    relaxed: Relaxed | None = None
    interrupted: bool = False
    trace: list[tuple[float, float | None, float | None]] = field(default_factory=list)
    steps: int = 0
    anneals: int = 0
    kernels: int = 0

    @property
    def closed(self) -> bool:
        """Whether the value meets the bound."""
        return self.value >= self.bound - SAME * max(1.0, abs(self.bound))


@dataclass(frozen=True)
class Effort:
    """How much to do.

    Attributes
    ----------
    rounds, first
        Rounds of annealing, at least `PLAIN_ROUNDS` without small models; steps of the first.
    kernels
        Small models, as `KERNELS`.
    relaxing
        Whether relaxations are solved at all; without, pairs by their traffic say what is worth
        trying, there are no small models, and counting bounds.
    deadline
        ``time.perf_counter()`` value up to which to go on; ``None`` for none.
    started
        The same, from which the trace counts.
    seed
        Of the random choices.
    """

    rounds: int = 1
    first: int = 30_000
    kernels: tuple[tuple[int, int, float, int], ...] = KERNELS
    relaxing: bool = True
    deadline: float | None = None
    started: float = 0.0
    seed: int = 0

    def left(self) -> float | None:
        """Seconds left, never negative; ``None`` without a deadline."""
        return None if self.deadline is None else max(0.0, self.deadline - time.perf_counter())

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return self.deadline is not None and time.perf_counter() >= self.deadline


def find(
    problem: JointProblem,
    starts: list[Ints],
    effort: Effort,
    *,
    for_left: bool = False,
    go_on: bool = False,
    told: Callable[[float | None, float | None], None] | None = None,
) -> Known:
    """Find a good placement and a bound of the whole problem.

    Parameters
    ----------
    problem
        What to place.
    starts
        Placements within budgets and allowed sets, whatever their loads.
    effort
        How much to do.
    for_left
        Empty leaving nodes instead of collocating.
    go_on
        Whether to use all the time there is.
    told
        Called with value and bound at every change.
    """
    known = Known(bound=-0.0 if for_left else collocation_bound(problem))
    for start in starts:
        _take(problem, known, start, effort, for_left, told)
    plain = problem.is_dense or not effort.relaxing
    if plain:
        effort = replace(effort, rounds=max(effort.rounds, PLAIN_ROUNDS), kernels=())
    try:
        size = (problem.balance.num_tasks + problem.num_pairs) * problem.balance.num_nodes
        if plain:
            _search(problem, known, starts, effort, for_left, 0, told)
        elif size > SMALL_PLACES and not known.closed:
            _relax(problem, known, starts, effort, for_left, False, told)
            _search(problem, known, starts, effort, for_left, 1, told)
        bounding = effort.relaxing and size <= LP_PLACES
        if bounding and not (known.closed or known.interrupted or effort.over):
            _relax(problem, known, starts, effort, for_left, True, told)
        if not known.closed and not known.infeasible and not known.interrupted:
            if not plain:
                _search(problem, known, starts, effort, for_left, len(effort.kernels), told)
            if go_on:
                _go_on(problem, known, starts, effort, for_left, told)
    except KeyboardInterrupt:
        known.interrupted = True
    return known


def _relax(
    problem: JointProblem,
    known: Known,
    starts: list[Ints],
    effort: Effort,
    for_left: bool,
    whole: bool,
    told: Callable[[float | None, float | None], None] | None,
) -> None:
    """Solve the relaxation over all places, which bounds; or over those worth trying."""
    balance = problem.balance
    if whole:
        columns = columns_of(problem, all_places(balance))
    else:
        if balance.num_tasks * balance.num_nodes > MAX_PLACES or problem.num_pairs > LP_PLACES:
            return
        columns = columns_of(problem, pruned_places(problem, SPREAD, tuple(starts)))
        if len(columns) > LP_PLACES:
            return
    built = build_joint(problem, columns, JointAim("left" if for_left else "traffic"))
    relaxed = relax(built, effort.left())
    if relaxed is None or (relaxed.bound == -math.inf and not whole):
        return
    if relaxed.bound == -math.inf:
        known.infeasible = known.placement is None
        return
    known.built, known.relaxed = built, relaxed
    if whole:
        known.bound = max(known.value, min(known.bound, relaxed.bound))
        _note(known, effort, told)


def _search(
    problem: JointProblem,
    known: Known,
    starts: list[Ints],
    effort: Effort,
    for_left: bool,
    kernels: int,
    told: Callable[[float | None, float | None], None] | None,
) -> None:
    """Anneal along promising moves, then solve the small models not solved yet."""
    arcs = _arcs(problem, known)
    if known.kernels == 0:
        _anneal(problem, known, starts, effort, arcs, for_left, told)
    for least, times, gap, nodes in effort.kernels[known.kernels : kernels]:
        if known.closed or effort.over or known.interrupted or known.relaxed is None:
            return
        known.kernels += 1
        size = _kernel_size(known, least, times)
        _kernel(problem, known, effort, size, gap, nodes, for_left, told)
        _anneal(problem, known, starts, effort, arcs, for_left, told)


def _go_on(
    problem: JointProblem,
    known: Known,
    starts: list[Ints],
    effort: Effort,
    for_left: bool,
    told: Callable[[float | None, float | None], None] | None,
) -> None:
    """Use the time that is left: longer annealing and larger models in turn."""
    arcs, size, number = _arcs(problem, known), 1_500, 0
    while effort.deadline is not None and not (effort.over or known.closed or known.interrupted):
        number += 1
        if known.built is not None and known.relaxed is not None and not problem.is_dense:
            _kernel(problem, known, effort, size, 1e-3, 1_000, for_left, told)
            size = min(2 * size, len(known.relaxed.order))
        _anneal(problem, known, starts, effort, arcs, for_left, told, 2 ** min(number, 6))


def _arcs(problem: JointProblem, known: Known) -> Arcs:
    if known.built is None or known.relaxed is None or problem.is_dense:
        return partner_arcs(problem)
    return arcs_of(known.built, known.relaxed, _kernel_size(known, *KERNELS[0][:2]))


def _kernel_size(known: Known, least: int, times: int) -> int:
    """Return how many columns a small model keeps."""
    assert known.relaxed is not None
    used = int((known.relaxed.worth > 0.5).sum())
    return max(least, times * used)


def _kernel(
    problem: JointProblem,
    known: Known,
    effort: Effort,
    size: int,
    gap: float,
    nodes: int,
    for_left: bool,
    told: Callable[[float | None, float | None], None] | None,
) -> None:
    assert known.built is not None
    assert known.relaxed is not None
    left = effort.left()
    limit = None if left is None else min(left, max(LONGEST, 0.25 * left))
    found = solve_kernel(
        known.built, known.relaxed.order, size, gap=gap, nodes=nodes, time_limit=limit
    )
    if found is not None:
        _take(problem, known, found, effort, for_left, told)


def _anneal(
    problem: JointProblem,
    known: Known,
    starts: list[Ints],
    effort: Effort,
    arcs: Arcs,
    for_left: bool,
    told: Callable[[float | None, float | None], None] | None,
    times: int = 1,
) -> None:
    best = [] if known.placement is None else [known.placement]
    found = search_joint(
        problem,
        (*best, *starts),
        effort.seed * 1024 + known.anneals,
        target=known.bound,
        rounds=effort.rounds,
        first=effort.first * times,
        deadline=effort.deadline,
        for_left=for_left,
        arcs=arcs,
    )
    known.steps += found.steps
    known.anneals += 1
    known.interrupted |= found.interrupted
    if found.placement is not None:
        _take(problem, known, found.placement, effort, for_left, told)


def _take(
    problem: JointProblem,
    known: Known,
    placement: Ints,
    effort: Effort,
    for_left: bool,
    told: Callable[[float | None, float | None], None] | None,
) -> None:
    """Keep a placement that is feasible and better."""
    if not problem.is_feasible(placement):
        return
    value = -problem.left(placement) if for_left else problem.collocated(placement)
    if known.placement is None or value > known.value:
        known.placement, known.value = np.asarray(placement, np.int64).copy(), value
        # a start may use the referee's whole tolerance, which the models do not
        known.bound = max(known.bound, value)
        _note(known, effort, told)


def _note(
    known: Known, effort: Effort, told: Callable[[float | None, float | None], None] | None
) -> None:
    value = None if known.placement is None else known.value
    known.trace.append((time.perf_counter() - effort.started, value, known.bound))
    if told is not None:
        told(value, known.bound)
