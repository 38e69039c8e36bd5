"""What would help: one limit of a conflict raised, or nodes added, each checked by a placement."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.conflicts.atoms import atoms_of
from formulations.conflicts.decide import Judge
from formulations.conflicts.relax import least_raise, raised
from optim.format.altered import Change, altered

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from formulations.conflicts.atoms import Atoms
    from formulations.conflicts.telling import Clash
    from optim.format.instance import Instance

    Ids = NDArray[np.int64]

_MORE = (1.0, 1.02, 1.1, 1.3)
"""Whole tasks may need more than sums do: the least raise times these is tried."""
_SHARED = frozenset({"capacity", "max_tasks", "slots", "slot_capacity", "max_inflow"})
_CHECK = 10.0
_ADDED = (1, 2, 4)


@dataclass(frozen=True)
class Remedy:
    """A change after which there is a plan.

    Attributes
    ----------
    rule, where
        Whose limit is raised (or lowered, where it is a least one).
    by, to
        By how much in all, and what it then is; `to` is ``None`` where the rule is given up for the
        tasks, nodes or set that it is of.
    share
        `by` as a share of what it was.
    enough
        Whether a plan was found once that alone is changed; else other conflicts are left.
    """

    rule: str
    where: str
    by: float
    to: float | None
    share: float
    enough: bool

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return dict(vars(self))


def remedies(
    atoms: Atoms, core: Ids, clashes: Sequence[Clash], seconds: float, *, alone: bool
) -> list[tuple[Remedy, dict[int, float]]]:
    """Return what helps against one conflict, the smallest change first, each with its raises.

    Parameters
    ----------
    core, clashes
        The conflict, and how it is told: one entry a sort of rule.
    seconds
        For all checks.
    alone
        Whether there is no other conflict.
    """
    found = []
    judge = Judge(atoms, seconds)
    kinds = np.unique(atoms.kind[core]).tolist()
    for kind, clash in zip(kinds, clashes, strict=True):
        some = core[atoms.kind[core] == kind]
        by = least_raise(atoms, core, dict.fromkeys(some.tolist(), 1.0), min(2.0, judge.left()))
        if not by:
            continue
        for more in _MORE:
            changes = _spread(atoms, some, by, clash, more)
            if judge.left() <= 0:
                break
            if _checked(atoms, changes, core, judge.left(), alone=alone):
                found.append((_told(atoms, clash, changes, enough=alone), changes))
                break
    found.sort(key=lambda entry: entry[0].share)
    added = _nodes_added(atoms, core, judge.left()) if alone else None
    return found if added is None else [*found, (added, {})]


def _nodes_added(atoms: Atoms, core: Ids, seconds: float) -> Remedy | None:
    """Return how many nodes like the largest of a conflict over room are enough, if that is few."""
    some = [a for a in core.tolist() if atoms.rule_of(a) in _SHARED - {"max_inflow"}]
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


def _spread(
    atoms: Atoms, some: Ids, by: Mapping[int, float], clash: Clash, more: float
) -> dict[int, float]:
    """Share a raise out over the nodes of a rule, in parts of what each has."""
    total = sum(by.values()) * more
    rule = atoms.rule_of(int(some[0]))
    if rule not in _SHARED or len(some) == 1 or clash.available <= 0:
        return {atom: amount * more for atom, amount in by.items()}
    r = atoms.kinds[atoms.kind[some[0]]].resource
    values = np.asarray(getattr(atoms.instance.nodes, rule), float)
    own = values[atoms.index[some], r] if r >= 0 else values[atoms.index[some]]
    own = np.maximum(own, 0.0)
    part = own / own.sum() if own.sum() > 0 else np.full(len(own), 1 / len(own))
    return dict(zip(some.tolist(), (total * part).tolist(), strict=True))


def _checked(
    atoms: Atoms, changes: Mapping[int, float], core: Ids, seconds: float, *, alone: bool
) -> bool:
    """Whether a placement keeps all rules, or those of the conflict, once limits are raised."""
    changed = atoms_of(raised(atoms, changes))
    kept = np.arange(len(changed)) if alone else _same(atoms, changed, core)
    return Judge(changed, min(_CHECK, seconds)).ask(kept).feasible is True


def _same(atoms: Atoms, changed: Atoms, core: Ids) -> Ids:
    """Find the rule instances of a conflict in the changed instance."""
    found = []
    for atom in core.tolist():
        kind = atoms.kinds[atoms.kind[atom]]
        some = changed.of(*kind)
        found.append(some[changed.index[some] == atoms.index[atom]])
    return np.concatenate(found)


def _told(atoms: Atoms, clash: Clash, changes: Mapping[int, float], *, enough: bool) -> Remedy:
    by = sum(changes.values())
    given_up = clash.rule in ("allowed", "leaving") or any(map(atoms.is_together, changes))
    if given_up:
        share = by / max(1, atoms.instance.num_tasks)
        return Remedy(clash.rule, clash.where, by, None, share, enough)
    down = clash.rule in ("min_load", "workers")
    was = clash.available if not down else clash.needed or 0.0
    if clash.rule == "sets":
        was = float(atoms.instance.sets.limit[atoms.index[next(iter(changes))]])
        down = atoms.instance.sets.rule[atoms.index[next(iter(changes))]] == 2
    to = was - by if down else was + by
    return Remedy(clash.rule, clash.where, -by if down else by, to, by / max(was, 1e-12), enough)


def feasible(instance: Instance, seconds: float) -> bool | None:
    """Whether an instance has a plan; ``None`` where that was not decided in time."""
    atoms = atoms_of(instance)
    return Judge(atoms, seconds).ask(np.arange(len(atoms))).feasible
