"""A recorded day: Top-K placed anew every hour, or left as it was placed for the peak.

The paper's trace (World Cup 1998) is in no registry. In its place stand the requests of a public
load balancer: `elb_request_count_8c0756` of the Numenta Anomaly Benchmark (AWS CloudWatch, 5-minute
counts), 10 April 2014, summed to hours. The busiest hour is set to the paper's 1,200 tuples/s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from experiments.studies.papers.elastic_allocator.running import (
    BOTH,
    FILL,
    PAPER_UNTIL,
    SEEDS,
    UPLINK,
    Entry,
    cluster_at,
    figures,
    nodes_of,
    run,
)

if TYPE_CHECKING:
    import pandas as pd

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
                "kept, as at the peak": not kept.violations,
            }
            | {name: anew[name] for name in _SHOWN}
            | {f"{name}, as at the peak": still[name] for name in _SHOWN}
        )
    return rows


_SHOWN = ("CPU, in use", "bandwidth, in use", "CPU deviation", "bandwidth deviation")
