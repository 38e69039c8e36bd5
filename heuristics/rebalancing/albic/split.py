"""Step 2 of ALBIC, second half: sets too heavy or too costly to move are split.

METIS partitions some key groups into balanced parts; graphs may be small and lopsided.

Source: Karypis and Kumar, "Multilevel algorithms for multi-constraint graph partitioning", SC 1998,
which both ALBIC and COLA name.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.util.process import c_stdout_silenced

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from formulations.rebalancing.problem import BalanceProblem
    from heuristics.rebalancing.albic.sets import Indices
    from optim.format.instance import Instance
    from optim.format.tables import Floats

_MOST = 2**28
"""Sums of integer weights stay below this, so that METIS's 32 bits hold them."""


def balanced_parts(
    adjacency: csr_array[Any, tuple[int, int]],
    members: Indices,
    weight: Floats,
    num_parts: int,
    seed: int,
) -> list[Indices]:
    """Cut some key groups into parts of about even weight with little traffic between them.

    METIS may leave parts empty where few vertices are heavy; the key groups are then dealt out,
    heaviest first, each to the lightest part.

    Parameters
    ----------
    adjacency
        (T, T) symmetric pair rates.
    members
        The key groups to cut.
    weight
        (len(members),) their weights.
    num_parts
        At least 2, at most as many as there are members.
    seed
        Of METIS.

    Returns
    -------
    list of ndarray
        `num_parts` parts, none empty, members in ascending order, by first member.
    """
    label = _metis(adjacency[members][:, members], weight, num_parts, seed)
    if len(np.unique(label)) < num_parts:
        label = _dealt(weight, num_parts)
    parts = [members[label == k] for k in range(num_parts)]
    return sorted(parts, key=lambda part: int(part[0]))


def _metis(
    graph: csr_array[Any, tuple[int, int]], weight: Floats, num_parts: int, seed: int
) -> NDArray[np.int64]:
    import pymetis

    if num_parts == len(weight):
        return np.arange(num_parts)
    graph.sort_indices()
    # METIS takes integers of 32 bits
    rates = graph.data * (_MOST / max(float(graph.data.sum()), 1e-300))
    weights = weight * (_MOST / max(float(weight.sum()), 1e-300))
    with c_stdout_silenced():  # METIS complains there of bisections that leave a side empty
        found = pymetis.part_graph(
            num_parts,
            pymetis.CSRAdjacency(graph.indptr.astype(np.int32), graph.indices.astype(np.int32)),
            vweights=np.maximum(1, np.round(weights)).astype(np.int64),
            eweights=np.maximum(1, np.round(rates)).astype(np.int64),
            options=pymetis.Options(seed=seed),
            recursive=num_parts <= 8,  # as METIS advises
        )
    return np.array(found.vertex_part, dtype=np.int64)


def _dealt(weight: Floats, num_parts: int) -> NDArray[np.int64]:
    """Label each member, heaviest first, with the lightest part so far; none stays empty."""
    label = np.zeros(len(weight), dtype=np.int64)
    parts = [(0.0, 0, k) for k in range(num_parts)]
    for member in np.argsort(-weight, kind="stable").tolist():
        total, count, part = heapq.heappop(parts)
        label[member] = part
        heapq.heappush(parts, (total + float(weight[member]), count + 1, part))
    return label


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
    # a stack: parts of a set are looked at before the next set
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
