"""Policies: what plans a period. Any method, `static`, and triggers that ask a method.

Others register policies of theirs in the entry point group ``streamplace.policies``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from experiments.replay.deployment import Deployment
from experiments.traces.instances import attempt, ignored_limits
from optim.errors import InvalidInput, Problem, meant
from optim.methods.choose import check_suitable
from optim.methods.registry import get_method, method_names
from optim.options import Option, read_options
from optim.plugins import Plugins
from optim.referee.evaluate import evaluate_indices
from optim.rules import without_limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from optim.format.instance import Instance

T = TypeVar("T")

_SOLVE = (
    Option("solver", "str", None, "back end"),
    Option("time_limit", "float", None, "seconds for each plan", minimum=1e-3),
    Option("gap", "float", None, "as `streamplace solve --gap`", minimum=0.0),
    Option(
        "start_broken", "str", "mend", "as `streamplace solve --start-broken`",
        choices=("mend", "refuse"),
    ),
)  # fmt: skip


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
    return evaluate_indices(instance, deployment.placement).feasible


class Policy(Protocol):
    """Plans periods; as far as it does not say otherwise, it takes every instance as it runs."""

    @property
    def scales(self) -> bool:
        """Whether scaling makes sense with it."""

    def check(self, instance: Instance) -> None:
        """Refuse an instance that the policy cannot plan, before the replay starts.

        Raises
        ------
        UnsuitableMethod, InvalidInput
            It lacks what the policy, or the method that plans, cannot do without.
        """
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


_OF_STUDIES = ("potc", "storm-trigger")
"""Policies that only the papers use."""

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
        """Refuse what the method cannot do without."""
        relaxed = without_limits(instance, ignored_limits(instance, self.method))
        check_suitable(get_method(self.method), relaxed)

    def plan(self, instance: Instance, deployment: Deployment, seed: int) -> Planned:
        """Solve; a failure keeps what runs and is reported in the row."""
        result, why = attempt(instance, self.method, seed, **self.solve, **self.options)
        if result is None:
            return Planned(None, "error", False, why)
        if result.plan is None:
            return Planned(None, str(result.termination), False, why)
        node = result.plan.node_indices(instance)
        ignored = ignored_limits(instance, self.method)
        told = [f"ignored: {', '.join(ignored)}"] if ignored else []
        if result.mending is not None:
            told.append(str(result.mending))
        return Planned(
            Deployment.whole(node),
            str(result.termination),
            result.feasible,
            "; ".join(told),
            objective=result.objective.value if result.objective else None,
            bound=result.bound if result.bound_of == "problem" else None,
        )


def read_policy(text: str, seed: int, time_limit: float | None = None) -> Policy:
    """Read ``name`` or ``name:option=value,…``.

    Parameters
    ----------
    text
        Name of one of `POLICIES` or of a method. Methods take ``solver``,
        ``time_limit`` and ``gap`` beside their own options.
    seed
        Of policies that draw, such as ``potc``.
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
            reason = f"{part!r} is not of the form option=value"
            raise InvalidInput(Problem("--policy", text, reason))
        given[key.strip()] = value.strip()
    methods = method_names()
    if POLICIES.is_ours(name) or (name in POLICIES.names() and name not in methods):
        planner = POLICIES.get(name)
        ours, theirs = _parted(planner.options, given)
        told = ours if planner.passes_on else given
        where = f"--policy {planner.name}:{{}}"
        options = read_options(planner.name, planner.options, told, where=where)
        return planner.make({**theirs, **options}, seed, time_limit)
    if name not in methods:
        remedy = meant(name, (*POLICIES.names(), *methods))
        if name in _OF_STUDIES:
            remedy = "comes with streamplace-studies: pip install streamplace-studies"
        raise InvalidInput(Problem("--policy", name, "is no policy", remedy))
    method = get_method(name)
    ours, theirs = _parted(_SOLVE, given)
    settings = read_options(name, _SOLVE, ours, where=f"--policy {name}:{{}}")
    if settings["time_limit"] is None:
        settings["time_limit"] = time_limit
    if settings["solver"] not in (None, *method.solvers):
        remedy = ", ".join(method.solvers) or f"none: {name} uses no solver"
        raise InvalidInput(Problem("--policy", text, "names a solver it cannot use", remedy))
    return ByMethod(name, settings, method.read_options(theirs))


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
        """Refuse an instance that the method cannot plan."""
        self.planner.check(instance)

    def keep(self, instance: Instance, deployment: Deployment, note: str = "") -> Planned:
        """Go on with what runs, and what is remembered with it."""
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
        after = replace(fresh.deployment, memory=memory)
        return Planned(after, fresh.termination, fresh.feasible, note)


def triggering(
    name: str, summary: str, policy: Callable[..., Policy], options: tuple[Option, ...]
) -> Planner:
    """Declare a `Trigger`; of its options ``method`` plans, what it has not goes to that."""

    def make(given: Mapping[str, Any], seed: int, time_limit: float | None) -> Policy:
        own, rest = _parted(options, given)
        method, told = own.pop("method"), ",".join(f"{key}={v}" for key, v in rest.items())
        planner = read_policy(f"{method}:{told}", seed, time_limit)
        if not isinstance(planner, ByMethod):
            where = f"--policy {name}:method"
            raise InvalidInput(Problem(where, method, "is no method", "take one"))
        return policy(planner, **own)

    return Planner(name, summary, make, options, passes_on=True)


def _parted(options: Iterable[Option], given: Mapping[str, T]) -> tuple[dict[str, T], dict[str, T]]:
    """Return what is given for these options, and the rest."""
    rest = dict(given)
    ours = {option.name: rest.pop(option.name) for option in options if option.name in rest}
    return ours, rest


STATIC = Planner("static", "never moves anything", lambda *_: Static())
