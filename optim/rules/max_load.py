"""``max_load``: what one task can use of a resource, wherever it runs: it is one thread.

No placement changes it, so that it is satisfied by all or by none; what breaks it is a proof that
no plan exists. Tasks that differ in nothing else are equal: whether they are exchanged matters to
nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optim.figures.measures import least_tasks
from optim.rules.base import Form, Rows, Rule, violation
from optim.util.tolerance import over

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats
    from optim.rules.placement import Placement
    from optim.rules.violation import Violation


def _present(instance: Instance) -> str | None:
    tasks = instance.tasks
    if not tasks.limited:
        return None
    first = int(np.flatnonzero(np.isfinite(tasks.max_load).any(axis=1))[0])
    return f"max_load (of {tasks.ids[first]})"


def _dropped(instance: Instance) -> Instance:
    return instance.with_max_load(np.full((1, 1), np.inf))


def above(instance: Instance) -> list[tuple[int, int]]:
    """Return (task, resource) above what the task can use: of each operator the one most above."""
    tasks = instance.tasks
    if not tasks.limited:
        return []
    excess = np.where(over(tasks.load, tasks.max_load), tasks.load - tasks.max_load, 0.0)
    worst: dict[tuple[int, int], int] = {}
    for t, r in np.argwhere(excess > 0).tolist():
        o = int(tasks.operator[t])
        key = (o if o >= 0 else -1 - t, r)
        if excess[t, r] > excess[worst.setdefault(key, t), r]:
            worst[key] = t
    return [(t, r) for (_, r), t in worst.items()]


def _found(instance: Instance) -> Iterator[Violation]:
    """The task of each operator that is most above what it can use, and the remedy."""
    tasks = instance.tasks
    for t, r in above(instance):
        where = f"{tasks.ids[t]}.{instance.resources[r]} ({_remedy(instance, t, r)})"
        yield violation("max_load", where, tasks.load[t, r], tasks.max_load[t, r])


def _limit(instance: Instance) -> Floats:
    return np.broadcast_to(instance.tasks.max_load, instance.tasks.load.shape)


def _loosened(
    instance: Instance, mask: Bools, value: Floats, placement: Placement | None
) -> Instance:
    return instance.with_max_load(np.where(mask, value, _limit(instance)))


def _remedy(instance: Instance, task: int, resource: int) -> str:
    operator = int(instance.tasks.operator[task])
    count, least = least_tasks(instance, task, resource)
    if least is None:
        return "it can use none"
    if operator < 0:
        return f"it is one task; needs at least {least}"
    told = f"{instance.operators.ids[operator]} has {count} task" + "s" * (count != 1)
    if least <= count:
        return f"{told}, enough if they shared its load evenly"
    return f"{told}; needs at least {least}"


MAX_LOAD = Rule(
    name="max_load",
    field="tasks[].max_load",
    form=Form.TASK,
    present=_present,
    dropped=_dropped,
    violations=lambda placement: _found(placement.instance),
    proofs=_found,
    rows=(Rows(lambda placement: placement.instance.tasks.load, _limit, _loosened),),
)
