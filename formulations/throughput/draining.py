"""Leaving nodes: emptied where a plan that empties them carries the input, else not all of them.

A plan that leaves nothing on leaving nodes is looked for first, and is the answer where it carries
the present input. Where none does, tasks may stay, as the file allows: the same problem is solved
again with leaving nodes open to the tasks of such nodes, and what is proved then is of all plans.
"""

from __future__ import annotations

from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING

from formulations.throughput.common import LOSS, MOVES, NODES, rank_of
from formulations.throughput.fewest import FULL
from formulations.throughput.places import load_of, thread_load
from optim.methods.draining import emptied, may_be_rewritten, without_leaving
from optim.referee.result import Termination

if TYPE_CHECKING:
    from collections.abc import Callable

    from optim.format.instance import Instance
    from optim.methods.registry import Outcome, Request

    Run = Callable[[Instance, Request], Outcome]

_SAME = 1e-9


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
        if not assumed or not may_be_rewritten(instance):
            outcome = run(instance, request)
            outcome.assumes += assumed
            return outcome
        outcome = run(without_leaving(instance, may_stay=False), request)
        whole = None
        if not _done(instance, request, outcome):
            whole = run(without_leaving(instance, may_stay=True), request)
        if whole is None or (
            whole.node is None and whole.termination is not Termination.INFEASIBLE
        ):
            outcome.assumes += assumed
            if outcome.rank is None or request.objective not in (MOVES, NODES):
                # emptying gives way where it does not carry the input, whatever the clock says
                short = _is_short(instance, request, outcome)
                outcome.rank = rank_of(instance, rate_first=short)
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


def _done(instance: Instance, request: Request, outcome: Outcome) -> bool:
    """Whether the plan carries the input, or all that its tasks can, or is asked to carry less.

    And where no time is left.
    """
    left = request.remaining()
    if outcome.termination is Termination.INTERRUPTED or (left is not None and left <= 0):
        return True
    return outcome.node is not None and not _is_short(instance, request, outcome)


def _is_short(instance: Instance, request: Request, outcome: Outcome) -> bool:
    """Whether there is a plan for the rate, and it does not carry the input."""
    if outcome.node is None or request.objective in (LOSS, MOVES, NODES):
        return False
    most = max(FULL, thread_load(instance) * (1 + _SAME))
    return load_of(instance, outcome.node) > most
