"""The best that replicas reach by exchanging places alone, which copies nothing."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from optim.format.tables import APART

if TYPE_CHECKING:
    from formulations.rebalancing.problem import BalanceProblem, Ints

MOST_EXCHANGES = 5_000
"""Exchanges made at most."""


def by_exchanges(problem: BalanceProblem) -> Ints | None:
    """Return a placement that differs from now by exchanges of replicas, and is better balanced.

    Each exchange is the one that lowers the sum of the squares of what nodes are off their share
    most: with the leader a partition's load goes to the broker of a follower.

    Returns
    -------
    numpy.ndarray or None
        (T,) nodes; ``None`` where no exchange helps, or what it leads to breaks a rule.
    """
    one, other = _pairs(problem)
    if not len(one):
        return None
    place = problem.home.copy()
    off = problem.node_load(place) - problem.share
    scale = np.where(problem.weight > 0, problem.weight, 1.0)
    for _ in range(MOST_EXCHANGES):
        a, b = place[one], place[other]
        moved = problem.load[one] - problem.load[other]
        change = ((off[a] - moved) ** 2 - off[a] ** 2) / scale[a]
        change += ((off[b] + moved) ** 2 - off[b] ** 2) / scale[b]
        k = int(np.argmin(change))
        if change[k] >= -1e-9 * max(float((off**2).max()), 1e-300):
            break
        off[a[k]] -= moved[k]
        off[b[k]] += moved[k]
        place[one[k]], place[other[k]] = b[k], a[k]
    if (place == problem.home).all() or not problem.is_feasible(place):
        return None
    return place


def _pairs(problem: BalanceProblem) -> tuple[Ints, Ints]:
    """Return replicas that may change places: each is a copy where the other one is."""
    rules, one, other = problem.rules, list[int](), list[int]()
    if rules.num_sets and problem.has_copy.any():
        copies = np.split(rules.copies, rules.copies_indptr[1:-1])
        held = {
            t: {*copies[t].tolist(), int(problem.home[t])}
            for t in np.flatnonzero(problem.has_copy).tolist()
        }
        members = np.split(rules.members, rules.indptr[1:-1])
        for i in np.flatnonzero((rules.rule == APART) & (rules.limit == 1)).tolist():
            for s, t in itertools.combinations(members[i].tolist(), 2):
                if problem.load[s] == problem.load[t] or held.get(s) != held.get(t):
                    continue
                homes = int(problem.home[s]), int(problem.home[t])
                if problem.may_be(s, homes[1]) and problem.may_be(t, homes[0]):
                    one.append(s)
                    other.append(t)
    return np.array(one, np.int64), np.array(other, np.int64)
