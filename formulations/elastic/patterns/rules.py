"""Rules that count tasks on places, as sets of tasks on nodes see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optim.format.tables import APART, SPREAD, TOGETHER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from formulations.elastic.patterns.columns import Columns
    from formulations.elastic.problem import EoaProblem
    from optim.format.tables import Bools, Floats, Ints


def unknown_set(problem: EoaProblem) -> str | None:
    """Return the id of a set that only racks can break, and columns do not know."""
    for i, name in enumerate(problem.instance.sets.ids):
        if problem.instance.sets.by_rack[i] and problem.rules.rule[i] != APART:
            return name
    return None


def paying(problem: EoaProblem, one: Ints, node: Ints) -> Bools:
    """(M, G) whether free tasks migrate when they are on nodes."""
    tasks = problem.free[one]
    pays = problem.rules.pays(np.tile(tasks, len(node)), np.repeat(node, len(tasks)))
    return pays.reshape(len(node), len(tasks))


def held_alone(problem: EoaProblem, one: Ints, node: Ints, counts: NDArray[Any]) -> Bools:
    """(P,) whether sets on nodes keep the rules that concern one node.

    Parameters
    ----------
    one, node, counts
        (G,) a free task of each group; (P,) nodes and (P, G) counts of the sets.
    """
    rules, n = problem.rules, problem.num_nodes
    good = np.ones(len(node), dtype=np.bool_)
    if rules.bounds_inflow:
        every = paying(problem, one, np.arange(n, dtype=np.int32))
        forced = np.bincount(problem.fixed[problem.running_moves], minlength=n)
        good &= (counts * every[node]).sum(axis=1) + forced[node] <= rules.most_in[node]
    for i in range(rules.num_sets):
        if problem.instance.sets.by_rack[i]:
            continue
        held, size = _members(problem, i, one, node, counts), len(rules.tasks_of(i))
        if rules.rule[i] == APART:
            good &= held <= rules.limit[i]
        elif rules.rule[i] == TOGETHER:
            good &= (held == 0) | (held == size)
    return good


def set_rows(problem: EoaProblem, columns: Columns) -> Iterator[tuple[Floats, float]]:
    """Yield (P,) coefficients and upper bound of the rows that sets need over several nodes."""
    rules, node = problem.rules, columns.first[columns.of]
    one = columns.groups.members[columns.groups.indptr[:-1]]
    for i in range(rules.num_sets):
        held = _members(problem, i, one, node, columns.counts)
        if rules.rule[i] == SPREAD:
            yield -(held > 0).astype(np.float64), -float(rules.limit[i])
        elif problem.instance.sets.by_rack[i]:
            for place in np.unique(rules.place[i]).tolist():
                there = rules.place[i, node] == place
                yield np.where(there, held, 0).astype(np.float64), float(rules.limit[i])


def _members(
    problem: EoaProblem, i: int, one: Ints, node: Ints, counts: NDArray[Any]
) -> NDArray[np.int64]:
    """(P,) members of a set of tasks that are on each node, running ones included."""
    tasks = problem.rules.tasks_of(i)
    runs = problem.fixed[tasks]
    fixed = np.bincount(runs[runs >= 0], minlength=problem.num_nodes)
    return np.asarray(counts @ np.isin(problem.free[one], tasks) + fixed[node])
