"""What would help: one limit of a conflict raised, or nodes added, each checked by a placement."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from formulations.conflicts.conflict import Clash, available, clashes_of, is_least, place_of, places
from formulations.conflicts.decide import Judge, conflicts
from formulations.conflicts.excess import is_whole, least_raise, raised
from formulations.conflicts.rule_instances import atoms_of
from optim.figures.measures import least_tasks
from optim.format.changes import Change, altered
from optim.format.parallelism import bounds_of
from optim.format.tables import SPREAD
from optim.rules import LIMITS, rules_of
from optim.rules.base import OF_MOVES, Violation, never
from optim.rules.budget import most_inflow
from optim.rules.capacity import above

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from formulations.conflicts.rule_instances import Atoms
    from optim.format.instance import Instance

    Ids = NDArray[np.int64]


_MORE = (1.02, 1.1, 1.3)
"""Where the least raise of all rules is not known or not enough: the conflict's times these."""
_SHARED = frozenset(
    limit.name for limit in LIMITS.values() if limit.table == "nodes" and limit.least is never
)
"""Of nodes: what is missing is added to them in proportion to what they have."""
_CHECK = 10.0
_DIGITS, _NOISE = 3, 1e-7
_ADDED = (1, 2, 4)


@dataclass(frozen=True)
class Remedy:
    """A change after which there is a plan."""

    #: Whose limit is raised (or lowered, where it is a least one).
    rule: str
    where: str
    #: By how much, and what it then is, as the field stands in the file; of several nodes in all,
    #: each in proportion to what it has, of several sets each. `to` is ``None`` where the rule is
    #: given up for the tasks, nodes or set that it is of.
    by: float
    to: float | None
    share: float | None  # `by` as a share of what it was; ``None`` where that was 0.
    #: Whether a plan was found once that alone is changed; else other conflicts are left.
    enough: bool

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return dict(vars(self))


def remedies(
    atoms: Atoms, core: Ids, clashes: Sequence[Clash], seconds: float, *, alone: bool
) -> list[tuple[Remedy, dict[int, float]]]:
    """Return what helps against one conflict, the smallest change first, each with its raises.

    `core`, `clashes`: the conflict, and its text: one entry a sort of rule.
    `seconds`: for all checks.
    `alone`: whether there is no other conflict.
    """
    ranked = []
    judge = Judge(atoms, seconds)
    kinds = np.unique(atoms.kind[core]).tolist()
    for kind, clash in zip(kinds, clashes, strict=True):
        some = core[atoms.kind[core] == kind]
        for changes in _trials(atoms, core, some, judge, alone=alone):
            if judge.left() <= 0:
                break
            if _checked(atoms, changes, core, judge.left(), alone=alone):
                ranked.append((_remedy(atoms, clash, changes, enough=alone), changes))
                break
    ranked.sort(key=lambda entry: math.inf if entry[0].share is None else entry[0].share)
    added = _nodes_added(atoms, core, judge.left()) if alone else None
    return ranked if added is None else [*ranked, (added, {})]


def _trials(
    atoms: Atoms, core: Ids, some: Ids, judge: Judge, *, alone: bool
) -> Iterator[dict[int, float]]:
    """Yield raises of one sort of rule to try: the least of the conflict, of all rules, then more.

    Whole tasks, and rules outside the conflict, may need far more than the conflict's own sums.
    """
    weight = dict.fromkeys(some.tolist(), 1.0)
    by = least_raise(atoms, core, weight, min(2.0, judge.left()))
    if not by:
        return
    if first := _changes(atoms, some, by, 1.0):
        yield first
    if alone and judge.left() > 0:
        every = np.arange(len(atoms))
        least = least_raise(atoms, every, weight, min(2.0, judge.left())) or {}
        if least and (changes := _changes(atoms, np.array(sorted(least)), least, 1.0)):
            yield changes
    for more in _MORE:
        if changes := _changes(atoms, some, by, more):
            yield changes


def _nodes_added(atoms: Atoms, core: Ids, seconds: float) -> Remedy | None:
    """Return how many nodes like the largest of a conflict over room are enough, if that is few."""
    some = [a for a in core.tolist() if atoms.rule_of(a) in _SHARED - rules_of(OF_MOVES)]
    if not some or seconds <= 0:
        return None
    instance, ends = atoms.instance, time.perf_counter() + seconds
    room = np.where(np.isfinite(instance.nodes.capacity), instance.nodes.capacity, 0.0)
    like = max((int(atoms.index[a]) for a in some), key=lambda n: (*room[n].tolist(), -n))
    name = instance.nodes.ids[like]
    for count in _ADDED:
        changed = atoms_of(altered(instance, [Change("add-node", name, count)]))
        left = min(_CHECK, ends - time.perf_counter())
        if left > 0 and Judge(changed, left).ask(np.arange(len(changed))).feasible:
            size = ", ".join(
                f"{resource} {capacity:g}"
                for resource, capacity in zip(instance.resources, room[like], strict=True)
                if capacity
            )
            where = f"a node like {name} ({size})" if size else f"a node like {name}"
            return Remedy("nodes", where, count, None, count / instance.num_nodes, True)
    return None


def _changes(atoms: Atoms, some: Ids, by: Mapping[int, float], more: float) -> dict[int, float]:
    """Return by how much each field of the file is raised: numbers as they are printed."""
    rule, r = atoms.kinds[atoms.kind[some[0]]]
    if rule in ("sets", "slot_sets"):
        return _to_one_limit(atoms, some, by, more)
    by = {atom: amount / _used_share(atoms, rule, r) for atom, amount in by.items()}
    step = 1.0 if is_whole(rule) else _each(atoms.instance, r)
    total = rounded_up(sum(by.values()) * more, step)
    if rule not in _SHARED or len(some) == 1:
        raises = {atom: rounded_up(amount * more, step) for atom, amount in by.items()}
        if is_least(atoms.instance, rule):  # what rounding adds must not take it below 0
            raises = {atom: min(up, _limits(atoms, [atom], r)[0]) for atom, up in raises.items()}
        return raises
    current = _limits(atoms, some, r)
    current = np.where(np.isfinite(current), np.maximum(current, 0.0), 0.0)
    part = total * (
        current / current.sum() if current.sum() > 0 else np.full(len(current), 1 / len(current))
    )
    if step is not None:
        # rounding the cumulated sums gives whole steps that still add up to the total
        part = step * np.diff(np.round(np.cumsum(part / step)), prepend=0.0)
    return {atom: up for atom, up in zip(some.tolist(), part.tolist(), strict=True) if up > 0}


def _limits(atoms: Atoms, some: Ids | list[int], r: int) -> NDArray[np.float64]:
    """Return the limits of rule instances of one sort, as the file has them."""
    rule = atoms.kinds[atoms.kind[some[0]]].rule
    values = np.asarray(LIMITS[rule].value(atoms.instance), float)[atoms.index[some]]
    return values[:, r] if r >= 0 else values


def _to_one_limit(
    atoms: Atoms, some: Ids, by: Mapping[int, float], more: float
) -> dict[int, float]:
    """Raise (or lower, where it is a least one) the limits of sets to one and the same."""
    if any(map(atoms.has_no_limit, some.tolist())):
        return dict(by)
    table, up = atoms.instance.sets, rounded_up(max(by.values()) * more, 1.0)
    limit = table.limit[atoms.index[some]].astype(float)
    if table.rule[atoms.index[some[0]]] == SPREAD:
        raises = limit - max(1.0, limit.min() - up)
    else:
        raises = limit.max() + up - limit
    return {atom: by for atom, by in zip(some.tolist(), raises.tolist(), strict=True) if by > 0}


def _used_share(atoms: Atoms, rule: str, r: int) -> float:
    """Return the share of a limit in the file that may be used."""
    share = np.asarray(LIMITS[rule].share(atoms.instance) if rule in LIMITS else 1.0)
    return float(share[r] if share.ndim else share)


def _each(instance: Instance, r: int) -> float | None:
    """Return what each task takes of a resource that comes in such pieces, as slots do."""
    load = instance.tasks.load[:, r] if r >= 0 else np.zeros(0)
    amounts = np.unique(load[load > 0])
    if len(amounts) != 1:
        return None
    pieces = instance.nodes.capacity[:, r] / amounts[0]
    pieces = pieces[np.isfinite(pieces)]
    return float(amounts[0]) if (pieces == np.round(pieces)).all() else None


def rounded_up(amount: float, step: float | None = None) -> float:
    """Round a raise up to what is printed of it: a number of steps, or three significant digits.

    So the limit that is reported is the limit that was checked.

    >>> rounded_up(1.02, 1.0), rounded_up(2.0000000001, 1.0)
    (2.0, 2.0)
    >>> rounded_up(1.2341), rounded_up(6e9), rounded_up(0.0)
    (1.24, 6000000000.0, 0.0)
    """
    if amount <= 0:
        return 0.0
    if step is not None:
        return step * math.ceil(amount / step * (1 - _NOISE))
    exponent = math.floor(math.log10(amount)) - (_DIGITS - 1)
    return float(f"{math.ceil(amount / 10.0**exponent * (1 - _NOISE))}e{exponent}")


def _checked(
    atoms: Atoms, changes: Mapping[int, float], core: Ids, seconds: float, *, alone: bool
) -> bool:
    """Whether a placement keeps all rules, or those of the conflict, once limits are raised."""
    changed = atoms_of(raised(atoms, changes))
    subset = np.arange(len(changed)) if alone else _same(atoms, changed, core)
    return Judge(changed, min(_CHECK, seconds)).ask(subset).feasible is True


def _same(atoms: Atoms, changed: Atoms, core: Ids) -> Ids:
    """Find the rule instances of a conflict in the changed instance."""
    counterparts = []
    for atom in core.tolist():
        kind = atoms.kinds[atoms.kind[atom]]
        some = changed.of(*kind)
        counterparts.append(some[changed.index[some] == atoms.index[atom]])
    return np.concatenate(counterparts)


def _remedy(atoms: Atoms, clash: Clash, changes: Mapping[int, float], *, enough: bool) -> Remedy:
    by, rule = sum(changes.values()), clash.rule
    changed = np.array(sorted(changes), np.int64)
    where, _ = place_of(atoms, changed)
    if rule in ("allowed", "leaving") or any(map(atoms.has_no_limit, changes)):
        share = by / max(1, atoms.instance.num_tasks)
        return Remedy(rule, where, by, None, share, enough)
    kind, index = atoms.kinds[atoms.kind[changed[0]]], atoms.index[changed]
    if (most := atoms.instance.limits.max_inflow) is not None and rule == "max_inflow":
        nodes, up = atoms.instance.nodes, np.array([changes[atom] for atom in changed.tolist()])
        to = most_inflow(atoms.instance)[index] + up
        if (highest := float(to.max())) > most:  # the number of all nodes binds beside a node's own
            node_limits = nodes.max_inflow[index]
            below = index[(node_limits >= 0) & (node_limits < to)]
            where = ", ".join(["limits", *([places(atoms.instance, below)] if len(below) else [])])
            by = highest - most
            return Remedy(rule, where, by, highest, by / most if most else None, enough)
    if rule == "sets":
        limit, down = atoms.instance.sets.limit[index], atoms.instance.sets.rule[index[0]] == SPREAD
        was, by = float(limit.max() if down else limit.min()), max(changes.values())
    else:
        was = available(atoms.instance, kind.rule, kind.resource, index)
        was /= _used_share(atoms, kind.rule, kind.resource)
        down = is_least(atoms.instance, rule)
    to = was - by if down else was + by
    return Remedy(rule, where, -by if down else by, to, by / was if was > 0 else None, enough)


def feasible(instance: Instance, seconds: float) -> bool | None:
    """Whether an instance has a plan; ``None`` where that was not decided in time."""
    atoms = atoms_of(instance)
    return Judge(atoms, seconds).ask(np.arange(len(atoms))).feasible


# Tasks above what one task can use (``max_load``): a conflict each, whatever the placement.


def clashes_of_threads(instance: Instance) -> list[tuple[Clash, Remedy]]:
    """Return the task of each operator that is most above, and the parallelism that would do.

    No plan is made with so many tasks: `Remedy.enough` is false.
    """
    clashes = []
    for t, r in above(instance):
        resource, load = instance.resources[r], float(instance.tasks.load[t, r])
        name, most = instance.tasks.ids[t], float(instance.tasks.max_load[t, r])
        operator, (count, least) = int(instance.tasks.operator[t]), least_tasks(instance, t, r)
        clash = Clash("max_load", f"{name}.{resource}", resource, load, most, (name,))
        where = name if operator < 0 else instance.operators.ids[operator]
        if least is None or least <= count:  # its load is to be spread, or it may have none
            remedy = Remedy("max_load", clash.where, load - most, load, None, enough=False)
        else:
            more, bound = least - count, bounds_of(instance, operator)[1]
            share = more / count
            if bound is not None and least > bound:
                where = f"{where} (above its max_parallelism of {bound})"
            remedy = Remedy("parallelism", where, more, least, share, enough=False)
        clashes.append((clash, remedy))
    return clashes


# Why an instance has no plan: the rules that clash, found in a time that is given.


_DECIDING, _FIGURES = 0.6, 0.25
"""Shares of the time for deciding whether there is a plan, and for the figures of a conflict."""
_MOST_FIGURES = 2.0


class Why(NamedTuple):
    """Whether there is a plan, and the conflicts, as numbers of rules and as text."""

    judge: Judge  # What decided it.
    feasible: bool | None  # ``None`` where that was not decided in time.
    #: Minimal sets of rule instances that cannot hold together, no two of which share one.
    cores: list[Ids]
    clashes: list[tuple[Clash, ...]]  # The same, one entry a sort of rule, with figures.


def find_conflicts(instance: Instance, seconds: float) -> Why:
    """Decide whether an instance has a plan, and find the rules that clash where it has none."""
    judge = Judge(atoms_of(instance), _DECIDING * seconds)
    feasible, cores = conflicts(judge)
    limit = min(_MOST_FIGURES, _FIGURES * seconds)
    return Why(
        judge, feasible, cores, [tuple(clashes_of(judge.atoms, core, limit)) for core in cores]
    )


def reasons(instance: Instance, seconds: float) -> tuple[Violation, ...]:
    """Return the rules that clash, with what the others need of each and what it gives.

    Nothing where there is a plan, or where they were not found in time.
    """
    if threads := clashes_of_threads(instance):
        return tuple(violation_of(clash) for clash, _ in threads)
    clashes = find_conflicts(instance, seconds).clashes
    return tuple(violation_of(clash) for rules in clashes for clash in rules)


def violation_of(clash: Clash) -> Violation:
    """Return a rule of a conflict as a reason: what the others need of it, and what it gives."""
    needed, remark = clash.needed, clash.remark
    if needed is None:
        needed, remark = clash.available, "how much more was not found in time"
    amount = needed - clash.available
    return Violation(clash.rule, clash.where, amount, needed, clash.available, remark)
