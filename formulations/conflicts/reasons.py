"""Why an instance has no plan: the rules that clash, found in a time that is given."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from formulations.conflicts.conflict import told
from formulations.conflicts.decide import Judge, conflicts
from formulations.conflicts.remedies import clashes_of_threads
from formulations.conflicts.rule_instances import atoms_of
from optim.rules.violation import Violation

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from formulations.conflicts.conflict import Clash
    from optim.format.instance import Instance

    Ids = NDArray[np.int64]

_DECIDING, _FIGURES = 0.6, 0.25
"""Shares of the time for deciding whether there is a plan, and for the figures of a conflict."""
_MOST_FIGURES = 2.0


class Why(NamedTuple):
    """Whether there is a plan, and the conflicts, as numbers of rules and as text.

    Attributes
    ----------
    judge
        What decided it.
    feasible
        ``None`` where that was not decided in time.
    cores
        Minimal sets of rule instances that cannot hold together, no two of which share one.
    clashes
        The same, one entry a sort of rule, with figures.
    """

    judge: Judge
    feasible: bool | None
    cores: list[Ids]
    clashes: list[tuple[Clash, ...]]


def find_conflicts(instance: Instance, seconds: float) -> Why:
    """Decide whether an instance has a plan, and find the rules that clash where it has none."""
    judge = Judge(atoms_of(instance), _DECIDING * seconds)
    feasible, cores = conflicts(judge)
    limit = min(_MOST_FIGURES, _FIGURES * seconds)
    return Why(judge, feasible, cores, [tuple(told(judge.atoms, core, limit)) for core in cores])


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
    where, needed = clash.where, clash.needed
    if needed is None:
        where, needed = f"{where} (how much more was not found in time)", clash.available
    return Violation(clash.rule, where, needed - clash.available, needed, clash.available)
