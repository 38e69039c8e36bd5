"""Compiled kernel of Flux: passes over pairs of nodes, most loaded with least loaded."""

# mypy: allow-untyped-defs
from __future__ import annotations

import numpy as np

from formulations.rebalancing.balance.kernel import (
    NOBODY,
    away,
    fits,
    is_spent,
    may_be,
    pays_for,
    relocate,
)
from optim.util.compiled import helper, kernel

#: Loads are compared up to this part of the mean share: rounding must not cause a move.
ROUNDING = 1e-12


@kernel
def flux(fixed, state, weight, max_passes):
    """Move key groups, in place, and return the number of passes.

    Parameters
    ----------
    fixed, state
        The problem, and where its key groups are: at home. A key group moves at most once.
    weight
        (N,) capacity weight.
    max_passes
        Passes over all pairs.
    """
    passes, some = 0, len(fixed.load) > 0
    rounding = ROUNDING * (np.abs(fixed.share).max() + 1.0)
    free = len(fixed.copies) > 0  # of key groups without a current node no budget counts the moves
    while some and (free or not is_spent(fixed, state)) and passes < max_passes:
        passes += 1
        senders = np.argsort(-state.deviation / weight, kind="mergesort")
        receivers = senders[::-1]
        receivers = receivers[~fixed.leaving[receivers]]
        some = False
        for rank in range(len(receivers)):
            a, b = senders[rank], receivers[rank]
            gap = state.deviation[a] / weight[a] - state.deviation[b] / weight[b]
            most = 2.0 * gap / (1.0 / weight[a] + 1.0 / weight[b])
            if a == b or most <= rounding or not (free or not is_spent(fixed, state)):
                break
            k = _biggest(fixed, state, a, b, most - rounding)
            if k != NOBODY:
                relocate(fixed, state, k, b)
                some = True
    return passes


@helper
def _biggest(fixed, state, a, b, most):
    """Return the biggest key group at home on a, of less than `most`, that may go to b."""
    best, best_load = NOBODY, 0.0
    k = state.first[a]
    while k >= 0:
        if (
            best_load < fixed.load[k] < most
            and fixed.home[k] == a
            and _is_paid(fixed, state, k, b)
            and may_be(fixed, k, b)
            and fits(fixed, state, a, b, k, NOBODY)
        ):
            best, best_load = k, fixed.load[k]
        k = state.after[k]
    return best


@helper
def _is_paid(fixed, state, k, b):
    """Return whether the budgets are enough for k to move to b."""
    price, budget = fixed.price, state.budget
    return pays_for(price, budget, k, away(fixed, k, b), NOBODY, 0)
