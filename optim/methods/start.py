"""Warm starts: from a method, a plan or a plan's file, checked before anyone starts from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from optim.errors import InvalidInput, Problem
from optim.format.plan import Plan
from optim.methods.registry import get_method, method_names
from optim.methods.suitable import check_suitable
from optim.referee.evaluate import check_belongs, evaluate_indices

if TYPE_CHECKING:
    from optim.format.instance import Instance
    from optim.format.tables import Ints
    from optim.methods.registry import Method, Request
    from optim.referee.evaluation import Evaluation


@dataclass(frozen=True, eq=False)
class Start:
    """Where a solve begins: node indices, where they came from, and the referee's judgement."""

    method: str
    node: Ints
    evaluation: Evaluation
    seconds: float = 0.0

    def into(self, request: Request) -> Request:
        """Return the request with this start."""
        return replace(request, warm_start=self.node)


def resolve_start(
    instance: Instance, method: Method, given: str | Path | Plan | None, request: Request
) -> Start | None:
    """Turn what the user gave into a start.

    Raises
    ------
    InvalidInput
        The method takes no start, or the start is no method, no file, or incomplete.
    """
    if given is None:
        return None
    if not method.takes_warm_start:
        raise InvalidInput(
            Problem("--warm-start", str(given), f"is of no use: {method.name} takes no start")
        )
    if isinstance(given, Plan):
        return _from_plan(instance, given, given.method or "plan")
    if str(given) in method_names():
        return _from_method(instance, str(given), request)
    if not _may_exist(Path(given)):
        raise InvalidInput(
            Problem("--warm-start", str(given), "is neither a method nor a plan's file")
        )
    return _from_plan(instance, Plan.load(given), str(given))


def _may_exist(path: Path) -> bool:
    """Whether there is such a file; where asking fails, reading it will tell why."""
    try:
        return path.exists()
    except OSError:
        return True


def _from_plan(instance: Instance, plan: Plan, name: str) -> Start:
    if plan._instance is None:
        # a relaxed copy of the instance has another hash; names are what matters here
        plan = replace(plan, claimed_instance_sha256=None)
        check_belongs(instance, plan)
    node = plan.node_indices(instance)
    if len(node) and node.min() < 0:
        task = instance.tasks.ids[int(node.argmin())]
        raise InvalidInput(Problem("--warm-start", name, f"places no task {task}", "complete it"))
    return Start(name, node, evaluate_indices(instance, node))


def _from_method(instance: Instance, name: str, request: Request) -> Start:
    from optim.methods.run import finish, run_method, starting

    starter = get_method(name)
    check_suitable(starter, instance, repair=True)
    asked = starting(starter, request)
    outcome = run_method(starter, instance, asked)
    finish(instance, outcome)
    if outcome.node is None or outcome.node.min(initial=0) < 0:
        raise InvalidInput(
            Problem("--warm-start", name, "found no complete plan to start from", "use another")
        )
    node = outcome.node.astype("int32")
    return Start(name, node, evaluate_indices(instance, node), asked.elapsed())
