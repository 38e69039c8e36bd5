"""All patterns of a node class whose highest utilisation stays within a limit.

What a node sends and receives follows from its own contents x alone, where every pair of tasks of
two groups has the same traffic:

    out(x) = Σ_g x_g Σ_h rate[g, h] (size_h − x_h),    in(x) = Σ_h x_h Σ_g rate[g, h] (size_g − x_g)
"""

# mypy: allow-untyped-defs
from __future__ import annotations

import numpy as np

from formulations.patterns.warm import warm_up as warm_up_patterns
from formulations.throughput.places import NEVER
from optim.util.compiled import helper, kernel, warming


@helper
def share_of(need, room):
    """Return a need over the room for it."""
    if need <= 0.0 or room == np.inf:
        return 0.0
    return need / room if room > 0.0 else NEVER


@kernel
def list_patterns(
    sizes, load, rate, cost, most, hard, floor, room, link, barred, limit, budget, rows, values
):
    """Walk the contents of a node of one class, and keep those within the limit.

    Parameters
    ----------
    sizes, load, rate
        (G,) tasks of each group, (G, R) load of one, (G, G) traffic from one task to one other.
    cost
        (2, R) what a unit of traffic costs its sender and its receiver.
    most, hard, floor
        (G,) most tasks of a group, (R,) largest and smallest load.
    room, link, barred
        (R,) and (3,) what saturates (`places.Places`); whether a task there carries nothing.
    limit, budget
        Highest utilisation of interest; contents looked at before giving up.
    rows, values
        Output: (M, G) contents and (M,) highest utilisations.

    Returns
    -------
    int
        How many there are: -1 where they are more than M, or than the budget lets find.
    """
    groups, resources = load.shape
    last = groups - 1
    sends, takes = np.zeros(groups), np.zeros(groups)
    for g in range(groups):
        for h in range(groups):
            sends[g] += rate[g, h] * sizes[h]
            takes[g] += rate[h, g] * sizes[h]
    used = np.zeros((groups + 1, resources))
    out, into, inside = np.zeros(groups + 1), np.zeros(groups + 1), np.zeros(groups + 1)
    among = np.zeros((groups + 1, groups))
    count = np.zeros(groups, dtype=np.int64)
    count[0] = -1
    depth, found, seen = 0, 0, 0
    while depth >= 0:
        count[depth] += 1
        c = count[depth]
        fits = c <= most[depth]
        if fits:
            for r in range(resources):
                amount = used[depth, r] + c * load[depth, r]
                used[depth + 1, r] = amount
                if amount > hard[r] or share_of(amount, room[r]) > limit:
                    fits = False  # nor do more of them
                    break
        if not fits:
            depth -= 1
            continue
        seen += 1
        if seen > budget:
            return -1
        out[depth + 1] = out[depth] + c * sends[depth]
        into[depth + 1] = into[depth] + c * takes[depth]
        pairs = c * among[depth, depth] + c * c * rate[depth, depth]
        inside[depth + 1] = inside[depth] + pairs
        if depth < last:
            for h in range(depth + 1, groups):
                both = rate[depth, h] + rate[h, depth]
                among[depth + 1, h] = among[depth, h] + c * both
            depth += 1
            count[depth] = -1
            continue
        leaves, enters = out[groups] - inside[groups], into[groups] - inside[groups]
        empty = True
        for g in range(groups):
            empty = empty and count[g] == 0
        value = NEVER if barred and not empty else 0.0
        for r in range(resources):
            need = used[groups, r]
            if cost[0, r] > 0.0 or cost[1, r] > 0.0:
                need += cost[0, r] * max(0.0, leaves) + cost[1, r] * max(0.0, enters)
            if need > hard[r] or need < floor[r]:
                fits = False
            value = max(value, share_of(need, room[r]))
        # sums that cancel leave a little behind: that is no traffic
        noise = 1e-12 * (out[groups] + into[groups])
        if leaves > noise:
            value = max(value, share_of(leaves, link[0]))
        if enters > noise:
            value = max(value, share_of(enters, link[1]))
        if leaves + enters > noise:
            value = max(value, share_of(leaves + enters, link[2]))
        if fits and value <= limit:
            if found == len(values):
                return -1
            rows[found] = count
            values[found] = value
            found += 1
    return found


@warming
def warm_up() -> None:
    """Compile, or load from disk, the kernels of `throughput-exact`."""
    warm_up_patterns()
    one, free = np.ones(1), np.full(3, np.inf)
    list_patterns(
        one, np.ones((1, 1)), np.zeros((1, 1)), np.zeros((2, 1)), np.ones(1, dtype=np.int32),
        one, -one, one, free, False, 1.0, 10, np.zeros((2, 1), dtype=np.int64), np.zeros(2),
    )  # fmt: skip
