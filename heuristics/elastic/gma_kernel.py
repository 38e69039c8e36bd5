"""Compiled kernel of the Greedy Matching Algorithm: one pass over all operators.

A candidate node is judged in O(resources + its links); traffic is counted only between operators
that have a node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optim.util.compiled import helper, inlined, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Objectives, as the kernel knows them.
UTILISATION, DEVIATION, BOTH = 0, 1, 2

#: Differences below this part of the figures compared are rounding.
ROUNDING = 1e-9

#: Nodes at or above this use are in the heaviest class; the others share what is below evenly.
HEAVY = 0.8


@inlined
def class_of(use: float, number: int) -> int:
    """Return 0 for the lightest class; of three: light below 40 %, moderate below 80 %, heavy."""
    if use >= HEAVY:
        return number - 1
    return int(use / (HEAVY / (number - 1)))


@helper
def node_use(
    n: int,
    load: NDArray[np.float64],
    capacity: NDArray[np.float64],
    link_indptr: NDArray[np.int64],
    link_of: NDArray[np.int64],
    link_load: NDArray[np.float64],
    link_capacity: NDArray[np.float64],
) -> float:
    """Return the larger of a node's CPU use and its links' bandwidth use."""
    use = np.inf
    if capacity[n] > 0.0:
        use = load[n, 0] / capacity[n]
    elif load[n, 0] <= 0.0:
        use = 0.0
    for k in range(link_indptr[n], link_indptr[n + 1]):
        p = link_of[k]
        if link_capacity[p] > 0.0:
            use = max(use, link_load[p] / link_capacity[p])
        elif link_load[p] > 0.0:
            use = np.inf
    return use


@helper
def shift(
    t: int,
    n: int,
    sign: float,
    task_load: NDArray[np.float64],
    indptr: NDArray[np.int64],
    partner: NDArray[np.int64],
    rate: NDArray[np.float64],
    link_indptr: NDArray[np.int64],
    link_of: NDArray[np.int64],
    node: NDArray[np.int64],
    load: NDArray[np.float64],
    count: NDArray[np.int64],
    link_load: NDArray[np.float64],
    inside: NDArray[np.bool_],
) -> None:
    """Add (sign 1) or take away (sign −1) a task on a node: loads, counts, traffic on links."""
    for r in range(task_load.shape[1]):
        load[n, r] += sign * task_load[t, r]
    count[n] += int(sign)
    for k in range(link_indptr[n], link_indptr[n + 1]):
        inside[link_of[k]] = True
    for e in range(indptr[t], indptr[t + 1]):
        m = node[partner[e]]
        if m < 0 or m == n:
            continue
        for k in range(link_indptr[m], link_indptr[m + 1]):
            p = link_of[k]
            if inside[p]:
                # both ends lie behind this link: taken off what the loop below adds
                link_load[p] -= sign * rate[e]
            else:
                link_load[p] += sign * rate[e]
        for k in range(link_indptr[n], link_indptr[n + 1]):
            link_load[link_of[k]] += sign * rate[e]
    for k in range(link_indptr[n], link_indptr[n + 1]):
        inside[link_of[k]] = False


@inlined
def holds(
    t: int,
    n: int,
    total: float,
    full: int,
    task_load: NDArray[np.float64],
    load: NDArray[np.float64],
    limit: NDArray[np.float64],
    link_indptr: NDArray[np.int64],
    link_of: NDArray[np.int64],
    extra: NDArray[np.float64],
    link_load: NDArray[np.float64],
    link_limit: NDArray[np.float64],
) -> bool:
    """Whether CPU and bandwidth hold a task on a node; `full` links need it on their own side."""
    fits = True
    for r in range(task_load.shape[1]):
        if task_load[t, r] > 0.0 and load[n, r] + task_load[t, r] > limit[n, r]:
            fits = False
    within = 0
    for k in range(link_indptr[n], link_indptr[n + 1]):
        p = link_of[k]
        grows = total - extra[p]
        if grows > ROUNDING * total and link_load[p] + grows > link_limit[p]:
            fits = False
        if extra[p] > 0.0 and link_load[p] + extra[p] > link_limit[p]:
            within += 1
    return fits and within == full


@helper
def link_change(
    n: int,
    total: float,
    link_indptr: NDArray[np.int64],
    link_of: NDArray[np.int64],
    extra: NDArray[np.float64],
    touched: NDArray[np.int64],
    link_load: NDArray[np.float64],
    link_capacity: NDArray[np.float64],
    counted: int,
    shares: float,
    inside: NDArray[np.bool_],
) -> float:
    """By how much Σ (b − b̄)² of the links' shares in use grows with a task on a node.

    Its traffic `total`, of which `extra` ends behind each of the `touched` links, comes to the
    node's own links from outside and leaves the others; `shares` is the sum over `counted` links.
    """
    squares, more = 0.0, 0.0
    for k in range(link_indptr[n], link_indptr[n + 1]):
        p = link_of[k]
        inside[p] = True
        if 0.0 < link_capacity[p] < np.inf:
            a = (total - extra[p]) / link_capacity[p]
            squares += (2.0 * link_load[p] / link_capacity[p] + a) * a
            more += a
    for p in touched:
        if not inside[p] and 0.0 < link_capacity[p] < np.inf:
            a = extra[p] / link_capacity[p]
            squares += (2.0 * link_load[p] / link_capacity[p] + a) * a
            more += a
    for k in range(link_indptr[n], link_indptr[n + 1]):
        inside[link_of[k]] = False
    return squares - (2.0 * shares + more) * more / max(counted, 1)


@kernel
def one_pass(
    order: NDArray[np.int64],
    fixed: NDArray[np.int64],
    kind: NDArray[np.int32],
    target: NDArray[np.bool_],
    task_load: NDArray[np.float64],
    indptr: NDArray[np.int64],
    partner: NDArray[np.int64],
    rate: NDArray[np.float64],
    capacity: NDArray[np.float64],
    limit: NDArray[np.float64],
    counted: NDArray[np.bool_],
    link_indptr: NDArray[np.int64],
    link_of: NDArray[np.int64],
    link_capacity: NDArray[np.float64],
    link_limit: NDArray[np.float64],
    objective: int,
    num_classes: int,
    node: NDArray[np.int64],
    load: NDArray[np.float64],
    count: NDArray[np.int64],
    link_load: NDArray[np.float64],
) -> int:
    """Take every operator once, in order, to the best node that holds it.

    Parameters
    ----------
    limit
        (N, R) most load of a node, background included.
    counted
        (N,) nodes whose share of CPU counts in the deviation.
    node, load, count, link_load
        The state, changed in place.

    Returns
    -------
    int
        Operators that were placed or changed their node.
    """
    num_nodes = len(load)
    num_links = len(link_limit)
    inside = np.zeros(num_links, dtype=np.bool_)
    extra = np.zeros(num_links)  # traffic of t with placed partners behind each link
    touched = np.zeros(num_links, dtype=np.int64)
    beside = np.zeros(num_nodes)  # traffic of t with partners on each node
    members = 0
    for n in range(num_nodes):
        members += int(counted[n])
    changed = 0
    for t in order:
        if fixed[t] >= 0:
            continue
        old = node[t]
        if old >= 0:
            shift(t, old, -1.0, task_load, indptr, partner, rate, link_indptr, link_of, node,
                  load, count, link_load, inside)  # fmt: skip
            node[t] = -1
        total, num_touched = 0.0, 0
        for e in range(indptr[t], indptr[t + 1]):
            m = node[partner[e]]
            if m < 0:
                continue
            total += rate[e]
            beside[m] += rate[e]
            for k in range(link_indptr[m], link_indptr[m + 1]):
                p = link_of[k]
                if extra[p] == 0.0:
                    touched[num_touched] = p
                    num_touched += 1
                extra[p] += rate[e]
        full = 0  # touched links that cannot carry this traffic from outside
        for i in range(num_touched):
            p = touched[i]
            full += int(link_load[p] + extra[p] > link_limit[p])
        squares, shares = 0.0, 0.0
        link_shares, links_counted = 0.0, 0
        if objective != UTILISATION:
            for n in range(num_nodes):
                if counted[n]:
                    u = load[n, 0] / capacity[n] if capacity[n] > 0.0 else 0.0
                    squares += u * u
                    shares += u
        if objective == BOTH:
            for p in range(num_links):
                if 0.0 < link_capacity[p] < np.inf:
                    u = link_load[p] / link_capacity[p]
                    squares += u * u
                    link_shares += u
                    links_counted += 1
        best, best_first, best_second, best_class = -1, 0.0, 0.0, 0
        old_first, old_second = np.inf, np.inf
        for n in range(num_nodes):
            if not target[kind[t], n]:
                continue
            if not holds(t, n, total, full, task_load, load, limit, link_indptr, link_of, extra,
                         link_load, link_limit):  # fmt: skip
                continue
            if objective == UTILISATION:
                first = capacity[n] if count[n] == 0 else 0.0
                slack = 0.0
            else:
                first = 0.0
                if counted[n] and capacity[n] > 0.0:
                    u, a = load[n, 0] / capacity[n], task_load[t, 0] / capacity[n]
                    first = (2.0 * u + a - (2.0 * shares + a) / members) * a
                if objective == BOTH:
                    first += link_change(n, total, link_indptr, link_of, extra,
                                         touched[:num_touched], link_load, link_capacity,
                                         links_counted, link_shares, inside)  # fmt: skip
                slack = ROUNDING * (squares + abs(first))
            second = total - beside[n]
            if n == old:
                old_first, old_second = first, second
            if best >= 0:
                if first > best_first + slack:
                    continue
                if first >= best_first - slack:
                    even = ROUNDING * total
                    if second > best_second + even:
                        continue
                    if second >= best_second - even:
                        use = node_use(n, load, capacity, link_indptr, link_of, link_load,
                                       link_capacity)  # fmt: skip
                        mine = class_of(use, num_classes)
                        if best_class < 0:
                            use = node_use(best, load, capacity, link_indptr, link_of,
                                           link_load, link_capacity)  # fmt: skip
                            best_class = class_of(use, num_classes)
                        if mine >= best_class:
                            continue
                        best, best_first, best_second, best_class = n, first, second, mine
                        continue
            best, best_first, best_second, best_class = n, first, second, -1
        if old >= 0 and best != old:
            slack = 0.0
            if objective != UTILISATION:
                slack = ROUNDING * (squares + abs(old_first))
            same = best_first >= old_first - slack
            if best < 0 or (same and best_second >= old_second - ROUNDING * total):
                best = old
        if best >= 0:
            shift(t, best, 1.0, task_load, indptr, partner, rate, link_indptr, link_of, node,
                  load, count, link_load, inside)  # fmt: skip
            node[t] = best
        changed += int(best != old)
        for e in range(indptr[t], indptr[t + 1]):
            m = node[partner[e]]
            if m >= 0:
                beside[m] = 0.0
        for i in range(num_touched):
            extra[touched[i]] = 0.0
    return changed


@kernel
def classes(
    load: NDArray[np.float64],
    capacity: NDArray[np.float64],
    link_indptr: NDArray[np.int64],
    link_of: NDArray[np.int64],
    link_load: NDArray[np.float64],
    link_capacity: NDArray[np.float64],
    num_classes: int,
) -> NDArray[np.int64]:
    """(N,) class of each node, from 0 for light (phase 1)."""
    found = np.zeros(len(load), dtype=np.int64)
    for n in range(len(load)):
        found[n] = class_of(
            node_use(n, load, capacity, link_indptr, link_of, link_load, link_capacity), num_classes
        )
    return found
