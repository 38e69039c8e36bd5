"""Tables behind the claims on the Elastic Allocator.

The recorded day stands for the paper's trace (World Cup 1998), which is in no registry: the
requests of a public load balancer, `elb_request_count_8c0756` of the Numenta Anomaly Benchmark (AWS
CloudWatch, 5-minute counts), 10 April 2014, summed to hours. The busiest hour is set to the paper's
1,200 tuples/s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from experiments.studies.papers import certified
from experiments.studies.papers.claims.tables import Making
from experiments.studies.papers.elastic_allocator import model
from experiments.studies.papers.elastic_allocator.runs import (
    BEST_FILL,
    BEST_SPREAD,
    BOTH,
    EVEN,
    FILL,
    METHODS,
    PAPER_UNTIL,
    RANDOM,
    SEEDS,
    SPREAD,
    UPLINK,
    WORKLOADS,
    Entry,
    cluster_at,
    figures,
    nodes_of,
    run,
    without_links,
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
                            **certified.of_result(instance, result),
                            "infeasible": best["infeasible"],
                            "GMA, seconds": mine["seconds"],
                            "exact, seconds": best["seconds"],
                            "highest link use of the optimum": best.get("bandwidth, highest"),
                        }
                    )
    return pd.DataFrame(rows)


REQUESTS = (
    772, 677, 919, 522, 779, 814, 548, 690, 817, 554, 758, 1051,
    934, 1149, 1161, 1081, 1248, 1024, 881, 960, 650, 605, 738, 563,
)  # fmt: skip
"""Requests by the hour; at 11:34 one of the 288 counts is missing."""


def rates() -> list[float]:
    """Return tuples/s by the hour."""
    return [PAPER_UNTIL * count / max(REQUESTS) for count in REQUESTS]


def day_table(reduced: bool) -> pd.DataFrame:
    """Make one row a seed, objective and hour: placed anew, and as placed for the peak."""
    import pandas as pd

    rows = []
    for seed in range(2 if reduced else SEEDS):
        for entry in (FILL, BOTH):
            rows += _day(seed, entry)
    return pd.DataFrame(rows)


def _day(seed: int, entry: Entry) -> list[dict[str, Any]]:
    from optim.referee.evaluate import evaluate_indices

    highest = cluster_at(PAPER_UNTIL, seed, uplink=UPLINK)
    peak = nodes_of(highest, run(highest, entry)[1])
    before = None
    rows = []
    for hour, rate in enumerate(rates()):
        instance = cluster_at(rate, seed, uplink=UPLINK)
        anew, result = run(instance, entry)
        now = nodes_of(instance, result)
        kept = evaluate_indices(instance, peak)
        still = figures(instance, kept)
        moved = 0 if before is None else int((now != before).sum())
        before = now
        rows.append(
            {
                "seed": seed,
                "method": entry.label,
                "hour": hour,
                "workload": rate,
                "moves": moved,
                "kept": anew["kept"],
                "limits met, as at the peak": not kept.violations,
            }
            | {name: anew[name] for name in _SHOWN}
            | {f"{name}, as at the peak": still[name] for name in _SHOWN}
        )
    return rows


_SHOWN = ("CPU, in use", "bandwidth, in use", "CPU deviation", "bandwidth deviation")


TABLES = {
    "testbed": Making(testbed_table, "0-29", "0-2"),
    "optimum": Making(optimum_table, "0"),
    "constants": Making(constants_table, "0-29", "0-1"),
    "uplinks": Making(uplinks_table, "0-29", "0-2"),
    "gaps": Making(gap_table, "0-6", "0"),
    "day": Making(day_table, "0-29", "0-1"),
    "formulas": Making(model.formulas_table, "0-99", "0-9"),
    "classes": Making(model.classes_table, "0-29", "0-2"),
    "best_effort": Making(model.best_effort_table, "0-29", "0-2"),
}
