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

from formulations.rebalancing.balance.search import (
    TRIES,
    fixed_part,
    search_balance,
    start_at_home,
    state_of,
)
from formulations.rebalancing.bounds.forced_moves import forced_moves_bound
from formulations.rebalancing.progress import Watch
from optim.figures.measures import node_loads
from optim.util.tolerance import slack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formulations.rebalancing.balance.solve import Settings
    from formulations.rebalancing.problem import BalanceProblem, Floats, Ints
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
        bound = forced_moves_bound(problem, watch)
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
    from formulations.rebalancing.balance.kernel import drain

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


def cannot_be_emptied(problem: BalanceProblem) -> bool:
    """Whether the budgets do not allow leaving nodes to be emptied; false says nothing.

    Parameters
    ----------
    problem
        As given, before `emptied`.
    """
    must = problem.must_move.copy()
    must[to_take_off(problem)] = True
    must &= ~problem.has_copy
    return _beyond_budgets(problem, problem.price[must].sum(axis=0))


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


def impossible(instance: Instance, problem: BalanceProblem) -> bool:
    """Whether no placement can exist, as needs no solver to be seen; false says nothing."""
    forced = np.flatnonzero(problem.must_move)
    if not problem.may_be_rows(forced).any(axis=1).all():
        return True
    return _beyond_budgets(problem, least_spent(instance, problem))


def _beyond_budgets(problem: BalanceProblem, spent: Floats) -> bool:
    return bool((spent > np.asarray(problem.budget)).any())


def none_within(problem: BalanceProblem) -> str:
    """Say that no placement exists, and what limit to drop to learn which one it hangs on."""
    set_ones = [f"--ignore {budget.name}" for budget in problem.budgets]
    note = "no placement within the budget keeps every limit" if set_ones else ""
    note = note or "no placement keeps every limit"
    if set_ones:
        note += f"; {' '.join(set_ones)} says what it takes without"
    if problem.has_leaving and not problem.into_leaving:
        note += "; --ignore leaving lets key groups move onto leaving nodes"
    return note


def not_emptied(problem: BalanceProblem) -> str:
    """Say what would help where leaving nodes cannot be emptied within the limits."""
    drops = [f"--ignore {budget.name}" for budget in problem.budgets]
    more = f"; {' or '.join(drops)} says what it takes" if drops else ""
    return (
        "no plan that empties the leaving nodes: --option drain=first empties them as far as the "
        f"limits allow{more}"
    )


def least_spent(instance: Instance, problem: BalanceProblem) -> Floats:
    """Return (K,) what key groups that must move take at least of each budget.

    They may not stay where they are, or must leave a node for its capacity: what comes in makes
    room for nothing, so each node is counted alone.
    """
    home, forced = problem.home, problem.must_move
    price = problem.least(problem.price)
    spent = np.zeros((instance.num_nodes, price.shape[1]))
    np.add.at(spent, home[forced], price[forced])
    bound = instance.nodes.capacity * instance.limits.max_utilisation
    # the tolerance twice: once the referee's own, once for sums over many key groups
    over = node_loads(instance, instance.tasks.node) - bound - 2 * slack(bound)
    by_node = np.argsort(home, kind="stable")
    starts = np.searchsorted(home[by_node], np.arange(instance.num_nodes + 1))
    for node, resource in np.argwhere(over > 0).tolist():
        here = by_node[starts[node] : starts[node + 1]]
        load, much = instance.tasks.load[here, resource], float(over[node, resource])
        if load.sum() < much:
            continue  # its background alone is too much
        for k, each in enumerate(price[here].T):
            spent[node, k] = max(spent[node, k], _cheapest(load, each, much))
    return spent.sum(axis=0)


def _cheapest(load: Floats, cost: Floats, much: float) -> float:
    """Return a least cost of being rid of that much load: the cheapest first, the last in part.

    Where all cost the same, the last one costs as much as the others.
    """
    if np.ptp(cost) == 0:
        taken = np.cumsum(np.sort(load)[::-1])
        return float(cost[0]) * (int(np.searchsorted(taken, much * (1 - 1e-9))) + 1)
    some = load > 0
    load, cost = load[some], cost[some]
    order = np.argsort(cost / load, kind="stable")
    taken = np.cumsum(load[order])
    before = taken - load[order]
    part = np.clip((much * (1 - 1e-9) - before) / load[order], 0.0, 1.0)
    return float(part @ cost[order])
