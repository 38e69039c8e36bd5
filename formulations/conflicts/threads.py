"""Tasks above what one task can use (``max_load``): a conflict each, whatever the placement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formulations.conflicts.remedies import Remedy
from formulations.conflicts.telling import Clash
from optim.figures.measures import least_tasks
from optim.rules.max_load import above

if TYPE_CHECKING:
    from optim.format.instance import Instance


def clashes_of_threads(instance: Instance) -> list[tuple[Clash, Remedy]]:
    """Return the task of each operator that is most above, and the parallelism that would do.

    No plan is made with so many tasks: `Remedy.enough` is false.
    """
    found = []
    for t, r in above(instance):
        resource, load = instance.resources[r], float(instance.tasks.load[t, r])
        name, most = instance.tasks.ids[t], float(instance.tasks.max_load[t, r])
        operator, (count, least) = int(instance.tasks.operator[t]), least_tasks(instance, t, r)
        clash = Clash("max_load", f"{name}.{resource}", resource, load, most, (name,))
        where = name if operator < 0 else instance.operators.ids[operator]
        if least is None or least <= count:  # its load is to be spread, or it may have none
            remedy = Remedy("max_load", clash.where, load - most, load, None, enough=False)
        else:
            more = least - count
            share = more / count
            remedy = Remedy("parallelism", where, more, least, share, enough=False)
        found.append((clash, remedy))
    return found
