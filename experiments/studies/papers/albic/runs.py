"""Rows of runs that follow periods, each stored as soon as it is there, so that a run can go on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from optim.format.instance import Instance


Row = dict[str, Any]

#: Name in tables, method, and what it is told.
Policy = tuple[str, str, dict[str, Any]]


def kept(folder: Path, key: Mapping[str, Any], make: Callable[[], list[Row]]) -> list[Row]:
    """Return what was made for a key before, or make it and keep it in the folder."""
    from optim.util.store import fingerprint, remembered

    rows: list[Row] = remembered(folder / "parts" / f"{fingerprint(key)}.json", key, make)
    return rows


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


def frame(rows: list[Row]) -> Any:
    """Return rows as a frame."""
    import pandas as pd

    return pd.DataFrame(rows)


FOLDER = Path("build/papers/albic/claims")
"""Where finished runs are stored."""


def rows_of(
    table: str, keys: Iterable[Mapping[str, Any]], make: Callable[..., list[Row]]
) -> pd.DataFrame:
    """Return the rows that `make` gives for every key, taken from the folder where they are there.

    Parameters
    ----------
    table
        What the rows are for; part of their key.
    keys
        Arguments of `make`.
    make
        Called with a key as keyword arguments.
    """
    rows: list[Row] = []
    for key in keys:
        rows += kept(FOLDER, {"table": table, **key}, lambda k=key: make(**k))  # type: ignore[misc]
    return frame(rows)
