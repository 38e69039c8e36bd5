"""Guard of the rules that count tasks on places, or nodes, for compiled searches.

A search asks `may_enter` where it asks whether a task fits, and reports every change by `enter`; a
guard of no rules costs one comparison (`guard.active`). What is broken to begin with may stay so:
a change is refused where it breaks a set or the inflow of a node, or breaks it more, so a placement
that keeps all goes on doing so, and `relief_of` says which changes mend.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from optim.util.compiled import helper, inlined

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optim.kernels.place_rules import PlaceRules

    Ints = NDArray[np.int64]

#: As in `optim.format.tables`; compiled code reads them as constants.
APART, TOGETHER = 0, 1

NOBODY = np.int64(-1)

#: Where the first entries of `Guard.ints` say that each part of it begins; see `Guard`.
NODES, SETS, STARTS, LISTED, RULE, LIMIT, SIZE, PLACE, HOME = 0, 1, 2, 3, 4, 5, 6, 7, 8
MOST_IN, COPY_STARTS, COPIES, TALLY, USED, PLACED, INFLOW = 9, 10, 11, 12, 13, 14, 15
COUNTS, BOUNDS, GROUPS, HELD, COUNTED, PARTS = 16, 17, 18, 19, 20, 21


class Guard(NamedTuple):
    """Rules and the counts under a placement.

    All numbers are in one array: every call that is not inlined counts references to each array
    that it is given, which in a search takes longer than all else.

    Attributes
    ----------
    active
        Whether anything but copies is set: `may_enter` and `enter` are of use only then.
    free
        Whether there are copies.
    ints
        First the numbers of nodes and sets and where each part begins (`STARTS` to `INFLOW`), then
        the parts. Fixed: sets of each task in CSR form; of each set its rule, its limit, its
        members, and the place of each node; the home of each task (-1 for none); the most tasks
        that may migrate onto each node; the copies of each task in CSR form. Changed in place:
        members of each set on each place; places with a member; members that stand somewhere;
        tasks that migrate onto each node. Of counts of nodes: how many there are and of how many
        groups; the bound and the two groups of each (the second -1 where there is one); which group
        each task is in; tasks of each group on each node; nodes that count.
    """

    active: bool
    free: bool
    ints: NDArray[np.int64]


def make_guard(rules: PlaceRules, placement: Ints) -> Guard:
    """Return the guard of a placement; -1 is nowhere."""
    t, n, s = len(rules.home), len(rules.most_in), rules.num_sets
    size = np.diff(rules.indptr)
    owner = np.repeat(np.arange(s), size)
    per_task = np.bincount(rules.members, minlength=t)
    standing = placement[rules.members] >= 0
    tally = np.zeros((s, n), np.int64)
    place = rules.place[owner[standing], placement[rules.members[standing]]]
    np.add.at(tally, (owner[standing], place), 1)
    paying = rules.migrates(placement) & (placement >= 0)
    groups = [tasks for count in rules.counts for tasks in count.groups]
    bounds, first = [], 0
    for count in rules.counts:
        second = first + 1 if len(count.groups) > 1 else -1
        bounds.append((count.limit, first, second))
        first += len(count.groups)
    held = np.zeros((len(groups), n), np.int64)
    for tasks, row in zip(groups, held, strict=True):
        np.add.at(row, placement[tasks & (placement >= 0)], 1)
    parts = (
        np.concatenate([[0], np.cumsum(per_task)]),
        owner[np.argsort(rules.members, kind="stable")],
        rules.rule,
        rules.limit,
        size,
        rules.place.ravel(),
        rules.home,
        rules.most_in,
        rules.copies_indptr,
        rules.copies,
        tally.ravel(),
        np.count_nonzero(tally, axis=1),
        tally.sum(axis=1),
        np.bincount(placement[paying], minlength=n),
        np.array([len(rules.counts), len(groups)]),
        np.array(bounds, np.int64).ravel(),
        np.array(groups, np.int64).ravel(),
        held.ravel(),
        np.array([count.nodes(placement, n).sum() for count in rules.counts], np.int64),
    )
    begins = PARTS + np.concatenate([[0], np.cumsum([len(part) for part in parts])[:-1]])
    ints = np.concatenate([[n, s], begins, *parts]).astype(np.int64)
    return Guard(rules.restrict, rules.has_copies, ints)


@helper
def pays(guard, task, node):
    """Return 1 where being on a node is a migration of a task: not its home, and no copy there."""
    g = guard.ints
    home = g[g[HOME] + task]
    if home < 0 or node < 0 or node == home:
        return 0
    if not guard.free:
        return 1
    for at in range(g[g[COPY_STARTS] + task], g[g[COPY_STARTS] + task + 1]):
        if g[g[COPIES] + at] == node:
            return 0
    return 1


@inlined
def affords(price, budget, task, paid, other, back):
    """Whether all budgets of moves allow a change of one task or two.

    Parameters
    ----------
    price, budget
        (T, K) what a migration of each task takes of each budget; (K,) what is left of it.
    task, paid
        1 where the task comes to migrate, -1 where it ceases to, else 0.
    other, back
        The same of another task; -1 for none.
    """
    enough = True
    for b in range(budget.shape[0]):
        spent = paid * price[task, b]
        if other >= 0:
            spent += back * price[other, b]
        enough = enough and (spent <= 0.0 or spent <= budget[b])
    return enough


@inlined
def overdrawn(budget):
    """Whether more than there is was taken of any budget."""
    some = False
    for b in range(budget.shape[0]):
        some = some or budget[b] < 0.0
    return some


@helper
def is_member(g, task, s):
    """Whether a task is in a set."""
    found = False
    for at in range(g[g[STARTS] + task], g[g[STARTS] + task + 1]):
        found = found or g[g[LISTED] + at] == s
    return found


@helper
def recounted(guard, c, task, node, leaver, sign):
    """Return by how much a count of nodes changes at one node that a task comes to, or leaves (-1).

    The leaver goes the other way; -1 for none.
    """
    g = guard.ints
    before, after = True, True
    for k in range(1, 3):
        group = g[g[BOUNDS] + 3 * c + k]
        if group >= 0:
            row = g[GROUPS] + group * (g[MOST_IN] - g[HOME])
            held = g[g[HELD] + group * g[NODES] + node]
            moved = g[row + task]
            if leaver != NOBODY:
                moved -= g[row + leaver]
            before = before and held > 0
            after = after and held + sign * moved > 0
    return (1 if after else 0) - (1 if before else 0)


@helper
def may_enter(guard, task, source, target, leaver):
    """Whether a task may go from one node to another without breaking a set or an inflow more.

    Parameters
    ----------
    guard
        Under the placement before the change.
    task, source, target
        The task, its node (-1 where it is nowhere), and another node.
    leaver
        The task that goes from `target` to `source` in exchange; -1 for none.
    """
    g = guard.ints
    for c in range(g[g[COUNTS]]):
        # a count of nodes may rise where it stays within its limit, or where it does not rise
        before = g[g[COUNTED] + c]
        after = before + recounted(guard, c, task, target, leaver, 1)
        if source >= 0:
            after += recounted(guard, c, task, source, leaver, -1)
        if after > before and after > g[g[BOUNDS] + 3 * c]:
            return False
    if pays(guard, task, target) > 0:
        freed = 0 if leaver == NOBODY else pays(guard, leaver, target)
        if g[g[INFLOW] + target] + 1 - freed > g[g[MOST_IN] + target]:
            return False
    for at in range(g[g[STARTS] + task], g[g[STARTS] + task + 1]):
        s = g[g[LISTED] + at]
        row = s * g[NODES]
        to = g[g[PLACE] + row + target]
        of = -1 if source < 0 else g[g[PLACE] + row + source]
        if of == to or (leaver != NOBODY and is_member(g, leaver, s)):
            continue  # the set's counts stay as they are
        there = g[g[TALLY] + row + to]
        here = 0 if of < 0 else g[g[TALLY] + row + of]
        limit, used = g[g[LIMIT] + s], g[g[USED] + s]
        if g[g[RULE] + s] == APART:
            # at most `limit` members on one place
            if there + 1 > limit:
                return False
        elif g[g[RULE] + s] == TOGETHER:
            # together: only towards the place that has at least as many, so that members gather
            if g[g[SIZE] + s] > 1 and (there < here or (there == 0 and used > 0)):
                return False
        else:
            # spread: places in use after the change and members not placed yet must still reach
            # `limit`
            later = used + (1 if there == 0 else 0) - (1 if here == 1 else 0)
            waiting = g[g[SIZE] + s] - g[g[PLACED] + s]
            still = waiting - (1 if of < 0 else 0)
            if later + still < min(limit, used + waiting):
                return False
    return True


@helper
def may_exchange(guard, k, other, a, b):
    """Whether one task may go from a to b and the other from b to a; -1 stands for nobody."""
    if k != NOBODY and not may_enter(guard, k, a, b, other):
        return False
    return other == NOBODY or may_enter(guard, other, b, a, k)


@helper
def enter(guard, task, source, target):
    """Enter a change into the counts; -1 is nowhere."""
    g = guard.ints
    if source != target and g[g[COUNTS]] > 0:
        for c in range(g[g[COUNTS]]):
            if source >= 0:
                g[g[COUNTED] + c] += recounted(guard, c, task, source, NOBODY, -1)
            if target >= 0:
                g[g[COUNTED] + c] += recounted(guard, c, task, target, NOBODY, 1)
        for group in range(g[g[COUNTS] + 1]):
            inside = g[g[GROUPS] + group * (g[MOST_IN] - g[HOME]) + task]
            row = g[HELD] + group * g[NODES]
            if source >= 0:
                g[row + source] -= inside
            if target >= 0:
                g[row + target] += inside
    if source >= 0:
        g[g[INFLOW] + source] -= pays(guard, task, source)
    if target >= 0:
        g[g[INFLOW] + target] += pays(guard, task, target)
    for at in range(g[g[STARTS] + task], g[g[STARTS] + task + 1]):
        s = g[g[LISTED] + at]
        row = s * g[NODES]
        if source >= 0:
            place = g[TALLY] + row + g[g[PLACE] + row + source]
            g[place] -= 1
            g[g[PLACED] + s] -= 1
            if g[place] == 0:
                g[g[USED] + s] -= 1
        if target >= 0:
            place = g[TALLY] + row + g[g[PLACE] + row + target]
            if g[place] == 0:
                g[g[USED] + s] += 1
            g[place] += 1
            g[g[PLACED] + s] += 1


@helper
def flooded(guard, node):
    """Return by how many tasks the inflow of a node is broken."""
    g = guard.ints
    return max(0, g[g[INFLOW] + node] - g[g[MOST_IN] + node])


@helper
def crowded(guard):
    """Return by how many nodes all bounds on numbers of nodes are broken."""
    g = guard.ints
    total = 0
    for c in range(g[g[COUNTS]]):
        total += max(0, g[g[COUNTED] + c] - g[g[BOUNDS] + 3 * c])
    return total


@helper
def is_listed(guard, task):
    """Whether a task is in any set."""
    g = guard.ints
    return g[g[STARTS] + task + 1] > g[g[STARTS] + task]


@helper
def broken(guard):
    """Return by how many tasks sets and inflow are broken in all; of a whole placement."""
    total = crowded(guard)
    for node in range(guard.ints[NODES]):
        total += flooded(guard, node)
    for s in range(guard.ints[SETS]):
        total += broken_set(guard, s)
    return total


@helper
def broken_set(guard, s):
    """Return by how many tasks a set is broken."""
    g = guard.ints
    if g[g[RULE] + s] != APART and g[g[RULE] + s] != TOGETHER:
        return max(0, g[g[LIMIT] + s] - g[g[USED] + s])
    begin = g[TALLY] + s * g[NODES]
    above, most = 0, 0
    for at in range(begin, begin + g[NODES]):
        above += max(0, g[at] - g[g[LIMIT] + s])
        most = max(most, g[at])
    return above if g[g[RULE] + s] == APART else g[g[PLACED] + s] - most


@helper
def relief_of(guard, task, source, target):
    """Return by how many tasks less the rules are broken once a task goes; negative if by more."""
    before = relevant(guard, task, source, target)
    enter(guard, task, source, target)
    after = relevant(guard, task, source, target)
    enter(guard, task, target, source)
    return before - after


@helper
def relevant(guard, task, source, target):
    """Return by how many tasks what a change touches is broken."""
    g = guard.ints
    total = crowded(guard)
    for node in (source, target):
        if node >= 0:
            total += flooded(guard, node)
    for at in range(g[g[STARTS] + task], g[g[STARTS] + task + 1]):
        total += broken_set(guard, g[g[LISTED] + at])
    return total
