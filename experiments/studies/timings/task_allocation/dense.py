"""Dense traffic: `imc-search` on complete graphs of unlike tasks, beside `partition`.

Run: ``python -m experiments.studies.timings.task_allocation.dense [LIMIT…]``, limits in seconds (5
and 60 by default). One seed of each instance, `SEEDS` of the search; shares are beside the best
value that any of these runs found.
"""

from __future__ import annotations

import sys
import time

from experiments.generators import generate
from experiments.studies.timings.table import print_table
from optim import solve

CASES = (
    ("dense", 60, 6),
    ("dense", 82, 8),
    ("dense", 240, 12),
    ("dense", 480, 20),
    ("clustered", 240, 12),
    ("clustered", 480, 20),
)
SEEDS = 2


def main() -> None:
    """Measure and print the table."""
    limits = [float(text) for text in sys.argv[1:]] or [5.0, 60.0]
    solve(generate("dense", tasks=20, nodes=3), "imc-search", time_limit=0.1)
    rows: list[list[object]] = []
    for kind, tasks, nodes in CASES:
        made = generate(kind, seed=1, tasks=tasks, nodes=nodes)
        runs: list[tuple[str, float | None, int]] = [("partition", None, 0)]
        runs += [("imc-search", limit, seed) for limit in limits for seed in range(SEEDS)]
        found = []
        for method, limit, seed in runs:
            began = time.process_time()
            result = solve(made, method, seed=seed, time_limit=limit)
            spent = time.process_time() - began
            assert result.evaluation is not None
            assert result.evaluation.feasible
            found.append((method, limit, seed, result.evaluation.imc_gain or 0.0, spent))
        best = max(gain for *_, gain, _ in found)
        for method, limit, seed, gain, spent in found:
            below = f"{100 * (1 - gain / best):.2f}"
            name = f"{kind}, {tasks} on {nodes}"
            asked = "" if limit is None else f"{limit:g}"
            rows.append([name, method, asked, seed, f"{gain:.0f}", below, f"{spent:.1f}"])
    columns = [
        "instance",
        "method",
        "limit, s",
        "seed",
        "collocated",
        "% below best",
        "CPU seconds",
    ]
    print_table("Dense traffic (aim: ≤ 0.5 % below in 5 s, ≤ 0.1 % in 60 s)", columns, rows)


if __name__ == "__main__":
    main()
