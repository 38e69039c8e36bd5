"""What goes before the solver: a bound and a search, by the solver's deadline."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from formulations.rebalancing.bounds.touch import touch_bound
from formulations.rebalancing.search.portfolio import TRIES, search_balance
from formulations.rebalancing.search.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formulations.rebalancing.balance.settings import Settings
    from formulations.rebalancing.problem import BalanceProblem, Ints


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
    """Bound the load distance and search, no longer than until the deadline or Ctrl-C.

    Parameters
    ----------
    problem, settings
        As for `solve_balance`.
    starts
        Placements to search from, besides staying.
    tries
        Levels of the search that may fail one after the other.
    """
    watch = Watch(settings.deadline, offer=settings.offer)
    bound, found = 0.0, None
    try:
        bound = touch_bound(problem, watch)
    except KeyboardInterrupt:
        watch.interrupted = True
    if not watch.interrupted:
        found = search_balance(problem, tuple(starts), settings.seed, bound, tries, watch)
    return Prepared(bound, [*([] if found is None else [found]), *starts], watch.interrupted)
