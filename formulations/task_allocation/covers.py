"""Cuts against placements that a solver takes for feasible and the referee does not.

A node whose tasks exceed its capacity holds a *cover*: tasks that it cannot hold together. At most
all but one of them may be there, on this node and on every other that has no more room. Of other
rules only the placement itself is cut off.

Source: E. Balas, "Facets of the knapsack polytope", Mathematical Programming 8 (1975).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optim.figures.measures import node_loads
from optim.rules import broken
from optim.rules.placement import Placement
from optim.solvers import solve_kept
from optim.util.tolerance import over, slack

if TYPE_CHECKING:
    from collections.abc import Callable

    from formulations.task_allocation.model import AllocationModel
    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats, Ints
    from optim.methods.registry import Request
    from optim.solvers import LinearSolution


def solve_exactly(
    instance: Instance,
    made: AllocationModel,
    kept: frozenset[str],
    request: Request,
    solve: Callable[[], LinearSolution],
) -> tuple[LinearSolution, int]:
    """Solve until the placement keeps all rules exactly; return the answer and the cuts made.

    Parameters
    ----------
    kept
        Names of the violations that count.
    solve
        Solves the model as it stands, in the time that the request has left.
    """

    def refused(x: Floats) -> bool:
        return cut_off(instance, made, made.place(x, instance.num_tasks), kept)

    return solve_kept(solve, refused, lambda: request.remaining() == 0)


def cut_off(instance: Instance, made: AllocationModel, node: Ints, kept: frozenset[str]) -> bool:
    """Add rows that a placement breaks, where it breaks a rule; return whether it does.

    Parameters
    ----------
    kept
        Names of the violations that count.
    """
    if not any(found.rule in kept for found in broken(Placement(instance, node))):
        return False
    loads, bound = node_loads(instance, node), instance.nodes.capacity * _share(instance)
    crowded = np.argwhere(over(loads, bound)).tolist()
    for n, r in crowded:
        cover = _cover(instance, np.flatnonzero(node == n).astype(np.int32), n, r)
        room = instance.headroom[:, r] + slack(bound[:, r])
        for m in np.flatnonzero(room <= room[n]):
            together = np.isin(made.task, cover) & (made.node == m)
            _add_row(made, together, -np.inf, len(cover) - 1)
    if not crowded:
        _add_row(made, node[made.task] == made.node, -np.inf, len(node) - 1)
    return True


def _cover(instance: Instance, tasks: Ints, n: int, r: int) -> Ints:
    """Return tasks of a node that are too much for it, none of which could be spared."""
    load = instance.tasks.load[tasks, r]
    bound = float(instance.nodes.capacity[n, r] * _share(instance)[r])
    keep = load > 0
    for k in np.argsort(load, kind="stable"):
        if keep[k]:
            keep[k] = False
            needed = float(load[keep].sum() + instance.nodes.background[n, r])
            if not over(needed, bound):
                keep[k] = True
    return tasks[keep]


def _share(instance: Instance) -> Floats:
    return instance.limits.max_utilisation


def _add_row(made: AllocationModel, chosen: Bools, least: float, most: float) -> None:
    columns = np.flatnonzero(chosen)
    zeros = np.zeros(len(columns), dtype=np.int64)
    made.model.add_rows("cut off", least, most, zeros, columns, 1.0, num_rows=1)
