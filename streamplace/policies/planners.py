"""What plans for a policy: any method, nothing at all, and triggers that ask a method.

A planner looks at what runs, and says what is to run. `streamplace.policies.algorithm1` makes a
policy of it, which adds and removes nodes as well.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from optim.errors import StreamplaceError
from optim.methods.choose import check_suitable
from optim.methods.registry import get_method
from optim.referee import evaluate_indices
from optim.rules import limits_set, without_limits
from streamplace.policies.nodes import Deployment
from streamplace.policies.policy import Planned

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from optim.format.instance import Instance
    from optim.referee import Result

    Memory = Mapping[str, Any]


def ignored_limits(instance: Instance, method: str) -> tuple[str, ...]:
    """Return the limits that are set and that a method does not honour."""
    honours = get_method(method).honours
    return tuple(n for n in limits_set(instance) if n not in honours and n != "capacity")


def attempt(
    instance: Instance, method: str | None, seed: int, **settings: Any
) -> tuple[Result | None, str]:
    """Solve without the limits that the method ignores: its result, or none, and why no plan.

    Raises `KeyboardInterrupt`: it was interrupted.
    """
    from optim.methods.solve import solve

    # repair and the choice of a method keep every limit; one method may not know some
    repaired = method is None or settings.get("repair")
    ignore = () if repaired else ignored_limits(instance, str(method))
    try:
        result = solve(instance, method, seed=seed, ignore=ignore, **settings)
    except StreamplaceError as error:
        return None, str(error)
    if str(result.termination) == "interrupted":
        raise KeyboardInterrupt
    why = "; ".join(map(str, result.reasons)) or "; ".join(result.notes)
    return result, why if result.plan is None else ""


def unchanged(instance: Instance, termination: str, note: str = "") -> Planned:
    """Go on with what runs."""
    node = instance.tasks.node
    feasible = bool((node >= 0).all()) and evaluate_indices(instance, node).feasible
    return Planned(Deployment.whole(node), termination, feasible, note)


class Planner(ABC):
    """Says what is to run on the nodes there are."""

    scales: bool = False  # Whether adding and removing nodes makes sense with it.
    period: float = 60.0  # Seconds that a period of a recording stands for.

    def check(self, instance: Instance) -> None:
        """Refuse an instance that cannot be planned, before anything starts.

        Raises `UnsuitableMethod, InvalidInput`: it lacks what the method cannot do without.
        """
        return

    @abstractmethod
    def plan(self, instance: Instance, memory: Memory, seed: int, now: float) -> Planned:
        """Plan for measured loads.

        `memory`: what the last call left.
        `seed`, `now`: of everything random; seconds.
        """

    def meets(self, instance: Instance, deployment: Deployment) -> Deployment:
        """Return the deployment as it stands under other loads: routing may follow at once."""
        return deployment


@dataclass(frozen=True)
class Static(Planner):
    """Never moves anything."""

    def plan(self, instance: Instance, memory: Memory, seed: int, now: float) -> Planned:
        """Keep what runs."""
        return unchanged(instance, "static")


@dataclass(frozen=True)
class ByMethod(Planner):
    """Plans with a registered method.

    Limits that the instance sets and the method does not honour are ignored: COLA knows no budget.
    """

    method: str | None  # Its name; ``None`` to choose by the instance, as `solve` does.
    #: ``objective``, ``solver``, ``time_limit`` and ``gap`` of each plan.
    solve: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)  # Of the method.
    scales: bool = True

    def check(self, instance: Instance) -> None:
        """Refuse what the method cannot do without."""
        if self.method is not None and not self.solve.get("repair"):
            relaxed = without_limits(instance, ignored_limits(instance, self.method))
            check_suitable(get_method(self.method), relaxed)

    def plan(self, instance: Instance, memory: Memory, seed: int, now: float) -> Planned:
        """Solve; a failure keeps what runs, and is reported."""
        result, why = attempt(instance, self.method, seed, **self.solve, **self.options)
        if result is None:
            return Planned(None, "error", False, why)
        if result.plan is None:
            return Planned(None, str(result.termination), False, why)
        notes = [f"ignored: {', '.join(result.ignored)}"] if result.ignored else []
        if result.mending is not None:
            notes.append(str(result.mending))
        return Planned(
            Deployment.whole(result.plan.node_indices(instance)),
            str(result.termination),
            result.feasible,
            "; ".join(notes),
            objective=result.objective.value if result.objective else None,
            bound=result.bound if result.bound_of == "problem" else None,
            plan=result.plan,
            aim=result.objective.name if result.objective else None,
        )


@dataclass(frozen=True)
class Trigger(Planner):
    """What planners share that have a method plan once something calls for it."""

    planner: ByMethod  # Makes the fresh plan.

    def check(self, instance: Instance) -> None:
        """Refuse an instance that the method cannot plan."""
        self.planner.check(instance)

    def keep(self, instance: Instance, memory: Memory, note: str = "") -> Planned:
        """Go on with what runs, and remember."""
        return replace(unchanged(instance, "unchanged", note), memory=memory)

    def replan(
        self,
        instance: Instance,
        seed: int,
        judge: Callable[[Deployment], tuple[bool, str]],
        memory: Memory,
        otherwise: Memory,
    ) -> Planned:
        """Make a fresh plan, and take it if it is worth it.

        `judge`: says of a fresh deployment whether it is taken, and why.
        `memory`, `otherwise`: what is remembered where it is carried out, and where it is not
            taken. A plan that is taken and held back from outside is asked for again: all is as
            before then.
        """
        fresh = self.planner.plan(instance, {}, seed, 0.0)
        if fresh.deployment is None:
            current = Deployment.whole(instance.tasks.node)
            return Planned(current, fresh.termination, False, fresh.note, memory=otherwise)
        taken, why = judge(fresh.deployment)
        if not taken:
            return self.keep(instance, otherwise, why)
        note = "; ".join(filter(None, (why, fresh.note)))
        return replace(fresh, note=note, objective=None, bound=None, memory=memory)
