"""Compiled kernel of the Greedy Matching Algorithm: one pass over all operators.

A candidate node is judged in O(resources + its links); traffic is counted only between operators
that have a node.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

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


class Fixed(NamedTuple):
    """What does not change.

    Attributes
    ----------
    order, fixed
        Operators as they are taken; (T,) node of those that run, -1 for the others.
    kind, target
        (T,) kind of restriction; (kinds, N) where operators of it may be.
    task_load
        (T, R) loads.
    indptr, partner, rate
        Partners of each operator as compressed rows.
    capacity, limit, counted
        (N,) CPU; (N, R) most load of a node, background included; (N,) whether the node's share of
        CPU counts in the deviation.
    link_indptr, link_of, link_capacity, link_limit
        Links of each node as compressed rows; (L,) what they have, and most that they may carry.
    """

    order: NDArray[np.int64]
    fixed: NDArray[np.int64]
    kind: NDArray[np.int32]
    target: NDArray[np.bool_]
    task_load: NDArray[np.float64]
    indptr: NDArray[np.int64]
    partner: NDArray[np.int64]
    rate: NDArray[np.float64]
    capacity: NDArray[np.float64]
    limit: NDArray[np.float64]
    counted: NDArray[np.bool_]
    link_indptr: NDArray[np.int64]
    link_of: NDArray[np.int64]
    link_capacity: NDArray[np.float64]
    link_limit: NDArray[np.float64]


class State(NamedTuple):
    """What changes: (T,) node; (N, R) load of each node, (N,) tasks held; (L,) load of links.

    `inside` marks links while one node is looked at, and is else all false.
    """

    node: NDArray[np.int64]
    load: NDArray[np.float64]
    held: NDArray[np.int64]
    link_load: NDArray[np.float64]
    inside: NDArray[np.bool_]


@inlined
def class_of(use, number):
    """Return 0 for the lightest class; of three: light below 40 %, moderate below 80 %, heavy."""
    if use >= HEAVY:
        return number - 1
    return int(use / (HEAVY / (number - 1)))


@helper
def node_use(fixed, state, n):
    """Return the larger of a node's CPU use and its links' bandwidth use."""
    use = np.inf
    if fixed.capacity[n] > 0.0:
        use = state.load[n, 0] / fixed.capacity[n]
    elif state.load[n, 0] <= 0.0:
        use = 0.0
    for k in range(fixed.link_indptr[n], fixed.link_indptr[n + 1]):
        p = fixed.link_of[k]
        if fixed.link_capacity[p] > 0.0:
            use = max(use, state.link_load[p] / fixed.link_capacity[p])
        elif state.link_load[p] > 0.0:
            use = np.inf
    return use


@helper
def shift(fixed, state, t, n, sign):
    """Add (sign 1) or take away (sign −1) a task on a node: loads, counts, traffic on links."""
    for r in range(fixed.task_load.shape[1]):
        state.load[n, r] += sign * fixed.task_load[t, r]
    state.held[n] += int(sign)
    for k in range(fixed.link_indptr[n], fixed.link_indptr[n + 1]):
        state.inside[fixed.link_of[k]] = True
    for e in range(fixed.indptr[t], fixed.indptr[t + 1]):
        m = state.node[fixed.partner[e]]
        if m < 0 or m == n:
            continue
        for k in range(fixed.link_indptr[m], fixed.link_indptr[m + 1]):
            p = fixed.link_of[k]
            if state.inside[p]:
                # both ends lie behind this link: taken off what the loop below adds
                state.link_load[p] -= sign * fixed.rate[e]
            else:
                state.link_load[p] += sign * fixed.rate[e]
        for k in range(fixed.link_indptr[n], fixed.link_indptr[n + 1]):
            state.link_load[fixed.link_of[k]] += sign * fixed.rate[e]
    for k in range(fixed.link_indptr[n], fixed.link_indptr[n + 1]):
        state.inside[fixed.link_of[k]] = False


@inlined
def holds(fixed, state, t, n, total, full, extra):
    """Whether CPU and bandwidth hold a task on a node; `full` links need it on their own side."""
    fits = True
    for r in range(fixed.task_load.shape[1]):
        more = fixed.task_load[t, r]
        if more > 0.0 and state.load[n, r] + more > fixed.limit[n, r]:
            fits = False
    within = 0
    for k in range(fixed.link_indptr[n], fixed.link_indptr[n + 1]):
        p = fixed.link_of[k]
        grows = total - extra[p]
        if grows > ROUNDING * total and state.link_load[p] + grows > fixed.link_limit[p]:
            fits = False
        if extra[p] > 0.0 and state.link_load[p] + extra[p] > fixed.link_limit[p]:
            within += 1
    return fits and within == full


@helper
def link_change(fixed, state, n, total, extra, touched, counted, shares):
    """By how much Σ (b − b̄)² of the links' shares in use grows with a task on a node.

    Its traffic `total`, of which `extra` ends behind each of the `touched` links, comes to the
    node's own links from outside and leaves the others; `shares` is the sum over `counted` links.
    """
    squares, more = 0.0, 0.0
    for k in range(fixed.link_indptr[n], fixed.link_indptr[n + 1]):
        p = fixed.link_of[k]
        state.inside[p] = True
        if 0.0 < fixed.link_capacity[p] < np.inf:
            a = (total - extra[p]) / fixed.link_capacity[p]
            squares += (2.0 * state.link_load[p] / fixed.link_capacity[p] + a) * a
            more += a
    for p in touched:
        if not state.inside[p] and 0.0 < fixed.link_capacity[p] < np.inf:
            a = extra[p] / fixed.link_capacity[p]
            squares += (2.0 * state.link_load[p] / fixed.link_capacity[p] + a) * a
            more += a
    for k in range(fixed.link_indptr[n], fixed.link_indptr[n + 1]):
        state.inside[fixed.link_of[k]] = False
    return squares - (2.0 * shares + more) * more / max(counted, 1)


@kernel
def one_pass(fixed, state, objective, num_classes):
    """Take every operator once, in order, to the best node that holds it.

    Parameters
    ----------
    fixed, state
        What stays, and what changes in place.
    objective, num_classes
        One of the codes above; classes of nodes by their use.

    Returns
    -------
    int
        Operators that were placed or changed their node.
    """
    num_nodes = len(state.load)
    num_links = len(fixed.link_limit)
    extra = np.zeros(num_links)  # traffic of t with placed partners behind each link
    touched = np.zeros(num_links, dtype=np.int64)
    beside = np.zeros(num_nodes)  # traffic of t with partners on each node
    members = 0
    for n in range(num_nodes):
        members += int(fixed.counted[n])
    changed = 0
    for t in fixed.order:
        if fixed.fixed[t] >= 0:
            continue
        old = state.node[t]
        if old >= 0:
            shift(fixed, state, t, old, -1.0)
            state.node[t] = -1
        total, num_touched = 0.0, 0
        for e in range(fixed.indptr[t], fixed.indptr[t + 1]):
            m = state.node[fixed.partner[e]]
            if m < 0:
                continue
            total += fixed.rate[e]
            beside[m] += fixed.rate[e]
            for k in range(fixed.link_indptr[m], fixed.link_indptr[m + 1]):
                p = fixed.link_of[k]
                if extra[p] == 0.0:
                    touched[num_touched] = p
                    num_touched += 1
                extra[p] += fixed.rate[e]
        full = 0  # touched links that cannot carry this traffic from outside
        for i in range(num_touched):
            p = touched[i]
            full += int(state.link_load[p] + extra[p] > fixed.link_limit[p])
        squares, shares = 0.0, 0.0
        link_shares, links_counted = 0.0, 0
        if objective != UTILISATION:
            for n in range(num_nodes):
                if fixed.counted[n]:
                    u = state.load[n, 0] / fixed.capacity[n] if fixed.capacity[n] > 0.0 else 0.0
                    squares += u * u
                    shares += u
        if objective == BOTH:
            for p in range(num_links):
                if 0.0 < fixed.link_capacity[p] < np.inf:
                    u = state.link_load[p] / fixed.link_capacity[p]
                    squares += u * u
                    link_shares += u
                    links_counted += 1
        best, best_first, best_second, best_class = -1, 0.0, 0.0, 0
        old_first, old_second = np.inf, np.inf
        for n in range(num_nodes):
            if not fixed.target[fixed.kind[t], n]:
                continue
            if not holds(fixed, state, t, n, total, full, extra):
                continue
            if objective == UTILISATION:
                first = fixed.capacity[n] if state.held[n] == 0 else 0.0
                slack = 0.0
            else:
                first = 0.0
                if fixed.counted[n] and fixed.capacity[n] > 0.0:
                    u = state.load[n, 0] / fixed.capacity[n]
                    a = fixed.task_load[t, 0] / fixed.capacity[n]
                    first = (2.0 * u + a - (2.0 * shares + a) / members) * a
                if objective == BOTH:
                    first += link_change(
                        fixed, state, n, total, extra, touched[:num_touched], links_counted,
                        link_shares,
                    )  # fmt: skip
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
                        use = node_use(fixed, state, n)
                        mine = class_of(use, num_classes)
                        if best_class < 0:
                            use = node_use(fixed, state, best)
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
            shift(fixed, state, t, best, 1.0)
            state.node[t] = best
        changed += int(best != old)
        for e in range(fixed.indptr[t], fixed.indptr[t + 1]):
            m = state.node[fixed.partner[e]]
            if m >= 0:
                beside[m] = 0.0
        for i in range(num_touched):
            extra[touched[i]] = 0.0
    return changed


@kernel
def classes(fixed, state, num_classes):
    """(N,) class of each node, from 0 for light (phase 1)."""
    found = np.zeros(len(state.load), dtype=np.int64)
    for n in range(len(state.load)):
        found[n] = class_of(node_use(fixed, state, n), num_classes)
    return found
