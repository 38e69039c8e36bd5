"""From a method's outcome to a `Result`: the referee judges, claims and bounds are checked."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from optim.claims import check_claim, check_promise, write_result
from optim.errors import SolverError
from optim.judging_threads import judge_threads
from optim.measures import moved_tasks
from optim.objectives import OBJECTIVES, Objective
from optim.placing.room import at_the_edge
from optim.plan import Plan
from optim.referee import evaluate_indices
from optim.results import Move, Termination, WarmStart
from optim.versions import versions_of

if TYPE_CHECKING:
    from optim.evaluation import Evaluation
    from optim.instance import Instance
    from optim.registry import Method, Outcome, Request
    from optim.results import Result
    from optim.starting import Start
    from optim.tables import Ints

_ALWAYS = {"placed", "slot_capacity", "one_topology_a_slot", "workers"}


def judge(
    instance: Instance,
    relaxed: Instance,
    method: Method,
    request: Request,
    outcome: Outcome,
    start: Start | None,
    *,
    repaired: bool,
    ignored: tuple[str, ...],
) -> Result:
    """Check everything an outcome says and write the result.

    Parameters
    ----------
    instance, relaxed
        The instance as given, and without the ignored limits; the latter is what is judged.

    Raises
    ------
    SolverError
        A claim differs from the referee's figure, a plan beats a proven bound, or a feasible plan
        is at hand for what was called infeasible, other than by the last of the tolerance.
    RefereeRefused
        The method promises feasible plans and this one is not.
    """
    if method.family == "model-driven":
        return judge_threads(instance, relaxed, method, request, outcome, ignored=ignored)
    began = time.perf_counter()
    objective = OBJECTIVES[outcome.objective or method.objective]
    node, evaluation = _plan_in_hand(relaxed, method, outcome, start, objective, repaired)
    unplaced: tuple[str, ...] = ()
    if node is None and outcome.node is not None:
        unplaced = tuple(relaxed.tasks.ids[t] for t in np.flatnonzero(outcome.node < 0))
        if unplaced:
            outcome.notes.append(f"{len(unplaced)} tasks found no node")
    versions = versions_of(method, request.solver)
    plan = None
    if node is not None:
        plan = Plan.from_indices(instance, node, outcome.slot, method.name, versions)
    return write_result(
        instance,
        method,
        request,
        outcome,
        objective,
        plan,
        evaluation,
        began=began,
        moves=_moves(instance, node),
        warm_start=_warm_start(start, objective, outcome),
        repaired=repaired,
        ignored=ignored,
        unplaced=unplaced,
        versions=versions,
    )


def _plan_in_hand(
    instance: Instance,
    method: Method,
    outcome: Outcome,
    start: Start | None,
    objective: Objective,
    repaired: bool,
) -> tuple[Ints | None, Evaluation | None]:
    """Return the placement to tell and its evaluation.

    An exact method or search never returns less than its start, or than staying where that is
    feasible; then the better placement is taken, and said.
    """
    node, evaluation = None, None
    if outcome.node is not None and (len(outcome.node) == 0 or outcome.node.min() >= 0):
        node = outcome.node.astype(np.int32)
        evaluation = evaluate_indices(instance, node, outcome.slot)
        check_claim(method, outcome, objective, evaluation)
        if not repaired:
            kept = method.honours | _ALWAYS
            check_promise(method, [v for v in evaluation.violations if v.rule in kept])
    if method.kind == "heuristic":
        return node, evaluation
    if outcome.own_order:
        return node, evaluation
    for name, other in _alternatives(instance, start):
        found = evaluate_indices(instance, other)
        nothing = evaluation is None
        if not found.feasible or not (nothing or _could_return(instance, objective, other)):
            continue
        if outcome.termination is Termination.INFEASIBLE:
            if not at_the_edge(instance, other):
                raise SolverError(
                    f"{method.name} calls the instance infeasible, but {name} is a feasible plan"
                )
            _unsay(outcome, method, name)
        mine = None if evaluation is None else evaluation.objective(objective.name)
        theirs = found.objective(objective.name)
        beaten = None not in (theirs, outcome.bound) and objective.beats_bound(
            theirs,  # type: ignore[arg-type]
            outcome.bound,  # type: ignore[arg-type]
        )
        if beaten and at_the_edge(instance, other):
            _unsay(outcome, method, name)
        worse = evaluation is None or not evaluation.feasible or mine is None
        if theirs is not None and (worse or objective.better(theirs, mine)):  # type: ignore[arg-type]
            if not worse and objective.gap(mine, theirs) in (None, 0.0):
                continue
            outcome.notes.append(f"{name} is better than what {method.name} found, and was taken")
            outcome.slot, outcome.claimed = None, None
            node, evaluation = other.astype(np.int32), found
    return node, evaluation


def _unsay(outcome: Outcome, method: Method, name: str) -> None:
    """Withdraw what a plan at the edge of the tolerance refutes: methods do not look there."""
    if outcome.termination in (
        Termination.INFEASIBLE,
        Termination.OPTIMAL,
        Termination.GAP_REACHED,
    ):
        outcome.termination = Termination.ITERATION_LIMIT
    outcome.reasons, outcome.bound, outcome.levels = (), None, ()
    outcome.notes.append(
        f"{name} keeps the limits only by the last of the tolerance, where {method.name} does not "
        "look for plans; nothing is proven"
    )


def _could_return(instance: Instance, objective: Objective, node: Ints) -> bool:
    """Whether a placement is one that methods of this objective look for at all.

    Methods that place for traffic empty the leaving nodes; only load distance weighs what is left
    there, so for the others a placement that uses a leaving node is no alternative to one that does
    not.
    """
    if objective.name == "load_distance" or not instance.nodes.leaving.any():
        return True
    return not bool(instance.nodes.leaving[node].any())


def _alternatives(instance: Instance, start: Start | None) -> list[tuple[str, Ints]]:
    found = []
    if start is not None:
        found.append((f"the warm start ({start.method})", np.asarray(start.node)))
    if instance.has_current:
        found.append(("staying", np.asarray(instance.tasks.node)))
    return found


def _moves(instance: Instance, node: Ints | None) -> tuple[Move, ...]:
    if node is None:
        return ()
    tasks, nodes = instance.tasks, instance.nodes
    return tuple(
        Move(
            tasks.ids[t],
            nodes.ids[tasks.node[t]],
            nodes.ids[node[t]],
            float(tasks.migration_cost[t]),
        )
        for t in moved_tasks(instance, node)
    )


def _warm_start(start: Start | None, objective: Objective, outcome: Outcome) -> WarmStart | None:
    if start is None:
        return None
    value = start.evaluation.objective(objective.name)
    return WarmStart(start.method, value, outcome.warm_start_accepted)
