"""What the simulated latencies say; simulated, on topologies of our making, they are no proof."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.statistics import median_interval
from experiments.studies.papers.claims import Finding

if TYPE_CHECKING:
    import pandas as pd

    from experiments.statistics import Estimate

SIMULATED = "simulated queues on topologies of our making, not the Grand Challenge on a cluster"
LEAST, MOST = 20.0, 30.0


def online_is_quicker(latency: pd.DataFrame) -> Finding:
    """STORM-A2: what a network hop costs decides, and is not given."""
    table = latency.pivot_table(index=["hop", "seed"], columns="scheduler", values="latency")[
        ["default", "online"]
    ]
    saved = 100.0 * (1.0 - table["online"] / table["default"])
    medians = {hop: median_interval(values) for hop, values in saved.groupby("hop")}
    within = [hop for hop, found in medians.items() if LEAST <= found.value <= MOST]
    told = "; ".join(f"{found} % at a hop of {float(str(hop)):g}" for hop, found in medians.items())
    reach = ", ".join(f"{float(str(hop)):g}" for hop in within) or "none"
    return Finding(
        "not shown",  # the claim is of a real workload on a running system
        f"median latency of online below the default's, simulated, by the cost of a network hop in "
        f"mean times of work on a tuple: {told}",
        f"that cost is not given; in 20 to 30 % with {reach} of those swept; {SIMULATED}",
    )


def fewer_is_quicker(latency: pd.DataFrame) -> Finding:
    """STORM-L1: within a seed, latency against the traffic between nodes.

    The three costs are put into the simulation, so that the claim is never shown whole.
    """
    by_traffic = {hop: _ranks(mine, "nodes_traffic") for hop, mine in latency.groupby("hop")}
    least = latency[latency["hop"] == latency["hop"].min()]
    told = "; ".join(
        f"{found} at a hop of {float(str(hop)):g}" for hop, found in by_traffic.items()
    )
    rising = any(found.low > 0 for found in by_traffic.values())
    return Finding(
        "in part" if rising else "different",
        "rank correlation of latency with the traffic between nodes, over "
        f"{latency['scheduler'].nunique()} placements a seed, simulated: {told}",
        f"at a hop of {latency['hop'].min():g} the correlation with the load of the fullest node "
        f"is {_ranks(least, 'fullest')}; that a slot costs less than "
        f"a node and a node less than the network goes into the simulation; {SIMULATED}",
    )


def _ranks(latency: pd.DataFrame, by: str) -> Estimate:
    from scipy import stats

    return median_interval(
        [
            stats.spearmanr(one[by], one["latency"]).statistic
            for _, one in latency.groupby("seed")
            if one[by].nunique() > 1
        ]
    )
