"""Step 2 of ALBIC, second half: sets too heavy or too costly to move are split."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from heuristics.rebalancing.albic.bisect import balanced_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formulations.rebalancing.problem import BalanceProblem
    from heuristics.rebalancing.albic.scores import Indices
    from optim.format.instance import Instance
    from optim.format.tables import Floats

_ROUNDING = 1e-9


@dataclass(frozen=True)
class PartLimits:
    """What a part must stay below, each with what a key group adds to it.

    Attributes
    ----------
    costs
        Pairs of (T,) amounts and their limit: migration cost, or 1 each for a budget of moves; 0
        where moves are free.
    load
        (T,) load of the balanced resource.
    max_load
        maxPL, same unit.
    """

    costs: tuple[tuple[Floats, float], ...]
    load: Floats
    max_load: float

    @classmethod
    def of(cls, problem: BalanceProblem, max_load: float) -> PartLimits:
        """Derive the limits from the budgets of a problem."""
        free = problem.is_free
        costs = ((np.where(free, 0.0, b.weight), float(b.limit)) for b in problem.budgets)
        return cls(tuple(costs), problem.load, max_load)

    def tightest(self, members: Indices, rng: np.random.Generator) -> tuple[float, Floats]:
        """Return how full the tightest limit is, and the members' amounts in it.

        A part keeps its limits when that is less than 1. Ties between the limits are broken at
        random, as the paper does.
        """
        filled = []
        for amount, limit in (*self.costs, (self.load, self.max_load)):
            used = float(amount[members].sum())
            share = used / limit if limit > 0 else (math.inf if used > 0 else 0.0)
            filled.append((share, amount))
        most = max(share for share, _ in filled)
        tied = [amount for share, amount in filled if share == most]
        return most, tied[int(rng.integers(len(tied))) if len(tied) > 1 else 0][members]


def split_sets(
    instance: Instance,
    sets: Sequence[Indices],
    limits: PartLimits,
    rng: np.random.Generator,
) -> list[Indices]:
    """Split each set until every part is one key group or stays below its limits.

    A set is cut into the fewest parts whose even share would stay below the tighter limit; parts
    that still break one are cut again.

    Parameters
    ----------
    instance
        For the traffic between the members.
    sets
        From `heuristics.rebalancing.albic.sets.merge_pairs`.
    limits
        What a part must stay below.
    rng
        Breaks ties.

    Returns
    -------
    list of ndarray
        Parts; those of one key group are among them.
    """
    done: list[Indices] = []
    waiting = list(reversed(sets))
    while waiting:
        members = waiting.pop()
        share, weight = limits.tightest(members, rng)
        if len(members) == 1 or share < 1.0 - _ROUNDING:
            done.append(members)
            continue
        count = len(members)
        if math.isfinite(share):
            count = min(count, math.floor(share + _ROUNDING) + 1)
        seed = int(rng.integers(2**31))
        waiting += reversed(balanced_parts(instance.adjacency, members, weight, count, seed))
    return done
