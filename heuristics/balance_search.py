"""`balance-search`: compiled search for a small load distance within the budget, with a bound."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from formulations.balance_instance import balance_problem
from formulations.balance_milp import METHOD as BALANCE_MILP
from formulations.balance_milp import impossible
from optim.bounds.touch import touch_bound
from optim.local_search.balance_search import TRIES, search_balance, warm_up
from optim.registry import Method, Option, Outcome
from optim.results import Level, Termination

if TYPE_CHECKING:
    from optim.instance import Instance
    from optim.registry import Request


def run(instance: Instance, request: Request) -> Outcome:
    """Rebalance an instance; the method's entry point.

    Raises
    ------
    UnsuitableMethod
        A task has no current node.
    """
    begun = time.perf_counter()
    warm_up()
    compiled = time.perf_counter()
    problem = balance_problem(
        instance, "balance-search", bool(request.options["allow_into_leaving"])
    )
    reasons = impossible(instance, problem)
    if reasons:
        return Outcome(Termination.INFEASIBLE, reasons=tuple(reasons))
    bound = touch_bound(problem)
    given = () if request.warm_start is None else (request.warm_start.astype(np.int64),)
    placement = search_balance(problem, given, request.seed, bound, int(request.options["tries"]))
    spent = time.perf_counter() - compiled
    times = {"compile": compiled - begun, "solve": spent}
    if placement is None:
        note = "the search found no placement that keeps every limit"
        return Outcome(Termination.ITERATION_LIMIT, bound=bound, notes=[note], times=times)
    reached = problem.levels(placement)
    levels = [Level("load_distance", "min", reached.distance, bound)]
    if problem.has_leaving:
        levels.append(Level("load_on_leaving_nodes", "min", reached.left))
    levels.append(Level("sum_of_sides", "min", reached.over + reached.under))
    return Outcome(
        Termination.ITERATION_LIMIT,
        node=placement,
        claimed=reached.distance,
        bound=bound,
        levels=tuple(levels),
        times=times,
        trace=[(spent, reached.distance, bound)],
        warm_start_accepted=problem.is_feasible(given[0]) if given else None,
    )


METHOD = Method(
    name="balance-search",
    family="rebalancing",
    kind="search",
    objective="load_distance",
    run=run,
    summary="Compiled search: small load distance in milliseconds, with the touch bound",
    source="ours",
    needs=BALANCE_MILP.needs,
    honours=BALANCE_MILP.honours,
    options=(
        Option(
            "tries", "int", TRIES, "levels of the search that may fail in a row", minimum=1,
            maximum=1_000_000,
        ),
        Option(
            "allow_into_leaving", "bool", False, "let key groups move onto leaving nodes",
        ),
    ),
    promises_feasibility=True,
    takes_warm_start=True,
)  # fmt: skip
