"""Allocations without the frame of a run: what the tables of claims call thousands of times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from optim.format.instance import Instance

    Places = NDArray[np.int32]

TL_READINGS = tuple(
    (priority, order)
    for priority in ("task_imc", "group_imc", "significance")
    for order in ("row", "column", "diagonal", "shuffled")
)
"""What the paper leaves open in TL: (priority of the pairs, order of the pairs of a group pair)."""


class Allocated(NamedTuple):
    """A placement and what it gains; the gain of one that is not whole is ``nan``."""

    node: Places
    gain: float
    whole: bool


def tl(
    instance: Instance, priority: str = "group_imc", order: str = "shuffled", seed: int = 0
) -> Allocated:
    """Run TL; the defaults are the default reading."""
    from heuristics.task_allocation.groups import grouped_job
    from heuristics.task_allocation.task_level import place_pairs
    from heuristics.task_allocation.task_pairs import uneven_pairs

    job = grouped_job(instance)
    return judged(instance, place_pairs(job, priority, order, seed, uneven_pairs(instance, job)))


def td(instance: Instance, priority: str = "significance", **options: Any) -> Allocated:
    """Run TD."""
    from heuristics.task_allocation.groups import grouped_job
    from heuristics.task_allocation.top_down import place_groups

    return judged(instance, place_groups(grouped_job(instance), priority, **options))


def naive(instance: Instance) -> Allocated:
    """Run the naive allocator of section 3.1."""
    from heuristics.task_allocation.groups import grouped_job
    from heuristics.task_allocation.naive import place_pairs
    from heuristics.task_allocation.task_pairs import uneven_pairs

    job = grouped_job(instance)
    return judged(instance, place_pairs(job, uneven_pairs(instance, job)))


def storm(instance: Instance, workers: int | None = None) -> Allocated:
    """Run Storm's default on a number of workers, or on the fewest that overload no node."""
    import numpy as np

    num_tasks = instance.num_tasks
    most = min(instance.num_nodes, num_tasks)
    room = instance.headroom[:, 0] + 1e-6
    for count in range(1, most + 1) if workers is None else (workers,):
        node = (np.arange(num_tasks) % count).astype(np.int32)
        load = np.bincount(node, instance.tasks.load[:, 0], instance.num_nodes)
        if (load <= room).all():
            return judged(instance, node)
    return Allocated(np.full(num_tasks, -1, dtype=np.int32), float("nan"), False)


def optimum(instance: Instance, time_limit: float = 20.0) -> float:
    """Return the greatest gain, or ``nan`` where it is not proved."""
    from optim import solve

    result = solve(instance, method="imc-exact", time_limit=time_limit, threads=1)
    if result.termination.value != "optimal" or result.objective is None:
        return float("nan")
    return float(result.objective.value or 0.0)


def judged(instance: Instance, node: Places) -> Allocated:
    """Return a placement with its gain; checks that no node is above its capacity."""
    import numpy as np

    whole = bool((node >= 0).all())
    placed = node >= 0
    load = np.bincount(node[placed], instance.tasks.load[placed, 0], instance.num_nodes)
    if (load > instance.headroom[:, 0] * (1 + 1e-6) + 1e-6).any():
        raise AssertionError(f"{instance.name}: a node is above its capacity")
    gain = instance.flows.collocated(node, instance.num_nodes) if whole else float("nan")
    return Allocated(node, gain, whole)


def links(instance: Instance, node: Places, first: int, second: int) -> int:
    """Return how many task pairs of two operators are on one node."""
    import numpy as np

    counts: Sequence[Any] = [
        np.bincount(node[tasks][node[tasks] >= 0], minlength=instance.num_nodes)
        for tasks in (instance.tasks_of(first), instance.tasks_of(second))
    ]
    return int((counts[0] * counts[1]).sum())
