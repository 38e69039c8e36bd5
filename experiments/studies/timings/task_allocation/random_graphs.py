"""Task allocation on the 2,000 random graphs of the CIKM 2014 paper, section 7.3.

Run: ``python -m experiments.studies.timings.task_allocation.random_graphs [GRAPHS]``; seeds 0 to
1999 of ``generate random_graphs``. Allocations a second are calls of the compiled algorithm on
arrays that stand ready, in seconds of this process (one thread).
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.generators import generate
from experiments.studies.timings.table import print_table
from heuristics.task_allocation.group_search import SHARES, STEPS, STRENGTH, count_problem
from heuristics.task_allocation.groups import grouped_job
from optim import solve
from optim.figures.measures import imc_gain_of
from optim.kernels.classes import node_classes, task_groups

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from optim.format.instance import Instance

GRAPHS, REPEATS, KICKS = 2_000, 5, (0, 10, 20)


def heuristic(name: str) -> tuple[Callable[[Instance], Callable[[], Any]], Callable[..., Any]]:
    """Return what prepares a call of TD or TL, and what gives its plan."""
    from heuristics.task_allocation.task_level import place_pairs
    from heuristics.task_allocation.task_level_kernel import task_level
    from heuristics.task_allocation.task_pairs import PAIR_ORDERS, pair_runs
    from heuristics.task_allocation.top_down import place_groups
    from heuristics.task_allocation.top_down_kernel import top_down

    def prepare(instance: Instance) -> Callable[[], Any]:
        job = grouped_job(instance)
        arrays = (job.size, job.load, job.room, job.allowed, job.edge_u, job.edge_v)
        if name == "TD":
            order = job.priority("significance")
            return lambda: top_down(*arrays, order, 0, 0)
        runs = pair_runs(job, None, "imc", "shuffled", 0)
        return lambda: task_level(*arrays, runs, PAIR_ORDERS.index("shuffled"), 0)

    return prepare, place_groups if name == "TD" else place_pairs


def searcher(kicks: int) -> Callable[[Instance], Callable[[], Any]]:
    """Return what prepares a call of the search on counts with this many kicks."""
    from heuristics.task_allocation.count_search import search_counts

    def prepare(instance: Instance) -> Callable[[], Any]:
        groups, classes = task_groups(instance), node_classes(instance)
        p = count_problem(instance, groups, classes)
        starts = np.zeros((0, len(p.room), len(p.size)), dtype=np.int64)
        pool = np.full((0, len(p.size)), -1, dtype=np.int64)
        least = 1e-10 * instance.total_traffic
        arrays = (p.size, p.load, p.rate, p.room, p.spare, p.allowed, np.array(SHARES), starts)
        return lambda: search_counts(*arrays, kicks, STRENGTH, STEPS, least, 0, pool)

    return prepare


def rate_of(calls: Sequence[Callable[[], Any]]) -> float:
    """Return calls a second of this process's own time, best of several rounds."""
    calls[0]()
    spent = []
    for _ in range(REPEATS):
        began = time.process_time()
        for call in calls:
            call()
        spent.append(time.process_time() - began)
    return len(calls) / min(spent)


def main() -> None:
    """Measure and print the table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else GRAPHS
    instances = [generate("random_graphs", seed=seed) for seed in range(count)]
    optimum, proved = 0.0, 0
    seconds: list[float] = []
    method: list[float] = []
    solve(instances[0], "imc-exact")  # compiled before the clock starts
    for instance in instances:
        began = time.process_time()
        result = solve(instance, "imc-exact")
        seconds.append(time.process_time() - began)
        method.append(result.times["solve"])
        assert result.evaluation is not None
        optimum += result.evaluation.imc_gain or 0.0
        proved += result.termination == "optimal"
    rows: list[list[object]] = []
    aims = {"TD": "93.1 ± 0.5 %", "TL": "85.5 ± 0.6 %"}
    for name in ("TD", "TL"):
        prepare, place = heuristic(name)
        gain = sum(imc_gain_of(i, place(grouped_job(i))) for i in instances)
        rate = rate_of([prepare(instance) for instance in instances])
        rows.append([name, f"{100 * gain / optimum:.2f} %", f"{rate:,.0f}", aims[name]])
    goals = ("≥ 99.5 % at ≥ 5,000/s", "≥ 99.95 % at ≥ 1,000/s", "")
    for kicks, aim in zip(KICKS, goals, strict=True):
        calls = [searcher(kicks)(instance) for instance in instances]
        gain = sum(call()[0] for call in calls)
        share = f"{100 * gain / optimum:.3f} %"
        rows.append([f"imc-search, {kicks} kicks", share, f"{rate_of(calls):,.0f}", aim])
    title = f"The random graphs of section 7.3: {count:,} graphs"
    print_table(title, ["method", "of the optimum", "allocations/s", "aim"], rows)
    timed = (("the method (wall)", method), ("whole call of solve (process)", seconds))
    exact = [
        [
            what,
            f"{proved:,} of {count:,}",
            f"{1e3 * statistics.median(times):.1f} ms",
            f"{1e3 * statistics.quantiles(times, n=100)[98]:.1f} ms",
            f"{1e3 * max(times):.0f} ms",
            "all, median ≤ 10 ms",
        ]
        for what, times in timed
    ]
    columns = ["time of", "closed", "median", "99th percentile", "worst", "aim"]
    print_table("The same: imc-exact", columns, exact)


if __name__ == "__main__":
    main()
