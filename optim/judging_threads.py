"""From a model-driven outcome to a `Result`; the counterpart of `optim.judging` for threads."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from optim.errors import RefereeRefused, SolverError
from optim.objectives import OBJECTIVES
from optim.referee_model_driven import evaluate_model_driven
from optim.results import Level, ObjectiveValue, Result
from optim.versions import versions_of

if TYPE_CHECKING:
    from optim.evaluation import Evaluation
    from optim.instance import Instance
    from optim.plan import Plan
    from optim.registry import Method, Outcome, Request

_CLAIM = 1e-6


def judge_threads(
    instance: Instance,
    relaxed: Instance,
    method: Method,
    request: Request,
    outcome: Outcome,
    *,
    ignored: tuple[str, ...],
) -> Result:
    """Check everything an outcome of threads says and write the result.

    Parameters
    ----------
    instance, relaxed
        The instance as given, and without the ignored limits; the latter is what is judged.

    Raises
    ------
    SolverError
        The claimed value differs from the referee's.
    RefereeRefused
        The method promises feasible plans and this one is not.
    """
    from optim.judging import termination_of

    began = time.perf_counter()
    objective = OBJECTIVES[outcome.objective or method.objective]
    versions = versions_of(method, request.solver)
    plan, evaluation = None, None
    if outcome.threads is not None:
        plan = outcome.threads.to_plan(instance, method.name, versions)
        evaluation = evaluate_model_driven(relaxed, plan)
        _check(method, outcome, evaluation, objective.name)
        _tell(instance, plan, evaluation, outcome)
    value = None if evaluation is None else evaluation.objective(objective.name)
    gap = objective.gap(value, outcome.bound)
    times = {"build": 0.0, "solve": 0.0, **outcome.times}
    times["check"] = time.perf_counter() - began
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
        objective_levels=tuple(_level(level, evaluation) for level in outcome.levels),
        evaluation=evaluation,
        ignored=ignored,
        reasons=outcome.reasons,
        notes=tuple(outcome.notes),
        times=times,
        trace=tuple(outcome.trace),
        versions=versions,
    )


def _check(method: Method, outcome: Outcome, evaluation: Evaluation, objective: str) -> None:
    value = evaluation.objective(objective)
    claimed = outcome.claimed
    if claimed is not None and value is not None and abs(value - claimed) > _CLAIM * max(1, value):
        raise SolverError(
            f"{method.name} ({outcome.solver or 'no solver'}) claims {objective} = {claimed:.9g}, "
            f"but the referee finds {value:.9g}"
        )
    if method.promises_feasibility and evaluation.violations:
        broken = "; ".join(str(v) for v in evaluation.violations[:5])
        raise RefereeRefused(f"{method.name} returned a plan that breaks rules: {broken}")


def _tell(instance: Instance, plan: Plan, evaluation: Evaluation, outcome: Outcome) -> None:
    """Say where shuffle grouping falls short of the rate that was planned for."""
    wanted, supported = instance.input_rate, evaluation.supported_rate
    if wanted is None or supported is None or supported >= wanted * (1 - 1e-9):
        return
    outcome.notes.append(
        f"shuffle grouping supports {supported:.4g} of {wanted:.4g} tuples/s: "
        f"{evaluation.bottleneck} is full first"
    )
    capacity = evaluation.capacity_rate
    if capacity is not None and capacity < wanted * (1 - 1e-9):
        outcome.notes.append(
            f"by the models the slots could sustain {capacity:.4g} tuples/s whatever the grouping"
        )


def _level(level: Level, evaluation: Evaluation | None) -> Level:
    """Tell a further level by the referee's figure."""
    value = None if evaluation is None else evaluation.objective(level.name)
    return Level(level.name, level.sense, value, level.bound)
