"""What the methods that maximise the sustainable rate share: starts, ranks, and how they end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.throughput.places import load_of
from optim.figures.measures import imc_gain_of, internode_of, migrated_tasks
from optim.kernels.first_fit import packings
from optim.kernels.room import placing_masks
from optim.referee.evaluate import evaluate_indices
from optim.referee.result import Level, Termination
from optim.util.tolerance import over

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from optim.format.instance import Instance
    from optim.format.tables import Ints
    from optim.methods.registry import Outcome, Request
    from optim.referee.evaluation import Evaluation

HONOURS = frozenset({
    "capacity", "min_load", "allowed", "leaving", "links", "crossing_cost", "max_migrations",
    "max_migration_cost", "max_inflow", "copies",
})  # fmt: skip
"""Limits that all of them keep; those that the rate measures are no limits to them."""

LOSS, MOVES, NODES = "rate_after_loss", "migrations", "nodes_used"
"""What is asked instead: the rate after a loss; and, where the rate is given so that capacities and
links bind, how much it takes."""

STARTS = ("throughput-search",)
"""Searches that exact methods never fall below where they do not prove their plan."""


def good_starts(binding: Instance, request: Request, *, searched: bool) -> list[Ints]:
    """Return what is at hand and keeps all that binds: warm start, current placement, packings.

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
    """Say by how much the present input is missed, and whether that is proven."""
    if not over(1.0, rate):
        return []
    told = f"the plan carries {rate:.4g} of the present input, {1 - rate:.1%} too little"
    if bound is not None and bound < 1:
        told += f"; no placement carries more than {bound:.4g}"
    return [told]
