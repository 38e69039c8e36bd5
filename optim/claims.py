"""What a method says of its plan, held against the referee; the result written from both."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import RefereeRefused, SolverError
from optim.results import ObjectiveValue, Result, Termination

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optim.evaluation import Evaluation, Violation
    from optim.instance import Instance
    from optim.objectives import Objective
    from optim.plan import Plan
    from optim.registry import Method, Outcome, Request

_CLAIM_RELATIVE = 1e-6
_CLAIM_ABSOLUTE = 1e-5
#: HiGHS keeps 1e-7 of an integer or a row: that much of all pairs may be claimed by its products.
_CLAIM_OF_TRAFFIC = 1e-7
_SHOWN = 5


def check_claim(
    method: Method, outcome: Outcome, objective: Objective, evaluation: Evaluation
) -> None:
    """Compare the claimed value with the referee's.

    Raises
    ------
    SolverError
        They differ by more than rounding.
    """
    value = evaluation.objective(objective.name)
    if outcome.claimed is None or value is None:
        return
    allowed = _CLAIM_RELATIVE * max(abs(value), abs(outcome.claimed))
    allowed += _claim_noise(objective, evaluation)
    if abs(value - outcome.claimed) > allowed:
        raise SolverError(
            f"{method.name} ({outcome.solver or 'no solver'}) claims {objective.name} = "
            f"{outcome.claimed:.9g}, but the referee finds {value:.9g}"
        )


def _claim_noise(objective: Objective, evaluation: Evaluation) -> float:
    """What a solver's tolerances may add to any claim: a share of all traffic, or of 1."""
    if objective.unit == "rate" and evaluation.total_traffic is not None:
        return _CLAIM_OF_TRAFFIC * evaluation.total_traffic
    return _CLAIM_ABSOLUTE


def check_bound(
    method: Method,
    outcome: Outcome,
    objective: Objective,
    value: float | None,
    evaluation: Evaluation | None,
) -> None:
    """Hold a bound against the plan at hand.

    A plan outside of the restricted problem (a repaired one, say) may beat a bound of that: it
    then tells nothing of the plan, and is dropped with a note.

    Raises
    ------
    SolverError
        A feasible plan beats a bound of the whole problem.
    """
    if outcome.bound is None:
        return
    if not np.isfinite(outcome.bound):
        outcome.bound = None
        return
    if value is None or evaluation is None or not evaluation.feasible:
        return
    if not objective.beats_bound(value, outcome.bound):
        return
    if outcome.bound_of == "restricted":
        outcome.notes.append(
            f"the bound {outcome.bound:.9g} on {objective.name} of the restricted problem is "
            f"dropped, since the plan has {value:.9g}"
        )
        outcome.bound, outcome.bound_of = None, "problem"
        return
    raise SolverError(
        f"{method.name} ({outcome.solver or 'no solver'}) claims {outcome.bound:.9g} as a "
        f"proven bound on {objective.name}, but a checked plan has {value:.9g}"
    )


def restrict_to_emptied(method: Method, instance: Instance, outcome: Outcome) -> None:
    """Say of what a proof is, where tasks on leaving nodes may stay and the method lets none.

    "Infeasible" is then no proof: a plan that leaves them there may keep all rules.
    """
    home, leaving = instance.tasks.node, instance.nodes.leaving
    count = int(((home >= 0) & leaving[home] & instance.has_open_node).sum())
    if not method.empties_leaving or not count:
        return
    if outcome.termination is Termination.INFEASIBLE:
        outcome.termination, outcome.reasons = Termination.ITERATION_LIMIT, ()
        outcome.notes.append(
            f"no plan takes all tasks off the leaving nodes, and {method.name} looks for no other, "
            f"though the {count} that are there may stay"
        )
    elif outcome.bound is not None and outcome.bound_of == "problem":
        outcome.bound_of = "restricted"
        outcome.notes.append(
            f"the bound is of plans that take the {count} tasks on leaving nodes off them"
        )


def check_promise(method: Method, broken: Sequence[Violation]) -> None:
    """Refuse a plan that breaks rules its method promises to keep.

    Raises
    ------
    RefereeRefused
        It does.
    """
    if broken and method.promises_feasibility:
        told = "; ".join(str(v) for v in broken[:_SHOWN])
        raise RefereeRefused(f"{method.name} returned a plan that breaks rules: {told}")


def termination_of(
    outcome: Outcome, objective: Objective, gap: float | None, wanted: float | None
) -> Termination:
    """``optimal`` is a matter of the gap, not of what a solver calls it."""
    stopped = outcome.termination
    if stopped in (Termination.INFEASIBLE, Termination.INTERRUPTED, Termination.ERROR):
        return stopped
    if gap is not None and gap <= objective.optimal_gap and outcome.bound_of == "problem":
        return Termination.OPTIMAL
    if stopped in (Termination.OPTIMAL, Termination.GAP_REACHED):
        if wanted is not None and gap is not None and gap <= wanted:
            return Termination.GAP_REACHED
        reached = gap is not None and outcome.bound_of == "restricted"
        return Termination.GAP_REACHED if reached else Termination.ITERATION_LIMIT
    return stopped


def write_result(
    instance: Instance,
    method: Method,
    request: Request,
    outcome: Outcome,
    objective: Objective,
    plan: Plan | None,
    evaluation: Evaluation | None,
    *,
    began: float,
    **more: Any,
) -> Result:
    """Write the result of a checked outcome.

    Parameters
    ----------
    plan, evaluation
        What the referee judged; ``None`` without a plan.
    began
        ``time.perf_counter()`` at the start of the check.
    more
        Further fields of `Result`.

    Raises
    ------
    SolverError
        The plan beats the bound.
    """
    value = None if evaluation is None else evaluation.objective(objective.name)
    check_bound(method, outcome, objective, value, evaluation)
    # the value of a plan that breaks a limit is no distance from what feasible plans can reach
    comparable = value if evaluation is not None and evaluation.feasible else None
    gap = objective.gap(comparable, outcome.bound)
    times = {"build": 0.0, "solve": 0.0, **outcome.times}
    times["check"] = time.perf_counter() - began
    fields = {"objective_levels": outcome.levels, **more}
    return Result(
        instance_name=instance.name,
        instance_sha256=instance.sha256,
        method=method.name,
        solver=outcome.solver or request.solver,
        seed=request.seed,
        termination=termination_of(outcome, objective, gap, request.gap),
        plan=plan,
        objective=ObjectiveValue(objective.name, value, objective.sense),
        bound=outcome.bound,
        bound_of=None if outcome.bound is None else outcome.bound_of,
        gap=gap,
        evaluation=evaluation,
        reasons=outcome.reasons,
        notes=tuple(outcome.notes),
        times=times,
        trace=tuple(outcome.trace),
        **fields,
    )
