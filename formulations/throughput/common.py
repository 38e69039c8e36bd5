"""What the methods that maximise the sustainable rate share: starts, ranks, and how they end."""

from __future__ import annotations

from dataclasses import replace
from functools import partial, wraps
from typing import TYPE_CHECKING

import numpy as np

from formulations.throughput.problem import load_of, thread_load
from optim.errors import Problem, UnsuitableMethod
from optim.figures.measures import imc_gain_of, internode_of, migrated_tasks
from optim.kernels.first_fit import packings
from optim.kernels.room import placing_masks
from optim.methods.drain import emptied, may_be_rewritten, without_leaving
from optim.referee.evaluate import evaluate_indices
from optim.referee.result import Level, Termination
from optim.rules.base import LOADS, OF_MOVES, Form
from optim.util.tolerance import over

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from optim.format.instance import Instance
    from optim.format.tables import Ints
    from optim.methods.registry import Outcome, Request
    from optim.referee.evaluation import Evaluation

    Run = Callable[[Instance, Request], Outcome]


KNOWN_FORMS = LOADS | OF_MOVES | {Form.NODE_FLOOR, Form.LINK_CAPACITY, Form.CROSSING}
"""Forms of limits that all of them keep; those that the rate measures are no limits to them."""

LOSS, MOVES, NODES = "rate_after_loss", "migrations", "nodes_used"
"""What is asked instead: the rate after a loss; and, where the rate is given so that capacities and
links bind, how much it takes."""

FULL = 1.0 + 0.5e-9
"""Utilisation up to which a node is not too full: a part of the referee's tolerance."""

STARTS = ("throughput-search",)
"""Searches that exact methods never fall below where they do not prove their plan."""


def check_moves(instance: Instance, objective: str, method: str) -> None:
    """Refuse to count moves where no task has a node.

    Raises
    ------
    UnsuitableMethod
        That is so.
    """
    if objective == MOVES and not (instance.tasks.node >= 0).any():
        reason = "needs tasks[].node (the current placement) to count moves"
        remedy = "give each task its node, or ask for the fewest nodes: --objective nodes_used"
        raise UnsuitableMethod(Problem(method, None, reason, remedy))


def good_starts(binding: Instance, request: Request, *, searched: bool) -> list[Ints]:
    """Return what is known and keeps all that binds: warm start, current placement, packings.

    Nothing on leaving nodes that may go elsewhere: models do not know such placements.

    Parameters
    ----------
    binding
        The instance without the limits that the rate measures.
    searched
        Whether the searches of the family are asked, too.
    """
    given = [] if request.warm_start is None else [np.asarray(request.warm_start)]
    if binding.has_current and not request.cold:
        given.append(binding.tasks.node)
    found = request.start() if searched else None
    given += [] if found is None else [found.node]
    kept = _kept(binding, given)
    return kept if kept or request.cold else _kept(binding, packings(binding))[:1]


def fullest_last(instance: Instance, starts: Iterable[Ints]) -> Ints | None:
    """Return the start whose fullest place is least full, of such the one of least traffic."""

    def key(node: Ints) -> tuple[float, float]:
        return float(f"{load_of(instance, node):.9e}"), -imc_gain_of(instance, node)

    return min(starts, key=key, default=None)


def counted(instance: Instance, node: Ints, objective: str) -> float:
    """Return the moves, or the nodes in use, of a placement of all tasks."""
    if objective == NODES:
        return float(len(np.unique(node)))
    return float(len(migrated_tasks(instance, node)))


def _kept(binding: Instance, given: Iterable[Ints]) -> list[Ints]:
    kind, _, target = placing_masks(binding)
    return [
        node
        for node in given
        if (node >= 0).all()
        and target[kind, node].all()
        and evaluate_indices(binding, node.astype(np.int32)).feasible
    ]


def rank_of(
    instance: Instance, *, rate_first: bool = False
) -> Callable[[Ints, Evaluation], tuple[float, ...] | None]:
    """Rank plans: what is left on leaving nodes, the rate, traffic between nodes, moves."""

    def rank(node: Ints, evaluation: Evaluation) -> tuple[float, ...] | None:
        rate, traffic = evaluation.sustainable_rate, evaluation.internode_traffic
        if rate is None or traffic is None:
            return None
        left = int((instance.nodes.leaving[node] & instance.has_open_node).sum())
        whole = max(instance.total_traffic, 1e-300)
        moves = float(evaluation.migrations or 0)
        first = (left, float(f"{-rate:.9e}"))
        return *(first[::-1] if rate_first else first), round(traffic / whole, 9), moves

    return rank


def finished(instance: Instance, outcome: Outcome, low: float) -> Outcome:
    """Write the bound, the levels below the rate and the words into an outcome.

    Parameters
    ----------
    low
        Highest utilisation that every placement has at least.
    """
    outcome.bound = rate_at(low) if low > 0 else None
    outcome.rank = rank_of(instance)
    if outcome.node is None:
        return outcome
    outcome.claimed = rate_at(load_of(instance, outcome.node))
    if not outcome.levels:
        outcome.levels = (traffic_level(instance, outcome.node),)
    if (instance.tasks.node >= 0).any():
        moves = float(len(migrated_tasks(instance, outcome.node)))
        outcome.levels += (Level("migrations", "min", moves, None, "count"),)
    outcome.notes += short_words(outcome.claimed, outcome.bound)
    if outcome.termination is Termination.INFEASIBLE:
        outcome.bound = None
    return outcome


def traffic_level(instance: Instance, node: Ints, bound: float | None = None) -> Level:
    """Return the second level: traffic between nodes."""
    crossing = internode_of(instance, node)
    return Level("internode_traffic", "min", crossing, bound, "rate")


def rate_at(load: float) -> float:
    """Return the rate at which a highest utilisation is 1."""
    return 1.0 / load if 0 < load < 1e29 else 0.0


def short_words(rate: float, bound: float | None) -> list[str]:
    """Say by how much the current input is missed, and whether that is proven."""
    if not over(1.0, rate):
        return []
    told = f"the plan carries {rate:.4g} of the current input, {1 - rate:.1%} too little"
    if bound is not None and bound < 1:
        told += f"; no placement carries more than {bound:.4g}"
    return [told]


# Leaving nodes: emptied where a plan that empties them carries the input, else not all of them.
#
# A plan that leaves nothing on leaving nodes is looked for first, and is the answer where it
# carries the current input. Where none does, tasks may stay, as the file allows: the same problem
# is solved again with leaving nodes open to the tasks of such nodes, and what is proved then is of
# all plans.

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
            change = partial(without_leaving, may_stay=True)
            request.rewritten(change)
            whole = run(change(instance), request)
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
