"""What goes before the solver: a bound and a search, by the solver's deadline.

The search puts the load distance first, so its plans may leave the last key groups where they are;
a solver that starts from there has to find emptying and balance anew in a model of everything.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from formulations.rebalancing.balance.portfolio import TRIES, search_balance, start_at_home
from formulations.rebalancing.bounds.touch import touch_bound
from formulations.rebalancing.search.arrays import fixed_part, state_of
from formulations.rebalancing.watch import Watch
from optim.rules.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formulations.rebalancing.balance.settings import Settings
    from formulations.rebalancing.problem import BalanceProblem, Ints
    from optim.format.instance import Instance


#: Share of the time left that bound and search may take; the rest is the solver's.
SEARCH_SHARE = 0.5


class Prepared(NamedTuple):
    """A bound and placements to start from.

    Attributes
    ----------
    bound
        A load distance that no placement falls below.
    starts
        What the search found, if anything, then what was given.
    interrupted
        Whether Ctrl-C ended it: nothing further is to be tried.
    """

    bound: float
    starts: list[Ints]
    interrupted: bool


def best_start(problem: BalanceProblem, starts: Sequence[Ints]) -> Ints | None:
    """Return the best of some placements; ``None`` when none is feasible."""
    best = None
    for start in filter(problem.is_feasible, starts):
        if best is None or problem.is_better(problem.levels(start), problem.levels(best)):
            best = start
    return best


def prepare_balance(
    problem: BalanceProblem, settings: Settings, starts: Sequence[Ints] = (), tries: int = TRIES
) -> Prepared:
    """Bound the load distance and search, for a share of the time or until Ctrl-C.

    Parameters
    ----------
    problem, settings
        As for `solve_balance`.
    starts
        Placements to search from, besides staying.
    tries
        Levels of the search that may fail one after the other; 0 for no search.
    """
    left = settings.remaining()
    half = None if left is None else time.perf_counter() + SEARCH_SHARE * left
    watch = Watch(half, offer=settings.offer)
    bound, found = 0.0, None
    try:
        bound = touch_bound(problem, watch)
    except KeyboardInterrupt:
        watch.interrupted = True
    if not watch.interrupted and tries:
        found = search_balance(problem, tuple(starts), settings.seed, bound, tries, watch)
    return Prepared(bound, [*([] if found is None else [found]), *starts], watch.interrupted)


#: Allowed sets of more entries than this are not made: the model would be far larger.
MAX_ENTRIES = 50_000_000


def drained_start(problem: BalanceProblem, settings: Settings, tries: int) -> Ints | None:
    """Return a balanced placement that empties leaving nodes, the largest key groups first.

    Parameters
    ----------
    problem
        With leaving nodes.
    settings
        Whose seed and deadline count.
    tries
        Of the search.

    Returns
    -------
    ndarray or None
        (T,) a feasible placement; ``None`` if none was found.
    """
    from formulations.rebalancing.search.kernel import drain

    home = start_at_home(problem, settings.seed)
    state = state_of(problem, home)
    drain(fixed_part(problem), state, math.inf)
    emptied = state.place
    gone = np.flatnonzero(problem.leaving[problem.home] & ~problem.leaving[emptied])
    if len(gone) * len(problem.staying) > MAX_ENTRIES:
        return emptied if problem.is_feasible(emptied) else None
    drained = kept_off(problem, gone)
    return best_start(drained, prepare_balance(drained, settings, [emptied], tries).starts)


def to_take_off(problem: BalanceProblem) -> Ints:
    """Return the key groups on leaving nodes that may go to one that stays."""
    there = np.flatnonzero(problem.leaving[problem.home])
    places = problem.may_be_rows(there) & ~problem.leaving
    return there[places.any(axis=1)]


def emptied(problem: BalanceProblem) -> BalanceProblem:
    """Return the problem of plans that leave nothing on leaving nodes which may go elsewhere."""
    return kept_off(replace(problem, into_leaving=False), to_take_off(problem))


def why_not_emptied(instance: Instance, problem: BalanceProblem) -> list[Violation]:
    """Return proofs that the budgets do not allow leaving nodes to be emptied; none says nothing.

    Parameters
    ----------
    instance, problem
        As given, before `emptied`.
    """
    must = problem.must_move.copy()
    must[to_take_off(problem)] = True
    must &= ~problem.has_copy
    nodes = np.flatnonzero(np.bincount(problem.home[must], minlength=problem.num_nodes))
    where = ", ".join(instance.nodes.ids[node] for node in nodes[problem.leaving[nodes]].tolist())
    found, count, cost = [], float(must.sum()), float(problem.cost[must].sum())
    if problem.max_moves is not None and count > problem.max_moves:
        most = float(problem.max_moves)
        found.append(Violation("leaving", f"{where}: max_migrations", count - most, count, most))
    if problem.max_cost is not None and cost > problem.most_cost:
        most = problem.max_cost
        found.append(Violation("leaving", f"{where}: max_migration_cost", cost - most, cost, most))
    return found


def kept_off(problem: BalanceProblem, tasks: Ints) -> BalanceProblem:
    """Return the problem in which some key groups may be on staying nodes only."""
    places = problem.may_be_rows(tasks) & ~problem.leaving
    others = np.setdiff1d(problem.restricted, tasks)
    rows = {int(task): np.flatnonzero(row) for task, row in zip(tasks, places, strict=True)}
    for task in others.tolist():
        row = int(problem.row_of[task])
        rows[task] = problem.allowed_nodes[
            problem.allowed_indptr[row] : problem.allowed_indptr[row + 1]
        ]
    restricted = np.array(sorted(rows), np.int64)
    counts = [len(rows[task]) for task in restricted.tolist()]
    return replace(
        problem,
        restricted=restricted,
        allowed_indptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        allowed_nodes=np.concatenate(
            [np.zeros(0, np.int64), *(rows[task] for task in restricted.tolist())]
        ).astype(np.int64),
    )
