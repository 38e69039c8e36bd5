"""Storm's methods at the sizes they are meant for: the online scheduler, and proofs by patterns.

Run: ``python -m experiments.studies.timings.storm``. Fixed seeds; kernels are compiled before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.generators import generate
from experiments.studies.timings.table import best_of, print_table
from optim.format.instance import Instance
from optim.methods.solve import solve

if TYPE_CHECKING:
    from optim.referee.result import Result

EXECUTORS, PAIRS, NODES, SLOTS = 10_000, 100_000, 100, 4


def random_pairs(topologies: int) -> Instance:
    """Return executors that talk to random others of their topology, on equal nodes."""
    rng = np.random.default_rng(0)
    own = EXECUTORS // topologies
    of = rng.integers(0, topologies, 2 * PAIRS)
    a, b = rng.integers(0, own, (2, 2 * PAIRS)) * topologies + of
    low, high = np.minimum(a, b), np.maximum(a, b)
    known = np.unique(np.stack([low, high], axis=1)[low != high], axis=0)
    pairs = rng.permutation(known)[:PAIRS].tolist()
    return Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": f"{topologies} topologies",
            "nodes": [
                {"id": f"n{i}", "slots": SLOTS, "capacity": {"cpu": EXECUTORS / NODES * 143}}
                for i in range(NODES)
            ],
            "topologies": [
                {"id": f"t{k}", "workers": NODES * SLOTS // topologies} for k in range(topologies)
            ],
            "operators": [{"id": f"o{k}", "topology": f"t{k}"} for k in range(topologies)],
            "tasks": [
                {"id": f"e{i}", "operator": f"o{i % topologies}", "load": {"cpu": load}}
                for i, load in enumerate(rng.uniform(50, 150, EXECUTORS).tolist())
            ],
            "traffic": [
                [f"e{u}", f"e{v}", rate]
                for (u, v), rate in zip(pairs, rng.lognormal(size=len(pairs)).tolist(), strict=True)
            ],
        }
    )


def between_nodes(result: Result) -> float:
    """Return the traffic between nodes, percent of all."""
    judged = result.evaluation
    assert judged is not None
    assert judged.internode_traffic is not None
    assert judged.total_traffic
    return 100 * judged.internode_traffic / judged.total_traffic


def online_rows() -> list[list[object]]:
    """Time `storm-online`, judging included."""
    rows: list[list[object]] = []
    for topologies in (1, 10):
        made = random_pairs(topologies)
        _ = made.pairs, made.sha256
        chosen: tuple[dict[str, Any], ...] = ({}, {"alpha": 0.05, "gamma": 3.0})
        for options in chosen:
            solve(made, "storm-online", **options)
            last: list[Result] = []

            def timed(
                made: Instance = made, options: Any = options, last: list[Result] = last
            ) -> None:
                last.append(solve(made, "storm-online", **options))

            seconds = best_of(timed, 3)
            share = between_nodes(last[-1])
            told = ", ".join(f"{k} {v:g}" for k, v in options.items()) or "defaults"
            rows.append([f"{topologies} topologies, {told}", seconds, share, "≤ 10 s"])
    return rows


def proof_rows() -> list[list[object]]:
    """Time proofs of 20 executors on 4 workers and 4 nodes, both levels."""
    rows: list[list[object]] = []
    for grouping in ("shuffle", "alternate", "fields"):
        for slots in (1, 4):
            made = generate(
                "storm_reference", seed=1, stages=4, replication="4", grouping=grouping, slots=slots
            )
            solve(made, "storm-milp")  # loads kernels
            result = solve(made, "storm-milp")
            seconds = result.times["build"] + result.times["solve"]
            share = between_nodes(result)
            words = f"{grouping}, {slots} slots a node"
            rows.append([words, seconds, share, str(result.termination), "≤ 30 s"])
    return rows


def main() -> None:
    """Measure and print the tables."""
    size = f"{EXECUTORS:,} executors, {PAIRS:,} pairs, {NODES} nodes of {SLOTS} slots"
    columns = ["what", "s (best of 3)", "between nodes (%)", "aim"]
    print_table(f"storm-online: {size}", columns, online_rows())
    title = "storm-milp: 5 stages of 4 executors, all-to-all, 4 workers, 4 nodes; a second run each"
    print_table(title, ["what", "s", "between nodes (%)", "ended", "aim"], proof_rows())


if __name__ == "__main__":
    main()
