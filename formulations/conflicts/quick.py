"""Conflicts that need no model: links that pinned tasks overload, sets that fit no node."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optim.format.tables import TOGETHER
from optim.kernels.room import placing_masks
from optim.rules.capacity import proof_slack

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.conflicts.atoms import Atoms
    from optim.format.instance import Instance

    Ids = NDArray[np.int64]


def forced_across(atoms: Atoms, instance: Instance, kept: Ids) -> Ids | None:
    """Find a link that pinned tasks alone overload: its rule instance and their lists."""
    held = np.intersect1d(kept, atoms.of("links"))
    if not len(held):
        return None
    links = instance.links
    kinds, allowed, _ = placing_masks(instance)
    source, target, rate = instance.flows.directed()
    for atom in held.tolist():
        i = int(atoms.index[atom])
        inside = np.zeros(instance.num_nodes, np.bool_)
        inside[links.node_indices[links.node_indptr[i] : links.node_indptr[i + 1]]] = True
        held_in = ~np.any(allowed & ~inside, axis=1)[kinds]
        held_out = ~np.any(allowed & inside, axis=1)[kinds]
        out, into = held_in[source] & held_out[target], held_out[source] & held_in[target]
        counts = (out & (links.direction[i] != 2)) | (into & (links.direction[i] != 1))
        bound = links.capacity[i] * instance.limits.max_link_utilisation
        most = bound + 2 * proof_slack(bound)
        if links.background[i] + rate[counts].sum() > most:
            lists = atoms.list_of[np.concatenate([source[counts], target[counts]])]
            lists = np.intersect1d(lists, kept)
            return np.union1d(lists, [atom])
    return None


def no_place_together(atoms: Atoms, instance: Instance, kept: Ids) -> Ids | None:
    """Find a set that no node may have, or holds, together: its rule instance, and why of each."""
    sets = np.intersect1d(kept, atoms.of("sets"))
    if not len(sets):
        return None
    kinds, by_kind, _ = placing_masks(instance)
    for number, atom in enumerate(sets.tolist()):
        if instance.sets.rule[number] != TOGETHER or instance.sets.by_rack[number]:
            continue
        tasks = instance.sets.tasks_of(number)
        why = np.full(instance.num_nodes, -1, np.int64)
        for rule, r, room in _rooms(atoms, instance):
            own = np.intersect1d(kept, atoms.of(rule, r))
            at = atoms.index[own]
            load = instance.tasks.load[tasks, r].sum() if r >= 0 else float(len(tasks))
            why[at] = np.where(load > room[at], own, why[at])
        for task in tasks.tolist():
            why[~by_kind[kinds[task]]] = atoms.list_of[task]
        if (why >= 0).all():
            return np.union1d(why, [atom])
    return None


def _rooms(atoms: Atoms, instance: Instance) -> list[tuple[str, int, NDArray[np.float64]]]:
    """Return what each node holds at most, by rule."""
    nodes = instance.nodes
    bound = nodes.capacity * instance.limits.max_utilisation
    room = bound + 2 * proof_slack(bound) - nodes.background
    found = [("capacity", r, room[:, r]) for r in range(instance.num_resources)]
    return [("max_tasks", -1, nodes.max_tasks.astype(np.float64) + 0.5), *found]
