"""Cuts against plans that a solver takes for feasible and the referee does not.

Solvers keep rows to about 1e-6, the referee to 1e-9 of all there is. A plan in between is found
by who stands where, and cut off by that: not all these key groups on this node, or one more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from formulations.model_rows import Placing
    from formulations.rebalancing.problem import BalanceProblem, Floats, Ints
    from optim.solvers.linear_model import LinearModel


class Cut(NamedTuple):
    """Of the key groups `task` on `node`, at least `least` and at most `most` are there."""

    task: Ints
    node: Ints
    least: float
    most: float


def cuts_of(problem: BalanceProblem, placement: Ints) -> list[Cut]:
    """Return cuts that every feasible placement keeps and this infeasible one does not."""
    used = problem.node_usage(placement)
    floor = np.where(problem.leaving[:, None], -np.inf, problem.floor)
    found: list[Cut] = []
    for e in range(problem.num_resources):
        limits = (floor[:, e], problem.headroom[:, e])
        found += _cuts(problem.usage[:, e], used[:, e], limits, placement)
    load = problem.node_load(placement) - problem.background
    room = problem.share - problem.background
    reach = problem.most_distance
    lower = np.where(problem.leaving, -np.inf, room - reach)
    found += _cuts(problem.load, load, (lower, room + reach), placement)
    over = problem.spent(placement) > problem.budget
    found += [_stay(problem, placement, price) for price in problem.price.T[over]]
    if not found:
        every = np.arange(problem.num_tasks)
        found.append(Cut(every, placement.copy(), -np.inf, problem.num_tasks - 1.0))
    return found


def _cuts(
    load: Floats, used: Floats, limits: tuple[Floats, Floats], placement: Ints
) -> Iterable[Cut]:
    """Cut off nodes that hold more, or less, of a load than they may."""
    lower, upper = limits
    for node in np.flatnonzero(used > upper).tolist():
        yield from _too_much(load, upper, node, np.flatnonzero(placement == node))
    for node in np.flatnonzero(used < lower).tolist():
        others = np.flatnonzero((placement != node) & (load > 0))
        yield Cut(others, np.full(len(others), node), 1.0, np.inf)


def _too_much(load: Floats, upper: Floats, node: int, there: Ints) -> Iterable[Cut]:
    """Fewer of the key groups there, and of all as heavy, on every node with as little room."""
    there = there[np.argsort(-load[there], kind="stable")]
    there = there[load[there] > 0]
    count = int(np.searchsorted(np.cumsum(load[there]), upper[node], side="right")) + 1
    cover = there[:count]
    heavy = np.flatnonzero(load >= load[cover].max())
    tasks = np.union1d(cover, heavy)
    for like in np.flatnonzero(upper <= upper[node]).tolist():
        yield Cut(tasks, np.full(len(tasks), like), -np.inf, len(cover) - 1.0)


def _stay(problem: BalanceProblem, placement: Ints, price: Floats) -> Cut:
    """Ask one of the key groups that migrate to stay, or to go where there is a copy."""
    rules = problem.rules
    moved = np.flatnonzero(rules.migrates(placement) & (price > 0))
    copied = np.concatenate(
        [np.arange(rules.copies_indptr[k], rules.copies_indptr[k + 1]) for k in moved.tolist()]
        or [np.zeros(0, np.int64)]
    )
    counts = rules.copies_indptr[moved + 1] - rules.copies_indptr[moved]
    task = np.concatenate([moved, np.repeat(moved, counts)])
    node = np.concatenate([problem.home[moved], rules.copies[copied]])
    task, node = np.unique(np.stack([task, node]), axis=1)
    return Cut(task, node, 1.0, np.inf)


def add_cuts(model: LinearModel, cuts: list[Cut], placing: Placing) -> None:
    """Add the rows of some cuts."""
    if not cuts:
        return
    where, num_nodes = placing.where, placing.num_nodes
    key = where.task * num_nodes + where.node
    order = np.argsort(key, kind="stable")
    for cut in cuts:
        wanted = cut.task * num_nodes + cut.node
        begin = np.searchsorted(key[order], wanted)
        counts = np.searchsorted(key[order], wanted, side="right") - begin
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        entries = order[np.repeat(begin, counts) + within]
        constant = float((where.base[cut.task] == cut.node).sum())
        model.add_rows(
            "cut", cut.least - constant, cut.most - constant, np.zeros(len(entries), np.int64),
            where.column[entries], where.value[entries], num_rows=1,
        )  # fmt: skip
