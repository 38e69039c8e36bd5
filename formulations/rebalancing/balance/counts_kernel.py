"""Compiled dynamic programme over nodes: which counts are left, and what it took to get there."""

# mypy: allow-untyped-defs
from __future__ import annotations

import numpy as np

from optim.util.compiled import kernel


@kernel(steps=lambda states, patterns: 10 * len(states) * len(patterns))
def advance(states, moves, left, digits, patterns, pattern_moves, pattern_left, best, max_moves):
    """Take every pattern of one node out of every state; keep what is not dominated.

    Parameters
    ----------
    states, moves, left
        (A,) number of the counts that are left to place, migrations so far, and load left on
        leaving nodes so far.
    digits
        (S, C) counts of each numbered state.
    patterns, pattern_moves, pattern_left
        (P,) what the node may hold, as a number, with the migrations away from the node and the
        load it leaves on a leaving one.
    best
        (S, M + 1) least load left with so many migrations, inf everywhere; overwritten. M = 0
        where migrations do not count.
    max_moves
        Budget; negative where migrations do not count.

    Returns
    -------
    tuple
        The same three arrays after the node, and for each entry the entry and the pattern it came
        from.
    """
    count = 0
    origin = np.full(best.shape, -1, np.int64)
    taken = np.full(best.shape, -1, np.int64)
    for a in range(len(states)):
        for p in range(len(patterns)):
            at = patterns[p]
            fits = True
            for c in range(digits.shape[1]):
                if digits[at, c] > digits[states[a], c]:
                    fits = False
                    break
            if not fits:
                continue
            spent = 0 if max_moves < 0 else moves[a] + pattern_moves[p]
            if max_moves >= 0 and spent > max_moves:
                continue
            rest = states[a] - at
            value = left[a] + pattern_left[p]
            if value < best[rest, spent]:
                if origin[rest, spent] < 0:
                    count += 1
                best[rest, spent] = value
                origin[rest, spent] = a
                taken[rest, spent] = at
    new_states, new_moves = np.empty(count, np.int64), np.empty(count, np.int64)
    new_left, come_from = np.empty(count), np.empty(count, np.int64)
    by = np.empty(count, np.int64)
    at = 0
    for rest in range(best.shape[0]):
        least = np.inf
        for spent in range(best.shape[1]):
            # more migrations that leave no less behind are dominated
            if best[rest, spent] < least:
                least = best[rest, spent]
                new_states[at], new_moves[at], new_left[at] = rest, spent, least
                come_from[at], by[at] = origin[rest, spent], taken[rest, spent]
                at += 1
    return new_states[:at], new_moves[:at], new_left[:at], come_from[:at], by[:at]
