"""Leaving nodes: emptied where a plan that empties them carries the input, else not all of them.

A plan that leaves nothing on leaving nodes is looked for first, and is the answer where it carries
the present input. Where none does, tasks may stay, as the file allows: the same problem is solved
again with leaving nodes open to the tasks of such nodes, and what is proved then is of all plans.
"""

from __future__ import annotations

from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING

import numpy as np

from formulations.throughput.common import LOSS, MOVES, NODES, rank_of
from formulations.throughput.fewest import FULL
from formulations.throughput.places import load_of
from optim.methods.claims import emptied
from optim.referee.result import Termination

if TYPE_CHECKING:
    from collections.abc import Callable

    from optim.format.instance import Instance
    from optim.methods.registry import Outcome, Request

    Run = Callable[[Instance, Request], Outcome]

_SAME = 1e-9
_MOST = 2_000_000
"""Tasks × nodes up to which lists of allowed nodes are written down."""


def emptied_first(run: Run) -> Run:
    """Make of a method one that empties leaving nodes, and gives way where nothing else carries.

    Parameters
    ----------
    run
        Solves an instance without leaving nodes, and keeps lists of allowed nodes.
    """

    @wraps(run)
    def both(instance: Instance, request: Request) -> Outcome:
        assumed = emptied(instance)
        if not assumed or instance.num_tasks * instance.num_nodes > _MOST:
            outcome = run(instance, request)
            outcome.assumes += assumed
            return outcome
        outcome = run(_without_leaving(instance, may_stay=False), request)
        whole = None
        if not _done(instance, request, outcome):
            whole = run(_without_leaving(instance, may_stay=True), request)
        if whole is None or (
            whole.node is None and whole.termination is not Termination.INFEASIBLE
        ):
            outcome.assumes += assumed
            outcome.rank = rank_of(instance)
            outcome.termination = outcome.termination if whole is None else whole.termination
            return outcome
        if outcome.node is not None and whole.node is not None:
            loads = load_of(instance, outcome.node), load_of(instance, whole.node)
            if loads[0] <= loads[1] * (1 + _SAME):
                whole.node, whole.claimed = outcome.node, outcome.claimed
                whole.levels = tuple(replace(level, bound=None) for level in outcome.levels)
        whole.rank = rank_of(instance, rate_first=True)
        whole.notes.append("found no plan that empties the leaving nodes and carries the input")
        return whole

    return both


def _without_leaving(instance: Instance, *, may_stay: bool) -> Instance:
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


def _done(instance: Instance, request: Request, outcome: Outcome) -> bool:
    """Whether the plan carries the input, or is asked to carry less, or no time is left."""
    left = request.remaining()
    if outcome.termination is Termination.INTERRUPTED or (left is not None and left <= 0):
        return True
    if outcome.node is None:
        return False
    return request.objective in (LOSS, MOVES, NODES) or load_of(instance, outcome.node) <= FULL
