"""Uplinks that bind: what a scheduler that sees CPU only breaks, and GMA against the optimum."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.studies.papers import whose
from experiments.studies.papers.elastic_allocator.running import (
    BEST_FILL,
    BEST_SPREAD,
    FILL,
    SPREAD,
    figures,
    nodes_of,
    run,
    without_links,
)

if TYPE_CHECKING:
    import pandas as pd

MULTIPLES = (0.75, 1.0, 1.25, 1.5, 2.0, 3.0)
"""Uplinks over what each would carry if nothing were collocated."""

GAP_MULTIPLE, NODES = 1.5, range(5, 11)


def uplinks_table(reduced: bool) -> pd.DataFrame:
    """Make one row a multiple and instance: CPU-only plan, GMA's and the exact one's limits."""
    import pandas as pd

    from experiments.generators import generate
    from optim.referee.evaluate import evaluate_indices

    rows = []
    for multiple in MULTIPLES[:: 2 if reduced else 1]:
        for seed in range(3 if reduced else 30):
            instance = generate("eoa_random", seed=seed, nodes=8, operators=15, bandwidth=multiple)
            mine, _ = run(instance, FILL)
            best, _ = run(instance, BEST_FILL, time_limit=20)
            _, blind = run(without_links(instance), FILL)
            seen = figures(instance, evaluate_indices(instance, nodes_of(instance, blind)))
            rows.append(
                {
                    "uplink": multiple,
                    "seed": seed,
                    "CPU only, highest link use": seen["bandwidth, highest"],
                    "CPU only, breaks a link": seen["bandwidth, highest"] > 1 + 1e-9,
                    "GMA places": mine["placed"] and mine["kept"],
                    "GMA, highest link use": mine["bandwidth, highest"],
                    "exact places": best["kept"],
                    "infeasible, proved": best["infeasible"],
                    "exact, highest link use": best.get("bandwidth, highest"),
                }
            )
    return pd.DataFrame(rows)


def gap_table(reduced: bool) -> pd.DataFrame:
    """Make one row an instance and objective: GMA and the exact method, with their times."""
    import pandas as pd

    from experiments.generators import generate

    rows = []
    for nodes in (5, 8) if reduced else NODES:
        for operators in (10,) if reduced else (10, 15):
            for seed in range(1 if reduced else 7):
                instance = generate(
                    "eoa_random", seed=seed, nodes=nodes, operators=operators,
                    bandwidth=GAP_MULTIPLE,
                )  # fmt: skip
                for entry, exact, figure in (
                    (FILL, BEST_FILL, "capacity in use"),
                    (SPREAD, BEST_SPREAD, "CPU deviation"),
                ):
                    mine, _ = run(instance, entry)
                    best, result = run(instance, exact, time_limit=30)
                    rows.append(
                        {
                            "objective": figure,
                            "nodes": nodes,
                            "operators": operators,
                            "seed": seed,
                            "GMA keeps the limits": mine["placed"] and mine["kept"],
                            "GMA": mine[figure],
                            "optimum": best.get(figure),
                            "proved": best["proved"],
                            **whose.of_result(instance, result),
                            "infeasible": best["infeasible"],
                            "GMA, seconds": mine["seconds"],
                            "exact, seconds": best["seconds"],
                            "highest link use of the optimum": best.get("bandwidth, highest"),
                        }
                    )
    return pd.DataFrame(rows)
