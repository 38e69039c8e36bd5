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
from optim.methods.reduce import Scale, in_solver_units
from optim.rules import LEAVING, LIMITS, RULES, Form

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Bools
    from optim.rules.base import Limit

    Ids = NDArray[np.int64]


class Kind(NamedTuple):
    """Rule instances of one sort: the rule, and the resource where it is of one."""

    rule: str
    resource: int = -1


_ORDER = (
    (Form.NODE_CAPACITY, Form.NODE_FLOOR),
    (Form.TASK_COUNT,),
    (Form.MASK,),
    (Form.SETS,),
    (Form.SLOT_SETS,),
    (Form.NODE_COUNT,),
    (Form.BUDGET,),
    (Form.INFLOW,),
    (Form.LINK_CAPACITY,),
    (Form.SLOTS,),
)
"""Forms in the order in which their instances are numbered; then numbers, and leaving nodes."""


@dataclass(frozen=True, eq=False)
class Atoms:
    """The rule instances of an instance."""

    instance: Instance  # Whose.
    kinds: tuple[Kind, ...]  # Their sorts.
    #: (A,) sort of each, and its node, link, set, topology or list; 0 for a limit that is one.
    kind: Ids
    index: Ids
    #: The tasks of each list of allowed nodes: those of an operator that share one, but a task that
    #: fits none of its nodes by itself stands alone.
    lists: tuple[Ids, ...]

    def __len__(self) -> int:
        return len(self.kind)

    def of(self, rule: str, resource: int = -1) -> Ids:
        """Return the numbers of the rule instances of one sort."""
        kind = Kind(rule, resource)
        if kind not in self.kinds:
            return np.zeros(0, np.int64)
        return np.flatnonzero(self.kind == self.kinds.index(kind))

    @cached_property
    def list_of(self) -> Ids:
        """(T,) number of the rule instance that lists where each task may be; -1 for none."""
        numbers = np.full(self.instance.num_tasks, -1, np.int64)
        for atom in self.of("allowed").tolist():
            numbers[self.lists[self.index[atom]]] = atom
        return numbers

    @cached_property
    def normal(self) -> Atoms:
        """The same rule instances in the units that solvers see (`optim.methods.reduce`)."""
        changed, _ = in_solver_units(self.instance)
        return self if changed is self.instance else replace(self, instance=changed)

    @cached_property
    def _scale(self) -> Scale:
        return in_solver_units(self.instance)[1]

    def unit_of(self, atom: int) -> float:
        """Return what one unit of a limit in `normal` is in the file's units."""
        rule, r = self.kinds[self.kind[atom]]
        unit = LIMITS[rule].unit if rule in LIMITS else ""
        return float(self._scale.load[r]) if unit == "load" else self._scale.of(unit)

    def rule_of(self, atom: int) -> str:
        """Name the rule of a rule instance."""
        return self.kinds[self.kind[atom]].rule

    def has_no_limit(self, atom: int) -> bool:
        """Whether it is a set that is given up, for want of a limit that could be raised."""
        rule, sets = self.rule_of(atom), self.instance.sets
        together = rule == "sets" and sets.rule[self.index[atom]] == TOGETHER
        return bool(together or rule == "slot_sets")

    def keep(self, subset: Iterable[int]) -> Instance:
        """Return the instance in which only these rule instances hold."""
        mask = np.zeros(len(self), np.bool_)
        mask[list(subset)] = True

        def enforced(rule: str, resource: int = -1) -> Ids:
            some = self.of(rule, resource)
            return self.index[some[mask[some]]]

        part = self._masks(self.instance, enforced("allowed"))
        for limit in LIMITS.values():
            dropped = limit.is_set(self.instance)
            for r in resources_of(limit, self.instance):
                dropped[cells_of(enforced(limit.name, r), r)] = False
            if dropped.any():
                part = limit.written(
                    part, np.where(dropped, limit.unset, limit.value(self.instance))
                )
        if not len(enforced("leaving")):
            return LEAVING.dropped(part)
        # what may only be on leaving nodes is free to be there, whether its list applies or not:
        # with fewer rules nothing else may be forbidden
        vars(part)["has_open_node"] = self.instance.has_open_node
        return part

    def _masks(self, part: Instance, list_ids: Ids) -> Instance:
        """Keep the lists of allowed nodes of some tasks."""
        tasks = part.tasks
        wanted = np.zeros(part.num_tasks, np.bool_)
        for i in list_ids.tolist():
            wanted[self.lists[i]] = True
        rows = wanted[tasks.restricted]
        counts = np.diff(tasks.allowed_indptr)
        entries = np.repeat(rows, counts)
        starts = np.concatenate([[0], np.cumsum(counts[rows])]).astype(np.int32)
        return replace(
            part,
            tasks=replace(
                tasks,
                restricted=tasks.restricted[rows],
                allowed_indptr=starts,
                allowed_indices=tasks.allowed_indices[entries],
            ),
        )


def cells_of(index: Any, r: int) -> Any:
    """Return where entries have their values; of a resource where these are of one each."""
    return index if r < 0 else (index, r)


def resources_of(limit: Limit, instance: Instance) -> range:
    """Return the resources of which a limit has values; -1 where it has one value an entry."""
    return range(instance.num_resources) if limit.value(instance).ndim > 1 else range(-1, 0)


def atoms_of(instance: Instance) -> Atoms:
    """Number the rule instances of an instance; what can never bind is none."""
    lists = _lists(instance)
    binding_kinds: list[tuple[Kind, Ids]] = []

    def add(kind: Kind, binding: Bools) -> None:
        if binding.any():
            binding_kinds.append((kind, np.flatnonzero(binding)))

    for forms in _ORDER:
        some = [rule for rule in RULES if rule.form in forms and rule.present(instance) is not None]
        if Form.MASK in forms:
            add(Kind("allowed"), np.ones(len(lists), np.bool_))
        entries = [
            (r, limit)
            for limit in (limit for rule in some for limit in rule.limits)
            if limit.table != "limits"
            for r in resources_of(limit, instance)
        ]
        if len(forms) > 1:
            # by resource: capacity and least load of one stand together
            entries.sort(key=lambda entry: entry[0])
        for r, limit in entries:
            is_set = limit.is_set(instance)
            add(Kind(limit.name, r), is_set if r < 0 else is_set[:, r])
    for name, limit in LIMITS.items():
        if limit.table == "limits":
            add(Kind(name), limit.is_set(instance))
    add(Kind("leaving"), np.array([LEAVING.present(instance) is not None]))
    none = [np.zeros(0, np.int64)]
    return Atoms(
        instance,
        tuple(kind for kind, _ in binding_kinds),
        np.repeat(np.arange(len(binding_kinds)), [len(some) for _, some in binding_kinds]).astype(
            np.int64
        ),
        np.concatenate([*none, *(some for _, some in binding_kinds)]).astype(np.int64),
        lists,
    )


def _lists(instance: Instance) -> tuple[Ids, ...]:
    """Tasks with the same list of allowed nodes and the same operator; misfits by themselves."""
    from optim.kernels.place_rules import placing_room, restriction_kinds

    kinds, sets = restriction_kinds(instance)
    room, load = placing_room(instance), instance.tasks.load
    by_key: dict[tuple[int, ...], list[int]] = {}
    for task in instance.tasks.restricted.tolist():
        places = sets[kinds[task] - 1]
        fits = bool((load[task] <= room[places]).all(axis=1).any())
        # a task that fits none of its nodes clashes by itself, not with its operator
        key = (int(kinds[task]), int(instance.tasks.operator[task]), -1 if fits else task)
        by_key.setdefault(key, []).append(task)
    return tuple(np.array(tasks, np.int64) for tasks in by_key.values())
