"""Policies: what plans a period. Any method, `static`, `potc`, and triggers that ask a method.

Others register policies of theirs in the entry point group ``streamplace.policies``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from experiments.replay.deployment import Deployment
from optim.errors import InvalidInput, Problem, StreamplaceError
from optim.methods.registry import get_method, method_names
from optim.options import Option, read_options
from optim.plugins import Plugins
from optim.referee.evaluate import evaluate_indices

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from optim.format.instance import Instance

_SOLVE = (
    Option("solver", "str", None, "back end"),
    Option("time_limit", "float", None, "seconds for each plan", minimum=1e-3),
    Option("gap", "float", None, "as `streamplace solve --gap`", minimum=0.0),
    Option(
        "start_broken",
        "str",
        "mend",
        "as `streamplace solve --start-broken`",
        choices=("mend", "refuse"),
    ),
)


@dataclass(frozen=True)
class Planned:
    """What a policy wants deployed.

    Attributes
    ----------
    deployment
        ``None`` when there is no plan; what runs then goes on.
    termination, feasible
        As in the result of a method; ``None`` where split key groups leave no placement to judge.
    note
        Why there is no plan, or what was ignored.
    objective, bound
        What the method's objective comes to on what it planned with, and a proven bound on it;
        ``None`` where unknown.
    """

    deployment: Deployment | None
    termination: str
    feasible: bool | None
    note: str = ""
    objective: float | None = None
    bound: float | None = None


def keeps_limits(instance: Instance, deployment: Deployment) -> bool:
    """Whether a deployment of undivided key groups keeps every limit of an instance."""
    return evaluate_indices(instance, deployment.node.astype(np.int32)).feasible


class Policy(Protocol):
    """Plans periods; as far as it does not say otherwise, it takes every instance as it runs."""

    @property
    def scales(self) -> bool:
        """Whether scaling makes sense with it."""

    def check(self, instance: Instance) -> None:
        """Refuse an instance that the policy cannot plan, before the replay starts."""
        return

    def start(self, instance: Instance, deployment: Deployment) -> Deployment:
        """Return what runs before the first plan, given what the recording has."""
        return deployment

    def plan(self, instance: Instance, deployment: Deployment, seed: int) -> Planned:
        """Plan on the measured loads of a period."""

    def meets(self, instance: Instance, deployment: Deployment) -> Deployment:
        """Return the deployment as it stands under other loads: routing may follow at once."""
        return deployment


@dataclass(frozen=True)
class Planner:
    """What a policy declares of itself.

    Attributes
    ----------
    name, summary
        Its name and one line.
    make
        Makes the policy from its typed options, the seed, and a limit on the seconds of a plan.
    options
        Typed, with defaults.
    passes_on
        Whether options it does not declare go on to a method that it plans with, as texts.
    """

    name: str
    summary: str
    make: Callable[[Mapping[str, Any], int, float | None], Policy]
    options: tuple[Option, ...] = ()
    passes_on: bool = False


POLICIES: Plugins[Planner] = Plugins(
    group="streamplace.policies",
    noun="policy",
    where="--policy",
    declared=f"{__name__}:Planner",
)


@dataclass(frozen=True)
class Static(Policy):
    """Never moves anything."""

    scales: bool = False

    def plan(self, instance: Instance, deployment: Deployment, seed: int) -> Planned:
        """Keep what runs."""
        return Planned(deployment, "static", keeps_limits(instance, deployment))


@dataclass(frozen=True)
class Potc(Policy):
    """Splits every key group over two hashed nodes; see `experiments.replay.potc`.

    Attributes
    ----------
    seed
        Of the hash functions; the same in every period.
    merge
        Load of merging, as a share of a key group's load.
    """

    seed: int = 0
    merge: float = 0.1
    scales: bool = True

    def start(self, instance: Instance, deployment: Deployment) -> Deployment:
        """Begin on the hashed nodes."""
        return self.meets(instance, deployment)

    def plan(self, instance: Instance, deployment: Deployment, seed: int) -> Planned:
        """Hash over the nodes there are; budgets do not bind it."""
        return Planned(self.meets(instance, deployment), "routing", None)

    def meets(self, instance: Instance, deployment: Deployment) -> Deployment:
        """Follow the loads: every tuple is routed anew."""
        from experiments.replay.potc import deploy

        return deploy(instance, self.seed, self.merge)


@dataclass(frozen=True)
class ByMethod(Policy):
    """Plans with a registered method.

    Limits that the instance sets and the method does not honour are ignored: COLA knows no budget.

    Attributes
    ----------
    method
        Its name.
    solve
        ``solver``, ``time_limit`` and ``gap`` of each plan.
    options
        Of the method.
    """

    method: str
    solve: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    scales: bool = True

    def check(self, instance: Instance) -> None:
        """Refuse what the method cannot do without.

        Raises
        ------
        UnsuitableMethod
            The method needs a part that the instance lacks.
        """
        from optim.methods.suitable import check_suitable
        from optim.rules import without_limits

        method = get_method(self.method)
        check_suitable(method, without_limits(instance, self._ignored(instance)))

    def plan(self, instance: Instance, deployment: Deployment, seed: int) -> Planned:
        """Solve; a failure keeps what runs and is told in the row."""
        from optim.methods.solve import solve

        ignored = self._ignored(instance)
        try:
            result = solve(
                instance, self.method, seed=seed, ignore=ignored, **self.solve, **self.options
            )
        except StreamplaceError as error:
            return Planned(None, "error", False, str(error))
        if str(result.termination) == "interrupted":
            raise KeyboardInterrupt
        if result.plan is None:
            why = "; ".join(map(str, result.reasons)) or "; ".join(result.notes)
            return Planned(None, str(result.termination), False, why)
        node = result.plan.node_indices(instance)
        told = [f"ignored: {', '.join(ignored)}"] if ignored else []
        if result.mending is not None:
            told.append(str(result.mending))
        note = "; ".join(told)
        return Planned(
            Deployment.whole(node),
            str(result.termination),
            result.feasible,
            note,
            objective=result.objective.value if result.objective else None,
            bound=result.bound if result.bound_of == "problem" else None,
        )

    def _ignored(self, instance: Instance) -> tuple[str, ...]:
        from optim.rules import limits_set

        honours = get_method(self.method).honours
        return tuple(n for n in limits_set(instance) if n not in honours and n != "capacity")


def read_policy(text: str, seed: int, time_limit: float | None = None) -> Policy:
    """Read ``name`` or ``name:option=value,…``.

    Parameters
    ----------
    text
        Name of one of `POLICIES` or of a method. Methods take ``solver``,
        ``time_limit`` and ``gap`` beside their own options.
    seed
        Of the hash functions of ``potc``.
    time_limit
        Of each plan, where the text gives none.

    Raises
    ------
    InvalidInput
        No such policy or option.
    """
    name, _, rest = text.partition(":")
    given: dict[str, str] = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise InvalidInput(
                Problem("--policy", text, f"{part!r} is not of the form option=value")
            )
        given[key.strip()] = value.strip()
    methods = method_names()
    if POLICIES.is_ours(name) or (name in POLICIES.names() and name not in methods):
        return _own_policy(POLICIES.get(name), given, seed, time_limit)
    if name not in methods:
        known = ", ".join((*POLICIES.names(), *methods))
        raise InvalidInput(Problem("--policy", name, "is no policy", f"one of {known}"))
    method = get_method(name)
    ours, theirs = _parted(_SOLVE, given)
    solve = read_options(name, _SOLVE, ours, where=f"--policy {name}:{{}}")
    if solve["time_limit"] is None:
        solve["time_limit"] = time_limit
    if solve["solver"] is not None and solve["solver"] not in method.solvers:
        remedy = ", ".join(method.solvers) or f"none: {name} uses no solver"
        raise InvalidInput(Problem("--policy", text, "names a solver it cannot use", remedy))
    return ByMethod(name, solve, method.read_options(theirs))


@dataclass(frozen=True)
class Trigger(Policy):
    """What policies share that have a method plan once something calls for it.

    Attributes
    ----------
    planner
        Makes the fresh plan.
    """

    planner: ByMethod
    scales: ClassVar[bool] = False

    def check(self, instance: Instance) -> None:
        """Refuse an instance that the method cannot plan.

        Raises
        ------
        UnsuitableMethod
            The method lacks a part of the instance.
        """
        self.planner.check(instance)

    def keep(self, instance: Instance, deployment: Deployment, note: str = "") -> Planned:
        """Go on with what runs."""
        return Planned(deployment, "kept", keeps_limits(instance, deployment), note)

    def replan(
        self,
        instance: Instance,
        deployment: Deployment,
        seed: int,
        judge: Callable[[Deployment], tuple[bool, str]],
        memory: Mapping[str, list[float]],
    ) -> Planned:
        """Make a fresh plan, and take it if it is worth it.

        Parameters
        ----------
        deployment
            What runs, with what is remembered where it goes on.
        judge
            Says of a fresh deployment whether it is taken, and why.
        memory
            What is remembered of one that is.
        """
        fresh = self.planner.plan(instance, deployment, seed)
        if fresh.deployment is None:
            return Planned(deployment, fresh.termination, False, fresh.note)
        taken, why = judge(fresh.deployment)
        if not taken:
            return self.keep(instance, deployment, why)
        note = "; ".join(filter(None, (why, fresh.note)))
        after = fresh.deployment.remembering(memory)
        return Planned(after, fresh.termination, fresh.feasible, note)


def triggering(
    name: str, summary: str, policy: Callable[..., Policy], options: tuple[Option, ...]
) -> Planner:
    """Declare a `Trigger`; of its options ``method`` plans, what it has not goes to that."""
    make = partial(_make_trigger, name, policy, options)
    return Planner(name, summary, make, options, passes_on=True)


def _make_trigger(
    name: str,
    policy: Callable[..., Policy],
    options: Iterable[Option],
    given: Mapping[str, Any],
    seed: int,
    time_limit: float | None,
) -> Policy:
    """Make a trigger with the method that it plans with.

    Raises
    ------
    InvalidInput
        It is no method, or takes no such option.
    """
    own = {option.name: given[option.name] for option in options}
    rest = [f"{key}={value}" for key, value in given.items() if key not in own]
    method = own.pop("method")
    planner = read_policy(":".join(filter(None, (method, ",".join(rest)))), seed, time_limit)
    if not isinstance(planner, ByMethod):
        raise InvalidInput(Problem(f"--policy {name}:method", method, "is no method", "take one"))
    return policy(planner, **own)


def _own_policy(
    planner: Planner, given: Mapping[str, str], seed: int, time_limit: float | None
) -> Policy:
    ours, theirs = _parted(planner.options, given)
    told = ours if planner.passes_on else given
    options = read_options(
        planner.name, planner.options, told, where=f"--policy {planner.name}:{{}}"
    )
    return planner.make({**theirs, **options}, seed, time_limit)


def _parted(
    options: Iterable[Option], given: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return what is given for these options, and the rest."""
    names = {option.name for option in options}
    ours = {key: value for key, value in given.items() if key in names}
    return ours, {key: value for key, value in given.items() if key not in names}


STATIC = Planner("static", "never moves anything", lambda *_: Static())

POTC = Planner(
    "potc",
    "splits every key group over two hashed nodes (partial key grouping)",
    lambda options, seed, _: Potc(seed, **options),
    (Option("merge", "float", 0.1, "load of merging, share of a key group's load", minimum=0.0),),
)
