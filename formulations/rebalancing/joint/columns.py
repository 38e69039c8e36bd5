"""Where key groups, and pairs of them, may be: the columns of the joint model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from optim.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from formulations.rebalancing.joint.problem import JointProblem
    from formulations.rebalancing.problem import BalanceProblem, Bools, Ints

#: Masks and models beyond these sizes are refused: they would need tens of gigabytes.
MAX_PLACES, MAX_COLUMNS = 200_000_000, 6_000_000


@dataclass(frozen=True)
class Columns:
    """Binaries of the model.

    Attributes
    ----------
    task, node
        (M,) a key group moves to a node. For a key group with at most one partner: without it.
    pair, pair_node
        (W,) both key groups of a pair are on a node.
    """

    task: Ints
    node: Ints
    pair: Ints
    pair_node: Ints

    def __len__(self) -> int:
        """Return the number of columns."""
        return len(self.task) + len(self.pair)


def all_places(balance: BalanceProblem) -> Bools:
    """Return (T, N) where each key group may be.

    Raises
    ------
    InvalidInput
        Too many.
    """
    if balance.num_tasks * balance.num_nodes > MAX_PLACES:
        raise _too_large(balance.num_tasks * balance.num_nodes, "key groups × nodes")
    return balance.may_be_rows(np.arange(balance.num_tasks))


def pruned_places(problem: JointProblem, spread: int, also: tuple[Ints, ...] = ()) -> Bools:
    """Return (T, N) places worth trying: home, partners' homes, and from full to empty nodes.

    Parameters
    ----------
    problem
        What is placed.
    spread
        Key groups of the `spread` most loaded nodes, of leaving nodes and those that must move may
        go to the `spread` least loaded nodes; those of nodes above the cap always, to all below it
        among these.
    also
        Placements whose places are kept too.
    """
    balance = problem.balance
    t, home = np.arange(balance.num_tasks), balance.home
    mask = np.zeros((balance.num_tasks, balance.num_nodes), dtype=np.bool_)
    mask[t, home] = True
    mask[problem.source, home[problem.target]] = True
    mask[problem.target, home[problem.source]] = True
    deviation = balance.base_load - balance.share
    order = np.argsort(deviation, kind="stable")
    full = np.zeros(balance.num_nodes, dtype=np.bool_)
    full[order[::-1][:spread]] = True
    full |= balance.leaving | (deviation > problem.cap)
    staying = order[~balance.leaving[order]]
    empty = np.unique(
        np.concatenate([staying[:spread], staying[deviation[staying] < -problem.cap]])
    )
    from_full = np.flatnonzero(full[home] | balance.must_move)
    mask[np.ix_(from_full, empty)] = True
    for placement in also:
        mask[t, placement] = True
    return mask & all_places(balance)


def columns_of(problem: JointProblem, places: Bools) -> Columns:
    """Return the columns for key groups that may be at `places`.

    Raises
    ------
    InvalidInput
        Too many columns.
    """
    moves = places.copy()
    moves[np.arange(len(moves)), problem.balance.home] = False
    count = int(moves.sum())
    if count + problem.num_pairs * places.shape[1] > MAX_COLUMNS:
        count += _count_pairs(problem, places)
        if count > MAX_COLUMNS:
            raise _too_large(count, "columns")
    task, node = np.nonzero(moves)
    pair, pair_node = np.nonzero(places[problem.source] & places[problem.target])
    return Columns(task, node, pair, pair_node)


def _count_pairs(problem: JointProblem, places: Bools) -> int:
    total, step = 0, 100_000
    for begin in range(0, problem.num_pairs, step):
        part = slice(begin, begin + step)
        total += int((places[problem.source[part]] & places[problem.target[part]]).sum())
    return total


def _too_large(number: int, what: str) -> InvalidInput:
    return InvalidInput(
        Problem(
            "joint-milp",
            f"{number:,} {what}",
            "is too large for the model",
            "use --option candidates=pruned, or joint-search",
        )
    )
