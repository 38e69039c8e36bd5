"""``max_load``: what one task can use of a resource, wherever it runs: it is one thread.

No placement changes it, so that it is kept by all or by none; what breaks it is a proof that no
plan exists. Tasks that differ in nothing else are equal: whether they are exchanged matters to
nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optim.rules.base import Form, Rule, violation
from optim.util.tolerance import over

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim.format.instance import Instance
    from optim.rules.violation import Violation

_ROUNDING = 1e-9


def _present(instance: Instance) -> str | None:
    tasks = instance.tasks
    if not tasks.limited:
        return None
    first = int(np.flatnonzero(np.isfinite(tasks.max_load).any(axis=1))[0])
    return f"max_load (of {tasks.ids[first]})"


def _dropped(instance: Instance) -> Instance:
    return instance.with_max_load(np.full((1, 1), np.inf))


def least_tasks(instance: Instance, operator: int, resource: int, rate: float = 1.0) -> int | None:
    """Return in how many equal tasks an operator needs no more than each can use.

    Parameters
    ----------
    rate
        Multiple of the present input, which its load grows with.

    Returns
    -------
    int
        ``None`` where that is any number, or none is enough.
    """
    tasks = instance.tasks_of(operator)
    most = float(instance.tasks.max_load[tasks, resource].min(initial=np.inf))
    if not 0 < most < np.inf:
        return None
    whole = rate * float(instance.tasks.load[tasks, resource].sum())
    return max(1, int(np.ceil(whole / most * (1 - _ROUNDING))))


def _found(instance: Instance) -> Iterator[Violation]:
    """The task of each operator that needs most over what it can use, and the remedy."""
    tasks = instance.tasks
    if not tasks.limited:
        return
    wrong = np.argwhere(over(tasks.load, tasks.max_load))
    worst: dict[tuple[int, int], int] = {}
    for t, r in wrong.tolist():
        o = int(tasks.operator[t])
        key = (o if o >= 0 else -1 - t, r)
        now = worst.setdefault(key, t)
        if tasks.load[t, r] - tasks.max_load[t, r] > tasks.load[now, r] - tasks.max_load[now, r]:
            worst[key] = t
    for (o, r), t in worst.items():
        where = f"{tasks.ids[t]}.{instance.resources[r]} ({_remedy(instance, o, t, r)})"
        yield violation("max_load", where, tasks.load[t, r], tasks.max_load[t, r])


def _remedy(instance: Instance, operator: int, task: int, resource: int) -> str:
    load, most = instance.tasks.load[:, resource], instance.tasks.max_load[task, resource]
    if most == 0:
        return "it can use none"
    if operator < 0:
        least = int(np.ceil(load[task] / most * (1 - _ROUNDING)))
        return f"it is one task; needs at least {least}"
    name, count = instance.operators.ids[operator], len(instance.tasks_of(operator))
    least = least_tasks(instance, operator, resource) or 1
    told = f"{name} has {count} task" + "s" * (count != 1)
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
)
