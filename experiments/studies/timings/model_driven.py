"""Mapping a DAG of 1,000 tasks with about 100,000 threads by every model-driven method.

Run: ``python -m experiments.studies.timings.model_driven``. A fixed random DAG of the five measured
tasks (generator ``model_dag``); threads, slots and the best of several runs of `solve`, the referee
included, kernels compiled before. `rsm` maps again for each further slot, so the number of tries
stands beside its time.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from experiments.generators import generate
from experiments.studies.timings.table import print_table
from optim import solve

if TYPE_CHECKING:
    from optim.format.instance import Instance

TASKS = 1_000
RATES = {"mba": 160.0, "lsa": 585.0}
"""Input rates at which each allocation makes about 100,000 threads."""

STEPS = {"lsa+rsm": 500}
"""Slots acquired at once: one thread measured alone needs so much memory that LSA's many leave gaps
in most slots, and mapping 100,000 threads again for each single slot would take minutes."""

RUNS = 3


def main() -> None:
    """Measure and print the table."""
    rows = []
    for allocation, rate in RATES.items():
        instance = generate("model_dag", tasks=TASKS, rate=rate, largest_vm="D4")
        for mapping in ("dsm", "sam", "rsm"):
            rows.append(row(instance, f"{allocation}+{mapping}"))
    title = f"Mapping {TASKS:,} tasks with about 100,000 threads"
    columns = ["method", "threads", "slots asked for", "slots acquired", "tries"]
    print_table(title, [*columns, "s (best of 3)", "of it mapping, s", "aim"], rows)


def row(instance: Instance, method: str) -> list[object]:
    """Run one method several times."""
    options: dict[str, Any] = {"step": STEPS[method]} if method in STEPS else {}
    best, mapping = float("inf"), float("inf")
    for _ in range(RUNS + 1):  # the first run compiles
        began = time.perf_counter()
        result = solve(instance, method, **options)
        spent = time.perf_counter() - began - result.times.get("compile", 0.0)
        best, mapping = min(best, spent), min(mapping, result.times["solve"])
    plan, evaluation = result.plan, result.evaluation
    if plan is None or evaluation is None:
        return [method, "–", "–", "–", result.notes[-1], best, mapping, ""]
    threads = sum((plan.threads or {}).values())
    tries = next((n.split()[-2] for n in result.notes if n.endswith("tries")), "1")
    asked, acquired = plan.planned_slots, evaluation.slots
    return [method, f"{threads:,}", asked, acquired, tries, best, mapping, "≤ 5 s"]


if __name__ == "__main__":
    main()
