"""Compiled depth-first search over the patterns of one node class.

One search serves two questions about the bounded integer quadratic knapsack
``max Σ_{g<h} r_gh y_g y_h + Σ_g r_gg y_g (y_g - 1)/2 - Σ_g π_g y_g`` over the patterns that fit:
which pattern is best (*pricing*), and which patterns reach a threshold (*enumeration*).
Subtrees are cut by upper planes in the manner of Gallo, Hammer and Simeone (1980): half of what a
task could exchange with the others still open, the others chosen by a fractional knapsack, is
credited to the task itself, and a second fractional knapsack over these credits bounds the rest.
"""

from __future__ import annotations

import numpy as np

from optim.util.compiled import helper, kernel

LEVELS = 16
DEPTHS = 32
"""Steps of residual capacity, and depths, for which the upper planes are tabulated at most."""


@helper
def _stride(num_classes):  # type: ignore[no-untyped-def]
    """Every so many depths have a table; those between use the one before, which holds for more."""
    return (num_classes + DEPTHS - 1) // DEPTHS


@helper
def _fractional_knapsack(profit, weight, most, room, taken):  # type: ignore[no-untyped-def]
    """Upper bound on ``Σ profit_i x_i`` with ``Σ weight_i x_i <= room``, ``0 <= x_i <= most_i``.

    Items with no profit are left out.  ``taken`` is scratch of the same length.
    """
    total = 0.0
    num_items = profit.shape[0]
    for i in range(num_items):
        taken[i] = profit[i] <= 0.0 or most[i] <= 0.0
        if not taken[i] and weight[i] <= 0.0:
            total += profit[i] * most[i]
            taken[i] = True
    while room > 0.0:
        best = -1
        best_density = 0.0
        for i in range(num_items):
            if not taken[i]:
                density = profit[i] / weight[i]
                if density > best_density:
                    best_density = density
                    best = i
        if best < 0:
            break
        taken[best] = True
        amount = most[best]
        if amount * weight[best] > room:
            amount = room / weight[best]
        room -= amount * weight[best]
        total += amount * profit[best]
    return total


@kernel
def upper_planes(rate, load, most, limit):  # type: ignore[no-untyped-def]
    """What one task of a class can exchange with the classes still open, by residual capacity.

    Returns
    -------
    planes : (R, D, G, LEVELS + 1) float64
        ``planes[r, i, h, q]``: bound for class ``h`` when classes ``d..G-1`` are open, ``d`` the
        i-th tabulated depth, and at most ``q / LEVELS`` of resource ``r`` is left; half of the
        exchange (each pair is credited to both its ends).
    """
    num_classes, num_resources = load.shape
    stride = _stride(num_classes)
    num_depths = (num_classes + stride - 1) // stride
    planes = np.zeros((num_resources, num_depths, num_classes, LEVELS + 1))
    scratch = np.zeros(num_classes, dtype=np.bool_)
    profit = np.zeros(num_classes)
    for r in range(num_resources):
        weight = np.ascontiguousarray(load[:, r])
        for i in range(num_depths):
            d = i * stride
            for h in range(d, num_classes):
                for g in range(num_classes):
                    profit[g] = rate[h, g] if g >= d and g != h else 0.0
                own = rate[h, h] * max(most[h] - 1.0, 0.0)
                for q in range(LEVELS + 1):
                    room = limit[r] * q / LEVELS
                    if np.isinf(limit[r]):
                        room = np.inf
                    cross = _fractional_knapsack(profit, weight, most, room, scratch)
                    planes[r, i, h, q] = 0.5 * (cross + own)
    return planes


@helper
def _open_bound(depth, margin, used, load, most, limit, planes, work):  # type: ignore[no-untyped-def]
    """Upper bound on what classes ``depth..G-1`` can add to a partial pattern."""
    num_classes, num_resources = load.shape
    count = num_classes - depth
    stride = _stride(num_classes)
    profit = work[0]
    weight = work[1]
    amount = work[2]
    for i in range(count):
        h = depth + i
        credit = np.inf
        fits = most[h]
        for r in range(num_resources):
            room = limit[r] - used[r]
            if np.isinf(limit[r]):
                q = LEVELS
            else:
                q = int(np.ceil(room / limit[r] * LEVELS)) if limit[r] > 0.0 else 0
                q = min(max(q, 0), LEVELS)
                if load[h, r] > 0.0:
                    fits = min(fits, np.floor(room / load[h, r] + 1e-9))
            credit = min(credit, planes[r, depth // stride, h, q])
        profit[i] = margin[h] + credit
        amount[i] = fits
    best = np.inf
    scratch = np.zeros(count, dtype=np.bool_)
    for r in range(num_resources):
        for i in range(count):
            weight[i] = load[depth + i, r]
        value = _fractional_knapsack(
            profit[:count], weight[:count], amount[:count], limit[r] - used[r], scratch
        )
        best = min(best, value)
    return best


@kernel
def search(  # type: ignore[no-untyped-def]
    rate, dual, load, most, limit, least, planes, threshold, keep_all, node_budget, rows, values
):
    """Walk the patterns of one node class.

    Parameters
    ----------
    rate : (G, G) float64
        Traffic of one pair of tasks, symmetric, non-negative.
    dual : (G,) float64
        Price of one task of each class.
    load, most, limit, least
        ``(G, R)`` load of a task, ``(G,)`` most tasks of a class, ``(R,)`` largest and smallest
        load of the node.
    planes
        From `upper_planes` for the same ``rate, load, most, limit``.
    threshold : float
        Patterns of value (gain minus prices) at or below it are of no interest.
    keep_all : bool
        True: store every pattern above the threshold; False: the threshold follows the best one
        found, and improving patterns are stored in a ring.
    node_budget : int
        Inner nodes to open before the search stops and only bounds what is left.
    rows, values
        Output, ``(M, G)`` int32 and ``(M,)`` float64 (gain minus prices).

    Returns
    -------
    found : int
        Patterns found (with ``keep_all`` possibly more than ``M``: the search stops at overflow).
    bound : float
        Proven upper bound on the value of any pattern that was not found; ``-inf`` if the
        search was complete and nothing lies above the threshold.
    nodes : int
        Inner nodes opened.
    """
    num_classes, num_resources = load.shape
    capacity = rows.shape[0]
    last = num_classes - 1
    value = np.zeros(num_classes + 1)
    used = np.zeros((num_classes + 1, num_resources))
    margin = np.zeros((num_classes + 1, num_classes))
    for g in range(num_classes):
        margin[0, g] = -dual[g]
    count = np.zeros(num_classes, dtype=np.int64)
    lowest = np.zeros(num_classes, dtype=np.int64)
    reach = np.zeros((num_classes + 1, num_resources))
    for d in range(last, -1, -1):
        for r in range(num_resources):
            reach[d, r] = reach[d + 1, r] + most[d] * load[d, r]
    work = np.zeros((3, num_classes))
    found = 0
    nodes = 0
    bound = -np.inf
    depth = 0
    entering = True
    while depth >= 0:
        if entering:
            # The range of this class's count: what still fits, what the rest can no longer supply.
            most_here = most[depth]
            least_here = 0.0
            for r in range(num_resources):
                if load[depth, r] > 0.0:
                    room = limit[r] - used[depth, r]
                    fits = np.floor(room / load[depth, r] + 1e-9)
                    while fits >= 0 and used[depth, r] + fits * load[depth, r] > limit[r]:
                        fits -= 1.0
                    most_here = min(most_here, fits)
                    lack = least[r] - used[depth, r] - reach[depth + 1, r]
                    if lack > 0.0:
                        least_here = max(least_here, np.ceil(lack / load[depth, r] - 1e-9))
                elif least[r] - used[depth, r] - reach[depth + 1, r] > 0.0:
                    most_here = -1.0
            count[depth] = int(most_here)
            lowest[depth] = int(least_here)
            entering = False
            if depth == last:
                low = lowest[depth]
                high = count[depth]
                for r in range(num_resources):
                    while low <= high and used[depth, r] + low * load[depth, r] < least[r]:
                        low += 1
                c = high
                while c >= low:
                    total = (
                        value[depth]
                        + c * margin[depth, depth]
                        + rate[depth, depth] * (c * (c - 1) * 0.5)
                    )
                    if total > threshold:
                        slot = found if keep_all else found % capacity
                        if slot < capacity:
                            for g in range(last):
                                rows[slot, g] = count[g]
                            rows[slot, last] = c
                            values[slot] = total
                        found += 1
                        if not keep_all:
                            threshold = total
                    # The value is convex in the last count: only its two ends can be best.
                    c = c - 1 if keep_all or c == low else low
                if keep_all and found > capacity:
                    return found, np.inf, nodes
                depth -= 1
                if depth >= 0:
                    count[depth] -= 1
                continue
        if count[depth] < lowest[depth]:
            depth -= 1
            if depth >= 0:
                count[depth] -= 1
            continue
        c = count[depth]
        value[depth + 1] = (
            value[depth] + c * margin[depth, depth] + rate[depth, depth] * (c * (c - 1) * 0.5)
        )
        for r in range(num_resources):
            used[depth + 1, r] = used[depth, r] + c * load[depth, r]
        for h in range(depth + 1, num_classes):
            margin[depth + 1, h] = margin[depth, h] + c * rate[depth, h]
        nodes += 1
        exhausted = nodes > node_budget
        if exhausted or (depth + 3 < num_classes and threshold > -np.inf):
            rest = _open_bound(
                depth + 1, margin[depth + 1], used[depth + 1], load, most, limit, planes, work
            )
            if value[depth + 1] + rest <= threshold or exhausted:
                if exhausted and value[depth + 1] + rest > threshold:
                    bound = max(bound, value[depth + 1] + rest)
                count[depth] -= 1
                continue
        depth += 1
        entering = True
    return found, bound, nodes
