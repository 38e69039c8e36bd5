"""The relaxations of section 5 of the CIKM 2014 paper, each a step of its own.

*Granularity*: tasks of all groups are recut to one size, the greatest common divisor of group costs
and node capacities, so that they fill nodes exactly. This makes another instance, with another
number of tasks a group. *Capacity normalisation* and *even groups* change only what the algorithms
see of an instance: nodes as whole multiples of the weakest one, and groups of unlike tasks as
groups of nearly like ones.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Floats

_UNIT = 1e6
"""Costs and capacities are whole multiples of a millionth, for the greatest common divisor."""

MOST_TASKS = 1_000_000


def common_granularity(instance: Instance) -> float:
    """Return the greatest common divisor of group costs and node capacities, first resource.

    Raises
    ------
    InvalidInput
        There is no group with a cost, or none of them nor a capacity reaches a millionth.
    """
    costs = [
        float(instance.tasks.load[instance.tasks_of(o), 0].sum())
        for o in range(instance.num_operators)
    ]
    room = instance.headroom[instance.open_nodes, 0]
    values = [v for v in [*costs, *room[np.isfinite(room)].tolist()] if v > 0]
    if not any(costs):
        raise InvalidInput(Problem("operators", None, "have no group with a load"))
    grain = gcd(*(round(v * _UNIT) for v in values)) / _UNIT
    if grain == 0:
        reason = f"have no cost nor capacity that reaches {1 / _UNIT:g}"
        raise InvalidInput(Problem("operators", max(costs), reason, "take a smaller unit"))
    return grain


def recut(instance: Instance, most_tasks: int = MOST_TASKS) -> Instance:
    """Return the job with all groups cut into tasks of the common granularity.

    Group costs, states and streams stay; groups without cost keep their tasks.

    Parameters
    ----------
    instance
        Its tasks are all in group form, without entries of their own, and its streams `full`.
    most_tasks
        Refuse to make more than this.

    Raises
    ------
    InvalidInput
        Tasks are listed one by one, a stream is not full, or too many tasks would come out.
    """
    document = instance.to_dict()
    problems = _not_recut(document)
    if problems:
        raise InvalidInput(problems)
    grain = common_granularity(instance)
    total = 0
    for at, entry in enumerate(document["operators"]):
        cost = float(instance.tasks.load[instance.tasks_of(at), 0].sum())
        if cost > 0:
            entry["group"]["tasks"] = max(1, round(cost / grain))
        total += entry["group"]["tasks"]
    if total > most_tasks:
        reason = f"tasks of {grain:g} would come out, more than {most_tasks}"
        raise InvalidInput(Problem("operators", total, reason, "round costs and capacities"))
    return instance.replace(operators=document["operators"])


def _not_recut(document: dict[str, Any]) -> list[Problem]:
    problems = []
    if document.get("tasks") or document.get("traffic"):
        reason = "are given one by one; only groups can be cut anew"
        problems.append(Problem("tasks", None, reason, "use the group form"))
    for i, stream in enumerate(document.get("streams", [])):
        if stream.get("pattern", "full") != "full":
            reason = "ties single tasks together; only full streams can be cut anew"
            problems.append(Problem(f"streams[{i}].pattern", stream["pattern"], reason))
    for i, entry in enumerate(document.get("operators", [])):
        if "group" not in entry:
            problems.append(Problem(f"operators[{i}].group", None, "is missing"))
    return problems


def normalised_room(room: Floats) -> Floats:
    """Round room down to whole multiples of the weakest node's, each resource by itself.

    Parameters
    ----------
    room
        (N, R); unbounded and empty room stays as it is.
    """
    normal = room.copy()
    for resource in range(room.shape[1]):
        column = room[:, resource]
        bounded = np.isfinite(column) & (column > 0)
        if bounded.any():
            weakest = column[bounded].min()
            multiple = np.floor(column[bounded] / weakest * (1 + 1e-12))
            normal[bounded, resource] = np.minimum(multiple * weakest, column[bounded])
    return normal


def even_kinds(load: Floats, margin: float) -> tuple[NDArray[np.int64], Floats]:
    """Cut the tasks of one group into subgroups of nearly equal cost, in one linear scan.

    A task joins the first subgroup whose first task differs from it by at most the margin on
    every resource; else it opens one.

    Parameters
    ----------
    load
        (T, R) of the group's tasks.
    margin
        Greatest difference, as a share of the subgroup's first task.

    Returns
    -------
    tuple
        (T,) subgroup of each task, and (K, R) greatest load in each: what is safe to count with.
    """
    kind = np.zeros(len(load), dtype=np.int64)
    first: list[Floats] = []
    for task, row in enumerate(load):
        for known, reference in enumerate(first):
            if (np.abs(row - reference) <= margin * np.abs(reference) + 1e-12).all():
                kind[task] = known
                break
        else:
            kind[task] = len(first)
            first.append(row)
    largest = np.zeros((len(first), load.shape[1]))
    np.maximum.at(largest, kind, load)
    return kind, largest
