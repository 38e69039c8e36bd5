"""`scale-in-first`: empty the leaving nodes on their own, balance with what is left of the budget.

The non-integrated baseline of ALBIC's Figure 5: a scale-in that knows nothing of the load balance
deals the leaving nodes' key groups out evenly; only then the MILP balances.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from formulations.rebalancing.balance.milp import METHOD as BALANCE_MILP
from formulations.rebalancing.balance.milp import PUBLISHED, solve_balance
from formulations.rebalancing.balance.model import BalanceAnswer, Settings
from formulations.rebalancing.balance.search import best_start, prepare_balance, warm_up
from formulations.rebalancing.bound import impossible
from formulations.rebalancing.problem import balance_problem
from optim.errors import InvalidInput, Problem
from optim.methods.registry import Method, Option, Outcome
from optim.referee import Termination
from optim.rules.base import Form

if TYPE_CHECKING:
    from formulations.rebalancing.problem import BalanceProblem, Floats, Ints
    from optim.format.instance import Instance
    from optim.methods.registry import Request


def spread_evenly(problem: BalanceProblem, earlier: Floats | None = None) -> Ints:
    """Return the placement after the leaving nodes' key groups are dealt out within the budget.

    Heaviest first, each to the staying node that has received least so far (load by weight), ties
    by index, among those where it may be and fits. What the nodes carry already does not count:
    that is what makes it a process of its own. Key groups that fit nowhere, or for which the budget
    is spent, stay.

    `earlier`: (N,) load that each node received in earlier rounds of the same scale-in; none if not
        given.
    """
    placement = problem.home.copy()
    received = np.zeros(problem.num_nodes) if earlier is None else earlier.copy()
    used = problem.base_usage.copy()
    room = problem.headroom
    waiting = np.flatnonzero(problem.leaving[problem.home])
    left = problem.budget
    for task in waiting[np.argsort(-problem.load[waiting], kind="stable")].tolist():
        # what the budgets do not pay stays where it is
        taken = (not problem.is_free[task]) * problem.price[task]
        if ((taken > left) & (taken > 0)).any():
            continue
        fits = problem.may_be_rows(np.array([task]))[0] & ~problem.leaving
        fits &= (used + problem.usage[task] <= room).all(axis=1)
        if not fits.any():
            continue
        # even shares of what is dealt out: what nodes carry already does not count
        node = int(np.where(fits, received / problem.weight, np.inf).argmin())
        used[problem.home[task]] -= problem.usage[task]
        used[node] += problem.usage[task]
        received[node] += problem.load[task]
        placement[task] = node
        left = left - taken
    return placement


def run(instance: Instance, request: Request) -> Outcome:
    """Scale in, then balance; the method's entry point.

    Raises `UnsuitableMethod`: a task that stands on a staying node may be on leaving ones only.
    Raises `SolverError`: a solver's claim does not survive our own count.
    """
    request, compiled = request.warmed(warm_up)
    problem = balance_problem(instance, "scale-in-first")
    if impossible(instance, problem):
        return Outcome(Termination.INFEASIBLE)
    earlier = read_received(request.options["received"], instance)
    emptied = spread_evenly(problem, earlier / float(request.scale.load[0]))
    after = _remaining_problem(problem, emptied)
    settings = Settings.of(request, progress=request.progress)
    prepared = prepare_balance(after, settings)
    starts = [*prepared.starts, emptied]
    if prepared.interrupted:
        answer = BalanceAnswer(placement=best_start(after, starts))
    else:
        answer = solve_balance(after, settings, starts, prepared.bound)
    moved, left = problem.moves(emptied), int(problem.leaving[emptied].sum())
    notes = [f"{moved} key groups taken off leaving nodes first, {left} still there"]
    build = answer.build_seconds
    times = {"compile": compiled, "build": build, "solve": request.elapsed() - build}
    interrupted = prepared.interrupted or any(
        level.termination == "interrupted" for level in answer.levels
    )
    termination = Termination.INTERRUPTED if interrupted else Termination.HEURISTIC
    if answer.placement is None:
        notes.append(
            "no balance keeps every limit after scaling in; balance-milp does both at once"
        )
        return Outcome(termination, notes=[*notes, *answer.notes], times=times)
    return Outcome(
        termination,
        node=answer.placement.astype(np.int32),
        claimed=problem.levels(answer.placement).distance,
        notes=[*notes, *answer.notes],
        trace=answer.trace,
        times=times,
        solver=answer.solver,
    )


def read_received(text: str, instance: Instance) -> Floats:
    """Return the (N,) load received in earlier rounds, in the file's unit.

    Raises `InvalidInput`: the text is not of the form ``node=load;node=load``, or names no node of
        the instance.
    """
    received = np.zeros(instance.num_nodes)
    where = {name: index for index, name in enumerate(instance.nodes.ids)}
    for part in filter(None, text.split(";")):
        name, _, load = part.rpartition("=")
        try:
            received[where[name]] = float(load)
            valid = 0 <= received[where[name]] < np.inf  # nan, too, would draw everything there
        except (KeyError, ValueError):
            valid = False
        if not valid:
            remedy = "write node=load;node=load with ids of nodes"
            raise InvalidInput(Problem("--option received", part, "is no node with a load", remedy))
    return received


def _remaining_problem(problem: BalanceProblem, emptied: Ints) -> BalanceProblem:
    """Return the balancing that follows: from the new placement, with the rest of the budget."""
    left = zip(problem.budgets, problem.spent(emptied).tolist(), strict=True)
    budgets = tuple(b._replace(limit=max(0.0, b.limit - spent)) for b, spent in left)
    # migrations count from where the scale-in ends: it has paid for its own
    rules = None if problem.counted is None else replace(problem.counted, home=emptied)
    return replace(problem, home=emptied, budgets=budgets, counted=rules)


METHOD = Method(
    name="scale-in-first",
    family="rebalancing",
    kind="heuristic",
    objective="load_distance",
    run=run,
    summary="Scale-in on its own, key groups spread evenly; then balance-milp with the rest",
    source="Madsen, Zhou, Cao 2016, section 5.1, the non-integrated approach of Figure 5",
    needs=("tasks", "nodes"),
    forms=PUBLISHED | {Form.LOCAL_FIRST},
    options=(
        Option(
            "received",
            "str",
            "",
            "load that nodes received in earlier rounds of the same scale-in, as "
            "node=load;node=load: key groups are dealt out evenly over all rounds together",
        ),
    ),
    solvers=BALANCE_MILP.solvers,
    default_solver=BALANCE_MILP.default_solver,
    promises_feasibility=True,
)
