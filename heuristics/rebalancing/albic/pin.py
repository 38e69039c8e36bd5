"""Step 3 of ALBIC: the pairs to collocate this round, and the node each is pinned to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from formulations.rebalancing.problem import Floats
    from heuristics.rebalancing.albic.scores import DirectedPairs
    from heuristics.rebalancing.albic.units import Units


@dataclass
class Pins:
    """What is pinned so far, and what that spends.

    Attributes
    ----------
    node_of
        Unit to node.
    pairs
        The key groups of each pair that was chosen.
    spent
        (K,) what the key groups that leave their node by it take of each budget.
    """

    node_of: dict[int, int] = field(default_factory=dict)
    pairs: list[tuple[int, int]] = field(default_factory=list)
    spent: Floats = field(default_factory=lambda: np.zeros(1))


def choose_pins(
    units: Units, candidates: DirectedPairs, pairs_per_round: int, rng: np.random.Generator
) -> Pins:
    """Pin the pairs with the greatest rate, ties at random.

    Neither key group in a unit of several: both go to the less loaded of their two nodes (load by
    weight). One in such a unit: the other goes to that one's node. Both: as the first case, for the
    units. An end that an earlier pair of the round has pinned stays where it is, and the other one
    goes there. Where the node leaves, is not allowed for a member or costs more than the budget
    holds, the other node of the first and third case is tried, then the next pair.

    Parameters
    ----------
    units
        The units of the round.
    candidates
        Pairs on different nodes (the paper's toBeColGrps).
    pairs_per_round
        How many to pin; the paper pins one.
    rng
        Breaks ties.
    """
    pins = Pins()
    shuffled = rng.permutation(len(candidates.rate))
    order = shuffled[np.argsort(-candidates.rate[shuffled], kind="stable")]
    load = units.problem.base_load / units.problem.weight
    members = _Members(units)
    for pair in order.tolist():
        if len(pins.pairs) >= pairs_per_round:
            break
        source, target = int(candidates.source[pair]), int(candidates.target[pair])
        ends = int(units.unit_of[source]), int(units.unit_of[target])
        for node in _nodes(units, members, ends, load, pins):
            if _pin(units, members, ends, node, pins):
                pins.pairs.append((source, target))
                break
    return pins


class _Members:
    """Members of every unit, looked up without a search."""

    def __init__(self, units: Units) -> None:
        self._order = np.argsort(units.unit_of, kind="stable")
        self._start = np.concatenate([[0], np.cumsum(units.size)])

    def __getitem__(self, unit: int) -> list[int]:
        found: list[int] = self._order[self._start[unit] : self._start[unit + 1]].tolist()
        return found


def _nodes(
    units: Units, members: _Members, ends: tuple[int, int], load: Floats, pins: Pins
) -> list[int]:
    """Return the nodes to try, the paper's choice first."""
    pinned = [pins.node_of[unit] for unit in ends if unit in pins.node_of]
    if pinned:
        return pinned if len(pinned) == 1 else []
    homes = [int(units.problem.home[members[unit][0]]) for unit in ends]
    grouped = [bool(units.size[unit] > 1) for unit in ends]
    if grouped[0] != grouped[1]:
        return [homes[grouped.index(True)]]
    return sorted(homes, key=lambda node: (float(load[node]), node))


def _pin(units: Units, members: _Members, ends: tuple[int, int], node: int, pins: Pins) -> bool:
    """Pin both units to a node if that may be; say whether it was done."""
    problem = units.problem
    new = [unit for unit in ends if unit not in pins.node_of]
    tasks = [task for unit in new for task in members[unit]]
    if problem.leaving[node] or not all(problem.may_be(task, node) for task in tasks):
        return False
    moving = [t for t in tasks if problem.home[t] != node and not problem.is_free[t]]
    spent = pins.spent + problem.price[moving].sum(axis=0)
    if (spent > problem.budget).any():
        return False
    pins.spent = spent
    pins.node_of.update(dict.fromkeys(new, node))
    return True
