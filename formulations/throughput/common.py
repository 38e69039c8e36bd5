"""What the methods that maximise the sustainable rate share: starts, ranks, and how they end."""

from __future__ import annotations

from dataclasses import replace
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from formulations.throughput.problem import BOTH, INTO, NEVER, OUT, load_of, places_of, thread_load
from optim.errors import Problem, UnsuitableMethod
from optim.figures.measures import imc_gain_of, internode_of, migrated_tasks
from optim.kernels.first_fit import packings
from optim.kernels.room import placing_masks, placing_room
from optim.methods.reduce import emptied, may_be_rewritten, without_leaving
from optim.referee.evaluate import evaluate_indices
from optim.referee.result import Level, Termination
from optim.rules.base import LOADS, OF_MOVES, Form
from optim.util.tolerance import over

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats, Ints
    from optim.methods.registry import Outcome, Request
    from optim.referee.result import Evaluation

    Run = Callable[[Instance, Request], Outcome]


KNOWN_FORMS = (
    LOADS | OF_MOVES | {Form.NODE_FLOOR, Form.LINK_CAPACITY, Form.CROSSING, Form.LOCAL_FIRST}
)
"""Forms of limits that all of them keep; those that the rate measures are no limits to them.
Without links and crossing costs no traffic is in the rate, `local_first` or not.
"""

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
    """Whether the plan carries the input, or all that its tasks can, or is asked to carry less."""
    # and where no time is left
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


# Utilisations that no placement stays below, by counting alone.
#
# What one task can use; all load of a resource over all room for it, the heaviest task on the best
# node; and, since no node
# holds much of two operators, how much of the full stream between them crosses at least, which the
# links and the crossing costs have to take (docs/proofs/forced-crossing.md).


_ROUNDING = 1e-9
_HALVINGS = 60
_TOP = 1e12


def least_load(instance: Instance, lost: int | None = None) -> float:
    """Return a utilisation that every placement has at least somewhere.

    Parameters
    ----------
    lost
        A node that takes no part.
    """
    left = np.arange(instance.num_nodes) != lost
    places = places_of(instance)
    room, link = places.room[left], places.link[: instance.num_nodes][left]
    least = thread_load(instance)
    for r in instance.rate_driven:
        whole, best = float(room[:, r].sum()), float(room[:, r].max(initial=0.0))
        if np.isfinite(whole) and instance.total_load[r] > 0:
            heaviest = float(instance.tasks.load[:, r].max())
            for need, most in ((float(instance.total_load[r]), whole), (heaviest, best)):
                least = max(least, min(NEVER, need / most) if most > 0 else NEVER)
    streams = _streams(instance, room, left)
    return least if least >= NEVER else _raised(instance, streams, room, link, least)


class _Streams(NamedTuple):
    """S full streams between two operators each.

    Attributes
    ----------
    rate
        (S,) rates.
    load, each
        (S, 2, R) least load of all tasks of its two operators, and of one of them.
    most
        (R,) the largest room of a node; of rate-driven resources at a utilisation of 1.
    driven
        (R,) which these are.
    """

    rate: Floats
    load: Floats
    each: Floats
    most: Floats
    driven: Bools

    def crossing(self, full: float) -> float:
        """Return traffic that crosses at least where nothing is fuller than that."""
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(self.driven & np.isfinite(self.most), self.most * full, self.most)
            both = np.where(self.load.sum(axis=1) > 0, room / self.load.sum(axis=1), np.inf)
            count = np.floor(room / self.each + _ROUNDING)
            one = np.where(self.each > 0, count * self.each / self.load, np.inf)
        inside = np.minimum(both.min(axis=1), one.min(axis=(1, 2)))
        return float(self.rate @ (1.0 - np.clip(inside * (1 + _ROUNDING), 0.0, 1.0)))


def _streams(instance: Instance, room: Floats, left: Bools) -> _Streams:
    driven = np.isin(np.arange(instance.num_resources), instance.rate_driven)
    hard = np.maximum(placing_room(instance)[left], 0.0)
    most = np.where(driven, room.max(axis=0, initial=0.0), hard.max(axis=0, initial=0.0))
    rates: list[float] = []
    loads: list[Any] = []
    each: list[Any] = []
    for stream in instance.streams:
        ends = [instance.tasks_of(o) for o in (stream.source, stream.target)]
        spread = stream.pattern == "full" and not stream.replaced and stream.rate > 0
        if spread and stream.source != stream.target and all(map(len, ends)):
            least = np.array([instance.tasks.load[end].min(axis=0) for end in ends])
            rates.append(stream.rate)
            each.append(least)
            loads.append(least * np.array([[len(end)] for end in ends]))
    shape = (len(rates), 2, instance.num_resources)
    return _Streams(
        np.array(rates), np.array(loads).reshape(shape), np.array(each).reshape(shape), most, driven
    )


def _raised(
    instance: Instance, streams: _Streams, room: Floats, link: Floats, least: float
) -> float:
    """Raise a bound to where links and nodes take what has to cross."""
    if not len(streams.rate):
        return least
    ways = [
        (1.0, float(np.minimum(link[:, OUT], link[:, BOTH]).sum())),
        (1.0, float(np.minimum(link[:, INTO], link[:, BOTH]).sum())),
        (2.0, float(np.minimum(link[:, BOTH], link[:, OUT] + link[:, INTO]).sum())),
    ]
    rooms = [(r, float(room[:, r].sum())) for r in instance.rate_driven]
    price = instance.crossing_cost.sum(axis=0)

    def taken(full: float) -> bool:
        crossing, most = streams.crossing(full), full * (1 + _ROUNDING)
        if any(times * crossing > most * cap for times, cap in ways if np.isfinite(cap)):
            return False
        needs = ((instance.total_load[r] + price[r] * crossing, cap) for r, cap in rooms)
        return not any(need > most * cap for need, cap in needs if np.isfinite(cap))

    low, high = least, max(1.0, 2 * least)
    if taken(low):
        return least
    while not taken(high):
        low, high = high, 4 * high
        if low > _TOP:
            return low
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if taken(middle) else (middle, high)
    return low
