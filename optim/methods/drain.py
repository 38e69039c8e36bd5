"""Leaving nodes without the mark: for methods that know lists of allowed nodes alone."""

from __future__ import annotations

from dataclasses import replace
from functools import partial, wraps
from typing import TYPE_CHECKING

import numpy as np

from optim.figures.catalogue import find_objective
from optim.referee.result import Termination

if TYPE_CHECKING:
    from collections.abc import Callable

    from optim.figures.figure import Figure
    from optim.format.instance import Instance
    from optim.format.tables import Ints
    from optim.methods.registry import Outcome, Request
    from optim.referee.evaluation import Evaluation

    Run = Callable[[Instance, Request], Outcome]
    Every = Callable[[Instance, Request], Outcome | None]

_ABOUT = "leaving nodes"
"""In the words of everything that is assumed of them."""
_MOST = 2_000_000
"""Tasks × nodes up to which lists of allowed nodes are written down."""


def may_stay(instance: Instance) -> int:
    """Return how many tasks some plan has on leaving nodes, and another elsewhere.

    They are on such a node now, and may be there; where the rule is dropped, any that may.
    """
    home, leaving = instance.tasks.node, instance.nodes.leaving
    if not leaving.any():
        return 0
    open_to = instance.has_open_node.copy()
    if not instance.limits.into_leaving:
        open_to &= (home >= 0) & leaving[home]
    tasks = np.flatnonzero(open_to).tolist()
    return sum(bool((instance.allowed_mask(task) & leaving).any()) for task in tasks)


def emptied(instance: Instance) -> tuple[str, ...]:
    """Return what is assumed where leaving nodes are emptied of all that may go elsewhere."""
    count = may_stay(instance)
    told = f"that take the {count} tasks on leaving nodes off them, though these may stay"
    return (told,) if count else ()


def needed(instance: Instance, assumes: tuple[str, ...]) -> tuple[str, ...]:
    """Return what is assumed, but for what every plan does: no task may be on leaving nodes."""
    if not any(_ABOUT in words for words in assumes) or may_stay(instance):
        return assumes
    return tuple(words for words in assumes if _ABOUT not in words)


def emptied_or_any(run: Run, every: Every | None = None) -> Run:
    """Make of a method that empties leaving nodes one that looks for all plans where none does.

    Parameters
    ----------
    run
        Knows lists of allowed nodes alone: asked again about an instance without the mark, which is
        the same question unless the objective is of the staying nodes.
    every
        Looks for all plans of the instance itself, for those objectives; ``None`` where it cannot.
    """

    @wraps(run)
    def both(instance: Instance, request: Request) -> Outcome:
        outcome, assumed = run(instance, request), emptied(instance)
        if outcome.termination is Termination.INFEASIBLE and assumed:
            found = None
            figure = None if request.objective is None else find_objective(request.objective)
            if figure is not None and figure.of_staying:
                found = every(instance, request) if every else None
            elif may_be_rewritten(instance):
                change = partial(without_leaving, may_stay=True)
                request.rewritten(change)
                found = run(change(instance), request)
            if found is not None:
                found.notes.append("no plan empties the leaving nodes: looked among all")
                found.rank = partial(_by_value, figure) if figure else None
                return found
        outcome.assumes += assumed
        return outcome

    return both


def _by_value(figure: Figure, _: Ints, evaluation: Evaluation) -> tuple[float, ...] | None:
    """Rank plans by an objective alone, whatever they leave on leaving nodes."""
    return figure.ranks(evaluation)


def may_be_rewritten(instance: Instance) -> bool:
    """Whether `without_leaving` asks the same, in lists that are not too long."""
    # the mean load of the staying nodes is not that of all
    small = instance.num_tasks * instance.num_nodes <= _MOST
    return small and instance.limits.max_load_distance is None


def without_leaving(instance: Instance, *, may_stay: bool) -> Instance:
    """Return the instance whose leaving nodes are as others, but open to few tasks or to none.

    Parameters
    ----------
    may_stay
        Whether they are open to the tasks of such nodes, and not only to those that may go nowhere
        else.
    """
    nodes, tasks = instance.nodes, instance.tasks
    bound = ~instance.has_open_node
    if may_stay:
        bound |= (tasks.node >= 0) & nodes.leaving[tasks.node]
    masks = [instance.allowed_mask(task) for task in range(instance.num_tasks)]
    rows = [
        np.flatnonzero(mask if free else mask & instance.open_nodes).astype(np.int32)
        for mask, free in zip(masks, bound.tolist(), strict=True)
    ]
    tasks = replace(
        tasks,
        restricted=np.arange(instance.num_tasks, dtype=np.int32),
        allowed_indptr=np.cumsum([0, *map(len, rows)]).astype(np.int32),
        allowed_indices=np.concatenate(rows),
    )
    least = np.where(nodes.leaving[:, None], 0.0, nodes.min_load)
    nodes = replace(nodes, leaving=np.zeros_like(nodes.leaving), min_load=least)
    return replace(instance, tasks=tasks, nodes=nodes)
