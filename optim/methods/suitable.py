"""Whether a method suits an instance: what it needs, and which limits it would not keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optim.errors import Problem, UnsuitableMethod
from optim.format.demand import find_cycle
from optim.methods.lowering import lowered
from optim.rules import CROSSING_COST, limits_set

if TYPE_CHECKING:
    from collections.abc import Iterable

    from optim.format.instance import Instance
    from optim.methods.registry import Method


def _missing_tasks(instance: Instance) -> str | None:
    return None if instance.num_tasks else "the instance has none"


def _missing_nodes(instance: Instance) -> str | None:
    return None if instance.num_nodes else "the instance has none"


def _missing_traffic(instance: Instance) -> str | None:
    return None if instance.has_traffic else "no tasks of the instance communicate"


def _missing_current(instance: Instance) -> str | None:
    without = np.flatnonzero(instance.tasks.node < 0)
    return f"{instance.tasks.ids[without[0]]} has none" if len(without) else None


def _missing_dag(instance: Instance) -> str | None:
    edges = [(s.source, s.target) for s in instance.streams]
    cycle = find_cycle(instance.num_operators, edges)
    names = [instance.operators.ids[o] for o in cycle]
    return f"{' → '.join([*names, names[0]])} is a cycle" if cycle else None


def _missing_operators(instance: Instance) -> str | None:
    without = np.flatnonzero(instance.tasks.operator < 0)
    return f"{instance.tasks.ids[without[0]]} has none" if len(without) else None


def _missing_topologies(instance: Instance) -> str | None:
    problem = _missing_operators(instance)
    if problem:
        return problem
    without = np.flatnonzero(instance.operators.topology < 0)
    return f"{instance.operators.ids[without[0]]} has none" if len(without) else None


def _missing_slots(instance: Instance) -> str | None:
    without = np.flatnonzero(instance.nodes.slots < 0)
    return f"{instance.nodes.ids[without[0]]} has none" if len(without) else None


def _missing_links(instance: Instance) -> str | None:
    return None if instance.links.ids else "the instance has none"


def _missing_capacity(instance: Instance) -> str | None:
    without = np.flatnonzero(~np.isfinite(instance.nodes.capacity[:, 0]))
    return f"{instance.nodes.ids[without[0]]} has none" if len(without) else None


def _missing_bounded_rate(instance: Instance) -> str | None:
    """Without, some placement carries any input: there is no greatest rate."""
    if np.isfinite(instance.thread_rates).any():
        return None
    driven = list(instance.rate_driven)
    loaded = [r for r in driven if instance.total_load[r] > 0]
    bounded = np.isfinite(instance.nodes.capacity[:, loaded])
    if bounded.all(axis=0).any():
        return None
    names = ", ".join(instance.resources[r] for r in loaded or driven)
    if not loaded:
        return f"no task has a load of {names}"
    without = int(np.flatnonzero(~bounded.all(axis=1))[0])
    return f"{instance.nodes.ids[without]} has none of {names}"


def _missing_models(instance: Instance) -> str | None:
    for name, model in zip(instance.operators.ids, instance.operators.model, strict=True):
        if model is None:
            return f"{name} has none"
    return None if instance.num_operators else "the instance has no operators"


def _missing_input_rate(instance: Instance) -> str | None:
    if not instance.input_rate:
        return "it is 0" if instance.input_rate == 0 else "the instance has none"
    without = np.flatnonzero(np.isnan(instance.operators.tuple_rate))
    return f"that of {instance.operators.ids[without[0]]} does not" if len(without) else None


def _missing_whole_slots(instance: Instance) -> str | None:
    share = instance.limits.max_utilisation
    for name, value in zip(instance.resources, share.tolist(), strict=True):
        if value != 1:
            return f"{name} has {value:g}"
    return None


def _missing_vm_types(instance: Instance) -> str | None:
    return None if instance.vm_types else "the instance has none"


NEEDS = {
    "tasks": ("tasks, or operators with a group", _missing_tasks),
    "nodes": ("nodes", _missing_nodes),
    "traffic": ("streams or traffic", _missing_traffic),
    "current_placement": ("tasks[].node (the current placement)", _missing_current),
    "dag": ("streams without a cycle", _missing_dag),
    "operators": ("tasks[].operator", _missing_operators),
    "topologies": ("operators[].topology", _missing_topologies),
    "slots": ("nodes[].slots", _missing_slots),
    "links": ("links", _missing_links),
    "capacity": ("nodes[].capacity of the first resource", _missing_capacity),
    "bounded_rate": (
        "a load, and nodes[].capacity on every node (or max_load), of a resource that grows with "
        "the rate",
        _missing_bounded_rate,
    ),
    "models": ("operators[].model", _missing_models),
    "tuple_rates": (
        "input_rate, and streams[].selectivity from which all tuple rates follow",
        _missing_input_rate,
    ),
    "vm_types": ("vm_types", _missing_vm_types),
    "whole_slots": (
        "limits.max_utilisation left out: models are in percent of a whole slot",
        _missing_whole_slots,
    ),
}
"""What a method may need: words for it, and a test that names what is missing."""

_ONLY_FOR = {"bounded_rate": ("sustainable_rate", "rate_after_loss")}
"""Objectives for which a part is needed; for any, where there is no entry."""


def check_suitable(method: Method, instance: Instance, *, repair: bool = False) -> None:
    """Refuse a method that lacks what it needs, or would not keep a limit that is set.

    With `repair`, limits that are not honoured pass: the repair finishes the plan, and the referee
    has the last word. Costs of crossing do not: they change what is measured. Capacity is never
    asked for: a method that overloads by design says so; of one that knows no capacity and promises
    nothing, the round robins, nor are links and slots.

    Raises
    ------
    UnsuitableMethod
        With every reason and its remedy.
    """
    problems = list(_unmet_needs(method, instance))
    if not problems:
        problems += _unhonoured(method, lowered(instance, method.honours), repair=repair)
    if problems:
        raise UnsuitableMethod(problems)


def is_suitable(method: Method, instance: Instance, *, repair: bool = False) -> bool:
    """Whether a method has what it needs, and it or repair keeps every limit that is set."""
    try:
        check_suitable(method, instance, repair=repair)
    except UnsuitableMethod:
        return False
    return True


def _unmet_needs(method: Method, instance: Instance) -> Iterable[Problem]:
    for need in method.needs:
        if method.objective not in _ONLY_FOR.get(need, (method.objective,)):
            continue
        words, test = NEEDS[need]
        missing = test(instance)
        if missing is not None:
            yield Problem(method.name, None, f"needs {words}; {missing}", _remedy(need))


def _remedy(need: str) -> str:
    if need == "current_placement":
        return "give each task its node, or use a method that places from scratch"
    if need == "bounded_rate":
        return "give each node that capacity, or name other resources in rate_driven"
    if need == "models":
        return "give every operator a model, a list of measured points under models"
    if need == "tuple_rates":
        return "give input_rate above 0, and each stream its selectivity"
    if need == "whole_slots":
        return "scale the models' cpu and memory instead, or --ignore max_utilisation"
    if need == "vm_types":
        return "list the machines that may be acquired: id, slots, price"
    return "see `streamplace methods` for what each method needs"


def _unhonoured(method: Method, instance: Instance, *, repair: bool) -> Iterable[Problem]:
    overloads = "capacity" not in method.honours and not method.promises_feasibility
    passed = {"capacity", "links", "slots"} if overloads else {"capacity"}
    for name, words in limits_set(instance).items():
        mended = name != CROSSING_COST.name
        if name not in method.honours and name not in passed and not (repair and mended):
            remedy = f"--ignore {name} drops the limit"
            if mended:
                remedy = f"--repair lets repair finish the plan, {remedy}"
            yield Problem(method.name, None, f"does not keep {words}", remedy)
