"""General weighted task graphs: `imc-search` and `partition` beside mt-KaHyPar's highest preset.

Run: ``python -m experiments.studies.timings.task_allocation.graphs``. 10,000 tasks on 100 nodes
with 5 % slack, seed 1, one thread; shares are of all traffic, seconds those of the process for a
whole call of `solve`. Then 100,000 tasks on 1,000 nodes, in a process of its own for its memory.
mt-KaHyPar is an optional package; without it its lines are left out.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.generators import generate
from experiments.studies.timings.table import print_table
from optim import Plan, evaluate, solve

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from optim.format.instance import Instance

KINDS = ("community", "sparse_random", "geometric")
TASKS, NODES, SEED = 10_000, 100, 1
LARGE_TASKS, LARGE_NODES = 100_000, 1_000
REPEATS = 3


def highest(instance: Instance) -> tuple[NDArray[np.int32] | None, float]:
    """Return a placement by mt-KaHyPar's highest preset and its seconds; None without it."""
    try:
        import mtkahypar  # noqa: F401
    except ImportError:
        return None, 0.0
    from heuristics.task_allocation.graph_partition.weighted_graph import (
        mtkahypar_parts,
        weighted_graph,
    )

    graph = weighted_graph(instance)
    nodes = np.arange(instance.num_nodes)
    fixed = np.full(instance.num_tasks, -1)
    began = time.process_time()
    parts = mtkahypar_parts(graph, nodes, fixed, SEED, 1, "highest_quality")
    return parts.astype(np.int32), time.process_time() - began


def solved(instance: Instance, method: str, **options: Any) -> tuple[float, float, int]:
    """Return share of the traffic collocated, least seconds of process, number of violations."""
    solve(generate("community", tasks=200, nodes=4), method, **_without_start(options))
    spent = []
    for _ in range(REPEATS):
        began = time.process_time()
        result = solve(instance, method, **options)
        spent.append(time.process_time() - began)
    assert result.evaluation is not None
    violations = len(result.evaluation.violations)
    return 100 * (result.evaluation.collocation_factor or 0.0), min(spent), violations


def _without_start(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name != "warm_start"}


def lines(kind: str) -> list[list[object]]:
    """Measure one kind of graph."""
    instance = generate(kind, seed=SEED, tasks=TASKS, nodes=NODES)
    node, seconds = highest(instance)
    reference = None
    found: list[list[object]] = []
    if node is not None:
        plan = Plan.from_indices(instance, node, method="mt-KaHyPar")
        judged = evaluate(instance, plan)
        reference = 100 * (judged.collocation_factor or 0.0)
        bad = len(judged.violations)
        found.append([kind, "mt-KaHyPar, highest", f"{reference:.2f}", "", f"{seconds:.1f}", bad])
    methods: dict[str, Callable[[], tuple[float, float, int]]] = {
        "imc-search": lambda: solved(instance, "imc-search", seed=SEED),
        "imc-search, effort 4": lambda: solved(instance, "imc-search", seed=SEED, effort=4),
        "partition": lambda: solved(instance, "partition", seed=SEED),
    }
    if node is not None:
        methods["imc-search, started from it"] = lambda: solved(
            instance, "imc-search", seed=SEED, warm_start=plan
        )
    for name, measure in methods.items():
        share, seconds, bad = measure()
        apart = "" if reference is None else f"{share - reference:+.2f}"
        found.append([kind, name, f"{share:.2f}", apart, f"{seconds:.2f}", bad])
    return found


def large(kind: str) -> None:
    """Solve a large graph and print its line; the peak of memory is this process's."""
    instance = generate(kind, seed=SEED, tasks=LARGE_TASKS, nodes=LARGE_NODES)
    solve(generate("community", tasks=200, nodes=4), "imc-search")
    began, own = time.perf_counter(), time.process_time()
    result = solve(instance, "imc-search", seed=SEED)
    wall, seconds = time.perf_counter() - began, time.process_time() - own
    assert result.evaluation is not None
    share = 100 * (result.evaluation.collocation_factor or 0.0)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    bad = len(result.evaluation.violations)
    print(f"{kind}|{share:.2f}|{seconds:.1f}|{wall:.1f}|{peak:.2f}|{bad}")


def main() -> None:
    """Measure and print the tables."""
    if len(sys.argv) > 1:
        large(sys.argv[1])
        return
    rows = [line for kind in KINDS for line in lines(kind)]
    columns = ["graph", "method", "collocated, %", "points beside highest", "seconds", "violations"]
    title = f"Task graphs of {TASKS:,} tasks, {NODES} nodes, 5 % slack"
    print_table(title + " (aim: ≥ −1.0 points in ≤ 2 s)", columns, rows)
    command = [sys.executable, "-m", "experiments.studies.timings.task_allocation.graphs"]
    told = [
        subprocess.run([*command, kind], check=True, capture_output=True, text=True).stdout.strip()
        for kind in KINDS
    ]
    columns = [
        "graph",
        "collocated, %",
        "seconds",
        "seconds (wall)",
        "peak memory, GB",
        "violations",
    ]
    title = f"imc-search on {LARGE_TASKS:,} tasks, {LARGE_NODES:,} nodes (aim: ≤ 20 s, ≤ 4 GB)"
    print_table(title, columns, [line.split("|") for line in told])


if __name__ == "__main__":
    main()
