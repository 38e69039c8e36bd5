"""The problem in counts: groups of tasks that send and receive alike, classes of equal nodes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.patterns.problem import problem_of
from formulations.throughput.listing import list_patterns
from formulations.throughput.places import places_of, thread_load
from optim.errors import Problem, UnsuitableMethod
from optim.kernels.classes import node_classes, task_groups
from optim.kernels.place_rules import place_rules
from optim.kernels.room import move_budget
from optim.rules import without_limits

if TYPE_CHECKING:
    from formulations.patterns.problem import Counts, PatternProblem
    from formulations.throughput.places import Places
    from optim.format.instance import Instance
    from optim.format.tables import Floats, Ints
    from optim.kernels.classes import NodeClasses, TaskGroups

_SAME = 1e-9
_FEW_TASKS = 12
"""Tasks up to which each may be a group of its own."""


@dataclass(frozen=True, eq=False)
class Grouped:
    """An instance in counts.

    Attributes
    ----------
    groups, classes
        Interchangeable tasks, and identical nodes, under all rules that bind.
    problem
        Counts and loads; its gain is the traffic inside.
    rate
        (G, G) traffic from a task of one group to one of another.
    first
        (K,) a node of each class.
    free, cost
        (G, K) tasks of a group that migrate nowhere when they are on a node of a class: all, or as
        many as are at home there; (G,) the price of each further one.
    most_in
        (K,) most tasks that may migrate onto a node.
    budget
        (2,) most migrations, and most cost of them.
    """

    instance: Instance
    groups: TaskGroups
    classes: NodeClasses
    problem: PatternProblem
    places: Places
    rate: Floats
    first: Ints
    free: Counts
    cost: Floats
    most_in: Counts
    budget: Floats

    def patterns(self, limit: float, most: int, budget: int) -> Listed | None:
        """List what nodes may hold within a highest utilisation; ``None`` where it is too much.

        None of them counts for less than the fullest task: all placements have that.
        """
        counts, kinds, values = [], [], []
        for k in range(self.classes.num_classes):
            made = self._of_class(k, limit, most, budget)
            if made is None:
                return None
            counts.append(made[0])
            values.append(made[1])
            kinds.append(np.full(len(made[1]), k))
        value = np.maximum(np.concatenate(values), thread_load(self.instance))
        order = np.argsort(value, kind="stable")
        return Listed(np.concatenate(counts)[order], np.concatenate(kinds)[order], value[order])

    def _of_class(
        self, k: int, limit: float, most: int, budget: int
    ) -> tuple[Counts, Floats] | None:
        n, places, problem = self.first[k], self.places, self.problem
        instance = self.instance
        may = np.where(self.classes.target[self.groups.kind, k], self.groups.sizes, 0)
        size = 4096
        while True:
            rows = np.zeros((size, problem.num_classes), dtype=np.int64)
            values = np.zeros(size)
            found = list_patterns(
                self.groups.sizes.astype(np.float64), self.groups.load, self.rate,
                instance.crossing_cost, may, self.classes.room[k], self.classes.floor[k],
                places.room[n], places.link[n], bool(places.barred[n]), limit, budget, rows, values,
            )  # fmt: skip
            if found >= 0:
                break
            if size >= most:
                return None
            size = min(most, 8 * size)
        rows, values = rows[:found], values[:found]
        keep = self.paying(rows, np.array([k])).sum(axis=1) <= self.most_in[k]
        return rows[keep], values[keep]

    def paying(self, counts: Counts, node_class: Counts) -> Counts:
        """(P, G) tasks that have to migrate onto nodes of these classes with these contents."""
        return np.maximum(counts - self.free[:, node_class].T, 0)


@dataclass(frozen=True, eq=False)
class Listed:
    """P patterns by their highest utilisation: (P, G) counts, (P,) node class, (P,) value."""

    counts: Counts
    node_class: Counts
    value: Floats

    def __len__(self) -> int:
        return len(self.value)

    def within(self, limit: float) -> int:
        """Return how many have at most that utilisation, rounding forgiven."""
        return int(np.searchsorted(self.value, limit * (1 + _SAME), side="right"))


def grouped(binding: Instance, instance: Instance, method: str, *, moves: bool = False) -> Grouped:
    """Write an instance in counts.

    Parameters
    ----------
    binding
        The instance without the limits that the rate measures.
    moves
        Whether moves are counted though no limit bounds them.

    Raises
    ------
    UnsuitableMethod
        A link encloses several nodes, or tasks are too unlike in whom they send to.
    """
    places = places_of(instance)
    if not places.single:
        where = ", ".join(np.array(instance.nodes.ids)[places.inside[0]][:5])
        reason = f"needs links of one node each, or of all but one; one is of {where}"
        remedy = "use throughput-milp or throughput-search"
        raise UnsuitableMethod(Problem(method, None, reason, remedy))
    if moves and binding.limits.max_migrations is None:
        limits = replace(binding.limits, max_migrations=binding.num_tasks)
        binding = replace(binding, limits=limits)
    rules, budget = place_rules(binding), move_budget(binding)
    counted = rules.bounds_inflow or bool(np.isfinite(budget).any())
    homes = counted and not rules.has_copies
    home, price = binding.tasks.node, binding.tasks.migration_cost
    alike = np.column_stack([home >= 0, price * np.isfinite(budget[1])]) if homes else None
    groups, rate = _alike(_unmoved(binding) if homes else binding, alike, method)
    task = groups.members[groups.indptr[:-1]].astype(np.int64)
    at_home = groups.counts(home, binding.num_nodes) if homes else np.zeros((len(home), 0))
    kept = [places.room, places.link, places.barred]
    if homes:
        kept += [at_home, rules.most_in]
    classes = node_classes(_unmoved(binding) if homes else binding, np.column_stack(kept))
    first = classes.members[classes.indptr[:-1]]
    free = np.repeat(groups.sizes[:, None], classes.num_classes, axis=1).astype(np.int64)
    if homes:
        free[home[task] >= 0] = at_home[first].T[home[task] >= 0]
    elif counted:
        for k, n in enumerate(first.tolist()):
            free[rules.pays(task, np.full(len(task), n)), k] = 0
    return Grouped(
        instance, groups, classes, problem_of(binding, groups, classes), places, rate,
        first, free, price[task], rules.most_in[first], budget,
    )  # fmt: skip


def _unmoved(instance: Instance) -> Instance:
    """Return the instance without bounds on moves: tasks are equal that differ in their home."""
    return without_limits(instance, ("max_migrations", "max_migration_cost", "max_inflow"))


def _alike(instance: Instance, told: Any, method: str) -> tuple[TaskGroups, Floats]:
    """Group tasks that send and receive alike; each for itself where that fails and few do."""
    source, target, rate = instance.flows.directed()
    count = instance.num_tasks
    totals = np.column_stack([np.bincount(end, rate, count) for end in (source, target)])
    scale = max(float(totals.max(initial=0.0)), 1e-300)
    for also in (np.round(totals / scale, 12), np.arange(count)):
        groups = task_groups(instance, also if told is None else np.column_stack([also, told]))
        found = _directed(groups, source, target, rate, _SAME * scale)
        if found is not None:
            return groups, found
        if count > _FEW_TASKS:
            break
    reason = "needs groups of tasks that send to, and receive from, the same tasks alike"
    raise UnsuitableMethod(
        Problem(method, None, reason, "use throughput-milp or throughput-search")
    )


def _directed(
    groups: TaskGroups, source: Ints, target: Ints, rate: Floats, noise: float
) -> Floats | None:
    """(G, G) traffic of one directed pair; ``None`` where pairs of two groups are not alike."""
    count, total = groups.num_groups, len(groups.group)
    key, where = np.unique(source.astype(np.int64) * total + target, return_inverse=True)
    each = np.bincount(where.reshape(-1), rate, len(key)).astype(np.float64)
    u, v = np.divmod(key, max(1, total))
    flat = groups.group[u].astype(np.int64) * count + groups.group[v]
    pairs = np.outer(groups.sizes, groups.sizes) - np.diag(groups.sizes)
    seen = np.bincount(flat, minlength=count * count).reshape(count, count)
    summed = np.bincount(flat, each, count * count).astype(np.float64).reshape(count, count)
    mean = np.divide(summed, pairs, out=np.zeros_like(summed), where=pairs > 0)
    if ((seen > 0) & (seen < pairs) & (mean > noise)).any():
        return None
    if (np.abs(each - mean.ravel()[flat]) > noise).any():
        return None
    return mean
