"""What a method says of its plan, held against the referee; the result written from both."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import RefereeRefused, SolverError
from optim.methods.draining import needed
from optim.referee.result import Result, Termination
from optim.rules import broken
from optim.rules.placement import Placement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optim.figures.figure import Figure
    from optim.format.instance import Instance
    from optim.format.plan import Plan
    from optim.format.tables import Ints
    from optim.methods.registry import Method, Outcome, Request
    from optim.referee.evaluation import Evaluation
    from optim.rules.violation import Violation

_CLAIM_RELATIVE = 1e-6
#: What tolerances of solvers may add to any claim: of all traffic, of all load, or of 1.
_CLAIM_NOISE = 1e-7
_SHOWN = 5
#: Of all there is: what sums of some thousand terms, added in another order, differ by. More than
#: that is no rounding of ours, and a solver's tolerance is not told from a pair of little traffic.
_ROUNDING = 1e-12

FOR_EVERY_PLAN = "for every plan"
"""In the note that an objective is the same whatever the plan."""


def check_claim(
    method: Method, outcome: Outcome, objective: Figure, evaluation: Evaluation
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
    if not abs(value - outcome.claimed) <= allowed:  # a claimed NaN is none of them
        raise SolverError(
            f"{method.name} ({outcome.solver or 'no solver'}) claims {objective.name} = "
            f"{outcome.claimed:.9g}, but the referee finds {value:.9g}"
        )


def _claim_noise(objective: Figure, evaluation: Evaluation) -> float:
    """What a solver's tolerances may add to any claim: a share of all there is of the unit."""
    if objective.unit == "rate" and evaluation.total_traffic is not None:
        return _CLAIM_NOISE * evaluation.total_traffic
    if objective.unit == "resource" and evaluation.node_loads:
        loads = (next(iter(loads.values())) for loads in evaluation.node_loads.values())
        return _CLAIM_NOISE * sum(loads)
    return _CLAIM_NOISE


def check_bound(
    method: Method,
    outcome: Outcome,
    objective: Figure,
    value: float | None,
    evaluation: Evaluation | None,
    *,
    stands: bool,
) -> None:
    """Hold a bound against the plan at hand, where that `stands`: breaks no limit that binds.

    A plan outside of the restricted problem (a repaired one, say) may beat a bound of that: it
    then tells nothing of the plan, and is dropped with a note. So is what a solver claims.

    Raises
    ------
    SolverError
        A feasible plan beats a bound of the whole problem that no solver is behind.
    """
    if outcome.bound is None:
        return
    if not np.isfinite(outcome.bound):
        outcome.bound = None
        return
    if value is None or evaluation is None or not stands:
        return
    if not objective.beats_bound(value, outcome.bound, objective.reference_of(evaluation)):
        return
    if outcome.assumes:
        outcome.notes.append(
            f"the bound {outcome.bound:.9g} on {objective.name} among plans "
            f"{' and '.join(outcome.assumes)} is dropped, since the plan has {value:.9g}"
        )
        outcome.bound, outcome.assumes = None, ()
        return
    false = (
        f"{method.name} ({outcome.solver or 'no solver'}) claims {outcome.bound:.9g} as a "
        f"proven bound on {objective.name}, but a checked plan has {value:.9g}"
    )
    if outcome.solver is None:
        raise SolverError(false)
    outcome.notes.append(f"{false}: not believed")
    outcome.bound = None
    if outcome.termination in (Termination.OPTIMAL, Termination.GAP_REACHED):
        outcome.termination = Termination.ITERATION_LIMIT


def settle_assumptions(method: Method, instance: Instance, outcome: Outcome) -> None:
    """Say of what a proof is, where the method assumed more than the file says.

    "Infeasible" is then no proof: a plan outside of what was assumed may keep all rules.
    """
    outcome.assumes = needed(instance, outcome.assumes)
    if not outcome.assumes:
        return
    among = " and ".join(outcome.assumes)
    if outcome.termination is Termination.INFEASIBLE:
        outcome.termination, outcome.reasons = Termination.ITERATION_LIMIT, ()
        outcome.notes.append(
            f"there is no plan among those {among}; {method.name} looks for no other"
        )
    elif outcome.bound is not None:
        outcome.notes.append(f"the bound holds among plans {among}")


def broken_by(
    objective: Figure, instance: Instance, node: Ints, slot: Ints | None, evaluation: Evaluation
) -> Sequence[Violation]:
    """Return what a plan breaks beside the limits that the objective measures."""
    if objective.hard is None or evaluation.feasible:
        return evaluation.violations
    return broken(Placement(objective.binding(instance), node, slot))


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
    outcome: Outcome, objective: Figure, gap: float | None, wanted: float | None
) -> Termination:
    """``optimal`` is a matter of the gap, not of what a solver calls it."""
    stopped = outcome.termination
    if stopped in (Termination.INFEASIBLE, Termination.INTERRUPTED, Termination.ERROR):
        return stopped
    if gap is not None and gap <= objective.optimal_gap and not outcome.assumes:
        return Termination.OPTIMAL
    if stopped in (Termination.OPTIMAL, Termination.GAP_REACHED):
        if wanted is not None and gap is not None and gap <= wanted:
            return Termination.GAP_REACHED
        reached = gap is not None and bool(outcome.assumes)
        return Termination.GAP_REACHED if reached else Termination.ITERATION_LIMIT
    return stopped


def write_result(
    instance: Instance,
    method: Method,
    request: Request,
    outcome: Outcome,
    objective: Figure,
    plan: Plan | None,
    evaluation: Evaluation | None,
    *,
    began: float,
    stands: bool | None = None,
    **more: Any,
) -> Result:
    """Write the result of a checked outcome.

    Parameters
    ----------
    plan, evaluation
        What the referee judged; ``None`` without a plan.
    began
        ``time.perf_counter()`` at the start of the check.
    stands
        Whether the plan keeps what binds under the objective; by default whether it is feasible.
    more
        Further fields of `Result`.

    Raises
    ------
    SolverError
        The plan beats the bound.
    """
    value = None if evaluation is None else evaluation.objective(objective.name)
    _settle_rounding(outcome, objective, value, objective.reference_of(evaluation))
    if stands is None:
        stands = evaluation is not None and evaluation.feasible
    check_bound(method, outcome, objective, value, evaluation, stands=stands)
    # the value of a plan that breaks a limit is no distance from what feasible plans can reach
    comparable = value if stands else None
    gap = objective.gap(comparable, outcome.bound, objective.reference_of(evaluation))
    stopped = termination_of(outcome, objective, gap, request.gap)
    whole = None if outcome.assumes else outcome.bound
    fixed = objective.fixed(instance, comparable, whole)
    if fixed is not None and comparable is not None:
        outcome.notes.append(f"{objective.name} is {comparable:g} {FOR_EVERY_PLAN}: {fixed}")
        proofs = (Termination.OPTIMAL, Termination.GAP_REACHED)
        stopped = Termination.HEURISTIC if stopped in proofs else stopped
    times = {"build": 0.0, "solve": 0.0, **outcome.times}
    times["check"] = time.perf_counter() - began
    fields = {"objective_levels": outcome.levels, **more}
    return Result(
        instance_name=instance.name,
        instance_sha256=instance.sha256,
        method=method.name,
        solver=outcome.solver or request.solver,
        seed=request.seed,
        termination=stopped,
        plan=plan,
        objective=objective.of(value),
        bound=outcome.bound,
        bound_of=_bound_of(outcome),
        bound_by=None if outcome.bound is None else "one solver",
        assumes=outcome.assumes if outcome.bound is not None else (),
        gap=gap,
        evaluation=evaluation,
        reasons=outcome.reasons,
        notes=tuple(outcome.notes),
        times=times,
        trace=tuple(outcome.trace),
        **fields,
    )


def _settle_rounding(
    outcome: Outcome, objective: Figure, value: float | None, total: float | None
) -> None:
    """Take a bound that differs from the value by rounding, of all there is, for the value.

    A bound that leaves room for better is left as it is, unless there is nothing: of a little that
    stands beside much, rounding of the much would be all.
    """
    if value is None or outcome.bound is None or not total:
        return
    beyond = objective.better(value, outcome.bound)
    if (beyond or not value) and abs(outcome.bound - value) <= _ROUNDING * total:
        outcome.bound = value


def _bound_of(outcome: Outcome) -> str | None:
    if outcome.bound is None:
        return None
    return "restricted" if outcome.assumes else "problem"
