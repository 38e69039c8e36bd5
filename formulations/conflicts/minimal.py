"""Rule instances that clash, reduced until each is needed: a deletion filter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.conflicts.decide import Judge
    from optim.format.tables import Ints

    Ids = NDArray[np.int64]

_ON_NODES = frozenset({"capacity", "max_tasks", "min_load", "max_inflow", "slots", "slot_capacity"})
_PARTS = (1, 2, 4)
_MOST = 8


def conflicts(judge: Judge) -> tuple[bool | None, list[Ids]]:
    """Find rule instances that cannot hold together.

    Returns
    -------
    tuple
        Whether all rule instances can hold together, ``None`` where that was not decided in time;
        and sets of them that cannot, no two of which share one. Each set is proved to clash, and of
        each of its members it was shown by a placement that without it the others do not.
    """
    found: list[Ids] = []
    rest = np.arange(len(judge.atoms))
    verdict: bool | None = None
    while len(found) < _MOST:
        answer = judge.ask(rest)
        if not found:
            verdict = answer.feasible
        if answer.feasible is not False or answer.core is None:
            break
        core = minimal(judge, answer.core, searched=len(answer.core) == len(rest))
        if core is None:
            break
        found.append(core)
        rest = np.setdiff1d(rest, core)
    return verdict, found


def minimal(judge: Judge, core: Ids, *, searched: bool = True) -> Ids | None:
    """Return a minimal part of rule instances that clash; ``None`` where time was up first.

    Parameters
    ----------
    searched
        Whether the proof names no part of what was asked: then halves and quarters are left out
        first.
    """
    answer = judge.ask(core)
    if answer.feasible is not False:
        return None
    assert answer.core is not None
    core = answer.core
    for parts in _PARTS if searched else _PARTS[:1]:
        core = _without_parts(judge, core, parts)
    needed: dict[int, Ints] = {}
    while True:
        waiting = [a for a in core.tolist() if a not in needed]
        if not waiting:
            return core
        atom = waiting[0]
        rest = core[core != atom]
        node = _exchanged(judge, rest, atom, needed)
        if node is None:
            answer = judge.ask(rest)
            if answer.feasible is None:
                return None
            if answer.feasible is False:
                assert answer.core is not None
                core = answer.core
                continue
            node = answer.node
        assert node is not None
        needed[atom] = node


def _without_parts(judge: Judge, core: Ids, parts: int) -> Ids:
    """Leave out whole sorts, then halves and quarters of them, where the rest clashes as well."""
    for kind in range(len(judge.atoms.kinds)):
        for part in range(parts):
            some = core[judge.atoms.kind[core] == kind]
            if len(some) < 2 * parts and parts > 1:
                break
            chunk = np.array_split(some, parts)[part]
            if not len(chunk) or len(chunk) == len(core):
                continue
            answer = judge.ask(np.setdiff1d(core, chunk))
            if answer.feasible is False and answer.core is not None:
                core = answer.core
    return core


def _exchanged(judge: Judge, rest: Ids, atom: int, needed: dict[int, Ints]) -> Ints | None:
    """Turn the placement that breaks the same rule on another node into one that breaks it here."""
    atoms = judge.atoms
    kind = atoms.kind[atom]
    if atoms.kinds[kind].rule not in _ON_NODES:
        return None
    alike = [a for a in needed if atoms.kind[a] == kind]
    if not alike:
        return None
    here, there = atoms.index[atom], atoms.index[alike[-1]]
    node = needed[alike[-1]]
    swapped = np.where(node == here, there, np.where(node == there, here, node)).astype(np.int32)
    gathered = np.where(node == there, here, node).astype(np.int32)
    return next((made for made in (swapped, gathered) if judge.keeps(rest, made)), None)
