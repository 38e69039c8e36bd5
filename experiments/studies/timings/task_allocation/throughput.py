"""Throughput of the published heuristics: pipelines of four groups of 100 tasks.

Run: ``python -m experiments.studies.timings.task_allocation.throughput``. Calls of the compiled
algorithm on arrays that stand ready, in seconds of this process; the best of three runs of two
seconds. Slack 1.1, group cost 200 %, traffic 15/14/16 MB/s.
"""

from __future__ import annotations

from experiments.studies.papers.task_allocation.throughput import count_calls, prepared
from experiments.studies.timings.table import print_table

NODES, RUNS, SECONDS = (8, 20, 100), 3, 2


def main() -> None:
    """Measure and print the table."""
    rows = []
    for nodes in NODES:
        rate = {
            name: max(count_calls(prepared(name, nodes=nodes), SECONDS)[-1] for _ in range(RUNS))
            / SECONDS
            for name in ("TD", "TL")
        }
        aim = "TD ≥ 50,000 (paper: 264)" if nodes == 20 else ""
        ratio = f"{rate['TD'] / rate['TL']:.0f}"
        rows.append([nodes, f"{rate['TD']:,.0f}", f"{rate['TL']:,.0f}", ratio, aim])
    columns = ["nodes", "TD allocations/s", "TL allocations/s", "TD / TL", "aim"]
    print_table("Throughput, 4 × 100 tasks, slack 1.1", columns, rows)


if __name__ == "__main__":
    main()
