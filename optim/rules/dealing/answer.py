"""What is known about dealing tasks to slots: found, proven impossible, or not known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from optim.rules.dealing.groups import Groups, at_once, spread
from optim.rules.dealing.least import Least
from optim.rules.dealing.mixed import part_mixed
from optim.util.tolerance import slack as slack_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from optim.format.instance import Instance
    from optim.format.tables import Floats, Ints
    from optim.rules.dealing.groups import Numbers, Spread
    from optim.rules.violation import Violation

_WHY = "not known within the work limit whether its tasks can be dealt to its slots"


@dataclass(frozen=True, eq=False)
class Dealing:
    """What is known about dealing the tasks of each node to its slots.

    Attributes
    ----------
    slot
        (T,) a slot of each placed task, -1 for the others, that keeps every rule of slots; ``None``
        where none was found.
    proven
        Whether `slot` was found or proven not to exist; else the work limit came first.
    shortage
        Without `slot`: what clashes, where and by how much.
    """

    slot: Ints | None
    proven: bool
    shortage: tuple[Violation, ...] = ()


def slot_slack(instance: Instance) -> Floats:
    """(N, R) how far above a slot's capacity still counts as rounding."""
    return np.asarray(slack_of(instance.nodes.slot_capacity))


def deal(
    instance: Instance,
    node: Ints,
    work: int = 200_000,
    slack: Callable[[Instance], Floats] = slot_slack,
) -> Dealing:
    """Deal the tasks of each node to its slots, or prove that this cannot be.

    Parameters
    ----------
    node
        (T,) node of each task; those at -1 are left out, but count as tasks that want workers.
    work
        Steps of search before giving up, about a microsecond each.
    slack
        What the load of a slot may exceed its capacity by, (R,) or (N, R).

    Returns
    -------
    Dealing
        The same for the same arguments.
    """
    groups = Groups(instance, node, slack(instance))
    clash = tuple(at_once(groups))
    if clash:
        return Dealing(None, True, clash)
    least = Least(groups)
    known = _known(least)
    mixed = groups.joins.any()
    # first where a sum is exceeded, so that the work is not spread over what fits anyway
    for among in (least.pressed(), np.ones(len(groups.count), dtype=np.bool_)):
        if known is None:
            work -= least.tighten(among, work // 2 if mixed else work)
            known = _known(least)
    if known is None and mixed:
        found, proof = part_mixed(least, work)
        if found is not None or proof:
            known = Dealing(found, True, proof)
    return known or Dealing(None, False, tuple(_not_known(least)))


def _known(least: Least) -> Dealing | None:
    """Return what the ends of the least numbers tell."""
    found = _spread(least, least.high)
    if found.slots is not None:
        return Dealing(least.numbered(found.slots, least.high), True)
    proof = _spread(least, np.where(least.groups.joins, 0, least.low))
    return Dealing(None, True, proof.shortage) if proof.slots is None else None


def _spread(least: Least, numbers: Numbers) -> Spread:
    groups = least.groups
    return spread(groups, numbers, groups.count, groups.slots, groups.wanted)


def _not_known(least: Least) -> Iterator[Violation]:
    """Where the best packings known take more than there is, though it need not be so."""
    for violation in _spread(least, least.high).shortage:
        yield replace(violation, rule="slots", where=f"{violation.where} ({_WHY})")
