"""Policies: what plans a period. Any registered method, `static`, `potc`, and `storm-trigger`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from experiments.replay.deployment import Deployment
from optim.errors import InvalidInput, Problem, StreamplaceError
from optim.referee import evaluate_indices
from optim.registry import Option, get_method, method_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optim.instance import Instance

OWN = ("static", "potc", "storm-trigger")
"""Policies that are no registered methods."""

_SOLVE = (
    Option("solver", "str", None, "back end"),
    Option("time_limit", "float", None, "seconds for each plan", minimum=1e-3),
    Option("gap", "float", None, "as `streamplace solve --gap`", minimum=0.0),
)

_POTC = (
    Option("merge", "float", 0.1, "load of merging, share of a key group's load", minimum=0.0),
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
    """

    deployment: Deployment | None
    termination: str
    feasible: bool | None
    note: str = ""


def keeps_limits(instance: Instance, deployment: Deployment) -> bool:
    """Whether a deployment of undivided key groups keeps every limit of an instance."""
    return evaluate_indices(instance, deployment.node.astype(np.int32)).feasible


class Policy(Protocol):
    """Plans periods."""

    @property
    def scales(self) -> bool:
        """Whether scaling makes sense with it."""

    def check(self, instance: Instance) -> None:
        """Refuse an instance that the policy cannot plan, before the replay starts."""

    def start(self, instance: Instance, deployment: Deployment) -> Deployment:
        """Return what runs before the first plan, given what the recording has."""

    def plan(self, instance: Instance, deployment: Deployment, seed: int) -> Planned:
        """Plan on the measured loads of a period."""

    def meets(self, instance: Instance, deployment: Deployment) -> Deployment:
        """Return the deployment as it stands under other loads: routing may follow at once."""


@dataclass(frozen=True)
class Static:
    """Never moves anything."""

    scales: bool = False

    def check(self, instance: Instance) -> None:
        """Accept everything."""

    def start(self, instance: Instance, deployment: Deployment) -> Deployment:
        """Begin as recorded."""
        return deployment

    def plan(self, instance: Instance, deployment: Deployment, seed: int) -> Planned:
        """Keep what runs."""
        return Planned(deployment, "static", keeps_limits(instance, deployment))

    def meets(self, instance: Instance, deployment: Deployment) -> Deployment:
        """Keep what runs."""
        return deployment


@dataclass(frozen=True)
class Potc:
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

    def check(self, instance: Instance) -> None:
        """Accept everything."""

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
class ByMethod:
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
        from optim.suitability import check_suitable

        method = get_method(self.method)
        check_suitable(method, instance.without_limits(self._ignored(instance)))

    def start(self, instance: Instance, deployment: Deployment) -> Deployment:
        """Begin as recorded."""
        return deployment

    def plan(self, instance: Instance, deployment: Deployment, seed: int) -> Planned:
        """Solve; a failure keeps what runs and is told in the row."""
        from optim.solving import solve

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
        note = f"ignored: {', '.join(ignored)}" if ignored else ""
        return Planned(Deployment.whole(node), str(result.termination), result.feasible, note)

    def meets(self, instance: Instance, deployment: Deployment) -> Deployment:
        """Keep what runs."""
        return deployment

    def _ignored(self, instance: Instance) -> tuple[str, ...]:
        from optim.suitability import limits_set

        honours = get_method(self.method).honours
        return tuple(n for n in limits_set(instance) if n not in honours and n != "capacity")


def read_policy(text: str, seed: int, time_limit: float | None = None) -> Policy:
    """Read ``name`` or ``name:option=value,…``.

    Parameters
    ----------
    text
        A method's name, ``static``, ``potc`` or ``storm-trigger``. Methods take ``solver``,
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
    if name == "static":
        _typed(name, (), given)
        return Static()
    if name == "potc":
        return Potc(seed, **_typed(name, _POTC, given))
    if name == "storm-trigger":
        from experiments.replay.storm_trigger import read_trigger

        return read_trigger(given, time_limit)
    if name not in method_names():
        known = ", ".join((*OWN, *method_names()))
        raise InvalidInput(Problem("--policy", name, "is no policy", f"one of {known}"))
    method = get_method(name)
    own = {key for key in given if key in {option.name for option in _SOLVE}}
    solve = _typed(name, _SOLVE, {key: given[key] for key in own})
    if solve["time_limit"] is None:
        solve["time_limit"] = time_limit
    options = method.read_options({k: v for k, v in given.items() if k not in own})
    if solve["solver"] is not None and solve["solver"] not in method.solvers:
        remedy = ", ".join(method.solvers) or f"none: {name} uses no solver"
        raise InvalidInput(Problem("--policy", text, "names a solver it cannot use", remedy))
    return ByMethod(name, solve, options)


def _typed(name: str, options: tuple[Option, ...], given: Mapping[str, str]) -> dict[str, Any]:
    known = {option.name: option for option in options}
    unknown = [key for key in given if key not in known]
    if unknown:
        remedy = f"it takes {', '.join(known)}" if known else "it takes none"
        raise InvalidInput(
            [Problem(f"--policy {name}", key, "is no option of it", remedy) for key in unknown]
        )
    return {
        key: option.read(given[key]) if key in given else option.default
        for key, option in known.items()
    }
