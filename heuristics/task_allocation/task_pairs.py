"""In which order the task-pair allocators walk the task pairs.

Section 3.1 sorts task pairs by their own traffic. Where all task pairs of two groups carry the same
(full streams), the pairs of a group pair are one *run* that needs no list. Where they differ
(one-to-one streams, measured task traffic), the pairs of equal traffic are a run each, with a list;
those without traffic are in none.

Source: Chatzistergiou and Viglas, CIKM 2014, sections 3.1 and 3.2, doi:10.1145/2661829.2661882.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from heuristics.task_allocation.groups import stable_descending
from optim.format.traffic import MAX_PAIRS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from heuristics.task_allocation.groups import GroupedJob
    from optim.format.instance import Instance

    Integers = NDArray[np.int64]
    Floats = NDArray[np.float64]

PAIR_ORDERS = ("row", "column", "diagonal", "shuffled")


class UnevenPairs(NamedTuple):
    """Task pairs of those group pairs whose task pairs differ; each once, both directions added."""

    edge: Integers  # (P,) group pair.
    #: (P,) place of each task within its group, of the lower and of the higher group.
    first: Integers
    second: Integers
    rate: Floats  # (P,) traffic, all above 0.


class Runs(NamedTuple):
    """Runs of task pairs, most urgent first."""

    edge: Integers  # (K,) group pair of each run.
    #: (K + 1,) where the listed pairs of each run are; a run without any is all pairs of its group
    #: pair.
    indptr: Integers
    #: As in `UnevenPairs`, in the order of the walk.
    first: Integers
    second: Integers


def uneven_pairs(instance: Instance, job: GroupedJob) -> UnevenPairs:
    """Return the task pairs of the group pairs whose task pairs differ in traffic.

    A group pair of more than `optim.format.traffic.MAX_PAIRS` task pairs, of which all have some
    traffic, counts as even.
    """
    flows = instance.flows
    group = np.empty(instance.num_tasks, dtype=np.int64)
    within = np.empty(instance.num_tasks, dtype=np.int64)
    sizes = np.diff(job.member_indptr)
    group[job.members] = np.repeat(np.arange(len(sizes)), sizes)
    within[job.members] = np.arange(len(job.members)) - np.repeat(job.member_indptr[:-1], sizes)
    edge_key = job.edge_u * job.num_groups + job.edge_v  # sorted, as the edges are

    def edge_of(a: Integers, b: Integers) -> Integers:
        key = np.minimum(a, b) * job.num_groups + np.maximum(a, b)
        return np.searchsorted(edge_key, key)

    a, b = group[flows.source], group[flows.target]
    between = (a != b) & (flows.rate > 0)
    source, target = flows.source[between], flows.target[between]
    turned = group[source] > group[target]
    source, target = np.where(turned, target, source), np.where(turned, source, target)
    edge = edge_of(group[source], group[target])
    pairs = _merged(edge, within[source], within[target], flows.rate[between])

    base = np.zeros(len(job.edge_u))  # of blocks: they hold groups whole
    for block in flows.blocks:
        senders, receivers = np.unique(group[block.sources]), np.unique(group[block.targets])
        x, y = np.repeat(senders, len(receivers)), np.tile(receivers, len(senders))
        np.add.at(base, edge_of(x[x != y], y[x != y]), block.pair_rate)
    return _without_even(job, pairs, base)


def _merged(edge: Integers, first: Integers, second: Integers, rate: Floats) -> UnevenPairs:
    """Add up the traffic of each task pair, sorted by group pair and row by row."""
    order = np.lexsort((second, first, edge))
    edge, first, second = edge[order], first[order], second[order]
    new = np.ones(len(edge), dtype=bool)
    new[1:] = (np.diff(edge) != 0) | (np.diff(first) != 0) | (np.diff(second) != 0)
    total = np.bincount(np.cumsum(new) - 1, rate[order], int(new.sum()))
    return UnevenPairs(edge[new], first[new], second[new], total.astype(np.float64))


def _without_even(job: GroupedJob, pairs: UnevenPairs, base: Floats) -> UnevenPairs:
    """Leave out group pairs whose task pairs are all alike; fill up those that blocks cover."""
    count = len(job.edge_u)
    full = job.size[job.edge_u] * job.size[job.edge_v]
    listed = np.bincount(pairs.edge, minlength=count)
    most, least = np.zeros(count), np.full(count, np.inf)
    np.maximum.at(most, pairs.edge, pairs.rate)
    np.minimum.at(least, pairs.edge, pairs.rate)
    alike = (listed == full) & (most - least <= 1e-12 * most)
    covered = (base > 0) & (listed > 0) & ~alike
    even = alike | (listed == 0) | (covered & (full > MAX_PAIRS))
    keep = ~even[pairs.edge] & ~covered[pairs.edge]
    parts = [UnevenPairs._make(column[keep] for column in pairs)]
    for edge in np.flatnonzero(covered & ~even).tolist():
        rows, columns = int(job.size[job.edge_u[edge]]), int(job.size[job.edge_v[edge]])
        rate = np.full(rows * columns, base[edge])
        of_edge = pairs.edge == edge
        rate[pairs.first[of_edge] * columns + pairs.second[of_edge]] += pairs.rate[of_edge]
        first, second = np.divmod(np.arange(rows * columns), columns)
        parts.append(UnevenPairs(np.full(rows * columns, edge), first, second, rate))
    return UnevenPairs._make(np.concatenate(columns) for columns in zip(*parts, strict=True))


def pair_runs(
    job: GroupedJob, uneven: UnevenPairs | None, rule: str, pair_order: str, seed: int
) -> Runs:
    """Return the runs in the order in which they are walked.

    `job`, `uneven`: group pairs, and the task pairs of those that are uneven; ``None`` where none
        is.
    `rule`: as for `GroupedJob.priority`. ``task_imc`` orders runs by the traffic of their task
        pairs, the others by group pair first.
    `pair_order`, `seed`: order within a run, one of `PAIR_ORDERS`, and the seed of ``shuffled``.
    """
    if uneven is None or not len(uneven.edge):
        order = job.priority(rule)
        none = np.zeros(0, dtype=np.int64)
        return Runs(order, np.zeros(len(order) + 1, dtype=np.int64), none, none)
    # pairs of one run stand together: by group pair, then by traffic
    level = np.round(uneven.rate / uneven.rate.max(), 12)
    turn = _turn(job, uneven, pair_order, seed)
    by_run = np.lexsort((turn, -level, uneven.edge))
    pairs = UnevenPairs._make(column[by_run] for column in uneven)
    level = level[by_run]
    starts = np.ones(len(level), dtype=bool)
    starts[1:] = (np.diff(pairs.edge) != 0) | (np.diff(level) != 0)
    begin = np.flatnonzero(starts)
    end = np.append(begin[1:], len(level))
    even = np.setdiff1d(np.arange(len(job.edge_u)), pairs.edge)
    edge = np.concatenate([even, pairs.edge[begin]])
    traffic = np.concatenate([job.urgency("task_imc")[even], pairs.rate[begin]])
    key = traffic if rule == "task_imc" else job.urgency(rule)[edge]
    by_traffic = np.lexsort((edge, _rank(traffic)))
    order = by_traffic[np.lexsort((edge[by_traffic], _rank(key)[by_traffic]))]
    width = np.concatenate([np.zeros(len(even), dtype=np.int64), end - begin])[order]
    at = np.concatenate([np.zeros(len(even), dtype=np.int64), begin])[order]
    indptr = np.concatenate([[0], np.cumsum(width)])
    place = np.repeat(at - indptr[:-1], width) + np.arange(indptr[-1])
    return Runs(edge[order], indptr, pairs.first[place], pairs.second[place])


def _rank(key: Floats) -> Integers:
    """(K,) rank by decreasing key; equal up to rounding means equal."""
    order = stable_descending(key)
    finite = np.isfinite(key)
    largest = np.abs(key[finite]).max(initial=0.0) or 1.0
    rounded = np.where(finite, np.round(np.where(finite, key, 0.0) / largest, 12), np.inf)[order]
    rank = np.empty(len(key), dtype=np.int64)
    rank[order] = np.cumsum(np.concatenate([[False], rounded[1:] != rounded[:-1]]))
    return rank


def _turn(job: GroupedJob, pairs: UnevenPairs, pair_order: str, seed: int) -> Integers:
    """(P,) by what pairs of equal traffic are walked within a group pair."""
    rows, columns = job.size[job.edge_u[pairs.edge]], job.size[job.edge_v[pairs.edge]]
    if pair_order == "shuffled":
        return np.random.default_rng(seed).permutation(len(pairs.edge))
    if pair_order == "column":
        return pairs.second * rows + pairs.first
    if pair_order == "diagonal":  # every task once before any comes twice
        width = np.maximum(rows, columns)
        return (pairs.second - pairs.first) % width * width + pairs.first
    return pairs.first * columns + pairs.second
