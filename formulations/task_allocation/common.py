"""What the exact models of task allocation share: the starts that count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import Problem, UnsuitableMethod
from optim.figures.measures import Placement
from optim.kernels.first_fit import packings
from optim.referee import evaluate_indices
from optim.rules import Form, rules_of
from optim.rules.base import LOADS, OF_MOVES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from optim.figures.figure import Figure
    from optim.format.instance import Instance
    from optim.format.tables import Ints
    from optim.kernels.classes import NodeClasses
    from optim.methods.registry import Request

KNOWN_FORMS = LOADS | {Form.NODE_FLOOR}
"""Forms of limits all three keep; counts of tasks on nodes reach them as capacities."""
LINEAR_FORMS = OF_MOVES | {Form.SETS, Form.NODE_COUNT, Form.LINK_CAPACITY}
"""Those that the linearised model keeps beside these, and node patterns do not."""
HONOURS, LINEAR_ONLY = rules_of(KNOWN_FORMS), rules_of(LINEAR_FORMS)

STARTS = ("top-down", "partition", "task-level", "naive", "imc-search")
"""Heuristics that they never fall below where they do not prove their plan."""

UNDECIDED = "not known within the work limit: whether a better assignment to nodes fits the slots"
"""The note where an exact method proves less for that."""


def check_known(instance: Instance, objective: Figure, node: Ints) -> None:
    """Refuse an objective that plans for the instance have no value of.

    `node`: (T,) any placement of all tasks.
    Raises `UnsuitableMethod`: names the figure.
    """
    placement = Placement(instance, node)
    for figure in objective.singles:
        if figure.measured(placement).value is None:
            reason = f"has no value for plans of {instance.name}"
            problem = Problem("--objective", figure.name, reason, "choose another figure")
            raise UnsuitableMethod(problem)


def feasible_starts(instance: Instance, request: Request, classes: NodeClasses) -> list[Ints]:
    """Return the warm start and the current placement, where they are complete and feasible.

    A placement on a leaving node does not count, even where the referee lets it stand.
    """
    candidates = [] if request.warm_start is None else [np.asarray(request.warm_start)]
    if instance.has_current and not request.cold:
        candidates.append(instance.tasks.node)
    return feasible_among(instance, candidates, classes)


def feasible_among(
    instance: Instance, placements: Iterable[Ints], classes: NodeClasses
) -> list[Ints]:
    """Return the placements that are complete, feasible and on nodes that the models know."""
    return [node for node in placements if _counts(instance, node, classes)]


def feasible_packing(instance: Instance, classes: NodeClasses) -> Ints | None:
    """Return the first feasible one of all packings (first fit and its relatives)."""
    return next((node for node in packings(instance) if _counts(instance, node, classes)), None)


def _counts(instance: Instance, node: Ints, classes: NodeClasses) -> bool:
    """Whether a placement is complete, feasible and on nodes that the models know."""
    usable = np.append(classes.node_class >= 0, False)  # the last one is for -1
    return bool(usable[node].all()) and evaluate_indices(instance, node.astype(np.int32)).feasible


def relabelled(node: Ints, classes: NodeClasses) -> NDArray[Any]:
    """Exchange identical nodes so that they are first used in order of their numbers.

    Node ``j + 1`` of a class then gets its first task after node ``j``; nothing else changes.
    """
    result = np.array(node)
    for k in range(classes.num_classes):
        members = classes.nodes_of(k)
        inside = np.isin(node, members)
        used, first = np.unique(node[inside], return_index=True)
        new = np.arange(int(node.max()) + 1)
        new[used[np.argsort(first)]] = members[: len(used)]
        result[inside] = new[node[inside]]
    return result
