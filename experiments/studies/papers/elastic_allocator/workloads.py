"""The testbed over workloads, the exact optimum on it, and the constants that the paper lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from experiments.studies.papers.elastic_allocator.running import (
    BEST_FILL,
    BEST_SPREAD,
    BOTH,
    EVEN,
    METHODS,
    RANDOM,
    SEEDS,
    UPLINK,
    WORKLOADS,
    cluster_at,
    run,
)

if TYPE_CHECKING:
    import pandas as pd

CONSTANTS: dict[str, tuple[float, ...]] = {
    "cost": (0.5, 1.5),
    "size": (0.5, 2.0),
    "busy_nodes": (3, 10),
    "background": (0.0, 60.0),
    "uplink": (12e6, 40e6),
}
"""Chosen constants of the testbed and the values that they are swept over, one at a time."""


def testbed_table(reduced: bool) -> pd.DataFrame:
    """Make one row a workload, seed and method."""
    import pandas as pd

    return pd.DataFrame(
        [
            {"workload": w, "seed": seed, **run(instance, entry, seed=_drawn(seed, w))[0]}
            for w in WORKLOADS[:: 6 if reduced else 1]
            for seed in range(3 if reduced else SEEDS)
            for instance in [cluster_at(w, seed, uplink=UPLINK)]
            for entry in METHODS
        ]
    ).drop(columns=["proved", "infeasible"])


def _drawn(seed: int, workload: float) -> int:
    """Random's seed: the paper submits the query anew at every workload."""
    return 10_000 * seed + int(workload)


def optimum_table(reduced: bool) -> pd.DataFrame:
    """Make one row a workload and objective of the exact method, on the first testbed."""
    import pandas as pd

    limit = 10.0 if reduced else 60.0
    rows = [
        {"workload": w, **run(cluster_at(w, uplink=UPLINK), entry, time_limit=limit)[0]}
        for w in WORKLOADS[:: 6 if reduced else 1]
        for entry in (BEST_FILL, BEST_SPREAD)
    ]
    return pd.DataFrame(rows)


def constants_table(reduced: bool) -> pd.DataFrame:
    """Make one row a changed constant, workload and method, deviations averaged over the seeds."""
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for name, values in CONSTANTS.items():
        for value in values[:: 2 if reduced else 1]:
            for w in WORKLOADS[:: 9 if reduced else 4]:
                for seed in range(2 if reduced else SEEDS):
                    changed = {"uplink": UPLINK, name: value}
                    instance = cluster_at(w, seed, **changed)
                    rows += [
                        {"constant": name, "value": value, "workload": w}
                        | run(instance, entry, seed=_drawn(seed, w))[0]
                        for entry in (BOTH, EVEN, RANDOM)
                    ]
    keys = ["constant", "value", "workload", "method"]
    figures = ["CPU deviation", "bandwidth deviation", "kept", "CPU, served", "bandwidth, highest"]
    frame = pd.DataFrame(rows).groupby(keys, sort=False)[figures].mean()
    return frame.reset_index()
