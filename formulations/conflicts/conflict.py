"""Conflicts in words and figures: rule instances of one sort together, where, needed, available."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.conflicts.excess import is_whole, least_raise
from formulations.conflicts.rule_instances import cells_of
from optim.figures.measures import TOLERANCE
from optim.format.tables import APART, TOGETHER
from optim.rules import LIMITS, fewest_nodes
from optim.rules.capacity import ROUNDING
from optim.rules.sets import places_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.conflicts.rule_instances import Atoms
    from optim.format.instance import Instance
    from optim.rules.budget import NodeCount

    Ids = NDArray[np.int64]


_NAMED = 3
_SECONDS = 2.0
_ROUGH = 1e-6  # Of room: what a task that just fits may be above it.
_COUNTED = 2_000  # Tasks up to which it is said why whole ones do not fit.


@dataclass(frozen=True)
class Clash:
    """Rule instances of one sort in a conflict."""

    #: What they are; the resource where they are of one.
    rule: str
    where: str
    resource: str | None
    #: Least that the other rules of the conflict ask of these, and what they give, in the units of
    #: the file; `needed` is ``None`` where it was not found in time.
    needed: float | None
    available: float
    ids: tuple[str, ...]  # The nodes, links, sets, topologies or tasks they are of.
    remark: str = ""  # Why what is there does not do; may be empty.

    @property
    def place(self) -> str:
        """Where, with the remark in parentheses."""
        return f"{self.where} ({self.remark})" if self.remark else self.where

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {**vars(self), "ids": list(self.ids)}


def clashes_of(atoms: Atoms, core: Ids, seconds: float = _SECONDS) -> list[Clash]:
    """Report a conflict, one entry a sort of rule."""
    clashes = []
    few = fewest_nodes(atoms.keep(core.tolist()))
    for kind in np.unique(atoms.kind[core]).tolist():
        some = core[atoms.kind[core] == kind]
        by = least_raise(atoms, core, dict.fromkeys(some.tolist(), 1.0), seconds)
        missing = None if by is None else sum(by.values())
        clash = _clash(atoms, some, missing, few)
        if len(some) == len(core) == atoms.instance.num_nodes > 1 and clash.rule == "capacity":
            whole = _whole_tasks(atoms, some)
            clash = replace(clash, remark="; ".join(filter(None, (clash.remark, whole))))
        clashes.append(clash)
    return clashes


def _whole_tasks(atoms: Atoms, some: Ids) -> str:
    """Say why tasks do not fit into capacities of all nodes that are as large as they together.

    Of the j largest tasks, node n takes at most k_n, as many of their smallest as fit: Σ_n k_n < j
    is a proof. The largest j is named.
    """
    instance, r = atoms.instance, atoms.kinds[atoms.kind[some[0]]].resource
    if instance.num_tasks > _COUNTED:
        return ""
    load, room = np.sort(instance.tasks.load[:, r]), instance.headroom[:, r]
    if load.sum() > room.sum() * (1 + TOLERANCE):
        return ""
    for j in range(len(load), 0, -1):
        most = np.searchsorted(np.cumsum(load[len(load) - j :]), room * (1 + _ROUGH), side="right")
        if most.sum() < j:
            tasks = f"{j} tasks" if j == len(load) else f"the {j} largest tasks"
            equal = most.min() == most.max()
            taken = f"{most.max()} a node" if equal else f"{most.sum()} on these nodes"
            return f"{tasks}, at most {taken}"
    if instance.crossing_cost.any():  # traffic between nodes may be what takes the room
        return ""
    return "all load is no more than that, but whole tasks leave room unused"


def _clash(atoms: Atoms, some: Ids, missing: float | None, few: NodeCount | None) -> Clash:
    """State a sort; what nodes hold is what those hold that have most, where `few` may be used."""
    instance = atoms.instance
    rule, r = atoms.kinds[atoms.kind[some[0]]]
    index = atoms.index[some]
    resource = None if r < 0 else instance.resources[r]
    (where, ids), remark = place_of(atoms, some), ""
    amount = available(instance, rule, r, index)
    if few is not None and rule in ("capacity", "max_tasks", "slots") and few.limit < len(index):
        each = [available(instance, rule, r, index[[k]]) for k in range(len(index))]
        amount = sum(sorted(each)[len(each) - few.limit :])
        where = f"{few.limit} nodes" + ("" if resource is None else f".{resource}")
        remark = few.rule
    if missing is not None and not is_whole(rule) and amount > 0:
        # the rows of the model are wider than the limits by the referee's tolerance
        missing = float(f"{missing + TOLERANCE * (1 + ROUNDING) * amount:.7g}")
    if rule == "sets":
        return _set(instance, index, missing, where, ids)
    if rule == "slot_sets":
        return Clash(rule, where, None, float(len(index)), float(len(index)) - 1, ids)
    if is_least(instance, rule):
        return Clash(rule, where, resource, amount, amount - (missing or 0.0), ids)
    needed = None if missing is None else amount + missing
    return Clash(rule, where, resource, needed, amount, ids, remark)


def _set(
    instance: Instance, index: Ids, missing: float | None, where: str, ids: tuple[str, ...]
) -> Clash:
    """Apart: members and how many of them find a place; spread: places; together: places used."""
    i, table = int(index[0]), instance.sets
    limit = float(table.limit[i])
    if (table.rule[index] == APART).all():
        members = float(sum(len(table.tasks_of(k)) for k in index.tolist()))
        most = float(sum(_most_placed(instance, k) for k in index.tolist()))
        return Clash("sets", where, None, members, min(most, members - (missing or 1.0)), ids)
    if len(index) > 1:
        return Clash("sets", where, None, float(len(index)), float(len(index)) - 1, ids)
    if table.rule[i] == TOGETHER:
        return Clash("sets", where, None, 2.0, 1.0, ids)
    return Clash("sets", where, None, limit, limit - (missing or 0.0), ids)


def _most_placed(instance: Instance, i: int) -> int:
    """Return how many members of a set that is to be apart staying nodes, or racks, can hold."""
    places = np.unique(places_of(instance, i)[instance.open_nodes])
    return min(len(instance.sets.tasks_of(i)), len(places) * int(instance.sets.limit[i]))


def is_least(instance: Instance, rule: str) -> bool:
    """Whether all limits of a sort are least ones, which help when they are lowered."""
    return rule in LIMITS and bool((LIMITS[rule].sign(instance) < 0).all())


def available(instance: Instance, rule: str, r: int, index: Ids) -> float:
    """Return what limits of one sort give together."""
    if rule not in LIMITS:
        return 0.0
    limit = LIMITS[rule]
    limits = limit.value(instance) * limit.share(instance)
    return float(limits[cells_of(index, r)].sum())


def place_of(atoms: Atoms, some: Ids) -> tuple[str, tuple[str, ...]]:
    """Name the place of rule instances of one sort, and list what they are of."""
    instance, index = atoms.instance, atoms.index[some]
    rule, r = atoms.kinds[atoms.kind[some[0]]]
    resource = None if r < 0 else instance.resources[r]
    if rule == "allowed":
        return _lists(atoms, index)
    if rule == "leaving":
        ids = tuple(instance.nodes.ids[n] for n in np.flatnonzero(instance.nodes.leaving))
        return _listed(ids, "nodes"), ids
    table = LIMITS[rule].table
    if table == "limits":
        return "limits", ()
    ids = tuple(getattr(instance, table).ids[i] for i in index)
    if table != "nodes":
        return _listed(ids, table.removeprefix("slot_")), ids
    place = places(instance, index)
    return place if resource is None else f"{place}.{resource}", ids


def places(instance: Instance, index: Ids) -> str:
    """Name some nodes: all, a rack, or by their ids."""
    if len(index) == 1:
        return instance.nodes.ids[index[0]]
    if len(index) == instance.num_nodes:
        return "all nodes"
    racks = np.unique(instance.nodes.rack[index])
    if (racks >= 0).all() and np.isin(instance.nodes.rack, racks).sum() == len(index):
        return _listed([f"rack {instance.nodes.rack_ids[k]}" for k in racks], "racks")
    return _listed([instance.nodes.ids[n] for n in index], "nodes")


def _lists(atoms: Atoms, index: Ids) -> tuple[str, tuple[str, ...]]:
    instance = atoms.instance
    tasks = np.concatenate([atoms.lists[i] for i in index])
    ids = tuple(instance.tasks.ids[t] for t in tasks)
    nodes = np.zeros(instance.num_nodes, np.bool_)
    for i in index:
        nodes |= instance.allowed_mask(int(atoms.lists[i][0]))
    shut, place = np.flatnonzero(~nodes), places(instance, np.flatnonzero(nodes))
    if 0 < len(shut) <= min(_NAMED, nodes.sum()):  # the few nodes that are excluded say more
        leaving = " (leaving)" if instance.nodes.leaving[shut].all() else ""
        place = f"all nodes but {places(instance, shut)}{leaving}"
    return f"{_listed(ids, 'tasks')} on {place}", ids


def _listed(names: Any, noun: str) -> str:
    if len(names) <= _NAMED:
        return ", ".join(names)
    return f"{', '.join(names[:_NAMED])}, … ({len(names)} {noun})"
