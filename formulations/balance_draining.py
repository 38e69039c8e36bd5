"""A start for ``drain=hard``: leaving nodes emptied as far as the budget goes, the rest balanced.

The search puts the load distance first, so its plans may leave the last key groups where they are;
a solver that starts from there has to find emptying and balance anew in a model of everything.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from formulations.balance_preparing import best_start, prepare_balance
from optim.local_search.balance_arrays import changing_part, fixed_part
from optim.local_search.balance_search import start_at_home

if TYPE_CHECKING:
    from formulations.balance_settings import Settings
    from optim.local_search.balance_problem import BalanceProblem, Ints

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
    from optim.local_search.balance_kernel import drain

    home = start_at_home(problem, settings.seed)
    emptied: Ints = drain(fixed_part(problem), *changing_part(problem, home), math.inf)
    gone = np.flatnonzero(problem.leaving[problem.home] & ~problem.leaving[emptied])
    if len(gone) * len(problem.staying) > MAX_ENTRIES:
        return emptied if problem.is_feasible(emptied) else None
    drained = kept_off(problem, gone)
    return best_start(drained, prepare_balance(drained, settings, [emptied], tries).starts)


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
