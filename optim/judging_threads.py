"""From a model-driven outcome to a `Result`; the counterpart of `optim.judging` for threads."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from optim.claims import check_claim, check_promise, write_result
from optim.objectives import OBJECTIVES
from optim.referee_model_driven import evaluate_model_driven
from optim.results import Level
from optim.versions import versions_of

if TYPE_CHECKING:
    from optim.evaluation import Evaluation
    from optim.instance import Instance
    from optim.plan import Plan
    from optim.registry import Method, Outcome, Request
    from optim.results import Result


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
    began = time.perf_counter()
    objective = OBJECTIVES[outcome.objective or method.objective]
    versions = versions_of(method, request.solver)
    plan, evaluation = None, None
    if outcome.threads is not None:
        plan = outcome.threads.to_plan(instance, method.name, versions)
        evaluation = evaluate_model_driven(relaxed, plan)
        check_claim(method, outcome, objective, evaluation)
        check_promise(method, evaluation.violations)
        _tell(instance, plan, evaluation, outcome)
    return write_result(
        instance,
        method,
        request,
        outcome,
        objective,
        plan,
        evaluation,
        began=began,
        objective_levels=tuple(_level(level, evaluation) for level in outcome.levels),
        ignored=ignored,
        versions=versions,
    )


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
