"""Rows of runs that follow periods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from optim.format.instance import Instance


Row = dict[str, Any]

#: Name in tables, method, and what it is told.
Policy = tuple[str, str, dict[str, Any]]


def placed(instance: Instance, node: NDArray[np.int32]) -> Instance:
    """Return the instance with its tasks on other nodes now."""
    tasks = instance.to_dict()["tasks"]
    ids = instance.nodes.ids
    for task, place in zip(tasks, node.tolist(), strict=True):
        task["node"] = ids[place]
    return instance.replace(tasks=tasks)


def follow(periods: Sequence[Instance], policy: Policy) -> list[Row]:
    """Plan period after period, each from where the last plan left the key groups.

    Parameters
    ----------
    periods
        Loads and traffic; the placement of the first.
    policy
        Who plans.

    Raises
    ------
    StreamplaceError
        There is no plan.
    """
    from optim import solve
    from optim.errors import StreamplaceError

    name, method, given = policy
    node = periods[0].tasks.node
    rows = []
    for number, period in enumerate(periods):
        now = placed(period, node)
        result = solve(now, method, seed=number, **given)
        if result.plan is None or result.evaluation is None:
            raise StreamplaceError(f"{name} has no plan in period {number} of {period.name}")
        found = result.evaluation
        row: Row = {
            "policy": name,
            "period": number,
            "distance": found.load_distance,
            "collocated": 100.0 * (found.collocation_factor or 0.0),
            "migrations": found.migrations,
            "seconds": sum(result.times.get(part, 0.0) for part in ("build", "solve")),
            "nodes": int((~now.nodes.leaving).sum()),
        }
        rows.append(row)
        node = result.plan.node_indices(now)
    return rows
