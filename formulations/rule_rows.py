"""Rows of the rules that count tasks on places, for any linear model that says where tasks are.

A model reports by `Whereabouts` how x[t, n], "task t is on node n", is made of its columns:

    x[t, n] = (1 if base[t] == n else 0) + Σ value·column over the entries of (t, n)

so a model with one column a task and node has entries of 1 and a base of -1, and one with columns
for moves only has the home as its base, and each move in two entries: +1 where it goes, -1 at home.

`add_rule_rows(model, rules, where)` then adds rows for sets (apart, together, spread; over nodes or
racks), for the inflow of nodes and for counts of nodes, and returns what a start must set beside
its own columns (`RuleRows.complete`). Budgets are the model's own: what it counts as a migration
must leave out the moves onto copies, `rules.pays(task, node)`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from optim.format.tables import APART, TOGETHER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optim.format.tables import Bools, Floats
    from optim.kernels.place_rules import PlaceRules
    from optim.solvers.linear_model import LinearModel, VariableBlock

    Ints = NDArray[np.int64]


class Whereabouts(NamedTuple):
    """Where tasks are, in columns of a linear model.

    Attributes
    ----------
    task, node, column, value
        (M,) entries of x[task, node]; those of one place and column add up.
    base
        (T,) node on which a task is where no column says otherwise; -1 for none.
    """

    task: Ints
    node: Ints
    column: Ints
    value: Floats
    base: Ints


@dataclass
class RuleRows:
    """What was added: the columns that say which places a set uses.

    Attributes
    ----------
    spread
        Set, and its block of one column a place.
    counted
        Mask of tasks, and its block of one column a node: whether one of them is there.
    shared
        Two masks, and their block: whether tasks of both are there.
    """

    rules: PlaceRules
    spread: list[tuple[int, VariableBlock]] = field(default_factory=list)
    counted: list[tuple[Bools, VariableBlock]] = field(default_factory=list)
    shared: list[tuple[tuple[Bools, ...], VariableBlock]] = field(default_factory=list)

    def complete(self, x: Floats, placement: Ints) -> None:
        """Set the added columns of a solution vector as a placement wants them."""
        for i, block in self.spread:
            used = np.zeros(len(block.indices))
            used[self.rules.place[i, placement[self.rules.tasks_of(i)]]] = 1.0
            x[block.indices] = used
        for tasks, block in self.counted:
            x[block.indices] = 0.0
            x[block.indices[placement[tasks]]] = 1.0
        for (first, second), block in self.shared:
            x[block.indices] = 0.0
            x[block.indices[np.intersect1d(placement[first], placement[second])]] = 1.0


def add_rule_rows(model: LinearModel, rules: PlaceRules, where: Whereabouts) -> RuleRows:
    """Add the rows of sets, inflow and counts of nodes; none where there are no such rules.

    Parameters
    ----------
    model
        The rows are added to it, and one binary for each place of a set to be spread, and for each
        node and group of tasks that a count of nodes is of.
    rules, where
        What binds, and how the model says where tasks are.
    """
    made = RuleRows(rules)
    if rules.bounds_inflow:
        _add_inflow(model, rules, where)
    if rules.num_sets:
        entries = _ByTask(where, len(rules.home))
        for i in range(rules.num_sets):
            kind = rules.rule[i]
            if kind == APART:
                _add_apart(model, rules, entries, i)
            elif kind == TOGETHER:
                _add_together(model, rules, entries, i)
            else:
                made.spread.append((i, _add_spread(model, rules, entries, i)))
    _add_counts(model, rules, where, made)
    return made


class _ByTask:
    """The entries of some tasks, found without looking at all."""

    def __init__(self, where: Whereabouts, num_tasks: int) -> None:
        self.where = where
        self._order = np.argsort(where.task, kind="stable")
        counts = np.bincount(where.task, minlength=num_tasks)
        self._start = np.concatenate([[0], np.cumsum(counts)])

    def of(self, tasks: Ints) -> tuple[Ints, Ints]:
        """Return the entries of some tasks, and for each its task's position among these."""
        counts = self._start[tasks + 1] - self._start[tasks]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        entries = self._order[np.repeat(self._start[tasks], counts) + within]
        return entries, np.repeat(np.arange(len(tasks)), counts)

    def counts_at(self, place: Ints, tasks: Ints) -> tuple[Ints, Ints, Floats, Floats]:
        """Return place, column and value of Σ over tasks of x at each place, and the constants."""
        entries, _ = self.of(tasks)
        base = self.where.base[tasks]
        constant = np.bincount(place[base[base >= 0]], minlength=int(place.max()) + 1)
        rows = place[self.where.node[entries]]
        return rows, self.where.column[entries], self.where.value[entries], constant.astype(float)


def _add_counts(model: LinearModel, rules: PlaceRules, where: Whereabouts, made: RuleRows) -> None:
    """Σ_n u[n] ≤ limit where u[n] ≥ x[t, n] for the tasks t of a group."""
    # of two groups u[n] ≥ u'[n] + u''[n] − 1; with a limit of 0 these are u'[n] + u''[n] ≤ 1
    n, known = len(rules.most_in), {}
    every = np.arange(n)
    for c, count in enumerate(rules.counts):
        used = []
        for tasks in count.groups:
            if tasks.tobytes() not in known:
                known[tasks.tobytes()] = block = _add_used(model, where, tasks, n)
                made.counted.append((tasks, block))
            used.append(known[tasks.tobytes()].indices)
        if len(used) > 1 and count.limit <= 0:
            model.add_sum(f"count_{c}", -np.inf, 1.0, n, *((every, some, 1.0) for some in used))
            continue
        both = used[0]
        if len(used) > 1:
            block = model.add_variables(f"both_{c}", n, upper=1.0, integer=True)
            both = block.indices
            made.shared.append((count.groups, block))
            terms = ((every, some, 1.0) for some in used)
            model.add_sum(f"both_if_{c}", -np.inf, 1.0, n, *terms, (every, both, -1.0))
        model.add_rows(f"count_{c}", -np.inf, float(count.limit), 0, both, 1.0, num_rows=1)


def _add_used(
    model: LinearModel, where: Whereabouts, tasks: Bools, num_nodes: int
) -> VariableBlock:
    """x[t, n] ≤ u[n]: a node is used where any of the tasks is."""
    used = model.add_variables(
        f"used_by_{len(model.row_blocks)}", num_nodes, upper=1.0, integer=True,
        of={"node": np.arange(num_nodes)},
    )  # fmt: skip
    chosen, kept = np.flatnonzero(tasks), tasks[where.task]
    number = np.full(len(tasks), -1, np.int64)
    number[chosen] = np.arange(len(chosen))
    cells = len(chosen) * num_nodes
    constant = np.zeros(cells)
    based = chosen[where.base[chosen] >= 0]
    constant[number[based] * num_nodes + where.base[based]] = 1.0
    rows = number[where.task[kept]] * num_nodes + where.node[kept]
    some = np.unique(np.concatenate([rows, np.flatnonzero(constant)]))
    place = np.full(cells, -1, np.int64)
    place[some] = np.arange(len(some))
    model.add_sum(
        "used_if_there", -np.inf, -constant[some], len(some),
        (place[rows], where.column[kept], where.value[kept]),
        (np.arange(len(some)), used.indices[some % num_nodes], -1.0),
        of={"task": chosen[some // num_nodes], "node": some % num_nodes},
    )  # fmt: skip
    return used


def _add_inflow(model: LinearModel, rules: PlaceRules, where: Whereabouts) -> None:
    """Σ x[t, n] ≤ most_in[n] over the tasks that migrate where they come to n."""
    bound = np.flatnonzero(rules.most_in < len(rules.home))
    number = np.full(len(rules.most_in), -1, np.int64)
    number[bound] = np.arange(len(bound))
    based = np.flatnonzero(where.base >= 0)
    paying = based[rules.pays(based, where.base[based])]
    constant = np.bincount(where.base[paying], minlength=len(rules.most_in))
    kept = rules.pays(where.task, where.node) & (number[where.node] >= 0)
    model.add_rows(
        "inflow", -np.inf, (rules.most_in - constant)[bound].astype(float),
        number[where.node[kept]], where.column[kept], where.value[kept], num_rows=len(bound),
        of={"node": bound},
    )  # fmt: skip


def _places(rules: PlaceRules, i: int, width: int) -> dict[str, Ints]:
    """Say of which nodes, or by number of which racks, the places of a set are."""
    every = np.arange(width)
    return {"node" if np.array_equal(rules.place[i], every) else "rack": every}


def _add_apart(model: LinearModel, rules: PlaceRules, entries: _ByTask, i: int) -> None:
    """At most `limit` members on each place."""
    rows, columns, values, constant = entries.counts_at(rules.place[i], rules.tasks_of(i))
    room = float(rules.limit[i]) - constant
    of = _places(rules, i, len(room))
    model.add_rows(f"apart_{i}", -np.inf, room, rows, columns, values, num_rows=len(room), of=of)


def _add_together(model: LinearModel, rules: PlaceRules, entries: _ByTask, i: int) -> None:
    """Every member is on the place of the next one."""
    tasks, place = rules.tasks_of(i), rules.place[i]
    links, width = len(tasks) - 1, int(place.max()) + 1
    if links < 1:
        return
    found, at = entries.of(tasks)
    where, base = entries.where, entries.where.base[tasks]
    spot, based = place[where.node[found]], np.flatnonzero(base >= 0)
    right, terms = np.zeros((links, width)), []
    for sign, shift, inside in ((1.0, 0, at < links), (-1.0, 1, at > 0)):
        row = (at[inside] - shift) * width + spot[inside]
        terms.append((row, where.column[found[inside]], sign * where.value[found[inside]]))
        some = based[(based >= shift) & (based < links + shift)]
        np.add.at(right, (some - shift, place[base[some]]), -sign)
    model.add_sum(
        f"together_{i}", right.ravel(), right.ravel(), links * width, *terms,
        of={
            "task": np.repeat(tasks[:-1], width),
            **{kind: np.tile(at, links) for kind, at in _places(rules, i, width).items()},
        },
    )  # fmt: skip


def _add_spread(model: LinearModel, rules: PlaceRules, entries: _ByTask, i: int) -> VariableBlock:
    """At least `limit` places are used; a place is used only where a member is."""
    rows, columns, values, constant = entries.counts_at(rules.place[i], rules.tasks_of(i))
    width = len(constant)
    of = _places(rules, i, width)
    used = model.add_variables(f"used_{i}", width, upper=1.0, integer=True, of=of)
    model.add_sum(
        f"used_if_there_{i}", -np.inf, constant, width, (np.arange(width), used.indices, 1.0),
        (rows, columns, -values), of=of,
    )  # fmt: skip
    least = float(rules.limit[i])
    model.add_rows(f"spread_{i}", least, np.inf, 0, used.indices, 1.0, num_rows=1)
    return used
