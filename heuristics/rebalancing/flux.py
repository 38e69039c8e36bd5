"""`flux`: the adaptive rebalancing of Flux, as ALBIC's evaluation uses it.

Sort the nodes by load, most loaded first. The first gives the last the biggest key group that still
lowers the variance of the two; then the second the second last, and so on. A pass over the pairs is
followed by the next one, sorted anew, until the budget is spent or no pair can be improved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.rebalancing.balance.kernel import (
    NOBODY,
    away,
    fits,
    is_spent,
    may_be,
    pays_for,
    relocate,
)
from formulations.rebalancing.balance.search import fixed_part, state_of
from formulations.rebalancing.problem import balance_problem, writable
from optim.methods.registry import Method, Outcome
from optim.referee import Termination
from optim.rules.base import LOADS, Form
from optim.util.compiled import helper, kernel, warming

if TYPE_CHECKING:
    from formulations.rebalancing.problem import BalanceProblem, Ints
    from optim.format.instance import Instance
    from optim.methods.registry import Request


def flux_placement(problem: BalanceProblem) -> tuple[Ints, int]:
    """Return the placement Flux makes and the number of passes it took.

    Heterogeneous nodes are sorted by load / weight; the pair's variance is that of load / weight,
    each weighted with its node's weight, so a move of load l from a to b lowers it exactly when
    l < 2·(L_a/w_a − L_b/w_b) / (1/w_a + 1/w_b) (for equal weights: l < L_a − L_b).

    A leaving node should carry nothing: its deviation counts from 0, so it stands among the first
    senders, and it never receives.
    """
    state = state_of(problem, problem.home)
    state.deviation[problem.leaving] = problem.base_load[problem.leaving]
    passes = flux(fixed_part(problem), state, writable(problem.weight))
    return state.place, int(passes)


def run(instance: Instance, request: Request) -> Outcome:
    """Rebalance an instance; the method's entry point.

    Raises `UnsuitableMethod`: a task that stands on a staying node may be on leaving ones only.
    """
    request, compiled = request.warmed(warm_up)
    problem = balance_problem(instance, "flux")
    placement, used = flux_placement(problem)
    moves = problem.moves(placement)
    return Outcome(
        Termination.HEURISTIC,
        node=placement,
        claimed=problem.levels(placement).distance,
        notes=[f"{moves} key groups moved in {used} passes"],
        times={"compile": compiled, "solve": request.elapsed()},
    )


@warming
def warm_up() -> None:
    """Compile the kernel, or load it from the disk: once a process."""
    from formulations.rebalancing.problem import plain_problem

    flux_placement(plain_problem([1.0, 1.0], [0, 0], 2))


METHOD = Method(
    name="flux",
    family="rebalancing",
    kind="heuristic",
    objective="load_distance",
    run=run,
    summary="Flux: biggest key group from the most to the least loaded node, pair by pair",
    source="Shah et al. 2003, as in Madsen, Zhou, Cao 2016, sections 2.2 and 5.1",
    needs=("tasks", "nodes"),
    forms=LOADS | {Form.NODE_FLOOR, Form.BUDGET, Form.LOCAL_FIRST},
    promises_feasibility=False,
)


#: Loads are compared up to this part of the mean share: rounding must not cause a move.
ROUNDING = 1e-12


@kernel
def flux(fixed: Any, state: Any, weight: Any) -> Any:
    """Move key groups, in place, and return the number of passes.

    `fixed`, `state`: the problem, and where its key groups are: at home. A key group moves at most
        once.
    `weight`: (N,) capacity weight.
    """
    passes, some = 0, len(fixed.load) > 0
    rounding = ROUNDING * (np.abs(fixed.share).max() + 1.0)
    free = len(fixed.copies) > 0  # of key groups without a current node no budget counts the moves
    while some and (free or not is_spent(fixed, state)):
        passes += 1
        senders = np.argsort(-state.deviation / weight, kind="mergesort")
        receivers = senders[::-1]
        receivers = receivers[~fixed.leaving[receivers]]
        some = False
        # the most loaded with the least loaded, the second with the second last, and so on
        for rank in range(len(receivers)):
            a, b = senders[rank], receivers[rank]
            gap = state.deviation[a] / weight[a] - state.deviation[b] / weight[b]
            # the variance of the pair falls by a move of load l exactly when l < most
            most = 2.0 * gap / (1.0 / weight[a] + 1.0 / weight[b])
            if a == b or most <= rounding or not (free or not is_spent(fixed, state)):
                break
            k = _biggest(fixed, state, a, b, most - rounding)
            if k != NOBODY:
                relocate(fixed, state, k, b)
                some = True
    return passes


@helper
def _biggest(fixed: Any, state: Any, a: Any, b: Any, most: Any) -> Any:
    """Return the biggest key group at home on a, of less than `most`, that may go to b."""
    best, best_load = NOBODY, 0.0
    k = state.first[a]
    while k >= 0:
        if (
            best_load < fixed.load[k] < most
            and fixed.home[k] == a
            and _is_paid(fixed, state, k, b)
            and may_be(fixed, k, b)
            and fits(fixed, state, a, b, k, NOBODY)
        ):
            best, best_load = k, fixed.load[k]
        k = state.after[k]
    return best


@helper
def _is_paid(fixed: Any, state: Any, k: Any, b: Any) -> Any:
    """Return whether the budgets are enough for k to move to b."""
    price, budget = fixed.price, state.budget
    return pays_for(price, budget, k, away(fixed, k, b), NOBODY, 0)
