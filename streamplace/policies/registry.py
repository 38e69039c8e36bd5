"""Policies by name, by file and as objects: ``--policy NAME:option=value,…``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar

from optim.errors import InvalidInput, Problem, meant
from optim.figures.catalogue import find_objective
from optim.methods.choose import aim
from optim.methods.registry import get_method, method_names
from optim.plugins import Option, Plugins, read_options
from streamplace.policies.algorithm1 import Algorithm1
from streamplace.policies.nodes import CostModel
from streamplace.policies.parallelism import OPTIONS, NoScaling, ScalingChoice
from streamplace.policies.planners import ByMethod, Planner, Static
from streamplace.policies.policy import Policy, PolicyFactory, Registered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from streamplace.policies.parallelism import ScalingRule

T = TypeVar("T")

POLICIES: Plugins[Registered] = Plugins(
    group="streamplace.policies",
    noun="policy",
    where="--policy",
    declared="streamplace.policies.policy:Registered",
)

CHOSEN = "solve"
"""The policy that plans as `streamplace solve` does without ``--method``."""

_SOLVE = (
    Option("objective", "str", None, "as `streamplace solve --objective`"),
    Option("solver", "str", None, "back end"),
    Option("time_limit", "float", None, "seconds for each plan", minimum=1e-3),
    Option("gap", "float", None, "as `streamplace solve --gap`", minimum=0.0),
    Option("repair", "bool", False, "as `streamplace solve --repair`, not to ignore limits"),
    Option(
        "start_broken", "str", "mend", "as `streamplace solve --start-broken`",
        choices=("mend", "refuse"),
    ),
)  # fmt: skip

_OF_STUDIES = ("potc",)
"""Policies that only the papers use."""

_TEXT = re.compile(r"(?P<name>.+\.py(:[A-Za-z_]\w*)?|[\w.]+:[\w.]+)(:(?P<rest>.*=.*))?")
"""A policy that no package registers, with options after it."""


def read_policy(
    policy: str | Policy,
    seed: int = 0,
    time_limit: float | None = None,
    *,
    scaling: ScalingRule | None = None,
    costs: CostModel | None = None,
    plan_first: bool = True,
) -> Policy:
    """Read ``name``, ``name:option=value,…``, ``FILE.py`` or ``module:NAME``; an object stays one.

    `policy`: name of one of `POLICIES` or of a method. Methods take ``objective``, ``solver``,
        ``time_limit`` and ``gap`` beside their own options.
    `seed`: of everything random; look n plans with seed + n.
    `time_limit`: of each plan, where the text gives none.
    `scaling`, `costs`, `plan_first`: of `Algorithm1`, for what plans on the nodes there are.
    Raises `InvalidInput`: no such policy or option.
    """
    parsed = read_planner(policy, seed, time_limit) if isinstance(policy, str) else policy
    if isinstance(parsed, Planner):
        rule = NoScaling() if scaling is None else scaling
        return Algorithm1(parsed, rule, costs or CostModel(), seed, plan_first)
    if isinstance(parsed, Policy):
        return parsed
    remedy = "derive it from streamplace.policies.policy.Policy"
    raise InvalidInput(Problem("--policy", repr(parsed), "is no policy", remedy))


def read_planner(text: str, seed: int, time_limit: float | None = None) -> Policy | Planner:
    """Read what a text names: a policy of its own, or a planner for `Algorithm1`."""
    name, _, rest = text.partition(":")
    methods = method_names()
    names = (*POLICIES.names(), *methods, CHOSEN)
    if name not in names and (match := _TEXT.fullmatch(text)):
        name, rest = match["name"], match["rest"] or ""
    given: dict[str, str] = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            reason = f"{part!r} is not of the form option=value"
            raise InvalidInput(
                Problem("--policy", text, reason, f"write {part}=VALUE, or leave it out")
            )
        given[key.strip()] = value.strip()
    registered = name in POLICIES.names() and (name not in methods or POLICIES.is_ours(name))
    if registered or name not in names:
        if name not in names and not _TEXT.fullmatch(name):
            remedy = meant(name, names)
            if name in _OF_STUDIES:
                remedy = "comes with streamplace-studies: pip install streamplace-studies"
            raise InvalidInput(Problem("--policy", name, "is no policy", remedy))
        return _instantiated(POLICIES.get(name), name, given, seed, time_limit)
    method = None if name == CHOSEN else get_method(name)
    solve_options, method_options = _parted(_SOLVE, given)
    settings = read_options(name, _SOLVE, solve_options, where=f"--policy {name}:{{}}")
    if settings["time_limit"] is None:
        settings["time_limit"] = time_limit
    solvers = () if method is None else method.solvers
    if settings["solver"] not in (None, *solvers):
        remedy = ", ".join(solvers) or f"none: {name} uses no solver"
        raise InvalidInput(Problem("--policy", text, "names a solver it cannot use", remedy))
    objective = settings["objective"]  # a wrong one is found here, not at each look
    if method is None and objective is not None:
        find_objective(objective)
    if method is None:
        return ByMethod(
            None, settings, read_options(name, (), method_options, where="--policy solve:{}")
        )
    options = method.read_options(method_options)
    aim(method, objective, options)
    return ByMethod(name, settings, options)


def _instantiated(
    registered: Registered, name: str, given: dict[str, str], seed: int, time_limit: float | None
) -> Policy | Planner:
    declared, passed_on = _parted(registered.options, given)
    values = declared if registered.passes_on else given
    options = read_options(name, registered.options, values, where=f"--policy {name}:{{}}")
    policy: Policy | Planner = registered.make({**passed_on, **options}, seed, time_limit)
    return policy


def _planner_of(name: str, method: str, rest: Mapping[str, Any], seed: int, limit: Any) -> ByMethod:
    """Read the method that a policy plans with, and its options."""
    text = ",".join(f"{key}={value}" for key, value in rest.items())
    planner = read_planner(f"{method}:{text}", seed, limit)
    if not isinstance(planner, ByMethod):
        where = f"--policy {name}:method"
        raise InvalidInput(Problem(where, method, "is no method", "take one"))
    return planner


def triggering(
    name: str, summary: str, trigger: Callable[..., Planner], options: tuple[Option, ...]
) -> PolicyFactory:
    """Declare a `Trigger`; of its options ``method`` plans, what it has not goes to that."""

    def make(given: Mapping[str, Any], seed: int, time_limit: float | None) -> Planner:
        settings, rest = _parted(options, given)
        method = settings.pop("method")
        return trigger(_planner_of(name, method, rest, seed, time_limit), **settings)

    return PolicyFactory(name, summary, make, options, passes_on=True)


def _parted(options: Iterable[Option], given: Mapping[str, T]) -> tuple[dict[str, T], dict[str, T]]:
    """Return what is given for these options, and the rest."""
    rest = dict(given)
    declared = {option.name: rest.pop(option.name) for option in options if option.name in rest}
    return declared, rest


STATIC = PolicyFactory("static", "never moves anything", lambda *_: Static())

_WITH_NODES = (
    Option("method", "str", "albic", "what plans"),
    Option("serialise", "float", 0.0, "load per unit of rate, at its sender", minimum=0.0),
    Option("deserialise", "float", 0.0, "load per unit of rate, at its receiver", minimum=0.0),
    *OPTIONS,
)


def _with_nodes(given: Mapping[str, Any], seed: int, time_limit: float | None) -> Policy:
    settings, rest = _parted(_WITH_NODES, given)
    planner = _planner_of("algorithm-1", settings.pop("method"), rest, seed, time_limit)
    costs = CostModel(settings.pop("serialise"), settings.pop("deserialise"))
    settings = {key: value for key, value in settings.items() if value is not None}
    return Algorithm1(planner, ScalingChoice("utilisation", settings).make(), costs, seed)


ALGORITHM_1 = PolicyFactory(
    "algorithm-1", "ALBIC's Algorithm 1: plans, and adds and removes nodes by their utilisation",
    _with_nodes, _WITH_NODES, passes_on=True,
)  # fmt: skip
