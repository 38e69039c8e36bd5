"""From an outcome of threads to a `Result`; the counterpart of `optim.methods.judge`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from optim.figures.catalogue import OBJECTIVES
from optim.methods.claims import check_claim, check_promise, write_result
from optim.referee.kinds import plan_kind
from optim.referee.result import Level
from optim.util.versions import versions_of

if TYPE_CHECKING:
    from optim.format.instance import Instance
    from optim.methods.registry import Method, Outcome, Request
    from optim.referee.evaluation import Evaluation
    from optim.referee.result import Result


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
    objective = OBJECTIVES[outcome.objective or request.objective or method.objective]
    versions = versions_of(method, request.solver)
    plan, evaluation = None, None
    if outcome.threads is not None:
        plan = outcome.threads.to_plan(instance, method.name, versions)
        kind = plan_kind("threads")
        evaluation = kind.evaluate(relaxed, plan)
        check_claim(method, outcome, objective, evaluation)
        check_promise(method, evaluation.violations)
        outcome.notes += kind.remarks(instance, plan, evaluation)
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


def _level(level: Level, evaluation: Evaluation | None) -> Level:
    """Tell a further level by the referee's figure."""
    value = None if evaluation is None else evaluation.objective(level.name)
    return Level(level.name, level.sense, value, level.bound)
