"""The rules of an instance one by one, so that each can be dropped by itself.

A *rule instance* is what one entry of the file demands: the capacity of a resource on a node, the
list of allowed nodes of an operator's tasks, one set, one budget. `Atoms` numbers them, `keep`
returns the instance in which only some of them hold, which the referee judges like any other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from optim.format.tables import TOGETHER
from optim.methods.reduce import Scale, in_own_units
from optim.rules import (
    BUDGETS,
    LEAVING,
    LINKS,
    MAX_INFLOW,
    RULES,
    SLOTS,
)
from optim.rules.budget import most_inflow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Bools

    Ids = NDArray[np.int64]

NO_RESOURCE = -1


class Kind(NamedTuple):
    """Rule instances of one sort: the rule, and the resource where it is of one."""

    rule: str
    resource: int = NO_RESOURCE


_NUMBERS = tuple(rule for rule in RULES if rule.varies and rule is not MAX_INFLOW)


@dataclass(frozen=True, eq=False)
class Atoms:
    """The rule instances of an instance.

    Attributes
    ----------
    instance
        Whose.
    kinds
        Their sorts.
    kind, index
        (A,) sort of each, and its node, link, set, topology or list; 0 for a limit that is one.
    lists
        The tasks of each list of allowed nodes: those of an operator that share one, but a task
        that fits none of its nodes by itself stands alone.
    """

    instance: Instance
    kinds: tuple[Kind, ...]
    kind: Ids
    index: Ids
    lists: tuple[Ids, ...]

    def __len__(self) -> int:
        return len(self.kind)

    def of(self, rule: str, resource: int = NO_RESOURCE) -> Ids:
        """Return the numbers of the rule instances of one sort."""
        kind = Kind(rule, resource)
        if kind not in self.kinds:
            return np.zeros(0, np.int64)
        return np.flatnonzero(self.kind == self.kinds.index(kind))

    @cached_property
    def list_of(self) -> Ids:
        """(T,) number of the rule instance that lists where each task may be; -1 for none."""
        found = np.full(self.instance.num_tasks, -1, np.int64)
        for atom in self.of("allowed").tolist():
            found[self.lists[self.index[atom]]] = atom
        return found

    @cached_property
    def normal(self) -> Atoms:
        """The same rule instances in the units that solvers see (`optim.methods.reduce`)."""
        changed, _ = in_own_units(self.instance)
        return self if changed is self.instance else replace(self, instance=changed)

    @cached_property
    def _scale(self) -> Scale:
        return in_own_units(self.instance)[1]

    def unit_of(self, atom: int) -> float:
        """Return what one unit of a limit in `normal` is in the file's units."""
        rule, r = self.kinds[self.kind[atom]]
        if rule in ("capacity", "min_load", "slot_capacity"):
            return float(self._scale.load[r])
        units = {"links": "rate", "max_load_distance": "resource"}
        units |= {budget.name: "state" for budget in BUDGETS if budget.column}
        return self._scale.of(units[rule]) if rule in units else 1.0

    def rule_of(self, atom: int) -> str:
        """Name the rule of a rule instance."""
        return self.kinds[self.kind[atom]].rule

    def has_no_limit(self, atom: int) -> bool:
        """Whether it is a set that is given up, for want of a limit that could be raised."""
        rule, sets = self.rule_of(atom), self.instance.sets
        together = rule == "sets" and sets.rule[self.index[atom]] == TOGETHER
        return bool(together or rule == "slot_sets")

    def keep(self, kept: Iterable[int]) -> Instance:
        """Return the instance in which only these rule instances hold."""
        mask = np.zeros(len(self), np.bool_)
        mask[list(kept)] = True

        def held(rule: str, resource: int = NO_RESOURCE) -> Ids:
            some = self.of(rule, resource)
            return self.index[some[mask[some]]]

        made = self._loads(held)
        made = self._masks(made, held("allowed"))
        made = replace(
            made,
            sets=made.sets.only(held("sets")),
            slot_sets=made.slot_sets.only(held("slot_sets")),
        )
        for rule in _NUMBERS:
            if not len(held(rule.name)):
                made = rule.dropped(made)
        if not len(held("leaving")):
            return LEAVING.dropped(made)
        # what may only be on leaving nodes is free to be there, whether its list applies or not:
        # with fewer rules nothing else may be forbidden
        vars(made)["has_open_node"] = self.instance.has_open_node
        return made

    def _loads(self, held: Callable[..., Ids]) -> Instance:
        """Bounds of nodes, links and slots."""
        given, nodes = self.instance, self.instance.nodes
        columns: dict[str, Any] = {
            "capacity": np.full_like(nodes.capacity, np.inf),
            "min_load": np.zeros_like(nodes.min_load),
            "slot_capacity": np.full_like(nodes.slot_capacity, np.inf),
        }
        for name, values in columns.items():
            for r in range(given.num_resources):
                some = held(name, r)
                values[some, r] = getattr(nodes, name)[some, r]
        counts = {
            "max_tasks": nodes.max_tasks,
            "max_inflow": most_inflow(given),
            "slots": nodes.slots,
        }
        for name, value in counts.items():
            columns[name] = np.full_like(value, -1)
            some = held(name)
            columns[name][some] = value[some]
        of_topologies = {}
        for name in ("workers", "exclusive_nodes"):
            value, some = getattr(given.topologies, name), held(name)
            of_topologies[name] = np.full_like(value, -1)
            of_topologies[name][some] = value[some]
        capacity = np.full_like(given.links.capacity, np.inf)
        some = held("links")
        capacity[some] = given.links.capacity[some]
        return replace(
            given,
            nodes=replace(nodes, **columns),
            topologies=replace(given.topologies, **of_topologies),
            links=replace(given.links, capacity=capacity),
            limits=replace(given.limits, max_inflow=None),
        )

    def _masks(self, made: Instance, held: Ids) -> Instance:
        """Keep the lists of allowed nodes of some tasks."""
        tasks = made.tasks
        wanted = np.zeros(made.num_tasks, np.bool_)
        for i in held.tolist():
            wanted[self.lists[i]] = True
        rows = wanted[tasks.restricted]
        counts = np.diff(tasks.allowed_indptr)
        entries = np.repeat(rows, counts)
        starts = np.concatenate([[0], np.cumsum(counts[rows])]).astype(np.int32)
        return replace(
            made,
            tasks=replace(
                tasks,
                restricted=tasks.restricted[rows],
                allowed_indptr=starts,
                allowed_indices=tasks.allowed_indices[entries],
            ),
        )


def atoms_of(instance: Instance) -> Atoms:
    """Number the rule instances of an instance; what can never bind is none."""
    lists = _lists(instance)
    nodes = instance.nodes
    found: list[tuple[Kind, Ids]] = []

    def add(kind: Kind, binding: Bools) -> None:
        if binding.any():
            found.append((kind, np.flatnonzero(binding)))

    for r in range(instance.num_resources):
        add(Kind("capacity", r), np.isfinite(nodes.capacity[:, r]))
        add(Kind("min_load", r), (nodes.min_load[:, r] > 0) & instance.open_nodes)
    add(Kind("max_tasks"), nodes.max_tasks >= 0)
    add(Kind("allowed"), np.ones(len(lists), np.bool_))
    add(Kind("sets"), np.ones(len(instance.sets.ids), np.bool_))
    add(Kind("slot_sets"), np.ones(len(instance.slot_sets.ids), np.bool_))
    add(Kind("exclusive_nodes"), instance.topologies.exclusive_nodes >= 0)
    if MAX_INFLOW.present(instance) is not None:
        add(Kind("max_inflow"), most_inflow(instance) < instance.num_tasks)
    add(Kind("links"), np.isfinite(instance.links.capacity))
    if SLOTS.present(instance) is not None or instance.limits.max_tasks_per_slot is not None:
        add(Kind("slots"), nodes.slots >= 0)
        for r in range(instance.num_resources):
            add(Kind("slot_capacity", r), np.isfinite(nodes.slot_capacity[:, r]))
        add(Kind("workers"), instance.topologies.workers >= 0)
    for rule in (*_NUMBERS, LEAVING):
        add(Kind(rule.name), np.array([rule.present(instance) is not None]))
    if LINKS.present(instance) is None:
        found = [entry for entry in found if entry[0].rule != "links"]
    none = [np.zeros(0, np.int64)]
    return Atoms(
        instance,
        tuple(kind for kind, _ in found),
        np.repeat(np.arange(len(found)), [len(some) for _, some in found]).astype(np.int64),
        np.concatenate([*none, *(some for _, some in found)]).astype(np.int64),
        lists,
    )


def _lists(instance: Instance) -> tuple[Ids, ...]:
    """Tasks with the same list of allowed nodes and the same operator; misfits by themselves."""
    from optim.kernels.room import placing_room, restriction_kinds

    kinds, sets = restriction_kinds(instance)
    room, load = placing_room(instance), instance.tasks.load
    made: dict[tuple[int, ...], list[int]] = {}
    for task in instance.tasks.restricted.tolist():
        places = sets[kinds[task] - 1]
        fits = bool((load[task] <= room[places]).all(axis=1).any())
        key = (int(kinds[task]), int(instance.tasks.operator[task]), -1 if fits else task)
        made.setdefault(key, []).append(task)
    return tuple(np.array(tasks, np.int64) for tasks in made.values())
