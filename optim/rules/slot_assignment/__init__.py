"""Whether the tasks of each node can be assigned to its slots, when a plan gives nodes only.

A slot keeps its capacities and its number of tasks and serves one topology; tasks without topology
join any. A topology of W workers and E tasks fills min(W, E) slots in all (Aniello et al. 2013,
section 3.2.2, constraint (2)).

The tasks of one topology on one node need some least number of slots, a vector bin packing; any
greater number up to that of the tasks serves as well, as tasks that share a slot may be separated.
So the least numbers decide (`search.Least`), and spreading the workers over the nodes is a flow
(`groups.spread`). First-fit decreasing gives an upper end of each least number, loads and counts a
lower end: what the upper ends allow is found, what the lower ends forbid is proven, and a search
(`search.Search`) closes the rest within a limit of work. Only tasks without topology beside others
on a node break the scheme: there all slot partitions are searched (`search.part_mixed`).

Sets over slots fit in: tasks to be together are assigned as one unit (`groups.Units`), members of a
set apart are one more column that a slot has a capacity of, and a set to be spread over more slots
than nodes is first widened by moves within nodes (`search.ToSpread`), then searched with the slot
partitions of the nodes that hold several of its units.

Where only so many workers may restart, slots get the numbers of those that run now, and workers
that can go on as they are stay (`restarts`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from optim.figures.measures import slack as slack_of
from optim.figures.measures import unknown_slots
from optim.rules.sets import without_slot_sets
from optim.rules.slot_assignment.groups import Groups, Restarts, Units, at_once, spread
from optim.rules.slot_assignment.search import Least, ToSpread, part_mixed, widened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim.format.instance import Instance
    from optim.format.tables import Floats, Ints
    from optim.rules.base import Violation
    from optim.rules.slot_assignment.groups import Numbers, Spread

_WHY = "not known within the work limit whether its tasks can be assigned to its slots"


@dataclass(frozen=True, eq=False)
class SlotAssignment:
    """What is known about assigning the tasks of each node to its slots."""

    #: (T,) a slot of each placed task, -1 for the others, that keeps every rule of slots; ``None``
    #: where none was found.
    slot: Ints | None
    proven: bool  # Whether `slot` was found or proven not to exist; else the work limit came first.
    shortage: tuple[Violation, ...] = ()  # Without `slot`: what clashes, where and by how much.


def slot_slack(instance: Instance) -> Floats:
    """(N, R) how far above a slot's capacity still counts as rounding."""
    return np.asarray(slack_of(instance.nodes.slot_capacity))


def assign_slots(instance: Instance, node: Ints, work: int = 200_000) -> SlotAssignment:
    """Deal the tasks of each node to its slots, or prove that this cannot be.

    `node`: (T,) node of each task; those at -1 are left out, but count as tasks that want workers.
    `work`: steps of search before giving up, about a microsecond each.
    Returns the same for the same arguments. What is short is of sets over slots where all other
        rules of slots can hold without them.
    """
    assignment = _assigned(instance, node, work)
    if instance.limits.max_workers_restarted is not None and assignment.slot is not None:
        return _within_restarts(instance, node, assignment, work)
    if assignment.slot is not None or not instance.slot_sets.ids:
        return assignment
    others = _assigned(without_slot_sets(instance), node, work)
    if others.slot is None:
        of_slot_sets = tuple(v for v in assignment.shortage if v.rule == "slot_sets")
        proven = assignment.proven or others.proven
        return replace(assignment, shortage=others.shortage + of_slot_sets, proven=proven)
    return replace(assignment, shortage=tuple(map(_of_sets, assignment.shortage)))


def _within_restarts(
    instance: Instance,
    node: Ints,
    assignment: SlotAssignment,
    work: int,
) -> SlotAssignment:
    """Return an assignment by which few enough workers restart."""
    if not (instance.tasks.node >= 0).any() or len(unknown_slots(instance)):
        return assignment  # nothing restarts, or the rule itself says what is unknown

    def assign(changed: Instance, part: int) -> tuple[Ints | None, bool]:
        one = _assigned(changed, node, part)
        return one.slot, one.proven

    restarts = Restarts(instance, node, assign)
    slot, proven = restarts.within(assignment.slot), True
    if slot is None:
        slot, proven = restarts.search(work)
    if slot is not None:
        return SlotAssignment(slot, True)
    return SlotAssignment(None, proven, (restarts.shortage(proven=proven),))


def _of_sets(violation: Violation) -> Violation:
    if violation.rule == "slot_sets":
        return violation
    remark = f"{violation.rule}, as sets over slots part its tasks"
    return replace(violation, rule="slot_sets", remark=remark)


def _assigned(instance: Instance, node: Ints, work: int) -> SlotAssignment:
    units = Units(instance, node)
    clash = tuple(units.clash())
    if clash:
        return SlotAssignment(None, True, clash)
    groups = Groups(units, slot_slack(instance))
    sets = [ToSpread(groups, i, members) for i, members in units.spread()]
    clash = (*at_once(groups), *(one.short(one.most) for one in sets if one.most < one.limit))
    if clash:
        return SlotAssignment(None, True, clash)
    least = Least(groups)
    assignment = _from_least_numbers(least)
    mixed = groups.joins.any() or bool(sets)
    # first where a sum is exceeded, so that the work is not spread over what fits anyway
    for among in (least.pressed(), np.ones(len(groups.count), dtype=np.bool_)):
        if assignment is None:
            work -= least.tighten(among, work // 2 if mixed else work)
            assignment = _from_least_numbers(least)
    if assignment is not None and assignment.slot is not None and sets:
        slot, steps = widened(groups, sets, assignment.slot, work // 2)
        work -= steps
        assignment = (
            SlotAssignment(slot, True) if all(one.fills(groups, slot) for one in sets) else None
        )
    if assignment is None and mixed:
        slot_of_unit, proof = part_mixed(least, work, sets)
        if slot_of_unit is not None or proof:
            assignment = SlotAssignment(slot_of_unit, True, proof)
    if assignment is None:
        return SlotAssignment(None, False, tuple(_undecided(least, sets)))
    if assignment.slot is None:
        return assignment
    return SlotAssignment(np.where(node >= 0, assignment.slot[units.of], -1).astype(np.int32), True)


def _from_least_numbers(least: Least) -> SlotAssignment | None:
    """Return what follows from the ends of the least numbers."""
    spread_slots = _spread(least, least.high)
    if spread_slots.slots is not None:
        return SlotAssignment(least.numbered(spread_slots.slots, least.high), True)
    proof = _spread(least, np.where(least.groups.joins, 0, least.low))
    return SlotAssignment(None, True, proof.shortage) if proof.slots is None else None


def _spread(least: Least, numbers: Numbers) -> Spread:
    groups = least.groups
    return spread(groups, numbers, groups.count, groups.slots, groups.wanted)


def _undecided(least: Least, sets: list[ToSpread]) -> Iterator[Violation]:
    """Where the best packings known take more than there is, though it need not be so."""
    short = _spread(least, least.high).shortage
    for violation in short:
        yield replace(violation, rule="slots", remark=_WHY)
    for one in () if short else sets:
        violation = one.short(len(one.nodes))
        yield replace(violation, remark=_WHY)
