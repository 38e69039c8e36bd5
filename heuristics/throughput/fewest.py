"""The fewest moves, or the fewest nodes, that carry a rate: by searches for the rate itself.

Capacities say how much is to be carried (`optim.figures.rate.carrying`), so that a plan carries it
whose fullest place is not more than full. For moves, the search for the rate is asked with budgets,
by halves; then tasks go home where that leaves room. For nodes, they are closed one after another.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from formulations.throughput.common import FULL, NODES, check_moves, counted
from formulations.throughput.problem import load_of
from optim.figures.measures import migrated_tasks
from optim.kernels.room import placing_room
from optim.methods.lowering import with_columns
from optim.methods.registry import Outcome
from optim.referee.evaluate import evaluate_indices
from optim.referee.result import Termination
from optim.rules.max_migrations import forced_moves
from optim.util.tolerance import slack

if TYPE_CHECKING:
    from collections.abc import Callable

    from optim.format.instance import Instance
    from optim.format.tables import Bools, Ints
    from optim.methods.registry import Request

_ROUNDING = 1e-9
_HOME = 200
"""Moved tasks up to which each is tried at home."""


def fewest(
    instance: Instance, request: Request, search: Callable[[Instance, Request], Ints | None]
) -> Outcome:
    """Find a plan that is nowhere more than full, of few moves or nodes.

    Parameters
    ----------
    search
        Looks for the placement whose fullest place is least full, and stops where none is more than
        full; of an instance and a request.

    Raises
    ------
    UnsuitableMethod
        Moves are to be counted, and no task has a node.
    """
    objective = str(request.objective)
    check_moves(instance, objective, "throughput-search")
    outcome = Outcome(Termination.ITERATION_LIMIT, objective=objective)
    finder = _Finder(instance, request, search)
    try:
        if objective == NODES:
            low = least_nodes(instance)
            _close_nodes(finder, low)
        else:
            low = least_moves(instance)
            _halve(finder, low)
    except KeyboardInterrupt:
        outcome.termination = Termination.INTERRUPTED
    outcome.bound, outcome.node = float(low), finder.best
    if outcome.node is not None:
        outcome.claimed = counted(instance, outcome.node, objective)
    left = request.remaining()
    if outcome.termination is not Termination.INTERRUPTED and left is not None and left <= 0:
        outcome.termination = Termination.TIME_LIMIT
    return outcome


class _Finder:
    """The best plan so far, and how more are looked for."""

    def __init__(
        self,
        instance: Instance,
        request: Request,
        search: Callable[[Instance, Request], Ints | None],
    ) -> None:
        self.instance, self.request, self.search = instance, request, search
        self.best: Ints | None = None

    def find(self, instance: Instance) -> bool:
        """Look for a plan of a narrower instance; take it if there is one."""
        left = self.request.remaining()
        if left is not None and left <= 0:
            return False
        asked = replace(self.request, time_limit=left, warm_start=self.best).apart()
        return self.take(self.search(instance, asked))

    def take(self, node: Ints | None) -> bool:
        """Take a plan if it keeps everything and is better."""
        if node is None or load_of(self.instance, node) > FULL:
            return False
        if not evaluate_indices(self.instance, node).feasible:
            return False
        objective = str(self.request.objective)
        if self.best is None or self.count(node) < self.count(self.best):
            self.best = node
            self.request.offer(node)
        return self.count(self.best) <= counted(self.instance, node, objective)

    def count(self, node: Ints) -> float:
        """Return the moves or nodes of a plan."""
        return counted(self.instance, node, str(self.request.objective))


def _halve(finder: _Finder, low: int) -> None:
    """Look for plans of fewer and fewer moves."""
    instance, limits = finder.instance, finder.instance.limits
    if instance.has_current:
        finder.take(instance.tasks.node)
    if finder.best is None and not finder.find(instance):
        return
    while finder.best is not None and (high := int(finder.count(finder.best))) > low:
        _send_home(finder)
        high = int(finder.count(finder.best))
        if high <= low:
            return
        middle = (low + high) // 2
        if not finder.find(replace(instance, limits=replace(limits, max_migrations=middle))):
            low = middle + 1


def _send_home(finder: _Finder) -> None:
    """Send moved tasks home, one by one, where nothing gets too full."""
    assert finder.best is not None
    home = finder.instance.tasks.node
    moved = migrated_tasks(finder.instance, finder.best)
    for t in moved[:_HOME].tolist():
        tried = finder.best.copy()
        tried[t] = home[t]
        finder.take(tried)


def _close_nodes(finder: _Finder, low: int) -> None:
    """Close a node in use, that of the fewest tasks first, as long as the rest carries all."""
    instance = finder.instance
    if not finder.find(instance):
        return
    closed = np.zeros(instance.num_nodes, dtype=np.bool_)
    while finder.best is not None and finder.count(finder.best) > low:
        held = np.bincount(finder.best, minlength=instance.num_nodes)
        used = np.flatnonzero(held)
        again = False
        for n in used[np.argsort(held[used], kind="stable")].tolist():
            tried = closed | (held == 0)
            tried[n] = True
            again = finder.find(_without(instance, tried))
            if again:
                closed = tried
                break
            left = finder.request.remaining()
            if instance.num_nodes > 50 or (left is not None and left <= 0):
                break
        if not again:
            return


def _without(instance: Instance, closed: Bools) -> Instance:
    """Return the instance with nodes that may hold no task: a resource which they have none of."""
    room = np.where(closed, 0.0, np.inf)[:, None]
    return with_columns(instance, ("closed",), np.ones((instance.num_tasks, 1)), room)


def least_nodes(instance: Instance) -> int:
    """Return a number of nodes below which the largest of them have no room for all load."""
    need, room = instance.total_load, np.sort(placing_room(instance), axis=0)[::-1]
    enough = np.cumsum(np.maximum(room, 0.0), axis=0) >= need * (1 - _ROUNDING)
    return int(np.argmax(enough, axis=0).max()) + 1


def least_moves(instance: Instance) -> int:
    """Return moves that every plan has: tasks that may not stay, and what overloads their nodes.

    Of a node that is too full by the loads alone, so many of its heaviest tasks go at least as
    leave the rest room; those with a copy elsewhere may go for nothing, and count for none.
    """
    home = instance.tasks.node
    # the tolerance twice: once the referee's own, once for sums over many tasks
    most = instance.nodes.capacity * instance.limits.max_utilisation
    room = instance.headroom + 2 * slack(most)
    free = np.isin(np.arange(instance.num_tasks), instance.tasks.copied)
    forced = np.bincount(home[forced_moves(instance)], minlength=instance.num_nodes)
    total = 0
    for n in np.flatnonzero(np.bincount(home[home >= 0], minlength=instance.num_nodes)).tolist():
        load = instance.tasks.load[(home == n) & ~free]
        lightest = np.cumsum(np.sort(load, axis=0), axis=0)
        left = np.vstack([np.zeros(load.shape[1]), lightest])[::-1]  # without the heaviest 0, 1, …
        fits = left <= room[n]
        here = np.where(fits.any(axis=0), np.argmax(fits, axis=0), len(load))
        total += max(int(here.max()), int(forced[n]))
    return total
