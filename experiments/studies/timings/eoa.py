"""Elastic operator allocation: GMA at a thousand nodes, and the exact model at ten.

Run: ``python -m experiments.studies.timings.eoa``. Fixed seeds; GMA is the best of several, the
exact model one run an instance, one solver thread.
"""

from __future__ import annotations

import statistics
import time

from experiments.generators import generate
from experiments.studies.timings.table import best_of, print_table
from optim import solve
from optim.methods.registry import Request, get_method

NODES, OPERATORS = 1_000, 10_000
SEEDS = range(10)
GREEDY_AIM, EXACT_AIM = 2.0, 10.0


def greedy() -> list[list[object]]:
    """Time GMA, with both objectives, and with racks."""
    rows: list[list[object]] = []
    method = get_method("gma")
    for racks in (0, 25):
        instance = generate("eoa_random", nodes=NODES, operators=OPERATORS, racks=racks)
        for objective in ("used_capacity", "cpu_deviation"):
            request = Request(objective=objective, options=method.read_options({}))
            method.run(instance, request)  # compiles, and derives the instance's arrays
            spent = best_of(lambda r=request, i=instance: method.run(i, r), 3)  # type: ignore[misc]
            result = solve(instance, "gma", objective=objective)
            what = f"gma, {NODES:,} nodes × {OPERATORS:,} operators, {racks} racks, {objective}"
            rows.append([what, spent, result.notes[0], f"≤ {GREEDY_AIM:g} s"])
    return rows


def exact() -> list[list[object]]:
    """Time the proof on ten nodes and twenty operators, 60 % CPU use."""
    rows: list[list[object]] = []
    solve(generate("eoa_random", seed=0, nodes=4, operators=6), "eoa-milp")  # compiles
    for racks in (0, 2):
        for objective in ("used_capacity", "cpu_deviation", "mean_absolute_deviation"):
            times, closed = [], 0
            for seed in SEEDS:
                instance = generate("eoa_random", seed=seed, racks=racks)
                began = time.perf_counter()
                result = solve(instance, "eoa-milp", objective=objective, time_limit=60)
                times.append(time.perf_counter() - began)
                closed += result.termination in ("optimal", "infeasible")
            what = f"eoa-milp, 10 nodes × 20 operators, {racks} racks, {objective}"
            shown = f"longest {max(times):.3g} s, {closed} of {len(times)} closed"
            rows.append([what, statistics.median(times), shown, f"≤ {EXACT_AIM:g} s"])
    return rows


def main() -> None:
    """Measure and print the table."""
    title = "Elastic operator allocation"
    print_table(title, ["what", "s (best or median)", "", "aim"], [*greedy(), *exact()])


if __name__ == "__main__":
    main()
