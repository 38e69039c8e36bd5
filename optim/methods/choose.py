"""Which method `solve` takes when none is named: the first that declares that it can.

Candidates stand in an order by what the instance holds; those that keep all its limits come before
those that need repair. Where one ends without a plan, the next is taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from optim.errors import InvalidInput, Problem, UnsuitableMethod
from optim.figures.catalogue import find_objective
from optim.figures.load import LOAD_DISTANCE
from optim.methods.lowering import slots_count_tasks
from optim.methods.registry import get_method, method_names
from optim.methods.suitable import check_suitable
from optim.rules import SLOTS, limits_set

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim.format.instance import Instance

_EXACT_TASKS = 400
_EXACT_UNLIKE = 12
_EXACT_MOVES = 60_000
_MODELLED = 100_000
"""Moves a second of the time limit beyond which a model is not even made in time."""
_EXACT_LINKS = 40
_EXACT_EXECUTORS = 22
_EXACT_PRODUCTS = 20_000
_EVERY_ASSIGNMENT = 8
_OF_RATE = ("sustainable_rate", "rate_after_loss", "migrations", "nodes_used")
_PLAIN = frozenset({"capacity", "slots", "max_tasks_per_slot"})
"""Limits that an even spread is likely to keep."""


class Choice(NamedTuple):
    """A method, why it was taken, and whether repair has to finish its plan."""

    name: str
    why: str
    repair: bool


def choose_method(
    instance: Instance,
    time_limit: float | None = None,
    objective: str | None = None,
    prefer: str | None = None,
) -> Choice:
    """Choose a method for an instance: the first of `choices`."""
    return next(choices(instance, time_limit, objective, prefer))


def choices(
    instance: Instance,
    time_limit: float | None = None,
    objective: str | None = None,
    prefer: str | None = None,
) -> Iterator[Choice]:
    """Yield the methods for an instance, each once, the one to take first.

    Parameters
    ----------
    instance
        Without the limits that are to be ignored.
    time_limit
        Seconds; with one, exact methods are taken for larger instances too.
    objective
        Only methods that can optimise it.
    prefer
        A method that comes before the others, if it suits.

    Raises
    ------
    UnsuitableMethod
        What would be taken cannot do it; with its reasons.
    InvalidInput
        Nothing registered suits what the instance holds.
    """
    objective = None if objective is None else find_objective(objective).name
    known, taken = set(method_names()), set()
    candidates = [
        (name, why) for name, why in _candidates(instance, time_limit, objective) if name in known
    ]
    if prefer is not None:
        same = [one for one in candidates if one[0] == prefer]
        candidates[:0] = same[:1] or [(prefer, "as before the change")]
    refused: list[Problem] = []
    for repair in (False, True):
        for name, why in candidates:
            method = get_method(name)
            if objective is not None and objective not in method.objectives:
                continue
            if method.name in taken or (repair and method.decides == "threads"):
                continue  # plans of threads hold no tasks to mend
            try:
                aimed = method if objective is None else method.aimed_at(objective)
                check_suitable(aimed, instance, repair=repair)
            except UnsuitableMethod as error:
                refused += error.problems
                continue
            taken.add(method.name)
            yield Choice(method.name, f"{why}; repair finishes its plan" if repair else why, repair)
    if taken:
        return
    if refused:
        raise UnsuitableMethod(refused[:1])
    remedy = "name one with --method"
    if objective is not None:
        remedy = f"none of those for {objective} suits it; see `streamplace methods`"
    raise InvalidInput(Problem("instance", instance.name, "suits no method", remedy))


def takes_long(name: str, instance: Instance, time_limit: float | None) -> bool:
    """Whether a method may go on for hours, where another has ended without a plan."""
    large = instance.num_tasks * instance.num_nodes > _EXACT_PRODUCTS
    return large and time_limit is None and get_method(name).kind == "exact"


def _candidates(
    instance: Instance, time_limit: float | None, objective: str | None
) -> Iterator[tuple[str, str]]:
    """Methods for an instance: those made for what it holds, then what may keep its limits."""
    if instance.num_tasks == 0 and instance.models:
        yield "mba+sam", "operators have performance models and the plan makes the threads"
        return
    yield from _throughput(instance, objective)
    limits = instance.limits
    budget = limits.max_migrations is not None or limits.max_migration_cost is not None
    leaving = bool(instance.nodes.leaving.any())
    some, loaded = bool((instance.tasks.node >= 0).any()), not LOAD_DISTANCE.fixed(instance)
    silent = not instance.has_traffic
    if (some and (budget or leaving or silent)) or (silent and loaded):
        yield from _rebalancing(instance, time_limit)
    if budget and instance.has_traffic and objective == "imc_gain":
        yield from _joint(instance, "traffic within a budget of moves")
    if instance.has_traffic:
        if _links_bind(instance):
            small = instance.num_tasks <= _EXACT_LINKS
            yield "eoa-milp" if small else "gma", "traffic over links with a capacity"
            yield "gma", "traffic over links with a capacity"
        if SLOTS.present(instance) is not None and not slots_count_tasks(instance):
            small = instance.num_tasks <= _EXACT_EXECUTORS
            yield "storm-milp" if small else "storm-online", "executors in slots"
            yield "storm-online", "executors in slots"
        yield from _allocation(instance)
    if not _PLAIN.issuperset(limits_set(instance)):
        if instance.num_tasks * instance.num_nodes <= _EXACT_PRODUCTS:
            yield "imc-milp", "limits that only a full model keeps"
        if instance.num_tasks <= _EVERY_ASSIGNMENT:
            yield "imc-brute", "limits that only the referee knows, and few assignments"
    yield "storm-even", "no traffic: spread evenly"
    for name in ("imc-milp", "eoa-milp", "storm-milp", "storm-online", "imc-search"):
        yield name, "it keeps every limit that is set"
    yield from _rebalancing(instance, time_limit)
    if instance.num_tasks <= _EXACT_UNLIKE:  # it counts them, and refuses where there are too many
        yield "imc-brute", "few assignments"


def _throughput(instance: Instance, objective: str | None) -> Iterator[tuple[str, str]]:
    """Methods for the rate, where traffic between nodes costs what grows with it, and no more.

    Where one of their own objectives is asked for, for that.
    """
    limits = instance.limits
    asked = limits.max_migrations, limits.max_migration_cost, limits.max_load_distance
    costs = np.isfinite(instance.links.capacity).any() or instance.crossing_cost.any()
    other = SLOTS.present(instance) is not None or any(limit is not None for limit in asked)
    why = "traffic between nodes has a price: the greatest input that a placement carries"
    if objective in _OF_RATE:
        why = "as asked"
    elif not costs or other or not instance.has_traffic:
        return
    if instance.num_tasks <= _EXACT_TASKS and _few_groups(instance):
        yield "throughput-exact", why
    if instance.num_tasks <= _EXACT_UNLIKE:
        yield "throughput-milp", why
    yield "throughput-search", why


def _rebalancing(instance: Instance, time_limit: float | None) -> Iterator[tuple[str, str]]:
    moves = instance.num_tasks * instance.num_nodes
    large = moves > _EXACT_MOVES
    some = bool((instance.tasks.node >= 0).any())
    placed = "a current placement, " if some else ""
    if instance.has_traffic and instance.limits.max_load_distance is not None:
        yield from _joint(instance, f"{placed}traffic and a bound on load distance")
    why = "a current placement to rebalance" if some else "loads to balance over the nodes"
    if large and (time_limit is None or moves > _MODELLED * time_limit):
        yield "balance-search", f"{why}, large"
    yield "balance-milp", why
    yield "balance-search", why


def _joint(instance: Instance, why: str) -> Iterator[tuple[str, str]]:
    large = instance.num_tasks * instance.num_nodes > _EXACT_MOVES
    yield "joint-search" if large else "joint-milp", why
    yield "joint-search", why


def _allocation(instance: Instance) -> Iterator[tuple[str, str]]:
    if instance.num_tasks <= _EXACT_TASKS and _few_groups(instance):
        yield "imc-exact", "groups of equal tasks with traffic, small enough to prove"
    if instance.num_tasks <= _EXACT_UNLIKE:
        yield "imc-exact", "tasks with traffic, few enough to prove"
        yield "imc-milp", "tasks with traffic, few enough to prove"
    yield "imc-search", "tasks with traffic"
    if instance.num_tasks * instance.num_nodes <= _EXACT_PRODUCTS:
        yield "imc-milp", "tasks with traffic, and limits that only a full model keeps"
    yield "partition", "tasks with traffic"


def _links_bind(instance: Instance) -> bool:
    """Whether links have a capacity, on nodes whose first resource has one too."""
    links, nodes = instance.links.capacity, instance.nodes.capacity[:, 0]
    return bool(np.isfinite(links).any()) and bool(np.isfinite(nodes).all())


def _few_groups(instance: Instance) -> bool:
    return 0 < instance.num_operators <= 16 and bool((instance.tasks.operator >= 0).all())
