"""`imc-exact` far beyond seventeen tasks: equal groups, unequal groups, random jobs.

Run: ``python -m experiments.studies.timings.task_allocation.exact``. Whole calls of `solve`, one
thread, kernels compiled before; seconds of the processor, solver processes included. Random jobs:
``generate random_graphs`` with unequal costs, seed = number of the job, sizes and utilisation as
`random_job` draws them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.generators import generate
from experiments.studies.timings.table import print_table, processor_seconds
from optim import solve
from optim.kernels.first_fit import first_fit_decreasing

if TYPE_CHECKING:
    from optim.format.instance import Instance

NODES = (8, 20, 100)
SLACKS = (1.0, 1.1, 1.5)
RATES = ("15,15,15", "15,14,16")
UNEQUAL: dict[str, Any] = {
    "tasks": "80,120,90,110",
    "costs": "200,350,220,130",
    "rates": "30,45,12",
    "slack": 1.2,
}
JOBS = 20
LIMIT = 600.0
"""On the clock: a busy machine takes several times what it takes the processor."""


def random_job(number: int) -> Instance:
    """Return one of the random jobs: 5–6 groups, 65–150 tasks, utilisation 65–95 %."""
    rng = np.random.default_rng(number)
    tasks, groups = int(rng.integers(65, 151)), int(rng.integers(5, 7))
    nodes, utilisation = int(rng.integers(4, 21)), float(rng.uniform(0.65, 0.95))
    return generate(
        "random_graphs",
        seed=number,
        tasks=tasks,
        least_groups=groups,
        most_groups=groups,
        costs="noisy",
        cost=100.0 * nodes * utilisation,
        nodes=nodes,
    )


def measured(instance: Instance) -> tuple[bool, float, Any]:
    """Return whether the optimum is proved, processor seconds of the call, and the result."""
    began = processor_seconds()
    result = solve(instance, "imc-exact", time_limit=LIMIT)
    seconds = processor_seconds() - began
    proved = result.termination == "optimal" and result.gap is not None and result.gap <= 1e-6
    return proved, seconds, result


def main() -> None:
    """Measure and print the tables."""
    solve(generate("pipeline", nodes=8), "imc-exact")  # compiled before the clock starts
    rows = []
    for nodes in NODES:
        for rates in RATES:
            done = [
                measured(generate("pipeline", nodes=nodes, slack=s, rates=rates)) for s in SLACKS
            ]
            times = ", ".join(f"{seconds:.2f}" for _, seconds, _ in done)
            proved = f"{sum(ok for ok, _, _ in done)} of {len(done)}"
            rows.append([nodes, rates.replace(",", "/"), proved, times, "each ≤ 10 s"])
    columns = ["nodes", "traffic", "closed", "seconds at slack 1.0, 1.1, 1.5", "aim"]
    print_table("imc-exact, 4 × 100 tasks, group cost 200 %", columns, rows)

    rows = []
    for nodes in NODES:
        ok, seconds, result = measured(generate("pipeline", nodes=nodes, **UNEQUAL))
        gain = result.objective.value
        rows.append([nodes, "yes" if ok else "no", gain, result.bound, f"{seconds:.2f}", "≤ 60 s"])
    columns = ["nodes", "closed", "optimum, MB/s", "bound", "seconds", "aim"]
    print_table("imc-exact, groups of 80/120/90/110 tasks, slack 1.2", columns, rows)

    rows = []
    for number in range(JOBS):
        job = random_job(number)
        ok, seconds, result = measured(job)
        fits = bool((first_fit_decreasing(job) >= 0).all())
        load = 100 * job.tasks.load.sum() / job.nodes.capacity.sum()
        size = f"{job.num_operators} × {job.num_tasks} on {job.num_nodes}"
        gap = "none" if result.gap is None else f"{result.gap:.1e}"
        found = "yes" if result.plan is not None else "no"
        told = [f"{load:.0f} %", "yes" if ok else "no", f"{seconds:.2f}", gap, found]
        rows.append([number, size, *told, "yes" if fits else "no"])
    columns = ["job", "groups × tasks on nodes", "utilisation", "closed", "seconds", "gap"]
    columns += ["plan", "first-fit decreasing has one"]
    print_table("imc-exact, 20 random jobs (aim: all closed, each ≤ 60 s)", columns, rows)


if __name__ == "__main__":
    main()
