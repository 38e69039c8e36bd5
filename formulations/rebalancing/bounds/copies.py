"""Copies in bounds: replicas that are alike may as well stay where one of them stays.

A switch to a copy is free, so a bound that looks at single key groups believes that all of them
leave for nothing. Replicas of a set `apart` that hold each other's copies cannot: however they
change places, as many nodes as are new to the set have copied its state. So the set is judged as if
nobody in it held a copy; the proof is in ``docs/proofs/touch-bound.md``, step 10.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from optim.format.tables import APART

if TYPE_CHECKING:
    from formulations.rebalancing.problem import BalanceProblem, Bools, Floats, Ints
    from optim.kernels.place_rules import PlaceRules


def without_switches(problem: BalanceProblem) -> BalanceProblem:
    """Return a problem without those copies that alike replicas hold of each other.

    Whatever placement the problem has, this one has one with the same load on each node, at no
    greater cost and with no more migrations.
    """
    rules = problem.rules
    if not rules.has_copies or not rules.num_sets:
        return problem
    alike = _alike(problem, rules)
    if not alike.any():
        return problem
    chosen = alike[rules.owner]
    owner, task = rules.owner[chosen], rules.members[chosen]
    cost, usage = problem.cost.copy(), problem.usage.copy()
    cost[task] = _least(owner, problem.cost[task], rules.num_sets)[owner]
    for e in range(problem.num_resources):
        usage[task, e] = _least(owner, usage[task, e], rules.num_sets)[owner]
    set_of = np.full(problem.num_tasks, -1)
    set_of[task] = owner
    kept = np.repeat(set_of < 0, np.diff(rules.copies_indptr))
    count = np.where(set_of < 0, np.diff(rules.copies_indptr), 0)
    restricted, indptr, nodes = _allowed_together(problem, set_of, owner, task)
    return replace(
        problem,
        cost=cost,
        usage=usage,
        restricted=restricted,
        allowed_indptr=indptr,
        allowed_nodes=nodes,
        counted=replace(
            rules,
            copies_indptr=np.concatenate([[0], np.cumsum(count)]).astype(np.int64),
            copies=rules.copies[kept],
        ),
    )


def _alike(problem: BalanceProblem, rules: PlaceRules) -> Bools:
    """(S,) sets of which never two are on a node, whose members are alike and share their copies.

    They are at home on distinct nodes, hold copies on homes of the set only, have one load, and are
    in no other such set.
    """
    n, owner, task = problem.num_nodes, rules.owner, rules.members
    good = (rules.rule == APART) & (rules.limit == 1) & (np.diff(rules.indptr) > 1)
    homes = np.sort(owner * n + problem.home[task])
    good[homes[1:][np.diff(homes) == 0] // n] = False
    load = problem.load[task]
    good &= _least(owner, load, len(good)) == -_least(owner, -load, len(good))
    often = np.bincount(task[good[owner]], minlength=problem.num_tasks) > 1
    good[owner[often[task]]] = False
    chosen = good[owner]
    set_of = np.full(problem.num_tasks, -1)
    set_of[task[chosen]] = owner[chosen]
    mine = np.repeat(set_of, np.diff(rules.copies_indptr))
    key = (mine * n + rules.copies)[mine >= 0]
    at = np.minimum(np.searchsorted(homes, key), len(homes) - 1)
    good[mine[mine >= 0][homes[at] != key]] = False
    return good


def _least(owner: Ints, values: Floats, sets: int) -> Floats:
    """(S,) least value of each set's members; infinite where it has none."""
    found = np.full(sets, np.inf)
    np.minimum.at(found, owner, values)
    return found


def _allowed_together(
    problem: BalanceProblem, set_of: Ints, owner: Ints, task: Ints
) -> tuple[Ints, Ints, Ints]:
    """Let each member of the chosen sets be wherever any of its set may be."""
    n, bound = problem.num_nodes, problem.row_of >= 0
    everywhere = np.zeros(int(set_of.max()) + 1, np.bool_)
    everywhere[owner[~bound[task]]] = True
    of_row = np.repeat(problem.restricted, np.diff(problem.allowed_indptr))
    alone = set_of[of_row] < 0
    key = np.unique(set_of[of_row[~alone]] * n + problem.allowed_nodes[~alone])
    members = task[~everywhere[owner]]
    begin = np.searchsorted(key, set_of[members] * n)
    count = np.searchsorted(key, (set_of[members] + 1) * n) - begin
    at = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    tasks = np.concatenate([of_row[alone], np.repeat(members, count)])
    nodes = np.concatenate([problem.allowed_nodes[alone], key[np.repeat(begin, count) + at] % n])
    empty = problem.restricted[
        (np.diff(problem.allowed_indptr) == 0) & (set_of[problem.restricted] < 0)
    ]
    restricted = np.union1d(np.unique(tasks), empty).astype(np.int64)
    order = np.lexsort((nodes, tasks))
    indptr = np.searchsorted(tasks[order], np.append(restricted, problem.num_tasks))
    return restricted, indptr.astype(np.int64), nodes[order].astype(np.int64)
